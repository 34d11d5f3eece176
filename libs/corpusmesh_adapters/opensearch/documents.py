"""Between records and what the index stores."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from corpusmesh_adapters.opensearch.mapping import VECTOR_FIELD
from corpusmesh_core.chunking.context import CONTEXT_SEPARATOR
from corpusmesh_core.documents import Box
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.records import VECTOR_DECIMALS, Ordinal, Record, RecordKind
from corpusmesh_core.text import analyze, script_of
from corpusmesh_core.visibility import check_sources

_MAX_ID_BYTES = 512
_MAX_NAMED_IDS = 20

RECORD_FIELDS = (
    "kind",
    "knowledge_base",
    "document",
    "publisher",
    "ver",
    "text",
    "title",
    "display_name",
    "heading_path",
    "context",
    "keywords",
    "questions",
    "boxes",
    "attributes",
    "tags",
    "links",
    "layer",
    "version",
    "page",
    "position",
    "token_count",
    "language",
)
"""Source fields that make a record; never the vector, which costs more than all of them."""

TERM_FIELDS = ("content_fine", "keywords_fine", "questions_fine", "script")
"""Source fields that re-scoring reads."""


def check_records(records: Sequence[Record], dimension: int) -> None:
    """Refuse what the index would refuse, or would index wrongly, before anything is sent.

    Args:
        records: Records of one write.
        dimension: Dimension of the space.

    Raises:
        InvalidArgumentError: For the reason that the first bad record shows; metadata `record_ids` names all bad ones
            (the first twenty) and `reasons` the reason of each.
    """
    faults: list[tuple[str, str]] = []
    for record in records:
        reason = _fault(record, dimension)
        if reason:
            faults.append((record.record_id, reason))
    if faults:
        named = faults[:_MAX_NAMED_IDS]
        raise InvalidArgumentError(
            "RECORDS_INVALID",
            f"{len(faults)} of {len(records)} records cannot be indexed: {named[0][1]}",
            field="records",
            record_ids=" ".join(record_id for record_id, _ in named),
            reasons="; ".join(reason for _, reason in named),
            count=len(faults),
        )


def _fault(record: Record, dimension: int) -> str:
    if not record.record_id or len(record.record_id.encode()) > _MAX_ID_BYTES:
        return f"an id must have 1 to {_MAX_ID_BYTES} bytes"
    try:
        check_sources(record.kind, record.publisher, record.sources)
    except InvalidArgumentError as error:
        return error.message
    vector = record.vector
    if vector is None:
        return ""
    if vector.shape != (dimension,):
        return f"the vector has shape {vector.shape}, the space has dimension {dimension}"
    if not np.isfinite(vector).all():
        return "the vector holds NaN or infinity"
    norm = float(np.linalg.norm(vector))
    return "" if math.isclose(norm, 1.0, abs_tol=1e-2) else f"the vector has norm {norm:.3f} instead of 1"


def to_source(record: Record) -> dict[str, Any]:
    """Make the stored form of a record, terms included.

    Args:
        record: A record that passed `check_records`.

    Returns:
        The document to index.
    """
    headings = [heading for heading in record.heading_path if heading != record.title]
    title_text = "\n".join([record.title, *headings])
    title = analyze(title_text)
    context = analyze(_further_context(record))
    body = analyze(record.text)
    # Context is searched as headings are, and like them says nothing of how the record itself is written.
    fine = title.fine + context.fine + body.fine
    source: dict[str, Any] = {
        "kind": record.kind.value,
        "knowledge_base": record.knowledge_base_id,
        "document": record.document_id,
        "publisher": record.publisher,
        "ver": sorted(set(record.sources)),
        "content_coarse": " ".join(title.coarse + context.coarse + body.coarse),
        "content_fine": " ".join(fine),
        "script": script_of(body.fine or fine).value,
        "title_fine": " ".join(title.fine),
        "text": record.text,
        "title": record.title,
        "display_name": record.display_name,
        "heading_path": list(record.heading_path),
        "version": record.version,
        "page": record.page,
        "position": record.position,
        "token_count": record.token_count,
        "language": record.language,
    }
    if record.keywords:
        source["keywords"] = list(record.keywords)
        source["keywords_fine"] = " ".join(analyze("\n".join(record.keywords)).fine)
    if record.questions:
        source["questions"] = list(record.questions)
        source["questions_fine"] = " ".join(analyze("\n".join(record.questions)).fine)
    if record.boxes:
        source["boxes"] = [[box.page, box.left, box.top, box.right, box.bottom] for box in record.boxes]
        # An object field wants objects, and a list of numbers per box is a third of the bytes.
        source["boxes"] = {"at": source["boxes"]}
    if record.attributes:
        source["attributes"] = dict(record.attributes)
    if record.context:
        source["context"] = record.context
    if record.tags:
        source["tags"] = dict(record.tags)
        source["tag_names"] = sorted(record.tags)
    if record.links:
        source["links"] = list(record.links)
    if record.layer:
        source["layer"] = record.layer
    if record.vector is not None:
        # repr would write up to 17 digits of the double it is widened to. Rounded by numpy, in a fifth of the time.
        source[VECTOR_FIELD] = np.round(record.vector.astype(np.float64), VECTOR_DECIMALS).tolist()
    return source


def to_record(record_id: str, source: Mapping[str, Any], vector: Sequence[float] | None = None) -> Record:
    """Read a record back.

    Args:
        record_id: Its id.
        source: Fields RECORD_FIELDS of the stored document.
        vector: Its vector, where it was asked for.

    Returns:
        The record.
    """
    return Record(
        record_id=record_id,
        kind=RecordKind(source["kind"]),
        knowledge_base_id=source["knowledge_base"],
        publisher=Ordinal(source["publisher"]),
        sources=tuple(Ordinal(value) for value in source["ver"]),
        text=source["text"],
        title=source.get("title", ""),
        document_id=source.get("document", ""),
        version=source.get("version", 0),
        display_name=source.get("display_name", ""),
        heading_path=tuple(source.get("heading_path", ())),
        page=source.get("page", 0),
        boxes=tuple(
            Box(int(page), left, top, right, bottom)
            for page, left, top, right, bottom in source.get("boxes", {}).get("at", ())
        ),
        position=source.get("position", 0),
        token_count=source.get("token_count", 0),
        language=source.get("language", ""),
        keywords=tuple(source.get("keywords", ())),
        questions=tuple(source.get("questions", ())),
        vector=None if vector is None else np.asarray(vector, dtype=np.float32),
        attributes=source.get("attributes", {}),
        context=source.get("context", ""),
        tags=source.get("tags", {}),
        links=tuple(source.get("links", ())),
        layer=source.get("layer", 0),
    )


def _further_context(record: Record) -> str:
    """Give the parts of a record's context that its title and headings do not say already."""
    if not record.context:
        return ""
    known = {record.title, *record.heading_path}
    parts = (part.strip() for line in record.context.splitlines() for part in line.split(CONTEXT_SEPARATOR))
    return "\n".join(part for part in parts if part not in known)


def to_lines(records: Sequence[Record], epoch: int) -> list[tuple[str, bytes]]:
    """Make the bulk lines of records; slow enough (1 to 3 ms a record) to belong into a thread.

    Args:
        records: Records that passed `check_records`.
        epoch: Fencing token, the external version of each record.

    Returns:
        Per record its id and its two lines: action and source.
    """
    lines: list[tuple[str, bytes]] = []
    for record in records:
        # "gte": the same attempt may send a record twice, where an answer was lost.
        target = {"_id": record.record_id, "version": epoch, "version_type": "external_gte"}
        action = json.dumps({"index": target}, ensure_ascii=False)
        source = json.dumps(to_source(record), ensure_ascii=False, separators=(",", ":"))
        # A lone surrogate, which a broken PDF can hold, is no UTF-8: it becomes "?".
        lines.append((record.record_id, f"{action}\n{source}\n".encode(errors="replace")))
    return lines
