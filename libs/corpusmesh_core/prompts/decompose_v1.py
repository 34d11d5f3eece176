"""Prompt for the parts of a question, version 1."""

from typing import Final

from corpusmesh_core.prompts.step_prompt import StepPrompt

DECOMPOSE_V1: Final = StepPrompt(
    version="decompose/1",
    task="""\
If answering the question takes facts about several things or several steps, write the questions for those facts: 2 to \
{count}, each understandable by itself, with the names of the question, in its language. An empty list for a question \
that asks for one fact. Do not answer them.""",
    form='{"questions": ["When was Raft published?", "When was Paxos published?"]}',
    max_token_count=500,
)
"""Current prompt for the parts of a question."""
