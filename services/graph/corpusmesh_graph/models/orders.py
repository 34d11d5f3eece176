"""What a language model is asked for graphs, and what of its answers is of use."""

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from corpusmesh_core.graphs.batches import answer_tokens, chunk_tokens
from corpusmesh_core.graphs.cost import (
    ANSWER_SLACK,
    CONFIRM_TOKENS,
    CONFIRM_TOKENS_PER_PAIR,
    DESCRIPTION_TOKENS,
    REPORT_FINDING_TOKENS,
    REPORT_SUMMARY_TOKENS,
)
from corpusmesh_core.graphs.model_answers import read_confirmations, read_report
from corpusmesh_core.graphs.model_messages import EXTRACTION_PROMPTS, Sheet, confirmation_sheet, gleaning_sheet
from corpusmesh_core.graphs.parsing import read_graph, without_thoughts
from corpusmesh_core.graphs.settings import GraphMethod
from corpusmesh_core.graphs.values import GraphChunk
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.prompts.graph_confirm_v1 import GRAPH_CONFIRM_VERSION
from corpusmesh_core.prompts.graph_describe_v1 import GRAPH_DESCRIBE_VERSION
from corpusmesh_core.prompts.graph_glean_v1 import GRAPH_GLEAN_VERSION
from corpusmesh_core.prompts.graph_report_v1 import GRAPH_REPORT_VERSION
from corpusmesh_core.trees.faithfulness import unsupported
from corpusmesh_core.trees.writing import read_summary
from corpusmesh_runtime.model_calls import UNUSABLE, CallOrder

GRAPH_BUDGET_SPENT: Final = "GRAPH_BUDGET_SPENT"
GRAPH_TIME_SPENT: Final = "GRAPH_TIME_SPENT"
UNFAITHFUL: Final = "unfaithful"


def extraction_order(
    model: str, method: GraphMethod, sheet: Sheet, chunks: Sequence[GraphChunk], sources: Sequence[int]
) -> CallOrder:
    """Ask for the entities and relations of some chunks.

    Args:
        model: The model.
        method: How it is asked.
        sheet: The question.
        chunks: What it reads.
        sources: Version of the document.

    Returns:
        The order.
    """
    return _order(
        "extract",
        model,
        EXTRACTION_PROMPTS[method][0],
        sheet,
        sources,
        check=_check_graph,
        max_answer_tokens=answer_tokens(sum(map(chunk_tokens, chunks))),
    )


def gleaning_order(
    model: str, extraction: Sheet, names: Sequence[str], chunks: Sequence[GraphChunk], sources: Sequence[int]
) -> CallOrder:
    """Ask for what was missed of some chunks.

    Args:
        model: The model.
        extraction: The first question.
        names: What was found.
        chunks: What is read.
        sources: Version of the document.

    Returns:
        The order.
    """
    return _order(
        "glean",
        model,
        GRAPH_GLEAN_VERSION,
        gleaning_sheet(extraction, names),
        sources,
        check=_check_graph,
        max_answer_tokens=answer_tokens(sum(map(chunk_tokens, chunks))),
    )


def description_order(
    model: str,
    sheet: Sheet,
    known: Sequence[str],
    sources: Sequence[int],
    counter: TextTokenizer,
) -> CallOrder:
    """Ask for one description made of many.

    Args:
        model: The model.
        sheet: The question.
        known: What the description may say.
        sources: Versions that the fragments are of.
        counter: Counts tokens.

    Returns:
        The order.
    """

    def check(answer: str) -> tuple[str, str]:
        text = read_summary(answer, known, counter, max_tokens=DESCRIPTION_TOKENS)
        if text is None:
            return "", UNUSABLE
        return ("", UNFAITHFUL) if next(unsupported(text, known), None) is not None else (text, "")

    return _order(
        "describe",
        model,
        GRAPH_DESCRIBE_VERSION,
        sheet,
        sources,
        check=check,
        max_answer_tokens=int(ANSWER_SLACK * DESCRIPTION_TOKENS),
    )


def confirmation_order(model: str, pairs: Sequence[tuple[str, str, str]], sources: Sequence[int]) -> CallOrder:
    """Ask which pairs of names stand for one thing.

    Args:
        model: The model.
        pairs: Two names and their type each.
        sources: Versions that the names are of.

    Returns:
        The order.
    """

    def check(answer: str) -> tuple[str, str]:
        said = without_thoughts(answer)
        return (said, "") if read_confirmations(said, len(pairs)) is not None else ("", UNUSABLE)

    return _order(
        "confirm",
        model,
        GRAPH_CONFIRM_VERSION,
        confirmation_sheet(pairs),
        sources,
        check=check,
        max_answer_tokens=CONFIRM_TOKENS + CONFIRM_TOKENS_PER_PAIR * len(pairs),
    )


def report_order(model: str, sheet: Sheet, known: Sequence[str], sources: Sequence[int]) -> CallOrder:
    """Ask for the report on a community.

    Args:
        model: The model.
        sheet: The question.
        known: What the report may say.
        sources: Versions that the community stands on.

    Returns:
        The order.
    """

    def check(answer: str) -> tuple[str, str]:
        said = without_thoughts(answer)
        report, failure = read_report(said, known)
        return ("", failure) if report is None else (said, "")

    return _order(
        "report",
        model,
        GRAPH_REPORT_VERSION,
        sheet,
        sources,
        check=check,
        max_answer_tokens=int(ANSWER_SLACK * REPORT_SUMMARY_TOKENS) + REPORT_FINDING_TOKENS,
    )


def _check_graph(answer: str) -> tuple[str, str]:
    said = without_thoughts(answer)
    return (said, "") if read_graph(said) is not None else ("", UNUSABLE)


def _order(
    task: str,
    model: str,
    version: str,
    sheet: Sheet,
    sources: Sequence[int],
    *,
    check: Callable[[str], tuple[str, str]],
    max_answer_tokens: int,
) -> CallOrder:
    digest = hashlib.sha256()
    for part in (model, version, str(max_answer_tokens), *sheet.parts):
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return CallOrder(
        key=digest.digest(),
        sources=tuple(sources),
        render=partial(Sheet.messages, sheet),
        check=check,
        max_answer_tokens=max_answer_tokens,
        task=task,
    )
