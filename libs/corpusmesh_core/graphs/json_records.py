"""Reads entities and relations in the JSON of a language model's answer, whatever it calls their fields."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from corpusmesh_core.graphs.read_values import (
    MAX_KEYWORDS,
    MAX_PREDICATE_CHARACTERS,
    MAX_RECORDS,
    NO_STRENGTH,
    ReadEntity,
    ReadGraph,
    ReadRelation,
    clean_name,
    clean_text,
    read_keywords,
    read_strength,
    read_type,
)
from corpusmesh_core.graphs.tuple_fields import entity_of_fields, relation_of_fields

_ENTITY_LISTS: Final = ("entities", "nodes", "entity", "实体")
_RELATION_LISTS: Final = ("relations", "relationships", "edges", "triples", "relation", "关系")
_NAME_KEYS: Final = ("name", "entity_name", "entity", "title", "id", "label", "名称", "实体")
_TYPE_KEYS: Final = ("type", "entity_type", "category", "kind", "label", "类型")
_TEXT_KEYS: Final = ("description", "desc", "relationship_description", "entity_description", "summary", "描述")
_SOURCE_KEYS: Final = ("source", "source_entity", "src", "src_id", "subject", "head", "from", "entity1", "源", "主体")
_TARGET_KEYS: Final = ("target", "target_entity", "tgt", "tgt_id", "object", "tail", "to", "entity2", "目标", "客体")
_PREDICATE_KEYS: Final = ("predicate", "relation", "relationship", "type", "relation_type", "谓词", "关系")
_KEYWORD_KEYS: Final = ("keywords", "relationship_keywords", "keyword", "topics", "关键词")
_STRENGTH_KEYS: Final = ("strength", "relationship_strength", "weight", "score", "强度")


def read_json_graph(value: object) -> ReadGraph:
    """Read a JSON value.

    Args:
        value: From `read_json_answer`: an object of lists, a list of records, or one record.

    Returns:
        What it holds; nothing in it for another form.
    """
    entities: list[ReadEntity] = []
    relations: list[ReadRelation] = []
    for item in _items(value, _ENTITY_LISTS):
        entity = _json_entity(item)
        if entity is not None and len(entities) < MAX_RECORDS:
            entities.append(entity)
    for item in _items(value, _RELATION_LISTS):
        relation = _json_relation(item)
        if relation is not None and len(relations) < MAX_RECORDS:
            relations.append(relation)
    return ReadGraph(tuple(entities), tuple(relations))


def _items(value: object, names: Sequence[str]) -> Iterator[object]:
    """Give the entries of one kind: of an object's lists, or of a list that holds both kinds."""
    if isinstance(value, Mapping):
        lists = [value[name] for name in names if isinstance(value.get(name), list | Mapping)]
        for entries in lists[:1]:
            yield from entries if isinstance(entries, list) else _named(entries)
        if lists or names is _ENTITY_LISTS:
            return
        value = [value]
    if isinstance(value, list):
        for entry in value:
            is_wrapped = isinstance(entry, Mapping) and any(isinstance(entry.get(name), list) for name in names)
            if is_wrapped:
                yield from _items(entry, names)
            elif isinstance(entry, list | Mapping) and _is_relation(entry) == (names is _RELATION_LISTS):
                yield entry


def _is_relation(entry: list[object] | Mapping[str, object]) -> bool:
    return isinstance(entry, list) or _json_relation(entry) is not None


def _named(entries: Mapping[str, object]) -> Iterator[object]:
    """Give entries of an object by name, as {"Ada": {"type": "person"}}."""
    for name, entry in entries.items():
        yield {"name": name, **entry} if isinstance(entry, Mapping) else [name, entry]


def _json_entity(item: object) -> ReadEntity | None:
    if isinstance(item, list):
        return entity_of_fields([str(part) for part in item if isinstance(part, str)], frozenset())
    if isinstance(item, str):
        item = {"name": item}
    if not isinstance(item, Mapping):
        return None
    name = clean_name(_text(item, _NAME_KEYS))
    return ReadEntity(name, read_type(_text(item, _TYPE_KEYS)), clean_text(_text(item, _TEXT_KEYS))) if name else None


def _json_relation(item: object) -> ReadRelation | None:
    if isinstance(item, list):
        return _json_triple(item)
    if not isinstance(item, Mapping):
        return None
    source, target = clean_name(_text(item, _SOURCE_KEYS)), clean_name(_text(item, _TARGET_KEYS))
    if not source or not target:
        return None
    strength = next(
        (read_strength(float(item[key])) for key in _STRENGTH_KEYS if _is_number(item.get(key))), NO_STRENGTH
    )
    keywords: object = next((item[key] for key in _KEYWORD_KEYS if isinstance(item.get(key), str | list)), [])
    return ReadRelation(
        source,
        target,
        clean_text(_text(item, _PREDICATE_KEYS), MAX_PREDICATE_CHARACTERS),
        clean_text(_text(item, _TEXT_KEYS)),
        read_keywords(_listed(keywords)),
        strength,
    )


def _json_triple(item: Sequence[object]) -> ReadRelation | None:
    texts = [part for part in item if isinstance(part, str)]
    if len(texts) != 3:
        return relation_of_fields([str(part) for part in item if isinstance(part, str) or _is_number(part)])
    source, target = clean_name(texts[0]), clean_name(texts[2])
    if not source or not target:
        return None
    return ReadRelation(source, target, clean_text(texts[1], MAX_PREDICATE_CHARACTERS))


def _listed(value: object) -> list[str]:
    return [str(word) for word in value[:MAX_KEYWORDS]] if isinstance(value, list) else [str(value)]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(item: Mapping[str, object], keys: Sequence[str]) -> str:
    return next((str(item[key]) for key in keys if isinstance(item.get(key), str) and str(item[key]).strip()), "")


def is_empty_graph(value: object) -> bool:
    """Tell whether a JSON value says that there is nothing.

    Args:
        value: The value.

    Returns:
        Whether one of its lists is there and empty.
    """
    return isinstance(value, Mapping) and any(value.get(name) == [] for name in (*_ENTITY_LISTS, *_RELATION_LISTS))
