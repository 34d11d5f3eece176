"""Finds the structure of a table that has no rules: rows, columns and merged cells, as a network sees them.

SLANet (Li et al., 2022) writes the table's HTML tag by tag, and a box for the content of each cell.
"""

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_adapters.parsers.recognition.layout import Bounds
from corpusmesh_adapters.parsers.recognition.models import Engine
from corpusmesh_adapters.parsers.recognition.raster import IMAGENET_DEVIATION, IMAGENET_MEAN, Pixels, scaled, tensor
from corpusmesh_core.documents import CellSpan

_SIDE: Final = 488
_LEAST_SCORE: Final = 0.7
_MAX_COLUMNS: Final = 100
_SPAN: Final = re.compile(r'(col|row)span="(\d+)"')
_CELLS: Final = frozenset(("<td", "<td></td>"))


@dataclass(frozen=True, slots=True)
class Structure:
    """Structure of a table.

    Attributes:
        row_count: Its rows.
        column_count: Its columns.
        header_row_count: How many of the first rows are headers.
        places: Row and column of each cell.
        bounds: Where each cell's content is, in pixels of the page.
        spans: Cells that cover more than one place.
    """

    row_count: int
    column_count: int
    header_row_count: int
    places: tuple[tuple[int, int], ...]
    bounds: tuple[Bounds, ...]
    spans: tuple[CellSpan, ...]


def find_structure(engine: Engine, pixels: Pixels, bounds: Bounds) -> Structure | None:
    """Find the structure of a table.

    Args:
        engine: The models.
        pixels: The upright page.
        bounds: Where the table is, in pixels.

    Returns:
        Its structure; None where the network sees no table of two rows and two columns, or is not installed.
    """
    if engine.table is None:
        return None
    height, width = pixels.shape[:2]
    left, top = max(int(bounds[0]), 0), max(int(bounds[1]), 0)
    part = pixels[top : min(int(bounds[3]) + 1, height), left : min(int(bounds[2]) + 1, width)]
    if min(part.shape[:2]) < 8:
        return None
    scale = _SIDE / max(part.shape[:2])
    small = scaled(part, max(int(part.shape[1] * scale), 1), max(int(part.shape[0] * scale), 1))
    values = np.zeros((1, 3, _SIDE, _SIDE), np.float32)
    values[:, :, : small.shape[0], : small.shape[1]] = tensor(small, IMAGENET_MEAN, IMAGENET_DEVIATION)
    boxes, probabilities = engine.table.run(values)
    return _decoded(engine.table_tokens, boxes[0] * (_SIDE / scale), probabilities[0], (left, top))


def _decoded(
    tokens: tuple[str, ...], boxes: NDArray[np.float32], probabilities: NDArray[np.float32], origin: tuple[int, int]
) -> Structure | None:
    taken: set[tuple[int, int]] = set()
    places: list[tuple[int, int]] = []
    bounds: list[Bounds] = []
    spans: list[CellSpan] = []
    scores: list[float] = []
    row, column, header_rows = -1, 0, 0
    is_header = False
    open_spans = {"row": 1, "col": 1}
    for step, number in enumerate(probabilities.argmax(axis=1)):
        tag = tokens[number]
        if tag == "eos" and step:
            break
        scores.append(float(probabilities[step, number]))
        if tag == "<thead>":
            is_header = True
        elif tag == "</thead>":
            is_header = False
        elif tag == "<tr>":
            row, column = row + 1, 0
            header_rows += is_header
        elif tag in _CELLS and row >= 0:
            while (row, column) in taken:
                column += 1
            open_spans = {"row": 1, "col": 1}
            places.append((row, column))
            xs, ys = boxes[step, 0::2] + origin[0], boxes[step, 1::2] + origin[1]
            bounds.append((float(xs.min()), float(ys.min()), float(xs.max()), float(ys.max())))
            taken.add((row, column))
        elif (match := _SPAN.search(tag)) is not None and places:
            open_spans[match.group(1)] = int(match.group(2))
        elif tag == ">" and places and max(open_spans.values()) > 1:
            first_row, first_column = places[-1]
            span = CellSpan(first_row, first_column, open_spans["row"], open_spans["col"])
            spans.append(span)
            taken |= {
                (span.row + down, span.column + across)
                for down in range(span.row_count)
                for across in range(span.column_count)
            }
    columns = 1 + max((place[1] for place in taken), default=-1)
    if row < 1 or not 2 <= columns <= _MAX_COLUMNS or sum(scores) < _LEAST_SCORE * len(scores):
        return None
    row_count = row + 1
    spans = [
        CellSpan(span.row, span.column, min(span.row_count, row_count - span.row), span.column_count) for span in spans
    ]
    return Structure(row_count, columns, header_rows, tuple(places), tuple(bounds), tuple(spans))
