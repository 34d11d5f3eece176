"""gRPC handlers of questions: they connect wire messages to the searcher and the answerer."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

from corpusmesh.retrieve.v1 import answer_service_pb2 as answer_pb
from corpusmesh.retrieve.v1.answer_service_pb2_grpc import AnswerServiceServicer
from corpusmesh_core.errors import InvalidArgumentError, OverloadedError
from corpusmesh_retrieve.answering import Answerer, AnswerOptions, AnswerResult
from corpusmesh_retrieve.answering.citing import citations_to_wire, resolved_citations
from corpusmesh_retrieve.answering.feed import Feed
from corpusmesh_retrieve.asking import SessionOpener
from corpusmesh_retrieve.config import RetrieveSettings
from corpusmesh_retrieve.conversing import AnswerOrigin, Conversations, ConversationTurn
from corpusmesh_retrieve.convert import condition_to_wire, metadata_of
from corpusmesh_retrieve.explaining import stage_to_wire
from corpusmesh_retrieve.ledger import Recorder
from corpusmesh_retrieve.outcome import SearchOutcome, SearchRequest
from corpusmesh_retrieve.request_checks import check_query, knowledge_base_ids_of, snapshot_names
from corpusmesh_retrieve.searching import Searcher
from corpusmesh_runtime.context import CallContext, require_call
from corpusmesh_runtime.retrieval_plans import make_plan
from corpusmesh_runtime.tenant_slots import BUSY_RETRY_SECONDS, TenantSlots

_MIN_EVIDENCE_TOKENS = 100
_MAX_EVIDENCE_TOKENS = 100_000


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
        conversations: Conversations,
        recorder: Recorder | None = None,
    ) -> None:
        """Create the handlers.

        Args:
            searcher: Runs searches.
            answerer: Writes answers.
            settings: Defaults and bounds.
            bounds: Bounds of the language model.
            open_session: Gives a request its access to the language model.
            conversations: Gives a question what came before it, and keeps what becomes of it.
            recorder: Records searches of knowledge bases that keep a ledger; None to record nothing.
        """
        self._open_session = open_session
        self._searcher = searcher
        self._answerer = answerer
        self._settings = settings
        self._bounds = bounds
        self._conversations = conversations
        self._recorder = recorder
        self._slots = TenantSlots(settings.max_concurrent_answers, busy=_busy)

    async def AnswerQuestion(  # noqa: N802 - named by the contract
        self,
        request: answer_pb.AnswerQuestionRequest,
        context: Any,  # noqa: ARG002 - given by gRPC
    ) -> AsyncGenerator[answer_pb.AnswerQuestionResponse]:
        """See the contract."""
        with self._slots.taken(require_call().identity.tenant_id):
            # Closed at once with the stream, so that a caller that leaves ends the model's work too.
            async with aclosing(self._answer(request)) as pieces:
                async for piece in pieces:
                    yield piece

    async def _answer(
        self, request: answer_pb.AnswerQuestionRequest
    ) -> AsyncGenerator[answer_pb.AnswerQuestionResponse]:
        call = require_call()
        named = knowledge_base_ids_of(request.knowledge_bases)
        check_query(request.question, "question", self._settings)
        options = self._options(request)
        async with (
            self._conversations.turn(call, request, named) as turn,
            aclosing(self._answer_turn(call, request, options, turn)) as pieces,
        ):
            async for piece in pieces:
                yield piece

    async def _answer_turn(
        self,
        call: CallContext,
        request: answer_pb.AnswerQuestionRequest,
        options: AnswerOptions,
        turn: ConversationTurn,
    ) -> AsyncGenerator[answer_pb.AnswerQuestionResponse]:
        feed = Feed()
        found: list[SearchOutcome] = []
        search = self._searcher.search(call, self._search_request(request, options, turn, feed))
        async with aclosing(feed.during(search, found)) as messages:
            async for stage, message in messages:
                yield _progress(stage, message)
        outcome = found[0]
        retrieval = await self._record(call, request, outcome, options, turn)
        result = self._answerer.gather(outcome.question, outcome, options)
        result.notes.extend(outcome.notes)
        hits = {item.candidate.record.record_id: item for item in outcome.kept}
        turn.found(
            AnswerOrigin(
                knowledge_base_ids=tuple(outcome.snapshots),
                records={piece.record_id: hits[piece.record_id].candidate.record for piece in result.evidence},
                from_history=outcome.question != request.question,
            )
        )
        yield answer_pb.AnswerQuestionResponse(
            evidence=answer_pb.EvidenceList(
                evidence=citations_to_wire([piece.label for piece in result.evidence], result, outcome),
                snapshots=snapshot_names(outcome),
            )
        )
        async with (
            aclosing(self._answerer.write(call, outcome.question, outcome, options, result)) as texts,
            aclosing(feed.along(texts)) as pieces,
        ):
            async for piece in pieces:
                if isinstance(piece, str):
                    turn.say(piece)
                    yield answer_pb.AnswerQuestionResponse(text_delta=piece)
                else:
                    yield _progress(*piece)
        summary = summary_to_wire(result, outcome, await resolved_citations(result, outcome), retrieval)
        turn.finish(summary)
        yield answer_pb.AnswerQuestionResponse(summary=summary)

    def _search_request(
        self, request: answer_pb.AnswerQuestionRequest, options: AnswerOptions, turn: ConversationTurn, feed: Feed
    ) -> SearchRequest:
        identifiers = turn.knowledge_base_ids
        return SearchRequest(
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
            history=turn.history,
            notify=feed.tell,
        )

    async def _record(
        self,
        call: CallContext,
        request: answer_pb.AnswerQuestionRequest,
        outcome: SearchOutcome,
        options: AnswerOptions,
        turn: ConversationTurn,
    ) -> str:
        if self._recorder is None:
            return ""
        return await self._recorder.record(
            call,
            request.plan,
            outcome,
            outcome.kept[: options.evidence_count],
            page_size=options.evidence_count,
            is_answer=True,
            history_sources=turn.history_sources,
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


def summary_to_wire(
    result: AnswerResult, outcome: SearchOutcome, citations: Sequence[answer_pb.Citation], retrieval: str = ""
) -> answer_pb.AnswerSummary:
    """Write how an answer was made.

    Args:
        result: The answer.
        outcome: What was searched, with the reports of all steps.
        citations: What the answer cites.
        retrieval: Name in the ledger; "" where it was not recorded.

    Returns:
        The wire message.
    """
    summary = answer_pb.AnswerSummary
    return summary(
        text=result.text,
        citations=citations,
        method=summary.METHOD_MODEL if result.by_model else summary.METHOD_EXTRACTIVE,
        abstained=result.abstained,
        dropped_marker_count=result.dropped_marker_count,
        unsupported_citation_count=result.unsupported_citation_count,
        notes=list(dict.fromkeys(result.notes)),
        statements=[
            answer_pb.StatementSupport(statement=one.text, markers=one.labels, support=one.support)
            for one in result.statements
        ],
        confidence=result.confidence,
        standalone_question=outcome.question if outcome.question != outcome.request.query else "",
        stages=[stage_to_wire(report) for report in outcome.stages],
        inferred_conditions=[condition_to_wire(condition) for condition in outcome.inferred],
        retrieval=retrieval,
    )


def _progress(stage: str, message: str) -> answer_pb.AnswerQuestionResponse:
    return answer_pb.AnswerQuestionResponse(progress=answer_pb.AnswerProgress(stage=stage, message=message))


def _busy() -> OverloadedError:
    return OverloadedError(
        "ANSWERS_BUSY",
        "too many answers are being made; try again shortly",
        retry_delay_seconds=BUSY_RETRY_SECONDS,
    )
