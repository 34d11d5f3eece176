"""Documents inside documents: attachments of mails, objects in Office files; each is read one level deeper."""

import io
import struct
from collections.abc import Callable

import olefile

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source
from corpusmesh_adapters.parsers.cleaning import shown_name
from corpusmesh_adapters.parsers.ole_chains import stream_names
from corpusmesh_core.documents import BlockKind, ParsedDocument
from corpusmesh_core.errors import DocumentError

Parse = Callable[[Source], ParsedDocument]
_NATIVE = "\x01Ole10Native"
_PLAIN_STREAMS = ("CONTENTS", "Package", "EmbeddedOdf")
_MAX_NAME_BYTES = 1_024


def add_inner(
    builder: DocumentBuilder, source: Source, parse_inner: Parse, name: str, content: bytes, *, label: str
) -> bool:
    """Read a document inside a document and add its blocks under a heading with its name.

    Args:
        builder: Where to.
        source: The outer document.
        parse_inner: Reads the inner one.
        name: Its name, data only.
        content: Its bytes.
        label: What a warning calls it, as in "Attachment 2".

    Returns:
        Whether it was read; if not, a warning says why.
    """
    limit = source.limits.max_attachment_depth
    if source.depth >= limit:
        builder.warn(f"{label} lies deeper than max_attachment_depth={limit} and was not read.")
        return False
    try:
        inner = parse_inner(source.inside(content, name))
    except DocumentError as error:
        builder.warn(f"{label} was not read: {error.message}")
        return False
    builder.close_headings(1)
    builder.add(BlockKind.HEADING, shown_name(name), level=1)
    builder.extend(inner)
    builder.close_headings(1)
    return True


def object_content(content: bytes, name: str) -> tuple[bytes, str]:
    """Take an embedded object out of the OLE container around it.

    Args:
        content: The part as it lies in the package.
        name: Its name there.

    Returns:
        The object's own bytes and name; both unchanged where there is no container around it.

    Raises:
        DocumentError: DOCUMENT_CORRUPT if the container is broken.
    """
    if not content.startswith(olefile.MAGIC):
        return content, name
    names = set(stream_names(content))
    if not names & {_NATIVE, *_PLAIN_STREAMS}:
        return content, name
    try:
        with olefile.OleFileIO(io.BytesIO(content)) as container:
            if container.exists(_NATIVE):
                return _native(container.openstream(_NATIVE).read(), name)
            for stream in _PLAIN_STREAMS:
                if container.exists(stream):
                    return container.openstream(stream).read(), name
    except (OSError, ValueError, IndexError, TypeError, struct.error):
        pass
    return content, name


def _native(stream: bytes, name: str) -> tuple[bytes, str]:
    """Read an `Ole10Native` stream: sizes, label, path, command, then the file itself."""
    position = 6
    label_end = stream.find(b"\0", position, position + _MAX_NAME_BYTES)
    path_end = stream.find(b"\0", label_end + 1, label_end + 1 + _MAX_NAME_BYTES)
    if label_end < 0 or path_end < 0 or path_end + 9 > len(stream):
        return stream, name
    label = stream[position:label_end].decode("cp1252", "replace")
    (command_length,) = struct.unpack_from("<I", stream, path_end + 5)
    start = path_end + 9 + command_length
    if start + 4 > len(stream):
        return stream, name
    (length,) = struct.unpack_from("<I", stream, start)
    return stream[start + 4 : start + 4 + length], label or name
