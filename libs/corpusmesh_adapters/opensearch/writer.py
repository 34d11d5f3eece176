"""Bulk writing: bounded bodies, every item read, only refused items sent again (field report FR-A18)."""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from corpusmesh_adapters.opensearch.documents import to_lines
from corpusmesh_adapters.opensearch.settings import OpenSearchSettings
from corpusmesh_adapters.opensearch.transport import Transport
from corpusmesh_core.errors import (
    ConflictError,
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OverloadedError,
    UnavailableError,
)
from corpusmesh_core.ports.index import WriteResult
from corpusmesh_core.records import Record

_BUSY = frozenset({429, 502, 503, 504})
_LINES_PER_STEP = 256
_MAX_NAMED_IDS = 20


@dataclass(slots=True)
class _Progress:
    """What one write has done so far."""

    written_count: int = 0
    resent_count: int = 0
    request_count: int = 0
    refused: dict[str, str] = field(default_factory=dict)


class BulkWriter:
    """Writes records with their own ids, so that sending one twice is the same as once."""

    def __init__(self, transport: Transport, settings: OpenSearchSettings, rng: np.random.Generator) -> None:
        """Take what it needs.

        Args:
            transport: The way to the cluster.
            settings: Bounds of bodies and attempts.
            rng: Dice for the jitter.
        """
        self._transport = transport
        self._settings = settings
        self._rng = rng

    async def write(self, alias: str, records: Sequence[Record], *, epoch: int, timeout_seconds: float) -> WriteResult:
        """Write records that were checked before.

        Args:
            alias: Alias of the space; an index is never made by writing.
            records: The records; of two with one id the last wins.
            epoch: Fencing token: what was written under a higher one stays.
            timeout_seconds: Deadline of the whole call.

        Returns:
            Counts; every record is written.

        Raises:
            InvalidArgumentError: If the index refused records for good.
            ConflictError: If a later attempt has written one of them.
            OverloadedError: If records stayed refused after all attempts.
            DeadlineExceededError: If the time was over; a later call with the same records is safe.
        """
        progress = _Progress()
        try:
            async with asyncio.timeout(timeout_seconds):
                for start in range(0, len(records), _LINES_PER_STEP):
                    lines = await asyncio.to_thread(to_lines, records[start : start + _LINES_PER_STEP], epoch)
                    for batch in self._batches(lines):
                        await self._write_batch(alias, batch, progress, timeout_seconds)
        except TimeoutError as error:
            raise DeadlineExceededError(
                "INDEX_DEADLINE_EXCEEDED",
                f"writing {len(records)} records took longer than {timeout_seconds:.1f} s",
                timeout_seconds=f"{timeout_seconds:.1f}",
                written=progress.written_count,
            ) from error
        if progress.refused:
            raise OverloadedError(
                "INDEX_RECORDS_REFUSED",
                f"the index refused {len(progress.refused)} of {len(records)} records "
                f"{self._settings.max_attempt_count} times; try again",
                record_ids=" ".join(list(progress.refused)[:_MAX_NAMED_IDS]),
                reasons="; ".join(sorted(set(progress.refused.values()))),
                count=len(progress.refused),
            )
        return WriteResult(progress.written_count, progress.resent_count, progress.request_count)

    def _batches(self, lines: Sequence[tuple[str, bytes]]) -> Iterator[dict[str, bytes]]:
        """Cut lines into bodies within both bounds; a single longer record is sent alone."""
        batch: dict[str, bytes] = {}
        byte_count = 0
        for record_id, line in lines:
            is_full = (
                len(batch) >= self._settings.max_bulk_items
                or byte_count + len(line) > self._settings.max_bulk_bytes
                or record_id in batch
            )
            if batch and is_full:
                yield batch
                batch, byte_count = {}, 0
            batch[record_id] = line
            byte_count += len(line)
        if batch:
            yield batch

    async def _write_batch(
        self, alias: str, batch: dict[str, bytes], progress: _Progress, timeout_seconds: float
    ) -> None:
        waiting = batch
        for attempt in range(1, self._settings.max_attempt_count + 1):
            if attempt > 1:
                progress.resent_count += len(waiting)
                await asyncio.sleep(self._pause_seconds(attempt))
            busy, refused = await self._send(alias, waiting, progress, timeout_seconds)
            if refused:
                raise InvalidArgumentError(
                    "RECORDS_INVALID",
                    f"the index cannot take {len(refused)} records",
                    field="records",
                    record_ids=" ".join(list(refused)[:_MAX_NAMED_IDS]),
                    reasons="; ".join(sorted(set(refused.values()))),
                    count=len(refused),
                )
            if not busy:
                return
            waiting = {record_id: waiting[record_id] for record_id in busy}
        progress.refused.update(busy)

    async def _send(
        self, alias: str, batch: dict[str, bytes], progress: _Progress, timeout_seconds: float
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Send one body; say which ids are to be sent again and which never, each with its reason."""
        progress.request_count += 1
        try:
            response = await self._transport.request(
                "POST",
                f"/{alias}/_bulk",
                body=b"".join(batch.values()),
                params={"require_alias": "true"},
                timeout_seconds=timeout_seconds,
            )
        except (OverloadedError, UnavailableError) as error:
            # The body may have been applied all the same; own ids make the second time harmless.
            return dict.fromkeys(batch, error.reason), {}
        return self._read_items(response, batch, progress)

    def _read_items(
        self, response: dict[str, Any], batch: dict[str, bytes], progress: _Progress
    ) -> tuple[dict[str, str], dict[str, str]]:
        outcomes = deque(item["index"] for item in response["items"])
        if len(outcomes) != len(batch):
            raise InternalError(
                "INDEX_ANSWER_INVALID",
                "the index answered for another number of records than it was sent",
                sent=len(batch),
                answered=len(outcomes),
            )
        busy: dict[str, str] = {}
        refused: dict[str, str] = {}
        for record_id, outcome in zip(batch, outcomes, strict=True):
            status = int(outcome["status"])
            kind = str(outcome.get("error", {}).get("type", ""))
            if status < 300:
                progress.written_count += 1
            elif status in _BUSY:
                busy[record_id] = f"status {status}"
            elif status == 409:
                raise ConflictError("RECORDS_FENCED", "a later attempt has written these records", record_ids=record_id)
            elif status == 404:
                raise NotFoundError("SPACE_NOT_FOUND", "the embedding space does not exist; create it first")
            else:
                refused[record_id] = f"status {status} {kind}"
        return busy, refused

    def _pause_seconds(self, attempt: int) -> float:
        longest = min(
            self._settings.max_retry_delay_seconds, self._settings.retry_delay_seconds * float(2 ** (attempt - 2))
        )
        # Half fixed, half random: never at once, and never all together.
        return longest * (0.5 + 0.5 * float(self._rng.random()))
