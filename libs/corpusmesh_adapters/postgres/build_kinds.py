"""What differs between builds of trees and builds of graphs: names of runs, who asks for them, and words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.graphs.settings import GRAPH, GraphSettings
from corpusmesh_core.orchestration.values import RunKind
from corpusmesh_core.ports.builds import DATASET_GRAPH, DATASET_TREE
from corpusmesh_core.trees.settings import TREE, TreeScope, TreeSettings


@dataclass(frozen=True, slots=True)
class BuildKind:
    """One kind of builds.

    Attributes:
        name: Value of the column `kind`.
        run: Kind of the runs that make it.
        removal: Kind of the runs that remove it.
        service: In whose name it follows by itself.
        section: Section of a knowledge base's configuration that asks for it.
        is_wanted: Tells whether a configuration asks for it, by SQL over the alias `k`.
        wants: Tells the same of a configuration.
        label: What a person calls it.
        takes_inputs: Whether people give something for it besides documents.
    """

    name: str
    run: RunKind
    removal: RunKind
    service: str
    section: str
    is_wanted: str
    wants: Callable[[Mapping[str, object]], bool]
    label: str
    takes_inputs: bool = False

    def not_found(self, knowledge_base_id: str) -> NotFoundError:
        """Say that a knowledge base has none that the caller may see.

        Args:
            knowledge_base_id: The knowledge base.

        Returns:
            TREE_NOT_FOUND or GRAPH_NOT_FOUND.
        """
        return NotFoundError(
            f"{self.label.upper()}_NOT_FOUND",
            f"the knowledge base has no {self.label} of its own; build one",
            knowledge_base=knowledge_base_id,
        )


def _wants_tree(config: Mapping[str, object]) -> bool:
    return TreeSettings.of(config).scope is TreeScope.DATASET


def _wants_graph(config: Mapping[str, object]) -> bool:
    return GraphSettings.of(config).is_on


TREES: Final = BuildKind(
    name=DATASET_TREE,
    run=RunKind.TREE,
    removal=RunKind.TREE_REMOVAL,
    service="raptor",
    section=TREE,
    is_wanted=f"k.config -> '{TREE}' ->> 'scope' = '{TreeScope.DATASET}'",
    wants=_wants_tree,
    label="tree",
)
GRAPHS: Final = BuildKind(
    name=DATASET_GRAPH,
    run=RunKind.GRAPH,
    removal=RunKind.GRAPH_REMOVAL,
    service="graph",
    section=GRAPH,
    is_wanted=f"coalesce(k.config -> '{GRAPH}' -> 'methods', '[]') <> '[]'",
    wants=_wants_graph,
    label="graph",
    takes_inputs=True,
)
KINDS: Final[Mapping[str, BuildKind]] = {kind.name: kind for kind in (TREES, GRAPHS)}
"""Every kind by its name."""
