"""Port of document parsing: bytes in, a `ParsedDocument` or a typed error out.

A parser reads hostile input. Whatever a file holds, it costs bounded memory and time and never another document.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from corpusmesh_core.documents import ParsedDocument
from corpusmesh_core.errors import DocumentError, InvalidArgumentError

_MEBIBYTE = 1024 * 1024

PARSER_REVISION = 1
"""Raised with each release whose parsers read some document otherwise: an earlier reading is then not taken over."""


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """What one document may cost; going beyond any of them is DOCUMENT_RESOURCE_LIMIT, naming the limit.

    Attributes:
        max_bytes: Length of the file as uploaded.
        max_pages: Pages, slides or sheets.
        max_rows: Table rows of one document, all sheets together.
        max_cells: Table cells of one document, all sheets together.
        max_uncompressed_bytes: What the members of a package (OOXML, ODF) unpack to.
        max_compression_ratio: Unpacked over packed bytes of a package member larger than 1 MiB.
        max_entries: Members of a package.
        max_depth: Nesting of elements, groups, objects or quotes in a document.
        max_attachment_depth: Mails within mails; 0 reads no attachment.
        max_attachments: Attachments of one mail.
        max_text_characters: Text of one document.
        max_pixels: Pixels of one image, or of one rendered page.
        max_recognized_pages: Pages of one document whose text is recognised (OCR); further ones are named in a warning.
        max_pictures: Figures kept of one document; further ones are left out.
        max_picture_bytes: Encoded figures and page images of one document together.
        cpu_seconds: Processor time of one document.
        recognition_cpu_seconds: Further processor time for each page that is recognised.
        wall_seconds: Time from start to end of one document.
        memory_bytes: Address space that one document may take beyond the idle parser process.
        recognition_memory_bytes: Further address space once recognition models are loaded.
    """

    max_bytes: int = 256 * _MEBIBYTE
    max_pages: int = 3_000
    max_rows: int = 200_000
    max_cells: int = 4_000_000
    max_uncompressed_bytes: int = 1024 * _MEBIBYTE
    max_compression_ratio: int = 200
    max_entries: int = 10_000
    max_depth: int = 100
    max_attachment_depth: int = 3
    max_attachments: int = 100
    max_text_characters: int = 20_000_000
    max_pixels: int = 100_000_000
    max_recognized_pages: int = 300
    max_pictures: int = 500
    max_picture_bytes: int = 128 * _MEBIBYTE
    cpu_seconds: int = 120
    recognition_cpu_seconds: int = 60
    wall_seconds: int = 300
    memory_bytes: int = 1024 * _MEBIBYTE
    recognition_memory_bytes: int = 3 * 1024 * _MEBIBYTE

    def __post_init__(self) -> None:
        """Refuse limits that let nothing pass.

        Raises:
            InvalidArgumentError: PARSE_LIMIT_INVALID if a limit is below 1 (attachment limits: below 0).
        """
        for limit in fields(self):
            least = 0 if "attachment" in limit.name else 1
            if getattr(self, limit.name) < least:
                raise InvalidArgumentError(
                    "PARSE_LIMIT_INVALID",
                    f"The parse limit {limit.name} is below {least}.",
                    field=limit.name,
                    limit=limit.name,
                    least=least,
                )


class RecognitionMode(StrEnum):
    """When text is recognised in images of pages (OCR)."""

    AUTO = "auto"
    """Where a page has no text layer that can be read, and in images."""
    NEVER = "never"
    ALWAYS = "always"
    """On every page, in place of its text layer."""


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """How to read one document.

    Attributes:
        password: Opens an encrypted document; None where there is none. Never logged, never in a `repr`.
        limits: What the document may cost.
        recognition: When text is recognised in images.
        keep_pictures: Whether figures are cut out and kept.
        render_pages: Whether each page is kept as an image.
        render_dots_per_inch: Resolution of page images.
    """

    password: str | None = field(default=None, repr=False)
    limits: ParseLimits = field(default_factory=ParseLimits)
    recognition: RecognitionMode = RecognitionMode.AUTO
    keep_pictures: bool = False
    render_pages: bool = False
    render_dots_per_inch: int = 100


@dataclass(frozen=True, slots=True)
class ParseRequest:
    """One document of a batch.

    Attributes:
        content: The file, or where it lies on this machine.
        display_name: Its file name: data only, it never names a path; it breaks ties between text formats.
        options: How to read it.
    """

    content: Path | bytes
    display_name: str
    options: ParseOptions = field(default_factory=ParseOptions)


class DocumentParser(Protocol):
    """Reads documents of every supported format, each apart from the caller and from the others."""

    async def parse(
        self, content: Path | bytes, *, display_name: str, options: ParseOptions, deadline_seconds: float
    ) -> ParsedDocument:
        """Read one document; the format is decided by its content.

        Args:
            content: The file, or where it lies on this machine.
            display_name: Its file name, data only.
            options: Password and limits.
            deadline_seconds: Time the caller has left, waiting for a free parser included.

        Returns:
            Blocks in reading order with their places.

        Raises:
            DocumentError: DOCUMENT_ENCRYPTED, DOCUMENT_CORRUPT, DOCUMENT_EMPTY, DOCUMENT_UNSUPPORTED or
                DOCUMENT_RESOURCE_LIMIT, saying what to do.
            OverloadedError: PARSER_QUEUE_FULL if too many calls wait for a parser.
            DeadlineExceededError: PARSE_DEADLINE_EXCEEDED if the caller's time is over first.
            UnavailableError: PARSER_UNAVAILABLE if no parser process can be started or the pool is closed.
        """
        ...

    async def parse_many(
        self, requests: Sequence[ParseRequest], *, deadline_seconds: float
    ) -> list[ParsedDocument | DocumentError]:
        """Read many documents; small ones share a trip to a parser, which makes them far cheaper than one by one.

        Args:
            requests: The documents.
            deadline_seconds: Time for all of them.

        Returns:
            One result per request, in their order; a bad document costs itself alone.

        Raises:
            OverloadedError: PARSER_QUEUE_FULL if too many calls wait for a parser.
            DeadlineExceededError: PARSE_DEADLINE_EXCEEDED if the caller's time is over first.
            UnavailableError: PARSER_UNAVAILABLE if no parser process can be started or the pool is closed.
        """
        ...

    async def close(self) -> None:
        """Stop every parser process; calls in flight fail with UnavailableError."""
        ...
