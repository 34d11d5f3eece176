"""Stage that settles what the nodes of trees are worth: hits, ways to chunks, or nothing new."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from corpusmesh_core.ports.index import Candidate, Candidates
from corpusmesh_core.query import TreeMode
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.records import RecordKind
from corpusmesh_core.tree_search import (
    CollapseSettings,
    NodeOutcome,
    TreeStep,
    best_leaves,
    best_of_layer,
    descend,
    is_node,
    lead_by,
    lift_leaves,
    on_scale_of_leaves,
    orphans,
    path_of,
    settle_nodes,
)
from corpusmesh_retrieve.ordering import rank_found
from corpusmesh_retrieve.outcome import SearchOutcome, SpaceView, StageState
from corpusmesh_retrieve.recalling import Recaller
from corpusmesh_retrieve.stages import StageResult, counted
from corpusmesh_retrieve.trees.requests import NODE_KINDS, searches_trees
from corpusmesh_runtime.context import CallContext

_MAX_ROUNDS = 16
"""Round trips on the way down; a layer whose nodes are known already takes none."""
_CHUNK_KINDS = (RecordKind.CHUNK,)


class TreeStage:
    """Lets trees take part as the plan says; the first stage after scoring."""

    name = "tree"

    def __init__(self, recaller: Recaller, settings: CollapseSettings | None = None) -> None:
        """Create the stage.

        Args:
            recaller: Scores nodes and chunks by id.
            settings: How nodes and leaves share a result.
        """
        self._recaller = recaller
        self._settings = settings or CollapseSettings()

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return searches_trees(outcome.plan) and any(view.has_tree for view in outcome.views)

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """Settle the nodes; see `Stage`."""
        if not any(map(is_node, outcome.ranked)):
            return StageResult(StageState.SKIPPED, detail="no summary that you may see fits the question")
        if outcome.plan.tree.mode is TreeMode.TRAVERSAL:
            return await self._traverse(call, outcome)
        if outcome.plan.tree.mode is TreeMode.HIERARCHICAL:
            return await self._enter(call, outcome)
        return self._collapse(outcome)

    def _collapse(self, outcome: SearchOutcome) -> StageResult:
        lifted = lift_leaves(outcome.ranked, outcome.plan.ranking_options(), self._settings)
        outcome.ranked, steps = settle_nodes(lifted, self._settings)
        outcome.tree_path.extend(steps)
        kept = sum(step.outcome is NodeOutcome.KEPT for step in steps)
        names = {step.record_id for step in steps}
        count = sum(not names.isdisjoint(item.via_record_ids) for item in outcome.kept)
        return StageResult(detail=f"{kept} of {_summaries(len(steps))} kept; {counted(count, 'chunk')} lifted")

    async def _enter(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """Enter the best summaries of the layer above the chunks, and take the best chunks within each."""
        plan = outcome.plan.tree
        entered = best_of_layer(outcome.ranked, layer=1, count=plan.summaries)
        await self._score(call, outcome, [name for node in entered for name in node.candidate.record.links])
        within = best_leaves(outcome.ranked, entered, per_node=plan.chunks_per_summary)
        taken = {name for names in within for name in names}
        led_to = dict(zip((node.candidate.record.record_id for node in entered), within, strict=True))
        nodes = [item for item in outcome.kept if is_node(item)]
        outcome.tree_path.extend(
            TreeStep(
                record.record_id,
                record.layer,
                item.similarity,
                NodeOutcome.FOLLOWED if record.record_id in led_to else NodeOutcome.DROPPED,
                led_to.get(record.record_id, ()),
            )
            for item in nodes
            for record in [item.candidate.record]
        )
        self._prefer(outcome, taken)
        return StageResult(detail=f"{_summaries(len(entered))} entered: {counted(len(taken), 'chunk')}")

    async def _traverse(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """Follow the best nodes of each layer from the top down, and take the chunks beneath the last."""
        alone = [name for node in orphans(_nodes(outcome)) for name in node.candidate.record.links[:1]]
        if alone:
            # What stands above them was not among the best of its layer, may not be seen, or is not there.
            await self._score(call, outcome, alone, above=True)
        width = outcome.plan.tree.nodes_per_layer
        absent: set[str] = set()
        descent = descend(_nodes(outcome), width=width)
        for _ in range(_MAX_ROUNDS):
            if not descent.missing:
                break
            await self._score(call, outcome, descent.missing, are_nodes=True)
            known = {item.candidate.record.record_id for item in _nodes(outcome)}
            absent.update(name for name in descent.missing if name not in known)
            descent = descend(_nodes(outcome), width=width, absent=absent)
        await self._score(call, outcome, [name for node in descent.last for name in node.candidate.record.links])
        taken = {name for names in best_leaves(outcome.ranked, descent.last) for name in names}
        shown = {item.candidate.record.record_id for item in outcome.ranked}
        outcome.tree_path.extend(path_of(descent, shown))
        self._prefer(outcome, taken)
        layers = len({item.candidate.record.layer for item in descent.followed})
        followed = _summaries(len(descent.followed))
        return StageResult(detail=f"{followed} followed on {counted(layers, 'layer')}: {counted(len(taken), 'chunk')}")

    def _prefer(self, outcome: SearchOutcome, taken: Collection[str]) -> None:
        options = outcome.plan.ranking_options()
        outcome.ranked = lead_by(lift_leaves(outcome.ranked, options, self._settings), taken, options)

    async def _score(
        self,
        call: CallContext,
        outcome: SearchOutcome,
        record_ids: Sequence[str],
        *,
        are_nodes: bool = False,
        above: bool = False,
    ) -> None:
        """Score records that are no candidates yet, and put everything in order again.

        Args:
            call: The call.
            outcome: Gets the candidates and the order.
            record_ids: Their ids.
            are_nodes: Whether they are nodes, not chunks.
            above: Whether the nodes that stand on these chunks are meant.
        """
        known = {item.candidate.record.record_id for item in outcome.ranked}
        wanted = [name for name in record_ids if above or name not in known]
        if not wanted:
            return
        kinds = NODE_KINDS if are_nodes or above else _CHUNK_KINDS
        for place, view in _tree_views(outcome):
            found = await self._recaller.score(call, outcome, view, wanted, kinds=kinds, as_links=above)
            new = tuple(
                on_scale_of_leaves(item) if item.record.kind is RecordKind.TREE_NODE else item
                for item in found.items
                if item.record.record_id not in known
            )
            if new:
                outcome.found[place] = _with(outcome.found[place], new)
        outcome.ranked = await rank_found(outcome)


def _with(found: list[Candidates], new: tuple[Candidate, ...]) -> list[Candidates]:
    return [replace(found[0], items=(*found[0].items, *new)), *found[1:]]


def _tree_views(outcome: SearchOutcome) -> list[tuple[int, SpaceView]]:
    return [(place, view) for place, view in enumerate(outcome.views) if view.has_tree and outcome.found[place]]


def _nodes(outcome: SearchOutcome) -> list[RankedCandidate]:
    return [item for item in outcome.ranked if is_node(item)]


def _summaries(count: int) -> str:
    return "1 summary" if count == 1 else f"{count} summaries"
