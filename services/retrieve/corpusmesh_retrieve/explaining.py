"""What a search did, as the contract tells it."""

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
from corpusmesh_core.graph_search.steps import MAX_STEPS
from corpusmesh_retrieve.convert import scores_to_wire
from corpusmesh_retrieve.outcome import SearchOutcome, StageReport, StageState
from corpusmesh_runtime.retrieval_plans import plan_to_wire

_STATES = {
    StageState.RAN: pb.StageTiming.STATE_RAN,
    StageState.SKIPPED: pb.StageTiming.STATE_SKIPPED,
    StageState.FAILED: pb.StageTiming.STATE_FAILED,
}


def stage_to_wire(report: StageReport) -> pb.StageTiming:
    """Write the report of a stage.

    Args:
        report: The report.

    Returns:
        The wire report.
    """
    return pb.StageTiming(
        stage=report.name,
        duration_milliseconds=report.duration_milliseconds,
        state=_STATES[report.state],
        by_model=report.by_model,
        detail=report.detail,
    )


def explanation_to_wire(outcome: SearchOutcome) -> pb.Explanation:
    """Write what a search did.

    Args:
        outcome: The whole search.

    Returns:
        Stages, candidates, variants and the effective plan.
    """
    return pb.Explanation(
        stages=[stage_to_wire(report) for report in outcome.stages],
        query_terms=outcome.terms.fine,
        candidates=[
            pb.CandidateExplanation(
                record_id=item.candidate.record.record_id,
                scores=scores_to_wire(item.explanation),
                dropped_reason=item.explanation.dropped_because,
                vector_weight=item.explanation.vector_weight,
                cross_script=item.explanation.is_cross_script,
                rank_feature=item.explanation.rank_feature,
            )
            for item in outcome.ranked
        ],
        notes=outcome.notes,
        visible_version_count=outcome.visible_count,
        variants=[
            pb.QueryVariant(text=variant.text, origin=variant.origin.value, weight=variant.weight)
            for variant in outcome.variants
        ],
        effective_plan=plan_to_wire(outcome.plan),
        tree_path=[
            pb.TreeStep(
                record_id=step.record_id,
                layer=step.layer,
                similarity=step.similarity,
                outcome=step.outcome.value,
                led_to=step.led_to,
            )
            for step in outcome.tree_path
        ],
        graph_path=[
            pb.GraphStep(
                kind=step.kind.value,
                name=step.name,
                label=step.label,
                reason=step.reason.value,
                score=step.score,
                hop=step.hop,
                outcome=step.outcome.value,
            )
            for step in outcome.graph_path[:MAX_STEPS]
        ],
    )
