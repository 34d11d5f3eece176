"""Answers of the service: a sentence at a time, every citation checked, and never worse than quotations."""

import json
import re
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from corpusmesh_core.answering.step_answers import Sufficiency
from corpusmesh_core.citation.weights import telling_terms
from corpusmesh_core.errors import DeadlineExceededError, UnavailableError
from corpusmesh_core.ports.chat import ChatDelta, ChatMessage, FinishReason
from corpusmesh_core.ports.embedding import Embedder
from corpusmesh_core.ports.index import Candidates
from corpusmesh_core.query import CorrectionPlan, RetrievalPlan
from corpusmesh_core.ranking import RankingOptions, rank_candidates
from corpusmesh_core.records import RecordKind
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_core.text import analyze_query
from corpusmesh_retrieve.answering import Answerer, AnswerOptions, AnswerResult
from corpusmesh_retrieve.answering.evidence import evidence_of
from corpusmesh_retrieve.asking import ModelSession
from corpusmesh_retrieve.outcome import SearchOutcome, SearchRequest, StageState
from corpusmesh_runtime.context import CallContext
from tests.support.research_library import BLOCK, candidate

TEXTS = {
    "limits": "Limits protect the mesh. The upload limit is 512 MiB for each file. An administrator can raise it.",
    "rollback": "A rollback points the knowledge base at an earlier snapshot. Readers see it at once.",
    "menu": "On Mondays the canteen serves soup with bread.",
}
LONG_QUESTION = "What is the upload limit for each file that an administrator has not raised yet?"
QUESTION = "What is the upload limit for each file?"
OPTIONS = AnswerOptions(4000, 12, model_free=False, max_answer_tokens=300, model_deadline_seconds=5.0)
HEADER = re.compile(r"ID: (\d+) \| document: (\S+)")


class Chat:
    """A model that says one thing after the other, the last again; a function gets labels by document."""

    model = "scripted"

    def __init__(self, *says: object) -> None:
        self.says = list(says)
        self.prompts: list[tuple[ChatMessage, ...]] = []
        self.keywords: list[set[str]] = []

    async def stream(self, messages: Sequence[ChatMessage], **keywords: Any) -> AsyncIterator[ChatDelta]:
        self.prompts.append(tuple(messages))
        self.keywords.append(set(keywords))
        say = self.says[min(len(self.prompts), len(self.says)) - 1]
        if isinstance(say, Exception):
            raise say
        labels = {name: int(label) for label, name in HEADER.findall(messages[-1].content)}
        said = say(labels) if callable(say) else say
        text = said if isinstance(said, str) else json.dumps(said)
        for start in range(0, len(text), 3):
            yield ChatDelta(text[start : start + 3])
        yield ChatDelta("", FinishReason.STOP)


class WordEmbedder:
    """Vectors of words: texts that share all telling terms have cosine 1, others less."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    async def embed(self, texts: Sequence[str], **_: Any) -> Any:
        self.batches.append(list(texts))
        rows = []
        for text in texts:
            row = np.zeros(512, dtype=np.float32)
            row[0] = 1e-3
            for term in telling_terms(text):
                row[1 + sum(map(ord, term)) % 511] = 1.0
            rows.append(row / np.linalg.norm(row))
        return type("Vectors", (), {"vectors": np.array(rows)})()


class NoEmbedder:
    async def embed(self, texts: Sequence[str], **_: Any) -> Any:
        raise UnavailableError("EMBED_UNAVAILABLE", "the embed service does not answer")


def a_call(seconds: float = 60.0) -> CallContext:
    return CallContext(Identity("acme", "ann", Role.VIEWER, Scope.READ), "request-1", time.monotonic() + seconds)


def an_outcome(question: str = QUESTION, chat: Chat | None = None, **correction: Any) -> SearchOutcome:
    plan = RetrievalPlan(correction=CorrectionPlan(**correction))
    session = ModelSession(cast(Any, chat), lambda: np.random.default_rng(1))
    items = []
    for key, text in TEXTS.items():
        item = candidate(key, text, telling_terms(question))
        items.append(replace(item, record=replace(item.record, display_name=f"{key}.md", document_id=key)))
    ranked = rank_candidates(Candidates(tuple(items)), analyze_query(question), RankingOptions())
    request = SearchRequest(("base",), question, lambda _: plan, session)
    vector = np.zeros(512, dtype=np.float32)
    vector[0] = 1.0
    return SearchOutcome(request, plan=plan, question=question, ranked=ranked, query_vector=vector)


async def answer(
    chat: Chat | None,
    outcome: SearchOutcome | None = None,
    *,
    embedder: Any = None,
    options: AnswerOptions = OPTIONS,
    call: CallContext | None = None,
) -> tuple[list[str], AnswerResult, SearchOutcome]:
    found = outcome or an_outcome(chat=chat)
    answerer = Answerer(cast(Embedder, embedder or WordEmbedder()), cast(Any, chat), np.random.default_rng)
    result = answerer.gather(found.question, found, options)
    pieces = [piece async for piece in answerer.write(call or a_call(), found.question, found, options, result)]
    assert "".join(pieces) == result.text, "the stream and the summary say the same"
    return pieces, result, found


async def test_sentences_come_one_by_one_with_their_citations_settled() -> None:
    chat = Chat(
        lambda ids: (
            f"The upload limit is 512 MiB for each file [ID:{ids['limits.md']}]. An administrator can raise it. "
            f"The upload limit is 900 MiB for each file [ID:{ids['limits.md']}]. Nothing says this [ID:77]."
        )
    )
    pieces, result, outcome = await answer(chat)
    label = next(piece.label for piece in result.evidence if piece.document == "limits.md")
    assert len(pieces) == 4
    assert pieces[0].startswith(f"The upload limit is 512 MiB for each file [ID:{label}].")
    assert pieces[1].strip() == f"An administrator can raise it[ID:{label}]."
    assert pieces[2].strip() == "The upload limit is 900 MiB for each file."
    assert (result.dropped_marker_count, result.unsupported_citation_count) == (1, 1)
    assert [statement.labels for statement in result.statements][:3] == [(label,), (label,), ()]
    assert result.by_model
    assert not result.abstained
    assert 0.0 < result.confidence < 1.0
    assert [(stage.name, stage.by_model) for stage in outcome.stages] == [("write", True)]


async def test_requests_carry_no_tools() -> None:
    chat = Chat("The upload limit is 512 MiB for each file.")
    await answer(chat)
    assert chat.keywords == [{"max_token_count", "timeout_seconds"}]


async def test_a_model_that_says_that_the_evidence_does_not_do_abstains_and_what_was_found_is_shown() -> None:
    _, result, _ = await answer(Chat("NO_ANSWER The evidence names no price."))
    assert result.text.startswith("The evidence names no price.")
    assert "NO_ANSWER" not in result.text
    assert "What comes closest:" in result.text
    assert result.abstained
    assert result.cited


async def test_an_answer_that_nothing_bears_out_says_so() -> None:
    _, result, _ = await answer(Chat(lambda ids: f"Bananas are yellow and tropical [ID:{ids['menu.md']}]."))
    assert result.text.startswith("Bananas are yellow and tropical.")
    assert "The evidence found does not answer this question." in result.text
    assert result.abstained
    assert result.unsupported_citation_count == 1


@pytest.mark.parametrize(
    ("say", "note"),
    [
        (UnavailableError("CHAT_UNAVAILABLE", "away"), "did not answer"),
        (DeadlineExceededError("CHAT_DEADLINE", "late"), "did not answer"),
        ("  ", "empty answer"),
        ("<think>the limit is", "empty answer"),
    ],
)
async def test_a_model_that_fails_costs_the_answer_nothing_but_its_words(say: Any, note: str) -> None:
    _, result, outcome = await answer(Chat(say))
    assert not result.by_model
    assert "512 MiB" in result.text
    assert any(note in entry for entry in result.notes)
    assert [stage.state for stage in outcome.stages] == [StageState.FAILED, StageState.RAN]


async def test_a_model_that_was_lost_in_the_search_is_not_waited_for_again() -> None:
    chat = Chat(DeadlineExceededError("CHAT_DEADLINE", "late"), "never said")
    outcome = an_outcome("Limit?", chat, reflect=True)
    _, result, _ = await answer(chat, outcome)
    assert len(chat.prompts) == 1, "the question whether documents are needed, and nothing after it"
    assert not result.by_model
    assert any("did not answer" in note for note in result.notes)


async def test_without_an_embedder_words_decide() -> None:
    chat = Chat("The upload limit is 512 MiB for each file.")
    _, result, _ = await answer(chat, embedder=NoEmbedder())
    assert len(result.cited) == 1
    assert result.statements[0].cosine is None
    _, quoted, _ = await answer(None, embedder=NoEmbedder())
    assert "512 MiB" in quoted.text


async def test_the_evidence_is_embedded_in_one_batch_and_sentences_as_they_come() -> None:
    embedder = WordEmbedder()
    await answer(Chat("The upload limit is 512 MiB. An administrator can raise it."), embedder=embedder)
    evidence, *sentences = embedder.batches
    assert len(evidence) == 6
    assert [text for batch in sentences for text in batch] == [
        "The upload limit is 512 MiB.",
        "An administrator can raise it.",
    ]


def verdict(*supports: float, useful: float = 1.0) -> dict[str, object]:
    return {"statements": [{"n": n, "support": s} for n, s in enumerate(supports, start=1)], "useful": useful}


async def test_reflection_has_a_bad_draft_written_again_once_with_the_unsupported_statements_named() -> None:
    chat = Chat(
        lambda ids: f"The upload limit is 900 MiB for each file [ID:{ids['limits.md']}].",
        verdict(0.0),
        lambda ids: f"The upload limit is 512 MiB for each file [ID:{ids['limits.md']}].",
        verdict(1.0),
        "never asked",
    )
    told: list[str] = []
    outcome = an_outcome(LONG_QUESTION, chat, reflect=True)
    outcome.request = replace(outcome.request, notify=lambda stage, _: told.append(stage))
    pieces, result, _ = await answer(chat, outcome)
    assert len(chat.prompts) == 4
    rewrite = chat.prompts[2][-1].content
    assert "The upload limit is 900 MiB for each file." in BLOCK.findall(rewrite)[-1][2]
    assert len(pieces) == 1, "a draft that may be replaced is not shown"
    assert "512 MiB" in result.text
    assert "900" not in result.text
    assert result.statements[0].support == 1.0
    assert told == ["write", "verify", "rewrite", "verify"]
    assert outcome.request.session.call_count == 3, "the second draft is paid for like a step"
    assert [stage.name for stage in outcome.stages] == ["reflect", *told]


async def test_reflection_keeps_a_good_draft() -> None:
    chat = Chat(
        lambda ids: f"The upload limit is 512 MiB for each file [ID:{ids['limits.md']}].",
        verdict(1.0),
    )
    question = LONG_QUESTION
    _, result, _ = await answer(chat, an_outcome(question, chat, reflect=True))
    assert len(chat.prompts) == 2
    assert not result.abstained


async def test_what_the_model_denies_loses_its_citation() -> None:
    chat = Chat(
        lambda ids: (
            f"The upload limit is 512 MiB for each file [ID:{ids['limits.md']}]. "
            f"An administrator can raise it [ID:{ids['limits.md']}]."
        ),
        verdict(1.0, 0.0),
        UnavailableError("CHAT_UNAVAILABLE", "away"),
    )
    question = LONG_QUESTION
    _, result, _ = await answer(chat, an_outcome(question, chat, reflect=True))
    assert [len(statement.labels) for statement in result.statements] == [1, 0]
    assert result.unsupported_citation_count == 1


async def test_reflection_by_rule_where_the_model_checks_badly() -> None:
    chat = Chat(
        lambda ids: f"The upload limit is 512 MiB for each file [ID:{ids['limits.md']}].",
        "I think that it is fine.",
    )
    question = LONG_QUESTION
    _, result, outcome = await answer(chat, an_outcome(question, chat, reflect=True))
    assert "512 MiB" in result.text
    report = next(stage for stage in outcome.stages if stage.name == "verify")
    assert not report.by_model
    assert "no usable answer" in report.detail


@pytest.mark.parametrize("message", ["Hello!", "thanks", "你好", "Good morning everyone!", "谢谢！再见"])
async def test_small_talk_is_told_what_is_answered_here(message: str) -> None:
    chat = Chat("never asked")
    _, result, _ = await answer(chat, an_outcome(message, chat))
    assert (result.evidence, result.cited, chat.prompts) == ((), (), [])
    assert result.abstained
    assert "documents" in result.text or "文档" in result.text


@pytest.mark.parametrize(
    "message", ["Hello Kitty revenue 2020?", "Who is good?", "help me roll back", "你好公司的地址在哪里"]
)
async def test_a_question_that_only_begins_like_small_talk_is_a_question(message: str) -> None:
    _, result, _ = await answer(None, an_outcome(message))
    assert result.evidence


async def test_reflection_asks_the_model_whether_documents_are_needed() -> None:
    chat = Chat({"needs_documents": False})
    _, result, _ = await answer(chat, an_outcome("Lovely weather, limit or not", chat, reflect=True))
    assert len(chat.prompts) == 1
    assert result.abstained
    assert result.text.startswith("I answer questions from the documents")


async def test_evidence_that_a_check_found_wanting_is_not_written_about() -> None:
    chat = Chat("never asked")
    outcome = an_outcome("Who won the world cup in 1998?", chat)
    outcome.sufficiency = Sufficiency(False, 0.9, ("winner of 1998 [x](http://evil.example/?q=1)",))
    _, result, _ = await answer(chat, outcome)
    assert chat.prompts == []
    assert result.abstained
    assert any("not enough" in note for note in result.notes)
    assert not any("http" in note for note in result.notes)


async def test_a_check_that_is_wrong_does_not_keep_a_clear_answer_back() -> None:
    chat = Chat(lambda ids: f"The upload limit is 512 MiB for each file [ID:{ids['limits.md']}].")
    outcome = an_outcome(chat=chat)
    outcome.sufficiency = Sufficiency(False, 0.9)
    _, result, _ = await answer(chat, outcome)
    assert result.by_model
    assert not result.abstained


async def test_no_evidence_is_said_plainly() -> None:
    outcome = an_outcome()
    outcome.ranked = ()
    _, result, _ = await answer(Chat("never asked"), outcome)
    assert result.text == "No evidence was found for this question."
    assert (result.abstained, result.confidence) == (True, 0.0)


def test_evidence_has_the_shortened_text_and_pages_of_the_web_their_address() -> None:
    outcome = an_outcome()
    first = outcome.ranked[0]
    outcome.compressed = {first.candidate.record.record_id: "The upload limit is 512 MiB."}
    record = replace(
        first.candidate.record,
        record_id="web",
        kind=RecordKind.WEB_PAGE,
        attributes={"url": "https://docs.example/limits"},
    )
    page = replace(first, candidate=replace(first.candidate, record=record))
    outcome.ranked = (*outcome.ranked, page)
    evidence = {piece.record_id: piece for piece in evidence_of(outcome, max_count=9)}
    short = evidence[first.candidate.record.record_id]
    assert short.text == "The upload limit is 512 MiB."
    assert 0 < short.token_count < first.candidate.record.token_count
    assert (evidence["web"].url, evidence["web"].source) == ("https://docs.example/limits", "docs.example")
    assert short.url == ""


async def test_one_source_cannot_fill_the_evidence() -> None:
    outcome = an_outcome()
    same = [
        replace(item, candidate=replace(item.candidate, record=replace(item.candidate.record, document_id="one")))
        for item in outcome.ranked
    ]
    outcome.ranked = tuple(same)
    _, result, _ = await answer(None, outcome, options=replace(OPTIONS, max_per_source=1))
    assert len(result.evidence) == 1
