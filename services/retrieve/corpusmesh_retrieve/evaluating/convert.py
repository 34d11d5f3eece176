"""Golden sets, questions and evaluations, and their wire forms."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf import json_format

from corpusmesh.retrieve.v1 import evaluation_service_pb2 as pb
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.evaluation import GoldItem, PairedComparison
from corpusmesh_core.ports.golden_sets import EvaluationRow, GoldenQuestion, GoldenSet
from corpusmesh_retrieve.ledger.convert import timestamp

_ID = r"[a-z0-9-]{1,63}"
_GOLDEN_SET = re.compile(rf"knowledgeBases/({_ID})/goldenSets/({_ID})")
_EVALUATION = re.compile(rf"knowledgeBases/({_ID})/goldenSets/({_ID})/evaluations/({_ID})")
_DOCUMENT = re.compile(rf"knowledgeBases/({_ID})/documents/({_ID})")
_SNAPSHOT = re.compile(rf"knowledgeBases/({_ID})/snapshots/([1-9][0-9]{{0,8}})")
_MAX_QUESTIONS_PER_CALL = 1_000
_MAX_QUESTION_CHARACTERS = 2_000
_MAX_ANSWERS = 16
_MAX_ANSWER_CHARACTERS = 500
_MAX_GOLD = 32
_MAX_QUOTE_CHARACTERS = 1_000
_MAX_PAGE = 1_000_000
_MAX_DISPLAY_NAME_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class SetName:
    """A golden set, or an evaluation of it.

    Attributes:
        knowledge_base_id: Its knowledge base.
        golden_set_id: The set.
        evaluation_id: The evaluation; "" for the set.
    """

    knowledge_base_id: str
    golden_set_id: str
    evaluation_id: str = ""

    @property
    def name(self) -> str:
        """Resource name of the set."""
        return f"knowledgeBases/{self.knowledge_base_id}/goldenSets/{self.golden_set_id}"


def set_name_of(name: str, *, field: str = "name", is_evaluation: bool = False) -> SetName:
    """Parse the name of a golden set or an evaluation.

    Args:
        name: The name.
        field: The request's field, for the message.
        is_evaluation: Whether it names an evaluation.

    Returns:
        The parts.

    Raises:
        InvalidArgumentError: If the name has another shape.
    """
    match = (_EVALUATION if is_evaluation else _GOLDEN_SET).fullmatch(name)
    if match is None:
        shape = "knowledgeBases/<id>/goldenSets/<id>" + ("/evaluations/<id>" if is_evaluation else "")
        raise InvalidArgumentError("RESOURCE_NAME_INVALID", f"{field} must be a name like {shape}", field=field)
    return SetName(*match.groups())


def checked_id(identifier: str) -> str:
    """Check the identifier of a new golden set.

    Args:
        identifier: The identifier.

    Returns:
        The same.

    Raises:
        InvalidArgumentError: If it is none.
    """
    if not re.fullmatch(_ID, identifier):
        raise InvalidArgumentError(
            "GOLDEN_SET_ID_INVALID",
            "an identifier is 1 to 63 of a-z, 0-9 and -; leave it empty to have one made",
            field="golden_set_id",
        )
    return identifier


def checked_display_name(wanted: pb.GoldenSet) -> str:
    """Check the display name of a new golden set.

    Args:
        wanted: The golden set.

    Returns:
        Its display name.

    Raises:
        InvalidArgumentError: If it is too long.
    """
    if len(wanted.display_name) > _MAX_DISPLAY_NAME_CHARACTERS:
        raise InvalidArgumentError(
            "DISPLAY_NAME_TOO_LONG",
            f"a display name takes at most {_MAX_DISPLAY_NAME_CHARACTERS} characters",
            field="golden_set.display_name",
        )
    return wanted.display_name


def snapshot_id_of(name: str, knowledge_base_id: str) -> int | None:
    """Read the snapshot that an evaluation is pinned to.

    Args:
        name: `knowledgeBases/*/snapshots/*`; "" for none.
        knowledge_base_id: The knowledge base.

    Returns:
        The snapshot; None for the current one.

    Raises:
        InvalidArgumentError: If it is no snapshot of the knowledge base.
    """
    if not name:
        return None
    match = _SNAPSHOT.fullmatch(name)
    if match is None or match.group(1) != knowledge_base_id:
        raise InvalidArgumentError(
            "SNAPSHOT_INVALID",
            "as_of_snapshot takes knowledgeBases/<id>/snapshots/<number> of the knowledge base",
            field="as_of_snapshot",
        )
    return int(match.group(2))


def questions_of(knowledge_base_id: str, questions: Sequence[pb.GoldenQuestion]) -> list[GoldenQuestion]:
    """Read questions.

    Args:
        knowledge_base_id: Their knowledge base.
        questions: Wire questions.

    Returns:
        The questions, without sources.

    Raises:
        InvalidArgumentError: If there are too many, or one breaks a bound; the field is named.
    """
    if len(questions) > _MAX_QUESTIONS_PER_CALL:
        raise InvalidArgumentError(
            "GOLDEN_QUESTIONS_INVALID",
            f"a call takes at most {_MAX_QUESTIONS_PER_CALL:,} questions; send the others with the next",
            field="questions",
        )
    return [_question_of(knowledge_base_id, entry, f"questions.{place}") for place, entry in enumerate(questions)]


def _question_of(knowledge_base_id: str, entry: pb.GoldenQuestion, field: str) -> GoldenQuestion:
    if not entry.question.strip() or len(entry.question) > _MAX_QUESTION_CHARACTERS:
        raise _invalid(f"{field}.question", f"takes 1 to {_MAX_QUESTION_CHARACTERS:,} characters")
    if len(entry.answers) > _MAX_ANSWERS or any(
        not answer.strip() or len(answer) > _MAX_ANSWER_CHARACTERS for answer in entry.answers
    ):
        raise _invalid(f"{field}.answers", f"takes at most {_MAX_ANSWERS} texts of 1 to {_MAX_ANSWER_CHARACTERS}")
    if len(entry.gold) > _MAX_GOLD:
        raise _invalid(f"{field}.gold", f"takes at most {_MAX_GOLD} entries")
    return GoldenQuestion(
        question=entry.question,
        answers=tuple(entry.answers),
        gold=tuple(
            dict.fromkeys(
                _gold_of(knowledge_base_id, gold, f"{field}.gold.{place}") for place, gold in enumerate(entry.gold)
            )
        ),
    )


def _gold_of(knowledge_base_id: str, gold: pb.Gold, field: str) -> GoldItem:
    match = _DOCUMENT.fullmatch(gold.document)
    if match is None or match.group(1) != knowledge_base_id:
        raise _invalid(f"{field}.document", "takes knowledgeBases/<id>/documents/<id> of the knowledge base")
    if len(gold.quote) > _MAX_QUOTE_CHARACTERS:
        raise _invalid(f"{field}.quote", f"takes at most {_MAX_QUOTE_CHARACTERS:,} characters")
    if not 0 <= gold.page <= _MAX_PAGE:
        raise _invalid(f"{field}.page", "takes a page from 1")
    return GoldItem(match.group(2), gold.quote.strip(), gold.page)


def question_to_wire(knowledge_base_id: str, question: GoldenQuestion) -> pb.GoldenQuestion:
    """Write a question.

    Args:
        knowledge_base_id: Its knowledge base.
        question: The question.

    Returns:
        The question.
    """
    return pb.GoldenQuestion(
        position=question.position,
        question=question.question,
        answers=question.answers,
        gold=[
            pb.Gold(
                document=f"knowledgeBases/{knowledge_base_id}/documents/{item.document_id}",
                quote=item.quote,
                page=item.page,
            )
            for item in question.gold
        ],
    )


def set_to_wire(row: GoldenSet) -> pb.GoldenSet:
    """Write a golden set.

    Args:
        row: The set.

    Returns:
        The set.
    """
    return pb.GoldenSet(
        name=SetName(row.knowledge_base_id, row.golden_set_id).name,
        display_name=row.display_name,
        question_count=row.question_count,
        creator=f"users/{row.create_user_id}",
        create_time=timestamp(row.create_time),
        update_time=timestamp(row.update_time),
    )


def evaluation_to_wire(row: EvaluationRow) -> pb.Evaluation:
    """Write an evaluation.

    Args:
        row: The evaluation.

    Returns:
        The evaluation.
    """
    # A field that a later release has put there is passed over by an earlier one.
    message = json_format.ParseDict(dict(row.results), pb.Evaluation(), ignore_unknown_fields=True)
    base = SetName(row.knowledge_base_id, row.golden_set_id)
    message.name = f"{base.name}/evaluations/{row.evaluation_id}"
    message.snapshot = f"knowledgeBases/{row.knowledge_base_id}/snapshots/{row.snapshot_id}" if row.snapshot_id else ""
    message.creator = f"users/{row.create_user_id}"
    message.create_time.CopyFrom(timestamp(row.create_time))
    return message


def comparison_to_wire(measure: str, comparison: PairedComparison) -> pb.MeasureComparison:
    """Write a comparison.

    Args:
        measure: Name of the measure.
        comparison: The comparison.

    Returns:
        The comparison.
    """
    return pb.MeasureComparison(
        measure=measure,
        difference=comparison.difference,
        low=comparison.low,
        high=comparison.high,
        p_value=comparison.p_value,
        win_count=comparison.win_count,
        loss_count=comparison.loss_count,
        significant=comparison.is_significant,
    )


def _invalid(field: str, text: str) -> InvalidArgumentError:
    return InvalidArgumentError("GOLDEN_QUESTION_INVALID", f"{field} {text}", field=field)
