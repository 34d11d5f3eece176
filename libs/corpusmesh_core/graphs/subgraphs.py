"""Subgraphs of documents as one object: what was found is kept before anything is made of it (ADR-0014)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from corpusmesh_core.artefacts.codec import pack, unpack
from corpusmesh_core.errors import InternalError
from corpusmesh_core.graphs.settings import GraphMethod
from corpusmesh_core.graphs.values import EntityFragment, Mention, RelationFragment, Subgraph

_FORMAT: Final = 1
_METHODS: Final = tuple(GraphMethod)


@dataclass(frozen=True, slots=True)
class ExtractedDocument:
    """What was found in one version of a document.

    Attributes:
        fingerprint: Digest of all that it depends on besides the texts.
        texts: Digest of the texts.
        subgraph: What was found.
    """

    fingerprint: bytes
    texts: bytes
    subgraph: Subgraph


def pack_extracted(documents: Mapping[int, ExtractedDocument]) -> bytes:
    """Write what was found in some versions.

    Args:
        documents: By ordinal of the version.

    Returns:
        The object.
    """
    return pack(
        {
            "format": _FORMAT,
            "documents": [
                [version, item.fingerprint, item.texts, *_plain(item.subgraph)]
                for version, item in sorted(documents.items())
            ],
        }
    )


def unpack_extracted(packed: bytes) -> dict[int, ExtractedDocument]:
    """Read what `pack_extracted` wrote.

    Args:
        packed: The object.

    Returns:
        What was found, by ordinal.

    Raises:
        InternalError: ARTEFACT_UNREADABLE if it is no such object.
    """
    values = unpack(packed)
    try:
        if values["format"] != _FORMAT:
            raise InternalError("ARTEFACT_UNREADABLE", "subgraphs are of another format")
        return {
            version: ExtractedDocument(fingerprint, texts, _subgraph(entities, relations))
            for version, fingerprint, texts, entities, relations in values["documents"]
        }
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InternalError("ARTEFACT_UNREADABLE", "subgraphs cannot be read") from error


def _plain(subgraph: Subgraph) -> tuple[list[Any], list[Any]]:
    entities = [
        [
            item.key,
            item.name,
            item.type,
            item.description,
            item.sentence,
            item.aliases,
            _plain_mentions(item.mentions),
            _plain_methods(item.methods),
            item.confidence,
        ]
        for item in subgraph.entities
    ]
    relations = [
        [
            item.source,
            item.target,
            item.predicate,
            item.description,
            item.sentence,
            item.keywords,
            _plain_mentions(item.mentions),
            item.weight,
            _plain_methods(item.methods),
            item.confidence,
        ]
        for item in subgraph.relations
    ]
    return entities, relations


def _subgraph(entities: Sequence[Any], relations: Sequence[Any]) -> Subgraph:
    return Subgraph(
        tuple(
            EntityFragment(
                key,
                name,
                kind,
                description,
                sentence,
                tuple(aliases),
                _mentions(mentions),
                _read_methods(methods),
                confidence,
            )
            for key, name, kind, description, sentence, aliases, mentions, methods, confidence in entities
        ),
        tuple(
            RelationFragment(
                source,
                target,
                predicate,
                description,
                sentence,
                tuple(keywords),
                _mentions(mentions),
                weight,
                _read_methods(methods),
                confidence,
            )
            for (
                source,
                target,
                predicate,
                description,
                sentence,
                keywords,
                mentions,
                weight,
                methods,
                confidence,
            ) in relations
        ),
    )


def _plain_mentions(mentions: Sequence[Mention]) -> list[list[float]]:
    return [[mention.position, mention.weight] for mention in mentions]


def _mentions(values: Sequence[Any]) -> tuple[Mention, ...]:
    return tuple(Mention(position, weight) for position, weight in values)


def _plain_methods(methods: Sequence[GraphMethod]) -> list[int]:
    return [_METHODS.index(method) for method in methods]


def _read_methods(values: Sequence[int]) -> tuple[GraphMethod, ...]:
    return tuple(_METHODS[place] for place in values)
