"""The OpenAPI 3.1 description of the HTTP/JSON side, made from the contract's descriptors and comments."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from corpusmesh.ingest.v1 import document_service_pb2
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_gateway.http.comments import read_comments
from corpusmesh_gateway.http.routes import VARIABLE, Binding, RouteTable
from corpusmesh_gateway.http.schemas import Schema, SchemaBook, is_required, message_of
from corpusmesh_gateway.http.streams import EVENT_STREAM, JSON_LINES, SHOWN_MEDIA_TYPES

_UPLOAD = document_service_pb2.DESCRIPTOR.services_by_name["DocumentService"].methods_by_name["UploadDocuments"]
_ORIGINAL = document_service_pb2.DESCRIPTOR.services_by_name["DocumentService"].methods_by_name["ReadOriginal"]
_PICTURE = document_service_pb2.DESCRIPTOR.services_by_name["DocumentService"].methods_by_name["ReadPicture"]
# The version of the contract, not of the program that serves it.
_API_VERSION = "v1"
_ABOUT = """Every call of the mesh over HTTP. Send an API key with each: `Authorization: Bearer cm_<id>_<secret>`.

Field names are lowerCamel; 64-bit integers are strings. An error is a `google.rpc.Status` as JSON: its `details` name
the reason, the field at fault and, with the header `Retry-After`, when to try again. `X-Request-Id` names a request in
the logs; `X-Timeout-Seconds` bounds how long it may take. Calls that stream answer with JSON lines, or with
`text/event-stream` where `Accept` asks for it.

Beside these paths, `/v1/chat/completions` and `/v1/models` answer clients of OpenAI's API, and `/mcp` those of the
Model Context Protocol, where they are enabled.
"""


def describe(routes: RouteTable) -> Schema:
    """Write the description.

    Args:
        routes: Paths of the contract.

    Returns:
        An OpenAPI 3.1 document.
    """
    comments = read_comments()
    book = SchemaBook(comments)
    error = {
        "description": "An error.",
        "content": {
            "application/json": {
                "schema": book.reference(descriptor_pool.Default().FindMessageTypeByName("google.rpc.Status"))
            }
        },
    }
    paths: dict[str, Any] = {}
    tags: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for binding in routes.bindings:
        service = binding.method.containing_service
        tags[service.name] = comments.get(service.full_name, "")
        operation = _operation(binding, book, comments)
        # A method with further paths is an operation for each, and no two operations may share an id.
        seen[operation["operationId"]] += 1
        if seen[operation["operationId"]] > 1:
            operation["operationId"] += f"_{seen[operation['operationId']]}"
        operation["responses"]["default"] = {"$ref": "#/components/responses/Error"}
        paths.setdefault(readable_path(binding.template), {})[binding.http_method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "CorpusMesh",
            "version": _API_VERSION,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"apiKey": []}],
        "tags": [{"name": name, "description": text} for name, text in tags.items()],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(book.schemas.items())),
            "responses": {"Error": error},
            "securitySchemes": {
                "apiKey": {"type": "http", "scheme": "bearer", "bearerFormat": "cm_<id>_<secret>"},
            },
        },
    }


def readable_path(template: str) -> str:
    """Write a path template as OpenAPI does.

    Args:
        template: Such as `/v1/{name=knowledgeBases/*}:rollback`.

    Returns:
        Such as `/v1/knowledgeBases/{knowledgeBase}:rollback`.
    """
    return VARIABLE.sub(lambda match: _readable_segments(match.group(2) or "*"), template)


def _readable_segments(pattern: str) -> str:
    segments = pattern.split("/")
    return "/".join(
        f"{{{segments[place - 1].removesuffix('s')}}}" if segment == "*" else segment
        for place, segment in enumerate(segments)
    )


def _operation(binding: Binding, book: SchemaBook, comments: Mapping[str, str]) -> Schema:
    method = binding.method
    comment = comments.get(method.full_name, "")
    policy = method.GetOptions().Extensions[policy_pb2.policy]
    role = policy_pb2.Role.Name(policy.minimum_role).removeprefix("ROLE_").lower()
    scope = policy_pb2.Scope.Name(policy.scope).removeprefix("SCOPE_").lower()
    operation: Schema = {
        "operationId": f"{method.containing_service.name}_{method.name}",
        "tags": [method.containing_service.name],
        "summary": comment.split("\n", 1)[0],
        "description": f"{comment}\n\nNeeds the role {role} and a key with the scope {scope}.",
        "parameters": list(_path_parameters(binding.template)),
        "responses": {"200": {"description": "Done.", "content": _response_content(binding, book)}},
    }
    if method is _UPLOAD:
        operation["requestBody"] = {"required": True, "content": _upload_content(book)}
        operation["parameters"] += _upload_parameters(book)
    elif binding.body:
        bound = {path for path in binding.variables if "." not in path}
        schema = book.message(method.input_type, without=bound)
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    else:
        operation["parameters"] += _query_parameters(method.input_type, book, set(binding.variables))
    return operation


def _path_parameters(template: str) -> Iterable[Schema]:
    for match in VARIABLE.finditer(template):
        segments = (match.group(2) or "*").split("/")
        for place, segment in enumerate(segments):
            if segment == "*":
                name = segments[place - 1].removesuffix("s")
                yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _query_parameters(descriptor: Descriptor, book: SchemaBook, bound: set[str], prefix: str = "") -> list[Schema]:
    parameters: list[Schema] = []
    for field in descriptor.fields:
        if f"{prefix}{field.name}" in bound:
            continue
        if _is_nested(field):
            parameters += _query_parameters(message_of(field), book, bound, f"{prefix}{field.name}.")
            continue
        schema = book.field(field)
        description = schema.pop("description", "")
        parameter: Schema = {"name": f"{prefix}{field.json_name}", "in": "query", "schema": schema}
        if description:
            parameter["description"] = description
        if is_required(field):
            parameter["required"] = True
        parameters.append(parameter)
    return parameters


def _is_nested(field: FieldDescriptor) -> bool:
    is_message = field.type == FieldDescriptor.TYPE_MESSAGE and not field.is_repeated
    return is_message and not message_of(field).full_name.startswith("google.protobuf.")


def _response_content(binding: Binding, book: SchemaBook) -> Schema:
    if binding.method is _ORIGINAL:
        return {"application/octet-stream": {}}
    if binding.method is _PICTURE:
        return {media_type: {} for media_type in sorted(SHOWN_MEDIA_TYPES)}
    schema = book.reference(binding.method.output_type)
    if binding.method.server_streaming:
        return {JSON_LINES: {"schema": schema}, EVENT_STREAM: {"schema": schema}}
    return {"application/json": {"schema": schema}}


def _upload_fields(book: SchemaBook, without: set[str]) -> list[tuple[FieldDescriptor, Schema]]:
    settings = document_service_pb2.UploadSettings.DESCRIPTOR
    header = document_service_pb2.DocumentHeader.DESCRIPTOR
    fields = [field for field in (*settings.fields, *header.fields) if field.name not in without | {"parent"}]
    return [(field, book.field(field)) for field in fields]


def _upload_content(book: SchemaBook) -> Schema:
    properties: Schema = {field.json_name: schema for field, schema in _upload_fields(book, without={"display_name"})}
    properties["file"] = {
        "type": "array",
        "items": {"type": "string", "contentMediaType": "application/octet-stream"},
        "description": "One or many files. Fields of a document stand before its file, those of the upload before all.",
    }
    form = {"type": "object", "properties": properties, "required": ["file"]}
    return {"multipart/form-data": {"schema": form}, "application/octet-stream": {}}


def _upload_parameters(book: SchemaBook) -> list[Schema]:
    parameters = []
    for field, schema in _upload_fields(book, without={"metadata", "access", "password"}):
        description = schema.pop("description", "")
        parameters.append(
            {
                "name": field.json_name,
                "in": "query",
                "schema": schema,
                "description": f"For a raw body: {description}",
            }
        )
    return parameters
