"""Measure what a build of a graph costs, and what adding one document to it does, over stores in memory.

    PYTHONPATH=. python bench/graph_updates.py EVAL_DIRECTORY [COUNT ...]

Documents are three passages of the set each, begun anew with other names where there are too few. The
index is a dict, so what OpenSearch takes is not in it; all other work of the graph worker is: reading chunks, finding
entities, resolution, communities, reports, packing. Processor seconds of one core.
"""

import argparse
import asyncio
import gc
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpusmesh_core.graphs.settings import GraphMethod, GraphSettings
from corpusmesh_core.graphs.telling import figures_of
from corpusmesh_core.ports.index import RecordSelection
from corpusmesh_core.records import Record
from corpusmesh_graph.building.shelf import SegmentShelf
from corpusmesh_graph.config import GraphServiceSettings
from tests.support.graph_builds import GraphWorld
from tests.support.tree_builds import Fuse

_CHUNKS = 3
_ADDED = 3


class DictIndex:
    """An index whose calls cost what they are asked for, whatever it holds."""

    def __init__(self) -> None:
        self.kept: dict[str, Record] = {}
        self.counts: dict[int, set[str]] = {}
        self.fetched = 0

    async def write(self, *given: Any, **_: object) -> None:
        """See `RecordIndex.write`."""
        records: Sequence[Record] = given[2]
        for record in records:
            self.kept[record.record_id] = record
            self.counts.setdefault(int(record.publisher), set()).add(record.record_id)

    async def refresh(self, *_: object, **__: object) -> None:
        """See `RecordIndex.refresh`."""

    async def fetch(self, *given: Any, **_: object) -> list[Record]:
        """See `RecordIndex.fetch`."""
        record_ids: Sequence[str] = given[2]
        self.fetched += len(record_ids)
        return [self.kept[name] for name in record_ids if name in self.kept]

    async def count(self, *given: Any, **_: object) -> int:
        """See `RecordIndex.count`."""
        selection: RecordSelection = given[2]
        return sum(len(self.counts.get(int(one), ())) for one in selection.publishers or ())


def documents(texts: Sequence[str], count: int) -> list[list[str]]:
    """Cut passages into documents; passages that come again name other things."""
    found = []
    for number in range(count):
        start = number * _CHUNKS
        lap = start // len(texts)
        passages = [texts[(start + place) % len(texts)] for place in range(_CHUNKS)]
        # Half of the capital letters begin another name in each lap.
        found.append(
            [passage.replace(" S", f" Sa{lap}").replace(" M", f" Mo{lap}") if lap else passage for passage in passages]
        )
    return found


async def measure(texts: Sequence[str], count: int) -> None:
    """Build a graph, and add documents one by one."""
    world = GraphWorld(GraphSettings(methods=(GraphMethod.NER,)))
    index = DictIndex()
    world.index = index  # type: ignore[assignment]
    settings = GraphServiceSettings(slice_seconds=1e9)
    world.shelf = SegmentShelf(world.objects, max_bytes=1 << 30)  # type: ignore[arg-type]
    given = documents(texts, count + _ADDED)
    for number in range(count):
        world.put(number + 1, f"d{number}", given[number])
    seconds = await timed(world, settings)
    bill = figures_of(world.builds.row.figures).bill
    print(f"{count} documents, {count * _CHUNKS} chunks: {1000 * seconds / count / _CHUNKS:.2f} ms a chunk;")
    print(
        f"  {bill.entity_count} fragments of entities, {bill.relation_count} of relations, {bill.report_count} reports"
    )
    for number in range(count, count + _ADDED):
        world.put(number + 1, f"d{number}", given[number])
        index.fetched = 0
        # The index in memory is not to be looked through by the collector of what is not used.
        gc.collect()
        gc.freeze()
        seconds = await timed(world, settings)
        bill = figures_of(world.builds.row.figures).bill
        print(f"  one more: {seconds:.2f} s, {bill.report_count} reports, {index.fetched} records read")


async def timed(world: GraphWorld, settings: GraphServiceSettings) -> float:
    """Build, and tell processor seconds."""
    began = time.process_time()
    await world.begin().work(Fuse(), settings)
    return time.process_time() - began


def main() -> None:
    """Read the set and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("counts", type=int, nargs="*", default=[500, 5000])
    arguments = parser.parse_args()
    lines = (arguments.directory / "corpus.jsonl").read_text().splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    for count in arguments.counts:
        asyncio.run(measure(texts, count))


if __name__ == "__main__":
    main()
