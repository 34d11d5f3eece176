"""What every part of a build works with."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from pyroaring import FrozenBitMap

from corpusmesh_core.bills import add_bills
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.graphs.settings import GraphSettings
from corpusmesh_core.graphs.telling import GraphProgress, progress_values
from corpusmesh_core.graphs.values import GraphBill
from corpusmesh_core.ports.builds import BuildRow
from corpusmesh_core.ports.index import MAX_WINDOW
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.visibility import Visibility, build_filter
from corpusmesh_graph.building.drafts import GraphDraft
from corpusmesh_graph.config import GraphServiceSettings
from corpusmesh_graph.stores import GraphStores
from corpusmesh_runtime.build_keys import build_key
from corpusmesh_runtime.text_vectors import TextVectors
from corpusmesh_runtime.worker import TaskContext

_PAGE_WITH_VECTORS = 500
_MAX_OBJECT_BYTES = 1 << 31


@dataclass(slots=True)
class BuildScope:
    """One task of a build.

    Attributes:
        settings: Bounds.
        stores: What graphs stand on.
        context: The task.
        row: The build.
        graph: How the graph is made.
        bill: What this slice has cost.
        draft: How far the build is.
        began: Time of the monotonic clock at which the task began.
    """

    settings: GraphServiceSettings
    stores: GraphStores
    context: TaskContext
    row: BuildRow
    graph: GraphSettings
    bill: GraphBill
    draft: GraphDraft
    began: float

    @property
    def is_over(self) -> bool:
        """Whether the time of a slice is over."""
        return monotonic() - self.began > self.settings.slice_seconds

    @property
    def vectors(self) -> TextVectors:
        """What embeds texts into the space of the knowledge base."""
        return TextVectors(self.stores.embedder, self.draft.space_id)

    def key(self, name: str) -> str:
        """Name an object of this run.

        Args:
            name: What it is.

        Returns:
            Its key.
        """
        return build_key(self.row, self.context.claim.run_id, name)

    async def read(self, key: str) -> bytes:
        """Read an object.

        Args:
            key: Its key.

        Returns:
            Its bytes.

        Raises:
            NotFoundError: If it is gone.
        """
        return await self.stores.objects.get(
            key, max_byte_count=_MAX_OBJECT_BYTES, timeout_seconds=self.context.remaining_seconds()
        )

    async def find(self, key: str) -> bytes | None:
        """Read an object that may not be there.

        Args:
            key: Its key.

        Returns:
            Its bytes; None if it is not there.
        """
        try:
            return await self.read(key)
        except NotFoundError:
            return None

    async def put(self, key: str, content: bytes) -> None:
        """Write an object.

        Args:
            key: Its key.
            content: Its bytes.
        """
        await self.stores.objects.put(key, content, timeout_seconds=self.context.remaining_seconds())
        self.context.reach("after_artefact")

    async def write(self, records: Sequence[Record]) -> None:
        """Write records.

        Args:
            records: The records.
        """
        if not records:
            return
        claim = self.context.claim
        await self.stores.index.write(
            claim.tenant_id,
            self.draft.space_id,
            records,
            epoch=claim.epoch,
            timeout_seconds=self.context.remaining_seconds(),
        )
        self.context.reach("after_index")

    async def refresh(self) -> None:
        """Make what was written before readable."""
        await self.stores.index.refresh(
            self.context.claim.tenant_id, self.draft.space_id, timeout_seconds=self.context.remaining_seconds()
        )

    async def records(
        self,
        record_ids: Sequence[str],
        ordinals: Iterable[int],
        *,
        kinds: Sequence[RecordKind] = (RecordKind.ENTITY, RecordKind.RELATION),
        with_vectors: bool = False,
    ) -> Mapping[str, Record]:
        """Read records of the graph, published or not.

        Args:
            record_ids: Any number of ids.
            ordinals: Versions and publishers that they are of.
            kinds: Their kinds.
            with_vectors: Whether to read the vectors too.

        Returns:
            Those that are there, by id.
        """
        if not record_ids:
            return {}
        seen = FrozenBitMap(ordinals)
        visibility = build_filter(Visibility("build", seen, seen.max() + 1 if seen else 1), kinds)
        size = _PAGE_WITH_VECTORS if with_vectors else MAX_WINDOW
        found: dict[str, Record] = {}
        for start in range(0, len(record_ids), size):
            records = await self.stores.index.fetch(
                self.context.claim.tenant_id,
                self.draft.space_id,
                record_ids[start : start + size],
                visibility,
                with_vectors=with_vectors,
                timeout_seconds=self.context.remaining_seconds(),
            )
            found.update((record.record_id, record) for record in records)
        return found

    async def tell(self, total_count: int, done_count: int) -> None:
        """Show how far the phase is.

        Args:
            total_count: Documents or reports of the phase.
            done_count: Those of them that are done.
        """
        progress = GraphProgress(self.draft.phase.value, total_count, done_count, add_bills(self.draft.bill, self.bill))
        await self.stores.builds.tell_progress(self.context.claim, progress_values(progress))
