"""Words of a space that words of a question may have been meant for: where no record holds a word of the question.

The index looks them up among its own terms at one edit from the word, and only for words that it does not have. They
come from the whole space, hidden records included, so they are searched for and never shown: a record is found by one
only if it can be seen and holds it.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from corpusmesh_adapters.opensearch.transport import Transport, check_response
from corpusmesh_core.errors import DeadlineExceededError, OverloadedError, UnavailableError
from corpusmesh_core.text import Alternative, QueryTerms

SPELLING_WEIGHT = 0.7
_LOG = structlog.get_logger("corpusmesh.opensearch")
_MAX_AGE_SECONDS = 60.0
_MAX_WORD_COUNT = 50_000
_MAX_WORDS = 16
_LEAST_LENGTH = 5
"""A shorter stem has too many neighbours: BAIS is neither bias nor basis."""
_FIELD = "content_fine"
_NAME = "spelling"


class SpellingCache:
    """Near words by space, bounded in number and age."""

    def __init__(self, transport: Transport, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Start empty.

        Args:
            transport: The way to the cluster.
            clock: Seconds, monotonic.
        """
        self._transport = transport
        self._clock = clock
        # (alias, word) → (near words, when read); oldest first.
        self._known: OrderedDict[tuple[str, str], tuple[tuple[str, ...], float]] = OrderedDict()

    def known(self, alias: str, terms: QueryTerms) -> tuple[Alternative, ...]:
        """Tell what is remembered of the words of a question.

        Args:
            alias: Alias of the space.
            terms: Terms of the question.

        Returns:
            Near words, nearest first.
        """
        return tuple(
            Alternative((word,), (near,), SPELLING_WEIGHT, is_secret=True)
            for word in _words_of(terms)
            for near in self._known.get((alias, word), ((), 0.0))[0]
        )

    async def read(self, alias: str, questions: Sequence[QueryTerms], *, timeout_seconds: float) -> None:
        """Look up words that are not remembered.

        Args:
            alias: Alias of the space.
            questions: Terms of questions.
            timeout_seconds: Deadline; where the index does not tell now, words stay as they are.
        """
        expired = self._clock() - _MAX_AGE_SECONDS
        words = dict.fromkeys(word for terms in questions for word in _words_of(terms))
        missing = [word for word in words if self._known.get((alias, word), ((), -1e18))[1] < expired]
        if not missing:
            return
        try:
            response = await self._transport.request(
                "POST",
                f"/{alias}/_search",
                body={"size": 0, "track_total_hits": False, "suggest": _suggestions(missing[:_MAX_WORDS])},
                timeout_seconds=timeout_seconds,
                is_repeatable=True,
            )
            check_response(response)
        except (UnavailableError, OverloadedError, DeadlineExceededError) as error:
            _LOG.warning("near words not available", reason=error.reason)
            return
        now = self._clock()
        for entry in response["suggest"][_NAME]:
            self._known[(alias, entry["text"])] = (_near(entry), now)
            self._known.move_to_end((alias, entry["text"]))
        while len(self._known) > _MAX_WORD_COUNT:
            self._known.popitem(last=False)


def _suggestions(words: Sequence[str]) -> dict[str, Any]:
    return {
        _NAME: {
            "text": " ".join(words),
            "term": {
                "field": _FIELD,
                # Only words that the index does not hold, so that a common word costs one look-up.
                "suggest_mode": "missing",
                "max_edits": 1,
                # A first letter is seldom wrong, and without it the look-up reads all terms.
                "prefix_length": 1,
                "min_word_length": _LEAST_LENGTH,
                "size": 3,
            },
        }
    }


def _near(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(option["text"] for option in entry["options"] if option["text"].isalpha())


def _words_of(terms: QueryTerms) -> list[str]:
    """Give the words that may be misspelt; a pair of ideographs has no letters to mistake."""
    return [term for term in terms.fine if len(term) >= _LEAST_LENGTH and term.isalpha() and ord(max(term)) < 0x0E00]
