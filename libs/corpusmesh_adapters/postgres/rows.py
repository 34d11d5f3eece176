"""Rows to values and back."""

import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import asyncpg

from corpusmesh_core.orchestration.values import Lane, Run, RunKind, RunState, Stage, Task, TaskState
from corpusmesh_core.ports.runs import RunRecord
from corpusmesh_core.records import Ordinal
from corpusmesh_core.tenancy.identity import Role, Scope
from corpusmesh_core.tenancy.members import ApiKey, Tenant, User
from corpusmesh_core.tenancy.values import (
    DocumentRow,
    KnowledgeBase,
    LifeState,
    MetadataValue,
    Permission,
    Snapshot,
    VersionRow,
    VersionState,
)

VERSION_COLUMNS = (
    "v.tenant_id, v.knowledge_base_id, v.document_id, v.version, v.ordinal, v.display_name, v.original_sha256,"
    " v.size_bytes, v.media_type, v.title, v.page_count, v.chunk_count, v.record_count, v.token_count,"
    " v.state, v.failed_stage, v.error_reason, v.error_message, v.config_hash, v.artefacts, v.warnings, v.run_id,"
    " v.publish_time, v.create_time, v.config, v.base_ordinal, v.sealed_password, v.extracted_metadata"
)
RUN_COLUMNS = (
    "r.run_id, r.kind, r.state, r.lane, r.part_count, r.batch_count, r.open_task_count, r.passed, r.skipped,"
    " r.failed_part_count, r.retry_count, r.hold_publish, r.sequence, r.error_reason, r.error_message,"
    " r.knowledge_base_id, r.headers,"
    " coalesce(extract(epoch FROM r.accepts_until), 0)::float8 AS accepts_until_seconds"
)
TASK_COLUMNS = (
    "t.task_id, t.batch, t.stage, t.lane AS task_lane, t.state AS task_state, t.parts, t.attempt, t.deferral_count,"
    " t.epoch, t.dispatch, t.worker, t.payload, t.error_reason AS task_error_reason,"
    " t.error_message AS task_error_message,"
    " coalesce(extract(epoch FROM t.lease_until), 0)::float8 AS lease_until_seconds,"
    " coalesce(extract(epoch FROM t.not_before), 0)::float8 AS not_before_seconds"
)


def new_id() -> str:
    """Make an id that rises with time: 48 bits of milliseconds and 64 random bits, in hexadecimal."""
    return f"{int(time.time() * 1000):012x}{secrets.token_hex(8)}"


def moment(seconds: float) -> datetime | None:
    """Turn seconds since 1970 into a moment; 0 is none."""
    return datetime.fromtimestamp(seconds, UTC) if seconds > 0 else None


def to_tenant(row: asyncpg.Record) -> Tenant:
    """Read a tenant."""
    return Tenant(row["tenant_id"], row["display_name"], row["next_ordinal"], row["create_time"])


def to_user(row: asyncpg.Record) -> User:
    """Read a member."""
    return User(
        tenant_id=row["tenant_id"],
        user_id=row["user_id"],
        display_name=row["display_name"],
        role=Role[row["role"].upper()],
        groups=tuple(row["groups"]),
        disabled=row["disabled"],
        create_time=row["create_time"],
    )


def to_api_key(row: asyncpg.Record) -> ApiKey:
    """Read a key, without its hash."""
    return ApiKey(
        tenant_id=row["tenant_id"],
        key_id=row["key_id"],
        user_id=row["user_id"],
        scope=Scope[row["scope"].upper()],
        create_time=row["create_time"],
        expire_time=row["expire_time"],
        revoke_time=row["revoke_time"],
        last_use_time=row["last_use_time"],
    )


def to_knowledge_base(row: asyncpg.Record) -> KnowledgeBase:
    """Read a knowledge base."""
    return KnowledgeBase(
        tenant_id=row["tenant_id"],
        knowledge_base_id=row["knowledge_base_id"],
        display_name=row["display_name"],
        description=row["description"],
        owner_user_id=row["owner_user_id"],
        permission=Permission(row["permission"]),
        config=row["config"],
        space_id=row["space_id"],
        current_snapshot_id=row["current_snapshot_id"],
        policy_epoch=row["policy_epoch"],
        etag=str(row["revision"]),
        state=LifeState(row["state"]),
        create_time=row["create_time"],
        update_time=row["update_time"],
    )


def to_version(row: asyncpg.Record) -> VersionRow:
    """Read a version."""
    return VersionRow(
        tenant_id=row["tenant_id"],
        knowledge_base_id=row["knowledge_base_id"],
        document_id=row["document_id"],
        version=row["version"],
        ordinal=Ordinal(row["ordinal"]),
        display_name=row["display_name"],
        original_sha256=row["original_sha256"],
        size_bytes=row["size_bytes"],
        media_type=row["media_type"],
        title=row["title"],
        page_count=row["page_count"],
        chunk_count=row["chunk_count"],
        record_count=row["record_count"],
        token_count=row["token_count"],
        state=VersionState(row["state"]),
        failed_stage=row["failed_stage"],
        error_reason=row["error_reason"],
        error_message=row["error_message"],
        config_hash=row["config_hash"],
        artefacts=row["artefacts"],
        warnings=tuple(row["warnings"]),
        run_id=row["run_id"],
        publish_time=row["publish_time"],
        create_time=row["create_time"],
        config=row["config"],
        base_ordinal=row["base_ordinal"],
        sealed_password=row["sealed_password"],
        extracted_metadata=metadata_from_json(row["extracted_metadata"]),
    )


def to_document(
    row: asyncpg.Record, latest: VersionRow | None, published_version: int, metadata: Mapping[str, MetadataValue]
) -> DocumentRow:
    """Read a document."""
    return DocumentRow(
        tenant_id=row["tenant_id"],
        knowledge_base_id=row["knowledge_base_id"],
        document_id=row["document_id"],
        display_name=row["display_name"],
        source_uri=row["source_uri"],
        title=row["title"] or (latest.title if latest is not None else ""),
        latest_version=row["latest_version"],
        acl_restricted=row["acl_restricted"],
        state=LifeState(row["state"]),
        created_by=row["created_by"],
        create_time=row["create_time"],
        update_time=row["update_time"],
        latest=latest,
        published_version=published_version,
        metadata=metadata,
    )


def to_snapshot(row: asyncpg.Record) -> Snapshot:
    """Read a snapshot."""
    return Snapshot(
        knowledge_base_id=row["knowledge_base_id"],
        snapshot_id=row["snapshot_id"],
        parent_id=row["parent_id"],
        ordinals=row["ordinals"],
        reason=row["reason"],
        created_by=row["created_by"],
        create_time=row["create_time"],
    )


def to_run(row: asyncpg.Record) -> Run:
    """Read what the state machine knows of a run."""
    return Run(
        run_id=row["run_id"],
        kind=RunKind(row["kind"]),
        state=RunState(row["state"]),
        lane=Lane(row["lane"]),
        part_count=row["part_count"],
        batch_count=row["batch_count"],
        accepts_until_seconds=row["accepts_until_seconds"],
        open_task_count=row["open_task_count"],
        passed={Stage(stage): count for stage, count in row["passed"].items()},
        skipped={Stage(stage): count for stage, count in row["skipped"].items()},
        failed_part_count=row["failed_part_count"],
        retry_count=row["retry_count"],
        hold_publish=row["hold_publish"],
        sequence=row["sequence"],
        error_reason=row["error_reason"],
        error_message=row["error_message"],
    )


def to_run_record(row: asyncpg.Record) -> RunRecord:
    """Read a run as callers see it."""
    return RunRecord(
        tenant_id=row["tenant_id"],
        knowledge_base_id=row["knowledge_base_id"],
        run=to_run(row),
        created_by=row["created_by"],
        create_time=row["create_time"],
        end_time=row["end_time"],
        result=row["result"],
    )


def to_task(row: asyncpg.Record) -> Task:
    """Read a task of a row that also holds its run."""
    return Task(
        task_id=row["task_id"],
        run_id=row["run_id"],
        batch=row["batch"],
        stage=Stage(row["stage"]),
        lane=Lane(row["task_lane"]),
        state=TaskState(row["task_state"]),
        parts=tuple(row["parts"]),
        attempt=row["attempt"],
        deferral_count=row["deferral_count"],
        epoch=row["epoch"],
        dispatch=row["dispatch"],
        lease_until_seconds=row["lease_until_seconds"],
        not_before_seconds=row["not_before_seconds"],
        worker=row["worker"],
        error_reason=row["task_error_reason"],
        error_message=row["task_error_message"],
        payload=row["payload"],
    )


def metadata_to_json(values: Mapping[str, MetadataValue]) -> dict[str, Any]:
    """Write metadata values as JSON; a moment becomes an object, since JSON has none."""
    return {
        key: {"time": value.astimezone(UTC).isoformat()} if isinstance(value, datetime) else value
        for key, value in values.items()
    }


def metadata_from_json(values: Mapping[str, Any]) -> dict[str, MetadataValue]:
    """Read what `metadata_to_json` wrote."""
    return {
        key: datetime.fromisoformat(value["time"]) if isinstance(value, dict) else value
        for key, value in values.items()
    }


def metadata_columns(value: MetadataValue) -> tuple[str, float | None, datetime | None]:
    """Split a metadata value into what it is compared as: a text always, a number or a moment where it reads as one."""
    if isinstance(value, datetime):
        return value.isoformat(), None, value
    if isinstance(value, str):
        return value, _as_number(value), _as_moment(value)
    return repr(value), float(value), None


def _as_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if number == number and abs(number) != float("inf") else None


def _as_moment(text: str) -> datetime | None:
    # Only what looks like a date: Python also reads "20240101", which people mean as a number.
    if len(text) < 10 or text[4] != "-":
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
