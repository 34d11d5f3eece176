"""Golden sets, evaluations and retrievals as JSON and as rows of tables."""

from typing import Any

from google.protobuf import json_format

from corpusmesh.retrieve.v1 import evaluation_service_pb2 as pb
from corpusmesh.retrieve.v1 import ledger_service_pb2 as ledger_pb
from corpusmesh_app.cli.shapes import time_of
from corpusmesh_core.query import PLAN_BY_PRESET
from corpusmesh_runtime.retrieval_plans import plan_to_wire

PLAN_COLUMNS = ("PLAN", "RECALL@2", "RECALL@5", "RECALL@10", "NDCG@10", "MRR", "MS P50", "MS P95")
ANSWER_COLUMNS = ("PLAN", "CITED RIGHT", "GOLD CITED", "ABSTENTION", "ANSWERS", "ABSTAINED", "MS P50", "MS P95")
COMPARISON_COLUMNS = ("MEASURE", "DIFFERENCE", "95 % INTERVAL", "WINS", "LOSSES", "P", "")


def golden_set_shape(golden_set: pb.GoldenSet) -> dict[str, Any]:
    """Describe a golden set in JSON.

    Args:
        golden_set: The set.

    Returns:
        Its shape.
    """
    return {
        "name": golden_set.name,
        "display_name": golden_set.display_name,
        "question_count": golden_set.question_count,
        "creator": golden_set.creator,
        "create_time": time_of(golden_set, "create_time"),
        "update_time": time_of(golden_set, "update_time"),
    }


def message_shape(message: "pb.Evaluation | ledger_pb.Retrieval | ledger_pb.ReplayRetrievalResponse") -> dict[str, Any]:
    """Describe a message in JSON, in the contract's own spelling, values that are 0 included.

    Args:
        message: The message.

    Returns:
        Its shape.
    """
    shape: dict[str, Any] = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return shape


def plan_name(measures: pb.PlanMeasures, place: int) -> str:
    """Name a plan that was measured.

    Args:
        measures: What was measured with it.
        place: Its place in the evaluation, from 0.

    Returns:
        The preset that it is; where it is none of them, its place.
    """
    for preset, plan in PLAN_BY_PRESET.items():
        wire = plan_to_wire(plan)
        wire.candidate_window = measures.effective_plan.candidate_window
        if wire == measures.effective_plan:
            return preset.value
    return f"plan {place + 1}"


def plan_row(name: str, measures: pb.PlanMeasures) -> tuple[str, ...]:
    """Make the row of a plan.

    Args:
        name: Name of the plan.
        measures: What was measured.

    Returns:
        Cells as in `PLAN_COLUMNS`.
    """
    shares = (measures.recall_at_2, measures.recall_at_5, measures.recall_at_10, measures.ndcg_at_10, measures.mrr)
    times = (measures.search_milliseconds_p50, measures.search_milliseconds_p95)
    return (name, *(f"{value:.4f}" for value in shares), *(f"{value:.1f}" for value in times))


def answer_row(name: str, answers: pb.AnswerMeasures) -> tuple[str, ...]:
    """Make the row of a plan's answers.

    Args:
        name: Name of the plan.
        answers: What was measured.

    Returns:
        Cells as in `ANSWER_COLUMNS`.
    """
    accuracy = f"{answers.answer_accuracy:.4f}" if answers.HasField("answer_accuracy") else "-"
    shares = (answers.citation_precision, answers.citation_recall, answers.abstention_accuracy)
    times = (answers.milliseconds_p50, answers.milliseconds_p95)
    return (
        name,
        *(f"{value:.4f}" for value in shares),
        accuracy,
        str(answers.abstained_count),
        *(f"{value:.1f}" for value in times),
    )


def comparison_row(comparison: pb.MeasureComparison) -> tuple[str, ...]:
    """Make the row of a comparison.

    Args:
        comparison: The comparison.

    Returns:
        Cells as in `COMPARISON_COLUMNS`.
    """
    verdict = "better" if comparison.difference > 0 else "worse"
    return (
        comparison.measure,
        f"{comparison.difference:+.4f}",
        f"{comparison.low:+.4f} .. {comparison.high:+.4f}",
        str(comparison.win_count),
        str(comparison.loss_count),
        f"{comparison.p_value:.4f}",
        verdict if comparison.significant else "no more than chance",
    )
