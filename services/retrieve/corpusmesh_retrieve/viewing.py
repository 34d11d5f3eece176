"""What a search may see: asked once at its beginning, and again where conditions are read out of the question."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from pyroaring import BitMap

from corpusmesh_core.ports.builds import DATASET_GRAPH, DATASET_TREE
from corpusmesh_core.tenancy import Identity, MetadataFilter, VisibilityInputs, visibility_of
from corpusmesh_core.tenancy.publishing import load_bitmap
from corpusmesh_core.tenancy.visibility import build_bitmap
from corpusmesh_core.trees.settings import TREE, TreeScope
from corpusmesh_retrieve.outcome import SearchOutcome, SpaceView
from corpusmesh_runtime.context import CallContext

Look = Callable[[CallContext, SearchOutcome], Awaitable[None]]
"""Finds out what a search may see."""


class SnapshotReader(Protocol):
    """What a search needs of a `SnapshotStore`."""

    async def visibility_inputs(
        self,
        identity: Identity,
        knowledge_base_id: str,
        *,
        snapshot_id: int | None = None,
        metadata_filter: MetadataFilter | None = None,
    ) -> VisibilityInputs:
        """See `SnapshotStore`."""
        ...


class Viewer:
    """Asks the metadata store what a search may see."""

    def __init__(self, snapshots: SnapshotReader) -> None:
        """Create it.

        Args:
            snapshots: Tells what the caller may see.
        """
        self._snapshots = snapshots

    async def look(self, call: CallContext, outcome: SearchOutcome) -> None:
        """Find out what the request may see; once looked at, a knowledge base stays at its snapshot.

        Args:
            call: The call.
            outcome: Gets inputs, snapshots and views; conditions that were read out of the question narrow them.

        Raises:
            NotFoundError: If a knowledge base or snapshot is unknown to the caller.
        """
        request = outcome.request
        metadata = request.metadata
        if outcome.inferred:
            metadata = replace(metadata, conditions=(*metadata.conditions, *outcome.inferred))
        inputs = await self.inputs_of(
            call, request.knowledge_base_ids, metadata, snapshots={**request.snapshots, **outcome.snapshots}
        )
        outcome.inputs = tuple(inputs)
        outcome.snapshots = {item.knowledge_base_id: item.snapshot_id for item in inputs}
        outcome.views = views_of(inputs)

    async def inputs_of(
        self,
        call: CallContext,
        knowledge_base_ids: Sequence[str],
        metadata: MetadataFilter,
        *,
        snapshots: dict[str, int],
    ) -> list[VisibilityInputs]:
        """Ask for some knowledge bases at once.

        Args:
            call: The call.
            knowledge_base_ids: Knowledge bases.
            metadata: Conditions on documents.
            snapshots: Snapshot by knowledge base, where another than the current one is wanted.

        Returns:
            What the store knows of each, in their order.

        Raises:
            NotFoundError: If a knowledge base or snapshot is unknown to the caller.
        """
        return await asyncio.gather(
            *(
                self._snapshots.visibility_inputs(
                    call.identity,
                    identifier,
                    snapshot_id=snapshots.get(identifier),
                    metadata_filter=None if metadata.is_empty else metadata,
                )
                for identifier in knowledge_base_ids
            )
        )


def views_of(inputs: Sequence[VisibilityInputs]) -> tuple[SpaceView, ...]:
    """Put knowledge bases of one embedding space together.

    Args:
        inputs: What the store knows of each.

    Returns:
        One view for each space.
    """
    spaces: dict[str, list[VisibilityInputs]] = {}
    for item in inputs:
        spaces.setdefault(item.space_id, []).append(item)
    return tuple(_view_of(space_id, items) for space_id, items in spaces.items())


def _view_of(space_id: str, items: Sequence[VisibilityInputs]) -> SpaceView:
    visibility = visibility_of(items)
    visible = BitMap(visibility.ordinals)
    build_count = sum(
        load_bitmap(ordinals).intersection_cardinality(visible) for item in items for ordinals in item.builds
    )
    return SpaceView(
        space_id,
        tuple(item.knowledge_base_id for item in items),
        visibility,
        has_tree=any(_has_file_trees(item.config) or _sees(item, DATASET_TREE, visible) for item in items),
        build_count=build_count,
        graph_knowledge_base_ids=tuple(item.knowledge_base_id for item in items if _sees(item, DATASET_GRAPH, visible)),
    )


def _sees(item: VisibilityInputs, kind: str, visible: BitMap) -> bool:
    return bool(build_bitmap(item, kind).intersect(visible))


def _has_file_trees(config: Mapping[str, object]) -> bool:
    section = config.get(TREE)
    return isinstance(section, Mapping) and section.get("scope") == TreeScope.FILE.value
