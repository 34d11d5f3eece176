"""Recorded searches, golden sets and the publish gate over the whole mesh."""

import pytest

from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh.ingest.v1 import run_service_pb2 as run_pb
from corpusmesh.retrieve.v1 import evaluation_service_pb2 as pb
from corpusmesh.retrieve.v1 import ledger_service_pb2 as ledger_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_core.errors import InvalidArgumentError, NotFoundError, PermissionDeniedError
from tests.support.mesh import MeshHarness, ingest_texts, knowledge_base

TRAVEL = "# Travel policy\n\nEmployees may book trains in first class for journeys over four hours."
NEW_TRAVEL = "# Travel policy\n\nEmployees may book trains in second class only, whatever the journey."
KITCHEN = "# Kitchen rules\n\nThe dishwasher is emptied by whoever finds it clean."
GAUGES = (
    ("ems", "The Ems Gauge was founded in 1911 in Leer. It has four rooms and a garden."),
    ("weser", "The Weser Archive was established in 1934. The Weser Archive is located in Bremen."),
    ("elbe", "The Elbe Bureau stands for careful work. The Elbe Bureau consists of nine clerks."),
    ("oder", "The Oder Registry was created by Anna Holm. The Oder Registry is used for maps of rivers."),
)
Kind = ledger_pb.ReplayRetrievalResponse.Difference


async def set_fields(client: CorpusMeshClient, name: str, **fields: object) -> None:
    await client.knowledge_bases.update(
        knowledge_base_pb.KnowledgeBase(name=name, **fields),  # type: ignore[arg-type]
        paths=tuple(fields),
    )


async def keep_ledger(client: CorpusMeshClient, name: str) -> None:
    await set_fields(client, name, ledger_settings=knowledge_base_pb.LedgerSettings(enabled=True, retention_days=7))


async def document_named(client: CorpusMeshClient, base: str, display_name: str) -> document_pb.Document:
    return {entry.display_name: entry async for entry in client.documents.list(base)}[display_name]


async def hide(client: CorpusMeshClient, document: str, user: str) -> None:
    access = document_pb.DocumentAccess(denied_users=[f"users/{user}"])
    await client.documents.update(document_pb.Document(name=document, access=access), paths=("access",))


async def test_a_recorded_search_runs_again_on_its_snapshot_and_goes_with_its_documents(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    viewer_key = await mesh.member(tenant, "viewer", policy_pb2.ROLE_VIEWER)
    async with mesh.client(tenant.owner_key) as client, mesh.client(viewer_key) as viewer:
        base = await knowledge_base(client)
        await ingest_texts(client, base.name, {"travel.md": TRAVEL, "kitchen.md": KITCHEN})
        assert (await viewer.search([base.name], "train class")).retrieval == ""

        await keep_ledger(client, base.name)
        found = await viewer.search([base.name], "Which class may employees book on a train?")
        assert found.retrieval.startswith("retrievals/")
        recorded = await viewer.ledger.get(found.retrieval)
        assert recorded.query == "Which class may employees book on a train?"
        assert list(recorded.snapshots) == list(found.snapshots)
        assert [hit.record_id for hit in recorded.hits] == [hit.record_id for hit in found.hits]
        assert recorded.hits[0].scores.similarity == pytest.approx(found.hits[0].scores.similarity)
        assert TRAVEL.splitlines()[-1] not in str(recorded)

        again = await viewer.ledger.replay(found.retrieval)
        assert again.identical, again
        assert again.unchanged_count == len(found.hits)
        assert [again.snapshots_differ, again.plan_differs, again.model_differs] == [False] * 3

        answered = [piece async for piece in viewer.answer([base.name], "Who empties the dishwasher?")][-1].summary
        assert (await viewer.ledger.get(answered.retrieval)).kind == ledger_pb.Retrieval.KIND_ANSWER
        listed = [entry.name async for entry in viewer.ledger.list(page_size=1)]
        assert listed == [answered.retrieval, found.retrieval]

        # Nobody else's, not even the owner's.
        with pytest.raises(NotFoundError):
            await client.ledger.get(found.retrieval)
        assert [entry async for entry in client.ledger.list()] == []

        await ingest_texts(client, base.name, {"travel.md": NEW_TRAVEL})
        assert (await viewer.ledger.replay(found.retrieval)).identical
        now = await viewer.ledger.replay(found.retrieval, against_current=True)
        assert now.snapshots_differ
        assert {entry.kind for entry in now.differences} >= {Kind.KIND_GONE, Kind.KIND_NEW}
        gone = next(entry for entry in now.differences if entry.kind == Kind.KIND_GONE)
        assert (gone.record_id, gone.why) == (found.hits[0].record_id, "no candidate any more")

        # What the caller may not see any more is told by its place alone.
        travel = await document_named(client, base.name, "travel.md")
        await hide(client, travel.name, "viewer")
        hidden = await viewer.ledger.get(found.retrieval)
        assert hidden.hidden_hit_count == 1
        assert all(hit.document != travel.name for hit in hidden.hits)
        replayed = await viewer.ledger.replay(found.retrieval)
        first = next(entry for entry in replayed.differences if entry.kind == Kind.KIND_GONE)
        assert (first.rank_before, first.record_id, first.document) == (1, "", "")
        assert first.why == "not visible to you now, or deleted"

        run = await client.documents.delete(travel.name)
        with pytest.raises(NotFoundError):
            await viewer.ledger.get(found.retrieval)
        await client.runs.wait(run)
        verified = await client.documents.verify_purge(travel.name)
        assert verified.purged, verified


async def test_a_golden_set_is_drawn_measured_and_compared(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    editor_key = await mesh.member(tenant, "editor", policy_pb2.ROLE_EDITOR)
    viewer_key = await mesh.member(tenant, "viewer", policy_pb2.ROLE_VIEWER)
    async with mesh.client(tenant.owner_key) as client, mesh.client(editor_key) as editor:
        base = await knowledge_base(client)
        await ingest_texts(client, base.name, {f"{name}.md": text for name, text in GAUGES})
        drawn = await editor.evaluation.draw(base.name, question_count=10, golden_set_id="drawn", model_free=True)
        assert (drawn.golden_set.question_count, drawn.document_count, drawn.by_model_count) == (4, 4, 0)
        questions = {entry.question: entry async for entry in editor.evaluation.questions(drawn.golden_set.name)}
        asked = questions["When was the Ems Gauge founded?"]
        assert asked.gold[0].quote == "The Ems Gauge was founded in 1911 in Leer."

        told: list[tuple[int, int]] = []
        lexical = retrieval_pb.RetrievalPlan(mode=retrieval_pb.SEARCH_MODE_LEXICAL)
        measured = await editor.evaluation.evaluate(
            drawn.golden_set.name,
            against=lexical,
            with_answers=True,
            on_progress=lambda done, total: told.append((done, total)),
        )
        assert (measured.question_count, measured.hidden_count) == (4, 0)
        assert [plan.effective_plan.mode for plan in measured.plans][1] == retrieval_pb.SEARCH_MODE_LEXICAL
        assert measured.plans[0].recall_at_5 == measured.plans[1].mrr == 1.0
        assert measured.plans[0].answers.citation_recall >= 0.75
        assert 0.0 < measured.plans[0].search_milliseconds_p50 <= measured.plans[0].search_milliseconds_p95
        assert {entry.measure for entry in measured.comparisons} == {"recall_at_5", "ndcg_at_10", "mrr"}
        assert not any(entry.significant for entry in measured.comparisons)
        assert told[-1] == (16, 16)
        assert await editor.evaluation.get_evaluation(measured.name) == measured
        kept = [entry.name async for entry in editor.evaluation.list_evaluations(drawn.golden_set.name)]
        assert kept == [measured.name]

        # A question without gold is asked for its abstention; gold that is hidden from the caller is left out.
        ems = await document_named(client, base.name, "ems.md")
        await editor.evaluation.import_questions(
            drawn.golden_set.name,
            [
                pb.GoldenQuestion(question="Zzyzx qwfp?"),
                pb.GoldenQuestion(question="Ems?", gold=[pb.Gold(document=ems.name)]),
            ],
        )
        await hide(client, ems.name, "editor")
        narrowed = await editor.evaluation.evaluate(drawn.golden_set.name, with_answers=True, model_free=True)
        assert (narrowed.question_count, narrowed.hidden_count, narrowed.plans[0].answerable_count) == (4, 2, 3)
        shown = {entry.question async for entry in editor.evaluation.questions(drawn.golden_set.name)}
        assert shown == {*questions, "Zzyzx qwfp?"} - {"When was the Ems Gauge founded?"}
        of_hidden = pb.GoldenQuestion(question="x", gold=[pb.Gold(document=ems.name)])
        with pytest.raises(InvalidArgumentError) as unknown:
            await editor.evaluation.create(base.name, [of_hidden])
        assert unknown.value.reason == "GOLD_DOCUMENT_UNKNOWN"

        async with mesh.client(viewer_key) as viewer:
            with pytest.raises(PermissionDeniedError):
                await viewer.evaluation.get(drawn.golden_set.name)

        # Questions go with the document that they were made from.
        await client.runs.wait(await client.documents.delete(ems.name))
        assert (await editor.evaluation.get(drawn.golden_set.name)).question_count == 4
        assert (await client.documents.verify_purge(ems.name)).purged


async def test_a_publish_that_would_answer_worse_is_held_up_until_an_editor_says_otherwise(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await knowledge_base(client)
        await ingest_texts(client, base.name, {"travel.md": TRAVEL, "kitchen.md": KITCHEN})
        travel = await document_named(client, base.name, "travel.md")
        gold = pb.Gold(document=travel.name, quote="book trains in first class")
        question = pb.GoldenQuestion(question="Which class may employees book on a train?", gold=[gold])
        await client.evaluation.create(base.name, [question], golden_set_id="gate")
        gate = knowledge_base_pb.PublishGate(golden_set="gate", minimum=1.0, max_drop=0.0)
        await set_fields(client, base.name, publish_gate=gate)
        before = (await client.knowledge_bases.get(base.name)).current_snapshot

        async def upload(name: str, text: str) -> run_pb.Run:
            return await client.runs.wait((await client.upload(base.name, [UploadItem(name, text.encode())])).run)

        passed = await upload("garden.md", "# Garden\n\nThe hedge is cut in May.")
        assert passed.succeeded_count == 1, passed

        failed = await upload("travel.md", NEW_TRAVEL)
        assert failed.state == run_pb.Run.STATE_FAILED
        assert failed.failed_parts[0].stage == "publish"
        assert "would be 0.0000 on 1 questions, less than 1.0000" in failed.failed_parts[0].error.message
        shown = await client.search([base.name], "train class")
        assert "first class" in shown.hits[0].text
        assert not any("second class" in hit.text for hit in shown.hits)
        assert (await client.knowledge_bases.get(base.name)).current_snapshot != before

        assert (await client.runs.retry(failed.name)).retried_count == 1
        assert (await client.runs.wait(failed.name)).state == run_pb.Run.STATE_FAILED
        assert (await client.runs.retry(failed.name, skip_publish_gate=True)).retried_count == 1
        forced = await client.runs.wait(failed.name)
        assert forced.state == run_pb.Run.STATE_SUCCEEDED, forced
        assert any("second class" in hit.text for hit in (await client.search([base.name], "train class")).hits)

        # A gate that cannot be asked stays closed.
        await client.evaluation.delete(f"{base.name}/goldenSets/gate")
        closed = await upload("garden.md", "# Garden\n\nThe hedge is cut in June.")
        assert "cannot be asked" in closed.failed_parts[0].error.message
