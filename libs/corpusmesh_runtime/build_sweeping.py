"""Stages sweep_tree and sweep_graph: nothing stays of what builds wrote and no kept snapshot shows.

A worker that was thought dead may write late. So what is removed at the first look is not forgotten before a second
one, after every lease has run out (rule 8 of `research/reliability.md` 2.3).
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from time import monotonic
from typing import Final

from pyroaring import BitMap

from corpusmesh_core.errors import NotFoundError, UnavailableError
from corpusmesh_core.ports.builds import BuildRow, BuildState, BuildStore
from corpusmesh_core.ports.index import RecordIndex, RecordSelection
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.ports.work import Claim, StageOutcome
from corpusmesh_core.records import Ordinal
from corpusmesh_core.visibility import decode_bitmap, encode_bitmap
from corpusmesh_runtime.build_keys import build_prefix
from corpusmesh_runtime.worker import TaskContext

_BATCH_ORDINALS: Final = 5_000
_SLICE_SECONDS: Final = 45.0
_SEEN: Final = "seen"
_LATE: Final = "late"
"""Payload: what the first look has removed so far; what the second look removes again, and forgets."""


class SweepStage:
    """Removes records and artefacts that no build needs."""

    def __init__(
        self,
        builds: BuildStore,
        objects: ObjectStore,
        index: RecordIndex,
        also_needed: Callable[[Claim, BuildRow, Sequence[str]], Awaitable[Collection[str]]] | None = None,
    ) -> None:
        """Create the stage.

        Args:
            builds: Builds of one kind.
            objects: Artefacts.
            index: The record index.
            also_needed: Tells which of the objects of a build stay besides its artefacts and what runs under way have
                written; None for none.
        """
        self._also_needed = also_needed
        self._builds = builds
        self._objects = objects
        self._index = index

    async def __call__(self, context: TaskContext) -> StageOutcome:
        """Remove what is left of a build.

        Args:
            context: The claim and its time.

        Returns:
            Whether a further look is needed.

        Raises:
            UnavailableError: SWEEP_INCOMPLETE if records are still there: the stage is tried again.
        """
        claim = context.claim
        try:
            build = await self._builds.of_claim(claim)
        except NotFoundError:
            return StageOutcome()
        await self._remove_artefacts(context, build)
        left = BitMap(await self._builds.left_over(claim))
        if _LATE in claim.payload:
            rest = left & BitMap(decode_bitmap(claim.payload[_LATE]))
            is_done = await self._remove(context, rest, forgets=True) == len(rest)
            return StageOutcome() if is_done else StageOutcome(goes_on=True, payload=claim.payload)
        seen = BitMap(decode_bitmap(claim.payload[_SEEN])) if _SEEN in claim.payload else BitMap()
        rest = left - seen
        removed = await self._remove(context, rest, forgets=False)
        seen |= BitMap(list(rest)[:removed])
        context.reach("after_index")
        if removed < len(rest):
            return StageOutcome(goes_on=True, payload={_SEEN: encode_bitmap(seen)})
        if seen or build.state is BuildState.DELETING:
            return StageOutcome(goes_on=True, is_late=True, payload={_LATE: encode_bitmap(seen)})
        return StageOutcome()

    async def _remove(self, context: TaskContext, ordinals: BitMap, *, forgets: bool) -> int:
        """Remove records, for about a minute; tell of how many ordinals."""
        began = monotonic()
        wanted: Sequence[int] = list(ordinals)
        done = 0
        if not wanted and forgets:
            await self._builds.swept(context.claim, ())
        for start in range(0, len(wanted), _BATCH_ORDINALS):
            if start and monotonic() - began > _SLICE_SECONDS:
                break
            batch = [Ordinal(ordinal) for ordinal in wanted[start : start + _BATCH_ORDINALS]]
            tenant_id = context.claim.tenant_id
            await self._index.delete_made_of(tenant_id, batch, timeout_seconds=context.remaining_seconds())
            left = await self._index.count(
                tenant_id, None, RecordSelection(made_of=batch), timeout_seconds=context.remaining_seconds()
            )
            if left:
                raise UnavailableError("SWEEP_INCOMPLETE", "records are still there", record_count=left)
            if forgets:
                await self._builds.swept(context.claim, batch)
            done += len(batch)
        return done

    async def _remove_artefacts(self, context: TaskContext, build: BuildRow) -> None:
        """Remove drafts and artefacts of earlier builds; what a build under way has written stays."""
        prefix = build_prefix(build)
        if build.state is BuildState.DELETING:
            await self._objects.delete_prefix(prefix, timeout_seconds=context.remaining_seconds())
            return
        found = [
            info.key async for info in self._objects.list_prefix(prefix, timeout_seconds=context.remaining_seconds())
        ]
        # Read after the listing: a build that began since is not in it, one that has published since is named.
        living = await self._builds.living_runs(context.claim)
        current = await self._builds.of_claim(context.claim)
        needed = set(current.artefacts.values())
        if self._also_needed is not None:
            needed.update(await self._also_needed(context.claim, current, found))
        for key in found:
            if key not in needed and key[len(prefix) :].partition("/")[0] not in living:
                await self._objects.delete(key)
