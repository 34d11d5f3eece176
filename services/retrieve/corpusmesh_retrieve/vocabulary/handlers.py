"""Handlers of `VocabularyService`."""

import re
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from corpusmesh.retrieve.v1 import vocabulary_service_pb2 as pb
from corpusmesh.retrieve.v1.vocabulary_service_pb2_grpc import VocabularyServiceServicer
from corpusmesh_core.errors import ConflictError, InvalidArgumentError
from corpusmesh_core.ports.metadata import AuditLog
from corpusmesh_core.ports.vocabulary import VocabularyRow, VocabularyStore
from corpusmesh_core.text.vocabulary import Vocabulary
from corpusmesh_retrieve.vocabulary.reading import VocabularyReader
from corpusmesh_runtime.context import require_call

_NAME: Final = "vocabulary"
_PATHS: Final = frozenset(("terms", "synonyms"))
_ETAG: Final = re.compile(r"r(0|[1-9][0-9]{0,17})")
_ATTEMPTS: Final = 3


class VocabularyHandlers(VocabularyServiceServicer):
    """The words of the caller's tenant."""

    def __init__(self, store: VocabularyStore, reader: VocabularyReader, audit: AuditLog) -> None:
        """Create the handlers.

        Args:
            store: Has the words.
            reader: Serves searches of this process; told where the words change.
            audit: Keeps who changed them.
        """
        self._store = store
        self._reader = reader
        self._audit = audit

    async def GetVocabulary(self, request: pb.GetVocabularyRequest, context: Any) -> pb.Vocabulary:
        """See the contract."""
        return _to_wire(await self._read())

    async def UpdateVocabulary(self, request: pb.UpdateVocabularyRequest, context: Any) -> pb.Vocabulary:
        """See the contract."""
        call = require_call()
        paths = _paths(request)
        expected = _revision_of(request.vocabulary.etag)
        given = Vocabulary.checked(
            request.vocabulary.terms if "terms" in paths else (),
            (group.words for group in request.vocabulary.synonyms) if "synonyms" in paths else (),
        )
        for attempt in range(1, _ATTEMPTS + 1):
            current = await self._read()
            wanted = Vocabulary.checked(
                given.terms if "terms" in paths else current.vocabulary.terms,
                given.synonyms if "synonyms" in paths else current.vocabulary.synonyms,
            )
            try:
                # What is left as it is must be what was read, even where the caller would write over anything.
                row = await self._store.write(
                    call.identity, wanted, expected_revision=current.revision if expected is None else expected
                )
                break
            except ConflictError:
                if expected is not None or attempt == _ATTEMPTS:
                    raise
        self._reader.forget(call.identity.tenant_id)
        await self._audit.append(call.identity, "vocabulary.update", _NAME, "ok", call.request_id, {})
        return _to_wire(row)

    async def _read(self) -> VocabularyRow:
        row = await self._store.read(require_call().identity)
        assert row is not None
        return row


def _paths(request: pb.UpdateVocabularyRequest) -> frozenset[str]:
    if not request.HasField("update_mask"):
        return frozenset(field.name for field, _ in request.vocabulary.ListFields()) & _PATHS
    paths = frozenset(request.update_mask.paths)
    if paths == {"*"}:
        return _PATHS
    if unknown := sorted(paths - _PATHS):
        raise InvalidArgumentError(
            "UPDATE_MASK_INVALID", f"update_mask takes terms, synonyms or *, not {unknown[0][:64]}", field="update_mask"
        )
    return paths


def _revision_of(etag: str) -> int | None:
    if not etag:
        return None
    found = _ETAG.fullmatch(etag)
    if found is None:
        raise InvalidArgumentError(
            "ETAG_INVALID", "etag must be one that the mesh has given, or empty", field="vocabulary.etag"
        )
    return int(found[1])


def _to_wire(row: VocabularyRow) -> pb.Vocabulary:
    message = pb.Vocabulary(
        name=_NAME,
        terms=row.vocabulary.terms,
        synonyms=[pb.Vocabulary.SynonymGroup(words=group) for group in row.vocabulary.synonyms],
        etag=f"r{row.revision}",
        update_user=f"users/{row.update_user_id}" if row.update_user_id else "",
    )
    if row.update_time is not None:
        stamp = Timestamp()
        stamp.FromDatetime(row.update_time)
        message.update_time.CopyFrom(stamp)
    return message
