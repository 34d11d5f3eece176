"""Which uploads are there already, and which document each of the others becomes a version of.

What the caller may not see is not there: it is neither named nor written to, whatever the caller uploads.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from corpusmesh_adapters.postgres.database import Connection
from corpusmesh_adapters.postgres.guards import visibility_arguments, visible_document
from corpusmesh_adapters.postgres.originals import lock_originals
from corpusmesh_adapters.postgres.rows import VERSION_COLUMNS, to_version
from corpusmesh_core.errors import ConflictError, InvalidArgumentError
from corpusmesh_core.ports.runs import IngestOptions
from corpusmesh_core.tenancy.identity import Identity
from corpusmesh_core.tenancy.values import DuplicatePolicy, KnowledgeBase, Upload, VersionRow

_MAX_ID_CHARACTERS = 63
_MAX_HIDDEN_ROUNDS = 4
_GONE = "('failed', 'cancelled', 'purged')"


@dataclass(frozen=True, slots=True)
class Resolved:
    """An upload and what it comes to.

    Attributes:
        upload: The upload, of the document that it becomes a version of.
        existing: Version that has its bytes already; None if one is to be made.
        same_as: Place of an earlier upload of the group whose version stands for this one too; -1 for none.
    """

    upload: Upload
    existing: VersionRow | None = None
    same_as: int = -1


@dataclass(frozen=True, slots=True)
class _Known:
    is_visible: bool
    latest: VersionRow | None


async def resolve_uploads(
    connection: Connection,
    identity: Identity,
    knowledge_base: KnowledgeBase,
    uploads: Sequence[Upload],
    options: IngestOptions,
    run_id: str,
) -> list[Resolved]:
    """Find the document and, where it is there already, the version of each upload.

    Args:
        connection: Transaction of the caller's tenant.
        identity: Caller, who may write.
        knowledge_base: Where to.
        uploads: Originals.
        options: What to do with bytes and names that are there.
        run_id: The run; what it has made already is not made again.

    Returns:
        One entry for each upload, in its order.

    Raises:
        InvalidArgumentError: DOCUMENT_TWICE if two uploads would become versions of one document.
    """
    keeps_both = options.on_duplicate is DuplicatePolicy.KEEP_BOTH
    if options.on_duplicate is DuplicatePolicy.SKIP:
        # Before the look: of two uploads of the same bytes at once the second one shall find the first.
        await lock_originals(connection, identity.tenant_id, [upload.original_sha256 for upload in uploads])
    elif keeps_both:
        await _lock_names(connection, knowledge_base, [upload.document_id for upload in uploads])
    uploads, known = await _avoid_hidden(connection, identity, knowledge_base, uploads)
    if keeps_both:
        resolved = await _keep_both(connection, identity, knowledge_base, uploads, run_id)
    else:
        resolved = [
            Resolved(upload, existing=_same_version(known.get(upload.document_id), upload, options, run_id))
            for upload in uploads
        ]
    if options.on_duplicate is DuplicatePolicy.SKIP:
        resolved = await _skip_elsewhere(connection, identity, knowledge_base, resolved)
    own = [entry.upload.document_id for entry in resolved if entry.same_as < 0]
    if options.on_duplicate is not DuplicatePolicy.SKIP and len(set(own)) != len(own):
        raise _twice()
    fresh = [entry.upload.document_id for entry in resolved if entry.same_as < 0 and entry.existing is None]
    if len(set(fresh)) != len(fresh):
        raise _twice()
    return resolved


def _twice() -> InvalidArgumentError:
    return InvalidArgumentError("DOCUMENT_TWICE", "a group of uploads names a document twice; send it once")


async def _avoid_hidden(
    connection: Connection, identity: Identity, knowledge_base: KnowledgeBase, uploads: Sequence[Upload]
) -> tuple[list[Upload], dict[str, _Known]]:
    """Give uploads that name a document which the caller may not see a document of their own."""
    uploads = list(uploads)
    known = await _known(connection, identity, knowledge_base, {upload.document_id for upload in uploads})
    first = {place: upload.document_id for place, upload in enumerate(uploads)}
    for attempt in range(_MAX_HIDDEN_ROUNDS):
        hidden = [place for place, upload in enumerate(uploads) if _is_hidden(known.get(upload.document_id))]
        if not hidden:
            return uploads, known
        for place in hidden:
            # By user: the same name of the same user is the same document again.
            digest = hashlib.sha256(f"{identity.user_id}/{attempt}/{first[place]}".encode()).hexdigest()[:8]
            uploads[place] = replace(uploads[place], document_id=_with_suffix(first[place], digest))
        moved = {uploads[place].document_id for place in hidden}
        known |= await _known(connection, identity, knowledge_base, moved)
    raise ConflictError("DOCUMENT_NAME_BUSY", "the document could not be given an identifier; give another name")


def _is_hidden(known: _Known | None) -> bool:
    return known is not None and not known.is_visible


async def _known(
    connection: Connection, identity: Identity, knowledge_base: KnowledgeBase, document_ids: Collection[str]
) -> dict[str, _Known]:
    """Read living documents by id, with their newest version."""
    rows = await connection.fetch(
        f"SELECT {VERSION_COLUMNS}, d.document_id AS known_id, {visible_document(4)} AS is_visible"  # noqa: S608
        " FROM corpusmesh.documents d LEFT JOIN corpusmesh.versions v ON v.tenant_id = d.tenant_id"
        "   AND v.knowledge_base_id = d.knowledge_base_id AND v.document_id = d.document_id"
        "   AND v.version = d.latest_version"
        " WHERE d.tenant_id = $1 AND d.knowledge_base_id = $2 AND d.document_id = ANY ($3) AND d.state = 'active'",
        identity.tenant_id,
        knowledge_base.knowledge_base_id,
        list(document_ids),
        *visibility_arguments(identity, knowledge_base.owner_user_id),
    )
    return {
        row["known_id"]: _Known(row["is_visible"], to_version(row) if row["ordinal"] is not None else None)
        for row in rows
    }


def _same_version(known: _Known | None, upload: Upload, options: IngestOptions, run_id: str) -> VersionRow | None:
    """Give the newest version of the same document where it stands for the upload, done or under way."""
    latest = known.latest if known is not None else None
    if latest is None or latest.original_sha256 != upload.original_sha256:
        return None
    if latest.run_id == run_id:
        return latest
    if options.on_duplicate is DuplicatePolicy.NEW_VERSION:
        return None
    is_gone = latest.state.value in ("failed", "cancelled", "purged")
    return None if is_gone or latest.config_hash != options.config_hash else latest


async def _skip_elsewhere(
    connection: Connection, identity: Identity, knowledge_base: KnowledgeBase, resolved: Sequence[Resolved]
) -> list[Resolved]:
    """Find uploads whose bytes another document has, or an earlier upload of the group."""
    rows = await connection.fetch(
        f"SELECT DISTINCT ON (v.original_sha256) {VERSION_COLUMNS} FROM corpusmesh.versions v"  # noqa: S608
        " JOIN corpusmesh.documents d ON d.tenant_id = v.tenant_id AND d.knowledge_base_id = v.knowledge_base_id"
        "   AND d.document_id = v.document_id AND d.latest_version = v.version"
        " WHERE v.tenant_id = $1 AND v.knowledge_base_id = $2 AND v.original_sha256 = ANY ($3)"
        f" AND v.state NOT IN {_GONE} AND {visible_document(4)}"
        " ORDER BY v.original_sha256, v.ordinal",
        identity.tenant_id,
        knowledge_base.knowledge_base_id,
        [entry.upload.original_sha256 for entry in resolved if entry.existing is None],
        *visibility_arguments(identity, knowledge_base.owner_user_id),
    )
    elsewhere = {row["original_sha256"]: to_version(row) for row in rows}
    first: dict[str, int] = {}
    result = []
    for place, entry in enumerate(resolved):
        sha256 = entry.upload.original_sha256
        version = elsewhere.get(sha256)
        if entry.existing is None and version is not None and version.document_id != entry.upload.document_id:
            entry = replace(entry, existing=version)
        elif entry.existing is None and sha256 in first:
            entry = replace(entry, same_as=first[sha256])
        elif entry.existing is None:
            first[sha256] = place
        result.append(entry)
    return result


async def _keep_both(
    connection: Connection, identity: Identity, knowledge_base: KnowledgeBase, uploads: Sequence[Upload], run_id: str
) -> list[Resolved]:
    """Give uploads whose name is taken the next free one; what the run has made of them already is theirs."""
    rows = await connection.fetch(
        "SELECT DISTINCT d.document_id, v.original_sha256, v.run_id, v.ordinal FROM unnest($3::text[]) AS base"
        " JOIN corpusmesh.documents d ON d.tenant_id = $1 AND d.knowledge_base_id = $2 AND d.state = 'active'"
        "   AND (d.document_id = base OR starts_with("
        "     d.document_id, left(base, 55) || CASE WHEN length(base) <= 55 THEN '-' ELSE '' END))"
        " JOIN corpusmesh.versions v ON v.tenant_id = $1 AND v.knowledge_base_id = $2"
        "   AND v.document_id = d.document_id AND v.version = d.latest_version",
        identity.tenant_id,
        knowledge_base.knowledge_base_id,
        list({upload.document_id for upload in uploads}),
    )
    taken: dict[str, tuple[str, str, int]] = {
        row["document_id"]: (row["original_sha256"], row["run_id"], row["ordinal"]) for row in rows
    }
    claimed: set[str] = set()
    chosen: list[tuple[Upload, int]] = []
    for upload in uploads:
        candidate, number = upload.document_id, 1
        while candidate in claimed or (candidate in taken and not _is_own(taken[candidate], upload, run_id)):
            number += 1
            candidate = _with_suffix(upload.document_id, str(number))
        claimed.add(candidate)
        ordinal = taken[candidate][2] if candidate in taken else 0
        chosen.append((replace(upload, document_id=candidate), ordinal))
    made = await _versions(connection, identity.tenant_id, [ordinal for _, ordinal in chosen if ordinal])
    return [Resolved(upload, existing=made.get(ordinal)) for upload, ordinal in chosen]


def _is_own(taken: tuple[str, str, int], upload: Upload, run_id: str) -> bool:
    sha256, made_by, _ = taken
    return made_by == run_id and sha256 == upload.original_sha256


async def _versions(connection: Connection, tenant_id: str, ordinals: Sequence[int]) -> Mapping[int, VersionRow]:
    if not ordinals:
        return {}
    rows = await connection.fetch(
        f"SELECT {VERSION_COLUMNS} FROM corpusmesh.versions v WHERE v.tenant_id = $1"  # noqa: S608 - constants
        " AND v.ordinal = ANY ($2)",
        tenant_id,
        list(ordinals),
    )
    return {row["ordinal"]: to_version(row) for row in rows}


async def _lock_names(connection: Connection, knowledge_base: KnowledgeBase, document_ids: Sequence[str]) -> None:
    await connection.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended('name/' || $1 || '/' || $2 || '/' || document_id, 0))"
        " FROM unnest($3::text[]) AS document_id",
        knowledge_base.tenant_id,
        knowledge_base.knowledge_base_id,
        sorted(set(document_ids)),
    )


def _with_suffix(document_id: str, suffix: str) -> str:
    return f"{document_id[: _MAX_ID_CHARACTERS - 1 - len(suffix)]}-{suffix}"
