"""From a visibility to the filter of one query, and the predicate that the filter must equal.

The rules of the design, section 2: a record is published by one ordinal (`publisher`) and made from others (`ver`).
Under `any` it is seen if its publisher and at least one source are visible, under `all` if its publisher and every
source are.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pyroaring import BitMap, FrozenBitMap

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.records import RULE_BY_KIND, RecordKind, VisibilityRule
from corpusmesh_core.visibility.bitmaps import MAX_ORDINAL, Visibility

SINGLE_SOURCE_KINDS: frozenset[RecordKind] = frozenset(
    {
        RecordKind.CHUNK,
        RecordKind.PARENT,
        RecordKind.QUESTION,
        RecordKind.PROPOSITION,
        RecordKind.TOC,
        RecordKind.PAGE_IMAGE,
        RecordKind.TAG_EXAMPLE,
    }
)
"""Kinds whose only source is their publisher, so that one terms filter says everything."""


@dataclass(frozen=True, slots=True)
class VisibilityClause:
    """A condition on the records of some kinds; all its parts must hold.

    Attributes:
        kinds: The kinds it speaks of, in the order of `RecordKind`.
        publisher_in: The publisher must be one of these; None where `source_in` says the same.
        source_in: At least one source must be one of these; None where not asked.
        source_not_in: No source may be one of these; None where not asked.
        source_below: No source may be this large or larger; None where not asked. It closes the gap above the
            complement: an ordinal given out after the snapshot was read.
    """

    kinds: tuple[RecordKind, ...]
    publisher_in: FrozenBitMap | None
    source_in: FrozenBitMap | None
    source_not_in: FrozenBitMap | None
    source_below: int | None


@dataclass(frozen=True, slots=True)
class VisibilityFilter:
    """What a query may return: a record passes if the clause of its kind accepts it.

    Attributes:
        snapshot_id: The snapshot that it pins.
        clauses: At most one clause per kind. Empty means that nothing passes.
    """

    snapshot_id: str
    clauses: tuple[VisibilityClause, ...]

    @property
    def matches_nothing(self) -> bool:
        """Whether no record can pass."""
        return not self.clauses

    @property
    def kinds(self) -> tuple[RecordKind, ...]:
        """The kinds that can pass."""
        return tuple(kind for clause in self.clauses for kind in clause.kinds)


def build_filter(visibility: Visibility, kinds: Iterable[RecordKind]) -> VisibilityFilter:
    """Make the filter of one query.

    Args:
        visibility: What the request may see.
        kinds: Kinds that the query asks for; no kind, no result.

    Returns:
        The filter. An empty visibility gives a filter that matches nothing.
    """
    wanted = set(kinds)
    if visibility.is_empty or not wanted:
        return VisibilityFilter(visibility.snapshot_id, ())
    single = tuple(kind for kind in RecordKind if kind in wanted and kind in SINGLE_SOURCE_KINDS)
    derived = [kind for kind in RecordKind if kind in wanted and kind not in SINGLE_SOURCE_KINDS]
    any_kinds = tuple(kind for kind in derived if RULE_BY_KIND[kind] is VisibilityRule.ANY)
    all_kinds = tuple(kind for kind in derived if RULE_BY_KIND[kind] is VisibilityRule.ALL)
    visible = visibility.ordinals
    clauses: list[VisibilityClause] = []
    if single:
        clauses.append(VisibilityClause(single, None, visible, None, None))
    if any_kinds:
        clauses.append(VisibilityClause(any_kinds, visible, visible, None, None))
    if all_kinds:
        hidden = FrozenBitMap(BitMap(range(visibility.universe_size)) - visible)
        clauses.append(VisibilityClause(all_kinds, visible, None, hidden, visibility.universe_size))
    return VisibilityFilter(visibility.snapshot_id, tuple(clauses))


def is_visible(publisher: int, sources: Collection[int], rule: VisibilityRule, visibility: Visibility) -> bool:
    """Say whether a record may be seen: the rule itself, against which every filter is tested.

    Args:
        publisher: Ordinal that publishes the record.
        sources: Ordinals it was made from, at least one.
        rule: The rule of its kind.
        visibility: What the request may see.

    Returns:
        True if the record may be seen.
    """
    if publisher not in visibility or not sources:
        return False
    if rule is VisibilityRule.ALL:
        return all(source in visibility for source in sources)
    return any(source in visibility for source in sources)


def check_sources(kind: RecordKind, publisher: int, sources: Collection[int]) -> None:
    """Refuse a record that the filter of its kind could not judge.

    Args:
        kind: Its kind.
        publisher: Ordinal that publishes it.
        sources: Ordinals it was made from.

    Raises:
        InvalidArgumentError: If it names no source, an ordinal outside 0..MAX_ORDINAL, or, for a kind with a single
            source, another source than its publisher.
    """
    if not sources:
        raise InvalidArgumentError("RECORD_WITHOUT_SOURCE", "a record must name its sources", field="sources")
    for ordinal in (publisher, *sources):
        if not 0 <= ordinal <= MAX_ORDINAL:
            raise InvalidArgumentError(
                "ORDINAL_INVALID", f"ordinal {ordinal} is outside 0..{MAX_ORDINAL}", field="sources", ordinal=ordinal
            )
    if kind in SINGLE_SOURCE_KINDS and set(sources) != {publisher}:
        raise InvalidArgumentError(
            "RECORD_SOURCE_NOT_PUBLISHER",
            f"the only source of a {kind.value} is the version that publishes it",
            field="sources",
            kind=kind.value,
            publisher=publisher,
        )
