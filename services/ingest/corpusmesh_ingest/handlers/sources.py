"""Handlers of `SourceService`."""

import base64
import binascii
import hashlib
import re
import secrets
from dataclasses import dataclass, replace
from typing import Any

from corpusmesh.ingest.v1 import source_service_pb2 as pb
from corpusmesh.ingest.v1.source_service_pb2_grpc import SourceServiceServicer
from corpusmesh_core.errors import InvalidArgumentError, NotFoundError, PermissionDeniedError
from corpusmesh_core.ports.metadata import AuditLog, DocumentStore, IdempotencyStore
from corpusmesh_core.ports.sources import ConnectorRegistry, SourceSpec, SourceStore
from corpusmesh_core.sources import MAX_KEY_BYTES, PLATFORM_KINDS, kind_of
from corpusmesh_core.tenancy import Identity, Role
from corpusmesh_ingest.convert import run_name
from corpusmesh_ingest.handlers.paging import make_page_token, page_size_of, read_page_token
from corpusmesh_ingest.names import ResourceName, parse_name
from corpusmesh_ingest.syncing.shapes import changed_paths, item_to_wire, merged_spec, source_to_wire, spec_of
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.idempotency import once
from corpusmesh_runtime.tracing import outgoing_headers

_IDENTIFIER = re.compile(r"[a-z0-9-]{1,63}")
_DELETE_BATCH = 500
_DIGEST_CHARACTERS = 8


@dataclass(frozen=True, slots=True)
class SourceDependencies:
    """What the handlers stand on."""

    sources: SourceStore
    connectors: ConnectorRegistry
    documents: DocumentStore
    idempotency: IdempotencyStore
    audit: AuditLog


class SourceHandlers(SourceServiceServicer):
    """Sources and their syncs."""

    def __init__(self, dependencies: SourceDependencies) -> None:
        """Create the handlers.

        Args:
            dependencies: What they stand on.
        """
        self._stores = dependencies

    async def CreateSource(self, request: pb.CreateSourceRequest, context: Any) -> pb.Source:
        """See the contract."""
        return await once(
            self._stores.idempotency,
            "CreateSource",
            request.request_id,
            request,
            pb.Source,
            lambda: self._create(request),
        )

    async def GetSource(self, request: pb.GetSourceRequest, context: Any) -> pb.Source:
        """See the contract."""
        name = parse_name("source", request.name)
        row = await self._stores.sources.get(require_call().identity, name.knowledge_base_id, name.identifier)
        return source_to_wire(row)

    async def ListSources(self, request: pb.ListSourcesRequest, context: Any) -> pb.ListSourcesResponse:
        """See the contract."""
        name = parse_name("knowledge base", request.parent, field="parent")
        size = page_size_of(request.page_size)
        listing = f"{request.parent}/sources"
        after = read_page_token(listing, request.page_token)
        rows = await self._stores.sources.list(require_call().identity, name.knowledge_base_id, after, size + 1)
        page = rows[:size]
        more = make_page_token(listing, page[-1].source_id) if len(rows) > size else ""
        return pb.ListSourcesResponse(sources=[source_to_wire(row) for row in page], next_page_token=more)

    async def UpdateSource(self, request: pb.UpdateSourceRequest, context: Any) -> pb.Source:
        """See the contract."""
        return await once(
            self._stores.idempotency,
            "UpdateSource",
            request.request_id,
            request,
            pb.Source,
            lambda: self._update(request),
        )

    async def DeleteSource(self, request: pb.DeleteSourceRequest, context: Any) -> pb.DeleteSourceResponse:
        """See the contract."""
        return await once(
            self._stores.idempotency,
            "DeleteSource",
            request.request_id,
            request,
            pb.DeleteSourceResponse,
            lambda: self._delete(request),
        )

    async def SyncSource(self, request: pb.SyncSourceRequest, context: Any) -> pb.SyncSourceResponse:
        """See the contract."""

        async def act() -> pb.SyncSourceResponse:
            name = parse_name("source", request.name)
            started = await self._stores.sources.start_sync(
                require_call().identity,
                name.knowledge_base_id,
                name.identifier,
                allow_mass_delete=request.allow_mass_delete,
                headers=_headers(),
            )
            await self._audit("source.sync", request.name)
            return pb.SyncSourceResponse(
                run=run_name(name.knowledge_base_id, started.run_id), already_running=started.is_already_running
            )

        return await once(
            self._stores.idempotency, "SyncSource", request.request_id, request, pb.SyncSourceResponse, act
        )

    async def ListSourceItems(self, request: pb.ListSourceItemsRequest, context: Any) -> pb.ListSourceItemsResponse:
        """See the contract."""
        name = parse_name("source", request.parent, field="parent")
        size = page_size_of(request.page_size)
        listing = f"{request.parent}/items"
        rows = await self._stores.sources.list_items(
            require_call().identity,
            name.knowledge_base_id,
            name.identifier,
            _read_key_token(listing, request.page_token),
            size + 1,
        )
        page = rows[:size]
        more = _make_key_token(listing, page[-1].key) if len(rows) > size else ""
        return pb.ListSourceItemsResponse(
            items=[item_to_wire(name.knowledge_base_id, row) for row in page], next_page_token=more
        )

    async def _create(self, request: pb.CreateSourceRequest) -> pb.Source:
        name = parse_name("knowledge base", request.parent, field="parent")
        identity = require_call().identity
        spec = spec_of(request.source)
        self._check_place(identity, spec)
        identifier = request.source_id or f"{kind_of(spec.place)}-{secrets.token_hex(4)}"
        if not _IDENTIFIER.fullmatch(identifier):
            raise InvalidArgumentError(
                "SOURCE_ID_INVALID",
                "an identifier is 1 to 63 of a-z, 0-9 and -; leave it empty to have one made",
                field="source_id",
            )
        row = await self._stores.sources.create(identity, name.knowledge_base_id, identifier, spec)
        await self._audit("source.create", f"{request.parent}/sources/{identifier}")
        return source_to_wire(row)

    async def _update(self, request: pb.UpdateSourceRequest) -> pb.Source:
        name = parse_name("source", request.source.name, field="source.name")
        identity = require_call().identity
        paths = changed_paths(request)
        current = await self._stores.sources.get(identity, name.knowledge_base_id, name.identifier)
        spec = merged_spec(current.spec, request.source, paths)
        if "place" in paths:
            self._check_place(identity, spec)
        else:
            self._check_access(identity, spec)
        row = await self._stores.sources.update(
            identity,
            name.knowledge_base_id,
            name.identifier,
            spec,
            etag=request.source.etag or current.etag,
            takes_over="place" in paths,
        )
        await self._audit("source.update", request.source.name)
        return source_to_wire(row)

    async def _delete(self, request: pb.DeleteSourceRequest) -> pb.DeleteSourceResponse:
        name = parse_name("source", request.name)
        if request.documents not in (pb.DeleteSourceRequest.DOCUMENTS_KEEP, pb.DeleteSourceRequest.DOCUMENTS_DELETE):
            raise InvalidArgumentError(
                "SOURCE_DOCUMENTS_UNDECIDED",
                "say what becomes of the source's documents: DOCUMENTS_KEEP or DOCUMENTS_DELETE",
                field="documents",
            )
        identity = require_call().identity
        document_ids = await self._stores.sources.begin_delete(identity, name.knowledge_base_id, name.identifier)
        runs: list[str] = []
        if request.documents == pb.DeleteSourceRequest.DOCUMENTS_DELETE:
            # The right to delete the source was checked; access lists that it set itself do not stand in the way.
            acting = replace(identity, role=Role.OWNER)
            for start in range(0, len(document_ids), _DELETE_BATCH):
                runs.extend(await self._delete_documents(acting, name, document_ids[start : start + _DELETE_BATCH]))
        await self._stores.sources.finish_delete(identity, name.knowledge_base_id, name.identifier)
        await self._audit("source.delete", request.name)
        return pb.DeleteSourceResponse(runs=[run_name(name.knowledge_base_id, run) for run in runs])

    async def _delete_documents(self, identity: Identity, name: ResourceName, document_ids: Any) -> list[str]:
        async def delete(ids: Any) -> str:
            return await self._stores.documents.delete(
                identity, name.knowledge_base_id, ids, secrets.token_hex(16), _headers()
            )

        try:
            return [await delete(document_ids)]
        except NotFoundError:
            pass  # Somebody has deleted one of them meanwhile, so that none was.
        runs = []
        for document_id in document_ids:
            try:
                runs.append(await delete([document_id]))
            except NotFoundError:
                continue
        return runs

    def _check_place(self, identity: Identity, spec: SourceSpec) -> None:
        kind = kind_of(spec.place)
        if kind in PLATFORM_KINDS and identity.role < Role.ADMIN:
            raise PermissionDeniedError(
                "SOURCE_KIND_FORBIDDEN",
                f"a source of kind {kind} reaches the platform's own systems: the role ADMIN is needed",
                kind=kind,
            )
        self._check_access(identity, spec)

    def _check_access(self, identity: Identity, spec: SourceSpec) -> None:
        capabilities = self._stores.connectors.check(identity.tenant_id, spec.place)
        if spec.access.follows_source and not capabilities.maps_access:
            raise InvalidArgumentError(
                "SOURCE_ACCESS_UNSUPPORTED",
                f"a source of kind {kind_of(spec.place)} has no access lists to follow; name allowed users and groups",
                field="source.access.follows_source",
            )

    async def _audit(self, action: str, resource: str) -> None:
        call = require_call()
        await self._stores.audit.append(call.identity, action, resource, "ok", call.request_id, {})


def _headers() -> dict[str, str]:
    return {**outgoing_headers(), "request_id": require_call().request_id}


def _listing_digest(listing: str) -> bytes:
    return hashlib.sha256(listing.encode()).hexdigest()[:_DIGEST_CHARACTERS].encode()


def _make_key_token(listing: str, key: str) -> str:
    """Make the token of a page after a key of any characters."""
    return base64.urlsafe_b64encode(_listing_digest(listing) + key.encode()).decode().rstrip("=")


def _read_key_token(listing: str, token: str) -> str:
    """Read what `_make_key_token` made for the same listing; "" for the first page."""
    if not token:
        return ""
    try:
        content = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        key = content[_DIGEST_CHARACTERS:].decode()
    except (binascii.Error, UnicodeDecodeError, ValueError) as error:
        raise _token_invalid() from error
    is_ours = content[:_DIGEST_CHARACTERS] == _listing_digest(listing)
    if not is_ours or not key or len(key.encode()) > MAX_KEY_BYTES or "\x00" in key:
        raise _token_invalid()
    return key


def _token_invalid() -> InvalidArgumentError:
    return InvalidArgumentError(
        "PAGE_TOKEN_INVALID",
        "page_token must be the next_page_token of the same listing; leave it empty for the first page",
        field="page_token",
    )
