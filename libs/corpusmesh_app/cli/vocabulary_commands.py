"""`corpusmesh vocabulary …`."""

from typing import TYPE_CHECKING, Annotated

import typer

from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.session import Session

if TYPE_CHECKING:
    from corpusmesh.retrieve.v1.vocabulary_service_pb2 import Vocabulary

AddOption = Annotated[bool, typer.Option("--add", help="Add to what is there, instead of replacing it.")]


def register(app: typer.Typer) -> None:
    """Add the commands.

    Args:
        app: The application.
    """
    group = typer.Typer(help="Words of your own: terms and synonyms for every search.", no_args_is_help=True)
    app.add_typer(group, name="vocabulary")
    command(group, "show")(show)
    command(group, "set")(set_words)
    command(group, "import")(import_file)


async def show(session: Session) -> None:
    """Show the vocabulary."""
    async with session.client() as client:
        vocabulary = await client.vocabulary.get()
    _print(session, vocabulary)


async def set_words(
    session: Session,
    term: Annotated[list[str] | None, typer.Option("--term", help="Term that is searched as a phrase.")] = None,
    synonyms: Annotated[
        list[str] | None, typer.Option("--synonyms", help='Words that mean the same: "laptop, notebook computer".')
    ] = None,
    add: AddOption = False,
) -> None:
    """Set terms, synonyms, or both; what is not named stays as it is. Needs the role editor."""
    from corpusmesh_app.cli.vocabulary_files import split_group
    from corpusmesh_core.errors import InvalidArgumentError

    if term is None and synonyms is None:
        raise InvalidArgumentError("ARGUMENTS_MISSING", "give at least one --term or --synonyms")
    groups = None if synonyms is None else [split_group(line) for line in synonyms]
    await _update(session, term, groups, add=add)


async def import_file(
    session: Session,
    file: Annotated[
        str,
        typer.Argument(
            help="File: JSON with terms and synonyms, or text with one entry a line, where commas make it a group of "
            "synonyms; - for standard input."
        ),
    ],
    add: AddOption = False,
) -> None:
    """Set the whole vocabulary from a file. Needs the role editor."""
    from corpusmesh_app.cli.vocabulary_files import read_vocabulary_file

    terms, groups = read_vocabulary_file(file)
    await _update(session, terms, groups, add=add)


async def _update(
    session: Session, terms: list[str] | None, groups: list[tuple[str, ...]] | None, *, add: bool
) -> None:
    async with session.client() as client:
        etag = ""
        if add:
            known = await client.vocabulary.get()
            etag = known.etag
            terms = [*known.terms, *(terms or ())]
            groups = [*(tuple(group.words) for group in known.synonyms), *(groups or ())]
        vocabulary = await client.vocabulary.update(terms=terms, synonyms=groups, etag=etag)
    _print(session, vocabulary)


def _print(session: Session, vocabulary: "Vocabulary") -> None:
    groups = [list(group.words) for group in vocabulary.synonyms]
    shape = {"terms": list(vocabulary.terms), "synonyms": groups, "etag": vocabulary.etag}
    rows = [("term", term) for term in vocabulary.terms] + [("synonyms", ", ".join(group)) for group in groups]
    session.output.result(shape, session.output.table(["KIND", "WORDS"], rows, empty="No word of your own yet."))
