"""What a graph asks of a language model, told before it asks: from token counts, batched and written as a build does.

Calls and tokens of extraction follow from the chunks alone. How many entities, descriptions, pairs and reports there
will be nobody knows before: `expected_counts` has them from what was measured; whoever has counted gives the counts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.graphs.batches import answer_tokens, batch_sizes
from corpusmesh_core.graphs.model_answers import MAX_PAIRS
from corpusmesh_core.graphs.model_messages import (
    Sheet,
    confirmation_sheet,
    description_sheet,
    extraction_sheet,
    gleaning_sheet,
    report_sheet,
)
from corpusmesh_core.graphs.settings import GraphSettings, ReportMethod, Resolution
from corpusmesh_core.graphs.values import GraphBill, GraphChunk
from corpusmesh_core.token_estimate import estimate_tokens

DESCRIPTION_TOKENS: Final = 200
"""Longest description made of many."""
DESCRIPTION_INPUT_TOKENS: Final = 3000
"""Tokens of fragments that one call reads."""
MAX_FRAGMENTS: Final = 60
"""Fragments that one call reads, so that each has room for a sentence or two."""
REPORT_SUMMARY_TOKENS: Final = 300
"""Longest summary of a report."""
REPORT_INPUT_TOKENS: Final = 3000
"""Tokens of entities, relations and sentences that one call reads."""
REPORT_FINDING_TOKENS: Final = 700
"""Tokens that a report may have besides its summary."""
ANSWER_SLACK: Final = 1.5
"""A model may write so many times what is kept of it, which is cut afterwards."""
CONFIRM_TOKENS: Final = 40
CONFIRM_TOKENS_PER_PAIR: Final = 5
_BLOCK_TOKENS: Final = 36
"""Of the delimiters of one block and its name."""
_NAME_TOKENS: Final = 4
_TOKENS_PER_PAIR: Final = 16
_FRAGMENT_TOKENS: Final = 30
_FRAGMENTS_PER_LIMIT: Final = 2
"""Fragments of what is merged, against the fewest that are."""
_ENTITY_LINE_TOKENS: Final = 90
"""Tokens of a community's question for each of its entities, relations and sentences included."""
_ENTITIES_PER_TOKEN: Final = 0.01
"""Distinct entities of a document by its tokens; documents share some of them."""
_SHARED: Final = 0.6
"""Entities of all documents together, against the sum over documents."""
_RELATIONS_PER_ENTITY: Final = 2.0
_MERGED_SHARE: Final = 0.01
"""Entities and relations that more documents name than `merged_description_count` allows, where there are so many."""
_PAIRS_PER_ENTITY: Final = 0.3
_REPORTS_PER_ENTITY: Final = 0.22


@dataclass(frozen=True, slots=True)
class CallCost:
    """What calls cost.

    Attributes:
        call_count: Calls.
        input_token_count: Tokens that they send.
        output_token_count: Tokens that they get back, at most.
    """

    call_count: int = 0
    input_token_count: int = 0
    output_token_count: int = 0

    def __add__(self, other: "CallCost") -> "CallCost":
        """Add two costs."""
        return CallCost(
            self.call_count + other.call_count,
            self.input_token_count + other.input_token_count,
            self.output_token_count + other.output_token_count,
        )

    def times(self, count: int) -> "CallCost":
        """Give the cost of the same calls several times.

        Args:
            count: How often.

        Returns:
            The product.
        """
        return CallCost(self.call_count * count, self.input_token_count * count, self.output_token_count * count)


@dataclass(frozen=True, slots=True)
class GraphCounts:
    """How much there is of a graph, counted or expected.

    Attributes:
        entity_count: Entities of all documents that are read.
        relation_count: Relations.
        merged_count: Entities and relations whose descriptions are merged.
        pair_count: Pairs of names that a model is asked about.
        report_count: Communities whose report is written.
    """

    entity_count: int = 0
    relation_count: int = 0
    merged_count: int = 0
    pair_count: int = 0
    report_count: int = 0


def plan_calls(documents: Sequence[Sequence[int]], settings: GraphSettings, counts: GraphCounts) -> GraphBill:
    """Plan what a build asks.

    Args:
        documents: Tokens of the chunks of each document that is read.
        settings: How the graph is made.
        counts: How much there will be, see `expected_counts`.

    Returns:
        Documents, chunks, the counts, calls and tokens; tokens received are the most there can be. Without embedding
        and time. Answers that are kept are asked for no more, and their calls are planned all the same.
    """
    cost = extraction_cost(documents, settings)
    if settings.model_methods:
        cost += description_cost(settings).times(counts.merged_count)
    if settings.resolution is Resolution.LLM:
        cost += confirmation_cost(counts.pair_count)
    if settings.reports is ReportMethod.LLM:
        cost += report_cost(settings).times(counts.report_count)
    return GraphBill(
        document_count=len(documents),
        chunk_count=sum(map(len, documents)),
        entity_count=counts.entity_count,
        relation_count=counts.relation_count,
        report_count=counts.report_count,
        model_call_count=cost.call_count,
        input_token_count=cost.input_token_count,
        output_token_count=cost.output_token_count,
    )


def expected_counts(documents: Sequence[Sequence[int]], settings: GraphSettings) -> GraphCounts:
    """Expect how much there will be of a graph.

    Args:
        documents: Tokens of the chunks of each document.
        settings: How the graph is made.

    Returns:
        Rough counts, from what was measured on English texts.
    """
    found = int(_ENTITIES_PER_TOKEN * sum(map(sum, documents)))
    entities = found if len(documents) <= 1 else int(_SHARED * found)
    relations = int(_RELATIONS_PER_ENTITY * entities)
    is_merging = bool(settings.model_methods) and len(documents) > settings.merged_description_count
    return GraphCounts(
        entity_count=entities,
        relation_count=relations,
        merged_count=int(_MERGED_SHARE * (entities + relations)) if is_merging else 0,
        pair_count=int(_PAIRS_PER_ENTITY * entities) if settings.resolution is not Resolution.OFF else 0,
        report_count=int(_REPORTS_PER_ENTITY * entities) if settings.reports is not ReportMethod.OFF else 0,
    )


def extraction_cost(documents: Iterable[Sequence[int]], settings: GraphSettings) -> CallCost:
    """Tell what the extraction of documents costs.

    Args:
        documents: Tokens of the chunks of each document.
        settings: How the graph is made.

    Returns:
        Calls and tokens of all methods that ask a model, with as many questions for more as may be asked.
    """
    methods = settings.model_methods
    if not methods:
        return CallCost()
    sheets = [extraction_sheet(method, [GraphChunk(0, "")], settings) for method in methods]
    first = [_instruction_tokens(sheet) for sheet in sheets]
    more = [_instruction_tokens(gleaning_sheet(sheet, ())) for sheet in sheets]
    calls = sent = received = 0
    for counts in documents:
        at = 0
        for size in batch_sizes(counts, settings.extraction_tokens):
            tokens = sum(counts[at : at + size])
            at += size
            names = _NAME_TOKENS * int(_ENTITIES_PER_TOKEN * tokens)
            calls += len(methods) * (1 + settings.gleanings)
            sent += sum(first) + len(methods) * tokens
            sent += settings.gleanings * (sum(more) + len(methods) * (tokens + names))
            received += len(methods) * (1 + settings.gleanings) * answer_tokens(tokens)
    return CallCost(calls, sent, received)


def description_cost(settings: GraphSettings) -> CallCost:
    """Tell what one description made of many costs.

    Args:
        settings: How the graph is made.

    Returns:
        One call.
    """
    fragments = min(
        DESCRIPTION_INPUT_TOKENS, _FRAGMENT_TOKENS * _FRAGMENTS_PER_LIMIT * settings.merged_description_count
    )
    sheet = description_sheet("", (), settings, max_tokens=DESCRIPTION_TOKENS)
    return CallCost(1, _instruction_tokens(sheet) + fragments, int(ANSWER_SLACK * DESCRIPTION_TOKENS))


def confirmation_cost(pair_count: int) -> CallCost:
    """Tell what it costs to ask about pairs of names.

    Args:
        pair_count: Pairs.

    Returns:
        A call for every MAX_PAIRS of them.
    """
    calls = -(-pair_count // MAX_PAIRS)
    sent = calls * _instruction_tokens(confirmation_sheet(())) + _TOKENS_PER_PAIR * pair_count
    return CallCost(calls, sent, CONFIRM_TOKENS * calls + CONFIRM_TOKENS_PER_PAIR * pair_count)


def report_cost(settings: GraphSettings) -> CallCost:
    """Tell what one report costs.

    Args:
        settings: How the graph is made.

    Returns:
        One call.
    """
    lines = min(REPORT_INPUT_TOKENS, _ENTITY_LINE_TOKENS * settings.max_community_size)
    sheet = report_sheet((), settings, max_tokens=REPORT_SUMMARY_TOKENS)
    received = int(ANSWER_SLACK * REPORT_SUMMARY_TOKENS) + REPORT_FINDING_TOKENS
    return CallCost(1, _instruction_tokens(sheet) + lines, received)


def _instruction_tokens(sheet: Sheet) -> int:
    return estimate_tokens(sheet.instructions) + _BLOCK_TOKENS * len(sheet.blocks)
