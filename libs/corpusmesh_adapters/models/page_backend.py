"""Late-interaction vision model that runs in this process through ONNX Runtime.

A model directory holds `page_model.json` (the description below), `pages.onnx` (images, float32 of shape (batch, 3,
height, width), to vectors (batch, n, dimension)), `question.onnx` (token ids to vectors (batch, n, dimension)) and
`tokenizer.json`. Any exported ColPali-like model fits that shape.
"""

import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from corpusmesh_adapters.models.manifest import TOKENIZER_FILE, file_sum
from corpusmesh_adapters.models.onnx_backend import RUNTIME_ERRORS, available_core_count, open_session
from corpusmesh_adapters.models.tokenization import ModelTokenizer
from corpusmesh_adapters.models.vectors import normalize_checked
from corpusmesh_core.errors import FailedPreconditionError, InternalError, InvalidArgumentError
from corpusmesh_core.ports.embedding import EmbeddingSpace
from corpusmesh_core.ports.page_embedding import MultiVectors

DESCRIPTION_FILE: Final = "page_model.json"
PAGES_FILE: Final = "pages.onnx"
QUESTION_FILE: Final = "question.onnx"
_MAX_PIXELS: Final = 50_000_000


class PageModelDescription(BaseModel):
    """How to call a vision model and what it promises."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(min_length=1)
    """Name of the model."""
    dimension: int = Field(ge=1, le=4_096)
    """Numbers per vector."""
    image_width: int = Field(ge=1, le=4_096)
    """Pixels that a page is scaled to."""
    image_height: int = Field(ge=1, le=4_096)
    """Pixels that a page is scaled to."""
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    """Taken off each colour (0 to 1)."""
    deviation: tuple[float, float, float] = (0.5, 0.5, 0.5)
    """Each colour is divided by it."""
    question_prefix: str = ""
    """Put before a question."""
    max_question_tokens: int = Field(default=128, ge=2, le=4_096)
    """Tokens read of a question, special tokens and prefix included."""


class OnnxPageEmbeddingBackend:
    """A vision model of a model directory."""

    def __init__(self, directory: Path, *, thread_count: int | None = None) -> None:
        """Load the model and prove it with one real question and one real page.

        Args:
            directory: The model's directory.
            thread_count: Threads inside one run; None for one per core that this process may use.

        Raises:
            FailedPreconditionError: PAGE_MODEL_CORRUPT if a file is missing or broken, or the model gives vectors of
                another dimension than it declares.
        """
        self._description = _read_description(directory)
        threads = thread_count or available_core_count()
        try:
            sums = "".join(file_sum(directory / name) for name in (PAGES_FILE, QUESTION_FILE, TOKENIZER_FILE))
            self._pages = open_session(directory / PAGES_FILE, threads)
            self._question = open_session(directory / QUESTION_FILE, threads)
            self._tokenizer = ModelTokenizer(directory / TOKENIZER_FILE)
        except (OSError, ValueError) as error:
            raise _corrupt(directory, "a file of it cannot be read") from error
        described = self._description.model_dump_json()
        self._space = EmbeddingSpace(
            model=self._description.model,
            dimension=self._description.dimension,
            normalized=True,
            fingerprint=hashlib.sha256((sums + described).encode()).hexdigest(),
        )
        blank = io.BytesIO()
        Image.new("RGB", (8, 8), "white").save(blank, "PNG")
        try:
            self.encode_pages([blank.getvalue()])
            self.encode_question("a")
        except InternalError as error:
            raise _corrupt(directory, error.message) from error

    @property
    def space(self) -> EmbeddingSpace:
        """The space of its vectors."""
        return self._space

    def encode_pages(self, images: Sequence[bytes]) -> list[MultiVectors]:
        """Embed page images; see `PageEmbeddingBackend.encode_pages`.

        Args:
            images: PNG or JPEG.

        Returns:
            Vectors of each page.

        Raises:
            InvalidArgumentError: PAGE_IMAGE_INVALID if one is no image.
            InternalError: If the model fails or gives vectors that cannot be used.
        """
        pixels = np.stack([self._pixels(image) for image in images])
        return [self._checked(page) for page in self._run(self._pages, {self._pages.get_inputs()[0].name: pixels})]

    def encode_question(self, text: str) -> MultiVectors:
        """Embed a question; see `PageEmbeddingBackend.encode_question`.

        Args:
            text: The question.

        Returns:
            Its vectors.

        Raises:
            InternalError: If the model fails or gives vectors that cannot be used.
        """
        described = self._description
        (windows,) = self._tokenizer.windows(
            [text], prefix=described.question_prefix, max_tokens=described.max_question_tokens, max_windows=1
        )
        ids = np.array([windows.ids[0]], np.int64)
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        wanted = {node.name: feeds[node.name] for node in self._question.get_inputs() if node.name in feeds}
        return self._checked(self._run(self._question, wanted)[0])

    def _pixels(self, content: bytes) -> NDArray[np.float32]:
        described = self._description
        try:
            with Image.open(io.BytesIO(content), formats=("PNG", "JPEG")) as image:
                if image.width * image.height > _MAX_PIXELS:
                    raise _no_image("it has too many pixels")
                scaled = image.convert("RGB").resize((described.image_width, described.image_height))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise _no_image("it cannot be decoded") from error
        values = (np.asarray(scaled, np.float32) / 255.0 - described.mean) / described.deviation
        return np.ascontiguousarray(values.transpose(2, 0, 1), np.float32)

    def _run(self, session: ort.InferenceSession, feeds: dict[str, Any]) -> NDArray[np.float32]:
        try:
            output = np.asarray(session.run(None, feeds)[0], np.float32)
        except RUNTIME_ERRORS as error:
            raise InternalError("PAGE_MODEL_FAILED", "the vision model failed") from error
        if output.ndim != 3:
            raise InternalError("PAGE_MODEL_FAILED", f"the vision model gave an array of shape {output.shape}")
        return output

    def _checked(self, vectors: NDArray[np.float32]) -> MultiVectors:
        return normalize_checked(vectors, text_count=len(vectors), dimension=self._description.dimension)


def _read_description(directory: Path) -> PageModelDescription:
    try:
        return PageModelDescription(**json.loads((directory / DESCRIPTION_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, ValidationError) as error:
        raise _corrupt(directory, f"{DESCRIPTION_FILE} is missing or not complete") from error


def _corrupt(directory: Path, what: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        "PAGE_MODEL_CORRUPT", f"the vision model in {directory.name} cannot be used: {what}", model=directory.name
    )


def _no_image(why: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "PAGE_IMAGE_INVALID", f"a page image must be a PNG or JPEG: {why}", field="images", detail=why
    )
