"""Fetches artefacts by their coordinates from the default repository of the library `maven-artifact`."""

from corpusmesh_adapters.maven.download import download_artefact

__all__ = ["download_artefact"]
