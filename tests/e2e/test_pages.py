"""Late interaction: what a page looks like finds it, and the page is shown as the citation."""

import io
from pathlib import Path

import pytest
from reportlab.lib.pagesizes import A5
from reportlab.pdfgen.canvas import Canvas

from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_client import UploadItem
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.ports.index import RecordSelection
from tests.support.mesh import MeshHarness
from tests.support.page_model import write_page_model

COLOURS = ("blue", "green", "red", "white")


def report() -> bytes:
    """Four pages with the same words and a patch of another colour each."""
    target = io.BytesIO()
    canvas = Canvas(target, pagesize=A5)
    for number, colour in enumerate(COLOURS, start=1):
        canvas.drawString(40, 540, f"Warning sign number {number} of the report.")
        canvas.setFillColor(colour)
        canvas.rect(0, 0, 420, 400, stroke=0, fill=1)
        canvas.setFillColor("black")
        canvas.showPage()
    canvas.save()
    return target.getvalue()


async def test_a_page_is_found_by_what_it_looks_like_and_leaves_nothing_behind(
    mesh: MeshHarness, tmp_path: Path
) -> None:
    model = write_page_model(tmp_path / "colours")
    await mesh.restart("embed", {"CORPUSMESH_EMBED__PAGE_MODEL_DIRECTORY": str(model)})
    try:
        tenant = await mesh.tenant()
        outsider = await mesh.member(tenant, "outsider", policy_pb2.ROLE_VIEWER)
        async with mesh.client(tenant.owner_key) as client:
            base = await client.knowledge_bases.create(
                knowledge_base_pb.KnowledgeBase(
                    display_name="signs",
                    permission=knowledge_base_pb.PERMISSION_PRIVATE,
                    chunk_settings=knowledge_base_pb.ChunkSettings(template="presentation"),
                    parse_settings=knowledge_base_pb.ParseSettings(render_pages=True),
                )
            )
            upload = await client.upload(base.name, [UploadItem("signs.pdf", report())])
            run = await client.runs.wait(upload.run)
            assert (run.succeeded_count, run.failed_count) == (1, 0), run.failed_parts
            pages = RecordSelection(kinds=("page_image",))
            assert await mesh.count_records(tenant.tenant_id, pages) == len(COLOURS)

            looking = retrieval_pb.RetrievalPlan(page_weight=0.9)
            found = await client.search([base.name], "warning sign red", plan=looking, page_size=4)
            first = found.hits[0]
            assert first.place.page == COLOURS.index("red") + 1
            others = [hit.scores.page_similarity for hit in found.hits if hit.place.page != first.place.page]
            assert first.scores.page_similarity > max(others)
            shown = next(hit for hit in found.hits if hit.kind == "page_image" and hit.place.page == first.place.page)
            assert shown.picture == f"{first.place.version}/pictures/page-3"
            plain = await client.search([base.name], "warning sign red", page_size=4)
            assert not any(hit.scores.HasField("page_similarity") for hit in plain.hits)
            assert {hit.kind for hit in plain.hits} == {"chunk"}

            media_type, content = await client.documents.read_picture(shown.picture)
            assert media_type == "image/jpeg"
            assert content.startswith(b"\xff\xd8")
            document = first.document
            async with mesh.client(outsider) as stranger:
                with pytest.raises(NotFoundError):
                    await stranger.documents.read_picture(shown.picture)
            await client.runs.wait(await client.documents.delete(document))
            assert await mesh.count_records(tenant.tenant_id, pages) == 0
            assert (await client.documents.verify_purge(document)).purged
    finally:
        await mesh.restart("embed")
