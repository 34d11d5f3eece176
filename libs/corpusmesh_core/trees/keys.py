"""Content keys of nodes: equal children under equal settings have equal keys, whatever tree they are in."""

import hashlib
from collections.abc import Sequence
from typing import Final

from corpusmesh_core.trees.settings import SummaryMethod, TreeMethod, TreeSettings
from corpusmesh_core.trees.values import KEY_BYTES

EXTRACT_VERSION: Final = "extract_v1"
"""How sentences are chosen: a change of it makes the nodes of lite trees anew at their next build."""


def summary_fingerprint(settings: TreeSettings, model: str) -> bytes:
    """Digest what decides the text of a summary besides its children.

    Args:
        settings: The settings; how clusters are found is no part of it.
        model: Name of the language model and version of the prompt; "" where sentences are taken.

    Returns:
        KEY_BYTES bytes.
    """
    parts = [str(settings.summaries), str(settings.effective_summary_tokens)]
    if settings.summaries is SummaryMethod.LLM:
        parts += [model, str(settings.context_tokens), settings.prompt]
    else:
        parts.append(EXTRACT_VERSION)
    return hashlib.blake2b("\x1f".join(parts).encode(), digest_size=KEY_BYTES).digest()


def node_key(fingerprint: bytes, children: Sequence[bytes], title: str = "") -> bytes:
    """Make the content key of a node.

    Args:
        fingerprint: See `summary_fingerprint`.
        children: Keys of its children, in order.
        title: What it speaks of, where that is part of what is summarized.

    Returns:
        KEY_BYTES bytes.
    """
    digest = hashlib.blake2b(fingerprint, digest_size=KEY_BYTES)
    # Its length too: a heading could be written so that it reads as a title and the key of a chunk that is gone.
    encoded = title.encode(errors="replace")
    digest.update(len(encoded).to_bytes(4, "big") + encoded)
    for child in children:
        digest.update(child)
    return digest.digest()


def tree_fingerprint(settings: TreeSettings) -> bytes:
    """Digest what decides a tree besides its leaves and the language model: equal for settings that make the same.

    What it may cost is no part of it, nor whether it follows by itself.

    Args:
        settings: The settings.

    Returns:
        KEY_BYTES bytes.
    """
    parts: list[object] = [
        settings.scope,
        settings.method,
        settings.clustering_threshold,
        settings.clustering_ratio,
        settings.small_layer_size,
        settings.max_cluster_size,
        summary_fingerprint(settings, "").hex(),
    ]
    if settings.method is TreeMethod.MIXTURE:
        parts.append(settings.random_seed)
    return hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=KEY_BYTES).digest()
