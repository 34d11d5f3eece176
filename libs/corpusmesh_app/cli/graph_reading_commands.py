"""`corpusmesh graph entities|entity|relations|export|communities|report|resolved`."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.output import plain
from corpusmesh_app.cli.session import Session

if TYPE_CHECKING:
    from rich.console import Console

    from corpusmesh.graph.v1.graph_service_pb2 import GraphPassage
    from corpusmesh_client import CorpusMeshClient

RequiredKnowledgeBase = Annotated[str, typer.Option("--kb", "--knowledge-base", help="Knowledge base.")]
LimitOption = Annotated[int, typer.Option(min=1, help="How many to show.")]
_SHOWN_CHARACTERS = 300
_SHOWN_PASSAGES = 5
_Entry = TypeVar("_Entry")


def register(group: typer.Typer) -> None:
    """Add the commands.

    Args:
        group: The group of graphs.
    """
    command(group, "entities")(entities)
    command(group, "entity")(entity)
    command(group, "relations")(relations)
    command(group, "export")(export)
    command(group, "communities")(communities)
    command(group, "report")(report)
    command(group, "resolved")(resolved)


async def entities(
    session: Session,
    knowledge_base: RequiredKnowledgeBase,
    query: Annotated[str, typer.Argument(help="Words of a name; none for all, the highest rank first.")] = "",
    types: Annotated[list[str] | None, typer.Option("--type", help="Only of this type, such as person.")] = None,
    limit: LimitOption = 50,
) -> None:
    """List entities."""
    from corpusmesh_app.cli.graph_shapes import entity_shape

    async with session.client() as client:
        name = await _named(client, knowledge_base)
        found, more = await _first(
            client.graphs.entities(name, query=query, types=types or (), page_size=min(limit, 500)), limit
        )
    rows = [
        (one.title, one.type, one.degree, one.document_count, f"{one.rank:.5f}", ", ".join(one.aliases))
        for one in found
    ]
    session.output.result(
        {"entities": [entity_shape(one) for one in found], "truncated": more},
        session.output.table(
            ("ENTITY", "TYPE", "RELATIONS", "DOCUMENTS", "RANK", "ALSO"), rows, empty="No entity that you may see."
        ),
    )


async def entity(
    session: Session,
    knowledge_base: RequiredKnowledgeBase,
    entity: Annotated[str, typer.Argument(help="Entity as it is written, or its full name.")],
) -> None:
    """Show what documents say of an entity, and where."""
    from corpusmesh_app.cli.graph_shapes import entity_line, entity_shape, passage_shape

    async with session.client() as client:
        found = await client.graphs.entity(await _named(client, knowledge_base), entity)

    def render(console: "Console") -> None:
        console.print(entity_line(found.entity), style="bold")
        console.print(plain(found.entity.description))
        _print_passages(console, list(found.passages))

    session.output.result(
        {
            "entity": entity_shape(found.entity),
            "documents": list(found.documents),
            "passages": [passage_shape(one) for one in found.passages],
        },
        render,
    )


async def relations(
    session: Session,
    knowledge_base: RequiredKnowledgeBase,
    entity: Annotated[str, typer.Argument(help="Only those of this entity.")] = "",
    other_entity: Annotated[str, typer.Argument(help="Only that with this one.")] = "",
    limit: LimitOption = 50,
) -> None:
    """List relations, the strongest first."""
    from corpusmesh_app.cli.graph_shapes import relation_line, relation_shape

    async with session.client() as client:
        name = await _named(client, knowledge_base)
        listed = client.graphs.relations(name, entity=entity, other_entity=other_entity, page_size=min(limit, 500))
        found, more = await _first(listed, limit)

    def render(console: "Console") -> None:
        for one in found:
            console.print(relation_line(one), style="bold")
            if one.description:
                console.print(f"    {_clipped(one.description)}")
        if not found:
            console.print("No relation that you may see.")

    session.output.result({"relations": [relation_shape(one) for one in found], "truncated": more}, render)


async def export(
    session: Session,
    knowledge_base: RequiredKnowledgeBase,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write; replaced if it is there.")],
    format_name: Annotated[
        str, typer.Option("--format", help="graphml or json (node-link, as networkx reads it).")
    ] = "",
    without_descriptions: Annotated[
        bool, typer.Option("--without-descriptions", help="Names, types, ranks and weights alone; much faster.")
    ] = False,
) -> None:
    """Write all of a graph that you may see to a file for other programs."""
    from corpusmesh_app.cli.graph_files import format_of, write_graph

    chosen = format_of(format_name, output)
    async with session.client() as client:
        name = await _named(client, knowledge_base)
        written = await write_graph(
            client.graphs.export(name, without_descriptions=without_descriptions), output, chosen
        )
    counts = f"{written.entity_count:,} entities and {written.relation_count:,} relations"
    session.output.result(
        {
            "file": str(output),
            "format": chosen,
            "entity_count": written.entity_count,
            "relation_count": written.relation_count,
            "snapshot": written.snapshot or None,
        },
        lambda console: console.print(plain(f"Wrote {counts} to {output}.")),
    )


async def communities(
    session: Session,
    knowledge_base: RequiredKnowledgeBase,
    level: Annotated[int | None, typer.Option(min=0, help="Only of this level, 0 for the coarsest.")] = None,
    limit: LimitOption = 50,
) -> None:
    """List communities of entities, the weightiest of each level first."""
    from corpusmesh_app.cli.graph_shapes import community_shape

    async with session.client() as client:
        name = await _named(client, knowledge_base)
        found, more = await _first(client.graphs.communities(name, level=level, page_size=min(limit, 500)), limit)
    rows = [(one.name.rsplit("/", 1)[1], one.level, one.title, one.entity_count, f"{one.weight:.2f}") for one in found]
    session.output.result(
        {"communities": [community_shape(one) for one in found], "truncated": more},
        session.output.table(
            ("COMMUNITY", "LEVEL", "TITLE", "ENTITIES", "WEIGHT"), rows, empty="No report that you may see."
        ),
    )


async def report(
    session: Session,
    knowledge_base: RequiredKnowledgeBase,
    community: Annotated[str, typer.Argument(help="Community: its identifier or its full name.")],
) -> None:
    """Show the report of a community, its entities, and what it stands on."""
    from corpusmesh_app.cli.graph_shapes import community_shape, entity_shape, passage_shape

    async with session.client() as client:
        name = await _named(client, knowledge_base)
        whole = community if community.startswith(f"{name}/") else f"{name}/communities/{community}"
        found = await client.graphs.community(whole)

    def render(console: "Console") -> None:
        console.print(plain(found.community.title), style="bold")
        console.print(plain(found.community.report))
        titles = ", ".join(one.title for one in found.entities)
        console.print(plain(f"\nEntities ({found.community.entity_count:,}): {titles}"), style="dim")
        _print_passages(console, list(found.passages))

    session.output.result(
        {
            "community": community_shape(found.community),
            "entities": [entity_shape(one) for one in found.entities],
            "passages": [passage_shape(one) for one in found.passages],
        },
        render,
    )


async def resolved(
    session: Session,
    knowledge_base: RequiredKnowledgeBase,
    entity: Annotated[str, typer.Argument(help="Only names of this entity.")] = "",
    limit: LimitOption = 50,
) -> None:
    """List names that were held to be one entity, and why."""
    from corpusmesh_app.cli.graph_shapes import pair_shape

    async with session.client() as client:
        name = await _named(client, knowledge_base)
        found, more = await _first(client.graphs.resolved_pairs(name, entity=entity, page_size=min(limit, 500)), limit)
    rows = [(one.title, one.other_title, one.reason, f"{one.score:.2f}", one.method) for one in found]
    session.output.result(
        {"pairs": [pair_shape(one) for one in found], "truncated": more},
        session.output.table(
            ("NAME", "OTHER NAME", "REASON", "SCORE", "BY"), rows, empty="No two names were held to be one."
        ),
    )


async def _named(client: "CorpusMeshClient", knowledge_base: str) -> str:
    from corpusmesh_client.graphs import graph_name

    return graph_name((await client.resolve_knowledge_base(knowledge_base)).name)


async def _first(entries: AsyncIterator[_Entry], limit: int) -> tuple[list[_Entry], bool]:
    """Take the first entries of a list, and tell whether there are more."""
    found: list[_Entry] = []
    async for entry in entries:
        if len(found) == limit:
            return found, True
        found.append(entry)
    return found, False


def _print_passages(console: "Console", passages: "list[GraphPassage]") -> None:
    from corpusmesh_app.cli.graph_shapes import place_line

    if not passages:
        return
    console.print(f"\nPassages: {len(passages)}", style="bold")
    for passage in passages[:_SHOWN_PASSAGES]:
        console.print(f"  {place_line(passage)}\n    {_clipped(passage.text)}")
    if len(passages) > _SHOWN_PASSAGES:
        console.print(f"  and {len(passages) - _SHOWN_PASSAGES} more; --json shows all", style="dim")


def _clipped(text: str) -> str:
    flat = " ".join(plain(text).split())
    return flat if len(flat) <= _SHOWN_CHARACTERS else flat[: _SHOWN_CHARACTERS - 1].rstrip() + "…"
