"""Texts within a number of bytes, as the ports of models take them."""

_MOST_BYTES_PER_CHARACTER = 4


def cut_to_bytes(text: str, max_bytes: int) -> str:
    """Cut a text at its end.

    Args:
        text: Any text without lone surrogates.
        max_bytes: Bytes in UTF-8.

    Returns:
        The longest beginning with at most that many.
    """
    if len(text) * _MOST_BYTES_PER_CHARACTER <= max_bytes:
        return text
    return text.encode()[:max_bytes].decode(errors="ignore")
