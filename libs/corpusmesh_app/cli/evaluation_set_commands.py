"""`corpusmesh eval draw | import | run | list | show | delete`: golden sets of a knowledge base."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.output import plain
from corpusmesh_app.cli.session import Session

if TYPE_CHECKING:
    from rich.console import Console

    from corpusmesh.retrieve.v1 import evaluation_service_pb2 as pb

KnowledgeBaseArgument = Annotated[str, typer.Argument(help="Knowledge base.")]
SetArgument = Annotated[str, typer.Argument(help="Golden set: its identifier or its full name.")]
_COLUMNS = ("GOLDEN SET", "NAME", "QUESTIONS", "BY", "CHANGED")
_PLAN_HELP = "preset, mode, fusion, or a JSON object; by default the knowledge base's own."


def register(group: typer.Typer) -> None:
    """Add the commands.

    Args:
        group: The group `eval`.
    """
    command(group, "draw")(draw)
    command(group, "import")(import_file)
    command(group, "run")(run)
    command(group, "list")(list_all)
    command(group, "show")(show)
    command(group, "delete")(delete)


async def draw(
    session: Session,
    knowledge_base: KnowledgeBaseArgument,
    count: Annotated[int, typer.Option(min=1, max=500, help="Questions wanted.")] = 50,
    identifier: Annotated[str, typer.Option("--id", help="Identifier of the new set; by default one is made.")] = "",
    name: Annotated[str, typer.Option(help="Name shown to people.")] = "",
    model_free: Annotated[bool, typer.Option("--model-free", help="Ask no language model for questions.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
) -> None:
    """Make a golden set of questions drawn from the documents that you see."""
    from corpusmesh_app.cli.evaluation_shapes import golden_set_shape

    async with session.client() as client:
        base = await client.resolve_knowledge_base(knowledge_base)
        drawn = await client.evaluation.draw(
            base.name,
            question_count=count,
            golden_set_id=identifier,
            display_name=name,
            model_free=model_free,
            seed=seed,
        )
    made = drawn.golden_set
    session.output.result(
        {
            "golden_set": golden_set_shape(made),
            "by_model_count": drawn.by_model_count,
            "document_count": drawn.document_count,
        },
        lambda console: console.print(
            f"Drew {made.question_count} questions from {drawn.document_count} documents as {made.name}"
            f" ({drawn.by_model_count} by the language model)."
        ),
    )


async def import_file(
    session: Session,
    knowledge_base: KnowledgeBaseArgument,
    file: Annotated[Path, typer.Argument(help="JSON lines with question, answers and gold (or gold_ids).")],
    golden_set: Annotated[str, typer.Option("--set", help="Set to add to; by default a new one.")] = "",
    identifier: Annotated[str, typer.Option("--id", help="Identifier of the new set; by default one is made.")] = "",
    name: Annotated[str, typer.Option(help="Name shown to people, of the new set.")] = "",
) -> None:
    """Take questions with known answers from a file."""
    from corpusmesh_app.cli.evaluation_set_files import read_golden_questions
    from corpusmesh_app.cli.evaluation_shapes import golden_set_shape

    async with session.client() as client:
        base = await client.resolve_knowledge_base(knowledge_base)
        documents = {entry.display_name: entry.name async for entry in client.documents.list(base.name)}
        questions = read_golden_questions(file, documents)
        if golden_set:
            made = await client.evaluation.import_questions(_set_name(base.name, golden_set), questions)
        else:
            made = await client.evaluation.create(
                base.name, questions, golden_set_id=identifier, display_name=name or file.name
            )
    session.output.result(
        {"golden_set": golden_set_shape(made), "imported_count": len(questions)},
        lambda console: console.print(f"{made.name} holds {made.question_count} questions."),
    )


async def run(  # noqa: PLR0913 - an option each
    session: Session,
    knowledge_base: KnowledgeBaseArgument,
    golden_set: SetArgument,
    plan: Annotated[str, typer.Option(help=f"How to search: {_PLAN_HELP}")] = "",
    against: Annotated[str | None, typer.Option(help=f"A second way, to compare with: {_PLAN_HELP}")] = None,
    answers: Annotated[bool, typer.Option("--answers", help="Answer every question too; measure citations.")] = False,
    snapshot: Annotated[str, typer.Option(help="Snapshot to search instead of the current one.")] = "",
    model_free: Annotated[bool, typer.Option("--model-free", help="Leave the language model alone.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="Questions to ask, spread over the set; 0 for all.")] = 0,
) -> None:
    """Ask every question of a golden set and measure what comes back; with --against, compare two ways to search.

    A difference is called better or worse only where a paired test says that it is more than chance.
    """
    from corpusmesh_app.cli.evaluation_shapes import message_shape
    from corpusmesh_app.cli.plans import parse_plan
    from corpusmesh_client.names import resource_name

    plans = [(plan or "default", parse_plan(plan))]
    if against is not None:
        plans.append((against or "default", parse_plan(against)))
    told = 0

    def tell(done_count: int, total_count: int) -> None:
        nonlocal told
        if total_count and 10 * done_count // total_count > told:
            told = 10 * done_count // total_count
            session.output.message(f"{done_count} of {total_count}")

    async with session.client() as client:
        base = await client.resolve_knowledge_base(knowledge_base)
        evaluation = await client.evaluation.evaluate(
            _set_name(base.name, golden_set),
            plan=plans[0][1],
            against=plans[1][1] if len(plans) > 1 else None,
            as_of_snapshot=resource_name(f"{base.name}/snapshots", snapshot) if snapshot else "",
            with_answers=answers,
            model_free=model_free,
            question_limit=limit,
            on_progress=tell,
        )
    labels = [label for label, _ in plans]
    session.output.result(
        {"evaluation": message_shape(evaluation), "plans": labels},
        lambda console: _render(session, console, evaluation, labels),
    )


async def list_all(
    session: Session,
    knowledge_base: KnowledgeBaseArgument,
    golden_set: Annotated[str, typer.Option("--set", help="Show the evaluations of this set instead.")] = "",
) -> None:
    """List the golden sets of a knowledge base, or the evaluations of one."""
    from corpusmesh_app.cli.evaluation_shapes import PLAN_COLUMNS, golden_set_shape, message_shape, plan_name, plan_row
    from corpusmesh_app.cli.shapes import time_of
    from corpusmesh_client.names import identifier_of

    async with session.client() as client:
        base = await client.resolve_knowledge_base(knowledge_base)
        if not golden_set:
            found = [entry async for entry in client.evaluation.list(base.name)]
            rows = [
                (
                    identifier_of(entry.name),
                    entry.display_name,
                    entry.question_count,
                    identifier_of(entry.creator),
                    time_of(entry, "update_time"),
                )
                for entry in found
            ]
            empty = "No golden set yet; make one with `corpusmesh eval draw`."
            session.output.result(
                {"golden_sets": [golden_set_shape(entry) for entry in found]},
                session.output.table(_COLUMNS, rows, empty=empty),
            )
            return
        name = _set_name(base.name, golden_set)
        evaluations = [entry async for entry in client.evaluation.list_evaluations(name)]
    measured = [
        (identifier_of(entry.name), time_of(entry, "create_time"), *plan_row(plan_name(measures, place), measures))
        for entry in evaluations
        for place, measures in enumerate(entry.plans)
    ]
    session.output.result(
        {"evaluations": [message_shape(entry) for entry in evaluations]},
        session.output.table(("EVALUATION", "TIME", *PLAN_COLUMNS), measured, empty="Nothing was measured yet."),
    )


async def show(session: Session, knowledge_base: KnowledgeBaseArgument, golden_set: SetArgument) -> None:
    """Show the questions of a golden set whose gold you may see."""
    from corpusmesh_app.cli.evaluation_shapes import golden_set_shape
    from corpusmesh_client.names import identifier_of

    async with session.client() as client:
        base = await client.resolve_knowledge_base(knowledge_base)
        name = _set_name(base.name, golden_set)
        found = await client.evaluation.get(name)
        questions = [entry async for entry in client.evaluation.questions(name)]
    rows = [
        (
            entry.position,
            entry.question,
            "; ".join(identifier_of(gold.document) + (f" p. {gold.page}" if gold.page else "") for gold in entry.gold),
            "; ".join(gold.quote for gold in entry.gold if gold.quote),
        )
        for entry in questions
    ]
    session.output.result(
        {
            "golden_set": golden_set_shape(found),
            "questions": [
                {
                    "position": entry.position,
                    "question": entry.question,
                    "answers": list(entry.answers),
                    "gold": [
                        {"document": gold.document, "quote": gold.quote, "page": gold.page} for gold in entry.gold
                    ],
                }
                for entry in questions
            ],
        },
        session.output.table(("#", "QUESTION", "DOCUMENT", "QUOTE"), rows, empty="No question that you may see."),
    )


async def delete(session: Session, knowledge_base: KnowledgeBaseArgument, golden_set: SetArgument) -> None:
    """Delete a golden set with its questions and evaluations."""
    async with session.client() as client:
        base = await client.resolve_knowledge_base(knowledge_base)
        name = _set_name(base.name, golden_set)
        await client.evaluation.delete(name)
    session.output.result({"deleted": name}, lambda console: console.print(f"Deleted {name}."))


def _set_name(knowledge_base: str, golden_set: str) -> str:
    from corpusmesh_client.names import resource_name

    return resource_name(f"{knowledge_base}/goldenSets", golden_set)


def _render(session: Session, console: "Console", evaluation: "pb.Evaluation", labels: list[str]) -> None:
    from corpusmesh_app.cli.evaluation_shapes import (
        ANSWER_COLUMNS,
        COMPARISON_COLUMNS,
        PLAN_COLUMNS,
        answer_row,
        comparison_row,
        plan_row,
    )

    hidden = f", {evaluation.hidden_count} left out: their gold is not published or not visible to you"
    console.print(
        plain(
            f"{evaluation.question_count} questions on {evaluation.snapshot or 'nothing published'}"
            f"{hidden if evaluation.hidden_count else ''}"
        )
    )
    pairs = list(zip(labels, evaluation.plans, strict=True))
    session.output.table(PLAN_COLUMNS, [plan_row(label, measures) for label, measures in pairs], empty="")(console)
    answered = [answer_row(label, measures.answers) for label, measures in pairs if measures.HasField("answers")]
    if answered:
        session.output.table(ANSWER_COLUMNS, answered, empty="")(console)
    if evaluation.comparisons:
        console.print(plain(f"{labels[1]} against {labels[0]}:"))
        rows = [comparison_row(comparison) for comparison in evaluation.comparisons]
        session.output.table(COMPARISON_COLUMNS, rows, empty="")(console)
