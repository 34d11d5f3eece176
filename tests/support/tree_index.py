"""An index in memory that holds chunks and nodes of trees and obeys the rule of visibility itself, not its filter."""

from collections.abc import Iterator, Sequence

from corpusmesh_core.ports.index import Candidate, Candidates, RecallRequest
from corpusmesh_core.records import RULE_BY_KIND, Ordinal, Record, RecordKind
from corpusmesh_core.text import analyze
from corpusmesh_core.visibility import Visibility, VisibilityFilter, is_visible


def chunk(name: str, text: str, *, version: int = 1, title: str = "") -> Record:
    """Make a chunk of a version; its document is named after it.

    Args:
        name: Its record id.
        text: Its text.
        version: Ordinal of its version.
        title: Title of its document.

    Returns:
        The record.
    """
    ordinal = Ordinal(version)
    return Record(
        name,
        RecordKind.CHUNK,
        "kb",
        ordinal,
        (ordinal,),
        text,
        title=title or f"Document {version}",
        document_id=f"d{version}",
        version=1,
        display_name=f"d{version}.txt",
        page=1,
    )


def node(
    name: str,
    text: str,
    *,
    leaves: str = "",
    children: str = "",
    layer: int = 1,
    publisher: int = 1,
    sources: tuple[int, ...] = (1,),
    document: str = "",
) -> Record:
    """Make a node.

    Args:
        name: Its record id.
        text: Its text.
        leaves: Ids of its leaves, joined by spaces; "" where they are too many to name.
        children: Ids of its children; "" for its leaves.
        layer: Its layer.
        publisher: Ordinal that publishes it.
        sources: Versions that it was made from.
        document: Its document; "" for a node of a build.

    Returns:
        The record.
    """
    return Record(
        name,
        RecordKind.TREE_NODE,
        "kb",
        Ordinal(publisher),
        tuple(Ordinal(source) for source in sources),
        text,
        document_id=document,
        links=tuple(leaves.split()),
        layer=layer,
        attributes={"children": children or leaves},
    )


class TreeIndex:
    """Scores by shared words; remembers what it was asked. Whoever reads hands it what may be seen."""

    def __init__(self, records: Sequence[Record], visibility: Visibility) -> None:
        """Fill it.

        Args:
            records: What it holds.
            visibility: What the caller may see: the filter of every request must say the same.
        """
        self.records = list(records)
        self.visibility = visibility
        self.calls: list[list[RecallRequest]] = []

    def _passing(self, filter_: VisibilityFilter) -> Iterator[Record]:
        for record in self.records:
            if record.kind in filter_.kinds and is_visible(
                record.publisher, record.sources, RULE_BY_KIND[record.kind], self.visibility
            ):
                yield record

    async def search(
        self, tenant_id: str, space_id: str, requests: Sequence[RecallRequest], *, timeout_seconds: float
    ) -> list[Candidates]:
        """See `RecordIndex.search`."""
        assert tenant_id
        assert space_id
        assert timeout_seconds > 0
        self.calls.append(list(requests))
        return [Candidates(tuple(self._found(request)), len(self.records), has_vector_leg=True) for request in requests]

    def _found(self, request: RecallRequest) -> list[Candidate]:
        asked = set(request.terms.fine)
        found: list[Candidate] = []
        for record in self._passing(request.visibility):
            own = analyze(record.text).fine
            shared = len(asked & set(own))
            if request.layers is not None and record.layer not in request.layers:
                continue
            if request.record_ids is not None:
                is_wanted = record.record_id in request.record_ids
            elif request.linking_to is not None:
                is_wanted = bool(set(request.linking_to) & set(record.links))
            else:
                is_wanted = shared > 0
            if is_wanted:
                cosine = shared / max(1, len(asked)) if request.query_vector is not None else None
                found.append(
                    Candidate(record, " ".join(own), script="spaced", lexical_score=float(shared), cosine=cosine)
                )
        found.sort(key=lambda item: -(item.lexical_score or 0.0))
        if request.record_ids is not None:
            return found[: request.given_count]
        return found[: request.window]

    async def fetch(
        self,
        tenant_id: str,
        space_id: str,
        record_ids: Sequence[str],
        visibility: VisibilityFilter,
        *,
        with_vectors: bool = False,
        timeout_seconds: float,
    ) -> list[Record]:
        """See `RecordIndex.fetch`."""
        assert tenant_id
        assert space_id
        assert timeout_seconds > 0
        assert not with_vectors
        known = {record.record_id: record for record in self._passing(visibility)}
        return [known[name] for name in record_ids if name in known]
