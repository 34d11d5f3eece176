"""Records that were made of chunks lead to them: a question to the chunk that answers it, a summary to its text.

A derived record says in other words, or in fewer, what a chunk says. Where it fits the question better than the chunk
itself does, the chunk takes part with the derived record's similarity, less what such records are known to promise too
much (seeds `002_f3c6776130bf4d1f.txt` and `003_67b62910d2d3a085.txt`: RAPTOR, HyPE, MemoRAG).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from corpusmesh_core.ranking.options import RankingOptions
from corpusmesh_core.ranking.scoring import RankedCandidate, in_order, raised
from corpusmesh_core.records import RecordKind

PENALTY_BY_KIND: Final[Mapping[RecordKind, float]] = {
    RecordKind.PROPOSITION: 0.0,
    RecordKind.QUESTION: 0.08,
    RecordKind.SUMMARY: 0.08,
    RecordKind.MEMORY: 0.08,
}
"""What is taken from the similarity of a derived record. Questions resemble questions whatever they ask, so that those
made by rules find less than chunks do (docs/parsing.md); 0.08 is 0.03 of cosine at a vector weight of 0.8."""
_SHARE_OF_NEXT: Final = 0.5
"""What each further chunk of one derived record gains of what the chunk before it gains."""
_MAX_VIA = 8


def derived_kinds(kinds: Collection[RecordKind]) -> tuple[RecordKind, ...]:
    """Tell which kinds are to lead to chunks.

    Args:
        kinds: Kinds that compete as themselves.

    Returns:
        Derived kinds that do not; none where chunks do not compete.
    """
    if RecordKind.CHUNK not in kinds:
        return ()
    return tuple(kind for kind in PENALTY_BY_KIND if kind not in kinds)


def links_to_fetch(
    derived: Sequence[RankedCandidate], known: Collection[str], *, max_count: int, max_per_record: int = 4
) -> tuple[str, ...]:
    """Tell which chunks must be read, since only a derived record has found them.

    Args:
        derived: Derived records, best first.
        known: Ids of the candidates.
        max_count: Most ids.
        max_per_record: Most ids of one derived record; of those it leads to, the first.

    Returns:
        Ids, those of the best derived records first.
    """
    wanted: dict[str, None] = {}
    for item in derived:
        links = item.candidate.record.links
        if any(link in known for link in links) and len(links) > 1:
            # A summary leads to the chunks of its text that fit best, and those are candidates by themselves.
            continue
        for link in links[:max_per_record]:
            if link not in known:
                wanted[link] = None
    return tuple(wanted)[:max_count]


def lift_by_derived(
    ranked: Sequence[RankedCandidate], derived: Sequence[RankedCandidate], options: RankingOptions
) -> tuple[RankedCandidate, ...]:
    """Let derived records lift the chunks that they were made of.

    The best chunk of a derived record gains all that its similarity is above the chunk's own, each further one half of
    what the one before it gains: a summary of ten chunks is evidence for the one that fits, not for all.

    Args:
        ranked: Candidates, best first.
        derived: Derived records, best first.
        options: How similarities were made.

    Returns:
        The candidates in their new order; `via_record_ids` names what lifted them, the best first.
    """
    places = {item.candidate.record.record_id: place for place, item in enumerate(ranked)}
    best: dict[int, float] = {}
    via: dict[int, list[str]] = {}
    for item in derived:
        score = item.similarity - PENALTY_BY_KIND.get(item.candidate.record.kind, 0.0)
        share = 1.0
        for place in sorted(places[link] for link in set(item.candidate.record.links) if link in places):
            own = ranked[place].similarity - ranked[place].explanation.rank_feature
            lifted = own + share * (score - own)
            if lifted <= own:
                continue
            best[place] = max(best.get(place, 0.0), lifted)
            via.setdefault(place, []).append(item.candidate.record.record_id)
            share *= _SHARE_OF_NEXT
    return in_order(
        [
            raised(item, best[place], options, via=tuple(via[place][:_MAX_VIA])) if place in best else item
            for place, item in enumerate(ranked)
        ]
    )
