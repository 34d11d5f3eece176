"""Triples of documents: checked, and as the contract writes them."""

from collections.abc import Iterable
from typing import Final

from corpusmesh.graph.v1 import graph_input_service_pb2 as pb
from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError
from corpusmesh_core.graphs.keys import MAX_NAME_CHARACTERS, entity_key
from corpusmesh_core.graphs.settings import GRAPH, GraphMethod, GraphSettings
from corpusmesh_core.graphs.values import Triple
from corpusmesh_core.ports.graph_inputs import TriplesRow
from corpusmesh_runtime.timestamps import timestamp

MAX_TRIPLES: Final = 5_000
MAX_TRIPLE_BYTES: Final = 2 * 1024 * 1024
_MAX_CHARACTERS: Final = {
    "subject": MAX_NAME_CHARACTERS,
    "predicate": 256,
    "object": MAX_NAME_CHARACTERS,
    "passage": 1000,
    "subject_type": 64,
    "object_type": 64,
}


def require_triples(settings: GraphSettings) -> None:
    """Check that a graph is made of triples too.

    Args:
        settings: How it is made.

    Raises:
        FailedPreconditionError: GRAPH_TRIPLES_OFF if it is not.
    """
    if GraphMethod.TRIPLES not in settings.methods:
        raise FailedPreconditionError(
            "GRAPH_TRIPLES_OFF",
            f"this graph is not made of triples: name {GraphMethod.TRIPLES} among the methods of the section {GRAPH} of"
            " the knowledge base's settings first",
            setting=f"{GRAPH}.methods",
        )


def checked_triples(messages: Iterable[pb.Triple]) -> tuple[Triple, ...]:
    """Read triples.

    Args:
        messages: As they were given.

    Returns:
        The triples in order, each once.

    Raises:
        InvalidArgumentError: GRAPH_TRIPLES_INVALID with the place of the one at fault, or if there are too many.
    """
    given = list(messages)
    if not 1 <= len(given) <= MAX_TRIPLES:
        raise _invalid("triples", f"give 1 to {MAX_TRIPLES:,} triples; delete them to have none")
    if sum(message.ByteSize() for message in given) > MAX_TRIPLE_BYTES:
        raise _invalid("triples", f"the triples of a document may have {MAX_TRIPLE_BYTES:,} bytes")
    return tuple(dict.fromkeys(_checked(place, message) for place, message in enumerate(given)))


def triples_to_wire(name: str, row: TriplesRow[Triple] | None) -> pb.Triples:
    """Write the triples of a document.

    Args:
        name: `knowledgeBases/*/documents/*/triples`.
        row: As they are stored; None where there are none.

    Returns:
        The message.
    """
    if row is None:
        return pb.Triples(name=name)
    return pb.Triples(
        name=name,
        triples=[
            pb.Triple(
                subject=triple.subject,
                predicate=triple.predicate,
                object=triple.object,
                passage=triple.passage,
                subject_type=triple.subject_type,
                object_type=triple.object_type,
            )
            for triple in row.triples
        ],
        update_time=timestamp(row.update_time),
    )


def _checked(place: int, message: pb.Triple) -> Triple:
    fields = {name: getattr(message, name).strip() for name in _MAX_CHARACTERS}
    for name, most in _MAX_CHARACTERS.items():
        if len(fields[name]) > most:
            raise _invalid(f"triples[{place}].{name}", f"{name} may have {most:,} characters")
    for name in ("subject", "object"):
        if not entity_key(fields[name]):
            raise _invalid(f"triples[{place}].{name}", f"{name} must hold letters or digits")
    if not fields["predicate"]:
        raise _invalid(f"triples[{place}].predicate", "say how the two are related")
    if entity_key(fields["subject"]) == entity_key(fields["object"]):
        raise _invalid(f"triples[{place}].object", "subject and object are one name")
    return Triple(**fields)


def _invalid(field: str, message: str) -> InvalidArgumentError:
    return InvalidArgumentError("GRAPH_TRIPLES_INVALID", message, field=field)
