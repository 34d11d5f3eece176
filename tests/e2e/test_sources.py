"""Sources from end to end: a folder, a site and a bucket are followed, with their changes, deletions and rights."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from corpusmesh.ingest.v1 import run_service_pb2 as run_pb
from corpusmesh.ingest.v1 import source_service_pb2 as pb
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_adapters.s3 import S3ObjectStore, S3Settings
from corpusmesh_client import CorpusMeshClient, error_from_status
from corpusmesh_core.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
)
from tests.support.local_site import Page, local_site
from tests.support.mesh import MeshHarness, knowledge_base
from tests.support.mesh_probes import until

BUCKET = "source-of-tests"
TEXTS = {
    "zebra.md": "# Zebra\n\nThe zebra sleeps while it stands.",
    "heron.md": "# Heron\n\nThe heron waits in shallow water.",
    "badger.md": "# Badger\n\nThe badger digs at night.",
    "otter.md": "# Otter\n\nThe otter cracks shells with a stone.",
    "lynx.md": "# Lynx\n\nThe lynx hears a mouse from far away.",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="module")
def environment(distributed_mesh: MeshHarness, root: Path) -> dict[str, str]:
    """A folder, a bucket and the loopback network opened to sources."""
    store = distributed_mesh.settings.object_store
    connection = {
        "url": distributed_mesh.endpoints.s3_url,
        "region": distributed_mesh.endpoints.s3_region,
        "access_key_file": str(store.access_key_file),
        "secret_key_file": str(store.secret_key_file),
        "buckets": [BUCKET],
        "tenants": ["*"],
    }
    return {
        "CORPUSMESH_INGEST__SOURCES__FOLDER_ROOTS": json.dumps({"docs": {"path": str(root), "tenants": ["*"]}}),
        "CORPUSMESH_INGEST__SOURCES__S3_CONNECTIONS": json.dumps({"main": connection}),
        "CORPUSMESH_INGEST__SOURCES__WEB_ALLOWED_NETWORKS": '["127.0.0.0/8"]',
        "CORPUSMESH_INGEST__SOURCES__WEB_MIN_DELAY_SECONDS": "0",
        "CORPUSMESH_INGEST__SOURCES__WEB_MAX_DELAY_SECONDS": "0.05",
        "CORPUSMESH_INGEST__SOURCES__SCHEDULE_POLL_SECONDS": "0.5",
    }


@pytest.fixture(scope="module")
async def mesh(distributed_mesh: MeshHarness, environment: dict[str, str]) -> AsyncIterator[MeshHarness]:
    """The mesh with places opened to sources."""
    mesh = distributed_mesh
    for process in ("ingest", "worker"):
        await mesh.restart(process, environment)
    yield mesh
    for process in ("ingest", "worker"):
        await mesh.restart(process)


async def sync(client: CorpusMeshClient, name: str, *, allow_mass_delete: bool = False) -> run_pb.Run:
    """Sync a source and wait until what it took in can be searched."""
    started = await client.sources.sync(name, allow_mass_delete=allow_mass_delete)
    run = await client.runs.wait(started.run)
    for child in run.sync.runs:
        if (await client.runs.get(child)).kind == run_pb.Run.KIND_INGEST:
            ended = await client.runs.wait(child)
            assert not ended.failed_count, ended
    return run


def counts(run: run_pb.Run) -> tuple[int, int, int, int, int, int]:
    """Added, changed, with other access, unchanged, removed and failed items of a sync."""
    done = run.sync
    return (
        done.added_count,
        done.changed_count,
        done.access_changed_count,
        done.unchanged_count,
        done.removed_count,
        done.failed_count,
    )


async def finds(client: CorpusMeshClient, base: str, query: str, text: str) -> bool:
    found = await client.search([base], query, page_size=10)
    return any(text in hit.text for hit in found.hits)


def fill(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, text in TEXTS.items():
        (folder / name).write_text(text)


async def test_folder_is_followed_with_its_changes_and_deletions(mesh: MeshHarness, root: Path) -> None:
    fill(root / "animals")
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await knowledge_base(client)
        source = await client.sources.create(
            base.name, pb.Source(folder=pb.FolderPlace(root="docs", path="animals")), source_id="animals"
        )
        assert (source.name, source.display_name) == (f"{base.name}/sources/animals", "docs:/animals")
        first = await sync(client, source.name)
        assert (first.state, first.kind) == (run_pb.Run.STATE_SUCCEEDED, run_pb.Run.KIND_SYNC)
        assert counts(first) == (5, 0, 0, 0, 0, 0)
        assert await finds(client, base.name, "zebra sleeps", "sleeps while it stands")
        (root / "animals" / "zebra.md").write_text("# Zebra\n\nThe zebra runs away from lions.")
        (root / "animals" / "heron.md").unlink()
        (root / "animals" / "stork.md").write_text("# Stork\n\nThe stork nests on a chimney.")
        before = await mesh.count_records(tenant.tenant_id)
        second = await sync(client, source.name)
        assert counts(second) == (1, 1, 0, 3, 1, 0)
        assert await finds(client, base.name, "zebra", "runs away from lions")
        assert await finds(client, base.name, "stork chimney", "nests on a chimney")
        assert not await finds(client, base.name, "zebra sleeps", "sleeps while it stands")
        assert not await finds(client, base.name, "heron shallow water", "shallow water")
        assert before == 5
        documents = {document.display_name: document async for document in client.documents.list(base.name)}
        assert sorted(documents) == ["badger.md", "lynx.md", "otter.md", "stork.md", "zebra.md"]
        assert documents["lynx.md"].latest_version.name.endswith("/versions/1")
        assert documents["zebra.md"].latest_version.name.endswith("/versions/2")
        assert documents["zebra.md"].source_uri == "docs:/animals/zebra.md"
        assert counts(await sync(client, source.name)) == (0, 0, 0, 5, 0, 0)
        items = [item async for item in client.sources.list_items(source.name, page_size=2)]
        assert [item.key for item in items] == sorted(documents)
        after = await client.sources.get(source.name)
        assert (after.item_count, after.failed_item_count, after.HasField("error")) == (5, 0, False)


async def test_emptied_folder_deletes_nothing_until_somebody_allows_it(mesh: MeshHarness, root: Path) -> None:
    fill(root / "emptied")
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await knowledge_base(client)
        place = pb.FolderPlace(root="docs", path="emptied")
        source = await client.sources.create(base.name, pb.Source(folder=place))
        await sync(client, source.name)
        for file in (root / "emptied").iterdir():
            file.unlink()
        refused = await sync(client, source.name)
        assert refused.state == run_pb.Run.STATE_FAILED
        error = error_from_status(refused.error)
        assert isinstance(error, FailedPreconditionError)
        assert error.reason == "SOURCE_MASS_DELETE"
        assert await finds(client, base.name, "zebra sleeps", "sleeps while it stands")
        assert error_from_status((await client.sources.get(source.name)).error).reason == "SOURCE_MASS_DELETE"
        (root / "emptied").rmdir()
        missing = await sync(client, source.name, allow_mass_delete=True)
        assert error_from_status(missing.error).reason == "SOURCE_UNREADABLE"
        assert await finds(client, base.name, "zebra sleeps", "sleeps while it stands")
        (root / "emptied").mkdir()
        allowed = await sync(client, source.name, allow_mass_delete=True)
        assert counts(allowed) == (0, 0, 0, 0, 5, 0)
        assert not await finds(client, base.name, "zebra sleeps", "sleeps while it stands")


async def test_modes_of_files_decide_who_finds_them(mesh: MeshHarness, root: Path) -> None:
    folder = root / "rights"
    fill(folder)
    for file in folder.iterdir():
        file.chmod(0o644)
    (folder / "otter.md").chmod(0o600)
    tenant = await mesh.tenant()
    reader_key = await mesh.member(tenant, "rita", policy_pb2.ROLE_VIEWER)
    async with mesh.client(tenant.owner_key) as owner, mesh.client(reader_key) as reader:
        base = await knowledge_base(owner)
        source = await owner.sources.create(
            base.name,
            pb.Source(
                folder=pb.FolderPlace(root="docs", path="rights"),
                access=pb.SourceAccess(follows_source=True, principals={"everyone": "everyone"}),
            ),
        )
        await sync(owner, source.name)
        assert await finds(owner, base.name, "otter shells", "cracks shells")
        assert not await finds(reader, base.name, "otter shells", "cracks shells")
        assert await finds(reader, base.name, "zebra sleeps", "sleeps while it stands")
        (folder / "zebra.md").chmod(0o600)
        (folder / "otter.md").chmod(0o644)
        changed = await sync(owner, source.name)
        assert counts(changed) == (0, 0, 2, 3, 0, 0)
        assert await finds(reader, base.name, "otter shells", "cracks shells")
        assert not await finds(reader, base.name, "zebra sleeps", "sleeps while it stands")
        with pytest.raises(PermissionDeniedError):
            await reader.sources.get(source.name)


async def test_places_are_open_to_those_whom_role_and_configuration_name(mesh: MeshHarness, root: Path) -> None:
    tenant = await mesh.tenant()
    editor_key = await mesh.member(tenant, "edith", policy_pb2.ROLE_EDITOR)
    async with mesh.client(tenant.owner_key) as owner, mesh.client(editor_key) as editor:
        base = await knowledge_base(owner)

        async def refuse(client: CorpusMeshClient, source: pb.Source, kind: type[Exception], reason: str) -> None:
            with pytest.raises(kind) as caught:
                await client.sources.create(base.name, source)
            assert getattr(caught.value, "reason", "") == reason

        folder = pb.Source(folder=pb.FolderPlace(root="docs"))
        await refuse(editor, folder, PermissionDeniedError, "SOURCE_KIND_FORBIDDEN")
        unknown = pb.Source(folder=pb.FolderPlace(root="etc"))
        await refuse(owner, unknown, FailedPreconditionError, "SOURCE_ROOT_UNKNOWN")
        outside = pb.Source(folder=pb.FolderPlace(root="docs", path="../.."))
        await refuse(owner, outside, InvalidArgumentError, "SOURCE_PLACE_INVALID")
        bucket = pb.Source(s3=pb.S3Place(connection="main", bucket="corpusmesh"))
        await refuse(owner, bucket, FailedPreconditionError, "SOURCE_BUCKET_FORBIDDEN")
        mapped = pb.Source(web=pb.WebPlace(url="https://example.org"), access=pb.SourceAccess(follows_source=True))
        await refuse(editor, mapped, InvalidArgumentError, "SOURCE_ACCESS_UNSUPPORTED")
        await refuse(editor, pb.Source(), InvalidArgumentError, "SOURCE_PLACE_MISSING")
        hasty = pb.Source(web=pb.WebPlace(url="https://example.org"), schedule_seconds=10)
        await refuse(editor, hasty, InvalidArgumentError, "SOURCE_SCHEDULE_INVALID")
        made = await editor.sources.create(base.name, pb.Source(web=pb.WebPlace(url="https://example.org")))
        assert made.owner == "users/edith"
        assert [source.name async for source in owner.sources.list(base.name)] == [made.name]


async def test_site_is_followed_by_its_rules(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client, local_site() as site:
        site.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /internal\n", media_type="text/plain")
        site.put("/", "Welcome to the museum of tools.", links=("/hammer", "/saw", "/chisel", "/internal/plan"))
        site.put("/hammer", "The hammer was forged in Sheffield.")
        site.put("/saw", "The saw has teeth of steel.")
        site.put("/chisel", "The chisel belongs to a carpenter.")
        site.put("/internal/plan", "The vault opens with a code.")
        base = await knowledge_base(client)
        source = await client.sources.create(base.name, pb.Source(web=pb.WebPlace(url=site.url("/"))))
        first = await sync(client, source.name)
        assert counts(first) == (4, 0, 0, 0, 0, 0)
        assert await finds(client, base.name, "hammer Sheffield", "forged in Sheffield")
        assert not await finds(client, base.name, "vault code", "opens with a code")
        assert "/internal/plan" not in site.paths()
        site.put("/saw", "The saw has teeth of bronze.")
        del site.pages["/hammer"]
        site.pages["/chisel"] = Page(status=500)
        second = await sync(client, source.name)
        assert counts(second) == (0, 1, 0, 1, 1, 1)
        assert await finds(client, base.name, "saw teeth", "teeth of bronze")
        assert not await finds(client, base.name, "hammer Sheffield", "forged in Sheffield")
        assert await finds(client, base.name, "chisel carpenter", "belongs to a carpenter")
        found = await client.search([base.name], "saw teeth", page_size=1)
        documents = [document async for document in client.documents.list(base.name)]
        [saw] = [document for document in documents if document.name == found.hits[0].document]
        assert saw.source_uri == site.url("/saw")
        site.pages["/"] = Page(status=503)
        down = await sync(client, source.name)
        assert error_from_status(down.error).reason == "SOURCE_UNREADABLE"
        assert await finds(client, base.name, "saw teeth", "teeth of bronze")


async def test_site_that_leads_inside_is_refused(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client, local_site() as site:
        site.pages["/"] = Page(status=302, headers={"Location": "http://169.254.169.254/latest/meta-data"})
        base = await knowledge_base(client)
        source = await client.sources.create(base.name, pb.Source(web=pb.WebPlace(url=site.url("/"))))
        run = await sync(client, source.name)
        error = error_from_status(run.error)
        assert error.reason == "SOURCE_UNREADABLE"
        assert "not on the public internet" in error.message
        assert [document async for document in client.documents.list(base.name)] == []


async def test_bucket_is_followed_by_its_etags(mesh: MeshHarness) -> None:
    ends = mesh.endpoints
    store = S3ObjectStore(
        S3Settings(
            bucket=BUCKET,
            endpoint_url=ends.s3_url,
            region=ends.s3_region,
            access_key=ends.s3_access_key,
            secret_key=ends.s3_secret_key,
        )
    )
    try:
        await store.ensure_bucket()
        for name, text in TEXTS.items():
            await store.put(f"animals/{name}", text.encode())
        await store.put("plants/oak.md", b"The oak is not below the prefix.")
        tenant = await mesh.tenant()
        async with mesh.client(tenant.owner_key) as client:
            base = await knowledge_base(client)
            place = pb.S3Place(connection="main", bucket=BUCKET, prefix="animals/", exclude=["lynx*"])
            source = await client.sources.create(base.name, pb.Source(s3=place))
            assert counts(await sync(client, source.name)) == (4, 0, 0, 0, 0, 0)
            assert await finds(client, base.name, "otter shells", "cracks shells")
            await store.put("animals/otter.md", b"# Otter\n\nThe otter floats on its back.")
            await store.delete("animals/heron.md")
            await store.put("animals/birds/stork.md", b"# Stork\n\nThe stork nests on a chimney.")
            assert counts(await sync(client, source.name)) == (1, 1, 0, 2, 1, 0)
            assert await finds(client, base.name, "otter floats", "floats on its back")
            assert not await finds(client, base.name, "heron shallow water", "shallow water")
            documents = {document.display_name: document async for document in client.documents.list(base.name)}
            assert sorted(documents) == ["badger.md", "otter.md", "stork.md", "zebra.md"]
            assert documents["stork.md"].metadata["folder"] == "birds"
            assert documents["stork.md"].source_uri == f"s3://{BUCKET}/animals/birds/stork.md"
    finally:
        store.close()


@pytest.mark.parametrize("point", ["after_artefact", "after_index", "before_ack"])
async def test_sync_survives_the_death_of_its_worker(
    mesh: MeshHarness, environment: dict[str, str], root: Path, point: str
) -> None:
    folder = f"death-{point.replace('_', '-')}"
    fill(root / folder)
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await knowledge_base(client)
        source = await client.sources.create(base.name, pb.Source(folder=pb.FolderPlace(root="docs", path=folder)))
        await sync(client, source.name)
        (root / folder / "zebra.md").write_text("# Zebra\n\nThe zebra runs away from lions.")
        (root / folder / "heron.md").unlink()
        await mesh.restart("worker", {**environment, "CORPUSMESH_FAILPOINT": f"sync:{point}"})
        started = await client.sources.sync(source.name)
        died = mesh.processes["worker"]
        await asyncio.to_thread(died.wait, 60)
        assert died.returncode == -9
        await mesh.restart("worker", environment)
        run = await client.runs.wait(started.run)
        assert run.state == run_pb.Run.STATE_SUCCEEDED, run
        assert counts(run) == (0, 1, 0, 3, 1, 0)
        assert counts(await sync(client, source.name)) == (0, 0, 0, 4, 0, 0)
        documents = {document.display_name: document async for document in client.documents.list(base.name)}
        assert sorted(documents) == ["badger.md", "lynx.md", "otter.md", "zebra.md"]
        assert documents["zebra.md"].latest_version.name.endswith("/versions/2")


async def test_schedule_syncs_without_anybody_asking(mesh: MeshHarness, root: Path) -> None:
    fill(root / "scheduled")
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await knowledge_base(client)
        source = await client.sources.create(
            base.name, pb.Source(folder=pb.FolderPlace(root="docs", path="scheduled"), schedule_seconds=3600)
        )

        async def is_searchable() -> bool:
            return await finds(client, base.name, "zebra sleeps", "sleeps while it stands")

        await until(is_searchable, "the schedule has brought the documents")
        after = await client.sources.get(source.name)
        assert after.HasField("next_sync_time")
        assert after.last_run


@pytest.mark.parametrize("deletes", [False, True])
async def test_source_is_deleted_with_or_without_its_documents(mesh: MeshHarness, root: Path, deletes: bool) -> None:
    folder = f"deleted-{deletes}".lower()
    fill(root / folder)
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await knowledge_base(client)
        source = await client.sources.create(base.name, pb.Source(folder=pb.FolderPlace(root="docs", path=folder)))
        await sync(client, source.name)
        response = await client.sources.delete(source.name, delete_documents=deletes)
        assert bool(response.runs) is deletes
        assert await finds(client, base.name, "zebra sleeps", "sleeps while it stands") is not deletes
        with pytest.raises(NotFoundError):
            await client.sources.get(source.name)
        documents = [document async for document in client.documents.list(base.name)]
        assert len(documents) == (0 if deletes else 5)


async def test_command_line_follows_a_folder(mesh: MeshHarness, root: Path, tmp_path: Path) -> None:
    fill(root / "by-command")
    tenant = await mesh.tenant()
    key_file = tmp_path / "key"
    key_file.write_text(tenant.owner_key)
    async with mesh.client(tenant.owner_key) as client:
        base = await knowledge_base(client)

    async def run(*arguments: str) -> tuple[int, dict[str, object]]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "corpusmesh_app", "sources", *arguments, "--json",
            "--endpoint", mesh.grpc_address, "--api-key-file", str(key_file),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        output, errors = await process.communicate()
        assert output, errors.decode()
        return process.returncode or 0, json.loads(output)

    kb = ("--kb", base.name)
    status, made = await run("add", "folder", "docs", "--path", "by-command", "--id", "animals", *kb)
    assert status == 0, made
    status, synced = await run("sync", "animals", *kb)
    assert status == 0, synced
    assert synced["sync"]["added_count"] == 5  # type: ignore[index]
    _, listed = await run("items", "animals", *kb)
    assert [item["key"] for item in listed["items"]] == sorted(TEXTS)  # type: ignore[attr-defined]
    _, paused = await run("pause", "animals", *kb)
    assert paused["source"]["state"] == "paused"  # type: ignore[index]
    _, shown = await run("list", *kb)
    assert [source["id"] for source in shown["sources"]] == ["animals"]  # type: ignore[attr-defined]
    status, _ = await run("remove", "animals", *kb, "--delete-documents")
    assert status == 0
    _, empty = await run("list", *kb)
    assert empty["sources"] == []
