"""The subgraph of a document as it was found, from its segment and the texts of its records."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.graphs.records import FragmentTexts, entity_record_id, relation_record_id
from corpusmesh_core.graphs.segments import METHOD_BITS, Segment
from corpusmesh_core.graphs.settings import GraphMethod
from corpusmesh_core.graphs.values import EntityFragment, Mention, RelationFragment, Subgraph


def record_ids(segment: Segment, document: int) -> Iterator[str]:
    """Name the records of a document's subgraph.

    Args:
        segment: Segment that holds it.
        document: Its place in the segment.

    Yields:
        Ids of its entities, then of its relations.
    """
    publisher = int(segment.document_publisher[document])
    for place in _span(segment.document_entities, document):
        yield entity_record_id(publisher, int(segment.entity_key[place]))
    for place in _span(segment.document_relations, document):
        yield relation_record_id(publisher, *_ends(segment, place))


def restored(segment: Segment, document: int, texts: Mapping[str, FragmentTexts]) -> Subgraph:
    """Put the subgraph of a document together.

    Args:
        segment: Segment that holds it.
        document: Its place in the segment.
        texts: What its records say, by id; all of them.

    Returns:
        The subgraph.
    """
    publisher = int(segment.document_publisher[document])
    entities = []
    for place in _span(segment.document_entities, document):
        key = int(segment.entity_key[place])
        said = texts[entity_record_id(publisher, key)]
        entities.append(
            EntityFragment(
                key,
                _text(segment, int(segment.entity_name[place])),
                _text(segment, int(segment.entity_type[place])),
                said.description,
                said.sentence,
                tuple(_text(segment, int(segment.alias_name[alias])) for alias in _span(segment.entity_aliases, place)),
                tuple(
                    Mention(int(segment.mention_position[mention]), float(segment.mention_weight[mention]))
                    for mention in _span(segment.entity_mentions, place)
                ),
                _methods(int(segment.entity_methods[place])),
                float(segment.entity_confidence[place]),
            )
        )
    relations = []
    for place in _span(segment.document_relations, document):
        source, target = _ends(segment, place)
        said = texts[relation_record_id(publisher, source, target)]
        relations.append(
            RelationFragment(
                source,
                target,
                said.predicate,
                said.description,
                said.sentence,
                said.keywords,
                tuple(
                    Mention(
                        int(segment.relation_mention_position[mention]),
                        float(segment.relation_mention_weight[mention]),
                    )
                    for mention in _span(segment.relation_mentions, place)
                ),
                float(segment.relation_weight[place]),
                _methods(int(segment.relation_methods[place])),
                float(segment.relation_confidence[place]),
            )
        )
    return Subgraph(tuple(entities), tuple(relations))


def _span(offsets: NDArray[np.int64], place: int) -> range:
    return range(int(offsets[place]), int(offsets[place + 1]))


def _ends(segment: Segment, relation: int) -> tuple[int, int]:
    return (
        int(segment.entity_key[segment.relation_source[relation]]),
        int(segment.entity_key[segment.relation_target[relation]]),
    )


def _text(segment: Segment, place: int) -> str:
    return segment.strings.raw(place).decode("utf-8", "replace")


def _methods(bits: int) -> tuple[GraphMethod, ...]:
    return tuple(method for method, bit in METHOD_BITS.items() if bits & bit)
