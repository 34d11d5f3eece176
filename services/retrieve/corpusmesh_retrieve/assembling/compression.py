"""Stage that shortens evidence to the sentences that matter."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.answering.step_messages import DataBlock
from corpusmesh_core.assembly.compression import (
    CompressionSettings,
    RecordSentence,
    choose_sentences,
    compress_records,
    long_records,
    mix_sentence_cosines,
    record_sentences,
    sentence_scores,
    sentences_to_embed,
)
from corpusmesh_core.ports.embedding import Embedder, EmbedRole
from corpusmesh_core.prompts.compress_v1 import COMPRESS_V1
from corpusmesh_core.records import Record
from corpusmesh_retrieve.asking import question_block
from corpusmesh_retrieve.embedding import vectors_or_none
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.stages import StageResult, counted
from corpusmesh_runtime.context import CallContext

_MAX_RECORDS = 32
_MAX_SHOWN_SENTENCES = 120
_MAX_EMBEDDED_CHARACTERS = 1_000
_SHARE_OF_DEADLINE = 0.25


class CompressionStage:
    """Shortens the hits of the first page; nothing else of them changes."""

    def __init__(
        self, embedder: Embedder, *, by_model: bool = False, settings: CompressionSettings | None = None
    ) -> None:
        """Create the stage.

        Args:
            embedder: Embeds sentences.
            by_model: Whether the language model chooses the sentences where it can.
            settings: How much stays.
        """
        self._embedder = embedder
        self._by_model = by_model
        self._settings = settings or CompressionSettings()

    @property
    def name(self) -> str:
        """See `Stage`."""
        return "compression"

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return outcome.plan.assembly.compress

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """Shorten them; see `Stage`."""
        count = min(outcome.plan.page_size, _MAX_RECORDS)
        records = long_records(outcome.ranked, count=count, settings=self._settings)
        sentences = record_sentences(records)
        if not sentences:
            return StageResult(StageState.SKIPPED, detail="no hit is long enough")
        scores = sentence_scores(outcome.question, sentences)
        chosen, by_model = await self._chosen(call, outcome, records, sentences, scores)
        outcome.compressed = compress_records(records, sentences, chosen)
        before = sum(len(record.text) for record in records if record.record_id in outcome.compressed)
        after = sum(map(len, outcome.compressed.values()))
        return StageResult(
            by_model=by_model, detail=f"{counted(len(outcome.compressed), 'hit')}: {before} characters became {after}"
        )

    async def _chosen(
        self,
        call: CallContext,
        outcome: SearchOutcome,
        records: Sequence[Record],
        sentences: Sequence[RecordSentence],
        scores: NDArray[np.float64],
    ) -> tuple[set[int], bool]:
        async def by_rule() -> set[int]:
            cosines = await self._cosines(call, outcome, sentences, scores)
            return choose_sentences(records, sentences, mix_sentence_cosines(scores, cosines), self._settings)

        if not self._by_model:
            return await by_rule(), False
        shown = min(len(sentences), _MAX_SHOWN_SENTENCES)

        def read(value: object) -> set[int] | None:
            numbers = value.get("sentences") if isinstance(value, dict) else None
            if not isinstance(numbers, list) or not numbers:
                return None
            if not all(type(number) is int and 1 <= number <= shown for number in numbers):
                return None
            return {number - 1 for number in numbers}

        made = await outcome.request.session.make(
            call, COMPRESS_V1, _blocks(outcome.question, sentences[:shown]), read=read, otherwise=by_rule
        )
        if not made.by_model:
            return made.value, False
        # What the model was not shown, and records of which it wants nothing, are chosen by rule.
        own = choose_sentences(records, sentences, scores, self._settings)
        wanted = {sentences[place].record_place for place in made.value}
        rest = {place for place in own if place >= shown or sentences[place].record_place not in wanted}
        return made.value | rest, True

    async def _cosines(
        self,
        call: CallContext,
        outcome: SearchOutcome,
        sentences: Sequence[RecordSentence],
        scores: NDArray[np.float64],
    ) -> dict[int, float]:
        if outcome.query_vector is None or outcome.query_space_id != self._embedder.space.space_id:
            return {}
        places = sentences_to_embed(scores, self._settings)
        vectors = await vectors_or_none(
            self._embedder,
            call,
            [sentences[place].text[:_MAX_EMBEDDED_CHARACTERS] for place in places],
            role=EmbedRole.PASSAGE,
            share_of_deadline=_SHARE_OF_DEADLINE,
            without="sentences are chosen by words alone",
        )
        if vectors is None:
            return {}
        cosines = vectors @ outcome.query_vector
        return {place: float(cosine) for place, cosine in zip(places, cosines, strict=True)}


def _blocks(question: str, sentences: Sequence[RecordSentence]) -> list[DataBlock]:
    lines: dict[int, list[str]] = {}
    for number, sentence in enumerate(sentences, 1):
        lines.setdefault(sentence.record_place, []).append(f"{number}. {sentence.text}")
    passages = [DataBlock(f"passage {place + 1}", "\n".join(own)) for place, own in lines.items()]
    return [question_block(question), *passages]
