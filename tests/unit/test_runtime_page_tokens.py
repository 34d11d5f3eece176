"""Tokens of lists: they lead on in their own listing, and nowhere else."""

import base64
from datetime import UTC, datetime, timedelta

import pytest

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.conversations import ConversationRow
from corpusmesh_retrieve.conversing.handlers import _key_of, _row_of
from corpusmesh_runtime.page_tokens import checked_page_size, make_page_token, read_page_number, read_page_token


def test_a_token_leads_on_in_its_own_listing_alone() -> None:
    token = make_page_token("goldenSets/a", "set-1")
    assert read_page_token("goldenSets/a", token) == "set-1"
    with pytest.raises(InvalidArgumentError):
        read_page_token("goldenSets/b", token)


def test_the_first_page_has_no_token() -> None:
    assert read_page_token("a", "") == ""
    assert (read_page_number("a", ""), read_page_number("a", "", first=-1)) == (0, -1)


@pytest.mark.parametrize("number", [0, 1, 999_999_999])
def test_numbers_come_back(number: int) -> None:
    assert read_page_number("a", make_page_token("a", str(number)), first=-1) == number


@pytest.mark.parametrize("key", ["", "a b", "a\x00", "ключ", "x" * 129, "'; --"])
def test_a_key_of_other_characters_is_refused_whoever_made_the_token(key: str) -> None:
    with pytest.raises(InvalidArgumentError):
        read_page_token("a", make_page_token("a", key))


@pytest.mark.parametrize("key", ["-1", "01", "1e3", "1234567890", "x"])
def test_what_is_no_number_is_no_page(key: str) -> None:
    with pytest.raises(InvalidArgumentError):
        read_page_number("a", make_page_token("a", key))


@pytest.mark.parametrize("token", ["é", "=", "A", base64.urlsafe_b64encode(b"\xff" * 20).decode(), "A" * 10_000])
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        read_page_token("a", token)
    assert (caught.value.reason, caught.value.field) == ("PAGE_TOKEN_INVALID", "page_token")


def test_a_page_size_has_a_default_and_a_most() -> None:
    assert [checked_page_size(size, max_page_size=200) for size in (0, 7, 201)] == [50, 7, 200]
    with pytest.raises(InvalidArgumentError):
        checked_page_size(-1, max_page_size=200)


def test_a_page_of_conversations_begins_to_the_microsecond_where_the_last_one_ended() -> None:
    moment = datetime(2026, 11, 30, 12, tzinfo=UTC) + timedelta(microseconds=123_457)
    row = ConversationRow("0f3a", "", (), 0, moment, moment)
    key = read_page_token("c", make_page_token("c", _key_of(row)))
    assert _row_of(key) == row
    with pytest.raises(InvalidArgumentError):
        _row_of("0f3a")
