"""Stage that follows the table of contents of the best document to the sections that the question is about."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.answering.step_messages import DataBlock
from corpusmesh_core.assembly import candidate_of, kept_of
from corpusmesh_core.assembly.toc import (
    TocSection,
    TocSettings,
    apply_toc,
    best_version,
    chunk_scores,
    mix_title_cosines,
    pick_sections,
    sections_of,
    title_scores,
    toc_record_ids,
)
from corpusmesh_core.ports.embedding import Embedder, EmbedRole
from corpusmesh_core.ports.index import Candidates
from corpusmesh_core.prompts.toc_pick_v1 import TOC_PICK_V1
from corpusmesh_core.ranking import RankedCandidate, rank_candidates
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_retrieve.asking import question_block
from corpusmesh_retrieve.assembling.reading import RecordReader, space_of
from corpusmesh_retrieve.embedding import vectors_or_none
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.stages import StageResult, counted
from corpusmesh_runtime.context import CallContext

_MAX_EMBEDDED_TITLES = 32
_MAX_SHOWN_SECTIONS = 150
_MAX_SHOWN_CHARACTERS = 100
_SHARE_OF_DEADLINE = 0.25


class ContentsStage:
    """Raises and adds chunks of the sections that the question is about."""

    def __init__(self, reader: RecordReader, embedder: Embedder, settings: TocSettings | None = None) -> None:
        """Create the stage.

        Args:
            reader: Reads tables of contents and chunks.
            embedder: Embeds titles.
            settings: Which sections count, and how much.
        """
        self._reader = reader
        self._embedder = embedder
        self._settings = settings or TocSettings()

    @property
    def name(self) -> str:
        """See `Stage`."""
        return "toc"

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return outcome.plan.assembly.toc

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """Follow the table of contents; see `Stage`."""
        best = best_version(outcome.ranked)
        if best is None:
            return StageResult(StageState.SKIPPED, detail="no hit belongs to a document")
        record = best.candidate.record
        ids = toc_record_ids(record.publisher)
        found = await self._reader.read(call, outcome, {record.knowledge_base_id: ids}, (RecordKind.TOC,))
        sections = sections_of([found[name] for name in ids if name in found])
        if not sections:
            return StageResult(StageState.SKIPPED, detail="the best document has no table of contents")
        picked, by_model = await self._pick(call, outcome, record, sections)
        if not picked:
            return StageResult(by_model=by_model, detail=f"none of {len(sections)} sections is about the question")
        scores = chunk_scores(sections, picked)
        added = await self._missing(call, outcome, record, scores)
        outcome.ranked = apply_toc(outcome.ranked, scores, added, gain=self._settings.gain)
        kept = sum(item.is_kept for item in added)
        return StageResult(
            by_model=by_model, detail=f"{len(picked)} of {len(sections)} sections; added: {counted(kept, 'chunk')}"
        )

    async def _pick(
        self, call: CallContext, outcome: SearchOutcome, record: Record, sections: Sequence[TocSection]
    ) -> tuple[dict[int, float], bool]:
        shown = sections[:_MAX_SHOWN_SECTIONS]
        count = self._settings.max_section_count

        def read(value: object) -> dict[int, float] | None:
            numbers = value.get("sections") if isinstance(value, dict) else None
            if not isinstance(numbers, list) or not all(
                type(number) is int and 1 <= number <= len(shown) for number in numbers
            ):
                return None
            return {number - 1: 1.0 for number in dict.fromkeys(numbers[:count])}

        async def by_rule() -> dict[int, float]:
            scores = title_scores(outcome.question, sections)
            cosines = await self._title_cosines(call, outcome, record, sections, scores)
            if cosines:
                scores = mix_title_cosines(scores, cosines, floor=outcome.plan.ranking_options().scale.floor)
            return pick_sections(scores, self._settings)

        lines = [
            f"{number}. {'  ' * (section.level - 1)}{section.title[:_MAX_SHOWN_CHARACTERS]}"
            for number, section in enumerate(shown, 1)
        ]
        made = await outcome.request.session.make(
            call,
            TOC_PICK_V1,
            [question_block(outcome.question), DataBlock("table of contents", "\n".join(lines))],
            read=read,
            otherwise=by_rule,
            parameters={"count": str(count)},
        )
        return made.value, made.by_model

    async def _title_cosines(
        self,
        call: CallContext,
        outcome: SearchOutcome,
        record: Record,
        sections: Sequence[TocSection],
        scores: NDArray[np.float64],
    ) -> dict[int, float]:
        """Embed the titles that words speak for, then the others in order; {} where there is no vector to compare."""
        if outcome.query_vector is None or space_of(outcome, record) != outcome.query_space_id:
            return {}
        places = [int(place) for place in np.argsort(-scores, kind="stable")[:_MAX_EMBEDDED_TITLES]]
        texts = ["\n".join([*sections[place].path[-1:], sections[place].title]) for place in places]
        vectors = await vectors_or_none(
            self._embedder,
            call,
            texts,
            role=EmbedRole.PASSAGE,
            share_of_deadline=_SHARE_OF_DEADLINE,
            without="sections are chosen by words alone",
        )
        if vectors is None:
            return {}
        cosines = vectors @ outcome.query_vector
        return {place: float(cosine) for place, cosine in zip(places, cosines, strict=True)}

    async def _missing(
        self, call: CallContext, outcome: SearchOutcome, record: Record, scores: dict[str, float]
    ) -> list[RankedCandidate]:
        """Read and score the chunks that no leg returned."""
        known = {item.candidate.record.record_id for item in outcome.ranked}
        known |= {name for item in kept_of(outcome.ranked) for name in item.merged_record_ids}
        wanted = [name for name in scores if name not in known][: self._settings.max_added_count]
        if not wanted:
            return []
        is_comparable = outcome.query_vector is not None and space_of(outcome, record) == outcome.query_space_id
        records = await self._reader.read(
            call, outcome, {record.knowledge_base_id: wanted}, (RecordKind.CHUNK,), with_vectors=is_comparable
        )
        vector = outcome.query_vector if is_comparable else None
        items = tuple(candidate_of(records[name], query_vector=vector) for name in wanted if name in records)
        # The weights of terms are those of the recall; without any, all terms weigh the same.
        known_counts = max(
            (part for parts in outcome.found for part in parts),
            key=lambda part: part.document_count,
            default=Candidates(()),
        )
        candidates = Candidates(
            items,
            document_count=known_counts.document_count,
            document_frequencies=known_counts.document_frequencies,
        )
        return list(rank_candidates(candidates, outcome.terms, outcome.plan.ranking_options()))
