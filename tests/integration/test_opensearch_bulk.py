"""Bulk writing through a proxy that refuses, like a busy index, or breaks the connection (field report FR-A18)."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import httpx
import numpy as np
import pytest

from corpusmesh_adapters.opensearch import OpenSearchRecordIndex, OpenSearchSettings
from corpusmesh_app.stack import StackEndpoints
from corpusmesh_core.errors import DeadlineExceededError, OverloadedError
from corpusmesh_core.ports.index import IndexSpace, RecordSelection
from corpusmesh_core.records import Ordinal, Record, RecordKind

pytestmark = pytest.mark.servers

_SPACE = IndexSpace("bulk-8", 8)
_SECONDS = 60.0
_REFUSED = {"status": 429, "error": {"type": "rejected_execution_exception", "reason": "queue is full"}}


@dataclass
class BusyIndex:
    """A proxy in front of a real index; what it does to bulk requests is set by the test.

    Attributes:
        refuses_item: Whether an item is answered 429 instead of being passed on, by id and how often it came.
        refuses_request: Whether a whole bulk is answered 429, by its number from 1.
        drops_answer: Whether the connection is closed after a bulk was applied, by its number from 1.
        sent: How often each record came.
        applied: How often each record was passed on.
    """

    upstream: str
    refuses_item: Callable[[str, int], bool] = lambda _record_id, _count: False
    refuses_request: Callable[[int], bool] = lambda _number: False
    drops_answer: Callable[[int], bool] = lambda _number: False
    sent: Counter[str] = field(default_factory=Counter)
    applied: Counter[str] = field(default_factory=Counter)
    bulk_count: int = 0
    url: str = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            async with httpx.AsyncClient(base_url=self.upstream, timeout=_SECONDS) as client:
                while True:
                    head = (await reader.readuntil(b"\r\n\r\n")).decode()
                    method, path, _ = head.split(" ", 2)
                    headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
                    body = await reader.readexactly(int(headers.get("content-length", "0")))
                    answer = await self._answer(client, method, path, headers, body)
                    if answer is None:
                        break
                    status, content = answer
                    writer.write(
                        f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n"
                        f"content-length: {len(content)}\r\n\r\n".encode()
                        + content
                    )
                    await writer.drain()
        writer.close()

    async def _answer(
        self, client: httpx.AsyncClient, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, bytes] | None:
        types = {"content-type": headers.get("content-type", "application/json")}
        if "/_bulk" not in path:
            response = await client.request(method, path, content=body, headers=types)
            return response.status_code, response.content
        self.bulk_count += 1
        lines = body.splitlines(keepends=True)
        items = [(json.loads(lines[i])["index"]["_id"], lines[i] + lines[i + 1]) for i in range(0, len(lines), 2)]
        self.sent.update(record_id for record_id, _ in items)
        if self.refuses_request(self.bulk_count):
            return 429, b'{"error":{"type":"rejected_execution_exception","reason":"busy"},"status":429}'
        refused = {record_id for record_id, _ in items if self.refuses_item(record_id, self.sent[record_id])}
        passed = [(record_id, text) for record_id, text in items if record_id not in refused]
        outcomes: dict[str, object] = dict.fromkeys(refused, _REFUSED)
        if passed:
            self.applied.update(record_id for record_id, _ in passed)
            response = await client.request(method, path, content=b"".join(text for _, text in passed), headers=types)
            answered = response.json()["items"]
            outcomes |= {record_id: item["index"] for (record_id, _), item in zip(passed, answered, strict=True)}
        if self.drops_answer(self.bulk_count):
            return None
        ordered = [{"index": outcomes[record_id]} for record_id, _ in items]
        return 200, json.dumps({"errors": bool(refused), "items": ordered}).encode()


@pytest.fixture
async def busy(stack_endpoints: StackEndpoints) -> AsyncIterator[BusyIndex]:
    proxy = BusyIndex(stack_endpoints.opensearch_url)
    server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0, limit=2**20)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield proxy
    server.close()


@pytest.fixture
async def index(busy: BusyIndex) -> AsyncIterator[OpenSearchRecordIndex]:
    settings = OpenSearchSettings(
        urls=(busy.url,), max_bulk_items=50, max_attempt_count=4, retry_delay_seconds=0.01, max_retry_delay_seconds=0.05
    )
    opened = OpenSearchRecordIndex(settings, rng=np.random.default_rng(1))
    yield opened
    await opened.close()


def _records(count: int) -> list[Record]:
    rng = np.random.default_rng(5)
    vectors = rng.normal(size=(count, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return [
        Record(f"r{i}", RecordKind.CHUNK, "kb", Ordinal(1), (Ordinal(1),), f"text {i}", vector=vectors[i])
        for i in range(count)
    ]


async def _count(index: OpenSearchRecordIndex, tenant_id: str) -> int:
    await index.refresh(tenant_id, _SPACE.space_id, timeout_seconds=_SECONDS)
    return await index.count(tenant_id, _SPACE.space_id, RecordSelection(), timeout_seconds=_SECONDS)


async def test_fr_a18_only_refused_items_are_sent_again(
    busy: BusyIndex, index: OpenSearchRecordIndex, tenant_id: str
) -> None:
    await index.ensure_space(tenant_id, _SPACE, timeout_seconds=_SECONDS)
    busy.refuses_item = lambda record_id, count: int(record_id[1:]) % 3 == 0 and count == 1
    result = await index.write(tenant_id, _SPACE.space_id, _records(1000), epoch=1, timeout_seconds=_SECONDS)
    assert await _count(index, tenant_id) == 1000
    assert result.written_count == 1000
    assert result.resent_count == 334
    assert set(busy.applied.values()) == {1}, "nothing that was accepted is sent again"
    assert {busy.sent[f"r{i}"] for i in range(0, 1000, 3)} == {2}


async def test_fr_a18_whole_requests_that_are_refused_are_sent_again(
    busy: BusyIndex, index: OpenSearchRecordIndex, tenant_id: str
) -> None:
    await index.ensure_space(tenant_id, _SPACE, timeout_seconds=_SECONDS)
    busy.refuses_request = lambda number: number % 2 == 1
    result = await index.write(tenant_id, _SPACE.space_id, _records(1000), epoch=1, timeout_seconds=_SECONDS)
    assert result.written_count == await _count(index, tenant_id) == 1000
    assert result.request_count == busy.bulk_count


async def test_fr_a18_connection_dropped_after_the_bulk_was_applied_makes_no_duplicate(
    busy: BusyIndex, index: OpenSearchRecordIndex, tenant_id: str
) -> None:
    await index.ensure_space(tenant_id, _SPACE, timeout_seconds=_SECONDS)
    busy.drops_answer = lambda number: number in {1, 5, 6}
    result = await index.write(tenant_id, _SPACE.space_id, _records(1000), epoch=1, timeout_seconds=_SECONDS)
    assert result.written_count == await _count(index, tenant_id) == 1000
    assert max(busy.applied.values()) > 1, "the proxy did drop an applied bulk"


async def test_fr_a18_items_that_stay_refused_fail_the_write_with_ids_and_reasons(
    busy: BusyIndex, index: OpenSearchRecordIndex, tenant_id: str
) -> None:
    await index.ensure_space(tenant_id, _SPACE, timeout_seconds=_SECONDS)
    busy.refuses_item = lambda record_id, _count: record_id in {"r7", "r77"}
    with pytest.raises(OverloadedError) as caught:
        await index.write(tenant_id, _SPACE.space_id, _records(100), epoch=1, timeout_seconds=_SECONDS)
    assert set(caught.value.metadata["record_ids"].split()) == {"r7", "r77"}
    assert "429" in caught.value.metadata["reasons"]
    assert caught.value.retry_delay_seconds is not None
    assert busy.sent["r7"] == busy.sent["r77"] == 4, "attempts are bounded"
    assert await _count(index, tenant_id) == 98


async def test_an_index_that_refuses_for_ever_ends_at_the_deadline(
    busy: BusyIndex, index: OpenSearchRecordIndex, tenant_id: str
) -> None:
    await index.ensure_space(tenant_id, _SPACE, timeout_seconds=_SECONDS)
    patient = OpenSearchRecordIndex(
        OpenSearchSettings(urls=(busy.url,), max_attempt_count=1_000, retry_delay_seconds=0.05)
    )
    busy.refuses_request = lambda _number: True
    try:
        with pytest.raises(DeadlineExceededError):
            await patient.write(tenant_id, _SPACE.space_id, _records(10), epoch=1, timeout_seconds=0.5)
    finally:
        await patient.close()
    assert await _count(index, tenant_id) == 0


async def test_bodies_stay_within_the_bound_of_bytes(
    busy: BusyIndex, stack_endpoints: StackEndpoints, tenant_id: str
) -> None:
    small = OpenSearchRecordIndex(OpenSearchSettings(urls=(busy.url,), max_bulk_bytes=2_000))
    try:
        await small.ensure_space(tenant_id, _SPACE, timeout_seconds=_SECONDS)
        result = await small.write(tenant_id, _SPACE.space_id, _records(30), epoch=1, timeout_seconds=_SECONDS)
        assert result.written_count == 30
        assert result.request_count == busy.bulk_count > 5
    finally:
        await small.close()
