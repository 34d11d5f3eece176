"""`WebSearch` on the API of Tavily, or on a service that answers like it: commercial, by key."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from corpusmesh_adapters.web_search.engine import MAX_QUERY_CHARACTERS, ask_engine, engine_client, read_results
from corpusmesh_core.errors import UnavailableError
from corpusmesh_core.ports.web_search import WebResult

_MOST_RESULTS = 20


class TavilySearch:
    """Asks `POST /search`."""

    def __init__(self, base_url: str, api_key_file: Path) -> None:
        """Create the client; nothing is sent yet.

        Args:
            base_url: Where the service answers, such as `https://api.tavily.com`.
            api_key_file: File with the key, read before every call so that a rotated key works at once.
        """
        self._client = engine_client(base_url)
        self._api_key_file = api_key_file

    async def close(self) -> None:
        """See `WebSearch`."""
        await self._client.aclose()

    async def search(self, query: str, max_results: int, timeout_seconds: float) -> Sequence[WebResult]:
        """Search; see `WebSearch`.

        Args:
            query: What to look for.
            max_results: Most results.
            timeout_seconds: Deadline.

        Returns:
            Results, best first, with the pages' text where the service has it.
        """
        try:
            key = (await asyncio.to_thread(self._api_key_file.read_text, encoding="utf-8")).strip()
        except OSError as error:
            raise UnavailableError(
                "WEB_SEARCH_REFUSED", "the file with the key of the web search cannot be read"
            ) from error
        request = self._client.build_request(
            "POST",
            "search",
            headers={"Authorization": f"Bearer {key}"},
            json={
                "query": query[:MAX_QUERY_CHARACTERS],
                "max_results": min(max_results, _MOST_RESULTS),
                "include_answer": False,
                "include_images": False,
                "include_raw_content": False,
            },
        )
        value = await ask_engine(self._client, request, timeout_seconds=timeout_seconds)
        return read_results(value, snippet="content", content="raw_content", max_results=max_results)
