"""A chat completion request, read into the question that it asks; what cannot be honoured is refused by name.

The shape is that of OpenAI's `POST /v1/chat/completions`. A knowledge base stands where a model would. System messages
and sampling are not handed on: how an answer is bound to its evidence is not the caller's to change. They are no
error, since clients send them by themselves; a note in the response says that they had no effect.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import Message

from corpusmesh.retrieve.v1 import answer_service_pb2 as answer_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_core.errors import InvalidArgumentError, NotFoundError
from corpusmesh_core.request_limits import MAX_TURN_CHARACTERS, MAX_TURNS
from corpusmesh_core.token_estimate import estimate_tokens
from corpusmesh_gateway.http.transcoding import from_dict

ROUTER_MODEL: Final = "corpusmesh"
"""Model that stands for no knowledge base in particular: the router picks."""
_PREFIX = "knowledgeBases/"
_KNOWLEDGE_BASE_ID = re.compile(r"[a-z0-9-]{1,63}")
_MARKER = re.compile(r"\s?\[ID:\d+\]")
_MAX_STOPS = 4
_MAX_STOP_CHARACTERS = 200
_MAX_TOKENS = 1_000_000
_EXTENSION = "corpusmesh"

_IGNORED: Final = frozenset(
    {
        "temperature",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "seed",
        "reasoning_effort",
        "verbosity",
        "service_tier",
        "prompt_cache_key",
    }
)
"""What would change how a model samples, or how OpenAI bills: without effect here, and said to be."""
_WITHOUT_MEANING: Final = frozenset({"user", "safety_identifier", "metadata", "parallel_tool_calls"})
"""What asks for nothing."""
_REFUSED_UNLESS: Final[Mapping[str, tuple[object, ...]]] = {
    "n": (None, 1),
    "tools": (None, []),
    "functions": (None, []),
    "tool_choice": (None, "none", "auto"),
    "function_call": (None, "none", "auto"),
    "response_format": (None, {"type": "text"}),
    "logprobs": (None, False),
    "top_logprobs": (None, 0),
    "logit_bias": (None, {}),
    "modalities": (None, ["text"]),
    "audio": (None,),
    "prediction": (None,),
    "web_search_options": (None,),
    "store": (None, False),
}
_KNOWN: Final = frozenset(
    {"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "stop", _EXTENSION}
)


@dataclass(frozen=True, slots=True)
class ChatQuestion:
    """What a chat completion asks.

    Attributes:
        model: As the request names it.
        request: The question.
        is_stream: Whether the answer is to come piece by piece.
        wants_usage: Whether a stream is to end with its usage.
        max_tokens: Most tokens of the answer, by estimate; None for no bound of the caller's.
        stops: Texts before which the answer ends.
        notes: What had no effect.
        question_tokens: Tokens of question and history, by estimate.
    """

    model: str
    request: answer_pb.AnswerQuestionRequest
    is_stream: bool
    wants_usage: bool
    max_tokens: int | None
    stops: tuple[str, ...]
    notes: tuple[str, ...]
    question_tokens: int


def read_chat_request(body: Any) -> ChatQuestion:
    """Read a request.

    Args:
        body: The JSON value of its body.

    Returns:
        What it asks.

    Raises:
        InvalidArgumentError: If something is malformed or cannot be honoured; the parameter is named.
        NotFoundError: MODEL_NOT_FOUND if the model cannot be a knowledge base.
    """
    if not isinstance(body, dict):
        raise InvalidArgumentError("JSON_INVALID", "the body must be a JSON object")
    _check_parameters(body)
    model = _text(body, "model")
    history, question, has_system = _read_messages(body.get("messages"))
    request = _extension_of(body.get(_EXTENSION))
    named = knowledge_base_of_model(model)
    if named:
        if request.knowledge_bases:
            raise _invalid(_EXTENSION, f"name knowledge bases here only where model is {ROUTER_MODEL!r}")
        request.knowledge_bases.append(named)
    request.question = question
    if request.conversation:
        # Its turns are the history; what the client repeats of them is known.
        history = []
    request.history.extend(history[-MAX_TURNS:])
    notes = [f"{name} has no effect" for name in sorted(_IGNORED & body.keys()) if body[name] is not None]
    if has_system:
        notes.append("system messages have no effect: an answer follows its evidence alone")
    if len(history) > MAX_TURNS:
        notes.append(f"the last {MAX_TURNS} turns are the history")
    return ChatQuestion(
        model=model,
        request=request,
        is_stream=_flag(body, "stream"),
        wants_usage=_wants_usage(body),
        max_tokens=_max_tokens(body),
        stops=_stops(body.get("stop")),
        notes=tuple(notes),
        question_tokens=estimate_tokens(question) + sum(estimate_tokens(turn.text) for turn in request.history),
    )


def knowledge_base_of_model(model: str) -> str:
    """Give the knowledge base that a model stands for.

    Args:
        model: `knowledgeBases/{id}`, an identifier, or `ROUTER_MODEL`.

    Returns:
        `knowledgeBases/{id}`; "" for the router.

    Raises:
        NotFoundError: MODEL_NOT_FOUND if it can be none.
    """
    if model == ROUTER_MODEL:
        return ""
    identifier = model.removeprefix(_PREFIX)
    if not _KNOWLEDGE_BASE_ID.fullmatch(identifier):
        raise NotFoundError(
            "MODEL_NOT_FOUND", "there is no such model, or you may not use it; GET /v1/models lists yours"
        )
    return _PREFIX + identifier


def _check_parameters(body: Mapping[str, Any]) -> None:
    for name, value in body.items():
        if name in _REFUSED_UNLESS:
            if value not in _REFUSED_UNLESS[name]:
                raise InvalidArgumentError(
                    "PARAMETER_UNSUPPORTED", f"{name} is not supported here; leave it out", field=name
                )
        elif name not in _KNOWN | _IGNORED | _WITHOUT_MEANING:
            raise InvalidArgumentError("PARAMETER_UNKNOWN", f"there is no parameter {name[:100]!r}", field=name[:100])
    temperature = body.get("temperature")
    if temperature is not None and not (_is_number(temperature) and 0 <= temperature <= 2):
        raise _invalid("temperature", "temperature must be a number from 0 to 2")


def _read_messages(messages: Any) -> tuple[list[retrieval_pb.Turn], str, bool]:
    if not isinstance(messages, list) or not messages:
        raise _invalid("messages", "messages must be a list that ends with the user's question")
    turns: list[retrieval_pb.Turn] = []
    has_system = False
    for place, message in enumerate(messages):
        field = f"messages[{place}]"
        if not isinstance(message, dict):
            raise _invalid(field, "a message is an object with role and content")
        role = message.get("role")
        if role in ("system", "developer"):
            _content_of(message, field)
            has_system = True
        elif role in ("user", "assistant"):
            if message.get("tool_calls") or message.get("function_call"):
                raise InvalidArgumentError("PARAMETER_UNSUPPORTED", "tool calls are not supported here", field=field)
            turns.append(_turn_of(role, _content_of(message, field)))
        else:
            raise InvalidArgumentError(
                "PARAMETER_UNSUPPORTED", "a message's role must be system, developer, user or assistant", field=field
            )
    if not turns or turns[-1].speaker != retrieval_pb.Turn.SPEAKER_USER:
        raise _invalid("messages", "the last message must be the user's question")
    *history, last = turns
    for turn in history:
        turn.text = turn.text[:MAX_TURN_CHARACTERS]
    return [turn for turn in history if turn.text.strip()], last.text, has_system


def _turn_of(role: str, text: str) -> retrieval_pb.Turn:
    if role == "user":
        return retrieval_pb.Turn(speaker=retrieval_pb.Turn.SPEAKER_USER, text=text)
    # Markers number the evidence of their own answer alone.
    return retrieval_pb.Turn(speaker=retrieval_pb.Turn.SPEAKER_ASSISTANT, text=_MARKER.sub("", text))


def _content_of(message: Mapping[str, Any], field: str) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if content is None and message.get("role") == "assistant":
        return str(message.get("refusal") or "")
    if not isinstance(content, list):
        raise _invalid(f"{field}.content", "content must be a text or a list of parts")
    texts = []
    for part in content:
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise InvalidArgumentError(
                "PARAMETER_UNSUPPORTED", "parts of a message can be of type text alone", field=f"{field}.content"
            )
        texts.append(part["text"])
    return "\n".join(texts)


def _extension_of(value: Any) -> answer_pb.AnswerQuestionRequest:
    if value is None:
        return answer_pb.AnswerQuestionRequest()
    if not isinstance(value, dict):
        raise _invalid(_EXTENSION, "this must be an object with fields of AnswerQuestionRequest")
    request: Message = from_dict(value, answer_pb.AnswerQuestionRequest)
    assert isinstance(request, answer_pb.AnswerQuestionRequest)
    if request.question or request.history:
        raise _invalid(_EXTENSION, "question and history come from messages")
    return request


def _wants_usage(body: Mapping[str, Any]) -> bool:
    options = body.get("stream_options")
    if options is None:
        return False
    if not isinstance(options, dict) or not _flag(body, "stream"):
        raise _invalid("stream_options", "this takes an object, and stream")
    return _flag(options, "include_usage")


def _max_tokens(body: Mapping[str, Any]) -> int | None:
    bounds = []
    for name in ("max_tokens", "max_completion_tokens"):
        value = body.get(name)
        if value is None:
            continue
        if type(value) is not int or not 1 <= value <= _MAX_TOKENS:
            raise _invalid(name, f"{name} must be a whole number from 1 to {_MAX_TOKENS:,}")
        bounds.append(value)
    return min(bounds, default=None)


def _stops(value: Any) -> tuple[str, ...]:
    stops = [] if value is None else [value] if isinstance(value, str) else value
    usable: Callable[[object], bool] = lambda stop: isinstance(stop, str) and 0 < len(stop) <= _MAX_STOP_CHARACTERS  # noqa: E731
    if not isinstance(stops, list) or len(stops) > _MAX_STOPS or not all(map(usable, stops)):
        raise _invalid("stop", f"stop takes a text or up to {_MAX_STOPS}, of 1 to {_MAX_STOP_CHARACTERS} characters")
    return tuple(stops)


def _flag(values: Mapping[str, Any], name: str) -> bool:
    value = values.get(name)
    if value is not None and not isinstance(value, bool):
        raise _invalid(name, f"{name} must be true or false")
    return bool(value)


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    if not isinstance(value, str) or not value:
        raise _invalid(name, f"{name} must be a text")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _invalid(field: str, message: str) -> InvalidArgumentError:
    return InvalidArgumentError("PARAMETER_INVALID", message, field=field)
