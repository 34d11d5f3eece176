"""Handlers of `KnowledgeBaseService`."""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from google.protobuf.field_mask_pb2 import FieldMask
from pyroaring import BitMap

from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as pb
from corpusmesh.ingest.v1.knowledge_base_service_pb2_grpc import KnowledgeBaseServiceServicer
from corpusmesh_client.knowledge_base_settings import SECTIONS
from corpusmesh_core.errors import InvalidArgumentError, NotFoundError
from corpusmesh_core.ports.embedding import Embedder
from corpusmesh_core.ports.index import IndexSpace, RecordIndex
from corpusmesh_core.ports.metadata import (
    AuditLog,
    IdempotencyStore,
    KnowledgeBaseChange,
    KnowledgeBaseStore,
    SnapshotStore,
)
from corpusmesh_core.tenancy import Access, KnowledgeBase, Snapshot
from corpusmesh_core.tenancy.publishing import load_bitmap
from corpusmesh_ingest.configuration import enrichment_of
from corpusmesh_ingest.convert_knowledge_bases import (
    changed_config,
    config_of,
    knowledge_base_to_wire,
    permission_of,
)
from corpusmesh_ingest.handlers.paging import make_page_token, page_size_of, read_page_number, read_page_token
from corpusmesh_ingest.names import parse_name
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.idempotency import once
from corpusmesh_runtime.timestamps import timestamp
from corpusmesh_runtime.tracing import outgoing_headers

_IDENTIFIER = re.compile(r"[a-z0-9-]{1,63}")
_MAX_DISPLAY_NAME_CHARACTERS = 200
_MAX_DESCRIPTION_CHARACTERS = 2000
_EMBEDDER_SECONDS = 10.0
_UPDATABLE = ("display_name", "description", "permission", *SECTIONS.values())


@dataclass(frozen=True, slots=True)
class KnowledgeBaseDependencies:
    """What the handlers stand on."""

    knowledge_bases: KnowledgeBaseStore
    snapshots: SnapshotStore
    idempotency: IdempotencyStore
    audit: AuditLog
    embedder: Embedder
    index: RecordIndex


class KnowledgeBaseHandlers(KnowledgeBaseServiceServicer):
    """Knowledge bases and their snapshots."""

    def __init__(self, dependencies: KnowledgeBaseDependencies) -> None:
        """Create the handlers.

        Args:
            dependencies: What they stand on.
        """
        self._stores = dependencies

    async def GetKnowledgeBase(self, request: pb.GetKnowledgeBaseRequest, context: Any) -> pb.KnowledgeBase:
        """See the contract."""
        name = parse_name("knowledge base", request.name)
        row = await self._stores.knowledge_bases.get(require_call().identity, name.knowledge_base_id)
        return (await self._with_counts([row]))[0]

    async def ListKnowledgeBases(
        self, request: pb.ListKnowledgeBasesRequest, context: Any
    ) -> pb.ListKnowledgeBasesResponse:
        """See the contract."""
        size = page_size_of(request.page_size)
        after = read_page_token("knowledgeBases", request.page_token)
        rows = await self._stores.knowledge_bases.list(require_call().identity, after, size + 1)
        page = rows[:size]
        more = make_page_token("knowledgeBases", page[-1].knowledge_base_id) if len(rows) > size else ""
        return pb.ListKnowledgeBasesResponse(knowledge_bases=await self._with_counts(page), next_page_token=more)

    async def CreateKnowledgeBase(self, request: pb.CreateKnowledgeBaseRequest, context: Any) -> pb.KnowledgeBase:
        """See the contract."""
        return await once(
            self._stores.idempotency,
            "CreateKnowledgeBase",
            request.request_id,
            request,
            pb.KnowledgeBase,
            lambda: self._create(request),
        )

    async def UpdateKnowledgeBase(self, request: pb.UpdateKnowledgeBaseRequest, context: Any) -> pb.KnowledgeBase:
        """See the contract."""
        return await once(
            self._stores.idempotency,
            "UpdateKnowledgeBase",
            request.request_id,
            request,
            pb.KnowledgeBase,
            lambda: self._update(request),
        )

    async def DeleteKnowledgeBase(
        self, request: pb.DeleteKnowledgeBaseRequest, context: Any
    ) -> pb.DeleteKnowledgeBaseResponse:
        """See the contract."""
        name = parse_name("knowledge base", request.name)
        call = require_call()
        run_id = await self._stores.knowledge_bases.delete(
            call.identity, name.knowledge_base_id, request.request_id, _headers()
        )
        return pb.DeleteKnowledgeBaseResponse(run=f"knowledgeBases/{name.knowledge_base_id}/runs/{run_id}")

    async def ListSnapshots(self, request: pb.ListSnapshotsRequest, context: Any) -> pb.ListSnapshotsResponse:
        """See the contract."""
        name = parse_name("knowledge base", request.parent, field="parent")
        size = page_size_of(request.page_size)
        listing = f"{request.parent}/snapshots"
        before = read_page_number(listing, request.page_token)
        identity = require_call().identity
        rows, current = await self._stores.snapshots.list(identity, name.knowledge_base_id, before, size + 1)
        page = rows[:size]
        hidden = await self._hidden(name.knowledge_base_id)
        more = make_page_token(listing, str(page[-1].snapshot_id)) if len(rows) > size else ""
        return pb.ListSnapshotsResponse(
            snapshots=[_snapshot_to_wire(row, hidden, current=row.snapshot_id == current) for row in page],
            next_page_token=more,
        )

    async def RollbackKnowledgeBase(
        self, request: pb.RollbackKnowledgeBaseRequest, context: Any
    ) -> pb.RollbackKnowledgeBaseResponse:
        """See the contract."""
        return await once(
            self._stores.idempotency,
            "RollbackKnowledgeBase",
            request.request_id,
            request,
            pb.RollbackKnowledgeBaseResponse,
            lambda: self._rollback(request),
        )

    async def _create(self, request: pb.CreateKnowledgeBaseRequest) -> pb.KnowledgeBase:
        call = require_call()
        wanted = request.knowledge_base
        _check_texts(wanted)
        if not wanted.display_name and not request.knowledge_base_id:
            raise InvalidArgumentError(
                "DISPLAY_NAME_MISSING",
                "give the knowledge base a display_name or an identifier",
                field="knowledge_base.display_name",
            )
        identifier = request.knowledge_base_id or _identifier_for(wanted.display_name)
        if not _IDENTIFIER.fullmatch(identifier):
            raise InvalidArgumentError(
                "KNOWLEDGE_BASE_ID_INVALID",
                "an identifier is 1 to 63 of a-z, 0-9 and -; leave it empty to have one made",
                field="knowledge_base_id",
            )
        # The model may have been changed since; a new knowledge base lives in the space of today's (FR-A11).
        await self._stores.embedder.refresh(deadline_seconds=min(call.remaining_seconds(), _EMBEDDER_SECONDS))
        space = self._stores.embedder.space
        config = config_of(wanted, embedder_max_tokens=self._stores.embedder.max_input_tokens)
        await self._check_tag_sets(config)
        await self._stores.index.ensure_space(
            call.identity.tenant_id,
            IndexSpace(space.space_id, space.dimension),
            timeout_seconds=call.remaining_seconds(),
        )
        row = await self._stores.knowledge_bases.create(
            call.identity,
            identifier,
            display_name=wanted.display_name or identifier,
            description=wanted.description,
            permission=permission_of(wanted.permission),
            config=config,
            space_id=space.space_id,
        )
        await self._audit("knowledge_base.create", f"knowledgeBases/{identifier}")
        return knowledge_base_to_wire(row)

    async def _update(self, request: pb.UpdateKnowledgeBaseRequest) -> pb.KnowledgeBase:
        name = parse_name("knowledge base", request.knowledge_base.name, field="knowledge_base.name")
        wanted = request.knowledge_base
        _check_texts(wanted)
        paths = _paths(request.update_mask if request.HasField("update_mask") else None, wanted)
        call = require_call()
        current = await self._stores.knowledge_bases.get(call.identity, name.knowledge_base_id)
        config: Mapping[str, object] | None = None
        if paths & frozenset(SECTIONS.values()):
            config = changed_config(
                dict(current.config), wanted, paths, embedder_max_tokens=self._stores.embedder.max_input_tokens
            )
            await self._check_tag_sets(config)
        row = await self._stores.knowledge_bases.update(
            call.identity,
            name.knowledge_base_id,
            KnowledgeBaseChange(
                display_name=wanted.display_name if "display_name" in paths else None,
                description=wanted.description if "description" in paths else None,
                permission=permission_of(wanted.permission) if "permission" in paths else None,
                config=config,
                etag=wanted.etag or None,
            ),
        )
        await self._audit("knowledge_base.update", f"knowledgeBases/{name.knowledge_base_id}")
        return (await self._with_counts([row]))[0]

    async def _rollback(self, request: pb.RollbackKnowledgeBaseRequest) -> pb.RollbackKnowledgeBaseResponse:
        name = parse_name("knowledge base", request.name)
        target = parse_name("snapshot", request.snapshot, field="snapshot")
        if target.knowledge_base_id != name.knowledge_base_id:
            raise InvalidArgumentError(
                "SNAPSHOT_OF_ANOTHER", "the snapshot belongs to another knowledge base", field="snapshot"
            )
        snapshot = await self._stores.snapshots.rollback(
            require_call().identity, name.knowledge_base_id, int(target.identifier)
        )
        await self._audit("knowledge_base.rollback", request.snapshot)
        hidden = await self._hidden(name.knowledge_base_id)
        return pb.RollbackKnowledgeBaseResponse(snapshot=_snapshot_to_wire(snapshot, hidden, current=True))

    async def _check_tag_sets(self, config: Mapping[str, object]) -> None:
        """Refuse tag sets that the caller may not read; unknown ones alike."""
        names = enrichment_of(config).tags.tag_sets
        if not names:
            return
        try:
            await self._stores.knowledge_bases.check(require_call().identity, names, Access.READ)
        except NotFoundError as error:
            raise InvalidArgumentError(
                "TAG_SET_UNKNOWN",
                f"{error.message}; a tag set is a knowledge base that you may read",
                field="knowledge_base.enrichment_settings.tags.tag_sets",
                knowledge_base=error.metadata.get("knowledge_base", ""),
            ) from error

    async def _with_counts(self, rows: Sequence[KnowledgeBase]) -> list[pb.KnowledgeBase]:
        counts = await self._stores.knowledge_bases.count(
            require_call().identity, [row.knowledge_base_id for row in rows]
        )
        messages = []
        for row in rows:
            documents, chunks = counts[row.knowledge_base_id]
            messages.append(knowledge_base_to_wire(replace(row, document_count=documents, chunk_count=chunks)))
        return messages

    async def _hidden(self, knowledge_base_id: str) -> BitMap:
        """Ordinals that are not counted: of versions that the caller may not see, and of builds, which are none."""
        inputs = await self._stores.snapshots.visibility_inputs(require_call().identity, knowledge_base_id)
        return BitMap(inputs.hidden).union(*map(load_bitmap, (*inputs.builds, *inputs.gone_builds)))

    async def _audit(self, action: str, resource: str) -> None:
        call = require_call()
        await self._stores.audit.append(call.identity, action, resource, "ok", call.request_id, {})


def _headers() -> dict[str, str]:
    return {**outgoing_headers(), "request_id": require_call().request_id}


def _snapshot_to_wire(row: Snapshot, hidden: BitMap, *, current: bool) -> pb.Snapshot:
    return pb.Snapshot(
        name=f"knowledgeBases/{row.knowledge_base_id}/snapshots/{row.snapshot_id}",
        reason=row.reason,
        version_count=len(BitMap.deserialize(row.ordinals) - hidden) if row.ordinals else 0,
        create_time=timestamp(row.create_time),
        current=current,
    )


def _identifier_for(display_name: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", display_name.lower())[:40].strip("-")
    # A name without Latin letters still needs an identifier; people go on using the name.
    return slug or f"kb-{secrets.token_hex(4)}"


def _check_texts(wanted: pb.KnowledgeBase) -> None:
    if len(wanted.display_name) > _MAX_DISPLAY_NAME_CHARACTERS:
        raise InvalidArgumentError(
            "DISPLAY_NAME_TOO_LONG",
            f"a display name takes at most {_MAX_DISPLAY_NAME_CHARACTERS} characters",
            field="knowledge_base.display_name",
        )
    if len(wanted.description) > _MAX_DESCRIPTION_CHARACTERS:
        raise InvalidArgumentError(
            "DESCRIPTION_TOO_LONG",
            f"a description takes at most {_MAX_DESCRIPTION_CHARACTERS} characters",
            field="knowledge_base.description",
        )


def _paths(mask: FieldMask | None, wanted: pb.KnowledgeBase) -> frozenset[str]:
    if mask is None:
        return frozenset(field.name for field, _ in wanted.ListFields()) & frozenset(_UPDATABLE)
    if list(mask.paths) == ["*"]:
        return frozenset(_UPDATABLE)
    unknown = [path for path in mask.paths if path not in _UPDATABLE]
    if unknown:
        raise InvalidArgumentError(
            "UPDATE_MASK_INVALID",
            f"update_mask takes {', '.join(_UPDATABLE)} or *, not {unknown[0][:64]}",
            field="update_mask",
        )
    return frozenset(mask.paths)
