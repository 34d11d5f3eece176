"""Reads the entities and relations in a language model's answer: tolerant of form, never of content (FR-A09).

Models are asked for lines of tuples (LightRAG, Microsoft GraphRAG) or for JSON, and answer with damaged delimiters,
code fences, thoughts, tables, records without line breaks, too few or too many fields, and half a record at the end.
What cannot be read is left out and never guessed. Everything read is data: `grounding` decides what of it is believed.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from corpusmesh_core.enrichment.answers import read_json_answer
from corpusmesh_core.graphs.json_records import is_empty_graph, read_json_graph
from corpusmesh_core.graphs.read_values import (
    DELIMITER,
    DELIMITERS,
    MAX_RECORDS,
    QUOTES,
    ReadEntity,
    ReadGraph,
    ReadRelation,
)
from corpusmesh_core.graphs.tuple_fields import LEAST_FIELDS, entity_of_fields, relation_of_fields

_MAX_ANSWER_CHARACTERS: Final = 400_000
_THOUGHT_TAG: Final = re.compile(r"<(/?)(?:think|thinking|reasoning)>", re.IGNORECASE)
_CODE_FENCE: Final = re.compile(r"^[ \t]{0,8}```[a-zA-Z0-9]{0,16}[ \t]{0,8}$", re.MULTILINE)
_TAG: Final = re.compile(
    rf"(?:(?P<begin>^)[ \t>*•\-–(\[\"'“|｜\d.)]{{0,12}}|(?P<inside>(?<![\w<|#])[(\"'“]{{0,3}}))"
    rf"(?P<tag>entity|relationship|relation|ent|rel|实体|關係|关系|E|R)[\"'”*)\]]{{0,3}}[ \t]{{0,3}}(?:{DELIMITER})",
    re.MULTILINE | re.IGNORECASE,
)
_INSIDE_TAGS: Final = frozenset({"entity", "relationship", "relation", "实体", "关系", "關係"})
_RELATION_TAGS: Final = frozenset({"relationship", "relation", "rel", "关系", "關係", "r"})
_END: Final = re.compile(
    r"<[|#\s]{0,4}(?:COMPLETE|COMPLETION|DONE|END)[D|#\s]{0,4}>|^[ \t*]{0,4}(?:END|DONE|COMPLETE|NONE|完毕)"
    r"[ \t*.]{0,4}$",
    re.MULTILINE | re.IGNORECASE,
)
_RECORD_END: Final = re.compile(r"[)\]\s|｜#,;*]+$")
_TERMINATORS: Final = ".!?。！？…)）]\"'”’」』|"


def read_graph(answer: str, *, types: Sequence[str] = ()) -> ReadGraph | None:
    """Read the entities and relations of an answer, whichever form it has.

    Args:
        answer: All that a model said, its thoughts included; what is beyond 400,000 characters is not read.
        types: Types that were asked for: tells a type from a description where a field is missing.

    Returns:
        What it holds; nothing in it where the model says that there is nothing; None for an answer that is neither.
    """
    said = _CODE_FENCE.sub("", without_thoughts(answer[:_MAX_ANSWER_CHARACTERS]))
    tuples = partial(_read_tuples, types=frozenset(name.casefold() for name in types))
    is_nothing = _END.search(said) is not None or _is_empty_json(said)
    # A text within JSON may look like a record, and the other way round.
    for read in (_read_json, tuples) if said.startswith(("{", "[")) else (tuples, _read_json):
        found = read(said)
        if found is not None and not found.is_empty:
            return found
        is_nothing = is_nothing or found is not None
    return ReadGraph() if is_nothing else None


def without_thoughts(answer: str) -> str:
    """Take the thoughts of a reasoning model out, in one pass.

    Args:
        answer: All that a model said.

    Returns:
        What stands outside of them; of a thought without a beginning, what follows it; of one without an end, nothing.
    """
    parts: list[str] = []
    at, is_open = 0, False
    for tag in _THOUGHT_TAG.finditer(answer):
        if tag.group(1):
            if not is_open and at == 0:
                parts.clear()
            elif not is_open:
                parts.append(answer[at : tag.start()])
            is_open = False
            at = tag.end()
        elif not is_open:
            parts.append(answer[at : tag.start()])
            is_open = True
            at = tag.end()
    if not is_open:
        parts.append(answer[at:])
    return "".join(parts).strip()


def _read_json(said: str) -> ReadGraph | None:
    """Read JSON; None where it neither holds anything nor says that there is nothing."""
    value = read_json_answer(said)
    found = read_json_graph(value)
    return None if found.is_empty and not is_empty_graph(value) else found


def _read_tuples(said: str, types: frozenset[str]) -> ReadGraph | None:
    """Read records; None where there is none."""
    entities: list[ReadEntity] = []
    relations: list[ReadRelation] = []
    for tag, fields in _records(said):
        if tag in _RELATION_TAGS:
            relation = relation_of_fields(fields)
            if relation is not None and len(relations) < MAX_RECORDS:
                relations.append(relation)
        else:
            entity = entity_of_fields(fields, types)
            if entity is not None and len(entities) < MAX_RECORDS:
                entities.append(entity)
    return ReadGraph(tuple(entities), tuple(relations)) if entities or relations else None


def _records(said: str) -> Iterator[tuple[str, list[str]]]:
    """Cut an answer into records; each ends where the next one or the end begins."""
    found = [
        match
        for match in _TAG.finditer(said)
        if match.group("begin") is not None or match.group("tag").casefold() in _INSIDE_TAGS
    ]
    if not found:
        return
    ends = _END.search(said, found[-1].end())
    end = ends.start() if ends is not None else len(said)
    is_cut = ends is None and said[-1] not in _TERMINATORS
    limits = [match.start() for match in found[1:]]
    for match, limit in zip(found, [*limits, end], strict=True):
        tag = match.group("tag").casefold()
        body = said[match.end() : limit].strip()
        fields = _fields(body, 4 if tag in _RELATION_TAGS else 3)
        if is_cut and match is found[-1] and "\n" not in body:
            # Half a name is another name, and half a number another number.
            del fields[-1:]
            if len(fields) < LEAST_FIELDS:
                return
        yield tag, fields


def _fields(body: str, wanted: int) -> list[str]:
    """Split a record; what follows it in lines of its own is left out where the record is whole without it."""
    first, _, rest = body.partition("\n")
    fields = DELIMITERS.split(first)
    if rest and len(fields) < wanted:
        fields = DELIMITERS.split(body.split("\n\n", 1)[0])
    return [field.strip() for field in (*fields[:-1], _RECORD_END.sub("", fields[-1])) if field.strip(QUOTES + "()")]


def _is_empty_json(said: str) -> bool:
    return "".join(said[:20].split()) in ("{}", "[]")
