"""Which questions of a golden set a caller may be asked: those whose gold it sees."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyroaring import BitMap

from corpusmesh_core.ports.golden_sets import GoldenQuestion, GoldenSetStore
from corpusmesh_core.ports.metadata import SnapshotStore
from corpusmesh_core.tenancy import Identity, VisibilityInputs
from corpusmesh_core.tenancy.visibility import permitted_bitmap

_PAGE = 500


@dataclass(frozen=True, slots=True)
class AskedQuestions:
    """Questions of a golden set as one caller may be asked them.

    Attributes:
        questions: The questions, by position.
        hidden_count: Questions that were left out.
        inputs: What the metadata store told; the searches stay at its snapshot.
    """

    questions: tuple[GoldenQuestion, ...]
    hidden_count: int
    inputs: VisibilityInputs


class QuestionReader:
    """Reads questions."""

    def __init__(self, golden_sets: GoldenSetStore, snapshots: SnapshotStore) -> None:
        """Create it.

        Args:
            golden_sets: Holds the questions.
            snapshots: Tells what a caller may see.
        """
        self._golden_sets = golden_sets
        self._snapshots = snapshots

    async def read(
        self, identity: Identity, knowledge_base_id: str, golden_set_id: str, *, snapshot_id: int | None = None
    ) -> AskedQuestions:
        """Read all questions of a set.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            golden_set_id: The set.
            snapshot_id: Snapshot that is searched; None for the current one.

        Returns:
            Those whose gold is published there and visible to the caller; questions without gold likewise.

        Raises:
            NotFoundError: If set, knowledge base or snapshot is unknown or forbidden.
        """
        inputs = await self._snapshots.visibility_inputs(identity, knowledge_base_id, snapshot_id=snapshot_id)
        questions = await self.all_of(identity, knowledge_base_id, golden_set_id)
        kept = await self.seen(identity, knowledge_base_id, questions, permitted_bitmap(inputs))
        return AskedQuestions(tuple(kept), len(questions) - len(kept), inputs)

    async def all_of(self, identity: Identity, knowledge_base_id: str, golden_set_id: str) -> list[GoldenQuestion]:
        """Read all questions of a set, whoever may see them.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            golden_set_id: The set.

        Returns:
            The questions, by position.
        """
        questions: list[GoldenQuestion] = []
        while True:
            after = questions[-1].position if questions else -1
            page = await self._golden_sets.questions(
                identity, knowledge_base_id, golden_set_id, after_position=after, limit=_PAGE
            )
            questions.extend(page)
            if len(page) < _PAGE:
                return questions

    async def seen(
        self,
        identity: Identity,
        knowledge_base_id: str,
        questions: Sequence[GoldenQuestion],
        visible: BitMap,
    ) -> list[GoldenQuestion]:
        """Keep the questions whose gold is among some ordinals.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            questions: The questions.
            visible: Ordinals of versions that the caller may see.

        Returns:
            Those of whose gold every document has a version there.
        """
        documents = {item.document_id for question in questions for item in question.gold}
        ordinals = await self._golden_sets.ordinals_of(identity.tenant_id, knowledge_base_id, documents)
        shown = {document for document, versions in ordinals.items() if not visible.isdisjoint(BitMap(versions))}
        return [question for question in questions if all(item.document_id in shown for item in question.gold)]


def spread(questions: Sequence[GoldenQuestion], limit: int) -> tuple[GoldenQuestion, ...]:
    """Take some questions, spread evenly over all.

    Args:
        questions: The questions.
        limit: Most questions; 0 for all.

    Returns:
        The first question and every n-th after it.
    """
    if not limit or len(questions) <= limit:
        return tuple(questions)
    return tuple(questions[place * len(questions) // limit] for place in range(limit))
