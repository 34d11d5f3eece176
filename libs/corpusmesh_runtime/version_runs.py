"""Starts runs that make new versions of documents from what they have: for every service that wants them remade."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.ports.metadata import DocumentStore
from corpusmesh_core.ports.runs import Derivation, IngestOptions, IngestResult, RunStore
from corpusmesh_core.tenancy import KnowledgeBase
from corpusmesh_runtime.config_hash import config_hash
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.tracing import outgoing_headers

GROUP_DOCUMENTS: Final = 64
"""Documents that one transaction makes versions of."""
_MAX_LOOKS: Final = 3


@dataclass(frozen=True, slots=True)
class StartedVersions:
    """A run that makes versions.

    Attributes:
        run_id: The run; "" where there was nothing to make.
        document_ids: Documents that it makes versions of.
    """

    run_id: str
    document_ids: tuple[str, ...]


class VersionRuns:
    """Starts runs in the name of the caller."""

    def __init__(self, runs: RunStore, documents: DocumentStore) -> None:
        """Create it.

        Args:
            runs: Makes the versions.
            documents: Tells which documents there are.
        """
        self._runs = runs
        self._documents = documents

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
        """Make versions in one transaction.

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

        Raises:
            NotFoundError: If a document is unknown or forbidden; then nothing is made.
            OverloadedError: If too much work of the tenant waits already.
        """
        call = require_call()
        return await self._runs.derive(
            call.identity,
            knowledge_base.knowledge_base_id,
            derivations,
            IngestOptions(
                run_id=run_id,
                request_id=request_id,
                is_interactive=is_interactive,
                hold_publish=hold_publish,
                is_last=is_last,
                config_hash=config_hash(knowledge_base.config),
                headers={**outgoing_headers(), "request_id": call.request_id},
            ),
        )

    async def remake(
        self, knowledge_base: KnowledgeBase, document_ids: Sequence[str], *, request_id: str
    ) -> StartedVersions:
        """Make a new version of each document by what holds for it now, in groups of one run, in the bulk lane.

        What the stages made of the version before is taken over where it still holds: a change of how trees are made
        parses nothing and embeds no chunk again.

        Args:
            knowledge_base: Their knowledge base, which the caller may write.
            document_ids: The documents, each once; those that are deleted meanwhile are left out.
            request_id: Names the run; "" for none.

        Returns:
            The run; none where no document is left.

        Raises:
            OverloadedError: If too much work of the tenant waits already.
        """
        run_id = ""
        made: list[str] = []
        for start in range(0, len(document_ids), GROUP_DOCUMENTS):
            group = document_ids[start : start + GROUP_DOCUMENTS]
            is_last = start + GROUP_DOCUMENTS >= len(document_ids)
            group, run_id = await self._remake_group(
                knowledge_base, group, request_id=request_id, run_id=run_id, is_last=is_last
            )
            made.extend(group)
        return StartedVersions(run_id, tuple(made))

    async def _remake_group(
        self, knowledge_base: KnowledgeBase, group: Sequence[str], *, request_id: str, run_id: str, is_last: bool
    ) -> tuple[Sequence[str], str]:
        for look in range(_MAX_LOOKS):
            if not group and not run_id:
                return (), ""
            try:
                result = await self.derive(
                    knowledge_base,
                    [replace(_AS_IT_IS, document_id=document_id) for document_id in group],
                    request_id=request_id,
                    is_interactive=False,
                    run_id=run_id,
                    is_last=is_last,
                )
            except NotFoundError:
                # One of them was deleted since it was listed.
                if look == _MAX_LOOKS - 1:
                    raise
                group = await self._living(knowledge_base, group)
            else:
                return group, result.run_id
        raise AssertionError("the last look returns or raises")

    async def _living(self, knowledge_base: KnowledgeBase, document_ids: Sequence[str]) -> Sequence[str]:
        living: list[str] = []
        for document_id in document_ids:
            try:
                await self._documents.get(require_call().identity, knowledge_base.knowledge_base_id, document_id)
            except NotFoundError:
                continue
            living.append(document_id)
        return living


_AS_IT_IS: Final = Derivation("")
