"""Files of words that a person has."""

from pathlib import Path

import pytest

from corpusmesh_app.cli.vocabulary_files import read_vocabulary_file, split_group
from corpusmesh_core.errors import InvalidArgumentError


def test_a_text_file_has_one_entry_a_line(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text(
        "\ufeff# remark\n氪金\n\nlaptop, notebook computer，笔记本电脑\nleave => vacation\n", encoding="utf-8"
    )
    terms, groups = read_vocabulary_file(str(file))
    assert terms == ["氪金"]
    assert groups == [("laptop", "notebook computer", "笔记本电脑"), ("leave", "vacation")]


def test_a_json_file_is_what_show_prints(tmp_path: Path) -> None:
    file = tmp_path / "words.json"
    file.write_text('{"terms": ["a b"], "synonyms": [["x", "y"]], "etag": "r3"}', encoding="utf-8")
    assert read_vocabulary_file(str(file)) == (["a b"], [("x", "y")])


@pytest.mark.parametrize(
    "content",
    [
        b"{broken",
        b'{"terms": "a"}',
        b'{"terms": [1]}',
        b'{"synonyms": ["a"]}',
        b'{"words": []}',
        b"\xff\xfe\x00",
        b"x" * (9 * 1024 * 1024),
    ],
)
def test_what_is_no_vocabulary_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "words"
    file.write_bytes(content)
    with pytest.raises(InvalidArgumentError) as caught:
        read_vocabulary_file(str(file))
    assert caught.value.reason == "VOCABULARY_FILE_INVALID"
    with pytest.raises(InvalidArgumentError):
        read_vocabulary_file(str(tmp_path / "missing"))


def test_a_group_is_split_at_commas_of_any_width() -> None:
    assert split_group(" a,b， c、d ") == ("a", "b", "c", "d")
