"""A language model that does not answer is left alone for a while, by all that one process makes with it.

Without it, a thousand documents of one run would each find out by themselves that the service is away, and each wait
for their allowed errors to end.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from corpusmesh_runtime.logging import get_logger

LOST_IN_A_ROW: Final = 5
"""Calls that must be lost with no answer in between, over all sessions: more than one of them allows by default, so
that one whose calls are too long for the service does not decide for all others alone."""
_log = get_logger(__name__)


@dataclass(slots=True)
class Attempt:
    """A call that may be made.

    Attributes:
        is_answered: Whether the service said something, good or bad; None where that cannot be told.
    """

    is_answered: bool | None = None


class ModelRest:
    """Remembers whether the service answers."""

    def __init__(self, rest_seconds: float, clock: Callable[[], float]) -> None:
        """Create it.

        Args:
            rest_seconds: How long the service is left alone before one call tries it again; 0 for never.
            clock: Seconds that only grow.
        """
        self._rest_seconds = rest_seconds
        self._clock = clock
        self._lost_count = 0
        self._rests_until = 0.0
        self._is_tried = False

    @contextlib.contextmanager
    def attempt(self) -> Iterator[Attempt | None]:
        """Ask whether a call may be made, and tell by the attempt how it ended.

        Yields:
            The attempt; None where the service is left alone.
        """
        rests = self._lost_count >= LOST_IN_A_ROW and self._rest_seconds > 0
        if rests and (self._is_tried or self._clock() < self._rests_until):
            yield None
            return
        # One call alone finds out whether the service is back.
        self._is_tried = rests
        made = Attempt()
        try:
            yield made
        finally:
            if rests:
                self._is_tried = False
            self._heard(made.is_answered)

    def _heard(self, is_answered: bool | None) -> None:
        if is_answered is None:
            return
        if is_answered:
            self._lost_count = 0
            return
        self._lost_count = min(self._lost_count + 1, LOST_IN_A_ROW)
        if self._lost_count == LOST_IN_A_ROW and self._rest_seconds > 0:
            self._rests_until = self._clock() + self._rest_seconds
            _log.warning("language model does not answer; it is left alone", seconds=self._rest_seconds)
