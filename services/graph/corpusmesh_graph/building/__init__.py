"""Builds of the graphs of knowledge bases, slice by slice."""
