"""Path, query and JSON to a request message, and a response message to JSON, by protobuf's JSON mapping."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_gateway.http.routes import Binding
from corpusmesh_gateway.http.schemas import is_map, message_of

# Messages whose JSON form is a string, so that a query parameter can hold them.
_STRING_MESSAGES = frozenset({"google.protobuf.FieldMask", "google.protobuf.Timestamp", "google.protobuf.Duration"})
_MAX_PARSE_ERROR_CHARACTERS = 300


def to_json(message: Message) -> bytes:
    """Render a message.

    Args:
        message: Any message.

    Returns:
        JSON with lowerCamel names, fields without presence always there, 64-bit integers as strings.
    """
    content = json_format.MessageToDict(message, always_print_fields_with_no_presence=True)
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def build_request(
    binding: Binding, variables: Mapping[str, str], query: Iterable[tuple[str, str]], body: bytes
) -> Message:
    """Build a request message.

    Args:
        binding: The binding that matched.
        variables: Values of the path's variables by dotted field path.
        query: Query parameters in order; a name may come again where the field is repeated.
        body: JSON; empty for none.

    Returns:
        A message of the method's input type.

    Raises:
        InvalidArgumentError: If something does not fit the contract.
    """
    descriptor = binding.method.input_type
    content: dict[str, Any] = {}
    if binding.body and body.strip():
        parsed = parse_json(body)
        if binding.body == "*":
            if not isinstance(parsed, dict):
                raise InvalidArgumentError("JSON_INVALID", "the body must be a JSON object")
            content = parsed
        else:
            content[binding.body] = parsed
    elif body.strip():
        raise InvalidArgumentError("BODY_UNEXPECTED", "this path takes no body; put the fields into the query")
    for name, value in query:
        if binding.body == "*":
            raise InvalidArgumentError(
                "QUERY_UNEXPECTED", f"put {name!r} into the JSON body; this path takes no query", field=name
            )
        put_text(content, descriptor, name, value)
    request = from_dict(content, message_factory.GetMessageClass(descriptor))
    for path, value in variables.items():
        _set_string(request, path, value)
    return request


def parse_json(body: bytes) -> Any:
    """Parse JSON strictly.

    Args:
        body: UTF-8 text.

    Returns:
        What it holds.

    Raises:
        InvalidArgumentError: If it is no JSON, names a key twice, or holds what is no text.
    """
    try:
        value = json.loads(body, object_pairs_hook=_unique, parse_constant=_no_constant)
        if b"\\ud" in body.lower():
            # One half of a pair of surrogates is no text, and no message can hold it.
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError("JSON_INVALID", f"the body is no valid JSON: {str(error)[:200]}") from error
    return value


def from_dict(content: Mapping[str, Any], message_type: type[Message]) -> Message:
    """Build a message from JSON values.

    Args:
        content: Values by field name.
        message_type: Class of the message.

    Returns:
        The message.

    Raises:
        InvalidArgumentError: If a field is unknown or a value does not fit.
    """
    message = message_type()
    try:
        json_format.ParseDict(dict(content), message)
    except (json_format.ParseError, RecursionError) as error:
        raise InvalidArgumentError("JSON_INVALID", str(error)[:_MAX_PARSE_ERROR_CHARACTERS]) from error
    return message


def put_text(
    content: dict[str, Any], descriptor: Descriptor, name: str, text: str, *, json_allowed: bool = False
) -> None:
    """Put a value that came as text where its name says.

    Args:
        content: JSON values of the message so far.
        descriptor: The message.
        name: Dotted path of field names, each as in the contract or lowerCamel.
        text: The value.
        json_allowed: Whether the text of a message or map may be JSON (form fields) or is refused (queries).

    Raises:
        InvalidArgumentError: If there is no such field, or it cannot come as text, or comes twice.
    """
    *parents, leaf = name.split(".")
    for parent in parents:
        field = _field(descriptor, parent, name)
        if field.type != FieldDescriptor.TYPE_MESSAGE or field.is_repeated:
            raise _unknown(name)
        content = content.setdefault(field.name, {})
        descriptor = message_of(field)
        if not isinstance(content, dict):
            raise _unknown(name)
    field = _field(descriptor, leaf, name)
    value = _value(field, text, name, json_allowed=json_allowed)
    if field.is_repeated and not is_map(field):
        content.setdefault(field.name, []).append(value)
    elif field.name in content:
        raise InvalidArgumentError("FIELD_TWICE", f"{name!r} was given twice", field=name)
    else:
        content[field.name] = value


def _value(field: FieldDescriptor, text: str, name: str, *, json_allowed: bool) -> Any:
    if field.type == FieldDescriptor.TYPE_BOOL:
        if text not in ("true", "false"):
            raise InvalidArgumentError("VALUE_INVALID", f"{name!r} must be true or false", field=name)
        return text == "true"
    if field.type == FieldDescriptor.TYPE_ENUM:
        return int(text) if text.isdecimal() and len(text) < 10 else text
    if field.type == FieldDescriptor.TYPE_MESSAGE and message_of(field).full_name not in _STRING_MESSAGES:
        if not json_allowed:
            raise _unknown(name)
        return parse_json(text.encode())
    return text


def _field(descriptor: Descriptor, name: str, whole_name: str) -> FieldDescriptor:
    field = descriptor.fields_by_name.get(name) or descriptor.fields_by_camelcase_name.get(name)
    if field is None:
        raise _unknown(whole_name)
    return field


def _unknown(name: str) -> InvalidArgumentError:
    return InvalidArgumentError("FIELD_UNKNOWN", f"there is no parameter {name[:100]!r}", field=name[:100])


def _set_string(message: Message, path: str, value: str) -> None:
    *parents, leaf = path.split(".")
    for parent in parents:
        message = getattr(message, parent)
    setattr(message, leaf, value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return content


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")
