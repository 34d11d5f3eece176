"""What a caller may see of a build: one snapshot, and whether figures about all of it are shown."""

from dataclasses import dataclass

from pyroaring import BitMap

from corpusmesh_core.ports.builds import BuildRow, BuildState, BuildStore
from corpusmesh_core.ports.metadata import SnapshotStore
from corpusmesh_core.records import RecordKind
from corpusmesh_core.tenancy import (
    Access,
    Identity,
    VisibilityInputs,
    load_bitmap,
    may_access,
    permitted_bitmap,
    visibility_of,
)
from corpusmesh_core.visibility import Visibility, VisibilityFilter, build_filter
from corpusmesh_runtime.context import require_call


@dataclass(frozen=True, slots=True)
class BuildView:
    """A knowledge base as one caller sees it at one moment.

    Attributes:
        inputs: What the store knows of the caller's rights and of the snapshot.
        row: The build of its tree or graph; None where it has none.
        may_write: Whether the caller may write to it.
        is_restricted: Whether something is hidden from the caller that the build covers, or may cover.
    """

    inputs: VisibilityInputs
    row: BuildRow | None
    may_write: bool
    is_restricted: bool

    @property
    def shows_figures(self) -> bool:
        """Whether the caller is told what counts hidden documents too: cost, staleness, runs, failures."""
        return self.may_write and not self.is_restricted

    @property
    def versions(self) -> BitMap:
        """Published versions of documents that the caller may see, without builds."""
        return permitted_bitmap(self.inputs) - _builds(self.inputs)

    @property
    def is_outdated(self) -> bool:
        """Whether documents were published or removed since the build was published."""
        if self.row is None or self.row.state is not BuildState.READY:
            return False
        return load_bitmap(self.inputs.published) - _builds(self.inputs) != load_bitmap(self.row.sources)

    @property
    def visibility(self) -> Visibility:
        """What every query of the request may see, under the one snapshot of this view."""
        return visibility_of([self.inputs])

    def filter_of(self, *kinds: RecordKind) -> VisibilityFilter:
        """Make the filter of a query.

        Args:
            *kinds: Kinds that it asks for.

        Returns:
            The filter, under the one snapshot of this view.
        """
        return build_filter(self.visibility, kinds)


class BuildViewer:
    """Finds out what callers may see."""

    def __init__(self, snapshots: SnapshotStore, builds: BuildStore) -> None:
        """Create it.

        Args:
            snapshots: What is published, and what is hidden from whom.
            builds: Builds of one kind.
        """
        self._snapshots = snapshots
        self._builds = builds

    async def look(self, knowledge_base_id: str, *, snapshot_id: int | None = None) -> BuildView:
        """Look at a knowledge base with the eyes of the caller.

        Args:
            knowledge_base_id: Knowledge base.
            snapshot_id: An earlier snapshot; None for the current one.

        Returns:
            The view.

        Raises:
            NotFoundError: If the knowledge base or the snapshot is unknown or forbidden.
        """
        identity = require_call().identity
        # The row first: what is hidden by now is at least as new as what the row counts.
        row = await self._builds.get(identity, knowledge_base_id)
        inputs = await self._snapshots.visibility_inputs(identity, knowledge_base_id, snapshot_id=snapshot_id)
        return BuildView(inputs, row, _may_write(identity, inputs), _is_restricted(inputs, row))


def _may_write(identity: Identity, inputs: VisibilityInputs) -> bool:
    return may_access(identity, inputs.owner_user_id, inputs.permission, Access.WRITE)


def _is_restricted(inputs: VisibilityInputs, row: BuildRow | None) -> bool:
    hidden = BitMap(inputs.hidden)
    if not hidden:
        return False
    if row is not None and row.is_building:
        # What it is being built from is not known here, and may be withdrawn already.
        return True
    covered = load_bitmap(inputs.published) | load_bitmap(row.sources if row is not None else b"")
    return bool(hidden & covered)


def _builds(inputs: VisibilityInputs) -> BitMap:
    return BitMap().union(*map(load_bitmap, (*inputs.builds, *inputs.gone_builds)))
