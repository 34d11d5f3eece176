"""Opens the session in which the summaries of one build or one document are made."""

import asyncio
from collections.abc import Sequence

from corpusmesh_core.ports.chat import ChatModel
from corpusmesh_core.ports.completions import CompletionCache
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.ports.usage import UsageLedger
from corpusmesh_core.trees.extractive import extract
from corpusmesh_core.trees.keys import summary_fingerprint
from corpusmesh_core.trees.settings import TreeSettings
from corpusmesh_core.trees.values import Cluster, Summary, TreeCost
from corpusmesh_raptor.config import RaptorSettings


class Summarizer:
    """What all trees of a process share: the language model, its places and its cache."""

    def __init__(
        self,
        chat: ChatModel | None,
        cache: CompletionCache | None,
        usage: UsageLedger,
        counter: TextTokenizer,
        settings: RaptorSettings,
    ) -> None:
        """Create it.

        Args:
            chat: The language model; None where none is configured.
            cache: Keeps its answers; None to keep none.
            usage: What tenants have spent today.
            counter: The embedder's tokenizer.
            settings: Bounds.
        """
        self._chat = chat
        self._cache = cache
        self._usage = usage
        self._counter = counter
        self._settings = settings

    def open(
        self, *, tenant_id: str, run_id: str, settings: TreeSettings, cost: TreeCost, spent: TreeCost | None = None
    ) -> "SummarySession":
        """Begin a build, a slice of one, or the tree of a document.

        Args:
            tenant_id: Tenant.
            run_id: Run in whose name a language model is asked.
            settings: How summaries are made.
            cost: Bill that the session adds to.
            spent: What earlier slices or attempts of the same build have cost; counts against its budget.

        Returns:
            The session.
        """
        del tenant_id, run_id, spent
        return SummarySession(self._counter, settings, cost)


class SummarySession:
    """Makes the summaries of one build."""

    def __init__(self, counter: TextTokenizer, settings: TreeSettings, cost: TreeCost) -> None:
        """Create it; see `Summarizer.open`.

        Args:
            counter: The embedder's tokenizer.
            settings: How summaries are made.
            cost: Bill to add to.
        """
        self._counter = counter
        self._settings = settings
        self._cost = cost
        self.fingerprint = summary_fingerprint(settings, "")
        """What decides a summary besides its children, for `node_key`."""

    async def summarize(self, clusters: Sequence[Cluster], *, timeout_seconds: float) -> list[Summary]:
        """Make summaries.

        Args:
            clusters: What is summarized.
            timeout_seconds: How long a language model may take in all; what it has not written by then is made of
                sentences.

        Returns:
            One summary for each cluster, in order.
        """
        del timeout_seconds
        self._cost.extractive_node_count += len(clusters)
        return await asyncio.to_thread(self._extract, clusters)

    def _extract(self, clusters: Sequence[Cluster]) -> list[Summary]:
        budget = self._settings.effective_summary_tokens
        made = [extract(cluster.children, cluster.vectors, self._counter, max_tokens=budget) for cluster in clusters]
        return [Summary(one.text, one.token_count, places=one.places) for one in made]
