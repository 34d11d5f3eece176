"""Cross-encoder behind an endpoint that reranks: Cohere's form, which Jina and vLLM speak too, or that of TEI."""

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
from corpusmesh_adapters.models.rerank_scores import Activation, scores_checked
from corpusmesh_core.errors import (
    CorpusMeshError,
    FailedPreconditionError,
    InternalError,
    OverloadedError,
    UnavailableError,
)
from corpusmesh_core.ports.reranking import RerankModel

_FIRST_BACKOFF_SECONDS: Final = 0.2
_LONGEST_BACKOFF_SECONDS: Final = 2.0
_MAX_RESPONSE_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RerankEndpoint:
    """Where the model is and how hard to try.

    Attributes:
        base_url: What comes before `/rerank`.
        model: Name that the endpoint knows the model by; "" for an endpoint that has one alone.
        is_tei: Whether it speaks TEI's form instead of Cohere's.
        api_key_file: File with the key, read before every request so that a rotated key works at once; None for none.
        scores_are_logits: Whether its scores still have to go through a sigmoid.
        max_passage_characters: Characters that are sent of one passage.
        max_batch_passages: Passages of one request.
        request_timeout_seconds: Bound of one attempt.
        max_attempt_count: Attempts of one request, the first included.
    """

    base_url: str
    model: str = ""
    is_tei: bool = False
    api_key_file: Path | None = None
    scores_are_logits: bool = False
    max_passage_characters: int = 4_000
    max_batch_passages: int = 32
    request_timeout_seconds: float = 10.0
    max_attempt_count: int = 2


class HttpRerankBackend:
    """Scores through an endpoint; see `corpusmesh_core.ports.reranking.RerankBackend`. Thread-safe.

    Nothing that the endpoint writes reaches a caller: its error texts can hold document text or the key.
    """

    def __init__(
        self,
        endpoint: RerankEndpoint,
        *,
        jitter: Callable[[], float] = random.random,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Make the client; nothing is sent yet: an endpoint that is down when the mesh starts may come up later.

        Args:
            endpoint: Where and how.
            jitter: Draws from [0, 1), so that refused callers do not come back together.
            sleep: Waits between attempts.
        """
        self._endpoint = endpoint
        self._jitter = jitter
        self._sleep = sleep
        identity = json.dumps([endpoint.model, endpoint.is_tei, endpoint.scores_are_logits])
        fingerprint = hashlib.sha256(identity.encode()).hexdigest()
        self._model = RerankModel(endpoint.model or "endpoint", 0, fingerprint)
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
    def model(self) -> RerankModel:
        """The model."""
        return self._model

    @property
    def max_batch_passages(self) -> int:
        """Passages of one `score`."""
        return self._endpoint.max_batch_passages

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float32]:
        """Score passages; see `RerankBackend.score`.

        Args:
            question: The question.
            passages: The passages.

        Returns:
            One score a passage.

        Raises:
            CorpusMeshError: As the port says.
        """
        length = self._endpoint.max_passage_characters
        body = self._body(question[:length], [passage[:length] for passage in passages])
        return with_retries(
            lambda: self._attempt(body, len(passages)), self._retries, jitter=self._jitter, sleep=self._sleep
        )

    def _body(self, question: str, passages: list[str]) -> dict[str, Any]:
        if self._endpoint.is_tei:
            is_raw = self._endpoint.scores_are_logits
            return {"query": question, "texts": passages, "raw_scores": is_raw, "truncate": True}
        return {
            "model": self._endpoint.model,
            "query": question,
            "documents": passages,
            "top_n": len(passages),
            "return_documents": False,
        }

    def _attempt(self, body: dict[str, Any], count: int) -> NDArray[np.float32]:
        try:
            response = self._client.post("rerank", json=body, headers=self._headers())
        except httpx.HTTPError as error:
            raise UnavailableError(
                "RERANK_ENDPOINT_UNAVAILABLE", "the reranking endpoint does not answer; try again"
            ) from error
        if response.status_code != httpx.codes.OK:
            raise _refusal(response)
        if len(response.content) > _MAX_RESPONSE_BYTES:
            raise InternalError("RERANK_SCORES_INVALID", "the reranking endpoint's answer is too large")
        activation = Activation.SIGMOID if self._endpoint.scores_are_logits else Activation.NONE
        return scores_checked(_read_scores(response, count), count=count, activation=activation)

    def _headers(self) -> dict[str, str]:
        unreadable = FailedPreconditionError(
            "RERANK_ACCESS_DENIED", "the file with the key of the reranking endpoint cannot be read"
        )
        return key_headers(self._endpoint.api_key_file, unreadable)


def _refusal(response: httpx.Response) -> CorpusMeshError:
    status = response.status_code
    retry_after_seconds = retry_after_seconds_of(response)
    if status == httpx.codes.TOO_MANY_REQUESTS:
        return OverloadedError(
            "RERANK_ENDPOINT_BUSY",
            "the reranking endpoint refuses more requests for now; try again",
            retry_delay_seconds=max(retry_after_seconds, 1.0),
            retry_after_seconds=retry_after_seconds,
        )
    if status == httpx.codes.REQUEST_TIMEOUT or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return UnavailableError(
            "RERANK_ENDPOINT_UNAVAILABLE",
            "the reranking endpoint fails; try again",
            status=status,
            retry_after_seconds=retry_after_seconds,
        )
    return FailedPreconditionError(
        "RERANK_ACCESS_DENIED",
        f"the reranking endpoint answers {status}: it refuses the configured key, model, protocol or address",
        status=status,
    )


def _read_scores(response: httpx.Response, count: int) -> NDArray[np.float32]:
    """Read an answer: it is untrusted, and its items come in any order, Cohere's by score."""
    try:
        content: Any = response.json()
        items: list[dict[str, Any]] = content["results"] if isinstance(content, dict) else content
        rows = {
            int(item["index"]): float(item["relevance_score"] if "relevance_score" in item else item["score"])
            for item in items
        }
        return np.array([rows[place] for place in range(count)], dtype=np.float32)
    except (ValueError, KeyError, TypeError) as error:
        raise InternalError(
            "RERANK_SCORES_INVALID", "the reranking endpoint gave an answer that does not fit the request"
        ) from error
