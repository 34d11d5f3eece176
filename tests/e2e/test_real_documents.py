"""Real documents that nobody here wrote, through the whole mesh in one upload.

They lie outside the project and are only read there; without them these tests are skipped. Whether each is parsed as
its manifest says is tested beside the parsers; here it is what a user of the mesh sees of them.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import pypdfium2
import pytest

from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh.ingest.v1 import run_service_pb2 as run_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_client import CorpusMeshClient, UploadItem, error_from_status
from tests.integration.test_shared_documents import ENTRIES, OUT_OF_THIS_SET, ROOT, bare
from tests.support.mesh import MeshHarness, knowledge_base

pytestmark = pytest.mark.skipif(not ENTRIES, reason=f"the shared documents are not at {ROOT}")
RUN_SECONDS = 280
EXPECT: dict[str, dict[str, Any]] = {entry["file"]: entry["expect"] for entry in ENTRIES}
PLACED = [
    (file, phrase, page) for file, expect in EXPECT.items() for phrase, page in dict(expect.get("page_of", {})).items()
]
PHRASES = [
    (file, phrase)
    for file, expect in EXPECT.items()
    if file not in OUT_OF_THIS_SET
    for phrase in sorted(expect.get("must_contain", []), key=len)[-1:]
    if len(phrase) >= 10
]
MIN_PHRASES = 25


@dataclass(frozen=True)
class Shelf:
    """The uploaded documents."""

    key: str
    base: str
    run: run_pb.Run
    documents: dict[str, document_pb.Document]


@pytest.fixture(scope="module")
async def shelf(distributed_mesh: MeshHarness) -> Shelf:
    tenant = await distributed_mesh.tenant()
    async with distributed_mesh.client(tenant.owner_key) as client, asyncio.timeout(RUN_SECONDS):
        base = (await knowledge_base(client)).name
        upload = await client.upload(base, [UploadItem.of_file(ROOT / file) for file in EXPECT])
        assert [entry.error for entry in upload.documents] == [None] * len(EXPECT)
        run = await client.runs.wait(upload.run)
        documents = {document.display_name: document async for document in client.documents.list(base)}
    return Shelf(tenant.owner_key, base, run, documents)


def reasons_of(file: str) -> set[str]:
    """The reasons that a document may fail with; "" if it may be published."""
    if file in OUT_OF_THIS_SET:
        return {OUT_OF_THIS_SET[file][0]}
    choices = EXPECT[file].get("either", [EXPECT[file]])
    return {f"DOCUMENT_{choice['error'].upper()}" if "error" in choice else "" for choice in choices}


async def test_the_run_ends_and_every_document_is_published_or_says_why(shelf: Shelf) -> None:
    run = shelf.run
    assert run.state == run_pb.Run.STATE_SUCCEEDED
    assert run.document_count == len(EXPECT) == run.succeeded_count + run.failed_count
    failed = {part.display_name: error_from_status(part.error) for part in run.failed_parts}
    assert len(failed) == run.failed_count
    found = {file: failed[file].reason if file in failed else "" for file in EXPECT}
    wrong = {file: reason for file, reason in found.items() if reason not in reasons_of(file)}
    assert wrong == {}
    for file, error in failed.items():
        assert not shelf.documents[file].published_version
        assert len(error.message) > 20, "it says what is wrong and what to do"
    for file in EXPECT.keys() - failed.keys():
        document = shelf.documents[file]
        assert document.published_version == document.latest_version.name
        assert document.latest_version.chunk_count > 0
        if "pages" in EXPECT[file] and file.endswith(".pdf"):
            assert document.latest_version.page_count == EXPECT[file]["pages"], file


async def test_every_phrase_is_found_in_its_document(mesh: MeshHarness, shelf: Shelf) -> None:
    phrases = [(file, phrase) for file, phrase in PHRASES if shelf.documents[file].published_version]
    assert len(phrases) >= MIN_PHRASES
    async with mesh.client(shelf.key) as client, asyncio.timeout(240):
        results = [(file, phrase, await client.search([shelf.base], phrase, page_size=10)) for file, phrase in phrases]
    missed = [file for file, phrase, found in results if not any(holds(hit, file, phrase) for hit in found.hits)]
    assert missed == []
    first = [file for file, phrase, found in results if found.hits[0].place.display_name == file]
    assert len(first) >= 0.8 * len(results), f"{len(first)} of {len(results)} come first"


def holds(hit: retrieval_pb.SearchHit, file: str, phrase: str) -> bool:
    """Whether a hit is a part of the document that has at least most of the phrase; a chunk's end may cut it."""
    if hit.place.display_name != file:
        return False
    text, wanted = bare(hit.text), bare(phrase)
    return wanted in text or any(wanted[start : start + len(wanted) // 2] in text for start in range(0, len(wanted), 8))


async def test_hits_name_the_page_and_boxes_within_it(mesh: MeshHarness, shelf: Shelf) -> None:
    assert len(PLACED) >= 4
    async with mesh.client(shelf.key) as client, asyncio.timeout(120):
        for file, phrase, page in PLACED:
            hit = await best_of(client, shelf, file, phrase)
            pages = {hit.place.page, *(box.page for box in hit.place.boxes)}
            assert page in pages, (file, phrase, pages)


async def best_of(client: CorpusMeshClient, shelf: Shelf, file: str, phrase: str) -> retrieval_pb.SearchHit:
    plan = retrieval_pb.RetrievalPlan(documents=[shelf.documents[file].name])
    found = await client.search([shelf.base], phrase, plan=plan, page_size=20)
    return next(hit for hit in found.hits if bare(phrase) in bare(hit.text))


def page_sizes(file: str) -> list[tuple[float, float]]:
    """Width and height of every page as it is shown, in points."""
    with pypdfium2.PdfDocument(ROOT / file) as document:
        return [page.get_size() for page in document]


async def test_boxes_of_every_pdf_lie_within_its_pages(mesh: MeshHarness, shelf: Shelf) -> None:
    boxed = 0
    async with mesh.client(shelf.key) as client, asyncio.timeout(240):
        for file, document in shelf.documents.items():
            if not document.published_version or not file.endswith(".pdf"):
                continue
            sizes = page_sizes(file)
            plan = retrieval_pb.RetrievalPlan(documents=[document.name], candidate_window=200)
            found = await client.search([shelf.base], "the of a in table page", plan=plan, page_size=200)
            for hit in found.hits:
                assert 1 <= hit.place.page <= document.latest_version.page_count, file
                for box in hit.place.boxes:
                    boxed += 1
                    assert 1 <= box.page <= document.latest_version.page_count, file
                    width, height = sizes[box.page - 1]
                    assert -1 <= box.left <= box.right <= width + 1, (file, box)
                    assert -1 <= box.top <= box.bottom <= height + 1, (file, box)
    assert boxed > 200
