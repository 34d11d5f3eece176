import math

import pytest

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.query import RetrievalPlan, SearchMode
from corpusmesh_core.ranking import Fusion, VectorScale
from corpusmesh_core.text import Script


def test_seed_fusion_has_the_defaults_of_the_seed() -> None:
    options = RetrievalPlan(fusion=Fusion.TERM_COVERAGE).ranking_options()
    assert (options.vector_weight_for(Script.SPACED), options.similarity_threshold) == (0.3, 0.2)


def test_adaptive_fusion_trusts_words_more_where_terms_are_character_pairs() -> None:
    options = RetrievalPlan().ranking_options()
    assert options.vector_weight_for(Script.SPACED) == 0.8
    assert options.vector_weight_for(Script.UNSPACED) == 0.5
    assert options.similarity_threshold == 0.0


def test_given_values_win_over_the_defaults_of_the_fusion() -> None:
    plan = RetrievalPlan(fusion=Fusion.TERM_COVERAGE, vector_weight=0.0, similarity_threshold=0.0)
    options = plan.ranking_options(VectorScale(floor=0.1))
    assert (options.vector_weight_for(Script.SPACED), options.similarity_threshold, options.scale.floor) == (
        0.0,
        0.0,
        0.1,
    )


def test_mode_says_which_legs_run() -> None:
    assert (RetrievalPlan().runs_lexical, RetrievalPlan().runs_vector) == (True, True)
    assert not RetrievalPlan(mode=SearchMode.VECTOR).runs_lexical
    assert not RetrievalPlan(mode=SearchMode.LEXICAL).runs_vector


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"vector_weight": 1.5}, "vector_weight"),
        ({"vector_weight": math.nan}, "vector_weight"),
        ({"similarity_threshold": -0.1}, "similarity_threshold"),
        ({"window": 0}, "window"),
        ({"window": 1001}, "window"),
        ({"page_size": 201}, "page_size"),
        ({"kinds": ()}, "kinds"),
    ],
)
def test_invalid_plan_names_the_field(arguments: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        RetrievalPlan(**arguments)  # type: ignore[arg-type]
    assert caught.value.field == field
