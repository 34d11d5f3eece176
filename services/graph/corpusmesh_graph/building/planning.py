"""What a build has to make: which subgraphs of the graph before hold, and which are made under which ordinals."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import FailedPreconditionError
from corpusmesh_core.graphs.fingerprints import digest, extraction_fingerprint, form_of
from corpusmesh_core.graphs.ledger import Ledger, as_digests, no_digests
from corpusmesh_core.graphs.settings import GraphMethod, GraphSettings
from corpusmesh_core.ports.builds import PublishedState
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_graph.building.drafts import WAITS, GraphDraft, Wanted
from corpusmesh_graph.building.scope import BuildScope

_PAGE_VERSIONS: Final = 2_000


def inputs_of(settings: GraphSettings, model: str) -> bytes:
    """Digest what must stay the same from the first slice of a build to the last.

    Args:
        settings: How the graph is made.
        model: What the language model's session says of itself.

    Returns:
        The digest.
    """
    return digest(settings, model)


async def begin_draft(
    scope: BuildScope, state: PublishedState, ledger: Ledger, model: str, *, is_full: bool
) -> GraphDraft:
    """Plan a build.

    Args:
        scope: The build's task, whose draft is not there yet.
        state: What the knowledge base shows.
        ledger: The graph before.
        model: What the language model's session says of itself.
        is_full: Whether every subgraph is made anew.

    Returns:
        The draft; the ordinals of what is made are reserved.

    Raises:
        FailedPreconditionError: GRAPH_TOO_LARGE if there are too many chunks.
    """
    claim, settings = scope.context.claim, scope.graph
    triples: Mapping[str, str] = {}
    if GraphMethod.TRIPLES in settings.methods:
        triples = await scope.stores.triples.triple_digests(claim.tenant_id, claim.knowledge_base_id)
    given = {document: digest_ for document, digest_ in triples.items() if ledger.triples.get(document) != digest_}
    changed = given.keys() | (ledger.triples.keys() - triples.keys())
    of_documents = await scope.stores.builds.versions_of(claim.tenant_id, claim.knowledge_base_id, changed)
    touched = {version for versions in of_documents.values() for version in versions}
    published = np.array(state.versions, np.int32)
    kept = published[:0] if is_full else kept_versions(published, ledger, settings, model, touched)
    versions = published[~np.isin(published, kept)]
    rows = await _rows(scope, versions.tolist())
    versions = np.array(sorted(rows), np.int32)
    wanted = Wanted(
        versions=versions,
        chunk_counts=np.array([rows[version].chunk_count for version in versions.tolist()], np.int32),
        fingerprints=as_digests(
            [
                extraction_fingerprint(settings, model, triples.get(rows[version].document_id, ""))
                for version in versions.tolist()
            ]
        ),
        texts=no_digests(len(versions)),
        record_counts=np.full(len(versions), WAITS, np.int32),
        origins=np.zeros(len(versions), np.int32)
        if is_full
        else await _origins(scope, ledger, published, [rows[version] for version in versions.tolist()]),
    )
    chunk_count = int(wanted.chunk_counts.sum())
    chunk_count += int(ledger.chunk_counts[np.isin(ledger.versions, kept)].sum())
    if chunk_count > scope.settings.max_chunk_count:
        raise FailedPreconditionError(
            "GRAPH_TOO_LARGE",
            f"the graph of a knowledge base may have {scope.settings.max_chunk_count:,} chunks",
            chunk_count=chunk_count,
        )
    if len(versions):
        named = hashlib.blake2b(versions.tobytes() + wanted.fingerprints.tobytes(), digest_size=8).hexdigest()
        first = await scope.stores.builds.reserve(claim, f"documents.{state.snapshot_id}.{named}", len(versions))
        wanted.ordinals = np.arange(first, first + len(versions), dtype=np.int32)
    return GraphDraft(
        space_id=state.space_id,
        snapshot_id=state.snapshot_id,
        inputs=inputs_of(settings, model),
        kept=kept,
        wanted=wanted,
        triples=triples,
    )


def kept_versions(
    published: NDArray[np.int32], ledger: Ledger, settings: GraphSettings, model: str, touched: Collection[int]
) -> NDArray[np.int32]:
    """Tell which versions' subgraphs stay as they are.

    Args:
        published: Versions that the graph shall cover, ascending.
        ledger: The graph before.
        settings: How the graph is made.
        model: What the language model's session says of itself.
        touched: Versions of documents whose triples are others by now.

    Returns:
        Those of `published`.
    """
    if ledger.form != form_of(settings) or not len(ledger.versions):
        return published[:0]
    plain = np.frombuffer(extraction_fingerprint(settings, model, ""), np.uint8)
    is_current = (ledger.fingerprints == plain).all(axis=1)
    if GraphMethod.TRIPLES in settings.methods:
        # Those of documents with triples have digests of their own; there are few of them.
        expected = {extraction_fingerprint(settings, model, triples) for triples in set(ledger.triples.values())}
        for place in np.flatnonzero(~is_current).tolist():
            is_current[place] = bytes(ledger.fingerprints[place]) in expected
    held = ledger.versions[is_current & ~np.isin(ledger.versions, sorted(touched))]
    found: NDArray[np.int32] = published[np.isin(published, held)]
    return found


async def _origins(
    scope: BuildScope, ledger: Ledger, published: NDArray[np.int32], rows: Sequence[VersionRow]
) -> NDArray[np.int32]:
    """Tell from which version in the graph before the subgraph of each may be taken over."""
    gone = ledger.versions[~np.isin(ledger.versions, published)]
    before = await _rows(scope, gone.tolist()) if rows else {}
    by_document = {row.document_id: version for version, row in sorted(before.items())}
    origins = [
        int(row.ordinal) if ledger.place_of(int(row.ordinal)) >= 0 else by_document.get(row.document_id, 0)
        for row in rows
    ]
    return np.array(origins, np.int32)


async def _rows(scope: BuildScope, versions: Sequence[int]) -> dict[int, VersionRow]:
    found: dict[int, VersionRow] = {}
    for start in range(0, len(versions), _PAGE_VERSIONS):
        rows = await scope.stores.documents.versions_by_ordinal(
            scope.context.claim.tenant_id, versions[start : start + _PAGE_VERSIONS]
        )
        found.update((int(row.ordinal), row) for row in rows)
    return found
