"""From the hits of a search to the evidence of an answer."""

from urllib.parse import urlsplit

from corpusmesh_core.answering import Evidence
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.tree_search import node_title
from corpusmesh_retrieve.outcome import SearchOutcome


def evidence_of(outcome: SearchOutcome, *, max_count: int) -> list[Evidence]:
    """Read the best hits as evidence.

    Args:
        outcome: What the search found; the text of a hit that was compressed is the shortened one.
        max_count: Most pieces.

    Returns:
        Evidence without labels, best first.
    """
    return [_piece(item, outcome) for item in outcome.kept[:max_count]]


def _piece(item: RankedCandidate, outcome: SearchOutcome) -> Evidence:
    record = item.candidate.record
    text = outcome.compressed.get(record.record_id, record.text)
    is_indexed = text is record.text and not item.merged_record_ids
    token_count = record.token_count
    if text is not record.text and record.text:
        token_count = max(1, round(token_count * len(text) / len(record.text)))
    url = record.attributes.get("url", "") if record.kind is RecordKind.WEB_PAGE else ""
    return Evidence(
        record_id=record.record_id,
        text=text,
        document=record.display_name or _title(record, outcome),
        token_count=token_count,
        page=record.page,
        boxes=record.boxes,
        heading_path=record.heading_path,
        source=_site(url) if url else _source(record),
        score=item.similarity,
        cosine=item.explanation.vector.raw,
        url=url,
        is_summary=record.kind is RecordKind.TREE_NODE,
        # What stands in the index is analysed already; what was joined or shortened since is not.
        terms=tuple(item.candidate.content_terms.split()) if is_indexed else (),
    )


def _title(record: Record, outcome: SearchOutcome) -> str:
    return node_title(record, [leaf.title for leaf in outcome.leaves.get(record.record_id, ())])


def _source(record: Record) -> str:
    # A summary of several documents is of none of them: it must not fill the place of another.
    base = f"knowledgeBases/{record.knowledge_base_id}"
    return f"{base}/documents/{record.document_id}" if record.document_id else f"{base}/records/{record.record_id}"


def _site(url: str) -> str:
    """Name the site of a page: one site must not fill the evidence under many addresses."""
    try:
        return urlsplit(url).hostname or url
    except ValueError:
        return url
