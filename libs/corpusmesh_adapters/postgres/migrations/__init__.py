"""Versioned schema: one revision and one SQL script each."""
