"""Other words for a question that found too little, by rule."""

from collections.abc import Collection

from corpusmesh_core.text import QueryTerms, Script, analyze, is_stop_word, script_of

_MIN_WORDS = 2


def rewrite_by_rule(
    question: str, terms: QueryTerms, covered: Collection[str], *, count: int, known: Collection[str] = ()
) -> tuple[str, ...]:
    """Make other queries of a question.

    Three ways, in this order: what the best hits lack (its words alone, so that they are not outweighed by what was
    found already), the question with its synonyms in place, and its telling words alone.

    Args:
        question: The stand-alone question.
        terms: Its terms with the tenant's synonyms.
        covered: Fine terms that the best hits hold.
        count: Most queries.
        known: Texts that were searched already.

    Returns:
        Queries that differ from all that was searched; possibly none.
    """
    words = [word for word in dict.fromkeys(analyze(question).coarse) if not is_stop_word(word)]
    joint = "" if script_of(words) is Script.UNSPACED else " "
    lacking = [word for word in words if not set(analyze(word).fine) & set(covered)]
    queries: list[str] = []
    if lacking and len(lacking) < len(words):
        queries.append(joint.join(lacking))
    for alternative in terms.alternatives:
        if alternative.is_secret:
            # Queries are shown to the caller; as terms these words are searched for already.
            continue
        others = [word for word in words if not set(analyze(word).fine) & set(alternative.replaced)]
        queries.append(" ".join([*others, *alternative.phrase]))
    if len(words) >= _MIN_WORDS:
        queries.append(joint.join(words))
    searched = {_folded(text) for text in (question, *known)}
    fresh: dict[str, str] = {}
    for query in queries:
        folded = _folded(query)
        if folded and folded not in searched:
            fresh.setdefault(folded, query)
    return tuple(fresh.values())[:count]


def _folded(text: str) -> str:
    return " ".join(text.lower().split()).strip(" ?!.？！。")
