"""Finds the regions of a page: text, titles, tables, figures, captions, running headers and footers, formulas.

PicoDet (Yu et al., 2021) trained on CDLA, the ten classes that RAGFlow's DeepDOC knows too. Boxes come as
distributions over distances to the four sides (generalised focal loss, Li et al., NeurIPS 2020).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_adapters.parsers.recognition.models import Engine
from corpusmesh_adapters.parsers.recognition.raster import IMAGENET_DEVIATION, IMAGENET_MEAN, Pixels, scaled, tensor

_HEIGHT: Final = 800
_WIDTH: Final = 608
_STRIDES: Final = (8, 16, 32, 64)
_THRESHOLD: Final = 0.5
_OVERLAP: Final = 0.5
_COVERED: Final = 0.8
_MAX_REGIONS: Final = 200

Bounds = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels."""


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a page.

    Attributes:
        kind: "text", "title", "figure", "figure_caption", "table", "table_caption", "header", "footer", "reference"
            or "equation".
        bounds: Where it is.
        score: How sure the model was, 0 to 1.
    """

    kind: str
    bounds: Bounds
    score: float


def find_regions(engine: Engine, pixels: Pixels) -> list[Region]:
    """Find the regions of an upright page.

    Args:
        engine: The models.
        pixels: The page.

    Returns:
        Regions, the surest first; none lies mostly within another one of its kind or a surer one.
    """
    outputs = engine.layout.run(tensor(scaled(pixels, _WIDTH, _HEIGHT), IMAGENET_MEAN, IMAGENET_DEVIATION))
    scores = np.concatenate([output[0] for output in outputs[:4]])
    boxes = np.concatenate([_boxes(output[0], stride) for output, stride in zip(outputs[4:], _STRIDES, strict=True)])
    classes = scores.argmax(axis=1)
    sure = scores[np.arange(len(scores)), classes]
    order = np.argsort(-sure, kind="stable")
    order = order[sure[order] > _THRESHOLD][:1_000]
    height, width = pixels.shape[:2]
    scale = np.asarray([width / _WIDTH, height / _HEIGHT] * 2)
    limits = np.asarray([width, height] * 2)
    regions: list[Region] = []
    for index in order:
        left, top, right, bottom = np.clip(boxes[index] * scale, 0, limits).tolist()
        region = Region(engine.layout_classes[classes[index]], (left, top, right, bottom), float(sure[index]))
        if len(regions) < _MAX_REGIONS and not any(_is_double(kept, region) for kept in regions):
            regions.append(region)
    return regions


def shared_area(first: Bounds, second: Bounds) -> float:
    """Measure what two rectangles share.

    Args:
        first: One.
        second: The other.

    Returns:
        Square pixels.
    """
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    return max(width, 0.0) * max(height, 0.0)


def area(bounds: Bounds) -> float:
    """Measure a rectangle.

    Args:
        bounds: The rectangle.

    Returns:
        Square pixels, at least one.
    """
    return max((bounds[2] - bounds[0]) * (bounds[3] - bounds[1]), 1.0)


def _boxes(distances: NDArray[np.float32], stride: int) -> NDArray[np.float64]:
    across, down = -(-_WIDTH // stride), -(-_HEIGHT // stride)
    rows, columns = np.divmod(np.arange(across * down), across)
    centers = np.stack([columns + 0.5, rows + 0.5] * 2, axis=1) * stride
    bins = distances.shape[1] // 4
    powers = np.exp(distances.reshape(-1, 4, bins) - distances.reshape(-1, 4, bins).max(axis=2, keepdims=True))
    expected = (powers * np.arange(bins)).sum(axis=2) / powers.sum(axis=2) * stride
    boxes: NDArray[np.float64] = centers + expected * np.asarray([-1, -1, 1, 1])
    return boxes


def _is_double(kept: Region, other: Region) -> bool:
    shared = shared_area(kept.bounds, other.bounds)
    union = area(kept.bounds) + area(other.bounds) - shared
    return shared > _OVERLAP * union or shared > _COVERED * min(area(kept.bounds), area(other.bounds))
