"""Readers of every document format, and the pool of processes in which they run."""
