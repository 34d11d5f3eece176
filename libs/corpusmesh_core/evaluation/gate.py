"""The gate of a publish: what must be measured before documents become visible."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from corpusmesh_core.errors import InvalidArgumentError

PUBLISH_GATE: Final = "publish_gate"
"""Section of a knowledge base's configuration."""
PUBLISH_GATE_FAILED: Final = "PUBLISH_GATE_FAILED"
_ROUNDING: Final = 1e-9


class GateMeasure(StrEnum):
    """What a gate looks at."""

    RECALL_AT_5 = "recall_at_5"
    NDCG_AT_10 = "ndcg_at_10"
    MRR = "mrr"


@dataclass(frozen=True, slots=True)
class PublishGate:
    """What must be measured.

    Attributes:
        golden_set_id: Golden set that is asked.
        measure: What is measured.
        minimum: Least value, 0 to 1; None for any.
        max_drop: Most that it may fall below today's, 0 to 1; None for any.
    """

    golden_set_id: str
    measure: GateMeasure = GateMeasure.RECALL_AT_5
    minimum: float | None = None
    max_drop: float | None = None

    def __post_init__(self) -> None:
        """Refuse a gate that could never close, or never open.

        Raises:
            InvalidArgumentError: PUBLISH_GATE_INVALID with the field.
        """
        if not self.golden_set_id:
            raise _invalid("golden_set", "must name a golden set of the knowledge base")
        for name, value in (("minimum", self.minimum), ("max_drop", self.max_drop)):
            if value is not None and not 0.0 <= value <= 1.0:
                raise _invalid(name, "must be within 0..1")
        if self.minimum is None and self.max_drop is None:
            raise _invalid("minimum", "or max_drop must be given")

    @classmethod
    def of(cls, config: Mapping[str, object]) -> "PublishGate | None":
        """Read the gate of a knowledge base.

        Args:
            config: Its configuration.

        Returns:
            The gate; None where it has none.

        Raises:
            InvalidArgumentError: PUBLISH_GATE_INVALID with the field if it is none.
        """
        section = config.get(PUBLISH_GATE)
        if not isinstance(section, Mapping) or not section:
            return None
        try:
            return cls(
                golden_set_id=str(section.get("golden_set", "")),
                measure=GateMeasure(section.get("measure", GateMeasure.RECALL_AT_5)),
                minimum=_number(section.get("minimum")),
                max_drop=_number(section.get("max_drop")),
            )
        except (TypeError, ValueError) as error:
            raise _invalid("measure", f"must be one of {', '.join(GateMeasure)}, bounds must be numbers") from error


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """Whether documents may become visible.

    Attributes:
        passes: Whether they may.
        message: Why not, with the numbers; "" where they may.
    """

    passes: bool
    message: str = ""


def judge_gate(
    gate: PublishGate, candidate: float | None, in_common: tuple[float, float] | None, *, question_count: int = 0
) -> GateVerdict:
    """Decide whether what was measured is good enough.

    Args:
        gate: What must be measured.
        candidate: Value of what would be published; None where no question can be asked of it.
        in_common: Values of what would be published and of what is published now, on the questions that both can be
            asked; None where there is none.
        question_count: Questions that `candidate` was measured on, for the message.

    Returns:
        The verdict.
    """
    if gate.minimum is not None and candidate is not None and candidate < gate.minimum - _ROUNDING:
        return GateVerdict(
            False,
            f"{gate.measure} of the golden set {gate.golden_set_id} would be {candidate:.4f} on {question_count}"
            f" questions, less than {gate.minimum:.4f}",
        )
    if gate.max_drop is not None and in_common is not None:
        after, before = in_common
        if before - after > gate.max_drop + _ROUNDING:
            return GateVerdict(
                False,
                f"{gate.measure} of the golden set {gate.golden_set_id} would fall from {before:.4f} to {after:.4f},"
                f" more than {gate.max_drop:.4f}",
            )
    return GateVerdict(True)


def _number(value: object) -> float | None:
    return None if value is None else float(str(value))


def _invalid(name: str, text: str) -> InvalidArgumentError:
    return InvalidArgumentError("PUBLISH_GATE_INVALID", f"{name} {text}", field=name, setting=name)
