"""`corpusmesh documents …`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.failures import CommandFailedError, ExitStatus
from corpusmesh_app.cli.session import Session
from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from rich.console import Console

    from corpusmesh.ingest.v1.document_service_pb2 import Document, DocumentAccess, Version
    from corpusmesh_client import CorpusMeshClient

DocumentArgument = Annotated[
    str, typer.Argument(help="Document: its full name, or its identifier or file name with --kb.")
]
KnowledgeBaseOption = Annotated[str, typer.Option("--kb", help="Knowledge base of the document.")]
VersionOption = Annotated[str, typer.Option("--version", help="Version, by default the one that fits.")]

_VERSION_COLUMNS = ("VERSION", "STATE", "", "TYPE", "BYTES", "PAGES", "CHUNKS", "TIME")


def register(app: typer.Typer) -> typer.Typer:
    """Add the commands.

    Args:
        app: The application.

    Returns:
        Their group.
    """
    group = typer.Typer(help="Documents, their versions and who may read them.", no_args_is_help=True)
    app.add_typer(group, name="documents")
    command(group, "list")(list_all)
    command(group, "show")(show)
    command(group, "versions")(versions)
    command(group, "delete")(delete)
    command(group, "publish")(publish)
    command(group, "rollback")(rollback)
    command(group, "open")(open_original)
    command(group, "access")(access)
    command(group, "verify-purge")(verify_purge)
    return group


async def list_all(
    session: Session,
    knowledge_base: Annotated[str, typer.Option("--kb", help="Knowledge base.")],
    folder: Annotated[str, typer.Option(help="Only documents below this folder.")] = "",
    limit: Annotated[int, typer.Option(min=0, help="Documents to show; 0 for all.")] = 0,
) -> None:
    """List the documents of a knowledge base that you may read."""
    from corpusmesh_app.cli.shapes import document_shape, version_state
    from corpusmesh_app.cli.sources import folder_prefix

    documents: list[Document] = []
    async with session.client() as client:
        entry = await client.resolve_knowledge_base(knowledge_base)
        token, total = "", 0
        while True:
            page = await client.documents.list_page(
                entry.name, display_name_prefix=folder_prefix(folder), page_size=500, page_token=token
            )
            documents.extend(page.documents)
            token, total = page.next_page_token, page.total_size
            if not token or (limit and len(documents) >= limit):
                break
    shown = documents[:limit] if limit else documents
    rows = []
    for document in shown:
        latest = document.latest_version
        state = version_state(latest.state)
        rows.append(
            (
                document.name.rsplit("/", 1)[-1],
                document.display_name,
                document.published_version.rsplit("/", 1)[-1] or "-",
                f"{latest.name.rsplit('/', 1)[-1]} {state}",
                latest.page_count or "",
                latest.chunk_count,
            )
        )

    def render(console: "Console") -> None:
        columns = ("ID", "NAME", "PUBLISHED", "LATEST", "PAGES", "CHUNKS")
        session.output.table(columns, rows, empty="No document yet; add some with `corpusmesh ingest`.")(console)
        if len(shown) < total:
            console.print(f"{len(shown)} of {total} documents")

    session.output.result({"documents": [document_shape(document) for document in shown], "total_size": total}, render)


async def show(session: Session, document: DocumentArgument, knowledge_base: KnowledgeBaseOption = "") -> None:
    """Show one document with its versions."""
    from corpusmesh_app.cli.shapes import document_shape, version_shape

    async with session.client() as client:
        found = await find_document(client, document, knowledge_base)
        history = [version async for version in client.documents.list_versions(found.name)]

    def render(console: "Console") -> None:
        rows: list[tuple[str, object]] = [
            ("Name", found.name),
            ("File", found.display_name),
            ("Title", found.title),
            ("Source", found.source_uri or "-"),
            ("Published", found.published_version or "-"),
        ]
        rows.extend((f"Metadata {key}", value) for key, value in sorted(found.metadata.items()))
        session.output.table(("", ""), rows, empty="")(console)
        _render_versions(session, history)(console)

    session.output.result(
        {"document": document_shape(found), "versions": [version_shape(version) for version in history]}, render
    )


async def versions(session: Session, document: DocumentArgument, knowledge_base: KnowledgeBaseOption = "") -> None:
    """List the versions of a document, newest first."""
    from corpusmesh_app.cli.shapes import version_shape

    async with session.client() as client:
        found = await find_document(client, document, knowledge_base)
        history = [version async for version in client.documents.list_versions(found.name)]
    session.output.result(
        {"versions": [version_shape(version) for version in history]}, _render_versions(session, history)
    )


async def delete(
    session: Session,
    documents: Annotated[list[str], typer.Argument(help="Documents: full names, or identifiers or file names.")],
    knowledge_base: KnowledgeBaseOption = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete documents: nothing of them is found from then on, and a run removes what they left."""
    async with session.client() as client:
        found = [await find_document(client, document, knowledge_base) for document in documents]
        if not yes and not session.output.as_json:
            names = ", ".join(document.display_name for document in found[:5]) + (", …" if len(found) > 5 else "")
            typer.confirm(f"Delete {len(found)} documents ({names})?", abort=True, err=True)
        deleted = [{"document": entry.name, "run": await client.documents.delete(entry.name)} for entry in found]

    def render(console: "Console") -> None:
        for entry in deleted:
            console.print(f"Deleted {entry['document']}; {entry['run']} removes what it left.")

    session.output.result({"deleted": deleted}, render)


async def publish(
    session: Session,
    document: DocumentArgument,
    knowledge_base: KnowledgeBaseOption = "",
    version: VersionOption = "",
) -> None:
    """Publish a version that is ready; by default the newest ready one."""
    async with session.client() as client:
        name = await choose_version(client, document, knowledge_base, version, _newest_ready)
        snapshot = await client.documents.publish(name)
    _print_published(session, name, snapshot)


async def rollback(
    session: Session,
    document: DocumentArgument,
    knowledge_base: KnowledgeBaseOption = "",
    version: VersionOption = "",
) -> None:
    """Publish an earlier version again; by default the newest ready one before the published one."""
    async with session.client() as client:
        name = await choose_version(client, document, knowledge_base, version, _before_published)
        snapshot = await client.documents.publish(name)
    _print_published(session, name, snapshot)


async def open_original(
    session: Session,
    document: DocumentArgument,
    knowledge_base: KnowledgeBaseOption = "",
    version: VersionOption = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; by default the document's own name, here.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Save the original of a document as it was uploaded."""
    from corpusmesh_app.cli.saving import safe_file_name, write_whole

    async with session.client() as client:
        name = await choose_version(client, document, knowledge_base, version, published_or_newest)
        original = await client.documents.open_original(name)
        path = output if output is not None else Path(safe_file_name(original.display_name))
        if path.exists() and not force:
            raise FailedPreconditionError("FILE_EXISTS", f"{path} exists; give another --output, or --force", path=path)
        size = await write_whole(original.pieces, path)
    session.output.result(
        {"version": name, "path": str(path), "media_type": original.media_type, "size_bytes": size},
        lambda console: console.print(f"Saved {path} ({size} bytes, {original.media_type})."),
    )


async def access(
    session: Session,
    document: DocumentArgument,
    knowledge_base: KnowledgeBaseOption = "",
    allow_users: Annotated[list[str] | None, typer.Option("--allow-user", help="User who may read it.")] = None,
    allow_groups: Annotated[list[str] | None, typer.Option("--allow-group", help="Group that may read it.")] = None,
    deny_users: Annotated[list[str] | None, typer.Option("--deny-user", help="User who may not read it.")] = None,
    deny_groups: Annotated[list[str] | None, typer.Option("--deny-group", help="Group that may not.")] = None,
    is_open: Annotated[bool, typer.Option("--open", help="Open it to all who see the knowledge base.")] = False,
) -> None:
    """Show or replace a document's access list. If any user or group is allowed, all others are not; deny wins."""
    from corpusmesh.ingest.v1.document_service_pb2 import Document as DocumentMessage
    from corpusmesh.ingest.v1.document_service_pb2 import DocumentAccess as AccessMessage
    from corpusmesh_app.cli.shapes import access_shape
    from corpusmesh_client.names import resource_name

    wanted = AccessMessage(
        allowed_users=[resource_name("users", user) for user in allow_users or ()],
        allowed_groups=allow_groups or (),
        denied_users=[resource_name("users", user) for user in deny_users or ()],
        denied_groups=deny_groups or (),
    )
    given = wanted != AccessMessage()
    if given and is_open:
        raise InvalidArgumentError("ACCESS_AMBIGUOUS", "--open takes no other option: it empties the access list")
    async with session.client() as client:
        found = await find_document(client, document, knowledge_base)
        if given or is_open:
            changed = DocumentMessage(name=found.name, access=wanted)
            found = await client.documents.update(changed, paths=("access",))
    session.output.result(
        {"document": found.name, "access": access_shape(found.access), "changed": given or is_open},
        _render_access(session, found.access),
    )


async def verify_purge(session: Session, document: DocumentArgument, knowledge_base: KnowledgeBaseOption = "") -> None:
    """Count what is left of a deleted document in every store; fails while anything is."""
    async with session.client() as client:
        name = document
        if not document.startswith("knowledgeBases/"):
            from corpusmesh_client.names import resource_name

            if not knowledge_base:
                raise _needs_knowledge_base(document)
            # Deleted documents are in no list: only the identifier names one.
            parent = (await client.resolve_knowledge_base(knowledge_base)).name
            name = resource_name(f"{parent}/documents", document)
        left = await client.documents.verify_purge(name)
    shape = {
        "document": name,
        "purged": left.purged,
        "record_count": left.record_count,
        "object_count": left.object_count,
        "row_count": left.row_count,
    }
    state = "Purged" if left.purged else "Not purged"
    counts = f"{left.record_count} records, {left.object_count} objects, {left.row_count} rows left"
    session.output.result(shape, lambda console: console.print(f"{state}: {counts}."))
    if not left.purged:
        raise CommandFailedError(ExitStatus.FAILURE)


async def find_document(client: "CorpusMeshClient", text: str, knowledge_base: str) -> "Document":
    """Find a document by full name, else by identifier or file name in a knowledge base.

    Args:
        client: The client.
        text: What was given.
        knowledge_base: `--kb`; "" if it was not given.

    Returns:
        The document.

    Raises:
        NotFoundError: If the caller sees none of that name.
        FailedPreconditionError: If several have that file name.
    """
    from corpusmesh_client.names import document_of, is_identifier, resource_name

    if text.startswith("knowledgeBases/"):
        return await client.documents.get(document_of(text))
    if not knowledge_base:
        raise _needs_knowledge_base(text)
    parent = (await client.resolve_knowledge_base(knowledge_base)).name
    if is_identifier(text):
        try:
            return await client.documents.get(resource_name(f"{parent}/documents", text))
        except NotFoundError:
            pass  # it may still be a file name
    found = [document async for document in client.documents.list(parent) if document.display_name == text]
    if not found:
        raise NotFoundError("DOCUMENT_NOT_FOUND", f"there is no document {text!r} in {parent}", document=text)
    if len(found) > 1:
        names = ", ".join(document.name for document in found)
        raise FailedPreconditionError("NAME_AMBIGUOUS", f"several documents are called {text!r}: give one of {names}")
    return found[0]


def _needs_knowledge_base(text: str) -> InvalidArgumentError:
    return InvalidArgumentError("NAME_SHORT", f"give the full name of the document {text!r}, or say --kb")


async def choose_version(
    client: "CorpusMeshClient",
    document: str,
    knowledge_base: str,
    version: str,
    choose: Callable[["list[Version]"], "Version | None"],
) -> str:
    """Give the name of the version that a command line means.

    Args:
        client: The client.
        document: Document or version, as it was given.
        knowledge_base: `--kb`; "" if it was not given.
        version: `--version`; "" if it was not given.
        choose: Chooses out of the versions of the document, newest first.

    Returns:
        The version's name.

    Raises:
        FailedPreconditionError: If there is no version to choose.
    """
    from corpusmesh_client.names import resource_name

    if "/versions/" in document:
        return document
    found = await find_document(client, document, knowledge_base)
    if version:
        return resource_name(f"{found.name}/versions", version)
    history = [entry async for entry in client.documents.list_versions(found.name)]
    chosen = choose(history)
    if chosen is None:
        raise FailedPreconditionError(
            "NO_SUCH_VERSION", f"{found.display_name} has no version to use; `documents versions` shows what there is"
        )
    return chosen.name


def _newest_ready(history: "list[Version]") -> "Version | None":
    return next((entry for entry in history if _is_ready(entry)), None)


def _before_published(history: "list[Version]") -> "Version | None":
    published = next((position for position, entry in enumerate(history) if entry.published), -1)
    return _newest_ready(history[published + 1 :]) if published >= 0 else None


def published_or_newest(history: "list[Version]") -> "Version | None":
    """Choose the published version, else the newest one.

    Args:
        history: Versions, newest first.

    Returns:
        The version; None if there is none.
    """
    return next((entry for entry in history if entry.published), history[0] if history else None)


def _is_ready(entry: "Version") -> bool:
    from corpusmesh.ingest.v1.document_service_pb2 import Version as VersionMessage

    return entry.state == VersionMessage.STATE_READY


def _print_published(session: Session, name: str, snapshot: str) -> None:
    session.output.result(
        {"version": name, "snapshot": snapshot}, lambda console: console.print(f"Published {name} as {snapshot}.")
    )


def _render_versions(session: Session, history: "list[Version]") -> Callable[..., None]:
    from corpusmesh_app.cli.shapes import time_of, version_state

    rows = [
        (
            entry.name.rsplit("/", 1)[-1],
            version_state(entry.state),
            "published" if entry.published else "",
            entry.media_type,
            entry.size_bytes,
            entry.page_count or "",
            entry.chunk_count,
            time_of(entry, "create_time") or "",
        )
        for entry in history
    ]

    def render(console: "Console") -> None:
        session.output.table(_VERSION_COLUMNS, rows, empty="No version.")(console)
        for entry in history:
            label = f"Version {entry.name.rsplit('/', 1)[-1]}"
            if entry.HasField("error"):
                console.print(f"{label} failed: {entry.error.message}", markup=False)
            for warning in entry.warnings:
                console.print(f"{label}, warning: {warning}", markup=False)

    return render


def _render_access(session: Session, entry: "DocumentAccess") -> Callable[..., None]:
    rows = [
        *(("allowed", name) for name in (*entry.allowed_users, *entry.allowed_groups)),
        *(("denied", name) for name in (*entry.denied_users, *entry.denied_groups)),
    ]
    return session.output.table(("", "WHO"), rows, empty="Open to all who see the knowledge base.")
