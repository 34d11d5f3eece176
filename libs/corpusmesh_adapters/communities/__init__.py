"""Community detection by Leiden's algorithm."""

from corpusmesh_adapters.communities.leiden import LeidenFinder

__all__ = ["LeidenFinder"]
