"""From the hits of a search to the evidence of an answer."""

from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from corpusmesh_core.answering import Evidence
from corpusmesh_core.graph_search.records import is_table
from corpusmesh_core.graph_search.tables import cut_table
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.token_estimate import estimate_tokens
from corpusmesh_core.tree_search import node_title
from corpusmesh_retrieve.outcome import SearchOutcome

_SUMMARIES: Final = frozenset(
    {RecordKind.TREE_NODE, RecordKind.COMMUNITY_REPORT, RecordKind.DESCRIPTION, RecordKind.GRAPH_TABLE}
)
_TABLE_SHARE: Final = 14 / 30
"""Of the tokens of all evidence: what LightRAG gives entities and relations of its 30,000."""


def evidence_of(outcome: SearchOutcome, *, max_count: int, max_token_count: int | None = None) -> list[Evidence]:
    """Read the best hits as evidence.

    Args:
        outcome: What the search found; the text of a hit that was compressed is the shortened one.
        max_count: Most pieces.
        max_token_count: Tokens that all evidence may have; None for no bound. Of a table no more than a share of it is
            taken, so that passages have room beside it.

    Returns:
        Evidence without labels, best first.
    """
    pieces = [_piece(item, outcome) for item in outcome.kept[:max_count]]
    if max_token_count is None:
        return pieces
    tables = sum(piece.is_table for piece in pieces)
    room = round(max_token_count * _TABLE_SHARE / max(1, tables))
    return [_shortened(piece, room) if piece.is_table else piece for piece in pieces]


def _shortened(table: Evidence, max_token_count: int) -> Evidence:
    text = cut_table(table.text, max_token_count)
    if text == table.text:
        return table
    return replace(table, text=text, token_count=estimate_tokens(text), terms=(), is_cut=True)


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
        is_summary=record.kind in _SUMMARIES,
        is_table=is_table(record),
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
