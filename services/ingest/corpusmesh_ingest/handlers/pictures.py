"""Figures and page images of a version, in pieces."""

from collections.abc import AsyncIterator

from corpusmesh.ingest.v1 import document_service_pb2 as pb
from corpusmesh_core.artefacts import PICTURES
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_runtime.context import require_call

_PIECE_BYTES = 256 * 1024
_MAX_PICTURE_BYTES = 64 * 1024 * 1024
# Told from the bytes: a picture is shown to people, and nothing else may pass for one.
_MEDIA_TYPES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"))


async def read_picture(
    objects: ObjectStore, version: VersionRow, picture: str
) -> AsyncIterator[pb.ReadPictureResponse]:
    """Read a picture.

    Args:
        objects: The object store.
        version: The version, which the caller may read.
        picture: Name of the picture, `[a-z0-9-]{1,40}`.

    Yields:
        Its pieces; the first one tells what it is.

    Raises:
        NotFoundError: PICTURE_NOT_FOUND if the version has no such picture.
    """
    prefix = version.artefacts.get(PICTURES, "")
    if not prefix:
        raise _picture_not_found()
    try:
        content = await objects.get(
            prefix + picture, max_byte_count=_MAX_PICTURE_BYTES, timeout_seconds=require_call().remaining_seconds()
        )
    except NotFoundError as error:
        raise _picture_not_found() from error
    media_type = next((name for start, name in _MEDIA_TYPES if content.startswith(start)), "")
    if not media_type:
        raise _picture_not_found()
    first = pb.ReadPictureResponse(media_type=media_type, size_bytes=len(content))
    for start in range(0, len(content), _PIECE_BYTES):
        first.data = content[start : start + _PIECE_BYTES]
        yield first
        first = pb.ReadPictureResponse()


def _picture_not_found() -> NotFoundError:
    return NotFoundError("PICTURE_NOT_FOUND", "the version has no such picture, or you may not see it")
