"""The settings of a knowledge base as plain JSON, as people write them in a file, and as the contract's messages.

    {"chunking": {"template": "book", "settings": {"max_tokens": 300}},
     "parsing": {"recognition": "never", "keep_pictures": true},
     "enrichment": {"keywords": {"method": "lite", "count": 5}},
     "metadata_schema": {"fields": [{"name": "author", "type": "text", "source": "parser", "key": "author"}]},
     "retrieval": {"preset": "thorough", "assembly": {"neighbours": 1}},
     "ledger": {"enabled": true, "retention_days": 30},
     "publish_gate": {"golden_set": "handbook", "measure": "ndcg_at_10", "minimum": 0.8, "max_drop": 0.02},
     "tree": {"scope": "file", "method": "watershed", "summaries": "lite"},
     "graph": {"methods": ["ner"], "reports": "lite"}}

The plain form is also what the mesh stores. Names of values are those of the contract's enums in lower case, without
their prefix. A value that is not set is left out.
"""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct

from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as pb
from corpusmesh_core.errors import InvalidArgumentError

_CHUNKING: Final = "chunking"
SECTIONS: Final[Mapping[str, str]] = {
    _CHUNKING: "chunk_settings",
    "parsing": "parse_settings",
    "enrichment": "enrichment_settings",
    "metadata_schema": "metadata_schema",
    "retrieval": "retrieval_plan",
    "ranking": "rank_settings",
    "ledger": "ledger_settings",
    "publish_gate": "publish_gate",
    "tree": "tree_settings",
    "graph": "graph_settings",
}
"""Sections of the plain form and the fields of `KnowledgeBase` that hold them."""

_MAX_INT32: Final = 2**31 - 1
_COLLECTION: Final = "knowledgeBases/"
_PLAIN_NAMES: Final = {"keep_figures": "keep_pictures"}
_WIRE_NAMES: Final = {plain: wire for wire, plain in _PLAIN_NAMES.items()}
_TYPED_CHUNK_SETTINGS: Final = {"max_tokens": "max_chunk_tokens", "overlap_tokens": "overlap_tokens"}


def settings_to_plain(knowledge_base: pb.KnowledgeBase) -> dict[str, Any]:
    """Write the settings of a knowledge base as JSON values.

    Args:
        knowledge_base: The message.

    Returns:
        Its sections; those without a value are left out.

    Raises:
        InvalidArgumentError: SETTING_UNKNOWN if this release does not know a value; CHUNK_SETTING_INVALID if a setting
            of chunks is given twice.
    """
    plain: dict[str, Any] = {}
    if knowledge_base.HasField("chunk_settings"):
        plain[_CHUNKING] = _chunking_to_plain(knowledge_base.chunk_settings)
    set_fields = {entry.name: value for entry, value in knowledge_base.ListFields()}
    for section, name in SECTIONS.items():
        if section != _CHUNKING and (given := set_fields.get(name)) is not None:
            plain[section] = _to_plain(given, name)
    return {section: values for section, values in plain.items() if values}


def settings_from_plain(plain: Mapping[str, Any]) -> pb.KnowledgeBase:
    """Read settings of a knowledge base from JSON values.

    Args:
        plain: Sections as in `SECTIONS`.

    Returns:
        A knowledge base with the fields of the given sections alone; the mesh checks their values.

    Raises:
        InvalidArgumentError: SETTING_UNKNOWN or SETTING_INVALID, with the field, if a name is unknown or a value has
            another type.
    """
    message = pb.KnowledgeBase()
    for section, values in plain.items():
        if section not in SECTIONS:
            raise _unknown(str(section), f"one of the sections {', '.join(SECTIONS)}")
        if not isinstance(values, Mapping):
            raise _invalid(section, "an object of settings")
        target = getattr(message, SECTIONS[section])
        target.SetInParent()
        if section == _CHUNKING:
            _read_chunking(values, target)
        else:
            _read(values, target, section)
    return message


def _chunking_to_plain(settings: pb.ChunkSettings) -> dict[str, Any]:
    plain: dict[str, Any] = {"template": settings.template} if settings.template else {}
    values = _struct_to_plain(settings.settings)
    for name, wire in _TYPED_CHUNK_SETTINGS.items():
        given = getattr(settings, wire)
        if given and name in values and values[name] != given:
            raise InvalidArgumentError(
                "CHUNK_SETTING_INVALID",
                f"give {name} once: {wire} and settings.{name} differ",
                field=f"chunk_settings.settings.{name}",
                setting=name,
            )
        if given:
            values[name] = given
    if values:
        plain["settings"] = values
    return plain


def _read_chunking(values: Mapping[str, Any], target: pb.ChunkSettings) -> None:
    if unknown := sorted(str(name) for name in values if name not in {"template", "settings"}):
        raise _unknown(f"chunking.{unknown[0]}", "template or settings")
    template, settings = values.get("template", ""), values.get("settings", {})
    if not isinstance(template, str):
        raise _invalid("chunking.template", "a text")
    target.template = template
    further = dict(settings) if isinstance(settings, Mapping) else None
    if further is None:
        raise _invalid("chunking.settings", "an object of settings")
    for name, wire in _TYPED_CHUNK_SETTINGS.items():
        if isinstance(value := further.get(name), int) and not isinstance(value, bool) and 0 < value <= _MAX_INT32:
            _set(target, target.DESCRIPTOR.fields_by_name[wire], further.pop(name), f"chunking.settings.{name}")
    if further:
        _read_struct(further, target.settings, "chunking.settings")


def _to_plain(message: Message, path: str) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for entry, value in message.ListFields():
        name = _PLAIN_NAMES.get(entry.name, entry.name)
        plain[name] = _value_to_plain(entry, value, f"{path}.{entry.name}")
    return plain


def _value_to_plain(entry: FieldDescriptor, value: Any, path: str) -> Any:
    if entry.type == FieldDescriptor.TYPE_ENUM:
        assert entry.enum_type is not None
        if entry.is_repeated:
            return [_enum_to_plain(entry.enum_type, item, f"{path}.{place}") for place, item in enumerate(value)]
        return _enum_to_plain(entry.enum_type, value, path)
    if entry.type != FieldDescriptor.TYPE_MESSAGE:
        if entry.is_repeated:
            return [item.removeprefix(_COLLECTION) for item in value] if entry.name == "tag_sets" else list(value)
        return value
    if entry.is_repeated:
        return [_to_plain(item, f"{path}.{place}") for place, item in enumerate(value)]
    return _to_plain(value, path)


def _read(values: Mapping[str, Any], target: Message, path: str) -> None:
    known: Mapping[str, Any] = target.DESCRIPTOR.fields_by_name
    for name, value in values.items():
        entry = known.get(_WIRE_NAMES.get(name, str(name)))
        if entry is None:
            names = sorted(_PLAIN_NAMES.get(wire, wire) for wire in known)
            raise _unknown(f"{path}.{name}", f"one of {', '.join(names)}")
        where = f"{path}.{name}"
        if entry.is_repeated:
            _read_list(entry, value, target, where)
        elif entry.type == FieldDescriptor.TYPE_MESSAGE:
            if not isinstance(value, Mapping):
                raise _invalid(where, "an object of settings")
            inner = getattr(target, entry.name)
            inner.SetInParent()
            _read(value, inner, where)
        else:
            _set(target, entry, value, where)


def _read_list(entry: FieldDescriptor, value: Any, target: Message, path: str) -> None:
    items = getattr(target, entry.name)
    if not isinstance(value, list | tuple):
        raise _invalid(path, "a list")
    for place, item in enumerate(value):
        if entry.type == FieldDescriptor.TYPE_MESSAGE:
            if not isinstance(item, Mapping):
                raise _invalid(f"{path}.{place}", "an object of settings")
            _read(item, items.add(), f"{path}.{place}")
        elif entry.type == FieldDescriptor.TYPE_ENUM:
            assert entry.enum_type is not None
            items.append(_enum_from_plain(entry.enum_type, item, f"{path}.{place}"))
        elif isinstance(item, str):
            items.append(f"{_COLLECTION}{item.removeprefix(_COLLECTION)}" if entry.name == "tag_sets" else item)
        else:
            raise _invalid(f"{path}.{place}", "a text")


def _set(target: Message, entry: FieldDescriptor, value: Any, path: str) -> None:
    if entry.type == FieldDescriptor.TYPE_ENUM:
        assert entry.enum_type is not None
        value = _enum_from_plain(entry.enum_type, value, path)
    elif isinstance(value, bool) is not (entry.type == FieldDescriptor.TYPE_BOOL):
        raise _invalid(path, "true or false" if entry.type == FieldDescriptor.TYPE_BOOL else "no truth value")
    try:
        setattr(target, entry.name, value)
    except (TypeError, ValueError) as error:
        raise _invalid(path, "a text" if entry.type == FieldDescriptor.TYPE_STRING else "a number") from error


def _prefix_of(enum: EnumDescriptor) -> str:
    return enum.values_by_number[0].name.removesuffix("UNSPECIFIED")


def _enum_to_plain(enum: EnumDescriptor, number: int, path: str) -> str:
    value = enum.values_by_number.get(number)
    if value is None:
        raise _unknown(path, "a value that this release knows")
    return value.name.removeprefix(_prefix_of(enum)).lower()


def _enum_from_plain(enum: EnumDescriptor, value: Any, path: str) -> int:
    # YAML reads a bare `off` as false, which people do not mean.
    name = "off" if value is False else value
    found = enum.values_by_name.get(f"{_prefix_of(enum)}{name.upper()}") if isinstance(name, str) else None
    if found is None or not found.number:
        names = ", ".join(item.name.removeprefix(_prefix_of(enum)).lower() for item in enum.values if item.number)
        raise _unknown(path, f"one of {names}")
    return found.number


def _struct_to_plain(struct: Struct) -> dict[str, Any]:
    return {name: _whole(value) for name, value in MessageToDict(struct).items()}


def _whole(value: Any) -> Any:
    # A Struct holds every number as a double.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _read_struct(values: Mapping[str, Any], target: Struct, path: str) -> None:
    try:
        ParseDict(dict(values), target)
    except (ParseError, TypeError, ValueError) as error:
        raise _invalid(path, "texts, numbers, truth values, lists and objects") from error


def _unknown(path: str, allowed: str) -> InvalidArgumentError:
    return InvalidArgumentError("SETTING_UNKNOWN", f"{path} must be {allowed}", field=path, allowed=allowed)


def _invalid(path: str, allowed: str) -> InvalidArgumentError:
    return InvalidArgumentError("SETTING_INVALID", f"{path} must be {allowed}", field=path, allowed=allowed)
