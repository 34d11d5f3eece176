"""The tools: each is a few calls of the gateway's own gRPC port with the caller's key, and what they answer."""

from typing import Any, Final

from google.protobuf.message import Message

from corpusmesh.ingest.v1 import chunk_service_pb2 as chunk_pb
from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh.raptor.v1 import tree_service_pb2 as tree_pb
from corpusmesh.retrieve.v1 import answer_service_pb2 as answer_pb
from corpusmesh.retrieve.v1 import research_service_pb2 as research_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_core.errors import NotFoundError, UnavailableError
from corpusmesh_gateway.http.loopback import Loopback
from corpusmesh_gateway.http.routes import RouteTable
from corpusmesh_gateway.mcp import results
from corpusmesh_gateway.mcp.arguments import (
    AskArguments,
    NoArguments,
    OutlineArguments,
    PresetName,
    ReadArguments,
    ResearchArguments,
    SearchArguments,
)
from corpusmesh_gateway.mcp.definitions import ToolCall, ToolDefinition
from corpusmesh_gateway.mcp.entity_tool import EntityTool
from corpusmesh_gateway.mcp.places import SCHEME, Place, place_of, tree_name_of
from corpusmesh_gateway.mcp.quoting import Quote, quote_all
from corpusmesh_gateway.mcp.results import ToolResult

_INGEST = "/corpusmesh.ingest.v1."
_RAPTOR = "/corpusmesh.raptor.v1."
_RETRIEVE = "/corpusmesh.retrieve.v1."
_MAX_KNOWLEDGE_BASES = 200
_MAX_DOCUMENTS = 200
_CHUNK_PAGE_SIZE = 500
_MAX_CHUNK_PAGES = 40
_MAX_READ_CHARACTERS = 24_000
_PREFIX: Final = "knowledgeBases/"
_PRESETS: Final[dict[PresetName | None, retrieval_pb.Preset.ValueType]] = {
    None: retrieval_pb.PRESET_UNSPECIFIED,
    "fast": retrieval_pb.PRESET_FAST,
    "balanced": retrieval_pb.PRESET_BALANCED,
    "thorough": retrieval_pb.PRESET_THOROUGH,
}


class Toolbox:
    """All tools; none of them writes."""

    def __init__(self, routes: RouteTable, loopback: Loopback) -> None:
        """Create the tools.

        Args:
            routes: Methods of the contract.
            loopback: Leads to the gRPC port.
        """
        self._routes = routes
        self._loopback = loopback

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Give the tools.

        Returns:
            All of them.
        """
        return (
            ToolDefinition(
                "list_knowledge_bases",
                "Knowledge bases",
                "Lists the knowledge bases that you may read, with what each is about.",
                NoArguments,
                results.KNOWLEDGE_BASES_SCHEMA,
                self._list_knowledge_bases,
            ),
            ToolDefinition(
                "search",
                "Search documents",
                "Finds passages of documents by meaning and by words, best first, each with what opens it.",
                SearchArguments,
                results.SEARCH_SCHEMA,
                self._search,
            ),
            ToolDefinition(
                "ask",
                "Ask documents",
                "Answers a question from documents, with citations [ID:n]. Says so where the documents hold no answer.",
                AskArguments,
                results.ANSWER_SCHEMA,
                self._ask,
            ),
            ToolDefinition(
                "research",
                "Research a question",
                "Takes a broad question apart, searches each part, and answers from all that was found. Takes minutes; "
                "for a question that `ask` answers in part only.",
                ResearchArguments,
                results.RESEARCH_SCHEMA,
                self._research,
            ),
            ToolDefinition(
                "read_document",
                "Read a document",
                "Reads a page of a document, or the chunks around a place in it; takes the URI of a citation.",
                ReadArguments,
                results.READ_SCHEMA,
                self._read_document,
            ),
            ToolDefinition(
                "outline",
                "Outline of a document",
                "Tells what a whole document or knowledge base is about: its summaries, the most general first. For "
                "questions that no single passage answers; empty where no summaries are made.",
                OutlineArguments,
                results.OUTLINE_SCHEMA,
                self._outline,
            ),
            EntityTool(self._call).definition(),
        )

    async def read(self, place: Place, neighbours: int, call: ToolCall) -> tuple[list[chunk_pb.Chunk], bool]:
        """Read chunks of a document.

        Args:
            place: Page or chunk.
            neighbours: Chunks before and behind, where a chunk is meant.
            call: The call.

        Returns:
            The chunks, in reading order, and whether there were more than fit into a result.

        Raises:
            NotFoundError: If nothing stands there, or the caller may not see it.
        """
        first, last = max(0, place.position - neighbours), place.position + neighbours
        chunks: list[chunk_pb.Chunk] = []
        size, page_token = 0, ""
        for _ in range(_MAX_CHUNK_PAGES):
            page: chunk_pb.ListChunksResponse = await self._call(
                _INGEST + "ChunkService/ListChunks",
                chunk_pb.ListChunksRequest(
                    parent=place.version,
                    page_size=_CHUNK_PAGE_SIZE,
                    page_token=page_token,
                    role=chunk_pb.Chunk.ROLE_TEXT,
                ),
                call,
            )
            for chunk in page.chunks:
                wanted = _stands_on(chunk, place.page) if place.page else first <= chunk.position <= last
                if not wanted:
                    continue
                size += len(chunk.text)
                if chunks and size > _MAX_READ_CHARACTERS:
                    return chunks, True
                chunks.append(chunk)
            is_past = bool(page.chunks) and not place.page and page.chunks[-1].position >= last
            if is_past or not (page_token := page.next_page_token):
                break
        if not chunks:
            raise NotFoundError("PLACE_EMPTY", "nothing stands there; take the URI of a citation or passage")
        return chunks, False

    async def knowledge_bases(self, call: ToolCall) -> tuple[list[knowledge_base_pb.KnowledgeBase], bool]:
        """List knowledge bases.

        Args:
            call: The call.

        Returns:
            Those that the caller may read, and whether there are more.
        """
        page: knowledge_base_pb.ListKnowledgeBasesResponse = await self._call(
            _INGEST + "KnowledgeBaseService/ListKnowledgeBases",
            knowledge_base_pb.ListKnowledgeBasesRequest(page_size=_MAX_KNOWLEDGE_BASES),
            call,
        )
        return list(page.knowledge_bases), bool(page.next_page_token)

    async def documents(self, knowledge_base: str, call: ToolCall) -> list[document_pb.Document]:
        """List documents.

        Args:
            knowledge_base: `knowledgeBases/{id}`.
            call: The call.

        Returns:
            The first of those that the caller may read.
        """
        page: document_pb.ListDocumentsResponse = await self._call(
            _INGEST + "DocumentService/ListDocuments",
            document_pb.ListDocumentsRequest(parent=knowledge_base, page_size=_MAX_DOCUMENTS),
            call,
        )
        return list(page.documents)

    async def _list_knowledge_bases(self, _: NoArguments, call: ToolCall) -> ToolResult:
        found, is_cut = await self.knowledge_bases(call)
        entries = [
            {
                "name": entry.name,
                "display_name": entry.display_name,
                "description": entry.description,
                "document_count": entry.document_count,
            }
            for entry in found
        ]
        # What people wrote about their knowledge bases is data too.
        quotes = [
            Quote(entry.name, f"{entry.document_count} documents", "", f"{entry.display_name}\n{entry.description}")
            for entry in found
        ]
        text = quote_all(quotes) or "There is no knowledge base that you may read."
        return ToolResult(text, {"knowledge_bases": entries, "truncated": is_cut})

    async def _search(self, arguments: SearchArguments, call: ToolCall) -> ToolResult:
        response: retrieval_pb.SearchChunksResponse = await self._call(
            _RETRIEVE + "RetrievalService/SearchChunks",
            retrieval_pb.SearchChunksRequest(
                knowledge_bases=_names(arguments.knowledge_bases),
                query=arguments.query,
                page_size=arguments.top_k,
                plan=retrieval_pb.RetrievalPlan(preset=_PRESETS[arguments.preset]),
            ),
            call,
        )
        quotes = [results.quote_of(hit, f"{rank}.") for rank, hit in enumerate(response.hits, start=1)]
        values = {
            "hits": [results.passage_of(hit) for hit in response.hits],
            "snapshots": list(response.snapshots),
            "standalone_query": response.standalone_query,
        }
        return ToolResult(quote_all(quotes) or "Nothing was found.", values, results.links_of(response.hits))

    async def _ask(self, arguments: AskArguments, call: ToolCall) -> ToolResult:
        request = answer_pb.AnswerQuestionRequest(
            knowledge_bases=_names(arguments.knowledge_bases),
            question=arguments.question,
            plan=retrieval_pb.RetrievalPlan(preset=_PRESETS[arguments.preset]),
        )
        summary: answer_pb.AnswerSummary | None = None
        stream = self._begin(_RETRIEVE + "AnswerService/AnswerQuestion", request, call)
        try:
            async for piece in stream:
                match piece.WhichOneof("piece"):
                    case "progress":
                        await call.report(piece.progress.message or piece.progress.stage)
                    case "evidence":
                        await call.report(f"{len(piece.evidence.evidence)} pieces of evidence")
                    case "summary":
                        summary = piece.summary
        finally:
            stream.cancel()
        if summary is None:
            raise _broken_off()
        return _answer(summary, results.answer_values(summary))

    async def _research(self, arguments: ResearchArguments, call: ToolCall) -> ToolResult:
        request = research_pb.ResearchRequest(
            knowledge_bases=_names(arguments.knowledge_bases),
            question=arguments.question,
            plan=retrieval_pb.RetrievalPlan(preset=_PRESETS[arguments.preset]),
            budget=research_pb.ResearchBudget(max_seconds=arguments.max_seconds),
        )
        summary: research_pb.ResearchSummary | None = None
        stream = self._begin(_RETRIEVE + "ResearchService/Research", request, call)
        try:
            async for piece in stream:
                match piece.WhichOneof("piece"):
                    case "progress":
                        state = research_pb.ResearchProgress.State.Name(piece.progress.state).removeprefix("STATE_")
                        await call.report(f"{piece.progress.node} {state.lower()}: {piece.progress.question}")
                    case "summary":
                        summary = piece.summary
        finally:
            stream.cancel()
        if summary is None:
            raise _broken_off()
        values = {
            **results.answer_values(summary.answer),
            "open_questions": list(summary.open_questions),
            "questions": [entry.question for entry in summary.questions],
            "partial": summary.partial,
            "partial_reason": summary.partial_reason,
        }
        return _answer(summary.answer, values)

    async def _read_document(self, arguments: ReadArguments, call: ToolCall) -> ToolResult:
        place = place_of(arguments.uri)
        chunks, is_cut = await self.read(place, arguments.neighbours, call)
        entries = [
            {"name": chunk.name, "page": chunk.place.page, "position": chunk.position, "text": chunk.text}
            for chunk in chunks
        ]
        values = {"version": place.version, "chunks": entries, "truncated": is_cut}
        return ToolResult(quote_all(_quotes_of(place, chunks)), values)

    async def _outline(self, arguments: OutlineArguments, call: ToolCall) -> ToolResult:
        tree = tree_name_of(arguments.name)
        page: tree_pb.ListTreeNodesResponse = await self._call(
            _RAPTOR + "TreeService/ListTreeNodes",
            tree_pb.ListTreeNodesRequest(parent=tree, page_size=arguments.max_summaries),
            call,
        )
        values = results.outline_values(tree, page)
        quotes = [results.summary_quote(node) for node in page.nodes]
        return ToolResult(quote_all(quotes) or "There are no summaries of it that you may read.", values)

    def _begin(self, method: str, request: Message, call: ToolCall) -> Any:
        return self._loopback.call(self._routes.binding(method), request, call.request)

    async def _call(self, method: str, request: Message, call: ToolCall) -> Any:
        return await self._begin(method, request, call)


def text_of(place: Place, chunks: list[chunk_pb.Chunk]) -> str:
    """Write chunks as quoted data.

    Args:
        place: Where they stand.
        chunks: The chunks.

    Returns:
        The text.
    """
    return quote_all(_quotes_of(place, chunks))


def _quotes_of(place: Place, chunks: list[chunk_pb.Chunk]) -> list[Quote]:
    return [
        Quote(
            f"chunk {chunk.position}",
            f"page {chunk.place.page}" if chunk.place.page else "",
            f"{SCHEME}{place.version}/chunks/{chunk.position}",
            chunk.text,
        )
        for chunk in chunks
    ]


def _answer(summary: answer_pb.AnswerSummary, values: dict[str, Any]) -> ToolResult:
    hits = [citation.hit for citation in summary.citations]
    quotes = [results.quote_of(citation.hit, f"[ID:{citation.marker}]") for citation in summary.citations]
    lead = "The documents do not carry an answer. What was found:\n\n" if summary.abstained else ""
    parts = [lead + summary.text, quote_all(quotes), *(f"Note: {note}" for note in summary.notes)]
    return ToolResult("\n\n".join(filter(None, parts)), values, results.links_of(hits))


def _names(knowledge_bases: list[str]) -> list[str]:
    return [name if name.startswith(_PREFIX) else _PREFIX + name for name in knowledge_bases]


def _stands_on(chunk: chunk_pb.Chunk, page: int) -> bool:
    return chunk.place.page == page or any(box.page == page for box in chunk.place.boxes)


def _broken_off() -> UnavailableError:
    return UnavailableError("ANSWER_CUT", "the answer broke off before its end; ask again")
