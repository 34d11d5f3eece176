"""Recorded retrievals and their wire form."""

import re
from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp
from pyroaring import BitMap

from corpusmesh.retrieve.v1 import ledger_service_pb2 as pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.retrievals import RecordedHit, RetrievalRow

_NAME = re.compile(r"retrievals/([0-9a-z-]{1,63})")


def retrieval_id_of(name: str) -> str:
    """Take the identifier out of a name.

    Args:
        name: `retrievals/{retrieval}`.

    Returns:
        The identifier.

    Raises:
        InvalidArgumentError: If the name has another shape.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise InvalidArgumentError("RESOURCE_NAME_INVALID", "name must be like retrievals/<id>", field="name")
    return match.group(1)


def request_of(row: RetrievalRow) -> pb.Retrieval:
    """Read what was asked.

    Args:
        row: The retrieval.

    Returns:
        The message that was recorded: question, plans, sizes, spaces.
    """
    return pb.Retrieval.FromString(row.request)


def is_shown(hit: RecordedHit, visible: BitMap) -> bool:
    """Tell whether a caller may see a hit: all that it was made from.

    Args:
        hit: The hit.
        visible: Ordinals that the caller may see.

    Returns:
        True if it may; also for what is no part of the index.
    """
    return all(ordinal in visible for ordinal in hit.sources)


def document_name(knowledge_base_id: str, document_id: str) -> str:
    """Name a document.

    Args:
        knowledge_base_id: Its knowledge base.
        document_id: The document; "" for none.

    Returns:
        The name; "" for none.
    """
    return f"knowledgeBases/{knowledge_base_id}/documents/{document_id}" if document_id else ""


def retrieval_to_wire(row: RetrievalRow, visible: BitMap | None = None) -> pb.Retrieval:
    """Write a retrieval.

    Args:
        row: The retrieval.
        visible: Ordinals that the caller may see; None to leave the hits out.

    Returns:
        The resource with the hits that the caller may see. The question as it was completed from turns of a
        conversation may hold words of what these were made from: it is there where the caller may see all of that.
    """
    message = request_of(row)
    message.name = f"retrievals/{row.retrieval_id}"
    message.knowledge_bases.extend(f"knowledgeBases/{identifier}" for identifier in row.snapshots)
    message.snapshots.extend(
        f"knowledgeBases/{identifier}/snapshots/{snapshot}"
        for identifier, snapshot in row.snapshots.items()
        if snapshot
    )
    message.create_time.CopyFrom(timestamp(row.create_time))
    message.expire_time.CopyFrom(timestamp(row.expire_time))
    if message.standalone_query and (visible is None or not all(ordinal in visible for ordinal in row.sources)):
        message.standalone_query = ""
    if visible is None:
        return message
    for rank, hit in enumerate(row.hits, start=1):
        if not is_shown(hit, visible):
            message.hidden_hit_count += 1
            continue
        message.hits.append(
            pb.RecordedHit(
                rank=rank,
                record_id=hit.record_id,
                kind=hit.kind,
                document=document_name(hit.knowledge_base_id, hit.document_id),
                version=hit.version,
                scores=_scores(hit),
            )
        )
    return message


def timestamp(moment: datetime) -> Timestamp:
    """Write a moment.

    Args:
        moment: UTC.

    Returns:
        The moment.
    """
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp


def _scores(hit: RecordedHit) -> retrieval_pb.Scores:
    scores = retrieval_pb.Scores()
    for name, value in hit.scores.items():
        # A score of a later release is passed over by an earlier one.
        if (field := scores.DESCRIPTOR.fields_by_name.get(name)) is not None:
            setattr(scores, name, int(value) if field.cpp_type == field.CPPTYPE_INT32 else value)
    return scores
