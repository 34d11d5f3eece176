"""Makes an entity or a relation of the fields of one record, of which some may be missing or too many."""

import re
from collections.abc import Collection, Sequence
from typing import Final

from corpusmesh_core.graphs.read_values import (
    NO_STRENGTH,
    QUOTES,
    ReadEntity,
    ReadRelation,
    clean_name,
    clean_text,
    read_keywords,
    read_strength,
    read_type,
)

LEAST_FIELDS: Final = 2
"""Of a record that is cut off: name and type, or both ends."""
_NUMBER: Final = re.compile(r"[^\d\-+]{0,12}([-+]?\d{1,9}(?:\.\d{1,9})?)\s{0,3}(?:/\s{0,3}10)?\W{0,3}")
_MIN_DESCRIPTION_WORDS: Final = 4


def entity_of_fields(fields: Sequence[str], types: Collection[str]) -> ReadEntity | None:
    """Make an entity of name, type and description.

    Args:
        fields: As they stand in the record.
        types: Types that were asked for, case folded.

    Returns:
        The entity; None where no name is among them.
    """
    if not fields:
        return None
    name, rest = fields[0], list(fields[1:])
    if rest and read_type(name) in types and read_type(rest[0]) not in types:
        # Type first, as some models write it.
        name, rest[0] = rest[0], name
    name = clean_name(name)
    if not name:
        return None
    kind = ""
    if rest and (len(rest) > 1 or read_type(rest[0]) in types or len(rest[0].split()) < _MIN_DESCRIPTION_WORDS):
        kind = read_type(rest.pop(0))
    return ReadEntity(name, kind, clean_text(" ".join(rest)))


def relation_of_fields(fields: Sequence[str]) -> ReadRelation | None:
    """Make a relation of two names and any of keywords, description and strength, in any order.

    Args:
        fields: As they stand in the record.

    Returns:
        The relation; None where an end is missing.
    """
    if len(fields) < LEAST_FIELDS:
        return None
    source, target = clean_name(fields[0]), clean_name(fields[1])
    if not source or not target:
        return None
    strength = NO_STRENGTH
    rest: list[str] = []
    for field in fields[2:]:
        number = _NUMBER.fullmatch(field.strip(QUOTES))
        if number is None:
            rest.append(field)
        else:
            strength = read_strength(float(number.group(1)))
    if not rest:
        return ReadRelation(source, target, strength=strength)
    # The description is the longest of them; what is shorter are keywords, before it or behind it.
    place = max(range(len(rest)), key=lambda number: len(rest[number]))
    description = clean_text(rest[place])
    if len(rest) == 1:
        return ReadRelation(source, target, description=description, strength=strength)
    keywords = read_keywords([*rest[:place], *rest[place + 1 :]])
    return ReadRelation(source, target, description=description, keywords=keywords, strength=strength)
