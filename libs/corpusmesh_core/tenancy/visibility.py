"""What the metadata store tells a read about visibility: published, permitted, and wanted by the caller's filter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from pyroaring import BitMap, FrozenBitMap

from corpusmesh_core.tenancy.publishing import load_bitmap
from corpusmesh_core.tenancy.values import Permission
from corpusmesh_core.visibility import Visibility


class FilterOperator(StrEnum):
    """How a metadata value is compared."""

    EQUALS = "eq"
    PREFIX = "prefix"
    LESS = "lt"
    LESS_OR_EQUAL = "lte"
    GREATER = "gt"
    GREATER_OR_EQUAL = "gte"
    EXISTS = "exists"


@dataclass(frozen=True, slots=True)
class FilterCondition:
    """One condition on a document's metadata; true if one of its values fits.

    Attributes:
        key: Metadata key.
        operator: How to compare.
        texts: Values for text comparison; at most 1,000.
        numbers: Values for number comparison.
        moments: Values for time comparison, UTC.
        negated: Whether the condition must not hold (a document without the key passes then).
    """

    key: str
    operator: FilterOperator = FilterOperator.EQUALS
    texts: tuple[str, ...] = ()
    numbers: tuple[float, ...] = ()
    moments: tuple[datetime, ...] = ()
    negated: bool = False


@dataclass(frozen=True, slots=True)
class MetadataFilter:
    """The caller's filter: all conditions must hold.

    Attributes:
        conditions: Conditions on metadata, at most 32.
        document_ids: Only these documents; None for any.
    """

    conditions: tuple[FilterCondition, ...] = ()
    document_ids: tuple[str, ...] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it lets everything pass."""
        return not self.conditions and self.document_ids is None


@dataclass(frozen=True, slots=True)
class VisibilityInputs:
    """All that the metadata store knows for one read, taken at one moment.

    Attributes:
        knowledge_base_id: Knowledge base.
        owner_user_id: Its owner.
        permission: Its permission.
        config: Its configuration.
        space_id: Its embedding space.
        policy_epoch: Rises with each change of rights.
        snapshot_id: Snapshot that the request is pinned to; 0 where nothing is published.
        published: Portable roaring bitmap of that snapshot.
        hidden: Ordinals that this caller may not see, or that are deleted.
        matching: Ordinals of documents that pass the caller's filter; None where there is no filter.
        next_ordinal: First ordinal of the tenant not yet given away.
        builds: Ordinals of its builds, a portable roaring bitmap each: the caller's filter is about documents, and lets
            them all pass.
        build_kinds: Kind of each of them, as `corpusmesh_core.ports.builds` names it.
        gone_builds: Ordinals of builds that are being removed, likewise.
    """

    knowledge_base_id: str
    owner_user_id: str
    permission: Permission
    config: Mapping[str, object]
    space_id: str
    policy_epoch: int
    snapshot_id: int
    published: bytes
    hidden: tuple[int, ...]
    matching: tuple[int, ...] | None
    next_ordinal: int
    builds: tuple[bytes, ...] = ()
    build_kinds: tuple[str, ...] = ()
    gone_builds: tuple[bytes, ...] = ()


def build_bitmap(inputs: VisibilityInputs, kind: str) -> BitMap:
    """Return what may be published of the builds of one kind, whoever reads.

    Args:
        inputs: What the store knows.
        kind: DATASET_TREE or DATASET_GRAPH.

    Returns:
        Their ordinals.
    """
    return BitMap().union(
        *(
            load_bitmap(ordinals)
            for ordinals, of_kind in zip(inputs.builds, inputs.build_kinds, strict=True)
            if of_kind == kind
        )
    )


def permitted_bitmap(inputs: VisibilityInputs) -> BitMap:
    """Return what is published and permitted, without the caller's filter.

    Args:
        inputs: What the store knows.

    Returns:
        Ordinals of versions and builds. A record made under the rule `all` is visible if all its sources are here.
    """
    published = load_bitmap(inputs.published)
    if inputs.hidden:
        published -= BitMap(inputs.hidden)
    for gone in inputs.gone_builds:
        published -= load_bitmap(gone)
    return published


def visible_bitmap(inputs: VisibilityInputs) -> BitMap:
    """Return the one bitmap that every query of the request carries.

    Args:
        inputs: What the store knows.

    Returns:
        Published, permitted and filtered ordinals, run-optimised.
    """
    visible = permitted_bitmap(inputs)
    if inputs.matching is not None:
        visible &= BitMap(inputs.matching).union(*map(load_bitmap, inputs.builds))
    visible.run_optimize()
    return visible


def visibility_of(inputs: Sequence[VisibilityInputs]) -> Visibility:
    """Return what one request may see of some knowledge bases of one embedding space.

    Args:
        inputs: What the store knows of each, at least one.

    Returns:
        The visibility that every query of the request carries.
    """
    return Visibility(
        ",".join(f"{item.knowledge_base_id}/{item.snapshot_id}" for item in inputs),
        FrozenBitMap(BitMap().union(*map(visible_bitmap, inputs))),
        max(item.next_ordinal for item in inputs),
    )
