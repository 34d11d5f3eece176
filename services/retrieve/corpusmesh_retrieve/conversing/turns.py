"""One question in a conversation: what came before it, and keeping what becomes of it.

The question is stored when it is accepted, with a place for its answer; the answer when its making ends, whole or
broken off. A question that comes again under the same request id takes the same place (invariant 1 of the design).
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format

from corpusmesh.retrieve.v1 import answer_service_pb2 as pb
from corpusmesh_core.errors import CorpusMeshError, InvalidArgumentError
from corpusmesh_core.ports.conversations import AcceptedQuestion, KeptAnswer
from corpusmesh_core.records import Record
from corpusmesh_retrieve.conversing.handlers import ConversationTools
from corpusmesh_retrieve.conversing.history import History, select_history
from corpusmesh_retrieve.conversing.names import conversation_id_of
from corpusmesh_retrieve.conversing.visible import VisibleSources
from corpusmesh_retrieve.convert import history_of
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.logging import get_logger

_KEEP_TIMEOUT_SECONDS = 5.0
_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,64}")
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AnswerOrigin:
    """What an answer is made from.

    Attributes:
        knowledge_base_ids: Knowledge bases that were searched.
        records: Records whose text the answer is made from, by record id.
        from_history: Whether the turns before had a part in it, as where they made a stand-alone question of it.
    """

    knowledge_base_ids: tuple[str, ...] = ()
    records: Mapping[str, Record] | None = None
    from_history: bool = False


class ConversationTurn:
    """A question that is being answered.

    Attributes:
        history: Turns before it, oldest first.
        history_sources: Ordinals that those turns were made from.
        knowledge_base_ids: What is asked: the request's knowledge bases, else the conversation's, else none.
    """

    def __init__(self, knowledge_base_ids: Sequence[str], history: History) -> None:
        """Create the turn.

        Args:
            knowledge_base_ids: What is asked.
            history: What came before it.
        """
        self.knowledge_base_ids = tuple(knowledge_base_ids)
        self.history = history.turns
        self.history_sources = history.sources
        self._past = history
        self._origin = AnswerOrigin()
        self._texts: list[str] = []
        self._summary: pb.AnswerSummary | None = None

    def found(self, origin: AnswerOrigin) -> None:
        """Note what the answer is made from; before the first word of it.

        Args:
            origin: What it is made from.
        """
        self._origin = origin

    def say(self, text: str) -> None:
        """Note the next piece of the text, so that an answer that breaks off is kept as far as it came.

        Args:
            text: The piece.
        """
        self._texts.append(text)

    def finish(self, summary: pb.AnswerSummary) -> None:
        """Note that the answer is whole.

        Args:
            summary: The end of the answer.
        """
        self._summary = summary

    def answer(self) -> KeptAnswer:
        """Give what is to be kept.

        Returns:
            The answer as far as it came. A model may have used all that it was shown; an answer in the words of its
            evidence is made from what it cites alone.
        """
        summary = self._summary
        records = dict(self._origin.records or {})
        if summary is not None and summary.method == pb.AnswerSummary.METHOD_EXTRACTIVE:
            cited = {citation.hit.record_id for citation in summary.citations}
            records = {record_id: record for record_id, record in records.items() if record_id in cited}
        sources = {int(source) for record in records.values() for source in record.sources}
        knowledge_base_ids = self._origin.knowledge_base_ids
        if self._origin.from_history:
            sources.update(self._past.sources)
            knowledge_base_ids = tuple(dict.fromkeys((*knowledge_base_ids, *self._past.knowledge_base_ids)))
        return KeptAnswer(
            text=_without_nul(summary.text if summary is not None else "".join(self._texts)),
            citations=tuple(_shape_of(citation) for citation in summary.citations) if summary is not None else (),
            knowledge_base_ids=knowledge_base_ids,
            sources=tuple(sorted(sources)),
            is_whole=summary is not None,
        )


class Conversations:
    """Gives the answering of questions their conversations."""

    def __init__(self, tools: ConversationTools) -> None:
        """Create it.

        Args:
            tools: What it stands on.
        """
        self._store = tools.store
        self._snapshots = tools.snapshots
        self._settings = tools.settings
        self._keeping: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def turn(
        self, call: CallContext, request: pb.AnswerQuestionRequest, knowledge_base_ids: Sequence[str]
    ) -> AsyncIterator[ConversationTurn]:
        """Accept a question, and keep what has become of it at the end, however that comes.

        Args:
            call: The call.
            request: The question; its `conversation` may be empty, and nothing is kept then.
            knowledge_base_ids: Knowledge bases that the request names.

        Yields:
            The turn.

        Raises:
            NotFoundError: If the conversation is unknown or somebody else's.
            InvalidArgumentError: If the request names a conversation and a history, or a name is malformed.
        """
        if not request.conversation:
            yield ConversationTurn(knowledge_base_ids, History(history_of(request.history)))
            return
        if request.history:
            raise InvalidArgumentError(
                "HISTORY_AND_CONVERSATION", "give a history or a conversation, not both", field="history"
            )
        conversation_id = conversation_id_of(request.conversation, field="conversation")
        accepted = await self._store.accept(
            call.identity,
            conversation_id,
            request.question,
            _request_id_of(call, request),
            self._settings.bounds(),
        )
        turn = await self._turn_of(call, conversation_id, accepted, knowledge_base_ids)
        try:
            yield turn
        finally:
            await self._keep(call, conversation_id, accepted, turn)

    async def _turn_of(
        self, call: CallContext, conversation_id: str, accepted: AcceptedQuestion, knowledge_base_ids: Sequence[str]
    ) -> ConversationTurn:
        bounds = self._settings.history_bounds()
        rows = await self._store.last_messages(
            call.identity, conversation_id, accepted.position, max(1, bounds.max_turns)
        )
        visible = VisibleSources(self._snapshots, call.identity)
        history = select_history([await visible.past_message(row) for row in rows], bounds)
        return ConversationTurn(tuple(knowledge_base_ids) or accepted.knowledge_base_ids, history)

    async def _keep(
        self, call: CallContext, conversation_id: str, accepted: AcceptedQuestion, turn: ConversationTurn
    ) -> None:
        async def keep() -> None:
            try:
                async with asyncio.timeout(_KEEP_TIMEOUT_SECONDS):
                    await self._store.keep_answer(call.identity, conversation_id, accepted.position + 1, turn.answer())
            except (CorpusMeshError, TimeoutError) as error:
                # The caller has its answer; that it is not kept shows in the conversation, as one that is not whole.
                reason = error.reason if isinstance(error, CorpusMeshError) else "KEEP_DEADLINE"
                _log.warning("answer not kept", reason=reason, request_id=call.request_id)

        # A caller that leaves cancels this task; what was made by then is kept all the same. The loop itself holds
        # tasks weakly.
        keeping = asyncio.create_task(keep())
        self._keeping.add(keeping)
        keeping.add_done_callback(self._keeping.discard)
        await asyncio.shield(keeping)


def _request_id_of(call: CallContext, request: pb.AnswerQuestionRequest) -> str:
    request_id = request.request_id or call.request_id
    if not _REQUEST_ID.fullmatch(request_id):
        raise InvalidArgumentError(
            "REQUEST_ID_INVALID", "request_id takes at most 64 printable characters", field="request_id"
        )
    return request_id


def _shape_of(citation: pb.Citation) -> dict[str, object]:
    shape: dict[str, object] = _clean(json_format.MessageToDict(citation))
    return shape


def _clean(value: Any) -> Any:
    """Take out the one character that JSON in Postgres cannot hold."""
    if isinstance(value, str):
        return _without_nul(value)
    if isinstance(value, dict):
        return {key: _clean(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_clean(entry) for entry in value]
    return value


def _without_nul(text: str) -> str:
    return text.replace("\x00", "")
