"""The trees of documents as the stage that grows them hands them on, and keeps them for the next version."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.artefacts.codec import pack, unpack
from corpusmesh_core.errors import InternalError
from corpusmesh_core.trees.settings import SummaryMethod
from corpusmesh_core.trees.telling import cost_of, cost_values
from corpusmesh_core.trees.values import KEY_BYTES, GrownTree, Summary, TreeNode, Vectors

_VECTOR_TYPE: Final = "<f4"


@dataclass(frozen=True, slots=True)
class FileTree:
    """The tree of one version.

    Attributes:
        tree: The tree, and what growing it cost.
        positions: Positions of the chunks that are its leaves, in order.
        leaf_keys: Content keys of those leaves.
        fingerprint: What decided it besides its leaves and the language model, see `tree_fingerprint`.
        changed_count: Leaves that were changed since its boundaries were last drawn as a whole.
    """

    tree: GrownTree
    positions: tuple[int, ...]
    leaf_keys: tuple[bytes, ...]
    fingerprint: bytes
    changed_count: int = 0

    @property
    def node_count(self) -> int:
        """Nodes of all layers."""
        return sum(map(len, self.tree.layers))


def pack_trees(trees: Mapping[int, FileTree]) -> bytes:
    """Write trees.

    Args:
        trees: By ordinal.

    Returns:
        The artefact.
    """
    return pack({str(ordinal): _to_plain(tree) for ordinal, tree in trees.items()})


def unpack_trees(artefact: bytes) -> dict[int, FileTree]:
    """Read what `pack_trees` wrote.

    Args:
        artefact: The artefact.

    Returns:
        Trees by ordinal.

    Raises:
        InternalError: ARTEFACT_UNREADABLE if it is not such an artefact.
    """
    try:
        return {int(ordinal): _from_plain(plain) for ordinal, plain in unpack(artefact).items()}
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InternalError("ARTEFACT_UNREADABLE", "an artefact has another shape") from error


def _to_plain(file_tree: FileTree) -> dict[str, Any]:
    tree = file_tree.tree
    return {
        "fingerprint": file_tree.fingerprint,
        "changed_count": file_tree.changed_count,
        "positions": list(file_tree.positions),
        "leaf_keys": b"".join(file_tree.leaf_keys),
        "cost": cost_values(tree.cost),
        "thresholds": list(tree.thresholds),
        "layers": [
            {
                "nodes": [_node_to_plain(node) for node in nodes],
                "dimension": vectors.shape[1],
                "vectors": vectors.astype(_VECTOR_TYPE).tobytes(),
            }
            for nodes, vectors in zip(tree.layers, tree.vectors, strict=True)
        ],
    }


def _node_to_plain(node: TreeNode) -> dict[str, Any]:
    summary = node.summary
    return {
        "key": node.key,
        "children": list(node.children),
        "title": node.title,
        "text": summary.text,
        "token_count": summary.token_count,
        "method": summary.method.value,
        "model": summary.model,
        "fallback": summary.fallback,
        "places": list(summary.places),
    }


def _from_plain(plain: Mapping[str, Any]) -> FileTree:
    keys = plain["leaf_keys"]
    positions = tuple(plain["positions"])
    beneath: Sequence[NDArray[np.int32]] = list(np.arange(len(positions), dtype=np.int32).reshape(-1, 1))
    layers: list[tuple[TreeNode, ...]] = []
    vectors: list[Vectors] = []
    for layer, part in enumerate(plain["layers"], start=1):
        beneath = [np.unique(np.concatenate([beneath[place] for place in node["children"]])) for node in part["nodes"]]
        layers.append(
            tuple(_node_from_plain(node, layer, leaves) for node, leaves in zip(part["nodes"], beneath, strict=True))
        )
        flat = np.frombuffer(part["vectors"], dtype=_VECTOR_TYPE).astype(np.float32)
        vectors.append(flat.reshape(len(part["nodes"]), part["dimension"]))
    return FileTree(
        tree=GrownTree(tuple(layers), tuple(vectors), cost_of(plain["cost"]), tuple(plain["thresholds"])),
        positions=positions,
        leaf_keys=tuple(keys[start : start + KEY_BYTES] for start in range(0, len(keys), KEY_BYTES)),
        fingerprint=plain["fingerprint"],
        changed_count=plain["changed_count"],
    )


def _node_from_plain(plain: Mapping[str, Any], layer: int, leaf_places: NDArray[np.int32]) -> TreeNode:
    return TreeNode(
        key=plain["key"],
        layer=layer,
        children=tuple(plain["children"]),
        summary=Summary(
            text=plain["text"],
            token_count=plain["token_count"],
            method=SummaryMethod(plain["method"]),
            model=plain["model"],
            fallback=plain["fallback"],
            places=tuple(plain["places"]),
        ),
        leaf_places=tuple(leaf_places.tolist()),
        title=plain["title"],
    )
