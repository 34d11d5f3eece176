"""The parts of a retrieval plan: which stages run, and how. Every part that exists is valid."""

from dataclasses import dataclass
from enum import StrEnum

from corpusmesh_core.errors import InvalidArgumentError

MAX_NEIGHBOURS = 5
MAX_HOPS = 3
MAX_CORRECTION_ROUNDS = 3
MAX_RERANK_DEPTH = 200
MAX_LANGUAGES = 8
MAX_TREE_WIDTH = 50
MAX_GRAPH_HOPS = 4
MAX_GRAPH_WIDTH = 200
MAX_GRAPH_TOKENS = 200_000
MAX_GRAPH_LEVEL = 8
MAX_FOLLOW_UPS = 20
MAX_KEYWORDS = 32


class Preset(StrEnum):
    """A named plan."""

    FAST = "fast"
    BALANCED = "balanced"
    THOROUGH = "thorough"


class RerankMethod(StrEnum):
    """By what the best candidates are scored again."""

    NONE = "none"
    CROSS_ENCODER = "cross_encoder"
    MODEL = "model"


class TreeMode(StrEnum):
    """How trees of summaries are searched."""

    OFF = "off"
    COLLAPSED = "collapsed"
    TRAVERSAL = "traversal"
    HIERARCHICAL = "hierarchical"


class GraphMode(StrEnum):
    """How graphs are searched."""

    OFF = "off"
    PAGE_RANK = "page_rank"
    LOCAL = "local"
    GLOBAL = "global"
    HYBRID = "hybrid"
    MIX = "mix"
    NAIVE = "naive"
    KNOWLEDGE = "knowledge"
    ADJACENCY = "adjacency"
    COMMUNITY_LOCAL = "community_local"
    COMMUNITY_GLOBAL = "community_global"
    DRIFT = "drift"


class ChunkPick(StrEnum):
    """How passages behind entities and relations are chosen (LightRAG)."""

    VECTOR = "vector"
    WEIGHT = "weight"


class RelationRerank(StrEnum):
    """Who chooses relations in the search by adjacency."""

    NONE = "none"
    CROSS_ENCODER = "cross_encoder"
    MODEL = "model"


class Diversity(StrEnum):
    """How hits that say the same give way to others."""

    NONE = "none"
    MMR = "mmr"
    DARTBOARD = "dartboard"


@dataclass(frozen=True, slots=True)
class UnderstandingPlan:
    """How the question is understood before the search (the product's seed, step Q1).

    Attributes:
        refine: Make a stand-alone question of the last turn of a conversation.
        cross_language: Also ask in the other languages of the knowledge bases.
        languages: Languages to ask in, BCP 47 primary tags, at most 8; empty for those of the knowledge bases.
        keywords: Weigh the telling words of the question.
        synonyms: Add the tenant's own synonyms.
        step_back: Also ask the more general question behind the question.
        decompose: Also ask the parts of a question that has several.
        hyde: Also search for what an answer would look like.
        memory: Take clues from memory records.
        metadata_filter: Read conditions on metadata out of the question.
    """

    refine: bool = True
    cross_language: bool = False
    languages: tuple[str, ...] = ()
    keywords: bool = False
    synonyms: bool = True
    step_back: bool = False
    decompose: bool = False
    hyde: bool = False
    memory: bool = False
    metadata_filter: bool = False

    def __post_init__(self) -> None:
        check_range("understanding.languages", len(self.languages), 0, MAX_LANGUAGES)


@dataclass(frozen=True, slots=True)
class RecallPlan:
    """How candidates are recalled (steps Q3 to Q7).

    Attributes:
        lexical_gate: Whether vector hits must match words of the question too, as in the seed.
        minimum_match: Share of the question's terms that a full-text hit must hold, 0 to 1; where nothing does, a third
            of it is enough.
        proximity: Prefer neighbouring words of the question that stand side by side in the text.
        derived: Let questions, propositions, summaries and memories lead to their chunks.
        tags: Prefer chunks whose tags fit the question.
        tag_weight: Most that tags add to the similarity, 0 to 1.
        page_rank_weight: Most that page rank adds to the similarity, 0 to 1.
    """

    lexical_gate: bool = False
    minimum_match: float = 0.0
    proximity: bool = False
    derived: bool = False
    tags: bool = False
    tag_weight: float = 0.1
    page_rank_weight: float = 0.0

    def __post_init__(self) -> None:
        check_range("recall.minimum_match", self.minimum_match, 0.0, 1.0)
        check_range("recall.tag_weight", self.tag_weight, 0.0, 1.0)
        check_range("recall.page_rank_weight", self.page_rank_weight, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class RerankPlan:
    """How the best candidates are scored again (step Q7).

    Attributes:
        method: By what.
        depth: Candidates that are scored again, 1 to 200.
        weight: Weight of the new score against the similarity, 0 to 1.
    """

    method: RerankMethod = RerankMethod.NONE
    depth: int = 32
    weight: float = 0.7

    def __post_init__(self) -> None:
        check_range("rerank.depth", self.depth, 1, MAX_RERANK_DEPTH)
        check_range("rerank.weight", self.weight, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class AssemblyPlan:
    """What becomes of the best candidates before they are returned (steps Q8 and Q9).

    Attributes:
        toc: Add chunks of the sections that the best document's table of contents names for the question.
        parents: Replace children by their parent.
        neighbours: Chunks before and behind each hit that are joined to it, 0 to 5.
        segments: Join hits of one document into the span that gains most.
        diversity: How hits that say the same give way to others.
        diversity_weight: Weight of diversity, 0 to 1.
        compress: Shorten evidence to the sentences that matter.
        max_per_document: Most hits of one document; 0 for no bound.
        collapse_duplicates: Leave out hits whose text is that of a better one.
        hops: Further searches with what the best hits name, 0 to 3.
    """

    toc: bool = False
    parents: bool = False
    neighbours: int = 0
    segments: bool = False
    diversity: Diversity = Diversity.NONE
    diversity_weight: float = 0.3
    compress: bool = False
    max_per_document: int = 0
    collapse_duplicates: bool = False
    hops: int = 0

    def __post_init__(self) -> None:
        check_range("assembly.neighbours", self.neighbours, 0, MAX_NEIGHBOURS)
        check_range("assembly.diversity_weight", self.diversity_weight, 0.0, 1.0)
        check_range("assembly.max_per_document", self.max_per_document, 0, 1_000)
        check_range("assembly.hops", self.hops, 0, MAX_HOPS)


@dataclass(frozen=True, slots=True)
class CorrectionPlan:
    """Loops that check what was found and said.

    Attributes:
        check_sufficiency: Check whether the evidence is enough, and say what is missing.
        correct: Grade the hits; rewrite the question and search again, or in the web, where they do not help.
        reflect: Ask whether evidence is needed, relevant, supports the answer, and whether the answer is of use.
        max_rounds: Most further searches, 0 to 3.
        web: Whether the web may be searched.
    """

    check_sufficiency: bool = False
    correct: bool = False
    reflect: bool = False
    max_rounds: int = 1
    web: bool = False

    def __post_init__(self) -> None:
        check_range("correction.max_rounds", self.max_rounds, 0, MAX_CORRECTION_ROUNDS)


@dataclass(frozen=True, slots=True)
class TreePlan:
    """How trees of summaries take part (RAPTOR; hierarchical indices), where a knowledge base has some.

    Attributes:
        mode: How a tree is searched.
        nodes_per_layer: TRAVERSAL: nodes that are followed on each layer, 1 to 50.
        summaries: HIERARCHICAL: summaries that are entered, 1 to 50.
        chunks_per_summary: HIERARCHICAL: chunks taken of each, 1 to 50.
    """

    mode: TreeMode = TreeMode.COLLAPSED
    nodes_per_layer: int = 5
    summaries: int = 3
    chunks_per_summary: int = 5

    def __post_init__(self) -> None:
        check_range("tree.nodes_per_layer", self.nodes_per_layer, 1, MAX_TREE_WIDTH)
        check_range("tree.summaries", self.summaries, 1, MAX_TREE_WIDTH)
        check_range("tree.chunks_per_summary", self.chunks_per_summary, 1, MAX_TREE_WIDTH)


@dataclass(frozen=True, slots=True)
class GraphPlan:
    """How graphs of entities take part, where a knowledge base has one. Defaults are those of the seeds and peers.

    Attributes:
        mode: How a graph is searched.
        damping: PAGE_RANK: probability of walking on rather than starting anew.
        passage_weight: PAGE_RANK: weight of the best passages among what the walk starts from.
        hops: ADJACENCY, KNOWLEDGE: hops from what the question names, 1 to 4.
        top_k: Entities and relations that are looked up, 1 to 200.
        chunk_top_k: Passages that are looked up or kept, 1 to 200.
        max_entity_tokens: Most tokens of entities.
        max_relation_tokens: Most tokens of relations.
        max_total_tokens: Most tokens of all that a mode returns.
        chunk_pick: How passages are chosen.
        high_level_keywords: General words of the question, at most 32.
        low_level_keywords: Particular words of the question, at most 32.
        relation_rerank: ADJACENCY: who chooses relations.
        community_level: Level of communities, 0 for the coarsest.
        dynamic_selection: COMMUNITY_GLOBAL: whether coarse reports decide which finer ones are read.
        follow_ups: DRIFT: follow-up questions of a round.
    """

    mode: GraphMode = GraphMode.PAGE_RANK
    damping: float = 0.5
    passage_weight: float = 0.05
    hops: int = 2
    top_k: int = 40
    chunk_top_k: int = 20
    max_entity_tokens: int = 6000
    max_relation_tokens: int = 8000
    max_total_tokens: int = 30000
    chunk_pick: ChunkPick = ChunkPick.VECTOR
    high_level_keywords: tuple[str, ...] = ()
    low_level_keywords: tuple[str, ...] = ()
    relation_rerank: RelationRerank = RelationRerank.NONE
    community_level: int = 2
    dynamic_selection: bool = True
    follow_ups: int = 5

    def __post_init__(self) -> None:
        check_range("graph.damping", self.damping, 0.05, 0.95)
        check_range("graph.passage_weight", self.passage_weight, 0.0, 1.0)
        check_range("graph.hops", self.hops, 1, MAX_GRAPH_HOPS)
        check_range("graph.top_k", self.top_k, 1, MAX_GRAPH_WIDTH)
        check_range("graph.chunk_top_k", self.chunk_top_k, 1, MAX_GRAPH_WIDTH)
        check_range("graph.max_entity_tokens", self.max_entity_tokens, 0, MAX_GRAPH_TOKENS)
        check_range("graph.max_relation_tokens", self.max_relation_tokens, 0, MAX_GRAPH_TOKENS)
        check_range("graph.max_total_tokens", self.max_total_tokens, 0, MAX_GRAPH_TOKENS)
        check_range("graph.high_level_keywords", len(self.high_level_keywords), 0, MAX_KEYWORDS)
        check_range("graph.low_level_keywords", len(self.low_level_keywords), 0, MAX_KEYWORDS)
        check_range("graph.community_level", self.community_level, 0, MAX_GRAPH_LEVEL)
        check_range("graph.follow_ups", self.follow_ups, 1, MAX_FOLLOW_UPS)


def check_range(name: str, value: float | None, low: float, high: float) -> None:
    """Refuse a value of a plan that is out of range.

    Args:
        name: Field of the plan.
        value: The value; None passes.
        low: Least.
        high: Most.

    Raises:
        InvalidArgumentError: PLAN_INVALID with the field.
    """
    # The comparison is false for NaN, which must not pass.
    if value is not None and not low <= value <= high:
        raise InvalidArgumentError(
            "PLAN_INVALID", f"{name} must be within {low:,}..{high:,}", field=name, value=value, low=low, high=high
        )
