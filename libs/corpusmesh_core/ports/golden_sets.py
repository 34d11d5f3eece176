"""What the mesh asks of the store of golden sets and of what was measured with them; rights as in `metadata`.

A question names in `sources` the versions that it was made from, or whose places it names: it goes with them when they
are purged.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from corpusmesh_core.evaluation.judging import GoldItem
from corpusmesh_core.tenancy.identity import Identity

MAX_QUESTIONS = 5_000
"""Most questions of a golden set."""
MAX_SETS = 100
"""Most golden sets of a knowledge base."""
KEPT_EVALUATIONS = 100
"""Evaluations of a golden set that are kept."""


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """Questions with known answers.

    Attributes:
        knowledge_base_id: Its knowledge base.
        golden_set_id: Its id.
        display_name: Name for people.
        question_count: Questions.
        create_user_id: Who made it.
        create_time: UTC.
        update_time: When questions were last added or removed, UTC.
    """

    knowledge_base_id: str
    golden_set_id: str
    display_name: str
    question_count: int
    create_user_id: str
    create_time: datetime
    update_time: datetime


@dataclass(frozen=True, slots=True)
class GoldenQuestion:
    """A question and what should be found for it.

    Attributes:
        question: The question.
        answers: Texts of which a good answer holds one.
        gold: What should be found; none for a question without an answer.
        sources: Ordinals that it was made from.
        position: Place in its set from 0; given by the store.
    """

    question: str
    answers: tuple[str, ...] = ()
    gold: tuple[GoldItem, ...] = ()
    sources: tuple[int, ...] = ()
    position: int = 0


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """What was measured.

    Attributes:
        knowledge_base_id: Its knowledge base.
        golden_set_id: Its golden set.
        evaluation_id: Id, rising with time.
        snapshot_id: Snapshot that was searched; 0 where nothing was published.
        results: JSON values, numbers and plans alone.
        create_user_id: Who measured.
        create_time: UTC.
    """

    knowledge_base_id: str
    golden_set_id: str
    evaluation_id: str
    snapshot_id: int
    results: Mapping[str, Any]
    create_user_id: str
    create_time: datetime


class GoldenSetStore(Protocol):
    """Golden sets and their questions; reading and writing are for those who may write to the knowledge base."""

    async def create(
        self,
        identity: Identity,
        knowledge_base_id: str,
        golden_set_id: str,
        *,
        display_name: str,
        questions: Sequence[GoldenQuestion],
    ) -> GoldenSet:
        """Make a set.

        Raises:
            NotFoundError: If the knowledge base is unknown or forbidden.
            AlreadyExistsError: If the set exists.
            FailedPreconditionError: GOLDEN_SETS_FULL or GOLDEN_SET_FULL at a bound.
        """
        ...

    async def append(
        self, identity: Identity, knowledge_base_id: str, golden_set_id: str, questions: Sequence[GoldenQuestion]
    ) -> GoldenSet:
        """Add questions.

        Raises:
            NotFoundError: If the set is unknown or forbidden.
            FailedPreconditionError: GOLDEN_SET_FULL if there would be too many.
        """
        ...

    async def get(self, identity: Identity, knowledge_base_id: str, golden_set_id: str) -> GoldenSet:
        """Read a set.

        Raises:
            NotFoundError: If it is unknown or forbidden.
        """
        ...

    async def list(self, identity: Identity, knowledge_base_id: str, after_key: str, limit: int) -> Sequence[GoldenSet]:
        """List sets by id."""
        ...

    async def questions(
        self, identity: Identity, knowledge_base_id: str, golden_set_id: str, *, after_position: int, limit: int
    ) -> Sequence[GoldenQuestion]:
        """Read questions behind a position (-1 for all), in order; the caller leaves out those with hidden gold.

        Raises:
            NotFoundError: If the set is unknown or forbidden.
        """
        ...

    async def delete(self, identity: Identity, knowledge_base_id: str, golden_set_id: str) -> None:
        """Delete a set with its questions and evaluations; one that is gone already is no error."""
        ...

    async def ordinals_of(
        self, tenant_id: str, knowledge_base_id: str, document_ids: Collection[str]
    ) -> Mapping[str, tuple[int, ...]]:
        """Give the ordinals of the versions of documents that are neither deleted nor purged, by document."""
        ...


class EvaluationStore(Protocol):
    """What was measured."""

    async def add(
        self,
        identity: Identity,
        knowledge_base_id: str,
        golden_set_id: str,
        *,
        snapshot_id: int,
        results: Mapping[str, Any],
    ) -> EvaluationRow:
        """Keep an evaluation; the oldest ones beyond `KEPT_EVALUATIONS` go.

        Raises:
            NotFoundError: If the set is unknown or forbidden.
        """
        ...

    async def get(
        self, identity: Identity, knowledge_base_id: str, golden_set_id: str, evaluation_id: str
    ) -> EvaluationRow:
        """Read one.

        Raises:
            NotFoundError: If it is unknown or forbidden.
        """
        ...

    async def list(
        self, identity: Identity, knowledge_base_id: str, golden_set_id: str, before_key: str, limit: int
    ) -> Sequence[EvaluationRow]:
        """List those of a set, newest first."""
        ...


@dataclass(frozen=True, slots=True)
class CandidateMeasures:
    """What was measured of a set of versions that is not published yet.

    Attributes:
        candidate: Value by measure (`GateMeasure`) of what would be published; None where no question can be asked.
        question_count: Questions that it was measured on.
        candidate_in_common: The same on the questions that what is published now can be asked too; None where there is
            none, or it was not asked for.
        current_in_common: What is published now, on the same questions.
    """

    candidate: Mapping[str, float] | None
    question_count: int = 0
    candidate_in_common: Mapping[str, float] | None = None
    current_in_common: Mapping[str, float] | None = None


class CandidateJudge(Protocol):
    """Measures what is not published yet, for the gate of a publish."""

    async def measure(
        self,
        tenant_id: str,
        knowledge_base_id: str,
        golden_set_id: str,
        ordinals: bytes,
        *,
        compare_current: bool,
        timeout_seconds: float,
    ) -> CandidateMeasures:
        """Ask a golden set of what would be published.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base.
            golden_set_id: The golden set.
            ordinals: What would be published, a portable roaring bitmap.
            compare_current: Whether to measure what is published now too.
            timeout_seconds: Deadline.

        Returns:
            The measures.

        Raises:
            NotFoundError: If there is no such golden set.
            UnavailableError: If what measures does not answer.
            DeadlineExceededError: If it takes too long.
        """
        ...
