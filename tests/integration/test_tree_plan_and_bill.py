"""The bill of a real document's tree against its plan, over the real client of a model's service."""

import os
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from corpusmesh_adapters.chat import OpenAIChatModel, OpenAIChatSettings
from corpusmesh_adapters.parsers.builder import Source
from corpusmesh_adapters.parsers.router import parse_source
from corpusmesh_core.chunking import chunk_document
from corpusmesh_core.ports.parsing import ParseOptions
from corpusmesh_core.records import Ordinal, chunk_record_id
from corpusmesh_core.text import analyze
from corpusmesh_core.trees.cost import plan_tree
from corpusmesh_core.trees.settings import SummaryMethod, TreeSettings
from corpusmesh_core.trees.values import Leaf, TreeCost, Vectors
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.grouping import Grouper
from corpusmesh_raptor.growing import GrowingTools, grow
from corpusmesh_raptor.summarizing import Summarizer
from corpusmesh_runtime.text_vectors import TextVectors
from tests.support.ingest_stages import CountingEmbedder
from tests.support.stub_chat import Say
from tests.support.tree_summaries import MemoryUsage, QuotingStub

SHARED = Path(os.environ.get("CORPUSMESH_SHARED", Path(__file__).parents[2].parent / "shared")) / "documents"
DOCUMENT = SHARED / "tracemonkey.pdf"


class QuarterTokenizer:
    """Counts as the stub of the service does: four characters are a token."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [-(-len(text) // 4) for text in texts]

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return [(start, min(start + 4, len(text))) for start in range(0, len(text), 4)]


COUNTER = QuarterTokenizer()


def vectors_of(texts: Sequence[str]) -> Vectors:
    """Count terms in hashed columns: texts about the same have near vectors."""
    vectors = np.full((len(texts), CountingEmbedder.space.dimension), 0.1, np.float32)
    for row, text in enumerate(texts):
        for term in analyze(text).fine:
            vectors[row, zlib.crc32(term.encode()) % vectors.shape[1]] += 1
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def leaves_of(path: Path) -> tuple[Leaf, ...]:
    parsed = parse_source(Source(path.read_bytes(), path.name, ParseOptions()))
    chunks = chunk_document(parsed, COUNTER)
    return tuple(
        Leaf(
            chunk_record_id(Ordinal(1), chunk.position),
            chunk.position.to_bytes(16, "big"),
            chunk.text,
            COUNTER.count_tokens([chunk.text])[0],
            Ordinal(1),
        )
        for chunk in chunks
    )


@pytest.mark.skipif(not DOCUMENT.exists(), reason="the shared documents are not there")
async def test_the_bill_of_a_real_document_is_near_its_plan() -> None:
    settings = TreeSettings(summaries=SummaryMethod.LLM)
    leaves = leaves_of(DOCUMENT)
    vectors = vectors_of([leaf.text for leaf in leaves])
    plan = plan_tree(leaves, vectors, settings)
    bill = TreeCost()
    with QuotingStub([Say("")]) as stub:
        chat = OpenAIChatModel(OpenAIChatSettings(stub.base_url, "stub"), jitter=lambda: 0.0)
        summarizer = Summarizer(chat, None, MemoryUsage(), COUNTER, RaptorSettings())
        session = summarizer.open(tenant_id="t", run_id="r", settings=settings, cost=bill)
        embedder = TextVectors(CountingEmbedder(), CountingEmbedder.space.space_id)  # type: ignore[arg-type]
        tools = GrowingTools(session, embedder, bill, lambda: 120.0)
        tree = await grow(leaves, vectors, Grouper(settings), tools)
    assert len(leaves) > 40
    assert len(tree.layers[0]) == plan.layer_node_counts[0] == bill.layer_node_counts[0]
    assert bill.model_call_count == pytest.approx(plan.model_call_count, rel=0.2)
    assert bill.input_token_count == pytest.approx(plan.input_token_count, rel=0.2)
    assert 0 < bill.output_token_count <= plan.output_token_count
    assert bill.model_node_count + bill.extractive_node_count == sum(bill.layer_node_counts)
