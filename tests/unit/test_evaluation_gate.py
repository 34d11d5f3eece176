"""The gate of a publish: its settings and its verdicts."""

import pytest

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.evaluation import GateMeasure, PublishGate, judge_gate


def test_a_configuration_without_gate_has_none() -> None:
    assert PublishGate.of({}) is None
    assert PublishGate.of({"publish_gate": {}}) is None


def test_a_gate_is_read_with_its_defaults() -> None:
    gate = PublishGate.of({"publish_gate": {"golden_set": "g", "minimum": 0.8}})
    assert gate == PublishGate("g", GateMeasure.RECALL_AT_5, 0.8, None)


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ({"minimum": 0.5}, "golden_set"),
        ({"golden_set": "g"}, "minimum"),
        ({"golden_set": "g", "minimum": 1.2}, "minimum"),
        ({"golden_set": "g", "max_drop": -0.1}, "max_drop"),
        ({"golden_set": "g", "minimum": float("nan")}, "minimum"),
        ({"golden_set": "g", "minimum": 0.5, "measure": "speed"}, "measure"),
        ({"golden_set": "g", "minimum": "much"}, "measure"),
    ],
)
def test_a_gate_that_could_not_work_is_refused(section: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        PublishGate.of({"publish_gate": section})
    assert (raised.value.reason, raised.value.field) == ("PUBLISH_GATE_INVALID", field)


def test_the_minimum_holds_up_what_is_below_it_alone() -> None:
    gate = PublishGate("g", minimum=0.8)
    assert judge_gate(gate, 0.8, None).passes
    assert judge_gate(gate, 0.1 + 0.7, None).passes
    verdict = judge_gate(gate, 0.7999, None, question_count=40)
    assert not verdict.passes
    assert verdict.message == "recall_at_5 of the golden set g would be 0.7999 on 40 questions, less than 0.8000"


def test_a_drop_is_measured_on_common_questions() -> None:
    gate = PublishGate("g", GateMeasure.MRR, max_drop=0.02)
    assert judge_gate(gate, 0.1, (0.88, 0.90)).passes
    assert judge_gate(gate, 0.1, (0.95, 0.90)).passes
    verdict = judge_gate(gate, 0.99, (0.87, 0.90))
    assert not verdict.passes
    assert verdict.message == "mrr of the golden set g would fall from 0.9000 to 0.8700, more than 0.0200"


def test_nothing_is_held_up_where_nothing_can_be_asked() -> None:
    assert judge_gate(PublishGate("g", minimum=0.8, max_drop=0.0), None, None).passes
