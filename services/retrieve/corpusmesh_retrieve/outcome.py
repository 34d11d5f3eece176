"""What a search is asked and what it found: the values that its stages hand to each other."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.query import RetrievalPlan
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.text import QueryTerms, analyze_query
from corpusmesh_core.visibility import Visibility


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What is searched.

    Attributes:
        knowledge_base_ids: Knowledge bases, at least one.
        query: The question.
        plan: How.
        snapshots: Snapshot by knowledge base, where another than the current one is wanted.
    """

    knowledge_base_ids: tuple[str, ...]
    query: str
    plan: RetrievalPlan
    snapshots: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpaceView:
    """What a request may see of one embedding space, from its first to its last stage.

    Attributes:
        space_id: The space.
        knowledge_base_ids: The request's knowledge bases in it.
        visibility: The bitmap of its one snapshot of each; every query of every stage carries a filter made of it.
    """

    space_id: str
    knowledge_base_ids: tuple[str, ...]
    visibility: Visibility


@dataclass(slots=True)
class SearchOutcome:
    """What a search found.

    Attributes:
        ranked: All candidates, the kept ones first, best first.
        snapshots: Snapshot that each knowledge base was searched at; 0 where nothing is published.
        views: What the request may see, by space; a stage that asks the index takes it from here and from nowhere else.
        terms: Terms of the question.
        query_vector: Its vector; None without a vector leg.
        query_space_id: Space of that vector: it is compared with records of this space alone (FR-A11).
        unreachable: Legs that did not answer.
        notes: What the caller should know.
        stage_milliseconds: How long each stage took, in order.
    """

    ranked: tuple[RankedCandidate, ...] = ()
    snapshots: dict[str, int] = field(default_factory=dict)
    views: tuple[SpaceView, ...] = ()
    terms: QueryTerms = field(default_factory=lambda: analyze_query(""))
    query_vector: NDArray[np.float32] | None = None
    query_space_id: str = ""
    unreachable: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stage_milliseconds: dict[str, float] = field(default_factory=dict)

    @property
    def kept(self) -> tuple[RankedCandidate, ...]:
        """The candidates that are part of the result."""
        return tuple(item for item in self.ranked if item.is_kept)

    @property
    def visible_count(self) -> int:
        """Ordinals that the caller may see and that the filters left."""
        return sum(len(view.visibility.ordinals) for view in self.views)
