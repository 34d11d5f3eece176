"""ZIP archives of documents: each member is read as a document of its own and joined under its name."""

import zipfile
import zlib
from collections.abc import Callable

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source
from corpusmesh_adapters.parsers.cleaning import shown_name
from corpusmesh_adapters.parsers.encodings import decode
from corpusmesh_adapters.parsers.failures import encrypted, over_limit
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_adapters.parsers.packages import is_encrypted_member, open_package
from corpusmesh_core.documents import BlockKind, OutlineEntry, ParsedDocument
from corpusmesh_core.errors import DocumentError

Parse = Callable[[Source], ParsedDocument]
_UTF8_FLAG = 0x800
# What operating systems and version control put beside documents.
_FURNITURE = ("__MACOSX/", ".DS_Store", "Thumbs.db", "desktop.ini", ".git/")
# What says more of an archive without a readable member than that it is empty.
_TELLING_REASONS = ("DOCUMENT_RESOURCE_LIMIT", "DOCUMENT_ENCRYPTED")
_READ_BYTES = 1024 * 1024


def parse_archive(source: Source, parse_inner: Parse) -> ParsedDocument:
    """Read every document of a ZIP archive.

    A member that cannot be read costs a warning. Names are data: nothing is ever written under them.

    Args:
        source: The archive.
        parse_inner: Reads a member as a document of its own.

    Returns:
        The members' blocks in the archive's order, each under a heading with its name.

    Raises:
        DocumentError: DOCUMENT_CORRUPT, DOCUMENT_EMPTY or DOCUMENT_RESOURCE_LIMIT; DOCUMENT_ENCRYPTED if every member
            is encrypted.
    """
    with open_package(source.content, source.limits, allow_encrypted=True) as package:
        members = [member for member in package.infolist() if not member.is_dir() and not _is_furniture(member)]
        builder = DocumentBuilder(Format.ZIP, source.limits, keep_pictures=source.options.keep_pictures)
        if members and source.options.password is None and all(map(is_encrypted_member, members)):
            raise encrypted("every member of the archive is")
        names: list[str] = []
        failures: list[DocumentError] = []
        if source.depth >= source.limits.max_attachment_depth:
            depth = source.limits.max_attachment_depth
            raise over_limit("max_attachment_depth", depth, "the archive lies deeper in others")
        for number, member in enumerate(members, 1):
            try:
                inner = _parse_member(package, member, source, parse_inner)
            except DocumentError as error:
                failures.append(error)
                builder.warn(f"Member {number} of the archive was not read: {error.message}")
                continue
            name = _member_name(member)
            names.append(name)
            builder.add(BlockKind.HEADING, name, level=1)
            builder.extend(inner)
            builder.close_headings(1)
    telling = next((each for each in failures if each.reason in _TELLING_REASONS), None)
    if not names and telling is not None:
        raise telling
    return builder.build(
        metadata={"members": ", ".join(names), "member_count": str(len(members))},
        outline=[OutlineEntry(name, 1, 0) for name in names],
        empty_detail=f"none of the {len(members)} members of the archive has text that can be read",
    )


def _is_furniture(member: zipfile.ZipInfo) -> bool:
    name = member.filename
    return name.startswith(_FURNITURE[0]) or name.rpartition("/")[2] in _FURNITURE or f"/{_FURNITURE[-1]}" in f"/{name}"


def _parse_member(
    package: zipfile.ZipFile, member: zipfile.ZipInfo, source: Source, parse_inner: Parse
) -> ParsedDocument:
    limits, spent = source.limits, source.spent
    spent.member_count += 1
    if spent.member_count > limits.max_entries:
        raise over_limit("max_entries", limits.max_entries, f"its archives have at least {spent.member_count} members")
    if spent.text_characters > limits.max_text_characters:
        what = f"its archives hold at least {spent.text_characters} characters of text"
        raise over_limit("max_text_characters", limits.max_text_characters, what)
    content = _read(package, member, source)
    inner = parse_inner(source.inside(content, _member_name(member)))
    if inner.media_type != Format.ZIP:  # whose members have been counted
        spent.text_characters += sum(len(block.text) for block in inner.blocks)
    return inner


def _read(package: zipfile.ZipFile, member: zipfile.ZipInfo, source: Source) -> bytes:
    """Read a member piece by piece: what it declares is not believed."""
    limits, spent = source.limits, source.spent
    password = (source.options.password or "").encode() or None
    parts: list[bytes] = []
    try:
        with package.open(member, pwd=password) as stream:
            while part := stream.read(_READ_BYTES):
                spent.unpacked_bytes += len(part)
                if spent.unpacked_bytes > limits.max_uncompressed_bytes:
                    what = f"its archives unpack to at least {spent.unpacked_bytes} bytes"
                    raise over_limit("max_uncompressed_bytes", limits.max_uncompressed_bytes, what)
                parts.append(part)
    except RuntimeError as error:  # the library's only sign of a missing or wrong password
        raise encrypted("a password of the archive") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError) as error:
        if is_encrypted_member(member):
            raise encrypted("in a way that is not read here", password_helps=False) from error
        raise DocumentError(
            "DOCUMENT_CORRUPT", f"It cannot be unpacked ({type(error).__name__}).", detail=type(error).__name__
        ) from error
    return b"".join(parts)


def _member_name(member: zipfile.ZipInfo) -> str:
    name = member.filename
    if not member.flag_bits & _UTF8_FLAG and not name.isascii():
        # Without the flag the library reads code page 437; in truth it is whatever the archiver's system used.
        name = decode(name.encode("cp437", "replace")).text
    return shown_name(name) or "unnamed"
