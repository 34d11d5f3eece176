"""Handlers of `ConversationService`."""

import base64
import binascii
import hashlib
import json
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

_MAX_TITLE_CHARACTERS = 200
_DEFAULT_PAGE_SIZE = 50
_MAX_PAGE_SIZE = 500
_MAX_MESSAGE_PAGE_SIZE = 200
_MAX_PAGE_BYTES = 3 * 1024 * 1024
_MAX_TOKEN_CHARACTERS = 400
_ID_CHARACTERS = 24
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
        size = _page_size_of(request.page_size, _MAX_PAGE_SIZE)
        after = _read_token("conversations", request.page_token) if request.page_token else None
        last = _row_of(after) if after is not None else None
        rows = await self._tools.store.list(require_call().identity, last, size + 1)
        page = rows[:size]
        more = ""
        if len(rows) > size:
            more = _make_token("conversations", [_microseconds_of(page[-1].update_time), page[-1].conversation_id])
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
        size = _page_size_of(request.page_size, _MAX_MESSAGE_PAGE_SIZE)
        after = -1
        if request.page_token:
            (after,) = _positions_of(_read_token(request.parent, request.page_token))
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
        more = _make_token(request.parent, [rows[len(messages) - 1].position]) if len(rows) > len(messages) else ""
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


def _page_size_of(page_size: int, max_page_size: int) -> int:
    if page_size < 0:
        raise InvalidArgumentError("PAGE_SIZE_INVALID", "page_size must not be negative", field="page_size")
    return min(page_size or _DEFAULT_PAGE_SIZE, max_page_size)


def _make_token(listing: str, key: list[int | str]) -> str:
    text = json.dumps([hashlib.sha256(listing.encode()).hexdigest()[:8], *key], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_token(listing: str, token: str) -> list[Any]:
    try:
        if len(token) > _MAX_TOKEN_CHARACTERS:
            raise ValueError
        content = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        if not isinstance(content, list) or content[:1] != [hashlib.sha256(listing.encode()).hexdigest()[:8]]:
            raise ValueError
    except (ValueError, binascii.Error, RecursionError) as error:
        raise _token_invalid() from error
    return content[1:]


def _positions_of(key: list[Any]) -> tuple[int]:
    match key:
        case [int(position)] if 0 <= position < 2**31:
            return (position,)
    raise _token_invalid()


def _row_of(key: list[Any]) -> ConversationRow:
    match key:
        case [int(microseconds), str(identifier)] if 0 <= microseconds < 2**53 and "\x00" not in identifier:
            moment = _EPOCH + timedelta(microseconds=microseconds)
            return ConversationRow(identifier, "", (), 0, moment, moment)
    raise _token_invalid()


def _microseconds_of(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _token_invalid() -> InvalidArgumentError:
    return InvalidArgumentError(
        "PAGE_TOKEN_INVALID",
        "page_token must be the next_page_token of the same listing; leave it empty for the first page",
        field="page_token",
    )
