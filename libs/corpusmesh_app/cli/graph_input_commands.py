"""`corpusmesh graph correct …`, `graph triples …` and `graph verify`."""

from typing import TYPE_CHECKING, Annotated

import typer

from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.document_commands import find_document
from corpusmesh_app.cli.failures import CommandFailedError, ExitStatus
from corpusmesh_app.cli.output import plain
from corpusmesh_app.cli.session import Session

if TYPE_CHECKING:
    from rich.console import Console

    from corpusmesh.graph.v1.graph_input_service_pb2 import Correction
    from corpusmesh_client import CorpusMeshClient

RequiredKnowledgeBase = Annotated[str, typer.Option("--kb", "--knowledge-base", help="Knowledge base.")]
EntityArgument = Annotated[str, typer.Argument(help="Entity as it is written, or its full name.")]
OtherArgument = Annotated[str, typer.Argument(help="The other entity.")]
DescriptionOption = Annotated[
    str | None, typer.Option("--description", help="What is said of it, for everybody who may see it.")
]
DocumentArgument = Annotated[str, typer.Argument(help="Document: its full name, or its identifier or file name.")]


def register(group: typer.Typer) -> None:
    """Add the commands.

    Args:
        group: The group of graphs.
    """
    correct = typer.Typer(help="Corrections by hand, which outlive builds. Need the role editor.", no_args_is_help=True)
    group.add_typer(correct, name="correct")
    command(correct, "list")(list_corrections)
    command(correct, "undo")(undo)
    command(correct, "merge")(merge)
    command(correct, "split")(split)
    command(correct, "keep-apart")(keep_apart)
    command(correct, "rename")(rename)
    command(correct, "edit")(edit)
    command(correct, "delete")(delete)
    command(correct, "edit-relation")(edit_relation)
    command(correct, "delete-relation")(delete_relation)
    triples = typer.Typer(help="Facts that you give for a document.", no_args_is_help=True)
    group.add_typer(triples, name="triples")
    command(triples, "put")(put_triples)
    command(triples, "get")(get_triples)
    command(triples, "delete")(delete_triples)
    command(group, "verify")(verify)


async def list_corrections(session: Session, knowledge_base: RequiredKnowledgeBase) -> None:
    """List corrections, in the order in which they are applied."""
    from corpusmesh_app.cli.graph_shapes import correction_shape

    async with session.client() as client:
        name = await _named(client, knowledge_base)
        found = [one async for one in client.graphs.corrections(name)]
    shapes = [correction_shape(one) for one in found]
    rows = [
        (str(shape["name"]).rsplit("/", 1)[1], shape["change"], _told(shape), shape["user"], shape["create_time"])
        for shape in shapes
    ]
    session.output.result(
        {"corrections": shapes},
        session.output.table(("CORRECTION", "CHANGE", "WHAT", "BY", "WHEN"), rows, empty="Nothing was corrected."),
    )


async def undo(
    session: Session,
    knowledge_base: RequiredKnowledgeBase,
    correction: Annotated[str, typer.Argument(help="Correction: its identifier or its full name.")],
) -> None:
    """Take a correction back; a build follows."""
    async with session.client() as client:
        graph = await _named(client, knowledge_base)
        name = correction if correction.startswith(f"{graph}/") else f"{graph}/corrections/{correction}"
        run = await client.graphs.delete_correction(name)
    session.output.result(
        {"deleted": name, "run": run or None}, lambda console: console.print(plain(f"Taken back; {_follows(run)}"))
    )


async def merge(
    session: Session,
    knowledge_base: RequiredKnowledgeBase,
    entities: Annotated[list[str], typer.Argument(help="Entities that are names of the other one.")],
    into: Annotated[str, typer.Option("--into", help="The entity that they belong to.")],
) -> None:
    """Say that several entities are one."""
    from corpusmesh.graph.v1 import graph_input_service_pb2 as pb

    await _correct(session, knowledge_base, pb.Correction(merge=pb.MergeEntities(entities=entities, into=into)))


async def split(
    session: Session,
    knowledge_base: RequiredKnowledgeBase,
    entity: EntityArgument,
    new_title: Annotated[str, typer.Option("--as", help='Name of the other entity: "John Smith (engineer)".')],
    documents: Annotated[list[str], typer.Option("--document", help="Document that speaks of the other one.")],
) -> None:
    """Say that what some documents say of an entity is said of another one."""
    from corpusmesh.graph.v1 import graph_input_service_pb2 as pb

    async with session.client() as client:
        names = [(await find_document(client, document, knowledge_base)).name for document in documents]
        change = pb.SplitEntity(entity=entity, documents=names, new_title=new_title)
        await _send(session, client, knowledge_base, pb.Correction(split=change))


async def keep_apart(
    session: Session, knowledge_base: RequiredKnowledgeBase, entity: EntityArgument, other: OtherArgument
) -> None:
    """Say that two names are never one entity."""
    from corpusmesh.graph.v1 import graph_input_service_pb2 as pb

    change = pb.KeepApart(entity=entity, other_entity=other)
    await _correct(session, knowledge_base, pb.Correction(keep_apart=change))


async def rename(
    session: Session,
    knowledge_base: RequiredKnowledgeBase,
    entity: EntityArgument,
    new_title: Annotated[str, typer.Argument(help="The name shown.")],
) -> None:
    """Show an entity under another name."""
    from corpusmesh.graph.v1 import graph_input_service_pb2 as pb

    change = pb.RenameEntity(entity=entity, new_title=new_title)
    await _correct(session, knowledge_base, pb.Correction(rename=change))


async def edit(
    session: Session,
    knowledge_base: RequiredKnowledgeBase,
    entity: EntityArgument,
    kind: Annotated[str | None, typer.Option("--type", help="Its type, such as person.")] = None,
    description: DescriptionOption = None,
) -> None:
    """Give an entity another type or description."""
    from corpusmesh.graph.v1 import graph_input_service_pb2 as pb

    change = pb.EditEntity(entity=entity, type=kind, description=description)
    await _correct(session, knowledge_base, pb.Correction(edit_entity=change))


async def delete(session: Session, knowledge_base: RequiredKnowledgeBase, entity: EntityArgument) -> None:
    """Say that what is named so is no entity."""
    from corpusmesh.graph.v1 import graph_input_service_pb2 as pb

    await _correct(session, knowledge_base, pb.Correction(delete_entity=pb.DeleteEntity(entity=entity)))


async def edit_relation(
    session: Session,
    knowledge_base: RequiredKnowledgeBase,
    entity: EntityArgument,
    other: OtherArgument,
    predicate: Annotated[str | None, typer.Option("--predicate", help="How they are related.")] = None,
    description: DescriptionOption = None,
    keywords: Annotated[list[str] | None, typer.Option("--keyword", help="What the relation is about.")] = None,
) -> None:
    """Describe a relation otherwise."""
    from corpusmesh.graph.v1 import graph_input_service_pb2 as pb

    change = pb.EditRelation(
        entity=entity, other_entity=other, predicate=predicate, description=description, keywords=keywords or ()
    )
    await _correct(session, knowledge_base, pb.Correction(edit_relation=change))


async def delete_relation(
    session: Session, knowledge_base: RequiredKnowledgeBase, entity: EntityArgument, other: OtherArgument
) -> None:
    """Say that two entities are not related."""
    from corpusmesh.graph.v1 import graph_input_service_pb2 as pb

    change = pb.DeleteRelation(entity=entity, other_entity=other)
    await _correct(session, knowledge_base, pb.Correction(delete_relation=change))


async def put_triples(
    session: Session,
    knowledge_base: RequiredKnowledgeBase,
    document: DocumentArgument,
    file: Annotated[
        str,
        typer.Argument(
            help="File: a JSON list, or an entry a line; an entry is an object with subject, predicate and object, or "
            "a list of the three; - for standard input."
        ),
    ],
) -> None:
    """Replace the facts of a document; a build follows. Needs the role editor."""
    from corpusmesh_app.cli.graph_files import read_triples
    from corpusmesh_client.graph_inputs import triples_name

    triples = read_triples(file)
    async with session.client() as client:
        name = triples_name((await find_document(client, document, knowledge_base)).name)
        stored = await client.graphs.put_triples(name, triples)
    session.output.result(
        {"name": name, "triple_count": stored.triple_count, "run": stored.run or None},
        lambda console: console.print(plain(f"Stored {stored.triple_count:,} facts; {_follows(stored.run)}")),
    )


async def get_triples(session: Session, knowledge_base: RequiredKnowledgeBase, document: DocumentArgument) -> None:
    """Show the facts of a document."""
    from corpusmesh_app.cli.graph_shapes import triple_shape
    from corpusmesh_app.cli.shapes import time_of
    from corpusmesh_client.graph_inputs import triples_name

    async with session.client() as client:
        name = triples_name((await find_document(client, document, knowledge_base)).name)
        found = await client.graphs.triples(name)
    rows = [(one.subject, one.predicate, one.object, one.passage) for one in found.triples]
    session.output.result(
        {
            "name": name,
            "triples": [triple_shape(one) for one in found.triples],
            "update_time": time_of(found, "update_time"),
        },
        session.output.table(("SUBJECT", "PREDICATE", "OBJECT", "PASSAGE"), rows, empty="No fact was given for it."),
    )


async def delete_triples(session: Session, knowledge_base: RequiredKnowledgeBase, document: DocumentArgument) -> None:
    """Take the facts of a document back; a build follows. Needs the role editor."""
    from corpusmesh_client.graph_inputs import triples_name

    async with session.client() as client:
        name = triples_name((await find_document(client, document, knowledge_base)).name)
        run = await client.graphs.delete_triples(name)
    session.output.result(
        {"deleted": name, "run": run or None}, lambda console: console.print(plain(f"Taken back; {_follows(run)}"))
    )


async def verify(
    session: Session,
    knowledge_base: RequiredKnowledgeBase,
    document: Annotated[str, typer.Argument(help="Document, deleted or not: its identifier or its full name.")],
) -> None:
    """Count what is left of a document in a graph; status 1 if anything is. Needs the role editor."""
    async with session.client() as client:
        base = (await client.resolve_knowledge_base(knowledge_base)).name
        name = document if document.startswith(f"{base}/documents/") else f"{base}/documents/{document}"
        found = await client.graphs.verify_erasure(await _named(client, knowledge_base), name)
    counts = {
        "record_count": found.record_count,
        "subgraph_count": found.subgraph_count,
        "triple_count": found.triple_count,
        "other_record_count": found.other_record_count,
    }

    def render(console: "Console") -> None:
        left = ", ".join(f"{key.removesuffix('_count').replace('_', ' ')}s {count:,}" for key, count in counts.items())
        console.print(plain(f"{name}: {'nothing is left' if found.erased else left}"))

    session.output.result({"document": name, **counts, "erased": found.erased}, render)
    if not found.erased:
        raise CommandFailedError(ExitStatus.FAILURE)


async def _correct(session: Session, knowledge_base: str, correction: "Correction") -> None:
    async with session.client() as client:
        await _send(session, client, knowledge_base, correction)


async def _send(session: Session, client: "CorpusMeshClient", knowledge_base: str, correction: "Correction") -> None:
    from corpusmesh_app.cli.graph_shapes import correction_shape

    made = await client.graphs.correct(await _named(client, knowledge_base), correction)
    identifier = made.correction.name.rsplit("/", 1)[1]
    session.output.result(
        {"correction": correction_shape(made.correction), "run": made.run or None},
        lambda console: console.print(plain(f"Corrected ({identifier}); {_follows(made.run)}")),
    )


async def _named(client: "CorpusMeshClient", knowledge_base: str) -> str:
    from corpusmesh_client.graphs import graph_name

    return graph_name((await client.resolve_knowledge_base(knowledge_base)).name)


def _follows(run: str) -> str:
    return f"it holds when {run} has ended." if run else "it holds after the next build."


def _told(shape: dict[str, object]) -> str:
    change = shape.get(str(shape["change"]))
    if not isinstance(change, dict):
        return ""
    return ", ".join(f"{name} {_short(value)}" for name, value in change.items())


def _short(value: object) -> str:
    texts = value if isinstance(value, list) else [value]
    return " ".join(str(text).rsplit("/", 1)[-1] for text in texts)
