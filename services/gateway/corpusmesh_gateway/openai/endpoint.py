"""`/v1/chat/completions` and `/v1/models`: calls of the gateway's own gRPC port, like every other path."""

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import grpc.aio
from google.rpc.status_pb2 import Status
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh.retrieve.v1 import answer_service_pb2 as answer_pb
from corpusmesh_core.errors import CorpusMeshError
from corpusmesh_gateway.authentication import credential_missing
from corpusmesh_gateway.config import HttpSettings
from corpusmesh_gateway.errors import TooLargeError
from corpusmesh_gateway.http.bodies import read_body, unless_gone
from corpusmesh_gateway.http.loopback import Loopback, request_id_of
from corpusmesh_gateway.http.responses import status_of_rpc
from corpusmesh_gateway.http.routes import RouteTable
from corpusmesh_gateway.http.streams import EVENT_STREAM, HEARTBEAT, ending_call, first_message, with_heartbeats
from corpusmesh_gateway.http.transcoding import parse_json
from corpusmesh_gateway.openai.chat_request import (
    ROUTER_MODEL,
    ChatQuestion,
    knowledge_base_of_model,
    read_chat_request,
)
from corpusmesh_gateway.openai.chat_response import Completion
from corpusmesh_gateway.openai.errors import openai_error, openai_error_response
from corpusmesh_gateway.openai.text_window import TextWindow
from corpusmesh_runtime.status import to_status

ANSWER_METHOD: Final = "/corpusmesh.retrieve.v1.AnswerService/AnswerQuestion"
LIST_METHOD: Final = "/corpusmesh.ingest.v1.KnowledgeBaseService/ListKnowledgeBases"
GET_METHOD: Final = "/corpusmesh.ingest.v1.KnowledgeBaseService/GetKnowledgeBase"
_PAGE_SIZE = 500
_MAX_MODELS = 5000
_Answering = Callable[[Request], Awaitable[Response]]


class OpenAIEndpoint:
    """Answers OpenAI's clients."""

    def __init__(self, routes: RouteTable, loopback: Loopback, settings: HttpSettings) -> None:
        """Create the endpoint.

        Args:
            routes: Methods of the contract.
            loopback: Leads to the gRPC port.
            settings: Bounds.
        """
        self._answer = routes.binding(ANSWER_METHOD)
        self._list = routes.binding(LIST_METHOD)
        self._get = routes.binding(GET_METHOD)
        self._loopback = loopback
        self._settings = settings

    def routes(self) -> list[BaseRoute]:
        """Give the paths.

        Returns:
            Routes that stand before those of the contract.
        """
        return [
            Route("/v1/chat/completions", _in_their_shape(self._complete), methods=["POST"]),
            Route("/v1/models", _in_their_shape(self._models), methods=["GET"]),
            Route("/v1/models/{model:path}", _in_their_shape(self._model), methods=["GET"]),
        ]

    async def _complete(self, request: Request) -> Response:
        body = await read_body(
            request,
            max_bytes=self._settings.max_json_body_bytes,
            timeout_seconds=self._settings.body_timeout_seconds,
        )
        question = read_chat_request(parse_json(body))
        call = self._loopback.call(self._answer, question.request, request)
        completion = Completion(question, f"chatcmpl-{request_id_of(request)}", int(time.time()))
        messages = aiter(call)
        headers = {"X-Request-Id": request_id_of(request)}
        if question.is_stream:
            first = await first_message(messages, call, request)
            events = _events(completion, first, messages, self._settings.stream_heartbeat_seconds)
            return StreamingResponse(
                ending_call(events, call), media_type=EVENT_STREAM, headers={**headers, "X-Accel-Buffering": "no"}
            )
        try:
            await unless_gone(request, _collect(completion, messages))
        finally:
            call.cancel()
        return JSONResponse(completion.whole(), headers=headers)

    async def _models(self, request: Request) -> Response:
        models = [_router_shape()]
        page_token = ""
        while len(models) < _MAX_MODELS:
            page = await unless_gone(
                request,
                self._loopback.call(
                    self._list,
                    knowledge_base_pb.ListKnowledgeBasesRequest(page_size=_PAGE_SIZE, page_token=page_token),
                    request,
                ),
            )
            models += [_model_shape(knowledge_base) for knowledge_base in page.knowledge_bases]
            page_token = page.next_page_token
            if not page_token:
                break
        return JSONResponse({"object": "list", "data": models}, headers={"X-Request-Id": request_id_of(request)})

    async def _model(self, request: Request) -> Response:
        name = knowledge_base_of_model(request.path_params["model"])
        headers = {"X-Request-Id": request_id_of(request)}
        if not name:
            # Whether the key is good is found out by a call like any other.
            await unless_gone(
                request,
                self._loopback.call(self._list, knowledge_base_pb.ListKnowledgeBasesRequest(page_size=1), request),
            )
            return JSONResponse(_router_shape(), headers=headers)
        found = await unless_gone(
            request, self._loopback.call(self._get, knowledge_base_pb.GetKnowledgeBaseRequest(name=name), request)
        )
        return JSONResponse(_model_shape(found), headers=headers)


async def _collect(completion: Completion, messages: AsyncIterator[answer_pb.AnswerQuestionResponse]) -> None:
    window = _window(completion.question)
    async for message in messages:
        window.feed(completion.take(message))
        if window.finish_reason is not None:
            break
    if completion.summary is not None:
        # Whole, with the citations that were placed afterwards.
        window = _window(completion.question)
        window.feed(completion.summary.text)
    window.end()
    completion.text, completion.finish_reason = window.text, window.finish_reason


async def _events(
    completion: Completion,
    first: answer_pb.AnswerQuestionResponse | None,
    messages: AsyncIterator[answer_pb.AnswerQuestionResponse],
    heartbeat_seconds: float,
) -> AsyncIterator[bytes]:
    window = _window(completion.question)
    try:
        yield completion.begin()
        if first is not None and (piece := window.feed(completion.take(first))):
            yield completion.piece(piece)
        async for message in with_heartbeats(messages, heartbeat_seconds):
            if message is None:
                yield HEARTBEAT
                continue
            assert isinstance(message, answer_pb.AnswerQuestionResponse)
            if piece := window.feed(completion.take(message)):
                yield completion.piece(piece)
            if window.finish_reason is not None:
                break
        late = ""
        if completion.summary is not None and not window.text:
            late = window.feed(completion.summary.text)
        if piece := late + window.end():
            yield completion.piece(piece)
    except grpc.aio.AioRpcError as error:
        status = json.dumps({"error": openai_error(status_of_rpc(error))}, ensure_ascii=False)
        yield b"data: %s\n\n" % status.encode()
        return
    completion.text, completion.finish_reason = window.text, window.finish_reason
    for event in completion.end():
        yield event


def _window(question: ChatQuestion) -> TextWindow:
    return TextWindow(question.stops, question.max_tokens)


def _router_shape() -> dict[str, Any]:
    return {"id": ROUTER_MODEL, "object": "model", "created": 0, "owned_by": "corpusmesh", "name": "All you may read"}


def _model_shape(knowledge_base: knowledge_base_pb.KnowledgeBase) -> dict[str, Any]:
    return {
        "id": knowledge_base.name,
        "object": "model",
        "created": knowledge_base.create_time.seconds,
        "owned_by": knowledge_base.owner or "corpusmesh",
        "name": knowledge_base.display_name,
        "description": knowledge_base.description,
    }


def _in_their_shape(answer: _Answering) -> _Answering:
    """Answer failures as OpenAI's clients read them."""

    async def guarded(request: Request) -> Response:
        headers = {"X-Request-Id": request_id_of(request)}
        try:
            # Refused before a byte of the body is read; whether the credential is good is found out by the call.
            if not request.headers.get("authorization"):
                raise credential_missing()
            return await answer(request)
        except CorpusMeshError as error:
            response = openai_error_response(_status_of(error, request), headers)
            if isinstance(error, TooLargeError):
                response.status_code = 413
            return response
        except grpc.aio.AioRpcError as error:
            return openai_error_response(status_of_rpc(error), headers)

    return guarded


def _status_of(error: CorpusMeshError, request: Request) -> Status:
    return to_status(error, request_id=request_id_of(request))
