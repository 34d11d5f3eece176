"""Cross-encoder that runs in this process through ONNX Runtime.

A model directory holds `rerank_model.json` (the description below), `model.onnx` (token ids of question and passage
together to logits) and `tokenizer.json`. Any exported sequence classifier with one logit, or one a class, fits that
shape; nothing but these three files is read, and none of them can hold code.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from tokenizers import Encoding, Tokenizer

from corpusmesh_adapters.models.manifest import TOKENIZER_FILE, WEIGHTS_FILE, file_sum
from corpusmesh_adapters.models.onnx_backend import RUNTIME_ERRORS, available_core_count, open_session
from corpusmesh_adapters.models.rerank_scores import Activation, scores_checked
from corpusmesh_core.errors import FailedPreconditionError, InternalError
from corpusmesh_core.ports.reranking import RerankModel

DESCRIPTION_FILE: Final = "rerank_model.json"
_QUESTION_SHARE: Final = 0.5
_CHARACTERS_PER_TOKEN: Final = 16


class RerankModelDescription(BaseModel):
    """How to call a cross-encoder and what it promises."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(min_length=1)
    """Name of the model."""
    max_input_tokens: int = Field(default=512, ge=8, le=131_072)
    """Tokens read of question and passage together, special tokens included."""
    activation: Activation = Activation.SIGMOID
    """How its numbers become scores between 0 and 1."""
    question_prefix: str = ""
    """Put before a question."""
    passage_prefix: str = ""
    """Put before a passage."""
    pad_token_id: int = Field(default=0, ge=0)
    """Fills up the shorter inputs of a batch."""
    max_batch_tokens: int = Field(default=4_096, ge=64, le=262_144)
    """Most tokens of one run, padding included; one input that is longer makes a run of its own."""
    max_batch_passages: int = Field(default=16, ge=1, le=200)
    """Passages of one call; between two of them the caller's deadline is looked at."""


class OnnxRerankBackend:
    """A cross-encoder of a model directory. Thread-safe."""

    def __init__(self, directory: Path, *, thread_count: int | None = None) -> None:
        """Load the model and prove it with one real pair.

        Args:
            directory: The model's directory.
            thread_count: Threads inside one run; None for one per core that this process may use.

        Raises:
            FailedPreconditionError: RERANK_MODEL_CORRUPT if a file is missing or broken, or the model gives what its
                description does not declare.
        """
        self._description = _read_description(directory)
        try:
            sums = "".join(file_sum(directory / name) for name in (WEIGHTS_FILE, TOKENIZER_FILE))
            content = (directory / TOKENIZER_FILE).read_text(encoding="utf-8")
            self._tokenizer = _make_tokenizer(content)
            self._pair_tokenizer = _make_tokenizer(content)
            self._pair_tokenizer.enable_truncation(self._description.max_input_tokens, strategy="only_second")
            self._session = open_session(directory / WEIGHTS_FILE, thread_count or available_core_count())
        except (OSError, ValueError) as error:
            raise _corrupt(directory, "a file of it cannot be read") from error
        self._input_names = tuple(node.name for node in self._session.get_inputs())
        described = self._description.model_dump_json()
        fingerprint = hashlib.sha256((sums + described).encode()).hexdigest()
        self._model = RerankModel(self._description.model, self._description.max_input_tokens, fingerprint)
        try:
            self.score("a", ["b"])
        except InternalError as error:
            raise _corrupt(directory, error.message) from error

    @property
    def model(self) -> RerankModel:
        """The model."""
        return self._model

    @property
    def max_batch_passages(self) -> int:
        """Passages of one `score`."""
        return self._description.max_batch_passages

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float32]:
        """Score passages; see `RerankBackend.score`.

        Args:
            question: The question.
            passages: The passages.

        Returns:
            One score a passage.

        Raises:
            InternalError: If the model fails or gives numbers that cannot be used.
        """
        pairs = self._encode(question, passages)
        order = sorted(range(len(pairs)), key=lambda place: len(pairs[place].ids))
        scores = np.zeros(len(pairs), np.float32)
        batch: list[int] = []
        for place in order:
            if batch and len(pairs[place].ids) * (len(batch) + 1) > self._description.max_batch_tokens:
                scores[batch] = self._run([pairs[one] for one in batch])
                batch = []
            batch.append(place)
        if batch:
            scores[batch] = self._run([pairs[one] for one in batch])
        return scores

    def _encode(self, question: str, passages: Sequence[str]) -> list[Encoding]:
        described = self._description
        # Characters beyond what any tokenizer makes of the budget would be read for nothing.
        room = described.max_input_tokens * _CHARACTERS_PER_TOKEN
        asked = described.question_prefix + question[:room]
        limit = int((described.max_input_tokens - self._tokenizer.num_special_tokens_to_add(True)) * _QUESTION_SHARE)
        offsets = self._tokenizer.encode(asked, add_special_tokens=False).offsets
        if len(offsets) > limit:
            asked = asked[: offsets[limit - 1][1]]
        cut = [(asked, described.passage_prefix + passage[:room]) for passage in passages]
        found: list[Encoding] = self._pair_tokenizer.encode_batch(cut)
        return found

    def _run(self, batch: Sequence[Encoding]) -> NDArray[np.float32]:
        shape = (len(batch), max(len(encoding.ids) for encoding in batch))
        ids = np.full(shape, self._description.pad_token_id, np.int64)
        mask, kinds = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for row, encoding in enumerate(batch):
            ids[row, : len(encoding.ids)] = encoding.ids
            mask[row, : len(encoding.ids)] = 1
            kinds[row, : len(encoding.ids)] = encoding.type_ids
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": kinds}
        try:
            output = self._session.run(None, {name: feeds[name] for name in self._input_names if name in feeds})[0]
        except RUNTIME_ERRORS as error:
            raise InternalError("RERANK_MODEL_FAILED", "the cross-encoder failed on a batch") from error
        return scores_checked(np.asarray(output, np.float32), count=len(batch), activation=self._description.activation)


def _make_tokenizer(content: str) -> Tokenizer:
    tokenizer = Tokenizer.from_str(content)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _read_description(directory: Path) -> RerankModelDescription:
    try:
        return RerankModelDescription(**json.loads((directory / DESCRIPTION_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, ValidationError) as error:
        raise _corrupt(directory, f"{DESCRIPTION_FILE} is missing or not complete") from error


def _corrupt(directory: Path, what: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        "RERANK_MODEL_CORRUPT", f"the cross-encoder in {directory.name} cannot be used: {what}", model=directory.name
    )
