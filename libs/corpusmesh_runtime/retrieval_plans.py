"""The plan of a request: preset, then the knowledge base's own plan, then what the request says.

A knowledge base keeps its plan in the section `retrieval` of its configuration, in the plain spelling of
`corpusmesh_client.knowledge_base_settings`. Conditions on documents are a request's alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
from corpusmesh_client.knowledge_base_settings import settings_from_plain
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.query import (
    PLAN_BY_PRESET,
    ChunkPick,
    Diversity,
    GraphMode,
    Preset,
    RelationRerank,
    RerankMethod,
    RetrievalPlan,
    SearchMode,
    TreeMode,
)
from corpusmesh_core.ranking import Fusion
from corpusmesh_core.records import RecordKind

RETRIEVAL: Final = "retrieval"
"""Section of a knowledge base's configuration."""

_Part = TypeVar("_Part")
_PRESETS: Final = {
    pb.PRESET_FAST: Preset.FAST,
    pb.PRESET_BALANCED: Preset.BALANCED,
    pb.PRESET_THOROUGH: Preset.THOROUGH,
}
_MODES: Final = {
    pb.SEARCH_MODE_HYBRID: SearchMode.HYBRID,
    pb.SEARCH_MODE_LEXICAL: SearchMode.LEXICAL,
    pb.SEARCH_MODE_VECTOR: SearchMode.VECTOR,
}
_FUSIONS: Final = {
    pb.FUSION_ADAPTIVE: Fusion.ADAPTIVE,
    pb.FUSION_TERM_COVERAGE: Fusion.TERM_COVERAGE,
    pb.FUSION_RECIPROCAL_RANK: Fusion.RECIPROCAL_RANK,
    pb.FUSION_MIN_MAX: Fusion.MIN_MAX,
    pb.FUSION_Z_SCORE: Fusion.Z_SCORE,
}
_RERANKS: Final = {
    pb.RerankPlan.METHOD_NONE: RerankMethod.NONE,
    pb.RerankPlan.METHOD_CROSS_ENCODER: RerankMethod.CROSS_ENCODER,
    pb.RerankPlan.METHOD_MODEL: RerankMethod.MODEL,
}
_DIVERSITIES: Final = {
    pb.AssemblyPlan.DIVERSITY_NONE: Diversity.NONE,
    pb.AssemblyPlan.DIVERSITY_MMR: Diversity.MMR,
    pb.AssemblyPlan.DIVERSITY_DARTBOARD: Diversity.DARTBOARD,
}
_TREE_MODES: Final = {
    pb.TreePlan.MODE_OFF: TreeMode.OFF,
    pb.TreePlan.MODE_COLLAPSED: TreeMode.COLLAPSED,
    pb.TreePlan.MODE_TRAVERSAL: TreeMode.TRAVERSAL,
    pb.TreePlan.MODE_HIERARCHICAL: TreeMode.HIERARCHICAL,
}
_GRAPH_MODES: Final = {getattr(pb.GraphPlan, f"MODE_{mode.name}"): mode for mode in GraphMode}
_CHUNK_PICKS: Final = {getattr(pb.GraphPlan, f"CHUNK_PICK_{pick.name}"): pick for pick in ChunkPick}
_RELATION_RERANKS: Final = {
    getattr(pb.GraphPlan, f"RELATION_RERANK_{rerank.name}"): rerank for rerank in RelationRerank
}
_ENUM_FIELDS: Final[Mapping[str, Mapping[Any, object]]] = {
    "rerank.method": _RERANKS,
    "assembly.diversity": _DIVERSITIES,
    "tree.mode": _TREE_MODES,
    "graph.mode": _GRAPH_MODES,
    "graph.chunk_pick": _CHUNK_PICKS,
    "graph.relation_rerank": _RELATION_RERANKS,
}
_PARTS: Final = ("understanding", "recall", "rerank", "assembly", "correction", "tree", "graph")
_REQUEST_ALONE: Final = ("metadata_conditions", "documents")


def make_plan(
    request: pb.RetrievalPlan, configs: Sequence[Mapping[str, object]], *, page_size: int, default_window: int
) -> RetrievalPlan:
    """Make the effective plan.

    Args:
        request: What the request says; its conditions on documents are read elsewhere.
        configs: Configurations of the knowledge bases; their own plans count where all have the same.
        page_size: Hits of a page.
        default_window: Candidates of each leg where nobody names a window.

    Returns:
        The plan.

    Raises:
        InvalidArgumentError: PLAN_INVALID with the field.
    """
    own = own_plan(configs[0]) if configs and all(_section(c) == _section(configs[0]) for c in configs) else None
    own = own or pb.RetrievalPlan()
    _check(request)
    preset = _PRESETS.get(request.preset) or _PRESETS.get(own.preset) or Preset.BALANCED
    plan = replace(PLAN_BY_PRESET[preset], window=max(default_window, page_size), page_size=page_size)
    return _overlaid(_overlaid(plan, own), request)


def own_plan(config: Mapping[str, object]) -> pb.RetrievalPlan | None:
    """Read the plan of a knowledge base.

    Args:
        config: Its configuration.

    Returns:
        The plan; None where it has none.

    Raises:
        InvalidArgumentError: SETTING_UNKNOWN, SETTING_INVALID or PLAN_INVALID if it is no plan.
    """
    section = _section(config)
    if section is None:
        return None
    plan = settings_from_plain({RETRIEVAL: section}).retrieval_plan
    for name in _REQUEST_ALONE:
        if getattr(plan, name):
            raise InvalidArgumentError(
                "PLAN_INVALID", f"{name} belongs to a request, not to a knowledge base", field=f"{RETRIEVAL}.{name}"
            )
    _check(plan)
    return plan


def _section(config: Mapping[str, object]) -> dict[str, Any] | None:
    section = config.get(RETRIEVAL)
    return dict(section) if isinstance(section, Mapping) else None


def _check(plan: pb.RetrievalPlan) -> None:
    for field, value, known in (
        ("mode", plan.mode, _MODES),
        ("fusion", plan.fusion, _FUSIONS),
        ("preset", plan.preset, _PRESETS),
        ("rerank.method", plan.rerank.method, _RERANKS),
        ("assembly.diversity", plan.assembly.diversity, _DIVERSITIES),
        ("tree.mode", plan.tree.mode, _TREE_MODES),
        ("graph.mode", plan.graph.mode, _GRAPH_MODES),
        ("graph.chunk_pick", plan.graph.chunk_pick, _CHUNK_PICKS),
        ("graph.relation_rerank", plan.graph.relation_rerank, _RELATION_RERANKS),
    ):
        if value and value not in known:
            raise InvalidArgumentError("PLAN_INVALID", f"{field} has an unknown value", field=f"plan.{field}")
    if plan.candidate_window < 0:
        raise InvalidArgumentError(
            "PLAN_INVALID", "candidate_window must not be negative", field="plan.candidate_window"
        )


def _overlaid(base: RetrievalPlan, wire: pb.RetrievalPlan) -> RetrievalPlan:
    """Put what a wire plan says over a plan."""
    changes: dict[str, Any] = {name: _overlaid_part(getattr(base, name), getattr(wire, name), name) for name in _PARTS}
    if wire.mode:
        changes["mode"] = _MODES[wire.mode]
    if wire.fusion:
        changes["fusion"] = _FUSIONS[wire.fusion]
    if wire.HasField("vector_weight"):
        changes["vector_weight"] = wire.vector_weight
    if wire.HasField("similarity_threshold"):
        changes["similarity_threshold"] = wire.similarity_threshold
    if wire.candidate_window:
        changes["window"] = wire.candidate_window
    if wire.kinds:
        changes["kinds"] = tuple(_kind_of(kind) for kind in wire.kinds)
    if wire.page_weight:
        changes["page_weight"] = wire.page_weight
    return replace(base, **changes)


def _overlaid_part(base: _Part, wire: Message, part: str) -> _Part:
    changes: dict[str, Any] = {}
    for field in fields(base):  # type: ignore[arg-type] # every part is a dataclass
        descriptor = wire.DESCRIPTOR.fields_by_name[field.name]
        value = getattr(wire, field.name)
        if descriptor.is_repeated:
            if value:
                changes[field.name] = tuple(value)
        elif (known := _ENUM_FIELDS.get(f"{part}.{field.name}")) is not None:
            if value:
                changes[field.name] = known[value]
        elif wire.HasField(field.name):
            changes[field.name] = value
    return replace(base, **changes)  # type: ignore[type-var]


def plan_to_wire(plan: RetrievalPlan) -> pb.RetrievalPlan:
    """Write an effective plan, for explanations and the ledger.

    Args:
        plan: The plan.

    Returns:
        A wire plan that `make_plan` makes the same plan of again, whatever presets become; without configurations of
        knowledge bases, which would fill what has no value. Conditions on documents are no part of it.
    """
    wire = pb.RetrievalPlan(
        mode=_wire_of(_MODES, plan.mode),
        fusion=_wire_of(_FUSIONS, plan.fusion),
        vector_weight=plan.vector_weight,
        similarity_threshold=plan.similarity_threshold,
        candidate_window=plan.window,
        kinds=[kind.value for kind in plan.kinds],
        page_weight=plan.page_weight,
        preset=pb.PRESET_FAST,
    )
    for name in _PARTS:
        part = getattr(plan, name)
        target = getattr(wire, name)
        for field in fields(part):
            value = getattr(part, field.name)
            if isinstance(value, tuple):
                getattr(target, field.name).extend(value)
            elif (known := _ENUM_FIELDS.get(f"{name}.{field.name}")) is not None:
                setattr(target, field.name, _wire_of(known, value))
            else:
                setattr(target, field.name, value)
    return wire


def _wire_of(known: Mapping[Any, object], value: object) -> Any:
    return next(number for number, item in known.items() if item == value)


def _kind_of(kind: str) -> RecordKind:
    try:
        return RecordKind(kind)
    except ValueError as error:
        known = ", ".join(item.value for item in RecordKind)
        raise InvalidArgumentError("PLAN_INVALID", f"kinds takes {known}", field="plan.kinds") from error
