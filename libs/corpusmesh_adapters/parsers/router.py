"""Reads one document of any supported format: finds the format by content and turns every failure into a typed one."""

from collections.abc import Callable, Mapping

from corpusmesh_adapters.parsers.archives import parse_archive
from corpusmesh_adapters.parsers.builder import Source
from corpusmesh_adapters.parsers.delimited import parse_delimited
from corpusmesh_adapters.parsers.docx import parse_docx
from corpusmesh_adapters.parsers.encrypted_office import decrypt_office
from corpusmesh_adapters.parsers.epub import parse_epub
from corpusmesh_adapters.parsers.failures import corrupt, empty, is_out_of_memory, over_limit
from corpusmesh_adapters.parsers.formats import Format, detect_format
from corpusmesh_adapters.parsers.html_blocks import parse_html
from corpusmesh_adapters.parsers.json_text import parse_json, parse_json_lines
from corpusmesh_adapters.parsers.mail import parse_mail
from corpusmesh_adapters.parsers.markdown import parse_markdown
from corpusmesh_adapters.parsers.odf import parse_odf
from corpusmesh_adapters.parsers.outlook import parse_msg
from corpusmesh_adapters.parsers.pdf import parse_pdf
from corpusmesh_adapters.parsers.plain_text import parse_text
from corpusmesh_adapters.parsers.powerpoint97 import parse_ppt
from corpusmesh_adapters.parsers.pptx import parse_pptx
from corpusmesh_adapters.parsers.rtf import parse_rtf
from corpusmesh_adapters.parsers.spreadsheets import parse_spreadsheet
from corpusmesh_adapters.parsers.word97 import parse_doc
from corpusmesh_core.documents import ParsedDocument
from corpusmesh_core.errors import CorpusMeshError, DocumentError


def parse_source(source: Source) -> ParsedDocument:
    """Read a document in this process.

    Args:
        source: The document.

    Returns:
        Its blocks.

    Raises:
        DocumentError: Whatever is wrong with the document; no other error leaves this function.
    """
    if not source.content:
        raise empty("it has 0 bytes; the upload was interrupted, or the file is empty")
    if len(source.content) > source.limits.max_bytes:
        raise over_limit("max_bytes", source.limits.max_bytes, f"it has {len(source.content)} bytes")
    try:
        return _PARSERS[detect_format(source)](source)
    except CorpusMeshError:
        raise
    except RecursionError as error:
        raise over_limit("max_depth", source.limits.max_depth, "its parts are nested deeper") from error
    # Third-party parsers meet hostile bytes with whatever their code runs into; each is this document's fault alone.
    except Exception as error:
        if is_out_of_memory(error):
            raise over_limit("memory_bytes", source.limits.memory_bytes, "reading it takes more memory") from error
        raise corrupt(f"its content cannot be read ({type(error).__name__})") from error
    # What a panic of a Rust parser becomes has no class that could be imported. Uncaught, it would cost an archive or a
    # mail all of its other documents.
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise corrupt("its reader failed on it") from error


def _decrypted(source: Source) -> ParsedDocument:
    return parse_source(decrypt_office(source))


def _xls(source: Source) -> ParsedDocument:
    return _opened(source, lambda each: parse_spreadsheet(each, Format.XLS))


def _doc(source: Source) -> ParsedDocument:
    return _opened(source, parse_doc)


def _opened(source: Source, parse: Callable[[Source], ParsedDocument]) -> ParsedDocument:
    """Read a file of the old Office formats, decrypted if need be."""
    try:
        return parse(source)
    except DocumentError as error:
        if error.reason != "DOCUMENT_ENCRYPTED" or source.options.password is None:
            raise
        return parse(decrypt_office(source))


def _image(source: Source) -> ParsedDocument:
    # Imported where it is needed: a process that reads no image does without the recognition models' libraries.
    from corpusmesh_adapters.parsers.images import parse_image

    return parse_image(source)


def _ppt(source: Source) -> ParsedDocument:
    return _opened(source, parse_ppt)


_PARSERS: Mapping[Format, Callable[[Source], ParsedDocument]] = {
    Format.PDF: lambda source: parse_pdf(source, parse_source),
    Format.DOCX: lambda source: parse_docx(source, parse_source),
    Format.PPTX: lambda source: parse_pptx(source, parse_source),
    Format.XLSX: lambda source: parse_spreadsheet(source, Format.XLSX),
    Format.ODS: lambda source: parse_spreadsheet(source, Format.ODS),
    Format.ODT: lambda source: parse_odf(source, Format.ODT),
    Format.ODP: lambda source: parse_odf(source, Format.ODP),
    Format.RTF: parse_rtf,
    Format.DOC: _doc,
    Format.EPUB: parse_epub,
    Format.ZIP: lambda source: parse_archive(source, parse_source),
    Format.XLS: _xls,
    Format.ENCRYPTED_OFFICE: _decrypted,
    Format.HTML: parse_html,
    Format.MARKDOWN: parse_markdown,
    Format.CSV: parse_delimited,
    Format.TSV: parse_delimited,
    Format.TEXT: parse_text,
    Format.EML: lambda source: parse_mail(source, parse_source),
    Format.MSG: lambda source: parse_msg(source, parse_source),
    Format.JSON: parse_json,
    Format.JSON_LINES: parse_json_lines,
    Format.PNG: _image,
    Format.JPEG: _image,
    Format.GIF: _image,
    Format.TIFF: _image,
    Format.BMP: _image,
    Format.WEBP: _image,
    Format.PPT: _ppt,
}
