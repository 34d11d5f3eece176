"""Stages of the graph worker."""
