"""What becomes of the best hits, through the whole mesh: parents, sections, duplicates, spans, and where they open."""

from collections.abc import Mapping
from typing import Any

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
from corpusmesh_client import CorpusMeshClient
from corpusmesh_client.knowledge_base_settings import settings_from_plain
from tests.support.mesh import MeshHarness, ingest_texts

STATE = pb.StageTiming
MANUAL = """# Storage manual

This manual describes how the engine stores tables.

## B+ tree index

The tree has a root, inner nodes and leaf pages. A lookup walks from the root down to one leaf.

Leaf pages are linked in the order of their keys. Reading on from one leaf to the next needs no second walk.

Rows of a clustered index lie in the leaf pages themselves. A secondary index holds the primary key instead.

## Full-text index

An inverted list names the documents of every word. Words are cut by an analyser that knows the language.

The relevance of a document grows with rare words. Frequent words say little about a topic.

## Backups

A backup copies the files of the engine at one moment. It is taken while the engine goes on working.

Restoring a backup replays the log behind it. Nothing that was committed is lost.
"""
SPECIES = "The heron waits at the shallow bank until a fish comes near. It strikes faster than the eye can follow."
NOTES = "# Notes\n\n" + "\n\n".join(
    f"Paragraph {name} speaks of {topic}. It has a second sentence about {topic} for good measure."
    for name, topic in zip(
        ("one", "two", "three", "four", "five", "six", "seven"),
        ("granite", "basalt", "herons", "fishing herons", "heron nests", "slate", "chalk"),
        strict=True,
    )
)


async def make(client: CorpusMeshClient, name: str, settings: Mapping[str, Any]) -> str:
    wanted = settings_from_plain(settings)
    wanted.display_name = name
    return (await client.knowledge_bases.create(wanted)).name


def plan_of(**assembly: Any) -> pb.RetrievalPlan:
    return pb.RetrievalPlan(preset=pb.PRESET_FAST, assembly=pb.AssemblyPlan(**assembly))


def stages_of(response: pb.SearchChunksResponse) -> dict[str, pb.StageTiming]:
    return {stage.stage: stage for stage in response.explanation.stages}


async def test_children_find_and_their_parent_is_returned_at_its_place(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await make(
            client,
            "families",
            {
                "chunking": {"settings": {"max_tokens": 120, "heading_break_tokens": 8, "children_delimiter": "\n"}},
                "enrichment": {"toc": {"method": "lite"}},
            },
        )
        await ingest_texts(client, base, {"manual.md": MANUAL})
        question = "are leaf pages linked in order"
        small = await client.search([base], question, plan=plan_of(), explain=True)
        whole = await client.search([base], question, plan=plan_of(parents=True), explain=True)
        assert small.hits[0].kind == "chunk"
        hit = whole.hits[0]
        assert hit.kind == "parent"
        assert small.hits[0].record_id in hit.merged_record_ids
        assert "root, inner nodes" in hit.text, "the whole section is read"
        assert "Leaf pages are linked" in hit.text
        assert hit.place.display_name == "manual.md"
        assert hit.place.heading_path[-1] == "B+ tree index"
        assert whole.total_size < small.total_size
        dropped = {item.record_id: item.dropped_reason for item in whole.explanation.candidates if item.dropped_reason}
        assert dropped[small.hits[0].record_id] == "merged_into_parent"
        assert stages_of(whole)["parents"].state == STATE.STATE_RAN

        # Pages of the same search lie end to end, however the hits were made.
        ids: list[str] = []
        token = ""
        while True:
            page = await client.search([base], question, plan=plan_of(parents=True), page_size=1, page_token=token)
            ids += [item.record_id for item in page.hits]
            token = page.next_page_token
            if not token:
                break
        assert ids == [item.record_id for item in whole.hits]

        # The table of contents leads to a section by its title.
        found = await client.search([base], "restoring backups", plan=plan_of(toc=True), explain=True)
        assert stages_of(found)["toc"].state == STATE.STATE_RAN
        assert "1 of" in stages_of(found)["toc"].detail
        assert found.hits[0].place.heading_path[-1] == "Backups"


async def test_equal_texts_collapse_and_neighbours_and_segments_are_joined(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await make(client, "birds", {"chunking": {"settings": {"max_tokens": 40, "overlap_tokens": 20}}})
        texts = {"a.md": f"{SPECIES}\n", "b.md": f"{SPECIES.upper()}\n", "notes.md": NOTES}
        await ingest_texts(client, base, texts)
        question = "the heron waits for a fish"
        twice = await client.search([base], question, plan=plan_of())
        once = await client.search([base], question, plan=plan_of(collapse_duplicates=True), explain=True)
        copies = {hit.record_id for hit in twice.hits if hit.place.display_name in ("a.md", "b.md")}
        left = [hit for hit in once.hits if hit.record_id in copies]
        assert len(copies) >= 2
        assert len(left) < len(copies)
        assert copies <= {name for hit in left for name in (hit.record_id, *hit.merged_record_ids)}
        assert stages_of(once)["duplicates"].detail.startswith(f"{len(copies) - len(left)} equal")

        question = "paragraph four: fishing herons"
        [plain] = (await client.search([base], question, plan=plan_of(), page_size=1)).hits
        assert plain.place.display_name == "notes.md"
        for wanted in ({"neighbours": 1}, {"segments": True}):
            found = await client.search([base], question, plan=plan_of(**wanted), page_size=50, explain=True)
            hit = next(hit for hit in found.hits if hit.record_id == plain.record_id)
            assert len(hit.text) > len(plain.text), wanted
            assert hit.merged_record_ids
            assert hit.text.count("fishing herons for good measure") == 1, "what chunks repeat stands once"
            assert hit.place.display_name == "notes.md"
            every = [name for item in found.hits for name in (item.record_id, *item.merged_record_ids)]
            assert len(every) == len(set(every)), "no chunk is returned twice"

        one_each = await client.search([base], "heron", plan=plan_of(max_per_document=1), page_size=50)
        names = [hit.place.display_name for hit in one_each.hits]
        assert len(names) == len(set(names))


async def test_a_plan_that_wants_all_of_it_answers_and_says_what_could_not_run(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await make(client, "all", {"enrichment": {"toc": {"method": "lite"}}})
        await ingest_texts(client, base, {"manual.md": MANUAL, "notes.md": NOTES})
        plan = pb.RetrievalPlan(
            preset=pb.PRESET_THOROUGH,
            assembly=pb.AssemblyPlan(
                neighbours=1, compress=True, max_per_document=2, diversity=pb.AssemblyPlan.DIVERSITY_DARTBOARD
            ),
        )
        for question in ("how does a B+ tree read a range", "?", "的", "the of and"):
            found = await client.search([base], question, plan=plan, explain=True)
            stages = stages_of(found)
            assert stages["rerank"].state == STATE.STATE_SKIPPED or not found.hits
            assert not [name for name, stage in stages.items() if stage.state == STATE.STATE_FAILED]
        stages = stages_of(await client.search([base], "how does a B+ tree read a range", plan=plan, explain=True))
        assert stages["rerank"].detail == "no cross-encoder is configured"
        assert {"toc", "parents", "duplicates", "diversity", "segments", "neighbours", "document_cap"} <= stages.keys()
        assert not any(stage.by_model for stage in stages.values())
