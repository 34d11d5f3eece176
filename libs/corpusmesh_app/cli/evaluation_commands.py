"""`corpusmesh eval`."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.run_commands import raise_for_outcome
from corpusmesh_app.cli.session import Session
from corpusmesh_core.errors import NotFoundError

if TYPE_CHECKING:
    from rich.console import Console

    from corpusmesh.retrieve.v1.retrieval_service_pb2 import RetrievalPlan
    from corpusmesh_client import CorpusMeshClient

_FOLDER = "folder"
_DEFAULT = "balanced"
_NAMED = re.compile(r"([^={}]+)=(.*)", re.DOTALL)
_LEGS = ("hybrid", "lexical", "vector")


class _FolderGroup(TyperGroup):
    """A group whose command `folder` need not be named: `eval FOLDER` is `eval folder FOLDER`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [_FOLDER, *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> typer.Typer:
    """Add the command.

    Args:
        app: The application.

    Returns:
        The group, for commands on golden sets.
    """
    group = typer.Typer(
        cls=_FolderGroup,
        help="Measure retrieval and answers: of an evaluation set (eval FOLDER), or of a knowledge base's golden sets.",
        no_args_is_help=True,
    )
    app.add_typer(group, name="eval")
    command(group, _FOLDER)(evaluate)
    return group


async def evaluate(
    session: Session,
    folder: Annotated[Path, typer.Argument(help="Folder with corpus.jsonl and queries.jsonl.")],
    knowledge_base: Annotated[str, typer.Option("--kb", help="Knowledge base; made where there is none.")],
    plan: Annotated[
        list[str] | None,
        typer.Option(
            help="A preset, a mode, a fusion, or a JSON object, after NAME= if it is to have one; repeatable. "
            "Default: balanced."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Questions to ask; 0 for all.")] = 0,
    question_field: Annotated[str, typer.Option(help="Field that holds the question.")] = "question",
    compare_legs: Annotated[
        bool, typer.Option("--compare-legs", help="Measure hybrid, full text alone and vectors alone.")
    ] = False,
) -> None:
    """Measure retrieval: ingest what is missing of the corpus, ask every question, print quality and time.

    Prints recall@2/5/10, nDCG@10 and milliseconds per query; a document ranks where its best chunk ranks.
    """
    from corpusmesh_app.cli.evaluation import at_least_better_leg, ensure_corpus, measure
    from corpusmesh_app.cli.evaluation_sets import read_corpus, read_queries
    from corpusmesh_app.cli.plans import parse_plan

    queries = read_queries(folder, question_field=question_field, limit=limit)
    corpus = read_corpus(folder)
    plans: dict[str, RetrievalPlan] = (
        {name: parse_plan(name) for name in _LEGS} if compare_legs else dict(map(_named_plan, plan or [_DEFAULT]))
    )
    async with session.client() as client:
        name = await _ensure_knowledge_base(client, knowledge_base, session)
        report = await ensure_corpus(client, name, corpus, session.output)
        if report.failed_count:
            session.output.message(f"{report.failed_count} documents failed and cannot be found")
        measurements = [await measure(client, name, queries, wanted, label) for label, wanted in plans.items()]
    verdict = at_least_better_leg(measurements) if compare_legs else None

    def render(console: "Console") -> None:
        rows = [
            (
                entry.plan,
                *(f"{value:.4f}" for _, value in entry.quality.recall),
                f"{entry.quality.ndcg:.4f}",
                f"{entry.quality.mean_reciprocal_rank:.4f}",
                f"{entry.timing.mean_milliseconds:.1f}",
                f"{entry.timing.p95_milliseconds:.1f}",
            )
            for entry in measurements
        ]
        columns = ("PLAN", "RECALL@2", "RECALL@5", "RECALL@10", "NDCG@10", "MRR", "MS/QUERY", "MS P95")
        console.print(f"{folder.name}: {len(corpus)} documents, {len(queries)} questions")
        session.output.table(columns, rows, empty="")(console)
        if verdict is not None:
            worse = [measure_name for measure_name, holds in verdict.items() if not holds]
            console.print(
                f"Hybrid is worse than the better leg in: {', '.join(worse)}"
                if worse
                else "Hybrid is at least as good as the better leg in every measure."
            )

    session.output.result(
        {
            "set": folder.name,
            "knowledge_base": name,
            "document_count": len(corpus),
            "ingested_count": len(report.documents) - report.failed_count,
            "failed_count": report.failed_count,
            "measurements": [entry.shape() for entry in measurements],
            "hybrid_at_least_better_leg": verdict,
        },
        render,
    )
    raise_for_outcome(len(corpus) - report.failed_count, report.failed_count)


def _named_plan(text: str) -> "tuple[str, RetrievalPlan]":
    from corpusmesh_app.cli.plans import parse_plan

    named = _NAMED.fullmatch(text)
    return (named[1].strip(), parse_plan(named[2])) if named else (text, parse_plan(text))


async def _ensure_knowledge_base(client: "CorpusMeshClient", name: str, session: Session) -> str:
    from corpusmesh.ingest.v1.knowledge_base_service_pb2 import KnowledgeBase

    try:
        return (await client.resolve_knowledge_base(name)).name
    except NotFoundError:
        session.output.message(f"Making the knowledge base {name}")
        return (await client.knowledge_bases.create(KnowledgeBase(display_name=name))).name
