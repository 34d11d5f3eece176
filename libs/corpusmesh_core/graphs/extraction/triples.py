"""Facts that users give, and where the document says so (the seed on adjacency, `003_67b62910d2d3a085.txt`)."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from corpusmesh_core.graphs.extraction.merging import merge_subgraphs
from corpusmesh_core.graphs.keys import MAX_NAME_CHARACTERS, entity_key
from corpusmesh_core.graphs.settings import GraphMethod
from corpusmesh_core.graphs.values import (
    MAX_MENTIONS,
    EntityFragment,
    GraphChunk,
    Mention,
    RelationFragment,
    Subgraph,
    Triple,
)
from corpusmesh_core.text import analyze

_MAX_DESCRIPTION_CHARACTERS: Final = 1_000
_MAX_PREDICATE_CHARACTERS: Final = 200
_MAX_TYPE_CHARACTERS: Final = 64
_PASSAGE_TERMS: Final = 12
_MAX_CHUNK_CHARACTERS: Final = 20_000
_TRIPLES: Final = (GraphMethod.TRIPLES,)


def from_triples(triples: Sequence[Triple], chunks: Sequence[GraphChunk]) -> Subgraph:
    """Make the subgraph of facts that are given for a document.

    Args:
        triples: The facts; one whose names have no letter is left out, one about a single entity gives no relation.
        chunks: Chunks of the version. A fact stands in the chunks that hold its passage, or else both of its names, or
            else one of them; where nothing does, in the first chunk, so that it can be cited.

    Returns:
        The subgraph; of several facts about two entities the predicates are joined into one description.
    """
    places = _Places(chunks)
    found: list[Subgraph] = []
    facts: dict[tuple[int, int], list[tuple[Triple, tuple[Mention, ...]]]] = defaultdict(list)
    for triple in triples:
        source, target = entity_key(triple.subject), entity_key(triple.object)
        if not source or not target:
            continue
        mentions = places.of(triple)
        entities = (
            _entity(source, triple.subject, triple.subject_type, mentions),
            _entity(target, triple.object, triple.object_type, mentions),
        )
        found.extend(Subgraph((entity,)) for entity in entities)
        if source != target:
            facts[min(source, target), max(source, target)].append((triple, mentions))
    relations = tuple(_relation(listed) for _, listed in sorted(facts.items()))
    return merge_subgraphs([*found, Subgraph((), relations)])


def _entity(key: int, name: str, kind: str, mentions: tuple[Mention, ...]) -> EntityFragment:
    return EntityFragment(
        key,
        " ".join(name.split())[:MAX_NAME_CHARACTERS],
        " ".join(kind.lower().split())[:_MAX_TYPE_CHARACTERS],
        mentions=mentions,
        methods=_TRIPLES,
    )


def _relation(facts: Sequence[tuple[Triple, tuple[Mention, ...]]]) -> RelationFragment:
    first = facts[0][0]
    said = dict.fromkeys(" ".join(f"{t.subject} {t.predicate} {t.object}".split()) for t, _ in facts)
    weights: dict[int, float] = defaultdict(float)
    for _, mentions in facts:
        for mention in mentions:
            weights[mention.position] += mention.weight
    return RelationFragment(
        source=entity_key(first.subject),
        target=entity_key(first.object),
        predicate=" ".join(first.predicate.split())[:_MAX_PREDICATE_CHARACTERS],
        description="; ".join(said)[:_MAX_DESCRIPTION_CHARACTERS],
        keywords=tuple(sorted(set(filter(None, (" ".join(t.predicate.split()) for t, _ in facts))))[:16]),
        mentions=tuple(Mention(position, weights[position]) for position in sorted(weights)[:MAX_MENTIONS]),
        weight=float(len(facts)),
        methods=_TRIPLES,
    )


class _Places:
    """Finds the chunks that hold a phrase, by the terms of the index; time grows with the rarest term of it."""

    def __init__(self, chunks: Sequence[GraphChunk]) -> None:
        self._texts: dict[int, str] = {}
        self._by_term: dict[str, set[int]] = defaultdict(set)
        self._known: dict[str, frozenset[int]] = {}
        for chunk in chunks:
            fine = analyze(chunk.text[:_MAX_CHUNK_CHARACTERS]).fine
            self._texts[chunk.position] = f" {' '.join(fine)} "
            for term in fine:
                self._by_term[term].add(chunk.position)

    def of(self, triple: Triple) -> tuple[Mention, ...]:
        """Say where a fact stands."""
        positions = self._holding(triple.passage, _PASSAGE_TERMS)
        if not positions:
            subject, other = self._holding(triple.subject), self._holding(triple.object)
            positions = (subject & other) or subject or other
        if not positions and self._texts:
            positions = frozenset((min(self._texts),))
        return tuple(Mention(position) for position in sorted(positions)[:MAX_MENTIONS])

    def _holding(self, phrase: str, most: int = MAX_NAME_CHARACTERS) -> frozenset[int]:
        known = self._known.get(phrase)
        if known is None:
            terms = analyze(phrase[: 8 * MAX_NAME_CHARACTERS]).fine[:most]
            known = self._known[phrase] = self._search(terms)
        return known

    def _search(self, terms: Sequence[str]) -> frozenset[int]:
        if not terms:
            return frozenset()
        lists = sorted((self._by_term.get(term, set()) for term in set(terms)), key=len)
        joined = f" {' '.join(terms)} "
        return frozenset(position for position in set.intersection(*lists) if joined in self._texts[position])
