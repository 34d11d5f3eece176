"""Ledger and publish gate in a knowledge base's configuration."""

from typing import Any

import pytest

from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as pb
from corpusmesh_client.knowledge_base_settings import settings_from_plain, settings_to_plain
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.retrievals import LedgerSection
from corpusmesh_ingest.convert_knowledge_bases import changed_config, config_of
from corpusmesh_runtime.config_hash import config_hash

LEDGER = {"enabled": True, "retention_days": 7}
GATE = {"golden_set": "g", "measure": "ndcg_at_10", "minimum": 0.0, "max_drop": 0.02}


def configured(plain: dict[str, Any]) -> dict[str, object]:
    return config_of(settings_from_plain(plain), embedder_max_tokens=512)


def test_both_come_back_as_they_were_given() -> None:
    plain = {"ledger": LEDGER, "publish_gate": GATE}
    assert settings_to_plain(settings_from_plain(plain)) == plain
    made = configured(plain)
    assert (made["ledger"], made["publish_gate"]) == (LEDGER, GATE)
    assert LedgerSection.of(made) == LedgerSection(enabled=True, retention_days=7)


def test_neither_makes_a_version_outdated() -> None:
    bare = configured({})
    assert config_hash(configured({"ledger": LEDGER, "publish_gate": GATE})) == config_hash(bare)
    assert config_hash(configured({"parsing": {"recognition": "never"}})) != config_hash(bare)


def test_a_ledger_that_is_off_leaves_no_trace() -> None:
    assert configured({"ledger": {"enabled": False, "retention_days": 7}}) == configured({})
    assert LedgerSection.of({}) == LedgerSection(enabled=False, retention_days=30)


def test_a_gate_is_taken_away_by_setting_the_field_empty() -> None:
    before = configured({"publish_gate": GATE})
    after = changed_config(before, pb.KnowledgeBase(), frozenset({"publish_gate"}), embedder_max_tokens=512)
    assert "publish_gate" in before
    assert "publish_gate" not in after


@pytest.mark.parametrize(
    ("plain", "reason", "field"),
    [
        (
            {"ledger": {"enabled": True, "retention_days": 366}},
            "LEDGER_SETTING_INVALID",
            "ledger_settings.retention_days",
        ),
        ({"publish_gate": {"minimum": 0.5}}, "PUBLISH_GATE_INVALID", "publish_gate.golden_set"),
        ({"publish_gate": {"golden_set": "g", "minimum": 5.0}}, "PUBLISH_GATE_INVALID", "publish_gate.minimum"),
        ({"publish_gate": {"golden_set": "g", "measure": "speed"}}, "SETTING_UNKNOWN", "publish_gate.measure"),
    ],
)
def test_what_could_not_work_is_refused_with_its_field(plain: dict[str, Any], reason: str, field: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        configured(plain)
    assert raised.value.reason == reason
    assert (raised.value.field or "").endswith(field)
