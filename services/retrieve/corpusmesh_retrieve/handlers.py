"""gRPC handlers: they connect wire messages to the searcher and the answerer."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from corpusmesh.retrieve.v1 import answer_service_pb2 as answer_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
from corpusmesh.retrieve.v1.answer_service_pb2_grpc import AnswerServiceServicer
from corpusmesh.retrieve.v1.retrieval_service_pb2_grpc import RetrievalServiceServicer
from corpusmesh_core.errors import InvalidArgumentError, OverloadedError
from corpusmesh_core.query import RetrievalPlan
from corpusmesh_core.ranking import RankedCandidate, page_of
from corpusmesh_retrieve.answering import Answerer, AnswerOptions, AnswerResult
from corpusmesh_retrieve.asking import ModelSession
from corpusmesh_retrieve.config import RetrieveSettings
from corpusmesh_retrieve.convert import (
    condition_to_wire,
    history_of,
    hit_to_wire,
    metadata_of,
    page_size_of,
    snapshots_of,
)
from corpusmesh_retrieve.explaining import explanation_to_wire
from corpusmesh_retrieve.outcome import SearchOutcome, SearchRequest
from corpusmesh_retrieve.paging import SearchPosition, fingerprint_of, make_search_token, read_search_token
from corpusmesh_retrieve.searching import Searcher
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.policy import knowledge_base_id_of
from corpusmesh_runtime.retrieval_plans import make_plan

_MAX_KNOWLEDGE_BASES = 16
_MIN_EVIDENCE_TOKENS = 100
_MAX_EVIDENCE_TOKENS = 100_000


class SessionOpener(Protocol):
    """Gives a request its access to the language model."""

    def __call__(self, *, model_free: bool) -> ModelSession:
        """Open a session.

        Args:
            model_free: Whether the request wants no language model.

        Returns:
            The session, with a budget of its own.
        """
        ...


class RetrievalHandlers(RetrievalServiceServicer):
    """Searches."""

    def __init__(self, searcher: Searcher, settings: RetrieveSettings, open_session: SessionOpener) -> None:
        """Create the handlers.

        Args:
            searcher: Runs searches.
            settings: Defaults and bounds.
            open_session: Gives a request its access to the language model.
        """
        self._searcher = searcher
        self._settings = settings
        self._open_session = open_session

    async def SearchChunks(self, request: pb.SearchChunksRequest, context: Any) -> pb.SearchChunksResponse:
        """See the contract."""
        call = require_call()
        identifiers = _knowledge_base_ids(request.knowledge_bases)
        _check_query(request.query, "query", self._settings)
        page_size = page_size_of(request.page_size)
        fingerprint = _fingerprint(request)
        position = SearchPosition(0, snapshots_of(request.as_of_snapshots, identifiers))
        if request.page_token:
            position = read_search_token(fingerprint, request.page_token)
            # A page stays with the knowledge bases that the router picked for the first one.
            identifiers = identifiers or tuple(position.snapshots)

        def make(configs: Sequence[Mapping[str, object]]) -> RetrievalPlan:
            plan = make_plan(request.plan, configs, page_size=page_size, default_window=self._settings.candidate_window)
            return replace(plan, window=position.window) if position.window else plan

        outcome = await self._searcher.search(
            call,
            SearchRequest(
                knowledge_base_ids=identifiers,
                query=request.query,
                make_plan=make,
                session=self._open_session(model_free=False),
                metadata=metadata_of(request.plan, knowledge_base_ids=identifiers),
                snapshots=position.snapshots,
                history=history_of(request.history),
            ),
        )
        page = page_of(outcome.kept, offset=position.offset, page_size=page_size)
        more = ""
        if page.next_offset is not None:
            more = make_search_token(
                fingerprint, SearchPosition(page.next_offset, outcome.snapshots, outcome.plan.window)
            )
        return pb.SearchChunksResponse(
            hits=[hit_to_wire(item) for item in page.items],
            next_page_token=more,
            snapshots=_snapshot_names(outcome),
            total_size=page.total_count,
            explanation=explanation_to_wire(outcome) if request.explain else None,
            unreachable=list(dict.fromkeys(outcome.unreachable)),
            inferred_conditions=[condition_to_wire(condition) for condition in outcome.inferred],
            standalone_query=outcome.question if outcome.question != request.query else "",
        )


@dataclass(frozen=True, slots=True)
class ModelBounds:
    """Bounds of the language model's answers.

    Attributes:
        max_answer_tokens: Longest answer.
        deadline_seconds: Time after which a model-free answer is given instead.
    """

    max_answer_tokens: int
    deadline_seconds: float


class AnswerHandlers(AnswerServiceServicer):
    """Answers questions."""

    def __init__(
        self,
        searcher: Searcher,
        answerer: Answerer,
        settings: RetrieveSettings,
        bounds: ModelBounds,
        open_session: SessionOpener,
    ) -> None:
        """Create the handlers.

        Args:
            searcher: Runs searches.
            answerer: Writes answers.
            settings: Defaults and bounds.
            bounds: Bounds of the language model.
            open_session: Gives a request its access to the language model.
        """
        self._open_session = open_session
        self._searcher = searcher
        self._answerer = answerer
        self._settings = settings
        self._bounds = bounds
        self._open_count = 0

    async def AnswerQuestion(
        self, request: answer_pb.AnswerQuestionRequest, context: Any
    ) -> AsyncIterator[answer_pb.AnswerQuestionResponse]:
        """See the contract."""
        if self._open_count >= self._settings.max_concurrent_answers:
            raise OverloadedError(
                "ANSWERS_BUSY",
                "too many answers are being made; try again shortly",
                limit=self._settings.max_concurrent_answers,
            )
        self._open_count += 1
        try:
            async for piece in self._answer(request):
                yield piece
        finally:
            self._open_count -= 1

    async def _answer(
        self, request: answer_pb.AnswerQuestionRequest
    ) -> AsyncIterator[answer_pb.AnswerQuestionResponse]:
        call = require_call()
        identifiers = _knowledge_base_ids(request.knowledge_bases)
        _check_query(request.question, "question", self._settings)
        options = self._options(request)
        outcome = await self._searcher.search(
            call,
            SearchRequest(
                knowledge_base_ids=identifiers,
                query=request.question,
                make_plan=partial(
                    make_plan,
                    request.plan,
                    page_size=options.evidence_count,
                    default_window=self._settings.candidate_window,
                ),
                session=self._open_session(model_free=request.model_free),
                metadata=metadata_of(request.plan, knowledge_base_ids=identifiers),
                history=history_of(request.history),
            ),
        )
        result = self._answerer.gather(request.question, outcome, options)
        result.notes.extend(outcome.notes)
        hits = {item.candidate.record.record_id: item for item in outcome.kept}
        yield answer_pb.AnswerQuestionResponse(
            evidence=answer_pb.EvidenceList(
                evidence=_citations([piece.label for piece in result.evidence], result, hits),
                snapshots=_snapshot_names(outcome),
            )
        )
        async for text in self._answerer.write(call, request.question, outcome, options, result):
            yield answer_pb.AnswerQuestionResponse(text_delta=text)
        summary = answer_pb.AnswerSummary
        yield answer_pb.AnswerQuestionResponse(
            summary=summary(
                text=result.text,
                citations=_citations(result.cited, result, hits),
                method=summary.METHOD_MODEL if result.by_model else summary.METHOD_EXTRACTIVE,
                abstained=result.abstained,
                dropped_marker_count=result.dropped_marker_count,
                notes=result.notes,
            )
        )

    def _options(self, request: answer_pb.AnswerQuestionRequest) -> AnswerOptions:
        tokens = request.max_evidence_tokens or self._settings.max_evidence_tokens
        if not _MIN_EVIDENCE_TOKENS <= tokens <= _MAX_EVIDENCE_TOKENS:
            raise InvalidArgumentError(
                "EVIDENCE_BUDGET_INVALID",
                f"max_evidence_tokens must be within {_MIN_EVIDENCE_TOKENS}..{_MAX_EVIDENCE_TOKENS}",
                field="max_evidence_tokens",
            )
        return AnswerOptions(
            max_evidence_tokens=tokens,
            evidence_count=self._settings.evidence_count,
            model_free=request.model_free,
            max_answer_tokens=self._bounds.max_answer_tokens,
            model_deadline_seconds=self._bounds.deadline_seconds,
        )


def _knowledge_base_ids(names: Sequence[str]) -> tuple[str, ...]:
    identifiers = tuple(dict.fromkeys(knowledge_base_id_of(name, field="knowledge_bases") for name in names))
    if len(identifiers) > _MAX_KNOWLEDGE_BASES:
        raise InvalidArgumentError(
            "KNOWLEDGE_BASES_INVALID",
            f"name at most {_MAX_KNOWLEDGE_BASES} knowledge bases",
            field="knowledge_bases",
        )
    return identifiers


def _check_query(query: str, field: str, settings: RetrieveSettings) -> None:
    if not query.strip():
        raise InvalidArgumentError("QUERY_EMPTY", f"{field} is empty; ask something", field=field)
    if len(query) > settings.max_query_characters:
        raise InvalidArgumentError(
            "QUERY_TOO_LONG",
            f"{field} takes at most {settings.max_query_characters:,} characters",
            field=field,
            limit=settings.max_query_characters,
        )


def _fingerprint(request: pb.SearchChunksRequest) -> str:
    own = pb.SearchChunksRequest()
    own.CopyFrom(request)
    own.page_token = ""
    own.page_size = 0
    own.explain = False
    return fingerprint_of(own.SerializeToString(deterministic=True))


def _snapshot_names(outcome: SearchOutcome) -> list[str]:
    return [f"knowledgeBases/{key}/snapshots/{value}" for key, value in outcome.snapshots.items() if value]


def _citations(
    labels: Sequence[int], result: AnswerResult, hits: dict[str, RankedCandidate]
) -> list[answer_pb.Citation]:
    records = {piece.label: piece.record_id for piece in result.evidence}
    return [answer_pb.Citation(marker=label, hit=hit_to_wire(hits[records[label]])) for label in labels]
