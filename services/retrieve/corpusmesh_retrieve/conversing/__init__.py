"""Conversations: what a question is continued from, and where question and answer are kept."""

from corpusmesh_retrieve.conversing.handlers import ConversationHandlers, ConversationTools
from corpusmesh_retrieve.conversing.history import History, HistoryBounds, PastMessage, select_history
from corpusmesh_retrieve.conversing.turns import AnswerOrigin, Conversations, ConversationTurn
from corpusmesh_retrieve.conversing.visible import VisibleSources

__all__ = [
    "AnswerOrigin",
    "ConversationHandlers",
    "ConversationTools",
    "ConversationTurn",
    "Conversations",
    "History",
    "HistoryBounds",
    "PastMessage",
    "VisibleSources",
    "select_history",
]
