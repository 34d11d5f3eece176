"""Prompt for the questions of the next round of a search, version 1."""

from typing import Final

from corpusmesh_core.prompts.step_prompt import StepPrompt

GRAPH_SEARCH_FOLLOW_UP_V1: Final = StepPrompt(
    version="graph_search_follow_up/1",
    task="""\
To answer the question, other questions were looked up; each stands before the best passages that were found for it. \
Write in "follow_ups" what is still missing: new questions that go on from what the passages say, each understandable \
by itself, in the language of the question, the most useful first, at most {count}; none that was looked up. An empty \
list where the passages suffice. Answer nothing.""",
    form='{"follow_ups": ["When did the engineer Ida Holm leave Westerby?"]}',
    max_token_count=400,
)
"""Current prompt for the questions of the next round."""
