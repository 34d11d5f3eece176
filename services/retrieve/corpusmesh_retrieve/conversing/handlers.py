"""Handlers of `ConversationService`."""

import hashlib
import re
import secrets
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from corpusmesh.retrieve.v1 import conversation_service_pb2 as pb
from corpusmesh.retrieve.v1.conversation_service_pb2_grpc import ConversationServiceServicer
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.conversations import ConversationRow, ConversationStore
from corpusmesh_core.ports.metadata import KnowledgeBaseStore, SnapshotStore
from corpusmesh_core.tenancy import Access, Identity
from corpusmesh_retrieve.conversing.config import ConversationSettings
from corpusmesh_retrieve.conversing.names import conversation_id_of, conversation_to_wire, message_to_wire
from corpusmesh_retrieve.conversing.visible import VisibleSources
from corpusmesh_retrieve.request_checks import knowledge_base_ids_of
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.page_tokens import (
    checked_page_size,
    make_page_token,
    page_token_invalid,
    read_page_number,
    read_page_token,
)

_MAX_TITLE_CHARACTERS = 200
_LISTING = "conversations"
_MAX_PAGE_SIZE = 500
_MAX_MESSAGE_PAGE_SIZE = 200
_MAX_PAGE_BYTES = 3 * 1024 * 1024
_ID_CHARACTERS = 24
_KEY = re.compile(r"([0-9]{1,16})\.([a-z0-9-]{1,63})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ConversationTools:
    """What the handlers stand on.

    Attributes:
        store: Keeps conversations.
        snapshots: Knows what a caller may see now.
        knowledge_bases: Knows who may read a knowledge base.
        settings: Bounds.
    """

    store: ConversationStore
    snapshots: SnapshotStore
    knowledge_bases: KnowledgeBaseStore
    settings: ConversationSettings


class ConversationHandlers(ConversationServiceServicer):
    """Conversations of the caller."""

    def __init__(self, tools: ConversationTools) -> None:
        """Create the handlers.

        Args:
            tools: What they stand on.
        """
        self._tools = tools

    async def CreateConversation(self, request: pb.CreateConversationRequest, context: Any) -> pb.Conversation:
        """See the contract."""
        identity = require_call().identity
        wanted = request.conversation
        title = " ".join(wanted.title.split())
        if len(title) > _MAX_TITLE_CHARACTERS:
            raise InvalidArgumentError(
                "TITLE_TOO_LONG",
                f"a title takes at most {_MAX_TITLE_CHARACTERS} characters",
                field="conversation.title",
                limit=_MAX_TITLE_CHARACTERS,
            )
        knowledge_base_ids = knowledge_base_ids_of(wanted.knowledge_bases, field="conversation.knowledge_bases")
        if knowledge_base_ids:
            await self._tools.knowledge_bases.check(identity, knowledge_base_ids, Access.READ)
        row = await self._tools.store.create(
            identity,
            _new_id(identity, request.request_id),
            title=title,
            knowledge_base_ids=knowledge_base_ids,
            bounds=self._tools.settings.bounds(),
        )
        return conversation_to_wire(row)

    async def GetConversation(self, request: pb.GetConversationRequest, context: Any) -> pb.Conversation:
        """See the contract."""
        row = await self._tools.store.get(require_call().identity, conversation_id_of(request.name))
        return conversation_to_wire(row)

    async def ListConversations(
        self, request: pb.ListConversationsRequest, context: Any
    ) -> pb.ListConversationsResponse:
        """See the contract."""
        size = checked_page_size(request.page_size, max_page_size=_MAX_PAGE_SIZE)
        after = read_page_token(_LISTING, request.page_token)
        last = _row_of(after) if after else None
        rows = await self._tools.store.list(require_call().identity, last, size + 1)
        page = rows[:size]
        more = make_page_token(_LISTING, _key_of(page[-1])) if len(rows) > size else ""
        return pb.ListConversationsResponse(
            conversations=[conversation_to_wire(row) for row in page], next_page_token=more
        )

    async def DeleteConversation(
        self, request: pb.DeleteConversationRequest, context: Any
    ) -> pb.DeleteConversationResponse:
        """See the contract."""
        await self._tools.store.delete(require_call().identity, conversation_id_of(request.name))
        return pb.DeleteConversationResponse()

    async def ListMessages(self, request: pb.ListMessagesRequest, context: Any) -> pb.ListMessagesResponse:
        """See the contract."""
        identity = require_call().identity
        conversation_id = conversation_id_of(request.parent, field="parent")
        size = checked_page_size(request.page_size, max_page_size=_MAX_MESSAGE_PAGE_SIZE)
        after = read_page_number(request.parent, request.page_token, first=-1)
        rows = await self._tools.store.list_messages(identity, conversation_id, after, size + 1)
        visible = VisibleSources(self._tools.snapshots, identity)
        messages: list[pb.Message] = []
        byte_count = 0
        for row in rows[:size]:
            message = message_to_wire(conversation_id, row, is_shown=await visible.may_show(row))
            byte_count += message.ByteSize()
            if messages and byte_count > _MAX_PAGE_BYTES:
                break
            messages.append(message)
        more = ""
        if len(rows) > len(messages):
            more = make_page_token(request.parent, str(rows[len(messages) - 1].position))
        return pb.ListMessagesResponse(messages=messages, next_page_token=more)


def _new_id(identity: Identity, request_id: str) -> str:
    """Make an id; the same request of the same user gets the same one, so that sending it again is harmless."""
    if not request_id:
        return secrets.token_hex(_ID_CHARACTERS // 2)
    try:
        uuid.UUID(request_id)
    except ValueError as error:
        raise InvalidArgumentError("REQUEST_ID_INVALID", "request_id must be a UUID", field="request_id") from error
    seed = f"{identity.tenant_id}/{identity.user_id}/{request_id}"
    return hashlib.sha256(seed.encode()).hexdigest()[:_ID_CHARACTERS]


def _key_of(row: ConversationRow) -> str:
    return f"{(row.update_time - _EPOCH) // timedelta(microseconds=1)}.{row.conversation_id}"


def _row_of(key: str) -> ConversationRow:
    match = _KEY.fullmatch(key)
    if match is None:
        raise page_token_invalid()
    moment = _EPOCH + timedelta(microseconds=int(match.group(1)))
    return ConversationRow(match.group(2), "", (), 0, moment, moment)
