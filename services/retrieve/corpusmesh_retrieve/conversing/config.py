"""Settings of conversations."""

from pydantic import Field

from corpusmesh_core.ports.conversations import ConversationBounds
from corpusmesh_retrieve.conversing.history import HistoryBounds
from corpusmesh_runtime.config import Section


class ConversationSettings(Section):
    """What a user may keep, and how much of it goes into the next question."""

    max_conversations_per_user: int = Field(default=1000, ge=1)
    """Conversations of a user; one more is refused."""
    max_messages: int = Field(default=1000, ge=2)
    """Messages of a conversation, questions and answers; one more question is refused."""
    max_history_turns: int = Field(default=12, ge=0, le=50)
    """Messages before a question that are its history."""
    max_history_tokens: int = Field(default=2000, ge=0)
    """Tokens of those messages, estimated from their characters; the newest count first."""

    def bounds(self) -> ConversationBounds:
        """Give what the store needs.

        Returns:
            The bounds.
        """
        return ConversationBounds(self.max_conversations_per_user, self.max_messages)

    def history_bounds(self) -> HistoryBounds:
        """Give what the selection of a history needs.

        Returns:
            The bounds.
        """
        return HistoryBounds(self.max_history_turns, self.max_history_tokens)
