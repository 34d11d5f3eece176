"""Conversations and their messages: tables `conversations` and `messages`, row security by tenant, rights by user."""

from collections.abc import Sequence

import asyncpg

from corpusmesh_adapters.postgres.database import Connection, Database
from corpusmesh_core.errors import AlreadyExistsError, FailedPreconditionError, InvalidArgumentError, NotFoundError
from corpusmesh_core.ports.conversations import (
    AcceptedQuestion,
    ConversationBounds,
    ConversationRow,
    KeptAnswer,
    MessageRow,
)
from corpusmesh_core.tenancy.identity import Identity

_TITLE_CHARACTERS = 80


class PostgresConversationStore:
    """`ConversationStore` on Postgres."""

    def __init__(self, database: Database) -> None:
        """Create it.

        Args:
            database: The pool.
        """
        self._database = database

    async def create(
        self,
        identity: Identity,
        conversation_id: str,
        *,
        title: str,
        knowledge_base_ids: Sequence[str],
        bounds: ConversationBounds,
    ) -> ConversationRow:
        """See `ConversationStore`.

        Args:
            identity: Caller, whose it becomes.
            conversation_id: Its id.
            title: Title for people.
            knowledge_base_ids: What is asked where a question names none.
            bounds: What a user may keep.

        Returns:
            The conversation.

        Raises:
            AlreadyExistsError: If somebody else has one of that id.
            FailedPreconditionError: CONVERSATIONS_TOO_MANY.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            # Of two calls at once, both count.
            await connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))",
                f"conversations/{identity.tenant_id}/{identity.user_id}",
            )
            known = await connection.fetchrow(
                "SELECT * FROM corpusmesh.conversations WHERE tenant_id = $1 AND conversation_id = $2",
                identity.tenant_id,
                conversation_id,
            )
            if known is not None:
                if known["user_id"] != identity.user_id:
                    raise AlreadyExistsError("CONVERSATION_EXISTS", "the id is taken; send another request id")
                return _to_conversation(known)
            count = await connection.fetchval(
                "SELECT count(*) FROM corpusmesh.conversations WHERE tenant_id = $1 AND user_id = $2",
                identity.tenant_id,
                identity.user_id,
            )
            if count >= bounds.max_conversations:
                raise FailedPreconditionError(
                    "CONVERSATIONS_TOO_MANY",
                    f"a user keeps at most {bounds.max_conversations} conversations; delete some",
                    limit=bounds.max_conversations,
                )
            row = await connection.fetchrow(
                "INSERT INTO corpusmesh.conversations (tenant_id, conversation_id, user_id, title, knowledge_base_ids)"
                " VALUES ($1, $2, $3, $4, $5) RETURNING *",
                identity.tenant_id,
                conversation_id,
                identity.user_id,
                title,
                list(knowledge_base_ids),
            )
            assert row is not None
            return _to_conversation(row)

    async def get(self, identity: Identity, conversation_id: str) -> ConversationRow:
        """See `ConversationStore`.

        Args:
            identity: Caller.
            conversation_id: The conversation.

        Returns:
            The conversation.

        Raises:
            NotFoundError: If it is unknown or somebody else's.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            return _to_conversation(await _require(connection, identity, conversation_id))

    async def list(self, identity: Identity, after: ConversationRow | None, limit: int) -> Sequence[ConversationRow]:
        """See `ConversationStore`.

        Args:
            identity: Caller.
            after: Last of the page before; None for the first page.
            limit: Most conversations.

        Returns:
            Conversations, the last used first.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            rows = await connection.fetch(
                "SELECT * FROM corpusmesh.conversations WHERE tenant_id = $1 AND user_id = $2"
                " AND ($3::timestamptz IS NULL OR update_time < $3 OR (update_time = $3 AND conversation_id > $4))"
                " ORDER BY update_time DESC, conversation_id LIMIT $5",
                identity.tenant_id,
                identity.user_id,
                after.update_time if after is not None else None,
                after.conversation_id if after is not None else "",
                limit,
            )
        return [_to_conversation(row) for row in rows]

    async def delete(self, identity: Identity, conversation_id: str) -> None:
        """See `ConversationStore`.

        Args:
            identity: Caller.
            conversation_id: The conversation.

        Raises:
            NotFoundError: If it is unknown or somebody else's.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await _require(connection, identity, conversation_id, lock="FOR UPDATE")
            await connection.execute(
                "DELETE FROM corpusmesh.conversations WHERE tenant_id = $1 AND conversation_id = $2",
                identity.tenant_id,
                conversation_id,
            )

    async def list_messages(
        self, identity: Identity, conversation_id: str, after_position: int, limit: int
    ) -> Sequence[MessageRow]:
        """See `ConversationStore`.

        Args:
            identity: Caller.
            conversation_id: The conversation.
            after_position: Last position of the page before; -1 for the first page.
            limit: Most messages.

        Returns:
            Messages, oldest first.

        Raises:
            NotFoundError: If the conversation is unknown or somebody else's.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await _require(connection, identity, conversation_id)
            rows = await connection.fetch(
                "SELECT * FROM corpusmesh.messages WHERE tenant_id = $1 AND conversation_id = $2 AND position > $3"
                " ORDER BY position LIMIT $4",
                identity.tenant_id,
                conversation_id,
                after_position,
                limit,
            )
        return [_to_message(row) for row in rows]

    async def last_messages(
        self, identity: Identity, conversation_id: str, before_position: int, limit: int
    ) -> Sequence[MessageRow]:
        """See `ConversationStore`.

        Args:
            identity: Caller.
            conversation_id: The conversation.
            before_position: Only messages before it.
            limit: Most messages.

        Returns:
            Messages, newest first.

        Raises:
            NotFoundError: If the conversation is unknown or somebody else's.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await _require(connection, identity, conversation_id)
            rows = await connection.fetch(
                "SELECT * FROM corpusmesh.messages WHERE tenant_id = $1 AND conversation_id = $2 AND position < $3"
                " ORDER BY position DESC LIMIT $4",
                identity.tenant_id,
                conversation_id,
                before_position,
                limit,
            )
        return [_to_message(row) for row in rows]

    async def accept(
        self, identity: Identity, conversation_id: str, question: str, request_id: str, bounds: ConversationBounds
    ) -> AcceptedQuestion:
        """See `ConversationStore`; the answer's place is kept at once, so that no other question takes it.

        Args:
            identity: Caller.
            conversation_id: The conversation.
            question: What was asked.
            request_id: Names the question.
            bounds: What a user may keep.

        Returns:
            The question's place.

        Raises:
            NotFoundError: If the conversation is unknown or somebody else's.
            InvalidArgumentError: REQUEST_ID_REUSED if the id named another question.
            FailedPreconditionError: CONVERSATION_FULL.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            conversation = await _require(connection, identity, conversation_id, lock="FOR UPDATE")
            known = await connection.fetchrow(
                "SELECT position, text FROM corpusmesh.messages"
                " WHERE tenant_id = $1 AND conversation_id = $2 AND request_id = $3 AND request_id <> ''",
                identity.tenant_id,
                conversation_id,
                request_id,
            )
            if known is not None:
                if known["text"] != question:
                    raise InvalidArgumentError(
                        "REQUEST_ID_REUSED",
                        "the request id was used for another request; take a new one",
                        field="request_id",
                    )
                return AcceptedQuestion(known["position"], tuple(conversation["knowledge_base_ids"]))
            position = int(conversation["message_count"])
            if position + 2 > bounds.max_messages:
                raise FailedPreconditionError(
                    "CONVERSATION_FULL",
                    f"a conversation takes at most {bounds.max_messages} messages; begin another",
                    limit=bounds.max_messages,
                )
            await connection.execute(
                "INSERT INTO corpusmesh.messages"
                " (tenant_id, conversation_id, position, speaker, text, request_id, is_partial)"
                " VALUES ($1, $2, $3, 'user', $4, $5, false), ($1, $2, $3 + 1, 'assistant', '', '', true)",
                identity.tenant_id,
                conversation_id,
                position,
                question,
                request_id,
            )
            await connection.execute(
                "UPDATE corpusmesh.conversations SET message_count = message_count + 2, update_time = now(),"
                " title = CASE WHEN title = '' THEN $3 ELSE title END"
                " WHERE tenant_id = $1 AND conversation_id = $2",
                identity.tenant_id,
                conversation_id,
                _title_of(question),
            )
            return AcceptedQuestion(position, tuple(conversation["knowledge_base_ids"]))

    async def keep_answer(self, identity: Identity, conversation_id: str, position: int, answer: KeptAnswer) -> None:
        """See `ConversationStore`; a source that is being deleted takes the text along.

        Args:
            identity: Caller.
            conversation_id: The conversation.
            position: The answer's place.
            answer: What to keep.
        """
        sources = sorted(set(answer.sources))
        async with self._database.tenant(identity.tenant_id) as connection:
            is_gone = await connection.fetchval(
                "SELECT EXISTS (SELECT FROM corpusmesh.versions v"
                " JOIN corpusmesh.documents d USING (tenant_id, knowledge_base_id, document_id)"
                " JOIN corpusmesh.knowledge_bases k USING (tenant_id, knowledge_base_id)"
                " WHERE v.tenant_id = $1 AND v.ordinal = ANY ($2::int[])"
                " AND (v.state IN ('purged', 'cancelled') OR d.state <> 'active' OR k.state <> 'active'))",
                identity.tenant_id,
                sources,
            )
            await connection.execute(
                "UPDATE corpusmesh.messages m SET text = $5, citations = $6, knowledge_base_ids = $7, sources = $8,"
                " is_partial = NOT $9, is_erased = $10, create_time = now()"
                " FROM corpusmesh.conversations c"
                " WHERE m.tenant_id = $1 AND m.conversation_id = $3 AND m.position = $4 AND m.speaker = 'assistant'"
                " AND (m.is_partial OR $9) AND c.tenant_id = m.tenant_id AND c.conversation_id = m.conversation_id"
                " AND c.user_id = $2",
                identity.tenant_id,
                identity.user_id,
                conversation_id,
                position,
                "" if is_gone else answer.text,
                [] if is_gone else [dict(citation) for citation in answer.citations],
                list(answer.knowledge_base_ids),
                sources,
                answer.is_whole,
                is_gone,
            )


async def _require(
    connection: Connection, identity: Identity, conversation_id: str, *, lock: str = ""
) -> asyncpg.Record:
    row = await connection.fetchrow(
        "SELECT * FROM corpusmesh.conversations"  # noqa: S608 - `lock` is a constant of this module
        f" WHERE tenant_id = $1 AND conversation_id = $2 AND user_id = $3 {lock}",
        identity.tenant_id,
        conversation_id,
        identity.user_id,
    )
    if row is None:
        raise NotFoundError(
            "CONVERSATION_NOT_FOUND", "there is no such conversation, or it is not yours; list the ones you have"
        )
    return row


def _title_of(question: str) -> str:
    flat = " ".join(question.split())
    return flat if len(flat) <= _TITLE_CHARACTERS else flat[: _TITLE_CHARACTERS - 1] + "…"


def _to_conversation(row: asyncpg.Record) -> ConversationRow:
    return ConversationRow(
        conversation_id=row["conversation_id"],
        title=row["title"],
        knowledge_base_ids=tuple(row["knowledge_base_ids"]),
        message_count=row["message_count"],
        create_time=row["create_time"],
        update_time=row["update_time"],
    )


def _to_message(row: asyncpg.Record) -> MessageRow:
    return MessageRow(
        position=row["position"],
        is_user=row["speaker"] == "user",
        text=row["text"],
        citations=tuple(row["citations"]),
        knowledge_base_ids=tuple(row["knowledge_base_ids"]),
        sources=tuple(row["sources"]),
        is_erased=row["is_erased"],
        is_partial=row["is_partial"],
        create_time=row["create_time"],
    )
