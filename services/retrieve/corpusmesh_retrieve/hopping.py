"""Searches further with what the best hits name, or with questions that a language model makes of them."""

from typing import Final

from corpusmesh_core.answering.step_messages import DataBlock
from corpusmesh_core.prompts.hop_v1 import HOP_V1
from corpusmesh_core.query import QueryVariant, VariantOrigin
from corpusmesh_core.ranking import RankedCandidate, inverse_document_frequencies, merge_ranked
from corpusmesh_core.ranking.hops import (
    MAX_FOLLOW_UPS,
    MAX_SOURCES,
    NamingText,
    follow_names,
    names_to_search,
    naming_texts,
    read_follow_ups,
)
from corpusmesh_core.text import QueryTerms
from corpusmesh_core.tree_search import is_node
from corpusmesh_retrieve.asking import question_block
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.recalling import Recaller
from corpusmesh_retrieve.stages import StageResult, counted
from corpusmesh_runtime.context import CallContext

_FOLLOW_UP_WEIGHT: Final = 0.8
_MIN_HOPS_FOR_MODEL: Final = 2
"""One hop is for plans that must be fast, which no model is."""
_MAX_PASSAGE_CHARACTERS: Final = 1_200
_WALK: Final = "graph_walk"
"""Stage of graphs that follows names too."""


class HopStage:
    """The stage `hops`."""

    name = "hops"

    def __init__(self, recaller: Recaller) -> None:
        """Create the stage.

        Args:
            recaller: Searches.
        """
        self._recaller = recaller

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`; a walk of graphs has followed the names already, but asked no model."""
        hops = outcome.plan.assembly.hops
        is_done = any(report.name == _WALK and report.state is StageState.RAN for report in outcome.stages)
        return hops >= (_MIN_HOPS_FOR_MODEL if is_done else 1) and bool(outcome.kept)

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """See `Stage`."""
        ranked = outcome.ranked
        asked, why_not = 0, ""
        if outcome.plan.assembly.hops >= _MIN_HOPS_FOR_MODEL:
            questions, why_not = await self._follow_ups(call, outcome)
            variants = [QueryVariant(text, VariantOrigin.HOP, _FOLLOW_UP_WEIGHT) for text in questions]
            ranked = merge_ranked(ranked, await self._recaller.recall_more(call, outcome, variants))
            asked = len(variants)
        ranked, name_count, found_count = await self._follow(call, outcome, ranked)
        outcome.ranked = ranked
        if not name_count and not asked:
            return StageResult(StageState.SKIPPED, detail="neither question nor hits name anything")
        detail = f"{counted(name_count, 'name')} led to {counted(found_count, 'further record')}"
        if asked:
            detail = f"{asked} questions of the model; {detail}"
        elif why_not:
            detail = f"{detail}; by names alone: {why_not}"
        return StageResult(by_model=asked > 0, detail=detail)

    async def _follow(
        self, call: CallContext, outcome: SearchOutcome, first: tuple[RankedCandidate, ...]
    ) -> tuple[tuple[RankedCandidate, ...], int, int]:
        """Follow names, hop by hop; returns the order, and how many names led to how many records."""
        found, ranked = first, first
        weights = term_weights(outcome)
        texts: list[NamingText] = []
        searched: dict[tuple[str, ...], None] = {}
        for _ in range(outcome.plan.assembly.hops):
            known = {text.record_id for text in texts}
            # A summary names what chunks that are candidates themselves name.
            kept = [item for item in ranked if item.is_kept and not is_node(item)]
            new = naming_texts("" if "" in known else outcome.question, kept, known=known)
            names = [name for name in names_to_search(new) if name not in searched]
            if not names:
                break
            searched.update(dict.fromkeys(names))
            texts.extend(new)
            found = merge_ranked(found, await self._recaller.recall_titled(call, outcome, names))
            # From the start again: a record gains once, however many hops name it.
            ranked = follow_names(texts, found, outcome.terms, weights)
        return ranked, len(searched), len(found) - len(first)

    async def _follow_ups(self, call: CallContext, outcome: SearchOutcome) -> tuple[tuple[str, ...], str]:
        passages = [item.candidate.record for item in outcome.kept[:MAX_SOURCES]]
        made = await outcome.request.session.make(
            call,
            HOP_V1,
            [
                question_block(outcome.question),
                *(
                    DataBlock(f"passage {place}", f"{record.title}\n{record.text[:_MAX_PASSAGE_CHARACTERS]}")
                    for place, record in enumerate(passages, start=1)
                ),
            ],
            read=read_follow_ups(outcome.question),
            otherwise=tuple[str, ...],
            parameters={"count": str(MAX_FOLLOW_UPS)},
        )
        return made.value, made.why_not


def term_weights(outcome: SearchOutcome) -> dict[str, float]:
    """Weigh the question's terms by how rare they are where most records are.

    Args:
        outcome: A search that has recalled.

    Returns:
        Weight by fine term; none where nothing was recalled.
    """
    terms: QueryTerms = outcome.terms
    counted = max((found[0] for found in outcome.found if found), key=lambda part: part.document_count, default=None)
    if counted is None:
        return {}
    weights = inverse_document_frequencies(terms.fine, counted.document_frequencies, counted.document_count)
    return dict(zip(terms.fine, weights.tolist(), strict=True))
