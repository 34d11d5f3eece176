"""What a search reads of a node's record, and what it notes of a node that it looked at."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from corpusmesh_core.ports.index import Candidate
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.trees.values import CHILDREN, LEAF_COUNT

_USUAL_COHERENCE: Final = ((1, 1.0), (2, 0.97), (3, 0.955), (5, 0.945), (8, 0.935), (16, 0.93), (64, 0.915))
_LEAST_COHERENCE: Final = 0.905
"""Length of the mean of the vectors of so many leaves at most (bench/tree_study.py, six sets)."""
_MAX_NAMED: Final = 2


class NodeOutcome(StrEnum):
    """What became of a node that a search looked at."""

    FOLLOWED = "followed"
    """It led to nodes or chunks beneath it."""
    KEPT = "kept"
    """It is a hit."""
    DROPPED = "dropped"
    """It fits less than others do."""
    COVERED = "covered"
    """Better hits say the same."""


@dataclass(frozen=True, slots=True)
class TreeStep:
    """A node that a search looked at.

    Attributes:
        record_id: Its record.
        layer: Its layer, from 1.
        similarity: How well it fits the question.
        outcome: What became of it.
        led_to: Records that it led to, or that cover it; all of them such as the caller may see.
    """

    record_id: str
    layer: int
    similarity: float
    outcome: NodeOutcome
    led_to: tuple[str, ...] = ()


def is_node(item: RankedCandidate) -> bool:
    """Tell whether a candidate is a node of a tree.

    Args:
        item: The candidate.

    Returns:
        Whether it is.
    """
    return item.candidate.record.kind is RecordKind.TREE_NODE


def on_scale_of_leaves(candidate: Candidate) -> Candidate:
    """Bring the cosines of a node onto the scale of chunks.

    The mean of some vectors has lost what is particular to each; brought back to unit norm, it is nearer to every
    question than any of them (on mh_small nodes then push 20 points of recall out of the result). Its cosine times the
    length of that mean is the mean cosine of the leaves.

    Args:
        candidate: A node as the index scored it.

    Returns:
        The node with such cosines, by the length that is usual for so many leaves.
    """
    leaf_count = leaf_count_of(candidate.record)
    coherence = next((length for most, length in _USUAL_COHERENCE if leaf_count <= most), _LEAST_COHERENCE)
    return replace(
        candidate,
        cosine=None if candidate.cosine is None else coherence * candidate.cosine,
        reference_cosine=None if candidate.reference_cosine is None else coherence * candidate.reference_cosine,
    )


def with_cosines_of_leaves(items: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Give the nodes all of whose leaves are candidates too the mean cosine of these, which needs no estimate.

    Args:
        items: Candidates.

    Returns:
        The same in order.
    """
    cosines = {item.record.record_id: item.cosine for item in items if item.record.kind is not RecordKind.TREE_NODE}

    def scaled(item: Candidate) -> Candidate:
        record = item.record
        if record.kind is not RecordKind.TREE_NODE or item.cosine is None or not record.links:
            return item
        own = [cosine for link in record.links if (cosine := cosines.get(link)) is not None]
        return item if len(own) < len(record.links) else replace(item, cosine=sum(own) / len(own))

    return tuple(map(scaled, items))


def children_of(record: Record) -> tuple[str, ...]:
    """Name the records right beneath a node.

    Args:
        record: The node.

    Returns:
        Ids of nodes or chunks, in order.
    """
    return tuple(record.attributes.get(CHILDREN, "").split())


def leaf_count_of(record: Record) -> int:
    """Say for how many chunks a node stands.

    Args:
        record: The node.

    Returns:
        The number, at least that of its links.
    """
    counted = record.attributes.get(LEAF_COUNT, "")
    return max(int(counted) if counted.isascii() and counted.isdigit() else 0, len(record.links))


def node_title(record: Record, leaf_titles: Sequence[str]) -> str:
    """Name what a node speaks of.

    Args:
        record: The node.
        leaf_titles: Titles of the chunks beneath it that may be seen, in order.

    Returns:
        Its own title; for a node of several documents, whose record has none, the first titles of its leaves.
    """
    if record.title:
        return record.title
    titles = [title for title in dict.fromkeys(leaf_titles) if title]
    more = len(titles) - _MAX_NAMED
    named = ", ".join(titles[:_MAX_NAMED])
    return f"{named} (+{more})" if more > 0 else named
