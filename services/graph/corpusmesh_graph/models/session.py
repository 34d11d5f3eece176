"""All that one build of a graph asks a language model; what it does not answer is left out, and the bill says so."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.graphs.batches import batched
from corpusmesh_core.graphs.cost import (
    DESCRIPTION_INPUT_TOKENS,
    DESCRIPTION_TOKENS,
    MAX_FRAGMENTS,
    REPORT_INPUT_TOKENS,
    REPORT_SUMMARY_TOKENS,
)
from corpusmesh_core.graphs.grounding import ReadBatch, ground
from corpusmesh_core.graphs.model_answers import MAX_PAIRS, read_confirmations, read_report
from corpusmesh_core.graphs.model_messages import (
    EXTRACTION_PROMPTS,
    Sheet,
    description_sheet,
    extraction_sheet,
    report_sheet,
)
from corpusmesh_core.graphs.parsing import read_graph
from corpusmesh_core.graphs.read_values import ReadGraph
from corpusmesh_core.graphs.report_excerpt import report_excerpt
from corpusmesh_core.graphs.reports import ReportInput
from corpusmesh_core.graphs.settings import GraphMethod, GraphSettings
from corpusmesh_core.graphs.values import GraphBill, GraphChunk, Subgraph
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.prompts.graph_confirm_v1 import GRAPH_CONFIRM_VERSION
from corpusmesh_core.prompts.graph_describe_v1 import GRAPH_DESCRIBE_VERSION
from corpusmesh_core.prompts.graph_glean_v1 import GRAPH_GLEAN_VERSION
from corpusmesh_core.prompts.graph_report_v1 import GRAPH_REPORT_VERSION
from corpusmesh_core.trees.child_budget import cut_children
from corpusmesh_graph.models.orders import (
    GRAPH_BUDGET_SPENT,
    GRAPH_TIME_SPENT,
    UNFAITHFUL,
    confirmation_order,
    description_order,
    extraction_order,
    gleaning_order,
    report_order,
)
from corpusmesh_runtime.model_calls import (
    MISCONFIGURED,
    MODEL_MISCONFIGURED,
    MODEL_NOT_CONFIGURED,
    MODEL_UNREACHABLE,
    TENANT_BUDGET_SPENT,
    UNREACHABLE,
    UNUSABLE,
    CallOrder,
    CallScope,
    CallSession,
    Reply,
)

_SHARE_OF_TIME: Final = 0.9
_OWN_FAILURES: Final = frozenset({UNFAITHFUL, UNUSABLE, UNREACHABLE, MISCONFIGURED})
_FALLBACKS: Final[Mapping[str, str]] = {
    GRAPH_BUDGET_SPENT: "budget_spent",
    TENANT_BUDGET_SPENT: "budget_spent",
    MODEL_UNREACHABLE: "errors_spent",
    MODEL_MISCONFIGURED: MISCONFIGURED,
    MODEL_NOT_CONFIGURED: "not_configured",
    GRAPH_TIME_SPENT: UNREACHABLE,
}
"""What a report says of why nothing more is asked."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """What a model found in a document.

    Attributes:
        subgraph: What of it is believed.
        missing: Positions of the chunks that some method has no answer for: they are left to NER.
        left_reason: Why the document was left before all was asked; "" where it was not.
    """

    subgraph: Subgraph
    missing: tuple[int, ...] = ()
    left_reason: str = ""


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A report by a model.

    Attributes:
        title: Title; "" where there is none.
        text: Markdown without the title.
        rating: How much it weighs by the model, 0 to 1.
        fallback: Why there is none: "unfaithful", "unusable", "unreachable", "misconfigured", "budget_spent",
            "errors_spent" or "not_configured"; "" where there is one.
    """

    title: str = ""
    text: str = ""
    rating: float = 0.0
    fallback: str = ""


@dataclass(slots=True)
class _Reading:
    """One batch of chunks, asked about by one method."""

    method: GraphMethod
    chunks: tuple[GraphChunk, ...]
    sheet: Sheet
    graphs: list[ReadGraph]
    is_done: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        found = (
            name
            for graph in self.graphs
            for name in (
                *(entity.name for entity in graph.entities),
                *(name for relation in graph.relations for name in (relation.source, relation.target)),
            )
        )
        return tuple(dict.fromkeys(found))


class GraphSession:
    """What one build asks; made by `GraphModels.open`."""

    def __init__(self, counter: TextTokenizer, settings: GraphSettings, bill: GraphBill, calls: CallSession) -> None:
        """Create it.

        Args:
            counter: The embedder's tokenizer.
            settings: How the graph is made.
            bill: Bill to add to.
            calls: What the model may be asked.
        """
        self._counter = counter
        self._settings = settings
        self._bill = bill
        self._calls = calls
        self._others = self._new_scope()

    @property
    def fingerprint(self) -> str:
        """What decides the subgraph of a document besides its chunks, hexadecimal; "" where there is no model."""
        settings = self._settings
        if not self._calls.model:
            return ""
        digest = hashlib.sha256()
        for part in (
            self._calls.model,
            *(EXTRACTION_PROMPTS[method][0] for method in settings.model_methods),
            *((GRAPH_GLEAN_VERSION, str(settings.gleanings)) if settings.gleanings else ()),
            *settings.entity_types,
            str(settings.extraction_tokens),
            settings.prompt,
        ):
            encoded = part.encode()
            digest.update(len(encoded).to_bytes(8, "big") + encoded)
        return digest.hexdigest()[:32]

    @property
    def confirmed_by(self) -> str:
        """Who confirms pairs: model and version of the prompt; "" where there is no model."""
        return self._made_by(GRAPH_CONFIRM_VERSION)

    @property
    def described_by(self) -> str:
        """Who merges descriptions, likewise."""
        return self._made_by(GRAPH_DESCRIBE_VERSION)

    @property
    def reported_by(self) -> str:
        """Who writes reports, likewise; what a report says about who made it."""
        return self._made_by(GRAPH_REPORT_VERSION)

    def _made_by(self, version: str) -> str:
        return f"{self._calls.model}/{version}" if self._calls.model else ""

    async def extract(
        self, chunks: Sequence[GraphChunk], sources: Sequence[int], *, timeout_seconds: float
    ) -> Extracted:
        """Find entities and relations in a document by all methods that ask a model.

        Args:
            chunks: Its chunks, in order.
            sources: Ordinal of its version: kept answers are erased with it.
            timeout_seconds: How long it may take; what is not answered in 90 % of that is left out.

        Returns:
            What was found; nothing where no method asks a model, or where none is configured.

        Raises:
            UnavailableError: If what the tenant has spent cannot be told; never for what a model does.
        """
        if not chunks or not self._settings.model_methods:
            return Extracted(Subgraph())
        deadline = _deadline(timeout_seconds)
        scope = self._new_scope()
        readings = await asyncio.to_thread(self._readings, chunks)
        await self._read(scope, readings, await asyncio.to_thread(self._extractions, readings, sources), deadline)
        for _ in range(self._settings.gleanings):
            open_readings = [reading for reading in readings if reading.graphs and not reading.is_done]
            if not open_readings or scope.closed:
                break
            orders = await asyncio.to_thread(self._gleanings, open_readings, sources)
            await self._read(scope, open_readings, orders, deadline)
        self._tell(scope)
        subgraph = await asyncio.to_thread(self._ground, readings)
        missing = {chunk.position for reading in readings if not reading.graphs for chunk in reading.chunks}
        return Extracted(subgraph, tuple(sorted(missing)), scope.closed)

    async def merge_description(
        self, name: str, fragments: Sequence[str], sources: Sequence[int], *, timeout_seconds: float
    ) -> str | None:
        """Make one description of many.

        Args:
            name: What is described.
            fragments: Descriptions, the most telling first, in an order that is the same whenever they are; of more
                than MAX_FRAGMENTS the first.
            sources: Versions that they are of.
            timeout_seconds: How long it may take.

        Returns:
            A description of at most 200 tokens that states no name and no number which they do not; None where there is
            none, and they stand for themselves.

        Raises:
            UnavailableError: If what the tenant has spent cannot be told.
        """
        order = await asyncio.to_thread(self._description, name, fragments, sources)
        reply = await self._one(order, timeout_seconds)
        return reply.text or None if reply is not None else None

    async def confirm(
        self, pairs: Sequence[tuple[str, str, str]], sources: Sequence[int], *, timeout_seconds: float
    ) -> list[bool | None]:
        """Ask which pairs of names stand for one thing, 50 pairs a call.

        Args:
            pairs: Two names and their type, "" where unknown.
            sources: Versions that the names are of.
            timeout_seconds: How long it may take in all.

        Returns:
            For each pair whether they do; None where the model does not say.

        Raises:
            UnavailableError: If what the tenant has spent cannot be told.
        """
        parts = [pairs[start : start + MAX_PAIRS] for start in range(0, len(pairs), MAX_PAIRS)]
        orders = [confirmation_order(self._calls.model, part, sources) for part in parts]
        replies = await self._ask(orders, timeout_seconds)
        told: list[bool | None] = []
        for place, part in enumerate(parts):
            reply = replies.get(place, Reply())
            told += read_confirmations(reply.text, len(part)) or [None] * len(part)
        return told

    async def report(self, given: ReportInput, sources: Sequence[int], *, timeout_seconds: float) -> WrittenReport:
        """Write the report on a community.

        Args:
            given: Its entities, relations and sentences.
            sources: Versions that it stands on.
            timeout_seconds: How long it may take.

        Returns:
            The report, or why there is none.

        Raises:
            UnavailableError: If what the tenant has spent cannot be told.
        """
        order = await asyncio.to_thread(self._report, given, sources)
        reply = await self._one(order, timeout_seconds)
        if reply is None or reply.failure:
            closed = _FALLBACKS.get(self._others.closed, UNREACHABLE)
            failure = reply.failure if reply is not None else closed
            return WrittenReport(fallback=failure if failure in _OWN_FAILURES else closed)
        report, failure = await asyncio.to_thread(read_report, reply.text, given.lines)
        if report is None:
            return WrittenReport(fallback=failure)
        return WrittenReport(report.title, report.text, report.rating)

    async def _one(self, order: CallOrder, timeout_seconds: float) -> Reply | None:
        return (await self._ask([order], timeout_seconds)).get(0)

    async def _ask(self, orders: Sequence[CallOrder], timeout_seconds: float) -> dict[int, Reply]:
        """Ask for descriptions, confirmations and reports: what fails of them closes no document."""
        if self._others.closed == GRAPH_TIME_SPENT:
            # That one had no time left is no reason for the next, which has time of its own.
            self._others = self._new_scope()
        replies = await self._others.ask(orders, _deadline(timeout_seconds))
        self._tell(self._others)
        return replies

    def _new_scope(self) -> CallScope:
        return self._calls.scope(self._settings.max_errors, in_a_row=True)

    async def _read(
        self, scope: CallScope, readings: Sequence[_Reading], orders: Sequence[CallOrder], deadline: float
    ) -> None:
        """Ask about batches, and add what is answered to their readings."""
        replies = await scope.ask(orders, deadline)
        await asyncio.to_thread(self._take, readings, replies)

    def _take(self, readings: Sequence[_Reading], replies: dict[int, Reply]) -> None:
        for place, reading in enumerate(readings):
            reply = replies.get(place)
            graph = read_graph(reply.text, types=self._settings.entity_types) if reply is not None else None
            if graph is None:
                reading.is_done = True
                continue
            known = set(reading.names)
            reading.graphs.append(graph)
            # A question for more makes sense as long as it brings something.
            reading.is_done = len(reading.graphs) > 1 and known >= set(reading.names)

    def _readings(self, chunks: Sequence[GraphChunk]) -> list[_Reading]:
        settings = self._settings
        return [
            _Reading(method, batch, extraction_sheet(method, batch, settings), [])
            for batch in batched(chunks, settings.extraction_tokens)
            for method in settings.model_methods
        ]

    def _extractions(self, readings: Sequence[_Reading], sources: Sequence[int]) -> list[CallOrder]:
        model = self._calls.model
        return [extraction_order(model, reading.method, reading.sheet, reading.chunks, sources) for reading in readings]

    def _gleanings(self, readings: Sequence[_Reading], sources: Sequence[int]) -> list[CallOrder]:
        model = self._calls.model
        return [gleaning_order(model, reading.sheet, reading.names, reading.chunks, sources) for reading in readings]

    def _description(self, name: str, fragments: Sequence[str], sources: Sequence[int]) -> CallOrder:
        read = fragments[:MAX_FRAGMENTS]
        texts = cut_children(read, self._counter.count_tokens(list(read)), self._counter, DESCRIPTION_INPUT_TOKENS)
        sheet = description_sheet(name, texts, self._settings, max_tokens=DESCRIPTION_TOKENS)
        return description_order(self._calls.model, sheet, (name, *fragments), sources, self._counter)

    def _report(self, given: ReportInput, sources: Sequence[int]) -> CallOrder:
        lines = report_excerpt(
            given, max_tokens=REPORT_INPUT_TOKENS, count_tokens=lambda texts: self._counter.count_tokens(list(texts))
        )
        sheet = report_sheet(lines, self._settings, max_tokens=REPORT_SUMMARY_TOKENS)
        return report_order(self._calls.model, sheet, given.lines, sources)

    def _ground(self, readings: Sequence[_Reading]) -> Subgraph:
        batches = [ReadBatch(reading.method, reading.chunks, graph) for reading in readings for graph in reading.graphs]
        return ground(batches, types=self._settings.entity_types)

    def _tell(self, scope: CallScope) -> None:
        if scope.closed:
            self._bill.stepped_down_reason = scope.closed


def _deadline(timeout_seconds: float) -> float:
    return asyncio.get_running_loop().time() + _SHARE_OF_TIME * timeout_seconds
