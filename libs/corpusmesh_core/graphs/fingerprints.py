"""Digests of what the parts of a graph depend on: what is equal is taken over, what differs is made anew (ADR-0014)."""

import hashlib
from collections.abc import Sequence
from typing import Final

from corpusmesh_core.graphs.ledger import DIGEST_BYTES
from corpusmesh_core.graphs.settings import GraphMethod, GraphSettings, ReportMethod, Resolution
from corpusmesh_core.graphs.values import GraphChunk

NER_FORMAT: Final = 2
"""Rises where the rules for names find something else in the same text."""
RECORD_FORMAT: Final = 1
"""Rises where the same fragment gives another record."""
RULE_FORMAT: Final = 1
"""Rises where the rule of resolution says something else of the same names."""
REPORT_FORMAT: Final = 1
"""Rises where the same community gives another report without a language model."""


def digest(*parts: object) -> bytes:
    """Digest plain values.

    Args:
        *parts: Values whose `repr` tells all of them.

    Returns:
        DIGEST_BYTES bytes.
    """
    return hashlib.blake2b(repr(parts).encode(), digest_size=DIGEST_BYTES).digest()


def extraction_fingerprint(settings: GraphSettings, model: str, triples: str) -> bytes:
    """Digest all that the subgraph of a document depends on besides its texts.

    Args:
        settings: How the graph is made.
        model: What the language model's session says of itself; counts where a method asks it.
        triples: Digest of the triples of the document; "" for none; counts where they are asked for.

    Returns:
        The digest.
    """
    asks = bool(settings.model_methods)
    return digest(
        tuple(sorted(settings.methods)),
        (NER_FORMAT, settings.max_chunk_relations) if GraphMethod.NER in settings.methods or asks else (),
        (model, settings.entity_types, settings.gleanings, settings.extraction_tokens, settings.prompt) if asks else (),
        triples if GraphMethod.TRIPLES in settings.methods else "",
    )


def form_of(settings: GraphSettings) -> bytes:
    """Digest how records are made of fragments.

    Args:
        settings: How the graph is made.

    Returns:
        The digest.
    """
    return digest(RECORD_FORMAT, settings.effective_vectors)


def linking_of(settings: GraphSettings, model: str) -> bytes:
    """Digest what decides which names are one entity.

    Args:
        settings: How the graph is made.
        model: What the language model's session says of itself.

    Returns:
        The digest.
    """
    return digest(RULE_FORMAT, settings.resolution, model if settings.resolution is Resolution.LLM else "")


def reporting_of(settings: GraphSettings, model: str) -> bytes:
    """Digest what the report of a community depends on besides the community.

    Args:
        settings: How the graph is made.
        model: What the language model's session says of itself.

    Returns:
        The digest.
    """
    by_model = settings.reports is ReportMethod.LLM
    return digest(
        REPORT_FORMAT, settings.reports, settings.effective_vectors, (model, settings.prompt) if by_model else ()
    )


def texts_digest(chunks: Sequence[GraphChunk]) -> bytes:
    """Digest the texts of a document as methods read them.

    Args:
        chunks: Its chunks in order.

    Returns:
        The digest; equal for documents in which the same is found.
    """
    found = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for chunk in chunks:
        found.update(repr((chunk.position, chunk.title, chunk.heading_path, chunk.language)).encode())
        found.update(chunk.text.encode(errors="replace"))
        found.update(b"\0")
    return found.digest()
