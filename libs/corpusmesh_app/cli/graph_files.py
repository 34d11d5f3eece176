"""Files of graphs: exports that are written piece by piece, and triples that are read."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from google.protobuf import json_format

from corpusmesh.graph.v1 import graph_input_service_pb2 as input_pb
from corpusmesh.graph.v1 import graph_service_pb2 as pb
from corpusmesh_app.cli.saving import write_whole
from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError
from corpusmesh_core.graphs.exporting import (
    ExportedEntity,
    ExportedRelation,
    GraphMlWriter,
    GraphWriter,
    JsonWriter,
)

_WRITERS: Final[dict[str, type[GraphWriter]]] = {"graphml": GraphMlWriter, "json": JsonWriter}
_MAX_FILE_BYTES: Final = 16 * 1024 * 1024


@dataclass(slots=True)
class WrittenGraph:
    """What was written.

    Attributes:
        entity_count: Entities.
        relation_count: Relations.
        snapshot: Of which snapshot; "" where nothing is published.
    """

    entity_count: int = 0
    relation_count: int = 0
    snapshot: str = ""


def format_of(name: str, path: Path) -> str:
    """Choose a format.

    Args:
        name: What was asked for; "" to go by the name of the file.
        path: The file.

    Returns:
        "graphml" or "json".

    Raises:
        InvalidArgumentError: GRAPH_FORMAT_INVALID if it is none of these.
    """
    chosen = name or path.suffix.removeprefix(".").lower() or "graphml"
    if chosen not in _WRITERS:
        raise InvalidArgumentError(
            "GRAPH_FORMAT_INVALID",
            f"a graph is written as {' or '.join(_WRITERS)}: say which with --format",
            field="format",
        )
    return chosen


async def write_graph(parts: AsyncIterator[pb.ExportGraphResponse], path: Path, format_name: str) -> WrittenGraph:
    """Write a graph to a file, whole or not at all, in memory that does not grow with it.

    Args:
        parts: The export.
        path: The file; replaced if it is there.
        format_name: See `format_of`.

    Returns:
        What was written.

    Raises:
        FailedPreconditionError: FILE_NOT_WRITTEN if the file cannot be written.
    """
    writer = _WRITERS[format_name]()
    written = WrittenGraph()

    async def pieces() -> AsyncIterator[bytes]:
        yield writer.begin().encode()
        async for part in parts:
            written.snapshot = written.snapshot or part.snapshot
            written.entity_count += len(part.entities)
            written.relation_count += len(part.relations)
            yield await asyncio.to_thread(_piece, writer, part)
        yield writer.end().encode()

    await write_whole(pieces(), path)
    return written


def read_triples(path: str) -> list[input_pb.Triple]:
    """Read triples from a file.

    Args:
        path: JSON, a list of objects (`subject`, `predicate`, `object`, …) or of lists of three texts; or one such
            entry a line; "-" for standard input.

    Returns:
        The triples.

    Raises:
        InvalidArgumentError: GRAPH_TRIPLES_INVALID with the place of what is no triple.
    """
    text = _read(path)
    try:
        entries = json.loads(text) if text.lstrip().startswith("[") and _is_whole(text) else _lines(text)
    except ValueError as error:
        raise _invalid("the file is neither a JSON list nor one JSON entry a line") from error
    return [_triple(entry, place) for place, entry in enumerate(entries)]


def _is_whole(text: str) -> bool:
    """Tell a JSON list of entries from lines that are a list each."""
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return isinstance(found, list) and not all(isinstance(entry, str) for entry in found)


def _lines(text: str) -> list[object]:
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _triple(entry: object, place: int) -> input_pb.Triple:
    if isinstance(entry, list) and len(entry) == 3 and all(isinstance(one, str) for one in entry):
        return input_pb.Triple(subject=entry[0], predicate=entry[1], object=entry[2])
    if isinstance(entry, dict):
        try:
            return json_format.ParseDict(entry, input_pb.Triple())
        except json_format.ParseError as error:
            raise _invalid(f"entry {place + 1} is no triple ({error})") from error
    raise _invalid(f"entry {place + 1} is neither an object nor a list of three texts")


def _read(path: str) -> str:
    try:
        data = sys.stdin.buffer.read(_MAX_FILE_BYTES + 1) if path == "-" else _bounded(Path(path))
        if len(data) > _MAX_FILE_BYTES:
            raise _invalid(f"a file of triples may have {_MAX_FILE_BYTES:,} bytes")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise FailedPreconditionError(
            "FILE_UNREADABLE", f"{path} cannot be read ({error.strerror})", path=path
        ) from error
    except UnicodeDecodeError as error:
        raise _invalid("a file of triples is UTF-8 text") from error


def _bounded(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MAX_FILE_BYTES + 1)


def _piece(writer: GraphWriter, part: pb.ExportGraphResponse) -> bytes:
    return "".join(
        (*map(writer.entity, map(_entity, part.entities)), *map(writer.relation, map(_relation, part.relations)))
    ).encode()


def _entity(entity: pb.Entity) -> ExportedEntity:
    return ExportedEntity(
        key=_key(entity.name),
        title=entity.title,
        type=entity.type,
        description=entity.description,
        aliases=tuple(entity.aliases),
        rank=entity.rank,
        document_count=entity.document_count,
        chunk_count=entity.chunk_count,
    )


def _relation(relation: pb.Relation) -> ExportedRelation:
    return ExportedRelation(
        source=_key(relation.source),
        target=_key(relation.target),
        predicate=relation.predicate,
        description=relation.description,
        keywords=tuple(relation.keywords),
        methods=tuple(relation.methods),
        weight=relation.weight,
        confidence=relation.confidence,
    )


def _key(name: str) -> str:
    return name.rsplit("/", 1)[1]


def _invalid(message: str) -> InvalidArgumentError:
    return InvalidArgumentError("GRAPH_TRIPLES_INVALID", message, field="file")
