"""How a graph is searched, as the command line says it: a mode, and how it goes about."""

from typing import Final

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
from corpusmesh_core.errors import InvalidArgumentError

_MODE_PREFIX: Final = "MODE_"
_MODES: Final = {
    name.removeprefix(_MODE_PREFIX).lower().replace("_", "-"): number
    for name, number in pb.GraphPlan.Mode.items()
    if number != pb.GraphPlan.MODE_UNSPECIFIED
}
_FIELDS: Final = {field.name: field for field in pb.GraphPlan.DESCRIPTOR.fields if field.name != "mode"}


def with_graph(plan: pb.RetrievalPlan, text: str) -> pb.RetrievalPlan:
    """Say how graphs of entities take part.

    Args:
        plan: A plan; changed.
        text: "" to leave it to the plan; a mode (off, page-rank, local, global, hybrid, mix, naive, knowledge,
            adjacency, community-local, community-global, drift), with a colon and fields of GraphPlan behind it where
            they differ from the defaults: `adjacency:hops=3,relation_rerank=model`,
            `local:low_level_keywords=Anna Berg|harbour`.

    Returns:
        The plan.

    Raises:
        InvalidArgumentError: PLAN_INVALID if it is none of these.
    """
    if not text:
        return plan
    mode, _, settings = text.partition(":")
    if mode not in _MODES:
        raise _invalid(f"a graph is searched {', '.join(_MODES)}")
    values = dict(_read(setting) for setting in settings.split(",") if setting.strip())
    try:
        json_format.ParseDict(values, plan.graph)
    except json_format.ParseError as error:
        raise _invalid(f"{settings}: {error}") from error
    plan.graph.mode = pb.GraphPlan.Mode.ValueType(_MODES[mode])
    return plan


def _read(setting: str) -> tuple[str, object]:
    name, is_given, value = (part.strip() for part in setting.partition("="))
    field = _FIELDS.get(name.replace("-", "_"))
    if field is None or not is_given:
        raise _invalid(f"settings of a graph are name=value, of {', '.join(_FIELDS)}")
    return field.name, _value(field, value)


def _value(field: FieldDescriptor, value: str) -> object:
    if field.is_repeated:
        return [part.strip() for part in value.split("|") if part.strip()]
    if field.type == field.TYPE_BOOL:
        if value not in ("true", "false"):
            raise _invalid(f"{field.name} is true or false")
        return value == "true"
    if field.enum_type is None:
        return value
    names = {
        entry.name.removeprefix(f"{field.name.upper()}_").lower().replace("_", "-"): entry.name
        for entry in field.enum_type.values
        if entry.number
    }
    chosen = names.get(value.lower().replace("_", "-"))
    if chosen is None:
        raise _invalid(f"{field.name} is one of {', '.join(names)}")
    return chosen


def _invalid(message: str) -> InvalidArgumentError:
    return InvalidArgumentError("PLAN_INVALID", message, field="graph")
