"""Whether what was found is what should have been found: documents, pages and quotes."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.evaluation.measures import QueryOutcome

_SPLIT_QUOTE_CHARACTERS: Final = 60
"""A quote at least as long is found by either half too: the end of a chunk may run through it."""


@dataclass(frozen=True, slots=True)
class GoldItem:
    """Something that should be found.

    Attributes:
        document_id: Its document.
        quote: Text of the place; "" for any place.
        page: Page of the place from 1; 0 for any.
    """

    document_id: str
    quote: str = ""
    page: int = 0

    @property
    def is_whole_document(self) -> bool:
        """Whether any place of the document will do."""
        return not self.quote and not self.page


@dataclass(frozen=True, slots=True)
class FoundText:
    """Something that was found.

    Attributes:
        record_id: Its record.
        document_id: Its document; "" for none.
        text: Its text.
        pages: Pages that it stands on; none where the format has none.
    """

    record_id: str
    document_id: str
    text: str
    pages: frozenset[int] = frozenset()


def plain_text(text: str) -> str:
    """Bring a text into the form in which quotes are compared: compatibility forms folded, no case, no white space.

    Args:
        text: Any text.

    Returns:
        The form.
    """
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())


def holds(found: FoundText, gold: GoldItem) -> bool:
    """Tell whether something that was found is something that should be.

    Args:
        found: What was found.
        gold: What should be.

    Returns:
        True if it is of the document, on the page and holds the quote, as far as these are given; of a long quote one
        half is enough.
    """
    if found.document_id != gold.document_id or (gold.page and gold.page not in found.pages):
        return False
    quote = plain_text(gold.quote)
    if not quote:
        return True
    text = plain_text(found.text)
    if quote in text:
        return True
    middle = len(quote) // 2
    return len(quote) >= _SPLIT_QUOTE_CHARACTERS and (quote[:middle] in text or quote[middle:] in text)


def judge_hits(hits: Sequence[FoundText], gold: Sequence[GoldItem]) -> QueryOutcome:
    """Turn hits into the ranking that the measures are taken over.

    Each item of the gold counts where the first hit that holds it stands; what holds nothing new of the gold after that
    takes no place. A hit that holds two new items takes two places. Where the gold is whole documents, a document
    stands where its best hit stands; other hits take a place each.

    Args:
        hits: Hits, best first.
        gold: What should be found, at least one item.

    Returns:
        Ranked identifiers and the gold's.
    """
    by_document = all(item.is_whole_document for item in gold)
    ranked: dict[str, None] = {}
    for hit in hits:
        held = [_key(place) for place, item in enumerate(gold) if holds(hit, item)]
        if held:
            ranked.update(dict.fromkeys(held))
        else:
            ranked[f"other/{hit.document_id if by_document and hit.document_id else hit.record_id}"] = None
    return QueryOutcome(tuple(ranked), frozenset(_key(place) for place in range(len(gold))))


def _key(place: int) -> str:
    return f"gold/{place}"
