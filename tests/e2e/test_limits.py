"""Bounds and malformed input through the door: refused early, typed, and alone (invariant 8)."""

import asyncio
import base64
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterable

import grpc
import grpc.aio
import pytest

from corpusmesh.ingest.v1 import document_service_pb2 as pb
from corpusmesh.ingest.v1.document_service_pb2_grpc import DocumentServiceStub
from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_client.errors import error_from_rpc
from corpusmesh_core.errors import (
    CorpusMeshError,
    DocumentError,
    InvalidArgumentError,
    OverloadedError,
)
from corpusmesh_core.ports.objects import originals_prefix
from corpusmesh_ingest.handlers.paging import make_page_token
from tests.support.mesh import MeshHarness, TestTenant, knowledge_base
from tests.support.mesh_probes import count_objects

MAX_BYTES = 5_000
MAX_TASKS = 2
MIB = 1024 * 1024


@pytest.fixture(scope="module")
async def tight(distributed_mesh: MeshHarness) -> AsyncIterator[MeshHarness]:
    """The mesh with small bounds at its ingest server."""
    await distributed_mesh.restart(
        "ingest",
        {
            "CORPUSMESH_INGEST__MAX_DOCUMENT_BYTES": str(MAX_BYTES),
            "CORPUSMESH_INGEST__MAX_OPEN_TASKS_PER_TENANT": str(MAX_TASKS),
            "CORPUSMESH_INGEST__MAX_DOCUMENTS_PER_UPLOAD": "8",
            "CORPUSMESH_INGEST__SPOOL_MEMORY_BYTES": "2000",
        },
    )
    try:
        yield distributed_mesh
    finally:
        await distributed_mesh.restart("ingest")


@pytest.fixture
async def tenant(distributed_mesh: MeshHarness) -> TestTenant:
    return await distributed_mesh.tenant()


@pytest.fixture
async def client(distributed_mesh: MeshHarness, tenant: TestTenant) -> AsyncIterator[CorpusMeshClient]:
    async with distributed_mesh.client(tenant.owner_key) as made:
        yield made


async def refused(mesh: MeshHarness, key: str, messages: Iterable[pb.UploadDocumentsRequest]) -> CorpusMeshError:
    """Send an upload's messages as they are, and give what it was refused with."""

    async def stream() -> AsyncIterator[pb.UploadDocumentsRequest]:
        for message in messages:
            yield message

    async with grpc.aio.insecure_channel(mesh.grpc_address) as channel:
        stub = DocumentServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await stub.UploadDocuments(stream(), timeout=60, metadata=(("authorization", f"Bearer {key}"),))
    return error_from_rpc(raised.value)


def settings(base: str) -> pb.UploadDocumentsRequest:
    return pb.UploadDocumentsRequest(settings=pb.UploadSettings(parent=base))


def header(name: str = "a.txt") -> pb.UploadDocumentsRequest:
    return pb.UploadDocumentsRequest(header=pb.DocumentHeader(display_name=name))


def data(content: bytes = b"text") -> pb.UploadDocumentsRequest:
    return pb.UploadDocumentsRequest(data=content)


def end(document_count: int) -> pb.UploadDocumentsRequest:
    return pb.UploadDocumentsRequest(end=pb.UploadEnd(document_count=document_count))


async def test_a_document_that_is_too_large_is_refused_alone(
    tight: MeshHarness, tenant: TestTenant, client: CorpusMeshClient
) -> None:
    base = (await knowledge_base(client)).name
    async with asyncio.timeout(120):
        upload = await client.upload(
            base,
            [
                UploadItem("before.txt", b"It stands before the large one."),
                UploadItem("just.txt", b"y" * MAX_BYTES),
                UploadItem("large.txt", b"x" * (MAX_BYTES + 1)),
                UploadItem("huge.txt", b"z" * (120 * MAX_BYTES)),
                UploadItem("after.txt", b"It stands after the large one."),
            ],
        )
        reasons = [entry.error.reason if entry.error else "" for entry in upload.documents]
        assert [bool(reason) for reason in reasons] == [False, False, True, True, False], reasons
        for entry in upload.documents[2:4]:
            assert isinstance(entry.error, InvalidArgumentError)
            assert str(MAX_BYTES) in entry.error.message.replace(",", "") + str(dict(entry.error.metadata))
        run = await client.runs.wait(upload.run)
        assert run.document_count == run.succeeded_count == 3
        names = {document.display_name async for document in client.documents.list(base)}
        assert names == {"before.txt", "just.txt", "after.txt"}
        assert await count_objects(tight, originals_prefix(tenant.tenant_id)) == 3, (
            "nothing is left of what was refused"
        )


@contextlib.asynccontextmanager
async def frozen_worker(mesh: MeshHarness) -> AsyncIterator[None]:
    os.kill(mesh.processes["worker"].pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(mesh.processes["worker"].pid, signal.SIGCONT)


async def test_more_work_than_may_wait_is_refused_with_a_delay(
    tight: MeshHarness, tenant: TestTenant, client: CorpusMeshClient
) -> None:
    base = (await knowledge_base(client)).name
    async with asyncio.timeout(180):
        async with frozen_worker(tight):
            runs = [
                (await client.upload(base, [UploadItem(f"{i}.txt", f"Text number {i}.".encode())])).run
                for i in range(MAX_TASKS)
            ]
            with pytest.raises(OverloadedError) as raised:
                await client.upload(base, [UploadItem("more.txt", b"One more.")])
            assert raised.value.reason == "WORK_QUEUE_FULL"
            assert raised.value.retry_delay_seconds == 10.0
            other = await tight.tenant()
            async with tight.client(other.owner_key) as neighbour:
                its = await neighbour.upload((await knowledge_base(neighbour)).name, [UploadItem("n.txt", b"Mine.")])
                assert its.run, "another tenant has room of its own"
        for run in runs:
            assert (await client.runs.wait(run)).succeeded_count == 1
        upload = await client.upload(base, [UploadItem("more.txt", b"One more.")])
        assert (await client.runs.wait(upload.run)).succeeded_count == 1


async def test_more_documents_than_one_upload_takes_are_refused(tight: MeshHarness, client: CorpusMeshClient) -> None:
    base = (await knowledge_base(client)).name
    with pytest.raises(InvalidArgumentError) as raised:
        await client.upload(base, [UploadItem(f"{i}.txt", b"Text.") for i in range(9)])
    assert raised.value.reason == "UPLOAD_TOO_MANY_DOCUMENTS"
    assert raised.value.metadata["limit"] == "8"


async def test_streams_of_another_shape_are_refused(
    mesh: MeshHarness, tenant: TestTenant, client: CorpusMeshClient
) -> None:
    base = (await knowledge_base(client)).name
    shapes = {
        "UPLOAD_EMPTY": [settings(base), end(0)],
        "UPLOAD_CUT_OFF": [settings(base), header(), data()],
        "UPLOAD_COUNT_MISMATCH": [settings(base), header(), data(), end(2)],
        "UPLOAD_PIECE_TOO_LARGE": [settings(base), header(), data(b"x" * (MIB + 1))],
        "RESOURCE_EXHAUSTED": [settings(base), header(), data(b"x" * (5 * MIB))],
    }
    for reason, messages in shapes.items():
        assert (await refused(mesh, tenant.owner_key, messages)).reason == reason
    out_of_order = [
        [settings(base), data()],
        [settings(base), settings(base)],
        [settings(base), header(), data(), settings(base)],
        [settings(base), header(), pb.UploadDocumentsRequest()],
    ]
    for messages in out_of_order:
        error = await refused(mesh, tenant.owner_key, messages)
        assert isinstance(error, InvalidArgumentError)
        assert error.reason == "UPLOAD_OUT_OF_ORDER"
    # Without settings there is no knowledge base, and who may write where is the first question.
    for messages in ([header(), data(), settings(base)], [data()], []):
        error = await refused(mesh, tenant.owner_key, messages)
        assert error.reason in ("UPLOAD_OUT_OF_ORDER", "RESOURCE_NAME_INVALID", "KNOWLEDGE_BASE_NOT_FOUND"), error
    assert [document async for document in client.documents.list(base)] == []
    assert [run async for run in client.runs.list(base)] == []


async def test_a_file_of_no_bytes_fails_alone_with_a_reason(mesh: MeshHarness, client: CorpusMeshClient) -> None:
    base = (await knowledge_base(client)).name
    async with asyncio.timeout(120):
        upload = await client.upload(
            base,
            [UploadItem("none.txt", b""), UploadItem("blank.md", b"  \n\n "), UploadItem("some.txt", b"Something.")],
        )
        run = await client.runs.wait(upload.run)
    assert (run.succeeded_count, run.failed_count) == (1, 2)
    failures = {part.display_name: part.error for part in run.failed_parts}
    assert set(failures) == {"none.txt", "blank.md"}
    assert all("DOCUMENT_EMPTY" in str(error) for error in failures.values())
    assert len((await client.search([base], "something")).hits) == 1


async def test_page_tokens_fit_the_listing_they_came_from_alone(mesh: MeshHarness, client: CorpusMeshClient) -> None:
    async with asyncio.timeout(120):
        base, other = (await knowledge_base(client)).name, (await knowledge_base(client)).name
        upload = await client.upload(
            base, [UploadItem(f"{i}.txt", f"The lighthouse number {i} is lit.".encode()) for i in range(7)]
        )
        await client.runs.wait(upload.run)
        first = await client.documents.list_page(base, page_size=3)
        assert len(first.documents) == 3
        found = await client.search([base], "lighthouse", page_size=3)
        assert len(found.hits) == 3
        second = await client.search([base], "lighthouse", page_size=3, page_token=found.next_page_token)
        third = await client.search([base], "lighthouse", page_size=3, page_token=second.next_page_token)
        records = [hit.record_id for page in (found, second, third) for hit in page.hits]
        assert len(records) == len(set(records)) == 7
        assert third.next_page_token == ""

        garbage = ("nonsense", "AAAA", "%%%", "é", found.next_page_token, first.next_page_token + "A", "x" * 5000)
        for token in garbage:
            await _is_refused(client.documents.list_page(base, page_token=token))
        await _is_refused(client.documents.list_page(other, page_token=first.next_page_token))
        # Made by hand, with the right digest: as untrusted as any other input.
        versions = f"{first.documents[0].name}/versions"
        for key in ("abc", "-1", "9" * 40, "\0", ""):
            token = make_page_token(versions, key)
            await _is_refused(_first_page_of_versions(client, first.documents[0].name, token))
        await _is_refused(client.documents.list_page(base, page_token=make_page_token(f"{base}/documents", "a\0b")))
        nested = base64.urlsafe_b64encode(b"[" * 3000).decode()
        for token in ("nonsense", "é", first.next_page_token, found.next_page_token[:-6], "x" * 5000, nested):
            await _is_refused(client.search([base], "lighthouse", page_token=token))
        await _is_refused(client.search([base], "another question", page_token=found.next_page_token))
        await _is_refused(client.search([other], "lighthouse", page_token=found.next_page_token))
        with pytest.raises(InvalidArgumentError) as raised:
            await client.search([base], "lighthouse", page_size=-1)
        assert raised.value.field == "page_size"


async def _first_page_of_versions(client: CorpusMeshClient, document: str, token: str) -> None:
    request = pb.ListVersionsRequest(parent=document, page_token=token)
    await client.documents._caller.unary(client.documents._stub.ListVersions, request, timeout_seconds=30)


async def _is_refused(call: object) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        await call  # type: ignore[misc]
    assert (raised.value.reason, raised.value.field) == ("PAGE_TOKEN_INVALID", "page_token")
    assert not isinstance(raised.value, DocumentError)


async def test_a_later_page_sees_the_snapshot_of_the_first(mesh: MeshHarness, client: CorpusMeshClient) -> None:
    async with asyncio.timeout(120):
        base = (await knowledge_base(client)).name
        items = [UploadItem(f"{i}.txt", f"Windmill number {i} turns.".encode()) for i in range(4)]
        await client.runs.wait((await client.upload(base, items)).run)
        first = await client.search([base], "windmill", page_size=2)
        new = [UploadItem("9.txt", b"Windmill number 9 turns. Windmill! Windmill!")]
        await client.runs.wait((await client.upload(base, new)).run)
        second = await client.search([base], "windmill", page_size=50, page_token=first.next_page_token)
        assert first.total_size == second.total_size == 4
        assert len({hit.document for hit in [*first.hits, *second.hits]}) == 4
        assert (await client.search([base], "windmill")).total_size == 5
