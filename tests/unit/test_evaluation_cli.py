"""Golden questions in files, and what `corpusmesh eval` takes its first word for."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from corpusmesh.retrieve.v1 import evaluation_service_pb2 as pb
from corpusmesh_app.cli.app import build_app
from corpusmesh_app.cli.evaluation_set_files import read_golden_questions
from corpusmesh_app.cli.evaluation_shapes import answer_row, comparison_row, plan_name, plan_row
from corpusmesh_core.errors import InvalidArgumentError, NotFoundError
from corpusmesh_core.query import PLAN_BY_PRESET, Preset
from corpusmesh_runtime.retrieval_plans import plan_to_wire

DOCUMENTS = {"manual.pdf": "knowledgeBases/kb/documents/manual", "d7.txt": "knowledgeBases/kb/documents/d7"}


def written(path: Path, *lines: object) -> Path:
    file = path / "questions.jsonl"
    file.write_text("\n\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return file


def test_every_form_of_gold_is_read(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        {"question": "a", "answers": ["x"], "gold": [{"document": "manual.pdf", "quote": "q", "page": 3}]},
        {"question": "b", "gold": ["manual.pdf", "knowledgeBases/kb/documents/other"]},
        {"id": 1, "question": "c", "gold_ids": ["d7"]},
        {"question": "d"},
    )
    assert read_golden_questions(file, DOCUMENTS) == [
        pb.GoldenQuestion(
            question="a", answers=["x"], gold=[pb.Gold(document=DOCUMENTS["manual.pdf"], quote="q", page=3)]
        ),
        pb.GoldenQuestion(
            question="b",
            gold=[
                pb.Gold(document=DOCUMENTS["manual.pdf"]),
                pb.Gold(document="knowledgeBases/kb/documents/other"),
            ],
        ),
        pb.GoldenQuestion(question="c", gold=[pb.Gold(document=DOCUMENTS["d7.txt"])]),
        pb.GoldenQuestion(question="d"),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "EVALUATION_LINE_INVALID"),
        ([], "EVALUATION_LINE_INVALID"),
        ({"gold": []}, "EVALUATION_LINE_INVALID"),
        ({"question": "a", "gold": "manual.pdf"}, "EVALUATION_LINE_INVALID"),
        ({"question": "a", "answers": [1]}, "EVALUATION_LINE_INVALID"),
        ({"question": "a", "gold": [{"quote": "q"}]}, "EVALUATION_LINE_INVALID"),
        ({"question": "a", "gold": [{"document": "manual.pdf", "page": "3"}]}, "EVALUATION_LINE_INVALID"),
        ({"question": "a", "gold": ["unknown.pdf"]}, "GOLD_DOCUMENT_UNKNOWN"),
        ("", "EVALUATION_EMPTY"),
    ],
)
def test_a_bad_line_is_told_by_its_number(tmp_path: Path, line: object, reason: str) -> None:
    with pytest.raises((InvalidArgumentError, NotFoundError)) as raised:
        read_golden_questions(written(tmp_path, line), DOCUMENTS)
    assert raised.value.reason == reason


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        read_golden_questions(tmp_path / "none.jsonl", DOCUMENTS)


def test_eval_takes_a_folder_where_its_first_word_is_no_command(tmp_path: Path) -> None:
    runner, app = CliRunner(), build_app()
    for arguments in (
        [str(tmp_path), "--kb", "x"],
        ["--kb", "x", str(tmp_path)],
        ["folder", str(tmp_path), "--kb", "x"],
    ):
        result = runner.invoke(app, ["eval", *arguments, "--json"])
        assert json.loads(result.stdout)["error"]["reason"] == "EVALUATION_FILE_NOT_FOUND"
    assert "draw" in runner.invoke(app, ["eval", "--help"]).stdout


def test_rows_say_what_was_measured() -> None:
    measures = pb.PlanMeasures(recall_at_2=0.5, recall_at_5=0.75, recall_at_10=1.0, ndcg_at_10=0.8, mrr=0.6)
    assert plan_row("p", measures) == ("p", "0.5000", "0.7500", "1.0000", "0.8000", "0.6000", "0.0", "0.0")
    assert answer_row("p", pb.AnswerMeasures(abstained_count=2))[4:6] == ("-", "2")
    assert answer_row("p", pb.AnswerMeasures(answer_accuracy=0.0))[4] == "0.0000"
    comparison = pb.MeasureComparison(measure="mrr", difference=-0.1, low=-0.2, high=-0.05, p_value=0.01)
    assert comparison_row(comparison)[-1] == "no more than chance"
    comparison.significant = True
    assert comparison_row(comparison)[:3] == ("mrr", "-0.1000", "-0.2000 .. -0.0500")
    assert comparison_row(comparison)[-1] == "worse"


def test_a_file_that_is_no_text_is_told_apart_from_one_that_is_not_there(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_bytes(b"PK\x03\x04\xff\xfe")
    with pytest.raises(InvalidArgumentError, match="UTF-8"):
        read_golden_questions(file, DOCUMENTS)


def test_a_plan_that_was_measured_is_named_by_its_preset() -> None:
    wire = plan_to_wire(PLAN_BY_PRESET[Preset.THOROUGH])
    wire.candidate_window = 200
    assert plan_name(pb.PlanMeasures(effective_plan=wire), 1) == "thorough"
    wire.assembly.hops = 0
    assert plan_name(pb.PlanMeasures(effective_plan=wire), 1) == "plan 2"
