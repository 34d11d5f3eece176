"""Makes grids of rulings: which rulings hang together, and what cells they enclose. Pure geometry."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from corpusmesh_adapters.parsers.pdf_rulings import TOLERANCE_POINTS, Rulings

_Ruling = tuple[float, float, float]
_MIN_OPEN_SIDE_RULINGS = 3
_MIN_OPEN_SIDE_POINTS = 12.0
_MAX_PLACES = 40_000
_MIN_CLOSED_SHARE = 0.6
_MIN_CELLS = 4


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a grid.

    Attributes:
        row: Its first row from 0.
        column: Its first column from 0.
        row_count: Rows that it covers.
        column_count: Columns that it covers.
    """

    row: int
    column: int
    row_count: int
    column_count: int


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells that rulings enclose.

    Attributes:
        lefts: Left edges of the columns and the right edge of the last, ascending.
        tops: Top edges of the rows and the bottom edge of the last, ascending.
        cells: The cells, from the top left.
        owners: Index of the cell that covers each place, row by row; -1 where none does.
    """

    lefts: tuple[float, ...]
    tops: tuple[float, ...]
    cells: tuple[Cell, ...]
    owners: tuple[tuple[int, ...], ...]

    def cell_at(self, x: float, y: float) -> int:
        """Find the cell around a point.

        Args:
            x: Points from the left.
            y: Points from the top.

        Returns:
            Its index, or -1 outside.
        """
        column, row = self.column_at(x), self.row_at(y)
        return self.owners[row][column] if column >= 0 and row >= 0 else -1

    def column_at(self, x: float) -> int:
        """Find the column around a place.

        Args:
            x: Points from the left.

        Returns:
            Its index, or -1 outside.
        """
        column = bisect_right(self.lefts, x) - 1
        return column if column < len(self.lefts) - 1 else -1

    def row_at(self, y: float) -> int:
        """Find the row around a place.

        Args:
            y: Points from the top.

        Returns:
            Its index, or -1 outside.
        """
        row = bisect_right(self.tops, y) - 1
        return row if row < len(self.tops) - 1 else -1


def find_grids(rulings: Rulings) -> list[Grid]:
    """Find the grids of a page.

    Args:
        rulings: Its rulings.

    Returns:
        Grids of at least two rows and two columns, most of their places in cells with a ruling on every side.
    """
    if len(rulings.horizontal) < 2 or not rulings.vertical:
        return []
    horizontal, vertical = _joined(rulings.horizontal), _joined(rulings.vertical)
    found: list[Grid] = []
    for across, down in _touching(horizontal, vertical):
        found.extend(_grids([horizontal[index] for index in across], [vertical[index] for index in down]))
    return found


def _joined(rulings: list[_Ruling]) -> list[_Ruling]:
    """Unite rulings that lie on one line and touch, and double lines."""
    rulings.sort()
    joined: list[_Ruling] = []
    group: list[_Ruling] = []
    for ruling in rulings:
        if group and ruling[0] - group[-1][0] > TOLERANCE_POINTS:
            joined.extend(_united(group))
            group = []
        group.append(ruling)
    joined.extend(_united(group))
    return joined


def _united(group: list[_Ruling]) -> Iterable[_Ruling]:
    position = sum(ruling[0] for ruling in group) / len(group)
    spans = sorted((start, end) for _, start, end in group)
    begin, stop = spans[0]
    for start, end in spans[1:]:
        if start > stop + TOLERANCE_POINTS:
            yield position, begin, stop
            begin, stop = start, end
        else:
            stop = max(stop, end)
    yield position, begin, stop


class _Roots:
    """Groups of numbers that were united (union-find with path halving)."""

    def __init__(self, count: int) -> None:
        self._parents = list(range(count))

    def find(self, index: int) -> int:
        parents = self._parents
        while parents[index] != index:
            parents[index] = index = parents[parents[index]]
        return index

    def unite(self, first: int, second: int) -> None:
        self._parents[self.find(first)] = self.find(second)


def _touching(horizontal: Sequence[_Ruling], vertical: Sequence[_Ruling]) -> list[tuple[list[int], list[int]]]:
    """Group rulings that touch, directly or through others."""
    roots = _Roots(len(horizontal) + len(vertical))
    positions = [ruling[0] for ruling in vertical]
    for index, (y, left, right) in enumerate(horizontal):
        low = bisect_right(positions, left - TOLERANCE_POINTS)
        high = bisect_right(positions, right + TOLERANCE_POINTS)
        for other in range(low, high):
            _, top, bottom = vertical[other]
            if top - TOLERANCE_POINTS <= y <= bottom + TOLERANCE_POINTS:
                roots.unite(index, len(horizontal) + other)
    groups: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for index in range(len(horizontal)):
        groups[roots.find(index)][0].append(index)
    for index in range(len(vertical)):
        groups[roots.find(len(horizontal) + index)][1].append(index)
    return [group for group in groups.values() if len(group[0]) >= 2 and group[1]]


def _grids(horizontal: list[_Ruling], vertical: list[_Ruling]) -> Iterator[Grid]:
    horizontal, vertical = _with_sides(horizontal, vertical), _with_sides(vertical, horizontal)
    lefts = sorted({ruling[0] for ruling in vertical})
    tops = sorted({ruling[0] for ruling in horizontal})
    if len(tops) < 3 or len(lefts) < 3 or len(tops) * len(lefts) > _MAX_PLACES:
        return
    cells = _closed_cells(_borders(horizontal, tops, lefts), _borders(vertical, lefts, tops))
    for group in _sharing_corners(cells):
        grid = _grid(group, lefts, tops)
        if grid is not None:
            yield grid


def _closed_cells(below: list[list[bool]], beside: list[list[bool]]) -> list[Cell]:
    """Find the rectangles with rulings along all sides and none inside; all others are no cells."""
    row_count, column_count = len(below) - 1, len(beside) - 1
    taken = [[False] * column_count for _ in range(row_count)]
    cells: list[Cell] = []
    for row in range(row_count):
        for column in range(column_count):
            if taken[row][column]:
                continue
            width = 1
            while column + width < column_count and not beside[column + width][row] and not taken[row][column + width]:
                width += 1
            height = 1
            # A row further down belongs to the cell if nothing parts it from the cell, and nothing parts it itself.
            while row + height < row_count and _goes_on(below, beside, row + height, column, width):
                height += 1
            for place in range(row, row + height):
                taken[place][column : column + width] = [True] * width
            if (
                all(below[row][column : column + width])
                and all(below[row + height][column : column + width])
                and all(beside[column][row : row + height])
                and all(beside[column + width][row : row + height])
            ):
                cells.append(Cell(row, column, height, width))
    return cells


def _sharing_corners(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Group cells that share corners: what merely touches is another table, or no table."""
    roots = _Roots(len(cells))
    owners: dict[tuple[int, int], int] = {}
    for index, cell in enumerate(cells):
        below, right = cell.row + cell.row_count, cell.column + cell.column_count
        for corner in ((cell.row, cell.column), (cell.row, right), (below, cell.column), (below, right)):
            roots.unite(index, owners.setdefault(corner, index))
    groups: dict[int, list[Cell]] = defaultdict(list)
    for index, cell in enumerate(cells):
        groups[roots.find(index)].append(cell)
    return [group for group in groups.values() if len(group) >= _MIN_CELLS]


def _grid(cells: Sequence[Cell], lefts: Sequence[float], tops: Sequence[float]) -> Grid | None:
    """Lay out one group of cells by the edges that they use."""
    columns = sorted({edge for cell in cells for edge in (cell.column, cell.column + cell.column_count)})
    rows = sorted({edge for cell in cells for edge in (cell.row, cell.row + cell.row_count)})
    if len(columns) < 3 or len(rows) < 3:
        return None
    column_of = {edge: index for index, edge in enumerate(columns)}
    row_of = {edge: index for index, edge in enumerate(rows)}
    owners = [[-1] * (len(columns) - 1) for _ in range(len(rows) - 1)]
    placed: list[Cell] = []
    covered = 0
    for cell in cells:
        row, column = row_of[cell.row], column_of[cell.column]
        height = row_of[cell.row + cell.row_count] - row
        width = column_of[cell.column + cell.column_count] - column
        for place in range(row, row + height):
            owners[place][column : column + width] = [len(placed)] * width
        placed.append(Cell(row, column, height, width))
        covered += height * width
    # Boxes of a diagram stand anywhere: most places between them belong to no box.
    if covered < _MIN_CLOSED_SHARE * (len(rows) - 1) * (len(columns) - 1):
        return None
    return Grid(
        tuple([lefts[edge] for edge in columns]),
        tuple([tops[edge] for edge in rows]),
        tuple(placed),
        tuple(map(tuple, owners)),
    )


def _goes_on(below: list[list[bool]], beside: list[list[bool]], row: int, column: int, width: int) -> bool:
    if any(below[row][column : column + width]):
        return False
    if column + width < len(beside) - 1 and not beside[column + width][row]:
        return False
    if column and not beside[column][row]:
        return False
    return not any(beside[place][row] for place in range(column + 1, column + width))


def _borders(rulings: Sequence[_Ruling], positions: list[float], along: list[float]) -> list[list[bool]]:
    """Say for each position and each stretch along it whether a ruling runs there."""
    index_of = {position: index for index, position in enumerate(positions)}
    middles = [(start + end) / 2 for start, end in pairwise(along)]
    found = [[False] * len(middles) for _ in positions]
    for position, start, end in rulings:
        low, high = bisect_right(middles, start), bisect_right(middles, end)
        found[index_of[position]][low:high] = [True] * (high - low)
    return found


def _with_sides(rulings: list[_Ruling], others: Sequence[_Ruling]) -> list[_Ruling]:
    """Add the sides that a table does without: where three rulings across or more end together and none closes them."""
    positions = [ruling[0] for ruling in rulings]
    added = list(rulings)
    for end_index, outermost in ((1, min(positions)), (2, max(positions))):
        ends = [ruling[end_index] for ruling in others]
        side = min(ends) if end_index == 1 else max(ends)
        if abs(side - outermost) < _MIN_OPEN_SIDE_POINTS:
            side = outermost
        elif (side > outermost) != (end_index == 2):
            continue
        closing = [ruling[0] for ruling in others if abs(ruling[end_index] - side) < _MIN_OPEN_SIDE_POINTS]
        if len(closing) >= _MIN_OPEN_SIDE_RULINGS:
            added.append((side, min(closing), max(closing)))
    return added
