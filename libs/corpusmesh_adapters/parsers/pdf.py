"""PDF: text lines by PDFium, ruled tables, headings by look and outline, form values; pages one by one."""

import ctypes
import gc
from collections.abc import Callable

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source
from corpusmesh_adapters.parsers.failures import corrupt, encrypted, over_limit
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_adapters.parsers.pdf_attachments import add_attachments
from corpusmesh_adapters.parsers.pdf_blocks import add_pages
from corpusmesh_adapters.parsers.pdf_pages import PageReader
from corpusmesh_core.documents import BlockKind, OutlineEntry, ParsedDocument

_MAX_OUTLINE_ENTRIES = 5_000
_MAX_OUTLINE_DEPTH = 12
_COLLECTION_THRESHOLD = 1_000_000
_MAX_LANGUAGE_CHARACTERS = 64
_METADATA = {"Author": "author", "Subject": "subject", "Keywords": "keywords", "CreationDate": "created"}


def parse_pdf(source: Source, parse_inner: Callable[[Source], ParsedDocument]) -> ParsedDocument:
    """Read a PDF.

    Args:
        source: The document.
        parse_inner: Reads an attached file as a document of its own.

    Returns:
        Blocks with a box per line in points from the page's top left; running heads and feet once each; tables with a
        box per row, those that go on over pages as one. Pages without a text layer that can be read are recognised;
        those that cannot be read at all are named in the warnings. Attached files follow, each under its name.

    Raises:
        DocumentError: DOCUMENT_ENCRYPTED, DOCUMENT_CORRUPT, DOCUMENT_EMPTY (no text on any page) or
            DOCUMENT_RESOURCE_LIMIT.
    """
    pdf = _open(source)
    thresholds = gc.get_threshold()
    # Nothing here hangs together in circles, and looking for them takes 5 to 15 % of the time.
    gc.set_threshold(_COLLECTION_THRESHOLD, *thresholds[1:])
    try:
        page_count = len(pdf)
        if page_count > source.limits.max_pages:
            raise over_limit("max_pages", source.limits.max_pages, f"it has {page_count} pages")
        if pdf.get_formtype() in (pdfium_c.FORMTYPE_ACRO_FORM, pdfium_c.FORMTYPE_XFA_FOREGROUND):
            pdf.init_forms()
        builder = DocumentBuilder(Format.PDF, source.limits, keep_pictures=source.options.keep_pictures)
        reader = PageReader(source, builder)
        pages = reader.read(pdf, page_count)
        if len(reader.failed) == page_count:
            raise corrupt(f"none of its {page_count} pages can be read")
        outline = _outline(pdf)
        add_pages(builder, pages, outline)
        metadata = _metadata(pdf)
        language = _language(pdf)
        metadata["attachments"] = ", ".join(add_attachments(builder, pdf, source, reader.view, parse_inner))
    finally:
        gc.set_threshold(*thresholds)
        pdf.close()
    reader.warn()
    title = metadata.pop("title", "") or builder.first_text(BlockKind.TITLE)
    return builder.build(
        title=title,
        page_count=page_count,
        outline=outline,
        metadata=metadata,
        declared_language=language,
        empty_detail=reader.why_empty(page_count),
    )


def _open(source: Source) -> pdfium.PdfDocument:
    try:
        pdf = pdfium.PdfDocument(source.content, password=source.options.password)
        if len(pdf) == 0:
            pdf.close()
            raise corrupt("it has no pages that can be found")
    except pdfium.PdfiumError as error:
        code = getattr(error, "err_code", None)
        # PDFium's error of an earlier document may linger: without encryption in the file, it is not about a password.
        if code == pdfium_c.FPDF_ERR_PASSWORD and b"/Encrypt" in source.content:
            detail = "the given password does not open it" if source.options.password else "it needs a password to open"
            raise encrypted(detail) from error
        if code == pdfium_c.FPDF_ERR_SECURITY:
            raise encrypted("in a way that is not read here", password_helps=False) from error
        raise corrupt("its structure cannot be read, as after an interrupted transfer") from error
    return pdf


def _outline(pdf: pdfium.PdfDocument) -> tuple[OutlineEntry, ...]:
    entries: list[OutlineEntry] = []
    try:
        for bookmark in pdf.get_toc(max_depth=_MAX_OUTLINE_DEPTH):
            target = bookmark.get_dest()
            index = target.get_index() if target is not None else None
            title = bookmark.get_title().strip()
            if title:
                entries.append(OutlineEntry(title, bookmark.level + 1, 0 if index is None else index + 1))
            if len(entries) >= _MAX_OUTLINE_ENTRIES:
                break
    except (pdfium.PdfiumError, ValueError):
        return tuple(entries)
    return tuple(entries)


def _metadata(pdf: pdfium.PdfDocument) -> dict[str, str]:
    stored = pdf.get_metadata_dict(skip_empty=True)
    metadata = {name: stored[key] for key, name in _METADATA.items() if key in stored}
    metadata["title"] = stored.get("Title", "")
    return metadata


def _language(pdf: pdfium.PdfDocument) -> str:
    buffer = (ctypes.c_ushort * _MAX_LANGUAGE_CHARACTERS)()
    size = pdfium_c.FPDFCatalog_GetLanguage(pdf, buffer, ctypes.sizeof(buffer))
    return bytes(buffer)[:size].decode("utf-16-le", "ignore").rstrip("\0") if 2 < size <= ctypes.sizeof(buffer) else ""
