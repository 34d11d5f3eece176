"""The guide to chunk templates names every template and every setting with its default."""

import json
import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from corpusmesh_core.chunking import TEMPLATES, BudgetSettings, RunningTextSettings

GUIDE = (Path(__file__).parents[2] / "docs/guide/templates.md").read_text(encoding="utf-8")
SHARED = {entry.name for kind in (BudgetSettings, RunningTextSettings) for entry in fields(kind)}


def section(title):
    return re.split(r"\n#{2,3} ", GUIDE.split(f"# {title}\n", 1)[1], maxsplit=1)[0]


def rows(text):
    return dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", text, re.MULTILINE))


def default_of(entry):
    default = entry.default if entry.default is not MISSING else entry.default_factory()
    return default if isinstance(default, str) else json.dumps(default)


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_template_has_a_section_with_its_own_settings_and_their_defaults(name):
    own = {entry.name: default_of(entry) for entry in fields(TEMPLATES[name].settings_type) if entry.name not in SHARED}
    assert rows(section(f"`{name}`")) == own
    assert f"`{name}`" in section("Which one?")


def test_shared_settings_are_there():
    shared = rows(section("Settings of every template")) | rows(section("Settings of templates for running text"))
    assert set(shared) == SHARED
    assert shared["max_tokens"] == "400"
    assert shared["child_max_tokens"] == "128"
