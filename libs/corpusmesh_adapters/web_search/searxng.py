"""`WebSearch` on SearXNG, or on anything that answers like it: the operator's own search engine."""

from collections.abc import Sequence

from corpusmesh_adapters.web_search.engine import MAX_QUERY_CHARACTERS, ask_engine, engine_client, read_results
from corpusmesh_core.ports.web_search import WebResult


class SearxngSearch:
    """Asks `GET /search?format=json`, which the instance must have among its `search.formats`."""

    def __init__(self, base_url: str) -> None:
        """Create the client; nothing is sent yet.

        Args:
            base_url: Where the instance answers, such as `http://searxng:8080`.
        """
        self._client = engine_client(base_url)

    async def close(self) -> None:
        """See `WebSearch`."""
        await self._client.aclose()

    async def search(self, query: str, max_results: int, timeout_seconds: float) -> Sequence[WebResult]:
        """Search; see `WebSearch`.

        Args:
            query: What to look for; SearXNG's own query syntax is defused.
            max_results: Most results.
            timeout_seconds: Deadline.

        Returns:
            Results, best first.
        """
        request = self._client.build_request(
            "GET", "search", params={"q": _plain(query), "format": "json", "pageno": "1", "safesearch": "1"}
        )
        value = await ask_engine(self._client, request, timeout_seconds=timeout_seconds)
        return read_results(value, snippet="content", content="", max_results=max_results)


def _plain(query: str) -> str:
    """Defuse `!engine`, `:language` and `?`: they choose engines, and `!!` redirects the caller."""
    words = (word.lstrip("!:?<") for word in query.split())
    return " ".join(word for word in words if word)[:MAX_QUERY_CHARACTERS]
