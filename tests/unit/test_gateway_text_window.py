"""How an answer's text is ended by stop texts and by a bound of tokens, whatever pieces it comes in."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.token_estimate import estimate_tokens
from corpusmesh_gateway.openai.text_window import TextWindow

TEXTS = st.text(alphabet="ab词 ", max_size=40)
STOPS = st.lists(st.text(alphabet="ab词", min_size=1, max_size=4), max_size=3)
BOUNDS = st.none() | st.integers(1, 12)


def run(pieces: list[str], stops: list[str], max_tokens: int | None) -> tuple[str, str | None]:
    window = TextWindow(stops, max_tokens)
    sent = "".join([window.feed(piece) for piece in pieces]) + window.end()
    assert sent == window.text
    return sent, window.finish_reason


@given(text=TEXTS, stops=STOPS, max_tokens=BOUNDS, cuts=st.lists(st.integers(0, 40), max_size=6))
def test_pieces_make_no_difference(text: str, stops: list[str], max_tokens: int | None, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(places)]
    assert run(pieces, stops, max_tokens) == run([text], stops, max_tokens)


@given(text=TEXTS, stops=STOPS, max_tokens=BOUNDS)
def test_text_ends_before_the_first_stop_and_within_the_bound(
    text: str, stops: list[str], max_tokens: int | None
) -> None:
    sent, reason = run([text], stops, max_tokens)
    assert text.startswith(sent)
    assert not any(stop in sent for stop in stops)
    assert max_tokens is None or estimate_tokens(sent) <= max_tokens
    if reason is None:
        assert sent == text
    elif reason == "stop":
        assert any(text[len(sent) :].startswith(stop) for stop in stops)
    else:
        assert max_tokens is not None
        assert estimate_tokens(text[: len(sent) + 1]) > max_tokens
