"""Every error comes back from the wire as what it was."""

import grpc
import grpc.aio
import pytest
from google.rpc.status_pb2 import Status

from corpusmesh_client import error_from_rpc, error_from_status
from corpusmesh_client.errors import retry_delay_seconds
from corpusmesh_core import errors
from corpusmesh_core.errors import CorpusMeshError, DocumentError, InternalError, OverloadedError, UnavailableError
from corpusmesh_runtime.status import code_of, to_status

CLASSES = [
    errors.InvalidArgumentError,
    errors.UnauthenticatedError,
    errors.PermissionDeniedError,
    errors.NotFoundError,
    errors.FailedPreconditionError,
    errors.AlreadyExistsError,
    errors.ConflictError,
    errors.OverloadedError,
    errors.UnavailableError,
    errors.DeadlineExceededError,
]


def over_the_wire(error: CorpusMeshError) -> grpc.aio.AioRpcError:
    status = to_status(error, request_id="r-1")
    trailing = grpc.aio.Metadata(("grpc-status-details-bin", status.SerializeToString()))
    return grpc.aio.AioRpcError(code_of(error), grpc.aio.Metadata(), trailing, details=status.message)


@pytest.mark.parametrize("cls", CLASSES)
def test_error_survives_the_wire(cls: type[CorpusMeshError]) -> None:
    sent = cls("SOME_REASON", "what was wrong", field="a.b", retry_delay_seconds=2.5, limit=512, name="x")
    got = error_from_rpc(over_the_wire(sent))
    assert type(got) is cls
    assert (got.reason, got.message, got.field, got.retry_delay_seconds) == (
        "SOME_REASON",
        "what was wrong",
        "a.b",
        2.5,
    )
    assert dict(got.metadata) == {"limit": "512", "name": "x"}


def test_document_errors_keep_their_class() -> None:
    assert type(error_from_rpc(over_the_wire(DocumentError("DOCUMENT_ENCRYPTED", "locked")))) is DocumentError


def test_metadata_spelt_like_a_parameter_is_kept() -> None:
    status = to_status(OverloadedError("FULL", "full"))
    detail = next(item for item in status.details if item.TypeName() == "google.rpc.ErrorInfo")
    from google.rpc.error_details_pb2 import ErrorInfo

    info = ErrorInfo()
    detail.Unpack(info)
    info.metadata["field"] = "f"
    info.metadata["reason"] = "r"
    detail.Pack(info)
    assert dict(error_from_status(status).metadata) == {"field": "f", "reason": "r"}


def test_hidden_fault_names_the_request_for_the_log() -> None:
    got = error_from_rpc(over_the_wire(InternalError("BROKEN", "secret")))
    assert isinstance(got, InternalError)
    assert "secret" not in got.message
    assert got.metadata["request_id"] == "r-1"


def test_failure_without_details_has_the_name_of_its_code() -> None:
    bare = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), "gone")
    got = error_from_rpc(bare)
    assert isinstance(got, UnavailableError)
    assert (got.reason, got.message) == ("UNAVAILABLE", "gone")
    assert retry_delay_seconds(bare) is None


@pytest.mark.parametrize("trailer", [b"\xff\xff\xff", Status(code=3, message="other code").SerializeToString()])
def test_broken_or_contradicting_details_are_ignored(trailer: bytes) -> None:
    metadata = grpc.aio.Metadata(("grpc-status-details-bin", trailer))
    got = error_from_rpc(grpc.aio.AioRpcError(grpc.StatusCode.NOT_FOUND, grpc.aio.Metadata(), metadata, "gone"))
    assert type(got) is errors.NotFoundError
    assert got.message == "gone"


@pytest.mark.parametrize("code", [grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNIMPLEMENTED])
def test_other_codes_are_internal(code: grpc.StatusCode) -> None:
    bare = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), "text")
    assert type(error_from_rpc(bare)) is InternalError


def test_retry_delay_is_read_from_the_details() -> None:
    assert retry_delay_seconds(over_the_wire(OverloadedError("FULL", "full", retry_delay_seconds=0.25))) == 0.25


def test_a_server_that_ended_during_the_call_is_unavailable() -> None:
    bare = grpc.aio.AioRpcError(grpc.StatusCode.CANCELLED, grpc.aio.Metadata(), grpc.aio.Metadata(), "ended")
    assert isinstance(error_from_rpc(bare), UnavailableError)
