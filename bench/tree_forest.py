"""Long documents with vectors, and trees over them made as a recipe says: what `tree_study.py` searches."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tree_sets import TreeSet

from corpusmesh_adapters.models.onnx_backend import OnnxEmbeddingBackend
from corpusmesh_adapters.models.registry import DEFAULT_MODEL_NAME, model_directory
from corpusmesh_core.ports.embedding import EmbedRole
from corpusmesh_core.trees.clustering import group_layer
from corpusmesh_core.trees.extractive import extract
from corpusmesh_core.trees.settings import TreeSettings
from corpusmesh_core.trees.values import Child

Vectors = NDArray[np.float32]


class Embedder:
    """The default model, with what it has embedded kept on disk."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "texts.npz"
        self._model: OnnxEmbeddingBackend | None = None
        self._known: dict[str, Vectors] = {}
        if self._path.exists():
            stored = np.load(self._path)
            self._known = dict(zip(stored["keys"].tolist(), stored["vectors"], strict=True))

    @cached_property
    def model(self) -> OnnxEmbeddingBackend:
        return OnnxEmbeddingBackend(model_directory(DEFAULT_MODEL_NAME), thread_count=1)

    def embed(self, texts: Sequence[str], role: EmbedRole) -> Vectors:
        keys = [hashlib.blake2b(f"{role}\n{text}".encode(), digest_size=12).hexdigest() for text in texts]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        names = list(missing)
        for at in range(0, len(names), 256):
            part = names[at : at + 256]
            found = self.model.encode([missing[name] for name in part], role=role).vectors
            self._known.update(zip(part, found, strict=True))
        if names:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.with_suffix(".part").open("wb") as file:
                np.savez(file, keys=np.array(list(self._known)), vectors=np.stack(list(self._known.values())))
            self._path.with_suffix(".part").replace(self._path)
        return np.stack([self._known[key] for key in keys])


@dataclass
class Leaf:
    """A passage."""

    passage_id: str
    text: str
    tokens: int
    document: int


@dataclass
class Node:
    """A summary."""

    layer: int
    text: str
    tokens: int
    leaves: tuple[int, ...]
    children: tuple[int, ...]
    """Places in the layer beneath: leaves for layer 1, nodes (by number) above."""
    said: frozenset[int]
    """Leaves that sentences of it stand in."""


@dataclass
class Stock:
    """Leaves and questions of one set with their vectors."""

    made: TreeSet
    leaves: list[Leaf]
    vectors: Vectors
    question_vectors: Vectors
    embedder: Embedder
    rows: dict[str, int] = field(default_factory=dict)


def stock_of(made: TreeSet, folder: Path, embedder: Embedder) -> Stock:
    passages = [(number, passage) for number, document in enumerate(made.documents) for passage in document.passages]
    texts = [passage.text for _, passage in passages]
    tokens = embedder.model.count_tokens(texts)
    name = made.name.removeprefix("one-")
    if (folder / f"{name}.passages.npy").exists():
        stored = np.load(folder / f"{name}.passages.npy")
        ids = {str(entry["id"]): row for row, entry in enumerate(_corpus(name))}
        vectors = stored[[ids[passage.passage_id] for _, passage in passages]]
    else:
        titles = [document.title + "\n" if document.path else "" for document in made.documents]
        vectors = embedder.embed([titles[number] + passage.text for number, passage in passages], EmbedRole.PASSAGE)
    leaves = [
        Leaf(passage.passage_id, passage.text, count, number)
        for (number, passage), count in zip(passages, tokens, strict=True)
    ]
    asked = embedder.embed([question.text for question in made.questions], EmbedRole.QUERY)
    return Stock(made, leaves, vectors, asked, embedder, {leaf.passage_id: row for row, leaf in enumerate(leaves)})


def _corpus(name: str) -> list[dict[str, object]]:
    from tree_sets import SHARED, lines_of

    return lines_of(SHARED / "eval" / name / "corpus.jsonl")


@dataclass(frozen=True)
class Recipe:
    """How trees are made."""

    settings: TreeSettings = field(default_factory=TreeSettings)
    whole: bool = False
    """One tree over all documents instead of one for each."""
    vectors: str = "mean"
    """mean: of the leaves, unit norm; flat mean: not brought to unit norm; embedded: of the summary's text."""
    max_layers: int = 99
    order: Callable[[Vectors, Sequence[int]], list[int]] | None = None


@dataclass
class Forest:
    """Trees over the leaves of a stock."""

    nodes: list[Node]
    vectors: Vectors


def grow(stock: Stock, recipe: Recipe) -> Forest:
    groups: dict[int, list[int]] = defaultdict(list)
    for row, leaf in enumerate(stock.leaves):
        groups[0 if recipe.whole else leaf.document].append(row)
    nodes: list[Node] = []
    vectors: list[Vectors] = []
    for rows in groups.values():
        ordered = recipe.order(stock.vectors, rows) if recipe.order else rows
        _grow_tree(stock, recipe, ordered, nodes, vectors)
    return Forest(nodes, np.stack(vectors))


def _grow_tree(stock: Stock, recipe: Recipe, rows: list[int], nodes: list[Node], vectors: list[Vectors]) -> None:
    counter = stock.embedder.model
    below: list[Child] = [Child(stock.leaves[row].text, stock.leaves[row].tokens) for row in rows]
    below_leaves: list[tuple[int, ...]] = [(row,) for row in rows]
    below_said: list[frozenset[int]] = [frozenset((row,)) for row in rows]
    below_names = list(rows)
    layer_vectors = stock.vectors[rows]
    layer = 0
    while layer < recipe.max_layers and (grouping := group_layer(layer_vectors, recipe.settings)) is not None:
        layer += 1
        children, leaves, said, names, own = [], [], [], [], []
        for places in grouping.clusters:
            members = [below[place] for place in places]
            taken = extract(
                members, layer_vectors[places], counter, max_tokens=recipe.settings.effective_summary_tokens
            )
            beneath = tuple(sorted({row for place in places for row in below_leaves[place]}))
            spoken = frozenset(row for place in taken.places for row in below_said[places[place]])
            nodes.append(
                Node(
                    layer, taken.text, taken.token_count, beneath, tuple(below_names[place] for place in places), spoken
                )
            )
            children.append(Child(taken.text, taken.token_count, len(beneath)))
            leaves.append(beneath)
            said.append(spoken)
            names.append(len(nodes) - 1)
            own.append(stock.vectors[list(beneath)].mean(axis=0))
        layer_vectors = np.stack(own)
        if recipe.vectors == "embedded":
            layer_vectors = stock.embedder.embed([child.text for child in children], EmbedRole.PASSAGE)
        elif recipe.vectors == "mean":
            layer_vectors = layer_vectors / np.linalg.norm(layer_vectors, axis=1, keepdims=True)
        vectors.extend(layer_vectors)
        below, below_leaves, below_said, below_names = children, leaves, said, names


def shape(forest: Forest, leaf_count: int) -> str:
    layers = max((node.layer for node in forest.nodes), default=0)
    tokens = np.mean([node.tokens for node in forest.nodes])
    return f"{len(forest.nodes) / leaf_count:.2f} nodes a leaf, {layers} layers, {tokens:.0f} tokens a node"
