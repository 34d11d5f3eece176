"""`corpusmesh tree …`."""

from typing import TYPE_CHECKING, Annotated

import typer

from corpusmesh_app.cli.build_budgets import budget_rows, budget_shape
from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.document_commands import find_document
from corpusmesh_app.cli.failures import CommandFailedError, ExitStatus
from corpusmesh_app.cli.output import plain
from corpusmesh_app.cli.run_commands import raise_for_outcome, render_run
from corpusmesh_app.cli.session import Session
from corpusmesh_core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from rich.console import Console

    from corpusmesh.ingest.v1.run_service_pb2 import Run
    from corpusmesh.raptor.v1.tree_service_pb2 import Tree, TreeNode
    from corpusmesh_client import CorpusMeshClient

RequiredKnowledgeBase = Annotated[str, typer.Option("--kb", "--knowledge-base", help="Knowledge base.")]
OptionalKnowledgeBase = Annotated[
    str, typer.Option("--kb", "--knowledge-base", help="Knowledge base of the document; alone, its own tree.")
]
DocumentsOption = Annotated[
    list[str] | None,
    typer.Option("--document", help="Document whose tree is made; all that need one where none is given."),
]
FullOption = Annotated[bool, typer.Option("--full", help="All of it anew, rather than what has changed.")]
_SHOWN_CHARACTERS = 400


def register(app: typer.Typer) -> None:
    """Add the commands.

    Args:
        app: The application.
    """
    group = typer.Typer(help="Trees of summaries over documents and knowledge bases.", no_args_is_help=True)
    app.add_typer(group, name="tree")
    command(group, "plan")(plan)
    command(group, "build")(build)
    command(group, "watch")(watch)
    command(group, "cancel")(cancel)
    command(group, "show")(show)
    command(group, "node")(node)
    command(group, "delete")(delete)


async def plan(
    session: Session, knowledge_base: RequiredKnowledgeBase, documents: DocumentsOption = None, full: FullOption = False
) -> None:
    """Tell what a build would cost; nothing is made and no model is called."""
    from corpusmesh_app.cli.tree_shapes import cost_shape, render_cost

    async with session.client() as client:
        parent = (await client.resolve_knowledge_base(knowledge_base)).name
        names = [(await find_document(client, document, knowledge_base)).name for document in documents or ()]
        found = await client.trees.plan(parent, documents=names, full=full)
    shape = {
        "plan": cost_shape(found.plan),
        **budget_shape(found),
        "document_count": found.document_count,
        "sampled_document_count": found.sampled_document_count,
    }

    def render(console: "Console") -> None:
        rows = [("Documents", f"{found.document_count:,}"), *render_cost({"plan": found.plan}), *budget_rows(found)]
        session.output.table(("", "PLAN"), rows, empty="")(console)
        if found.sampled_document_count < found.document_count:
            console.print(f"Projected from {found.sampled_document_count:,} documents taken evenly over all.")

    session.output.result(shape, render)


async def build(
    session: Session,
    knowledge_base: RequiredKnowledgeBase,
    documents: DocumentsOption = None,
    full: FullOption = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is published.")] = False,
) -> None:
    """Build the tree of a knowledge base, or those of its documents that are missing or made by other settings."""
    from corpusmesh.ingest.v1.run_service_pb2 import Run
    from corpusmesh_app.cli.tree_shapes import many

    run: Run | None = None
    async with session.client() as client:
        parent = (await client.resolve_knowledge_base(knowledge_base)).name
        names = [(await find_document(client, document, knowledge_base)).name for document in documents or ()]
        started = await client.trees.build(parent, documents=names, full=full)
        is_of_files = bool(started.run) and not started.HasField("tree")
        if wait and is_of_files:
            ended = await _follow_run(session, client, started.run, started.document_count)
            _print_run(session, ended, started.document_count)
            return
        tree = started.tree
        if wait and started.HasField("tree"):
            tree = await _follow_tree(session, client, tree.name)
            # From whom a part of the tree is hidden, its build is hidden too; the run that they started is not.
            run = await client.runs.wait(started.run)
            tree = await client.trees.get(tree.name)
    if started.HasField("tree"):
        _print_tree(session, tree, run=started.run, waited=wait)
        if run is not None and run.state != Run.STATE_SUCCEEDED:
            raise CommandFailedError(ExitStatus.FAILURE)
        return
    count = many(started.document_count, "tree")
    sentence = f"{count}: {started.run}" if started.run else "Every document has its tree."
    session.output.result(
        {"run": started.run or None, "document_count": started.document_count, "tree": None},
        lambda console: console.print(sentence),
    )


async def watch(session: Session, knowledge_base: RequiredKnowledgeBase) -> None:
    """Follow the build of a knowledge base's tree until it ends."""
    async with session.client() as client:
        tree = await _follow_tree(session, client, await _dataset(client, knowledge_base))
    _print_tree(session, tree, run=tree.run, waited=True)


async def cancel(session: Session, knowledge_base: RequiredKnowledgeBase) -> None:
    """Stop the build that is under way; the tree stays as it was published."""
    async with session.client() as client:
        tree = await client.trees.cancel(await _dataset(client, knowledge_base))
    _print_tree(session, tree, run=tree.run, waited=False)


async def show(
    session: Session,
    document: Annotated[
        str, typer.Argument(help="Document: its full name, or its identifier or file name with --kb.")
    ] = "",
    knowledge_base: OptionalKnowledgeBase = "",
    depth: Annotated[int, typer.Option(min=0, help="Layers to show from the top; 0 for all.")] = 0,
    layer: Annotated[int, typer.Option(min=0, help="Only this layer, from 1 above the chunks; 0 for all.")] = 0,
    limit: Annotated[int, typer.Option(min=1, help="Nodes to show, from the top down.")] = 500,
) -> None:
    """Show the tree of a document, or with --kb alone that of a knowledge base."""
    from corpusmesh_app.cli.tree_shapes import draw_tree, node_shape, tree_shape

    nodes: list[TreeNode] = []
    more = False
    async with session.client() as client:
        name = await _any_tree(client, document, knowledge_base)
        tree = await client.trees.get(name)
        lowest = max(1, len(tree.layer_node_counts) - depth + 1) if depth else 1
        async for entry in client.trees.nodes(name, layer=layer, page_size=min(limit, 500)):
            if entry.layer < lowest:
                break
            if len(nodes) == limit:
                more = True
                break
            nodes.append(entry)
    session.output.result(
        {"tree": tree_shape(tree), "nodes": [node_shape(entry) for entry in nodes], "truncated": more},
        draw_tree(tree, nodes, depth=depth, more=more),
    )


async def node(
    session: Session,
    name: Annotated[str, typer.Argument(help="Full name of a node, as `tree show --json` shows it.")],
) -> None:
    """Show a node with what is right beneath it, and the chunks that it stands for with their places."""
    from corpusmesh_app.cli.tree_shapes import leaf_shape, node_line, node_shape, place_line

    async with session.client() as client:
        found = await client.trees.node(name)

    def render(console: "Console") -> None:
        console.print(node_line(found.node), style="bold")
        console.print(plain(found.node.text))
        if found.children:
            console.print(f"\nNodes beneath: {len(found.children)}", style="bold")
        for child in found.children:
            console.print(f"  {node_line(child)}\n    {_clipped(child.text)}")
        console.print(f"\nChunks: {found.node.leaf_count}, shown: {len(found.leaves)}", style="bold")
        for leaf in found.leaves:
            console.print(f"  {place_line(leaf)}\n    {_clipped(leaf.text)}")

    session.output.result(
        {
            "node": node_shape(found.node),
            "children": [node_shape(child) for child in found.children],
            "leaves": [leaf_shape(leaf) for leaf in found.leaves],
        },
        render,
    )


async def delete(
    session: Session,
    knowledge_base: RequiredKnowledgeBase,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete the tree of a knowledge base: none of it is found from then on, and a run removes it."""
    async with session.client() as client:
        name = await _dataset(client, knowledge_base)
        if not yes and not session.output.as_json:
            typer.confirm(f"Delete {name}?", abort=True, err=True)
        run = await client.trees.delete(name)
    session.output.result(
        {"deleted": name, "run": run}, lambda console: console.print(f"Deleted {name}; {run} removes it.")
    )


async def _dataset(client: "CorpusMeshClient", knowledge_base: str) -> str:
    from corpusmesh_client.trees import dataset_tree_name

    return dataset_tree_name((await client.resolve_knowledge_base(knowledge_base)).name)


async def _any_tree(client: "CorpusMeshClient", document: str, knowledge_base: str) -> str:
    from corpusmesh_client.trees import document_tree_name

    if document:
        return document_tree_name((await find_document(client, document, knowledge_base)).name)
    if not knowledge_base:
        raise InvalidArgumentError("TREE_NOT_NAMED", "name a document, or a knowledge base with --kb")
    return await _dataset(client, knowledge_base)


async def _follow_tree(session: Session, client: "CorpusMeshClient", name: str) -> "Tree":
    from corpusmesh.raptor.v1.tree_service_pb2 import Tree
    from corpusmesh_app.cli.progress import LiveProgress

    found = Tree(name=name)
    with LiveProgress(session.output, 0) as progress:
        async for tree in client.trees.watch(name):
            found = tree
            if tree.HasField("progress") and tree.progress.layer:
                state = tree.progress
                progress.step(f"layer {state.layer}", state.made_node_count, state.layer_node_count)
    return found


async def _follow_run(session: Session, client: "CorpusMeshClient", name: str, document_count: int) -> "Run":
    from corpusmesh.ingest.v1.run_service_pb2 import Run
    from corpusmesh_app.cli.progress import LiveProgress

    found = Run(name=name)
    with LiveProgress(session.output, document_count) as progress:
        async for state in client.watch_run(name):
            found = state
            progress.update(state)
    return found


def _print_run(session: Session, run: "Run", document_count: int) -> None:
    from corpusmesh_app.cli.shapes import run_shape

    session.output.result(
        {"run": run.name, "document_count": document_count, "tree": None, "ended": run_shape(run)},
        render_run(session, run),
    )
    raise_for_outcome(run.succeeded_count, run.failed_count)


def _print_tree(session: Session, tree: "Tree", *, run: str, waited: bool) -> None:
    from corpusmesh_app.cli.tree_shapes import headline, render_cost, tree_shape

    def render(console: "Console") -> None:
        console.print(plain(f"{tree.name}: {headline(tree)}"))
        if run:
            console.print(plain(f"Run: {run}"), style="dim")
        costs = {"PLAN": tree.plan} if tree.HasField("plan") else {}
        if tree.HasField("bill"):
            costs["BILL"] = tree.bill
        if waited and costs:
            session.output.table(("", *costs), render_cost(costs), empty="")(console)

    session.output.result({"run": run or None, "document_count": None, "tree": tree_shape(tree)}, render)
    if waited and tree.error_reason:
        raise CommandFailedError(ExitStatus.FAILURE)


def _clipped(text: str) -> str:
    flat = " ".join(plain(text).split())
    return flat if len(flat) <= _SHOWN_CHARACTERS else flat[: _SHOWN_CHARACTERS - 1].rstrip() + "…"
