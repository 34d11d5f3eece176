"""Multi-hop retrieval without a language model: what the best hits name is searched, and what is found gains by it.

The passage that answers a question of two hops is often not like the question: only the first hop names it. On 2wiki
(the set that HippoRAG, KAG and others publish on), dense recall@5 stays near 70 to 77 even for models of 7B parameters,
and following titles that question and best passages name reaches 96 with BM25 alone; on MuSiQue and HotpotQA questions
it is 61 → 78. Iterative retrieval with a model's own questions (IRCoT) does the same at the price of its calls.

What keeps questions of one hop as they are:

* a passage that a hit names stays behind that hit, so a hit that answers is never passed by what it mentions;
* a name that many records bear says little about each of them, and lifts the best one by its share only;
* a mention counts as far as its sentence bears on the question.

Settings were fixed on the development halves (docs/evaluation.md).

References:
    Trivedi et al.: Interleaving Retrieval with Chain-of-Thought Reasoning (IRCoT), ACL 2023.
    Gutiérrez et al.: HippoRAG, NeurIPS 2024.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from corpusmesh_core.ranking.names import MAX_NAME_TERMS, Name, Terms, find_names, title_forms
from corpusmesh_core.ranking.scoring import BELOW_THRESHOLD, RankedCandidate, in_order
from corpusmesh_core.records import RecordKind
from corpusmesh_core.text import QueryTerms, analyze, is_stop_word, normalize

MAX_SOURCES = 4
"""Hits whose names are followed; recall does not grow with more of them."""
MAX_NAMES = 128
"""Names that are searched at once."""
MAX_FOLLOW_UPS = 3
"""Questions of a language model that are searched at once."""

_MAX_TITLE_TERMS = 32
_MAX_FOLLOW_UP_CHARACTERS = 500
_STEP = 1e-6
_BEARING = 0.5
"""Share of the question's terms from which a sentence bears on it fully."""
_BY_EXACT_TITLE = 1.0
_BY_BARE_TITLE = 0.8
_BY_TITLE_AND_QUESTION = 0.7
_SENTENCE_END = re.compile(r"[.!?][ \n]|[。！？\n]")


@dataclass(frozen=True, slots=True)
class HopOptions:
    """How much names count.

    Attributes:
        gain: Most that being named adds to a similarity.
        decay: Factor from each source to the next one.
        sentence_share: Share of the gain that depends on how the sentence bears on the question, 0 to 1.
    """

    gain: float = 0.4
    decay: float = 0.9
    sentence_share: float = 0.6


@dataclass(frozen=True, slots=True)
class NamingText:
    """A text whose names are followed.

    Attributes:
        record_id: Its record; "" for the question.
        text: The text.
        titles: Forms of its own title, which leads nowhere.
        names: Names in it.
        strength: How much it counts, 0 to 1.
    """

    record_id: str
    text: str
    titles: tuple[Terms, ...]
    names: tuple[Name, ...]
    strength: float


def naming_texts(
    question: str,
    ranked: Sequence[RankedCandidate],
    *,
    known: Collection[str] = (),
    options: HopOptions | None = None,
) -> tuple[NamingText, ...]:
    """Take the names out of the question and the best hits.

    Args:
        question: The question.
        ranked: The kept hits, best first.
        known: Records whose names were followed before.
        options: Settings; None for the measured ones.

    Returns:
        The question first, then at most MAX_SOURCES hits in order; texts without a name are left out.
    """
    decay = (options or HopOptions()).decay
    best = max((item.similarity for item in ranked), default=0.0)
    texts = [NamingText("", question, (), find_names(question), 1.0)]
    for place, item in enumerate(ranked[:MAX_SOURCES]):
        record = item.candidate.record
        if record.record_id in known:
            continue
        strength = decay**place * (item.similarity / best if best > 0.0 else 1.0)
        texts.append(
            NamingText(record.record_id, record.text, title_forms(record.title), find_names(record.text), strength)
        )
    return tuple(text for text in texts if text.names)


def names_to_search(texts: Iterable[NamingText]) -> tuple[Terms, ...]:
    """Choose what to search titles for.

    Args:
        texts: Texts with names, the most important first.

    Returns:
        At most MAX_NAMES names, each once; those that are no part of another first.
    """
    whole: dict[Terms, None] = {}
    parts: dict[Terms, None] = {}
    for text in texts:
        end = 0
        for name in text.names:
            if name.terms in text.titles:
                continue
            # Names stand in order of their beginnings, the longest first: one that ends no later is a part.
            (whole if name.end > end else parts)[name.terms] = None
            end = max(end, name.end)
    found = dict.fromkeys((*whole, *parts))
    return tuple(found)[:MAX_NAMES]


def follow_names(
    texts: Sequence[NamingText],
    ranked: Sequence[RankedCandidate],
    terms: QueryTerms,
    weights: Mapping[str, float],
    *,
    options: HopOptions | None = None,
) -> tuple[RankedCandidate, ...]:
    """Lift what question and best hits name.

    Args:
        texts: Texts with names, see `naming_texts`.
        ranked: All candidates: those of the search and those that the names have led to, all scored against the
            question.
        terms: Terms of the question.
        weights: Weight of each of its fine terms; a term that is not named has 1.
        options: Settings; None for the measured ones.

    Returns:
        All candidates in order. A candidate that the question names gains freely; one that a hit names comes to stand
        behind that hit at most. Hits that named a candidate are in its `via_record_ids`.
    """
    settings = options or HopOptions()
    asked = _Question.of(terms, weights)
    titles = _titles(ranked, texts, asked)
    scale = _scale(ranked)
    found = {item.candidate.record.record_id: item for item in ranked}
    lifted = dict(found)
    # The question's own names first: what it names may then carry what its page names.
    for text in sorted(texts, key=lambda text: bool(text.record_id)):
        source = lifted.get(text.record_id)
        for record_id, strength in _named(text, titles, found, asked, settings).items():
            other = _lifted(found[record_id], settings.gain * strength, scale, source)
            lifted[record_id] = _better(lifted[record_id], other)
    return in_order(list(lifted.values()))


def read_follow_ups(question: str) -> Callable[[object], tuple[str, ...] | None]:
    """Make the reader of a model's `{"questions": [text]}`.

    Args:
        question: What was asked.

    Returns:
        A reader that gives at most MAX_FOLLOW_UPS questions other than the one asked, none for an empty list; None if
        an entry is no question of sensible length.
    """

    def read(answer: object) -> tuple[str, ...] | None:
        listed = answer.get("questions") if isinstance(answer, dict) else None
        if not isinstance(listed, list):
            return None
        made: dict[str, str] = {normalize(question).strip(): ""}
        for entry in listed[:MAX_FOLLOW_UPS]:
            text = " ".join(entry.split()) if isinstance(entry, str) else ""
            if not 0 < len(text) <= _MAX_FOLLOW_UP_CHARACTERS:
                return None
            made.setdefault(normalize(text), text)
        return tuple(filter(None, made.values()))

    return read


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked.

    Attributes:
        weights: Weight by fine term.
        total: Their sum.
    """

    weights: Mapping[str, float]
    total: float

    @classmethod
    def of(cls, terms: QueryTerms, weights: Mapping[str, float]) -> "_Question":
        own = {term: weights.get(term, 1.0) for term in terms.fine}
        return cls(own, sum(own.values()))

    def share(self, held: Collection[str], besides: Collection[str]) -> float:
        """Say which share of the question some terms cover, not counting those of a name."""
        if self.total <= 0.0:
            return 0.0
        covered = sum(weight for term, weight in self.weights.items() if term in held and term not in besides)
        return covered / self.total


def _titles(
    ranked: Sequence[RankedCandidate], texts: Iterable[NamingText], asked: _Question
) -> Mapping[Terms, Mapping[str, float]]:
    """List by name the records that it may mean, each with how well its title says so."""
    names = {name.terms for text in texts for name in text.names}
    beginnings = {name[0] for name in names}
    found: dict[Terms, dict[str, float]] = defaultdict(dict)
    forms_of: dict[str, list[tuple[Terms, float]]] = {}
    for item in ranked:
        record = item.candidate.record
        if record.kind is RecordKind.TREE_NODE:
            # It has the title of its document, and the document is what is meant.
            continue
        forms = forms_of.get(record.title)
        if forms is None:
            forms = forms_of[record.title] = list(_forms(record.title, names, beginnings, asked))
        for form, quality in forms:
            own = found[form]
            own[record.record_id] = max(quality, own.get(record.record_id, 0.0))
    return found


def _forms(
    title: str, names: Collection[Terms], beginnings: Collection[str], asked: _Question
) -> Iterator[tuple[Terms, float]]:
    """Give the names, of those there are, that a title answers to.

    "List of Ohio area codes" is what a hit leads to that names Ohio where the question asks for an area code.
    """
    whole, *bare = title_forms(title) or ((),)
    if whole:
        yield whole, _BY_EXACT_TITLE
    for form in bare:
        yield form, _BY_BARE_TITLE
    for first in range(min(len(whole), _MAX_TITLE_TERMS)):
        if whole[first] not in beginnings:
            continue
        for last in range(first + 1, min(len(whole), first + MAX_NAME_TERMS) + 1):
            part = whole[first:last]
            if part not in names or part == whole:
                continue
            rest = [term for term in whole if term not in part and not is_stop_word(term)]
            if not rest:
                yield part, _BY_BARE_TITLE
            elif all(term in asked.weights for term in rest):
                yield part, _BY_TITLE_AND_QUESTION


def _named(
    text: NamingText,
    titles: Mapping[Terms, Mapping[str, float]],
    items: Mapping[str, RankedCandidate],
    asked: _Question,
    options: HopOptions,
) -> dict[str, float]:
    """Say what a text names and how strongly, 0 to 1; of names within each other, the longest counts."""
    leading = [name for name in text.names if name.terms in titles and name.terms not in text.titles]
    sentences = _Sentences(text)
    found: dict[str, float] = {}
    for name in leading:
        if any(name.is_inside(other) for other in leading):
            continue
        records = {
            record_id: quality
            for record_id, quality in titles[name.terms].items()
            if record_id != text.record_id and not _has_title(items[record_id], text.titles)
        }
        if not records:
            continue
        best = max(records, key=lambda record_id: items[record_id].similarity)
        bearing = 1.0
        if text.record_id:
            share = asked.share(sentences.terms_around(name), name.terms)
            bearing = 1.0 - options.sentence_share * (1.0 - min(1.0, share / _BEARING))
        strength = text.strength * records[best] * bearing / len(records)
        found[best] = max(strength, found.get(best, 0.0))
    return found


def _has_title(item: RankedCandidate, titles: tuple[Terms, ...]) -> bool:
    return bool(titles) and titles[0] in title_forms(item.candidate.record.title)[:1]


class _Sentences:
    """The sentences of a text, analysed when they are asked for."""

    def __init__(self, text: NamingText) -> None:
        self._text = text
        self._ends = [match.end() for match in _SENTENCE_END.finditer(text.text)]
        self._known: dict[tuple[int, int], frozenset[str]] = {}
        self._title = frozenset(term for form in text.titles for term in form)

    def terms_around(self, name: Name) -> frozenset[str]:
        """Give the terms of the sentence that holds a name, and of the title, which it speaks of."""
        before, behind = bisect_right(self._ends, name.start), bisect_left(self._ends, name.end)
        start = self._ends[before - 1] if before else 0
        end = self._ends[behind] if behind < len(self._ends) else len(self._text.text)
        known = self._known.get((start, end))
        if known is None:
            known = self._known[start, end] = self._title | frozenset(analyze(self._text.text[start:end]).fine)
        return known


def _scale(ranked: Sequence[RankedCandidate]) -> float:
    """Say how much the order score grows with the similarity: 1 where the one is the other."""
    similarities = [item.similarity for item in ranked]
    orders = [item.explanation.order_score for item in ranked]
    width = max(similarities, default=0.0) - min(similarities, default=0.0)
    return (max(orders) - min(orders)) / width if width > 0.0 else 1.0


def _lifted(item: RankedCandidate, gain: float, scale: float, source: RankedCandidate | None) -> RankedCandidate:
    old = item.explanation
    similarity, order = old.similarity + gain, old.order_score + gain * scale
    if source is not None:
        # The step is too small to matter, and keeps the order among those that are held back.
        similarity = min(similarity, source.similarity)
        order = min(order, source.explanation.order_score - _STEP * (2.0 - min(1.0, old.similarity + gain)))
    if order <= old.order_score:
        return item
    via = (source.candidate.record.record_id,) if source is not None else ()
    return replace(
        item,
        explanation=replace(
            old,
            similarity=max(similarity, old.similarity),
            order_score=order,
            dropped_because="" if old.dropped_because == BELOW_THRESHOLD else old.dropped_because,
        ),
        via_record_ids=tuple(dict.fromkeys((*item.via_record_ids, *via))),
    )


def _better(first: RankedCandidate, second: RankedCandidate) -> RankedCandidate:
    best = second if second.explanation.order_score > first.explanation.order_score else first
    return replace(best, via_record_ids=tuple(dict.fromkeys((*first.via_record_ids, *second.via_record_ids))))
