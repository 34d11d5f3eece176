"""A compiled graph: plain columns and sparse matrices, which can be written to a file and mapped into memory again."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from corpusmesh_core.graphs.columns import Array, Content, column_parts, invalid, open_columns


@dataclass(frozen=True, slots=True, eq=False)
class Compressed:
    """A sparse matrix by rows, columns ascending within a row.

    Attributes:
        offsets: Shape (rows + 1,).
        columns: Shape (entries,).
        values: Shape (entries,).
        width: Columns of the matrix.
    """

    offsets: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    width: int

    @classmethod
    def of(cls, values: NDArray[np.float32], rows: Array, columns: Array, shape: tuple[int, int]) -> "Compressed":
        """Make a matrix of entries; those of one place are added in the order in which they are given.

        Args:
            values: Shape (entries,).
            rows: Row of each.
            columns: Column of each.
            shape: Rows and columns of the matrix.

        Returns:
            The matrix.
        """
        places = (rows.astype(np.int32, copy=False), columns.astype(np.int32, copy=False))
        return cls.from_matrix(sparse.coo_array((values, places), shape=shape).tocsr())

    @classmethod
    def from_matrix(cls, matrix: Any) -> "Compressed":
        """Take the arrays of a matrix.

        Args:
            matrix: `csr_array` without duplicates.

        Returns:
            The matrix, its columns in order.
        """
        matrix.sort_indices()
        return cls(
            matrix.indptr.astype(np.int32, copy=False),
            matrix.indices.astype(np.int32, copy=False),
            matrix.data.astype(np.float32, copy=False),
            int(matrix.shape[1]),
        )

    @property
    def counts(self) -> NDArray[np.int64]:
        """Entries of each row."""
        return np.diff(self.offsets).astype(np.int64)

    def matrix(self) -> Any:
        """Give it as scipy's `csr_array`, without a copy."""
        shape = (len(self.offsets) - 1, self.width)
        matrix = sparse.csr_array((self.values, self.columns, self.offsets), shape=shape, copy=False)
        # Said once, so that nothing looks through every entry for it.
        matrix.has_canonical_format = True
        return matrix


@dataclass(frozen=True, slots=True, eq=False)
class CompiledGraph:
    """Columns of a graph of n entities, r relations, p passages, f fragments of entities, g of relations, d documents.

    Attributes:
        entity_key: Key that stands for the entity, ascending, shape (n,).
        found_key: Every key that leads to an entity (names and aliases), ascending, shape (k,).
        found_entity: The entity that it leads to, shape (k,).
        document_frequency: Documents that name the entity, shape (n,).
        passages: Version and position, ascending, shape (p, 2).
        mentions: Entities by passages.
        passage_mentions: Passages by entities.
        relation_ends: Smaller, then larger entity, ascending, shape (r, 2).
        relation_weight: Strength, shape (r,).
        relation_passages: Relations by passages.
        adjacency: Entities by entities, symmetric.
        fragment_offsets: Where the fragments of each entity begin, shape (n + 1,).
        fragment_key: Keys that their documents give them, shape (f,).
        fragment_document: Their documents, shape (f,).
        fragment_name: Places of their names among the strings, shape (f,).
        fragment_type: Places of their types, shape (f,).
        relation_fragment_offsets: Where the fragments of each relation begin, shape (r + 1,).
        relation_fragment_ends: Keys of source and target, shape (g, 2).
        relation_fragment_document: Their documents, shape (g,).
        document_version: Versions, shape (d,).
        document_publisher: Publishers, ascending, shape (d,).
    """

    entity_key: NDArray[np.uint64]
    found_key: NDArray[np.uint64]
    found_entity: NDArray[np.int32]
    document_frequency: NDArray[np.int32]
    passages: NDArray[np.uint32]
    mentions: Compressed
    passage_mentions: Compressed
    relation_ends: NDArray[np.int32]
    relation_weight: NDArray[np.float32]
    relation_passages: Compressed
    adjacency: Compressed
    fragment_offsets: NDArray[np.int64]
    fragment_key: NDArray[np.uint64]
    fragment_document: NDArray[np.uint32]
    fragment_name: NDArray[np.int64]
    fragment_type: NDArray[np.int64]
    relation_fragment_offsets: NDArray[np.int64]
    relation_fragment_ends: NDArray[np.uint64]
    relation_fragment_document: NDArray[np.uint32]
    document_version: NDArray[np.uint32]
    document_publisher: NDArray[np.uint32]

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return sum(array.nbytes for array in _columns_of(self).values())


def compiled_parts(graph: CompiledGraph) -> Iterator[bytes | memoryview]:
    """Write a compiled graph piece by piece.

    Args:
        graph: The graph.

    Returns:
        Pieces of the file, of the columns without a copy; equal graphs, equal bytes.
    """
    return column_parts(_MAGIC, _VERSION, _LAYOUT, _columns_of(graph))


def open_compiled(content: Content) -> CompiledGraph:
    """Read a compiled graph without a copy.

    Args:
        content: The file, in memory or mapped into it; it must stay as it is as long as the graph is used.

    Returns:
        The graph.

    Raises:
        InvalidArgumentError: GRAPH_FILE_INVALID if it is none, or damaged.
    """
    columns = open_columns(_MAGIC, _VERSION, _LAYOUT, content)
    values: dict[str, Any] = {name: columns[name] for name, _ in _PLAIN}
    for name in _PAIRED:
        values[name] = columns[name].reshape(-1, 2)
    widths = {
        "mentions": len(values["passages"]),
        "passage_mentions": len(values["entity_key"]),
        "relation_passages": len(values["passages"]),
        "adjacency": len(values["entity_key"]),
    }
    for name, width in widths.items():
        offsets, places, entries = (columns[f"{name}_{part}"] for part in ("offsets", "columns", "values"))
        if not len(offsets) or int(offsets[-1]) != len(places) or len(places) != len(entries):
            raise invalid(f"{name} does not fit")
        values[name] = Compressed(offsets, places, entries, width)
    return CompiledGraph(**values)


def _columns_of(graph: CompiledGraph) -> dict[str, Array]:
    columns: dict[str, Array] = {name: getattr(graph, name) for name, _ in _PLAIN}
    columns |= {name: getattr(graph, name).reshape(-1) for name in _PAIRED}
    for name in _MATRICES:
        matrix: Compressed = getattr(graph, name)
        columns[f"{name}_offsets"], columns[f"{name}_columns"] = matrix.offsets, matrix.columns
        columns[f"{name}_values"] = matrix.values
    return columns


_MAGIC: Final = b"CMGVIEW\x01"
_VERSION: Final = 1
_PLAIN: Final = (
    ("entity_key", "<u8"),
    ("found_key", "<u8"),
    ("found_entity", "<i4"),
    ("document_frequency", "<i4"),
    ("relation_weight", "<f4"),
    ("fragment_offsets", "<i8"),
    ("fragment_key", "<u8"),
    ("fragment_document", "<u4"),
    ("fragment_name", "<i8"),
    ("fragment_type", "<i8"),
    ("relation_fragment_offsets", "<i8"),
    ("relation_fragment_document", "<u4"),
    ("document_version", "<u4"),
    ("document_publisher", "<u4"),
)
_PAIRED: Final = {"passages": "<u4", "relation_ends": "<i4", "relation_fragment_ends": "<u8"}
_MATRICES: Final = ("mentions", "passage_mentions", "relation_passages", "adjacency")
_LAYOUT: Final = (
    *_PLAIN,
    *_PAIRED.items(),
    *(
        (f"{name}_{part}", kind)
        for name in _MATRICES
        for part, kind in (("offsets", "<i4"), ("columns", "<i4"), ("values", "<f4"))
    ),
)
