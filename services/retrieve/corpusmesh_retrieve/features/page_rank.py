"""Lifts candidates of knowledge bases that rank higher than others."""

from collections.abc import Iterator, Mapping
from typing import Final

from corpusmesh_core.ports.index import Candidate
from corpusmesh_core.ranking.features import page_rank_share
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.stages import StageResult
from corpusmesh_runtime.context import CallContext

RANKING: Final = "ranking"
"""Section of a knowledge base's configuration."""
_PAGE_RANK: Final = "page_rank"


class PageRankFeature:
    """Adds the page rank of a candidate's knowledge base.

    A knowledge base has one number (`rank_settings.page_rank`), so that a body of rules can go before the mailbox that
    quotes them; it takes effect with the next search, and no record is written again.
    """

    @property
    def name(self) -> str:
        """See `Stage`."""
        return "page_rank"

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        ranks = {page_rank_of(item.config) for item in outcome.inputs}
        # What all have alike changes no order.
        return outcome.plan.recall.page_rank_weight > 0.0 and len(ranks) > 1

    async def run(
        self,
        call: CallContext,  # noqa: ARG002 - the protocol's
        outcome: SearchOutcome,
    ) -> StageResult:
        """Add to the features of every candidate; see `Stage`."""
        weight = outcome.plan.recall.page_rank_weight
        added = {item.knowledge_base_id: weight * page_rank_share(page_rank_of(item.config)) for item in outcome.inputs}
        gains = {
            item.record.record_id: gain
            for item in candidates_of(outcome)
            if (gain := added.get(item.record.knowledge_base_id, 0.0)) > 0.0
        }
        add_features(outcome, gains)
        if not gains:
            return StageResult(StageState.SKIPPED, detail="no candidate is of a knowledge base with a page rank")
        return StageResult(detail=f"{len(gains)} candidates of knowledge bases with a page rank")


def page_rank_of(config: Mapping[str, object]) -> float:
    """Read the page rank of a knowledge base.

    Args:
        config: Its configuration.

    Returns:
        0 to 100; 0 where it has none.
    """
    section = config.get(RANKING)
    value = section.get(_PAGE_RANK, 0) if isinstance(section, Mapping) else 0
    return float(value) if isinstance(value, int | float) else 0.0


def candidates_of(outcome: SearchOutcome) -> Iterator[Candidate]:
    """Give all candidates of all variants; one that several found comes several times.

    Args:
        outcome: A search that has recalled.

    Yields:
        Candidates.
    """
    for found in outcome.found:
        for part in found:
            yield from part.items


def add_features(outcome: SearchOutcome, gains: Mapping[str, float]) -> None:
    """Add to the rank features of a search.

    Args:
        outcome: Gets them.
        gains: What is added, by record id.
    """
    for record_id, gain in gains.items():
        outcome.rank_features[record_id] = outcome.rank_features.get(record_id, 0.0) + gain
