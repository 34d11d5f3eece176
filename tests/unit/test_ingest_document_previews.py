"""Previews: bounded in number, size and time, under the settings that hold, and only of what the caller may read."""

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from corpusmesh.ingest.v1 import chunk_service_pb2 as pb
from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh_core.artefacts import Reading, pack_readings
from corpusmesh_core.chunking import WordTokenCounter
from corpusmesh_core.documents import Block, BlockKind, ParsedDocument
from corpusmesh_core.errors import InvalidArgumentError, NotFoundError, OverloadedError
from corpusmesh_core.ports.parsing import ParseLimits, ParseOptions, RecognitionMode
from corpusmesh_core.records import Ordinal
from corpusmesh_core.tenancy import Access, Identity, Role, Scope, VersionRow, VersionState, knowledge_base_not_found
from corpusmesh_ingest.configuration import ParseSection
from corpusmesh_ingest.handlers.previews import Previewer, PreviewTools
from corpusmesh_ingest.handlers.version_access import VersionReader
from corpusmesh_runtime.context import CallContext, current_call

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
PARENT = "knowledgeBases/kb"
PARSED = ParsedDocument("text/plain", "", (Block(BlockKind.PARAGRAPH, "One sentence of the document. " * 40),))
VERSION = VersionRow(
    tenant_id="acme", knowledge_base_id="kb", document_id="a", version=1, ordinal=Ordinal(1), display_name="a.txt",
    original_sha256="a" * 64, size_bytes=4, media_type="text/plain", title="", page_count=0, chunk_count=1,
    record_count=1, token_count=1, state=VersionState.READY, failed_stage="", error_reason="", error_message="",
    config_hash="", artefacts={"parsed": "run/parsed"}, warnings=(), run_id="run", publish_time=MOMENT,
    create_time=MOMENT,
)  # fmt: skip


class Parser:
    """Remembers how it was asked; waits until it may go on."""

    def __init__(self) -> None:
        self.options: list[ParseOptions] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def parse(
        self, content: Path | bytes, *, display_name: str, options: ParseOptions, deadline_seconds: float
    ) -> ParsedDocument:
        self.options.append(options)
        await self.may_go_on.wait()
        return PARSED


class Stores:
    def __init__(self) -> None:
        self.version = VERSION
        self.config: dict[str, object] = {}
        self.objects = {"run/parsed": pack_readings({1: Reading(PARSED, ParseSection().fingerprint())})}
        self.max_input_tokens = 512

    async def get(self, *arguments: Any, **bounds: Any) -> Any:
        if not isinstance(arguments[0], Identity):
            return self.objects.get(arguments[0], b"text")
        if arguments[0].role < Role.EDITOR:
            raise knowledge_base_not_found("kb")
        return SimpleNamespace(config=self.config, knowledge_base_id="kb")

    async def list_versions(self, *_: object) -> list[VersionRow]:
        return [self.version]

    async def check(self, identity: Identity, knowledge_base_ids: list[str], access: Access) -> None:
        return None


class Bench:
    def __init__(self, **limits: Any) -> None:
        self.stores, self.parser = Stores(), Parser()
        stores = cast(Any, self.stores)
        tools = PreviewTools(
            parser=cast(Any, self.parser),
            **{
                "counter": WordTokenCounter,
                "limits": ParseLimits(max_bytes=1000, max_pages=7),
                "max_waiting": 2,
                "max_seconds": 30.0,
                **limits,
            },
        )
        versions = VersionReader(stores, stores)
        self.previewer = Previewer(tools, knowledge_bases=stores, versions=versions, objects=stores, embedder=stores)

    async def preview(self, **fields: Any) -> pb.PreviewChunksResponse:
        return await self.previewer.preview(pb.PreviewChunksRequest(parent=PARENT, **fields))


@pytest.fixture(autouse=True)
def call() -> Iterator[None]:
    identity = Identity("acme", "ann", Role.EDITOR, Scope.WRITE)
    token = current_call.set(CallContext(identity, "request-1", time.monotonic() + 60))
    yield
    current_call.reset(token)


def content(data: bytes = b"text") -> pb.PreviewChunksRequest.Content:
    return pb.PreviewChunksRequest.Content(display_name="a.txt", data=data)


def tokens(count: int) -> knowledge_base_pb.ChunkSettings:
    return knowledge_base_pb.ChunkSettings(max_chunk_tokens=count)


class SlowCounter(WordTokenCounter):
    """Counts when it is let; remembers how many threads count at once."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.running = self.most = 0

    def count_tokens(self, texts: Any) -> list[int]:
        self.running += 1
        self.most = max(self.most, self.running)
        self.may_go_on.wait(30)
        self.running -= 1
        return super().count_tokens(texts)


async def test_a_preview_that_ran_out_of_time_keeps_its_turn_until_its_thread_has_ended() -> None:
    counter = SlowCounter()
    bench = Bench(max_seconds=0.2, counter=lambda: counter)
    for _ in range(3):
        with pytest.raises(OverloadedError) as caught:
            await bench.preview(content=content())
        assert caught.value.reason == "PREVIEW_TOO_SLOW"
    assert (counter.running, counter.most) == (1, 1)
    counter.may_go_on.set()
    bench.previewer._tools = replace(bench.previewer._tools, max_seconds=30.0)
    assert (await bench.preview(content=content())).chunks
    assert counter.most == 1


async def test_a_version_is_not_read_anew_where_it_was_read_under_the_same_settings() -> None:
    bench = Bench()
    made = await bench.preview(version=f"{PARENT}/documents/a/versions/1", chunk_settings=tokens(40), page_size=2)
    assert bench.parser.options == []
    assert len(made.chunks) == 2 < made.total_size
    assert all(chunk.token_count <= 40 for chunk in made.chunks)


async def test_a_version_is_read_anew_under_other_settings_with_the_password() -> None:
    bench = Bench()
    never = knowledge_base_pb.ParseSettings(recognition=knowledge_base_pb.RECOGNITION_MODE_NEVER)
    await bench.preview(version=f"{PARENT}/documents/a/versions/1", parse_settings=never, password="open")
    (options,) = bench.parser.options
    assert (options.recognition, options.password) == (RecognitionMode.NEVER, "open")
    assert "open" not in repr(options)
    assert (options.limits.max_pages, options.limits.wall_seconds) == (7, 30)


async def test_settings_of_the_version_go_before_those_of_the_knowledge_base() -> None:
    bench = Bench()
    bench.stores.config = {"chunking": {"template": "general", "settings": {"max_tokens": 40}}}
    cut = (await bench.preview(content=content())).total_size
    assert cut > 1
    bench.stores.version = replace(VERSION, config={"chunking": {"template": "one", "settings": {}}})
    assert (await bench.preview(version=f"{PARENT}/documents/a/versions/1")).total_size == 1


async def test_one_more_preview_than_may_wait_is_refused_at_once() -> None:
    bench = Bench()
    bench.parser.may_go_on.clear()
    running = [asyncio.create_task(bench.preview(content=content())) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError) as refused:
        await bench.preview(content=content())
    assert refused.value.reason == "PREVIEWS_BUSY"
    bench.parser.may_go_on.set()
    await asyncio.gather(*running)
    assert (await bench.preview(content=content())).total_size


async def test_a_preview_that_takes_too_long_is_ended_and_the_next_one_goes_on() -> None:
    bench = Bench(max_seconds=0.5)
    bench.parser.may_go_on.clear()
    with pytest.raises(OverloadedError) as refused:
        await bench.preview(content=content())
    assert refused.value.reason == "PREVIEW_TOO_SLOW"
    bench.parser.may_go_on.set()
    assert (await bench.preview(content=content())).total_size


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "content.display_name"),
        ({"content": content(b"")}, "content.data"),
        ({"content": content(b"x" * (3 * 1024 * 1024 + 1))}, "content.data"),
        ({"content": content(), "password": "x" * 1025}, "password"),
        ({"content": content(), "chunk_settings": tokens(1)}, "chunk_settings.settings.max_tokens"),
        ({"version": "knowledgeBases/other/documents/a/versions/1"}, "version"),
        ({"version": "a"}, "version"),
    ],
)
async def test_what_cannot_be_previewed_is_named(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        await Bench().preview(**fields)
    assert refused.value.field == field


async def test_an_original_too_large_to_be_read_for_a_look_is_refused() -> None:
    bench = Bench()
    bench.stores.version = replace(VERSION, size_bytes=1001, artefacts={})
    with pytest.raises(InvalidArgumentError) as refused:
        await bench.preview(version=f"{PARENT}/documents/a/versions/1")
    assert refused.value.reason == "PREVIEW_TOO_LARGE"


async def test_a_reader_previews_nothing() -> None:
    identity = Identity("acme", "bob", Role.VIEWER, Scope.WRITE)
    token = current_call.set(CallContext(identity, "request-2", time.monotonic() + 60))
    try:
        with pytest.raises(NotFoundError):
            await Bench().preview(content=content())
    finally:
        current_call.reset(token)
