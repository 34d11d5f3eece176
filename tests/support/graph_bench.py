"""A searcher over graphs of teachers and pupils, with an index in memory or a real one."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from pyroaring import BitMap

from corpusmesh_core.errors import UnavailableError
from corpusmesh_core.graphs.keys import entity_key
from corpusmesh_core.ports.embedding import Embedder, EmbeddingSpace, EmbedLane, EmbedResult, EmbedRole
from corpusmesh_core.ports.index import Candidates, RecallRequest, RecordIndex
from corpusmesh_core.ports.reranking import RerankModel
from corpusmesh_core.query import GraphMode, GraphPlan, RetrievalPlan
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.tenancy import Identity, MetadataFilter, Permission, Role, Scope, VisibilityInputs
from corpusmesh_core.text import analyze
from corpusmesh_core.visibility import Visibility
from corpusmesh_retrieve.asking import ModelSession
from corpusmesh_retrieve.graphs.stages import graph_stages
from corpusmesh_retrieve.outcome import SearchOutcome, SearchRequest, StageReport
from corpusmesh_retrieve.recalling import Recaller
from corpusmesh_retrieve.searching import Searcher
from corpusmesh_retrieve.stages import SearchStages
from corpusmesh_retrieve.trees.leaves import LeafStage
from corpusmesh_runtime.context import CallContext
from tests.support.graph_shelf import PUBLISHERS_FROM, GraphShelf, ShelfViews
from tests.support.step_chat import Answer, StepChat
from tests.support.tree_index import TreeIndex

QUESTION = "What contribution did the son of Euler's teacher make?"
SEEN = (1, 2, 3, 4)
SPACE = EmbeddingSpace("space", 2, normalized=True, fingerprint="f")
UNIVERSE = 200


def family_shelf() -> GraphShelf:
    """Shelve the Bernoullis with two reports, one of them of something hidden."""
    shelf = GraphShelf()
    family = [entity_key(name) for name in ("Euler", "Johann Bernoulli", "Daniel Bernoulli")]
    shelf.report("A family of scholars", "Johann taught Euler, and Daniel was his son.", family, (2, 3))
    shelf.report("Secret presses", "Daniel owned a secret press.", family[2:], (3, 5))
    return shelf


def ordinals_of(visible: Sequence[int]) -> list[int]:
    """Give what may be seen: versions, their subgraphs, and the reports."""
    return [*visible, *(PUBLISHERS_FROM + number for number in visible), 80, 81]


class Snapshots:
    """Publishes versions with their subgraphs."""

    def __init__(self, visible: Sequence[int], *, graphs: Sequence[str], vectors: str) -> None:
        self._visible = visible
        self._graphs = graphs
        self._config: dict[str, object] = {"graph": {"methods": ["triples"], "vectors": vectors}}

    async def visibility_inputs(
        self,
        identity: Identity,
        knowledge_base_id: str,
        *,
        snapshot_id: int | None = None,
        metadata_filter: MetadataFilter | None = None,
    ) -> VisibilityInputs:
        assert metadata_filter is None
        has_graph = knowledge_base_id in self._graphs
        builds = BitMap(number for number in self._visible if number >= PUBLISHERS_FROM)
        return VisibilityInputs(
            knowledge_base_id,
            identity.user_id,
            Permission.TEAM,
            self._config if has_graph else {},
            SPACE.space_id,
            1,
            1,
            BitMap(self._visible).serialize(),
            (),
            None,
            UNIVERSE,
            (builds.serialize(),) if has_graph else (),
            ("graph",) if has_graph else (),
        )


class CountingEmbedder:
    """Embeds everything alike, and remembers what it was asked."""

    space = SPACE

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    async def refresh(self, *, deadline_seconds: float) -> None:
        assert deadline_seconds > 0

    async def embed(
        self, texts: Sequence[str], *, role: EmbedRole, lane: EmbedLane, deadline_seconds: float
    ) -> EmbedResult:
        assert role in (EmbedRole.QUERY, EmbedRole.PASSAGE)
        assert (lane, deadline_seconds > 0) == (EmbedLane.INTERACTIVE, True)
        self.calls.append(list(texts))
        return EmbedResult(np.tile(np.array([[1.0, 0.0]], dtype=np.float32), (len(texts), 1)), len(texts))


class CrossEncoder:
    """Likes a passage the more often it holds a word."""

    def __init__(self, word: str, error: Exception | None = None) -> None:
        self.rerank_model: RerankModel | None = cast("RerankModel", object())
        self._word = word
        self._error = error

    async def refresh(self, *, deadline_seconds: float) -> None:
        assert deadline_seconds > 0

    async def rerank(self, question: str, passages: Sequence[str], *, deadline_seconds: float) -> Any:
        assert question
        assert deadline_seconds > 0
        if self._error is not None:
            raise self._error
        return np.array([passage.count(self._word) for passage in passages], dtype=np.float32)


class CountingIndex(TreeIndex):
    """Counts its round trips, reads of records included; may fail for what graphs ask."""

    def __init__(self, records: Sequence[Record], visibility: Visibility) -> None:
        super().__init__(records, visibility)
        self.trip_count = 0
        self.fails_for: RecordKind | None = None

    async def search(
        self, tenant_id: str, space_id: str, requests: Sequence[RecallRequest], *, timeout_seconds: float
    ) -> list[Candidates]:
        self.trip_count += 1
        if any(self.fails_for in request.visibility.kinds for request in requests):
            raise UnavailableError("INDEX_DOWN", "the index does not answer")
        answers = await super().search(tenant_id, space_id, requests, timeout_seconds=timeout_seconds)
        counts = Counter(term for record in self.records for term in set(analyze(record.text).fine))
        return [replace(answer, document_frequencies=counts) for answer in answers]

    async def fetch(self, *args: Any, **kwargs: Any) -> list[Record]:
        self.trip_count += 1
        if self.fails_for in args[3].kinds:
            raise UnavailableError("INDEX_DOWN", "the index does not answer")
        return await super().fetch(*args, **kwargs)


class GraphBench:
    """A searcher over the Bernoullis.

    Attributes:
        shelf: Records and graph.
        index: Counts what is asked of it.
        embedder: Remembers what it embedded.
        views: Count how often a graph is asked for.
        chat: The language model; used where it has answers, or `has_chat` is set.
        call: The call of every search.
    """

    def __init__(
        self,
        *,
        visible: Sequence[int] = SEEN,
        vectors: str = "none",
        answers: Sequence[tuple[Any, Answer]] = (),
        others: Sequence[Record] = (),
        reranker: Any = None,
        graphs: Sequence[str] = ("kb",),
        index: RecordIndex | None = None,
        views: ShelfViews | None = None,
        tenant_id: str = "acme",
    ) -> None:
        """Fill it.

        Args:
            visible: Versions that the caller may see.
            vectors: What of the graph has vectors.
            answers: What the language model answers.
            others: Further records.
            reranker: The cross-encoder.
            graphs: Knowledge bases with a graph.
            index: A real index that is filled already; None for one in memory.
            views: What gives the graphs; None for the shelf's own.
            tenant_id: The tenant.
        """
        self.shelf = family_shelf()
        ordinals = ordinals_of(visible)
        self.index = CountingIndex([*self.shelf.records, *others], Visibility.of("kb/1", ordinals, UNIVERSE))
        self.embedder = CountingEmbedder()
        self.views = views or ShelfViews(self.shelf)
        self.chat = StepChat(answers)
        self.has_chat = bool(answers)
        used, embedder = index or cast("RecordIndex", self.index), cast("Embedder", self.embedder)
        recaller = Recaller(used, embedder)
        graph = graph_stages(self.views, used, recaller, reranker or CrossEncoder("contribution"))
        stages = SearchStages(
            understanding=(graph.words,), assembly=(graph.search, graph.walk, graph.tables, LeafStage(used))
        )
        snapshots = Snapshots(ordinals, graphs=graphs, vectors=vectors)
        self._searcher = Searcher(cast("Any", snapshots), used, embedder, stages)
        self.call = CallContext(Identity(tenant_id, "ann", Role.VIEWER, Scope.READ), "r-1", time.monotonic() + 60.0)

    async def search(
        self,
        mode: GraphMode,
        query: str = QUESTION,
        *,
        knowledge_bases: tuple[str, ...] = ("kb",),
        page_size: int = 10,
        threshold: float | None = None,
        **graph: Any,
    ) -> SearchOutcome:
        """Search.

        Args:
            mode: How.
            query: The question.
            knowledge_bases: Where.
            page_size: Hits of a page.
            threshold: Least similarity of a hit.
            graph: Further settings of the graph's part of the plan.

        Returns:
            What was found.
        """
        plan = RetrievalPlan(graph=GraphPlan(mode=mode, **graph), page_size=page_size, similarity_threshold=threshold)
        chat = cast("Any", self.chat) if self.has_chat else None
        session = ModelSession(chat, lambda: np.random.default_rng(1))
        return await self._searcher.search(
            self.call, SearchRequest(knowledge_bases, query, lambda _: plan, session=session)
        )


def ids_of(outcome: SearchOutcome) -> list[str]:
    """Name the hits."""
    return [item.candidate.record.record_id for item in outcome.kept]


def chunks_of(outcome: SearchOutcome) -> list[str]:
    """Name the passages among the hits."""
    return [item.candidate.record.record_id for item in outcome.kept if item.candidate.record.kind is RecordKind.CHUNK]


def labels_of(outcome: SearchOutcome, kind: str, *, kept: bool = True) -> list[str]:
    """Label what of a kind the path tells of."""
    return [
        step.label for step in outcome.graph_path if step.kind == kind and (not kept or step.outcome.value == "kept")
    ]


def report_of(outcome: SearchOutcome, name: str) -> StageReport:
    """Find the report of a stage."""
    return next(report for report in outcome.stages if report.name == name)
