"""`corpusmesh graph …`: builds, and what is around an entity."""

from typing import TYPE_CHECKING, Annotated

import typer

from corpusmesh_app.cli import graph_input_commands, graph_reading_commands
from corpusmesh_app.cli.build_budgets import budget_rows, budget_shape
from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.failures import CommandFailedError, ExitStatus
from corpusmesh_app.cli.output import plain
from corpusmesh_app.cli.session import Session

if TYPE_CHECKING:
    from rich.console import Console

    from corpusmesh.graph.v1.graph_service_pb2 import GetNeighbourhoodResponse, Graph
    from corpusmesh_client import CorpusMeshClient

RequiredKnowledgeBase = Annotated[str, typer.Option("--kb", "--knowledge-base", help="Knowledge base.")]
FullOption = Annotated[bool, typer.Option("--full", help="All of it anew, rather than what has changed.")]
_WEIGHT_CELLS = 9


def register(app: typer.Typer) -> None:
    """Add the commands.

    Args:
        app: The application.
    """
    group = typer.Typer(help="Graphs of entities and relations.", no_args_is_help=True)
    app.add_typer(group, name="graph")
    command(group, "plan")(plan)
    command(group, "build")(build)
    command(group, "show")(show)
    command(group, "watch")(watch)
    command(group, "cancel")(cancel)
    command(group, "delete")(delete)
    graph_reading_commands.register(group)
    graph_input_commands.register(group)


async def plan(session: Session, knowledge_base: RequiredKnowledgeBase, full: FullOption = False) -> None:
    """Tell what a build would cost; nothing is made and no model is called."""
    from corpusmesh_app.cli.graph_shapes import cost_shape, render_cost

    async with session.client() as client:
        found = await client.graphs.plan(await named(client, knowledge_base), full=full)
    shape = {
        "plan": cost_shape(found.plan),
        **budget_shape(found),
        "sampled_document_count": found.sampled_document_count,
    }

    def render(console: "Console") -> None:
        rows = [*render_cost({"plan": found.plan}), *budget_rows(found)]
        session.output.table(("", "PLAN"), rows, empty="")(console)
        if found.sampled_document_count < found.plan.document_count:
            console.print(f"Projected from {found.sampled_document_count:,} documents taken evenly over all.")

    session.output.result(shape, render)


async def build(
    session: Session,
    knowledge_base: RequiredKnowledgeBase,
    full: FullOption = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is published.")] = False,
) -> None:
    """Build the graph of a knowledge base, or bring it up to date."""
    from corpusmesh.ingest.v1.run_service_pb2 import Run

    run: Run | None = None
    async with session.client() as client:
        name = await named(client, knowledge_base)
        started = await client.graphs.build(name, full=full)
        graph = started.graph
        if wait and started.run:
            graph = await _follow(session, client, name)
            # From whom a part of the graph is hidden, its build is hidden too; the run that they started is not.
            run = await client.runs.wait(started.run)
            graph = await client.graphs.get(name)
    _print(session, graph, run=started.run, waited=wait)
    if run is not None and run.state != Run.STATE_SUCCEEDED:
        raise CommandFailedError(ExitStatus.FAILURE)


async def show(
    session: Session,
    knowledge_base: RequiredKnowledgeBase,
    entity: Annotated[str, typer.Argument(help="Entity as it is written, or its full name; none for the graph.")] = "",
    hops: Annotated[int, typer.Option(min=1, max=4, help="How many relations away.")] = 1,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Entities to show, the nearest first.")] = 50,
) -> None:
    """Show how a graph is doing, or draw what is around an entity."""
    async with session.client() as client:
        name = await named(client, knowledge_base)
        if not entity:
            graph = await client.graphs.get(name)
            _print(session, graph, run=graph.run, waited=True, fails=False)
            return
        found = await client.graphs.neighbourhood(name, entity, hops=hops, max_entities=limit)
    _print_neighbourhood(session, found)


async def watch(session: Session, knowledge_base: RequiredKnowledgeBase) -> None:
    """Follow the build of a graph until it ends."""
    async with session.client() as client:
        graph = await _follow(session, client, await named(client, knowledge_base))
    _print(session, graph, run=graph.run, waited=True)


async def cancel(session: Session, knowledge_base: RequiredKnowledgeBase) -> None:
    """Stop the build that is under way; the graph stays as it was published."""
    async with session.client() as client:
        graph = await client.graphs.cancel(await named(client, knowledge_base))
    _print(session, graph, run=graph.run, waited=False)


async def delete(
    session: Session,
    knowledge_base: RequiredKnowledgeBase,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete the graph of a knowledge base: none of it is found from then on, and a run removes it."""
    async with session.client() as client:
        name = await named(client, knowledge_base)
        if not yes and not session.output.as_json:
            typer.confirm(f"Delete {name}?", abort=True, err=True)
        run = await client.graphs.delete(name)
    session.output.result(
        {"deleted": name, "run": run}, lambda console: console.print(f"Deleted {name}; {run} removes it.")
    )


async def named(client: "CorpusMeshClient", knowledge_base: str) -> str:
    """Name the graph of a knowledge base.

    Args:
        client: The client.
        knowledge_base: The knowledge base as it was given.

    Returns:
        `knowledgeBases/*/graph`.
    """
    from corpusmesh_client.graphs import graph_name

    return graph_name((await client.resolve_knowledge_base(knowledge_base)).name)


async def _follow(session: Session, client: "CorpusMeshClient", name: str) -> "Graph":
    from corpusmesh.graph.v1.graph_service_pb2 import Graph
    from corpusmesh_app.cli.progress import LiveProgress

    found = Graph(name=name)
    with LiveProgress(session.output, 0) as progress:
        async for graph in client.graphs.watch(name):
            found = graph
            if graph.HasField("progress") and graph.progress.phase:
                state = graph.progress
                progress.step(state.phase, state.done_count, state.total_count)
    return found


def _print(session: Session, graph: "Graph", *, run: str, waited: bool, fails: bool = True) -> None:
    from corpusmesh_app.cli.graph_shapes import graph_shape, headline, render_cost

    def render(console: "Console") -> None:
        console.print(plain(f"{graph.name}: {headline(graph)}"))
        if run:
            console.print(plain(f"Run: {run}"), style="dim")
        costs = {"PLAN": graph.plan} if graph.HasField("plan") else {}
        if graph.HasField("bill"):
            costs["BILL"] = graph.bill
        if waited and costs:
            session.output.table(("", *costs), render_cost(costs), empty="")(console)

    session.output.result({"run": run or None, "graph": graph_shape(graph)}, render)
    if waited and fails and graph.error_reason:
        raise CommandFailedError(ExitStatus.FAILURE)


def _print_neighbourhood(session: Session, found: "GetNeighbourhoodResponse") -> None:
    from corpusmesh_app.cli.graph_shapes import entity_shape, relation_shape
    from corpusmesh_app.cli.tree_shapes import fitted
    from corpusmesh_core.graphs.drawing import DrawnEntity, DrawnRelation, draw_neighbourhood

    def render(console: "Console") -> None:
        entities = [
            DrawnEntity(one.entity.name, one.entity.title, one.entity.type, one.hops) for one in found.neighbours
        ]
        relations = [DrawnRelation(one.source, one.target, one.predicate, one.weight) for one in found.relations]
        width = min(console.width, 240) - _WEIGHT_CELLS
        for place, line in enumerate(draw_neighbourhood(entities, relations)):
            text = fitted(" ".join(plain(line).split("\n")), width)
            weight = f"  {line.weight:.2f}" if line.weight else ""
            console.print(f"{text}{weight}", style="bold" if not place else None)
        if found.truncated:
            console.print("There is more; --limit shows more of it.", style="dim")

    session.output.result(
        {
            "entities": [{"hops": one.hops, **entity_shape(one.entity)} for one in found.neighbours],
            "relations": [relation_shape(one) for one in found.relations],
            "truncated": found.truncated,
        },
        render,
    )
