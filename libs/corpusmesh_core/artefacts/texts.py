"""What is embedded of a version, in which order: its vectors stand in the same one."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Final

from corpusmesh_core.chunking.edits import is_disabled
from corpusmesh_core.documents import Chunk, ChunkRole
from corpusmesh_core.enrichment.values import Derived
from corpusmesh_core.ports.embedding import MAX_TEXT_BYTES
from corpusmesh_core.tenancy import VersionRow

KEY_BYTES: Final = 16
"""Length of the digest of an embedded text."""
EMBEDDED_ROLES: Final = frozenset({ChunkRole.TEXT, ChunkRole.TAG_EXAMPLE})
"""Roles of the chunks that are embedded."""


def title_of(version: VersionRow) -> str:
    """Give the title that a version is found by.

    Args:
        version: The version.

    Returns:
        Its title, or its file name without the ending.
    """
    return version.title or PurePosixPath(version.display_name).stem


def indexed_chunks(chunks: Iterable[Chunk]) -> list[Chunk]:
    """Give the chunks that get a record.

    Args:
        chunks: Chunks of every role.

    Returns:
        All but those that a person switched off.
    """
    return [chunk for chunk in chunks if not is_disabled(chunk)]


def embedded_chunks(chunks: Iterable[Chunk]) -> list[Chunk]:
    """Give the chunks that have a vector: the first vectors of a version stand for them, in this order.

    Args:
        chunks: Chunks of every role.

    Returns:
        Those with a vector.
    """
    return [chunk for chunk in indexed_chunks(chunks) if chunk.role in EMBEDDED_ROLES]


def embedded_texts(title: str, chunks: Iterable[Chunk], derived: Sequence[Derived] = ()) -> list[str]:
    """Give the texts whose vectors stand for the records of a version.

    Args:
        title: Its title, see `title_of`.
        chunks: Its chunks of every role.
        derived: What was made of them.

    Returns:
        Title, context and text of each record that is searched by vector, of at most MAX_TEXT_BYTES: chunks first, then
        derived records.
    """
    texts = [embedded_text(title, chunk.context, chunk.text) for chunk in embedded_chunks(chunks)]
    texts.extend(embedded_text(title, "", item.text) for item in derived if item.is_embedded)
    return texts


def embedded_text(title: str, context: str, text: str) -> str:
    """Give what is embedded for one record.

    Args:
        title: Title of its document.
        context: What goes before its text; "" for nothing.
        text: Its text.

    Returns:
        One text of at most MAX_TEXT_BYTES.
    """
    whole = f"{title}\n{context}\n{text}" if context else f"{title}\n{text}"
    if len(whole) * 4 <= MAX_TEXT_BYTES:
        return whole
    return whole.encode(errors="replace")[:MAX_TEXT_BYTES].decode(errors="ignore")


def text_key(space_id: str, text: str) -> bytes:
    """Digest a text and the space that it is embedded into.

    Args:
        space_id: Embedding space.
        text: The text.

    Returns:
        `KEY_BYTES` bytes; equal for equal vectors alone.
    """
    return hashlib.blake2b(f"{space_id}\n{text}".encode(errors="replace"), digest_size=KEY_BYTES).digest()
