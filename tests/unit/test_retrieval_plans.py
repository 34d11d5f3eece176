"""The plan of a request: preset, then the knowledge base's own plan, then what the request says."""

import ast
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
from corpusmesh_client.knowledge_base_settings import settings_from_plain, settings_to_plain
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.query import PLAN_BY_PRESET, Diversity, Preset, RerankMethod, RetrievalPlan
from corpusmesh_core.query import plan as plan_module
from corpusmesh_ingest.configuration import checked_config
from corpusmesh_retrieve.convert import metadata_of
from corpusmesh_runtime.retrieval_plans import make_plan, plan_to_wire

DEFAULT_WINDOW = 64


def plan_of(request: pb.RetrievalPlan, *configs: dict[str, Any]) -> RetrievalPlan:
    return make_plan(request, configs, page_size=10, default_window=DEFAULT_WINDOW)


@pytest.mark.parametrize("preset", list(Preset))
def test_effective_plan_makes_itself_again(preset: Preset) -> None:
    number = pb.Preset.Value(f"PRESET_{preset.name}")
    plan = plan_of(pb.RetrievalPlan(preset=number, vector_weight=0.0, candidate_window=7))
    assert plan_of(plan_to_wire(plan)) == plan


def test_balanced_holds_where_nobody_says_anything() -> None:
    assert plan_of(pb.RetrievalPlan()).assembly == PLAN_BY_PRESET[Preset.BALANCED].assembly


def test_knowledge_base_fills_what_the_request_leaves_open() -> None:
    own = {"retrieval": {"preset": "fast", "assembly": {"neighbours": 2, "parents": True}, "fusion": "min_max"}}
    request = pb.RetrievalPlan(assembly=pb.AssemblyPlan(parents=False))
    plan = plan_of(request, own)
    assert (plan.assembly.neighbours, plan.assembly.parents, plan.fusion.value) == (2, False, "min_max")
    assert plan.recall == PLAN_BY_PRESET[Preset.FAST].recall


def test_own_plans_that_differ_do_not_count() -> None:
    plan = plan_of(pb.RetrievalPlan(), {"retrieval": {"assembly": {"neighbours": 2}}}, {})
    assert plan.assembly.neighbours == 0


def test_request_switches_a_stage_off() -> None:
    plan = plan_of(
        pb.RetrievalPlan(
            preset=pb.PRESET_THOROUGH,
            rerank=pb.RerankPlan(method=pb.RerankPlan.METHOD_NONE),
            assembly=pb.AssemblyPlan(diversity=pb.AssemblyPlan.DIVERSITY_NONE, hops=0),
        )
    )
    assert plan.rerank.method is RerankMethod.NONE
    assert (plan.assembly.diversity, plan.assembly.hops) == (Diversity.NONE, 0)
    assert plan.assembly.segments


@pytest.mark.parametrize(
    ("request_plan", "field"),
    [
        (pb.RetrievalPlan(assembly=pb.AssemblyPlan(neighbours=6)), "assembly.neighbours"),
        (pb.RetrievalPlan(assembly=pb.AssemblyPlan(diversity_weight=float("nan"))), "assembly.diversity_weight"),
        (pb.RetrievalPlan(rerank=pb.RerankPlan(depth=0)), "rerank.depth"),
        (pb.RetrievalPlan(rerank=pb.RerankPlan(method=9)), "plan.rerank.method"),  # type: ignore[arg-type]
        (pb.RetrievalPlan(preset=9), "plan.preset"),  # type: ignore[arg-type]
        (pb.RetrievalPlan(recall=pb.RecallPlan(minimum_match=1.5)), "recall.minimum_match"),
        (pb.RetrievalPlan(candidate_window=-1), "plan.candidate_window"),
        (pb.RetrievalPlan(kinds=["web_page"]), "kinds"),
    ],
)
def test_value_out_of_range_names_its_field(request_plan: pb.RetrievalPlan, field: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        plan_of(request_plan)
    assert (raised.value.reason, raised.value.field) == ("PLAN_INVALID", field)


def test_own_plan_survives_the_wire() -> None:
    plain = {"retrieval": {"preset": "thorough", "understanding": {"languages": ["zh"], "hyde": False}}}
    assert settings_to_plain(settings_from_plain(plain)) == plain


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ({"documents": ["knowledgeBases/a/documents/b"]}, "knowledge_base.retrieval_plan.documents"),
        ({"assembly": {"hops": 9}}, "knowledge_base.retrieval_plan.assembly.hops"),
        ({"preset": "quick"}, "knowledge_base.retrieval_plan.preset"),
    ],
)
def test_knowledge_base_refuses_a_plan_that_a_search_could_not_work_with(section: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        checked_config({"retrieval": section}, embedder_max_tokens=512, field="knowledge_base")
    assert raised.value.field == field


PLAN_MODULE = Path(plan_module.__file__)
READ_BY = (*Path(__file__).parents[2].glob("services/retrieve/corpusmesh_retrieve/**/*.py"), PLAN_MODULE)


def read_attributes() -> set[tuple[str, str]]:
    """Give what is read of what, such as ("assembly", "hops"); checks of values are no reading."""
    found: set[tuple[str, str]] = set()
    for path in READ_BY:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "__post_init__":
                node.body = []
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute | ast.Name):
                owner = node.value.attr if isinstance(node.value, ast.Attribute) else node.value.id
                if owner != "self" or path == PLAN_MODULE:
                    found.add((owner, node.attr))
    return found


def test_every_field_of_a_plan_is_read_by_a_search() -> None:
    read = read_attributes()
    unread = []
    for field in fields(RetrievalPlan):
        part = getattr(RetrievalPlan(), field.name)
        for owner, name in (
            [(field.name, own.name) for own in fields(part)] if is_dataclass(part) else [("self", field.name)]
        ):
            if not {(owner, name), ("plan", name)} & read:
                unread.append(f"{owner}.{name}")
    assert unread == []


@pytest.mark.parametrize(
    ("request_plan", "field"),
    [
        (pb.RetrievalPlan(documents=["knowledgeBases/a/documents/b"] * 1001), "plan.documents"),
        (pb.RetrievalPlan(metadata_conditions=[pb.MetadataCondition(key="k")] * 33), "plan.metadata_conditions"),
    ],
)
def test_too_many_conditions_on_documents_name_their_field(request_plan: pb.RetrievalPlan, field: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        metadata_of(request_plan, knowledge_base_ids=["a"])
    assert raised.value.field == field
