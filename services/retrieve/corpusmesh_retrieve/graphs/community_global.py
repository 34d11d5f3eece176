"""The mode COMMUNITY_GLOBAL: what the reports of communities say about a question, as points of the best of them.

Reports are ranked before any of them is read, so that what a question costs does not grow with the graph: at most two
calls of a language model and MAX_MAP_TOKENS + MAX_TITLE_TOKENS tokens of reports; the answer itself is a third call.

References:
    Edge et al.: From Local to Global, 2024; seed `003_67b62910d2d3a085.txt` (630-760); ADR-0014.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from corpusmesh_core.answering.step_messages import DataBlock
from corpusmesh_core.graph_search.community_points import MAX_POINTS, Point, by_report, key_points, read_points
from corpusmesh_core.graph_search.community_reports import (
    MAX_FOLLOWED,
    MAX_TITLES,
    ReportHit,
    finest,
    inside,
    likely,
    roots_of,
    texts_within,
    united,
)
from corpusmesh_core.graph_search.listed_numbers import read_listed
from corpusmesh_core.prompts.graph_search_map_v1 import GRAPH_SEARCH_MAP_V1
from corpusmesh_core.prompts.graph_search_rate_v1 import GRAPH_SEARCH_RATE_V1
from corpusmesh_core.text import cut_to_bytes
from corpusmesh_core.token_estimate import cut_to_tokens
from corpusmesh_retrieve.asking import Made, question_block
from corpusmesh_retrieve.graphs.community_local import tell_reports
from corpusmesh_retrieve.graphs.community_reports import (
    NO_REPORTS,
    STANDING_FOR,
    recall_reports,
    report_as_hit,
    reports_below,
)
from corpusmesh_retrieve.graphs.frame import GraphFrame
from corpusmesh_retrieve.graphs.levels import bound_passages
from corpusmesh_retrieve.outcome import StageState
from corpusmesh_retrieve.stages import StageResult, counted

MAX_MAP_TOKENS: Final = 9_000
"""Tokens of reports that one question reads."""
MAX_TITLE_TOKENS: Final = 2_000
"""Tokens of titles that one question chooses from."""
_MAX_REPORT_TOKENS: Final = 900
_MAX_READ: Final = 24
_MAX_TITLE_BYTES: Final = 160
_MAX_HITS: Final = 12
"""Reports that become evidence."""
_MAX_TOLD: Final = 64
_MAX_QUESTION_CHARACTERS: Final = 1_000
_MIN_CHOICE: Final = 4
"""Coarse reports below which no model is asked to choose."""


class CommunityGlobal:
    """COMMUNITY_GLOBAL."""

    async def run(self, frame: GraphFrame) -> StageResult:
        """Search.

        Args:
            frame: The search.

        Returns:
            What was done.
        """
        outcome, plan = frame.outcome, frame.outcome.plan.graph
        found, _ = await recall_reports(frame, plan.community_level)
        if not found:
            frame.note(f"{NO_REPORTS}; it was searched by its passages alone")
            return StageResult(StageState.SKIPPED, detail="there are no reports that you may see")
        by_title = False
        if plan.dynamic_selection and plan.community_level:
            found, chosen, by_title = await self._descend(frame, found)
        else:
            chosen = await asyncio.to_thread(finest, found)
        read = texts_within(
            chosen,
            max_tokens=min(MAX_MAP_TOKENS, plan.max_total_tokens),
            max_each=_MAX_REPORT_TOKENS,
            most=_MAX_READ,
        )
        made = await self._points(frame, read)
        told = by_report(made.value, max_tokens=plan.max_total_tokens, most=_MAX_HITS)
        hits = [report_as_hit(read[place][0].record, text, score) for place, text, score in told]
        outcome.graph_tables.extend(hits)
        kept = {item.candidate.record.record_id for item in hits}
        tell_reports(frame, found[:_MAX_TOLD], kept)
        spent = sum(item.candidate.record.token_count for item in hits)
        bound_passages(outcome, max_tokens=max(0, plan.max_total_tokens - spent))
        how = "" if made.by_model else f" by key sentences: {made.why_not}"
        titles = ", chosen by title" if by_title else ""
        if not hits:
            frame.note("no report of the graph helps with the question; it was searched by its passages alone")
        return StageResult(
            by_model=made.by_model or by_title,
            detail=f"{counted(len(made.value), 'point')} of {counted(len(hits), 'report')}{how};"
            f" {len(read)} read of {len(found)} found{titles}",
        )

    async def _descend(
        self, frame: GraphFrame, found: Sequence[ReportHit]
    ) -> tuple[tuple[ReportHit, ...], tuple[ReportHit, ...], bool]:
        """Let coarse reports decide which finer ones are read; all that were found, the chosen, whether by a model."""
        roots = await asyncio.to_thread(roots_of, found)
        rated = await self._rated(frame, roots)
        below = await reports_below(frame, rated.value, frame.outcome.plan.graph.community_level)
        everything = united([found, below])
        chosen = await asyncio.to_thread(lambda: finest(inside(everything, rated.value), share=STANDING_FOR))
        return everything, chosen, rated.by_model

    async def _rated(self, frame: GraphFrame, roots: Sequence[ReportHit]) -> Made[tuple[ReportHit, ...]]:
        """Choose coarse reports: by their titles where a model helps, else by their scores."""
        shown = roots[:MAX_TITLES]
        if len(shown) < _MIN_CHOICE:
            return Made(likely(shown), by_model=False)

        def read(answer: object) -> tuple[ReportHit, ...] | None:
            places = read_listed(answer, ("reports", "subjects"), count=len(shown), most=MAX_FOLLOWED)
            return None if places is None else tuple(shown[place] for place in places)

        lines = [
            f"[{number}] {' '.join(cut_to_bytes(hit.record.title, _MAX_TITLE_BYTES).split())}"
            for number, hit in enumerate(shown, 1)
        ]
        return await frame.outcome.request.session.make(
            frame.call,
            GRAPH_SEARCH_RATE_V1,
            [
                question_block(frame.outcome.question[:_MAX_QUESTION_CHARACTERS]),
                DataBlock("subjects", cut_to_tokens("\n".join(lines), MAX_TITLE_TOKENS)),
            ],
            read=read,
            otherwise=partial(likely, roots),
            parameters={"count": str(MAX_FOLLOWED)},
            attempts=1,
        )

    async def _points(self, frame: GraphFrame, read: Sequence[tuple[ReportHit, str]]) -> Made[tuple[Point, ...]]:
        question = frame.outcome.question
        if not read:
            return Made((), by_model=False, why_not="no report fits into the tokens that the plan allows")

        async def by_sentences() -> tuple[Point, ...]:
            return await asyncio.to_thread(key_points, question, [(hit.record.text, hit.score) for hit, _ in read])

        return await frame.outcome.request.session.make(
            frame.call,
            GRAPH_SEARCH_MAP_V1,
            [
                question_block(question[:_MAX_QUESTION_CHARACTERS]),
                *(DataBlock(f"report {number}", text) for number, (_, text) in enumerate(read, 1)),
            ],
            read=partial(read_points, count=len(read)),
            otherwise=by_sentences,
            parameters={"count": str(MAX_POINTS)},
            attempts=1,
        )
