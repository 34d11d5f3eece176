"""The tree of questions of one research (the product's seed 000, section 4).

A question is asked once: one that has the terms of another, wherever in the tree, is not asked again.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from corpusmesh_core.citation.weights import telling_terms
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.research.budget import ResearchBudget
from corpusmesh_core.text import normalize

_ASKING: Final = frozenset({"who", "whom", "whose", "when", "where", "why", "how"})
"""Function words all, and yet "who built it" and "when was it built" ask for different things."""
_LETTERS: Final = re.compile(r"[a-z]+")
MAX_QUESTION_CHARACTERS: Final = 300
"""Longest sub-question; a longer one is no question."""
ROOT_ID: Final = "1"


class QuestionState(StrEnum):
    """What became of a question."""

    WAITING = "waiting"
    SEARCHING = "searching"
    FOUND = "found"
    SUFFICIENT = "sufficient"
    DECOMPOSED = "decomposed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class QuestionNode:
    """One question.

    Attributes:
        node_id: Its place: "1" for the first, "1.2" for the second that the first was taken apart into.
        text: The question.
        parent_id: The question it is a part of; "" for the first.
        level: Its level from 1.
        state: What became of it.
        found_count: Pieces of evidence that were found for it.
        new_count: Those of them that no question before had found.
        missing: What is missing to answer it.
        by_model: Whether a language model judged it.
        detail: Why it was stopped, or what did not answer.
    """

    node_id: str
    text: str
    parent_id: str = ""
    level: int = 1
    state: QuestionState = QuestionState.WAITING
    found_count: int = 0
    new_count: int = 0
    missing: tuple[str, ...] = ()
    by_model: bool = False
    detail: str = ""


class QuestionTree:
    """The questions of one research; grows within its budget."""

    def __init__(self, question: str, budget: ResearchBudget) -> None:
        """Plant the tree.

        Args:
            question: What was asked.
            budget: Bounds of levels, questions and children.
        """
        self._budget = budget
        self._nodes = {ROOT_ID: QuestionNode(ROOT_ID, question)}
        self._asked = {question_key(question)}
        self.is_full = False
        """Whether questions were left out because the budget of questions was spent."""

    @property
    def root(self) -> QuestionNode:
        """The question that was asked."""
        return self._nodes[ROOT_ID]

    @property
    def nodes(self) -> tuple[QuestionNode, ...]:
        """All questions: parents before their children, children in order."""
        return tuple(sorted(self._nodes.values(), key=lambda node: [int(part) for part in node.node_id.split(".")]))

    def node(self, node_id: str) -> QuestionNode:
        """Give a question as it is now.

        Args:
            node_id: Its place.

        Returns:
            The question.
        """
        return self._nodes[node_id]

    def update(self, node_id: str, **changes: Any) -> QuestionNode:
        """Change what is known of a question.

        Args:
            node_id: Its place.
            changes: Attributes of `QuestionNode`.

        Returns:
            The question as it is now.
        """
        self._nodes[node_id] = replace(self._nodes[node_id], **changes)
        return self._nodes[node_id]

    def restate(self, question: str) -> QuestionNode:
        """Put the first question in other words, such as those that a conversation left out.

        Args:
            question: The question.

        Returns:
            The first question as it is now.
        """
        self._asked.add(question_key(question))
        return self.update(ROOT_ID, text=question)

    def may_grow(self, node_id: str) -> bool:
        """Tell whether a question may be taken apart.

        Args:
            node_id: Its place.

        Returns:
            False at the lowest level, and where no further question may be asked.
        """
        return self._nodes[node_id].level < self._budget.max_depth and len(self._nodes) < self._budget.max_questions

    def add_children(self, node_id: str, questions: Iterable[str]) -> tuple[QuestionNode, ...]:
        """Add what a question is taken apart into.

        Args:
            node_id: The question.
            questions: Its parts, best first; what is empty, too long, or was asked already anywhere in the tree is left
                out.

        Returns:
            The new questions, with those before at most `max_children`; none at the lowest level.

        Raises:
            InvalidArgumentError: RESEARCH_NODE_UNKNOWN if there is no such question.
        """
        if node_id not in self._nodes:
            raise InvalidArgumentError("RESEARCH_NODE_UNKNOWN", "there is no such question", node=node_id)
        parent = self._nodes[node_id]
        if parent.level >= self._budget.max_depth:
            return ()
        child_count = sum(node.parent_id == node_id for node in self._nodes.values())
        added: list[QuestionNode] = []
        for text in questions:
            flat = " ".join(text.split())
            key = question_key(flat)
            if not flat or len(flat) > MAX_QUESTION_CHARACTERS or key in self._asked:
                continue
            if child_count + len(added) == self._budget.max_children:
                break
            if len(self._nodes) >= self._budget.max_questions:
                self.is_full = True
                break
            node = QuestionNode(f"{node_id}.{child_count + len(added) + 1}", flat, node_id, parent.level + 1)
            self._nodes[node.node_id] = node
            self._asked.add(key)
            added.append(node)
        return tuple(added)

    def open_questions(self) -> tuple[QuestionNode, ...]:
        """Name what the evidence does not answer.

        Returns:
            Questions without parts that were not found to be answered, in the order of `nodes`.
        """
        parents = {node.parent_id for node in self._nodes.values()}
        return tuple(
            node for node in self.nodes if node.node_id not in parents and node.state is not QuestionState.SUFFICIENT
        )


def question_key(question: str) -> frozenset[str]:
    """Say what makes a question the same as another.

    Args:
        question: The question.

    Returns:
        Its telling terms with what it asks for (who, when, …); for a question without any, its normalised text.
    """
    folded = normalize(" ".join(question.split()))
    return telling_terms(question) | _ASKING.intersection(_LETTERS.findall(folded)) or frozenset({folded})
