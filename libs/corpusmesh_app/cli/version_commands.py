"""`corpusmesh documents diff|reprocess|reprocess-all|picture`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.document_commands import DocumentArgument, KnowledgeBaseOption, find_document
from corpusmesh_app.cli.run_commands import raise_for_outcome
from corpusmesh_app.cli.session import Session
from corpusmesh_core.errors import FailedPreconditionError

if TYPE_CHECKING:
    from rich.console import Console

    from corpusmesh.ingest.v1.document_service_pb2 import ChunkChange
    from corpusmesh.ingest.v1.knowledge_base_service_pb2 import KnowledgeBase
    from corpusmesh.ingest.v1.run_service_pb2 import Run
    from corpusmesh_client import CorpusMeshClient

SettingsOption = Annotated[
    Path | None,
    typer.Option("--settings", help="YAML or JSON file with sections chunking, parsing and enrichment."),
]
TemplateOption = Annotated[str, typer.Option(help="Chunk template.")]
FollowOption = Annotated[
    bool, typer.Option("--follow-kb", help="Go back to the knowledge base's settings where none are given.")
]
PasswordFileOption = Annotated[
    Path | None, typer.Option("--password-file", help="File whose first line opens an encrypted document.")
]
WaitOption = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is searchable.")]
_SHOWN_CHARACTERS = 60


def register(group: typer.Typer) -> None:
    """Add the commands.

    Args:
        group: The group `documents`.
    """
    command(group, "diff")(diff)
    command(group, "reprocess")(reprocess)
    command(group, "reprocess-all")(reprocess_all)
    command(group, "picture")(picture)


async def diff(
    session: Session,
    document: DocumentArgument,
    knowledge_base: KnowledgeBaseOption = "",
    version: Annotated[str, typer.Option("--version", help="Version to look at; by default the newest.")] = "",
    base: Annotated[str, typer.Option("--base", help="Version to compare it with; by default the one before.")] = "",
    limit: Annotated[int, typer.Option(min=0, help="Differences to show; 0 for all.")] = 50,
) -> None:
    """Show which chunks of a version are new, gone, changed or moved."""
    from corpusmesh_client.names import resource_name

    async with session.client() as client:
        found = await find_document(client, document, knowledge_base)
        history = [entry.name async for entry in client.documents.list_versions(found.name)]
        newer = resource_name(f"{found.name}/versions", version) if version else history[0] if history else ""
        older = resource_name(f"{found.name}/versions", base) if base else _before(history, newer)
        changes: list[ChunkChange] = []
        token = ""
        while True:
            page = await client.documents.diff_page(newer, older, page_size=min(limit or 500, 500), page_token=token)
            changes.extend(page.changes)
            token = page.next_page_token
            if not token or (limit and len(changes) >= limit):
                break
    shown = changes[:limit] if limit else changes
    shape = {
        "version": newer,
        "base_version": older,
        "added_count": page.added_count,
        "removed_count": page.removed_count,
        "changed_count": page.changed_count,
        "moved_count": page.moved_count,
        "unchanged_count": page.unchanged_count,
        "changes": [_change_shape(change) for change in shown],
    }

    def render(console: "Console") -> None:
        rows = [
            (
                _kind(change),
                change.before.name.rsplit("/", 1)[-1],
                change.after.name.rsplit("/", 1)[-1],
                " ".join((change.after.text or change.before.text).split())[:_SHOWN_CHARACTERS],
            )
            for change in shown
        ]
        session.output.table(("", "BEFORE", "AFTER", "TEXT"), rows, empty="No difference.")(console)
        console.print(
            f"{page.added_count} added, {page.removed_count} removed, {page.changed_count} changed,"
            f" {page.moved_count} moved, {page.unchanged_count} the same"
        )

    session.output.result(shape, render)


async def reprocess(
    session: Session,
    document: DocumentArgument,
    knowledge_base: KnowledgeBaseOption = "",
    settings: SettingsOption = None,
    template: TemplateOption = "",
    follow: FollowOption = False,
    password_file: PasswordFileOption = None,
    wait: WaitOption = False,
) -> None:
    """Make a new version of a document from its original, with other settings; given a version, from that one's."""
    from corpusmesh_app.cli.secrets import read_password

    async with session.client() as client:
        found = await find_document(client, document, knowledge_base)
        made = await client.documents.reprocess(
            found.name,
            version=document if "/versions/" in document else "",
            settings=settings_of(settings, template),
            follow_knowledge_base=follow,
            password=read_password(password_file),
        )
        run = await wait_for(client, made.run, wait=wait)
    _print_run(session, {"version": made.version}, f"Making {made.version}", run, wait=wait)


async def reprocess_all(
    session: Session,
    knowledge_base: Annotated[str, typer.Option("--kb", help="Knowledge base.")],
    folder: Annotated[str, typer.Option(help="Only documents below this folder.")] = "",
    settings: SettingsOption = None,
    template: TemplateOption = "",
    follow: FollowOption = False,
    wait: WaitOption = False,
) -> None:
    """Make a new version of every document of a knowledge base, or of a folder of it."""
    from corpusmesh_app.cli.shapes import run_shape
    from corpusmesh_app.cli.sources import folder_prefix

    async with session.client() as client:
        entry = await client.resolve_knowledge_base(knowledge_base)
        names, count = await client.documents.reprocess_all(
            entry.name,
            display_name_prefix=folder_prefix(folder),
            settings=settings_of(settings, template),
            follow_knowledge_base=follow,
        )
        runs = [await wait_for(client, name, wait=wait) for name in names]
    session.output.result(
        {"document_count": count, "runs": [run_shape(run) for run in runs]},
        lambda console: console.print(f"{count} documents" + "".join(f"; {name}" for name in names)),
    )
    if wait:
        raise_for_outcome(sum(run.succeeded_count for run in runs), sum(run.failed_count for run in runs))


async def picture(
    session: Session,
    name: Annotated[str, typer.Argument(help="Full name of a figure or page image, as hits and chunks name it.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Save a figure of a version, or one of its pages as an image."""
    if output.exists() and not force:
        raise FailedPreconditionError("FILE_EXISTS", f"{output} exists; give another --output, or --force", path=output)
    async with session.client() as client:
        media_type, content = await client.documents.read_picture(name)
    output.write_bytes(content)
    session.output.result(
        {"picture": name, "path": str(output), "media_type": media_type, "size_bytes": len(content)},
        lambda console: console.print(f"Saved {output} ({len(content)} bytes, {media_type})."),
    )


async def wait_for(client: "CorpusMeshClient", name: str, *, wait: bool) -> "Run":
    """Read a run, at its end where that is waited for.

    Args:
        client: The client.
        name: The run.
        wait: Whether to wait.

    Returns:
        The run.
    """
    return await client.runs.wait(name) if wait else await client.runs.get(name)


def settings_of(path: Path | None, template: str) -> "KnowledgeBase | None":
    """Read the settings that a command line gives.

    Args:
        path: File of settings; None for none.
        template: Chunk template; "" for none.

    Returns:
        A knowledge base with these settings alone; None if none are given.
    """
    from corpusmesh_app.cli.settings_files import read_settings

    if path is None and not template:
        return None
    settings, _ = read_settings(path)
    if template:
        settings.chunk_settings.template = template
    return settings


def _print_run(session: Session, shape: dict[str, object], sentence: str, run: "Run", *, wait: bool) -> None:
    from corpusmesh_app.cli.shapes import run_shape

    session.output.result({**shape, "run": run_shape(run)}, lambda console: console.print(f"{sentence}: {run.name}"))
    if wait:
        raise_for_outcome(run.succeeded_count, run.failed_count)


def _before(history: list[str], newer: str) -> str:
    place = history.index(newer) + 1 if newer in history else len(history)
    if place >= len(history):
        raise FailedPreconditionError("NO_SUCH_VERSION", "there is no earlier version to compare with; give --base")
    return history[place]


def _kind(change: "ChunkChange") -> str:
    from corpusmesh.ingest.v1.document_service_pb2 import ChunkChange as Message

    return Message.Kind.Name(change.kind).removeprefix("KIND_").lower()


def _change_shape(change: "ChunkChange") -> dict[str, object]:
    return {
        "kind": _kind(change),
        "before": {"name": change.before.name, "text": change.before.text} if change.HasField("before") else None,
        "after": {"name": change.after.name, "text": change.after.text} if change.HasField("after") else None,
        "similarity": change.similarity,
    }
