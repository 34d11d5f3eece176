"""Deep research over a whole mesh: progress, one snapshot, nothing that is hidden, an end within the budget."""

import json

import httpx
import pytest

from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh.retrieve.v1 import research_service_pb2 as pb
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_core.errors import InvalidArgumentError
from tests.support.mesh import MeshHarness, knowledge_base

DOCUMENTS = {
    "falcon.md": "The Falcon scooter has a range of 60 kilometres. Its price is 900 euros.",
    "heron.md": "The Heron scooter has a range of 110 kilometres. Its price is 1200 euros.",
    "secret.md": "The Heron scooter: the price is to fall to 700 euros when Quillfeather buys the maker.",
    "menu.md": "On Mondays the canteen serves soup.",
}
COMPARE = "Compare the Falcon scooter and the Heron scooter in range and price"


@pytest.fixture(scope="module")
async def scooters(distributed_mesh: MeshHarness) -> tuple[str, str]:
    """A knowledge base with a document that its reader may not see, and the reader's key."""
    tenant = await distributed_mesh.tenant()
    reader = await distributed_mesh.member(tenant, "bob", policy_pb2.ROLE_VIEWER)
    async with distributed_mesh.client(tenant.owner_key) as owner:
        base = await knowledge_base(owner)
        upload = await owner.upload(base.name, [UploadItem(name, text.encode()) for name, text in DOCUMENTS.items()])
        await owner.runs.wait(upload.run)
        secret = upload.documents[list(DOCUMENTS).index("secret.md")].version.rsplit("/versions/", 1)[0]
        access = document_pb.DocumentAccess(allowed_users=["users/nobody"])
        await owner.documents.update(document_pb.Document(name=secret, access=access), paths=("access",))
    return base.name, reader


async def research(
    client: CorpusMeshClient, base: str, question: str, budget: pb.ResearchBudget | None = None
) -> list[pb.ResearchResponse]:
    return [piece async for piece in client.research.research([base], question, budget=budget)]


async def test_a_comparison_is_answered_from_both_sides_and_nothing_hidden_is_seen(
    mesh: MeshHarness, scooters: tuple[str, str]
) -> None:
    base, reader = scooters
    async with mesh.client(reader) as client:
        pieces = await research(client, base, COMPARE)
    summary = pieces[-1].summary
    assert "Quillfeather" not in str(pieces)
    assert "700 euros" not in str(pieces)
    cited = {citation.hit.place.display_name for citation in summary.answer.citations}
    assert {"falcon.md", "heron.md"} <= cited
    evidence = next(piece.evidence for piece in pieces if piece.HasField("evidence"))
    assert len(evidence.snapshots) == 1
    assert len({entry.hit.record_id for entry in evidence.evidence}) == len(evidence.evidence)
    assert summary.cost.search_count == len(summary.questions)
    assert summary.questions[0].question == COMPARE
    assert "".join(piece.text_delta for piece in pieces) == summary.answer.text


async def test_what_stays_open_is_named_and_a_small_budget_is_no_error(
    mesh: MeshHarness, scooters: tuple[str, str]
) -> None:
    base, reader = scooters
    question = "Compare the Falcon scooter and the Kingfisher scooter in range and colour"
    async with mesh.client(reader) as client:
        whole = (await research(client, base, question))[-1].summary
        small = (await research(client, base, question, pb.ResearchBudget(max_questions=2)))[-1].summary
        with pytest.raises(InvalidArgumentError):
            await research(client, base, question, pb.ResearchBudget(max_depth=9))
    assert any("Kingfisher" in text for text in whole.open_questions)
    assert whole.cost.search_count > 2
    assert (small.cost.search_count, small.partial) == (2, True)
    assert "questions" in small.partial_reason


async def test_http_streams_progress_and_summary_as_events(mesh: MeshHarness, scooters: tuple[str, str]) -> None:
    base, reader = scooters
    async with httpx.AsyncClient(base_url=mesh.http_url, timeout=60) as http:
        response = await http.post(
            "/v1/questions:research",
            json={"knowledgeBases": [base], "question": COMPARE, "budget": {"maxSeconds": 30}},
            headers={"authorization": f"Bearer {reader}", "accept": "text/event-stream"},
        )
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    assert events[0]["progress"]["state"] == "STATE_SEARCHING"
    assert "questions" in events[-1]["summary"]
    assert "Quillfeather" not in response.text
