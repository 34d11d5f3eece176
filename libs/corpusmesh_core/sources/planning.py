"""What a sync does with each item, and what it may delete."""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from corpusmesh_core.sources.items import ItemState, KnownItem, SourceItem


class Step(StrEnum):
    """What a sync does with a listed item."""

    ADD = "add"
    CHANGE = "change"
    ACCESS = "access"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class RemovalPlan:
    """What has gone from a source.

    Attributes:
        keys: Items to remove, sorted; empty where the plan is refused.
        gone_count: Documents that have gone.
        known_count: Documents that the source had brought before.
        is_refused: Whether so many have gone that a person should look first.
    """

    keys: tuple[str, ...]
    gone_count: int
    known_count: int
    is_refused: bool


def plan_step(known: KnownItem | None, item: SourceItem, access_digest: str) -> Step:
    """Decide what to do with a listed item.

    Args:
        known: What is known of it; None for nothing.
        item: What the source says.
        access_digest: Digest of the access list that its document should have.

    Returns:
        ADD or CHANGE if its content must be read, ACCESS if its access list alone has changed.
    """
    if known is None or not known.document_id or known.state is ItemState.REMOVED:
        return Step.ADD
    if not known.is_current and (known.etag != item.etag or known.is_cancelled):
        return Step.CHANGE
    if known.access_digest != access_digest and known.has_document:
        return Step.ACCESS
    return Step.NOTHING


def plan_removals(
    known: Mapping[str, KnownItem],
    seen: Collection[str],
    removed: Iterable[str],
    *,
    is_complete: bool,
    max_share: float,
    allow_mass_delete: bool,
) -> RemovalPlan:
    """Decide what to delete after a listing that ended well.

    Args:
        known: Everything that was known of the source before.
        seen: Keys that were listed, those that could not be read included.
        removed: Keys that the source says have gone.
        is_complete: Whether what was not listed has gone too.
        max_share: Largest share of the source's documents that may go at once, 0 to 1.
        allow_mass_delete: Whether a person has confirmed that more may go.

    Returns:
        The plan. Items without a document are forgotten without counting.
    """
    named = {key for key in removed if key in known and key not in seen}
    gone = {
        key
        for key, item in known.items()
        if item.state is not ItemState.REMOVED
        and (key in named or (key not in seen and (is_complete or not item.document_id)))
    }
    living = {key for key, item in known.items() if item.has_document and item.state is not ItemState.REMOVED}
    gone_count = len(gone & living)
    is_refused = not allow_mass_delete and gone_count > max_share * len(living)
    keys = () if is_refused else tuple(sorted(gone))
    return RemovalPlan(keys=keys, gone_count=gone_count, known_count=len(living), is_refused=is_refused)


def item_document_id(source_id: str, key: str) -> str:
    """Make the id of an item's document: the same item is the same document, of two sources two.

    Args:
        source_id: The source.
        key: The item's key.

    Returns:
        A readable slug and a hash, `[a-z0-9-]{1,63}`.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", key.rsplit("/", 1)[-1].lower())[:40].strip("-")
    digest = hashlib.sha256(f"{source_id}\x00{key}".encode()).hexdigest()[:20]
    return f"{slug}-{digest}" if slug else digest
