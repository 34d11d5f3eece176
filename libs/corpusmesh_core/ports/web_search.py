"""Ports of the web: a search engine, and pages read apart from everything else.

What leaves the installation is the text of a query and the addresses of pages that the engine named; never text of a
document.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from corpusmesh_core.documents import ParsedDocument


@dataclass(frozen=True, slots=True)
class WebResult:
    """One hit of a search engine.

    Attributes:
        url: Address of the page, http or https.
        title: Its title; "" where the engine gave none.
        snippet: What the engine shows of it; "" for nothing.
        content: The page's text, where the engine gave it; "" where the page must be read.
    """

    url: str
    title: str
    snippet: str = ""
    content: str = ""


class WebSearch(Protocol):
    """A search engine."""

    async def search(self, query: str, max_results: int, timeout_seconds: float) -> Sequence[WebResult]:
        """Search the web.

        Args:
            query: What to look for; it leaves the installation.
            max_results: Most results, at least 1.
            timeout_seconds: Deadline.

        Returns:
            Results, best first, each address once.

        Raises:
            UnavailableError: If the engine does not answer, or refuses the key or the request.
            OverloadedError: If it asks to wait.
            DeadlineExceededError: If the time is over.
        """
        ...

    async def close(self) -> None:
        """Close idle connections."""
        ...


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page that was read.

    Attributes:
        url: Its address after redirects.
        document: What its parser made of it.
    """

    url: str
    document: ParsedDocument


class WebPages(Protocol):
    """Reads pages through the one safe fetcher and the parsers of documents."""

    async def read(self, url: str, *, timeout_seconds: float) -> WebPage:
        """Fetch and parse a page.

        Args:
            url: Its address, as a stranger gave it.
            timeout_seconds: Deadline of fetching and parsing together.

        Returns:
            The page.

        Raises:
            CorpusMeshError: If the address leads to anything private, the page does not come, or it cannot be read.
        """
        ...

    async def close(self) -> None:
        """Stop what reads."""
        ...
