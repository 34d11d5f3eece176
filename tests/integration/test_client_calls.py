"""The client over a real gRPC connection."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as kb_pb
from corpusmesh.ingest.v1 import run_service_pb2 as run_pb
from corpusmesh_client import CorpusMeshClient, Deadlines, UploadItem
from corpusmesh_core.errors import (
    DeadlineExceededError,
    DocumentError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OverloadedError,
    UnauthenticatedError,
    UnavailableError,
)
from tests.support.canned_gateway import KEY, CannedGateway, run_gateway


@pytest.fixture
def gateway() -> Iterator[CannedGateway]:
    with run_gateway() as running:
        yield running


@pytest.fixture
async def client(gateway: CannedGateway) -> AsyncIterator[CorpusMeshClient]:
    async with CorpusMeshClient(gateway.address, api_key=KEY) as opened:
        yield opened


async def make(client: CorpusMeshClient, name: str) -> kb_pb.KnowledgeBase:
    return await client.knowledge_bases.create(kb_pb.KnowledgeBase(display_name=name))


async def test_call_without_key_raises_unauthenticated_with_the_reason_of_the_mesh(gateway: CannedGateway) -> None:
    async with CorpusMeshClient(gateway.address) as client:
        with pytest.raises(UnauthenticatedError) as caught:
            await client.admin.get_caller()
    assert caught.value.reason == "KEY_INVALID"


async def test_gateway_that_does_not_listen_raises_unavailable_with_its_address() -> None:
    async with CorpusMeshClient("127.0.0.1:1", api_key=KEY, max_attempts=1) as client:
        with pytest.raises(UnavailableError) as caught:
            await client.admin.get_caller()
    assert caught.value.reason == "GATEWAY_UNREACHABLE"
    assert caught.value.metadata["address"] == "127.0.0.1:1"


async def test_lists_walk_all_pages(client: CorpusMeshClient) -> None:
    for name in ("a", "b", "c", "d", "e"):
        await make(client, name)
    names = [entry.name async for entry in client.knowledge_bases.list()]
    assert names == [f"knowledgeBases/{name}" for name in "abcde"]


async def test_resolve_prefers_the_identifier_over_a_display_name(client: CorpusMeshClient) -> None:
    await make(client, "second")
    await client.knowledge_bases.create(kb_pb.KnowledgeBase(display_name="second"), knowledge_base_id="other")
    assert (await client.resolve_knowledge_base("second")).name == "knowledgeBases/second"
    assert (await client.resolve_knowledge_base("knowledgeBases/other")).name == "knowledgeBases/other"


async def test_resolve_finds_by_display_name_and_refuses_an_ambiguous_one(client: CorpusMeshClient) -> None:
    await client.knowledge_bases.create(kb_pb.KnowledgeBase(display_name="Hand Buch"), knowledge_base_id="one")
    assert (await client.resolve_knowledge_base("Hand Buch")).name == "knowledgeBases/one"
    await client.knowledge_bases.create(kb_pb.KnowledgeBase(display_name="Hand Buch"), knowledge_base_id="two")
    with pytest.raises(FailedPreconditionError):
        await client.resolve_knowledge_base("Hand Buch")
    with pytest.raises(NotFoundError):
        await client.resolve_knowledge_base("nothing")


async def test_overload_with_retry_delay_is_tried_again(gateway: CannedGateway, client: CorpusMeshClient) -> None:
    gateway.overload_once("ListKnowledgeBases")
    assert [entry async for entry in client.knowledge_bases.list()] == []
    assert gateway.mesh.calls.count("ListKnowledgeBases") == 2


async def test_overload_is_raised_when_it_lasts(gateway: CannedGateway, client: CorpusMeshClient) -> None:
    full = OverloadedError("QUEUE_FULL", "full", retry_delay_seconds=0.01)
    gateway.mesh.failures["GetCaller"] = [full] * 10
    with pytest.raises(OverloadedError):
        await client.admin.get_caller()
    assert gateway.mesh.calls.count("GetCaller") == 4


async def test_create_user_is_not_tried_again(gateway: CannedGateway, client: CorpusMeshClient) -> None:
    gateway.overload_once("CreateUser")
    with pytest.raises(OverloadedError):
        await client.admin.create_user("ann", role=1)
    assert gateway.mesh.calls.count("CreateUser") == 1


async def test_unavailable_reads_are_tried_again_by_grpc(gateway: CannedGateway, client: CorpusMeshClient) -> None:
    gateway.mesh.failures["GetCaller"] = [UnavailableError("DRAINING", "the service ends")]
    assert (await client.admin.get_caller()).tenant == "tenants/acme"
    assert gateway.mesh.calls.count("GetCaller") == 2


async def test_mutating_calls_carry_a_request_id_of_their_own(gateway: CannedGateway, client: CorpusMeshClient) -> None:
    await make(client, "a")
    await make(client, "b")
    assert len(set(gateway.mesh.request_ids)) == 2
    assert all(len(identifier) == 36 for identifier in gateway.mesh.request_ids)


async def test_upload_keeps_the_order_of_items_over_refused_and_unreadable_ones(
    client: CorpusMeshClient, tmp_path: Path
) -> None:
    knowledge_base = await make(client, "a")
    large = tmp_path / "large.txt"
    large.write_bytes(b"word " * 200_000)
    items = [
        UploadItem("small.txt", b"hello", title="Small"),
        UploadItem("empty.txt", b""),
        UploadItem("gone.txt", tmp_path / "gone.txt"),
        UploadItem.of_file(large),
    ]
    result = await client.upload(knowledge_base.name, items)
    assert [entry.display_name for entry in result.documents] == ["small.txt", "empty.txt", "gone.txt", "large.txt"]
    assert isinstance(result.documents[1].error, DocumentError)
    assert isinstance(result.documents[2].error, InvalidArgumentError)
    assert result.documents[3].version
    again = await client.upload(knowledge_base.name, items[:1])
    assert again.documents[0].unchanged


async def test_upload_sends_large_files_in_pieces(
    gateway: CannedGateway, client: CorpusMeshClient, tmp_path: Path
) -> None:
    knowledge_base = await make(client, "a")
    path = tmp_path / "large.bin"
    path.write_bytes(bytes(3_000_000))
    seen: list[int] = []
    await client.upload(knowledge_base.name, [UploadItem.of_file(path)], on_progress=lambda _, size: seen.append(size))
    assert gateway.mesh.max_piece_bytes <= 1024 * 1024
    assert seen[-1] == 3_000_000
    assert len(seen) > 5


async def test_broken_upload_is_sent_again_under_the_same_request_id(
    gateway: CannedGateway, client: CorpusMeshClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corpusmesh_client.documents._UPLOAD_PAUSE_SECONDS", 0.01)
    knowledge_base = await make(client, "a")
    gateway.mesh.failures["UploadDocuments"] = [UnavailableError("DRAINING", "the service ends")]
    result = await client.upload(knowledge_base.name, [UploadItem("a.txt", b"hello")])
    assert result.documents[0].version
    assert gateway.mesh.calls.count("UploadDocuments") == 2


async def test_watch_goes_on_over_a_broken_stream_and_ends_with_the_run(
    gateway: CannedGateway, client: CorpusMeshClient
) -> None:
    knowledge_base = await make(client, "a")
    result = await client.upload(knowledge_base.name, [UploadItem("a.txt", b"hello")])
    gateway.mesh.watch_cuts = 2
    states = [run.state async for run in client.watch_run(result.run)]
    assert states == [run_pb.Run.STATE_PENDING, run_pb.Run.STATE_RUNNING, run_pb.Run.STATE_SUCCEEDED]
    assert gateway.mesh.calls.count("WatchRun") >= 3


async def test_watch_of_an_unknown_run_raises_and_does_not_try_again(client: CorpusMeshClient) -> None:
    with pytest.raises(NotFoundError):
        await client.runs.get("knowledgeBases/a/runs/none")


async def test_watch_gives_up_when_the_mesh_stays_away(gateway: CannedGateway) -> None:
    async with CorpusMeshClient("127.0.0.1:1", api_key=KEY, max_attempts=1) as client:
        with pytest.raises(UnavailableError):
            async for _ in client.runs.watch("knowledgeBases/a/runs/r", give_up_after_seconds=0.3):
                pass


async def test_answer_gives_evidence_text_and_summary_in_order(client: CorpusMeshClient) -> None:
    knowledge_base = await make(client, "a")
    await client.upload(knowledge_base.name, [UploadItem("a.txt", b"hello")])
    kinds = [piece.WhichOneof("piece") async for piece in client.answer([knowledge_base.name], "why")]
    assert kinds == ["evidence", "text_delta", "text_delta", "summary"]


async def test_answer_that_breaks_off_raises(client: CorpusMeshClient) -> None:
    knowledge_base = await make(client, "a")
    await client.upload(knowledge_base.name, [UploadItem("a.txt", b"hello")])
    with pytest.raises(UnavailableError) as caught:
        async for _ in client.answer([knowledge_base.name], "break off"):
            pass
    assert caught.value.reason == "DRAINING"


async def test_original_is_read_whole(client: CorpusMeshClient) -> None:
    knowledge_base = await make(client, "a")
    result = await client.upload(knowledge_base.name, [UploadItem("a.txt", b"hello world")])
    original = await client.documents.open_original(result.documents[0].version)
    body = b"".join([piece async for piece in original.pieces])
    assert (body, original.display_name, original.size_bytes) == (b"hello world", "a.txt", 11)


async def test_deadline_is_kept_when_the_server_says_nothing() -> None:
    async def say_nothing(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)
        writer.close()

    silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    try:
        deadlines = Deadlines(read_seconds=0.5)
        async with CorpusMeshClient(f"127.0.0.1:{port}", api_key=KEY, deadlines=deadlines) as client:
            with pytest.raises(DeadlineExceededError):
                await client.admin.get_caller()
    finally:
        silent.close()
