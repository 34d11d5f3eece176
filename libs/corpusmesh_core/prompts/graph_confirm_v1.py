"""Prompt that asks which pairs of names stand for one thing, version 1."""

from typing import Final

GRAPH_CONFIRM_VERSION: Final = "graph_confirm_v1"
"""Part of the key under which answers are kept, and of what decides a resolution."""

GRAPH_CONFIRM_V1: Final = """\
Each line of the block has a number, a type where it is known, and two names from one collection of documents. Decide \
for every line whether both names stand for one and the same thing: other spellings, short forms, titles, typing \
errors. Names that differ in a number, a year, a version or a part of what they name stand for different things. Where \
you cannot tell, leave the line out.
Answer with one JSON object and nothing else, numbers of lines: {"same":[1],"different":[2]}"""
"""Current instructions."""
