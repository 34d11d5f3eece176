"""Communities of a graph, and which of them have changed since their report was written."""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.graphs.communities import (
    Grouping,
    WeightedGraph,
    pack_grouping,
    unpack_grouping,
    update_communities,
)
from corpusmesh_core.graphs.corrections import Corrections, correction_to_plain, pack_corrections
from corpusmesh_core.graphs.fingerprints import digest, reporting_of
from corpusmesh_core.graphs.settings import GraphSettings
from corpusmesh_core.graphs.values import Community
from corpusmesh_core.graphs.view import GraphView
from corpusmesh_core.ports.communities import CommunityFinder
from corpusmesh_graph.building.before import COMMUNITIES, GraphBefore
from corpusmesh_graph.building.scope import BuildScope

_GROUPING_FORMAT = 1
"""Rises where the same graph gives other communities."""
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True, slots=True)
class Marked:
    """A community, and what its report depends on.

    Attributes:
        community: The community.
        places: Places of its members in the view.
        fingerprint: Digest of the documents that speak of its members, and of how reports are made.
    """

    community: Community
    places: NDArray[np.int64]
    fingerprint: bytes


def grouping_of(settings: GraphSettings) -> bytes:
    """Digest what decides the communities of a graph.

    Args:
        settings: How the graph is made.

    Returns:
        The digest.
    """
    return digest(_GROUPING_FORMAT, settings.max_community_size)


async def group(scope: BuildScope, before: GraphBefore, view: GraphView, finder: CommunityFinder) -> Grouping:
    """Bring the communities up to date.

    Args:
        scope: The build's task.
        before: The graph before.
        view: The graph as it is now, wholly visible.
        finder: What finds communities.

    Returns:
        The communities; they are written too.
    """
    previous: Grouping | None = None
    wanted = grouping_of(scope.graph)
    if before.ledger.grouping == wanted and (key := scope.row.artefacts.get(COMMUNITIES)):
        previous = await _read(scope, key)
    ends = view.relation_ends
    graph = WeightedGraph(view.entity_keys, ends[:, 0], ends[:, 1], view.relation_weights)
    grouping = await asyncio.to_thread(
        lambda: update_communities(graph, previous, max_size=scope.graph.max_community_size, finder=finder)
    )
    content = await asyncio.to_thread(pack_grouping, grouping)
    key = scope.key(f"communities-{hashlib.sha256(content).hexdigest()[:32]}")
    await scope.put(key, content)
    scope.draft.artefacts[COMMUNITIES] = key
    return grouping


def mark(
    settings: GraphSettings, model: str, view: GraphView, communities: Sequence[Community], corrections: Corrections
) -> list[Marked]:
    """Digest what the report of each community depends on.

    Two sets of fragments are held to be the same if the sums of their mixed 64 bits are: chance alone decides, and the
    worst of it is a report that is one document behind.

    Args:
        settings: How the graph is made.
        model: What the language model's session says of itself.
        view: The graph.
        communities: Its communities.
        corrections: What people have corrected.

    Returns:
        The communities in order.
    """
    graph = view.graph
    publishers = graph.document_publisher[graph.fragment_document].astype(np.uint64)
    mixed = _mixed(graph.fragment_key ^ _mixed(publishers))
    sums = np.zeros(len(view.entity_keys), np.uint64)
    owners = np.repeat(np.arange(len(sums)), np.diff(graph.fragment_offsets))
    np.add.at(sums, owners, mixed)
    touched = {int(place) for place in view.find(sorted(_corrected_keys(corrections))) if place >= 0}
    common = reporting_of(settings, model)
    corrected = digest(pack_corrections(corrections)) if touched else b""
    sizes = [len(item.members) for item in communities]
    members = np.fromiter(chain.from_iterable(item.members for item in communities), np.uint64, sum(sizes))
    places = np.searchsorted(view.entity_keys, members)
    offsets = np.cumsum([0, *sizes])
    said = np.add.reduceat(sums[places], offsets[:-1]).tolist() if len(communities) else []
    marked = []
    for item, start, end, sum_ in zip(communities, offsets[:-1].tolist(), offsets[1:].tolist(), said, strict=True):
        own = places[start:end]
        edits = corrected if touched and not touched.isdisjoint(own.tolist()) else b""
        marked.append(Marked(item, own, digest(common, item.key, sum_, edits)))
    return marked


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix 64 bits (splitmix64)."""
    mixed = values + _MIX[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX[1]
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX[2]
    found: NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
    return found


def _corrected_keys(corrections: Corrections) -> set[int]:
    found: set[int] = set()
    for item in corrections.items:
        plain = correction_to_plain(item)
        texts = [plain.get(name) for name in ("target", "source", "key", "other")]
        found.update(int(text, 16) for text in (*texts, *plain.get("keys", ())) if text)
    return found


async def _read(scope: BuildScope, key: str) -> Grouping | None:
    content = await scope.find(key)
    if content is None:
        return None
    try:
        return await asyncio.to_thread(unpack_grouping, content)
    except InvalidArgumentError:
        return None
