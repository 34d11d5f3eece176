# ruff: noqa: N802 (the contract names its methods)
"""Conversations of the canned gateway: names counted up, messages as the canned answers add them."""

from typing import Any

from corpusmesh.retrieve.v1 import conversation_service_pb2 as pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh.retrieve.v1.conversation_service_pb2_grpc import ConversationServiceServicer
from corpusmesh_core.errors import CorpusMeshError, NotFoundError


class CannedConversations(ConversationServiceServicer):
    def __init__(self, mesh: Any, abort: Any) -> None:
        self.mesh, self._abort = mesh, abort
        self.kept: dict[str, pb.Conversation] = {}
        self.messages: dict[str, list[pb.Message]] = {}

    def add(self, name: str, question: str, answer: str) -> None:
        speakers = retrieval_pb.Turn
        for speaker, text in ((speakers.SPEAKER_USER, question), (speakers.SPEAKER_ASSISTANT, answer)):
            number = len(self.messages[name]) + 1
            self.messages[name].append(pb.Message(name=f"{name}/messages/{number}", speaker=speaker, text=text))
        self.kept[name].message_count += 2
        self.kept[name].title = self.kept[name].title or question

    async def CreateConversation(self, request: Any, context: Any) -> Any:
        name = f"conversations/c{len(self.kept) + 1}"
        made = pb.Conversation(name=name, knowledge_bases=request.conversation.knowledge_bases)
        made.create_time.seconds = made.update_time.seconds = 1_700_000_000
        self.kept[name], self.messages[name] = made, []
        return made

    async def GetConversation(self, request: Any, context: Any) -> Any:
        return await self._found(request.name, context)

    async def ListConversations(self, request: Any, context: Any) -> Any:
        return pb.ListConversationsResponse(conversations=list(self.kept.values()))

    async def DeleteConversation(self, request: Any, context: Any) -> Any:
        await self._found(request.name, context)
        del self.kept[request.name], self.messages[request.name]
        return pb.DeleteConversationResponse()

    async def ListMessages(self, request: Any, context: Any) -> Any:
        await self._found(request.parent, context)
        start = int(request.page_token or 0)
        rest = self.messages[request.parent][start:]
        more = str(start + 2) if len(rest) > 2 else ""
        return pb.ListMessagesResponse(messages=rest[:2], next_page_token=more)

    async def _found(self, name: str, context: Any) -> pb.Conversation:
        if name not in self.kept:
            error: CorpusMeshError = NotFoundError("CONVERSATION_NOT_FOUND", "there is no such conversation")
            await self._abort(context, error)
        return self.kept[name]
