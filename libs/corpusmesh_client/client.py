"""The client: one connection to a gateway, with the calls of the contract in groups."""

from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Self

from corpusmesh.ingest.v1 import document_service_pb2, knowledge_base_service_pb2, run_service_pb2
from corpusmesh.retrieve.v1 import answer_service_pb2, retrieval_service_pb2
from corpusmesh.retrieve.v1.answer_service_pb2_grpc import AnswerServiceStub
from corpusmesh.retrieve.v1.retrieval_service_pb2_grpc import RetrievalServiceStub
from corpusmesh_client.admin import AdminCalls
from corpusmesh_client.calls import Caller, new_request_id
from corpusmesh_client.channel import ConnectionSettings, Deadlines, TlsSettings, open_channel
from corpusmesh_client.chunks import ChunkCalls
from corpusmesh_client.conversations import ConversationCalls
from corpusmesh_client.documents import DocumentCalls
from corpusmesh_client.evaluation import EvaluationCalls
from corpusmesh_client.graphs import GraphCalls
from corpusmesh_client.knowledge_bases import KnowledgeBaseCalls
from corpusmesh_client.ledger import LedgerCalls
from corpusmesh_client.research import ResearchCalls
from corpusmesh_client.runs import RunCalls
from corpusmesh_client.sources import SourceCalls
from corpusmesh_client.trees import TreeCalls
from corpusmesh_client.uploads import UploadItem, UploadResult
from corpusmesh_client.vocabulary import VocabularyCalls


class CorpusMeshClient:
    """Asynchronous client of a mesh.

    Results are the messages of the contract; failures are the errors of `corpusmesh_core.errors`. Calls that change
    nothing twice are tried again when the gateway cannot be reached or asks to wait; every call has a deadline.

    Example:
        ```python
        async with CorpusMeshClient("127.0.0.1:8080", api_key="cm_…") as client:
            handbook = await client.resolve_knowledge_base("handbook")
            found = await client.search([handbook.name], "How long is the notice period?")
        ```

    Attributes:
        knowledge_bases: Calls on knowledge bases and snapshots.
        documents: Calls on documents, versions and originals.
        chunks: Calls on chunks, previews and edits.
        runs: Calls on runs.
        sources: Calls on sources and their syncs.
        conversations: Calls on the caller's conversations.
        research: Researches of questions that one search does not answer.
        evaluation: Calls on golden sets and evaluations.
        ledger: Calls on recorded searches.
        trees: Calls on trees over chunks.
        graphs: Calls on graphs of entities and relations.
        vocabulary: Calls on the tenant's own words.
        admin: Calls on tenants, users and keys.
    """

    def __init__(
        self,
        address: str,
        *,
        api_key: str = "",
        tls: TlsSettings | None = None,
        deadlines: Deadlines | None = None,
        max_attempts: int = 4,
    ) -> None:
        """Create the client inside a running event loop; it connects with the first call.

        Args:
            address: `host:port`, `grpc://host:port` or, with TLS, `grpcs://host:port`.
            api_key: Key `cm_…`.
            tls: TLS settings; given, they switch TLS on for an address without scheme.
            deadlines: How long calls may take; None for the defaults.
            max_attempts: How often a call that changes nothing twice is tried.
        """
        settings = ConnectionSettings(
            address=address,
            api_key=api_key,
            tls=tls,
            deadlines=deadlines or Deadlines(),
            max_attempts=max_attempts,
        )
        self._channel = open_channel(settings)
        self._caller = Caller(self._channel, settings)
        self._retrieval = RetrievalServiceStub(self._channel)
        self._answers = AnswerServiceStub(self._channel)
        self.knowledge_bases = KnowledgeBaseCalls(self._caller)
        self.documents = DocumentCalls(self._caller)
        self.chunks = ChunkCalls(self._caller)
        self.runs = RunCalls(self._caller)
        self.sources = SourceCalls(self._caller)
        self.conversations = ConversationCalls(self._caller)
        self.research = ResearchCalls(self._caller)
        self.evaluation = EvaluationCalls(self._caller)
        self.ledger = LedgerCalls(self._caller)
        self.trees = TreeCalls(self._caller)
        self.graphs = GraphCalls(self._caller)
        self.vocabulary = VocabularyCalls(self._caller)
        self.admin = AdminCalls(self._caller)

    async def __aenter__(self) -> Self:
        """Give the client itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connection."""
        await self.close()

    async def close(self) -> None:
        """Close the connection; calls under way are cancelled."""
        await self._channel.close(None)

    async def resolve_knowledge_base(self, name_or_id: str) -> knowledge_base_service_pb2.KnowledgeBase:
        """Find a knowledge base by name or identifier, else by the name shown to people.

        Args:
            name_or_id: `knowledgeBases/{knowledge_base}`, its identifier, or its display name.

        Returns:
            The knowledge base.
        """
        return await self.knowledge_bases.resolve(name_or_id)

    async def upload(
        self,
        knowledge_base: str,
        items: Sequence[UploadItem],
        *,
        interactive: bool = True,
        hold_publish: bool = False,
        duplicates: "document_service_pb2.Duplicates.ValueType" = document_service_pb2.DUPLICATES_UNSPECIFIED,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> UploadResult:
        """Upload documents in one stream of bounded memory and start the run that makes them searchable.

        Args:
            knowledge_base: `knowledgeBases/{knowledge_base}`.
            items: The documents.
            interactive: Whether somebody waits: the work goes before bulk work.
            hold_publish: Whether to leave the versions ready but unpublished.
            duplicates: What to do with bytes and names that are there already.
            on_progress: Told documents and bytes that were sent so far.

        Returns:
            The run, and what became of every item in its order.
        """
        return await self.documents.upload(
            knowledge_base,
            items,
            interactive=interactive,
            hold_publish=hold_publish,
            duplicates=duplicates,
            on_progress=on_progress,
        )

    def watch_run(self, name: str) -> AsyncIterator[run_service_pb2.Run]:
        """Follow a run until it has ended, over broken connections and restarts of the mesh.

        Args:
            name: `knowledgeBases/*/runs/*`.

        Returns:
            The run at every change; the last one has ended.
        """
        return self.runs.watch(name)

    async def search(
        self,
        knowledge_bases: Sequence[str],
        query: str,
        *,
        plan: retrieval_service_pb2.RetrievalPlan | None = None,
        page_size: int = 0,
        page_token: str = "",
        as_of_snapshots: Sequence[str] = (),
        explain: bool = False,
    ) -> retrieval_service_pb2.SearchChunksResponse:
        """Search knowledge bases.

        Args:
            knowledge_bases: `knowledgeBases/{knowledge_base}`, 1 to 16.
            query: The question or words.
            plan: How to search; None for the defaults.
            page_size: Hits a page; 0 for the mesh's default.
            page_token: `next_page_token` of the page before.
            as_of_snapshots: Snapshots to search instead of the current ones.
            explain: Whether to explain every candidate and stage.

        Returns:
            Hits, best first.
        """
        request = retrieval_service_pb2.SearchChunksRequest(
            knowledge_bases=knowledge_bases,
            query=query,
            plan=plan,
            page_size=page_size,
            page_token=page_token,
            as_of_snapshots=as_of_snapshots,
            explain=explain,
        )
        return await self._caller.unary(
            self._retrieval.SearchChunks, request, timeout_seconds=self._caller.deadlines.search_seconds
        )

    def answer(
        self,
        knowledge_bases: Sequence[str],
        question: str,
        *,
        plan: retrieval_service_pb2.RetrievalPlan | None = None,
        max_evidence_tokens: int = 0,
        model_free: bool = False,
        conversation: str = "",
    ) -> AsyncIterator[answer_service_pb2.AnswerQuestionResponse]:
        """Answer a question: the evidence first, then text as it is made, then the summary with its citations.

        Args:
            knowledge_bases: `knowledgeBases/{knowledge_base}`, at most 16; none for those of the conversation, else for
                those that the router picks.
            question: The question.
            plan: How to search for evidence; None for the defaults.
            max_evidence_tokens: Tokens of evidence; 0 for the mesh's default.
            model_free: Whether to answer without a language model even where one is configured.
            conversation: `conversations/{conversation}` that question and answer are added to; "" for none.

        Returns:
            The pieces of the answer.
        """
        request = answer_service_pb2.AnswerQuestionRequest(
            knowledge_bases=knowledge_bases,
            question=question,
            plan=plan,
            max_evidence_tokens=max_evidence_tokens,
            model_free=model_free,
            conversation=conversation,
            request_id=new_request_id() if conversation else "",
        )
        return self._caller.stream(
            self._answers.AnswerQuestion, request, timeout_seconds=self._caller.deadlines.answer_seconds
        )
