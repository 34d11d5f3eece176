"""Errors in the shape that OpenAI's clients read."""

import json
from collections.abc import Mapping
from typing import Any, Final

from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status
from starlette.responses import Response

from corpusmesh_gateway.http.responses import status_response

_TYPE_BY_HTTP_CODE: Final[Mapping[int, str]] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    409: "conflict_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
}
_CODES: Final[Mapping[str, str]] = {
    "API_KEY_INVALID": "invalid_api_key",
    "CREDENTIAL_MISSING": "invalid_api_key",
    "KNOWLEDGE_BASE_NOT_FOUND": "model_not_found",
    "MODEL_NOT_FOUND": "model_not_found",
    "PARAMETER_UNKNOWN": "unknown_parameter",
    "PARAMETER_UNSUPPORTED": "unsupported_parameter",
    "REQUEST_RATE_EXCEEDED": "rate_limit_exceeded",
}
"""Codes that clients know; of other reasons the reason itself in lower case is the code."""
_PARAMS: Final[Mapping[str, str]] = {"question": "messages", "knowledge_bases": "model", "history": "messages"}


def openai_error_response(status: Status, headers: Mapping[str, str]) -> Response:
    """Answer with an error.

    Args:
        status: The status of the call.
        headers: Further headers.

    Returns:
        The response, with the same HTTP code and headers that other paths answer with.
    """
    plain = status_response(status, headers=headers)
    body = json.dumps({"error": openai_error(status, plain.status_code)}, ensure_ascii=False)
    kept = {key: value for key, value in plain.headers.items() if key not in ("content-length", "content-type")}
    return Response(body, status_code=plain.status_code, headers=kept, media_type="application/json")


def openai_error(status: Status, http_code: int = 0) -> dict[str, Any]:
    """Write an error.

    Args:
        status: The status of the call.
        http_code: Its HTTP code; 0 to find it.

    Returns:
        The value of `error`.
    """
    http_code = http_code or status_response(status).status_code
    reason, param = "", None
    for detail in status.details:
        info, request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
        if detail.Unpack(info):
            reason = info.reason
        elif detail.Unpack(request) and request.field_violations:
            param = request.field_violations[0].field
    return {
        "message": status.message,
        "type": _TYPE_BY_HTTP_CODE.get(http_code, "server_error"),
        "param": _PARAMS.get(param, param) if param else None,
        "code": _CODES.get(reason, reason.lower() or None),
    }
