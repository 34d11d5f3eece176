"""Graphs as callers see them, read from segments and kept as long as they are asked for (ADR-0014).

Nothing is imported here: who reads only the settings must not wait for matrices.
"""
