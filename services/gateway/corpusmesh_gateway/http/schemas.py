"""JSON schemas of the contract's messages and enums, by protobuf's JSON mapping."""

from collections.abc import Collection, Mapping
from typing import Any, cast

from google.api import field_behavior_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

Schema = dict[str, Any]

_SCALARS: Mapping[int, Schema] = {
    FieldDescriptor.TYPE_DOUBLE: {"type": "number", "format": "double"},
    FieldDescriptor.TYPE_FLOAT: {"type": "number", "format": "float"},
    FieldDescriptor.TYPE_INT32: {"type": "integer", "format": "int32"},
    FieldDescriptor.TYPE_UINT32: {"type": "integer", "format": "int64", "minimum": 0},
    # 64-bit integers are strings in JSON: a JavaScript number could not hold them.
    FieldDescriptor.TYPE_INT64: {"type": "string", "format": "int64"},
    FieldDescriptor.TYPE_UINT64: {"type": "string", "format": "uint64"},
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_STRING: {"type": "string"},
    FieldDescriptor.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
}
_WELL_KNOWN: Mapping[str, Schema] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {"type": "string", "examples": ["1.5s"]},
    "google.protobuf.FieldMask": {"type": "string", "examples": ["displayName,description"]},
    "google.protobuf.Any": {
        "type": "object",
        "properties": {"@type": {"type": "string"}},
        "required": ["@type"],
        "additionalProperties": True,
    },
}


class SchemaBook:
    """Collects the schemas that a description refers to."""

    def __init__(self, comments: Mapping[str, str]) -> None:
        """Begin an empty book.

        Args:
            comments: Comments by full name.
        """
        self._comments = comments
        self.schemas: dict[str, Schema] = {}

    def reference(self, descriptor: Descriptor) -> Schema:
        """Refer to a message, and write its schema if that is not done yet.

        Args:
            descriptor: The message.

        Returns:
            A schema that stands for it.
        """
        name = descriptor.full_name
        if name in _WELL_KNOWN:
            return dict(_WELL_KNOWN[name])
        if name not in self.schemas:
            self.schemas[name] = {}  # Ends the recursion of messages that hold each other.
            self.schemas[name] = self.message(descriptor)
        return {"$ref": f"#/components/schemas/{name}"}

    def message(self, descriptor: Descriptor, *, without: Collection[str] = ()) -> Schema:
        """Write the schema of a message.

        Args:
            descriptor: The message.
            without: Fields to leave out.

        Returns:
            The schema.
        """
        fields = [field for field in descriptor.fields if field.name not in without]
        schema: Schema = {
            "type": "object",
            "properties": {field.json_name: self.field(field) for field in fields},
        }
        required = [field.json_name for field in fields if is_required(field)]
        if required:
            schema["required"] = required
        return self._described(schema, descriptor.full_name)

    def field(self, field: FieldDescriptor) -> Schema:
        """Write the schema of a field.

        Args:
            field: The field.

        Returns:
            The schema, with the field's comment.
        """
        if is_map(field):
            value = message_of(field).fields_by_name["value"]
            schema: Schema = {"type": "object", "additionalProperties": self._single(value)}
        elif field.is_repeated:
            schema = {"type": "array", "items": self._single(field)}
        else:
            schema = self._single(field)
        if field_behavior_pb2.OUTPUT_ONLY in _behaviors(field):
            schema["readOnly"] = True
        if field.containing_oneof is not None and len(field.containing_oneof.fields) > 1:
            others = [other.json_name for other in field.containing_oneof.fields if other is not field]
            comment = self._comments.get(field.full_name, "")
            schema["description"] = f"{comment} At most one of this and {', '.join(others)}.".strip()
            return schema
        return self._described(schema, field.full_name)

    def _single(self, field: FieldDescriptor) -> Schema:
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            return self.reference(message_of(field))
        if field.type == FieldDescriptor.TYPE_ENUM:
            return self._enum(cast(EnumDescriptor, field.enum_type))
        return dict(_SCALARS[field.type])

    def _enum(self, enum: EnumDescriptor) -> Schema:
        if enum.full_name not in self.schemas:
            lines = [
                f"- `{value.name}`: {self._comments.get(f'{enum.full_name}.{value.name}', '')}" for value in enum.values
            ]
            text = "\n".join([self._comments.get(enum.full_name, ""), "", *lines]).strip()
            self.schemas[enum.full_name] = {
                "type": "string",
                "enum": [value.name for value in enum.values],
                "description": text,
            }
        return {"$ref": f"#/components/schemas/{enum.full_name}"}

    def _described(self, schema: Schema, full_name: str) -> Schema:
        if comment := self._comments.get(full_name):
            schema["description"] = comment
        return schema


def is_required(field: FieldDescriptor) -> bool:
    """Tell whether a field must be set.

    Args:
        field: The field.

    Returns:
        Whether the contract says REQUIRED.
    """
    return field_behavior_pb2.REQUIRED in _behaviors(field)


def is_map(field: FieldDescriptor) -> bool:
    """Tell whether a field is a map.

    Args:
        field: The field.

    Returns:
        Whether it is.
    """
    return field.type == FieldDescriptor.TYPE_MESSAGE and bool(message_of(field).GetOptions().map_entry)


def message_of(field: FieldDescriptor) -> Descriptor:
    """Give the message that a field holds.

    Args:
        field: A field of a message type.

    Returns:
        The message.
    """
    return cast(Descriptor, field.message_type)


def _behaviors(field: FieldDescriptor) -> Collection[int]:
    extension: Any = field_behavior_pb2.field_behavior
    return cast(Collection[int], field.GetOptions().Extensions[extension])
