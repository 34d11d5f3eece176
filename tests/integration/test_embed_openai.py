"""The OpenAI-compatible embedding backend against a real HTTP server."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from corpusmesh_adapters.models.openai_backend import OpenAIEmbeddingBackend, OpenAIEndpoint
from corpusmesh_core.errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    OverloadedError,
    UnavailableError,
)
from corpusmesh_core.ports.embedding import EmbedRole
from tests.support.stub_embeddings import DIMENSION, StubEmbeddings, stub_vector

PASSAGE = EmbedRole.PASSAGE
SECRET = "sk-very-secret"


class WordTokenizer:
    """Words are tokens."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        offsets = []
        start = 0
        for word in text.split():
            start = text.index(word, start)
            offsets.append((start, start + len(word)))
            start += len(word)
        return offsets


def backend_of(stub: StubEmbeddings, *, waits: list[float] | None = None, **changes: object) -> OpenAIEmbeddingBackend:
    values: dict[str, object] = {
        "base_url": stub.base_url,
        "model": "remote",
        "dimension": DIMENSION,
        "max_input_tokens": 12,
        "request_timeout_seconds": 5.0,
        "max_attempt_count": 3,
        **changes,
    }
    record: Callable[[float], None] = (waits if waits is not None else []).append
    return OpenAIEmbeddingBackend(OpenAIEndpoint(**values), WordTokenizer(), jitter=lambda: 0.5, sleep=record)  # type: ignore[arg-type]


def test_encode_gives_unit_vectors_in_the_order_of_the_texts_and_sends_prefix_and_key(tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text(f"{SECRET}\n")
    with StubEmbeddings() as stub, backend_of(stub, query_prefix="ask: ", api_key_file=key_file) as backend:
        result = backend.encode(["one", "two", "three"], role=EmbedRole.QUERY)
    assert stub.requests == [["ask: one", "ask: two", "ask: three"]]
    assert stub.keys == [f"Bearer {SECRET}"]
    for text, vector in zip(stub.requests[0], result.vectors, strict=True):
        expected = np.array(stub_vector(text))
        assert np.allclose(vector, expected / np.linalg.norm(expected), atol=1e-6)


def test_text_that_is_too_long_is_cut_and_reported() -> None:
    with StubEmbeddings() as stub, backend_of(stub) as backend:
        result = backend.encode(["short", " ".join(f"w{n}" for n in range(30))], role=PASSAGE)
    assert result.truncated_positions == (1,)
    assert stub.requests == [["short", " ".join(f"w{n}" for n in range(10))]]


def test_text_that_the_endpoint_finds_too_long_never_fails_the_batch() -> None:
    def refuse(inputs: list[str], _count: int) -> tuple[int, str] | None:
        return (400, "") if any(len(text) > 20 for text in inputs) else None

    with StubEmbeddings(refuse) as stub, backend_of(stub) as backend:
        result = backend.encode(["a", "b", "c" * 50, "d", "e"], role=PASSAGE)
    assert result.truncated_positions == (2,)
    expected = np.array([stub_vector(text) for text in ("a", "b", "c" * 12, "d", "e")])
    assert np.allclose(result.vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)


def test_endpoint_that_refuses_everything_is_not_asked_for_ever() -> None:
    with (
        StubEmbeddings(lambda _inputs, _count: (400, "")) as stub,
        backend_of(stub) as backend,
        pytest.raises(InvalidArgumentError),
    ):
        backend.encode(["x" * 4096, "y" * 4096], role=PASSAGE)
    assert len(stub.requests) <= 6


@pytest.mark.parametrize("status", [429, 500, 503])
def test_busy_endpoint_is_tried_again_after_the_wait_it_asks_for(status: int) -> None:
    waits: list[float] = []
    with (
        StubEmbeddings(lambda _inputs, count: (status, "3") if count < 3 else None) as stub,
        backend_of(stub, waits=waits) as backend,
    ):
        assert backend.encode(["a"], role=PASSAGE).vectors.shape == (1, DIMENSION)
    assert waits == [3.0, 3.0]


@pytest.mark.parametrize(("status", "error"), [(429, OverloadedError), (503, UnavailableError)])
def test_endpoint_that_stays_busy_is_given_up(status: int, error: type[Exception]) -> None:
    with (
        StubEmbeddings(lambda _inputs, _count: (status, "")) as stub,
        backend_of(stub) as backend,
        pytest.raises(error),
    ):
        backend.encode(["a"], role=PASSAGE)
    assert len(stub.requests) == 3


def test_refused_key_is_told_at_once_without_key_or_text(tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text(SECRET)
    with (
        StubEmbeddings(lambda _inputs, _count: (401, "")) as stub,
        backend_of(stub, api_key_file=key_file) as backend,
        pytest.raises(FailedPreconditionError) as refused,
    ):
        backend.encode(["my private text"], role=PASSAGE)
    assert len(stub.requests) == 1
    assert SECRET not in str(refused.value)
    assert "private" not in str(refused.value)


def test_endpoint_that_is_not_there_is_unavailable() -> None:
    with StubEmbeddings() as stub:
        base_url = stub.base_url
    with backend_of(stub, base_url=base_url, max_attempt_count=1) as backend, pytest.raises(UnavailableError):
        backend.encode(["a"], role=PASSAGE)


def test_lying_model_is_refused_with_both_numbers() -> None:
    with StubEmbeddings() as stub, backend_of(stub, dimension=384) as backend:
        with pytest.raises(FailedPreconditionError) as refused:
            backend.verify()
        with pytest.raises(InternalError):
            backend.encode(["a"], role=PASSAGE)
    assert (refused.value.metadata["declared_dimension"], refused.value.metadata["found_dimension"]) == ("384", "16")


@pytest.mark.parametrize(
    "answer",
    [
        {"data": []},
        {"data": [{"index": 1, "embedding": [1.0] * DIMENSION}]},
        {"data": [{"index": 0, "embedding": [1.0] * (DIMENSION - 1)}]},
        {"data": [{"index": 0, "embedding": [float("nan")] * DIMENSION}]},
        {"data": [{"index": 0, "embedding": [0.0] * DIMENSION}]},
        {"data": [{"index": 0, "embedding": ["x"] * DIMENSION}]},
        {"data": "nothing"},
        [],
    ],
)
def test_answer_that_does_not_fit_is_a_typed_error(answer: object) -> None:
    with StubEmbeddings() as stub, backend_of(stub) as backend:
        stub.answer = lambda _inputs: answer
        with pytest.raises(InternalError):
            backend.encode(["a"], role=PASSAGE)
