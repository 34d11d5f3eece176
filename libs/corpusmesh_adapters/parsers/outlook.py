"""MSG: a mail as Outlook saves it, read from its own streams ([MS-OXMSG])."""

import io
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import olefile

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source, one_line
from corpusmesh_adapters.parsers.cleaning import shown_name
from corpusmesh_adapters.parsers.embedded import Parse, add_inner
from corpusmesh_adapters.parsers.encodings import decode
from corpusmesh_adapters.parsers.failures import corrupt
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_adapters.parsers.html_blocks import declared_encoding
from corpusmesh_adapters.parsers.mail_body import add_body, add_headers
from corpusmesh_adapters.parsers.rtf import add_rtf
from corpusmesh_adapters.parsers.rtf_compression import decompress_rtf
from corpusmesh_adapters.parsers.rtf_words import codec_of_page
from corpusmesh_core.documents import BlockKind, ParsedDocument

# Property numbers ([MS-OXPROPS]).
_SUBJECT, _HEADERS, _BODY, _BODY_RTF, _BODY_HTML = 0x0037, 0x007D, 0x1000, 0x1009, 0x1013
_SENDER_NAME, _SENDER_ADDRESS, _SENDER_SMTP, _ON_BEHALF_SMTP = 0x0C1A, 0x0C1F, 0x5D01, 0x5D02
_TO, _CC, _SENT, _DELIVERED = 0x0E04, 0x0E03, 0x0039, 0x0E06
_NAME, _SMTP, _ADDRESS, _RECIPIENT_KIND = 0x3001, 0x39FE, 0x3003, 0x0C15
_CODE_PAGE, _INTERNET_CODE_PAGE = 0x3FFD, 0x3FDE
_LONG_FILE_NAME, _FILE_NAME, _ATTACHED = 0x3707, 0x3704, 0x3701
_UNICODE, _BYTE_TEXT, _BINARY, _OBJECT, _TIME = 0x001F, 0x001E, 0x0102, 0x000D, 0x0040
_PROPERTIES = "__properties_version1.0"
_RECIPIENT, _ATTACHMENT = "__recip_version1.0_", "__attach_version1.0_"
_ROOT_HEADER_BYTES, _MESSAGE_HEADER_BYTES, _CHILD_HEADER_BYTES, _ENTRY_BYTES = 32, 24, 8, 16
_EPOCH = datetime(1601, 1, 1, tzinfo=UTC)
_DATE_HEADER = re.compile(r"^Date:[ \t]*(.+)$", re.IGNORECASE | re.MULTILINE)
_KIND_NAMES = {1: "To", 2: "Cc"}

_Path = tuple[str, ...]


@dataclass(slots=True)
class _Store:
    """A storage with properties: a message, a recipient or an attachment.

    Attributes:
        container: The open file.
        path: Where the storage lies.
        header_bytes: Length of what stands before its properties of fixed length.
        codec: How its byte texts are encoded.
        fixed: Values of fixed length by number.
    """

    container: "olefile.OleFileIO[Any]"
    path: _Path
    header_bytes: int
    codec: str = "cp1252"
    fixed: dict[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        stream = self._stream(_PROPERTIES)
        for at in range(self.header_bytes, len(stream) - _ENTRY_BYTES + 1, _ENTRY_BYTES):
            (tag,) = struct.unpack_from("<I", stream, at)
            self.fixed[tag >> 16] = stream[at + 8 : at + _ENTRY_BYTES]
        page = self.number(_CODE_PAGE) or self.number(_INTERNET_CODE_PAGE)
        if page:
            self.codec = codec_of_page(page)

    def _stream(self, name: str) -> bytes:
        path = [*self.path, name]
        return bytes(self.container.openstream(path).read()) if self.container.exists(path) else b""

    def text(self, number: int) -> str:
        """Read a text."""
        wide = self._stream(f"__substg1.0_{number:04X}{_UNICODE:04X}")
        if wide:
            return wide.decode("utf-16-le", "replace").rstrip("\0")
        return self._stream(f"__substg1.0_{number:04X}{_BYTE_TEXT:04X}").decode(self.codec, "replace").rstrip("\0")

    def binary(self, number: int) -> bytes:
        """Read bytes."""
        return self._stream(f"__substg1.0_{number:04X}{_BINARY:04X}")

    def number(self, number: int) -> int:
        """Read a whole number, 0 where there is none."""
        return int.from_bytes(self.fixed.get(number, b"")[:4], "little")

    def time(self, number: int) -> str:
        """Read a time in ISO 8601, "" where there is none."""
        ticks = int.from_bytes(self.fixed.get(number, b""), "little")
        try:
            return (_EPOCH + timedelta(microseconds=ticks // 10)).isoformat() if ticks else ""
        except OverflowError:
            return ""

    def children(self, prefix: str) -> Iterator["_Store"]:
        """List recipients or attachments in their order."""
        depth = len(self.path)
        names = {
            entry[depth]
            for entry in self.container.listdir()
            if len(entry) > depth + 1 and tuple(entry[:depth]) == self.path and entry[depth].startswith(prefix)
        }
        for name in sorted(names):
            yield _Store(self.container, (*self.path, name), _CHILD_HEADER_BYTES, self.codec)


def parse_msg(source: Source, parse_inner: Parse) -> ParsedDocument:
    """Read an Outlook mail.

    Args:
        source: The document.
        parse_inner: Reads an attachment as a document of its own.

    Returns:
        As for a mail of the common format: headers, the body once, attachments under their names; an attached mail
        lies one level deeper.

    Raises:
        DocumentError: DOCUMENT_CORRUPT, DOCUMENT_EMPTY or DOCUMENT_RESOURCE_LIMIT.
    """
    builder = DocumentBuilder(Format.MSG, source.limits, keep_pictures=source.options.keep_pictures)
    try:
        with olefile.OleFileIO(io.BytesIO(source.content)) as container:
            message = _Store(container, (), _ROOT_HEADER_BYTES)
            headers = _add_message(builder, source, message)
            names = _add_attachments(builder, source, message, parse_inner)
    except (OSError, ValueError, IndexError, TypeError, struct.error) as error:
        raise corrupt(f"its streams cannot be read ({type(error).__name__})") from error
    metadata = {name.lower(): value for name, value in headers.items()} | {"attachments": ", ".join(names)}
    return builder.build(
        title=headers["Subject"], metadata=metadata, empty_detail="the mail has no headers and no body"
    )


def _add_message(builder: DocumentBuilder, source: Source, message: _Store) -> dict[str, str]:
    headers = _headers(message)
    add_headers(builder, headers)
    plain, page = message.text(_BODY), _page(message)
    if not plain.strip() and not page:
        rtf = decompress_rtf(message.binary(_BODY_RTF), max_bytes=source.limits.max_uncompressed_bytes)
        if rtf:
            add_rtf(builder, rtf, source)
            return headers
    add_body(builder, source, plain, page)
    return headers


def _headers(message: _Store) -> dict[str, str]:
    recipients: dict[str, list[str]] = {"To": [], "Cc": []}
    for recipient in message.children(_RECIPIENT):
        kind = _KIND_NAMES.get(recipient.number(_RECIPIENT_KIND))
        if kind is not None:
            recipients[kind].append(_person(recipient.text(_NAME), recipient.text(_SMTP) or recipient.text(_ADDRESS)))
    address = message.text(_SENDER_SMTP) or message.text(_ON_BEHALF_SMTP) or message.text(_SENDER_ADDRESS)
    date = _DATE_HEADER.search(message.text(_HEADERS))
    headers = {
        "Subject": message.text(_SUBJECT),
        "From": _person(message.text(_SENDER_NAME), address),
        "To": ", ".join(filter(None, recipients["To"])) or message.text(_TO),
        "Cc": ", ".join(filter(None, recipients["Cc"])) or message.text(_CC),
        "Date": date.group(1) if date else message.time(_SENT) or message.time(_DELIVERED),
    }
    return {name: one_line(value) for name, value in headers.items()}


def _person(name: str, address: str) -> str:
    # An address inside one's own organisation is a path of a directory, which says nothing to a reader.
    address = address if "@" in address else ""
    if name and address and name != address:
        return f"{name} <{address}>"
    return name or address


def _page(message: _Store) -> str:
    content = message.binary(_BODY_HTML)
    if not content:
        return message.text(_BODY_HTML)
    page = message.number(_INTERNET_CODE_PAGE)
    return decode(content, codec_of_page(page) if page else declared_encoding(content)).text


def _add_attachments(builder: DocumentBuilder, source: Source, message: _Store, parse_inner: Parse) -> list[str]:
    names: list[str] = []
    for number, attachment in enumerate(message.children(_ATTACHMENT), 1):
        if number > source.limits.max_attachments:
            builder.warn(f"Attachments beyond max_attachments={source.limits.max_attachments} were not read.")
            break
        inner = f"__substg1.0_{_ATTACHED:04X}{_OBJECT:04X}"
        is_message = attachment.container.exists([*attachment.path, inner, _PROPERTIES])
        name = next(
            filter(None, (attachment.text(key) for key in (_LONG_FILE_NAME, _FILE_NAME, _NAME))), f"attachment {number}"
        )
        names.append(shown_name(name))
        if is_message:
            _add_inner_message(builder, source, attachment, inner, parse_inner, names[-1])
        else:
            add_inner(builder, source, parse_inner, name, attachment.binary(_ATTACHED), label=f"Attachment {number}")
    return names


def _add_inner_message(
    builder: DocumentBuilder, source: Source, attachment: _Store, inner: str, parse_inner: Parse, name: str
) -> None:
    """Add a mail that lies in this one as a storage, not as a file of its own."""
    limit = source.limits.max_attachment_depth
    if source.depth >= limit:
        builder.warn(f"An attached mail lies deeper than max_attachment_depth={limit} and was not read.")
        return
    message = _Store(attachment.container, (*attachment.path, inner), _MESSAGE_HEADER_BYTES, attachment.codec)
    deeper = source.inside(b"", name)
    builder.close_headings(1)
    builder.add(BlockKind.HEADING, name, level=1)
    _add_message(builder, deeper, message)
    _add_attachments(builder, deeper, message, parse_inner)
    builder.close_headings(1)
