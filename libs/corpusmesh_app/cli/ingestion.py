"""Uploads many documents and, where asked, follows their runs to the end."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from corpusmesh.ingest.v1 import document_service_pb2 as pb
from corpusmesh_app.cli.failures import error_shape
from corpusmesh_app.cli.output import Output
from corpusmesh_app.cli.progress import LiveProgress
from corpusmesh_app.cli.shapes import run_shape
from corpusmesh_app.cli.sources import batches
from corpusmesh_client import CorpusMeshClient, UploadedItem, UploadItem, error_from_status
from corpusmesh_core.errors import CorpusMeshError, InvalidArgumentError, first_cause

if TYPE_CHECKING:
    from corpusmesh.ingest.v1.run_service_pb2 import Run

MAX_STREAM_DOCUMENTS = 100
"""A run names at most 100 failed documents: a stream of no more than that loses none of them."""
MAX_STREAM_BYTES = 64 * 1024 * 1024
_WATCHED_AT_ONCE = 4


@dataclass(slots=True)
class IngestReport:
    """What became of an ingest.

    Attributes:
        documents: One entry per document, in order.
        runs: The runs, as they were last seen.
        waited: Whether the runs were followed to their end.
    """

    documents: list[UploadedItem] = field(default_factory=list)
    runs: dict[str, "Run"] = field(default_factory=dict)
    waited: bool = False
    _failed_versions: dict[str, CorpusMeshError] = field(default_factory=dict)

    def add_run(self, run: "Run") -> None:
        """Note a run as it is now.

        Args:
            run: The run.
        """
        self.runs[run.name] = run
        for part in run.failed_parts:
            self._failed_versions[part.version] = error_from_status(part.error)

    def error_of(self, document: UploadedItem) -> CorpusMeshError | None:
        """Tell why a document failed.

        Args:
            document: An entry of `documents`.

        Returns:
            The failure; None if there is none so far.
        """
        if document.error is not None:
            return document.error
        return self._failed_versions.get(document.version)

    def state_of(self, document: UploadedItem) -> str:
        """Tell where a document stands.

        Args:
            document: An entry of `documents`.

        Returns:
            "failed", "unchanged", "done" (its run has ended), or "accepted" (its run goes on).
        """
        if self.error_of(document) is not None:
            return "failed"
        if document.unchanged:
            return "unchanged"
        return "done" if self.waited else "accepted"

    @property
    def failed_count(self) -> int:
        """Documents that failed."""
        return sum(1 for document in self.documents if self.error_of(document) is not None)

    def shape(self) -> dict[str, object]:
        """Describe the report in JSON.

        Returns:
            Documents, runs and counts.
        """
        documents = []
        for document in self.documents:
            error = self.error_of(document)
            documents.append(
                {
                    "display_name": document.display_name,
                    "version": document.version or None,
                    "state": self.state_of(document),
                    "error": error_shape(error) if error is not None else None,
                }
            )
        return {
            "documents": documents,
            "document_count": len(self.documents),
            "failed_count": self.failed_count,
            "unchanged_count": sum(1 for document in self.documents if self.state_of(document) == "unchanged"),
            "waited": self.waited,
            "runs": [run_shape(run) for run in self.runs.values()],
        }


def duplicates_of(word: str) -> "pb.Duplicates.ValueType":
    """Read a choice of the command line.

    Args:
        word: "unchanged", "skip", "new-version" or "keep-both".

    Returns:
        The contract's value.

    Raises:
        InvalidArgumentError: DUPLICATES_UNKNOWN if it is none of them.
    """
    choices = {
        "unchanged": pb.DUPLICATES_UNSPECIFIED,
        "skip": pb.DUPLICATES_SKIP,
        "new-version": pb.DUPLICATES_NEW_VERSION,
        "keep-both": pb.DUPLICATES_KEEP_BOTH,
    }
    if word not in choices:
        raise InvalidArgumentError(
            "DUPLICATES_UNKNOWN", f"--duplicates takes one of {', '.join(choices)}", field="duplicates"
        )
    return choices[word]


async def ingest_items(
    client: CorpusMeshClient,
    knowledge_base: str,
    items: Sequence[UploadItem],
    output: Output,
    *,
    wait: bool,
    duplicates: "pb.Duplicates.ValueType" = pb.DUPLICATES_UNSPECIFIED,
    max_stream_documents: int = MAX_STREAM_DOCUMENTS,
) -> IngestReport:
    """Upload documents in streams of bounded size; a failed document does not stop the others.

    Args:
        client: The client.
        knowledge_base: `knowledgeBases/{knowledge_base}`.
        items: The documents.
        output: Where progress goes.
        wait: Whether to follow the runs to their end.
        duplicates: What to do with bytes and names that are there already.
        max_stream_documents: Documents of one stream.

    Returns:
        What became of every document.
    """
    report = IngestReport(waited=wait)
    gate = asyncio.Semaphore(_WATCHED_AT_ONCE)
    with LiveProgress(output, len(items)) as progress:

        async def follow(name: str) -> None:
            async with gate:
                async for run in client.watch_run(name):
                    report.add_run(run)
                    progress.update(run)

        try:
            async with asyncio.TaskGroup() as watchers:
                for batch in batches(items, max_count=max_stream_documents, max_bytes=MAX_STREAM_BYTES):
                    before = len(report.documents)

                    def sent(count: int, _: int, before: int = before) -> None:
                        progress.uploaded(before + count, len(items))

                    result = await client.upload(
                        knowledge_base,
                        batch.items,
                        interactive=len(items) <= MAX_STREAM_DOCUMENTS,
                        duplicates=duplicates,
                        on_progress=sent,
                    )
                    report.documents.extend(result.documents)
                    if not result.run:
                        continue
                    if wait:
                        watchers.create_task(follow(result.run))
                    else:
                        report.add_run(await client.runs.get(result.run))
        except ExceptionGroup as group:
            raise first_cause(group) from group
    return report
