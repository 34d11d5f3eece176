"""Client streams whose server ends early, or whose client breaks off."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest

from corpusmesh.ingest.v1 import document_service_pb2 as pb
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_gateway import UPSTREAM_SERVICES
from corpusmesh_runtime.identity import IDENTITY_METADATA_KEY, IdentitySigner
from corpusmesh_runtime.writing import end_messages, write_message
from tests.support.gateway_mesh import Seen, canned_service

UPLOAD = "/corpusmesh.ingest.v1.DocumentService/UploadDocuments"
EDITOR = Identity("acme", "editor", Role.EDITOR, Scope.WRITE)


@pytest.fixture
async def seen() -> Seen:
    return Seen()


@pytest.fixture
async def begin(seen: Seen) -> AsyncIterator[Any]:
    """Begins an upload to a service behind the guard."""
    signer = IdentitySigner([secrets.token_hex(32)])
    async with (
        canned_service(UPSTREAM_SERVICES["ingest"], seen, signer) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):

        def begin_upload() -> Any:
            metadata = ((IDENTITY_METADATA_KEY, signer.sign(EDITOR)),)
            return channel.stream_unary(UPLOAD, None, None)(metadata=metadata, timeout=30)

        yield begin_upload


def settings(knowledge_base: str) -> bytes:
    parent = f"knowledgeBases/{knowledge_base}"
    return pb.UploadDocumentsRequest(settings=pb.UploadSettings(parent=parent)).SerializeToString()


HEADER = pb.UploadDocumentsRequest(header=pb.DocumentHeader(display_name="a")).SerializeToString()
DATA = pb.UploadDocumentsRequest(data=bytes(200_000)).SerializeToString()


async def test_messages_arrive_and_the_end_is_the_end(seen: Seen, begin: Any) -> None:
    call = begin()
    for message in (settings("a"), HEADER, DATA, DATA):
        assert await write_message(call, message)
    await end_messages(call)
    assert pb.UploadDocumentsResponse.FromString(await call).run == "knowledgeBases/a/runs/1"
    assert seen.uploads[0][1][0][1] == 400_000


async def test_status_of_a_call_that_is_refused_while_the_client_writes_is_never_lost(begin: Any) -> None:
    codes = []
    for _ in range(60):
        call = begin()
        await write_message(call, settings("refused"))
        while await write_message(call, DATA):
            pass
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        codes.append(caught.value.code())
        assert not await write_message(call, DATA)
        await end_messages(call)
    assert set(codes) == {grpc.StatusCode.NOT_FOUND}


async def test_call_that_breaks_off_is_never_taken_for_one_that_has_sent_all(seen: Seen, begin: Any) -> None:
    for _ in range(60):
        call = begin()
        for message in (settings("a"), HEADER, DATA):
            await write_message(call, message)
        call.cancel()
    while len(seen.calls) < 60:  # noqa: ASYNC110 - the calls arrive in the server's own time
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.5)
    assert not seen.uploads
