"""What of a knowledge base's configuration decides what becomes of a document: equal hashes, equal versions."""

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from corpusmesh_core.evaluation.gate import PUBLISH_GATE
from corpusmesh_core.graphs.settings import GRAPH
from corpusmesh_core.ports.retrievals import LEDGER
from corpusmesh_core.trees.keys import tree_fingerprint
from corpusmesh_core.trees.settings import TREE, TreeScope, TreeSettings
from corpusmesh_runtime.retrieval_plans import RETRIEVAL

RANKING: Final = "ranking"
OF_SEARCHES: Final = frozenset({RETRIEVAL, RANKING, LEDGER, PUBLISH_GATE, GRAPH})
"""Sections that do not decide what becomes of a document: a change of them makes no version outdated. A graph is a
build beside the documents."""


def config_hash(config: Mapping[str, object]) -> str:
    """Digest the part of a configuration that decides what a document becomes.

    The section of trees is part of it where trees are made of single documents; the tree of a knowledge base is no part
    of a document.

    Args:
        config: A knowledge base's configuration.

    Returns:
        Hexadecimal digest; two versions of the same bytes and digest are the same.
    """
    deciding = {name: section for name, section in config.items() if name not in OF_SEARCHES | {TREE}}
    settings = TreeSettings.of(config)
    if settings.scope is TreeScope.FILE:
        deciding[TREE] = tree_fingerprint(settings).hex()
    return digest(deciding)


def digest(value: object) -> str:
    """Digest JSON values.

    Args:
        value: What `json.dumps` takes.

    Returns:
        Sixteen hexadecimal digits, the same for equal values.
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
