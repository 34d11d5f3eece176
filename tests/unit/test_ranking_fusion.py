import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ranking import fuse_min_max, fuse_ranks, fuse_weighted, fuse_z_scores, page_of


def test_fuse_weighted_is_the_formula_of_the_seed() -> None:
    fused = fuse_weighted(
        np.array([0.8, 0.2]), np.array([0.5, 0.9]), vector_weight=0.3, rank_features=np.array([0.0, 0.1])
    )
    assert fused.tolist() == pytest.approx([0.7 * 0.8 + 0.3 * 0.5, 0.7 * 0.2 + 0.3 * 0.9 + 0.1])


@pytest.mark.parametrize("weight", [-0.1, 1.1, math.nan])
def test_fuse_weighted_refuses_a_weight_outside_its_range(weight: float) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        fuse_weighted(np.zeros(1), np.zeros(1), vector_weight=weight)
    assert caught.value.field == "vector_weight"


def test_fuse_ranks_adds_reciprocal_ranks_and_ignores_zero() -> None:
    fused = fuse_ranks([np.array([1, 2, 0], dtype=np.int32), np.array([0, 1, 0], dtype=np.int32)])
    assert fused.tolist() == pytest.approx([1 / 61, 1 / 62 + 1 / 61, 0.0])


def test_fuse_ranks_weighs_legs() -> None:
    fused = fuse_ranks([np.array([1], dtype=np.int32), np.array([1], dtype=np.int32)], weights=[0.0, 2.0])
    assert fused.tolist() == pytest.approx([2 / 61])


def test_fuse_ranks_refuses_runs_of_different_length() -> None:
    with pytest.raises(InvalidArgumentError):
        fuse_ranks([np.zeros(1, dtype=np.int32), np.zeros(2, dtype=np.int32)])
    with pytest.raises(InvalidArgumentError):
        fuse_ranks([np.zeros(1, dtype=np.int32)], damping=0)


@pytest.mark.parametrize("fuse", [fuse_min_max, fuse_z_scores])
def test_a_leg_that_cannot_tell_candidates_apart_adds_nothing(fuse: object) -> None:
    assert callable(fuse)
    fused = fuse((np.array([3.0, 3.0]), np.array([1.0, 2.0])), (0.5, 0.5))
    assert fused[1] > fused[0]
    assert np.isfinite(fused).all()
    assert fuse((np.array([7.0]), np.array([1.0])), (0.5, 0.5)).tolist() == [0.0]


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20), st.floats(0.01, 100), st.floats(-100, 100))
def test_min_max_does_not_depend_on_the_unit_of_a_score(values: list[float], factor: float, shift: float) -> None:
    scores = np.array(values)
    if scores.max() - scores.min() < 1e-3:
        return
    one = fuse_min_max((scores,), (1.0,))
    assert np.allclose(one, fuse_min_max((scores * factor + shift,), (1.0,)), atol=1e-5)
    assert one.min() == 0.0
    assert one.max() == 1.0


@given(st.integers(0, 50), st.integers(1, 7))
def test_pages_laid_end_to_end_are_the_order(count: int, page_size: int) -> None:
    items = list(range(count))
    seen: list[int] = []
    offset: int | None = 0
    while offset is not None:
        page = page_of(items, offset=offset, page_size=page_size)
        assert page.total_count == count
        seen.extend(page.items)
        offset = page.next_offset
    assert seen == items


def test_page_beyond_the_end_is_empty() -> None:
    page = page_of([1, 2], offset=9, page_size=5)
    assert (page.items, page.next_offset) == ((), None)
    with pytest.raises(InvalidArgumentError):
        page_of([1], offset=-1, page_size=1)
    with pytest.raises(InvalidArgumentError):
        page_of([1], offset=0, page_size=0)
