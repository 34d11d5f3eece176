"""Uploads in one stream: bounded memory whatever the size, and one entry of the result per document offered."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from corpusmesh.ingest.v1 import document_service_pb2 as pb
from corpusmesh_client.errors import error_from_status
from corpusmesh_core.errors import CorpusMeshError, InternalError, InvalidArgumentError

PIECE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class UploadItem:
    """A document to upload.

    Attributes:
        display_name: File name; data only, never a path.
        content: Its bytes, or the file that holds them.
        document_id: Its identifier; "" to have one made from the display name.
        title: Title; "" for the document's own.
        source_uri: Where it came from.
        metadata: Metadata to filter by.
        access: Who may read it; None to leave it as it is.
        password: What opens it, where it is encrypted; in no `repr`.
    """

    display_name: str
    content: bytes | Path
    document_id: str = ""
    title: str = ""
    source_uri: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    access: pb.DocumentAccess | None = None
    password: str = field(default="", repr=False)

    @classmethod
    def of_file(cls, path: Path) -> "UploadItem":
        """Describe a file by its own name.

        Args:
            path: The file.

        Returns:
            The item; the file is opened when its turn comes.
        """
        return cls(display_name=path.name, content=path)


@dataclass(frozen=True, slots=True)
class UploadedItem:
    """What became of one document of an upload.

    Attributes:
        display_name: File name.
        version: Its version; "" if it was refused.
        unchanged: Whether the same content was there already.
        error: Why it was refused, or could not be read here; None if it was accepted.
    """

    display_name: str
    version: str
    unchanged: bool = False
    error: CorpusMeshError | None = None


@dataclass(frozen=True, slots=True)
class UploadResult:
    """What became of an upload.

    Attributes:
        run: Run that makes the documents searchable; "" if nothing was sent.
        documents: One entry for every item, in the order of the items.
    """

    run: str
    documents: tuple[UploadedItem, ...]


class UploadStream:
    """The messages of one upload, and what could not be read here.

    A file that cannot be opened is left out and reported; one that breaks off half-way is refused by the mesh,
    because its digest does not fit.
    """

    def __init__(self, settings: pb.UploadSettings, items: Sequence[UploadItem]) -> None:
        """Create the stream.

        Args:
            settings: What holds for the whole upload.
            items: The documents, in order.
        """
        self._settings = settings
        self._items = items
        self._failures: dict[int, CorpusMeshError] = {}
        self.sent_count = 0
        self.sent_bytes = 0

    @property
    def is_all_unreadable(self) -> bool:
        """Whether there were items and none of them could be read here."""
        return bool(self._items) and len(self._failures) == len(self._items)

    async def messages(self) -> AsyncIterator[pb.UploadDocumentsRequest]:
        """Give the messages of the stream, reading files in small pieces as the connection takes them.

        Yields:
            Settings, then header and data of every document that can be read, then the end.
        """
        yield pb.UploadDocumentsRequest(settings=self._settings)
        for position, item in enumerate(self._items):
            if isinstance(item.content, bytes):
                yield self._header(item, hashlib.sha256(item.content).hexdigest())
                view = memoryview(item.content)
                for start in range(0, len(view), PIECE_BYTES):
                    yield self._data(bytes(view[start : start + PIECE_BYTES]))
            else:
                async for message in self._file_messages(position, item, item.content):
                    yield message
            if position not in self._failures:
                self.sent_count += 1
        yield pb.UploadDocumentsRequest(end=pb.UploadEnd(document_count=self.sent_count))

    def result(self, response: pb.UploadDocumentsResponse) -> UploadResult:
        """Join the response of the mesh with what could not be read here.

        Args:
            response: The response.

        Returns:
            One entry for every item.

        Raises:
            InternalError: If the response does not fit what was sent.
        """
        answers = iter(response.documents)
        documents: list[UploadedItem] = []
        for position, item in enumerate(self._items):
            failure = self._failures.get(position)
            if failure is not None:
                documents.append(UploadedItem(item.display_name, "", error=failure))
                continue
            answer = next(answers, None)
            if answer is None:
                raise InternalError("UPLOAD_RESPONSE_SHORT", "the mesh answered for fewer documents than were sent")
            error = error_from_status(answer.error) if answer.HasField("error") and answer.error.code else None
            documents.append(UploadedItem(answer.display_name, answer.version, answer.unchanged, error))
        return UploadResult(response.run, tuple(documents))

    async def _file_messages(
        self, position: int, item: UploadItem, path: Path
    ) -> AsyncIterator[pb.UploadDocumentsRequest]:
        try:
            digest = await asyncio.to_thread(_digest, path)
            file = await asyncio.to_thread(path.open, "rb")
        except OSError as error:
            self._failures[position] = _unreadable(path, error)
            return
        try:
            yield self._header(item, digest)
            while piece := await asyncio.to_thread(_read_piece, file):
                yield self._data(piece)
        finally:
            file.close()

    def _header(self, item: UploadItem, sha256: str) -> pb.UploadDocumentsRequest:
        header = pb.DocumentHeader(
            document_id=item.document_id,
            display_name=item.display_name,
            title=item.title,
            source_uri=item.source_uri,
            metadata=dict(item.metadata),
            access=item.access,
            sha256=sha256,
            password=item.password,
        )
        return pb.UploadDocumentsRequest(header=header)

    def _data(self, piece: bytes) -> pb.UploadDocumentsRequest:
        self.sent_bytes += len(piece)
        return pb.UploadDocumentsRequest(data=piece)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_piece(file: BinaryIO) -> bytes:
    try:
        return file.read(PIECE_BYTES)
    except OSError:
        return b""  # the digest in the header makes the mesh refuse what was cut


def _unreadable(path: Path, error: OSError) -> InvalidArgumentError:
    return InvalidArgumentError(
        "FILE_UNREADABLE", f"the file {path} cannot be read ({error.strerror})", path=path, cause=error.strerror
    )
