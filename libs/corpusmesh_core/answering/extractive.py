"""The answer without a model: the evidence's own best sentences, word for word, each with its citation.

Two steps, so that a caller can have the sentences embedded in between: `candidate_sentences`, then `compose_answer`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.answering.evidence import Evidence
from corpusmesh_core.answering.support import DEFAULT_CALIBRATION, Support, SupportCalibration, measure_support
from corpusmesh_core.answering.wording import Wording, merge_held, weighted_share
from corpusmesh_core.citation.answer_filter import filter_answer
from corpusmesh_core.citation.sentences import split_sentences
from corpusmesh_core.citation.weights import telling_terms_of, term_weights
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.text import Alternative, AnalyzedText, analyze

_IDEOGRAPH = re.compile(r"[\u3400-\u9fff]")
_BLANKS = re.compile(r"[ \t\u00a0]*\s[ \t\u00a0]*")
_HEADING_SHARE = 0.5
_RANK_SHARE = 0.1
_ECHO_WEIGHT = 0.5
_SAME_SHARE = 0.7
_MIN_CHARACTERS = 10
_MIN_WORDS = 5
_MAX_HEADING_CHARACTERS = 60
_LEADERS = re.compile(r"\s\.$|(?:\s?\.){4}|…{2}")
_CUT_OFF = re.compile(r"(?:[,，、]|\b(?:and|or|the|of))$", re.IGNORECASE)
_TERMINATORS = ".!?。！？；;…”\"'’）)"
_NUMBERED_HEADING = re.compile(r"\d{1,3}(?:\.\d{1,3})*\.?\s+\S|[一二三四五六七八九十]{1,3}、")
_MAX_SENTENCE_CHARACTERS = 600
NOT_CARRIED = {
    "en": "The evidence found does not answer this question. What comes closest:",
    "zh": "检索到的资料没有直接回答这个问题。最接近的内容是：",
}
NOTHING_FOUND = {
    "en": "No evidence was found for this question.",
    "zh": "没有找到与这个问题有关的资料。",
}


@dataclass(frozen=True, slots=True)
class CandidateSentence:
    """A sentence of the evidence that could be quoted.

    Attributes:
        evidence_position: Which piece of evidence it is from, from 0.
        start: Place of its first character in the evidence's text.
        end: Place after its last.
        text: The sentence.
    """

    evidence_position: int
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class ExtractiveSettings:
    """How to choose.

    Attributes:
        max_characters: Length of all quotations.
        max_sentence_count: Most quotations.
        calibration: How well evidence must carry an answer, see `measure_support`.
        cosine_share: Share of the cosine in a sentence's score where vectors are given, 0 to 1.
        keep_ratio: A further sentence must score at least this share of the best one.
    """

    max_characters: int = 900
    max_sentence_count: int = 5
    calibration: SupportCalibration = DEFAULT_CALIBRATION
    cosine_share: float = 0.5
    keep_ratio: float = 0.7


@dataclass(frozen=True, slots=True)
class ExtractiveAnswer:
    """An answer made of quotations.

    Attributes:
        text: Quotations with markers `[ID:n]`; led by a plain sentence where it abstains.
        cited: Labels in order of first use.
        quotations: What was quoted.
        is_abstained: Whether the evidence does not carry an answer.
        confidence: How well it does, 0 to 1.
    """

    text: str
    cited: tuple[int, ...]
    quotations: tuple[CandidateSentence, ...]
    is_abstained: bool
    confidence: float


def candidate_sentences(evidence: Sequence[Evidence], *, max_count: int = 400) -> tuple[CandidateSentence, ...]:
    """Cut evidence into sentences that could be quoted.

    Args:
        evidence: Best first.
        max_count: Where to stop.

    Returns:
        Sentences in the order of the evidence; none of tables. Headings, questions and fragments are left out, unless
        there is nothing else.
    """
    whole: list[CandidateSentence] = []
    rest: list[CandidateSentence] = []
    for position, piece in enumerate(evidence):
        if piece.is_table:
            continue
        headings = {heading.strip() for heading in piece.heading_path}
        for span in split_sentences(piece.text):
            text = piece.text[span.start : span.end]
            if len(whole) == max_count:
                return tuple(whole)
            is_poor = text.strip("# ") in headings or len(text) > _MAX_SENTENCE_CHARACTERS or _is_fragment(text)
            end = min(span.end, span.start + _MAX_SENTENCE_CHARACTERS)
            sentence = CandidateSentence(position, span.start, end, piece.text[span.start : end])
            (rest if is_poor else whole).append(sentence)
    return tuple(whole or rest[:max_count])


def _is_fragment(text: str) -> bool:
    """Tell whether a text says nothing by itself: a heading, a question, a line of contents, two words of a list."""
    if text.startswith("#") or text.endswith(("?", "？", ":", "：")) or _LEADERS.search(text) or _CUT_OFF.search(text):
        return True
    is_chinese = _IDEOGRAPH.search(text) is not None
    if text[-1] in _TERMINATORS or " | " in text:
        return len(text) < (_MIN_CHARACTERS // 2 if is_chinese else _MIN_CHARACTERS)
    if _NUMBERED_HEADING.match(text) and len(text) <= _MAX_HEADING_CHARACTERS:
        return True
    return len(text) < _MIN_CHARACTERS if is_chinese else len(text.split()) < _MIN_WORDS


def compose_answer(
    question: str,
    evidence: Sequence[Evidence],
    sentences: Sequence[CandidateSentence],
    *,
    question_vector: NDArray[np.float32] | None = None,
    sentence_vectors: NDArray[np.float32] | None = None,
    support: Support | None = None,
    alternatives: Sequence[Alternative] = (),
    settings: ExtractiveSettings | None = None,
) -> ExtractiveAnswer:
    """Choose the sentences that answer a question and quote them.

    A sentence scores by the question's terms that it and the headings above it have, weighted by rarity, by its cosine
    with the question, and a little by its evidence's rank. Sentences are added while they tell something new, and stand
    grouped by their evidence in the order of the document. Nothing is reworded; markers and foreign addresses inside a
    quotation are taken out as they are from a model's text.

    Args:
        question: What was asked, in English or Chinese.
        evidence: Labelled evidence, best first.
        sentences: From `candidate_sentences(evidence)`.
        question_vector: Shape (dimension,), unit norm; None for terms alone.
        sentence_vectors: Shape (number of sentences, dimension), unit norm; given with `question_vector`.
        support: How well the evidence carries an answer; None measures it here.
        alternatives: Words that may stand for words of the question.
        settings: How to choose; None for the defaults.

    Returns:
        The answer; where the evidence does not carry one, it says so and shows what was found.

    Raises:
        InvalidArgumentError: If there is not one vector for each sentence.
    """
    chosen_settings = settings or ExtractiveSettings()
    language = language_of(question)
    if not sentences:
        return ExtractiveAnswer(NOTHING_FOUND[language], (), (), is_abstained=True, confidence=0.0)
    ranking = _Ranking(Wording(question, alternatives), evidence, sentences, chosen_settings)
    if question_vector is not None and sentence_vectors is not None:
        if len(sentence_vectors) != len(sentences):
            raise InvalidArgumentError(
                "VECTOR_COUNT_MISMATCH",
                "there must be one vector for each sentence",
                sentence_count=len(sentences),
                vector_count=len(sentence_vectors),
            )
        ranking.add_cosines(sentence_vectors @ question_vector)
    if support is None:
        support = measure_support(
            question,
            ranking.evidence_with_cosines(),
            alternatives=alternatives,
            calibration=chosen_settings.calibration,
        )
    is_abstained = support.confidence < chosen_settings.calibration.min_confidence
    picked = ranking.pick(1 if is_abstained else chosen_settings.max_sentence_count)
    text, cited = _quote(picked, evidence)
    if is_abstained:
        text = f"{NOT_CARRIED[language]}\n\n{text}"
    return ExtractiveAnswer(text, cited, picked, is_abstained, support.confidence)


def language_of(question: str) -> str:
    """Name the language that an answer's own words are in.

    Args:
        question: What was asked.

    Returns:
        "zh" for a question with Chinese characters, else "en".
    """
    return "zh" if _IDEOGRAPH.search(question) else "en"


def closest_quotation(question: str, answer: ExtractiveAnswer) -> str:
    """Say that the evidence does not carry an answer, and show what comes closest.

    Args:
        question: What was asked.
        answer: From `compose_answer`.

    Returns:
        A plain sentence, and the first quotation with its marker where there is one.
    """
    if answer.is_abstained:
        return answer.text
    first = answer.text.split("\n\n", 1)[0]
    return f"{NOT_CARRIED[language_of(question)]}\n\n{first}"


class _Ranking:
    """Scores of the candidate sentences of one question."""

    def __init__(
        self,
        wording: Wording,
        evidence: Sequence[Evidence],
        sentences: Sequence[CandidateSentence],
        settings: ExtractiveSettings,
    ) -> None:
        self._sentences = sentences
        self._evidence = evidence
        self._settings = settings
        texts = [analyze(sentence.text) for sentence in sentences]
        self._terms = [telling_terms_of(text) for text in texts]
        weights: Mapping[str, float] = term_weights(self._terms)
        # A term that no sentence has weighs as much as the rarest one: it must count against an answer.
        absent = max(weights.values(), default=1.0)
        headings = [wording.held_by(" ".join(piece.heading_path)) for piece in evidence]

        def covered(sentence: CandidateSentence, text: AnalyzedText) -> float:
            held = wording.held_by_terms(text)
            own = weighted_share(wording.terms, held, weights, absent)
            both = merge_held(held, headings[sentence.evidence_position])
            return own + _HEADING_SHARE * (weighted_share(wording.terms, both, weights, absent) - own)

        self._cosines: NDArray[np.float32] | None = None
        ranks = np.array([sentence.evidence_position for sentence in sentences])
        self._scores = np.array(
            [covered(sentence, text) for sentence, text in zip(sentences, texts, strict=True)]
        ) + _RANK_SHARE / (1 + ranks)
        # What only says the question again answers nothing, but for a question that is answered by a yes.
        self._weights = np.array(
            [_ECHO_WEIGHT if terms <= wording.terms and not wording.asks_yes_or_no else 1.0 for terms in self._terms]
        )

    def add_cosines(self, cosines: NDArray[np.float32]) -> None:
        self._cosines = cosines
        # Embedders crowd their cosines into a narrow band, so only the place within this request's band counts.
        low, high = float(cosines.min()), float(cosines.max())
        relative = (cosines - low) / (high - low) if high > low else np.zeros_like(cosines)
        share = self._settings.cosine_share
        self._scores = (1 - share) * self._scores + share * relative

    def evidence_with_cosines(self) -> Sequence[Evidence]:
        """Give evidence that was not compared the best cosine of its sentences."""
        if self._cosines is None or any(piece.cosine is not None for piece in self._evidence):
            return self._evidence
        best: dict[int, float] = {}
        for sentence, cosine in zip(self._sentences, self._cosines.tolist(), strict=True):
            best[sentence.evidence_position] = max(cosine, best.get(sentence.evidence_position, -1.0))
        return [replace(piece, cosine=best.get(position)) for position, piece in enumerate(self._evidence)]

    def pick(self, max_count: int) -> tuple[CandidateSentence, ...]:
        scores = self._scores * self._weights
        order = np.argsort(-scores, kind="stable")
        floor = self._settings.keep_ratio * float(scores[order[0]])
        picked: list[int] = []
        length = 0
        for index in (int(position) for position in order):
            size = len(self._sentences[index].text)
            if len(picked) == max_count or scores[index] < floor:
                break
            if picked and length + size > self._settings.max_characters:
                continue
            if any(_says_the_same(self._terms[index], self._terms[other]) for other in picked):
                continue
            picked.append(index)
            length += size
        by_evidence = {position: rank for rank, position in enumerate(dict.fromkeys(self._evidence_of(picked)))}
        picked.sort(key=lambda index: (by_evidence[self._sentences[index].evidence_position], index))
        return tuple(self._sentences[index] for index in picked)

    def _evidence_of(self, picked: Sequence[int]) -> list[int]:
        return [self._sentences[index].evidence_position for index in picked]


def _says_the_same(one: frozenset[str], other: frozenset[str]) -> bool:
    """Tell whether a sentence adds nothing to another; another figure is another statement."""
    figures, others = ({term for term in terms if term[0].isdigit()} for terms in (one, other))
    if figures - others and others - figures:
        return False
    return _overlap(one, other) > _SAME_SHARE


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(1, min(len(one), len(other)))


def _quote(picked: Sequence[CandidateSentence], evidence: Sequence[Evidence]) -> tuple[str, tuple[int, ...]]:
    """Write the quotations, one paragraph for each piece of evidence, one marker behind each sentence."""
    paragraphs: dict[int, list[str]] = {}
    for sentence in picked:
        quotation, _ = filter_answer(_BLANKS.sub(" ", sentence.text), ())
        label = evidence[sentence.evidence_position].label
        paragraphs.setdefault(label, []).append(f"{quotation.strip()} [ID:{label}]")
    return "\n\n".join(" ".join(quotations) for quotations in paragraphs.values()), tuple(paragraphs)
