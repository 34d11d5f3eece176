"""The stages between an original and its records: what they take over, what they forget, and what they leave alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from corpusmesh_core.artefacts import unpack_chunks, unpack_enriched, unpack_readings, unpack_vectors
from corpusmesh_core.chunking.edits import ChunkEdit, EditAction, anchor_of
from corpusmesh_core.documents import Block, BlockKind, ParsedDocument, Picture
from corpusmesh_core.errors import DocumentError, FailedPreconditionError
from corpusmesh_core.orchestration.values import Stage
from corpusmesh_core.ports.edits import ChunkEditRow, EditState
from corpusmesh_core.ports.parsing import ParseLimits, RecognitionMode
from corpusmesh_core.ports.work import StageOutcome
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_ingest.config import IngestSettings
from corpusmesh_ingest.edits import stored_edit
from corpusmesh_ingest.enriching import Enricher
from corpusmesh_ingest.stages.chunk import ChunkDependencies, ChunkStage
from corpusmesh_ingest.stages.embed import EmbedStage
from corpusmesh_ingest.stages.enrich import EnrichDependencies, EnrichStage
from corpusmesh_ingest.stages.parse import ParseDependencies, ParseStage
from tests.support.ingest_stages import (
    MOMENT,
    CannedParser,
    CountingEmbedder,
    MemoryMetadata,
    MemoryObjects,
    WordCounter,
    context,
    version,
)

TEXTS = (
    "Trains are booked in second class for journeys below four hours.",
    "Hotels cost at most one hundred and forty euros for each night.",
    "Breakfast is paid by the company in addition to the hotel.",
)
ORIGINAL = f"acme/originals/{'a' * 64}"
PICTURES = "acme/artefacts/run/run.0.parse.pictures"
# Each sentence is a chunk.
CUT = {"chunking": {"template": "general", "settings": {"exact_delimiters": ["\n"], "contextual_header": False}}}


def document(*texts: str, pictures: bool = False) -> ParsedDocument:
    return ParsedDocument(
        "text/markdown",
        "",
        tuple(Block(BlockKind.PARAGRAPH, text + "\n") for text in texts or TEXTS),
        pictures=(Picture("figure-1-1", "image/png", b"figure", 1, 1),) if pictures else (),
        page_images=(Picture("page-1", "image/jpeg", b"page", 1, 1),) if pictures else (),
    )


class Edits:
    """Edits of one document, and what was noted of them."""

    def __init__(self, edits: Sequence[ChunkEdit] = ()) -> None:
        self.rows = [
            ChunkEditRow(
                tenant_id="acme",
                knowledge_base_id="kb",
                document_id="doc",
                edit_id=edit.edit_id,
                version=1,
                anchor=stored_edit(edit).anchor,
                change=stored_edit(edit).change,
                state=EditState.PENDING,
                created_by="u",
                create_time=MOMENT,
                update_time=MOMENT,
            )
            for edit in edits
        ]
        self.asked: list[int] = []
        self.noted: list[tuple[int, tuple[str, ...], tuple[str, ...]]] = []

    async def edits_of(
        self, tenant_id: str, knowledge_base_id: str, document_id: str, *, ordinal: int
    ) -> Sequence[ChunkEditRow]:
        self.asked.append(ordinal)
        return self.rows

    async def note_placement(
        self, tenant_id: str, ordinal: int, placed: Sequence[str], unplaced: Sequence[str]
    ) -> None:
        self.noted.append((ordinal, tuple(placed), tuple(unplaced)))


class Bench:
    """All stages over the same stores."""

    def __init__(self, config: Mapping[str, object] | None = None, edits: Sequence[ChunkEdit] = ()) -> None:
        self.objects = MemoryObjects()
        self.objects.kept[ORIGINAL] = b"file"
        self.embedder = CountingEmbedder()
        self.metadata = MemoryMetadata(config or CUT, space_id=self.embedder.space.space_id)
        self.parser = CannedParser({b"file": document()})
        self.edits = Edits(edits)
        stores: Any = {
            "documents": self.metadata,
            "knowledge_bases": self.metadata,
            "objects": self.objects,
        }
        self.handlers: dict[Stage, Any] = {
            Stage.PARSE: ParseStage(
                ParseDependencies(**stores, parser=cast(Any, self.parser), limits=ParseLimits(), unseal=self.unseal)
            ),
            Stage.CHUNK: ChunkStage(
                ChunkDependencies(**stores, edits=cast(Any, self.edits), counter=WordCounter(), embedder_max_tokens=512)
            ),
            Stage.ENRICH: EnrichStage(
                EnrichDependencies(**stores, tag_sets=cast(Any, self), enricher=Enricher(counter=WordCounter()))
            ),
            Stage.EMBED: EmbedStage(
                **stores,
                embedder=cast(Any, self.embedder),
                page_embedder=cast(Any, self.embedder),
                settings=IngestSettings(),
            ),
        }

    @staticmethod
    def unseal(tenant_id: str, sealed: bytes) -> str:
        if sealed == b"lost":
            raise FailedPreconditionError("PASSWORD_UNREADABLE", "send it again")
        return f"{tenant_id}:{sealed.decode()}"

    async def examples(self, knowledge_base: object, tag_sets: Sequence[str], *, timeout_seconds: float) -> tuple[()]:
        return ()

    async def run(self, stage: Stage, *parts: int, task: str = "") -> StageOutcome:
        outcome: StageOutcome = await self.handlers[stage](context(stage, *parts, task=task))
        self.metadata.apply(outcome)
        return outcome

    async def run_all(self, ordinal: int, run: str) -> VersionRow:
        for stage in (Stage.PARSE, Stage.CHUNK, Stage.ENRICH, Stage.EMBED):
            outcome = await self.run(stage, ordinal, task=f"{run}.0.{stage}")
            assert not outcome.failures, outcome
        return self.metadata.rows[ordinal]


async def test_each_version_is_read_under_its_own_settings() -> None:
    bench = Bench({**CUT, "parsing": {"recognition": "never"}})
    bench.metadata.add(version(1), version(2, config={"parsing": {"recognition": "always", "keep_pictures": True}}))
    await bench.run(Stage.PARSE, 1, 2)
    assert [(request.options.recognition, request.options.keep_pictures) for request in bench.parser.requests] == [
        (RecognitionMode.NEVER, False),
        (RecognitionMode.ALWAYS, True),
    ]


async def test_a_password_opens_its_document_and_is_forgotten() -> None:
    bench = Bench()
    bench.metadata.add(version(1, sealed_password=b"secret"), version(2))
    await bench.run(Stage.PARSE, 1, 2)
    assert [request.options.password for request in bench.parser.requests] == ["acme:secret", None]
    assert bench.metadata.rows[1].sealed_password == b""
    assert not any(b"secret" in content for content in bench.objects.kept.values())


@pytest.mark.parametrize("sealed", [b"wrong", b"lost"])
async def test_a_password_is_forgotten_where_it_does_not_open_the_document(sealed: bytes) -> None:
    bench = Bench()
    bench.parser.results[b"file"] = DocumentError("DOCUMENT_ENCRYPTED", "it needs a password")
    bench.metadata.add(version(1, sealed_password=sealed))
    outcome = await bench.run(Stage.PARSE, 1)
    [failure] = outcome.failures
    assert failure.reason == {b"wrong": "DOCUMENT_ENCRYPTED", b"lost": "PASSWORD_UNREADABLE"}[sealed]
    assert bench.metadata.rows[1].sealed_password == b""


async def test_pictures_lie_beside_the_artefact_and_not_in_it() -> None:
    bench = Bench()
    bench.parser.results[b"file"] = document(pictures=True)
    bench.metadata.add(version(1))
    await bench.run(Stage.PARSE, 1)
    row = bench.metadata.rows[1]
    assert row.artefacts["pictures"] == f"{PICTURES}/1/"
    assert bench.objects.kept[f"{PICTURES}/1/figure-1-1"] == b"figure"
    assert bench.objects.kept[f"{PICTURES}/1/page-1"] == b"page"
    kept = unpack_readings(bench.objects.kept[row.artefacts["parsed"]])[1].document
    assert [picture.name for picture in kept.pictures + kept.page_images] == ["figure-1-1", "page-1"]
    assert not any(picture.content for picture in kept.pictures + kept.page_images)


async def test_what_was_parsed_before_is_taken_over_with_its_pictures() -> None:
    bench = Bench()
    bench.parser.results[b"file"] = document(pictures=True)
    bench.metadata.add(version(1))
    await bench.run(Stage.PARSE, 1, task="one.0.parse")
    del bench.objects.kept[ORIGINAL]
    bench.metadata.add(version(2, version=2, base_ordinal=1, config={"chunking": {"template": "one"}}))
    outcome = await bench.run(Stage.PARSE, 2, task="two.0.parse")
    assert not outcome.failures
    assert len(bench.parser.requests) == 1
    row = bench.metadata.rows[2]
    assert row.artefacts["pictures"] == "acme/artefacts/run/two.0.parse.pictures/2/"
    assert bench.objects.kept[f"{row.artefacts['pictures']}page-1"] == b"page"
    first, second = (
        unpack_readings(bench.objects.kept[bench.metadata.rows[ordinal].artefacts["parsed"]])[ordinal]
        for ordinal in (1, 2)
    )
    assert first == second


@pytest.mark.parametrize(
    "change",
    [
        {"config": {"parsing": {"recognition": "never"}}},
        {"original_sha256": "b" * 64},
        {"document_id": "another"},
        {"knowledge_base_id": "another"},
        {"base_ordinal": 9},
    ],
)
async def test_what_was_parsed_of_something_else_is_not_taken_over(change: dict[str, Any]) -> None:
    bench = Bench()
    bench.objects.kept[f"acme/originals/{'b' * 64}"] = b"file"
    bench.metadata.add(version(1))
    await bench.run(Stage.PARSE, 1)
    bench.metadata.add(replace(version(2, version=2, base_ordinal=1), **change))
    await bench.run(Stage.PARSE, 2)
    assert len(bench.parser.requests) == 2


@pytest.mark.parametrize("gone", ["run.0.parse.parsed", "run.0.parse.pictures/1/page-1"])
async def test_what_is_not_there_any_more_is_parsed_again(gone: str) -> None:
    bench = Bench()
    bench.parser.results[b"file"] = document(pictures=True)
    bench.metadata.add(version(1), version(2, version=2, base_ordinal=1))
    await bench.run(Stage.PARSE, 1)
    del bench.objects.kept[f"acme/artefacts/run/{gone}"]
    outcome = await bench.run(Stage.PARSE, 2, task="two.0.parse")
    assert not outcome.failures
    assert len(bench.parser.requests) == 2


async def test_each_version_is_cut_by_its_own_template() -> None:
    bench = Bench()
    bench.metadata.add(version(1), version(2, config={"chunking": {"template": "one", "settings": {}}}))
    await bench.run(Stage.PARSE, 1, 2)
    await bench.run(Stage.CHUNK, 1, 2)
    assert [bench.metadata.rows[ordinal].chunk_count for ordinal in (1, 2)] == [3, 1]


async def test_parents_are_records_and_no_chunks() -> None:
    settings = {"children_delimiter": "\n", "contextual_header": False}
    bench = Bench({"chunking": {"template": "general", "settings": settings}})
    bench.metadata.add(version(1))
    await bench.run(Stage.PARSE, 1)
    await bench.run(Stage.CHUNK, 1)
    row = bench.metadata.rows[1]
    assert (row.chunk_count, row.record_count) == (3, 4)


async def test_warnings_of_every_stage_are_kept_once() -> None:
    bench = Bench({"chunking": {"template": "tag", "settings": {}}})
    bench.parser.results[b"file"] = replace(
        document("a\tb", "text outside of rows"), warnings=("A picture could not be read.",)
    )
    bench.metadata.add(version(1))
    await bench.run(Stage.PARSE, 1)
    await bench.run(Stage.CHUNK, 1)
    warnings = bench.metadata.rows[1].warnings
    assert len(warnings) == 2
    await bench.run(Stage.CHUNK, 1)
    assert bench.metadata.rows[1].warnings == warnings


async def edits_of(*changes: tuple[int, dict[str, Any]]) -> list[ChunkEdit]:
    """Make edits of the chunks of the first version, by position."""
    bench = Bench()
    bench.metadata.add(version(1))
    await bench.run(Stage.PARSE, 1)
    await bench.run(Stage.CHUNK, 1)
    chunks = unpack_chunks(bench.objects.kept[bench.metadata.rows[1].artefacts["chunks"]])[1]
    return [
        ChunkEdit(f"e{place}", change.pop("action", EditAction.CHANGE), anchor_of(chunks[position]), **change)
        for place, (position, change) in enumerate(changes)
    ]


async def test_edits_are_in_the_chunks_and_one_costs_one_embedding() -> None:
    edits = await edits_of((1, {"text": "Hotels cost what they cost.", "keywords": ("hotel",)}))
    bench = Bench(edits=edits)
    bench.metadata.add(version(1), version(2, version=2, base_ordinal=1))
    first = await bench.run_all(1, "one")
    assert bench.edits.asked == [], "a document's first version has no edits"
    assert len(bench.embedder.texts) == 3
    second = await bench.run_all(2, "two")
    assert bench.edits.noted == [(2, ("e0",), ())]
    assert bench.embedder.texts[3:] == ["doc\nHotels cost what they cost."]
    chunks = unpack_chunks(bench.objects.kept[second.artefacts["chunks"]])[2]
    assert [chunk.is_edited for chunk in chunks] == [False, True, False]
    before = unpack_vectors(bench.objects.kept[first.artefacts["vectors"]])[1]
    after = unpack_vectors(bench.objects.kept[second.artefacts["vectors"]])[2]
    assert np.array_equal(before.vectors[[0, 2]], after.vectors[[0, 2]])
    assert not np.array_equal(before.vectors[1], after.vectors[1])


async def test_an_edit_without_a_place_is_noted_and_warned_of() -> None:
    [edit] = await edits_of((1, {"text": "new"}))
    lost = replace(edit, anchor=replace(edit.anchor, text_sha256="0" * 64, excerpt_start="zzz", excerpt_end="zzz"))
    bench = Bench(edits=[lost])
    bench.metadata.add(version(2, version=2))
    await bench.run(Stage.PARSE, 2)
    await bench.run(Stage.CHUNK, 2)
    assert bench.edits.noted == [(2, (), ("e0",))]
    [warning] = bench.metadata.rows[2].warnings
    assert warning.startswith("1 edits of chunks found no place")


async def test_a_chunk_that_is_switched_off_is_kept_and_counts_no_more() -> None:
    bench = Bench(edits=await edits_of((1, {"enabled": False})))
    bench.metadata.add(version(2, version=2))
    row = await bench.run_all(2, "two")
    assert (row.chunk_count, row.record_count) == (2, 2)
    assert len(unpack_chunks(bench.objects.kept[row.artefacts["chunks"]])[2]) == 3
    assert len(bench.embedder.texts) == 2


async def test_edits_that_delete_every_chunk_fail_the_version_and_say_so() -> None:
    bench = Bench(edits=await edits_of(*((place, {"action": EditAction.DELETE}) for place in range(3))))
    bench.metadata.add(version(2, version=2))
    await bench.run(Stage.PARSE, 2)
    [failure] = (await bench.run(Stage.CHUNK, 2)).failures
    assert failure.reason == "CHUNKS_ALL_DELETED"


async def test_a_text_that_stands_twice_is_embedded_once() -> None:
    bench = Bench()
    bench.parser.results[b"file"] = document(TEXTS[0], TEXTS[1], TEXTS[0])
    bench.metadata.add(version(1))
    row = await bench.run_all(1, "one")
    assert len(bench.embedder.texts) == 2
    vectors = unpack_vectors(bench.objects.kept[row.artefacts["vectors"]])[1].vectors
    assert np.array_equal(vectors[0], vectors[2])


async def test_vectors_of_another_space_are_not_taken_over() -> None:
    bench = Bench()
    bench.metadata.add(version(1), version(2, version=2, base_ordinal=1))
    await bench.run_all(1, "one")
    bench.embedder.space = replace(bench.embedder.space, fingerprint="2")
    bench.metadata.space_id = bench.embedder.space.space_id
    await bench.run_all(2, "two")
    assert len(bench.embedder.texts) == 6


async def test_nothing_is_read_or_written_where_nothing_is_asked_for() -> None:
    bench = Bench()
    bench.metadata.add(version(1))
    await bench.run(Stage.PARSE, 1)
    await bench.run(Stage.CHUNK, 1)
    before = list(bench.objects.calls)
    assert await bench.run(Stage.ENRICH, 1) == StageOutcome()
    assert bench.objects.calls == before


async def test_those_that_ask_are_enriched_beside_those_that_do_not() -> None:
    bench = Bench()
    asked = {"enrichment": {"keywords": {"method": "lite"}, "propositions": {"method": "lite"}}}
    bench.metadata.add(version(1), version(2, config=asked))
    for stage in (Stage.PARSE, Stage.CHUNK, Stage.ENRICH, Stage.EMBED):
        await bench.run(stage, 1, 2)
    plain, enriched = bench.metadata.rows[1], bench.metadata.rows[2]
    assert "enriched" not in plain.artefacts
    chunks, derived = unpack_enriched(bench.objects.kept[enriched.artefacts["enriched"]])[2]
    assert all(chunk.keywords for chunk in chunks)
    assert derived
    assert enriched.record_count == len(chunks) + len(derived) > plain.record_count == 3
    vectors = unpack_vectors(bench.objects.kept[enriched.artefacts["vectors"]])
    assert len(vectors[1].vectors) == 3
    assert len(vectors[2].vectors) == 3 + sum(item.is_embedded for item in derived)


async def test_found_values_wait_with_the_version() -> None:
    schema = {"fields": [{"name": "limit", "type": "number", "source": "rule", "pattern": r"below (\w+) hours"}]}
    found = {"fields": [{"name": "class", "type": "text", "source": "rule", "pattern": r"in (\w+) class"}]}
    config = {**CUT, "enrichment": {"metadata": {"method": "lite"}}, "metadata_schema": schema}
    bench = Bench(config)
    bench.metadata.add(version(1), version(2, config={"metadata_schema": found}))
    for stage in (Stage.PARSE, Stage.CHUNK, Stage.ENRICH):
        await bench.run(stage, 1, 2)
    assert bench.metadata.rows[1].extracted_metadata == {}
    assert bench.metadata.rows[1].warnings, "a value that is no number is left out, and it is said"
    assert bench.metadata.rows[2].extracted_metadata == {"class": "second"}


async def test_a_document_that_is_uploaded_again_keeps_the_vectors_of_what_stayed() -> None:
    bench = Bench()
    bench.parser.results[b"changed"] = document(TEXTS[0], "Something else is said here now.", TEXTS[2])
    bench.objects.kept[f"acme/originals/{'b' * 64}"] = b"changed"
    bench.metadata.add(version(1), version(2, version=2, original_sha256="b" * 64))
    await bench.run_all(1, "one")
    await bench.run_all(2, "two")
    assert bench.embedder.texts[3:] == ["doc\nSomething else is said here now."]


async def test_documents_with_pictures_are_few_at_once_in_memory() -> None:
    bench = Bench()
    bench.parser.results[b"file"] = document(pictures=True)
    own = {"parsing": {"keep_pictures": True}}
    bench.metadata.add(*(version(ordinal, config=own if ordinal > 2 else {}) for ordinal in range(1, 12)))
    outcome = await bench.run(Stage.PARSE, *range(1, 12))
    assert not outcome.failures
    assert bench.parser.sizes == [2, 4, 4, 1]
    assert all("pictures" in row.artefacts for row in bench.metadata.rows.values())
