"""Retrieval plans of the command line: a name or a JSON object in the contract's own spelling."""

from google.protobuf import json_format

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
from corpusmesh_core.errors import InvalidArgumentError

_PRESETS = {
    "fast": pb.PRESET_FAST,
    "balanced": pb.PRESET_BALANCED,
    "thorough": pb.PRESET_THOROUGH,
}
_MODES = {
    "hybrid": pb.SEARCH_MODE_HYBRID,
    "lexical": pb.SEARCH_MODE_LEXICAL,
    "vector": pb.SEARCH_MODE_VECTOR,
}
_FUSIONS = {
    "adaptive": pb.FUSION_ADAPTIVE,
    "term-coverage": pb.FUSION_TERM_COVERAGE,
    "reciprocal-rank": pb.FUSION_RECIPROCAL_RANK,
    "min-max": pb.FUSION_MIN_MAX,
    "z-score": pb.FUSION_Z_SCORE,
}
_TREE_MODES = {
    "off": pb.TreePlan.MODE_OFF,
    "collapsed": pb.TreePlan.MODE_COLLAPSED,
    "traversal": pb.TreePlan.MODE_TRAVERSAL,
    "hierarchical": pb.TreePlan.MODE_HIERARCHICAL,
}
PLAN_NAMES = (*_PRESETS, *_MODES, *_FUSIONS)


def parse_plan(text: str) -> pb.RetrievalPlan:
    """Read a plan.

    Args:
        text: "" for the defaults; a preset (fast, balanced, thorough); a mode (hybrid, lexical, vector) or a fusion
            (adaptive, term-coverage, reciprocal-rank, min-max, z-score) and nothing besides, as in the preset fast; or
            a JSON object with the fields of `corpusmesh.retrieve.v1.RetrievalPlan`.

    Returns:
        The plan.

    Raises:
        InvalidArgumentError: If it is none of these.
    """
    name = text.strip()
    if not name:
        return pb.RetrievalPlan()
    if name in _PRESETS:
        return pb.RetrievalPlan(preset=_PRESETS[name])
    if name in _MODES:
        return pb.RetrievalPlan(preset=pb.PRESET_FAST, mode=_MODES[name])
    if name in _FUSIONS:
        return pb.RetrievalPlan(preset=pb.PRESET_FAST, fusion=_FUSIONS[name])
    try:
        # Parse takes "[]" for an empty message.
        return json_format.Parse(name if name.startswith("{") else "none", pb.RetrievalPlan())
    except json_format.ParseError as error:
        raise InvalidArgumentError(
            "PLAN_INVALID",
            f"the plan is neither one of {', '.join(PLAN_NAMES)} nor a JSON object of RetrievalPlan ({error})",
            field="plan",
        ) from error


def with_tree_mode(plan: pb.RetrievalPlan, mode: str) -> pb.RetrievalPlan:
    """Say how trees of summaries take part.

    Args:
        plan: A plan; changed.
        mode: off, collapsed, traversal, hierarchical; "" leaves it to the plan.

    Returns:
        The plan.

    Raises:
        InvalidArgumentError: If it is none of these.
    """
    if mode and mode not in _TREE_MODES:
        raise InvalidArgumentError("PLAN_INVALID", f"a tree is searched {', '.join(_TREE_MODES)}", field="tree")
    if mode:
        plan.tree.mode = _TREE_MODES[mode]
    return plan
