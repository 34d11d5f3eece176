"""Port of community detection (ADR-0014); what uses it defines it, since ports may know graphs and not the reverse."""

from corpusmesh_core.graphs.communities import CommunityFinder

__all__ = ["CommunityFinder"]
