"""Late interaction: a page and a question are many vectors each, and every vector of the question looks for its best.

One 8-bit code per number and one scale per vector keep a page of a thousand vectors of 128 numbers at 132 KB instead of
512 KB, so that all pages of a document travel as one object and none of them lies in the index.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import InvalidArgumentError

_CODE_LIMIT = 127


@dataclass(frozen=True, slots=True)
class PageVectors:
    """The vectors of one page.

    Attributes:
        codes: Shape (n, dimension), int8; `codes * scales` are the vectors.
        scales: Shape (n,), float32, positive.
    """

    codes: NDArray[np.int8]
    scales: NDArray[np.float32]

    @property
    def dimension(self) -> int:
        """Numbers per vector."""
        return int(self.codes.shape[1])


def quantize(vectors: NDArray[np.float32]) -> PageVectors:
    """Write vectors with 8 bits a number.

    Args:
        vectors: Shape (n, dimension), finite.

    Returns:
        Codes and scales; a number is off by at most half of its vector's scale, which is its greatest number / 127.

    Raises:
        InvalidArgumentError: PAGE_VECTORS_INVALID if the array has another shape or holds NaN or infinity.
    """
    if vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise InvalidArgumentError(
            "PAGE_VECTORS_INVALID",
            f"vectors of a page are a finite array of shape (n, dimension), not {vectors.shape}",
            field="vectors",
        )
    greatest = np.abs(vectors).max(axis=1, initial=0.0)
    scales = np.where(greatest > 0, greatest / _CODE_LIMIT, 1.0).astype(np.float32)
    codes = np.rint(vectors / scales[:, None]).astype(np.int8)
    return PageVectors(codes, scales)


def max_sim(question: NDArray[np.float32], pages: Sequence[PageVectors]) -> NDArray[np.float32]:
    """Score pages for a question by late interaction.

    Args:
        question: Vectors of the question, shape (q, dimension).
        pages: Vectors of each page; a page without any scores 0.

    Returns:
        Shape (n_pages,): the mean over the question's vectors of the greatest dot product with any vector of the page,
        so that scores of questions of different lengths are on one scale (1.0 for equal vectors of unit norm).

    Raises:
        InvalidArgumentError: PAGE_VECTORS_INVALID if dimensions differ.

    References:
        Khattab, Zaharia: ColBERT, SIGIR 2020 (the operator); Faysse et al.: ColPali, 2024 (pages).
    """
    scores = np.zeros(len(pages), np.float32)
    if not len(question):
        return scores
    for place, page in enumerate(pages):
        if not len(page.scales):
            continue
        if page.dimension != question.shape[1]:
            raise InvalidArgumentError(
                "PAGE_VECTORS_INVALID",
                f"the question has {question.shape[1]} numbers per vector and the page {page.dimension}",
                field="question",
            )
        products = (question @ page.codes.T.astype(np.float32)) * page.scales
        scores[place] = products.max(axis=1).mean()
    return scores


def pack_pages(pages: Sequence[PageVectors]) -> dict[str, NDArray[np.generic]]:
    """Join the vectors of a document's pages to three arrays, so that they are stored as one object.

    Args:
        pages: At least one page, all of one dimension.

    Returns:
        `codes` (n, dimension), `scales` (n,) and `starts` (n_pages + 1,): page i has the rows starts[i]..starts[i + 1].
    """
    starts = np.zeros(len(pages) + 1, np.int64)
    starts[1:] = np.cumsum([len(page.scales) for page in pages])
    return {
        "codes": np.concatenate([page.codes for page in pages]),
        "scales": np.concatenate([page.scales for page in pages]),
        "starts": starts,
    }


def unpack_page(arrays: dict[str, NDArray[np.generic]], place: int) -> PageVectors:
    """Read one page of what `pack_pages` joined.

    Args:
        arrays: The three arrays.
        place: Page from 0.

    Returns:
        Its vectors.

    Raises:
        InvalidArgumentError: PAGE_VECTORS_INVALID if there is no such page.
    """
    starts = arrays["starts"]
    if not 0 <= place < len(starts) - 1:
        raise InvalidArgumentError(
            "PAGE_VECTORS_INVALID", f"there is no page {place} among {len(starts) - 1}", field="place"
        )
    rows = slice(int(starts[place]), int(starts[place + 1]))
    return PageVectors(np.asarray(arrays["codes"][rows], np.int8), np.asarray(arrays["scales"][rows], np.float32))
