"""The typed plan of one retrieval; presets and defaults of a knowledge base are other plans of the same type."""

from dataclasses import dataclass, field
from enum import StrEnum

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.index import MAX_WINDOW
from corpusmesh_core.query.stages import (
    AssemblyPlan,
    CorrectionPlan,
    GraphPlan,
    RecallPlan,
    RerankPlan,
    TreePlan,
    UnderstandingPlan,
    check_range,
)
from corpusmesh_core.ranking.options import Fusion, RankingOptions, VectorScale
from corpusmesh_core.records import RecordKind

MAX_PAGE_SIZE = 200

_DEFAULT_THRESHOLD = {Fusion.TERM_COVERAGE: 0.2}


class SearchMode(StrEnum):
    """Which legs run."""

    HYBRID = "hybrid"
    LEXICAL = "lexical"
    VECTOR = "vector"


@dataclass(frozen=True, slots=True)
class RetrievalPlan:
    """How to search; a plan that exists is valid. Conditions on documents are a request's alone, and no part of it.

    Attributes:
        mode: Which legs run.
        fusion: How the legs become one order.
        vector_weight: Weight of the vector similarity, 0 to 1; None for the fusion's own, see `RankingOptions`
            (0.3, the seed's, for TERM_COVERAGE).
        similarity_threshold: Candidates below it are dropped, 0 to 1; None for the fusion's own: 0.2 for TERM_COVERAGE
            (the seed's), 0 for the others.
        window: Candidates taken from each leg, 1 to 1,000.
        page_size: Hits of a page, 1 to 200.
        kinds: Kinds of records that compete, at least one.
        include_other_script: Whether the vector leg also searches apart among the records of the script that the
            question is not written in, so that a larger language does not crowd out the smaller one.
        page_weight: Weight of what a vision model says of the images of the candidates' pages, 0 to 1; 0 does not look
            at them.
        understanding: How the question is understood.
        recall: How candidates are recalled.
        rerank: How the best are scored again.
        assembly: What becomes of them before they are returned.
        correction: Loops that check what was found and said.
        tree: How trees of summaries take part.
        graph: How graphs of entities take part.
    """

    mode: SearchMode = SearchMode.HYBRID
    fusion: Fusion = Fusion.ADAPTIVE
    vector_weight: float | None = None
    similarity_threshold: float | None = None
    window: int = 64
    page_size: int = 10
    kinds: tuple[RecordKind, ...] = (RecordKind.CHUNK,)
    include_other_script: bool = True
    page_weight: float = 0.0
    understanding: UnderstandingPlan = field(default_factory=UnderstandingPlan)
    recall: RecallPlan = field(default_factory=RecallPlan)
    rerank: RerankPlan = field(default_factory=RerankPlan)
    assembly: AssemblyPlan = field(default_factory=AssemblyPlan)
    correction: CorrectionPlan = field(default_factory=CorrectionPlan)
    tree: TreePlan = field(default_factory=TreePlan)
    graph: GraphPlan = field(default_factory=GraphPlan)

    def __post_init__(self) -> None:
        check_range("vector_weight", self.vector_weight, 0.0, 1.0)
        check_range("similarity_threshold", self.similarity_threshold, 0.0, 1.0)
        check_range("page_weight", self.page_weight, 0.0, 1.0)
        check_range("window", self.window, 1, MAX_WINDOW)
        check_range("page_size", self.page_size, 1, MAX_PAGE_SIZE)
        if not self.kinds:
            raise InvalidArgumentError("PLAN_INVALID", "kinds must name at least one kind of record", field="kinds")
        if not {RecordKind.WEB_PAGE, RecordKind.GRAPH_TABLE}.isdisjoint(self.kinds):
            raise InvalidArgumentError(
                "PLAN_INVALID",
                "kinds takes kinds of records of the index; use correction.web and graph.mode",
                field="kinds",
            )

    @property
    def runs_lexical(self) -> bool:
        """Whether the lexical leg runs."""
        return self.mode is not SearchMode.VECTOR

    @property
    def runs_vector(self) -> bool:
        """Whether the vector leg runs, so that the question must be embedded."""
        return self.mode is not SearchMode.LEXICAL

    def ranking_options(self, scale: VectorScale | None = None) -> RankingOptions:
        """Fill in the defaults of the fusion.

        Args:
            scale: How the cosines of the embedding model are to be read; None for those of the default model.

        Returns:
            Options for `rank_candidates`.
        """
        threshold = _DEFAULT_THRESHOLD.get(self.fusion, 0.0)
        return RankingOptions(
            fusion=self.fusion,
            vector_weight=self.vector_weight,
            similarity_threshold=threshold if self.similarity_threshold is None else self.similarity_threshold,
            scale=VectorScale() if scale is None else scale,
        )
