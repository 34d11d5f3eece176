"""Messages between the pool and its processes: length-prefixed msgpack, bounded."""

import os
import struct
from collections.abc import Mapping
from typing import Any, Final

import msgpack

from corpusmesh_core.documents import ParsedDocument
from corpusmesh_core.documents_codec import document_from_plain, document_to_plain
from corpusmesh_core.errors import DocumentError
from corpusmesh_core.ports.parsing import ParseLimits, ParseOptions, RecognitionMode

HEADER: Final = struct.Struct(">I")
MAX_FRAME_BYTES: Final = 1024 * 1024 * 1024
"""No message is longer; the length prefix of a broken process is not believed beyond it."""

Message = dict[str, Any]


def pack(message: Mapping[str, Any]) -> bytes:
    """Write a message.

    Args:
        message: Strings, bytes, numbers, lists and dicts.

    Returns:
        Length and body.
    """
    body: bytes = msgpack.packb(message)
    return HEADER.pack(len(body)) + body


def unpack(body: bytes) -> Message:
    """Read a message's body.

    Args:
        body: What follows the length.

    Returns:
        The message.
    """
    message: Message = msgpack.unpackb(body)
    return message


def options_to_plain(options: ParseOptions) -> Message:
    """Write parse options.

    Args:
        options: Password, limits and what to make.

    Returns:
        A plain dict.
    """
    limits = {name: getattr(options.limits, name) for name in ParseLimits.__dataclass_fields__}
    return {
        "password": options.password,
        "limits": limits,
        "recognition": options.recognition.value,
        "keep_pictures": options.keep_pictures,
        "render_pages": options.render_pages,
        "render_dots_per_inch": options.render_dots_per_inch,
    }


def options_from_plain(plain: Mapping[str, Any]) -> ParseOptions:
    """Read parse options.

    Args:
        plain: What `options_to_plain` made.

    Returns:
        Equal options.
    """
    return ParseOptions(
        password=plain["password"],
        limits=ParseLimits(**plain["limits"]),
        recognition=RecognitionMode(plain["recognition"]),
        keep_pictures=plain["keep_pictures"],
        render_pages=plain["render_pages"],
        render_dots_per_inch=plain["render_dots_per_inch"],
    )


def result_to_plain(result: ParsedDocument | DocumentError) -> Message:
    """Write a result.

    Args:
        result: A document, or why there is none.

    Returns:
        A plain dict.
    """
    if isinstance(result, DocumentError):
        return {"reason": result.reason, "message": result.message, "metadata": dict(result.metadata)}
    return {"document": document_to_plain(result)}


def result_from_plain(plain: Mapping[str, Any]) -> ParsedDocument | DocumentError:
    """Read a result.

    Args:
        plain: What `result_to_plain` made.

    Returns:
        An equal document or error.
    """
    if "document" in plain:
        return document_from_plain(plain["document"])
    return DocumentError(plain["reason"], plain["message"], **plain["metadata"])


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything to a descriptor.

    Args:
        descriptor: An open file descriptor.
        data: What to write.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def read_exactly(descriptor: int, byte_count: int) -> bytes | None:
    """Read so many bytes from a descriptor.

    Args:
        descriptor: An open file descriptor.
        byte_count: How many.

    Returns:
        The bytes, or None if the other side closed before.
    """
    parts: list[bytes] = []
    while byte_count:
        part = os.read(descriptor, min(byte_count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        byte_count -= len(part)
    return b"".join(parts)


def read_frame(descriptor: int) -> Message | None:
    """Read a message from a descriptor.

    Args:
        descriptor: An open file descriptor.

    Returns:
        The message, or None if the other side closed.

    Raises:
        ValueError: If the length is beyond the bound.
    """
    head = read_exactly(descriptor, HEADER.size)
    if head is None:
        return None
    (length,) = HEADER.unpack(head)
    if length > MAX_FRAME_BYTES:
        raise ValueError("frame too long")
    body = read_exactly(descriptor, length)
    return None if body is None else unpack(body)
