"""Measures what a graph without a language model costs beside embedding the same chunks: `make bench-graphs`.

    python bench/graph_build.py [--counts 200,1000] [--set synthetic|2wiki|...] [--data FOLDER]

Documents of ten passages, a chunk each. Printed for each count: processor and wall seconds of ingest, of which
embedding, of the build of the graph, of one more document (three times), of one document deleted; requests to
OpenSearch, texts embedded, bytes stored; and from the same texts the pairs of names that resolution compares.

Bars: the build costs no more than embedding; no text is embedded for it; deleting asks no model; OpenSearch keeps at
most 20 KB a chunk with the graph.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from measured_mesh import SHARED, MeasuredMesh, measured_mesh, passages_of

from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_client.knowledge_base_settings import settings_from_plain
from corpusmesh_core.graphs.blocking import candidate_pairs
from corpusmesh_core.graphs.extraction import extract_entities
from corpusmesh_core.graphs.names import NamedEntity
from corpusmesh_core.graphs.settings import GraphMethod, GraphSettings
from corpusmesh_core.graphs.values import GraphChunk

MAX_BUILD_SHARE = 1.0
MAX_PAIRS_PER_ENTITY = 5.0
MAX_BYTES_PER_CHUNK = 20 * 1024
MAX_GROWTH = 1.5
_MORE = 3
Document = tuple[str, list[str]]


def items_of(documents: Sequence[Document]) -> list[UploadItem]:
    """A passage is a chunk: they are cut at the mark between them."""
    return [UploadItem(f"{title}.txt", "¶".join(texts).encode(), title=title) for title, texts in documents]


async def put(client: CorpusMeshClient, base: str, documents: Sequence[Document]) -> None:
    upload = await client.upload(base, items_of(documents), interactive=False)
    run = await client.runs.wait(upload.run)
    assert not run.failed_count, run


async def build(client: CorpusMeshClient, base: str) -> None:
    started = await client.graphs.build(f"{base}/graph")
    run = await client.runs.wait(started.run)
    assert not run.HasField("error"), run


async def graph_base(client: CorpusMeshClient, **graph: object) -> str:
    settings = settings_from_plain(
        {
            "chunking": {"template": "general", "settings": {"exact_delimiters": ["¶"], "max_tokens": 510}},
            "graph": {"methods": ["ner"], "auto_update": False, **graph},
        }
    )
    settings.display_name = "graph"
    return (await client.knowledge_bases.create(settings)).name


async def measure(mesh: MeasuredMesh, documents: Sequence[Document], more: Sequence[Document]) -> list[str]:
    tenant = await mesh.harness.tenant()
    missed: list[str] = []
    async with mesh.harness.client(tenant.owner_key) as client:
        base = await graph_base(client)
        before = await mesh.read()
        await put(client, base, documents)
        ingest = await mesh.settled(before)
        held = await client.knowledge_bases.get(base)
        chunks = held.chunk_count
        plain_bytes = await mesh.index_bytes(tenant.tenant_id, held.space)
        before = await mesh.settled(await mesh.read())
        before = await mesh.read()
        await build(client, base)
        made = await mesh.settled(before)
        graph_bytes = await mesh.index_bytes(tenant.tenant_id, held.space)
        bill = (await client.graphs.get(f"{base}/graph")).bill
        records = bill.entity_count + bill.relation_count + bill.report_count
        print(f"\n## {len(documents)} documents, {chunks} chunks\ningest: {ingest.told()}\nbuild:  {made.told()}")
        print(
            f"{bill.entity_count} fragments of entities, {bill.relation_count} of relations,"
            f" {bill.report_count} reports: {records / chunks:.1f} records a chunk"
        )
        embedding, graph = ingest.services["embed"], made.services["graph"]
        print(
            f"embedding {1000 * embedding / chunks:.1f} ms a chunk, graph service {1000 * graph / chunks:.1f} ms:"
            f" {graph / embedding:.2f} times; all services {made.service_seconds / embedding:.2f},"
            f" with servers {(made.service_seconds + made.server_seconds) / embedding:.2f};"
            f" wall of the build {made.seconds / ingest.seconds:.2f} of the ingest's"
        )
        print(
            f"OpenSearch: {plain_bytes / chunks / 1024:.1f} KB a chunk,"
            f" with the graph {graph_bytes / chunks / 1024:.1f}"
        )
        if graph > MAX_BUILD_SHARE * embedding:
            missed.append(f"{chunks} chunks: the build costs {graph / embedding:.2f} times embedding")
        if made.texts:
            missed.append(f"{made.texts} texts embedded for a graph without vectors")
        if graph_bytes > MAX_BYTES_PER_CHUNK * chunks:
            missed.append(f"{graph_bytes / chunks / 1024:.1f} KB of OpenSearch a chunk")
        for document in more:
            before = await mesh.read()
            await put(client, base, [document])
            await mesh.settled(before)
            before = await mesh.read()
            await build(client, base)
            print(f"one more: {(await mesh.settled(before)).told()}")
        listed = {item.display_name: item.name async for item in client.documents.list(base)}
        for title, _ in documents[:2]:
            before = await mesh.read()
            await client.runs.wait(await client.documents.delete(listed[f"{title}.txt"]))
            await build(client, base)
            cost = await mesh.settled(before)
            print(f"one deleted: {cost.told()}")
            if cost.texts:
                missed.append("a deletion embeds texts")
    return missed


def measure_pairs(documents: Sequence[Document], more: Sequence[Document]) -> float:
    """Count the pairs of names that are compared: of all, and of those of one more document."""
    settings = GraphSettings(methods=(GraphMethod.NER,))

    def entities_of(document: Document) -> dict[int, NamedEntity]:
        title, texts = document
        chunks = [GraphChunk(place, text, title, (), len(text) // 4, "en") for place, text in enumerate(texts)]
        return {
            entity.key: NamedEntity(entity.name, entity.type) for entity in extract_entities(chunks, settings).entities
        }

    known: dict[int, NamedEntity] = {}
    for document in documents:
        known |= entities_of(document)
    all_pairs = len(candidate_pairs(known, None)) / max(1, len(known))
    found = entities_of(more[0])
    new = found.keys() - known.keys()
    new_pairs = len(candidate_pairs(known | found, new)) / max(1, len(new))
    print(
        f"{len(known)} names: {all_pairs:.2f} pairs compared for each; one more document: {new_pairs:.2f} for each of"
        f" its {len(new)} new ones"
    )
    return max(all_pairs, new_pairs)


async def bench(arguments: argparse.Namespace, folder: Path) -> list[str]:
    missed: list[str] = []
    counts = [int(part) for part in arguments.counts.split(",")]
    made = passages_of(arguments.set, max(counts) + 10 * _MORE)
    if made is None:
        print(f"no texts for {arguments.set} in {SHARED}: nothing was measured")
        return []
    async with measured_mesh(folder) as mesh:
        before = await mesh.read()
        await asyncio.sleep(5)
        print(f"idle for 5 s: {(await mesh.read()).since(before).told()}")
        for count in counts:
            more = made[-_MORE:]
            missed += await measure(mesh, made[: count // 10], more)
            pairs = measure_pairs(made[: count // 10], more)
            if pairs > MAX_PAIRS_PER_ENTITY:
                missed.append(f"{pairs:.1f} pairs compared for an entity")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", default="200,1000")
    parser.add_argument("--set", default="synthetic")
    parser.add_argument("--data", type=Path)
    arguments = parser.parse_args()
    print(f"load average before: {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="corpusmesh-bench-") as folder:
        missed = asyncio.run(bench(arguments, arguments.data or Path(folder)))
    print(f"load average after: {os.getloadavg()[0]:.1f}")
    print("Bars that are missed: " + ("; ".join(missed) if missed else "none") + ".")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
