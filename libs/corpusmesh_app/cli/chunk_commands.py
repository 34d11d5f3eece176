"""`corpusmesh chunks …`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.document_commands import (
    DocumentArgument,
    KnowledgeBaseOption,
    VersionOption,
    choose_version,
    find_document,
    published_or_newest,
)
from corpusmesh_app.cli.run_commands import raise_for_outcome
from corpusmesh_app.cli.session import Session
from corpusmesh_app.cli.version_commands import (
    PasswordFileOption,
    SettingsOption,
    TemplateOption,
    WaitOption,
    settings_of,
    wait_for,
)
from corpusmesh_core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from corpusmesh.ingest.v1.chunk_service_pb2 import Chunk, ChunkEdit, StartedEdit
    from corpusmesh_client import CorpusMeshClient

ChunkArgument = Annotated[str, typer.Argument(help="Full name of a chunk, as `chunks list --json` shows it.")]
_SHOWN_CHARACTERS = 70
_MAX_PREVIEW_BYTES = 3 * 1024 * 1024


def register(app: typer.Typer) -> None:
    """Add the commands.

    Args:
        app: The application.
    """
    group = typer.Typer(help="Chunks of documents, and what people change in them.", no_args_is_help=True)
    app.add_typer(group, name="chunks")
    command(group, "list")(list_all)
    command(group, "show")(show)
    command(group, "preview")(preview)
    command(group, "update")(update)
    command(group, "add")(add)
    command(group, "delete")(delete)
    command(group, "edits")(edits)
    command(group, "withdraw")(withdraw)


async def list_all(
    session: Session,
    document: DocumentArgument,
    knowledge_base: KnowledgeBaseOption = "",
    version: VersionOption = "",
    limit: Annotated[int, typer.Option(min=0, help="Chunks to show; 0 for all.")] = 50,
) -> None:
    """List the chunks of a version, by default the published one."""
    found: list[Chunk] = []
    async with session.client() as client:
        name = await choose_version(client, document, knowledge_base, version, published_or_newest)
        token = ""
        while True:
            page = await client.chunks.list_page(name, page_size=min(limit or 500, 500), page_token=token)
            found.extend(page.chunks)
            token = page.next_page_token
            if not token or (limit and len(found) >= limit):
                break
    shown = found[:limit] if limit else found
    session.output.result(
        {"version": name, "chunks": [chunk_shape(chunk) for chunk in shown], "total_size": page.total_size},
        _render_chunks(session, shown, page.total_size),
    )


async def show(session: Session, chunk: ChunkArgument) -> None:
    """Show one chunk."""
    async with session.client() as client:
        found = await client.chunks.get(chunk)

    def render(console: "Console") -> None:
        rows: list[tuple[str, object]] = [
            ("Name", found.name),
            ("Place", f"page {found.place.page}" if found.place.page else "-"),
            ("Headings", " > ".join(found.place.heading_path) or "-"),
            ("Keywords", ", ".join(found.keywords) or "-"),
            ("Questions", " | ".join(found.questions) or "-"),
            ("Tags", ", ".join(f"{name} {weight:g}" for name, weight in sorted(found.tags.items())) or "-"),
            ("State", _state_of(found) or "as cut"),
        ]
        session.output.table(("", ""), rows, empty="")(console)
        console.print(found.text, markup=False)

    session.output.result({"chunk": chunk_shape(found)}, render)


async def preview(
    session: Session,
    source: Annotated[str, typer.Argument(help="A file of at most 3 MiB, or a document or version by full name.")],
    knowledge_base: Annotated[str, typer.Option("--kb", help="Knowledge base whose settings hold.")],
    settings: SettingsOption = None,
    template: TemplateOption = "",
    password_file: PasswordFileOption = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Chunks to show.")] = 20,
) -> None:
    """Cut a document and look at the chunks; nothing is stored."""
    from corpusmesh_app.cli.secrets import read_password

    async with session.client() as client:
        entry = await client.resolve_knowledge_base(knowledge_base)
        version, content = "", None
        if source.startswith("knowledgeBases/"):
            version = await choose_version(client, source, "", "", published_or_newest)
        else:
            content = _content(Path(source))
        made = await client.chunks.preview(
            entry.name,
            version=version,
            content=content,
            settings=settings_of(settings, template),
            password=read_password(password_file),
            page_size=limit,
        )
    session.output.result(
        {
            "chunks": [chunk_shape(chunk) for chunk in made.chunks],
            "total_size": made.total_size,
            "token_count": made.token_count,
            "media_type": made.media_type,
            "page_count": made.page_count,
            "warnings": list(made.warnings),
        },
        _render_chunks(session, made.chunks, made.total_size, warnings=made.warnings),
    )


async def update(
    session: Session,
    chunk: ChunkArgument,
    text: Annotated[str | None, typer.Option(help="New text.")] = None,
    keywords: Annotated[list[str] | None, typer.Option("--keyword", help="Keyword; give each one.")] = None,
    questions: Annotated[list[str] | None, typer.Option("--question", help="Question that it answers.")] = None,
    tags: Annotated[list[str] | None, typer.Option("--tag", help="Tag as NAME=WEIGHT.")] = None,
    enabled: Annotated[bool | None, typer.Option("--on/--off", help="Whether it is searched.")] = None,
    wait: WaitOption = False,
) -> None:
    """Change a chunk, in a new version of its document."""
    from corpusmesh.ingest.v1.chunk_service_pb2 import Chunk as Message

    paths = [
        path
        for path, value in (
            ("text", text),
            ("keywords", keywords),
            ("questions", questions),
            ("tags", tags),
            ("enabled", enabled),
        )
        if value is not None
    ]
    if not paths:
        raise InvalidArgumentError("NOTHING_TO_CHANGE", "give what to change: --text, --keyword, --off, …")
    message = Message(
        name=chunk, text=text or "", keywords=keywords or (), questions=questions or (), tags=_tags(tags or ())
    )
    if enabled is not None:
        message.enabled = enabled
    async with session.client() as client:
        started = await client.chunks.update(message, paths=paths)
        await _finish(session, client, started, wait=wait)


async def add(
    session: Session,
    document: DocumentArgument,
    text: Annotated[str, typer.Option(help="Its text.")],
    knowledge_base: KnowledgeBaseOption = "",
    after: Annotated[str, typer.Option(help="Chunk that it follows; by default it is the first.")] = "",
    keywords: Annotated[list[str] | None, typer.Option("--keyword", help="Keyword; give each one.")] = None,
    questions: Annotated[list[str] | None, typer.Option("--question", help="Question that it answers.")] = None,
    wait: WaitOption = False,
) -> None:
    """Add a chunk, in a new version of a document."""
    from corpusmesh.ingest.v1.chunk_service_pb2 import Chunk as Message

    async with session.client() as client:
        if after:
            version = after.rsplit("/chunks/", 1)[0]
        else:
            version = await choose_version(client, document, knowledge_base, "", published_or_newest)
        chunk = Message(text=text, keywords=keywords or (), questions=questions or ())
        started = await client.chunks.create(version, chunk, after=after)
        await _finish(session, client, started, wait=wait)


async def delete(
    session: Session,
    chunks: Annotated[list[str], typer.Argument(help="Full names of chunks of one version.")],
    wait: WaitOption = False,
) -> None:
    """Leave chunks out, in one new version of their document."""
    from corpusmesh.ingest.v1.chunk_service_pb2 import ChunkEditRequest, DeleteChunkRequest

    async with session.client() as client:
        version = chunks[0].rsplit("/chunks/", 1)[0]
        requests = [ChunkEditRequest(delete=DeleteChunkRequest(name=chunk)) for chunk in chunks]
        started = await client.chunks.batch_edit(version, requests)
        await _finish(session, client, started, wait=wait)


async def edits(
    session: Session,
    document: DocumentArgument,
    knowledge_base: KnowledgeBaseOption = "",
    state: Annotated[
        str, typer.Option(help="pending, placed, unplaced or withdrawn; by default all but withdrawn.")
    ] = "",
) -> None:
    """List what people changed in the chunks of a document, what found no place included."""
    from corpusmesh.ingest.v1.chunk_service_pb2 import ChunkEdit as Message

    names = {name.removeprefix("STATE_").lower(): number for name, number in Message.State.items() if number}
    if state and state not in names:
        raise InvalidArgumentError("STATE_UNKNOWN", f"--state takes one of {', '.join(names)}", field="state")
    wanted = Message.State.ValueType(names.get(state, 0))
    async with session.client() as client:
        entry = await find_document(client, document, knowledge_base)
        found = [edit async for edit in client.chunks.list_edits(entry.name, state=wanted)]
    rows = [
        (
            edit.name.rsplit("/", 1)[-1],
            Message.State.Name(edit.state).removeprefix("STATE_").lower(),
            Message.Kind.Name(edit.kind).removeprefix("KIND_").lower(),
            ", ".join(edit.update_mask.paths),
            " ".join((edit.chunk.text or edit.original_text).split())[:_SHOWN_CHARACTERS],
        )
        for edit in found
    ]
    session.output.result(
        {"document": entry.name, "edits": [edit_shape(edit) for edit in found]},
        session.output.table(("EDIT", "STATE", "KIND", "SETS", "TEXT"), rows, empty="No edit."),
    )


async def withdraw(
    session: Session,
    edit: Annotated[str, typer.Argument(help="Full name of an edit, as `chunks edits --json` shows it.")],
    wait: WaitOption = False,
) -> None:
    """Withdraw an edit, in a new version of its document."""
    async with session.client() as client:
        started = await client.chunks.withdraw(edit)
        await _finish(session, client, started, wait=wait)


def chunk_shape(chunk: "Chunk") -> dict[str, object]:
    """Describe a chunk in JSON.

    Args:
        chunk: The chunk.

    Returns:
        Its shape.
    """
    from corpusmesh.ingest.v1.chunk_service_pb2 import Chunk as Message

    return {
        "name": chunk.name or None,
        "position": chunk.position,
        "role": Message.Role.Name(chunk.role).removeprefix("ROLE_").lower(),
        "text": chunk.text,
        "context": chunk.context,
        "page": chunk.place.page,
        "heading_path": list(chunk.place.heading_path),
        "token_count": chunk.token_count,
        "block_kind": chunk.block_kind,
        "keywords": list(chunk.keywords),
        "questions": list(chunk.questions),
        "tags": dict(chunk.tags),
        "attributes": dict(chunk.attributes),
        "parent": chunk.parent or None,
        "picture": chunk.picture or None,
        "confidence": chunk.confidence,
        "enabled": chunk.enabled,
        "edited": chunk.edited,
    }


def edit_shape(edit: "ChunkEdit") -> dict[str, object]:
    """Describe an edit in JSON.

    Args:
        edit: The edit.

    Returns:
        Its shape.
    """
    from corpusmesh.ingest.v1.chunk_service_pb2 import ChunkEdit as Message
    from corpusmesh_app.cli.shapes import time_of

    sets = set(edit.update_mask.paths)
    values: dict[str, object] = {
        "text": edit.chunk.text,
        "keywords": list(edit.chunk.keywords),
        "questions": list(edit.chunk.questions),
        "tags": dict(edit.chunk.tags),
        "enabled": edit.chunk.enabled,
    }
    return {
        "name": edit.name,
        "state": Message.State.Name(edit.state).removeprefix("STATE_").lower(),
        "kind": Message.Kind.Name(edit.kind).removeprefix("KIND_").lower(),
        "version": edit.version,
        "original_text": edit.original_text,
        "sets": {path: value for path, value in values.items() if path in sets},
        "creator": edit.creator,
        "create_time": time_of(edit, "create_time"),
    }


async def _finish(session: Session, client: "CorpusMeshClient", started: "StartedEdit", *, wait: bool) -> None:
    from corpusmesh_app.cli.shapes import run_shape

    run = await wait_for(client, started.run, wait=wait)
    session.output.result(
        {"version": started.version, "edits": list(started.edits), "run": run_shape(run)},
        lambda console: console.print(f"Making {started.version}: {started.run}"),
    )
    if wait:
        raise_for_outcome(run.succeeded_count, run.failed_count)


def _content(path: Path) -> tuple[str, bytes]:
    try:
        with path.open("rb") as source:
            content = source.read(_MAX_PREVIEW_BYTES + 1)
    except OSError as error:
        raise InvalidArgumentError("FILE_UNREADABLE", f"{path} cannot be read ({error.strerror})", path=path) from error
    if len(content) > _MAX_PREVIEW_BYTES:
        raise InvalidArgumentError(
            "PREVIEW_CONTENT_INVALID",
            f"{path} has more than {_MAX_PREVIEW_BYTES} bytes; ingest it and preview its version",
            path=path,
        )
    return path.name, content


def _tags(tags: "Sequence[str]") -> dict[str, float]:
    values: dict[str, float] = {}
    for tag in tags:
        name, separator, weight = tag.rpartition("=")
        try:
            values[name if separator else tag] = float(weight) if separator else 1.0
        except ValueError as error:
            raise InvalidArgumentError("TAG_INVALID", f"--tag takes NAME=WEIGHT, not {tag!r}", field="tag") from error
    return values


def _state_of(chunk: "Chunk") -> str:
    return ", ".join(word for word, holds in (("edited", chunk.edited), ("off", not chunk.enabled)) if holds)


def _render_chunks(
    session: Session, chunks: "Sequence[Chunk]", total: int, *, warnings: "Sequence[str]" = ()
) -> "Callable[[Console], None]":
    rows = [
        (
            chunk.name.rsplit("/", 1)[-1] or chunk.position,
            chunk.place.page or "",
            chunk.token_count,
            _state_of(chunk),
            " ".join(chunk.text.split())[:_SHOWN_CHARACTERS],
        )
        for chunk in chunks
    ]

    def render(console: "Console") -> None:
        session.output.table(("CHUNK", "PAGE", "TOKENS", "", "TEXT"), rows, empty="No chunk.")(console)
        if len(rows) < total:
            console.print(f"{len(rows)} of {total} chunks")
        for warning in warnings:
            console.print(f"Warning: {warning}", markup=False)

    return render
