"""Which pairs of names are worth comparing: a few for each new name, however many names there are (ADR-0014).

Every name has a handful of blocks: what is left of it when spacing, order of words, titles, endings or spelling are
evened out, and what names of one person or thing begin or end with. Names that share a block are sorted, and neighbours
are compared. Whatever the strict rule joins shares a block of the first kind.
"""

import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.graphs.columns import invalid, open_columns, pack_columns
from corpusmesh_core.graphs.name_rules import UNSPACED_FORMS, acronym_of, sounds, without_head, without_tail
from corpusmesh_core.graphs.names import NamedEntity, NameForm, form_of
from corpusmesh_core.graphs.resolution import Pair

MAX_PAIRS: Final = 5
"""Most pairs of a new name."""
FORMAT: Final = 1

_EXACT: Final = 6
"""Blocks whose names are written alike; those that follow hold names of which some may be."""
_SOFT: Final = 3
_ACRONYM: Final = _EXACT + _SOFT
"""Block in which a long name stands by its acronym, and a short one as it is."""
_WIDTH: Final = _ACRONYM + 1
_EXACT_WINDOW: Final = 3
_SOFT_WINDOW: Final = 2
_EXACT_WEIGHT: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class NameIndex:
    """Blocks of names.

    Attributes:
        keys: Keys of n names, ascending, shape (n,).
        blocks: Blocks of each, shape (n, 10); 0 where a name has no such block.
        order: What neighbours within a block are found by: the first letters of a name, shape (n,).
    """

    keys: NDArray[np.uint64]
    blocks: NDArray[np.uint32]
    order: NDArray[np.uint64]

    @classmethod
    def of(cls, names: Mapping[int, NamedEntity]) -> "NameIndex":
        """Make the blocks of names.

        Args:
            names: By key.

        Returns:
            Their blocks.
        """
        keys = sorted(names)
        forms = [form_of(names[key].name) for key in keys]
        blocks = np.array([_blocks(form) for form in forms], dtype=np.uint32).reshape(-1, _WIDTH)
        order = [int.from_bytes(form.canonical.encode()[:8].ljust(8, b"\0")) for form in forms]
        return cls(np.array(keys, dtype=np.uint64), blocks, np.array(order, dtype=np.uint64))

    def joined(self, other: "NameIndex") -> "NameIndex":
        """Put names together.

        Args:
            other: More names; what it says of a name that both have does not matter, since it says the same.

        Returns:
            Blocks of all of them.
        """
        keys, first = np.unique(np.concatenate([self.keys, other.keys]), return_index=True)
        blocks = np.concatenate([self.blocks, other.blocks])[first]
        return NameIndex(keys, blocks, np.concatenate([self.order, other.order])[first])

    def limited_to(self, keys: NDArray[np.uint64]) -> "NameIndex":
        """Leave names out.

        Args:
            keys: Names that there are, in any order.

        Returns:
            Blocks of those among them.
        """
        kept = np.isin(self.keys, keys)
        return NameIndex(self.keys[kept], self.blocks[kept], self.order[kept])

    def pairs(self, new: Collection[int] | None = None) -> list[Pair]:
        """Choose pairs to compare.

        Args:
            new: Names that are compared with all; None for all of them.

        Returns:
            Pairs, ascending: at most MAX_PAIRS for each new name.
        """
        is_new = np.ones(len(self.keys), dtype=bool) if new is None else np.isin(self.keys, _key_array(new))
        codes, weights = self._weighed(is_new)
        if not len(codes):
            return []
        count = len(self.keys)
        first, second = codes // count, codes % count
        # Each new end chooses its best; the pair stays if one of them does.
        chosen = np.zeros(len(codes), dtype=bool)
        ends = np.concatenate([first, second])
        others = np.concatenate([second, first])
        pair = np.tile(np.arange(len(codes)), 2)
        ranked = np.lexsort((self.keys[others], -weights[pair], ends))
        starts = np.searchsorted(ends[ranked], ends[ranked])
        best = ranked[(np.arange(len(ranked)) - starts < MAX_PAIRS) & is_new[ends[ranked]]]
        chosen[pair[best]] = True
        return [
            (int(self.keys[a]), int(self.keys[b]))
            for a, b in zip(first[chosen].tolist(), second[chosen].tolist(), strict=True)
        ]

    def _weighed(self, is_new: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs of neighbours with a new end, as smaller place times n plus larger place; and what they share."""
        count = len(self.keys)
        codes: list[NDArray[np.int64]] = []
        weights: list[NDArray[np.int64]] = []
        for column in range(_WIDTH):
            values = self.blocks[:, column]
            wanted = np.unique(values[is_new])
            places = np.flatnonzero(np.isin(values, wanted[wanted > 0]))
            ranked = places[np.lexsort((self.keys[places], self.order[places], values[places]))]
            for step in range(1, (_EXACT_WINDOW if column < _EXACT else _SOFT_WINDOW) + 1):
                one, other = ranked[:-step], ranked[step:]
                fits = (values[one] == values[other]) & (is_new[one] | is_new[other])
                one, other = one[fits].astype(np.int64), other[fits].astype(np.int64)
                codes.append(np.minimum(one, other) * count + np.maximum(one, other))
                weights.append(np.full(len(one), _EXACT_WEIGHT if column < _EXACT else _SOFT_WINDOW + 1 - step))
        found, place = np.unique(np.concatenate(codes), return_inverse=True)
        return found, np.bincount(place, weights=np.concatenate(weights), minlength=len(found)).astype(np.int64)


def candidate_pairs(names: Mapping[int, NamedEntity], new: Collection[int] | None = None) -> list[Pair]:
    """Choose pairs of names to compare.

    Args:
        names: All names by key.
        new: Those that are compared with all; None for all of them.

    Returns:
        Pairs, ascending: at most MAX_PAIRS for each new name.
    """
    return NameIndex.of(names).pairs(new)


def pack_index(index: NameIndex) -> bytes:
    """Write an index.

    Args:
        index: The index.

    Returns:
        The bytes, some 50 for each name.
    """
    columns: dict[str, NDArray[Any]] = {"keys": index.keys, "blocks": index.blocks.T.reshape(-1), "order": index.order}
    return pack_columns(_MAGIC, FORMAT, _LAYOUT, columns)


def unpack_index(artefact: bytes) -> NameIndex:
    """Read an index.

    Args:
        artefact: What `pack_index` wrote.

    Returns:
        An equal index.

    Raises:
        InvalidArgumentError: GRAPH_FILE_INVALID if it is no such thing, or of another format: it is then made anew.
    """
    columns = open_columns(_MAGIC, FORMAT, _LAYOUT, artefact)
    keys, blocks, order = columns["keys"], columns["blocks"], columns["order"]
    if len(blocks) != _WIDTH * len(keys) or len(order) != len(keys):
        raise invalid("its blocks do not fit its names")
    return NameIndex(keys, np.ascontiguousarray(blocks.reshape(_WIDTH, len(keys)).T), order)


def _key_array(keys: Collection[int]) -> NDArray[np.uint64]:
    return np.fromiter(keys, dtype=np.uint64, count=len(keys))


def _blocks(form: NameForm) -> list[int]:
    texts = _unspaced_blocks(form) if form.is_unspaced else _spaced_blocks(form)
    return [_digest(text) for text in texts]


def _digest(text: str) -> int:
    return zlib.crc32(text.encode()) or 1 if text else 0


def _spaced_blocks(form: NameForm) -> tuple[str, ...]:
    words = form.words
    bare = without_head(without_tail(words))
    last = words[-1] if words else ""
    several = len(words) > 1
    return (
        form.letters,
        " ".join(sorted(words)) if several else "",
        "".join(bare),
        "".join((*words[:-1], _stem(last))),
        sounds(" ".join(words)),
        "".join(sorted(form.letters)),
        # One person with other first names or initials; one word written with other endings.
        f"{last} {words[0][0]}" if several else last[:_PREFIX],
        f"{' '.join(words[:-1])} {last[0]}" if several else "",
        " ".join(words[:2]) if len(words) > _LEAD_WORDS else "",
        acronym_of(words) if several else form.letters,
    )


def _unspaced_blocks(form: NameForm) -> tuple[str, ...]:
    letters = form.letters
    tail = next((tail for tail in UNSPACED_FORMS if letters.endswith(tail) and len(letters) > len(tail) + 1), "")
    return (
        letters,
        "".join(sorted(letters)),
        letters.removesuffix(tail),
        # A character that one transcription has more stands inside: either the first two or the last two are the same.
        f"{letters[:2]} {letters[-1:]}" if len(letters) >= _TRANSCRIBED else "",
        f"{letters[:1]} {letters[-2:]}" if len(letters) >= _TRANSCRIBED else "",
        "",
        letters[:2],
        letters[-2:],
        "",
        "",
    )


def _stem(word: str) -> str:
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    if word.endswith("es"):
        return word[:-2]
    return word.removesuffix("s").removesuffix("e")


_MAGIC: Final = b"CMGNAMES"
_LAYOUT: Final = (("keys", "<u8"), ("blocks", "<u4"), ("order", "<u8"))
_PREFIX: Final = 5
_LEAD_WORDS: Final = 2
_TRANSCRIBED: Final = 4
