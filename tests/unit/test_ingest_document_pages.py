"""Pages of documents: the total is counted for the first page alone."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest

from corpusmesh.ingest.v1 import chunk_service_pb2 as chunk_pb
from corpusmesh.ingest.v1 import document_service_pb2 as pb
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.tenancy import DocumentRow, Identity, LifeState, Role, Scope
from corpusmesh_ingest.config import IngestSettings
from corpusmesh_ingest.handlers.documents import DocumentDependencies, DocumentHandlers
from corpusmesh_ingest.handlers.paging import make_page_token, within_page
from corpusmesh_runtime.context import CallContext, current_call

PARENT = "knowledgeBases/kb"
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
ROW = DocumentRow("acme", "kb", "", "a.txt", "", "", 1, False, LifeState.ACTIVE, "ann", MOMENT, MOMENT)


class Stores:
    def __init__(self, document_count: int) -> None:
        self.rows = [replace(ROW, document_id=f"d{place:03}") for place in range(document_count)]
        self.count_calls = 0

    async def list(
        self, identity: Identity, kb: str, after_key: str, limit: int, *, name_prefix: str = ""
    ) -> Sequence[DocumentRow]:
        rows = [row for row in self.rows if row.document_id > after_key and row.display_name.startswith(name_prefix)]
        return rows[:limit]

    async def count(self, identity: Identity, knowledge_base_ids: Sequence[str]) -> Mapping[str, tuple[int, int]]:
        self.count_calls += 1
        return {identifier: (len(self.rows), 0) for identifier in knowledge_base_ids}


@pytest.fixture(autouse=True)
def call() -> Iterator[None]:
    identity = Identity("acme", "ann", Role.VIEWER, Scope.READ)
    token = current_call.set(CallContext(identity, "request-1", time.monotonic() + 60))
    yield
    current_call.reset(token)


def handlers_of(stores: Stores) -> DocumentHandlers:
    fakes = SimpleNamespace(
        documents=stores, knowledge_bases=stores, chunks=None, reprocessor=None, settings=IngestSettings()
    )
    return DocumentHandlers(cast(DocumentDependencies, fakes))


async def test_every_document_is_on_one_page_and_the_total_is_counted_once() -> None:
    stores = Stores(25)
    handlers = handlers_of(stores)
    names: list[str] = []
    token = ""
    while True:
        page = await handlers.ListDocuments(
            pb.ListDocumentsRequest(parent=PARENT, page_size=10, page_token=token), None
        )
        names.extend(document.name for document in page.documents)
        assert page.total_size == 25
        token = page.next_page_token
        if not token:
            break
    assert names == [f"{PARENT}/documents/{row.document_id}" for row in stores.rows]
    assert stores.count_calls == 1


@pytest.mark.parametrize("key", ["d003", f"{'9' * 30}.d003", "x.d003"])
async def test_token_with_another_total_is_counted_anew(key: str) -> None:
    stores = Stores(5)
    token = make_page_token(f"{PARENT}/documents", key)
    page = await handlers_of(stores).ListDocuments(pb.ListDocumentsRequest(parent=PARENT, page_token=token), None)
    assert (page.total_size, stores.count_calls) == (5, 1)
    assert [document.name[-4:] for document in page.documents] == ["d004"]


async def test_token_of_another_folder_is_refused() -> None:
    page = await handlers_of(Stores(5)).ListDocuments(pb.ListDocumentsRequest(parent=PARENT, page_size=2), None)
    request = pb.ListDocumentsRequest(parent=PARENT, display_name_prefix="a", page_token=page.next_page_token)
    with pytest.raises(InvalidArgumentError):
        await handlers_of(Stores(5)).ListDocuments(request, None)


async def test_a_folder_name_longer_than_any_name_is_refused() -> None:
    request = pb.ListDocumentsRequest(parent=PARENT, display_name_prefix="a" * 1025)
    with pytest.raises(InvalidArgumentError):
        await handlers_of(Stores(5)).ListDocuments(request, None)


async def test_token_of_another_listing_is_refused() -> None:
    request = pb.ListDocumentsRequest(parent=PARENT, page_token=make_page_token("knowledgeBases", "5.d003"))
    with pytest.raises(InvalidArgumentError):
        await handlers_of(Stores(5)).ListDocuments(request, None)


def test_a_page_holds_what_fits_into_a_response_whatever_its_entries_are_made_of() -> None:
    large = [
        chunk_pb.Chunk(text="x", attributes={"table_html": "聚" * 20_000}, questions=["?" * 1000] * 64)
        for _ in range(500)
    ]
    page = within_page(large)
    assert 1 < len(page) < 500
    assert sum(chunk.ByteSize() for chunk in page) <= 3 * 1024 * 1024
    assert len(within_page([chunk_pb.Chunk(text="x" * 4_000_000)] * 2)) == 1
    assert within_page(iter(())) == []
