"""Draws questions with known answers from the documents of a knowledge base that the caller sees."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap, FrozenBitMap

from corpusmesh_core.answering.step_messages import DataBlock
from corpusmesh_core.enrichment.golden_questions import (
    DrawnQuestion,
    Passage,
    distinct_questions,
    question_by_rule,
    read_question,
    spread_passages,
)
from corpusmesh_core.errors import FailedPreconditionError
from corpusmesh_core.evaluation import GoldItem
from corpusmesh_core.ports.golden_sets import GoldenQuestion
from corpusmesh_core.ports.index import RecordIndex
from corpusmesh_core.ports.metadata import SnapshotStore
from corpusmesh_core.prompts.golden_question_v1 import GOLDEN_QUESTION_V1
from corpusmesh_core.records import RecordKind
from corpusmesh_core.tenancy import visible_bitmap
from corpusmesh_core.tenancy.publishing import load_bitmap
from corpusmesh_core.visibility import Visibility, build_filter
from corpusmesh_retrieve.asking import ModelSession
from corpusmesh_retrieve.evaluating.config import EvaluationSettings
from corpusmesh_runtime.context import CallContext

_SPARE = 1.2
"""More than asked for, since questions that two passages answer are left out."""
_MAX_ANSWER_CHARACTERS = 120
_MAX_PASSAGE_CHARACTERS = 8_000
_PASSAGES_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Draw:
    """What was drawn.

    Attributes:
        questions: The questions.
        by_model_count: Those that the language model made.
        document_count: Documents that they come from.
    """

    questions: tuple[GoldenQuestion, ...]
    by_model_count: int
    document_count: int


class Drawer:
    """Draws questions."""

    def __init__(self, snapshots: SnapshotStore, index: RecordIndex, settings: EvaluationSettings) -> None:
        """Create it.

        Args:
            snapshots: Tells what the caller sees.
            index: Holds the chunks.
            settings: Bounds.
        """
        self._snapshots = snapshots
        self._index = index
        self._settings = settings

    async def draw(
        self, call: CallContext, knowledge_base_id: str, session: ModelSession, *, count: int, seed: int
    ) -> Draw:
        """Draw questions: by the language model where one is used, then by rules.

        Args:
            call: The call; its identity decides what is drawn from.
            knowledge_base_id: Knowledge base.
            session: Access to the language model.
            count: Questions wanted.
            seed: Of the draw.

        Returns:
            At most that many questions, spread over documents; each names the version that it was made from.

        Raises:
            FailedPreconditionError: GOLDEN_SET_NOTHING_TO_DRAW if no passage gives a question.
        """
        rng = np.random.default_rng(abs(seed))
        passages = await self._passages(call, knowledge_base_id, rng)
        order = spread_passages(passages, rng=rng)
        wanted = int(count * _SPARE) + 1
        by_model = await self._by_model(call, order[:wanted], session)
        taken = {drawn.passage.record_id for drawn in by_model}
        by_rule: list[DrawnQuestion] = []
        for start in range(0, len(order), _PASSAGES_AT_ONCE):
            if len(by_model) + len(by_rule) >= wanted:
                break
            call.remaining_seconds()
            some = [passage for passage in order[start : start + _PASSAGES_AT_ONCE] if passage.record_id not in taken]
            # Rules cost milliseconds a passage: not on the event loop.
            by_rule.extend(await asyncio.to_thread(_by_rule, some))
        kept = list(distinct_questions([*by_model, *by_rule]))[:count]
        if not kept:
            raise FailedPreconditionError(
                "GOLDEN_SET_NOTHING_TO_DRAW",
                "no question could be made of what is published and visible to you; import questions instead",
            )
        made = set(map(id, by_model))
        return Draw(
            questions=tuple(_golden(drawn, by_model=id(drawn) in made) for drawn in kept),
            by_model_count=sum(id(drawn) in made for drawn in kept),
            document_count=len({drawn.passage.document_id for drawn in kept}),
        )

    async def _passages(self, call: CallContext, knowledge_base_id: str, rng: np.random.Generator) -> list[Passage]:
        inputs = await self._snapshots.visibility_inputs(call.identity, knowledge_base_id)
        # Nodes of a tree have ordinals too, and no chunk.
        versions = visible_bitmap(inputs) - BitMap().union(*map(load_bitmap, inputs.builds))
        visible = np.asarray(sorted(versions), dtype=np.int64)
        if not len(visible):
            return []
        if len(visible) > self._settings.max_drawn_documents:
            visible = rng.choice(visible, self._settings.max_drawn_documents, replace=False)
        visibility = Visibility(
            f"{knowledge_base_id}/{inputs.snapshot_id}/draw",
            FrozenBitMap(int(ordinal) for ordinal in visible),
            inputs.next_ordinal,
        )
        records = await self._index.scan(
            call.identity.tenant_id,
            inputs.space_id,
            build_filter(visibility, (RecordKind.CHUNK,)),
            knowledge_base_ids=(knowledge_base_id,),
            max_count=self._settings.max_drawn_chunks,
            timeout_seconds=call.remaining_seconds(),
        )
        return [
            Passage(
                record_id=record.record_id,
                document_id=record.document_id,
                ordinal=int(record.publisher),
                text=record.text,
                heading_path=record.heading_path,
                page=record.page,
            )
            for record in records
        ]

    @staticmethod
    async def _by_model(call: CallContext, passages: Sequence[Passage], session: ModelSession) -> list[DrawnQuestion]:
        async def one(passage: Passage) -> DrawnQuestion | None:
            made = await session.make(
                call,
                GOLDEN_QUESTION_V1,
                [DataBlock("passage", passage.text[:_MAX_PASSAGE_CHARACTERS])],
                read=lambda answer: read_question(passage, answer),
                otherwise=lambda: None,
            )
            return made.value if made.by_model else None

        if not session.is_open:
            return []
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(passage)) for passage in passages]
        return [drawn for task in tasks if (drawn := task.result()) is not None]


def _by_rule(passages: Sequence[Passage]) -> list[DrawnQuestion]:
    return [drawn for passage in passages if (drawn := question_by_rule(passage)) is not None]


def _golden(drawn: DrawnQuestion, *, by_model: bool) -> GoldenQuestion:
    # A model quotes the answer alone; a rule quotes the whole sentence, which no answer need repeat.
    is_answer = by_model and len(drawn.quote) <= _MAX_ANSWER_CHARACTERS
    return GoldenQuestion(
        question=drawn.question,
        answers=(drawn.quote,) if is_answer else (),
        gold=(GoldItem(drawn.passage.document_id, drawn.quote),),
        sources=(drawn.passage.ordinal,),
    )
