"""Stage publish: what the index holds in full becomes visible, all at once."""

from collections.abc import Sequence

from corpusmesh_core.errors import InternalError, NotFoundError
from corpusmesh_core.evaluation import GateVerdict, PublishGate, judge_gate
from corpusmesh_core.evaluation.gate import PUBLISH_GATE_FAILED
from corpusmesh_core.orchestration.transitions import SKIP_PUBLISH_GATE
from corpusmesh_core.orchestration.values import PartFailure
from corpusmesh_core.ports.golden_sets import CandidateJudge
from corpusmesh_core.ports.index import RecordIndex, RecordSelection
from corpusmesh_core.ports.metadata import DocumentStore, KnowledgeBaseStore, SnapshotStore
from corpusmesh_core.ports.work import StageOutcome
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_runtime.identity import service_identity
from corpusmesh_runtime.worker import TaskContext

_MAX_COALESCED_VERSIONS = 1000
_GATE_SECONDS = 900.0


class PublishStage:
    """Checks that every record of a version can be found, then lets the store publish it."""

    def __init__(
        self,
        documents: DocumentStore,
        knowledge_bases: KnowledgeBaseStore,
        snapshots: SnapshotStore,
        index: RecordIndex,
        judge: CandidateJudge,
    ) -> None:
        """Create the stage.

        Args:
            documents: Reads versions.
            knowledge_bases: Reads the embedding space.
            snapshots: Tells what else of the knowledge base waits to be published.
            index: The record index.
            judge: Measures what would be published, for knowledge bases with a gate.
        """
        self._judge = judge
        self._documents = documents
        self._knowledge_bases = knowledge_bases
        self._snapshots = snapshots
        self._index = index

    async def __call__(self, context: TaskContext) -> StageOutcome:
        """Check a batch and all that waits beside it.

        Args:
            context: The claim and its time.

        Returns:
            Ordinals that may be published; the store writes one snapshot for all of them. Parts that the knowledge
            base's gate holds up have failed; where there is a gate, only the claim's own parts are published with it.

        Raises:
            InternalError: RECORDS_INCOMPLETE if the index lacks records of the claim's own parts.
            UnavailableError: If what measures for the gate does not answer: nothing is published without it.
        """
        claim = context.claim
        own = await self._documents.versions_by_ordinal(claim.tenant_id, claim.parts)
        waiting = await self._snapshots.waiting_versions(
            claim.tenant_id, claim.knowledge_base_id, _MAX_COALESCED_VERSIONS
        )
        knowledge_base = await self._knowledge_bases.get(
            service_identity("ingest", tenant_id=claim.tenant_id), claim.knowledge_base_id
        )
        await self._index.refresh(claim.tenant_id, knowledge_base.space_id, timeout_seconds=context.remaining_seconds())
        own_ordinals = {version.ordinal for version in own}
        others = [version for version in waiting if version.ordinal not in own_ordinals]
        complete = await self._complete(context, knowledge_base.space_id, [*own, *others])
        if missing := own_ordinals - set(complete):
            raise InternalError(
                "RECORDS_INCOMPLETE",
                "the index does not hold all records of a version",
                ordinals=sorted(missing)[:10],
            )
        gate = PublishGate.of(knowledge_base.config)
        if gate is None or SKIP_PUBLISH_GATE in claim.payload:
            return StageOutcome(publishable=tuple(complete))
        verdict = await self._ask(context, gate, sorted(own_ordinals))
        if verdict.passes:
            return StageOutcome(publishable=tuple(sorted(own_ordinals)))
        return StageOutcome(
            failures=tuple(
                PartFailure(ordinal, PUBLISH_GATE_FAILED, verdict.message) for ordinal in sorted(own_ordinals)
            )
        )

    async def _ask(self, context: TaskContext, gate: PublishGate, ordinals: Sequence[int]) -> GateVerdict:
        """Measure what would be published: another publish in between is judged for itself, but not together."""
        claim = context.claim
        candidate = await self._snapshots.plan_candidate(claim.tenant_id, claim.knowledge_base_id, ordinals)
        try:
            measured = await self._judge.measure(
                claim.tenant_id,
                claim.knowledge_base_id,
                gate.golden_set_id,
                candidate,
                compare_current=gate.max_drop is not None,
                timeout_seconds=min(_GATE_SECONDS, context.remaining_seconds()),
            )
        except NotFoundError as error:
            return GateVerdict(False, f"the publish gate cannot be asked: {error.message}")
        common = None
        if measured.candidate_in_common is not None and measured.current_in_common is not None:
            common = (measured.candidate_in_common[gate.measure], measured.current_in_common[gate.measure])
        return judge_gate(
            gate,
            measured.candidate[gate.measure] if measured.candidate is not None else None,
            common,
            question_count=measured.question_count,
        )

    async def _complete(self, context: TaskContext, space_id: str, versions: Sequence[VersionRow]) -> list[int]:
        """Give the versions whose records are all there, halving the question where a sum does not fit."""
        if not versions:
            return []
        held = await self._index.count(
            context.claim.tenant_id,
            space_id,
            RecordSelection(publishers=[version.ordinal for version in versions]),
            timeout_seconds=context.remaining_seconds(),
        )
        if held == sum(version.record_count for version in versions):
            return [version.ordinal for version in versions]
        if len(versions) == 1:
            return []
        middle = len(versions) // 2
        return [
            *await self._complete(context, space_id, versions[:middle]),
            *await self._complete(context, space_id, versions[middle:]),
        ]
