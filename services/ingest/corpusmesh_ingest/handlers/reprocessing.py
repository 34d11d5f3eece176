"""New versions from originals that are there: of one document, or of all of a knowledge base."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from corpusmesh.ingest.v1 import document_service_pb2 as pb
from corpusmesh_core.errors import InvalidArgumentError, NotFoundError
from corpusmesh_core.ports.embedding import Embedder
from corpusmesh_core.ports.metadata import DocumentStore, KnowledgeBaseStore
from corpusmesh_core.ports.runs import Derivation, IngestResult, RunStore
from corpusmesh_core.tenancy import Access, KnowledgeBase, VersionRow
from corpusmesh_ingest.convert import name_prefix_of, run_name, version_name
from corpusmesh_ingest.handlers.paging import make_page_token, read_page_token
from corpusmesh_ingest.names import parse_name
from corpusmesh_ingest.own_settings import own_config_of
from corpusmesh_ingest.sealing import PasswordSealer
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.version_runs import GROUP_DOCUMENTS, VersionRuns

_MAX_RELISTS = 3


@dataclass(frozen=True, slots=True)
class DerivationDependencies:
    """What makes versions from versions.

    Attributes:
        knowledge_bases: Configuration and rights.
        documents: What there is.
        runs: Makes the versions.
        sealer: Seals passwords.
        embedder: Says how much it reads of one text.
        max_documents: Documents that one run takes.
    """

    knowledge_bases: KnowledgeBaseStore
    documents: DocumentStore
    runs: RunStore
    sealer: PasswordSealer
    embedder: Embedder
    max_documents: int


class Reprocessor:
    """Starts runs that make new versions of what is there."""

    def __init__(self, dependencies: DerivationDependencies) -> None:
        """Create the reprocessor.

        Args:
            dependencies: What it stands on.
        """
        self._stores = dependencies
        self._versions = VersionRuns(dependencies.runs, dependencies.documents)

    async def derive(
        self,
        knowledge_base: KnowledgeBase,
        derivations: Sequence[Derivation],
        *,
        request_id: str,
        hold_publish: bool = False,
        is_interactive: bool = True,
        run_id: str = "",
        is_last: bool = True,
    ) -> IngestResult:
        """Make versions.

        Args:
            knowledge_base: Their knowledge base.
            derivations: What to make.
            request_id: Names the run; "" for none.
            hold_publish: Whether to leave them unpublished.
            is_interactive: Whether somebody waits.
            run_id: Run to add to; "" to begin one.
            is_last: Whether no more follow.

        Returns:
            The run and its versions.
        """
        return await self._versions.derive(
            knowledge_base,
            derivations,
            request_id=request_id,
            hold_publish=hold_publish,
            is_interactive=is_interactive,
            run_id=run_id,
            is_last=is_last,
        )

    async def made_by(self, knowledge_base_id: str, request_id: str) -> Sequence[VersionRow]:
        """Give the versions that an earlier call under a request id has begun.

        Args:
            knowledge_base_id: Their knowledge base.
            request_id: Names the run.

        Returns:
            The versions by ordinal.
        """
        return await self._stores.runs.made_by(require_call().identity, knowledge_base_id, request_id)

    async def one(self, request: pb.ReprocessDocumentRequest) -> pb.ReprocessDocumentResponse:
        """Make a new version of one document.

        Args:
            request: What to make it with.

        Returns:
            Run and version.
        """
        name = parse_name("document", request.name)
        check_request_id(request.request_id)
        identity = require_call().identity
        knowledge_base = await self._stores.knowledge_bases.get(identity, name.knowledge_base_id, Access.WRITE)
        version = 0
        if request.version:
            chosen = parse_name("version", request.version, field="version")
            if (chosen.knowledge_base_id, chosen.identifier) != (name.knowledge_base_id, name.identifier):
                raise InvalidArgumentError(
                    "VERSION_OF_ANOTHER_DOCUMENT", "version must be one of the document's own", field="version"
                )
            version = chosen.version
        derivation = Derivation(
            name.identifier,
            version=version,
            config=await self._config(request),
            forgets_config=request.follow_knowledge_base,
            sealed_password=(
                self._stores.sealer.seal(identity.tenant_id, request.password) if request.password else b""
            ),
        )
        result = await self.derive(
            knowledge_base, [derivation], request_id=request.request_id, hold_publish=request.hold_publish
        )
        return pb.ReprocessDocumentResponse(
            run=run_name(name.knowledge_base_id, result.run_id), version=version_name(result.versions[0])
        )

    async def all(self, request: pb.ReprocessKnowledgeBaseRequest) -> pb.ReprocessKnowledgeBaseResponse:
        """Make a new version of every document that the caller may read, in groups of one run.

        Args:
            request: What to make them with.

        Returns:
            The run, and a token where there are more documents than one run takes.
        """
        name = parse_name("knowledge base", request.name)
        check_request_id(request.request_id)
        knowledge_base = await self._stores.knowledge_bases.get(
            require_call().identity, name.knowledge_base_id, Access.WRITE
        )
        derivation = Derivation(
            "",
            config=await self._config(request),
            forgets_config=request.follow_knowledge_base,
        )
        prefix = name_prefix_of(request.display_name_prefix)
        listing = f"{request.name}/reprocess/{prefix}"
        after = read_page_token(listing, request.page_token)
        run_id, count = "", 0
        document_ids = await self._list(knowledge_base, after, prefix)
        while document_ids:
            group, following = document_ids[:GROUP_DOCUMENTS], document_ids[GROUP_DOCUMENTS:]
            is_last = not following or count + len(group) >= self._stores.max_documents
            result = await self._derive_group(
                knowledge_base, group, derivation, request, run_id=run_id, is_last=is_last, after=after, prefix=prefix
            )
            run_id, after, count = result.run_id, group[-1], count + len(result.versions)
            if is_last:
                break
            document_ids = await self._list(knowledge_base, after, prefix)
        more = bool(document_ids[GROUP_DOCUMENTS:])
        return pb.ReprocessKnowledgeBaseResponse(
            run=run_name(name.knowledge_base_id, run_id) if run_id else "",
            document_count=count,
            next_page_token=make_page_token(listing, after) if more else "",
        )

    async def _derive_group(
        self,
        knowledge_base: KnowledgeBase,
        group: Sequence[str],
        derivation: Derivation,
        request: pb.ReprocessKnowledgeBaseRequest,
        *,
        run_id: str,
        is_last: bool,
        after: str,
        prefix: str,
    ) -> IngestResult:
        for attempt in range(_MAX_RELISTS):
            try:
                return await self.derive(
                    knowledge_base,
                    [replace(derivation, document_id=document_id) for document_id in group],
                    request_id=request.request_id,
                    hold_publish=request.hold_publish,
                    is_interactive=False,
                    run_id=run_id,
                    is_last=is_last,
                )
            except NotFoundError:
                # One of them was deleted since it was listed.
                if attempt == _MAX_RELISTS - 1:
                    raise
            listed = await self._list(knowledge_base, after, prefix)
            group = [document_id for document_id in listed if document_id <= group[-1]] if group else []
        raise AssertionError("the last attempt returns or raises")

    async def _config(
        self, request: pb.ReprocessDocumentRequest | pb.ReprocessKnowledgeBaseRequest
    ) -> dict[str, object]:
        return await own_config_of(
            request,
            self._stores.knowledge_bases,
            require_call().identity,
            embedder_max_tokens=self._stores.embedder.max_input_tokens,
        )

    async def _list(self, knowledge_base: KnowledgeBase, after: str, prefix: str) -> list[str]:
        rows = await self._stores.documents.list(
            require_call().identity,
            knowledge_base.knowledge_base_id,
            after,
            GROUP_DOCUMENTS + 1,
            name_prefix=prefix,
        )
        return [row.document_id for row in rows]


def check_request_id(request_id: str) -> None:
    """Check the identifier that names a run.

    Args:
        request_id: The identifier; "" for none.

    Raises:
        InvalidArgumentError: REQUEST_ID_INVALID if it is no UUID.
    """
    if not request_id:
        return
    try:
        uuid.UUID(request_id)
    except ValueError as error:
        raise InvalidArgumentError("REQUEST_ID_INVALID", "request_id must be a UUID", field="request_id") from error
