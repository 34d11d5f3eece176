"""Wire messages to values and back."""

import math
import re
from collections.abc import Sequence

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.query.stages import check_range
from corpusmesh_core.ranking import RankedCandidate, ScoreExplanation
from corpusmesh_core.records import Record
from corpusmesh_core.request_limits import MAX_DOCUMENTS, MAX_METADATA_CONDITIONS, MAX_TURN_CHARACTERS, MAX_TURNS
from corpusmesh_core.tenancy import FilterCondition, FilterOperator, MetadataFilter
from corpusmesh_core.tree_search import node_title
from corpusmesh_retrieve.outcome import PastTurn
from corpusmesh_runtime.places import place_to_wire

_DOCUMENT = re.compile(r"knowledgeBases/([a-z0-9-]{1,63})/documents/([a-z0-9-]{1,63})")
_SNAPSHOT = re.compile(r"knowledgeBases/([a-z0-9-]{1,63})/snapshots/([1-9][0-9]{0,8})")
_MAX_CONDITION_VALUES = 100
_MAX_PAGE_SIZE = 200
_DEFAULT_PAGE_SIZE = 10
_OPERATORS = {
    pb.MetadataCondition.OPERATOR_UNSPECIFIED: FilterOperator.EQUALS,
    pb.MetadataCondition.OPERATOR_EQUAL: FilterOperator.EQUALS,
    pb.MetadataCondition.OPERATOR_NOT_EQUAL: FilterOperator.EQUALS,
    pb.MetadataCondition.OPERATOR_LESS: FilterOperator.LESS,
    pb.MetadataCondition.OPERATOR_LESS_OR_EQUAL: FilterOperator.LESS_OR_EQUAL,
    pb.MetadataCondition.OPERATOR_GREATER: FilterOperator.GREATER,
    pb.MetadataCondition.OPERATOR_GREATER_OR_EQUAL: FilterOperator.GREATER_OR_EQUAL,
}


def page_size_of(page_size: int) -> int:
    """Read a page size.

    Args:
        page_size: The request's.

    Returns:
        10 for 0, at most 200.

    Raises:
        InvalidArgumentError: If it is negative.
    """
    if page_size < 0:
        raise InvalidArgumentError("PAGE_SIZE_INVALID", "page_size must not be negative", field="page_size")
    return min(page_size or _DEFAULT_PAGE_SIZE, _MAX_PAGE_SIZE)


def metadata_of(plan: pb.RetrievalPlan, *, knowledge_base_ids: Sequence[str]) -> MetadataFilter:
    """Read the conditions on documents of a plan.

    Args:
        plan: Wire plan.
        knowledge_base_ids: What the request searches; empty where the router picks, and documents cannot be named.

    Returns:
        The filter.

    Raises:
        InvalidArgumentError: If a value is unknown or out of range; the field is named.
    """
    check_range("plan.metadata_conditions", len(plan.metadata_conditions), 0, MAX_METADATA_CONDITIONS)
    check_range("plan.documents", len(plan.documents), 0, MAX_DOCUMENTS)
    documents = tuple(_document_id(name, knowledge_base_ids) for name in plan.documents) or None
    return MetadataFilter(
        conditions=tuple(_condition_of(condition) for condition in plan.metadata_conditions), document_ids=documents
    )


def history_of(turns: Sequence[pb.Turn]) -> tuple[PastTurn, ...]:
    """Read the turns before a question.

    Args:
        turns: Wire turns, oldest first.

    Returns:
        Those that say something.

    Raises:
        InvalidArgumentError: If there are too many, or one is too long.
    """
    if len(turns) > MAX_TURNS or any(len(turn.text) > MAX_TURN_CHARACTERS for turn in turns):
        raise InvalidArgumentError(
            "HISTORY_INVALID",
            f"history takes at most {MAX_TURNS} turns of {MAX_TURN_CHARACTERS:,} characters",
            field="history",
        )
    return tuple(PastTurn(turn.speaker == pb.Turn.SPEAKER_USER, turn.text) for turn in turns if turn.text.strip())


def condition_to_wire(condition: FilterCondition) -> pb.MetadataCondition:
    """Write a condition.

    Args:
        condition: One of those that the contract knows.

    Returns:
        The condition.
    """
    operator = next(
        wire
        for wire, known in _OPERATORS.items()
        if wire
        and known is condition.operator
        and (wire == pb.MetadataCondition.OPERATOR_NOT_EQUAL) == condition.negated
    )
    # A day is written without its time: as a text it compares with stored moments as the moment itself does.
    moments = tuple(moment.isoformat().removesuffix("T00:00:00+00:00") for moment in condition.moments)
    values = condition.texts or moments or tuple(f"{number:.15g}" for number in condition.numbers)
    return pb.MetadataCondition(key=condition.key, operator=operator, values=values)


def snapshots_of(names: Sequence[str], knowledge_base_ids: Sequence[str]) -> dict[str, int]:
    """Read the snapshots that a request is pinned to.

    Args:
        names: `knowledgeBases/*/snapshots/*`.
        knowledge_base_ids: What the request searches.

    Returns:
        Snapshot by knowledge base.

    Raises:
        InvalidArgumentError: If a name has another shape or belongs to a knowledge base that is not searched.
    """
    snapshots: dict[str, int] = {}
    for name in names:
        match = _SNAPSHOT.fullmatch(name)
        if match is None or match.group(1) not in knowledge_base_ids:
            raise InvalidArgumentError(
                "SNAPSHOT_INVALID",
                "as_of_snapshots takes knowledgeBases/<id>/snapshots/<number> of knowledge bases that are searched",
                field="as_of_snapshots",
            )
        snapshots[match.group(1)] = int(match.group(2))
    return snapshots


def hit_to_wire(ranked: RankedCandidate, leaves: Sequence[Record] = ()) -> pb.SearchHit:
    """Write a hit.

    Args:
        ranked: The candidate with its scores.
        leaves: For a node of a tree: chunks that it stands for.

    Returns:
        The hit with its place.
    """
    record = ranked.candidate.record
    document = document_of(record)
    return pb.SearchHit(
        record_id=record.record_id,
        kind=record.kind.value,
        document=document,
        title=node_title(record, [leaf.title for leaf in leaves]),
        place=place_to_wire(record, document),
        text=record.text,
        # The place of a summary of several documents among its layer would tell how many hidden ones stand before it.
        position=record.position if document else 0,
        token_count=record.token_count,
        scores=scores_to_wire(ranked.explanation),
        picture=_picture_name(record, document),
        merged_record_ids=ranked.merged_record_ids,
        via_record_ids=ranked.via_record_ids,
        url=record.attributes.get("url", ""),
        layer=record.layer,
        leaves=[leaf_to_wire(leaf) for leaf in leaves],
    )


def leaf_to_wire(record: Record) -> pb.HitLeaf:
    """Write a chunk that a node stands for.

    Args:
        record: The chunk.

    Returns:
        It with its place.
    """
    document = document_of(record)
    return pb.HitLeaf(
        record_id=record.record_id, document=document, title=record.title, place=place_to_wire(record, document)
    )


def document_of(record: Record) -> str:
    """Name the document of a record.

    Args:
        record: The record.

    Returns:
        Its resource name; "" for a record of a build.
    """
    return f"knowledgeBases/{record.knowledge_base_id}/documents/{record.document_id}" if record.document_id else ""


def scores_to_wire(explanation: ScoreExplanation) -> pb.Scores:
    """Write scores.

    Args:
        explanation: What the ranking knows.

    Returns:
        The scores.
    """
    return pb.Scores(
        similarity=_finite(explanation.similarity),
        term_similarity=_finite(explanation.lexical.similarity),
        vector_similarity=_finite(explanation.vector.raw or 0.0),
        lexical_score=_finite(explanation.lexical.raw or 0.0),
        lexical_rank=explanation.lexical.rank,
        vector_rank=explanation.vector.rank,
        page_similarity=explanation.page_similarity,
        rerank_similarity=explanation.rerank_similarity,
    )


def _picture_name(record: Record, document: str) -> str:
    picture = record.attributes.get("picture", "")
    return f"{document}/versions/{record.version}/pictures/{picture}" if picture and document else ""


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _document_id(name: str, knowledge_base_ids: Sequence[str]) -> str:
    match = _DOCUMENT.fullmatch(name)
    if match is None or match.group(1) not in knowledge_base_ids:
        raise InvalidArgumentError(
            "PLAN_INVALID",
            "documents takes knowledgeBases/<id>/documents/<id> of knowledge bases that are searched",
            field="plan.documents",
        )
    return match.group(2)


def _condition_of(condition: pb.MetadataCondition) -> FilterCondition:
    values = tuple(condition.values)
    if not condition.key or not 1 <= len(values) <= _MAX_CONDITION_VALUES or condition.operator not in _OPERATORS:
        raise InvalidArgumentError(
            "PLAN_INVALID",
            f"a metadata condition takes a key, an operator and 1 to {_MAX_CONDITION_VALUES} values",
            field="plan.metadata_conditions",
        )
    operator = _OPERATORS[condition.operator]
    numbers = tuple(number for number in map(_number_of, values) if number is not None)
    # Order is that of numbers where all values are numbers, else that of texts.
    ordered_as_numbers = operator is not FilterOperator.EQUALS and len(numbers) == len(values)
    return FilterCondition(
        key=condition.key,
        operator=operator,
        texts=() if ordered_as_numbers else values,
        numbers=numbers if ordered_as_numbers else (),
        negated=condition.operator == pb.MetadataCondition.OPERATOR_NOT_EQUAL,
    )


def _number_of(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
