"""Opens ZIP packages (OOXML, ODF) that may be bombs."""

import io
import zipfile
import zlib

from corpusmesh_adapters.parsers.failures import corrupt, encrypted, over_limit
from corpusmesh_core.errors import DocumentError
from corpusmesh_core.ports.parsing import ParseLimits

_RATIO_FLOOR_BYTES = 1024 * 1024
_XML_HEAD_BYTES = 4_096
_XML_SUFFIXES = (".xml", ".rels")
# Office formats use no document type at all, so any is an attack on the parser's memory (in either byte width).
_DTD_MARKS = tuple(
    mark.encode(encoding) for mark in ("<!DOCTYPE", "<!ENTITY") for encoding in ("utf-8", "utf-16-le", "utf-16-be")
)


def open_package(content: bytes, limits: ParseLimits) -> zipfile.ZipFile:
    """Open a package after checking what it says of its members.

    Args:
        content: The file.
        limits: Entries, unpacked bytes and ratio that are allowed.

    Returns:
        The open package; reading a member stops at its declared length.

    Raises:
        DocumentError: DOCUMENT_CORRUPT, DOCUMENT_ENCRYPTED or DOCUMENT_RESOURCE_LIMIT.
    """
    try:
        package = zipfile.ZipFile(io.BytesIO(content))
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise corrupt("its ZIP directory is missing or broken, as after an interrupted transfer") from error
    members = package.infolist()
    if len(members) > limits.max_entries:
        raise over_limit("max_entries", limits.max_entries, f"its package has {len(members)} members")
    unpacked = sum(member.file_size for member in members)
    if unpacked > limits.max_uncompressed_bytes:
        raise over_limit("max_uncompressed_bytes", limits.max_uncompressed_bytes, f"it unpacks to {unpacked} bytes")
    for member in members:
        if member.flag_bits & 0x1:
            raise encrypted("its package members are encrypted")
        ratio = member.file_size // max(member.compress_size, 1)
        if member.file_size > _RATIO_FLOOR_BYTES and ratio > limits.max_compression_ratio:
            raise over_limit(
                "max_compression_ratio", limits.max_compression_ratio, f"a member of its package unpacks {ratio}-fold"
            )
    return package


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
            raise DocumentError(
                "DOCUMENT_RESOURCE_LIMIT",
                "The document's XML declares entities, as an entity bomb does; no office program writes any, and they "
                "are never expanded here. Save it again in an office program and upload that copy.",
                limit="xml_entities",
                allowed=0,
            )


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
    except (KeyError, zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
        raise corrupt(f"a member of its package cannot be read ({type(error).__name__})") from error
