"""Follow-up questions of a search that begins with reports and goes on to what they name (DRIFT).

References:
    Whiting et al.: Introducing DRIFT Search, Microsoft Research, 2024.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.graph_search.levels import Found
from corpusmesh_core.graph_search.merging import in_turn
from corpusmesh_core.graph_search.reading import other_end, strongest_relations
from corpusmesh_core.graphs.view import UNKNOWN, GraphView
from corpusmesh_core.text import normalize

ROUNDS: Final = 2
MAX_ASKED: Final = 15
"""Follow-up questions of one round."""
_LOOKED_AT: Final = 200
"""Relations of one entity that are looked at, the strongest."""
_MAX_CHARACTERS: Final = 300
_MAX_ANSWER_CHARACTERS: Final = 1_200
_MAX_LISTED: Final = 60
_NAMES: Final = ("follow_ups", "follow_up_queries", "questions")


@dataclass(frozen=True, slots=True)
class Primer:
    """What a search begins with.

    Attributes:
        answer: A first answer; "" without one.
        questions: Follow-up questions.
    """

    answer: str = ""
    questions: tuple[str, ...] = ()


def primer_reader(asked: Collection[str], most: int) -> Callable[[object], Primer | None]:
    """Make the reader of `{"answer": text, "follow_ups": [text]}`, tolerant of form.

    Args:
        asked: Questions that were asked already.
        most: Most follow-up questions.

    Returns:
        A reader: answer and new questions; None for what holds neither a list of questions nor an answer, or a list of
        which nothing is a question.
    """

    def read(answer: object) -> Primer | None:
        if not isinstance(answer, Mapping):
            return None
        text = answer.get("answer")
        first = " ".join(text.split())[:_MAX_ANSWER_CHARACTERS] if isinstance(text, str) else ""
        listed = next((answer[name] for name in _NAMES if isinstance(answer.get(name), list)), None)
        if listed is None:
            return Primer(first) if first else None
        questions = new_questions([item for item in listed[:_MAX_LISTED] if isinstance(item, str)], asked, most)
        return None if listed and not questions and not first else Primer(first, questions)

    return read


def new_questions(questions: Sequence[str], asked: Collection[str], most: int) -> tuple[str, ...]:
    """Take the questions that were not asked yet.

    Args:
        questions: Questions, best first.
        asked: Questions that were.
        most: Most of them.

    Returns:
        Those of sensible length, white space folded, each once.
    """
    known = {_folded(question) for question in asked}
    found: dict[str, str] = {}
    for question in questions:
        text = " ".join(question.split())
        folded = _folded(text)
        if folded and len(text) <= _MAX_CHARACTERS and text.isprintable() and folded not in known:
            found.setdefault(folded, text)
    return tuple(found.values())[:most]


def questions_by_rule(names: Sequence[str], words: Sequence[str], asked: Collection[str], most: int) -> tuple[str, ...]:
    """Make follow-up questions without a model: what is asked, of each name that was led to.

    Args:
        names: Names, best first.
        words: Telling words of the question without what it names; what it names where there are none.
        asked: Questions that were asked already.
        most: Most follow-up questions.

    Returns:
        A name with those words for each.
    """
    told = " ".join(words)
    return new_questions([f"{name} {told}".strip()[:_MAX_CHARACTERS] for name in names], asked, most)


def key_entities(
    view: GraphView, groups: Sequence[Sequence[str]], known: Collection[int], *, of_one: int
) -> tuple[int, ...]:
    """Choose the entities of communities that a question leads on to.

    Args:
        view: The graph.
        groups: Keys as text of the members of each community, best community first.
        known: Places of entities that need no search, since the question names them.
        of_one: Entities of one community.

    Returns:
        Places, in turn of the communities, of each those first that are related to what is known, then those with the
        strongest relations; one that many documents name counts less. What cannot be seen is left out.
    """
    taken = set(known)
    beside = _beside(view, taken)
    chosen: list[list[int]] = []
    for group in groups:
        places = view.find(np.array([int(key, 16) for key in group], np.uint64))
        own = [int(place) for place in np.unique(places[places != UNKNOWN]) if int(place) not in taken]
        telling = dict(zip(own, _rarity(view, own).tolist(), strict=True))
        own.sort(
            key=lambda place: (
                -beside.get(place, 0.0) * telling[place],
                -float(view.adjacency_sums[place]) * telling[place],
                place,
            )
        )
        chosen.append(own[:of_one])
    return in_turn(chosen, lambda place: place)


def ends_beyond(
    views: Sequence[GraphView], relations: Sequence[Found], known: Collection[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """Name the entities that relations lead to and that were not looked at.

    Args:
        views: The graphs.
        relations: Relations, best first.
        known: Identities of entities that were.

    Returns:
        Identities of the others, each once: those that the strongest relations lead to first; one that many documents
        name counts less.
    """
    strengths: dict[tuple[int, int], float] = {}
    for item in relations:
        view = views[item.graph]
        for end in view.relation_ends[item.place].tolist():
            identity = (item.graph, int(end))
            if identity not in known:
                strength = float(view.relation_weights[item.place] * _rarity(view, [int(end)])[0])
                strengths[identity] = max(strength, strengths.get(identity, 0.0))
    return tuple(sorted(strengths, key=lambda identity: (-strengths[identity], identity)))


def _beside(view: GraphView, known: Collection[int]) -> dict[int, float]:
    """Sum the strengths of relations to what is known, by the other end."""
    sums: dict[int, float] = {}
    for entity in known:
        for relation in strongest_relations(view, entity, _LOOKED_AT):
            end = other_end(view, relation, entity)
            sums[end] = sums.get(end, 0.0) + float(view.relation_weights[relation])
    return sums


def _rarity(view: GraphView, places: Sequence[int]) -> NDArray[np.float64]:
    documents = max(1, len(view.graph.document_version))
    return np.asarray(np.log1p(documents / np.maximum(1, view.document_frequency[list(places)])), np.float64)


def _folded(text: str) -> str:
    return normalize(text).strip().rstrip("?？.。! ")
