"""What builds stand on: the stores of trees and of graphs, and what reads graphs."""

from corpusmesh_adapters.postgres import (
    PostgresBuildStore,
    PostgresCompletionCache,
    PostgresGraphInputStore,
    PostgresPurgeStore,
    PostgresUsageLedger,
)
from corpusmesh_app.settings import MeshSettings
from corpusmesh_app.wiring import Adapters, work_limits
from corpusmesh_core.ports.builds import DATASET_GRAPH, DATASET_TREE
from corpusmesh_graph.stores import GraphReads, GraphStores
from corpusmesh_raptor.stores import RaptorStores
from corpusmesh_runtime.graphs.reader import GraphReader


def raptor_stores(settings: MeshSettings, adapters: Adapters) -> RaptorStores:
    """Make the stores that trees stand on.

    Args:
        settings: The configuration.
        adapters: Open connections.

    Returns:
        The stores.
    """
    stores = adapters.stores
    return RaptorStores(
        knowledge_bases=stores.knowledge_bases,
        documents=stores.documents,
        snapshots=stores.snapshots,
        runs=stores.runs,
        trees=PostgresBuildStore(adapters.database, work_limits(settings), DATASET_TREE),
        usage=PostgresUsageLedger(adapters.database),
        cache=PostgresCompletionCache(adapters.database),
        idempotency=stores.idempotency,
        audit=stores.audit,
        objects=stores.objects,
        index=stores.index,
        embedder=stores.embedder,
    )


def graph_stores(settings: MeshSettings, adapters: Adapters) -> GraphStores:
    """Make the stores that graphs stand on.

    Args:
        settings: The configuration.
        adapters: Open connections.

    Returns:
        The stores.
    """
    stores = adapters.stores
    inputs = PostgresGraphInputStore(adapters.database)
    return GraphStores(
        knowledge_bases=stores.knowledge_bases,
        documents=stores.documents,
        snapshots=stores.snapshots,
        runs=stores.runs,
        builds=PostgresBuildStore(adapters.database, work_limits(settings), DATASET_GRAPH),
        corrections=inputs,
        triples=inputs,
        usage=PostgresUsageLedger(adapters.database),
        cache=PostgresCompletionCache(adapters.database),
        idempotency=stores.idempotency,
        audit=stores.audit,
        objects=stores.objects,
        index=stores.index,
        embedder=stores.embedder,
    )


def graph_reader(settings: MeshSettings, adapters: Adapters) -> GraphReader:
    """Make what gives callers the views of graphs; an asynchronous context manager, one for each process.

    Args:
        settings: The configuration.
        adapters: Open connections.

    Returns:
        The reader.
    """
    builds = PostgresBuildStore(adapters.database, work_limits(settings), DATASET_GRAPH)
    return GraphReader(adapters.stores.objects, builds, settings.graph_cache)


def graph_reads(adapters: Adapters, views: GraphReader) -> GraphReads:
    """Make what the server of graphs reads with.

    Args:
        adapters: Open connections.
        views: Views of graphs.

    Returns:
        What it reads with.
    """
    return GraphReads(views, PostgresPurgeStore(adapters.database))
