"""What a search did, printed for people: `corpusmesh search --explain`, and the conditions that a question set."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from corpusmesh_app.cli.output import plain

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from rich.console import Console

    from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
    from corpusmesh_app.cli.session import Session

_MAX_CANDIDATES = 40
_MAX_STEPS = 20
_STEPS_SHOWN_FIRST = ("kept", "followed")
_PARTS = ("understanding", "recall", "rerank", "assembly", "correction", "tree", "graph")
_OPERATORS = {0: "=", 1: "=", 2: "≠", 3: "<", 4: "≤", 5: ">", 6: "≥"}


def print_understanding(
    console: "Console", standalone: str, conditions: "Iterable[pb.MetadataCondition]", retrieval: str
) -> None:
    """Print what became of the question, where anything did.

    Args:
        console: Where to.
        standalone: The stand-alone question that was searched; "" where it is the one that was asked.
        conditions: Conditions on metadata that were read out of the question.
        retrieval: Name of the retrieval in the ledger; "" where it was not recorded.
    """
    if standalone:
        console.print(plain(f"Searched for: {standalone}"), style="dim")
    if wanted := " and ".join(condition_text(condition) for condition in conditions):
        console.print(plain(f"Only documents with {wanted}"), style="dim")
    if retrieval:
        console.print(plain(f"Recorded as {retrieval}"), style="dim")


def condition_text(condition: "pb.MetadataCondition") -> str:
    """Write a condition on metadata.

    Args:
        condition: The condition.

    Returns:
        Key, operator and values.
    """
    return f"{condition.key} {_OPERATORS.get(condition.operator, '?')} {' or '.join(condition.values)}"


def print_stages(session: "Session", console: "Console", stages: "Iterable[pb.StageTiming]") -> None:
    """Print the stages of a search or an answer, what became of each and why.

    Args:
        session: The session.
        console: Where to.
        stages: The stages, in order.
    """
    from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb

    rows = [
        (
            stage.stage,
            f"{stage.duration_milliseconds:.1f}",
            pb.StageTiming.State.Name(stage.state).removeprefix("STATE_").lower(),
            "model" if stage.by_model else "",
            stage.detail,
        )
        for stage in stages
    ]
    session.output.table(("STAGE", "MS", "STATE", "BY", "DETAIL"), rows, empty="No stage ran.")(console)


def print_explanation(session: "Session", console: "Console", explanation: "pb.Explanation") -> None:
    """Print what a search did: plan, stages, texts that were searched for, and the candidates.

    Args:
        session: The session.
        console: Where to.
        explanation: The explanation.
    """
    console.print(plain(f"Plan: {plan_text(explanation.effective_plan)}"))
    console.print(plain(f"Terms: {', '.join(explanation.query_terms)}"))
    console.print(f"Visible versions: {explanation.visible_version_count}")
    print_stages(session, console, explanation.stages)
    if len(explanation.variants) > 1:
        variants = [(variant.origin, f"{variant.weight:.2f}", variant.text) for variant in explanation.variants]
        session.output.table(("SEARCHED FOR", "WEIGHT", "TEXT"), variants, empty="")(console)
    _print_tree_path(session, console, explanation.tree_path)
    _print_graph_path(session, console, explanation.graph_path)
    _print_candidates(session, console, explanation.candidates)
    for note in explanation.notes:
        console.print(plain(f"Note: {note}"), style="dim")


def plan_text(plan: "pb.RetrievalPlan") -> str:
    """Write a plan in one line.

    Args:
        plan: The plan.

    Returns:
        How legs are joined, then what is switched on in each part.
    """
    from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb

    mode = pb.SearchMode.Name(plan.mode).removeprefix("SEARCH_MODE_").lower()
    fusion = pb.Fusion.Name(plan.fusion).removeprefix("FUSION_").lower()
    switched = ((name, _switched_on(getattr(plan, name))) for name in _PARTS)
    parts = (f"{name} {', '.join(texts)}" for name, texts in switched if texts)
    return "; ".join((f"{mode}, {fusion}, window {plan.candidate_window}", *parts))


def _switched_on(part: "Message") -> list[str]:
    """Name the stages of a part that run; what only says how they run is left out."""
    texts = []
    for field, value in part.ListFields():
        if field.type == field.TYPE_BOOL:
            if value:
                texts.append(field.name)
        elif field.enum_type is not None and not field.is_repeated:
            chosen = field.enum_type.values_by_number[value].name.partition("_")[2].lower()
            if chosen not in ("none", "off"):
                texts.append(chosen)
        elif field.type == field.TYPE_INT32 and value and field.name in ("neighbours", "hops", "max_per_document"):
            texts.append(f"{field.name} {value}")
    return texts


def _print_tree_path(session: "Session", console: "Console", steps: "Iterable[pb.TreeStep]") -> None:
    # Many summaries are looked at and few matter: those that are hits, or led somewhere.
    looked_at = sorted(steps, key=lambda step: step.outcome not in _STEPS_SHOWN_FIRST)
    if not looked_at:
        return
    rows = [
        (step.record_id, step.layer, f"{step.similarity:.3f}", step.outcome, " ".join(step.led_to))
        for step in looked_at[:_MAX_STEPS]
    ]
    session.output.table(("SUMMARY", "LAYER", "SIMILARITY", "BECAME", "RECORDS BENEATH OR BETTER"), rows, empty="")(
        console
    )
    if more := len(looked_at) - len(rows):
        console.print(f"{more} further {'summary' if more == 1 else 'summaries'}; --json shows all.", style="dim")


def _print_graph_path(session: "Session", console: "Console", steps: "Iterable[pb.GraphStep]") -> None:
    looked_at = sorted(steps, key=lambda step: step.outcome == "dropped")
    if not looked_at:
        return
    rows = [
        (step.kind.replace("_", " "), step.label or step.name, step.reason, f"{step.score:.3f}", step.hop, step.outcome)
        for step in looked_at[:_MAX_STEPS]
    ]
    session.output.table(("OF THE GRAPH", "NAME", "BECAUSE", "SCORE", "HOP", "BECAME"), rows, empty="")(console)
    if more := len(looked_at) - len(rows):
        console.print(f"{more} further {'step' if more == 1 else 'steps'}; --json shows all.", style="dim")


def _print_candidates(session: "Session", console: "Console", candidates: "Iterable[pb.CandidateExplanation]") -> None:
    everyone = list(candidates)
    shown = everyone[:_MAX_CANDIDATES]
    is_reranked = any(candidate.scores.HasField("rerank_similarity") for candidate in shown)
    has_features = any(candidate.rank_feature for candidate in shown)
    rows = []
    for candidate in shown:
        scores = candidate.scores
        row = [
            candidate.record_id,
            f"{scores.similarity:.3f}",
            f"{scores.term_similarity:.3f}{'*' if candidate.cross_script else ''}",
            f"{scores.vector_similarity:.3f}",
            scores.lexical_rank or "-",
            scores.vector_rank or "-",
        ]
        if is_reranked:
            row.append(f"{scores.rerank_similarity:.3f}" if scores.HasField("rerank_similarity") else "-")
        if has_features:
            row.append(f"{candidate.rank_feature:+.3f}")
        rows.append((*row, candidate.dropped_reason.replace("_", " ")))
    columns = ["CANDIDATE", "SIMILARITY", "TERMS", "VECTOR", "LEXICAL RANK", "VECTOR RANK"]
    columns += ["RERANK"] * is_reranked + ["FEATURES"] * has_features + ["DROPPED"]
    session.output.table(columns, rows, empty="No candidate.")(console)
    if any(candidate.cross_script for candidate in shown):
        console.print("* shares no script with the question: meaning stands in for words", style="dim")
    if len(everyone) > len(shown):
        console.print(f"{len(everyone) - len(shown)} further candidates; --json shows all.", style="dim")
