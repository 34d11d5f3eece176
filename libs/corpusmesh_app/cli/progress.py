"""Live progress of uploads and runs on standard error: bars on a terminal, a line now and then elsewhere."""

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from corpusmesh_app.cli.output import Output, plain

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from corpusmesh.ingest.v1.run_service_pb2 import Run

_LINE_EVERY_SECONDS = 5.0


class LiveProgress:
    """Shows how far an upload and its runs are, stage by stage over all runs."""

    def __init__(self, output: Output, document_count: int) -> None:
        """Create the display.

        Args:
            output: Where messages go.
            document_count: Documents of the whole work; 0 to take it from the runs.
        """
        self._output = output
        self._document_count = document_count
        self._runs: dict[str, Run] = {}
        self._bars: dict[str, TaskID] = {}
        self._progress: Progress | None = None
        self._line_at = time.monotonic()
        self._last_line = ""

    def __enter__(self) -> Self:
        """Begin to show."""
        if not self._output.as_json and self._output.errors.is_terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            self._progress = Progress(
                TextColumn("{task.description:<10}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=self._output.errors,
                transient=True,
            )
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the display."""
        if self._progress is not None:
            self._progress.stop()

    def uploaded(self, document_count: int, total: int) -> None:
        """Show how many documents were sent.

        Args:
            document_count: Documents that were sent.
            total: Documents to send.
        """
        self._show("upload", document_count, total)
        self._line(f"upload {document_count}/{total}")

    def step(self, name: str, done: int, total: int) -> None:
        """Show how far one step of work is.

        Args:
            name: The step.
            done: What is done of it.
            total: What there is to do.
        """
        self._show(name, done, total)
        self._line(f"{name} {done}/{total}")

    def update(self, run: "Run") -> None:
        """Show a run as it is now.

        Args:
            run: The run.
        """
        self._runs[run.name] = run
        done: dict[str, int] = {}
        for entry in self._runs.values():
            for stage in entry.stages:
                done[stage.stage] = done.get(stage.stage, 0) + stage.done_count
        total = max(self._document_count, sum(entry.document_count for entry in self._runs.values()))
        for stage_name, count in done.items():
            self._show(stage_name, count, total)
        failed = sum(entry.failed_count for entry in self._runs.values())
        stages = ", ".join(f"{stage_name} {count}/{total}" for stage_name, count in done.items())
        self._line(stages + (f", {failed} failed" if failed else ""))

    def _show(self, name: str, done: int, total: int) -> None:
        if self._progress is None:
            return
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(plain(name), total=total)
        self._progress.update(self._bars[name], completed=done, total=total)

    def _line(self, text: str) -> None:
        if self._progress is not None or self._output.as_json or not text or text == self._last_line:
            return
        if time.monotonic() - self._line_at >= _LINE_EVERY_SECONDS:
            self._line_at, self._last_line = time.monotonic(), text
            self._output.message(text)
