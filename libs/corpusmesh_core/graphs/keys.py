"""Keys of entities: names that are written alike are one entity, whatever document they stand in."""

import hashlib
import re
import unicodedata
from typing import Final

from corpusmesh_core.text import normalize

MAX_NAME_CHARACTERS: Final = 128
"""Longest name of an entity; a longer one is cut."""

_NO_WORD: Final = re.compile(r"[^\w]+", re.UNICODE)
_ARTICLE: Final = re.compile(r"^(?:the|a|an) (?=\S)")


def canonical_name(name: str) -> str:
    """Bring a name into the form by which it is compared.

    Args:
        name: As it was written.

    Returns:
        Folded (width, case, traditional script), without punctuation, article and possessive, words joined by single
        spaces; "" where nothing is left.
    """
    folded = normalize(name[:MAX_NAME_CHARACTERS]).casefold().replace("\u2019s", "'s").removesuffix("'s")
    if not folded.isascii():
        # Most names are plain, and a search looks up hundreds.
        folded = "".join(c for c in unicodedata.normalize("NFKD", folded) if not unicodedata.combining(c))
    return _ARTICLE.sub("", _NO_WORD.sub(" ", folded).strip())


def entity_key(name: str) -> int:
    """Name an entity.

    Args:
        name: As it was written.

    Returns:
        64 bits of a digest of its canonical form; 0 for a name of which nothing is left.
    """
    canonical = canonical_name(name)
    if not canonical:
        return 0
    return int.from_bytes(hashlib.blake2b(canonical.encode(), digest_size=8).digest()) or 1


def key_text(key: int) -> str:
    """Write a key.

    Args:
        key: The key.

    Returns:
        Sixteen hexadecimal digits, as in names of entities and ids of records.
    """
    return f"{key:016x}"


def pair_of(source: int, target: int) -> tuple[int, int]:
    """Order the ends of a relation: relations are one whichever end is named first.

    Args:
        source: Key of one end.
        target: Key of the other.

    Returns:
        The smaller key, then the larger.
    """
    return (source, target) if source <= target else (target, source)
