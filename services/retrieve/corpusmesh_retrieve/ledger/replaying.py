"""Runs a recorded search again, as the caller may see its knowledge bases now, and tells what differs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyroaring import BitMap

from corpusmesh.retrieve.v1 import ledger_service_pb2 as pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.evaluation.replaying import DifferenceKind, HitDifference, RankedHit, compare_runs
from corpusmesh_core.ports.metadata import SnapshotStore
from corpusmesh_core.ports.retrievals import RecordedHit, RetrievalRow
from corpusmesh_core.query import RetrievalPlan
from corpusmesh_core.ranking import page_of
from corpusmesh_core.tenancy import VisibilityInputs
from corpusmesh_core.tenancy.visibility import permitted_bitmap
from corpusmesh_retrieve.asking import SessionOpener
from corpusmesh_retrieve.convert import metadata_of
from corpusmesh_retrieve.ledger.convert import document_name, is_shown, request_of, retrieval_to_wire
from corpusmesh_retrieve.outcome import SearchOutcome, SearchRequest
from corpusmesh_retrieve.request_checks import snapshot_names
from corpusmesh_retrieve.searching import Searcher
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.retrieval_plans import make_plan, plan_to_wire

_SNAPSHOT_GONE = "SNAPSHOT_NOT_FOUND"
_KINDS = {
    DifferenceKind.GONE: pb.ReplayRetrievalResponse.Difference.KIND_GONE,
    DifferenceKind.NEW: pb.ReplayRetrievalResponse.Difference.KIND_NEW,
    DifferenceKind.MOVED: pb.ReplayRetrievalResponse.Difference.KIND_MOVED,
    DifferenceKind.RESCORED: pb.ReplayRetrievalResponse.Difference.KIND_RESCORED,
}


@dataclass(frozen=True, slots=True)
class Sight:
    """What a caller may see now of what a retrieval searched.

    Attributes:
        inputs: What the metadata store knows, by knowledge base.
        visible: Ordinals that the caller may see.
        kept: Knowledge bases whose recorded snapshot is still kept.
    """

    inputs: tuple[VisibilityInputs, ...]
    visible: BitMap
    kept: frozenset[str]


class Replayer:
    """Runs recorded searches again."""

    def __init__(
        self, searcher: Searcher, snapshots: SnapshotStore, open_session: SessionOpener, *, default_window: int
    ) -> None:
        """Create it.

        Args:
            searcher: Runs searches.
            snapshots: Tells what the caller may see.
            open_session: Gives a request its access to the language model.
            default_window: Candidates of each leg where nobody names a window.
        """
        self._searcher = searcher
        self._snapshots = snapshots
        self._open_session = open_session
        self._default_window = default_window

    async def look(self, call: CallContext, row: RetrievalRow) -> Sight:
        """Find out what the caller may see now of what a retrieval searched.

        Args:
            call: The call.
            row: The retrieval.

        Returns:
            What it may see, at the recorded snapshots where they are kept, else at today's.

        Raises:
            NotFoundError: If the caller may not read one of its knowledge bases any more.
        """
        inputs: list[VisibilityInputs] = []
        kept: set[str] = set()
        visible = BitMap()
        for identifier, snapshot_id in row.snapshots.items():
            try:
                found = await self._snapshots.visibility_inputs(call.identity, identifier, snapshot_id=snapshot_id)
                kept.add(identifier)
            except NotFoundError as error:
                if error.reason != _SNAPSHOT_GONE:
                    raise
                found = await self._snapshots.visibility_inputs(call.identity, identifier)
            inputs.append(found)
            visible |= permitted_bitmap(found)
        return Sight(tuple(inputs), visible, frozenset(kept))

    async def replay(
        self, call: CallContext, row: RetrievalRow, *, against_current: bool
    ) -> pb.ReplayRetrievalResponse:
        """Run a retrieval again.

        Args:
            call: The call; its identity decides what is visible now.
            row: The retrieval.
            against_current: Whether to search what is published now.

        Returns:
            The difference.
        """
        sight = await self.look(call, row)
        asked = request_of(row)
        pinned = {} if against_current else {key: row.snapshots[key] for key in sight.kept}
        outcome = await self._search(call, row, asked, pinned)
        page = page_of(outcome.kept, offset=0, page_size=max(1, asked.page_size)).items
        now = {item.candidate.record.record_id: item for item in page}
        before = {hit.record_id: hit for hit in row.hits}
        hidden = {name for name, hit in before.items() if not is_shown(hit, sight.visible)}
        differences = compare_runs(
            [RankedHit(hit.record_id, hit.scores.get("similarity", 0.0)) for hit in row.hits],
            [RankedHit(item.candidate.record.record_id, item.similarity) for item in page],
            hidden=hidden,
            candidates={item.candidate.record.record_id: item.similarity for item in outcome.ranked},
        )
        documents = {
            name: document_name(item.candidate.record.knowledge_base_id, item.candidate.record.document_id)
            for name, item in now.items()
        }
        changed = sum(entry.kind is not DifferenceKind.GONE for entry in differences)
        return pb.ReplayRetrievalResponse(
            retrieval=retrieval_to_wire(row, sight.visible),
            identical=not differences,
            unchanged_count=len(page) - changed,
            differences=[_to_wire(entry, before, documents, hidden) for entry in differences],
            snapshots=snapshot_names(outcome),
            snapshots_differ=dict(outcome.snapshots) != dict(row.snapshots),
            plan_differs=self._plan_differs(asked, outcome),
            model_differs=[inputs.space_id for inputs in outcome.inputs] != list(asked.spaces),
            unreachable=list(dict.fromkeys(outcome.unreachable)),
            notes=_notes(asked, outcome, sight, against_current=against_current),
        )

    async def _search(
        self, call: CallContext, row: RetrievalRow, asked: pb.Retrieval, pinned: Mapping[str, int]
    ) -> SearchOutcome:
        identifiers = tuple(row.snapshots)

        def make(_: Sequence[Mapping[str, object]]) -> RetrievalPlan:
            # Not what knowledge bases say today: it would fill what the plan of then left without a value.
            plan = self._plan(asked.effective_plan, asked, ())
            # Words that the user wrote may leave the installation, and a completed question holds others too.
            return replace(plan, correction=replace(plan.correction, web=False)) if asked.standalone_query else plan

        return await self._searcher.search(
            call,
            SearchRequest(
                knowledge_base_ids=identifiers,
                query=asked.standalone_query or asked.query,
                make_plan=make,
                session=self._open_session(model_free=False),
                metadata=metadata_of(asked.effective_plan, knowledge_base_ids=identifiers),
                snapshots=pinned,
            ),
        )

    def _plan(
        self, plan: retrieval_pb.RetrievalPlan, asked: pb.Retrieval, configs: Sequence[Mapping[str, object]]
    ) -> RetrievalPlan:
        return make_plan(plan, configs, page_size=max(1, asked.page_size), default_window=self._default_window)

    def _plan_differs(self, asked: pb.Retrieval, outcome: SearchOutcome) -> bool:
        today = plan_to_wire(self._plan(asked.requested_plan, asked, [inputs.config for inputs in outcome.inputs]))
        carried_out = plan_to_wire(outcome.plan)
        # Where it read conditions out of the question once, it has them and does not read them again.
        today.understanding.metadata_filter = carried_out.understanding.metadata_filter
        # Likewise the keywords that it looked graphs up by.
        today.graph.high_level_keywords[:] = carried_out.graph.high_level_keywords
        today.graph.low_level_keywords[:] = carried_out.graph.low_level_keywords
        if asked.standalone_query:
            today.correction.web = carried_out.correction.web
        return today != carried_out


def _to_wire(
    entry: HitDifference, before: Mapping[str, RecordedHit], documents: Mapping[str, str], hidden: set[str]
) -> pb.ReplayRetrievalResponse.Difference:
    is_hidden = entry.record_id in hidden
    hit = before.get(entry.record_id)
    recorded = document_name(hit.knowledge_base_id, hit.document_id) if hit is not None else ""
    return pb.ReplayRetrievalResponse.Difference(
        kind=_KINDS[entry.kind],
        record_id="" if is_hidden else entry.record_id,
        document="" if is_hidden else documents.get(entry.record_id, recorded),
        rank_before=entry.rank_before,
        rank_now=entry.rank_now,
        similarity_before=entry.similarity_before,
        similarity_now=entry.similarity_now,
        why=entry.why.value if entry.why is not None else "",
    )


def _notes(asked: pb.Retrieval, outcome: SearchOutcome, sight: Sight, *, against_current: bool) -> list[str]:
    notes = list(outcome.notes)
    if asked.standalone_query and asked.effective_plan.correction.web:
        notes.append("the web was left out: the question holds words of the turns before it")
    if any(report.by_model for report in outcome.stages):
        notes.append("a language model took part; it need not say the same twice")
    if not against_current and len(sight.kept) < len(outcome.snapshots):
        notes.append("a snapshot of then is not kept any more; what is published now was searched instead")
    return notes
