"""Which names are one entity: pairs of names with reasons, never a rewrite (ADR-0014).

A pair that is dropped leaves the graph as it was before. Who joins names joins them for each caller anew, among the
names that this caller may see; so nothing leaks through a name that is hidden.
"""

import json
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.graphs.columns import invalid, open_columns, pack_columns
from corpusmesh_core.graphs.keys import pair_of
from corpusmesh_core.graphs.name_rules import SimilarityRule, is_similar
from corpusmesh_core.graphs.names import NamedEntity

MIN_COSINE: Final = 0.97
"""Cosine of the vectors of two names from which on they are held to be one.

Of 200 doubtful pairs of names from `mh_small` the default model puts 27 above it, some 20 of them rightly, and 140
above 0.9. It does not see initials: George H. W. and George W. Bush have 0.98."""
FORMAT: Final = 1

Pair: TypeAlias = tuple[int, int]
"""Keys of two names, the smaller first."""


class ResolutionMethod(StrEnum):
    """Who says that two names are one entity."""

    RULE = "rule"
    EMBEDDING = "embedding"
    LLM = "llm"


@dataclass(frozen=True, slots=True, order=True)
class ResolvedPair:
    """Two names that are one entity.

    Attributes:
        a: Key of one name, smaller than the other.
        b: Key of the other name.
        reason: Why, such as "same letters"; see `corpusmesh_core.graphs.name_rules`.
        score: How sure that is, 0 to 1; a cosine where vectors say so.
        method: Who says so.
    """

    a: int
    b: int
    reason: str
    score: float
    method: ResolutionMethod = ResolutionMethod.RULE


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the rule says of pairs of names.

    Attributes:
        same: Those that are one entity.
        doubtful: Those that may be: the seed's rule holds them to be similar, or the short one may stand for the long
            one. Nobody joins them without vectors or a language model.
    """

    same: tuple[ResolvedPair, ...]
    doubtful: tuple[Pair, ...]


class JoinedNames(Protocol):
    """Two names that somebody has joined."""

    @property
    def a(self) -> int:
        """Key of one."""
        ...

    @property
    def b(self) -> int:
        """Key of the other."""
        ...

    @property
    def score(self) -> float:
        """How sure that is."""
        ...


def judge(
    names: Mapping[int, NamedEntity], pairs: Collection[Pair], rule: SimilarityRule = SimilarityRule.STRICT
) -> Judgement:
    """Let the rule speak on pairs of names.

    Args:
        names: Every name of the pairs by key.
        pairs: See `corpusmesh_core.graphs.blocking.candidate_pairs`.
        rule: SEED joins all that the seed's rule holds to be similar.

    Returns:
        What it says, by pair; the same in whatever order they are given.
    """
    same: list[ResolvedPair] = []
    doubtful: list[Pair] = []
    for pair in sorted({pair_of(*pair) for pair in pairs}):
        verdict = is_similar(names[pair[0]], names[pair[1]], rule)
        if verdict.similar:
            same.append(ResolvedPair(*pair, verdict.reason, verdict.score))
        elif verdict.doubtful:
            doubtful.append(pair)
    return Judgement(tuple(same), tuple(doubtful))


def confirm_by_vectors(
    pairs: Collection[Pair], vectors: Mapping[int, NDArray[np.floating]]
) -> tuple[ResolvedPair, ...]:
    """Let vectors speak on doubtful pairs.

    Args:
        pairs: The pairs.
        vectors: Of names, or of names with descriptions, of one space, by key; a pair without both is left out.

    Returns:
        Those that are one entity, by pair.
    """
    found = []
    for a, b in sorted(pairs):
        first, second = vectors.get(a), vectors.get(b)
        if first is None or second is None:
            continue
        length = float(np.linalg.norm(first) * np.linalg.norm(second))
        cosine = float(first @ second) / length if length else 0.0
        if cosine >= MIN_COSINE:
            found.append(ResolvedPair(a, b, "similar vectors", round(min(cosine, 1.0), 4), ResolutionMethod.EMBEDDING))
    return tuple(found)


def confirm_by_model(pairs: Sequence[Pair], verdicts: Sequence[bool | None]) -> tuple[ResolvedPair, ...]:
    """Let a language model speak on doubtful pairs.

    Args:
        pairs: The pairs.
        verdicts: What it says of each; None where it says nothing, which joins nothing.

    Returns:
        Those that are one entity, by pair.
    """
    return tuple(
        ResolvedPair(*pair, "a language model says so", _MODEL_SCORE, ResolutionMethod.LLM)
        for pair, verdict in sorted(zip(pairs, verdicts, strict=True))
        if verdict
    )


def pairs_that_hold(
    previous: Sequence[ResolvedPair], names: Mapping[int, NamedEntity], rule: SimilarityRule = SimilarityRule.STRICT
) -> tuple[ResolvedPair, ...]:
    """Take over the pairs of an earlier build.

    Args:
        previous: Its pairs.
        names: Names that there are now; a name whose type has changed since is judged anew.
        rule: The rule.

    Returns:
        Pairs of which both names are there, and which the rule still holds to be one where it was the rule that said
        so; those of vectors and language models as long as the names can be one.
    """
    held = []
    for pair in previous:
        first, second = names.get(pair.a), names.get(pair.b)
        if first is None or second is None:
            continue
        verdict = is_similar(first, second, rule)
        if verdict.similar or (pair.method != ResolutionMethod.RULE and verdict.doubtful):
            held.append(pair)
    return tuple(held)


def joined_pairs(
    pairs: Collection[JoinedNames], visible_keys: Container[int], apart: Collection[Pair] = ()
) -> list[Pair]:
    """Choose the pairs that join names for one caller.

    Args:
        pairs: In any order.
        visible_keys: Names that the caller may see; a pair counts if both are among them.
        apart: Pairs of names that are never one entity, see `GraphEdits.apart`: the surest pairs join first, and one
            that would bring such names together, by whatever way, joins nothing.

    Returns:
        Pairs that join, the surest first; they form no cycle.
    """
    forest = _Forest(apart, visible_keys)
    seen = [pair for pair in pairs if pair.a in visible_keys and pair.b in visible_keys]
    seen.sort(key=lambda pair: (-pair.score, pair_of(pair.a, pair.b)))
    return [pair_of(pair.a, pair.b) for pair in seen if forest.join(pair.a, pair.b)]


def components(
    pairs: Collection[JoinedNames], visible_keys: Container[int], apart: Collection[Pair] = ()
) -> dict[int, int]:
    """Join names for one caller.

    Args:
        pairs: In any order.
        visible_keys: Names that the caller may see; a pair counts if both are among them.
        apart: Pairs of names that are never one entity.

    Returns:
        The smallest key of its entity for each name that is joined to another; names that stand alone are left out.
    """
    members: dict[int, set[int]] = {}
    for a, b in joined_pairs(pairs, visible_keys, apart):
        union = members.get(a, {a}) | members.get(b, {b})
        for key in union:
            members[key] = union
    return {key: min(union) for key, union in sorted(members.items())}


def pack_pairs(pairs: Collection[ResolvedPair]) -> bytes:
    """Write the artefact of a resolution.

    Args:
        pairs: In any order.

    Returns:
        The bytes; equal pairs give equal bytes.
    """
    ordered = sorted(pairs)
    reasons = sorted({pair.reason for pair in ordered})
    place = {reason: number for number, reason in enumerate(reasons)}
    told = json.dumps(reasons).encode()
    columns: dict[str, NDArray[Any]] = {
        "keys": np.array([(pair.a, pair.b) for pair in ordered], np.uint64).reshape(-1),
        "reason": np.array([place[pair.reason] for pair in ordered], np.uint16),
        "score": np.array([pair.score for pair in ordered], np.float64),
        "method": np.array([_METHODS.index(pair.method) for pair in ordered], np.uint8),
        "reasons": np.frombuffer(told, np.uint8),
    }
    return pack_columns(_MAGIC, FORMAT, _LAYOUT, columns)


def unpack_pairs(artefact: bytes) -> tuple[ResolvedPair, ...]:
    """Read the artefact of a resolution.

    Args:
        artefact: What `pack_pairs` wrote.

    Returns:
        Equal pairs, ascending.

    Raises:
        InvalidArgumentError: GRAPH_FILE_INVALID if it is no such thing.
    """
    columns = open_columns(_MAGIC, FORMAT, _LAYOUT, artefact)
    try:
        reasons = json.loads(columns["reasons"].tobytes())
        return tuple(
            ResolvedPair(a, b, reasons[why], sure, _METHODS[how])
            for (a, b), why, sure, how in zip(
                columns["keys"].reshape(-1, 2).tolist(),
                columns["reason"].tolist(),
                columns["score"].tolist(),
                columns["method"].tolist(),
                strict=True,
            )
        )
    except (ValueError, IndexError) as error:
        raise invalid("its pairs do not fit together") from error


class _Forest:
    """Names joined so far, none with one that it is kept apart from."""

    def __init__(self, apart: Collection[Pair], visible_keys: Container[int]) -> None:
        self._parents: dict[int, int] = {}
        self._strangers: dict[int, set[int]] = {}
        for a, b in apart:
            # What is hidden keeps nothing apart that is seen: a caller sees what the visible names alone would give.
            if a in visible_keys and b in visible_keys:
                self._strangers.setdefault(a, set()).add(b)
                self._strangers.setdefault(b, set()).add(a)

    def join(self, a: int, b: int) -> bool:
        """Join two; False if they are one already, or kept apart."""
        first, second = self._root(a), self._root(b)
        if first == second or second in self._strangers.get(first, ()):
            return False
        self._parents[second] = first
        for stranger in self._strangers.pop(second, ()):
            self._strangers[stranger].discard(second)
            self._strangers[stranger].add(first)
            self._strangers.setdefault(first, set()).add(stranger)
        return True

    def _root(self, key: int) -> int:
        while (parent := self._parents.get(key)) is not None:
            if (above := self._parents.get(parent)) is not None:
                self._parents[key] = above
            key = parent
        return key


_MAGIC: Final = b"CMGPAIRS"
_LAYOUT: Final = (("keys", "<u8"), ("reason", "<u2"), ("score", "<f8"), ("method", "u1"), ("reasons", "u1"))
_METHODS: Final = tuple(ResolutionMethod)
_MODEL_SCORE: Final = 0.9
