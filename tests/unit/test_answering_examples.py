"""The sample documents: what the script makes of the sources, and good enough for the demo's questions."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_checked_in_documents_are_byte_for_byte_what_the_script_makes() -> None:
    pytest.importorskip("reportlab", reason="the extra `examples` is not installed")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "build.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_demo_questions_name_documents_that_exist_and_state_the_answer() -> None:
    questions = json.loads((EXAMPLES / "questions.json").read_text(encoding="utf-8"))
    assert len(questions) == 3
    assert sum(entry["language"] == "zh" for entry in questions) == 1
    sources = "".join(path.read_text(encoding="utf-8") for path in (EXAMPLES / "sources").iterdir())
    for entry in questions:
        assert entry["expected_text"] in sources
        for name in entry["expected_documents"]:
            assert (EXAMPLES / "documents" / name).is_file()


def test_the_documents_cover_every_format_and_stay_small() -> None:
    documents = list((EXAMPLES / "documents").iterdir())
    assert {path.suffix for path in documents} == {".md", ".html", ".docx", ".pptx", ".xlsx", ".pdf"}
    assert sum(path.stat().st_size for path in documents) < 1_500_000
