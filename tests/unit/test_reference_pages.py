"""The checked-in reference pages say what the code says."""

import re
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from corpusmesh_app.reference import pages
from corpusmesh_app.reference.errors import errors_page
from corpusmesh_app.settings import MeshSettings
from corpusmesh_runtime.config import Section

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["configuration.md", "errors.md", "metrics.md"])
def test_checked_in_page_is_what_the_code_says(name: str) -> None:
    checked_in = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert checked_in == pages()[name], "run `.venv/bin/python -m corpusmesh_app.reference` and commit docs/reference"


def test_every_setting_has_a_meaning_and_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    page = pages()["configuration.md"]
    for line in page.splitlines():
        if line.startswith("| `"):
            assert line.split(" | ")[-1].removesuffix(" |").strip(), line
    monkeypatch.setenv("CORPUSMESH_INGEST__WORKER__BULK_SLOTS", "7")
    assert "`CORPUSMESH_INGEST__WORKER__BULK_SLOTS`" in page
    assert MeshSettings().ingest.worker.bulk_slots == 7


def test_the_environment_of_the_writer_does_not_change_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    before = pages()["configuration.md"]
    monkeypatch.setenv("CORPUSMESH_INGEST__MAX_DOCUMENT_BYTES", "1")
    assert pages()["configuration.md"] == before


def test_every_section_is_frozen_and_closed() -> None:
    sections = [field.default for field in MeshSettings.model_fields.values()]
    assert all(isinstance(section, Section) for section in sections)
    assert all(section.model_config["frozen"] and section.model_config["extra"] == "forbid" for section in sections)


def test_every_metric_of_the_registry_is_on_the_page() -> None:
    page = pages()["metrics.md"]
    names = {family.name for family in REGISTRY.collect() if family.name.startswith("corpusmesh_")}
    assert names
    assert not {name for name in names if f"`{name}`" not in page and f"`{name}_total`" not in page}


def test_reasons_are_found_in_calls_constants_and_failures_of_parts(tmp_path: Path) -> None:
    folder = tmp_path / "libs"
    folder.mkdir()
    (tmp_path / "services").mkdir()
    (folder / "module.py").write_text(
        '_GONE = ("PART_GONE", "it is gone")\n'
        '_FULL = "QUEUE_FULL"\n'
        "_LIMIT = 7\n"
        'raise OverloadedError(_FULL, f"the queue holds {settings.size} of {_LIMIT} texts")\n'
        'raise errors.NotFoundError("THING_NOT_FOUND", "no such thing")\n'
        'raise InternalError("BROKEN", "a | b")\n'
        "PartFailure(1, *_GONE)\n"
        'ValueError("NOT_OURS", "x")\n',
        encoding="utf-8",
    )
    rows = [line for line in errors_page(tmp_path).splitlines() if line.startswith("| `")]
    assert rows == [
        "| `BROKEN` | INTERNAL, hidden | no | a \\| b |",
        "| `PART_GONE` | INVALID_ARGUMENT, document | no | it is gone |",
        "| `QUEUE_FULL` | RESOURCE_EXHAUSTED | yes | the queue holds {size} of 7 texts |",
        "| `THING_NOT_FOUND` | NOT_FOUND | no | no such thing |",
    ]


PROSE = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/architecture.md",
    *(f"docs/guide/{name}.md" for name in ("cli", "doors", "operations", "retrieval", "templates")),
    "services/retrieve/README.md",
)


@pytest.mark.parametrize("page", PROSE)
def test_every_file_that_a_page_names_is_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    linked = {(ROOT / page).parent / link for link in re.findall(r"\]\((?!https?:)([^)#]+)", text)}
    named = {ROOT / path for path in re.findall(r"`((?:libs|services|tests|docs|protos)/[\w./]+\.\w+)`", text)}
    assert sorted(str(path) for path in linked | named if not path.exists()) == []
