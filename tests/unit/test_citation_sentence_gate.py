"""Sentences are held back until their end, with the markers behind them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.citation import SentenceGate, sentence_gate, split_segments
from corpusmesh_core.citation.sentences import SentenceSpan


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("One is here [ID:5]. Two is there.", ["One is here [ID:5].", " Two is there."]),
        ("One is here. [ID:5][ID:6] Two is there.", ["One is here. [ID:5][ID:6]", " Two is there."]),
        ("One is here.[ID:5] Two is there.", ["One is here.[ID:5]", " Two is there."]),
        ("第一句。[ID:5]第二句[ID:6]。", ["第一句。[ID:5]", "第二句[ID:6]。"]),
        ("- one [ID:5]\n- two\n", ["- one [ID:5]", "\n- two\n"]),
        ("[ID:5]", ["[ID:5]"]),
        ("", []),
    ],
)
def test_a_segment_is_a_sentence_with_its_markers(text: str, segments: list[str]) -> None:
    assert split_segments(text) == segments


def test_a_sentence_is_given_out_as_soon_as_the_next_has_begun() -> None:
    gate = SentenceGate()
    assert gate.feed("One is here.") == []
    assert gate.feed(" [ID:5]") == []
    assert gate.feed(" T") == ["One is here. [ID:5]"]
    assert gate.finish() == [" T"]


def test_a_text_without_an_end_is_shown_nevertheless() -> None:
    gate = SentenceGate()
    assert "".join(piece for _ in range(50) for piece in gate.feed("word " * 50))


PIECES = st.lists(
    st.sampled_from(
        ["One is here", ".", " ", "\n", "\n\n", "[ID:5]", "[ID:66]", "第一句", "。", "- ", "1.", "3", "e.g.", "|", "# "]
    ),
    max_size=24,
)


@given(PIECES)
def test_all_segments_together_are_the_text_however_it_is_cut(pieces: list[str]) -> None:
    gate = SentenceGate()
    given_out = [segment for piece in pieces for segment in gate.feed(piece)]
    given_out += gate.finish()
    assert "".join(given_out) == "".join(pieces)


@pytest.mark.parametrize("unit", ["A. ", "a", "The harbour closes. "])
def test_what_is_held_is_not_read_again_for_every_character(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0
    split = sentence_gate.split_sentences

    def counted(text: str) -> tuple[SentenceSpan, ...]:
        nonlocal read
        read += len(text)
        return split(text)

    monkeypatch.setattr(sentence_gate, "split_sentences", counted)
    text = (unit * 8_000)[:8_000]
    gate = SentenceGate()
    segments = [segment for character in text for segment in gate.feed(character)]
    assert "".join([*segments, *gate.finish()]) == text
    assert read <= 64 * len(text)
