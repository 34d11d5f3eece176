"""The HTTP/JSON application: finds the method of a request, and answers in the form that its kind needs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc.aio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from corpusmesh_core.errors import CorpusMeshError, NotFoundError, UnauthenticatedError
from corpusmesh_gateway.config import HttpSettings, LimitSettings
from corpusmesh_gateway.http.bodies import check_length, read_body, stream_body, unless_gone
from corpusmesh_gateway.http.docs_page import DOCS_CSP, render_docs
from corpusmesh_gateway.http.loopback import Loopback, request_id_of
from corpusmesh_gateway.http.openapi import describe
from corpusmesh_gateway.http.responses import (
    LingeringClose,
    SecurityHeaders,
    error_response,
    status_of_rpc,
    status_response,
)
from corpusmesh_gateway.http.routes import Binding, MethodNotAllowedError, RouteTable
from corpusmesh_gateway.http.streams import original_response, picture_response, stream_response
from corpusmesh_gateway.http.transcoding import build_request, to_json
from corpusmesh_gateway.http.uploads import form_messages, raw_messages, send_upload
from corpusmesh_gateway.mcp.door import McpDoor
from corpusmesh_gateway.openai.endpoint import OpenAIEndpoint
from corpusmesh_runtime.status import to_status

UPLOAD_METHOD = "/corpusmesh.ingest.v1.DocumentService/UploadDocuments"
ORIGINAL_METHOD = "/corpusmesh.ingest.v1.DocumentService/ReadOriginal"
PREVIEW_METHOD = "/corpusmesh.ingest.v1.ChunkService/PreviewChunks"
PREVIEW_BODY_BYTES = 5 * 1024 * 1024
"""A document of 3 MiB in base64, with what is said beside it."""
PICTURE_METHOD = "/corpusmesh.ingest.v1.DocumentService/ReadPicture"
_MAX_INLINE_BYTES = 64 * 1024
_ALL_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


class HttpGateway:
    """Answers HTTP requests by calls of the gateway's own gRPC port."""

    def __init__(
        self,
        routes: RouteTable,
        loopback: Loopback,
        settings: HttpSettings,
        limits: LimitSettings,
        readiness: Callable[[], Awaitable[bool]],
    ) -> None:
        """Create the application's parts.

        Args:
            routes: Paths of the contract.
            loopback: Leads to the gRPC port.
            settings: Bounds.
            limits: What one key may take.
            readiness: Tells whether the gateway can serve.
        """
        self._routes = routes
        self._loopback = loopback
        self._settings = settings
        self._limits = limits
        self._readiness = readiness
        self._mcp = McpDoor(routes, loopback, settings)

    def application(self) -> Starlette:
        """Make the ASGI application.

        Returns:
            The application.
        """
        routes: list[BaseRoute] = [
            Route("/livez", self._livez),
            Route("/readyz", self._readyz),
            Route("/v1/{path:path}", self._call, methods=_ALL_METHODS),
        ]
        if self._settings.mcp_enabled:
            routes.insert(2, Route("/mcp", self._mcp))
        if self._settings.openai_enabled:
            # Before the contract's own paths.
            routes[2:2] = OpenAIEndpoint(self._routes, self._loopback, self._settings).routes()
        if self._settings.docs_enabled:
            spec = describe(self._routes)
            page = render_docs(spec)

            async def openapi(_: Request) -> Response:
                return JSONResponse(spec, headers={"Cache-Control": "no-cache"})

            async def docs(_: Request) -> Response:
                return HTMLResponse(page, headers={"Content-Security-Policy": DOCS_CSP, "Cache-Control": "no-cache"})

            routes += [Route("/openapi.json", openapi), Route("/docs", docs)]
        handlers: dict[Any, Any] = {
            CorpusMeshError: _answer_error,
            grpc.aio.AioRpcError: _answer_rpc_error,
            HTTPException: _answer_http_exception,
            ClientDisconnect: _answer_disconnect,
            Exception: _answer_fault,
        }
        return Starlette(
            routes=routes,
            middleware=[Middleware(LingeringClose), Middleware(SecurityHeaders)],
            exception_handlers=handlers,
        )

    async def stop(self) -> None:
        """End what runs beside the requests."""
        await self._mcp.stop()

    async def _livez(self, _: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _readyz(self, _: Request) -> Response:
        ready = await self._readiness()
        return PlainTextResponse("ok\n" if ready else "not ready\n", status_code=200 if ready else 503)

    async def _call(self, request: Request) -> Response:
        raw_path = request.scope.get("raw_path") or request.url.path.encode()
        binding, variables = self._routes.find(request.method, raw_path.decode("ascii"))
        # Refused before a byte of the body is read; whether the credential is good is found out by the call.
        if not request.headers.get("authorization"):
            raise UnauthenticatedError(
                "CREDENTIAL_MISSING", "send an API key with the call: authorization: Bearer cm_<id>_<secret>"
            )
        headers = {"X-Request-Id": request_id_of(request)}
        if binding.full_method == UPLOAD_METHOD:
            return await self._upload(binding, variables["settings.parent"], request, headers)
        is_preview = binding.full_method == PREVIEW_METHOD
        body = await read_body(
            request,
            max_bytes=max(self._settings.max_json_body_bytes, PREVIEW_BODY_BYTES if is_preview else 0),
            timeout_seconds=self._settings.body_timeout_seconds,
        )
        arguments = (binding, variables, request.query_params.multi_items(), body)
        # Protobuf's JSON is Python: 200 hits take 12 ms, for which the loop must not wait.
        is_small = len(body) < _MAX_INLINE_BYTES
        message = build_request(*arguments) if is_small else await asyncio.to_thread(build_request, *arguments)
        call = self._loopback.call(binding, message, request)
        if binding.full_method == ORIGINAL_METHOD:
            return await original_response(call, request, headers)
        if binding.full_method == PICTURE_METHOD:
            return await picture_response(call, request, headers)
        if binding.method.server_streaming:
            heartbeat_seconds = self._settings.stream_heartbeat_seconds
            return await stream_response(call, request, heartbeat_seconds=heartbeat_seconds, headers=headers)
        response = await unless_gone(request, call)
        is_small = response.ByteSize() < _MAX_INLINE_BYTES
        content = to_json(response) if is_small else await asyncio.to_thread(to_json, response)
        return Response(content, media_type="application/json", headers=headers)

    async def _upload(self, binding: Binding, parent: str, request: Request, headers: dict[str, str]) -> Response:
        max_bytes = self._limits.max_upload_stream_bytes
        check_length(request, max_bytes)
        pieces = stream_body(request, max_bytes=max_bytes, idle_timeout_seconds=self._settings.body_timeout_seconds)
        is_form = request.headers.get("content-type", "").lower().startswith("multipart/form-data")
        messages = (form_messages if is_form else raw_messages)(parent, request, pieces)
        response = await send_upload(self._loopback.call(binding, None, request), messages, request)
        return Response(to_json(response), media_type="application/json", headers=headers)


async def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, CorpusMeshError)
    request_id = request_id_of(request)
    headers = {"X-Request-Id": request_id}
    if isinstance(error, MethodNotAllowedError):
        response = error_response(
            NotFoundError(error.reason, error.message, allowed=error.allowed), request_id=request_id
        )
        response.status_code = 405
        response.headers.update({**headers, "Allow": error.allowed})
        return response
    return error_response(error, request_id=request_id, headers=headers)


async def _answer_rpc_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, grpc.aio.AioRpcError)
    return status_response(status_of_rpc(error), headers={"X-Request-Id": request_id_of(request)})


async def _answer_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = error_response(
        NotFoundError("ROUTE_NOT_FOUND", "there is no such path; /openapi.json lists all"),
        request_id=request_id_of(request),
        headers=error.headers,
    )
    response.status_code = error.status_code
    return response


async def _answer_disconnect(_: Request, __: Exception) -> Response:
    return Response(status_code=499)


async def _answer_fault(request: Request, error: Exception) -> Response:
    # Its text is hidden here; the server writes the exception into the log by itself.
    request_id = request_id_of(request)
    return status_response(to_status(error, request_id=request_id), headers={"X-Request-Id": request_id})
