"""Rows of sources to values and back."""

from collections.abc import Mapping
from typing import Any

import asyncpg

from corpusmesh_core.ports.sources import ItemRow, SourceRecord, SourceSpec, SourceState
from corpusmesh_core.sources import (
    AccessRule,
    ItemState,
    KnownItem,
    SourceKind,
    kind_of,
    place_from_json,
    place_to_json,
)
from corpusmesh_core.tenancy.values import VersionState

SOURCE_COLUMNS = (
    "s.*, coalesce(r.error_reason, '') AS error_reason, coalesce(r.error_message, '') AS error_message,"
    " (SELECT count(*) FROM corpusmesh.source_items i WHERE i.tenant_id = s.tenant_id"
    "   AND i.knowledge_base_id = s.knowledge_base_id AND i.source_id = s.source_id AND i.state <> 'removed'"
    "   AND i.document_id <> '')::int AS item_count,"
    " (SELECT count(*) FROM corpusmesh.source_items i WHERE i.tenant_id = s.tenant_id"
    "   AND i.knowledge_base_id = s.knowledge_base_id AND i.source_id = s.source_id"
    "   AND i.state = 'failed')::int AS failed_item_count"
)
SOURCE_FROM = (
    "corpusmesh.sources s LEFT JOIN corpusmesh.runs r"
    " ON r.tenant_id = s.tenant_id AND r.run_id = s.last_run_id AND r.state = 'failed'"
)


def to_source(row: asyncpg.Record) -> SourceRecord:
    """Read a source of a row with `SOURCE_COLUMNS`."""
    return SourceRecord(
        tenant_id=row["tenant_id"],
        knowledge_base_id=row["knowledge_base_id"],
        source_id=row["source_id"],
        spec=to_spec(row),
        owner_user_id=row["owner_user_id"],
        cursor=row["cursor"],
        last_run_id=row["last_run_id"],
        error_reason=row["error_reason"],
        error_message=row["error_message"],
        last_sync_time=row["last_sync_time"],
        next_sync_time=row["next_sync_time"],
        create_time=row["create_time"],
        update_time=row["update_time"],
        etag=str(row["revision"]),
        item_count=row["item_count"],
        failed_item_count=row["failed_item_count"],
    )


def to_spec(row: asyncpg.Record) -> SourceSpec:
    """Read what people say of a source."""
    access = row["access"]
    return SourceSpec(
        display_name=row["display_name"],
        place=place_from_json(SourceKind(row["kind"]), row["place"]),
        schedule_seconds=row["schedule_seconds"],
        state=SourceState(row["state"]),
        access=AccessRule(
            follows_source=bool(access.get("follows_source")),
            principals=access.get("principals", {}),
            allowed_users=tuple(access.get("allowed_users", ())),
            allowed_groups=tuple(access.get("allowed_groups", ())),
        ),
        metadata=row["metadata"],
    )


def spec_values(spec: SourceSpec) -> tuple[Any, ...]:
    """Give the columns kind, display_name, place, access, metadata, schedule_seconds and state."""
    access = {
        "follows_source": spec.access.follows_source,
        "principals": dict(spec.access.principals),
        "allowed_users": list(spec.access.allowed_users),
        "allowed_groups": list(spec.access.allowed_groups),
    }
    return (
        str(kind_of(spec.place)),
        spec.display_name,
        place_to_json(spec.place),
        access,
        dict(spec.metadata),
        spec.schedule_seconds,
        str(spec.state),
    )


def to_known_item(row: asyncpg.Record, latest: Mapping[str, str]) -> KnownItem:
    """Read what a sync knows of an item, given the states of the newest versions of living documents."""
    document_id = row["document_id"]
    return KnownItem(
        key=row["key"],
        etag=row["etag"],
        access_digest=row["access_digest"],
        document_id=document_id,
        state=ItemState(row["state"]),
        has_document=document_id in latest,
        is_cancelled=latest.get(document_id) == VersionState.CANCELLED,
        is_current=row["is_current"],
        memo=row["memo"],
    )


def to_item_row(row: asyncpg.Record) -> ItemRow:
    """Read an item as callers see it."""
    return ItemRow(
        key=row["key"],
        display_name=row["display_name"],
        document_id=row["document_id"],
        state=ItemState(row["state"]),
        error_reason=row["error_reason"],
        error_message=row["error_message"],
        update_time=row["update_time"],
    )
