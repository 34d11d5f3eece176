"""The vision model behind the embed service: pages and questions over gRPC, late interaction, refusals."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from corpusmesh_adapters.models.page_backend import OnnxPageEmbeddingBackend
from corpusmesh_adapters.peers import GrpcEmbedder
from corpusmesh_core.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    OverloadedError,
)
from corpusmesh_core.ports.embedding import EmbeddingSpace, EmbedResult, EmbedRole
from corpusmesh_core.ports.page_embedding import MultiVectors, PageEmbeddingBackend
from corpusmesh_core.ranking.late_interaction import max_sim, quantize
from corpusmesh_embed.config import EmbedSettings
from corpusmesh_embed.module import EMBED_SERVICE_NAMES, EmbedService
from corpusmesh_embed.pages import PageEngine
from corpusmesh_runtime.channel import open_channel
from corpusmesh_runtime.config import ServerSettings
from corpusmesh_runtime.identity import IdentitySigner, service_identity
from corpusmesh_runtime.policy import rules_of
from tests.support.page_model import page_of, write_page_model

SERVER = ServerSettings(drain_grace_seconds=2.0, max_receive_message_bytes=20 * 1024 * 1024)


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


class GatedPages:
    """A vision model whose gate a test opens."""

    space = EmbeddingSpace("gated", 2, True, "0")

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.begun = threading.Event()

    def encode_pages(self, images: Sequence[bytes]) -> list[MultiVectors]:
        self.begun.set()
        assert self.gate.wait(60)
        return [np.array([[1, 0]], np.float32) for _ in images]

    def encode_question(self, text: str) -> MultiVectors:
        return np.array([[1, 0]], np.float32)


@asynccontextmanager
async def running(pages: PageEmbeddingBackend | None) -> AsyncIterator[GrpcEmbedder]:
    signer = IdentitySigner(["ab" * 32])
    async with EmbedService(EmbedSettings(server=SERVER), FlatBackend(), signer, page_backend=pages) as service:
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


async def test_a_question_finds_the_page_that_shows_what_it_names(tmp_path: Path) -> None:
    backend = OnnxPageEmbeddingBackend(write_page_model(tmp_path / "colours"), thread_count=1)
    pages = [page_of("green"), page_of("blue"), page_of("red", patch_only=True), page_of("white")]
    async with running(backend) as embedder:
        assert embedder.page_space == backend.space
        vectors = await embedder.embed_pages(pages, deadline_seconds=30)
        assert [page.shape for page in vectors] == [(16, 4)] * 4
        question = await embedder.embed_page_question("red", deadline_seconds=30)
        scores = max_sim(question, [quantize(page) for page in vectors])
    assert int(scores.argmax()) == 2, "one patch of sixteen is enough: that is what late interaction is for"
    exact = max_sim(question, [quantize(page) for page in backend.encode_pages(pages)])
    assert np.array_equal(scores, exact)


async def test_without_a_vision_model_a_call_says_which_setting_is_missing() -> None:
    async with running(None) as embedder:
        assert embedder.page_space is None
        with pytest.raises(FailedPreconditionError, match=r"embed\.page_model_directory"):
            await embedder.embed_pages([page_of("red")], deadline_seconds=30)


async def test_what_is_no_image_or_too_many_is_refused(tmp_path: Path) -> None:
    backend = OnnxPageEmbeddingBackend(write_page_model(tmp_path / "colours"), thread_count=1)
    async with running(backend) as embedder:
        with pytest.raises(InvalidArgumentError, match="cannot be decoded"):
            await embedder.embed_pages([b"no image"], deadline_seconds=30)
        with pytest.raises(InvalidArgumentError, match="1 to 8"):
            await embedder.embed_pages([page_of("red")] * 9, deadline_seconds=30)
        with pytest.raises(InvalidArgumentError, match="bytes"):
            await embedder.embed_page_question(" ", deadline_seconds=30)


async def test_calls_beyond_the_line_are_refused_and_a_late_one_ends_at_its_deadline() -> None:
    backend = GatedPages()
    engine = PageEngine(backend, max_waiting_calls=2)
    first = asyncio.create_task(engine.embed_pages([b"1"], deadline_seconds=30))
    assert await asyncio.to_thread(backend.begun.wait, 30)
    late = asyncio.create_task(engine.embed_pages([b"2"], deadline_seconds=0.2))
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError, match="too many pages"):
        await engine.embed_pages([b"3"], deadline_seconds=30)
    with pytest.raises(DeadlineExceededError):
        await late
    backend.gate.set()
    assert len(await first) == 1
    assert len(await engine.embed_pages([b"4"], deadline_seconds=30)) == 1


async def test_a_run_that_nobody_waits_for_keeps_the_model_to_itself_until_it_ends() -> None:
    backend = GatedPages()
    engine = PageEngine(backend, max_waiting_calls=2)
    with pytest.raises(DeadlineExceededError):
        await engine.embed_pages([b"1"], deadline_seconds=0.1)
    following = asyncio.create_task(engine.embed_page_question("red", deadline_seconds=30))
    await asyncio.sleep(0.05)
    assert not following.done()
    backend.gate.set()
    assert (await following).shape == (1, 2)


def test_a_model_that_gives_another_dimension_than_it_declares_is_refused(tmp_path: Path) -> None:
    directory = write_page_model(tmp_path / "colours")
    description = json.loads((directory / "page_model.json").read_text())
    (directory / "page_model.json").write_text(json.dumps(description | {"dimension": 7}))
    with pytest.raises(FailedPreconditionError, match="cannot be used"):
        OnnxPageEmbeddingBackend(directory, thread_count=1)


def test_a_model_without_a_file_is_refused(tmp_path: Path) -> None:
    directory = write_page_model(tmp_path / "colours")
    (directory / "question.onnx").unlink()
    with pytest.raises(FailedPreconditionError):
        OnnxPageEmbeddingBackend(directory, thread_count=1)
