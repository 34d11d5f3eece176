"""`corpusmesh runs …`."""

from typing import TYPE_CHECKING, Annotated

import typer

from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.failures import CommandFailedError, ExitStatus
from corpusmesh_app.cli.knowledge_base_commands import render_runs
from corpusmesh_app.cli.output import plain
from corpusmesh_app.cli.session import Session
from corpusmesh_core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from corpusmesh.ingest.v1.run_service_pb2 import Run
    from corpusmesh_client import CorpusMeshClient

RunArgument = Annotated[str, typer.Argument(help="Run: its full name, or its identifier with --kb.")]
KnowledgeBaseOption = Annotated[str, typer.Option("--kb", help="Knowledge base of the run.")]


def register(app: typer.Typer) -> None:
    """Add the commands.

    Args:
        app: The application.
    """
    group = typer.Typer(help="Long work: ingest and purge runs.", no_args_is_help=True)
    app.add_typer(group, name="runs")
    command(group, "list")(list_all)
    command(group, "show")(show)
    command(group, "watch")(watch)
    command(group, "cancel")(cancel)
    command(group, "retry")(retry)


async def list_all(
    session: Session,
    knowledge_base: Annotated[str, typer.Option("--kb", help="Knowledge base.")],
    limit: Annotated[int, typer.Option(min=1, help="Runs to show.")] = 50,
) -> None:
    """List the runs of a knowledge base, newest first."""
    from corpusmesh_app.cli.shapes import run_shape

    runs: list[Run] = []
    async with session.client() as client:
        entry = await client.resolve_knowledge_base(knowledge_base)
        async for run in client.runs.list(entry.name, page_size=min(limit, 500)):
            if len(runs) == limit:
                break
            runs.append(run)
    session.output.result({"runs": [run_shape(run) for run in runs]}, render_runs(session, runs, empty="No run yet."))


async def show(session: Session, run: RunArgument, knowledge_base: KnowledgeBaseOption = "") -> None:
    """Show one run with the documents that failed."""
    async with session.client() as client:
        found = await client.runs.get(await _run_name(client, run, knowledge_base))
    _print(session, found)


async def watch(session: Session, run: RunArgument, knowledge_base: KnowledgeBaseOption = "") -> None:
    """Follow a run until it has ended."""
    from corpusmesh_app.cli.progress import LiveProgress

    async with session.client() as client:
        found = await client.runs.get(await _run_name(client, run, knowledge_base))
        with LiveProgress(session.output, found.document_count) as progress:
            async for state in client.watch_run(found.name):
                found = state
                progress.update(state)
    _print(session, found)
    if found.HasField("error"):
        raise CommandFailedError(ExitStatus.FAILURE)
    raise_for_outcome(found.succeeded_count, found.document_count - found.succeeded_count)


async def cancel(session: Session, run: RunArgument, knowledge_base: KnowledgeBaseOption = "") -> None:
    """Ask a run to stop; what it has not published is removed."""
    async with session.client() as client:
        found = await client.runs.cancel(await _run_name(client, run, knowledge_base))
    _print(session, found)


async def retry(
    session: Session,
    run: RunArgument,
    knowledge_base: KnowledgeBaseOption = "",
    skip_gate: Annotated[
        bool, typer.Option("--skip-gate", help="Publish without asking the knowledge base's publish gate.")
    ] = False,
) -> None:
    """Run the failed parts of a run again from the stage at which they failed."""
    from corpusmesh_app.cli.shapes import run_shape

    async with session.client() as client:
        response = await client.runs.retry(await _run_name(client, run, knowledge_base), skip_publish_gate=skip_gate)
    session.output.result(
        {"run": run_shape(response.run), "retried_count": response.retried_count},
        lambda console: console.print(f"{response.retried_count} documents of {response.run.name} go again."),
    )


def raise_for_outcome(succeeded_count: int, failed_count: int) -> None:
    """End the command with the status that its outcome calls for.

    Args:
        succeeded_count: Parts that ended well.
        failed_count: Parts that did not.

    Raises:
        CommandFailedError: PARTIAL where some failed, FAILURE where all did.
    """
    if failed_count > 0:
        raise CommandFailedError(ExitStatus.PARTIAL if succeeded_count > 0 else ExitStatus.FAILURE)


def render_run(session: Session, run: "Run") -> "Callable[[Console], None]":
    """Make a renderer of one run with its failed documents.

    Args:
        session: The command's session.
        run: The run.

    Returns:
        A function that prints it on a console.
    """
    from corpusmesh_client import error_from_status

    failed = [(part.display_name, part.stage, error_from_status(part.error).message) for part in run.failed_parts]

    def render(console: "Console") -> None:
        render_runs(session, [run], empty="")(console)
        if run.HasField("error"):
            console.print(plain(error_from_status(run.error).message))
        if failed:
            session.output.table(("FAILED", "STAGE", "WHY"), failed, empty="")(console)

    return render


def _print(session: Session, run: "Run") -> None:
    from corpusmesh_app.cli.shapes import run_shape

    session.output.result({"run": run_shape(run)}, render_run(session, run))


async def _run_name(client: "CorpusMeshClient", run: str, knowledge_base: str) -> str:
    if run.startswith("knowledgeBases/"):
        return run
    if not knowledge_base:
        raise InvalidArgumentError("RUN_NAME_SHORT", f"give the full name of the run {run!r}, or say --kb")
    # Identifiers of runs are wider than others; the mesh checks them.
    return f"{(await client.resolve_knowledge_base(knowledge_base)).name}/runs/{run}"
