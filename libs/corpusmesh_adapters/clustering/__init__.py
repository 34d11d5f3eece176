"""Soft clustering by UMAP and Gaussian mixtures, in a process of its own."""
