"""Mail (RFC 5322): headers, one form of the body, attachments through the same router."""

import email
import email.policy
from collections.abc import Callable
from email.message import EmailMessage
from typing import cast

from selectolax.lexbor import LexborHTMLParser

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source, one_line
from corpusmesh_adapters.parsers.encodings import decode
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_adapters.parsers.html_blocks import HtmlWalker
from corpusmesh_adapters.parsers.plain_text import add_paragraphs
from corpusmesh_core.documents import BlockKind, ParsedDocument
from corpusmesh_core.errors import DocumentError

_HEADERS = ("Subject", "From", "To", "Cc", "Date")
# A plain part this much shorter than the HTML part is a stub ("your reader cannot show HTML").
_STUB_SHARE = 0.2


def parse_mail(source: Source, parse_inner: Callable[[Source], ParsedDocument]) -> ParsedDocument:
    """Read a mail.

    Args:
        source: The document.
        parse_inner: Reads an attachment as a document of its own.

    Returns:
        Headers as one block, the body once (plain text unless it is a stub beside HTML), then each attachment under a
        heading with its name.

    Raises:
        DocumentError: DOCUMENT_EMPTY or DOCUMENT_RESOURCE_LIMIT.
    """
    message = email.message_from_bytes(source.content, policy=email.policy.default)
    builder = DocumentBuilder(Format.EML, source.limits)
    headers = {name: _header(message, name) for name in _HEADERS}
    builder.add(BlockKind.PARAGRAPH, "\n".join(f"{name}: {value}" for name, value in headers.items() if value))
    _add_body(builder, message, source)
    names = _add_attachments(builder, message, source, parse_inner)
    metadata = {name.lower(): value for name, value in headers.items()} | {"attachments": ", ".join(names)}
    return builder.build(
        title=headers["Subject"], metadata=metadata, empty_detail="the mail has no headers and no body"
    )


def _header(message: EmailMessage, name: str) -> str:
    # Headers of real mail break the standard in ways that the library answers with all kinds of errors.
    try:
        return one_line(str(message.get(name, "")))
    except (ValueError, TypeError, LookupError, AttributeError):
        return ""


def _add_body(builder: DocumentBuilder, message: EmailMessage, source: Source) -> None:
    plain, page = (message.get_body(preferencelist=(kind,)) for kind in ("plain", "html"))
    plain_text = _text(cast(EmailMessage, plain)) if plain is not None else ""
    page_text = _text(cast(EmailMessage, page)) if page is not None else ""
    tree = LexborHTMLParser(page_text) if page_text else None
    if tree is not None and tree.body is not None:
        visible = one_line(tree.body.text(deep=True))
        if len(one_line(plain_text)) < _STUB_SHARE * len(visible):
            HtmlWalker(builder, source).walk_tree(tree)
            return
    add_paragraphs(builder, plain_text, numbered=False)


def _text(part: EmailMessage) -> str:
    payload = part.get_payload(decode=True)
    if not isinstance(payload, bytes):
        return ""
    return decode(payload, part.get_content_charset("")).text


def _add_attachments(
    builder: DocumentBuilder, message: EmailMessage, source: Source, parse_inner: Callable[[Source], ParsedDocument]
) -> list[str]:
    names: list[str] = []
    for part in message.iter_attachments():
        name = one_line(part.get_filename() or _inner_subject(part) or f"attachment {len(names) + 1}")
        names.append(name)
        if len(names) > source.limits.max_attachments:
            builder.warn(f"Attachments beyond max_attachments={source.limits.max_attachments} were not read.")
            break
        content = _attached_bytes(part)
        if source.depth >= source.limits.max_attachment_depth:
            depth = source.limits.max_attachment_depth
            builder.warn(f"Attachment {len(names)} lies deeper than max_attachment_depth={depth} and was not read.")
            continue
        try:
            inner = parse_inner(Source(content, name, source.options, source.depth + 1))
        except DocumentError as error:
            builder.warn(f"Attachment {len(names)} was not read: {error.message}")
            continue
        builder.add(BlockKind.HEADING, name, level=1)
        builder.extend(inner)
        builder.close_headings(1)
    return names


def _inner_subject(part: EmailMessage) -> str:
    if part.get_content_type() != "message/rfc822":
        return ""
    inner = part.get_payload(0)
    return f"{_header(cast(EmailMessage, inner), 'Subject') or 'attached mail'}.eml"


def _attached_bytes(part: EmailMessage) -> bytes:
    if part.get_content_type() == "message/rfc822":
        return bytes(cast(EmailMessage, part.get_payload(0)))
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""
