"""One task of a build: goes on where the last one has stopped, for about a minute, or to the end."""

import asyncio
from time import monotonic
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from corpusmesh_core.bills import add_bills, with_lost_spending
from corpusmesh_core.errors import InternalError, NotFoundError
from corpusmesh_core.ports.builds import BuildRow
from corpusmesh_core.ports.index import RecordSelection
from corpusmesh_core.ports.work import BuildChange, StageOutcome
from corpusmesh_core.records import Ordinal
from corpusmesh_core.tenancy.publishing import dump_bitmap
from corpusmesh_core.trees.figures import is_update
from corpusmesh_core.trees.keys import tree_fingerprint
from corpusmesh_core.trees.reuse import OldNodes, left_out, plan_layer
from corpusmesh_core.trees.settings import TreeScope, TreeSettings
from corpusmesh_core.trees.skeleton import Skeleton, SkeletonLayer
from corpusmesh_core.trees.telling import (
    TreeProgress,
    figures_values,
    progress_of,
    progress_values,
)
from corpusmesh_core.trees.values import TreeCost
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.dataset.drafts import Draft, pack_draft, unpack_draft
from corpusmesh_raptor.dataset.finishing import (
    binding,
    describe,
    finished,
    leave_out,
)
from corpusmesh_raptor.dataset.ground import Ground, TreeReader
from corpusmesh_raptor.dataset.layers import LayerCutter
from corpusmesh_raptor.dataset.nodes import LayerView, NodeMaker
from corpusmesh_raptor.dataset.planting import Names, Planter
from corpusmesh_raptor.metrics import count_nodes
from corpusmesh_raptor.skeletons import SKELETON, read_skeleton, write_skeleton
from corpusmesh_raptor.stores import RaptorStores, RaptorTools
from corpusmesh_raptor.summarizing import Summarizer
from corpusmesh_runtime.build_keys import build_key
from corpusmesh_runtime.text_vectors import TextVectors
from corpusmesh_runtime.worker import TaskContext

FULL: Final = "full"
FRESH: Final = "fresh"
DRAFT: Final = "draft"
FORMER: Final = "former"
"""Payload of a task: whether the whole is built anew; without a look at the tree before; where the draft of the slice
before lies, and that of the slice before that one, which nobody reads any more."""
RECORDS_MISSING: Final = frozenset({"TREE_RECORDS_MISSING", "TREE_RECORDS_INCOMPLETE"})
_MAX_DRAFT_BYTES: Final = 1 << 30


class TreeBuilder:
    """Builds the tree of one knowledge base; made for one task."""

    def __init__(
        self,
        settings: RaptorSettings,
        stores: RaptorStores,
        tools: RaptorTools,
        summarizer: Summarizer,
        context: TaskContext,
        build: BuildRow,
        tree_settings: TreeSettings,
    ) -> None:
        """Create it.

        Args:
            settings: Bounds.
            stores: What trees stand on.
            tools: What clusters softly.
            summarizer: Makes summaries.
            context: The task.
            build: The build.
            tree_settings: How the tree is made.
        """
        self._settings = settings
        self._stores = stores
        self._tools = tools
        self._summarizer = summarizer
        self._context = context
        self._row = build
        self._tree_settings = tree_settings
        self._began = monotonic()
        self._cost = TreeCost()
        self._old: Skeleton | None = None

    async def work(self) -> StageOutcome:
        """Go on with the build.

        Returns:
            What is published; or that another task shall go on.

        Raises:
            InternalError: TREE_RECORDS_INCOMPLETE if the index does not hold all nodes.
            FailedPreconditionError: TREE_TOO_LARGE if there are too many leaves.
        """
        payload = self._context.claim.payload
        try:
            draft = await self._read_draft(payload.get(DRAFT, ""))
            if former := payload.get(FORMER):
                # Megabytes each, and a long build has hundreds of slices: the sweep at its end would come late.
                await self._stores.objects.delete(former)
            told = progress_of(self._row.progress).cost
            spent = with_lost_spending(draft.cost if draft is not None else TreeCost(), told)
            # What an attempt was charged after it told its cost for the last time, only the ledger knows.
            claim = self._context.claim
            charged = await self._summarizer.spent(claim.tenant_id, claim.run_id, self._tree_settings)
            spent = with_lost_spending(spent, charged)
            self._session = self._summarizer.open(
                tenant_id=claim.tenant_id,
                run_id=claim.run_id,
                settings=self._tree_settings,
                cost=self._cost,
                spent=binding(spent, self._tree_settings),
            )
            if draft is None or not self._is_current(draft.skeleton):
                begun = await self._begin(is_full=bool(payload.get(FULL)), is_fresh=bool(payload.get(FRESH)))
                begun[0].cost = with_lost_spending(TreeCost(), spent)
            else:
                begun = await self._go_on(draft, is_fresh=bool(payload.get(FRESH)))
                begun[0].cost = spent
            return await self._build(*begun)
        except InternalError as error:
            if error.reason not in RECORDS_MISSING or self._old is None:
                raise
            # What the tree before has left is not what it says. Without it nothing of it can be wrong.
            return StageOutcome(goes_on=True, payload={FULL: "1", FRESH: "1"})

    async def _begin(self, *, is_full: bool, is_fresh: bool) -> tuple[Draft, LayerView]:
        claim = self._context.claim
        state = await self._stores.trees.published(claim.tenant_id, claim.knowledge_base_id)
        names = Names(state.space_id, tree_fingerprint(self._tree_settings).hex(), self._session.fingerprint)
        old = None if is_fresh else await self._read_old(names.space_id)
        self._old = old
        planter = Planter(self._stores, self._context, names, max_leaf_count=self._settings.max_leaf_count)
        planted = None
        if old is not None and not is_full and self._is_current(old) and old.layers:
            planted = await planter.plant_changes(old, state.versions)
            if not is_update(old.changed_leaf_count + planted.changed_count, planted.skeleton.leaf_count):
                planted = None
        is_full = planted is None
        if planted is None:
            planted = await planter.plant_all(state.versions)
        draft = Draft(
            skeleton=planted.skeleton,
            snapshot_id=state.snapshot_id,
            is_full=is_full,
            dimension=planted.ground.vectors.shape[1],
            moved=planted.moved,
            changed_count=planted.changed_count,
        )
        self._cost.leaf_count = planted.skeleton.leaf_count
        return draft, await asyncio.to_thread(LayerView.of_leaves, planted.skeleton, planted.ground)

    async def _go_on(self, draft: Draft, *, is_fresh: bool) -> tuple[Draft, LayerView]:
        self._old = None if is_fresh else await self._read_old(draft.skeleton.space_id)
        await self._reader(draft.skeleton).refresh()
        leaves = Ground(draft.skeleton.leaf_count, draft.dimension)
        view = await asyncio.to_thread(LayerView.of_leaves, draft.skeleton, leaves)
        for layer in draft.skeleton.layers:
            view = await asyncio.to_thread(view.next_layer, layer)
        return draft, view

    async def _build(self, draft: Draft, view: LayerView) -> StageOutcome:
        reader = self._reader(draft.skeleton)
        maker = NodeMaker(
            self._context,
            self._stores.index,
            reader,
            self._session,
            TextVectors(self._stores.embedder, draft.skeleton.space_id),
            old=self._old,
        )
        cutter = LayerCutter(
            self._context,
            reader,
            self._tree_settings,
            self._tools.clusterer,
            max_mixture_nodes=self._settings.max_mixture_leaf_count,
            old=self._old,
        )
        old_nodes: OldNodes | None = None
        while True:
            if not await self._make_nodes(draft, view, maker):
                return await self._pause(draft)
            if old_nodes is None:
                old_nodes = await asyncio.to_thread(OldNodes, self._old)
            layer = await self._plan(draft, view, cutter, old_nodes)
            if layer is None:
                return await self._finish(draft, reader)
            view = await asyncio.to_thread(view.next_layer, layer)

    async def _make_nodes(self, draft: Draft, view: LayerView, maker: NodeMaker) -> bool:
        """Make the nodes of the last layer; False if the time of a task is over before."""
        wanted = draft.wanted
        if draft.made_count < len(wanted):
            await self._tell(draft, len(wanted))
        while draft.made_count < len(wanted):
            places = wanted[draft.made_count : draft.made_count + self._settings.slice_nodes]
            # What is written less than a purge's second look after its document was deleted, that look removes.
            gone = await self._gone_leaves(draft.skeleton)
            if gone.any():
                leave_out(draft.skeleton.layers[-1], view.above_rows, gone)
                view.ground.ignore(view.rows, gone)
            nodes = [int(node) for node in places if draft.skeleton.layers[-1].ordinals[node]]
            if nodes:
                await maker.make(draft, view, nodes, self._cost)
            draft.made_count += len(places)
            await self._tell(draft, len(wanted))
            self._context.reach("after_index")
            if draft.made_count < len(wanted) and monotonic() - self._began > self._settings.slice_seconds:
                return False
        return True

    async def _plan(
        self, draft: Draft, view: LayerView, cutter: LayerCutter, old_nodes: OldNodes
    ) -> SkeletonLayer | None:
        """Add the next layer to a draft; None where the tree is done."""
        skeleton = draft.skeleton
        gone = await self._gone_leaves(skeleton)
        if gone.any():
            view.above.ignore(view.above_rows, gone)
            if skeleton.layers:
                leave_out(skeleton.layers[-1], view.above_rows, gone)
        cut = await cutter.cut(draft, view.above)
        if cut is None:
            return None
        dropped = await asyncio.to_thread(left_out, skeleton, cut.clusters, view.above_rows, gone)
        if dropped.all():
            return None
        plan = await asyncio.to_thread(
            plan_layer,
            skeleton,
            cut.clusters,
            cut.cosines,
            cut.threshold,
            old_nodes,
            fresh=draft.fresh if skeleton.layers else np.zeros(len(view.above), dtype=bool),
            dropped=dropped,
        )
        wanted = plan.wanted
        if len(wanted):
            slot = plan.slot(draft.snapshot_id, len(skeleton.layers) + 1)
            first = await self._stores.trees.reserve(self._context.claim, slot, len(wanted))
            plan.layer.ordinals[wanted] = np.arange(first, first + len(wanted), dtype=np.int32)
        draft.skeleton = skeleton.with_layer(plan.layer)
        draft.origins, draft.old_places, draft.dropped = plan.origins, plan.old_places, plan.dropped
        draft.fresh = np.zeros(len(plan.layer), dtype=bool)
        draft.moved = cut.moved
        draft.made_count = 0
        made_count = int((~plan.dropped).sum())
        self._cost.layer_node_counts.append(made_count)
        self._cost.reused_node_count += made_count - len(wanted)
        return plan.layer

    async def _pause(self, draft: Draft) -> StageOutcome:
        claim = self._context.claim
        self._settle_time()
        draft.cost = add_bills(draft.cost, self._cost)
        key = build_key(self._row, claim.run_id, f"{claim.task_id}.{DRAFT}")
        content = await asyncio.to_thread(pack_draft, draft)
        await self._stores.objects.put(key, content, timeout_seconds=self._context.remaining_seconds())
        self._context.reach("after_artefact")
        former = claim.payload.get(DRAFT, "")
        return StageOutcome(goes_on=True, payload={**claim.payload, DRAFT: key, FORMER: former})

    async def _finish(self, draft: Draft, reader: TreeReader) -> StageOutcome:
        claim = self._context.claim
        gone = await self._gone_leaves(draft.skeleton)
        skeleton = finished(draft, self._old, gone)
        nodes = BitMap(skeleton.ordinals.tolist())
        await self._check(skeleton, nodes, reader)
        self._settle_time()
        bill = add_bills(draft.cost, self._cost)
        figures = await asyncio.to_thread(describe, skeleton, self._tree_settings, bill)
        key = await write_skeleton(
            self._stores.objects,
            self._row,
            claim.run_id,
            skeleton,
            timeout_seconds=self._context.remaining_seconds(),
        )
        self._context.reach("after_artefact")
        living = set(skeleton.versions.tolist()) - set(skeleton.versions[np.unique(skeleton.owners[gone])].tolist())
        return StageOutcome(
            build=BuildChange(
                build_id=self._row.build_id,
                nodes=dump_bitmap(nodes),
                sources=dump_bitmap(BitMap(living)),
                snapshot_id=draft.snapshot_id,
                artefacts={SKELETON: key},
                figures=figures_values(figures),
            )
        )

    async def _check(self, skeleton: Skeleton, nodes: BitMap, reader: TreeReader) -> None:
        """See to it that the index holds every node."""
        if not nodes:
            return
        await reader.refresh()
        held = await self._stores.index.count(
            self._context.claim.tenant_id,
            skeleton.space_id,
            RecordSelection(publishers=[Ordinal(ordinal) for ordinal in nodes]),
            timeout_seconds=self._context.remaining_seconds(),
        )
        if held != len(nodes):
            raise InternalError(
                "TREE_RECORDS_INCOMPLETE", "the index does not hold all nodes", expected=len(nodes), found=held
            )

    async def _gone_leaves(self, skeleton: Skeleton) -> NDArray[np.bool_]:
        """Tell which leaves are of versions that were deleted since the build began."""
        removed = await self._stores.trees.removed(self._context.claim, skeleton.versions.tolist())
        if not removed:
            return np.zeros(skeleton.leaf_count, dtype=bool)
        found: NDArray[np.bool_] = np.isin(skeleton.versions, sorted(removed))[skeleton.owners]
        return found

    async def _tell(self, draft: Draft, wanted_count: int) -> None:
        layer = draft.skeleton.layers[-1]
        ready = len(layer) - wanted_count + draft.made_count
        progress = TreeProgress(len(draft.skeleton.layers), len(layer), ready, add_bills(draft.cost, self._cost))
        await self._stores.trees.tell_progress(self._context.claim, progress_values(progress))

    def _settle_time(self) -> None:
        self._cost.duration_seconds = monotonic() - self._began
        count_nodes(TreeScope.DATASET, self._cost)

    def _reader(self, skeleton: Skeleton) -> TreeReader:
        return TreeReader(self._stores.index, self._context, skeleton.space_id)

    def _is_current(self, skeleton: Skeleton) -> bool:
        """Tell whether a tree was made under the settings of now."""
        settings = tree_fingerprint(self._tree_settings).hex()
        return skeleton.grouping == settings and skeleton.fingerprint == self._session.fingerprint

    async def _read_draft(self, key: str) -> Draft | None:
        if not key:
            return None
        content = await self._stores.objects.get(
            key, max_byte_count=_MAX_DRAFT_BYTES, timeout_seconds=self._context.remaining_seconds()
        )
        return await asyncio.to_thread(unpack_draft, content)

    async def _read_old(self, space_id: str) -> Skeleton | None:
        try:
            old = await read_skeleton(
                self._stores.objects, self._row, timeout_seconds=self._context.remaining_seconds()
            )
        except NotFoundError:
            return None
        # Vectors of another space cannot be taken over.
        return old if old is not None and old.space_id == space_id else None
