"""Which chunks a tree stands on."""

from typing import Any

import numpy as np
import pytest

from corpusmesh_core.artefacts import (
    CHUNKS,
    ENRICHED,
    VECTORS,
    VectorSet,
    embedded_texts,
    pack_chunks,
    pack_enriched,
    pack_vectors,
    text_key,
)
from corpusmesh_core.chunking.edits import DISABLED_ATTRIBUTE
from corpusmesh_core.documents import BlockKind, Chunk, ChunkRole
from corpusmesh_core.enrichment.values import Derived
from corpusmesh_core.errors import FailedPreconditionError, InternalError
from corpusmesh_core.records import RecordKind
from corpusmesh_raptor.leaves import read_leaves
from tests.support.ingest_stages import MemoryObjects, unit_vector, version

TITLE = "Rivers"


def chunk(position: int, text: str, role: ChunkRole = ChunkRole.TEXT, **fields: object) -> Chunk:
    plain = {"heading_path": ("Part",), "page": 2, "boxes": (), "token_count": 3, "block_kind": BlockKind.PARAGRAPH}
    return Chunk(position=position, text=text, role=role, **{**plain, **fields})  # type: ignore[arg-type]


def stored(chunks: list[Chunk], derived: list[Derived] | None = None, *, with_keys: bool = True) -> Any:
    texts = embedded_texts(TITLE, chunks, derived or [])
    vectors = np.array([unit_vector(text) for text in texts], dtype=np.float32)
    keys = np.frombuffer(b"".join(text_key("space", text) for text in texts), dtype=np.uint8).reshape(-1, 16)
    objects = MemoryObjects()
    objects.kept["chunks"] = pack_chunks({1: chunks})
    objects.kept["enriched"] = pack_enriched({1: (chunks, derived or [])})
    objects.kept["vectors"] = pack_vectors({1: VectorSet(vectors, keys if with_keys else keys[:0])})
    return objects


VERSION = version(1, title=TITLE, artefacts={CHUNKS: "chunks", VECTORS: "vectors"})


async def test_leaves_are_the_searched_chunks_of_text_with_their_own_vectors() -> None:
    chunks = [
        chunk(0, "springs"),
        chunk(0, "springs and mouths", ChunkRole.PARENT),
        chunk(1, "switched off", attributes={DISABLED_ATTRIBUTE: "true"}),
        chunk(0, "an example", ChunkRole.TAG_EXAMPLE),
        chunk(2, "mouths", context="of rivers"),
    ]
    derived = [Derived(kind=RecordKind.SUMMARY, key="0", text="a summary", chunks=(0,), is_embedded=True)]
    objects = stored(chunks, derived)
    row = version(1, title=TITLE, artefacts={CHUNKS: "chunks", ENRICHED: "enriched", VECTORS: "vectors"})
    leaves = (await read_leaves(objects, [row], timeout_seconds=1.0))[1]
    assert [(leaf.record_id, leaf.text) for leaf in leaves.leaves] == [("1-0", "springs"), ("1-2", "mouths")]
    assert [leaf.key for leaf in leaves.leaves] == [
        text_key("space", f"{TITLE}\nsprings"),
        text_key("space", f"{TITLE}\nof rivers\nmouths"),
    ]
    expected = np.array([unit_vector(f"{TITLE}\nsprings"), unit_vector(f"{TITLE}\nof rivers\nmouths")])
    np.testing.assert_array_equal(leaves.vectors, expected)
    first = leaves.leaves[0]
    assert (first.source, first.title, first.page, first.heading_path) == (1, TITLE, 2, ("Part",))


async def test_a_version_that_is_mostly_tables_has_no_leaves() -> None:
    rows = [chunk(place, f"row {place}", block_kind=BlockKind.TABLE) for place in range(3)]
    found = await read_leaves(stored([*rows, chunk(3, "a note")]), [VERSION], timeout_seconds=1.0)
    assert (found[1].leaves, found[1].vectors.shape) == ((), (0, 4))
    prose = [chunk(place, f"prose {place}") for place in range(3, 6)]
    assert len((await read_leaves(stored([*rows, *prose]), [VERSION], timeout_seconds=1.0))[1].leaves) == 6


async def test_vectors_without_keys_give_leaves_keys_of_their_own_all_the_same() -> None:
    objects = stored([chunk(0, "springs"), chunk(1, "springs"), chunk(2, "mouths")], with_keys=False)
    keys = [leaf.key for leaf in (await read_leaves(objects, [VERSION], timeout_seconds=1.0))[1].leaves]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("with_keys", [True, False])
async def test_what_is_struck_out_behind_what_is_embedded_makes_another_key(with_keys: bool) -> None:
    long = "水" * 30_000
    keys = [
        (await read_leaves(stored([chunk(0, text)], with_keys=with_keys), [VERSION], timeout_seconds=1.0))[1]
        .leaves[0]
        .key
        for text in (f"{long} the secret", long, long)
    ]
    assert keys[0] != keys[1] == keys[2]


async def test_what_is_missing_is_told_not_guessed() -> None:
    objects = stored([chunk(0, "springs")])
    del objects.kept["vectors"]
    with pytest.raises(FailedPreconditionError, match="is gone"):
        await read_leaves(objects, [VERSION], timeout_seconds=1.0)
    objects.kept["vectors"] = pack_vectors({1: VectorSet(np.zeros((0, 4), np.float32), np.zeros((0, 16), np.uint8))})
    with pytest.raises(InternalError) as told:
        await read_leaves(objects, [VERSION], timeout_seconds=1.0)
    assert told.value.reason == "VECTORS_MISMATCH"
