"""What `corpusmesh ingest` makes of paths, and evaluation sets on disk."""

import json
import os
from pathlib import Path

import pytest

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
from corpusmesh_app.cli.answer_commands import passage_around
from corpusmesh_app.cli.evaluation_sets import read_corpus, read_queries
from corpusmesh_app.cli.output import plain
from corpusmesh_app.cli.plans import parse_plan
from corpusmesh_app.cli.saving import safe_file_name
from corpusmesh_app.cli.sources import batches, collect_files, is_url
from corpusmesh_client import UploadItem
from corpusmesh_core.errors import InvalidArgumentError, NotFoundError


def test_folder_gives_regular_files_by_their_path_below_it(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / ".git").mkdir()
    for name in ("z.txt", "b/z.txt", ".git/config", ".env"):
        (tmp_path / name).write_text("x")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "dangling").symlink_to(tmp_path / "none")
    assert [item.display_name for item in collect_files(tmp_path)] == ["b/z.txt", "z.txt"]


def test_pipe_and_missing_file_are_refused_rather_than_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path / "none", tmp_path):
        with pytest.raises(NotFoundError):
            collect_files(path)


def test_file_name_that_is_no_utf8_becomes_text(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.txt"
    with open(path, "wb") as file:
        file.write(b"x")
    (item,) = collect_files(tmp_path)
    item.display_name.encode("utf-8")
    assert item.display_name.endswith(".txt")


def test_batches_keep_order_and_bounds() -> None:
    items = [UploadItem(str(n), b"x" * size) for n, size in enumerate([10, 10, 10, 100, 1, 1])]
    cut = list(batches(items, max_count=2, max_bytes=50))
    assert [[item.display_name for item in batch.items] for batch in cut] == [["0", "1"], ["2"], ["3"], ["4", "5"]]
    assert [batch.size_bytes for batch in cut] == [20, 10, 100, 2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("http://x/y", True), ("FTP://x", True), ("a/b", False), ("C:\\x", False), ("://x", False), ("a b://x", False)],
)
def test_is_url(text: str, expected: bool) -> None:
    assert is_url(text) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\x.exe", "x.exe"),
        (".bashrc", "bashrc"),
        ("a\x00b\n.txt", "ab.txt"),
        ("", "original"),
        ("a/..", "original"),
        ("報告.pdf", "報告.pdf"),
    ],
)
def test_saved_name_is_never_a_path(name: str, expected: str) -> None:
    assert safe_file_name(name) == expected


def test_plain_replaces_what_could_steer_a_terminal() -> None:
    assert plain("a\x1b[31mb\x9b\u202ec\td\n") == "a\ufffd[31mb\ufffd\ufffdc\td\n"


def test_plans_are_presets_or_the_contracts_own_json() -> None:
    assert parse_plan("") == pb.RetrievalPlan()
    assert parse_plan("lexical").mode == pb.SEARCH_MODE_LEXICAL
    assert parse_plan("term-coverage").fusion == pb.FUSION_TERM_COVERAGE
    assert parse_plan("balanced") == pb.RetrievalPlan(preset=pb.PRESET_BALANCED)
    assert parse_plan("z-score") == pb.RetrievalPlan(preset=pb.PRESET_FAST, fusion=pb.FUSION_Z_SCORE)
    plan = parse_plan('{"mode": "SEARCH_MODE_VECTOR", "vectorWeight": 0.0, "candidate_window": 7}')
    assert (plan.mode, plan.candidate_window) == (pb.SEARCH_MODE_VECTOR, 7)
    assert plan.HasField("vector_weight")


@pytest.mark.parametrize("text", ["best", "[]", "{", '{"unknown": 1}', '"lexical"'])
def test_other_plans_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_plan(text)


def test_evaluation_set_is_read_with_its_question_field_and_limit(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"id": "a", "text": "x"}) + "\n\n")
    rows = [{"id": n, "question": "q", "question_zh": f"问{n}", "gold_ids": ["a"]} for n in range(3)]
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert read_corpus(tmp_path)[0].title == ""
    queries = read_queries(tmp_path, question_field="question_zh", limit=2)
    assert [query.question for query in queries] == ["问0", "问1"]


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"id": "a"}', '{"id": "", "text": "x"}', '{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}']
)
def test_wrong_corpus_names_file_and_problem(tmp_path: Path, text: str) -> None:
    (tmp_path / "corpus.jsonl").write_text(text)
    with pytest.raises(InvalidArgumentError, match=r"corpus\.jsonl"):
        read_corpus(tmp_path)


def test_missing_set_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        read_corpus(tmp_path)


def test_passage_shows_what_the_answer_took_from_it() -> None:
    text = "Begin. " + "filler words here. " * 50 + "The notice period is three months. " + "tail words here. " * 50
    shown = passage_around(text, "The notice period is\nthree months.")
    assert "The notice period is three months." in shown
    assert (len(shown) <= 402, shown[0], shown[-1]) == (True, "…", "…")
    assert passage_around(text, "not in it").startswith("Begin.")
    assert passage_around("short", "") == "short"
