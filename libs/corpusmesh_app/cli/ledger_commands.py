"""`corpusmesh ledger …`: searches of yours that were recorded."""

from typing import TYPE_CHECKING, Annotated

import typer

from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.explanations import plan_text
from corpusmesh_app.cli.output import plain
from corpusmesh_app.cli.session import Session

if TYPE_CHECKING:
    from rich.console import Console

    from corpusmesh.retrieve.v1 import ledger_service_pb2 as pb

RetrievalArgument = Annotated[str, typer.Argument(help="Retrieval: its identifier or its full name.")]
_COLUMNS = ("RETRIEVAL", "TIME", "KIND", "KNOWLEDGE BASES", "QUERY")


def register(app: typer.Typer) -> None:
    """Add the commands.

    Args:
        app: The application.
    """
    group = typer.Typer(help="Your recorded searches, of knowledge bases that keep a ledger.", no_args_is_help=True)
    app.add_typer(group, name="ledger")
    command(group, "list")(list_all)
    command(group, "show")(show)
    command(group, "replay")(replay)
    command(group, "delete")(delete)


async def list_all(
    session: Session, limit: Annotated[int, typer.Option(min=1, help="Retrievals to show.")] = 50
) -> None:
    """List your recorded searches, newest first."""
    from corpusmesh_app.cli.evaluation_shapes import message_shape
    from corpusmesh_app.cli.shapes import time_of
    from corpusmesh_client.names import identifier_of

    found: list[pb.Retrieval] = []
    async with session.client() as client:
        async for entry in client.ledger.list(page_size=min(limit, 200)):
            if len(found) == limit:
                break
            found.append(entry)
    rows = [
        (
            identifier_of(entry.name),
            time_of(entry, "create_time"),
            "answer" if entry.kind == entry.KIND_ANSWER else "search",
            ", ".join(identifier_of(name) for name in entry.knowledge_bases),
            entry.query,
        )
        for entry in found
    ]
    session.output.result(
        {"retrievals": [message_shape(entry) for entry in found]},
        session.output.table(_COLUMNS, rows, empty="Nothing was recorded."),
    )


async def show(session: Session, retrieval: RetrievalArgument) -> None:
    """Show one recorded search with its hits."""
    from corpusmesh_app.cli.evaluation_shapes import message_shape
    from corpusmesh_app.cli.shapes import time_of

    async with session.client() as client:
        found = await client.ledger.get(_name(retrieval))
    rows = [(hit.rank, hit.record_id, hit.document, f"{hit.scores.similarity:.4f}") for hit in found.hits]
    table = session.output.table(("RANK", "RECORD", "DOCUMENT", "SIMILARITY"), rows, empty="No hit that you may see.")

    def render(console: "Console") -> None:
        console.print(plain(found.query), style="bold")
        if found.standalone_query:
            console.print(plain(f"Searched for: {found.standalone_query}"))
        console.print(plain(f"Searched: {', '.join(found.snapshots) or 'nothing published'}"))
        console.print(plain(f"Plan: {plan_text(found.effective_plan)}"))
        console.print(f"Recorded {time_of(found, 'create_time')}, kept until {time_of(found, 'expire_time')}")
        table(console)
        if found.hidden_hit_count:
            console.print(f"{found.hidden_hit_count} hits are gone, or not for you to see.", style="dim")

    session.output.result({"retrieval": message_shape(found)}, render)


async def replay(
    session: Session,
    retrieval: RetrievalArgument,
    current: Annotated[
        bool, typer.Option("--current", help="Search what is published now instead of what was then.")
    ] = False,
) -> None:
    """Run a recorded search again and show what differs."""
    from corpusmesh_app.cli.evaluation_shapes import message_shape
    from corpusmesh_client.names import identifier_of

    async with session.client() as client:
        found = await client.ledger.replay(_name(retrieval), against_current=current)
    kinds = {
        entry.number: entry.name.removeprefix("KIND_").lower() for entry in found.Difference.Kind.DESCRIPTOR.values
    }
    rows = [
        (
            kinds[entry.kind],
            entry.record_id or "(hidden)",
            identifier_of(entry.document) if entry.document else "",
            entry.rank_before or "-",
            entry.rank_now or "-",
            f"{entry.similarity_now - entry.similarity_before:+.4f}",
            entry.why,
        )
        for entry in found.differences
    ]
    other = [
        label
        for label, differs in (
            ("snapshot", found.snapshots_differ),
            ("plan today", found.plan_differs),
            ("embedding model", found.model_differs),
        )
        if differs
    ]
    columns = ("", "RECORD", "DOCUMENT", "RANK THEN", "RANK NOW", "SIMILARITY", "WHY")
    table = session.output.table(columns, rows, empty="The same hits in the same order.")

    def render(console: "Console") -> None:
        if other:
            console.print(f"Differs from then: {', '.join(other)}")
        table(console)

    session.output.result({"replay": message_shape(found)}, render)


async def delete(session: Session, retrieval: RetrievalArgument) -> None:
    """Delete a recorded search."""
    name = _name(retrieval)
    async with session.client() as client:
        await client.ledger.delete(name)
    session.output.result({"deleted": name}, lambda console: console.print(f"Deleted {name}."))


def _name(retrieval: str) -> str:
    from corpusmesh_client.names import resource_name

    return resource_name("retrievals", retrieval)
