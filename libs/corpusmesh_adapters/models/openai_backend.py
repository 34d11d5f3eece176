"""Embedding model behind any endpoint that speaks the OpenAI embeddings protocol: vLLM, a gateway, a hosted one."""

import hashlib
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx
import numpy as np
from numpy.typing import NDArray

from corpusmesh_adapters.models.endpoint_calls import (
    Retries,
    endpoint_client,
    key_headers,
    retry_after_seconds_of,
    with_retries,
)
from corpusmesh_adapters.models.vectors import normalize_checked
from corpusmesh_core.errors import (
    CorpusMeshError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    OverloadedError,
    UnavailableError,
)
from corpusmesh_core.ports.embedding import EmbeddingSpace, EmbedResult, EmbedRole, TextTokenizer

_FIRST_BACKOFF_SECONDS: Final = 0.4
_LONGEST_BACKOFF_SECONDS: Final = 10.0
_SPECIAL_TOKENS: Final = 2
_MAX_RESPONSE_BYTES: Final = 256 * 1024 * 1024
_MAX_HALVINGS: Final = 4
_TOO_LONG_STATUSES: Final = frozenset({400, 413, 422})


@dataclass(frozen=True, slots=True)
class OpenAIEndpoint:
    """Where the model is and how hard to try.

    Attributes:
        base_url: Up to and with the version, as `http://127.0.0.1:8000/v1`.
        model: Name that the endpoint knows the model by.
        dimension: Numbers per vector that the model is declared to give.
        max_input_tokens: Tokens that it reads of one text, counted by our tokenizer.
        api_key_file: File with the key, read before every request so that a rotated key works at once; None for none.
        query_prefix: Put before a query.
        passage_prefix: Put before a passage.
        request_timeout_seconds: Bound of one attempt.
        max_attempt_count: Attempts of one request, the first included.
    """

    base_url: str
    model: str
    dimension: int
    max_input_tokens: int
    api_key_file: Path | None = None
    query_prefix: str = ""
    passage_prefix: str = ""
    request_timeout_seconds: float = 30.0
    max_attempt_count: int = 4


class OpenAIEmbeddingBackend:
    """Embeds through an endpoint; see `corpusmesh_core.ports.embedding.EmbeddingBackend`. Thread-safe.

    A text that is longer than the model reads is cut by our tokenizer before it is sent, and its position is reported.
    If the endpoint refuses a batch all the same (its tokens may be smaller than ours), the batch is halved, and a text
    that is refused alone is halved: one text never fails the others. Nothing that the endpoint writes reaches a
    caller: its error texts can hold document text or the key.
    """

    def __init__(
        self,
        endpoint: OpenAIEndpoint,
        tokenizer: TextTokenizer,
        *,
        jitter: Callable[[], float] = random.random,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Make the client; nothing is sent yet.

        Args:
            endpoint: Where and how.
            tokenizer: Counts and cuts texts; ideally the endpoint model's own.
            jitter: Draws from [0, 1), so that refused callers do not come back together.
            sleep: Waits between attempts.
        """
        self._endpoint = endpoint
        self._tokenizer = tokenizer
        self._jitter = jitter
        self._sleep = sleep
        self._prefixes = {EmbedRole.QUERY: endpoint.query_prefix, EmbedRole.PASSAGE: endpoint.passage_prefix}
        self._prefix_tokens = max(tokenizer.count_tokens(list(self._prefixes.values()))) + _SPECIAL_TOKENS
        identity = json.dumps([endpoint.model, endpoint.query_prefix, endpoint.passage_prefix])
        fingerprint = hashlib.sha256(identity.encode()).hexdigest()
        self._space = EmbeddingSpace(endpoint.model, endpoint.dimension, True, fingerprint)
        self._client = endpoint_client(endpoint.base_url, timeout_seconds=endpoint.request_timeout_seconds)
        self._retries = Retries(endpoint.max_attempt_count, _FIRST_BACKOFF_SECONDS, _LONGEST_BACKOFF_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self._client.close()

    @property
    def space(self) -> EmbeddingSpace:
        """The space of its vectors."""
        return self._space

    @property
    def max_input_tokens(self) -> int:
        """Tokens read of one text, prefix and special tokens included."""
        return self._endpoint.max_input_tokens

    @property
    def prefix_tokens(self) -> int:
        """Most tokens that prefix and special tokens add."""
        return self._prefix_tokens

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count tokens by our tokenizer; see `TextTokenizer`.

        Args:
            texts: The texts.

        Returns:
            One count a text.
        """
        return self._tokenizer.count_tokens(texts)

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Tell where our tokens stand; see `TextTokenizer`.

        Args:
            text: The text.

        Returns:
            (start, end) in characters.
        """
        return self._tokenizer.token_offsets(text)

    def verify(self) -> None:
        """Ask for one vector, and refuse a model of another dimension than declared.

        Raises:
            FailedPreconditionError: MODEL_DIMENSION_MISMATCH with both numbers, or EMBED_ACCESS_DENIED.
            UnavailableError: If the endpoint does not answer.
        """
        found = self._request(["a"]).shape[-1]
        if found != self._endpoint.dimension:
            raise FailedPreconditionError(
                "MODEL_DIMENSION_MISMATCH",
                f"the model {self._endpoint.model} is declared with {self._endpoint.dimension} dimensions and gives "
                f"{found}; set embed.openai.dimension to {found}, or another model",
                model=self._endpoint.model,
                declared_dimension=self._endpoint.dimension,
                found_dimension=found,
            )

    def encode(self, texts: Sequence[str], *, role: EmbedRole) -> EmbedResult:
        """Embed texts; see `EmbeddingBackend.encode`.

        Args:
            texts: The texts.
            role: What they are.

        Returns:
            The vectors.

        Raises:
            CorpusMeshError: As the port says; InvalidArgumentError if the endpoint refuses a text however short.
        """
        counts = self._tokenizer.count_tokens(texts)
        limit = self._endpoint.max_input_tokens - self._prefix_tokens
        truncated = {position for position, count in enumerate(counts) if count > limit}
        prefix = self._prefixes[role]
        inputs = [
            prefix + (self._cut(text, limit) if position in truncated else text) for position, text in enumerate(texts)
        ]
        vectors, shortened = self._embed(inputs)
        token_count = sum(min(count, limit) + self._prefix_tokens for count in counts)
        return EmbedResult(
            normalize_checked(vectors, text_count=len(texts), dimension=self._endpoint.dimension),
            token_count,
            tuple(sorted(truncated | shortened)),
        )

    def _cut(self, text: str, token_count: int) -> str:
        offsets = self._tokenizer.token_offsets(text)[:token_count]
        return text[: offsets[-1][1]] if offsets else ""

    def _embed(self, inputs: list[str], halvings: int = 0) -> tuple[NDArray[np.float32], set[int]]:
        """Embed inputs, halving what the endpoint refuses; give the positions of texts that were shortened too."""
        try:
            return self._request(inputs), set()
        except InvalidArgumentError:
            if len(inputs) == 1:
                half = inputs[0][: len(inputs[0]) // 2]
                if halvings == _MAX_HALVINGS or not half.strip():
                    raise
                return self._embed([half], halvings + 1)[0], {0}
        middle = len(inputs) // 2
        left, left_shortened = self._embed(inputs[:middle])
        right, right_shortened = self._embed(inputs[middle:])
        shortened = left_shortened | {position + middle for position in right_shortened}
        return np.concatenate([left, right]), shortened

    def _request(self, inputs: list[str]) -> NDArray[np.float32]:
        return with_retries(lambda: self._attempt(inputs), self._retries, jitter=self._jitter, sleep=self._sleep)

    def _attempt(self, inputs: list[str]) -> NDArray[np.float32]:
        body = {"model": self._endpoint.model, "input": inputs, "encoding_format": "float"}
        try:
            response = self._client.post("embeddings", json=body, headers=self._headers())
        except httpx.HTTPError as error:
            raise UnavailableError(
                "EMBED_ENDPOINT_UNAVAILABLE", "the embedding endpoint does not answer; try again"
            ) from error
        if response.status_code != httpx.codes.OK:
            raise _refusal(response)
        if len(response.content) > _MAX_RESPONSE_BYTES:
            raise InternalError("EMBED_RESPONSE_INVALID", "the embedding endpoint's answer is too large")
        return _read_vectors(response, len(inputs))

    def _headers(self) -> dict[str, str]:
        unreadable = FailedPreconditionError(
            "EMBED_ACCESS_DENIED", "the file with the key of the embedding endpoint cannot be read"
        )
        return key_headers(self._endpoint.api_key_file, unreadable)


def _refusal(response: httpx.Response) -> CorpusMeshError:
    status = response.status_code
    retry_after_seconds = retry_after_seconds_of(response)
    if status == httpx.codes.TOO_MANY_REQUESTS:
        return OverloadedError(
            "EMBED_ENDPOINT_BUSY",
            "the embedding endpoint refuses more requests for now; try again",
            retry_delay_seconds=max(retry_after_seconds, 1.0),
            retry_after_seconds=retry_after_seconds,
        )
    if status in _TOO_LONG_STATUSES:
        return InvalidArgumentError(
            "EMBED_TEXT_REFUSED", f"the embedding endpoint refuses a text ({status})", status=status
        )
    if status == httpx.codes.REQUEST_TIMEOUT or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return UnavailableError(
            "EMBED_ENDPOINT_UNAVAILABLE",
            "the embedding endpoint fails; try again",
            status=status,
            retry_after_seconds=retry_after_seconds,
        )
    return FailedPreconditionError(
        "EMBED_ACCESS_DENIED",
        f"the embedding endpoint answers {status}: it refuses the configured key, model or address",
        status=status,
    )


def _read_vectors(response: httpx.Response, text_count: int) -> NDArray[np.float32]:
    """Read an answer: it is untrusted, and its items may come in any order."""
    try:
        items: list[dict[str, Any]] = response.json()["data"]
        rows = {int(item["index"]): item["embedding"] for item in items}
        return np.array([rows[position] for position in range(text_count)], dtype=np.float32)
    except (ValueError, KeyError, TypeError) as error:
        raise InternalError(
            "EMBED_RESPONSE_INVALID", "the embedding endpoint gave an answer that does not fit the request"
        ) from error
