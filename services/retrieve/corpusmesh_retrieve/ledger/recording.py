"""Records searches of knowledge bases that keep a ledger.

What is recorded can be run again without anything else: the stand-alone question, the plan with all that was filled in,
the conditions on documents, the snapshots. Texts of documents are no part of it, nor are turns of a conversation, which
hold such texts.
"""

from collections.abc import Sequence

from corpusmesh.retrieve.v1 import ledger_service_pb2 as pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_core.errors import ConflictError, OverloadedError, UnavailableError
from corpusmesh_core.ports.retrievals import LedgerSection, NewRetrieval, RecordedHit, RetrievalStore
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_retrieve.convert import condition_to_wire, scores_to_wire
from corpusmesh_retrieve.graphs.words import LEVELS
from corpusmesh_retrieve.outcome import SearchOutcome
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.logging import get_logger
from corpusmesh_runtime.retrieval_plans import plan_to_wire

_SCORES = tuple(field.name for field in retrieval_pb.Scores.DESCRIPTOR.fields)
_log = get_logger(__name__)


class Recorder:
    """Records what a search found."""

    def __init__(self, store: RetrievalStore) -> None:
        """Create it.

        Args:
            store: The ledger.
        """
        self._store = store

    async def record(
        self,
        call: CallContext,
        plan: retrieval_pb.RetrievalPlan,
        outcome: SearchOutcome,
        hits: Sequence[RankedCandidate],
        *,
        page_size: int,
        is_answer: bool = False,
        history_sources: Sequence[int] = (),
    ) -> str:
        """Record a search where every knowledge base that it searched keeps a ledger.

        Args:
            call: The call.
            plan: The plan as the request gave it.
            outcome: The search.
            hits: Its hits, best first: what the caller is told.
            page_size: Hits that were asked for.
            is_answer: Whether they were asked for as evidence of an answer.
            history_sources: Ordinals that the turns before the question were made from.

        Returns:
            `retrievals/{retrieval}`; "" where nothing was recorded. A ledger that does not answer fails no search.
        """
        sections = [LedgerSection.of(inputs.config) for inputs in outcome.inputs]
        if not sections or not all(section.enabled for section in sections):
            return ""
        kind = pb.Retrieval.KIND_ANSWER if is_answer else pb.Retrieval.KIND_SEARCH
        request = pb.Retrieval(
            kind=kind,
            query=outcome.request.query,
            standalone_query=outcome.question if outcome.question != outcome.request.query else "",
            requested_plan=plan,
            effective_plan=effective_plan(plan, outcome),
            page_size=page_size,
            spaces=[inputs.space_id for inputs in outcome.inputs],
        )
        retrieval = NewRetrieval(
            snapshots=dict(outcome.snapshots),
            request=request.SerializeToString(deterministic=True),
            hits=tuple(_recorded(hit) for hit in hits),
            retention_days=min(section.retention_days for section in sections),
            history_sources=tuple(history_sources) if request.standalone_query else (),
        )
        try:
            identifier = await self._store.add(call.identity, retrieval)
        except (UnavailableError, OverloadedError, ConflictError) as error:
            _log.warning("retrieval not recorded", reason=error.reason)
            return ""
        return f"retrievals/{identifier}" if identifier else ""


def effective_plan(plan: retrieval_pb.RetrievalPlan, outcome: SearchOutcome) -> retrieval_pb.RetrievalPlan:
    """Write the plan that was carried out so that it is carried out again, conditions on documents included.

    Args:
        plan: The plan as the request gave it.
        outcome: The search.

    Returns:
        The plan; conditions and keywords that were read out of the question are like any others, and not read again.
    """
    effective = plan_to_wire(outcome.plan)
    effective.metadata_conditions.extend(plan.metadata_conditions)
    effective.documents.extend(plan.documents)
    if outcome.inferred:
        effective.metadata_conditions.extend(condition_to_wire(condition) for condition in outcome.inferred)
        effective.understanding.metadata_filter = False
    words = outcome.graph_keywords
    # Of a question that was completed from turns of a conversation, keywords may be words of what it must not tell.
    if words is not None and outcome.plan.graph.mode in LEVELS and outcome.question == outcome.request.query:
        effective.graph.high_level_keywords[:] = words.high
        effective.graph.low_level_keywords[:] = words.low
    return effective


def _recorded(hit: RankedCandidate) -> RecordedHit:
    record = hit.candidate.record
    scores = scores_to_wire(hit.explanation)
    return RecordedHit(
        record_id=record.record_id,
        kind=record.kind.value,
        knowledge_base_id=record.knowledge_base_id,
        document_id=record.document_id,
        version=record.version,
        sources=tuple(sorted({record.publisher, *record.sources})),
        scores={name: getattr(scores, name) for name in _SCORES if getattr(scores, name)},
    )
