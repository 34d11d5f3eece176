"""Sentences of English and Chinese text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.citation import split_sentences


def sentences(text: str) -> list[str]:
    return [text[span.start : span.end] for span in split_sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("第一句。第二句！第三句？", ["第一句。", "第二句！", "第三句？"]),
        ("He said “stop.” Then he left.", ["He said “stop.”", "Then he left."]),
        ("他说：“好。”然后走了。", ["他说：“好。”", "然后走了。"]),
        ("Use e.g. Dr. Smith, i.e. No. 5. Next.", ["Use e.g. Dr. Smith, i.e. No. 5.", "Next."]),
        ("It is 3.14 or 1,000.5. See v2.0.1 there.", ["It is 3.14 or 1,000.5.", "See v2.0.1 there."]),
        ("Title\nA sentence.\n- item one\n- item two", ["Title", "A sentence.", "- item one", "- item two"]),
        ("1. First step\n2. Second step", ["1. First step", "2. Second step"]),
        ("name | size\nupload | 512 MiB", ["name | size", "upload | 512 MiB"]),
        (
            "This line is broken by the width of the page it stands on\nand goes on here. End.",
            ["This line is broken by the width of the page it stands on\nand goes on here.", "End."],
        ),
        ("MiB为单位.下一句", ["MiB为单位.", "下一句"]),
        ("", []),
        (" \n\n ", []),
    ],
)
def test_split_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@given(st.text(alphabet="ab. !?。！\n|-1)“”e.g", max_size=80))
def test_spans_are_ordered_not_empty_and_leave_only_white_space_between(text: str) -> None:
    position = 0
    for span in split_sentences(text):
        assert text[position : span.start].strip() == ""
        assert text[span.start : span.end].strip() == text[span.start : span.end] != ""
        position = span.end
    assert text[position:].strip() == ""
