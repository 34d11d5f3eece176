"""What a knowledge base asks to be made of its documents besides chunks: found, filtered by, kept up and purged."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_client.knowledge_base_settings import settings_from_plain, settings_to_plain
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.index import RecordSelection
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.visibility import Visibility, build_filter
from tests.support.mesh import MeshHarness, ingest_texts
from tests.support.mesh_probes import count_objects, metric

LEAVE = """# Leave policy

This policy is effective from 2026-03-01. It replaces every earlier policy about leave.

## Annual leave

Annual leave is a paid absence from work. Every employee receives thirty days of it in each calendar year. Annual
leave must be requested from the line manager at least two weeks in advance. Unused annual leave expires on the last
day of March of the next year.

## Parental leave

Parents receive sixteen weeks of parental leave at full pay. Parental leave may be taken in two separate blocks within
the first year. The personnel department confirms parental leave in writing within five working days.
"""
TRAVEL = """# Travel policy

This policy is effective from 2024-01-15. It applies to all journeys that the company pays for.

## Trains

Employees book trains in second class for journeys below four hours. First class is allowed for journeys above four
hours. The booking tool shows the carbon footprint of each train connection.

## Hotels

A hotel allowance is an amount for one night. Hotels may cost at most one hundred and forty euros for each night.
Breakfast is paid by the company in addition. A hotel above this limit needs the approval of the department head.
"""
TAGS = "description\ttags\nannual leave, holidays and days off\tvacation\ntrains, hotels and journeys\ttravel\n"
SETTINGS: dict[str, Any] = {
    "chunking": {"settings": {"max_tokens": 80, "heading_break_tokens": 8}},
    "enrichment": {
        "keywords": {"method": "lite", "count": 4},
        "questions": {"method": "lite", "count": 2},
        "summaries": {"method": "lite", "scope": "section"},
        "toc": {"method": "lite"},
        "propositions": {"method": "lite"},
        "metadata": {"method": "lite"},
    },
    "metadata_schema": {
        "fields": [
            {"name": "effective", "type": "date", "source": "rule", "pattern": r"effective from (\S+?)\."},
            {"name": "shelf", "type": "text"},
        ]
    },
}
MADE = (RecordKind.QUESTION, RecordKind.SUMMARY, RecordKind.TOC, RecordKind.PROPOSITION)


async def make(client: CorpusMeshClient, name: str, settings: Mapping[str, Any]) -> str:
    wanted = settings_from_plain(settings)
    wanted.display_name = name
    return (await client.knowledge_bases.create(wanted)).name


async def records_of(mesh: MeshHarness, tenant_id: str, base: str, space: str) -> list[Record]:
    """Read all records of a knowledge base out of the index itself."""
    await mesh.count_records(tenant_id)
    async with mesh.index() as index:
        return await index.scan(
            tenant_id,
            space,
            build_filter(Visibility.of("all", range(10_000), 10_000), RecordKind),
            knowledge_base_ids=(base.removeprefix("knowledgeBases/"),),
            max_count=10_000,
            timeout_seconds=30,
        )


async def test_what_is_asked_for_is_made_found_and_purged(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await make(client, "policies", SETTINGS)
        made = await client.knowledge_bases.get(base)
        assert settings_to_plain(made)["enrichment"] == SETTINGS["enrichment"]
        await ingest_texts(client, base, {"leave.md": LEAVE, "travel.md": TRAVEL})

        records = await records_of(mesh, tenant.tenant_id, base, made.space)
        counts = Counter(record.kind for record in records)
        assert all(counts[kind] for kind in MADE), counts
        chunks = {record.record_id: record for record in records if record.kind is RecordKind.CHUNK}
        for record in records:
            if record.kind in MADE:
                assert record.links, record.record_id
                assert set(record.links) <= chunks.keys(), record.record_id
                assert record.attributes["method"] == "lite"
                assert {chunks[link].document_id for link in record.links} == {record.document_id}
        assert all(chunk.keywords for chunk in chunks.values())

        # A chunk is found by a question that it answers, and only chunks are found unless other kinds are asked for.
        question = next(record for record in records if record.kind is RecordKind.QUESTION)
        found = await client.search([base], question.text, page_size=20)
        assert {hit.kind for hit in found.hits} == {"chunk"}
        assert found.hits[0].record_id in question.links
        plan = retrieval_pb.RetrievalPlan(kinds=["question"])
        [hit] = (await client.search([base], question.text, plan=plan, page_size=1)).hits
        assert hit.record_id == question.record_id
        chunk = next(chunk for chunk in chunks.values() if "parental" in chunk.text)
        found = await client.search([base], chunk.keywords[0], page_size=1)
        assert found.hits[0].record_id == chunk.record_id

        # Values of the documents were set when they were published.
        condition = retrieval_pb.MetadataCondition(
            key="effective", operator=retrieval_pb.MetadataCondition.OPERATOR_GREATER, values=["2025-01-01"]
        )
        plan = retrieval_pb.RetrievalPlan(metadata_conditions=[condition])
        found = await client.search([base], "policy", plan=plan, page_size=20)
        assert {hit.place.display_name for hit in found.hits} == {"leave.md"}

        documents = {item.display_name: item async for item in client.documents.list(base)}
        leave = documents["leave.md"]
        assert leave.metadata["effective"].startswith("2026-03-01")
        assert leave.latest_version.chunk_count == sum(chunk.display_name == "leave.md" for chunk in chunks.values())
        for document in documents.values():
            await client.runs.wait(await client.documents.delete(document.name))
            assert (await client.documents.verify_purge(document.name)).purged
        assert await mesh.count_records(tenant.tenant_id) == 0
        assert await count_objects(mesh, f"{tenant.tenant_id}/artefacts/") == 0
        assert await count_objects(mesh, f"{tenant.tenant_id}/originals/") == 0


async def test_tags_come_from_a_set_that_the_owner_may_read(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        tag_set = await make(client, "tags", {"chunking": {"template": "tag"}})
        await ingest_texts(client, tag_set, {"tags.txt": TAGS})
        identifier = tag_set.removeprefix("knowledgeBases/")
        asked = {"tags": {"method": "lite", "tag_sets": [identifier], "threshold": 0.05}}
        base = await make(client, "tagged", {"enrichment": asked})
        space = (await client.knowledge_bases.get(base)).space
        await ingest_texts(client, base, {"leave.md": LEAVE, "travel.md": TRAVEL})
        examples = await records_of(mesh, tenant.tenant_id, tag_set, space)
        assert {record.kind for record in examples} == {RecordKind.TAG_EXAMPLE}
        tagged = {record.display_name: record.tags for record in await records_of(mesh, tenant.tenant_id, base, space)}
        assert max(tagged["travel.md"], key=lambda name: tagged["travel.md"][name]) == "travel"
        with pytest.raises(InvalidArgumentError) as caught:
            await make(client, "bad", {"enrichment": {"tags": {"method": "lite", "tag_sets": ["nobody-has-it"]}}})
        assert caught.value.reason == "TAG_SET_UNKNOWN"
        assert caught.value.field == "knowledge_base.enrichment_settings.tags.tag_sets"


@pytest.mark.parametrize(
    ("settings", "reason", "field"),
    [
        ({"chunking": {"template": "poem"}}, "CHUNK_TEMPLATE_UNKNOWN", "chunk_settings.template"),
        ({"chunking": {"settings": {"max_token": 9}}}, "CHUNK_SETTING_UNKNOWN", "chunk_settings.settings.max_token"),
        ({"chunking": {"settings": {"max_tokens": 9}}}, "CHUNK_SETTING_INVALID", "chunk_settings.settings.max_tokens"),
        (
            {"chunking": {"settings": {"overlap_tokens": 250}}},
            "CHUNK_SETTING_INVALID",
            "chunk_settings.settings.overlap_tokens",
        ),
        (
            {"chunking": {"settings": {"embedder_max_tokens": 99}}},
            "CHUNK_SETTING_UNKNOWN",
            "chunk_settings.settings.embedder_max_tokens",
        ),
        (
            {"parsing": {"render_dots_per_inch": 1200}},
            "PARSE_SETTING_INVALID",
            "parse_settings.render_dots_per_inch",
        ),
        (
            {"enrichment": {"keywords": {"method": "lite", "count": 99}}},
            "ENRICHMENT_SETTING_INVALID",
            "enrichment_settings.keywords.count",
        ),
        (
            {"metadata_schema": {"fields": [{"name": "a", "type": "text", "source": "rule", "pattern": "(?<=a)b"}]}},
            "METADATA_SCHEMA_INVALID",
            None,
        ),
    ],
)
async def test_a_bad_setting_is_refused_when_it_is_set(
    mesh: MeshHarness, settings: Mapping[str, Any], reason: str, field: str | None
) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        with pytest.raises(InvalidArgumentError) as caught:
            await make(client, "bad", settings)
        assert caught.value.reason == reason
        assert field is None or caught.value.field == f"knowledge_base.{field}"
        kept = await client.knowledge_bases.create(knowledge_base_pb.KnowledgeBase(display_name="good"))
        changed = settings_from_plain(settings)
        changed.name = kept.name
        with pytest.raises(InvalidArgumentError) as caught:
            await client.knowledge_bases.update(changed)
        assert caught.value.reason == reason
        assert settings_to_plain(await client.knowledge_bases.get(kept.name)) == {"chunking": {"template": "general"}}


async def test_parents_are_kept_and_never_found(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        settings = {"children_delimiter": ". ", "child_max_tokens": 40}
        base = await make(client, "families", {"chunking": {"settings": settings}})
        space = (await client.knowledge_bases.get(base)).space
        await ingest_texts(client, base, {"leave.md": LEAVE})
        records = await records_of(mesh, tenant.tenant_id, base, space)
        parents = {record.record_id: record for record in records if record.kind is RecordKind.PARENT}
        children = [record for record in records if record.kind is RecordKind.CHUNK]
        assert parents
        assert len(children) > len(parents)
        assert all(child.links == (child.attributes["parent"],) for child in children)
        assert {child.links[0] for child in children} == parents.keys()
        plain = retrieval_pb.RetrievalPlan(preset=retrieval_pb.PRESET_FAST)
        found = await client.search([base], "parental leave at full pay", plan=plain, page_size=50)
        assert {hit.kind for hit in found.hits} == {"chunk"}
        [document] = [item async for item in client.documents.list(base)]
        assert document.latest_version.chunk_count == len(children)


async def test_nothing_is_made_unless_it_is_asked_for(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await make(client, "plain", {})
        before = await metric(mesh, "worker", "corpusmesh_ingest_embedded_texts_total", {"origin": "model"})
        await ingest_texts(client, base, {"leave.md": LEAVE})
        after = await metric(mesh, "worker", "corpusmesh_ingest_embedded_texts_total", {"origin": "model"})
        held = await mesh.count_records(tenant.tenant_id, RecordSelection(kinds=("chunk",)))
        assert held == await mesh.count_records(tenant.tenant_id) == after - before
        assert await count_objects(mesh, f"{tenant.tenant_id}/artefacts/") == 3, "parsed, chunks, vectors"


async def test_a_document_keeps_what_its_uploader_says_of_it(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await make(client, "policies", SETTINGS)
        item = UploadItem("leave.md", LEAVE.encode(), metadata={"effective": "2030-01-01", "shelf": "3"})
        run = await client.runs.wait((await client.upload(base, [item])).run)
        assert not run.failed_count
        [document] = [item async for item in client.documents.list(base)]
        assert dict((await client.documents.get(document.name)).metadata) == {
            "effective": "2030-01-01T00:00:00+00:00",
            "shelf": "3",
        }


async def test_a_value_of_another_type_is_refused_with_its_key(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await make(client, "policies", SETTINGS)
        items = [
            UploadItem("a.md", LEAVE.encode(), metadata={"effective": "soon"}),
            UploadItem("b.md", TRAVEL.encode(), metadata={"effective": "1 March 2027", "anything": "goes"}),
        ]
        result = await client.upload(base, items)
        assert [bool(item.version) for item in result.documents] == [False, True]
        assert "effective" in result.documents[0].error.message
        await client.runs.wait(result.run)
        [document] = [item async for item in client.documents.list(base)]
        assert document.metadata["effective"].startswith("2027-03-01")
        assert document.metadata["anything"] == "goes"
