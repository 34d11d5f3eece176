"""Passages that a graph leads to: scored as recalled ones are, put first, and held within the bounds of a mode."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from corpusmesh_core.assembly.ordering import arranged, dropped, kept_of, reordered
from corpusmesh_core.graph_search.merging import in_turn
from corpusmesh_core.ports.index import Candidate, Candidates
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.ranking.scoring import BELOW_THRESHOLD
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.token_estimate import estimate_tokens
from corpusmesh_retrieve.graphs.opening import Graph
from corpusmesh_retrieve.ordering import rank_found
from corpusmesh_retrieve.outcome import SearchOutcome
from corpusmesh_retrieve.recalling import Recaller
from corpusmesh_runtime.context import CallContext

OUTSIDE_TOP: Final = "outside_top_passages"
OVER_BUDGET: Final = "over_token_budget"
_CHUNK_KINDS: Final = (RecordKind.CHUNK,)


class Passages:
    """Scores and orders passages."""

    def __init__(self, recaller: Recaller) -> None:
        """Create it.

        Args:
            recaller: Scores chunks by id.
        """
        self._recaller = recaller

    async def score(
        self, call: CallContext, outcome: SearchOutcome, graphs: Sequence[Graph], record_ids: Sequence[str]
    ) -> None:
        """Score passages that are no candidates yet, in one round trip to each space that has some.

        Args:
            call: The call.
            outcome: Gets the candidates and the order.
            graphs: Graphs that name them.
            record_ids: Ids of chunks; those that the request may not see are left out.

        Raises:
            UnavailableError: If the index does not answer.
        """
        known = {item.candidate.record.record_id for item in outcome.ranked}
        wanted = [name for name in dict.fromkeys(record_ids) if name not in known]
        if not wanted:
            return
        spaces = {graph.space.space_id for graph in graphs}
        places = [place for place, view in enumerate(outcome.views) if view.space_id in spaces and outcome.found[place]]
        answers = await asyncio.gather(
            *(self._recaller.score(call, outcome, outcome.views[place], wanted, kinds=_CHUNK_KINDS) for place in places)
        )
        is_new = False
        for place, answer in zip(places, answers, strict=True):
            new = tuple(item for item in answer.items if item.record.record_id not in known)
            if new:
                is_new = True
                outcome.found[place] = _with(outcome.found[place], new)
        if is_new:
            outcome.ranked = await rank_found(outcome)


def _with(found: list[Candidates], new: tuple[Candidate, ...]) -> list[Candidates]:
    return [replace(found[0], items=(*found[0].items, *new)), *found[1:]]


def cosines_of(outcome: SearchOutcome) -> dict[str, float]:
    """Tell how alike the question each candidate is.

    Args:
        outcome: The search.

    Returns:
        Its cosine by record id; where there is none its similarity, so that a search by words alone has an order too.
    """
    return {
        item.candidate.record.record_id: item.similarity if item.candidate.cosine is None else item.candidate.cosine
        for item in outcome.ranked
    }


def put_first(outcome: SearchOutcome, record_ids: Sequence[str]) -> int:
    """Put passages before all other hits.

    Args:
        outcome: The search.
        record_ids: Ids of chunks in their order. What a graph leads to need not be like the question: a chunk below the
            threshold of similarity becomes a hit; what is no candidate is passed over.

    Returns:
        How many were put first.
    """
    _readmit(outcome, record_ids)
    places = {item.candidate.record.record_id: place for place, item in enumerate(kept_of(outcome.ranked))}
    first = [places[name] for name in dict.fromkeys(record_ids) if name in places]
    if first:
        taken = set(first)
        outcome.ranked = reordered(outcome.ranked, [*first, *(at for at in places.values() if at not in taken)])
    return len(first)


def put_in_turn(outcome: SearchOutcome, record_ids: Sequence[str]) -> int:
    """Put passages between the other hits: one of these, one of those.

    Args:
        outcome: The search.
        record_ids: Ids of chunks in their order, see `put_first`.

    Returns:
        How many of them there are.
    """
    _readmit(outcome, record_ids)
    kept = [item.candidate.record.record_id for item in kept_of(outcome.ranked)]
    known = set(kept)
    own = [name for name in record_ids if name in known]
    put_first(outcome, in_turn([kept, own], lambda name: name))
    return len(own)


def _readmit(outcome: SearchOutcome, record_ids: Sequence[str]) -> None:
    wanted = set(record_ids)
    low = {
        item.candidate.record.record_id
        for item in outcome.ranked
        if item.explanation.dropped_because == BELOW_THRESHOLD and item.candidate.record.record_id in wanted
    }
    if low:
        again = [dropped(item, "") for item in outcome.ranked if item.candidate.record.record_id in low]
        others = [item for item in outcome.ranked if item.candidate.record.record_id not in low]
        outcome.ranked = arranged([*kept_of(others), *again], (), others)


def bounded(outcome: SearchOutcome, *, most: int, max_tokens: int) -> None:
    """Leave out what is more than a mode returns.

    Args:
        outcome: The search.
        most: Most hits.
        max_tokens: Most tokens of all hits; the best hit stays whatever it has.
    """
    staying: list[RankedCandidate] = []
    leaving: list[RankedCandidate] = []
    left = max_tokens
    for item in kept_of(outcome.ranked):
        cost = _tokens(item.candidate.record)
        if len(staying) >= most:
            leaving.append(dropped(item, OUTSIDE_TOP))
        elif cost > left and staying:
            leaving.append(dropped(item, OVER_BUDGET))
        else:
            staying.append(item)
            left -= cost
    if leaving:
        outcome.ranked = arranged(staying, leaving, outcome.ranked)


def _tokens(record: Record) -> int:
    return record.token_count or estimate_tokens(record.text)
