"""Reads the files attached to a PDF, each as a document of its own under a heading with its name."""

from collections.abc import Callable

import pypdfium2 as pdfium

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source, one_line
from corpusmesh_adapters.parsers.pdf_extras import PypdfView
from corpusmesh_core.documents import BlockKind, ParsedDocument
from corpusmesh_core.errors import DocumentError


def add_attachments(
    builder: DocumentBuilder,
    pdf: pdfium.PdfDocument,
    source: Source,
    view: PypdfView,
    parse_inner: Callable[[Source], ParsedDocument],
) -> list[str]:
    """Add the attached files.

    Args:
        builder: Takes their blocks after those of the pages.
        pdf: The document.
        source: Where it came from; its limits count for the attachments too.
        view: Reads what PDFium does not find.
        parse_inner: Reads an attachment as a document of its own.

    Returns:
        Names of the attachments that were looked at.
    """
    names: list[str] = []
    limits = source.limits
    for index in range(pdf.count_attachments()):
        if index >= limits.max_attachments:
            builder.warn(f"Attachments beyond max_attachments={limits.max_attachments} were not read.")
            break
        attachment = pdf.get_attachment(index)
        name = one_line(attachment.get_name()) or f"attachment {index + 1}"
        names.append(name)
        if source.depth >= limits.max_attachment_depth:
            depth = limits.max_attachment_depth
            builder.warn(f"Attachment {index + 1} lies deeper than max_attachment_depth={depth} and was not read.")
            continue
        content = _content(attachment) or view.attachment(name)
        if not content:
            builder.warn(f"Attachment {index + 1} cannot be read.")
            continue
        try:
            inner = parse_inner(source.inside(content, name))
        except DocumentError as error:
            builder.warn(f"Attachment {index + 1} was not read: {error.message}")
            continue
        builder.close_headings(1)
        builder.add(BlockKind.HEADING, name, level=1)
        builder.extend(inner)
        builder.close_headings(1)
    return names


def _content(attachment: pdfium.PdfAttachment) -> bytes:
    try:
        return bytes(attachment.get_data())
    except pdfium.PdfiumError:
        return b""
