"""The tree keeps its shape: small modules, a README for every service, no word that does not belong to the project."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = [*ROOT.glob("libs/**/*.py"), *ROOT.glob("services/**/*.py")]
MAX_MODULE_LINES = 600
FORBIDDEN_NAMES = {"utils.py", "helpers.py", "common.py", "misc.py"}
# Folders of one machine and names of package hosts; written in pieces so that this file is not a hit itself.
FOREIGN = re.compile("/wor" + "k/|repo1\\.maven|py" + "pi\\.org|files\\.pythonhosted|/root/")


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_is_small_and_says_what_it_holds(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_MODULE_LINES
    assert path.name not in FORBIDDEN_NAMES
    assert ast.get_docstring(ast.parse(text)), "a module begins with what it holds"


def test_every_service_has_a_readme() -> None:
    services = {path.parent for path in ROOT.glob("services/*/corpusmesh_*")}
    assert len(services) >= 4
    assert all((service / "README.md").is_file() for service in services)


def test_the_project_speaks_of_itself_alone() -> None:
    places = [*CODE, *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("protos/**/*.proto"), ROOT / "Makefile"]
    hits = [str(path.relative_to(ROOT)) for path in places if FOREIGN.search(path.read_text(encoding="utf-8"))]
    assert hits == []


def test_every_lock_entry_is_pinned_with_a_hash() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    entries = re.split(r"\n(?=[a-z0-9])", lock)
    assert len(entries) > 100
    for entry in entries:
        assert "==" in entry.split("\n")[0], entry[:80]
        assert "--hash=sha256:" in entry, entry[:80]
