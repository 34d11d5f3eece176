"""The cross-encoder behind the embed service: a real ONNX model and real endpoints, over gRPC; bounds and refusals."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from corpusmesh_adapters.models.rerank_http import HttpRerankBackend, RerankEndpoint
from corpusmesh_adapters.models.rerank_onnx import OnnxRerankBackend
from corpusmesh_adapters.peers import GrpcEmbedder
from corpusmesh_app.backends import rerank_backend
from corpusmesh_app.settings import MeshSettings
from corpusmesh_core.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    OverloadedError,
    UnavailableError,
)
from corpusmesh_core.ports.embedding import EmbeddingSpace, EmbedResult, EmbedRole
from corpusmesh_core.ports.reranking import MAX_PASSAGE_BYTES, RerankBackend, RerankModel
from corpusmesh_embed.config import EmbedSettings, RerankEndpointSettings
from corpusmesh_embed.module import EMBED_SERVICE_NAMES, EmbedService
from corpusmesh_embed.reranking import RerankEngine
from corpusmesh_runtime.channel import open_channel
from corpusmesh_runtime.config import ServerSettings
from corpusmesh_runtime.identity import IdentitySigner, service_identity
from corpusmesh_runtime.policy import rules_of
from tests.support.rerank_model import StubReranker, write_rerank_model

SERVER = ServerSettings(drain_grace_seconds=2.0, max_receive_message_bytes=20 * 1024 * 1024)
QUESTION = "why mysql range query"
PASSAGES = ["cat dog soup", "mysql index tree leaf page range query", "salt recipe query", "mysql"]


class FlatBackend:
    """A text model of one number, which these tests do not ask."""

    space = EmbeddingSpace("flat", 1, True, "0")
    max_input_tokens = 64
    prefix_tokens = 2

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts]

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return [(index, index + 1) for index in range(len(text))]

    def encode(self, texts: Sequence[str], *, role: EmbedRole) -> EmbedResult:
        return EmbedResult(np.ones((len(texts), 1), np.float32), len(texts))


class GatedReranker:
    """A cross-encoder whose gate a test opens."""

    model = RerankModel("gated", 32, "0")
    max_batch_passages = 1

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.begun = threading.Event()
        self.seen: list[str] = []

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float32]:
        self.seen.extend(passages)
        self.begun.set()
        assert self.gate.wait(60)
        return np.full(len(passages), 0.5, np.float32)


@asynccontextmanager
async def running(reranker: RerankBackend | None) -> AsyncIterator[GrpcEmbedder]:
    signer = IdentitySigner(["ab" * 32])
    async with EmbedService(EmbedSettings(server=SERVER), FlatBackend(), signer, rerank_backend=reranker) as service:
        channel = open_channel(
            f"127.0.0.1:{service.port}",
            rules=rules_of(EMBED_SERVICE_NAMES).values(),
            signer=signer,
            identity=lambda: service_identity("test"),
        )
        async with channel:
            embedder = GrpcEmbedder(channel)
            await embedder.connect(deadline_seconds=30)
            yield embedder


async def test_a_local_cross_encoder_reads_question_and_passage_together(tmp_path: Path) -> None:
    backend = OnnxRerankBackend(write_rerank_model(tmp_path / "overlap"), thread_count=1)
    async with running(backend) as embedder:
        assert embedder.rerank_model == backend.model
        scores = await embedder.rerank(QUESTION, PASSAGES, deadline_seconds=30)
    # The logit is 2 * shared words - 3, made in the graph itself.
    expected = 1.0 / (1.0 + np.exp(-(2.0 * np.array([0, 3, 1, 1]) - 3.0)))
    assert scores == pytest.approx(expected, abs=1e-6)


async def test_scores_do_not_depend_on_what_else_is_in_a_batch(tmp_path: Path) -> None:
    backend = OnnxRerankBackend(write_rerank_model(tmp_path / "overlap", max_batch_tokens=64), thread_count=1)
    together = backend.score(QUESTION, PASSAGES * 4)
    alone = np.concatenate([backend.score(QUESTION, [passage]) for passage in PASSAGES * 4])
    assert np.array_equal(together, alone)


async def test_a_classifier_of_two_classes_gives_the_share_of_the_last(tmp_path: Path) -> None:
    one = OnnxRerankBackend(write_rerank_model(tmp_path / "one"), thread_count=1)
    two = OnnxRerankBackend(write_rerank_model(tmp_path / "two", outputs=2), thread_count=1)
    # Softmax over (-x, x) is the sigmoid of 2 x.
    logits = np.log(one.score(QUESTION, PASSAGES) / (1 - one.score(QUESTION, PASSAGES)))
    assert two.score(QUESTION, PASSAGES) == pytest.approx(1 / (1 + np.exp(-2 * logits)), abs=1e-4)


def test_what_is_longer_than_the_model_reads_is_cut_and_the_question_stays(tmp_path: Path) -> None:
    backend = OnnxRerankBackend(write_rerank_model(tmp_path / "overlap"), thread_count=1)
    (front,) = backend.score(QUESTION, ["mysql range query " + "cat " * 5_000])
    (behind,) = backend.score(QUESTION, ["cat " * 5_000 + "mysql range query"])
    assert front > 0.9 > 0.1 > behind
    (long_question,) = backend.score("mysql " + "dog " * 5_000, ["mysql soup"])
    assert long_question == pytest.approx(1 / (1 + np.exp(1.0)), abs=1e-6)


async def test_without_a_cross_encoder_a_call_says_which_setting_is_missing() -> None:
    async with running(None) as embedder:
        assert embedder.rerank_model is None
        with pytest.raises(FailedPreconditionError, match=r"embed\.rerank_model_directory"):
            await embedder.rerank(QUESTION, PASSAGES, deadline_seconds=30)


async def test_too_much_and_nothing_is_refused(tmp_path: Path) -> None:
    backend = OnnxRerankBackend(write_rerank_model(tmp_path / "overlap"), thread_count=1)
    async with running(backend) as embedder:
        for passages in (["a"] * 201, [], ["a" * (MAX_PASSAGE_BYTES + 1)]):
            with pytest.raises(InvalidArgumentError, match="1 to 200 passages"):
                await embedder.rerank(QUESTION, passages, deadline_seconds=30)
        with pytest.raises(InvalidArgumentError):
            await embedder.rerank(" ", PASSAGES, deadline_seconds=30)


@pytest.mark.parametrize("is_tei", [False, True])
async def test_an_endpoint_scores_in_either_form_and_in_any_order(is_tei: bool, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("s3cret\n")
    with StubReranker() as stub:
        endpoint = RerankEndpoint(stub.base_url, "m", is_tei, api_key_file=key, max_batch_passages=3)
        async with running(HttpRerankBackend(endpoint)) as embedder:
            scores = await embedder.rerank(QUESTION, PASSAGES, deadline_seconds=30)
    assert scores == pytest.approx([0.0, 0.75, 0.25, 0.25])
    assert sorted(len(request["texts" if is_tei else "documents"]) for request in stub.requests) == [1, 3]
    assert set(stub.paths) == {"/v1/rerank"}
    assert set(stub.keys) == {"Bearer s3cret"}


def test_an_endpoint_that_is_busy_is_asked_again_and_one_that_fails_says_no_text() -> None:
    waits: list[float] = []
    with StubReranker(lambda count: (429, "0.5") if count == 1 else None) as stub:
        backend = HttpRerankBackend(RerankEndpoint(stub.base_url, "m"), jitter=lambda: 0.5, sleep=waits.append)
        assert backend.score("mysql", ["mysql"]) == pytest.approx([1.0])
        assert waits == [0.5]
    for status, kind in ((500, UnavailableError), (401, FailedPreconditionError), (429, OverloadedError)):
        with StubReranker(lambda _count, status=status: (status, "")) as stub:  # type: ignore[misc]
            backend = HttpRerankBackend(RerankEndpoint(stub.base_url, "m"), sleep=waits.append)
            with pytest.raises(kind) as caught:
                backend.score("secret question", ["secret passage"])
            assert "secret" not in f"{caught.value.message} {caught.value.metadata}"


@pytest.mark.parametrize(
    "answer",
    [
        {"results": [{"index": 0, "relevance_score": 0.5}]},
        {"results": [{"index": 0, "relevance_score": 3.5}, {"index": 1, "relevance_score": -2.0}]},
        {"results": [{"index": 0, "relevance_score": 0.5}, {"index": 1, "relevance_score": "NaN"}]},
        {"results": "none"},
        "nothing",
    ],
)
def test_an_answer_that_does_not_fit_is_refused(answer: object) -> None:
    with StubReranker() as stub:
        stub.answer = lambda _question, _passages, _is_tei: answer
        with pytest.raises(InternalError):
            HttpRerankBackend(RerankEndpoint(stub.base_url, "m")).score("a", ["b", "c"])


def test_logits_of_an_endpoint_go_through_a_sigmoid_where_the_settings_say_so() -> None:
    with StubReranker() as stub:
        stub.answer = lambda _question, _passages, _is_tei: [{"index": 1, "score": -2.0}, {"index": 0, "score": 3.5}]
        endpoint = RerankEndpoint(stub.base_url, is_tei=True, scores_are_logits=True)
        scores = HttpRerankBackend(endpoint).score("a", ["b", "c"])
        assert stub.requests[0]["raw_scores"] is True
    assert scores == pytest.approx(1 / (1 + np.exp(-np.array([3.5, -2.0]))), abs=1e-6)


async def test_calls_beyond_the_line_are_refused_and_a_late_one_leaves_the_rest_unread() -> None:
    backend = GatedReranker()
    engine = RerankEngine(backend, max_waiting_calls=1)
    late = asyncio.create_task(engine.rerank("q", ["1", "2", "3"], deadline_seconds=0.2))
    assert await asyncio.to_thread(backend.begun.wait, 30)
    with pytest.raises(OverloadedError, match="too many calls"):
        await engine.rerank("q", ["x"], deadline_seconds=30)
    with pytest.raises(DeadlineExceededError):
        await late
    backend.gate.set()
    assert (await engine.rerank("q", ["4"], deadline_seconds=30)).tolist() == [0.5]
    assert backend.seen == ["1", "4"]


async def test_a_failing_batch_fails_the_call_with_its_own_error() -> None:
    with StubReranker(lambda _count: (500, "")) as stub:
        backend = HttpRerankBackend(RerankEndpoint(stub.base_url, "m", max_attempt_count=1))
        async with running(backend) as embedder:
            with pytest.raises(UnavailableError) as caught:
                await embedder.rerank("q", ["a"] * 70, deadline_seconds=30)
    assert caught.value.reason == "RERANK_ENDPOINT_UNAVAILABLE"


def test_a_model_that_is_not_whole_or_gives_something_else_is_refused(tmp_path: Path) -> None:
    directory = write_rerank_model(tmp_path / "overlap")
    description = json.loads((directory / "rerank_model.json").read_text())
    (directory / "rerank_model.json").write_text(json.dumps(description | {"activation": "none"}))
    with pytest.raises(FailedPreconditionError, match=r"outside 0\.\.1"):
        OnnxRerankBackend(directory, thread_count=1)
    (directory / "rerank_model.json").write_text(json.dumps(description | {"code": "x"}))
    with pytest.raises(FailedPreconditionError, match="not complete"):
        OnnxRerankBackend(directory, thread_count=1)
    (directory / "rerank_model.json").write_text(json.dumps(description))
    (directory / "model.onnx").write_bytes(b"no model")
    with pytest.raises(FailedPreconditionError):
        OnnxRerankBackend(directory, thread_count=1)
    (directory / "tokenizer.json").unlink()
    with pytest.raises(FailedPreconditionError):
        OnnxRerankBackend(directory, thread_count=1)


def test_the_settings_of_a_mesh_make_the_backend(tmp_path: Path) -> None:
    def made(**fields: object) -> RerankBackend | None:
        return rerank_backend(MeshSettings(embed=EmbedSettings(**fields)))  # type: ignore[arg-type]

    assert made() is None
    directory = write_rerank_model(tmp_path / "overlap")
    local = made(rerank_model_directory=directory, thread_count=1)
    assert local is not None
    assert local.model.name == "overlap"
    with StubReranker() as stub:
        for protocol, path in (("cohere", "documents"), ("tei", "texts")):
            endpoint = {"base_url": stub.base_url, "model": "m", "protocol": protocol, "max_passage_characters": 100}
            remote = made(rerank=endpoint)
            assert remote is not None
            remote.score("a", ["b" * 500])
            assert stub.requests[-1][path] == ["b" * 100]
    with pytest.raises(FailedPreconditionError, match=r"embed\.rerank\.model"):
        made(rerank={"base_url": "http://127.0.0.1:1"})


def test_settings_that_do_not_fit_together_are_named() -> None:
    without_model = EmbedSettings(rerank=RerankEndpointSettings(base_url="http://127.0.0.1:1/v1"))
    assert any("embed.rerank.model" in problem for problem in without_model.check())
    both = EmbedSettings(
        rerank_model_directory=Path("x"), rerank=RerankEndpointSettings(base_url="http://a", model="m")
    )
    assert any("not used" in problem for problem in both.check())
    assert EmbedSettings().check() == []
