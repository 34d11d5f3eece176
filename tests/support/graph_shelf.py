"""Documents with facts, as records of an index in memory and as the graph that a caller sees of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from corpusmesh_core.graphs.extraction import from_triples
from corpusmesh_core.graphs.records import RecordPlace, entity_record, relation_record, report_record
from corpusmesh_core.graphs.segments import Segment, SegmentDocument, pack_segment
from corpusmesh_core.graphs.values import Community, CommunityReport, GraphChunk, Triple
from corpusmesh_core.graphs.view import GraphView, compile_view
from corpusmesh_core.records import Record
from corpusmesh_core.visibility import Visibility
from tests.support.tree_index import chunk

PUBLISHERS_FROM = 50
"""Ordinal of the subgraph of version 0."""
REPORTS_FROM = 80


@dataclass(frozen=True)
class Document:
    """One document of one chunk.

    Attributes:
        version: Ordinal of its version.
        text: Its text.
        facts: Subject, predicate, object, and types of both where they matter.
    """

    version: int
    text: str
    facts: tuple[tuple[str, ...], ...]


BERNOULLIS = (
    Document(
        1,
        "Jakob Bernoulli was the older brother of Johann Bernoulli and is known for the Bernoulli numbers.",
        (
            ("Jakob Bernoulli", "was the older brother of", "Johann Bernoulli", "person", "person"),
            ("Jakob Bernoulli", "is known for", "Bernoulli numbers", "person", "category"),
        ),
    ),
    Document(
        2,
        "Johann Bernoulli was the teacher of Euler in Basel. Daniel Bernoulli was his son.",
        (
            ("Johann Bernoulli", "was the teacher of", "Euler", "person", "person"),
            ("Daniel Bernoulli", "was the son of", "Johann Bernoulli", "person", "person"),
        ),
    ),
    Document(
        3,
        "In Hydrodynamica it is shown how the pressure of water falls where it flows faster; this founded the mechanics"
        " of fluids.",
        (("Daniel Bernoulli", "made a lasting contribution to", "fluid mechanics", "person", "category"),),
    ),
    Document(
        4,
        "Euler went to the academy in Saint Petersburg and wrote about the contribution of a teacher to a school.",
        (("Euler", "worked at", "Saint Petersburg academy", "person", "organization"),),
    ),
    Document(
        5,
        "A sealed letter says that Daniel Bernoulli owned a secret press.",
        (("Daniel Bernoulli", "secretly owned", "Hidden Press", "person", "organization"),),
    ),
)
"""A teacher, his pupil and his son: what the son did stands where neither pupil nor teacher is named."""


class GraphShelf:
    """The records and the graph of some documents of one knowledge base."""

    def __init__(self, documents: Sequence[Document] = BERNOULLIS, knowledge_base_id: str = "kb") -> None:
        """Fill it.

        Args:
            documents: Documents.
            knowledge_base_id: Their knowledge base.
        """
        self.knowledge_base_id = knowledge_base_id
        self.records: list[Record] = []
        made: list[SegmentDocument] = []
        for document in documents:
            triples = [
                Triple(fact[0], fact[1], fact[2], document.text, *(fact[3:] or ("", ""))) for fact in document.facts
            ]
            subgraph = from_triples(triples, [GraphChunk(0, document.text)])
            publisher = PUBLISHERS_FROM + document.version
            made.append(SegmentDocument(document.version, publisher, subgraph))
            place = RecordPlace(
                knowledge_base_id, document.version, publisher, f"d{document.version}", 1, f"d{document.version}.txt"
            )
            names = {entity.key: entity.name for entity in subgraph.entities}
            self.records.append(chunk(f"{document.version}-0", document.text, version=document.version))
            self.records += [entity_record(place, entity) for entity in subgraph.entities]
            self.records += [
                relation_record(place, relation, (names[relation.source], names[relation.target]))
                for relation in subgraph.relations
            ]
        self.segments = [Segment.open(pack_segment(made))]

    def report(self, title: str, text: str, members: Sequence[int], sources: Sequence[int]) -> Record:
        """Add the report of a community.

        Args:
            title: Its title.
            text: Its text.
            members: Keys of its entities.
            sources: Versions that it is made of.

        Returns:
            Its record.
        """
        number = REPORTS_FROM + sum(record.layer > 0 for record in self.records)
        community = Community(f"{number:016x}", 0, tuple(sorted(members)))
        chunks = tuple((version, 0) for version in sources)
        record = report_record(
            self.knowledge_base_id,
            number,
            CommunityReport(community, title, text, 0.5, "lite", tuple(sources), chunks),
        )
        self.records.append(record)
        return record

    def view_of(self, visibility: Visibility) -> GraphView:
        """Give the graph as a caller sees it.

        Args:
            visibility: What the caller may see.

        Returns:
            The view.
        """
        return compile_view(self.segments, visibility.ordinals)


class ShelfViews:
    """Gives the graphs of shelves, and counts how often it is asked."""

    def __init__(self, *shelves: GraphShelf) -> None:
        """Take shelves.

        Args:
            shelves: One for each knowledge base with a graph.
        """
        self._shelves = {shelf.knowledge_base_id: shelf for shelf in shelves}
        self.asked: list[str] = []

    async def view(
        self, tenant_id: str, knowledge_base_id: str, visibility: Visibility, *, timeout_seconds: float
    ) -> GraphView | None:
        """See `GraphViews`."""
        assert tenant_id
        assert timeout_seconds > 0
        self.asked.append(knowledge_base_id)
        shelf = self._shelves.get(knowledge_base_id)
        return None if shelf is None else shelf.view_of(visibility)
