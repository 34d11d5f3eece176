"""The guide for application developers names what the contract has, and all of it."""

import re
from pathlib import Path

import pytest

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb

GUIDE = (Path(__file__).parents[2] / "docs/guide/retrieval.md").read_text(encoding="utf-8")
PARTS = ("understanding", "recall", "rerank", "assembly", "correction")


def _fields(part: str) -> set[str]:
    message = pb.RetrievalPlan.DESCRIPTOR.fields_by_name[part].message_type
    assert message is not None
    return {field.name for field in message.fields}


@pytest.mark.parametrize("part", PARTS)
def test_every_field_that_the_guide_names_exists(part: str) -> None:
    named = set(re.findall(rf"`{part}\.([a-z_]+)`", GUIDE))
    assert named
    assert named <= _fields(part)


@pytest.mark.parametrize("part", ["understanding", "assembly", "correction"])
def test_every_stage_that_can_be_switched_is_in_the_guide(part: str) -> None:
    how_not_whether = {"languages", "diversity_weight", "max_rounds"}
    missing = [name for name in sorted(_fields(part) - how_not_whether) if name not in GUIDE]
    assert not missing
