"""Reads many hits page by page, on one state of the index."""

import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from corpusmesh_adapters.opensearch.transport import Transport, check_response
from corpusmesh_core.errors import CorpusMeshError, DeadlineExceededError

_KEEP_ALIVE = "60s"
_RELEASE_SECONDS = 5.0


async def scroll(
    transport: Transport, alias: str, body: Mapping[str, Any], *, max_count: int, timeout_seconds: float
) -> AsyncIterator[Mapping[str, Any]]:
    """Read all hits of a search.

    Args:
        transport: The way to the cluster.
        alias: Where to search.
        body: The search, with the size of a page.
        max_count: Where to stop.
        timeout_seconds: Deadline of all pages.

    Yields:
        Hits.

    Raises:
        DeadlineExceededError: INDEX_DEADLINE_EXCEEDED if the time is over first.
    """
    deadline = time.monotonic() + timeout_seconds
    count = 0
    response = await transport.request(
        "POST", f"/{alias}/_search", body=dict(body), params={"scroll": _KEEP_ALIVE}, timeout_seconds=timeout_seconds
    )
    try:
        while True:
            check_response(response)
            hits = response["hits"]["hits"]
            for hit in hits[: max_count - count]:
                yield hit
            count += len(hits)
            if count >= max_count or len(hits) < body["size"]:
                return
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise DeadlineExceededError("INDEX_DEADLINE_EXCEEDED", "the records could not be read in time")
            response = await transport.request(
                "POST",
                "/_search/scroll",
                body={"scroll": _KEEP_ALIVE, "scroll_id": response["_scroll_id"]},
                timeout_seconds=remaining,
            )
    finally:
        # It ends by itself too, a minute later.
        with contextlib.suppress(CorpusMeshError):
            await transport.request(
                "DELETE",
                "/_search/scroll",
                body={"scroll_id": [response["_scroll_id"]]},
                timeout_seconds=_RELEASE_SECONDS,
            )
