"""`corpusmesh research`."""

from typing import TYPE_CHECKING, Annotated

import typer

from corpusmesh_app.cli.answer_commands import (
    OptionalKnowledgeBases,
    Plan,
    print_citations,
    print_snapshots,
    resolve_names,
)
from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.output import plain
from corpusmesh_app.cli.session import Session
from corpusmesh_core.errors import InternalError, InvalidArgumentError

if TYPE_CHECKING:
    from rich.console import Console

    from corpusmesh.retrieve.v1.research_service_pb2 import ResearchBudget, ResearchProgress, ResearchSummary
    from corpusmesh_app.cli.shapes import Shape


def register(app: typer.Typer) -> None:
    """Add the command.

    Args:
        app: The application.
    """
    command(app, "research")(research)


async def research(
    session: Session,
    text: Annotated[str, typer.Argument(help="Question.")],
    knowledge_bases: OptionalKnowledgeBases = None,
    plan: Plan = "",
    budget: Annotated[
        str,
        typer.Option(
            help='What it may cost, such as "seconds=60,questions=8"; also depth, children, concurrency, calls, tokens.'
        ),
    ] = "",
    web: Annotated[bool, typer.Option("--web", help="Search the web too, with words of the question alone.")] = False,
    model_free: Annotated[bool, typer.Option("--model-free", help="Do without a language model.")] = False,
    max_evidence_tokens: Annotated[int, typer.Option(help="Tokens of evidence; 0 for the default.")] = 0,
) -> None:
    """Take a question apart, search each part, and answer from all that was found, with citations."""
    from corpusmesh.retrieve.v1.research_service_pb2 import ResearchSummary
    from corpusmesh.retrieve.v1.retrieval_service_pb2 import RetrievalPlan
    from corpusmesh_app.cli.plans import parse_plan

    wanted = RetrievalPlan()
    if (parsed := parse_plan(plan)) is not None:
        wanted.CopyFrom(parsed)
    if web:
        wanted.correction.web = True
    bounds = _parse_budget(budget)
    summary, snapshots = ResearchSummary(), []
    is_live = not session.output.as_json
    async with session.client() as client:
        names = await resolve_names(client, knowledge_bases or [])
        pieces = client.research.research(
            names, text, plan=wanted, budget=bounds, max_evidence_tokens=max_evidence_tokens, model_free=model_free
        )
        async for response in pieces:
            kind = response.WhichOneof("piece")
            if kind == "progress" and is_live:
                session.output.message(_progress_line(response.progress))
            elif kind == "text_delta" and is_live:
                typer.echo(plain(response.text_delta), nl=False)
            elif kind == "evidence":
                snapshots = list(response.evidence.snapshots)
            elif kind == "summary":
                summary = response.summary
    if not summary.questions:
        raise InternalError("RESEARCH_CUT", "the research broke off before its end; ask again")

    def render(console: "Console") -> None:
        _print_summary(console, summary)
        if not names:
            print_snapshots(console, snapshots)

    session.output.result(_shape(text, summary), render)


def _parse_budget(text: str) -> "ResearchBudget":
    from corpusmesh.retrieve.v1.research_service_pb2 import ResearchBudget

    known = {field.name.removeprefix("max_"): field.name for field in ResearchBudget.DESCRIPTOR.fields}
    values: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        if name.strip() not in known or not value.strip().isdecimal():
            raise InvalidArgumentError(
                "BUDGET_INVALID", f"--budget takes name=number, with the names {', '.join(known)}", field="budget"
            )
        values[known[name.strip()]] = min(int(value), 2**31 - 1)
    return ResearchBudget(**values)


def _state_of(node: "ResearchProgress") -> str:
    from corpusmesh.retrieve.v1.research_service_pb2 import ResearchProgress

    return ResearchProgress.State.Name(node.state).removeprefix("STATE_").lower()


def _progress_line(node: "ResearchProgress") -> str:
    parts = [f"{node.node} {_state_of(node)}: {node.question}"]
    if node.found_count:
        parts.append(f"{node.found_count} found, {node.new_count} new")
    if node.missing:
        parts.append(f"missing: {'; '.join(node.missing)}")
    if node.detail:
        parts.append(node.detail)
    return plain(" · ".join(parts))


def _shape(question: str, summary: "ResearchSummary") -> "Shape":
    from corpusmesh.retrieve.v1.answer_service_pb2 import EvidenceList
    from corpusmesh_app.cli.retrieval_shapes import answer_shape

    cost = summary.cost
    return {
        **answer_shape(question, EvidenceList(), summary.answer),
        "questions": [
            {
                "node": node.node,
                "parent": node.parent or None,
                "question": node.question,
                "state": _state_of(node),
                "found_count": node.found_count,
                "new_count": node.new_count,
                "missing": list(node.missing),
                "by_model": node.by_model,
                "detail": node.detail or None,
            }
            for node in summary.questions
        ],
        "open_questions": list(summary.open_questions),
        "cost": {
            "call_count": cost.call_count,
            "token_count": cost.token_count,
            "seconds": cost.seconds,
            "search_count": cost.search_count,
            "web_search_count": cost.web_search_count,
        },
        "partial": summary.partial,
        "partial_reason": summary.partial_reason or None,
    }


def _print_summary(console: "Console", summary: "ResearchSummary") -> None:
    print_citations(console, summary.answer)
    for question in summary.open_questions:
        console.print(plain(f"Open: {question}"))
    cost = summary.cost
    console.print(
        plain(
            f"Questions: {len(summary.questions)}; searches: {cost.search_count}, of the web: {cost.web_search_count}; "
            f"calls: {cost.call_count}; tokens: {cost.token_count:,}; {cost.seconds:.1f} seconds"
            + (f"; partial: {summary.partial_reason} spent" if summary.partial else "")
        ),
        style="dim",
    )
