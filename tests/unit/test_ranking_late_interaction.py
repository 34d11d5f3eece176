import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ranking.late_interaction import PageVectors, max_sim, pack_pages, quantize, unpack_page

matrices = hnp.arrays(
    np.float32, st.tuples(st.integers(1, 12), st.just(8)), elements=st.floats(-1, 1, width=32, allow_subnormal=False)
)


def _unit(rows: list[list[float]]) -> NDArray[np.float32]:
    matrix = np.array(rows, np.float32)
    return np.asarray(matrix / np.linalg.norm(matrix, axis=1, keepdims=True), np.float32)


@given(matrices)
def test_quantize_is_off_by_at_most_half_a_step(vectors: NDArray[np.float32]) -> None:
    page = quantize(vectors)
    back = page.codes * page.scales[:, None]
    assert np.all(np.abs(back - vectors) <= page.scales[:, None] * 0.5001)


@given(matrices, st.lists(matrices, min_size=1, max_size=4))
def test_max_sim_is_the_mean_of_the_greatest_products(
    question: NDArray[np.float32], pages: list[NDArray[np.float32]]
) -> None:
    quantized = [quantize(page) for page in pages]
    expected = [
        np.mean(
            [
                max(float(row @ (code * scale)) for code, scale in zip(q.codes, q.scales, strict=True))
                for row in question
            ]
        )
        for q in quantized
    ]
    assert np.allclose(max_sim(question, quantized), expected, atol=1e-4)


def test_max_sim_prefers_the_page_on_which_every_vector_of_the_question_finds_a_partner() -> None:
    question = _unit([[1, 0, 0], [0, 1, 0]])
    both = quantize(_unit([[1, 0, 0], [0, 1, 0], [0, 0, 1]]))
    one = quantize(_unit([[1, 0, 0], [1, 0, 0.1], [0, 0, 1]]))
    none = PageVectors(np.zeros((0, 3), np.int8), np.zeros(0, np.float32))
    scores = max_sim(question, [none, one, both])
    assert scores.argmax() == 2
    assert scores[0] == 0.0
    assert scores[2] == pytest.approx(1.0, abs=1e-2)


def test_max_sim_of_an_empty_question_is_zero() -> None:
    assert max_sim(np.zeros((0, 3), np.float32), [quantize(_unit([[1, 0, 0]]))]).tolist() == [0.0]


@given(st.lists(matrices, min_size=1, max_size=5))
def test_packed_pages_come_back(pages: list[NDArray[np.float32]]) -> None:
    quantized = [quantize(page) for page in pages]
    packed = pack_pages(quantized)
    for place, page in enumerate(quantized):
        back = unpack_page(packed, place)
        assert np.array_equal(back.codes, page.codes)
        assert np.array_equal(back.scales, page.scales)


def test_a_page_that_is_not_there_and_other_dimensions_are_refused() -> None:
    packed = pack_pages([quantize(_unit([[1, 0, 0]]))])
    with pytest.raises(InvalidArgumentError, match="no page 1"):
        unpack_page(packed, 1)
    with pytest.raises(InvalidArgumentError, match="4 numbers"):
        max_sim(_unit([[1, 0, 0, 0]]), [unpack_page(packed, 0)])
    with pytest.raises(InvalidArgumentError, match="finite"):
        quantize(np.array([[np.nan, 1.0]], np.float32))
