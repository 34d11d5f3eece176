"""Makes candidates of records that were read by their ids, so that they are scored like those that a leg returned."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.ports.index import Candidate
from corpusmesh_core.records import Record
from corpusmesh_core.text import analyze, script_of


def candidate_of(record: Record, *, query_vector: NDArray[np.float32] | None) -> Candidate:
    """Make the candidate of a record.

    Args:
        record: The record, with its vector where it has one.
        query_vector: Shape (dimension,), unit norm, of the record's space; None without a vector leg.

    Returns:
        The candidate, the record without its vector: terms as the index makes them, the exact cosine, and a full-text
        score of 0, since only the index knows BM25.
    """
    headings = [heading for heading in record.heading_path if heading != record.title]
    body = analyze(record.text).fine
    fine = analyze("\n".join([record.title, *headings])).fine + analyze(record.context).fine + body
    cosine = None
    if query_vector is not None and record.vector is not None:
        cosine = float(np.dot(record.vector, query_vector))
    return Candidate(
        record=replace(record, vector=None),
        content_terms=" ".join(fine),
        keyword_terms=" ".join(analyze("\n".join(record.keywords)).fine),
        question_terms=" ".join(analyze("\n".join(record.questions)).fine),
        script=script_of(body or fine).value,
        lexical_score=0.0,
        cosine=cosine,
    )
