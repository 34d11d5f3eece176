"""EML (RFC 5322): headers, one form of the body, attachments through the same router."""

import email
import email.policy
from collections.abc import Iterator
from email.message import EmailMessage
from typing import cast

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source, one_line
from corpusmesh_adapters.parsers.embedded import Parse, add_inner
from corpusmesh_adapters.parsers.encodings import decode
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_adapters.parsers.mail_body import add_body, add_headers
from corpusmesh_core.documents import ParsedDocument

_HEADERS = ("Subject", "From", "To", "Cc", "Date")


def parse_mail(source: Source, parse_inner: Parse) -> ParsedDocument:
    """Read a mail.

    Args:
        source: The document.
        parse_inner: Reads an attachment as a document of its own.

    Returns:
        Headers as one block, the body once (plain text unless it is a stub beside HTML; a quoted paragraph has the
        depth of its quotation as level), then each attachment under a heading with its name.

    Raises:
        DocumentError: DOCUMENT_EMPTY or DOCUMENT_RESOURCE_LIMIT.
    """
    message = email.message_from_bytes(source.content, policy=email.policy.default)
    builder = DocumentBuilder(Format.EML, source.limits, keep_pictures=source.options.keep_pictures)
    headers = {name: _header(message, name) for name in _HEADERS}
    add_headers(builder, headers)
    plain, page = (message.get_body(preferencelist=(kind,)) for kind in ("plain", "html"))
    add_body(
        builder,
        source,
        _text(cast(EmailMessage, plain)) if plain is not None else "",
        _text(cast(EmailMessage, page)) if page is not None else "",
    )
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


def _text(part: EmailMessage) -> str:
    payload = part.get_payload(decode=True)
    if not isinstance(payload, bytes):
        return ""
    return decode(payload, part.get_content_charset("")).text


def _add_attachments(builder: DocumentBuilder, message: EmailMessage, source: Source, parse_inner: Parse) -> list[str]:
    names: list[str] = []
    for part in _attachments(message):
        name = one_line(part.get_filename() or _inner_subject(part) or f"attachment {len(names) + 1}")
        names.append(name)
        if len(names) > source.limits.max_attachments:
            builder.warn(f"Attachments beyond max_attachments={source.limits.max_attachments} were not read.")
            break
        add_inner(builder, source, parse_inner, name, _attached_bytes(part), label=f"Attachment {len(names)}")
    return names


def _attachments(message: EmailMessage) -> Iterator[EmailMessage]:
    if message.is_multipart():
        yield from message.iter_attachments()
    elif message.get_content_maintype() != "text":
        yield message  # a mail that is nothing but a file


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
