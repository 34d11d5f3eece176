"""What the mesh asks of the store of conversations.

A conversation is its user's alone: every method answers unknown and foreign alike (`NotFoundError`). The store knows
what an answer was made from (`sources`); who may see that now is decided where it is read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from corpusmesh_core.tenancy.identity import Identity


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """A conversation.

    Attributes:
        conversation_id: Its id.
        title: Title for people.
        knowledge_base_ids: What is asked where a question names none.
        message_count: Messages in it.
        create_time: When it was created.
        update_time: When the last question was asked.
    """

    conversation_id: str
    title: str
    knowledge_base_ids: tuple[str, ...]
    message_count: int
    create_time: datetime
    update_time: datetime


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A question or an answer.

    Attributes:
        position: Place in its conversation from 0; the answer of a question follows it.
        is_user: Whether the user said it.
        text: What was said; "" where it was erased.
        citations: What an answer cites, as the contract writes it.
        knowledge_base_ids: Knowledge bases that an answer was made from.
        sources: Ordinals that an answer was made from, ascending.
        is_erased: Whether a purge took the text along.
        is_partial: Whether an answer is not whole.
        create_time: When it was said.
    """

    position: int
    is_user: bool
    text: str
    citations: tuple[Mapping[str, object], ...]
    knowledge_base_ids: tuple[str, ...]
    sources: tuple[int, ...]
    is_erased: bool
    is_partial: bool
    create_time: datetime


@dataclass(frozen=True, slots=True)
class AcceptedQuestion:
    """A question that is stored, with the place of its answer.

    Attributes:
        position: Place of the question; its answer is the next.
        knowledge_base_ids: Those of the conversation.
    """

    position: int
    knowledge_base_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What is kept of an answer.

    Attributes:
        text: The text.
        citations: What it cites, as the contract writes it.
        knowledge_base_ids: Knowledge bases that it was made from.
        sources: Ordinals that it was made from.
        is_whole: Whether its making came to its end.
    """

    text: str
    citations: tuple[Mapping[str, object], ...] = ()
    knowledge_base_ids: tuple[str, ...] = ()
    sources: tuple[int, ...] = ()
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class ConversationBounds:
    """What a user may keep.

    Attributes:
        max_conversations: Conversations of a user.
        max_messages: Messages of a conversation.
    """

    max_conversations: int = 1000
    max_messages: int = 1000


class ConversationStore(Protocol):
    """Conversations and their messages."""

    async def create(
        self,
        identity: Identity,
        conversation_id: str,
        *,
        title: str,
        knowledge_base_ids: Sequence[str],
        bounds: ConversationBounds,
    ) -> ConversationRow:
        """Create a conversation of the caller; one of the same id and caller is given back as it is.

        Raises:
            AlreadyExistsError: If somebody else has one of that id.
            FailedPreconditionError: CONVERSATIONS_TOO_MANY.
        """
        ...

    async def get(self, identity: Identity, conversation_id: str) -> ConversationRow:
        """Read a conversation of the caller.

        Raises:
            NotFoundError: If it is unknown or somebody else's.
        """
        ...

    async def list(self, identity: Identity, after: ConversationRow | None, limit: int) -> Sequence[ConversationRow]:
        """List the caller's conversations after one, the last used first; of `after`, id and time of use count."""
        ...

    async def delete(self, identity: Identity, conversation_id: str) -> None:
        """Delete a conversation with its messages.

        Raises:
            NotFoundError: If it is unknown or somebody else's.
        """
        ...

    async def list_messages(
        self, identity: Identity, conversation_id: str, after_position: int, limit: int
    ) -> Sequence[MessageRow]:
        """List messages after a position (-1 for the first page), oldest first.

        Raises:
            NotFoundError: If the conversation is unknown or somebody else's.
        """
        ...

    async def last_messages(
        self, identity: Identity, conversation_id: str, before_position: int, limit: int
    ) -> Sequence[MessageRow]:
        """Give the messages before a position, newest first.

        Raises:
            NotFoundError: If the conversation is unknown or somebody else's.
        """
        ...

    async def accept(
        self, identity: Identity, conversation_id: str, question: str, request_id: str, bounds: ConversationBounds
    ) -> AcceptedQuestion:
        """Store a question and the place of its answer, once for a request id.

        Raises:
            NotFoundError: If the conversation is unknown or somebody else's.
            InvalidArgumentError: REQUEST_ID_REUSED if the id named another question.
            FailedPreconditionError: CONVERSATION_FULL.
        """
        ...

    async def keep_answer(self, identity: Identity, conversation_id: str, position: int, answer: KeptAnswer) -> None:
        """Keep the answer at its place: a whole one in place of any, another in place of one that is not whole.

        Nothing is kept of what was deleted meanwhile, nor of a conversation that was.
        """
        ...
