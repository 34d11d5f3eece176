"""What a graph is made of: entities, relations and the subgraph of one document.

The graph of a knowledge base is the union of its documents' subgraphs (ADR-0014): nothing is merged into anything, so
that adding and removing a document are exact, and what a caller may see of an entity is what the visible documents say.
"""

from dataclasses import dataclass, field
from typing import Final

from corpusmesh_core.graphs.settings import GraphMethod

MAX_MENTIONS: Final = 200
"""Chunks of one document that an entity or relation names."""


@dataclass(frozen=True, slots=True)
class Mention:
    """Where something stands.

    Attributes:
        position: Chunk, by its place in the document from 0.
        weight: How often for an entity; for a relation how strongly, above 0.
    """

    position: int
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class EntityFragment:
    """What one document says of an entity.

    Attributes:
        key: See `corpusmesh_core.graphs.keys.entity_key`.
        name: As the document writes it most often.
        type: Type in lower case, such as "person"; "" where unknown.
        description: What a language model or the user says of it; "" without, where `sentence` speaks for it.
        sentence: Sentence of the document that tells most of it; "" where none is known.
        aliases: Other forms of the name in this document, each of which leads to it.
        mentions: Chunks that it stands in, ascending, at most MAX_MENTIONS.
        methods: How it was found.
        confidence: How sure the method is, 0 to 1.
    """

    key: int
    name: str
    type: str = ""
    description: str = ""
    sentence: str = ""
    aliases: tuple[str, ...] = ()
    mentions: tuple[Mention, ...] = ()
    methods: tuple[GraphMethod, ...] = (GraphMethod.NER,)
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class RelationFragment:
    """What one document says of two entities together.

    Attributes:
        source: Key of the entity that it goes out from.
        target: Key of the other one, never the same.
        predicate: How they are related, such as "is the older brother of"; "" where only that they are.
        description: What a language model or the user says of it; "" without, where `sentence` speaks for it.
        sentence: Sentence that both stand in; "" where none is known.
        keywords: What it is about, for the search by general words.
        mentions: Chunks that it stands in, ascending, at most MAX_MENTIONS.
        weight: How strong it is within its document, above 0.
        methods: How it was found.
        confidence: How sure the method is, 0 to 1.
    """

    source: int
    target: int
    predicate: str = ""
    description: str = ""
    sentence: str = ""
    keywords: tuple[str, ...] = ()
    mentions: tuple[Mention, ...] = ()
    weight: float = 1.0
    methods: tuple[GraphMethod, ...] = (GraphMethod.NER,)
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class Subgraph:
    """What one version of a document adds to the graph.

    Attributes:
        entities: One for each key, by key.
        relations: One for each pair of keys (in either direction), by pair; each end is among the entities.
    """

    entities: tuple[EntityFragment, ...] = ()
    relations: tuple[RelationFragment, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphChunk:
    """A chunk that entities are looked for in.

    Attributes:
        position: Its place in the document from 0.
        text: Its text.
        title: Title of its document.
        heading_path: Headings above it, outermost first.
        token_count: Tokens of the text by the embedder's tokenizer.
        language: BCP 47 primary tag, "" where unknown.
    """

    position: int
    text: str
    title: str = ""
    heading_path: tuple[str, ...] = ()
    token_count: int = 0
    language: str = ""


@dataclass(frozen=True, slots=True)
class Triple:
    """A fact that a user gives for a document (the seed on adjacency matrices, `003_67b62910d2d3a085.txt`).

    Attributes:
        subject: Name of an entity.
        predicate: How it is related to the other.
        object: Name of the other entity.
        passage: Text of the document that says so, or a part of it; "" for the chunks that hold both names.
        subject_type: Type of the subject; "" where unknown.
        object_type: Likewise.
    """

    subject: str
    predicate: str
    object: str
    passage: str = ""
    subject_type: str = ""
    object_type: str = ""


@dataclass(slots=True)
class GraphBill:
    """What a build has cost so far; the fields of the contract's GraphCost."""

    document_count: int = 0
    reused_document_count: int = 0
    chunk_count: int = 0
    entity_count: int = 0
    relation_count: int = 0
    report_count: int = 0
    reused_report_count: int = 0
    model_call_count: int = 0
    input_token_count: int = 0
    output_token_count: int = 0
    embedded_text_count: int = 0
    embedded_token_count: int = 0
    duration_seconds: float = 0.0
    failed_call_count: int = 0
    stepped_down_reason: str = ""


@dataclass(frozen=True, slots=True)
class Community:
    """Entities that belong together.

    Attributes:
        key: Digest of level and members, sixteen hexadecimal digits: equal members, equal key.
        level: 0 for the coarsest.
        members: Keys of entities, ascending.
        parent: Key of the community of the level above that holds it; "" at the top.
    """

    key: str
    level: int
    members: tuple[int, ...]
    parent: str = ""


@dataclass(frozen=True, slots=True)
class CommunityReport:
    """What is said of a community.

    Attributes:
        community: The community.
        title: Title.
        text: The report, Markdown without the title.
        weight: Sum of the strengths of its relations, against the strongest community of its level, 0 to 1.
        made_by: "lite", or name of the language model and version of the prompt.
        sources: Versions that the community stands on: all that say something of its members and relations among them.
        chunks: Chunks that the text stands on, (version, position), at most 50.
        fallback: Why a language model's report was not used; "" where it was, or was not asked for.
    """

    community: Community
    title: str
    text: str
    weight: float
    made_by: str
    sources: tuple[int, ...]
    chunks: tuple[tuple[int, int], ...] = ()
    fallback: str = ""


@dataclass(frozen=True, slots=True)
class GraphFigures:
    """What describes a built graph, kept with the build.

    Attributes:
        entity_count: Entities.
        relation_count: Relations.
        report_count: Reports.
        bill: What the last build has cost.
    """

    entity_count: int = 0
    relation_count: int = 0
    report_count: int = 0
    bill: GraphBill = field(default_factory=GraphBill)
