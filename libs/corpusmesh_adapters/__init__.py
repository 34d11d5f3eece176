"""Adapters: one package per outside system, each behind a port of `corpusmesh_core.ports`."""
