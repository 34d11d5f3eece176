"""The tokenizer of multilingual-e5-small as a `tokenizers` file, from the vocabulary of the flat file."""

import unicodedata
from collections.abc import Iterable
from typing import Final

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from corpusmesh_adapters.models.e5_file import E5Vocabulary

_FULLWIDTH_TILDE: Final = "\uff5e"
_PLACEHOLDER: Final = "\ue000"
_SPACE: Final = " "


def build_e5_tokenizer(vocabulary: E5Vocabulary) -> Tokenizer:
    """Build the tokenizer: the normalisation of SentencePiece's nmt_nfkc, Metaspace, Unigram, `<s> … </s>`.

    nmt_nfkc is NFKC but for control characters (dropped), some white space and invisible characters (a space), the
    full-width tilde (kept) and 73 rare code points that came into Unicode later (NFKC is right about them).

    Args:
        vocabulary: Pieces, scores and replacements.

    Returns:
        A tokenizer whose counts and ids are those of the wheel's own engine.
    """
    tokenizer = Tokenizer(
        models.Unigram(
            list(zip(vocabulary.pieces, vocabulary.scores, strict=True)), unk_id=vocabulary.unk, byte_fallback=False
        )
    )
    dropped = [point for point, text in vocabulary.replacements.items() if not text]
    spaces = [
        point
        for point, text in vocabulary.replacements.items()
        if text == _SPACE and unicodedata.normalize("NFKC", chr(point)) != _SPACE
    ]
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex(_character_class(dropped)), ""),
            normalizers.Replace(Regex(_character_class(spaces)), _SPACE),
            normalizers.Replace(_FULLWIDTH_TILDE, _PLACEHOLDER),
            normalizers.NFKC(),
            normalizers.Replace(_PLACEHOLDER, _FULLWIDTH_TILDE),
            normalizers.Replace(Regex(" {2,}"), _SPACE),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", vocabulary.bos), ("</s>", vocabulary.eos)]
    )
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def _character_class(code_points: Iterable[int]) -> str:
    return "[" + "".join(f"\\x{{{point:X}}}" for point in code_points) + "]"
