"""The life of a document: versions beside each other, people's edits, other settings, duplicates, passwords."""

import asyncio
import base64
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from corpusmesh.ingest.v1 import chunk_service_pb2 as chunk_pb
from corpusmesh.ingest.v1 import document_service_pb2 as pb
from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh.ingest.v1 import run_service_pb2 as run_pb
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_core.errors import (
    CorpusMeshError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
)
from tests.integration.test_shared_documents import ENTRIES, ROOT
from tests.support.mesh import MeshHarness, ingest_texts, knowledge_base
from tests.support.mesh_probes import count_objects

PARTS = {
    "Travel": "Trains are booked in second class unless a journey takes more than four hours without a change.",
    "Meals": "Lunch on a journey is paid back up to fifteen euros when the receipt is handed in within a month.",
    "Hotels": "Hotels are booked by the office in Ghent, which has a contract with three houses near the station.",
    "Visas": "Visas are applied for eight weeks before the journey, and the fee is paid by the company itself.",
}
INSURANCE = "Everybody who is on a journey for the company is insured against theft, illness and the loss of luggage."
FREE_LUNCH = (
    "Lunch is free for all who come to the house in Ghent on the first Tuesday of a month that has thirty days."
)


def handbook(**changes: str) -> str:
    """A document with a section for each part, changed here and there; an empty text leaves a section out."""
    sections = {**PARTS, **changes}
    return "".join(f"# {title}\n\n{text}\n\n" for title, text in sections.items() if text)


async def texts_of(client: CorpusMeshClient, version: str) -> list[str]:
    return [chunk.text async for chunk in client.chunks.list(version)]


async def chunk_with(client: CorpusMeshClient, version: str, words: str) -> chunk_pb.Chunk:
    return next(chunk for chunk in [c async for c in client.chunks.list(version)] if words in chunk.text)


async def finished(client: CorpusMeshClient, run: str) -> run_pb.Run:
    ended = await client.runs.wait(run)
    assert ended.state == run_pb.Run.STATE_SUCCEEDED, ended
    return ended


async def found(client: CorpusMeshClient, base: str, query: str) -> list[str]:
    return [hit.text for hit in (await client.search([base], query, page_size=10)).hits]


class Shelf:
    """A knowledge base with one document of several small chunks."""

    def __init__(self, client: CorpusMeshClient, base: str, version: str) -> None:
        self.client = client
        self.base = base
        self.version = version
        self.document = version.rsplit("/versions/", 1)[0]

    @classmethod
    async def make(cls, client: CorpusMeshClient) -> "Shelf":
        base = (await knowledge_base(client, max_chunk_tokens=40)).name
        upload = await client.upload(base, [UploadItem("handbook.md", handbook().encode())])
        await finished(client, upload.run)
        return cls(client, base, upload.documents[0].version)

    async def upload(self, text: str) -> str:
        upload = await self.client.upload(self.base, [UploadItem("handbook.md", text.encode())])
        await finished(self.client, upload.run)
        return upload.documents[0].version

    async def published(self) -> str:
        return (await self.client.documents.get(self.document)).published_version


async def test_a_new_version_is_compared_with_the_old_one_and_taken_back(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        shelf = await Shelf.make(client)
        changed = PARTS["Meals"].replace("fifteen", "twenty")
        newer = await shelf.upload(handbook(Meals=changed, Visas="", Insurance=INSURANCE))
        first = await client.documents.diff_page(newer, shelf.version, page_size=1)
        everything = await client.documents.diff_page(newer, shelf.version)
        assert (first.added_count, first.removed_count, first.changed_count) == (1, 1, 1)
        assert len(first.changes) == 1
        assert first.next_page_token
        rest = await client.documents.diff_page(newer, shelf.version, page_size=9, page_token=first.next_page_token)
        assert [*first.changes, *rest.changes] == list(everything.changes)
        by_kind = {change.kind: change for change in everything.changes}
        assert "fifteen" in by_kind[pb.ChunkChange.KIND_CHANGED].before.text
        assert "twenty" in by_kind[pb.ChunkChange.KIND_CHANGED].after.text
        assert "Visas" in by_kind[pb.ChunkChange.KIND_REMOVED].before.text
        assert "insured" in by_kind[pb.ChunkChange.KIND_ADDED].after.text
        assert by_kind[pb.ChunkChange.KIND_ADDED].after.place.version == newer
        with pytest.raises(InvalidArgumentError):
            await client.documents.diff_page(newer, f"{shelf.base}/documents/another/versions/1")

        assert any("twenty" in text for text in await found(client, shelf.base, "lunch on a journey"))
        await client.documents.publish(shelf.version)
        texts = await found(client, shelf.base, "lunch on a journey")
        assert any("fifteen" in text for text in texts)
        assert not any("twenty" in text for text in texts)


async def test_edits_are_searched_and_survive_a_new_original_or_are_listed_as_unplaced(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        shelf = await Shelf.make(client)
        meals, hotels, visas, travel = [
            await chunk_with(client, shelf.version, word) for word in ("Lunch", "Ghent", "eight weeks", "Trains")
        ]
        requests = [
            chunk_pb.ChunkEditRequest(
                update=chunk_pb.UpdateChunkRequest(
                    chunk=chunk_pb.Chunk(
                        name=meals.name, text="Lunch is paid back up to thirty euros.", keywords=["food"]
                    )
                )
            ),
            chunk_pb.ChunkEditRequest(
                update=chunk_pb.UpdateChunkRequest(chunk=chunk_pb.Chunk(name=hotels.name, enabled=False))
            ),
            chunk_pb.ChunkEditRequest(delete=chunk_pb.DeleteChunkRequest(name=visas.name)),
            chunk_pb.ChunkEditRequest(
                create=chunk_pb.CreateChunkRequest(
                    chunk=chunk_pb.Chunk(text="Bicycles are lent at the gate on weekdays."), after=travel.name
                )
            ),
        ]
        started = await client.chunks.batch_edit(shelf.version, requests)
        assert len(started.edits) == 4
        await finished(client, started.run)
        assert await shelf.published() == started.version != shelf.version

        assert any("thirty euros" in text for text in await found(client, shelf.base, "lunch paid back"))
        assert any("Bicycles" in text for text in await found(client, shelf.base, "bicycles at the gate"))
        assert not any("three houses" in text for text in await found(client, shelf.base, "hotels Ghent office"))
        assert not any("eight weeks" in text for text in await found(client, shelf.base, "visas weeks"))
        off = await chunk_with(client, started.version, "Ghent")
        assert not off.enabled, "a chunk that is off is kept and listed"
        edited = await client.chunks.get((await chunk_with(client, started.version, "thirty")).name)
        assert (edited.edited, list(edited.keywords)) == (True, ["food"])
        texts = await texts_of(client, started.version)
        assert texts.index("Bicycles are lent at the gate on weekdays.") == 1
        before = await texts_of(client, shelf.version)
        assert any("Ghent" in text for text in before), "what was published before is as it was"

        # A new original keeps two of the four sections word by word; one is gone, one is another text.
        newer = await shelf.upload(handbook(Meals="", Visas=INSURANCE))
        states = {
            edit.name: chunk_pb.ChunkEdit.State.Name(edit.state)
            async for edit in client.chunks.list_edits(shelf.document)
        }
        assert [states[name] for name in started.edits] == [
            "STATE_UNPLACED", "STATE_PLACED", "STATE_UNPLACED", "STATE_PLACED",
        ]  # fmt: skip
        unplaced = client.chunks.list_edits(shelf.document, state=chunk_pb.ChunkEdit.STATE_UNPLACED)
        lost = [edit async for edit in unplaced]
        assert [edit.chunk.text for edit in lost] == ["Lunch is paid back up to thirty euros.", ""]
        assert "fifteen euros" in lost[0].original_text
        assert any("Bicycles" in text for text in await texts_of(client, newer))
        assert not (await chunk_with(client, newer, "Ghent")).enabled
        newest = (await client.documents.get(shelf.document)).latest_version
        assert any("edits" in warning for warning in newest.warnings)

        # The text comes back, and with it what was changed in it.
        last = await shelf.upload(handbook())
        assert any("thirty euros" in text for text in await texts_of(client, last))
        withdrawn = await client.chunks.withdraw(started.edits[0])
        await finished(client, withdrawn.run)
        assert any("fifteen euros" in text for text in await found(client, shelf.base, "lunch paid back"))
        await client.documents.publish(last)
        assert any("thirty euros" in text for text in await found(client, shelf.base, "lunch paid back"))


async def test_edits_of_edited_added_and_outdated_chunks(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        shelf = await Shelf.make(client)
        first = await client.chunks.create(shelf.version, chunk_pb.Chunk(text="Read this first."))
        await finished(client, first.run)
        added = await chunk_with(client, first.version, "Read this")
        again = await client.chunks.update(chunk_pb.Chunk(name=added.name, text="Read this before all."))
        await finished(client, again.run)
        texts = await texts_of(client, again.version)
        assert texts[0] == "Read this before all."
        assert "Read this first." not in texts
        assert len([edit async for edit in client.chunks.list_edits(shelf.document)]) == 1
        gone = await client.chunks.delete((await chunk_with(client, again.version, "Read this")).name)
        await finished(client, gone.run)
        assert await texts_of(client, gone.version) == await texts_of(client, shelf.version)
        assert [edit async for edit in client.chunks.list_edits(shelf.document)] == []

        await shelf.upload(handbook(Meals=FREE_LUNCH))
        with pytest.raises(FailedPreconditionError, match="another original"):
            await client.chunks.delete((await chunk_with(client, gone.version, "Lunch")).name)
        request_id = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
        current = await chunk_with(client, await shelf.published(), "Lunch")
        once = await client.chunks.update(
            chunk_pb.Chunk(name=current.name, text="Lunch is free."), request_id=request_id
        )
        twice = await client.chunks.update(
            chunk_pb.Chunk(name=current.name, text="Lunch is free."), request_id=request_id
        )
        assert (once.run, once.version) == (twice.run, twice.version)


async def test_another_template_holds_for_the_document_until_it_follows_its_knowledge_base_again(
    mesh: MeshHarness,
) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        shelf = await Shelf.make(client)
        cut = len(await texts_of(client, shelf.version))
        assert cut > 2
        one = knowledge_base_pb.KnowledgeBase(chunk_settings=knowledge_base_pb.ChunkSettings(template="one"))
        made = await client.documents.reprocess(shelf.document, settings=one)
        await finished(client, made.run)
        assert len(await texts_of(client, made.version)) == 1
        newest = (await client.documents.get(shelf.document)).latest_version
        assert newest.chunk_settings.template == "one"
        again = await shelf.upload(handbook(Meals=FREE_LUNCH))
        assert len(await texts_of(client, again)) == 1
        unchanged = await client.upload(shelf.base, [UploadItem("handbook.md", handbook(Meals=FREE_LUNCH).encode())])
        assert unchanged.documents[0].unchanged

        followed = await client.documents.reprocess(shelf.document, version=shelf.version, follow_knowledge_base=True)
        await finished(client, followed.run)
        assert await texts_of(client, followed.version) == await texts_of(client, shelf.version)

        await ingest_texts(client, shelf.base, {"notes/a.md": "Note one.", "notes/b.md": "Note two."})
        runs, count = await client.documents.reprocess_all(shelf.base, settings=one)
        assert count == 3
        for run in runs:
            await finished(client, run)
        assert len(await texts_of(client, await shelf.published())) == 1
        runs, count = await client.documents.reprocess_all(shelf.base, display_name_prefix="notes/")
        assert count == 2
        await finished(client, runs[0])
        with pytest.raises(InvalidArgumentError) as refused:
            await client.documents.reprocess(
                shelf.document,
                settings=knowledge_base_pb.KnowledgeBase(
                    chunk_settings=knowledge_base_pb.ChunkSettings(template="none such")
                ),
            )
        assert refused.value.field == "chunk_settings.template"


async def test_duplicates_are_skipped_replaced_or_kept(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = (await knowledge_base(client)).name
        await ingest_texts(client, base, {"a.md": "The heron waits at the weir."})
        original = UploadItem("a.md", b"The heron waits at the weir.")
        copy = replace(original, display_name="folder/b.md")
        skipped = await client.upload(base, [copy], duplicates=pb.DUPLICATES_SKIP)
        assert skipped.documents[0].unchanged
        assert "/documents/a-md-" in skipped.documents[0].version
        both = await client.upload(base, [original], duplicates=pb.DUPLICATES_KEEP_BOTH)
        await finished(client, both.run)
        version = await client.upload(base, [original], duplicates=pb.DUPLICATES_NEW_VERSION)
        await finished(client, version.run)
        assert version.documents[0].version.endswith("/versions/2")
        named = [document.display_name async for document in client.documents.list(base)]
        assert named == ["a.md", "a.md"]
        await finished(client, (await client.upload(base, [copy])).run)
        assert [entry.display_name async for entry in client.documents.list(base, display_name_prefix="folder/")] == [
            "folder/b.md"
        ]


async def test_a_preview_stores_nothing(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        shelf = await Shelf.make(client)
        before = await everything(mesh, tenant.tenant_id)
        one = knowledge_base_pb.KnowledgeBase(chunk_settings=knowledge_base_pb.ChunkSettings(template="one"))
        whole = await client.chunks.preview(shelf.base, version=shelf.version, settings=one)
        assert whole.total_size == 1
        assert all(words in whole.chunks[0].text for words in ("Trains", "Ghent", "eight weeks"))
        inline = await client.chunks.preview(shelf.base, content=("notes.md", handbook().encode()), page_size=2)
        assert inline.media_type == "text/markdown"
        assert len(inline.chunks) == 2 < inline.total_size == len(await texts_of(client, shelf.version))
        assert not inline.chunks[0].name
        for wrong in (("empty.md", b""), ("large.md", b"x" * (3 * 1024 * 1024 + 1)), ("broken.pdf", b"%PDF-1.7\nx")):
            with pytest.raises(CorpusMeshError):
                await client.chunks.preview(shelf.base, content=wrong)
        large = "".join(f"# Part {number}\n\n{PARTS['Travel']}\n\n" for number in range(10_000)).encode()[: 2**20]
        async with httpx.AsyncClient(base_url=mesh.http_url, timeout=120) as http:
            body = {
                "content": {"displayName": "large.md", "data": base64.b64encode(large).decode()},
                "pageSize": 1,
                "chunkSettings": {"maxChunkTokens": 400},
            }
            headers = {"authorization": f"Bearer {tenant.owner_key}"}
            answer = await http.post(f"/v1/{shelf.base}/chunks:preview", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.json()["totalSize"] > 100
        assert await everything(mesh, tenant.tenant_id) == before


async def everything(mesh: MeshHarness, tenant_id: str) -> dict[str, int]:
    """Count what a tenant has in every store."""
    counts = {
        "records": await mesh.count_records(tenant_id),
        "objects": await count_objects(mesh, f"{tenant_id}/"),
    }
    connection = await asyncpg.connect(mesh.endpoints.postgres_dsn)
    try:
        async with connection.transaction():
            await connection.execute("SET LOCAL ROLE corpusmesh_system")
            for table in ("documents", "versions", "runs", "tasks", "chunk_edits", "snapshots", "llm_cache"):
                counts[table] = await connection.fetchval(
                    f"SELECT count(*) FROM corpusmesh.{table} WHERE tenant_id = $1",
                    tenant_id,
                )
    finally:
        await connection.close()
    return counts


LOCKED: list[dict[str, Any]] = [
    entry for entry in ENTRIES if entry["format"] == "pdf" and entry["file"].startswith("encrypted-")
]


@pytest.mark.skipif(not LOCKED, reason=f"the shared documents are not at {ROOT}")
async def test_encrypted_documents_are_read_and_their_passwords_are_kept_nowhere(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    assert len(LOCKED) == 3
    async with mesh.client(tenant.owner_key) as client:
        base = (await knowledge_base(client)).name
        items = [
            UploadItem(entry["file"], ROOT / entry["file"], password=entry["expect"].get("password", ""))
            for entry in LOCKED
        ]
        upload = await client.upload(base, items)
        run = await client.runs.wait(upload.run)
        assert run.succeeded_count == 3, run
        first = next(item for item in items if item.password)
        wrong = replace(first, display_name="wrong.pdf", password="not the word of this one")
        refused = await client.runs.wait((await client.upload(base, [wrong])).run)
        assert refused.failed_count == 1
        document = refused.failed_parts[0].version.rsplit("/versions/", 1)[0]
        opened = await client.documents.reprocess(document, password=first.password)
        await finished(client, opened.run)
        content = (ROOT / first.display_name).read_bytes()
        seen = await client.chunks.preview(base, content=("p.pdf", content), password=first.password)
        assert seen.total_size >= 1

    passwords = [item.password for item in items if len(item.password) > 6] + ["not the word of this one"]
    assert len(passwords) >= 3
    rows, sealed = await dumped(mesh)
    assert sealed == 0, "every password is erased once its document was read"
    logs = "".join(path.read_text(errors="replace") for path in (mesh.data / "logs").rglob("*") if path.is_file())
    for password in passwords:
        for form in (password, password.encode().hex()):
            assert form not in rows
            assert form not in logs


async def dumped(mesh: MeshHarness) -> tuple[str, int]:
    """Every row of the metadata store as text, and how many versions hold a password."""
    connection = await asyncpg.connect(mesh.endpoints.postgres_dsn)
    try:
        async with connection.transaction():
            await connection.execute("SET LOCAL ROLE corpusmesh_system")
            tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'corpusmesh'")
            texts = []
            for table in tables:
                rows = await connection.fetch(f"SELECT t::text AS row FROM corpusmesh.{table['tablename']} t")
                texts += [row["row"] for row in rows]
            sealed = await connection.fetchval("SELECT count(*) FROM corpusmesh.versions WHERE sealed_password <> ''")
    finally:
        await connection.close()
    return "\n".join(texts), sealed


async def test_a_password_is_refused_in_an_address(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = (await knowledge_base(client)).name
    async with httpx.AsyncClient(base_url=mesh.http_url, timeout=60) as http:
        headers = {"authorization": f"Bearer {tenant.owner_key}", "content-type": "application/octet-stream"}
        answer = await http.post(
            f"/v1/{base}/documents:upload?displayName=a.pdf&password=secretword", content=b"x", headers=headers
        )
    assert answer.status_code == 400
    assert "PASSWORD_IN_ADDRESS" in answer.text
    assert "secretword" not in answer.text


PAGED = [entry for entry in ENTRIES if entry["format"] == "pdf" and entry["expect"].get("pages") == 1]


@pytest.mark.skipif(not PAGED, reason=f"the shared documents are not at {ROOT}")
async def test_pictures_are_shown_to_those_who_may_read_the_version(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    editor = await mesh.member(tenant, "ed", policy_pb2.ROLE_EDITOR)
    viewer = await mesh.member(tenant, "vi", policy_pb2.ROLE_VIEWER)
    file = next(entry["file"] for entry in PAGED if entry["expect"].get("must_contain"))
    async with mesh.client(editor) as client, mesh.client(viewer) as reader:
        wanted = knowledge_base_pb.KnowledgeBase(
            display_name="pages",
            permission=knowledge_base_pb.PERMISSION_TEAM,
            parse_settings=knowledge_base_pb.ParseSettings(render_pages=True, render_dots_per_inch=50),
        )
        base = (await client.knowledge_bases.create(wanted)).name
        upload = await client.upload(base, [UploadItem(file, ROOT / file)], hold_publish=True)
        await finished(client, upload.run)
        version = upload.documents[0].version
        page = f"{version}/pictures/page-1"
        media_type, content = await client.documents.read_picture(page)
        assert media_type in ("image/png", "image/jpeg")
        for hidden in (
            reader.documents.read_picture(page),
            reader.chunks.list_page(version),
            reader.documents.diff_page(version, version),
        ):
            with pytest.raises(NotFoundError):
                await hidden
        await client.documents.publish(version)
        assert await reader.documents.read_picture(page) == (media_type, content)
        async with httpx.AsyncClient(base_url=mesh.http_url, timeout=60) as http:
            shown = await http.get(f"/v1/{page}", headers={"authorization": f"Bearer {viewer}"})
            missing = await http.get(f"/v1/{page}9", headers={"authorization": f"Bearer {viewer}"})
        assert (shown.status_code, shown.headers["content-type"]) == (200, media_type)
        assert shown.content == content
        assert missing.status_code == 404
        with pytest.raises(CorpusMeshError):
            await reader.chunks.preview(base, version=version)
        only_editor = pb.DocumentAccess(denied_users=["users/vi"])
        document = version.rsplit("/versions/", 1)[0]
        async with mesh.client(tenant.owner_key) as owner:
            await owner.documents.update(pb.Document(name=document, access=only_editor), paths=("access",))
        with pytest.raises(NotFoundError):
            await reader.documents.read_picture(page)
        run = await client.documents.delete(document)
        await finished(client, run)
        assert (await client.documents.verify_purge(document)).purged
        assert await count_objects(mesh, f"{tenant.tenant_id}/") == 0


async def test_a_deleted_document_takes_its_edits_and_versions_with_it(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        shelf = await Shelf.make(client)
        started = await client.chunks.create(shelf.version, chunk_pb.Chunk(text="A secret of Vandermolen."))
        await finished(client, started.run)
        assert not (await client.documents.verify_purge(shelf.document)).purged
        await finished(client, await client.documents.delete(shelf.document))
        left = await client.documents.verify_purge(shelf.document)
        assert left.purged, left
        assert await mesh.count_records(tenant.tenant_id) == 0
        rows, _ = await dumped(mesh)
        assert "Vandermolen" not in rows
        with pytest.raises(NotFoundError):
            _ = [edit async for edit in client.chunks.list_edits(shelf.document)]


async def test_a_deleted_document_leaves_its_neighbours_their_chunks(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await knowledge_base(client)
        texts = {"one.md": "The first is of Ghent.", "two.md": "The second is of Bruges."}
        await ingest_texts(client, base.name, texts)
        documents = {document.display_name: document async for document in client.documents.list(base.name)}
        gone, stays = documents["one.md"], documents["two.md"]
        await finished(client, await client.documents.delete(gone.name))
        left = await client.documents.verify_purge(gone.name)
        assert left.purged, left

        assert await texts_of(client, stays.latest_version.name) == ["The second is of Bruges."]
        (only,) = [chunk async for chunk in client.chunks.list(stays.latest_version.name)]
        only.text = "The second is of Bruges and Damme."
        edited = await client.chunks.update(only, paths=["text"])
        await finished(client, edited.run)
        assert await found(client, base.name, "Damme") == ["The second is of Bruges and Damme."]
        await finished(client, await client.documents.delete(stays.name))
        assert await count_objects(mesh, f"{tenant.tenant_id}/") == 0


async def command(mesh: MeshHarness, key: str, *arguments: str, status: int = 0) -> Any:
    """Run a command of the CLI as a person would, and give what it prints as JSON."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "corpusmesh_app", *arguments, "--json",
        env={**os.environ, "CORPUSMESH_ENDPOINT": mesh.grpc_address, "CORPUSMESH_API_KEY": key},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(120):
        out, err = await process.communicate()
    assert process.returncode == status, (arguments, out, err)
    return json.loads(out)


async def test_a_person_lives_through_it_on_the_command_line(mesh: MeshHarness, tmp_path: Path) -> None:
    tenant = await mesh.tenant()
    key = tenant.owner_key
    folder = tmp_path / "handbooks"
    (folder / "eu").mkdir(parents=True)
    (folder / "eu" / "travel.md").write_text(handbook())
    (folder / "copy.md").write_text(handbook())
    base = (await command(mesh, key, "kb", "create", "Handbooks", "--max-chunk-tokens", "40"))["knowledge_base"]["name"]
    kb = ("--kb", base)
    report = await command(mesh, key, "ingest", str(folder / "eu"), *kb, "--wait")
    assert [entry["state"] for entry in report["documents"]] == ["done"]
    report = await command(mesh, key, "ingest", str(folder), *kb, "--wait", "--duplicates", "skip")
    assert [entry["state"] for entry in report["documents"]] == ["unchanged", "unchanged"]
    report = await command(mesh, key, "ingest", str(folder), *kb, "--wait")
    listed = await command(mesh, key, "documents", "list", *kb, "--folder", "eu")
    assert [entry["display_name"] for entry in listed["documents"]] == ["eu/travel.md"]
    assert listed["total_size"] == 1

    chunks = (await command(mesh, key, "chunks", "list", "copy.md", *kb))["chunks"]
    assert len(chunks) == 4
    name = chunks[1]["name"]
    assert (await command(mesh, key, "chunks", "show", name))["chunk"]["text"] == chunks[1]["text"]
    made = await command(
        mesh, key, "chunks", "update", name, "--text", "Lunch is paid back.", "--tag", "food=2", "--wait"
    )
    again = await command(mesh, key, "chunks", "add", "copy.md", *kb, "--text", "Read this first.", "--wait")
    edits = (await command(mesh, key, "chunks", "edits", "copy.md", *kb))["edits"]
    assert [edit["name"] for edit in edits] == [*made["edits"], *again["edits"]]
    assert edits[0]["sets"] == {"text": "Lunch is paid back.", "tags": {"food": 2.0}}
    compared = await command(mesh, key, "documents", "diff", "copy.md", *kb, "--base", "1")
    assert compared["unchanged_count"] == 3
    assert "Read this first." in [(change["after"] or {}).get("text") for change in compared["changes"]]
    first = (await command(mesh, key, "chunks", "list", "copy.md", *kb))["chunks"][0]["name"]
    await command(mesh, key, "chunks", "delete", first, "--wait")
    await command(mesh, key, "chunks", "withdraw", edits[0]["name"], "--wait")
    assert (await command(mesh, key, "chunks", "edits", "copy.md", *kb))["edits"] == []

    shown = await command(mesh, key, "chunks", "preview", str(folder / "copy.md"), *kb, "--template", "one")
    assert shown["total_size"] == 1
    await command(mesh, key, "documents", "reprocess", "copy.md", *kb, "--template", "one", "--wait")
    assert (await command(mesh, key, "chunks", "list", "copy.md", *kb))["total_size"] == 1
    everywhere = await command(mesh, key, "documents", "reprocess-all", *kb, "--follow-kb", "--wait")
    assert everywhere["document_count"] == 3, "travel.md, eu/travel.md and copy.md"
    assert (await command(mesh, key, "chunks", "list", "copy.md", *kb))["total_size"] == 4
    refused = await command(mesh, key, "ingest", str(folder), *kb, "--duplicates", "burn", status=2)
    assert refused["error"]["reason"] == "DUPLICATES_UNKNOWN"
