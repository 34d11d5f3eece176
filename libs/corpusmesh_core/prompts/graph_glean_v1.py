"""Prompt for what the first reading of a few chunks has missed, version 1."""

from typing import Final

GRAPH_GLEAN_VERSION: Final = "graph_glean_v1"
"""Part of the key under which answers are kept, and of what decides a subgraph."""

GRAPH_GLEAN_V1: Final = """\
The passages were read before; the names that were found then stand in the second block, which is quoted data too. \
Write records only for what was missed: names that are not among them, and relations of theirs that were not told."""
"""Stands below the instructions of the first reading."""
