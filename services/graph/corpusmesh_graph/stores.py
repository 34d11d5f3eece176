"""What the graph service and its worker stand on."""

from dataclasses import dataclass

from corpusmesh_core.graphs.corrections import Correction
from corpusmesh_core.graphs.values import Triple
from corpusmesh_core.ports.builds import BuildStore
from corpusmesh_core.ports.chat import ChatModel
from corpusmesh_core.ports.completions import CompletionCache
from corpusmesh_core.ports.embedding import Embedder, TextTokenizer
from corpusmesh_core.ports.graph_inputs import CorrectionStore, TripleStore
from corpusmesh_core.ports.index import RecordIndex
from corpusmesh_core.ports.metadata import (
    AuditLog,
    DocumentStore,
    IdempotencyStore,
    KnowledgeBaseStore,
    PurgeStore,
    SnapshotStore,
)
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.ports.runs import RunStore
from corpusmesh_core.ports.usage import UsageLedger
from corpusmesh_core.ports.work import EventFeed
from corpusmesh_runtime.graphs.views import GraphViews


@dataclass(frozen=True, slots=True)
class GraphStores:
    """What the service and its worker stand on."""

    knowledge_bases: KnowledgeBaseStore
    documents: DocumentStore
    snapshots: SnapshotStore
    runs: RunStore
    builds: BuildStore
    corrections: CorrectionStore[Correction]
    triples: TripleStore[Triple]
    usage: UsageLedger
    cache: CompletionCache
    idempotency: IdempotencyStore
    audit: AuditLog
    objects: ObjectStore
    index: RecordIndex
    embedder: Embedder


@dataclass(frozen=True, slots=True)
class GraphTools:
    """What they work with besides.

    Attributes:
        counter: The embedder's tokenizer.
        chat: The language model; None where none is configured.
        events: Tells that builds have moved.
    """

    counter: TextTokenizer
    chat: ChatModel | None
    events: EventFeed


@dataclass(frozen=True, slots=True)
class GraphReads:
    """What the server reads with, and its worker does not need.

    Attributes:
        views: Graphs as callers see them.
        purges: Tells what versions a document has had, for the proof that nothing of it is left.
    """

    views: GraphViews
    purges: PurgeStore
