"""Rank features: what speaks for a record whatever it says, added to its similarity with the question.

Seeds `002_f3c6776130bf4d1f.txt` (step Q6: tag features and page rank) and `004_22c0ac09336e6b5a.txt` (tag library:
twenty chunks on phones among two thousand on their accessories, a province's rules among those of its towns).
"""

import math
from collections.abc import Mapping
from typing import Final

MAX_PAGE_RANK: Final = 100
"""Highest page rank of a knowledge base; 0 is the lowest and the default."""


def tag_overlap(asked: Mapping[str, float], held: Mapping[str, float]) -> float:
    """Measure how well the tags of a record fit those of the question.

    Args:
        asked: Tags of the question with their weights, 0 to 1.
        held: Tags of the record with their weights, above 0.

    Returns:
        0 to 1: the cosine between the two, times the heaviest tag of the question, so that a question that resembles
        no example by much lifts nothing by much.
    """
    shared = sum(weight * held[tag] for tag, weight in asked.items() if tag in held)
    if shared <= 0.0:
        return 0.0
    norm = math.hypot(*asked.values()) * math.hypot(*held.values())
    return min(1.0, shared / norm) * min(1.0, max(asked.values()))


def page_rank_share(page_rank: float) -> float:
    """Scale a page rank.

    Args:
        page_rank: 0 to MAX_PAGE_RANK; values outside count as the nearest within.

    Returns:
        0 to 1.
    """
    return min(max(page_rank, 0.0), float(MAX_PAGE_RANK)) / MAX_PAGE_RANK
