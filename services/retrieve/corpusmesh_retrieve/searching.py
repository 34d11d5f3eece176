"""One search from the first to the last stage, on one snapshot of each knowledge base."""

from collections.abc import Sequence
from dataclasses import replace

from corpusmesh_core.ports.embedding import Embedder
from corpusmesh_core.ports.index import RecordIndex
from corpusmesh_core.query import QueryVariant, VariantOrigin
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.text import analyze_query, is_stop_word
from corpusmesh_retrieve.ordering import rank_found
from corpusmesh_retrieve.outcome import SearchOutcome, SearchRequest
from corpusmesh_retrieve.recalling import MAX_VARIANTS, Recaller
from corpusmesh_retrieve.stages import SearchStages, run_stages, timed_stage
from corpusmesh_retrieve.viewing import SnapshotReader, Viewer
from corpusmesh_runtime.context import CallContext


class Searcher:
    """Runs searches."""

    def __init__(self, snapshots: SnapshotReader, index: RecordIndex, embedder: Embedder, stages: SearchStages) -> None:
        """Create the searcher.

        Args:
            snapshots: Tells what the caller may see.
            index: Recalls candidates.
            embedder: Embeds the question.
            stages: The optional stages.
        """
        self._viewer = Viewer(snapshots)
        self._recaller = Recaller(index, embedder)
        self._stages = stages

    async def search(self, call: CallContext, request: SearchRequest) -> SearchOutcome:
        """Search.

        Args:
            call: The call; its identity decides what is visible, its deadline bounds every stage.
            request: What is searched.

        Returns:
            Everything that was found, with its explanation.

        Raises:
            NotFoundError: If a knowledge base or snapshot is unknown to the caller.
            InvalidArgumentError: If the plan is not valid.
            UnavailableError: If the index does not answer.
        """
        outcome = SearchOutcome(request, question=request.query)
        if not request.knowledge_base_ids and self._stages.route is not None:
            await self._stages.route(call, outcome)
        with timed_stage(outcome, "visibility"):
            await self.look(call, outcome)
        outcome.plan = request.make_plan([item.config for item in outcome.inputs])
        outcome.variants = [QueryVariant(request.query, VariantOrigin.QUESTION)]
        with timed_stage(outcome, "analyze"):
            outcome.terms = analyze_query(request.query)
            if outcome.terms.is_cut:
                outcome.notes.append("the query was longer than a search reads; its last words were left out")
        await run_stages(self._stages.understanding, call, outcome)
        if all(is_stop_word(term) for term in outcome.terms.fine):
            outcome.notes.append("the question holds no telling word; ask with words of what you look for")
        await self.recall(call, outcome)
        await run_stages(self._stages.assembly, call, outcome)
        return outcome

    async def look(self, call: CallContext, outcome: SearchOutcome) -> None:
        """Find out what the request may see; once looked at, a knowledge base stays at its snapshot.

        Args:
            call: The call.
            outcome: Gets inputs, snapshots and views; conditions that were read out of the question narrow them.
        """
        await self._viewer.look(call, outcome)

    async def recall(self, call: CallContext, outcome: SearchOutcome) -> None:
        """Embed the variants, recall candidates for them and put these in order.

        Args:
            call: The call.
            outcome: Gets vectors, candidates and the order.
        """
        if outcome.variants[0].text != outcome.question:
            outcome.variants[0] = replace(outcome.variants[0], text=outcome.question)
        del outcome.variants[MAX_VARIANTS:]
        outcome.found, outcome.derived, outcome.variant_vectors = [], [], []
        with timed_stage(outcome, "embed"):
            probes = [QueryVariant(text, VariantOrigin.QUESTION) for text in outcome.probes]
            embedded = await self._recaller.embed(call, outcome, [*outcome.variants, *probes])
            vectors = embedded[: len(outcome.variants)]
            outcome.query_vector = vectors[0]
            of_probes = zip(outcome.probes, embedded[len(vectors) :], strict=True)
            outcome.probe_vectors = {text: vector for text, vector in of_probes if vector is not None}
        with timed_stage(outcome, "recall"):
            await self._recaller.recall(call, outcome, outcome.variants, vectors)
        await run_stages(self._stages.features, call, outcome)
        with timed_stage(outcome, "score"):
            outcome.ranked = await rank_found(outcome)

    async def recall_more(
        self, call: CallContext, outcome: SearchOutcome, variants: Sequence[QueryVariant]
    ) -> tuple[RankedCandidate, ...]:
        """Search for further texts for the same question, on the same snapshot: hops, rewrites, parts.

        Args:
            call: The call.
            outcome: A search that has recalled; gets the variants, their vectors and candidates. Its order stays: see
                `corpusmesh_core.ranking.merge_ranked`.
            variants: Texts to search for; of more than MAX_VARIANTS - 1, the first.

        Returns:
            What the variants found, those known before included, scored against the question and against the variants
            (`ScoreExplanation.variant`), so that it compares with `outcome.ranked`; kept ones first, best first.

        Raises:
            UnavailableError: If the index does not answer.
        """
        return await self._recaller.recall_more(call, outcome, variants)
