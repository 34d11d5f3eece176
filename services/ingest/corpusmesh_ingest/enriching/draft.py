"""What is being made of one version, and what there is to say about it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from corpusmesh_core.chunking.edits import is_disabled
from corpusmesh_core.documents import Chunk, ChunkRole, ParsedDocument
from corpusmesh_core.enrichment import Derived, EnrichmentSettings, MetadataSchema, TagExample
from corpusmesh_core.enrichment.placement import text_chunks
from corpusmesh_core.enrichment.requests import PromptItem
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.tenancy.values import MetadataValue
from corpusmesh_ingest.enriching.asking import AskFailure

_MAX_NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class EnrichRequest:
    """One version to enrich.

    Attributes:
        tenant_id: Tenant.
        knowledge_base_id: Knowledge base.
        ordinal: The version: what the model answers is kept under it, and erased with it.
        title: Title of the document.
        document: What the parser made.
        chunks: Its chunks of every role.
        settings: What is asked for.
        schema: Metadata that its documents have.
        tag_examples: Examples of the tag sets that the settings name.
    """

    tenant_id: str
    knowledge_base_id: str
    ordinal: int
    title: str
    document: ParsedDocument
    chunks: tuple[Chunk, ...]
    settings: EnrichmentSettings
    schema: MetadataSchema = field(default_factory=MetadataSchema)
    tag_examples: tuple[TagExample, ...] = ()


@dataclass(slots=True)
class Draft:
    """One version on its way through the parts of enrichment; used by one task at a time.

    Attributes:
        request: What is enriched.
        counter: Counts tokens.
        chunks: Its chunks of every role as they are by now.
        derived: Records made so far.
        metadata: Values found so far.
        warnings: What could not be made.
    """

    request: EnrichRequest
    counter: TextTokenizer
    chunks: list[Chunk]
    derived: list[Derived] = field(default_factory=list)
    metadata: dict[str, MetadataValue] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def texts(self) -> list[Chunk]:
        """Chunks of role TEXT by position, without those that a person switched off: nothing is made of them."""
        return [chunk for chunk in text_chunks(self.chunks) if not is_disabled(chunk)]

    def change(self, changed: Mapping[int, Chunk]) -> None:
        """Put changed chunks of role TEXT into their places.

        Args:
            changed: By position.
        """
        self.chunks = [
            changed.get(chunk.position, chunk) if chunk.role is ChunkRole.TEXT else chunk for chunk in self.chunks
        ]

    def items(self, chunks: Collection[Chunk]) -> list[PromptItem]:
        """Make items of chunks, numbered by their positions.

        Args:
            chunks: Chunks.

        Returns:
            Those that say anything.
        """
        return [
            PromptItem(chunk.position, chunk.text, self.heading(chunk.heading_path), chunk.token_count)
            for chunk in chunks
            if any(char.isalnum() for char in chunk.text)
        ]

    def heading(self, path: Collection[str]) -> str:
        """Write the title and the headings above a place on one line.

        Args:
            path: Headings.

        Returns:
            The line.
        """
        return " > ".join(dict.fromkeys(text for text in (self.request.title, *path) if text))

    def warn_of_failures(
        self, things: str, failures: Mapping[int, AskFailure], *, of: str = "chunks", instead: bool = True
    ) -> None:
        """Say which items the model failed, and what they have now.

        Args:
            things: What was asked for, in the plural.
            failures: Why, by item.
            of: What the items are.
            instead: Whether they have what is made without a model.
        """
        what = f"; they have {things} made without a model" if instead else ""
        for failure, said in (
            (AskFailure.UNUSABLE, f"gave no usable {things} for"),
            (AskFailure.UNREACHABLE, f"did not answer when asked for {things} of"),
        ):
            failed = sorted(item for item, reason in failures.items() if reason is failure)
            if failed:
                named = ", ".join(map(str, failed[:_MAX_NAMED])) + (", …" if len(failed) > _MAX_NAMED else "")
                self.warnings.append(f"The language model {said} {len(failed)} {of} ({named}){what}.")

    def warn_of_no_model(self, things: str, *, instead: bool = True) -> None:
        """Say that a model was asked for and there is none.

        Args:
            things: What was asked for.
            instead: Whether it was made without a model.
        """
        outcome = "were made without one" if instead else "were not made"
        self.warnings.append(f"No language model is configured; {things} {outcome}.")
