"""Documents over HTTP: `multipart/form-data` with one or many files, or one file as the raw body.

Nothing is kept: a piece of the body is a message of the upload stream, and the next piece is read when that message
is on its way.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc.aio
import multipart  # type: ignore[import-untyped]
from starlette.requests import Request

from corpusmesh.ingest.v1 import document_service_pb2 as pb
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_gateway.http.bodies import unless_gone
from corpusmesh_gateway.http.transcoding import from_dict, put_text
from corpusmesh_runtime.writing import end_messages, write_message

_MAX_DATA_BYTES = 256 * 1024
_MAX_FIELD_BYTES = 64 * 1024
_MAX_PART_COUNT = 20_000
_SETTINGS = pb.UploadSettings.DESCRIPTOR
_HEADER = pb.DocumentHeader.DESCRIPTOR
_SETTINGS_FIELDS = frozenset(_SETTINGS.fields_by_name) - {"parent"}


async def send_upload(
    call: Any, messages: AsyncIterator[pb.UploadDocumentsRequest], request: Request
) -> pb.UploadDocumentsResponse:
    """Send an upload stream and wait for what became of it.

    Args:
        call: The running `UploadDocuments`.
        messages: The stream.
        request: Whose caller may leave.

    Returns:
        The response.
    """
    try:
        await _send(call, messages)
        response: pb.UploadDocumentsResponse = await unless_gone(request, call)
        return response
    finally:
        call.cancel()


async def _send(call: Any, messages: AsyncIterator[pb.UploadDocumentsRequest]) -> None:
    try:
        async for message in messages:
            if not await write_message(call, message.SerializeToString()):
                return
        await end_messages(call)
    except grpc.aio.AioRpcError:
        # The call has ended before the body has: awaiting it says why.
        return


async def raw_messages(
    parent: str, request: Request, pieces: AsyncIterator[bytes]
) -> AsyncIterator[pb.UploadDocumentsRequest]:
    """Make the upload stream of a raw body.

    Args:
        parent: The knowledge base's name.
        request: Its query says the rest; `displayName` is required.
        pieces: The body.

    Yields:
        The messages.

    Raises:
        InvalidArgumentError: If a parameter is wrong.
    """
    settings: dict[str, Any] = {}
    header: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name == "password":
            # Addresses are written into logs on their way.
            raise InvalidArgumentError(
                "PASSWORD_IN_ADDRESS", "a password does not belong into an address: send a form", field="password"
            )
        _put(settings, header, name, value)
    if not header.get("display_name"):
        raise InvalidArgumentError("DISPLAY_NAME_MISSING", "give the file's name as ?displayName=", field="displayName")
    yield _settings_message(parent, settings)
    yield _header_message(header)
    async for piece in pieces:
        for data in _split(piece):
            yield pb.UploadDocumentsRequest(data=data)
    yield _end_message(1)


async def form_messages(
    parent: str, request: Request, pieces: AsyncIterator[bytes]
) -> AsyncIterator[pb.UploadDocumentsRequest]:
    """Make the upload stream of a form.

    Fields of the whole upload (`requestId`, `interactive`, `holdPublish`) stand before the first file; fields of a
    document (`title`, `metadata` as JSON, …) stand before its file.

    Args:
        parent: The knowledge base's name.
        request: Its content type holds the boundary.
        pieces: The body.

    Yields:
        The messages.

    Raises:
        InvalidArgumentError: If the form is broken, has no file, or a field is unknown or stands in the wrong place.
    """
    form = _Form(parent)
    try:
        _, options = multipart.parse_options_header(request.headers["content-type"])
        parser = multipart.PushMultipartParser(
            options.get("boundary", ""), max_segment_count=_MAX_PART_COUNT, max_header_size=8192
        )
        with parser:
            async for piece in pieces:
                for event in parser.parse(piece):
                    for message in form.take(event):
                        yield message
    except multipart.MultipartError as error:
        raise InvalidArgumentError("FORM_INVALID", f"the form cannot be read: {error}") from error
    form.check_end()
    yield _end_message(form.document_count)


class _Form:
    """Turns the parts of a form into messages."""

    def __init__(self, parent: str) -> None:
        self._parent = parent
        self._settings: dict[str, Any] = {}
        self._header: dict[str, Any] = {}
        self._begun = False
        self.document_count = 0
        self._in_file = False
        self._field_name = ""
        self._field = bytearray()

    def take(self, event: object) -> Iterator[pb.UploadDocumentsRequest]:
        if isinstance(event, multipart.MultipartSegment):
            yield from self._begin_part(event)
        elif event is None:
            self._end_part()
        elif self._in_file:
            for data in _split(event):
                yield pb.UploadDocumentsRequest(data=data)
        else:
            self._add_to_field(event)

    def check_end(self) -> None:
        if not self._begun:
            raise InvalidArgumentError("FILE_MISSING", "the form holds no file; send one as -F file=@name")
        if self._header:
            raise InvalidArgumentError(
                "FIELD_AFTER_FILE", f"put the fields {', '.join(sorted(self._header))} before their file"
            )

    def _begin_part(self, part: "multipart.MultipartSegment") -> Iterator[pb.UploadDocumentsRequest]:
        self._in_file = bool(part.filename)
        if not self._in_file:
            self._field_name = part.name or ""
            self._field.clear()
            return
        if not self._begun:
            self._begun = True
            yield _settings_message(self._parent, self._settings)
        # The name is data: the ingest service never uses it as a path.
        yield _header_message({"display_name": part.filename, **self._header})
        self.document_count += 1
        self._header = {}

    def _add_to_field(self, piece: Any) -> None:
        self._field += piece
        if len(self._field) > _MAX_FIELD_BYTES:
            raise InvalidArgumentError(
                "FIELD_TOO_LARGE",
                f"a field may hold {_MAX_FIELD_BYTES} bytes; a file needs a filename",
                field=self._field_name[:100],
            )

    def _end_part(self) -> None:
        if self._in_file:
            self._in_file = False
            return
        try:
            text = self._field.decode()
        except UnicodeDecodeError as error:
            raise InvalidArgumentError(
                "FIELD_INVALID", f"the field {self._field_name[:100]!r} is no UTF-8", field=self._field_name[:100]
            ) from error
        is_setting = _put(self._settings, self._header, self._field_name, text)
        if is_setting and self._begun:
            raise InvalidArgumentError(
                "FIELD_AFTER_FILE", f"put the field {self._field_name!r} before the first file", field=self._field_name
            )


def _put(settings: dict[str, Any], header: dict[str, Any], name: str, text: str) -> bool:
    """Put a parameter where it belongs, and tell whether that is the settings of the upload."""
    field = _SETTINGS.fields_by_name.get(name) or _SETTINGS.fields_by_camelcase_name.get(name)
    is_setting = field is not None and field.name in _SETTINGS_FIELDS
    put_text(settings if is_setting else header, _SETTINGS if is_setting else _HEADER, name, text, json_allowed=True)
    return is_setting


def _settings_message(parent: str, settings: dict[str, Any]) -> pb.UploadDocumentsRequest:
    message = from_dict({"settings": {**settings, "parent": parent}}, pb.UploadDocumentsRequest)
    assert isinstance(message, pb.UploadDocumentsRequest)
    return message


def _header_message(header: dict[str, Any]) -> pb.UploadDocumentsRequest:
    message = from_dict({"header": header}, pb.UploadDocumentsRequest)
    assert isinstance(message, pb.UploadDocumentsRequest)
    return message


def _end_message(document_count: int) -> pb.UploadDocumentsRequest:
    return pb.UploadDocumentsRequest(end=pb.UploadEnd(document_count=document_count))


def _split(piece: Any) -> Iterator[bytes]:
    for start in range(0, len(piece), _MAX_DATA_BYTES):
        yield bytes(piece[start : start + _MAX_DATA_BYTES])
