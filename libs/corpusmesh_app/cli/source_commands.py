"""`corpusmesh sources …`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.failures import CommandFailedError, ExitStatus
from corpusmesh_app.cli.session import Session
from corpusmesh_core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from corpusmesh.ingest.v1.run_service_pb2 import Run
    from corpusmesh.ingest.v1.source_service_pb2 import Source
    from corpusmesh_client import CorpusMeshClient

KnowledgeBaseOption = Annotated[str, typer.Option("--kb", help="Knowledge base that follows it.")]
SourceArgument = Annotated[str, typer.Argument(help="Source: its full name, or its identifier with --kb.")]
OptionalKnowledgeBase = Annotated[str, typer.Option("--kb", help="Knowledge base of the source.")]
IdentifierOption = Annotated[str, typer.Option("--id", help="Identifier; by default one is made.")]
NameOption = Annotated[str, typer.Option("--name", help="Name shown to people; by default the place.")]
EveryOption = Annotated[
    int, typer.Option("--every", help="Seconds from one sync to the next, at least 300; 0 to sync on request alone.")
]
AllowUserOption = Annotated[list[str] | None, typer.Option("--allow-user", help="User who may read its documents.")]
AllowGroupOption = Annotated[list[str] | None, typer.Option("--allow-group", help="Group that may read its documents.")]
MetadataOption = Annotated[list[str] | None, typer.Option("--metadata", "-m", help="KEY=VALUE that its documents get.")]
IncludeOption = Annotated[list[str] | None, typer.Option("--include", help="Pattern of files to take, such as *.pdf.")]
ExcludeOption = Annotated[list[str] | None, typer.Option("--exclude", help="Pattern of files to leave out.")]


def register(app: typer.Typer) -> None:
    """Add the commands.

    Args:
        app: The application.
    """
    group = typer.Typer(help="Places that a knowledge base follows: folders, buckets, web sites.", no_args_is_help=True)
    app.add_typer(group, name="sources")
    adding = typer.Typer(help="Let a knowledge base follow a place.", no_args_is_help=True)
    group.add_typer(adding, name="add")
    command(adding, "folder")(add_folder)
    command(adding, "s3")(add_s3)
    command(adding, "web")(add_web)
    command(group, "list")(list_all)
    command(group, "show")(show)
    command(group, "sync")(sync)
    command(group, "items")(items)
    command(group, "pause")(pause)
    command(group, "resume")(resume)
    command(group, "remove")(remove)


async def add_folder(  # noqa: PLR0913 - an option each
    session: Session,
    root: Annotated[str, typer.Argument(help="Name of a root that the configuration opens.")],
    knowledge_base: KnowledgeBaseOption,
    path: Annotated[str, typer.Option(help="Folder below the root.")] = "",
    include: IncludeOption = None,
    exclude: ExcludeOption = None,
    follow_access: Annotated[
        bool, typer.Option("--follow-access", help="Let the files' own modes say who may read.")
    ] = False,
    principal: Annotated[
        list[str] | None,
        typer.Option("--map", help="PRINCIPAL=TARGET, such as group:staff=groups/staff or everyone=everyone."),
    ] = None,
    allow_user: AllowUserOption = None,
    allow_group: AllowGroupOption = None,
    metadata: MetadataOption = None,
    every: EveryOption = 0,
    identifier: IdentifierOption = "",
    name: NameOption = "",
) -> None:
    """Follow the files below a folder of the mesh's machine; needs the role admin."""
    from corpusmesh.ingest.v1 import source_service_pb2 as pb

    source = pb.Source(
        display_name=name,
        schedule_seconds=every,
        folder=pb.FolderPlace(root=root, path=path, include=include or (), exclude=exclude or ()),
        access=pb.SourceAccess(
            follows_source=follow_access,
            principals=_pairs(principal, "--map"),
            allowed_users=_users(allow_user),
            allowed_groups=allow_group or (),
        ),
        metadata=_pairs(metadata, "--metadata"),
    )
    await _add(session, knowledge_base, source, identifier)


async def add_s3(  # noqa: PLR0913 - an option each
    session: Session,
    connection: Annotated[str, typer.Argument(help="Name of a connection that the configuration opens.")],
    bucket: Annotated[str, typer.Argument(help="Bucket.")],
    knowledge_base: KnowledgeBaseOption,
    prefix: Annotated[str, typer.Option(help="What keys begin with.")] = "",
    include: IncludeOption = None,
    exclude: ExcludeOption = None,
    allow_user: AllowUserOption = None,
    allow_group: AllowGroupOption = None,
    metadata: MetadataOption = None,
    every: EveryOption = 0,
    identifier: IdentifierOption = "",
    name: NameOption = "",
) -> None:
    """Follow the objects of an S3 bucket; needs the role admin."""
    from corpusmesh.ingest.v1 import source_service_pb2 as pb

    source = pb.Source(
        display_name=name,
        schedule_seconds=every,
        s3=pb.S3Place(
            connection=connection, bucket=bucket, prefix=prefix, include=include or (), exclude=exclude or ()
        ),
        access=pb.SourceAccess(allowed_users=_users(allow_user), allowed_groups=allow_group or ()),
        metadata=_pairs(metadata, "--metadata"),
    )
    await _add(session, knowledge_base, source, identifier)


async def add_web(  # noqa: PLR0913 - an option each
    session: Session,
    url: Annotated[str, typer.Argument(help="Page to begin at, or a sitemap.")],
    knowledge_base: KnowledgeBaseOption,
    max_depth: Annotated[int, typer.Option(help="Links followed from the first page; 0 for the default.")] = 0,
    max_pages: Annotated[int, typer.Option(help="Pages looked at; 0 for the default.")] = 0,
    max_bytes: Annotated[int, typer.Option(help="Bytes fetched by one sync; 0 for the default.")] = 0,
    path_prefix: Annotated[str, typer.Option(help="Only pages whose path begins with it.")] = "",
    allow_user: AllowUserOption = None,
    allow_group: AllowGroupOption = None,
    metadata: MetadataOption = None,
    every: EveryOption = 0,
    identifier: IdentifierOption = "",
    name: NameOption = "",
) -> None:
    """Follow the pages of a web site, by its links or its sitemap; robots.txt is obeyed."""
    from corpusmesh.ingest.v1 import source_service_pb2 as pb

    source = pb.Source(
        display_name=name,
        schedule_seconds=every,
        web=pb.WebPlace(
            url=url, max_depth=max_depth, max_pages=max_pages, max_bytes=max_bytes, path_prefix=path_prefix
        ),
        access=pb.SourceAccess(allowed_users=_users(allow_user), allowed_groups=allow_group or ()),
        metadata=_pairs(metadata, "--metadata"),
    )
    await _add(session, knowledge_base, source, identifier)


async def list_all(session: Session, knowledge_base: KnowledgeBaseOption) -> None:
    """List the sources of a knowledge base."""
    from corpusmesh_app.cli.source_shapes import source_shape

    async with session.client() as client:
        base = await client.resolve_knowledge_base(knowledge_base)
        found = [source async for source in client.sources.list(base.name)]
    shapes = [source_shape(source) for source in found]
    session.output.result({"sources": shapes}, _table(session, found, empty="No source yet."))


async def show(session: Session, source: SourceArgument, knowledge_base: OptionalKnowledgeBase = "") -> None:
    """Show one source."""
    async with session.client() as client:
        found = await client.sources.get(await _source_name(client, source, knowledge_base))
    _print(session, found)


async def sync(
    session: Session,
    source: SourceArgument,
    knowledge_base: OptionalKnowledgeBase = "",
    allow_mass_delete: Annotated[
        bool, typer.Option("--allow-mass-delete", help="Delete also where much of the source has gone.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until its documents are searchable.")] = True,
) -> None:
    """Bring a knowledge base up to date with a source."""
    from corpusmesh_app.cli.source_shapes import sync_shape

    async with session.client() as client:
        name = await _source_name(client, source, knowledge_base)
        started = await client.sources.sync(name, allow_mass_delete=allow_mass_delete)
        run = await (client.runs.wait(started.run) if wait else client.runs.get(started.run))
        failed_count = 0
        if wait:
            for child in run.sync.runs:
                ended = await client.runs.get(child)
                # A purge looks again after minutes; what it removes is not found from its beginning on.
                if ended.kind == ended.KIND_INGEST:
                    failed_count += (await client.runs.wait(child)).failed_count
    session.output.result({"sync": sync_shape(run)}, lambda console: console.print(_sentence(run, failed_count)))
    if run.state == run.STATE_FAILED:
        raise CommandFailedError(ExitStatus.FAILURE)
    if wait and (run.sync.failed_count or failed_count):
        raise CommandFailedError(ExitStatus.PARTIAL)


async def items(
    session: Session,
    source: SourceArgument,
    knowledge_base: OptionalKnowledgeBase = "",
    limit: Annotated[int, typer.Option(min=1, help="Items to show.")] = 200,
) -> None:
    """List what is known of a source's documents."""
    from corpusmesh.ingest.v1 import source_service_pb2 as pb
    from corpusmesh_app.cli.source_shapes import item_shape
    from corpusmesh_client import error_from_status
    from corpusmesh_client.names import identifier_of

    found: list[pb.SourceItem] = []
    async with session.client() as client:
        name = await _source_name(client, source, knowledge_base)
        async for item in client.sources.list_items(name, page_size=min(limit, 500)):
            if len(found) == limit:
                break
            found.append(item)
    rows = [
        (
            item.key,
            pb.SourceItem.State.Name(item.state).removeprefix("STATE_").lower(),
            identifier_of(item.document),
            error_from_status(item.error).message if item.HasField("error") else "",
        )
        for item in found
    ]
    session.output.result(
        {"items": [item_shape(item) for item in found]},
        session.output.table(("ITEM", "STATE", "DOCUMENT", "WHY"), rows, empty="Nothing is known of it yet."),
    )


async def pause(session: Session, source: SourceArgument, knowledge_base: OptionalKnowledgeBase = "") -> None:
    """Stop to follow a source's schedule."""
    from corpusmesh.ingest.v1 import source_service_pb2 as pb

    async with session.client() as client:
        name = await _source_name(client, source, knowledge_base)
        found = await client.sources.update(pb.Source(name=name, state=pb.Source.STATE_PAUSED), paths=("state",))
    _print(session, found)


async def resume(session: Session, source: SourceArgument, knowledge_base: OptionalKnowledgeBase = "") -> None:
    """Follow a source's schedule again."""
    from corpusmesh.ingest.v1 import source_service_pb2 as pb

    async with session.client() as client:
        name = await _source_name(client, source, knowledge_base)
        found = await client.sources.update(pb.Source(name=name, state=pb.Source.STATE_ACTIVE), paths=("state",))
    _print(session, found)


async def remove(
    session: Session,
    source: SourceArgument,
    documents: Annotated[
        bool,
        typer.Option("--delete-documents/--keep-documents", help="What becomes of its documents.", show_default=False),
    ],
    knowledge_base: OptionalKnowledgeBase = "",
) -> None:
    """Stop to follow a source; say what becomes of its documents."""
    async with session.client() as client:
        name = await _source_name(client, source, knowledge_base)
        response = await client.sources.delete(name, delete_documents=documents)
    session.output.result(
        {"source": name, "runs": list(response.runs)},
        lambda console: console.print(f"{name} is gone; its documents {'go too' if documents else 'stay'}."),
    )


async def _add(session: Session, knowledge_base: str, source: "Source", identifier: str) -> None:
    async with session.client() as client:
        base = await client.resolve_knowledge_base(knowledge_base)
        made = await client.sources.create(base.name, source, source_id=identifier)
    _print(session, made)


def _print(session: Session, source: "Source") -> None:
    from corpusmesh_app.cli.source_shapes import source_shape

    session.output.result({"source": source_shape(source)}, _table(session, [source], empty=""))


def _table(session: Session, sources: "Sequence[Source]", *, empty: str) -> Callable[..., None]:
    from corpusmesh_app.cli.source_shapes import source_shape
    from corpusmesh_client.names import identifier_of

    rows = []
    for source in sources:
        shape = source_shape(source)
        state = "failed" if source.HasField("error") else shape["state"]
        every = f"{source.schedule_seconds} s" if source.schedule_seconds else "on request"
        counts = (source.item_count, source.failed_item_count)
        rows.append(
            (shape["id"], source.display_name, shape["kind"], state, every, *counts, identifier_of(source.owner))
        )
    columns = ("ID", "NAME", "KIND", "STATE", "EVERY", "DOCUMENTS", "FAILED", "OWNER")
    return session.output.table(columns, rows, empty=empty)


def _sentence(run: "Run", failed_count: int) -> str:
    from corpusmesh_client import error_from_status

    sync = run.sync
    counts = (
        f"{sync.added_count} added, {sync.changed_count} changed, {sync.access_changed_count} with other access,"
        f" {sync.removed_count} removed, {sync.unchanged_count} as before, {sync.failed_count} unreadable"
    )
    if failed_count:
        counts += f"; {failed_count} could not be made searchable"
    why = f": {error_from_status(run.error).message}" if run.HasField("error") else ""
    return f"{run.name} {run.State.Name(run.state).removeprefix('STATE_').lower()}{why} ({counts})"


async def _source_name(client: "CorpusMeshClient", source: str, knowledge_base: str) -> str:
    if source.startswith("knowledgeBases/"):
        return source
    if not knowledge_base:
        raise InvalidArgumentError("SOURCE_NAME_SHORT", f"give the full name of the source {source!r}, or say --kb")
    return f"{(await client.resolve_knowledge_base(knowledge_base)).name}/sources/{source}"


def _pairs(values: list[str] | None, option: str) -> dict[str, str]:
    pairs = {}
    for value in values or ():
        key, separator, target = value.partition("=")
        if not key or not separator:
            raise InvalidArgumentError("OPTION_INVALID", f"{option} takes NAME=VALUE, not {value!r}", option=option)
        pairs[key] = target
    return pairs


def _users(users: list[str] | None) -> list[str]:
    return [f"users/{user.removeprefix('users/')}" for user in users or ()]
