"""Content keys: equal for equal children under equal settings and titles, and for nothing else."""

from dataclasses import replace

import pytest

from corpusmesh_core.trees.keys import node_key, summary_fingerprint
from corpusmesh_core.trees.settings import SummaryMethod, TreeSettings
from corpusmesh_core.trees.values import KEY_BYTES

FIRST, SECOND = b"a" * KEY_BYTES, b"b" * KEY_BYTES
MODEL = TreeSettings(summaries=SummaryMethod.LLM)


def test_a_heading_cannot_stand_for_a_child() -> None:
    of_both = node_key(b"f", [FIRST, SECOND])
    assert node_key(b"f", [SECOND], FIRST.decode()) != of_both
    assert node_key(b"f", [SECOND], "Part") != node_key(b"f", [FIRST, SECOND], "Part"[:0])
    assert node_key(b"f", [FIRST, SECOND], "Part" + FIRST.decode()) != node_key(b"f", [FIRST, FIRST, SECOND], "Part")


def test_order_and_number_of_children_count() -> None:
    keys = [node_key(b"f", children) for children in ([FIRST, SECOND], [SECOND, FIRST], [FIRST], [FIRST, FIRST], [])]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    "change",
    [{"prompt": "be short"}, {"context_tokens": 4096}, {"summary_tokens": 100}, {"summaries": SummaryMethod.LITE}],
)
def test_what_decides_a_summary_is_in_its_fingerprint(change: dict[str, object]) -> None:
    changed = replace(MODEL, **change)  # type: ignore[arg-type]
    assert (
        summary_fingerprint(changed, "m/v1") != summary_fingerprint(MODEL, "m/v1") != summary_fingerprint(MODEL, "m/v2")
    )
