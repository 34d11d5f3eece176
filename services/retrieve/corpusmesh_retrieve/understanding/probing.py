"""A quick search beside the search: for memory records, for languages, for the router."""

import asyncio
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.ports.embedding import Embedder, EmbedRole
from corpusmesh_core.ports.index import Candidates, RecallRequest, RecordIndex
from corpusmesh_core.ranking import RankedCandidate, RankingOptions, rank_candidates
from corpusmesh_core.records import RecordKind
from corpusmesh_core.text import analyze_query
from corpusmesh_core.visibility import build_filter
from corpusmesh_retrieve.embedding import vectors_or_none
from corpusmesh_retrieve.outcome import SpaceView
from corpusmesh_runtime.context import CallContext

_SHARE_OF_DEADLINE: Final = 0.2


class Prober:
    """Asks the index for the best records of some kinds, under the same visibility as the search itself."""

    def __init__(self, index: RecordIndex, embedder: Embedder) -> None:
        """Create it.

        Args:
            index: Recalls candidates.
            embedder: Embeds the question.
        """
        self._index = index
        self._embedder = embedder

    async def vector(self, call: CallContext, question: str, space_ids: Sequence[str]) -> NDArray[np.float32] | None:
        """Embed a question, if that can be done quickly.

        Args:
            call: The call.
            question: The question.
            space_ids: Spaces that are searched.

        Returns:
            Its vector; None where none of the spaces is the embedder's own, or it does not answer.
        """
        if self._embedder.space.space_id not in space_ids or not question.strip():
            return None
        vectors = await vectors_or_none(
            self._embedder,
            call,
            [question],
            role=EmbedRole.QUERY,
            share_of_deadline=_SHARE_OF_DEADLINE,
            without="a probe searches by words alone",
        )
        return None if vectors is None else vectors[0]

    async def best(
        self,
        call: CallContext,
        question: str,
        views: Sequence[SpaceView],
        kinds: Sequence[RecordKind],
        *,
        window: int,
        other_script_window: int = 0,
    ) -> list[RankedCandidate]:
        """Find the best records of some kinds.

        Args:
            call: The call.
            question: The question.
            views: What the request may see.
            kinds: Kinds of records.
            window: Candidates of each leg.
            other_script_window: Candidates in the script that the question is not written in.

        Returns:
            Candidates of all views, the most similar first.

        Raises:
            UnavailableError: If the index does not answer.
        """
        seen = [view for view in views if not view.visibility.is_empty]
        if not seen:
            return []
        vector = await self.vector(call, question, [view.space_id for view in seen])
        terms = analyze_query(question)

        async def of(view: SpaceView) -> Candidates:
            own = vector if view.space_id == self._embedder.space.space_id else None
            if own is None and terms.is_empty:
                return Candidates(())
            request = RecallRequest(
                terms=terms,
                query_vector=own,
                visibility=build_filter(view.visibility, kinds),
                knowledge_base_ids=view.knowledge_base_ids,
                window=window,
                other_script_window=other_script_window,
            )
            found = await self._index.search(
                call.identity.tenant_id,
                view.space_id,
                [request],
                timeout_seconds=call.remaining_seconds() * _SHARE_OF_DEADLINE,
            )
            return found[0]

        found = await asyncio.gather(*(of(view) for view in seen))
        ranked = [item for part in found for item in rank_candidates(part, terms, RankingOptions())]
        return sorted(ranked, key=lambda item: -item.similarity)
