"""Draws the tree of a document that the project ships: `python docs/draw_tree.py` writes docs/tree.svg.

The document is parsed, cut, embedded and summarized as a mesh does it, by the same code and the default model, without
servers. Chunks stand on the right in the document's order, the one summary of all of it on the left.
"""

import asyncio
import textwrap
from collections.abc import Iterator, Sequence
from html import escape
from itertools import count, pairwise, repeat
from pathlib import Path
from typing import Any, cast

import numpy as np

from corpusmesh_adapters.models.onnx_backend import OnnxEmbeddingBackend
from corpusmesh_adapters.models.registry import DEFAULT_MODEL_NAME, model_directory
from corpusmesh_adapters.parsers.builder import Source
from corpusmesh_adapters.parsers.router import parse_source
from corpusmesh_core.artefacts import embedded_text, text_key
from corpusmesh_core.chunking import chunk_document
from corpusmesh_core.documents import ChunkRole
from corpusmesh_core.ports.embedding import EmbedRole
from corpusmesh_core.ports.parsing import ParseOptions
from corpusmesh_core.records import Ordinal, chunk_record_id
from corpusmesh_core.trees.settings import TreeSettings
from corpusmesh_core.trees.values import GrownTree, Leaf, TreeCost
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.grouping import Grouper
from corpusmesh_raptor.growing import GrowingTools, grow
from corpusmesh_raptor.node_vectors import NodeEmbedder
from corpusmesh_raptor.summarizing import Summarizer

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "examples" / "documents" / "CorpusMesh User Guide.pdf"
TARGET = Path(__file__).with_name("tree.svg")
MAX_CHUNK_TOKENS = 160

ROW, TOP, GAP, PAD = 26, 46, 34, 8
LEAF_WIDTH, NODE_WIDTH, FONT, LINE = 330, 236, 9.5, 12
COLOURS = ("#2c74c4", "#328f48", "#8450b8", "#d08414", "#109098")


async def plant() -> tuple[Sequence[Leaf], GrownTree, TreeCost]:
    """Make the tree.

    Returns:
        Leaves, the tree over them, and what it cost.
    """
    document = parse_source(Source(DOCUMENT.read_bytes(), DOCUMENT.name, ParseOptions()))
    model = OnnxEmbeddingBackend(model_directory(DEFAULT_MODEL_NAME), thread_count=1)
    chunks = chunk_document(document, model, settings={"max_tokens": MAX_CHUNK_TOKENS})
    chunks = [chunk for chunk in chunks if chunk.role is ChunkRole.TEXT]
    texts = [embedded_text(document.title, chunk.context, chunk.text) for chunk in chunks]
    vectors = model.encode(texts, role=EmbedRole.PASSAGE).vectors
    leaves = tuple(
        Leaf(
            record_id=chunk_record_id(Ordinal(1), chunk.position),
            key=text_key(model.space.space_id, text),
            text=chunk.text,
            token_count=chunk.token_count,
            source=Ordinal(1),
            title=document.title,
            heading_path=chunk.heading_path,
        )
        for chunk, text in zip(chunks, texts, strict=True)
    )
    settings, cost = TreeSettings.of({"tree": {"scope": "file"}}), TreeCost()
    summarizer = Summarizer(None, None, cast(Any, None), model, RaptorSettings())
    session = summarizer.open(tenant_id="", run_id="", settings=settings, cost=cost)
    tools = GrowingTools(
        session=session,
        embedder=NodeEmbedder(cast(Any, model), model.space.space_id),
        cost=cost,
        remaining_seconds=lambda: 60.0,
    )
    return leaves, await grow(leaves, np.asarray(vectors), Grouper(settings), tools), cost


def draw(leaves: Sequence[Leaf], tree: GrownTree, cost: TreeCost) -> str:
    """Draw a tree.

    Args:
        leaves: Its leaves.
        tree: The tree.
        cost: What it cost.

    Returns:
        The picture.
    """
    depth = len(tree.layers)
    width = PAD + depth * (NODE_WIDTH + GAP) + LEAF_WIDTH + PAD
    middles: list[list[float]] = [[TOP + ROW * (place + 0.5) for place in range(len(leaves))]]
    for layer in tree.layers:
        middles.append([sum(middles[-1][child] for child in node.children) / len(node.children) for node in layer])
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{TOP + ROW * len(leaves) + PAD}" '
        f'font-family="Helvetica, Arial, sans-serif" font-size="{FONT}">',
        '<rect width="100%" height="100%" fill="white"/>',
        _text(PAD, 16, f"{DOCUMENT.name}: {len(leaves)} chunks, {sum(map(len, tree.layers))} summaries, "
              f"{cost.model_call_count} calls of a model", size=12, weight="bold"),
    ]  # fmt: skip
    for number in range(depth, -1, -1):
        caption = f"layer {number}" if number else "chunks"
        lines.append(_text(_left(number, depth), TOP - 8, caption, colour="#666"))
    for number, layer in enumerate(tree.layers, start=1):
        for node, middle in zip(layer, middles[number], strict=True):
            lines += _links(number, depth, middle, [middles[number - 1][child] for child in node.children])
    for number, layer in enumerate(tree.layers, start=1):
        room = _rooms(middles[number])
        for node, middle, height in zip(layer, middles[number], room, strict=False):
            lines += _node(number, depth, middle, node.summary.text, len(node.leaf_places), height)
    lines += [_leaf(depth, middle, leaf) for middle, leaf in zip(middles[0], leaves, strict=True)]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _rooms(middles: Sequence[float]) -> Iterator[float]:
    """Tell how high the box of each node may be, so that none covers its neighbour."""
    if len(middles) == 1:
        return repeat(160.0)
    gaps = [after - before for before, after in pairwise(middles)]
    return (min([*gaps[max(0, place - 1) : place + 1]]) - 5 for place in count())


def _left(number: int, depth: int) -> float:
    return PAD + (depth - number) * (NODE_WIDTH + GAP)


def _links(number: int, depth: int, middle: float, children: Sequence[float]) -> list[str]:
    start, end = _left(number, depth) + NODE_WIDTH, _left(number - 1, depth)
    bend = (start + end) / 2
    return [
        f'<path d="M{start} {middle:.1f} C{bend} {middle:.1f} {bend} {child:.1f} {end} {child:.1f}" '
        f'fill="none" stroke="{COLOURS[number % len(COLOURS)]}" stroke-opacity="0.55"/>'
        for child in children
    ]


def _node(number: int, depth: int, middle: float, text: str, leaf_count: int, room: float) -> list[str]:
    colour = COLOURS[number % len(COLOURS)]
    most = max(1, int((room - 18) // LINE))
    wrapped = textwrap.wrap(" ".join(text.split()), 42)
    if len(wrapped) > most:
        wrapped = [*wrapped[: most - 1], wrapped[most - 1][:40].rstrip() + "…"]
    height = LINE * (len(wrapped) + 1) + 6
    left, top = _left(number, depth), middle - height / 2
    plural = "" if leaf_count == 1 else "s"
    return [
        f'<rect x="{left}" y="{top:.1f}" width="{NODE_WIDTH}" height="{height}" rx="4" fill="white" '
        f'stroke="{colour}"/>',
        _text(left + 6, top + LINE, f"{leaf_count} chunk{plural}", colour=colour, weight="bold"),
        *(_text(left + 6, top + LINE * (row + 2), line) for row, line in enumerate(wrapped)),
    ]


def _leaf(depth: int, middle: float, leaf: Leaf) -> str:
    left = _left(0, depth)
    heading = leaf.heading_path[-1] if leaf.heading_path else leaf.title
    body = " ".join(leaf.text.removeprefix(heading).split())
    return "\n".join(
        [
            f'<rect x="{left}" y="{middle - ROW / 2 + 2:.1f}" width="{LEAF_WIDTH}" height="{ROW - 4}" rx="3" '
            'fill="#f2f2f2" stroke="#bbb"/>',
            _text(left + 6, middle - 1, textwrap.shorten(heading, 50, placeholder="…"), weight="bold"),
            _text(left + 6, middle + 9.5, textwrap.shorten(body, 60, placeholder="…"), colour="#444"),
        ]
    )


def _text(left: float, base: float, text: str, *, colour: str = "#111", size: float = FONT, weight: str = "") -> str:
    style = f' font-weight="{weight}"' if weight else ""
    return f'<text x="{left}" y="{base:.1f}" fill="{colour}" font-size="{size}"{style}>{escape(text)}</text>'


def main() -> None:
    """Write the picture."""
    leaves, tree, cost = asyncio.run(plant())
    TARGET.write_text(draw(leaves, tree, cost), encoding="utf-8")


if __name__ == "__main__":
    main()
