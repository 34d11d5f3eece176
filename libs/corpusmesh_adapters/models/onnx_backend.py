"""Embedding model that runs in this process through ONNX Runtime."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as ort_state

from corpusmesh_adapters.models.manifest import (
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    ModelManifest,
    Pooling,
    read_manifest,
    verify_files,
)
from corpusmesh_adapters.models.tokenization import ModelTokenizer
from corpusmesh_adapters.models.vectors import normalize_checked
from corpusmesh_core.errors import FailedPreconditionError, InternalError
from corpusmesh_core.ports.embedding import EmbeddingSpace, EmbedResult, EmbedRole

MAX_WINDOWS: Final = 4
"""Windows of `max_input_tokens` that are read of one text; what is beyond them is cut off."""
_MAX_RUN_TOKENS: Final = 2_048
_WIDEST_RATIO: Final = 1.5
_WIDEST_SLACK: Final = 16
RUNTIME_ERRORS: Final = (
    ort_state.Fail,
    ort_state.RuntimeException,
    ort_state.InvalidArgument,
    ort_state.InvalidGraph,
    ort_state.InvalidProtobuf,
    ort_state.NotImplemented,
)


@dataclass(frozen=True, slots=True)
class _Window:
    """One window of a text."""

    text_position: int
    ids: list[int]


class OnnxEmbeddingBackend:
    """A model of a model directory.

    A text that is longer than the model reads at once is read in up to MAX_WINDOWS windows without overlap, whose
    vectors are averaged by their lengths before normalisation, as if the mean had been taken over the whole text;
    its position is reported. A call runs the model over all windows, shortest first, in runs of little padding.
    """

    def __init__(self, directory: Path, *, thread_count: int | None = None) -> None:
        """Load the model, and refuse one that does not give what its description declares.

        Args:
            directory: A model directory (see `manifest`).
            thread_count: Threads inside one run; None for one per core that this process may use.

        Raises:
            FailedPreconditionError: MODEL_NOT_INSTALLED, MODEL_CORRUPT, or MODEL_DIMENSION_MISMATCH if the model gives
                vectors of another dimension than it declares.
        """
        self._manifest = read_manifest(directory)
        verify_files(directory, self._manifest)
        self._tokenizer = ModelTokenizer(directory / TOKENIZER_FILE, fold_traditional=self._manifest.fold_traditional)
        self._session = open_session(directory / WEIGHTS_FILE, thread_count or available_core_count())
        self._input_names = tuple(node.name for node in self._session.get_inputs())
        self._space = self._manifest.space
        self._prefixes = {
            EmbedRole.QUERY: self._manifest.query_prefix,
            EmbedRole.PASSAGE: self._manifest.passage_prefix,
        }
        prefix_lengths = self._tokenizer.count_tokens(list(self._prefixes.values()))
        self._prefix_tokens = max(prefix_lengths) + self._tokenizer.special_count
        self._check_dimension()

    @property
    def manifest(self) -> ModelManifest:
        """The model's description."""
        return self._manifest

    @property
    def space(self) -> EmbeddingSpace:
        """The space of its vectors."""
        return self._space

    @property
    def max_input_tokens(self) -> int:
        """Tokens read at once, special tokens and prefix included."""
        return self._manifest.max_input_tokens

    @property
    def prefix_tokens(self) -> int:
        """Most tokens that prefix and special tokens add."""
        return self._prefix_tokens

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count tokens; see `TextTokenizer`.

        Args:
            texts: The texts.

        Returns:
            One count a text.
        """
        return self._tokenizer.count_tokens(texts)

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Tell where tokens stand; see `TextTokenizer`.

        Args:
            text: The text.

        Returns:
            (start, end) in characters.
        """
        return self._tokenizer.token_offsets(text)

    def encode(self, texts: Sequence[str], *, role: EmbedRole) -> EmbedResult:
        """Embed texts; see `EmbeddingBackend.encode`.

        Args:
            texts: The texts.
            role: What they are.

        Returns:
            The vectors.

        Raises:
            InternalError: If the model fails or gives vectors that cannot be used.
        """
        tokenized = self._tokenizer.windows(
            texts, prefix=self._prefixes[role], max_tokens=self.max_input_tokens, max_windows=MAX_WINDOWS
        )
        windows = [_Window(position, ids) for position, text in enumerate(tokenized) for ids in text.ids]
        windows.sort(key=lambda window: len(window.ids))
        sums = np.zeros((len(texts), self._space.dimension), np.float32)
        for batch in _split(windows):
            means = self._run(batch)
            if means.shape[1:] != sums.shape[1:]:
                normalize_checked(means, text_count=len(batch), dimension=self._space.dimension)
            for window, mean in zip(batch, means, strict=True):
                sums[window.text_position] += mean * max(1, len(window.ids) - self._tokenizer.special_count)
        vectors = normalize_checked(sums, text_count=len(texts), dimension=self._space.dimension)
        return EmbedResult(
            vectors,
            token_count=sum(len(window.ids) for window in windows),
            truncated_positions=tuple(position for position, text in enumerate(tokenized) if text.is_long),
        )

    def _run(self, batch: Sequence[_Window]) -> NDArray[np.float32]:
        width = len(batch[-1].ids)
        ids = np.zeros((len(batch), width), np.int64)
        mask = np.zeros((len(batch), width), np.int64)
        for row, window in enumerate(batch):
            ids[row, : len(window.ids)] = window.ids
            mask[row, : len(window.ids)] = 1
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        try:
            outputs = self._session.run([self._manifest.output], {name: feeds[name] for name in self._input_names})
        except RUNTIME_ERRORS as error:
            raise InternalError("EMBED_MODEL_FAILED", "the embedding model failed on a batch") from error
        return _pool(np.asarray(outputs[0]), mask, self._manifest.pooling)

    def _check_dimension(self) -> None:
        """Run the model once, which warms it up too."""
        windows = self._tokenizer.windows(["a"], prefix="", max_tokens=self.max_input_tokens, max_windows=1)
        found = self._run([_Window(0, windows[0].ids[0])]).shape[-1]
        declared = self._manifest.dimension
        if found != declared:
            raise FailedPreconditionError(
                "MODEL_DIMENSION_MISMATCH",
                f"the model {self._manifest.model} declares {declared} dimensions and gives {found}; it is refused",
                model=self._manifest.model,
                declared_dimension=declared,
                found_dimension=found,
            )


def available_core_count() -> int:
    """Count the cores that this process may use.

    Returns:
        Size of its affinity mask, at least 1.
    """
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def open_session(path: Path, thread_count: int) -> ort.InferenceSession:
    """Load a model.

    Args:
        path: The ONNX file.
        thread_count: Threads inside one run.

    Returns:
        The session.

    Raises:
        FailedPreconditionError: MODEL_CORRUPT if it cannot be loaded.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = thread_count
    options.inter_op_num_threads = 1
    # Threads that spin between runs would take the cores from the rest of the mesh.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except RUNTIME_ERRORS as error:
        raise FailedPreconditionError(
            "MODEL_CORRUPT", f"ONNX Runtime cannot load {path.name}; install the model again", file=path.name
        ) from error


def _split(windows: Sequence[_Window]) -> Iterator[list[_Window]]:
    """Cut windows, shortest first, into runs of bounded size and little padding."""
    batch: list[_Window] = []
    for window in windows:
        length = len(window.ids)
        is_wider = bool(batch) and length > len(batch[0].ids) * _WIDEST_RATIO + _WIDEST_SLACK
        if is_wider or length * (len(batch) + 1) > _MAX_RUN_TOKENS:
            if batch:
                yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch


def _pool(output: NDArray[Any], mask: NDArray[np.int64], pooling: Pooling) -> NDArray[np.float32]:
    """Reduce the model's output to one vector a row."""
    if pooling is Pooling.SENTENCE:
        return output
    if pooling is Pooling.FIRST:
        return np.asarray(output[:, 0], np.float32)
    weights = mask.astype(np.float32)[:, :, None]
    return np.asarray((output * weights).sum(axis=1) / weights.sum(axis=1), np.float32)
