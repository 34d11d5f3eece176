"""What a search is asked and what it found: the values that its stages hand to each other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.answering.step_answers import Sufficiency
from corpusmesh_core.graph_search.keywords import GraphKeywords
from corpusmesh_core.graph_search.steps import GraphStep
from corpusmesh_core.ports.index import Candidates
from corpusmesh_core.query import QueryVariant, RetrievalPlan
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.records import Record
from corpusmesh_core.tenancy import FilterCondition, MetadataFilter, VisibilityInputs
from corpusmesh_core.text import QueryTerms, analyze_query
from corpusmesh_core.tree_search import TreeStep
from corpusmesh_core.visibility import Visibility
from corpusmesh_retrieve.asking import ModelSession

PlanMaker = Callable[[Sequence[Mapping[str, object]]], RetrievalPlan]
"""Makes the plan of a request from the configurations of its knowledge bases."""


class StageState(StrEnum):
    """What became of a stage."""

    RAN = "ran"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class StageReport:
    """What one stage did.

    Attributes:
        name: Name of the stage.
        duration_milliseconds: How long it took.
        state: What became of it.
        by_model: Whether a language model did it.
        detail: What it did, or why it did not; for people, without text of documents.
    """

    name: str
    duration_milliseconds: float
    state: StageState = StageState.RAN
    by_model: bool = False
    detail: str = ""


@dataclass(frozen=True, slots=True)
class PastTurn:
    """One turn of a conversation before the question.

    Attributes:
        is_user: Whether the user said it; else the assistant.
        text: What was said.
    """

    is_user: bool
    text: str


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What is searched.

    Attributes:
        knowledge_base_ids: Knowledge bases; empty lets the router pick.
        query: The question as it was asked.
        make_plan: Makes the plan, see `PlanMaker`.
        metadata: The caller's own conditions on documents.
        snapshots: Snapshot by knowledge base, where another than the current one is wanted.
        history: Turns before the question, oldest first.
        offset: Hits of the pages before.
        session: Access to the language model, bounded for this request.
        notify: Is told what is being done, (stage, message), where somebody listens; must not block.
    """

    knowledge_base_ids: tuple[str, ...]
    query: str
    make_plan: PlanMaker
    session: ModelSession
    metadata: MetadataFilter = field(default_factory=MetadataFilter)
    snapshots: Mapping[str, int] = field(default_factory=dict)
    history: tuple[PastTurn, ...] = ()
    offset: int = 0
    notify: Callable[[str, str], None] | None = None

    def tell(self, stage: str, message: str) -> None:
        """Say what is being done.

        Args:
            stage: Stage, such as "search", "check" or "write".
            message: For people, without text of documents.
        """
        if self.notify is not None:
            self.notify(stage, message)


@dataclass(frozen=True, slots=True)
class SpaceView:
    """What a request may see of one embedding space, from its first to its last stage.

    Attributes:
        space_id: The space.
        knowledge_base_ids: The request's knowledge bases in it.
        visibility: The bitmap of its one snapshot of each; every query of every stage carries a filter made of it.
        has_tree: Whether a tree may be searched here; without one nothing is paid for it.
        build_count: Visible ordinals that are of builds, not of documents.
        graph_knowledge_base_ids: Those of `knowledge_base_ids` that have a graph of which something may be visible.
    """

    space_id: str
    knowledge_base_ids: tuple[str, ...]
    visibility: Visibility
    has_tree: bool = False
    build_count: int = 0
    graph_knowledge_base_ids: tuple[str, ...] = ()

    @property
    def has_graph(self) -> bool:
        """Whether a graph may be searched here; without one nothing is paid for it."""
        return bool(self.graph_knowledge_base_ids)


@dataclass(slots=True)
class SearchOutcome:
    """The state of one search; each stage reads what the ones before it left, and leaves its own.

    Attributes:
        request: What is searched.
        plan: The effective plan.
        question: The stand-alone question: the query, or what multi-turn refinement made of it.
        inputs: What the metadata store told of each knowledge base; its snapshot holds for all stages.
        snapshots: Snapshot that each knowledge base was searched at; 0 where nothing is published.
        views: What the request may see, by space; a stage that asks the index takes it from here and from nowhere else.
        variants: What is searched; the first is the question itself.
        variant_vectors: Vector of each variant, in their order; None where there is none.
        terms: Terms of the question with emphasis and alternatives.
        query_vector: Vector of the question; None without a vector leg.
        query_space_id: Space of the vectors: they are compared with records of this space alone (FR-A11).
        inferred: Conditions on metadata that were read out of the question.
        found: Candidates by space view, for each variant in their order.
        derived: Candidates by space view that lead to chunks (see `corpusmesh_core.ranking.derived`), for the question.
        rank_features: What tags, page rank and the like add, by record id.
        ranked: All candidates, the kept ones first, best first.
        tree_path: Nodes of trees that were looked at, in the order in which they were.
        probes: Texts that a later stage looks up in graphs: they are embedded in the call that embeds the question.
        probe_vectors: Their vectors; a text without one has none.
        graph_keywords: What the question is looked up by in graphs; None where no mode asked for it.
        graph_path: What of graphs was looked at, in the order in which it was.
        graph_tables: What a graph says as one text for each knowledge base, to be put before all other hits.
        leaves: For hits that are made of chunks (nodes of trees, entities, relations, reports, tables of those): chunks
            that they stand for, best first, by record id of the hit.
        compressed: Shortened text of evidence, by record id.
        sufficiency: Whether what was found is enough, as the last check of the search says; None without a check.
        unreachable: Legs that did not answer.
        notes: What the caller should know.
        stages: What each stage did, in order.
    """

    request: SearchRequest
    plan: RetrievalPlan = field(default_factory=RetrievalPlan)
    question: str = ""
    inputs: tuple[VisibilityInputs, ...] = ()
    snapshots: dict[str, int] = field(default_factory=dict)
    views: tuple[SpaceView, ...] = ()
    variants: list[QueryVariant] = field(default_factory=list)
    variant_vectors: list[NDArray[np.float32] | None] = field(default_factory=list)
    terms: QueryTerms = field(default_factory=lambda: analyze_query(""))
    query_vector: NDArray[np.float32] | None = None
    query_space_id: str = ""
    inferred: tuple[FilterCondition, ...] = ()
    found: list[list[Candidates]] = field(default_factory=list)
    derived: list[Candidates] = field(default_factory=list)
    rank_features: dict[str, float] = field(default_factory=dict)
    ranked: tuple[RankedCandidate, ...] = ()
    tree_path: list[TreeStep] = field(default_factory=list)
    probes: tuple[str, ...] = ()
    probe_vectors: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    graph_keywords: GraphKeywords | None = None
    graph_path: list[GraphStep] = field(default_factory=list)
    graph_tables: list[RankedCandidate] = field(default_factory=list)
    leaves: dict[str, tuple[Record, ...]] = field(default_factory=dict)
    compressed: dict[str, str] = field(default_factory=dict)
    sufficiency: Sufficiency | None = None
    unreachable: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stages: list[StageReport] = field(default_factory=list)

    @property
    def kept(self) -> tuple[RankedCandidate, ...]:
        """The candidates that are part of the result."""
        return tuple(item for item in self.ranked if item.is_kept)

    @property
    def visible_count(self) -> int:
        """Versions that the caller may see and that the filters left."""
        return sum(len(view.visibility.ordinals) - view.build_count for view in self.views)
