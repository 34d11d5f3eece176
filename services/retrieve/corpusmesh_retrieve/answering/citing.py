"""Citations as the contract tells them: what a marker refers to; of what is made of chunks, the places behind it."""

import asyncio
from collections.abc import Sequence

from corpusmesh.retrieve.v1 import answer_service_pb2 as pb
from corpusmesh_core.citation import CitableText, supporting_leaves
from corpusmesh_core.graph_search.records import stands_for_chunks
from corpusmesh_core.records import Record
from corpusmesh_retrieve.answering.values import AnswerResult
from corpusmesh_retrieve.convert import hit_to_wire, leaf_to_wire
from corpusmesh_retrieve.outcome import SearchOutcome


def citations_to_wire(
    labels: Sequence[int], result: AnswerResult, outcome: SearchOutcome, *, resolved: bool = False
) -> list[pb.Citation]:
    """Write citations.

    Args:
        labels: Labels of evidence, in order.
        result: The answer.
        outcome: What was found.
        resolved: Whether the answer is there, so that it can be told what each is cited for.

    Returns:
        A citation for each.
    """
    records = {piece.label: piece.record_id for piece in result.evidence}
    hits = {item.candidate.record.record_id: item for item in outcome.kept}
    citations: list[pb.Citation] = []
    for label in labels:
        hit = hits[records[label]]
        leaves = outcome.leaves.get(records[label], ())
        places = places_of(label, hit.candidate.record, leaves, result) if resolved and stands_for_chunks(hit) else []
        wire = hit_to_wire(hit, leaves)
        if places:
            # Those that bear it out first: who looks at the leaves alone opens the right place too.
            ordered = [*places, *(leaf for leaf in leaves if leaf not in places)]
            del wire.leaves[:]
            wire.leaves.extend(map(leaf_to_wire, ordered))
        citations.append(pb.Citation(marker=label, hit=wire, places=[leaf_to_wire(leaf) for leaf in places]))
    return citations


async def resolved_citations(result: AnswerResult, outcome: SearchOutcome) -> list[pb.Citation]:
    """Write what an answer cites, with the places that bear out what summaries are cited for.

    Args:
        result: The answer.
        outcome: What was found.

    Returns:
        Citations in order of first use.
    """
    if not outcome.leaves:
        return citations_to_wire(result.cited, result, outcome)
    # Reading fifty chunks takes ten milliseconds and more: not on the event loop.
    return await asyncio.to_thread(citations_to_wire, result.cited, result, outcome, resolved=True)


def places_of(label: int, node: Record, leaves: Sequence[Record], result: AnswerResult) -> list[Record]:
    """Find the chunks that bear out what a summary is cited for.

    Args:
        label: Its label.
        node: The summary.
        leaves: Chunks beneath it that may be seen.
        result: The answer.

    Returns:
        Chunks, best first; at least one where there is any.
    """
    cited_for = [one.text for one in result.statements if label in one.labels] or [node.text]
    texts = [
        CitableText(place, leaf.text, " ".join((leaf.title, *leaf.heading_path))) for place, leaf in enumerate(leaves)
    ]
    return [leaves[place] for place in supporting_leaves(cited_for, texts)]
