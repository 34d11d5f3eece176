"""The default search over a graph: question and hits name entities, and a walk from these leads to further passages.

No language model takes part, at any time. What is walked from are *entities of the question*, *facts* (entities that
the best hits name, each weighted by how much its sentence bears on the question) and the *passages* that the search has
found. Three things speak for a passage, and the strongest counts:

* an entity of a hit leads to it: to the passage that is about the entity first, to those that only mention it the less
  the more of them there are;
* its document's title is what the question or a hit names, as in `corpusmesh_core.ranking.hops`;
* the walk (personalised PageRank over passages, entities and relations) spends its time there.

What keeps questions of one hop as they are: a hit leads on only where it is about what the question names, a passage
that it names stays behind it, and a name that many passages bear says little of each. What the question itself names
lifts nothing: passages that hold it are found by their words. Where hits that the question does not name led on too,
and where its own names lifted, claims of one hop (scifact) lost 3.4 points of nDCG@10; now 0.4.

How a stage uses it (nothing here reads or waits)::

    search = GraphSearch(question, outcome.terms, weights, view, options)
    for _ in range(MAX_ROUNDS):
        wanted = search.wanted(ranked)             # ids of chunk records, at most MAX_WANTED; () ends it
        if not wanted:
            break
        further = await recall(record_ids=wanted)  # scored against the question as all candidates are
        ranked = merge_ranked(ranked, further)
    outcome.ranked = search.ranked(ranked)         # of several graphs: rank_by_graphs(searches, ranked)

`weights` are those that `HopStage` uses (inverse document frequency by fine term of the question). `options` come from
the plan: `GraphOptions(damping=plan.graph.damping, passage_weight=plan.graph.passage_weight)`. The stage stands where
`hops` does and replaces it where a graph is there: titles are followed here as well. Records that the index does not
return (hidden, deleted since) are simply missing from `ranked`.

Settings were chosen on the development sets, where both halves of the questions were looked at: no half is a check.

References:
    Gutiérrez et al.: HippoRAG, NeurIPS 2024; From RAG to Memory (HippoRAG 2), ICML 2025: facts and passages as seeds.
    Haveliwala: Topic-Sensitive PageRank, WWW 2002.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from corpusmesh_core.graph_search.linking import Lead, Link, Question, lead_of, passage_links, question_links
from corpusmesh_core.graphs.view import UNKNOWN, GraphView
from corpusmesh_core.graphs.walking import personalized_page_rank
from corpusmesh_core.ranking.hops import HopOptions, follow_names, naming_texts
from corpusmesh_core.ranking.scoring import BELOW_THRESHOLD, RankedCandidate, in_order
from corpusmesh_core.records import RecordKind
from corpusmesh_core.text import QueryTerms

MAX_ROUNDS: Final = 2
"""Rounds of further passages: the second one only where the first has brought a passage that leads on."""
MAX_WANTED: Final = 64
"""Most passages of a round."""
_MOST_TOLD: Final = 2.0
_NAMED: Final = 0.25
"""How clearly the question must name what a hit is about for the hit to lead on: more than by a mention."""
_STEP: Final = 1e-6


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """How much a graph counts.

    Attributes:
        damping: Probability of walking on rather than starting anew.
        passage_weight: Share of what the walk starts from that is passages, 0 to 1.
        gain: Most that being led to adds to a similarity.
        walk_gain: Most that the walk adds.
        source_count: Hits that lead on.
        bearing_share: Share of the gain that depends on how the sentence bears on the question, 0 to 1.
        mention_share: What a lone mention counts against being what a passage is about.
        question_mention_share: What a lone mention of an entity of the question counts: it makes no passage one that
            the question names.
    """

    damping: float = 0.5
    passage_weight: float = 0.05
    gain: float = 0.4
    walk_gain: float = 0.05
    source_count: int = 5
    bearing_share: float = 0.6
    mention_share: float = 0.5
    question_mention_share: float = 0.15


@dataclass(slots=True)
class _State:
    """Scores while they are lifted.

    Attributes:
        items: Candidates by record id.
        base: What the search says of each.
        scores: What they have been lifted to.
        places: Candidates by the place that their passage has in the graph.
        via: Records that have lifted them.
        named: How clearly the question names what they are about, 0 to 1.
        leads: What leads to passages, in order.
        sources: Hits that lead on, best first.
    """

    items: dict[str, RankedCandidate]
    base: dict[str, float]
    scores: dict[str, float]
    places: dict[int, str]
    via: dict[str, tuple[str, ...]] = field(default_factory=dict)
    named: dict[str, float] = field(default_factory=dict)
    leads: list[Lead] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)


class GraphSearch:
    """Searches the graph for one question."""

    def __init__(
        self,
        question: str,
        terms: QueryTerms,
        weights: Mapping[str, float],
        view: GraphView,
        options: GraphOptions | None = None,
    ) -> None:
        """Create the search.

        Args:
            question: The question.
            terms: Its terms.
            weights: Weight of each fine term by rarity.
            view: The graph of the caller.
            options: Settings; None for the measured ones.
        """
        self._question = question
        self._terms = terms
        self._weights = weights
        self._asked = Question.of(terms, weights)
        self._view = view
        self._options = options or GraphOptions()
        self._links: dict[str, tuple[Link, ...]] = {"": question_links(question, view)}
        self._requested: set[str] = set()

    @property
    def named_count(self) -> int:
        """Entities that the question names."""
        return len(self._links[""])

    def wanted(self, ranked: Sequence[RankedCandidate]) -> tuple[str, ...]:
        """Say which passages should be scored that are no candidates yet.

        Args:
            ranked: All candidates so far, best first.

        Returns:
            Ids of chunk records, the most promising first, at most MAX_WANTED, none that was given before; () where
            nothing more is to be had.
        """
        state = self._lifted(ranked)
        promise: dict[int, float] = {}
        for lead in state.leads:
            for passage in lead.about:
                promise[passage] = max(promise.get(passage, 0.0), lead.strength / len(lead.about))
            for passage, weight in lead.mentioning:
                promise[passage] = max(promise.get(passage, 0.0), lead.mention_strength * _told(weight))
        best = sorted(promise, key=lambda passage: (-promise[passage], passage))[:MAX_WANTED]
        held = {part for item in ranked for part in (item.candidate.record.record_id, *item.merged_record_ids)}
        ids = dict.fromkeys(self._view.passage_record_id(passage) for passage in best)
        fresh = tuple(record_id for record_id in ids if record_id not in held and record_id not in self._requested)
        self._requested.update(fresh)
        return fresh

    def ranked(self, ranked: Sequence[RankedCandidate]) -> tuple[RankedCandidate, ...]:
        """Order candidates by what search and graph say of them, see `rank_by_graphs`.

        Args:
            ranked: All candidates: those of the search and those that were asked for, all scored against the question.

        Returns:
            The same candidates, best first.
        """
        return rank_by_graphs((self,), ranked)

    def lifted(self, ranked: Sequence[RankedCandidate]) -> tuple[RankedCandidate, ...]:
        """Lift what the question, the best hits and the walk lead to.

        Args:
            ranked: All candidates.

        Returns:
            The same candidates in the same order; hits that led to one are in its `via_record_ids`.
        """
        state = self._lifted(ranked)
        # Where no hit leads on, there is nothing to bridge, and what the question names is found by its words.
        if not any(lead.source and lead.strength > 0.0 for lead in state.leads):
            return tuple(ranked)
        self._follow_walk(state)
        scale = _scale(ranked)
        return tuple(self._made(state, item.candidate.record.record_id, scale) for item in ranked)

    def titled(self, ranked: Sequence[RankedCandidate]) -> tuple[RankedCandidate, ...]:
        """Lift what question and best hits name by title; the same for every graph.

        Args:
            ranked: All candidates.

        Returns:
            The same candidates, best first.
        """
        options = HopOptions(gain=self._options.gain)
        # A summary names what chunks that are candidates themselves name.
        kept = [item for item in ranked if item.is_kept and item.candidate.record.kind is not RecordKind.TREE_NODE]
        texts = naming_texts(self._question, kept, options=options)
        return follow_names(texts, ranked, self._terms, self._weights, options=options)

    def _lifted(self, ranked: Sequence[RankedCandidate]) -> _State:
        """Note what the question names, then lift what the best hits lead to."""
        items = {item.candidate.record.record_id: item for item in ranked}
        base = {record_id: item.similarity for record_id, item in items.items()}
        found = zip(items, self._view.find_passages(items).tolist(), strict=True)
        state = _State(items, base, dict(base), {place: record_id for record_id, place in found if place != UNKNOWN})
        self._apply(state, [self._lead(link, "", 1.0, UNKNOWN) for link in self._links[""]])
        for count in (self._options.source_count, 2 * self._options.source_count):
            new = [record_id for record_id in self._sources(state, count) if record_id not in state.sources]
            top = max(state.scores.values(), default=0.0)
            leads: list[Lead] = []
            for record_id in new:
                trust = self._trust(state, record_id)
                if trust > 0.0 and top > 0.0:
                    leads.extend(self._leads_of(state.items[record_id], trust * state.scores[record_id] / top))
            state.sources.extend(new)
            self._apply(state, leads)
        return state

    def _sources(self, state: _State, count: int) -> list[str]:
        """Choose the hits that may lead on: chunks that are kept, led to, or about what the question names."""
        possible = [
            record_id
            for record_id, item in state.items.items()
            if item.candidate.record.kind is RecordKind.CHUNK
            and (
                item.is_kept
                or state.scores[record_id] > state.base[record_id]
                or state.named.get(record_id, 0.0) > _NAMED
            )
        ]
        return sorted(possible, key=lambda record_id: -state.scores[record_id])[:count]

    def _trust(self, state: _State, record_id: str) -> float:
        """Say how far a hit may lead on: as clearly as the question names what it is about."""
        named = state.named.get(record_id, 0.0)
        return named if named > _NAMED else 0.0

    def _leads_of(self, item: RankedCandidate, strength: float) -> list[Lead]:
        record = item.candidate.record
        passage = int(self._view.find_passages([record.record_id])[0])
        links = self._links.get(record.record_id)
        if links is None:
            links = passage_links(record.text, record.title, passage, self._asked, self._view)
            self._links[record.record_id] = links
        share = self._options.bearing_share
        return [
            self._lead(link, record.record_id, strength * (1.0 - share * (1.0 - link.bearing)), passage)
            for link in links
        ]

    def _lead(self, link: Link, source: str, strength: float, own: int) -> Lead:
        shares = (self._options.mention_share, self._options.question_mention_share)
        return lead_of(self._view, link.entity, source, strength, own, shares)

    def _apply(self, state: _State, leads: Iterable[Lead]) -> None:
        """Lift what hits lead to, and note what the question names; of passages about one entity the best."""
        limits = dict(state.scores)
        for lead in leads:
            state.leads.append(lead)
            held = (state.places.get(place, lead.source) for place in lead.about)
            about = [record_id for record_id in held if record_id != lead.source]
            if about:
                best = max(about, key=lambda record_id: state.base[record_id])
                self._lead_to(state, best, lead.strength / len(lead.about), lead.source, limits)
            for place, weight in lead.mentioning:
                record_id = state.places.get(place, lead.source)
                if record_id != lead.source:
                    self._lead_to(state, record_id, lead.mention_strength * _told(weight), lead.source, limits)

    def _lead_to(
        self, state: _State, record_id: str, strength: float, source: str, limits: Mapping[str, float]
    ) -> None:
        if not source:
            state.named[record_id] = max(strength, state.named.get(record_id, 0.0))
            return
        score = _held_back(state.base[record_id] + self._options.gain * strength, limits[source])
        if score > state.scores[record_id]:
            state.scores[record_id] = score
            state.via[record_id] = (source,)

    def _walk(self, state: _State) -> list[tuple[int, float]]:
        """Walk from entities, facts and passages; returns passages with their share of the best one's time."""
        seeding = frozenset(("", *state.sources[: self._options.source_count]))
        entities: dict[int, float] = {}
        for lead in state.leads:
            # What hits of the second round name is too far away to begin with.
            if lead.source not in seeding:
                continue
            weight = lead.strength / lead.passage_count**0.5
            entities[lead.entity] = max(weight, entities.get(lead.entity, 0.0))
        passages = {place: max(0.0, state.scores[record_id]) for place, record_id in state.places.items()}
        share = self._options.passage_weight
        walk = personalized_page_rank(
            self._view, _shares(entities, 1.0 - share), _shares(passages, share), self._options.damping
        )
        order = np.argsort(-walk.passages, kind="stable")[:MAX_WANTED]
        best = float(walk.passages[order[0]]) if len(order) else 0.0
        if best <= 0.0:
            return []
        return [(int(place), float(walk.passages[place]) / best) for place in order]

    def _follow_walk(self, state: _State) -> None:
        best = max(state.scores.values())
        for passage, share in self._walk(state):
            record_id = state.places.get(passage)
            if record_id is not None:
                score = state.base[record_id] + self._options.walk_gain * share**0.5
                score = _held_back(score, best)
                state.scores[record_id] = max(score, state.scores[record_id])

    def _made(self, state: _State, record_id: str, scale: float) -> RankedCandidate:
        item = state.items[record_id]
        old, gain = item.explanation, state.scores[record_id] - state.base[record_id]
        if gain <= 0.0:
            return item
        explanation = replace(
            old,
            similarity=old.similarity + gain,
            order_score=old.order_score + gain * scale,
            dropped_because="" if old.dropped_because == BELOW_THRESHOLD else old.dropped_because,
        )
        via = dict.fromkeys((*item.via_record_ids, *state.via.get(record_id, ())))
        return replace(item, explanation=explanation, via_record_ids=tuple(via))


def rank_by_graphs(searches: Sequence[GraphSearch], ranked: Sequence[RankedCandidate]) -> tuple[RankedCandidate, ...]:
    """Order candidates by what the search and the graphs of several knowledge bases say of them.

    Args:
        searches: Searches of one question, one for each graph.
        ranked: All candidates: those of the search and those that the searches asked for, all scored alike.

    Returns:
        The same candidates, best first; each gains once, by what lifts it most. One that a hit leads to comes to stand
        behind that hit; hits that led to a candidate are in its `via_record_ids`.
    """
    if not searches:
        return in_order(ranked)
    best = {item.candidate.record.record_id: item for item in searches[0].titled(ranked)}
    for search in searches:
        for item in search.lifted(ranked):
            record_id = item.candidate.record.record_id
            best[record_id] = _better(best[record_id], item)
    return in_order(list(best.values()))


def _held_back(score: float, limit: float) -> float:
    """Keep a score below another one; the step keeps the order among those that are held back."""
    return min(score, limit - _STEP * (2.0 - min(1.0, score)))


def _told(weight: float) -> float:
    """Say what a mention counts against one that stands alone: what stands there more often, or in the title, more."""
    return min(_MOST_TOLD, math.sqrt(weight))


def _shares(weights: Mapping[int, float], whole: float) -> dict[int, float]:
    total = sum(weights.values())
    return {place: whole * weight / total for place, weight in weights.items() if weight > 0.0} if total > 0.0 else {}


def _scale(ranked: Sequence[RankedCandidate]) -> float:
    """Say how much the order score grows with the similarity: 1 where the one is the other."""
    similarities = [item.similarity for item in ranked]
    orders = [item.explanation.order_score for item in ranked]
    width = max(similarities, default=0.0) - min(similarities, default=0.0)
    return (max(orders) - min(orders)) / width if width > 0.0 else 1.0


def _better(first: RankedCandidate, second: RankedCandidate) -> RankedCandidate:
    best = second if second.explanation.order_score > first.explanation.order_score else first
    return replace(best, via_record_ids=tuple(dict.fromkeys((*first.via_record_ids, *second.via_record_ids))))
