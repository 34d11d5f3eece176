"""What builds of graphs are made with, for all of a process."""

from dataclasses import dataclass

from corpusmesh_core.ports.communities import CommunityFinder
from corpusmesh_graph.building.shelf import SegmentShelf
from corpusmesh_graph.models import GraphModels


@dataclass(frozen=True, slots=True)
class BuildTools:
    """What builds of graphs are made with.

    Attributes:
        models: What asks the language model.
        shelf: What reads segments.
        communities: What finds communities.
    """

    models: GraphModels
    shelf: SegmentShelf
    communities: CommunityFinder
