"""`corpusmesh kb …` and `corpusmesh status`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.session import Session
from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from corpusmesh.ingest.v1.knowledge_base_service_pb2 import KnowledgeBase
    from corpusmesh.ingest.v1.run_service_pb2 import Run

_SHOWN_RUNS = 10
_SETTINGS_HELP = "YAML or JSON file with sections such as chunking, parsing, enrichment, retrieval and ledger."
_COLUMNS = ("ID", "NAME", "PERMISSION", "OWNER", "DOCUMENTS", "CHUNKS")


def register(app: typer.Typer) -> None:
    """Add the commands.

    Args:
        app: The application.
    """
    group = typer.Typer(help="Knowledge bases.", no_args_is_help=True)
    app.add_typer(group, name="kb")
    command(group, "create")(create)
    command(group, "list")(list_all)
    command(group, "update")(update)
    command(group, "delete")(delete)
    command(group, "snapshots")(snapshots)
    command(group, "rollback")(rollback)
    command(app, "status")(status)


def _row(entry: "KnowledgeBase") -> tuple[object, ...]:
    from corpusmesh_app.cli.shapes import permission_name
    from corpusmesh_client.names import identifier_of

    return (
        identifier_of(entry.name),
        entry.display_name,
        permission_name(entry.permission),
        identifier_of(entry.owner),
        entry.document_count,
        entry.chunk_count,
    )


async def create(
    session: Session,
    name: Annotated[str, typer.Argument(help="Name shown to people.")],
    team: Annotated[
        bool, typer.Option("--team/--private", help="Seen by every member of the tenant, or by you alone.")
    ] = False,
    identifier: Annotated[str, typer.Option("--id", help="Identifier; by default made from the name.")] = "",
    description: Annotated[str, typer.Option(help="What it is about.")] = "",
    template: Annotated[str, typer.Option(help="Chunk template; by default general.")] = "",
    max_chunk_tokens: Annotated[int, typer.Option(help="Tokens of one chunk; 0 for the default.")] = 0,
    settings: Annotated[Path | None, typer.Option("--settings", help=_SETTINGS_HELP)] = None,
) -> None:
    """Create an empty knowledge base."""
    from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as pb
    from corpusmesh_app.cli.settings_files import read_settings
    from corpusmesh_app.cli.shapes import knowledge_base_shape

    wanted, _ = read_settings(settings)
    wanted.MergeFrom(
        pb.KnowledgeBase(
            display_name=name,
            description=description,
            permission=pb.PERMISSION_TEAM if team else pb.PERMISSION_PRIVATE,
            chunk_settings=pb.ChunkSettings(template=template, max_chunk_tokens=max_chunk_tokens),
        )
    )
    async with session.client() as client:
        made = await client.knowledge_bases.create(wanted, knowledge_base_id=identifier)
    session.output.result(
        {"knowledge_base": knowledge_base_shape(made)},
        session.output.table(_COLUMNS, [_row(made)], empty=""),
    )


async def list_all(session: Session) -> None:
    """List the knowledge bases that you may see."""
    from corpusmesh_app.cli.shapes import knowledge_base_shape

    async with session.client() as client:
        entries = [entry async for entry in client.knowledge_bases.list()]
    session.output.result(
        {"knowledge_bases": [knowledge_base_shape(entry) for entry in entries]},
        session.output.table(
            _COLUMNS, map(_row, entries), empty="No knowledge base yet; make one with `corpusmesh kb create NAME`."
        ),
    )


async def update(
    session: Session,
    name: Annotated[str, typer.Argument(help="Knowledge base.")],
    display_name: Annotated[str | None, typer.Option(help="New name.")] = None,
    description: Annotated[str | None, typer.Option(help="New description.")] = None,
    team: Annotated[bool | None, typer.Option("--team/--private", help="Who sees it.")] = None,
    template: Annotated[str, typer.Option(help="New chunk template.")] = "",
    settings: Annotated[Path | None, typer.Option("--settings", help=_SETTINGS_HELP)] = None,
) -> None:
    """Change a knowledge base's name, description, permission or settings."""
    from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as pb
    from corpusmesh_app.cli.settings_files import read_settings
    from corpusmesh_app.cli.shapes import knowledge_base_shape

    wanted, set_fields = read_settings(settings)
    paths = list(set_fields)
    if template:
        wanted.chunk_settings.template = template
        paths.append("chunk_settings")
    if display_name is not None:
        wanted.display_name = display_name
        paths.append("display_name")
    if description is not None:
        wanted.description = description
        paths.append("description")
    if team is not None:
        wanted.permission = pb.PERMISSION_TEAM if team else pb.PERMISSION_PRIVATE
        paths.append("permission")
    if not paths:
        raise InvalidArgumentError(
            "NOTHING_TO_CHANGE",
            "say what to change: --display-name, --description, --team, --private, --template or --settings",
        )
    async with session.client() as client:
        wanted.name = (await client.resolve_knowledge_base(name)).name
        changed = await client.knowledge_bases.update(wanted, paths=tuple(dict.fromkeys(paths)))
    session.output.result(
        {"knowledge_base": knowledge_base_shape(changed)},
        session.output.table(_COLUMNS, [_row(changed)], empty=""),
    )


async def delete(
    session: Session,
    name: Annotated[str, typer.Argument(help="Knowledge base.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a knowledge base with everything in it."""
    async with session.client() as client:
        entry = await client.resolve_knowledge_base(name)
        if not yes and not session.output.as_json:
            question = f"Delete {entry.name} ({entry.display_name}) with its {entry.document_count} documents?"
            typer.confirm(question, abort=True, err=True)
        run = await client.knowledge_bases.delete(entry.name)
    session.output.result(
        {"deleted": entry.name, "run": run},
        lambda console: console.print(f"Deleted {entry.name}; {run} removes what it held."),
    )


async def snapshots(
    session: Session,
    name: Annotated[str, typer.Argument(help="Knowledge base.")],
) -> None:
    """List the published states of a knowledge base, newest first."""
    from corpusmesh_app.cli.shapes import snapshot_shape, time_of

    async with session.client() as client:
        entry = await client.resolve_knowledge_base(name)
        found = [snapshot async for snapshot in client.knowledge_bases.list_snapshots(entry.name)]
    rows = [
        (item.name, item.reason, item.version_count, time_of(item, "create_time"), "current" if item.current else "")
        for item in found
    ]
    session.output.result(
        {"snapshots": [snapshot_shape(item) for item in found]},
        session.output.table(("SNAPSHOT", "REASON", "VERSIONS", "TIME", ""), rows, empty="Nothing was published yet."),
    )


async def rollback(
    session: Session,
    name: Annotated[str, typer.Argument(help="Knowledge base.")],
    snapshot: Annotated[str, typer.Option(help="Snapshot to return to; by default the one before the current.")] = "",
) -> None:
    """Publish an earlier state of a knowledge base again, without what has been deleted since."""
    from corpusmesh_app.cli.shapes import snapshot_shape
    from corpusmesh_client.names import resource_name

    async with session.client() as client:
        entry = await client.resolve_knowledge_base(name)
        if snapshot:
            wanted = resource_name(f"{entry.name}/snapshots", snapshot)
        else:
            found = [item async for item in client.knowledge_bases.list_snapshots(entry.name)]
            current = next((position for position, item in enumerate(found) if item.current), len(found))
            if current + 1 >= len(found):
                raise FailedPreconditionError("NO_EARLIER_SNAPSHOT", f"{entry.name} has no earlier state to return to")
            wanted = found[current + 1].name
        made = await client.knowledge_bases.rollback(entry.name, wanted)
    session.output.result(
        {"snapshot": snapshot_shape(made), "returned_to": wanted},
        lambda console: console.print(f"{entry.name} shows {wanted} again, as {made.name}."),
    )


async def status(
    session: Session,
    knowledge_base: Annotated[str, typer.Option("--kb", help="Knowledge base; by default all.")] = "",
) -> None:
    """Show who you are, the knowledge bases, and the work under way."""
    from corpusmesh_app.cli.member_shapes import caller_shape
    from corpusmesh_app.cli.shapes import knowledge_base_shape, run_shape
    from corpusmesh_client import has_ended

    target = session.target()
    runs: list[Run] = []
    async with session.client() as client:
        caller = await client.admin.get_caller()
        if knowledge_base:
            entries = [await client.resolve_knowledge_base(knowledge_base)]
        else:
            entries = [entry async for entry in client.knowledge_bases.list()]
        for entry in entries:
            count = 0
            async for run in client.runs.list(entry.name, page_size=_SHOWN_RUNS):
                if count == _SHOWN_RUNS:
                    break
                count += 1
                if knowledge_base or not has_ended(run):
                    runs.append(run)

    def render(console: "Console") -> None:
        shape = caller_shape(caller)
        console.print(f"Mesh {target.endpoint} (by {target.source})")
        console.print(f"You are {caller.user} of {caller.tenant}: role {shape['role']}, scope {shape['scope']}")
        session.output.table(_COLUMNS, map(_row, entries), empty="No knowledge base yet.")(console)
        render_runs(session, runs, empty="No work under way.")(console)

    session.output.result(
        {
            "endpoint": target.endpoint,
            "caller": caller_shape(caller),
            "knowledge_bases": [knowledge_base_shape(entry) for entry in entries],
            "runs": [run_shape(run) for run in runs],
        },
        render,
    )


def render_runs(session: Session, runs: "list[Run]", *, empty: str) -> "Callable[..., None]":
    """Make a renderer of runs.

    Args:
        session: The command's session.
        runs: The runs.
        empty: What to say where there is none.

    Returns:
        A function that prints them on a console.
    """
    from corpusmesh_app.cli.shapes import run_shape

    rows = []
    for run in runs:
        shape = run_shape(run)
        stages = ", ".join(f"{stage.stage} {stage.done_count}" for stage in run.stages)
        done = f"{run.succeeded_count}/{run.document_count}"
        rows.append((run.name, shape["kind"], shape["state"], done, run.failed_count, stages))
    return session.output.table(("RUN", "KIND", "STATE", "DONE", "FAILED", "STAGES"), rows, empty=empty)
