"""Records of a document version: one for each chunk, with ids that are the same however often they are made."""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.documents import Chunk
from corpusmesh_core.records import Record, RecordKind, chunk_record_id
from corpusmesh_core.tenancy import VersionRow


def title_of(version: VersionRow) -> str:
    """Give the title that a version is found by.

    Args:
        version: The version.

    Returns:
        Its title, or its file name without the ending.
    """
    return version.title or PurePosixPath(version.display_name).stem


def embedded_text(title: str, text: str) -> str:
    """Give the text whose vector stands for a chunk.

    Args:
        title: Title of the document.
        text: Text of the chunk.

    Returns:
        Title and text.
    """
    return f"{title}\n{text}"


def chunk_records(
    version: VersionRow, chunks: Sequence[Chunk], vectors: NDArray[np.float32], *, language: str = ""
) -> Iterator[Record]:
    """Make the records of a version.

    Args:
        version: The version.
        chunks: Its chunks.
        vectors: Shape (chunks, dimension).
        language: BCP 47 primary tag of the document.

    Yields:
        One record for each chunk.
    """
    title = title_of(version)
    for chunk, vector in zip(chunks, vectors, strict=True):
        yield Record(
            record_id=chunk_record_id(version.ordinal, chunk.position),
            kind=RecordKind.CHUNK,
            knowledge_base_id=version.knowledge_base_id,
            publisher=version.ordinal,
            sources=(version.ordinal,),
            text=chunk.text,
            title=title,
            document_id=version.document_id,
            version=version.version,
            display_name=version.display_name,
            heading_path=chunk.heading_path,
            page=chunk.page,
            boxes=chunk.boxes,
            position=chunk.position,
            token_count=chunk.token_count,
            language=language,
            vector=vector,
            attributes={"block_kind": chunk.block_kind.value},
        )
