"""The section of trees in a configuration: what is valid, and what is said of what is not."""

import math
from typing import Any

import pytest

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.trees.settings import SummaryMethod, TreeMethod, TreeScope, TreeSettings


def test_section_that_is_missing_or_says_zero_has_its_defaults() -> None:
    assert TreeSettings.of({}) == TreeSettings()
    assert TreeSettings.of({"tree": {"max_cluster_size": 0, "summary_tokens": 0}}) == TreeSettings()
    read = TreeSettings.of({"tree": {"scope": "file", "method": "page", "summaries": "llm"}})
    assert (read.scope, read.method, read.summaries) == (TreeScope.FILE, TreeMethod.PAGE, SummaryMethod.LLM)
    assert read.effective_summary_tokens > TreeSettings().effective_summary_tokens


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ({"scope": "planet"}, "tree.scope"),
        ({"method": 3}, "tree.method"),
        ({"clustering_threshold": math.nan}, "tree.clustering_threshold"),
        ({"max_cluster_size": 3}, "tree.max_cluster_size"),
        ({"scope": "dataset", "method": "section"}, "tree.method"),
        ({"summary_tokens": 1000, "context_tokens": 1024}, "tree.summary_tokens"),
        ({"prompt": "x" * 2001}, "tree.prompt"),
        ({"depth": 3}, "tree"),
    ],
)
def test_section_that_is_wrong_is_refused_with_its_field(section: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        TreeSettings.of({"tree": section})
    assert refused.value.field == field
