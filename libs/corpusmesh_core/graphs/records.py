"""Records of a graph: what is written of fragments, reports and merged descriptions, and what of it is read back.

An entity or relation has one record for each document that speaks of it, under the rule `any` with that document's
version as its source; what several documents say together (a report, a merged description) is under the rule `all`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.graphs.keys import key_text, pair_of
from corpusmesh_core.graphs.values import CommunityReport, EntityFragment, Mention, RelationFragment
from corpusmesh_core.records import Ordinal, Record, RecordKind, chunk_record_id, derived_record_id
from corpusmesh_core.token_estimate import estimate_tokens

MAX_LINKED_CHUNKS: Final = 50
"""Chunks that a record of an entity or a relation names, the best first."""
MAX_LINKED_MEMBERS: Final = 1_000
"""Entities that the record of a report names."""
MAX_CITED_CHUNKS: Final = 50
"""Chunks that the record of a report names."""
MAX_SOURCES: Final = 20_000
"""Versions of documents that a report may be made of; a larger community has none."""

KEY: Final = "key"
TYPE: Final = "type"
DESCRIPTION: Final = "description"
SENTENCE: Final = "sentence"
PREDICATE: Final = "predicate"
METHODS: Final = "methods"
CONFIDENCE: Final = "confidence"
WEIGHT: Final = "weight"
SOURCE: Final = "source"
TARGET: Final = "target"
SOURCE_NAME: Final = "source_name"
TARGET_NAME: Final = "target_name"
MADE_BY: Final = "made_by"
FALLBACK: Final = "fallback"
PARENT: Final = "parent"
MEMBER_COUNT: Final = "member_count"
CHUNKS: Final = "chunks"
"""Attributes. Keys are sixteen hexadecimal digits; `methods` and `chunks` (ids of records) are joined by spaces."""


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """The document that a subgraph is of, as its records tell it.

    Attributes:
        knowledge_base_id: Its knowledge base.
        version: Ordinal of its version.
        publisher: Ordinal that publishes the subgraph.
        document_id: The document.
        version_number: Number of the version in the document, from 1.
        display_name: File name.
        language: BCP 47 primary tag, "" where unknown.
    """

    knowledge_base_id: str
    version: int
    publisher: int
    document_id: str
    version_number: int
    display_name: str
    language: str = ""


@dataclass(frozen=True, slots=True)
class FragmentTexts:
    """What the record of a fragment says that no segment holds.

    Attributes:
        description: See `EntityFragment.description`.
        sentence: Likewise.
        predicate: See `RelationFragment.predicate`; "" for an entity.
        keywords: Likewise; none for an entity.
    """

    description: str = ""
    sentence: str = ""
    predicate: str = ""
    keywords: tuple[str, ...] = ()


def entity_record_id(publisher: int, key: int) -> str:
    """Name the record of an entity in one document.

    Args:
        publisher: Ordinal that publishes the subgraph.
        key: The entity.

    Returns:
        The id.
    """
    return derived_record_id(Ordinal(publisher), RecordKind.ENTITY, key_text(key))


def relation_record_id(publisher: int, source: int, target: int) -> str:
    """Name the record of a relation in one document.

    Args:
        publisher: Ordinal that publishes the subgraph.
        source: Key of one end.
        target: Key of the other.

    Returns:
        The id, the same in either direction.
    """
    return derived_record_id(Ordinal(publisher), RecordKind.RELATION, "".join(map(key_text, pair_of(source, target))))


def entity_record(place: RecordPlace, fragment: EntityFragment, vector: NDArray[np.float32] | None = None) -> Record:
    """Make the record of an entity in one document.

    Args:
        place: The document.
        fragment: What it says of the entity.
        vector: Shape (dimension,); None where entities have none.

    Returns:
        The record.
    """
    statement = fragment.description or fragment.sentence
    attributes = {
        KEY: key_text(fragment.key),
        TYPE: fragment.type,
        DESCRIPTION: fragment.description,
        SENTENCE: fragment.sentence if fragment.description else "",
        METHODS: " ".join(fragment.methods),
        CONFIDENCE: _number(fragment.confidence),
    }
    return _record(
        place,
        RecordKind.ENTITY,
        entity_record_id(place.publisher, fragment.key),
        said=(fragment.name, f"{fragment.name}\n{statement}" if statement else fragment.name),
        keywords=(fragment.name, *fragment.aliases),
        attributes=attributes,
        mentions=fragment.mentions,
        vector=vector,
    )


def relation_record(
    place: RecordPlace, fragment: RelationFragment, names: tuple[str, str], vector: NDArray[np.float32] | None = None
) -> Record:
    """Make the record of a relation in one document.

    Args:
        place: The document.
        fragment: What it says of the relation.
        names: Names of source and target.
        vector: Shape (dimension,); None where relations have none.

    Returns:
        The record.
    """
    statement = fragment.description or _joined(fragment.predicate, fragment.sentence)
    attributes = {
        SOURCE: key_text(fragment.source),
        TARGET: key_text(fragment.target),
        SOURCE_NAME: names[0],
        TARGET_NAME: names[1],
        PREDICATE: fragment.predicate,
        DESCRIPTION: fragment.description,
        SENTENCE: fragment.sentence if fragment.description else "",
        WEIGHT: _number(fragment.weight),
        METHODS: " ".join(fragment.methods),
        CONFIDENCE: _number(fragment.confidence),
    }
    title = f"{names[0]} \u2013 {names[1]}"
    return _record(
        place,
        RecordKind.RELATION,
        relation_record_id(place.publisher, fragment.source, fragment.target),
        said=(title, statement or title),
        keywords=fragment.keywords,
        attributes=attributes,
        mentions=fragment.mentions,
        vector=vector,
    )


def entity_vector_text(fragment: EntityFragment) -> str:
    """Give what is embedded of an entity: its name, so that documents which name it alike share one vector.

    Args:
        fragment: The fragment.

    Returns:
        The text.
    """
    return fragment.name


def relation_vector_text(fragment: RelationFragment, names: tuple[str, str]) -> str:
    """Give what is embedded of a relation: names, keywords and what is said (LightRAG embeds the same).

    Args:
        fragment: The fragment.
        names: Names of source and target.

    Returns:
        The text.
    """
    statement = fragment.description or fragment.predicate
    return "\n".join(part for part in (", ".join(fragment.keywords), *names, statement) if part)


def texts_of(record: Record) -> FragmentTexts:
    """Read what the record of an entity or a relation says.

    Args:
        record: What `entity_record` or `relation_record` made.

    Returns:
        Its texts.
    """
    attributes = record.attributes
    description = attributes.get(DESCRIPTION, "")
    if record.kind is RecordKind.ENTITY:
        statement = record.text[len(record.title) + 1 :]
        return FragmentTexts(description, attributes.get(SENTENCE, "") if description else statement)
    predicate = attributes.get(PREDICATE, "")
    sentence = attributes.get(SENTENCE, "") if description else ""
    if not description and record.text != record.title:
        sentence = record.text.removeprefix(predicate).removeprefix("\n") if predicate else record.text
    return FragmentTexts(description, sentence, predicate, record.keywords)


def report_record(knowledge_base_id: str, ordinal: int, report: CommunityReport) -> Record:
    """Make the record of the report of a community.

    Args:
        knowledge_base_id: Knowledge base.
        ordinal: Ordinal that publishes the report.
        report: The report.

    Returns:
        The record.
    """
    community = report.community
    attributes = {
        WEIGHT: _number(report.weight),
        MADE_BY: report.made_by,
        PARENT: community.parent,
        MEMBER_COUNT: str(len(community.members)),
        CHUNKS: " ".join(
            chunk_record_id(Ordinal(version), place) for version, place in report.chunks[:MAX_CITED_CHUNKS]
        ),
        FALLBACK: report.fallback,
    }
    return Record(
        record_id=derived_record_id(Ordinal(ordinal), RecordKind.COMMUNITY_REPORT, community.key),
        kind=RecordKind.COMMUNITY_REPORT,
        knowledge_base_id=knowledge_base_id,
        publisher=Ordinal(ordinal),
        sources=tuple(Ordinal(version) for version in sorted(set(report.sources))),
        text=report.text,
        title=report.title,
        token_count=estimate_tokens(report.text),
        attributes={name: value for name, value in attributes.items() if value},
        links=tuple(key_text(member) for member in community.members[:MAX_LINKED_MEMBERS]),
        layer=community.level + 1,
    )


def description_record(
    knowledge_base_id: str,
    ordinal: int,
    keys: Sequence[int],
    said: tuple[str, str],
    *,
    sources: Sequence[int],
    links: Sequence[str],
    made_by: str,
) -> Record:
    """Make the record of what a language model has made of many descriptions.

    Args:
        knowledge_base_id: Knowledge base.
        ordinal: Ordinal that publishes it.
        keys: Key of the entity, or of both ends of the relation.
        said: Its name and the description.
        sources: Versions whose descriptions it was made of.
        links: Ids of chunks that those stand in.
        made_by: Model and version of the prompt.

    Returns:
        The record.
    """
    name, text = said
    ends = dict(zip((SOURCE, TARGET) if len(keys) > 1 else (KEY,), map(key_text, keys), strict=True))
    return Record(
        record_id=derived_record_id(Ordinal(ordinal), RecordKind.DESCRIPTION, "".join(map(key_text, keys))),
        kind=RecordKind.DESCRIPTION,
        knowledge_base_id=knowledge_base_id,
        publisher=Ordinal(ordinal),
        sources=tuple(Ordinal(version) for version in sorted(set(sources))),
        text=text,
        title=name,
        token_count=estimate_tokens(text),
        keywords=(name,) if len(keys) == 1 else (),
        attributes={**ends, DESCRIPTION: text, MADE_BY: made_by},
        links=tuple(links[:MAX_LINKED_CHUNKS]),
    )


def _record(
    place: RecordPlace,
    kind: RecordKind,
    record_id: str,
    *,
    said: tuple[str, str],
    keywords: Sequence[str],
    attributes: dict[str, str],
    mentions: Sequence[Mention],
    vector: NDArray[np.float32] | None,
) -> Record:
    title, text = said
    best = sorted(mentions, key=lambda mention: (-mention.weight, mention.position))[:MAX_LINKED_CHUNKS]
    return Record(
        record_id=record_id,
        kind=kind,
        knowledge_base_id=place.knowledge_base_id,
        publisher=Ordinal(place.publisher),
        sources=(Ordinal(place.version),),
        text=text,
        title=title,
        document_id=place.document_id,
        version=place.version_number,
        display_name=place.display_name,
        position=mentions[0].position if mentions else 0,
        token_count=estimate_tokens(text),
        language=place.language,
        keywords=tuple(keywords),
        vector=vector,
        attributes={name: value for name, value in attributes.items() if value},
        links=tuple(chunk_record_id(Ordinal(place.version), mention.position) for mention in best),
    )


def _joined(predicate: str, sentence: str) -> str:
    return f"{predicate}\n{sentence}" if predicate and sentence else predicate or sentence


def _number(value: float) -> str:
    return f"{value:.6g}"
