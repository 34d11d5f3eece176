import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.text import MAX_QUERY_TERMS, Script, analyze, analyze_query, is_stop_word, normalize, script_of


@pytest.mark.parametrize(
    ("text", "coarse"),
    [
        ("C++ and C#", ("c++", "and", "c#")),
        ("a+b", ("a", "b")),
        ('100% "quoted"', ("100", "quoted")),
        ("3.14 1,000 10:30 2020-17221", ("3.14", "1,000", "10:30", "2020-17221")),
        ("John's O'Neill", ("john", "o'neill")),
        ("ＡＢＣ ①", ("abc", "1")),
        ("B+樹", ("b+", "树")),
        ("한국어 텍스트", ("한국어", "텍스트")),
    ],
)
def test_coarse_terms_are_words_as_written(text: str, coarse: tuple[str, ...]) -> None:
    assert analyze(text).coarse == coarse


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        ("running studies", ("run", "studi")),
        ("1,000 2020-17221", ("1000", "2020", "17221")),
        ("café", ("cafe",)),
        ("範圍查詢", ("范围", "围查", "查询")),
        ("税", ("税",)),
        ("東京タワー", ("东京", "京タ", "タワ", "ワー")),
    ],
)
def test_fine_terms_are_stems_and_character_pairs(text: str, fine: tuple[str, ...]) -> None:
    assert analyze(text).fine == fine


@pytest.mark.parametrize("text", ["", "+", "\\", "~ ?!", "🎉", "\u200b"])
def test_text_without_letters_has_no_terms(text: str) -> None:
    assert analyze(text).fine == ()
    assert analyze_query(text).is_empty


def test_traditional_and_full_width_forms_fold_into_one() -> None:
    assert normalize("資料庫ＳＱＬ") == normalize("资料库sql")


@given(st.text(max_size=200))
def test_normalize_is_idempotent(text: str) -> None:
    once = normalize(text)
    assert normalize(once) == once
    assert unicodedata.is_normalized("NFKC", once)


@given(st.text(max_size=300))
def test_terms_hold_no_space_so_that_the_index_splits_them_as_we_do(text: str) -> None:
    analyzed = analyze(text)
    for term in analyzed.coarse + analyzed.fine:
        assert term.split() == [term]


@given(st.text(alphabet=st.characters(categories=("L", "N", "P", "Z")), max_size=120))
def test_query_terms_are_terms_of_the_same_text(text: str) -> None:
    query = analyze_query(text)
    analyzed = analyze(text)
    assert set(query.fine) <= set(analyzed.fine)
    assert set(query.bigrams) <= set(zip(analyzed.fine, analyzed.fine[1:], strict=False))


def test_long_question_is_cut_to_the_bound_and_says_so() -> None:
    question = "the " * 50 + " ".join(f"word{number}" for number in range(2000))
    query = analyze_query(question)
    assert len(query.fine) == len(query.coarse) == MAX_QUERY_TERMS
    assert query.is_cut
    assert "the" not in query.fine, "function words go first"
    assert query == analyze_query(question)


def test_short_question_keeps_its_function_words() -> None:
    query = analyze_query("who is the who")
    assert query.fine == ("who", "is", "the")
    assert not query.is_cut


def test_own_terms_become_phrases_only_where_the_question_holds_them() -> None:
    query = analyze_query("什么是酰胺键合", own_terms=["酰胺键", "内酯环"])
    assert query.phrases == (("酰胺", "胺键"),)


def test_word_longer_than_the_index_takes_is_cut() -> None:
    assert all(len(term) <= 128 for term in analyze("x" * 100_000).fine)


@pytest.mark.parametrize("text", ["1:" * 100 + "1", "1:1" * 200, "7-" * 500 + "7", "1/" * 64 + "2"])
def test_number_that_is_cut_behind_a_mark_leaves_no_empty_term(text: str) -> None:
    terms = analyze(text).fine
    assert all(terms)
    assert script_of(terms) is Script.SPACED


def test_script_is_that_of_most_terms() -> None:
    assert script_of(analyze("什么是 MySQL 的范围查询").fine) is Script.UNSPACED
    assert script_of(analyze("the word 税 in a law").fine) is Script.SPACED
    assert script_of(analyze("铺轨 making tracks 音乐剧").fine) is Script.MIXED
    assert script_of(()) is Script.SPACED


def test_stop_words_of_both_languages_are_known() -> None:
    assert is_stop_word("the")
    assert is_stop_word("什么")
    assert not is_stop_word("index")
