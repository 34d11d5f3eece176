"""Prompt for contextual retrieval: what a piece needs to be understood alone, version 1."""

from typing import Final

from corpusmesh_core.prompts.item_prompt import ItemPrompt

CONTEXT_V1: Final = ItemPrompt(
    version="context/1",
    task="""\
Every item is the gist of a document and, behind the line "Piece:", one piece of it. Say in one or two short \
sentences, at most 60 words, what somebody must know to find and understand the piece alone: which document and part \
it is from, and the full names of what it calls "it", "the company", "this year" and the like. In the language of the \
piece. Do not repeat the piece, and say nothing that neither gist nor piece says.""",
    form='{"items": [{"n": 1, "context": "From the chapter on indexes of the MySQL guide, on clustered indexes."}]}',
)
"""Current prompt for contexts."""
