"""Measures what would be published: a search that sees a set of versions instead of a snapshot."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from corpusmesh.retrieve.v1 import evaluation_service_pb2 as pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.golden_sets import GoldenQuestion
from corpusmesh_core.ports.metadata import SnapshotStore
from corpusmesh_core.tenancy import Identity, MetadataFilter, VisibilityInputs
from corpusmesh_core.tenancy.visibility import permitted_bitmap
from corpusmesh_retrieve.asking import SessionOpener
from corpusmesh_retrieve.evaluating.measuring import AskedSearch, Configuration, Measurer, Progress, measures_of
from corpusmesh_retrieve.evaluating.visible import QuestionReader, spread
from corpusmesh_retrieve.searching import Searcher
from corpusmesh_retrieve.viewing import SnapshotReader
from corpusmesh_runtime.context import CallContext

MakeSearcher = Callable[[SnapshotReader], Searcher]
"""Makes a searcher that sees what a reader of snapshots tells it."""


class CandidateReader:
    """Tells of one knowledge base that a set of ordinals were published, and of every other one the truth."""

    def __init__(self, snapshots: SnapshotReader, knowledge_base_id: str, ordinals: bytes) -> None:
        """Create it.

        Args:
            snapshots: Tells the truth.
            knowledge_base_id: The knowledge base.
            ordinals: What would be published, a portable roaring bitmap.
        """
        self._snapshots = snapshots
        self._knowledge_base_id = knowledge_base_id
        self._ordinals = ordinals

    async def visibility_inputs(
        self,
        identity: Identity,
        knowledge_base_id: str,
        *,
        snapshot_id: int | None = None,
        metadata_filter: MetadataFilter | None = None,
    ) -> VisibilityInputs:
        """See `SnapshotStore`; rights and filters hold as ever.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            snapshot_id: An earlier snapshot; of the knowledge base in question it is not looked at.
            metadata_filter: The caller's filter.

        Returns:
            All that the read needs.
        """
        is_candidate = knowledge_base_id == self._knowledge_base_id
        inputs = await self._snapshots.visibility_inputs(
            identity,
            knowledge_base_id,
            snapshot_id=None if is_candidate else snapshot_id,
            metadata_filter=metadata_filter,
        )
        return replace(inputs, published=self._ordinals) if is_candidate else inputs


class CandidateMeasurer:
    """Measures candidates."""

    def __init__(
        self,
        make_searcher: MakeSearcher,
        snapshots: SnapshotStore,
        questions: QuestionReader,
        open_session: SessionOpener,
        *,
        default_window: int,
        question_timeout_seconds: float,
        max_questions: int,
    ) -> None:
        """Create it.

        Args:
            make_searcher: Makes a searcher over a reader of snapshots.
            snapshots: Tells what is published.
            questions: Reads golden sets.
            open_session: Gives a search its access to the language model; none is used, so that a gate says the same
                twice.
            default_window: Candidates of each leg where nobody names a window.
            question_timeout_seconds: Longest search.
            max_questions: Questions that are asked, spread over the golden set.
        """
        self._make_searcher = make_searcher
        self._snapshots = snapshots
        self._questions = questions
        self._open_session = open_session
        self._default_window = default_window
        self._question_timeout_seconds = question_timeout_seconds
        self._max_questions = max_questions

    async def measure(
        self,
        call: CallContext,
        knowledge_base_id: str,
        golden_set_id: str,
        ordinals: bytes,
        *,
        compare_current: bool,
    ) -> pb.MeasureCandidateResponse:
        """Ask a golden set of a candidate.

        Args:
            call: The call of a service; it sees every document.
            knowledge_base_id: Knowledge base.
            golden_set_id: The golden set.
            ordinals: What would be published, a portable roaring bitmap.
            compare_current: Whether to ask of what is published now too.

        Returns:
            The measures.

        Raises:
            InvalidArgumentError: If the bitmap is none.
        """
        reader = CandidateReader(self._snapshots, knowledge_base_id, ordinals)
        today = await self._snapshots.visibility_inputs(call.identity, knowledge_base_id)
        try:
            visible = permitted_bitmap(await reader.visibility_inputs(call.identity, knowledge_base_id))
        except ValueError as error:
            raise InvalidArgumentError("ORDINALS_INVALID", "ordinals is no bitmap", field="ordinals") from error
        every = await self._questions.all_of(call.identity, knowledge_base_id, golden_set_id)
        with_gold = [question for question in every if question.gold]
        seen = await self._questions.seen(call.identity, knowledge_base_id, with_gold, visible)
        asked = spread(seen, self._max_questions)
        response = pb.MeasureCandidateResponse()
        if not asked:
            return response
        what = Configuration(knowledge_base_id, retrieval_pb.RetrievalPlan(), today.snapshot_id, model_free=True)
        found = await self._ask(call, self._make_searcher(reader), what, asked)
        response.candidate.CopyFrom(measures_of(found))
        if not compare_current:
            return response
        common = await self._questions.seen(call.identity, knowledge_base_id, asked, permitted_bitmap(today))
        if not common:
            return response
        positions = {question.position for question in common}
        then = [search for search in found if search.question.position in positions]
        now = await self._ask(call, self._make_searcher(self._snapshots), what, common)
        response.candidate_in_common.CopyFrom(measures_of(then))
        response.current_in_common.CopyFrom(measures_of(now))
        return response

    async def _ask(
        self, call: CallContext, searcher: Searcher, what: Configuration, questions: Sequence[GoldenQuestion]
    ) -> list[AskedSearch]:
        measurer = Measurer(
            searcher,
            self._open_session,
            default_window=self._default_window,
            question_timeout_seconds=self._question_timeout_seconds,
        )
        return await measurer.search(call, what, questions, Progress())
