"""Field reports about questions and answers (FR-A12, FR-A14), and a mesh whose embedding model is away."""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator

import pytest

from corpusmesh.ingest.v1 import run_service_pb2 as run_pb
from corpusmesh.retrieve.v1 import answer_service_pb2 as answer_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_client import CorpusMeshClient, Deadlines, UploadItem
from corpusmesh_core.errors import CorpusMeshError, InvalidArgumentError, UnavailableError
from tests.support.mesh import MeshHarness, TestTenant, ingest_texts, knowledge_base
from tests.support.mesh_probes import until
from tests.support.stub_chat import AnswerFromEvidence, BreakOff, Never, Refuse, Say, StubChat

EVIDENCE = re.compile(r"<<<(DATA-[0-9a-f]+) ID: (\d+) \|[^\n]*\n(.*?)\n\1>>>", re.DOTALL)
MARKER = re.compile(r"\[ID:(\d+)\]")
QUESTION = "Which animal guards which gate of the town?"
ANIMALS = ("heron", "badger", "otter", "falcon", "marten", "lynx", "weasel", "stoat", "polecat", "bittern")
MODEL_SECONDS = 3
ENGINE_WORDS = ("exception", "opensearch", "parse_error", "query_shard", "lucene", "Traceback")


async def ask(client: CorpusMeshClient, base: str, question: str = QUESTION) -> tuple[list[str], "Answer"]:
    """Give the streamed pieces of text and everything together."""
    pieces = [piece async for piece in client.answer([base], question)]
    assert pieces[0].HasField("evidence")
    assert pieces[-1].HasField("summary")
    return [piece.text_delta for piece in pieces[1:-1]], Answer(pieces[0].evidence, pieces[-1].summary)


class Answer:
    """The evidence and the summary of an answer."""

    def __init__(self, evidence: answer_pb.EvidenceList, summary: answer_pb.AnswerSummary) -> None:
        self.texts = {entry.marker: entry.hit.text for entry in evidence.evidence}
        self.records = {entry.marker: entry.hit.record_id for entry in evidence.evidence}
        self.summary = summary


@pytest.fixture(scope="module")
async def town(distributed_mesh: MeshHarness) -> tuple[TestTenant, str]:
    """Ten documents that all speak of the same thing, each with a name of its own in it."""
    tenant = await distributed_mesh.tenant()
    async with distributed_mesh.client(tenant.owner_key) as client:
        base = await knowledge_base(client)
        await ingest_texts(
            client,
            base.name,
            {
                f"{name}.md": f"The animal that guards gate {name.upper()} of the town is the {name}."
                for name in ANIMALS
            },
        )
    return tenant, base.name


class CiteOutOfOrder(AnswerFromEvidence):
    """Cites evidence 0, 4, 5, 1 and 7, one of them twice, one that does not exist, and two in one sentence."""

    def text(self, prompt: str) -> str:
        found = EVIDENCE.findall(prompt)

        def fact(place: int) -> str:
            _, label, text = found[place]
            return f"{text.strip().rstrip('.')} [ID:{label}]"

        assert "99" not in {label for _, label, _ in found}
        first, second = fact(1), fact(7)
        return f"{fact(0)}. {fact(4)}. {fact(5)}. {fact(0)}. Nothing says this [ID:99]. {first}, and {second}."


@pytest.fixture(scope="module")
async def chat(distributed_mesh: MeshHarness) -> AsyncIterator[StubChat]:
    """A language model for the retrieve service."""
    with StubChat([CiteOutOfOrder()]) as stub:
        await distributed_mesh.restart(
            "retrieve",
            {
                "CORPUSMESH_CHAT__URL": stub.base_url,
                "CORPUSMESH_CHAT__MODEL": "stub",
                "CORPUSMESH_CHAT__DEADLINE_SECONDS": str(MODEL_SECONDS),
            },
        )
        try:
            yield stub
        finally:
            await distributed_mesh.restart("retrieve")


async def test_fr_a14_every_marker_leads_to_the_text_that_supports_it(
    mesh: MeshHarness, town: tuple[TestTenant, str], chat: StubChat
) -> None:
    tenant, base = town
    chat.behaviours = [CiteOutOfOrder()]
    async with mesh.client(tenant.owner_key) as client, asyncio.timeout(120):
        deltas, answer = await ask(client, base)
        again_deltas, again = await ask(client, base)
    for pieces, one in ((deltas, answer), (again_deltas, again)):
        summary = one.summary
        assert "".join(pieces) == summary.text, "the stream and its summary say the same"
        assert len(pieces) > 3, "it came as it was made"
        assert summary.method == answer_pb.AnswerSummary.METHOD_MODEL
        assert summary.dropped_marker_count == 1
        assert "[ID:99]" not in summary.text
        sentences = re.findall(r"The animal that guards gate (\w+)[^\[]*((?:\[ID:\d+\])+)", summary.text)
        assert len(sentences) == 6
        for gate, markers in sentences:
            for marker in map(int, MARKER.findall(markers)):
                assert f"gate {gate} " in one.texts[marker]
        order = list(dict.fromkeys(map(int, MARKER.findall(summary.text))))
        places = [list(one.texts).index(marker) for marker in order]
        assert places == [0, 4, 5, 1, 7]
        assert [citation.marker for citation in summary.citations] == order, "in order of first use, each once"
        for citation in summary.citations:
            assert citation.hit.record_id == one.records[citation.marker]
            assert citation.hit.text == one.texts[citation.marker]
    assert set(answer.texts) != set(again.texts), "markers are drawn anew for every request"


async def test_fr_a14_the_markers_of_a_repeated_question_lead_to_the_same_records(
    mesh: MeshHarness, town: tuple[TestTenant, str], chat: StubChat
) -> None:
    tenant, base = town
    chat.behaviours = [CiteOutOfOrder()]
    async with mesh.client(tenant.owner_key) as client, asyncio.timeout(120):
        answers = [(await ask(client, base))[1] for _ in range(3)]
    cited = [[citation.hit.record_id for citation in answer.summary.citations] for answer in answers]
    assert cited[0] == cited[1] == cited[2]


@pytest.mark.parametrize(
    ("behaviour", "method", "note"),
    [
        (Never(), answer_pb.AnswerSummary.METHOD_EXTRACTIVE, "did not answer"),
        (Refuse(400), answer_pb.AnswerSummary.METHOD_EXTRACTIVE, "did not answer"),
        (Say(""), answer_pb.AnswerSummary.METHOD_EXTRACTIVE, "empty answer"),
        (BreakOff("The heron guards one gate"), answer_pb.AnswerSummary.METHOD_MODEL, "broke off"),
        (
            Say("The heron guards one gate, and so on and on. " * 20, pause_seconds=0.2),
            answer_pb.AnswerSummary.METHOD_MODEL,
            "broke off",
        ),
    ],
    ids=["never", "refuses", "empty", "breaks off", "slow"],
)
async def test_a_bad_model_costs_its_answer_and_not_the_question(
    mesh: MeshHarness,
    town: tuple[TestTenant, str],
    chat: StubChat,
    behaviour: Never | Refuse | Say | BreakOff,
    method: "answer_pb.AnswerSummary.Method.ValueType",
    note: str,
) -> None:
    tenant, base = town
    chat.behaviours = [behaviour]
    async with mesh.client(tenant.owner_key) as client, asyncio.timeout(120):
        deltas, answer = await ask(client, base, "Which animal guards gate HERON?")
    summary = answer.summary
    assert any(note in entry for entry in summary.notes), summary.notes
    assert summary.method == method
    is_placed = any("placed by similarity" in entry for entry in summary.notes)
    # Citations that the model did not make are put in before the sentence is shown.
    assert "".join(deltas) == summary.text
    assert is_placed == (method == answer_pb.AnswerSummary.METHOD_MODEL)
    assert "heron" in summary.text
    if method == answer_pb.AnswerSummary.METHOD_EXTRACTIVE:
        assert summary.citations[0].hit.place.display_name == "heron.md"
    for citation in summary.citations:
        assert f"[ID:{citation.marker}]" in summary.text


async def test_a_question_without_model_asks_none(
    mesh: MeshHarness, town: tuple[TestTenant, str], chat: StubChat
) -> None:
    tenant, base = town
    before = len(chat.requests)
    async with mesh.client(tenant.owner_key) as client, asyncio.timeout(120):
        pieces = [piece async for piece in client.answer([base], "Which animal guards gate LYNX?", model_free=True)]
    assert pieces[-1].summary.method == answer_pb.AnswerSummary.METHOD_EXTRACTIVE
    assert len(chat.requests) == before


QUERIES = (
    "C++",
    "a+b",
    "+",
    "what (is",
    "AND OR NOT",
    "tenant:other",
    "path/to?",
    '100% "quoted',
    "~",
    "\\",
    "fuzzy~2 boost^3 [1 TO 5] {x TO y} field:(a OR b) /re.*gex/ wild* ca?d",
    "   ?!  ",
    "\u0000null\u202ebidi",
    "word " * 2_000,
)


async def test_fr_a12_no_question_is_query_syntax(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client, asyncio.timeout(120):
        base = await knowledge_base(client)
        await ingest_texts(
            client,
            base.name,
            {
                "cpp.md": "C++ is a language that compiles to machine code and knows templates.",
                "garden.md": "The garden has a pond, and the tenant of the house feeds its fish.",
                "logic.md": "The words AND, OR and NOT join two sentences of logic.",
            },
        )
        for query in QUERIES:
            for mode in (retrieval_pb.SEARCH_MODE_HYBRID, retrieval_pb.SEARCH_MODE_LEXICAL):
                plan = retrieval_pb.RetrievalPlan(mode=mode)
                found = await client.search([base.name], query, plan=plan, explain=True)
                assert not any(word in str(found.explanation.notes) for word in ENGINE_WORDS), query
        for query in ("C++", "what (is", "   ?!  ", "\u0000null\u202ebidi"):
            pieces = [piece async for piece in client.answer([base.name], query)]
            assert pieces[-1].HasField("summary"), query
        assert (await client.search([base.name], "C++")).hits[0].place.display_name == "cpp.md"
        assert (await client.search([base.name], "AND OR NOT")).hits[0].place.display_name == "logic.md"
        lexical = retrieval_pb.RetrievalPlan(mode=retrieval_pb.SEARCH_MODE_LEXICAL)
        found = await client.search([base.name], "garden NOT pond", plan=lexical)
        assert found.hits[0].place.display_name == "garden.md", "NOT is a word, not an operator"
        with pytest.raises(InvalidArgumentError) as raised:
            await client.search([base.name], "word " * 10_000)
        assert (raised.value.reason, raised.value.metadata["limit"]) == ("QUERY_TOO_LONG", "40000")


@contextlib.asynccontextmanager
async def frozen(mesh: MeshHarness, name: str) -> AsyncIterator[None]:
    """Stop a process without ending it."""
    os.kill(mesh.processes[name].pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(mesh.processes[name].pid, signal.SIGCONT)


async def test_search_goes_on_lexically_while_the_embedding_model_is_away(
    mesh: MeshHarness, town: tuple[TestTenant, str]
) -> None:
    tenant, base = town
    vector = retrieval_pb.RetrievalPlan(mode=retrieval_pb.SEARCH_MODE_VECTOR)
    async with mesh.client(tenant.owner_key) as client, asyncio.timeout(240):
        assert list((await client.search([base], QUESTION)).unreachable) == []
        mesh.kill("embed")
        try:
            found = await client.search([base], "heron gate", explain=True)
            assert list(found.unreachable) == ["vector"]
            assert found.hits[0].place.display_name == "heron.md"
            assert any("full-text search alone" in note for note in found.explanation.notes)
            with pytest.raises(UnavailableError):
                await client.search([base], "heron gate", plan=vector)
            pieces = [piece async for piece in client.answer([base], "Which animal guards gate HERON?")]
            assert "heron" in pieces[-1].summary.text
            assert any("full-text search alone" in note for note in pieces[-1].summary.notes)

            upload = await client.upload(base, [UploadItem("new.md", b"The newt guards no gate at all.")])

            async def waits_for_the_model() -> bool:
                run = await client.runs.get(upload.run)
                done = {stage.stage: stage.done_count for stage in run.stages}
                return run.state == run_pb.Run.STATE_RUNNING and done.get("chunk") == 1

            await until(waits_for_the_model, "the document has come to the embedder's door")
        finally:
            mesh.spawn("embed")
            await mesh.ready("embed")
        ended = await client.runs.wait(upload.run)
        assert (ended.succeeded_count, ended.failed_count) == (1, 0), "it was waited for, not failed"

        async def is_hybrid_again() -> bool:
            return not (await client.search([base], "newt")).unreachable

        await until(is_hybrid_again, "searches use the model again without a restart")


async def test_a_frozen_embedding_model_costs_a_part_of_the_time_and_not_the_search(
    mesh: MeshHarness, town: tuple[TestTenant, str]
) -> None:
    tenant, base = town
    patience = Deadlines(search_seconds=10.0)
    async with CorpusMeshClient(mesh.grpc_address, api_key=tenant.owner_key, deadlines=patience) as client:
        async with frozen(mesh, "embed"):
            found = await client.search([base], "heron gate")
            assert list(found.unreachable) == ["vector"]
            assert found.hits[0].place.display_name == "heron.md"

        async def is_hybrid_again() -> bool:
            with contextlib.suppress(CorpusMeshError):
                return not (await client.search([base], "heron gate")).unreachable
            return False

        await until(is_hybrid_again, "searches use the model again")
