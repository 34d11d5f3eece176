"""What a mode of graph search tells: tables as evidence, and the path through the graph."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.graph_search.levels import Found
from corpusmesh_core.graph_search.merging import in_turn, within
from corpusmesh_core.graph_search.reading import passages_of_entity, passages_of_relation, relation_record
from corpusmesh_core.graph_search.records import chunk_links, statement_of
from corpusmesh_core.graph_search.steps import (
    MAX_STEPS,
    GraphStep,
    StepKind,
    StepOutcome,
    StepReason,
    entity_name,
)
from corpusmesh_core.graph_search.tables import Row, table_text
from corpusmesh_core.ports.index import Candidate
from corpusmesh_core.ranking import LegScore, RankedCandidate, ScoreExplanation
from corpusmesh_core.records import Ordinal, Record, RecordKind, derived_record_id
from corpusmesh_core.token_estimate import estimate_tokens
from corpusmesh_retrieve.graphs.frame import GraphFrame

PASSAGES_OF_ONE: Final = 10
"""Passages that are looked at for one entity or relation."""
_MAX_TEXTS: Final = 3
"""Documents whose words are put together for one entity or relation."""
_MAX_LINKS: Final = 50
_MADE: Final = LegScore(None, 0, 0.0, is_filled_in=False)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a table.

    Attributes:
        found: The entity or relation.
        text: The line.
        token_count: Its tokens.
    """

    found: Found
    text: str
    token_count: int


def entity_lines(frame: GraphFrame, entities: Sequence[Found]) -> list[Line]:
    """Write entities as lines.

    Args:
        frame: The search; it has read their records.
        entities: Entities, best first.

    Returns:
        A line for each that was read.
    """
    lines: list[Line] = []
    for item in entities:
        records = frame.entity_records.get(item.identity)
        if records:
            view = frame.graphs[item.graph].view
            said = view.entity_texts(item.place).description or _statement(records)
            text = Row((frame.name(item.graph, item.place), view.type(item.place)), item.score, said).line
            lines.append(Line(item, text, estimate_tokens(text) + 1))
    return lines


def relation_lines(frame: GraphFrame, relations: Sequence[Found]) -> list[Line]:
    """Write relations as lines.

    Args:
        frame: The search; it has read their records.
        relations: Relations, best first.

    Returns:
        A line for each that was read.
    """
    lines: list[Line] = []
    for item in relations:
        records = frame.relation_records.get(item.identity)
        if records:
            text = Row(ends_named(frame, item), item.score, relation_statement(frame, item)).line
            lines.append(Line(item, text, estimate_tokens(text) + 1))
    return lines


def relation_statement(frame: GraphFrame, relation: Found) -> str:
    """Say what is known of a relation: what a person has said of it, else what documents say.

    Args:
        frame: The search; it has read its records.
        relation: The relation.

    Returns:
        The text; "" where nothing is said.
    """
    texts = frame.graphs[relation.graph].view.relation_texts(relation.place)
    own = texts.description or texts.predicate
    return own or _statement(frame.relation_records.get(relation.identity, ()))


def fitting(lines: Sequence[Line], max_tokens: int) -> tuple[Line, ...]:
    """Take the lines that fit.

    Args:
        lines: Lines, best first.
        max_tokens: Most tokens.

    Returns:
        Those that fit, in order.
    """
    return within(lines, [line.token_count for line in lines], max_tokens)


def ends_named(frame: GraphFrame, relation: Found) -> tuple[str, str]:
    """Name both ends of a relation, that which it goes out from first where its record says so.

    Args:
        frame: The search.
        relation: The relation.

    Returns:
        Names.
    """
    view = frame.graphs[relation.graph].view
    low, high = view.relation_ends[relation.place].tolist()
    for record in frame.relation_records.get(relation.identity, ()):
        source = record.attributes.get("source", "")
        if source and view.find([int(source, 16)]).tolist() == [high]:
            low, high = high, low
            break
    return frame.name(relation.graph, low), frame.name(relation.graph, high)


def passages_of(frame: GraphFrame, entities: Sequence[Found], relations: Sequence[Found]) -> list[tuple[str, ...]]:
    """Name the passages behind entities and relations.

    Args:
        frame: The search.
        entities: Entities, best first.
        relations: Relations, best first.

    Returns:
        Ids of chunks for each, in turn of both lists.
    """
    of_entities = [passages_of_entity(frame.views[item.graph], item.place, PASSAGES_OF_ONE) for item in entities]
    of_relations = [passages_of_relation(frame.views[item.graph], item.place, PASSAGES_OF_ONE) for item in relations]
    turns = in_turn(
        [list(enumerate(of_entities)), list(enumerate(of_relations, len(of_entities)))], lambda item: item[0]
    )
    return [group for _, group in turns]


def add_tables(
    frame: GraphFrame,
    entities: Sequence[Line],
    relations: Sequence[Line],
    reports: Sequence[Record] = (),
    *,
    max_tokens: int,
) -> int:
    """Make a table for each knowledge base that something was found in, to be put before all hits.

    Args:
        frame: The search; its outcome gets the tables.
        entities: Lines of entities, best first.
        relations: Lines of relations, best first.
        reports: Reports, best first.
        max_tokens: Most tokens of all tables.

    Returns:
        Tables that were made.
    """
    numbers = dict.fromkeys(line.found.graph for line in (*entities, *relations))
    made = 0
    for number in numbers:
        own = [line for line in entities if line.found.graph == number]
        between = [line for line in relations if line.found.graph == number]
        knowledge_base_id = frame.graphs[number].knowledge_base_id
        told = [report for report in reports if report.knowledge_base_id == knowledge_base_id]
        text = table_text(
            [line.text for line in own],
            [line.text for line in between],
            [(report.title, report.text) for report in told],
            max_tokens=max_tokens // len(numbers),
        )
        records = [
            *(record for line in own for record in frame.entity_records[line.found.identity]),
            *(record for line in between for record in frame.relation_records[line.found.identity]),
            *told,
        ]
        links = in_turn([group for record in records for group in [chunk_links(record)]], lambda name: name)
        if text:
            frame.outcome.graph_tables.append(_table(frame, knowledge_base_id, text, records, links[:_MAX_LINKS]))
            made += 1
    return made


def _table(
    frame: GraphFrame, knowledge_base_id: str, text: str, records: Sequence[Record], links: Sequence[str]
) -> RankedCandidate:
    sources = tuple(sorted({source for record in records for source in record.sources}))
    # One of them, so that whoever may see all that the table was made of may see it, and nobody else.
    publisher = Ordinal(min(record.publisher for record in records))
    record = Record(
        record_id=derived_record_id(publisher, RecordKind.GRAPH_TABLE, frame.outcome.plan.graph.mode.value),
        kind=RecordKind.GRAPH_TABLE,
        knowledge_base_id=knowledge_base_id,
        publisher=publisher,
        sources=sources,
        text=text,
        token_count=estimate_tokens(text),
        links=tuple(links),
    )
    explanation = ScoreExplanation(
        lexical=_MADE,
        vector=_MADE,
        rank_feature=0.0,
        vector_weight=0.0,
        is_cross_script=False,
        similarity=1.0,
        order_score=1.0,
        dropped_because="",
    )
    return RankedCandidate(Candidate(record, ""), explanation)


def tell_entities(frame: GraphFrame, entities: Sequence[Found], kept: Collection[tuple[int, int]]) -> None:
    """Note entities in the path.

    Args:
        frame: The search; its outcome gets the steps.
        entities: Entities that were looked at, best first.
        kept: Identities of those that became evidence.
    """
    _tell(
        frame,
        [
            GraphStep(
                StepKind.ENTITY,
                entity_name(graph.knowledge_base_id, int(graph.view.entity_keys[item.place])),
                frame.name(item.graph, item.place),
                item.reason,
                item.score,
                item.hop,
                StepOutcome.KEPT if item.identity in kept else StepOutcome.DROPPED,
            )
            for item in entities
            for graph in [frame.graphs[item.graph]]
        ],
    )


def tell_relations(frame: GraphFrame, relations: Sequence[Found], kept: Collection[tuple[int, int]]) -> None:
    """Note relations in the path.

    Args:
        frame: The search; its outcome gets the steps.
        relations: Relations that were looked at, best first.
        kept: Identities of those that became evidence.
    """
    _tell(
        frame,
        [
            GraphStep(
                StepKind.RELATION,
                relation_record(frame.graphs[item.graph].view, item.place),
                " \u2013 ".join(ends_named(frame, item)),
                item.reason,
                item.score,
                item.hop,
                StepOutcome.KEPT if item.identity in kept else StepOutcome.DROPPED,
            )
            for item in relations
        ],
    )


def tell_records(
    frame: GraphFrame, items: Sequence[tuple[Record, float]], reason: StepReason, *, is_kept: bool = True
) -> None:
    """Note reports and passages in the path.

    Args:
        frame: The search; its outcome gets the steps.
        items: Records and their scores, best first.
        reason: Why they were looked at.
        is_kept: Whether they became evidence.
    """
    outcome = StepOutcome.KEPT if is_kept else StepOutcome.DROPPED
    kinds = {RecordKind.COMMUNITY_REPORT: StepKind.COMMUNITY_REPORT}
    _tell(
        frame,
        [
            GraphStep(
                kinds.get(record.kind, StepKind.CHUNK),
                record.record_id,
                record.title if record.kind in kinds else "",
                reason,
                score,
                outcome=outcome,
            )
            for record, score in items
        ],
    )


def _tell(frame: GraphFrame, steps: Sequence[GraphStep]) -> None:
    room = MAX_STEPS - len(frame.outcome.graph_path)
    frame.outcome.graph_path.extend(steps[: max(0, room)])


def _statement(records: Sequence[Record]) -> str:
    if described := next((record for record in records if record.kind is RecordKind.DESCRIPTION), None):
        return statement_of(described)
    return " ".join(dict.fromkeys(filter(None, map(statement_of, records[:_MAX_TEXTS]))))
