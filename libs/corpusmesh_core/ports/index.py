"""Port of the record index: write, count and remove records, and recall candidates for a question.

One index holds all kinds of records of a tenant in one embedding space. Which space a knowledge base is read from is
told with its snapshot, by the same statement, so that a switch of spaces is one row too and no stage looks it up twice.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.records import Ordinal, Record
from corpusmesh_core.text import Alternative, QueryTerms
from corpusmesh_core.visibility import VisibilityFilter

MAX_WINDOW = 1_000
"""Most candidates that one leg may return."""
MAX_REQUESTS = 32
"""Most requests of one search."""
MAX_TITLES = 128
"""Most titles of one request."""


@dataclass(frozen=True, slots=True)
class IndexSpace:
    """Where vectors can be compared: one model, one dimension, unit norm.

    Attributes:
        space_id: `[a-z0-9-]{1,63}`, unique in the tenant, for instance "e5-small".
        dimension: Numbers per vector, 1 to 16,000.
    """

    space_id: str
    dimension: int


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What a write did; every record is counted once.

    Attributes:
        written_count: Records that are now in the index.
        resent_count: Items that were sent more than once because the index was busy.
        request_count: Bulk requests that were sent.
    """

    written_count: int
    resent_count: int = 0
    request_count: int = 0


@dataclass(frozen=True, slots=True)
class RecordSelection:
    """Which records to count; all given conditions must hold, no condition selects every record.

    Attributes:
        publishers: Only records that one of these ordinals publishes; None for any.
        made_of: Only records that one of these ordinals publishes or is a source of; None for any.
        visibility: Only records that pass this filter; None for all, seen by internal checks alone.
        knowledge_base_ids: Only these knowledge bases; None for any.
        document_ids: Only these documents; None for any.
        kinds: Only these kinds, by value; None for any.
        layers: Only nodes of trees on these layers; None for any record.
    """

    publishers: Collection[Ordinal] | None = None
    made_of: Collection[Ordinal] | None = None
    visibility: VisibilityFilter | None = None
    knowledge_base_ids: tuple[str, ...] | None = None
    document_ids: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    layers: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    """The question that a variant of it is compared with: its scores decide.

    Attributes:
        terms: Its terms; without a term no record has a score by words.
        query_vector: Shape (dimension,), unit norm, float32; None where there is none.
    """

    terms: QueryTerms
    query_vector: NDArray[np.float32] | None


@dataclass(frozen=True, slots=True)
class WordMatching:
    """How the words of a text are matched (the product's seed, steps Q3 and Q4).

    Attributes:
        minimum_match: Share of the terms that a hit of the lexical leg must hold, 0 to 1, and at least one; where
            nothing does, a third of it is enough.
        proximity: Whether neighbouring terms that stand side by side count beside the terms themselves.
        gates_vectors: Whether the vector legs return only what the words let pass.
        corrects_spelling: Whether words that no record holds are also searched as words that are nearly the same.
    """

    minimum_match: float = 0.0
    proximity: bool = False
    gates_vectors: bool = False
    corrects_spelling: bool = False


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """One text that is searched for.

    Attributes:
        terms: Its terms; without a term there is no lexical leg.
        query_vector: Shape (dimension,), unit norm, float32; None for no vector leg.
        visibility: What may be returned, kinds included. It is part of both legs' filters.
        knowledge_base_ids: Knowledge bases to search, at least one.
        document_ids: Only these documents; None for all that are visible.
        window: Candidates per leg, 1 to MAX_WINDOW.
        other_script_window: Candidates of a further vector leg over the records of the script that the text is not
            written in, 0 for none. It costs little where there are none.
        reference: The question that the text stands for, whose scores are told too; None for the question itself.
        matching: How its words are matched.
        record_ids: Score these records, at most MAX_WINDOW of them, instead of recalling any; those that the filters do
            not let pass are left out. None to recall.
        given_count: Most of `record_ids` that come back, those with the highest score by words; None for all.
        linking_to: Score the records that point at one of these (`Record.links`) instead of recalling any, at most
            MAX_WINDOW of them and `window` records. None to recall.
        titles: Recall the records whose title or headings hold one of these, each as its fine terms side by side, at
            most MAX_TITLES of them; the text's terms and vector score them. None to recall by the text.
        layers: Only nodes of trees on these layers; None for any record.
    """

    terms: QueryTerms
    query_vector: NDArray[np.float32] | None
    visibility: VisibilityFilter
    knowledge_base_ids: tuple[str, ...]
    document_ids: tuple[str, ...] | None = None
    window: int = 64
    other_script_window: int = 16
    reference: Reference | None = None
    matching: WordMatching = WordMatching()
    record_ids: tuple[str, ...] | None = None
    given_count: int | None = None
    linking_to: tuple[str, ...] | None = None
    titles: tuple[tuple[str, ...], ...] | None = None
    layers: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One record that a leg returned.

    Attributes:
        record: The record, without its vector.
        content_terms: Fine terms of title, headings and text, in reading order, joined by single spaces.
        keyword_terms: Fine terms of its keywords, joined likewise.
        question_terms: Fine terms of its questions, joined likewise.
        script: How it is written, as `Script`; "" where unknown.
        lexical_score: BM25 of the request's text, also for a record that only a vector leg returned; 0.0 where no term
            matches; None without a lexical leg, and for what only a vector leg of a request with a reference returned.
        lexical_rank: Place in the lexical leg from 1; 0 where that leg did not return it.
        cosine: Cosine with the request's text, -1 to 1, also for a record that only the lexical leg returned; None for
            a record without a vector and without a vector leg.
        vector_rank: Place in the vector leg from 1; 0 where that leg did not return it. A record that only the leg of
            the other script returned has 0 in both.
        reference_lexical_score: BM25 of the request's reference, 0.0 where no term of it matches; None without one.
        reference_cosine: Cosine with the request's reference; None without one, or without vectors.
    """

    record: Record
    content_terms: str
    keyword_terms: str = ""
    question_terms: str = ""
    script: str = ""
    lexical_score: float | None = None
    lexical_rank: int = 0
    cosine: float | None = None
    vector_rank: int = 0
    reference_lexical_score: float | None = None
    reference_cosine: float | None = None


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the index answered.

    Attributes:
        items: The union of all legs, each record once; lexical hits first, each leg in its own order.
        document_count: Records of the space, for the weights of terms; 0 where unknown.
        document_frequencies: Records of the space that hold a fine term, for the terms of all requests of the call and
            of their references.
        incomplete_legs: Legs ("lexical", "vector", "other_script") that reached the time limit and may have missed
            records.
        index_milliseconds: The index's own time by leg.
        round_trip_milliseconds: From sending the request to having the answer.
        has_vector_leg: Whether vectors were compared, though it may be that no candidate has one.
        spellings: What misspelt words of the request were searched as, to be taken into its terms. They may stand in
            hidden records: never show them.
    """

    items: tuple[Candidate, ...]
    document_count: int = 0
    document_frequencies: Mapping[str, int] = field(default_factory=dict)
    incomplete_legs: tuple[str, ...] = ()
    index_milliseconds: Mapping[str, float] = field(default_factory=dict)
    round_trip_milliseconds: float = 0.0
    has_vector_leg: bool = False
    spellings: tuple[Alternative, ...] = ()


class RecordIndex(Protocol):
    """The index of one installation.

    Every method raises `UnavailableError` where the index does not answer, `DeadlineExceededError` where
    `timeout_seconds`, which bounds the whole call, is over, and `OverloadedError` where the index refuses more work.
    """

    async def ensure_space(self, tenant_id: str, space: IndexSpace, *, timeout_seconds: float) -> None:
        """Make the index of a space if it is missing; any number of callers may do so at once.

        Args:
            tenant_id: The tenant.
            space: The space.
            timeout_seconds: Deadline.

        Raises:
            FailedPreconditionError: If the space exists with another dimension; both are in the metadata.
        """
        ...

    async def write(
        self, tenant_id: str, space_id: str, records: Sequence[Record], *, epoch: int, timeout_seconds: float
    ) -> WriteResult:
        """Write records; a record with an id that exists replaces the old one, unless a later attempt wrote that.

        Args:
            tenant_id: The tenant.
            space_id: The space, which must exist.
            records: Records; those with a vector must have the dimension of the space.
            epoch: Fencing token of the claim, at least 1: what was written under a higher one stays.
            timeout_seconds: Deadline.

        Returns:
            What was written: always all of them.

        Raises:
            InvalidArgumentError: If a record cannot be indexed (no source, NaN or zero vector, wrong dimension, …);
                nothing of the call was written if the fault could be seen before. `record_ids` is in the metadata.
            OverloadedError: If records stayed refused after all attempts; ids and reasons are in the metadata, and
                the others are written.
            ConflictError: RECORDS_FENCED if a later attempt has written one of them; the caller's claim is over.
            NotFoundError: If the space does not exist.
        """
        ...

    async def refresh(self, tenant_id: str, space_id: str, *, timeout_seconds: float) -> None:
        """Make everything written before searchable.

        Args:
            tenant_id: The tenant.
            space_id: The space.
            timeout_seconds: Deadline.
        """
        ...

    async def count(
        self, tenant_id: str, space_id: str | None, selection: RecordSelection, *, timeout_seconds: float
    ) -> int:
        """Count records.

        Args:
            tenant_id: The tenant.
            space_id: The space; None for all spaces of the tenant.
            selection: Which records.
            timeout_seconds: Deadline.

        Returns:
            How many records match, exactly, as of the last refresh; 0 where the tenant has no space.
        """
        ...

    async def search(
        self, tenant_id: str, space_id: str, requests: Sequence[RecallRequest], *, timeout_seconds: float
    ) -> list[Candidates]:
        """Recall candidates by words and by vector, for all requests in one round trip.

        Args:
            tenant_id: The tenant.
            space_id: The space that the snapshot names.
            requests: The question and its variants, or variants alone; at most MAX_REQUESTS.
            timeout_seconds: Deadline; the index stops a leg a little earlier and says so.

        Returns:
            Candidates of each request, in their order, all of which the request's visibility allows.

        Raises:
            InvalidArgumentError: If a vector has another dimension than the space, a window is not within
                1..MAX_WINDOW, or there are too many requests.
            NotFoundError: If the space does not exist.
        """
        ...

    async def fetch(
        self,
        tenant_id: str,
        space_id: str,
        record_ids: Sequence[str],
        visibility: VisibilityFilter,
        *,
        with_vectors: bool = False,
        timeout_seconds: float,
    ) -> list[Record]:
        """Read records by id.

        Args:
            tenant_id: The tenant.
            space_id: The space.
            record_ids: At most MAX_WINDOW ids.
            visibility: What may be returned, kinds included.
            with_vectors: Whether to read the vectors too; they cost more than all the rest.
            timeout_seconds: Deadline.

        Returns:
            The visible ones, in the order asked for; unknown and hidden ids are left out alike.
        """
        ...

    async def scan(
        self,
        tenant_id: str,
        space_id: str,
        visibility: VisibilityFilter,
        *,
        knowledge_base_ids: Sequence[str],
        document_ids: Sequence[str] | None = None,
        layers: Sequence[int] | None = None,
        max_count: int,
        timeout_seconds: float,
    ) -> list[Record]:
        """Read all visible records of knowledge bases, for kinds of which there are not many.

        Args:
            tenant_id: The tenant.
            space_id: The space.
            visibility: What may be returned, kinds included.
            knowledge_base_ids: Knowledge bases.
            document_ids: Only records of these documents; None for any.
            layers: Only nodes of trees on these layers; None for any.
            max_count: Where to stop, 1 to 100,000.
            timeout_seconds: Deadline of the whole call.

        Returns:
            Records without their vectors, by publisher and position.

        Raises:
            NotFoundError: If the space does not exist.
        """
        ...

    async def delete_made_of(self, tenant_id: str, ordinals: Collection[Ordinal], *, timeout_seconds: float) -> int:
        """Remove every record that these ordinals publish or are a source of, in all spaces of the tenant.

        What a build made of a purged version and of others goes too, under either rule: its text holds the version's.

        Args:
            tenant_id: The tenant.
            ordinals: Ordinals that no snapshot holds any longer.
            timeout_seconds: Deadline.

        Returns:
            How many records were removed; calling it again removes what a late writer added since.
        """
        ...
