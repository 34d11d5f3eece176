"""Picks knowledge bases for a question whose caller names none: by their contents and by their descriptions."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import DeadlineExceededError, NotFoundError, OverloadedError, UnavailableError
from corpusmesh_core.ports.embedding import MAX_TEXTS_PER_CALL, Embedder, EmbedRole
from corpusmesh_core.ports.metadata import KnowledgeBaseStore
from corpusmesh_core.query.understanding import KnowledgeBaseMark, content_marks, pick_knowledge_bases
from corpusmesh_core.ranking import VectorScale
from corpusmesh_core.ranking.signals import scale_cosines
from corpusmesh_core.records import RecordKind
from corpusmesh_core.tenancy import KnowledgeBase
from corpusmesh_retrieve.embedding import vectors_or_none
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.stages import StageResult, report_stage
from corpusmesh_retrieve.understanding.probing import Prober
from corpusmesh_retrieve.viewing import Viewer, views_of
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.logging import get_logger
from corpusmesh_runtime.tracing import tracer

MAX_PICKED: Final = 4
"""Most knowledge bases that a question is put to."""
_MAX_LISTED: Final = 512
_MAX_PROBED: Final = 32
_WINDOW: Final = 64
_MAX_CACHED_DESCRIPTIONS: Final = 8_192
_MAX_DESCRIPTION_CHARACTERS: Final = 2_000
_SHARE_OF_DEADLINE: Final = 0.2
_NAME: Final = "route"
_Vector = NDArray[np.float32]
_log = get_logger(__name__)


class KnowledgeBaseRouter:
    """Picks knowledge bases out of those that the caller may read."""

    def __init__(self, knowledge_bases: KnowledgeBaseStore, viewer: Viewer, prober: Prober, embedder: Embedder) -> None:
        """Create the router.

        Args:
            knowledge_bases: Lists what the caller may read.
            viewer: Tells what the caller may see of them.
            prober: Searches them.
            embedder: Embeds their descriptions.
        """
        self._knowledge_bases = knowledge_bases
        self._viewer = viewer
        self._prober = prober
        self._embedder = embedder
        self._descriptions: OrderedDict[str, _Vector] = OrderedDict()

    async def route(self, call: CallContext, outcome: SearchOutcome) -> None:
        """Pick knowledge bases and put them into the request.

        Args:
            call: The call; its identity decides what may be picked.
            outcome: Gets a request with at most 4 knowledge bases, none where the caller may read none, and a report
                that tells which and why.

        Raises:
            UnavailableError: If the metadata store does not answer.
        """
        started = time.perf_counter()
        with tracer().start_as_current_span(f"search.{_NAME}"):
            listed = await self._knowledge_bases.list(call.identity, "", _MAX_LISTED)
            if not listed:
                result = StageResult(StageState.SKIPPED, detail="there is no knowledge base that you may read")
                outcome.notes.append(result.detail)
            elif len(listed) <= MAX_PICKED:
                outcome.request = replace(
                    outcome.request, knowledge_base_ids=tuple(row.knowledge_base_id for row in listed)
                )
                result = StageResult(detail=f"all that you may read: {', '.join(outcome.request.knowledge_base_ids)}")
            else:
                marks = await self._picked(call, outcome, listed)
                outcome.request = replace(
                    outcome.request, knowledge_base_ids=tuple(mark.knowledge_base_id for mark in marks)
                )
                told = ", ".join(map(_told, marks))
                result = StageResult(detail=f"{len(marks)} of {len(listed)} that you may read: {told}")
                outcome.notes.append(f"{len(marks)} of {len(listed)} knowledge bases were searched")
        report_stage(outcome, _NAME, time.perf_counter() - started, result)

    async def _picked(
        self, call: CallContext, outcome: SearchOutcome, listed: Sequence[KnowledgeBase]
    ) -> tuple[KnowledgeBaseMark, ...]:
        descriptions = await self._by_description(call, outcome.question, listed)
        likely = sorted(listed, key=lambda row: -descriptions.get(row.knowledge_base_id, 0.0))[:_MAX_PROBED]
        contents = await self._by_content(call, outcome, [row.knowledge_base_id for row in likely])
        return pick_knowledge_bases([row.knowledge_base_id for row in likely], contents, descriptions, most=MAX_PICKED)

    async def _by_content(
        self, call: CallContext, outcome: SearchOutcome, identifiers: Sequence[str]
    ) -> Mapping[str, float]:
        try:
            inputs = await self._viewer.inputs_of(
                call, identifiers, outcome.request.metadata, snapshots=dict(outcome.request.snapshots)
            )
            found = await self._prober.best(
                call,
                outcome.question,
                views_of(inputs),
                (RecordKind.CHUNK,),
                window=_WINDOW,
                other_script_window=_WINDOW // 4,
            )
        except (NotFoundError, UnavailableError, OverloadedError, DeadlineExceededError) as error:
            # One may have been deleted since it was listed; descriptions decide then.
            call.remaining_seconds()
            _log.warning("routed by descriptions alone", reason=error.reason)
            return {}
        return content_marks([(item.candidate.record.knowledge_base_id, item.similarity) for item in found])

    async def _by_description(
        self, call: CallContext, question: str, listed: Sequence[KnowledgeBase]
    ) -> Mapping[str, float]:
        space_id = self._embedder.space.space_id
        vector = await self._prober.vector(call, question, (space_id,))
        if vector is None:
            return {}
        keys = {row.knowledge_base_id: _key(row, space_id) for row in listed}
        # A copy: another request may push entries out of the cache while this one waits.
        known = {key: self._descriptions[key] for key in keys.values() if key in self._descriptions}
        missing = [row for row in listed if keys[row.knowledge_base_id] not in known]
        for start in range(0, len(missing), MAX_TEXTS_PER_CALL):
            part = missing[start : start + MAX_TEXTS_PER_CALL]
            vectors = await vectors_or_none(
                self._embedder,
                call,
                [_description(row) for row in part],
                role=EmbedRole.PASSAGE,
                share_of_deadline=_SHARE_OF_DEADLINE,
                without="knowledge bases are picked by their contents alone",
            )
            if vectors is None:
                return {}
            known.update((keys[row.knowledge_base_id], own) for row, own in zip(part, vectors, strict=True))
        cosines = np.array([known[key] @ vector for key in keys.values()], dtype=np.float64)
        for key, own in known.items():
            self._descriptions[key] = own
            self._descriptions.move_to_end(key)
        while len(self._descriptions) > _MAX_CACHED_DESCRIPTIONS:
            self._descriptions.popitem(last=False)
        marks = scale_cosines(cosines, np.zeros(len(cosines), dtype=np.bool_), VectorScale())
        return dict(zip(keys, marks.tolist(), strict=True))


def _description(row: KnowledgeBase) -> str:
    return f"{row.display_name}. {row.description}"[:_MAX_DESCRIPTION_CHARACTERS]


def _key(row: KnowledgeBase, space_id: str) -> str:
    """Name a description by all that decides its vector; what another tenant wrote alike has the same one."""
    return hashlib.sha256(f"{space_id}\n{_description(row)}".encode()).hexdigest()


def _told(mark: KnowledgeBaseMark) -> str:
    parts = [f"contents {mark.content:.2f}"]
    if mark.description is not None:
        parts.append(f"description {mark.description:.2f}")
    return f"{mark.knowledge_base_id} {mark.value:.2f} ({', '.join(parts)})"
