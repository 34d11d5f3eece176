"""Conversations: questions and answers that the caller goes on from."""

from collections.abc import AsyncIterator, Sequence

from corpusmesh.retrieve.v1 import conversation_service_pb2 as pb
from corpusmesh.retrieve.v1.conversation_service_pb2_grpc import ConversationServiceStub
from corpusmesh_client.calls import MAX_PAGE_SIZE, Caller, new_request_id


class ConversationCalls:
    """Calls on the caller's conversations."""

    def __init__(self, caller: Caller) -> None:
        """Create the calls.

        Args:
            caller: Makes them.
        """
        self._caller = caller
        self._stub = ConversationServiceStub(caller.channel)

    async def create(
        self, *, title: str = "", knowledge_bases: Sequence[str] = (), request_id: str | None = None
    ) -> pb.Conversation:
        """Create a conversation.

        Args:
            title: Title for people; "" takes the beginning of the first question.
            knowledge_bases: What is asked where a question names none, `knowledgeBases/{knowledge_base}`.
            request_id: UUID; None to have one made.

        Returns:
            The conversation.
        """
        request = pb.CreateConversationRequest(
            conversation=pb.Conversation(title=title, knowledge_bases=knowledge_bases),
            request_id=request_id or new_request_id(),
        )
        return await self._caller.unary(
            self._stub.CreateConversation, request, timeout_seconds=self._caller.deadlines.write_seconds
        )

    async def get(self, name: str) -> pb.Conversation:
        """Read a conversation.

        Args:
            name: `conversations/{conversation}`.

        Returns:
            The conversation.
        """
        return await self._caller.unary(
            self._stub.GetConversation,
            pb.GetConversationRequest(name=name),
            timeout_seconds=self._caller.deadlines.read_seconds,
        )

    def list(self, *, page_size: int = MAX_PAGE_SIZE) -> AsyncIterator[pb.Conversation]:
        """List the caller's conversations over all pages, the last used first.

        Args:
            page_size: Conversations a page.

        Returns:
            The conversations.
        """

        async def fetch(token: str) -> pb.ListConversationsResponse:
            request = pb.ListConversationsRequest(page_size=page_size, page_token=token)
            return await self._caller.unary(
                self._stub.ListConversations, request, timeout_seconds=self._caller.deadlines.read_seconds
            )

        return self._caller.pages(fetch, lambda page: page.conversations)

    async def delete(self, name: str) -> None:
        """Delete a conversation with its messages.

        Args:
            name: `conversations/{conversation}`.
        """
        await self._caller.unary(
            self._stub.DeleteConversation,
            pb.DeleteConversationRequest(name=name),
            timeout_seconds=self._caller.deadlines.write_seconds,
        )

    def messages(self, parent: str, *, page_size: int = MAX_PAGE_SIZE) -> AsyncIterator[pb.Message]:
        """List the messages of a conversation over all pages, oldest first.

        Args:
            parent: `conversations/{conversation}`.
            page_size: Messages a page.

        Returns:
            The messages.
        """

        async def fetch(token: str) -> pb.ListMessagesResponse:
            request = pb.ListMessagesRequest(parent=parent, page_size=page_size, page_token=token)
            return await self._caller.unary(
                self._stub.ListMessages, request, timeout_seconds=self._caller.deadlines.read_seconds
            )

        return self._caller.pages(fetch, lambda page: page.messages)
