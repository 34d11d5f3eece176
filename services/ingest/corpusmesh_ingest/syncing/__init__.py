"""Syncs: what a source lists, compared with what is known of it, and taken in."""
