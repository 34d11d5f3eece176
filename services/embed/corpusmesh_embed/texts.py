"""What a call's texts must be, and how they are cut for the tokenizer."""

from collections.abc import Iterator, Sequence
from typing import Final

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.embedding import MAX_TEXT_BYTES, MAX_TEXTS_PER_CALL

_TOKENIZED_AT_ONCE_CHARACTERS: Final = 64 * 1024


def checked_byte_count(texts: Sequence[str]) -> int:
    """Check the texts of a call.

    Args:
        texts: The texts.

    Returns:
        Their bytes in UTF-8, over all.

    Raises:
        InvalidArgumentError: EMBED_TOO_MANY_TEXTS, EMBED_TEXT_TOO_LONG, or EMBED_TEXT_NOT_UNICODE for half of a
            surrogate pair.
    """
    if len(texts) > MAX_TEXTS_PER_CALL:
        raise InvalidArgumentError(
            "EMBED_TOO_MANY_TEXTS",
            f"{len(texts)} texts in one call; send at most {MAX_TEXTS_PER_CALL}",
            field="texts",
            text_count=len(texts),
            max_text_count=MAX_TEXTS_PER_CALL,
        )
    total = 0
    for position, text in enumerate(texts):
        try:
            byte_count = len(text.encode())
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(
                "EMBED_TEXT_NOT_UNICODE",
                f"text {position} holds half of a surrogate pair; decode it again",
                field=f"texts[{position}]",
            ) from error
        if byte_count > MAX_TEXT_BYTES:
            raise InvalidArgumentError(
                "EMBED_TEXT_TOO_LONG",
                f"text {position} has {byte_count} bytes; cut it to {MAX_TEXT_BYTES} at most",
                field=f"texts[{position}]",
                byte_count=byte_count,
                max_byte_count=MAX_TEXT_BYTES,
            )
        total += byte_count
    return total


def split_for_tokenizer(texts: Sequence[str]) -> Iterator[list[str]]:
    """Cut texts into parts that are tokenised at once, so that no part takes long.

    Args:
        texts: The texts.

    Yields:
        Parts in order, none empty.
    """
    part: list[str] = []
    size = 0
    for text in texts:
        if part and size + len(text) > _TOKENIZED_AT_ONCE_CHARACTERS:
            yield part
            part, size = [], 0
        part.append(text)
        size += len(text)
    if part:
        yield part
