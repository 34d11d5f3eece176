"""What a command prints: its result on standard output, everything else on standard error."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from corpusmesh_app.cli.failures import error_shape, hint
from corpusmesh_core.errors import CorpusMeshError

if TYPE_CHECKING:
    from rich.console import Console

# Everything that could steer a terminal; documents and file names are not trusted (line feed and tab stay).
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

_PIPE_COLUMNS = 240


def plain(text: object) -> str:
    """Make a text of others safe to print on a terminal.

    Args:
        text: Any value.

    Returns:
        Its text, with control and direction-override characters shown as `�`.
    """
    return _CONTROL.sub("\ufffd", str(text))


class Output:
    """Prints one result, for people or as one JSON object."""

    def __init__(self, *, as_json: bool) -> None:
        """Create the output.

        Args:
            as_json: Whether the result is printed as JSON.
        """
        self.as_json = as_json

    @cached_property
    def console(self) -> "Console":
        """Standard output, for people."""
        from rich.console import Console

        # A pipe has no columns of its own: cells stay whole there.
        width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPE_COLUMNS
        return Console(highlight=False, markup=False, emoji=False, soft_wrap=True, width=width)

    @cached_property
    def errors(self) -> "Console":
        """Standard error: progress and messages."""
        from rich.console import Console

        return Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def message(self, text: str) -> None:
        """Tell a person something beside the result.

        Args:
            text: One line.
        """
        self.errors.print(plain(text))

    def failure(self, error: CorpusMeshError) -> None:
        """Print a failure: a line on standard error, and the JSON object where JSON was asked for.

        Args:
            error: The failure.
        """
        advice = hint(error)
        where = f" (field {error.field})" if error.field else ""
        request = f" (request {error.metadata['request_id']})" if "request_id" in error.metadata else ""
        self.message(f"corpusmesh: {error.message}{where}{request}{f': {advice}' if advice else ''}")
        if self.as_json:
            self._write({"error": error_shape(error)})

    def result(self, shape: Mapping[str, object], render: Callable[["Console"], None]) -> None:
        """Print the result of the command.

        Args:
            shape: The result as a JSON object.
            render: Prints it for people.
        """
        if self.as_json:
            self._write(shape)
        else:
            render(self.console)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> Callable[..., None]:
        """Make a renderer of a table.

        Args:
            columns: Headings.
            rows: Cells, one row each.
            empty: What to say where there is no row.

        Returns:
            A function that prints it on a console.
        """

        def render(console: "Console") -> None:
            from rich import box
            from rich.table import Table
            from rich.text import Text

            table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
            for column in columns:
                table.add_column(column, overflow="fold")
            for row in rows:
                table.add_row(*(Text(plain(cell)) for cell in row))
            if table.row_count:
                console.print(table)
            else:
                console.print(empty)

        return render

    def _write(self, shape: Mapping[str, object]) -> None:
        sys.stdout.write(json.dumps(shape, ensure_ascii=False, indent=2) + "\n")
        sys.stdout.flush()
