"""Builds of the trees of knowledge bases, slice by slice."""
