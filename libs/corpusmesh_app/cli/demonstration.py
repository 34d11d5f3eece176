"""What `corpusmesh demo` shows: the examples ingested, and questions answered with citations."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as pb
from corpusmesh_app.cli.answer_commands import print_citations, stream_answer
from corpusmesh_app.cli.ingestion import ingest_items
from corpusmesh_app.cli.mesh_files import RunningMesh
from corpusmesh_app.cli.output import plain
from corpusmesh_app.cli.session import Session
from corpusmesh_app.cli.sources import collect_files
from corpusmesh_app.cli.target import TargetOptions
from corpusmesh_client import CorpusMeshClient
from corpusmesh_core.errors import FailedPreconditionError, NotFoundError

if TYPE_CHECKING:
    from corpusmesh_app.cli.ingestion import IngestReport

KNOWLEDGE_BASE = "examples"
_DOCUMENTS = "documents"
_QUESTIONS = "questions.json"


@dataclass(frozen=True, slots=True)
class Examples:
    """The examples on disk.

    Attributes:
        documents: Folder of documents.
        questions: The questions.
    """

    documents: Path
    questions: tuple[str, ...]


def examples_folder(given: Path | None) -> Examples:
    """Find the examples.

    Args:
        given: Folder given; None for `examples` here or in the project's checkout.

    Returns:
        The examples.

    Raises:
        NotFoundError: If there are none.
        FailedPreconditionError: If the questions cannot be read.
    """
    checkout = Path(__file__).resolve().parents[3] / "examples"
    candidates = [given] if given is not None else [Path("examples"), checkout]
    folder = next((candidate for candidate in candidates if (candidate / _QUESTIONS).is_file()), None)
    if folder is None:
        raise NotFoundError(
            "EXAMPLES_NOT_FOUND", f"{candidates[-1]} holds no {_QUESTIONS}; name the folder with --examples"
        )
    return Examples(folder / _DOCUMENTS, _read_questions(folder / _QUESTIONS))


async def demonstrate(session: Session, mesh: RunningMesh, examples: Examples) -> dict[str, object]:
    """Ingest the examples where they are new, ask the questions and show the answers.

    Args:
        session: The command's session.
        mesh: The mesh.
        examples: The examples.

    Returns:
        What was done, in JSON.
    """
    started = time.monotonic()
    target = Session(session.output, TargetOptions(data=mesh.data)).target()
    async with CorpusMeshClient(target.endpoint, api_key=target.api_key) as client:
        name = await _ensure_knowledge_base(client)
        items = collect_files(examples.documents)
        report = await ingest_items(client, name, items, session.output, wait=True)
        _tell(session, report, time.monotonic() - started)
        answers = [await _ask(session, client, name, question) for question in examples.questions]
    return {"knowledge_base": name, "ingest": report.shape(), "answers": answers}


async def _ensure_knowledge_base(client: CorpusMeshClient) -> str:
    try:
        return (await client.resolve_knowledge_base(KNOWLEDGE_BASE)).name
    except NotFoundError:
        wanted = pb.KnowledgeBase(
            display_name=KNOWLEDGE_BASE, description="Guides of CorpusMesh itself", permission=pb.PERMISSION_TEAM
        )
        return (await client.knowledge_bases.create(wanted, knowledge_base_id=KNOWLEDGE_BASE)).name


async def _ask(session: Session, client: CorpusMeshClient, knowledge_base: str, question: str) -> dict[str, object]:
    output = session.output
    if output.as_json:
        return (await stream_answer(client, [knowledge_base], question))[0]
    output.console.print()
    output.console.print(plain(f"Question: {question}"), style="bold")
    shape, summary = await stream_answer(
        client, [knowledge_base], question, live=lambda text: output.console.print(plain(text), end="")
    )
    print_citations(output.console, summary)
    return shape


def _tell(session: Session, report: "IngestReport", duration_seconds: float) -> None:
    counts: dict[str, int] = {}
    for document in report.documents:
        state = report.state_of(document)
        counts[state] = counts.get(state, 0) + 1
        error = report.error_of(document)
        if error is not None:
            session.output.message(f"{document.display_name}: {error.message}")
    text = ", ".join(f"{count} {state}" for state, count in counts.items())
    session.output.message(f"{len(report.documents)} documents in {duration_seconds:.1f} s: {text}")


def _read_questions(path: Path) -> tuple[str, ...]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        entries = value["questions"] if isinstance(value, dict) else value
        return tuple(str(entry["question"]) if isinstance(entry, dict) else str(entry) for entry in entries)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FailedPreconditionError(
            "EXAMPLES_UNREADABLE", f"{path} must hold a list of questions", path=path
        ) from error
