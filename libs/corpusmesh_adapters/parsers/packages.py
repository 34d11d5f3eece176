"""Opens ZIP packages (OOXML, ODF, EPUB, archives) that may be bombs."""

import io
import struct
import zipfile
import zlib
from collections.abc import Sequence

from lxml import etree

from corpusmesh_adapters.parsers.failures import corrupt, encrypted, over_limit
from corpusmesh_core.errors import DocumentError
from corpusmesh_core.ports.parsing import ParseLimits

_RATIO_FLOOR_BYTES = 1024 * 1024
_END_MARK, _MEMBER_MARK = b"PK\x05\x06", b"PK\x01\x02"
_END_BYTES, _LONGEST_COMMENT_BYTES = 22, 65_535
_LOCAL_HEADER_BYTES = 30
_ENCRYPTED_FLAG = 0x1
_MEMBER_DAMAGE = (
    KeyError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    struct.error,
)
"""What the library answers damaged members with."""

_XML_HEAD_BYTES = 4_096
_XML_DEPTH = 256  # what libxml2 allows
_XML_SUFFIXES = (".xml", ".rels")
# Office formats use no document type at all, so any is an attack on the parser's memory (in either byte width).
_DTD_MARKS = tuple(
    mark.encode(encoding) for mark in ("<!DOCTYPE", "<!ENTITY") for encoding in ("utf-8", "utf-16-le", "utf-16-be")
)


def open_package(content: bytes, limits: ParseLimits, *, allow_encrypted: bool = False) -> zipfile.ZipFile:
    """Open a package after checking what it says of its members.

    Args:
        content: The file.
        limits: Entries, unpacked bytes and ratio that are allowed.
        allow_encrypted: Whether some members may be encrypted, as in an archive of which the others are read.

    Returns:
        The open package; reading a member stops at its declared length.

    Raises:
        DocumentError: DOCUMENT_CORRUPT, DOCUMENT_ENCRYPTED or DOCUMENT_RESOURCE_LIMIT.
    """
    package = open_directory(content, limits)
    members = package.infolist()
    unpacked = sum(member.file_size for member in members)
    if unpacked > limits.max_uncompressed_bytes:
        raise over_limit("max_uncompressed_bytes", limits.max_uncompressed_bytes, f"it unpacks to {unpacked} bytes")
    for member in members:
        if member.flag_bits & _ENCRYPTED_FLAG and not allow_encrypted:
            raise encrypted("its package members are encrypted", password_helps=False)
        ratio = member.file_size // max(member.compress_size, 1)
        if member.file_size > _RATIO_FLOOR_BYTES and ratio > limits.max_compression_ratio:
            raise over_limit(
                "max_compression_ratio", limits.max_compression_ratio, f"a member of its package unpacks {ratio}-fold"
            )
    _refuse_overlaps(members)
    return package


def open_directory(content: bytes, limits: ParseLimits) -> zipfile.ZipFile:
    """Open a package to look at its member names only.

    Args:
        content: The file.
        limits: Entries that are allowed.

    Returns:
        The open package, its members unchecked.

    Raises:
        DocumentError: DOCUMENT_CORRUPT or DOCUMENT_RESOURCE_LIMIT.
    """
    # Counted before the library makes an object of each: a million members would cost it seconds and a gigabyte.
    count = _declared_member_count(content)
    if count > limits.max_entries:
        raise over_limit("max_entries", limits.max_entries, f"its package has {count} members")
    try:
        return zipfile.ZipFile(io.BytesIO(content))
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, UnicodeError, struct.error) as error:
        raise corrupt("its ZIP directory is missing or broken, as after an interrupted transfer") from error


def is_encrypted_member(member: zipfile.ZipInfo) -> bool:
    """Say whether a member needs a password.

    Args:
        member: Its entry in the directory.

    Returns:
        True if it is encrypted.
    """
    return bool(member.flag_bits & _ENCRYPTED_FLAG)


def _declared_member_count(content: bytes) -> int:
    end = content.rfind(_END_MARK, max(len(content) - _END_BYTES - _LONGEST_COMMENT_BYTES, 0))
    if end < 0 or end + _END_BYTES > len(content):
        return 0
    (directory_bytes,) = struct.unpack_from("<I", content, end + 12)
    start = max(end - directory_bytes, 0) if directory_bytes != 0xFFFFFFFF else 0
    return content.count(_MEMBER_MARK, start, end)


def _refuse_overlaps(members: Sequence[zipfile.ZipInfo]) -> None:
    # Members that share bytes unpack to far more than the file's length allows (D. Fifield, "A better zip bomb", 2019).
    end = 0
    for member in sorted(members, key=lambda each: each.header_offset):
        if member.header_offset < end:
            raise corrupt("members of its package overlap")
        end = member.header_offset + _LOCAL_HEADER_BYTES + member.compress_size


def xml_root(content: bytes, *, allow_document_type: bool = False) -> etree._Element:
    """Parse XML without entities, network or unbounded nodes; what is broken is left out.

    Args:
        content: The XML.
        allow_document_type: Whether it may name a document type, as books do; never one with entities.

    Returns:
        The root element; one without children where nothing can be read.

    Raises:
        DocumentError: DOCUMENT_RESOURCE_LIMIT if it declares entities, or is nested more than 256 deep.
    """
    marks = _DTD_MARKS[len(_DTD_MARKS) // 2 :] if allow_document_type else _DTD_MARKS
    if any(mark in content[:_XML_HEAD_BYTES] for mark in marks):
        raise _declares_entities()
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, recover=True, load_dtd=False)
    try:
        root = etree.fromstring(content, parser) if content.strip() else None
    except etree.XMLSyntaxError:
        root = None
    if any("xcessive depth" in entry.message for entry in parser.error_log):
        raise over_limit("max_depth", _XML_DEPTH, "its XML is nested deeper")
    return root if root is not None else etree.Element("empty")


def _declares_entities() -> DocumentError:
    return DocumentError(
        "DOCUMENT_RESOURCE_LIMIT",
        "The document's XML declares entities, as an entity bomb does; no office program writes any, and they "
        "are never expanded here. Save it again in an office program and upload that copy.",
        limit="xml_entities",
        allowed=0,
    )


def refuse_entities(package: zipfile.ZipFile) -> None:
    """Refuse XML members that declare entities, which could grow without end.

    Args:
        package: An open package.

    Raises:
        DocumentError: DOCUMENT_RESOURCE_LIMIT, or DOCUMENT_CORRUPT if a member cannot be read.
    """
    for member in package.infolist():
        if not member.filename.lower().endswith(_XML_SUFFIXES):
            continue
        head = read_member(package, member.filename, _XML_HEAD_BYTES)
        if any(mark in head for mark in _DTD_MARKS):
            raise _declares_entities()


def read_member(package: zipfile.ZipFile, name: str, byte_count: int = -1) -> bytes:
    """Read a member, or its head.

    Args:
        package: An open package.
        name: The member's name.
        byte_count: How much; -1 reads all.

    Returns:
        Its bytes.

    Raises:
        DocumentError: DOCUMENT_CORRUPT if it is missing or damaged.
    """
    try:
        with package.open(name) as member:
            return member.read(byte_count)
    except _MEMBER_DAMAGE as error:
        raise corrupt(f"a member of its package cannot be read ({type(error).__name__})") from error
