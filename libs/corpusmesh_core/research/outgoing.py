"""What of a question may leave the installation: words that the user wrote, and no other.

A sub-question may have been made of what documents say, by a rule or by a language model that a document has talked
into it. Only words of the user's own question go to a search engine, so that no document's text can.
"""

import re

from corpusmesh_core.text import analyze, normalize

_WORD = re.compile(r"[\u3400-\u9fff]+|[^\W\u3400-\u9fff]+(?:[.'\u2019-][^\W\u3400-\u9fff]+)*")
_SPACED = re.compile(r"[^\u3400-\u9fff]+")
_MAX_READ_CHARACTERS = 2_000
MAX_OUTGOING_CHARACTERS = 400


def outgoing_query(question: str, asked: str) -> str:
    """Keep of a question the words that the user wrote.

    Args:
        question: What is to be searched for.
        asked: What the user wrote.

    Returns:
        The words of `question` that occur in `asked`, by their stems, in order; of a run of ideographs the longest
        pieces that occur there as they are. At most 400 characters; "" if nothing is left that says anything.
    """
    known = normalize(asked)
    stems = frozenset(analyze(asked).fine)
    kept: list[str] = []
    for match in _WORD.finditer(question[:_MAX_READ_CHARACTERS]):
        word = match.group()
        if _SPACED.fullmatch(word):
            terms = analyze(word).fine
            if terms and all(term in stems for term in terms):
                kept.append(word)
        else:
            kept.extend(_known_pieces(word, known))
    text = ""
    for word in kept:
        longer = f"{text} {word}" if text else word
        if len(longer) > MAX_OUTGOING_CHARACTERS:
            break
        text = longer
    return text


def _known_pieces(run: str, known: str) -> list[str]:
    """Cut a run of ideographs into the longest pieces of at least two that the user wrote."""
    pieces: list[str] = []
    folded = normalize(run)  # of ideographs alone: as long as it was
    start = 0
    while start < len(run):
        end = start
        while end < len(run) and folded[start : end + 1] in known:
            end += 1
        if end - start >= 2:
            pieces.append(run[start:end])
        start = max(end, start + 1)
    return pieces
