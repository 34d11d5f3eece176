"""Decides what a file is by its content; its name only breaks ties between text formats."""

import json
import re
import zipfile
from enum import StrEnum

import olefile

from corpusmesh_adapters.parsers.builder import Source
from corpusmesh_adapters.parsers.encodings import wide_encoding
from corpusmesh_adapters.parsers.failures import unsupported
from corpusmesh_adapters.parsers.ole_chains import stream_names
from corpusmesh_adapters.parsers.packages import open_directory, read_member

_HEAD_BYTES = 8_192
_MEDIA_TYPE_BYTES = 200
_CONTENT_TYPES = "[Content_Types].xml"
_EPUB_CONTAINER = "META-INF/container.xml"


class Format(StrEnum):
    """A format that is read; its value is the IANA media type."""

    PDF = "application/pdf"
    DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
    XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    XLS = "application/vnd.ms-excel"
    DOC = "application/msword"
    PPT = "application/vnd.ms-powerpoint"
    MSG = "application/vnd.ms-outlook"
    RTF = "application/rtf"
    ODS = "application/vnd.oasis.opendocument.spreadsheet"
    ODT = "application/vnd.oasis.opendocument.text"
    ODP = "application/vnd.oasis.opendocument.presentation"
    EPUB = "application/epub+zip"
    ZIP = "application/zip"
    PNG = "image/png"
    JPEG = "image/jpeg"
    GIF = "image/gif"
    TIFF = "image/tiff"
    BMP = "image/bmp"
    WEBP = "image/webp"
    ENCRYPTED_OFFICE = "application/x-ole-storage"
    HTML = "text/html"
    MARKDOWN = "text/markdown"
    CSV = "text/csv"
    TSV = "text/tab-separated-values"
    TEXT = "text/plain"
    EML = "message/rfc822"
    JSON = "application/json"
    JSON_LINES = "application/jsonl"


_BY_EXTENSION = {
    "md": Format.MARKDOWN,
    "markdown": Format.MARKDOWN,
    "mdx": Format.MARKDOWN,
    "csv": Format.CSV,
    "tsv": Format.TSV,
    "tab": Format.TSV,
    "html": Format.HTML,
    "htm": Format.HTML,
    "xhtml": Format.HTML,
}
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", Format.PNG),
    (b"\xff\xd8\xff", Format.JPEG),
    (b"GIF8", Format.GIF),
    (b"II*\x00", Format.TIFF),
    (b"MM\x00*", Format.TIFF),
    (b"BM", Format.BMP),
    (b"\x00\x00\x01\x00", "image/x-icon"),
    (b"{\\rtf", Format.RTF),
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\x00", "application/x-xz"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"%!PS", "application/postscript"),
    (b"\x7fELF", "application/x-executable"),
    (b"MZ", "application/x-msdownload"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"PAR1", "application/vnd.apache.parquet"),
    (b"wOFF", "font/woff"),
    (b"\x00\x01\x00\x00\x00", "font/ttf"),
)
_TEXT_LIKE_MAGIC = frozenset(
    {b"BM", b"MZ", b"ID3", b"BZh", b"GIF8", b"PAR1"}
)  # two to four plain letters: binary only with NULs
_OOXML_FOLDERS = (("word/", Format.DOCX), ("ppt/", Format.PPTX), ("xl/", Format.XLSX))
_OLE_STREAMS = (
    ("EncryptedPackage", Format.ENCRYPTED_OFFICE),
    ("Workbook", Format.XLS),
    ("Book", Format.XLS),
    ("WordDocument", Format.DOC),
    ("PowerPoint Document", Format.PPT),
    ("__properties_version1.0", Format.MSG),
)
_OPEN_DOCUMENTS = (Format.ODT, Format.ODS, Format.ODP)  # a template's media type starts with its document's
_MAIL_HEADER = re.compile(
    rb"^(From|To|Cc|Subject|Date|Received|Return-Path|Message-ID|MIME-Version|Content-Type|Delivered-To|Reply-To|"
    rb"X-[A-Za-z-]+|DKIM-Signature|Content-Transfer-Encoding|Sender|In-Reply-To|References|Thread-Topic):",
    re.IGNORECASE,
)
_MAIL_LINE = re.compile(rb"^(?:[!-9;-~]+:|[ \t])")
_HTML_START = re.compile(
    rb"^\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)
_HTML_TAG = re.compile(rb"</?(?:html|body|div|p|table|tr|td|h[1-6]|ul|ol|li|span|a|br|article|section)\b[^>]*>", re.I)
_XML_START = re.compile(rb"^\s*<\?xml\b")


def detect_format(source: Source) -> Format:
    """Decide what a document is.

    Args:
        source: A document with at least one byte.

    Returns:
        Its format.

    Raises:
        DocumentError: DOCUMENT_UNSUPPORTED, naming what it is, or DOCUMENT_CORRUPT for a broken container.
    """
    content = source.content
    head = content[:_HEAD_BYTES]
    # Readers accept a PDF whose header stands within the first kilobyte.
    if b"%PDF-" in head[:1_024]:
        return Format.PDF
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")):
        return _zip_format(source)
    if head.startswith(olefile.MAGIC):
        return _ole_format(content)
    found = _by_magic(head)
    if found is not None:
        return found
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")) or wide_encoding(content):
        return _named_text_format(source)
    if b"\0" in head:
        raise unsupported("application/octet-stream")
    return _text_format(source, head.removeprefix(b"\xef\xbb\xbf"))


def _by_magic(head: bytes) -> Format | None:
    for magic, found in _MAGIC:
        if head.startswith(magic) and (magic not in _TEXT_LIKE_MAGIC or b"\0" in head):
            return _read_or_refuse(found)
    if head[:4] == b"RIFF" and head[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        return _read_or_refuse({b"WEBP": Format.WEBP, b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}[head[8:12]])
    if head[4:8] == b"ftyp":
        raise unsupported("image/heic" if head[8:12] in (b"heic", b"mif1") else "video/mp4")
    return None


def _read_or_refuse(media_type: str) -> Format:
    if isinstance(media_type, Format):
        return media_type
    raise unsupported(media_type)


def _zip_format(source: Source) -> Format:
    with open_directory(source.content, source.limits) as package:
        names = package.namelist()
        declared = _declared_type(package) if "mimetype" in names else ""
    for folder, found in _OOXML_FOLDERS:
        if any(name.startswith(folder) for name in names) and _CONTENT_TYPES in names:
            return found
    if declared.startswith(Format.EPUB) or _EPUB_CONTAINER in names:
        return Format.EPUB
    for found in _OPEN_DOCUMENTS:
        if declared.startswith(found):
            return found
    if declared or _CONTENT_TYPES in names:
        raise unsupported(declared or "application/vnd.openxmlformats-package")
    return Format.ZIP


def _declared_type(package: zipfile.ZipFile) -> str:
    return read_member(package, "mimetype", _MEDIA_TYPE_BYTES).decode("ascii", "replace").strip()


def _ole_format(content: bytes) -> Format:
    names = set(stream_names(content))
    for name, found in _OLE_STREAMS:
        if name in names:
            return found
    raise unsupported("application/x-ole-storage")


def _text_format(source: Source, head: bytes) -> Format:
    if _HTML_START.match(head):
        return Format.HTML
    if _XML_START.match(head):
        raise unsupported("application/xml")
    if _is_mail(head):
        return Format.EML
    if head.lstrip()[:1] in (b"{", b"["):
        found = _json_format(source.content)
        if found is not None:
            return found
    named = _named_text_format(source)
    if named is Format.TEXT and head.lstrip().startswith(b"<") and len(_HTML_TAG.findall(head)) >= 4:
        return Format.HTML
    return named


def _named_text_format(source: Source) -> Format:
    return _BY_EXTENSION.get(source.extension, Format.TEXT)


def _is_mail(head: bytes) -> bool:
    lines = head.split(b"\n")
    if lines and lines[0].startswith(b"From "):
        lines = lines[1:]
    known = 0
    for line in lines:
        line = line.rstrip(b"\r")
        if not line:
            break
        if not _MAIL_LINE.match(line):
            return False
        known += bool(_MAIL_HEADER.match(line))
    return known >= 2


def _json_format(content: bytes) -> Format | None:
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        pass
    else:
        return Format.JSON
    first, _, rest = content.strip().partition(b"\n")
    try:
        json.loads(first)
        json.loads(rest.lstrip().partition(b"\n")[0])
    except (ValueError, RecursionError):
        return None
    return Format.JSON_LINES
