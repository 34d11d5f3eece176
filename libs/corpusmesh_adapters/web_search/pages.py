"""`WebPages`: pages that a search engine named, fetched by the gate of all web addresses, parsed apart from us."""

import asyncio
import time
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network

import httpx

from corpusmesh_adapters.connectors.settings import WebSettings
from corpusmesh_adapters.connectors.web.addresses import Allow, Resolver, display_name, is_public, resolve_by_system
from corpusmesh_adapters.connectors.web.client import open_web_client
from corpusmesh_core.errors import DeadlineExceededError, DocumentError, UnavailableError
from corpusmesh_core.ports.parsing import DocumentParser, ParseLimits, ParseOptions, RecognitionMode
from corpusmesh_core.ports.web_search import WebPage

_MEBIBYTE = 1024 * 1024
_MIN_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class WebPageSettings:
    """What one page may cost.

    Attributes:
        max_page_bytes: Largest page.
        max_page_text_characters: Longest text of a page.
        max_pdf_pages: Most pages of a document.
        allowed_networks: Networks beside the public internet that may be connected to.
    """

    max_page_bytes: int = 4 * _MEBIBYTE
    max_page_text_characters: int = 1_000_000
    max_pdf_pages: int = 100
    allowed_networks: tuple[IPv4Network | IPv6Network, ...] = ()


class FetchedWebPages:
    """Reads pages; every address, also that of a redirect, is checked before it is connected to."""

    def __init__(
        self,
        settings: WebPageSettings,
        parser: DocumentParser,
        *,
        resolve: Resolver = resolve_by_system,
        public: Allow = is_public,
    ) -> None:
        """Create the reader.

        Args:
            settings: Bounds.
            parser: Reads what was fetched; owned by this reader.
            resolve: Gives all addresses of a host.
            public: Tells whether an address is public.
        """
        self._settings = settings
        self._parser = parser
        self._resolve = resolve
        self._public = public

    async def close(self) -> None:
        """See `WebPages`."""
        await self._parser.close()

    async def read(self, url: str, *, timeout_seconds: float) -> WebPage:
        """Fetch and parse a page; see `WebPages`.

        Args:
            url: Its address.
            timeout_seconds: Deadline.

        Returns:
            The page.

        Raises:
            UnavailableError: WEB_PAGE_STATUS if the site does not give the page.
            DeadlineExceededError: If the time is over.
            DocumentError: If it is nothing that can be read.
        """
        started = time.monotonic()
        bounds = WebSettings(
            allowed_networks=self._settings.allowed_networks,
            min_delay_seconds=0.0,
            request_timeout_seconds=timeout_seconds,
            max_attempts=1,
        )
        async with open_web_client(bounds, self._resolve, self._public) as client:
            answer = await client.get(url, max_bytes=self._settings.max_page_bytes)
        with answer.body:
            # A redirect that is not followed, as from https to http, is no page either.
            if answer.status_code != httpx.codes.OK:
                raise UnavailableError(
                    "WEB_PAGE_STATUS", f"a page of the web answered {answer.status_code}", status=answer.status_code
                )
            if answer.media_type.startswith(("image/", "audio/", "video/", "font/")):
                raise DocumentError("DOCUMENT_UNSUPPORTED", "a page of the web is no text", media_type="media")
            content = await asyncio.to_thread(answer.body.read)
        left = timeout_seconds - (time.monotonic() - started)
        if left < _MIN_SECONDS:
            raise DeadlineExceededError("WEB_PAGE_DEADLINE", "a page of the web took too long")
        document = await self._parser.parse(
            content,
            display_name=display_name(answer.url, answer.media_type),
            options=ParseOptions(limits=self._limits(left), recognition=RecognitionMode.NEVER),
            deadline_seconds=left,
        )
        return WebPage(str(answer.url), document)

    def _limits(self, seconds: float) -> ParseLimits:
        whole_seconds = max(1, int(seconds))
        return ParseLimits(
            max_bytes=self._settings.max_page_bytes,
            max_pages=self._settings.max_pdf_pages,
            max_rows=20_000,
            max_cells=200_000,
            max_uncompressed_bytes=16 * self._settings.max_page_bytes,
            max_attachment_depth=0,
            max_text_characters=self._settings.max_page_text_characters,
            cpu_seconds=whole_seconds,
            wall_seconds=whole_seconds,
            memory_bytes=512 * _MEBIBYTE,
        )
