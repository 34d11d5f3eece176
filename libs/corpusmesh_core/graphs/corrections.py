"""What people correct in a graph: values, their JSON, and the artefact that a build keeps them in (ADR-0014).

A correction speaks of keys of names and of ids of documents, never of records; so it holds for whatever a later build
finds. Corrections act in the order in which they were made, and a later one wins; `corpusmesh_core.graphs.edits` says
how. What is corrected is part of the knowledge base, not of a document: a name or a description given here is shown to
everyone who may see a document that speaks of the entity.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.graphs.keys import MAX_NAME_CHARACTERS, entity_key, key_text

MAX_KEYS: Final = 1000
"""Most keys of one correction."""
MAX_DOCUMENTS: Final = 1000
"""Most documents of one correction."""
MAX_CORRECTIONS: Final = 10_000
"""Most corrections of a knowledge base: every view is made with all of them."""
MAX_DESCRIPTION_CHARACTERS: Final = 4000
MAX_TYPE_CHARACTERS: Final = 64
MAX_PREDICATE_CHARACTERS: Final = 256
MAX_KEYWORDS: Final = 20
FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class MergeEntities:
    """Names are names of another entity from now on.

    Attributes:
        keys: Keys of the names, all that the entity has (see `GraphView`); those merged into them follow.
        target: Key of the entity that they belong to.
    """

    keys: tuple[int, ...]
    target: int

    def __post_init__(self) -> None:
        _check_keys(self.keys, "keys")
        _check_key(self.target, "target")
        if self.target in self.keys:
            raise _invalid("target", "an entity cannot be merged into itself")


@dataclass(frozen=True, slots=True)
class SplitEntity:
    """What certain documents say of an entity is said of another one: one name, two things.

    Attributes:
        keys: Keys of the names, all that the entity has.
        document_ids: The documents, in all their versions.
        name: Name of the other entity, such as "John Smith (engineer)"; its key is that of the name. The two are never
            resolved to one. Naming the entity itself takes an earlier split back.
    """

    keys: tuple[int, ...]
    document_ids: tuple[str, ...]
    name: str

    def __post_init__(self) -> None:
        _check_keys(self.keys, "keys")
        _check_name(self.name)
        if not 1 <= len(self.document_ids) <= MAX_DOCUMENTS or not all(self.document_ids):
            raise _invalid("document_ids", f"name 1 to {MAX_DOCUMENTS:,} documents")

    @property
    def target(self) -> int:
        """Key of the other entity."""
        return entity_key(self.name)


@dataclass(frozen=True, slots=True)
class KeepApart:
    """Two names are never one entity, whatever a rule, a vector or a language model says.

    Attributes:
        key: One of them; where a person had merged the two, this is the one that leaves.
        other: The other one.
    """

    key: int
    other: int

    def __post_init__(self) -> None:
        _check_key(self.key, "key")
        _check_key(self.other, "other")
        if self.key == self.other:
            raise _invalid("other", "one name cannot be kept apart from itself")


@dataclass(frozen=True, slots=True)
class RenameEntity:
    """An entity is shown under another name, by which it is also found.

    Attributes:
        key: Key of any of its names.
        name: The name shown.
    """

    key: int
    name: str

    def __post_init__(self) -> None:
        _check_key(self.key, "key")
        _check_name(self.name)


@dataclass(frozen=True, slots=True)
class EditEntity:
    """An entity has another type or description.

    Attributes:
        key: Key of any of its names.
        type: Its type; None to leave what there is.
        description: What is said of it, in place of what documents say; None to leave that, "" to take back an
            earlier edit.
    """

    key: int
    type: str | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        _check_key(self.key, "key")
        if self.type is None and self.description is None:
            raise _invalid("type", "give a type or a description")
        _check_text(self.type, "type", MAX_TYPE_CHARACTERS)
        _check_text(self.description, "description", MAX_DESCRIPTION_CHARACTERS)


@dataclass(frozen=True, slots=True)
class DeleteEntity:
    """Names are no entities: nothing that documents say of them is in the graph.

    Attributes:
        keys: Keys of the names, all that the entity has; those that a person merged into them go as well.
    """

    keys: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_keys(self.keys, "keys")


@dataclass(frozen=True, slots=True)
class EditRelation:
    """A relation is described otherwise.

    Attributes:
        source: Key of any name of one of its entities.
        target: Likewise of the other.
        predicate: How they are related; None to leave what there is, here as below.
        description: What is said of it, in place of what documents say.
        keywords: What it is about.
    """

    source: int
    target: int
    predicate: str | None = None
    description: str | None = None
    keywords: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _check_ends(self.source, self.target)
        if self.predicate is None and self.description is None and self.keywords is None:
            raise _invalid("predicate", "give a predicate, a description or keywords")
        _check_text(self.predicate, "predicate", MAX_PREDICATE_CHARACTERS)
        _check_text(self.description, "description", MAX_DESCRIPTION_CHARACTERS)
        if self.keywords is not None:
            if len(self.keywords) > MAX_KEYWORDS:
                raise _invalid("keywords", f"a relation has at most {MAX_KEYWORDS} keywords")
            for keyword in self.keywords:
                _check_text(keyword, "keywords", MAX_NAME_CHARACTERS)


@dataclass(frozen=True, slots=True)
class DeleteRelation:
    """Two entities are not related; a later `EditRelation` takes that back.

    Attributes:
        source: Key of any name of one of them.
        target: Likewise of the other.
    """

    source: int
    target: int

    def __post_init__(self) -> None:
        _check_ends(self.source, self.target)


Correction: TypeAlias = (
    MergeEntities | SplitEntity | KeepApart | RenameEntity | EditEntity | DeleteEntity | EditRelation | DeleteRelation
)
"""One thing that a person has corrected."""


@dataclass(frozen=True, slots=True)
class Corrections:
    """All corrections of a knowledge base, as a build keeps them.

    Attributes:
        items: In the order in which they were made.
        versions: Ordinals of the versions of each document that a split names, all that a kept snapshot may show.
    """

    items: tuple[Correction, ...] = ()
    versions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def document_ids(self) -> frozenset[str]:
        """Documents whose versions must be known."""
        splits = [item for item in self.items if isinstance(item, SplitEntity)]
        return frozenset(document_id for item in splits for document_id in item.document_ids)


def correction_to_plain(correction: Correction) -> dict[str, Any]:
    """Write a correction.

    Args:
        correction: The correction.

    Returns:
        What JSON carries: `kind` and the fields that are set; keys are sixteen hexadecimal digits.
    """
    plain: dict[str, Any] = {"kind": _KINDS_BY_CLASS[type(correction)]}
    for name in correction.__slots__:
        value = getattr(correction, name)
        if name in _KEY_FIELDS:
            plain[name] = key_text(value)
        elif isinstance(value, tuple):
            plain[name] = [key_text(item) if name == "keys" else item for item in value]
        elif value is not None:
            plain[name] = value
    return plain


def correction_from_plain(plain: Mapping[str, Any]) -> Correction:
    """Read a correction.

    Args:
        plain: What `correction_to_plain` wrote, or a person.

    Returns:
        The correction.

    Raises:
        InvalidArgumentError: GRAPH_CORRECTION_INVALID with the field at fault.
    """
    kind = _KINDS.get(str(plain.get("kind", "")))
    if kind is None:
        raise _invalid("kind", f"kind must be one of {', '.join(sorted(_KINDS))}")
    values: dict[str, Any] = {}
    for name, value in plain.items():
        if name == "kind":
            continue
        if name not in kind.__slots__:
            raise _invalid(name, f"a correction of this kind takes {', '.join(kind.__slots__)}")
        if value is not None:
            values[name] = _READERS[name](value, name)
    try:
        return kind(**values)
    except TypeError as error:
        missing = next((name for name in kind.__slots__ if name not in values), "kind")
        raise _invalid(missing, f"{missing} is missing") from error


def pack_corrections(corrections: Corrections) -> bytes:
    """Write the artefact.

    Args:
        corrections: All corrections of a knowledge base.

    Returns:
        The bytes; equal corrections give equal bytes.

    Raises:
        InvalidArgumentError: GRAPH_CORRECTION_LIMIT if there are more than MAX_CORRECTIONS.
    """
    if len(corrections.items) > MAX_CORRECTIONS:
        message = f"a knowledge base has at most {MAX_CORRECTIONS:,} corrections of its graph"
        raise InvalidArgumentError("GRAPH_CORRECTION_LIMIT", message)
    plain = {
        "format": FORMAT,
        "items": [correction_to_plain(item) for item in corrections.items],
        "versions": {document_id: sorted(ordinals) for document_id, ordinals in corrections.versions.items()},
    }
    return json.dumps(plain, ensure_ascii=False, sort_keys=True).encode("utf-8", "replace")


def unpack_corrections(artefact: bytes) -> Corrections:
    """Read the artefact.

    Args:
        artefact: What `pack_corrections` wrote.

    Returns:
        Equal corrections.

    Raises:
        InvalidArgumentError: GRAPH_CORRECTION_INVALID if it is no such thing.
    """
    try:
        plain = json.loads(artefact)
        if plain["format"] != FORMAT:
            raise _invalid("format", "corrections of a graph are of another format")
        return Corrections(
            items=tuple(correction_from_plain(item) for item in plain["items"]),
            versions={document_id: tuple(ordinals) for document_id, ordinals in plain["versions"].items()},
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _invalid("format", "corrections of a graph cannot be read") from error


def _invalid(name: str, message: str) -> InvalidArgumentError:
    return InvalidArgumentError("GRAPH_CORRECTION_INVALID", message, field=name)


def _check_key(key: int, name: str) -> None:
    if not 0 < key < 2**64:
        raise _invalid(name, f"{name} must be the key of an entity, sixteen hexadecimal digits")


def _check_keys(keys: Collection[int], name: str) -> None:
    if not 1 <= len(keys) <= MAX_KEYS:
        raise _invalid(name, f"name 1 to {MAX_KEYS:,} keys")
    for key in keys:
        _check_key(key, name)


def _check_ends(source: int, target: int) -> None:
    _check_key(source, "source")
    _check_key(target, "target")
    if source == target:
        raise _invalid("target", "a relation has two ends")


def _check_name(name: str) -> None:
    _check_text(name, "name", MAX_NAME_CHARACTERS)
    if not entity_key(name):
        raise _invalid("name", "a name has letters or digits")


def _check_text(text: str | None, name: str, max_characters: int) -> None:
    if text is not None and len(text) > max_characters:
        raise _invalid(name, f"{name} may have {max_characters:,} characters")


def _read_key(value: object, name: str) -> int:
    text = str(value)
    if len(text) == _KEY_DIGITS and set(text) <= _HEXADECIMAL:
        return int(text, 16)
    raise _invalid(name, f"{name} must be the key of an entity, sixteen hexadecimal digits")


def _read_text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise _invalid(name, f"{name} must be a text")
    return value


def _read_list(value: object, name: str) -> Sequence[object]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return value
    raise _invalid(name, f"{name} must be a list")


def _read_keys(value: object, name: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(_read_key(item, name) for item in _read_list(value, name)))


def _read_texts(value: object, name: str) -> tuple[str, ...]:
    return tuple(_read_text(item, name) for item in _read_list(value, name))


_KEY_DIGITS: Final = 16
_HEXADECIMAL: Final = frozenset("0123456789abcdefABCDEF")
_KEY_FIELDS: Final = frozenset({"target", "source", "key", "other"})
_KINDS: Final[Mapping[str, type[Correction]]] = {
    "merge": MergeEntities,
    "split": SplitEntity,
    "keep_apart": KeepApart,
    "rename": RenameEntity,
    "edit": EditEntity,
    "delete": DeleteEntity,
    "edit_relation": EditRelation,
    "delete_relation": DeleteRelation,
}
_KINDS_BY_CLASS: Final = {kind: name for name, kind in _KINDS.items()}
_READERS: Final[Mapping[str, Callable[[object, str], Any]]] = {
    **dict.fromkeys(_KEY_FIELDS, _read_key),
    "keys": _read_keys,
    "document_ids": _read_texts,
    "keywords": _read_texts,
    **dict.fromkeys(("name", "type", "description", "predicate"), _read_text),
}
