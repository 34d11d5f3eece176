"""`corpusmesh ingest`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.run_commands import raise_for_outcome
from corpusmesh_app.cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from corpusmesh_app.cli.ingestion import IngestReport
    from corpusmesh_client import UploadItem

_SHOWN_FAILURES = 50


def register(app: typer.Typer) -> None:
    """Add the command.

    Args:
        app: The application.
    """
    command(app, "ingest")(ingest)


async def ingest(
    session: Session,
    sources: Annotated[list[str], typer.Argument(help="Files, folders (with all below them) or http(s) URLs.")],
    knowledge_base: Annotated[str, typer.Option("--kb", help="Knowledge base that takes the documents.")],
    duplicates: Annotated[
        str, typer.Option(help="Content or names that are there: unchanged, skip, new-version or keep-both.")
    ] = "unchanged",
    password_file: Annotated[
        Path | None, typer.Option("--password-file", help="File whose first line opens encrypted documents.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until they are searchable.")] = False,
) -> None:
    """Upload documents and make them searchable. A document that fails does not stop the others.

    The same name again is a new version of the same document; unchanged content is recognised and left alone. With
    --duplicates skip, content that any other document has is left alone too; new-version makes a version all the same;
    keep-both makes a second document of a name that is taken.
    """
    import dataclasses
    import tempfile

    from corpusmesh_app.cli.ingestion import duplicates_of, ingest_items
    from corpusmesh_app.cli.secrets import read_password
    from corpusmesh_app.cli.sources import collect_files, is_url
    from corpusmesh_client import UploadedItem, UploadItem
    from corpusmesh_core.errors import CorpusMeshError

    policy = duplicates_of(duplicates)
    password = read_password(password_file)
    items: list[UploadItem] = []
    unread: list[UploadedItem] = []
    with tempfile.TemporaryDirectory(prefix="corpusmesh-ingest-") as scratch:
        async with session.client() as client:
            entry = await client.resolve_knowledge_base(knowledge_base)
            for source in sources:
                try:
                    if is_url(source):
                        items.append(await _fetched(source, Path(scratch), len(items)))
                    else:
                        items.extend(collect_files(Path(source)))
                except CorpusMeshError as error:
                    if len(sources) == 1:
                        raise
                    unread.append(UploadedItem(source, "", error=error))
            if password:
                items = [dataclasses.replace(item, password=password) for item in items]
            report = await ingest_items(client, entry.name, items, session.output, wait=wait, duplicates=policy)
    report.documents.extend(unread)
    session.output.result({"knowledge_base": entry.name, **report.shape()}, _renderer(session, report))
    raise_for_outcome(len(report.documents) - report.failed_count, report.failed_count)


async def _fetched(url: str, scratch: "Path", position: int) -> "UploadItem":
    from corpusmesh_app.fetching import fetch
    from corpusmesh_client import UploadItem

    folder = scratch / str(position)
    folder.mkdir()
    fetched = await fetch(url, folder)
    return UploadItem(display_name=fetched.display_name, content=fetched.path, source_uri=url)


def _renderer(session: Session, report: "IngestReport") -> "Callable[[Console], None]":
    def render(console: "Console") -> None:
        failed = []
        counts: dict[str, int] = {}
        for document in report.documents:
            state = report.state_of(document)
            counts[state] = counts.get(state, 0) + 1
            error = report.error_of(document)
            if error is not None:
                failed.append((document.display_name, error.reason, error.message))
        summary = ", ".join(f"{count} {state}" for state, count in counts.items())
        noun = "document" if len(report.documents) == 1 else "documents"
        console.print(f"{len(report.documents)} {noun}: {summary}")
        if failed:
            session.output.table(("FAILED", "REASON", "WHY"), failed[:_SHOWN_FAILURES], empty="")(console)
            if len(failed) > _SHOWN_FAILURES:
                console.print(f"… and {len(failed) - _SHOWN_FAILURES} more; --json shows all")
        if not report.waited:
            for name in report.runs:
                console.print(f"Follow it with: corpusmesh runs watch {name}")

    return render
