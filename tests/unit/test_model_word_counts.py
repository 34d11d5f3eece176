"""Counting tokens word by word gives what the tokenizer itself gives."""

import random
from pathlib import Path

import pytest
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from corpusmesh_adapters.models.tokenization import ModelTokenizer
from corpusmesh_adapters.models.word_counts import has_independent_words

_SENTENCES = (
    "The harbour committee met, as always, on the first of March.",
    " leading and trailing ",
    "two  spaces\n\nand breaks\n",
    "",
    " ",
    "\n \n",
    "港口委员会 三月一日开会。harbour 港口",
    "A no-break\u00a0 space, a wide\u3000one and a \u200bnone \ufffd \u2581 x",
    "\x01 control \x02x \x85 y",
    "acute \u00b4 alone and a mark \u0301after a space",
    "one [SEP] two [SEP]three " + "x" * 300,
)
_CHARACTERS = ["a", "b", "ha", " ", "  ", "\n", "\t", ".", "é", "\u0301", "\u00a0", "\u3000", "中", "\u2581", "[SEP]"]


def _metaspace() -> Tokenizer:
    letters = [(letter, -3.0) for letter in "abcdehimnorstu中港,.é[SEP]"]
    pieces = [("<unk>", 0.0), ("▁", -2.0), ("▁the", -1.0), ("ha", -1.5), ("our", -1.5), *letters]
    made = Tokenizer(models.Unigram(pieces, 0, False))
    made.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex("[\\x{1}-\\x{8}]"), ""),
            normalizers.Replace(Regex("[\\x{9}\\x{A}\\x{200B}\\x{2581}\\x{FFFD}]"), " "),
            normalizers.NFKC(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    return made


def _bert() -> Tokenizer:
    words = ["[UNK]", "[SEP]", "the", "ha", "##rb", "##our", "a", "##a", "b", "##b", "x", "##x", ".", ",", "中", "e"]
    made = Tokenizer(models.WordPiece({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens(["[SEP]"])
    return made


def _with_template(made: Tokenizer) -> Tokenizer:
    from tokenizers.processors import TemplateProcessing

    made.post_processor = TemplateProcessing(single="<x> $A <x>", special_tokens=[("<x>", 0)])
    return made


@pytest.mark.parametrize("make", [_metaspace, _bert])
def test_counts_are_those_of_the_tokenizer_whether_words_are_new_or_known(make, tmp_path: Path) -> None:
    made = _with_template(make())
    made.save(str(tmp_path / "tokenizer.json"))
    assert has_independent_words(made.to_str())
    tokenizer = ModelTokenizer(tmp_path / "tokenizer.json")
    dice = random.Random(7)
    texts = [*_SENTENCES, *("".join(dice.choices(_CHARACTERS, k=dice.randint(1, 12))) for _ in range(3_000))]
    expected = [len(made.encode(text, add_special_tokens=False)) for text in texts]
    assert tokenizer.count_tokens(texts) == expected
    assert tokenizer.count_tokens(texts) == expected
    assert [tokenizer.count_tokens([text])[0] for text in texts] == expected
    assert tokenizer.count_tokens([]) == []


@pytest.mark.parametrize(
    "splitter", [pre_tokenizers.Metaspace(split=False), pre_tokenizers.Metaspace(prepend_scheme="first"), None]
)
def test_a_tokenizer_that_may_look_over_spaces_is_asked_for_whole_texts(splitter) -> None:
    made = _metaspace()
    if splitter is not None:
        made.pre_tokenizer = splitter
    else:
        made.normalizer = normalizers.Replace("a b", "")
    assert not has_independent_words(made.to_str())


def test_the_memory_of_words_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corpusmesh_adapters.models.word_counts._MAX_WORDS", 50)
    made = _with_template(_bert())
    made.save(str(tmp_path / "tokenizer.json"))
    tokenizer = ModelTokenizer(tmp_path / "tokenizer.json")
    texts = [f"the a{number} b{number}" for number in range(200)]
    expected = [len(made.encode(text, add_special_tokens=False)) for text in texts]
    assert [tokenizer.count_tokens([text])[0] for text in texts] == expected
    assert tokenizer._words is not None
    assert len(tokenizer._words._counts) <= 52
