"""Conversations on a real Postgres: whose they are, what comes back once, and what is kept back."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from corpusmesh.retrieve.v1 import answer_service_pb2 as answer_pb
from corpusmesh.retrieve.v1 import conversation_service_pb2 as pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_adapters.postgres import PostgresConversationStore
from corpusmesh_app.stack import StackEndpoints
from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from corpusmesh_core.ports.conversations import ConversationBounds, KeptAnswer
from corpusmesh_core.records import Ordinal, Record, RecordKind
from corpusmesh_core.tenancy import AclEntry, Identity, Permission, Role
from corpusmesh_retrieve.conversing import AnswerOrigin, ConversationHandlers, Conversations, ConversationTools
from corpusmesh_retrieve.conversing.config import ConversationSettings
from corpusmesh_runtime.context import CallContext, current_call
from tests.support.metadata import POSTGRES_DSN, Metadata, fresh_metadata, member, upload

pytestmark = pytest.mark.servers
BOUNDS = ConversationBounds()

if POSTGRES_DSN:

    @pytest.fixture(scope="module")
    def server_dsn() -> str:
        return POSTGRES_DSN
else:

    @pytest.fixture(scope="module")
    def server_dsn(stack_endpoints: StackEndpoints) -> str:
        return stack_endpoints.postgres_dsn


@pytest.fixture(scope="module")
async def metadata(server_dsn: str) -> AsyncIterator[Metadata]:
    async with fresh_metadata(server_dsn) as made:
        yield made


@pytest.fixture
def store(metadata: Metadata) -> PostgresConversationStore:
    return PostgresConversationStore(metadata.database)


@pytest.fixture
def tools(metadata: Metadata, store: PostgresConversationStore) -> ConversationTools:
    return ConversationTools(store, metadata.snapshots, metadata.knowledge_bases, ConversationSettings())


def calling(identity: Identity, request_id: str = "") -> CallContext:
    call = CallContext(identity, request_id or uuid.uuid4().hex, time.monotonic() + 30)
    current_call.set(call)
    return call


def record(ordinal: int, record_id: str = "r") -> Record:
    return Record(record_id, RecordKind.CHUNK, "kb", Ordinal(ordinal), (Ordinal(ordinal),), "text")


def summary(text: str, *record_ids: str, by_model: bool = True) -> answer_pb.AnswerSummary:
    method = answer_pb.AnswerSummary.METHOD_MODEL if by_model else answer_pb.AnswerSummary.METHOD_EXTRACTIVE
    citations = [
        answer_pb.Citation(marker=place, hit=retrieval_pb.SearchHit(record_id=record_id, text=f"of {record_id}"))
        for place, record_id in enumerate(record_ids, start=1)
    ]
    return answer_pb.AnswerSummary(text=text, citations=citations, method=method)


async def say(
    tools: ConversationTools, identity: Identity, name: str, question: str, answer: str, *ordinals: int, **more: Any
) -> tuple[str, ...]:
    """Ask and answer in one go; give the history that the question had."""
    request = answer_pb.AnswerQuestionRequest(
        question=question, conversation=name, request_id=more.get("request_id", "")
    )
    async with Conversations(tools).turn(calling(identity), request, ()) as turn:
        records = {f"r{ordinal}": record(ordinal, f"r{ordinal}") for ordinal in ordinals}
        base = more.get("base", "kb")
        turn.found(AnswerOrigin((base,), records, from_history=more.get("from_history", False)))
        turn.finish(summary(answer, *records))
    return tuple(past.text for past in turn.history)


async def published(metadata: Metadata, owner: Identity, *names: str) -> list[int]:
    """A knowledge base `kb` with documents that are published; their ordinals."""
    await metadata.knowledge_base(owner, "kb")
    result = await metadata.ingest(owner, "kb", [upload(name) for name in names])
    await metadata.work_off(owner.tenant_id)
    ordinals = [version.ordinal for version in result.versions]
    assert set(ordinals) <= await metadata.published(owner, "kb")
    return ordinals


async def test_a_conversation_is_its_users_alone(metadata: Metadata, tools: ConversationTools) -> None:
    owner, foreign = await metadata.tenant(), await metadata.tenant()
    handlers, context = ConversationHandlers(tools), SimpleNamespace()
    viewer = member(owner.tenant_id, "viewer", Role.VIEWER)
    calling(viewer)
    made = await handlers.CreateConversation(pb.CreateConversationRequest(), context)
    await say(tools, viewer, made.name, "a question", "an answer")
    for other in (owner, member(foreign.tenant_id, "viewer", Role.OWNER)):
        calling(other)
        for act in (
            handlers.GetConversation(pb.GetConversationRequest(name=made.name), context),
            handlers.ListMessages(pb.ListMessagesRequest(parent=made.name), context),
            handlers.DeleteConversation(pb.DeleteConversationRequest(name=made.name), context),
            say(tools, other, made.name, "mine?", "no"),
        ):
            with pytest.raises(NotFoundError) as refused:
                await act
            calling(other)
            with pytest.raises(NotFoundError) as unknown:
                await handlers.GetConversation(pb.GetConversationRequest(name="conversations/none"), context)
            assert (refused.value.reason, refused.value.message) == (unknown.value.reason, unknown.value.message)
        assert not (await handlers.ListConversations(pb.ListConversationsRequest(), context)).conversations
    calling(viewer)
    assert (await handlers.GetConversation(pb.GetConversationRequest(name=made.name), context)).message_count == 2
    await handlers.DeleteConversation(pb.DeleteConversationRequest(name=made.name), context)
    async with metadata.database.tenant(owner.tenant_id) as connection:
        assert await connection.fetchval("SELECT count(*) FROM corpusmesh.messages") == 0


async def test_creating_again_with_one_request_id_gives_the_same(metadata: Metadata, tools: ConversationTools) -> None:
    owner = await metadata.tenant()
    handlers = ConversationHandlers(tools)
    calling(owner)
    request = pb.CreateConversationRequest(request_id=str(uuid.uuid4()))
    first, second = await asyncio.gather(
        handlers.CreateConversation(request, None), handlers.CreateConversation(request, None)
    )
    assert first == second
    other = await handlers.CreateConversation(pb.CreateConversationRequest(request_id=str(uuid.uuid4())), None)
    assert other.name != first.name


async def test_knowledge_bases_of_a_conversation_are_those_that_its_user_may_read(
    metadata: Metadata, tools: ConversationTools
) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner, "mine", Permission.PRIVATE)
    request = pb.CreateConversationRequest(conversation=pb.Conversation(knowledge_bases=["knowledgeBases/mine"]))
    calling(member(owner.tenant_id, "viewer", Role.VIEWER))
    with pytest.raises(NotFoundError):
        await ConversationHandlers(tools).CreateConversation(request, None)
    calling(owner)
    made = await ConversationHandlers(tools).CreateConversation(request, None)
    question = answer_pb.AnswerQuestionRequest(question="q", conversation=made.name)
    async with Conversations(tools).turn(calling(owner), question, ()) as turn:
        assert turn.knowledge_base_ids == ("mine",)
    async with Conversations(tools).turn(calling(owner), question, ("other",)) as turn:
        assert turn.knowledge_base_ids == ("other",)


async def test_pages_of_conversations_and_messages_hold_each_once(metadata: Metadata, tools: ConversationTools) -> None:
    owner = await metadata.tenant()
    handlers = ConversationHandlers(tools)
    calling(owner)
    names = [(await handlers.CreateConversation(pb.CreateConversationRequest(), None)).name for _ in range(5)]
    for number in range(3):
        await say(tools, owner, names[0], f"question {number}", f"answer {number}")
    seen, token = [], ""
    while True:
        page = await handlers.ListConversations(pb.ListConversationsRequest(page_size=2, page_token=token), None)
        seen += [conversation.name for conversation in page.conversations]
        if not (token := page.next_page_token):
            break
    assert sorted(seen) == sorted(names)
    assert seen[0] == names[0], "the last used comes first"
    texts, token = [], ""
    while True:
        listed = await handlers.ListMessages(
            pb.ListMessagesRequest(parent=names[0], page_size=4, page_token=token), None
        )
        texts += [message.text for message in listed.messages]
        if not (token := listed.next_page_token):
            break
    assert texts == [f"{kind} {number}" for number in range(3) for kind in ("question", "answer")]
    with pytest.raises(InvalidArgumentError):
        await handlers.ListMessages(
            pb.ListMessagesRequest(parent=names[1], page_token=page.next_page_token or "x"), None
        )


async def test_turns_before_are_the_history_and_a_question_sent_again_is_added_once(
    metadata: Metadata, tools: ConversationTools
) -> None:
    owner = await metadata.tenant()
    calling(owner)
    name = (await ConversationHandlers(tools).CreateConversation(pb.CreateConversationRequest(), None)).name
    assert await say(tools, owner, name, "first", "one", request_id="id-1") == ()
    assert await say(tools, owner, name, "second", "two", request_id="id-2") == ("first", "one")
    assert await say(tools, owner, name, "second", "two again", request_id="id-2") == ("first", "one")
    with pytest.raises(InvalidArgumentError) as reused:
        await say(tools, owner, name, "another", "", request_id="id-2")
    assert reused.value.reason == "REQUEST_ID_REUSED"
    listed = await ConversationHandlers(tools).ListMessages(pb.ListMessagesRequest(parent=name), None)
    assert [message.text for message in listed.messages] == ["first", "one", "second", "two again"]


async def test_without_a_request_id_the_call_names_the_question(metadata: Metadata, tools: ConversationTools) -> None:
    owner = await metadata.tenant()
    calling(owner)
    name = (await ConversationHandlers(tools).CreateConversation(pb.CreateConversationRequest(), None)).name
    request = answer_pb.AnswerQuestionRequest(question="q", conversation=name)
    call = calling(owner)
    for _ in range(2):  # as gRPC sends a call again
        async with Conversations(tools).turn(call, request, ()) as turn:
            turn.finish(summary("a"))
    async with Conversations(tools).turn(calling(owner), request, ()) as turn:
        assert [past.text for past in turn.history] == ["q", "a"]


async def test_a_stream_that_breaks_leaves_the_question_and_what_was_said(
    metadata: Metadata, tools: ConversationTools
) -> None:
    owner = await metadata.tenant()
    calling(owner)
    handlers = ConversationHandlers(tools)
    name = (await handlers.CreateConversation(pb.CreateConversationRequest(), None)).name
    begun = asyncio.Event()
    request = answer_pb.AnswerQuestionRequest(question="long one", conversation=name, request_id="broken")

    async def answer() -> None:
        async with Conversations(tools).turn(calling(owner), request, ()) as turn:
            turn.say("half a ")
            turn.say("sentence")
            begun.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(answer())
    await begun.wait()
    midway = (await handlers.ListMessages(pb.ListMessagesRequest(parent=name), None)).messages
    assert [(message.text, message.partial) for message in midway] == [("long one", False), ("", True)]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    broken = (await handlers.ListMessages(pb.ListMessagesRequest(parent=name), None)).messages
    assert [(message.text, message.partial) for message in broken] == [("long one", False), ("half a sentence", True)]
    await say(tools, owner, name, "long one", "the whole", request_id="broken")
    whole = (await handlers.ListMessages(pb.ListMessagesRequest(parent=name), None)).messages
    assert [(message.text, message.partial) for message in whole] == [("long one", False), ("the whole", False)]


async def test_an_answer_is_kept_back_while_one_of_its_sources_is_not_visible(
    metadata: Metadata, tools: ConversationTools
) -> None:
    owner = await metadata.tenant()
    open_ordinal, closed_ordinal = await published(metadata, owner, "open.txt", "closed.txt")
    viewer = member(owner.tenant_id, "viewer", Role.VIEWER)
    handlers = ConversationHandlers(tools)
    calling(viewer)
    name = (await handlers.CreateConversation(pb.CreateConversationRequest(), None)).name
    await say(tools, viewer, name, "q1", "of one", open_ordinal)
    await say(tools, viewer, name, "q2", "of both", open_ordinal, closed_ordinal)

    async def shown() -> list[tuple[str, bool, int]]:
        calling(viewer)
        listed = await handlers.ListMessages(pb.ListMessagesRequest(parent=name), None)
        return [(message.text, message.withheld, len(message.citations)) for message in listed.messages]

    document = upload("closed.txt").document_id
    assert await shown() == [("q1", False, 0), ("of one", False, 1), ("q2", False, 0), ("of both", False, 2)]
    await metadata.documents.update(owner, "kb", document, acl=[AclEntry("user", "somebody", "allow")])
    assert await shown() == [("q1", False, 0), ("of one", False, 1), ("q2", False, 0), ("", True, 0)]
    assert await say(tools, viewer, name, "q3", "of one again", open_ordinal) == ("q1", "of one", "q2")
    await metadata.documents.update(owner, "kb", document, acl=[])
    assert (await shown())[3] == ("of both", False, 2)


async def test_an_answer_that_a_former_one_had_a_part_in_is_kept_back_with_it(
    metadata: Metadata, tools: ConversationTools
) -> None:
    owner = await metadata.tenant()
    first, second = await published(metadata, owner, "a.txt", "b.txt")
    viewer = member(owner.tenant_id, "viewer", Role.VIEWER)
    calling(viewer)
    handlers = ConversationHandlers(tools)
    name = (await handlers.CreateConversation(pb.CreateConversationRequest(), None)).name
    await say(tools, viewer, name, "who?", "the secret name", first)
    await say(tools, viewer, name, "and she?", "repeats the secret name", second, from_history=True)
    await metadata.knowledge_base(owner, "other")
    await say(tools, viewer, name, "again?", "and again the name", from_history=True, base="other")
    calling(viewer)
    before = await handlers.ListMessages(pb.ListMessagesRequest(parent=name), None)
    assert not any(message.withheld for message in before.messages)
    await metadata.documents.update(
        owner, "kb", upload("a.txt").document_id, acl=[AclEntry("user", "somebody", "allow")]
    )
    calling(viewer)
    listed = await handlers.ListMessages(pb.ListMessagesRequest(parent=name), None)
    assert [message.withheld for message in listed.messages] == [False, True, False, True, False, True]


async def test_an_answer_of_a_document_that_is_deleted_meanwhile_is_not_kept(
    metadata: Metadata, store: PostgresConversationStore, tools: ConversationTools
) -> None:
    owner = await metadata.tenant()
    (ordinal,) = await published(metadata, owner, "a.txt")
    await store.create(owner, "c", title="", knowledge_base_ids=(), bounds=BOUNDS)
    accepted = await store.accept(owner, "c", "q", "r", BOUNDS)
    await metadata.documents.delete(owner, "kb", [upload("a.txt").document_id], "", {})
    await store.keep_answer(
        owner, "c", accepted.position + 1, KeptAnswer("text", ({"marker": 1},), ("kb",), (ordinal,))
    )
    calling(owner)
    listed = await ConversationHandlers(tools).ListMessages(pb.ListMessagesRequest(parent="conversations/c"), None)
    answer = listed.messages[1]
    assert (answer.text, answer.erased, answer.withheld, len(answer.citations)) == ("", True, False, 0)
    async with metadata.database.tenant(owner.tenant_id) as connection:
        kept = await connection.fetchrow("SELECT text, citations FROM corpusmesh.messages WHERE position = 1")
    assert kept is not None
    assert (kept["text"], kept["citations"]) == ("", [])


async def test_bounds_are_refused_and_questions_at_once_get_places_of_their_own(
    metadata: Metadata, store: PostgresConversationStore
) -> None:
    owner = await metadata.tenant()
    bounds = replace(BOUNDS, max_conversations=1, max_messages=4)
    await store.create(owner, "c", title="", knowledge_base_ids=(), bounds=bounds)
    with pytest.raises(FailedPreconditionError) as many:
        await store.create(owner, "d", title="", knowledge_base_ids=(), bounds=bounds)
    assert many.value.reason == "CONVERSATIONS_TOO_MANY"
    places = await asyncio.gather(*(store.accept(owner, "c", f"q{n}", f"r{n}", bounds) for n in range(2)))
    assert sorted(place.position for place in places) == [0, 2]
    with pytest.raises(FailedPreconditionError) as full:
        await store.accept(owner, "c", "q", "r9", bounds)
    assert full.value.reason == "CONVERSATION_FULL"
    with pytest.raises(NotFoundError):
        await store.accept(replace(owner, user_id="viewer"), "c", "q", "r", bounds)


async def test_a_text_that_postgres_cannot_hold_does_not_cost_the_answer(
    metadata: Metadata, tools: ConversationTools
) -> None:
    owner = await metadata.tenant()
    calling(owner)
    handlers = ConversationHandlers(tools)
    name = (await handlers.CreateConversation(pb.CreateConversationRequest(), None)).name
    request = answer_pb.AnswerQuestionRequest(question="q", conversation=name)
    async with Conversations(tools).turn(calling(owner), request, ()) as turn:
        turn.finish(summary("a\x00b", "r\x001"))
    answer = (await handlers.ListMessages(pb.ListMessagesRequest(parent=name), None)).messages[1]
    assert (answer.text, answer.partial, answer.citations[0].hit.record_id) == ("ab", False, "r1")
