"""From what was found in documents to one graph: segments, names that are one entity, what people have corrected."""

import asyncio
import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from corpusmesh_core.errors import InternalError, InvalidArgumentError
from corpusmesh_core.graphs.blocking import NameIndex, pack_index, unpack_index
from corpusmesh_core.graphs.corrections import Corrections, pack_corrections
from corpusmesh_core.graphs.fingerprints import linking_of
from corpusmesh_core.graphs.name_rules import SimilarityRule
from corpusmesh_core.graphs.resolution import (
    Pair,
    ResolvedPair,
    confirm_by_model,
    confirm_by_vectors,
    judge,
    pack_pairs,
    pairs_that_hold,
    unpack_pairs,
)
from corpusmesh_core.graphs.segments import Segment, merge_segments
from corpusmesh_core.graphs.settings import Resolution
from corpusmesh_graph.building.before import (
    CORRECTIONS,
    NAMES,
    RESOLUTION,
    SEGMENT,
    GraphBefore,
    read_segments,
    segment_keys,
)
from corpusmesh_graph.building.drafts import GONE
from corpusmesh_graph.building.scope import BuildScope
from corpusmesh_graph.building.shelf import SegmentShelf
from corpusmesh_graph.building.union import GraphUnion, keys_of, shown_by
from corpusmesh_graph.models import GraphSession

_MERGED_UP_TO = 2
"""A segment that has at most so many times as many documents as what is new is merged with it."""


@dataclass(frozen=True, slots=True)
class Linked:
    """The graph that is being published.

    Attributes:
        segments: Its segments by object.
        shown: Versions and publishers of its documents.
        union: Its names.
        changed: Keys of names that documents were added to or taken from, ascending.
        pairs: Names that are one entity.
        corrections: What people have corrected.
    """

    segments: Mapping[str, Segment]
    shown: BitMap
    union: GraphUnion
    changed: NDArray[np.uint64]
    pairs: tuple[ResolvedPair, ...]
    corrections: Corrections


class Linker:
    """Puts the graph together."""

    def __init__(self, scope: BuildScope, session: GraphSession, before: GraphBefore, shelf: SegmentShelf) -> None:
        """Create it.

        Args:
            scope: The build's task.
            session: What the language model may be asked.
            before: The graph before.
            shelf: What reads segments.
        """
        self._scope = scope
        self._session = session
        self._before = before
        self._shelf = shelf

    async def link(self) -> Linked:
        """Put the graph together, or read what an earlier slice has put together.

        Returns:
            The graph.
        """
        draft = self._scope.draft
        await self.leave_out()
        if not segment_keys(draft.artefacts) and (draft.parts or self._before.segments):
            await self._assemble()
        segments = await read_segments(self._scope, self._shelf, segment_keys(draft.artefacts))
        shown = shown_by(draft, self._publishers(draft.kept))
        union = await asyncio.to_thread(GraphUnion.of, list(segments.values()), shown)
        changed = await asyncio.to_thread(self._changed, union, segments)
        corrections = await self._corrected()
        pairs = await self._resolved(union, changed)
        return Linked(segments, shown, union, changed, pairs, corrections)

    async def leave_out(self) -> bool:
        """Leave out what was deleted since it was read or made; tell whether there was any.

        Returns:
            Whether segments have to be put together again.
        """
        draft = self._scope.draft
        wanted = draft.wanted
        versions = [*draft.kept.tolist(), *wanted.versions[wanted.made].tolist()]
        removed = sorted(await self._scope.stores.builds.removed(self._scope.context.claim, versions))
        if not removed:
            return False
        draft.kept = draft.kept[~np.isin(draft.kept, removed)]
        wanted.record_counts[np.isin(wanted.versions, removed)] = GONE
        draft.artefacts.clear()
        return True

    def _publishers(self, versions: NDArray[np.int32]) -> NDArray[np.int32]:
        ledger = self._before.ledger
        return ledger.publishers[np.searchsorted(ledger.versions, versions)]

    async def _assemble(self) -> None:
        """Write one segment of what is new, of small segments, and of those that hold what must go."""
        draft = self._scope.draft
        parts = await read_segments(self._scope, self._shelf, draft.parts)
        if len(parts) < len(draft.parts):
            raise InternalError("GRAPH_PARTS_MISSING", "what an earlier slice of the build wrote is gone")
        dead, purged = await self._dead()
        kept: list[str] = []
        merged: list[Segment] = []
        count = int(draft.wanted.made.sum())
        is_small = True
        for key, segment in reversed(self._before.segments.items()):
            is_dead = np.isin(segment.document_publisher, dead)
            living_count = int((~is_dead).sum())
            is_small = is_small and living_count <= _MERGED_UP_TO * count
            must_go = bool(np.isin(segment.document_version, purged).any()) or 2 * living_count < len(is_dead)
            if is_small or must_go:
                merged.append(segment)
                count += living_count
            else:
                kept.append(key)
        kept.reverse()
        gone = draft.wanted.ordinals[~draft.wanted.made]
        if parts or merged:
            content = await asyncio.to_thread(_merged, [*merged, *parts.values()], np.concatenate([dead, gone]))
            if content:
                kept.append(await self._put("segment", content))
        draft.artefacts |= {f"{SEGMENT}{number}": key for number, key in enumerate(kept)}

    async def _dead(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Tell which publishers of the segments before nobody can see any more, and which versions were deleted."""
        claim = self._scope.context.claim
        segments = self._before.segments.values()
        versions = np.unique(np.concatenate([np.zeros(0, np.uint32), *(item.document_version for item in segments)]))
        others = versions[~np.isin(versions, self._scope.draft.kept)].tolist()
        purged = np.array(sorted(await self._scope.stores.builds.removed(claim, others)), np.int32)
        left_over = np.array(list(await self._scope.stores.builds.left_over(claim)), np.int32)
        # What this run has reserved is no part of the build yet, and what it is made of.
        dead = [left_over[~np.isin(left_over, self._scope.draft.wanted.ordinals)]]
        dead += [item.document_publisher[np.isin(item.document_version, purged)].astype(np.int32) for item in segments]
        return np.unique(np.concatenate(dead)), purged

    def _changed(self, union: GraphUnion, segments: Mapping[str, Segment]) -> NDArray[np.uint64]:
        draft, ledger = self._scope.draft, self._before.ledger
        lost = ledger.publishers[~np.isin(ledger.versions, draft.kept)]
        added = keys_of(segments.values(), draft.wanted.ordinals[draft.wanted.made])
        changed = np.union1d(added, keys_of(self._before.segments.values(), lost))
        found: NDArray[np.uint64] = changed[np.isin(changed, union.keys)].astype(np.uint64)
        return found

    async def _corrected(self) -> Corrections:
        claim = self._scope.context.claim
        items = tuple(await self._scope.stores.corrections.corrections_of(claim.tenant_id, claim.knowledge_base_id))
        found = Corrections(items)
        if found.document_ids:
            versions = await self._scope.stores.builds.versions_of(
                claim.tenant_id, claim.knowledge_base_id, found.document_ids
            )
            found = Corrections(items, versions)
        if items:
            content = await asyncio.to_thread(pack_corrections, found)
            self._scope.draft.artefacts[CORRECTIONS] = await self._put("corrections", content)
        else:
            self._scope.draft.artefacts.pop(CORRECTIONS, None)
        return found

    async def _resolved(self, union: GraphUnion, changed: NDArray[np.uint64]) -> tuple[ResolvedPair, ...]:
        scope, draft = self._scope, self._scope.draft
        if scope.graph.resolution is Resolution.OFF:
            return ()
        if RESOLUTION in draft.artefacts:
            return await asyncio.to_thread(unpack_pairs, await scope.read(draft.artefacts[RESOLUTION]))
        index, previous, new = await self._index(union, changed)
        candidates = await asyncio.to_thread(index.pairs, new)
        touched = set(changed.tolist())
        rest = [pair for pair in previous if pair.a not in touched and pair.b not in touched]
        judged = [pair for pair in previous if pair.a in touched or pair.b in touched]
        keys = {key for pair in candidates for key in pair} | {key for pair in judged for key in (pair.a, pair.b)}
        names = await asyncio.to_thread(union.named, sorted(keys))
        rule = SimilarityRule.SEED if scope.graph.resolution is Resolution.LOOSE else SimilarityRule.STRICT
        held = await asyncio.to_thread(pairs_that_hold, judged, names, rule)
        verdict = await asyncio.to_thread(judge, names, candidates, rule)
        known = {(pair.a, pair.b): pair for pair in (*verdict.same, *rest, *held)}
        doubtful = [pair for pair in verdict.doubtful if pair not in known]
        for pair in await self._confirmed(union, doubtful):
            known[pair.a, pair.b] = pair
        pairs = tuple(sorted(known.values()))
        draft.artefacts[NAMES] = await self._put("names", await asyncio.to_thread(pack_index, index))
        draft.artefacts[RESOLUTION] = await self._put("resolution", await asyncio.to_thread(pack_pairs, pairs))
        return pairs

    async def _index(
        self, union: GraphUnion, changed: NDArray[np.uint64]
    ) -> tuple[NameIndex, Sequence[ResolvedPair], Collection[int] | None]:
        """Give the index of names, pairs before whose names are there, and names that are compared; None for all."""
        scope = self._scope
        old = await self._old_index()
        if old is None:
            return await asyncio.to_thread(lambda: NameIndex.of(union.named(union.keys.tolist()))), (), None
        packed = await scope.find(self._before_artefact(RESOLUTION))
        previous = await asyncio.to_thread(unpack_pairs, packed) if packed is not None else ()
        fresh = union.keys[~np.isin(union.keys, old.keys)]
        index = await asyncio.to_thread(
            lambda: old.limited_to(union.keys).joined(NameIndex.of(union.named(fresh.tolist())))
        )
        a, b = (np.array([getattr(pair, end) for pair in previous], np.uint64) for end in ("a", "b"))
        there = np.isin(a, union.keys) & np.isin(b, union.keys)
        return index, [previous[place] for place in np.flatnonzero(there).tolist()], changed.tolist()

    async def _old_index(self) -> NameIndex | None:
        scope = self._scope
        if self._before.ledger.linking != linking_of(scope.graph, self._session.confirmed_by):
            return None
        packed = await scope.find(self._before_artefact(NAMES)) if self._before_artefact(NAMES) else None
        if packed is None:
            return None
        try:
            return await asyncio.to_thread(unpack_index, packed)
        except InvalidArgumentError:
            return None

    def _before_artefact(self, name: str) -> str:
        return self._scope.row.artefacts.get(name, "")

    async def _confirmed(self, union: GraphUnion, doubtful: Sequence[Pair]) -> tuple[ResolvedPair, ...]:
        """Ask vectors or a language model about names of which the rule is not sure."""
        scope = self._scope
        resolution = scope.graph.resolution
        if not doubtful or resolution in (Resolution.RULE, Resolution.LOOSE):
            return ()
        names = union.named(sorted({key for pair in doubtful for key in pair}))
        remaining = scope.context.remaining_seconds()
        if resolution is Resolution.EMBEDDING:
            texts = sorted({item.name for item in names.values()})
            made = await scope.vectors.embed(texts, scope.bill, timeout_seconds=remaining)
            by_text = dict(zip(texts, made, strict=True))
            return confirm_by_vectors(doubtful, {key: by_text[item.name] for key, item in names.items()})
        asked = [(names[a].name, names[b].name, names[a].type or names[b].type) for a, b in doubtful]
        sources = union.versions_of({key for pair in doubtful for key in pair})
        verdicts = await self._session.confirm(asked, sources, timeout_seconds=remaining / 2)
        return confirm_by_model(doubtful, verdicts)

    async def _put(self, name: str, content: bytes) -> str:
        """Write an object under its own digest: another attempt at it that finds something else writes another."""
        key = self._scope.key(f"{name}-{hashlib.sha256(content).hexdigest()[:32]}")
        await self._scope.put(key, content)
        return key


def _merged(segments: Sequence[Segment], dead: NDArray[np.int32]) -> bytes:
    publishers = np.unique(np.concatenate([segment.document_publisher for segment in segments]))
    keep = BitMap(publishers[~np.isin(publishers, dead)].tolist())
    return merge_segments(segments, keep) if keep else b""
