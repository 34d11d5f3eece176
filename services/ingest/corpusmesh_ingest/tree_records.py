"""Records of the nodes of a version's tree: published, counted and purged with those of its chunks (ADR-0012)."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

from corpusmesh_core.artefacts import FileTree, title_of
from corpusmesh_core.documents import Chunk, ChunkRole
from corpusmesh_core.records import Ordinal, Record, RecordKind, chunk_record_id, derived_record_id
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_core.trees.sections import page_label
from corpusmesh_core.trees.settings import TreeScope
from corpusmesh_core.trees.values import (
    CHILDREN,
    FALLBACK,
    LEAF_COUNT,
    MADE_BY,
    MAX_LINKED_LEAVES,
    SPEAKS_OF,
    TREE_OF,
    Summary,
    TreeNode,
)


def tree_records(version: VersionRow, chunks: Sequence[Chunk], file_tree: FileTree) -> Iterator[Record]:
    """Make the records of a tree.

    Positions count the nodes through, layer above layer, so that nodes in order of position are nodes in order of the
    document within each layer.

    Args:
        version: Its version.
        chunks: Chunks of the version, of every role.
        file_tree: The tree.

    Yields:
        One record for each node, from the layer above the chunks up.
    """
    texts = {chunk.position: chunk for chunk in chunks if chunk.role is ChunkRole.TEXT}
    leaves = [texts[position] for position in file_tree.positions]
    leaf_ids = [chunk_record_id(version.ordinal, position) for position in file_tree.positions]
    beneath, position = leaf_ids, 0
    for nodes, vectors in zip(file_tree.tree.layers, file_tree.tree.vectors, strict=True):
        ids = [_node_id(version.ordinal, node) for node in nodes]
        for record_id, node, vector in zip(ids, nodes, vectors, strict=True):
            stands_on = [leaves[place] for place in node.leaf_places]
            are_named = len(node.leaf_places) <= MAX_LINKED_LEAVES
            yield Record(
                record_id=record_id,
                kind=RecordKind.TREE_NODE,
                knowledge_base_id=version.knowledge_base_id,
                publisher=version.ordinal,
                sources=(version.ordinal,),
                text=node.summary.text,
                title=title_of(version),
                document_id=version.document_id,
                version=version.version,
                display_name=version.display_name,
                heading_path=_shared([chunk.heading_path for chunk in stands_on]),
                page=stands_on[0].page,
                position=position,
                token_count=node.summary.token_count,
                vector=vector,
                attributes=_attributes(node, [beneath[place] for place in node.children], stands_on),
                links=tuple(leaf_ids[place] for place in node.leaf_places) if are_named else (),
                layer=node.layer,
            )
            position += 1
        beneath = ids


def _node_id(ordinal: Ordinal, node: TreeNode) -> str:
    return derived_record_id(ordinal, RecordKind.TREE_NODE, node.key.hex())


def _shared(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Give the headings above all of some chunks."""
    pairs = zip(min(paths), max(paths), strict=False)
    return tuple(low for low, _high in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _attributes(node: TreeNode, children: Sequence[str], stands_on: Sequence[Chunk]) -> Mapping[str, str]:
    attributes = {
        CHILDREN: " ".join(children),
        LEAF_COUNT: str(len(node.leaf_places)),
        MADE_BY: _made_by(node.summary),
        TREE_OF: TreeScope.FILE.value,
    }
    if node.summary.fallback:
        attributes[FALLBACK] = node.summary.fallback
    if speaks_of := node.title or page_label(_pages(stands_on)):
        attributes[SPEAKS_OF] = speaks_of
    return attributes


def _pages(chunks: Sequence[Chunk]) -> Iterator[int]:
    for chunk in chunks:
        yield chunk.page
        yield from (box.page for box in chunk.boxes)


def _made_by(summary: Summary) -> str:
    return f"{summary.method.value} {summary.model}" if summary.model else summary.method.value
