"""What a research found and did, as the contract tells it."""

from collections.abc import Sequence

from corpusmesh.retrieve.v1 import answer_service_pb2 as answer_pb
from corpusmesh.retrieve.v1 import research_service_pb2 as pb
from corpusmesh_core.research.budget import ResearchCost
from corpusmesh_core.research.tree import QuestionNode, QuestionState
from corpusmesh_retrieve.answer_handlers import summary_to_wire as answer_to_wire
from corpusmesh_retrieve.answering import AnswerResult
from corpusmesh_retrieve.answering.citing import citations_to_wire, resolved_citations
from corpusmesh_retrieve.outcome import SearchOutcome
from corpusmesh_retrieve.request_checks import snapshot_names
from corpusmesh_retrieve.researching.running import Research

_STATES = {
    QuestionState.WAITING: pb.ResearchProgress.STATE_WAITING,
    QuestionState.SEARCHING: pb.ResearchProgress.STATE_SEARCHING,
    QuestionState.FOUND: pb.ResearchProgress.STATE_FOUND,
    QuestionState.SUFFICIENT: pb.ResearchProgress.STATE_SUFFICIENT,
    QuestionState.DECOMPOSED: pb.ResearchProgress.STATE_DECOMPOSED,
    QuestionState.STOPPED: pb.ResearchProgress.STATE_STOPPED,
}


def node_to_wire(node: QuestionNode) -> pb.ResearchProgress:
    """Write a question.

    Args:
        node: The question.

    Returns:
        The wire message.
    """
    return pb.ResearchProgress(
        node=node.node_id,
        parent=node.parent_id,
        question=node.text,
        state=_STATES[node.state],
        found_count=node.found_count,
        new_count=node.new_count,
        missing=node.missing,
        by_model=node.by_model,
        detail=node.detail,
    )


def cost_to_wire(cost: ResearchCost) -> pb.ResearchCost:
    """Write what a research has cost.

    Args:
        cost: The cost.

    Returns:
        The wire message.
    """
    return pb.ResearchCost(
        call_count=cost.call_count,
        token_count=cost.token_count,
        seconds=cost.seconds,
        search_count=cost.search_count,
        web_search_count=cost.web_search_count,
    )


def evidence_to_wire(result: AnswerResult, outcome: SearchOutcome) -> answer_pb.EvidenceList:
    """Write the evidence.

    Args:
        result: Labelled evidence.
        outcome: What was found.

    Returns:
        The evidence with the marker of each piece, and the snapshots that were searched.
    """
    labels = [piece.label for piece in result.evidence]
    return answer_pb.EvidenceList(
        evidence=citations_to_wire(labels, result, outcome), snapshots=snapshot_names(outcome)
    )


async def summary_to_wire(
    research: Research, outcome: SearchOutcome, result: AnswerResult, cost: pb.ResearchCost
) -> pb.ResearchSummary:
    """Write how a research went.

    Args:
        research: The research, at its end.
        outcome: What was found.
        result: The answer.
        cost: What it has cost.

    Returns:
        The wire message.
    """
    result.notes.extend(_silent(outcome))
    answer = answer_to_wire(result, outcome, await resolved_citations(result, outcome))
    return pb.ResearchSummary(
        answer=answer,
        questions=[node_to_wire(node) for node in research.tree.nodes],
        open_questions=[node.text for node in research.tree.open_questions()],
        cost=cost,
        partial=bool(research.spent),
        partial_reason=", ".join(research.spent),
    )


def _silent(outcome: SearchOutcome) -> Sequence[str]:
    return [f"did not answer: {name}" for name in outcome.unreachable]
