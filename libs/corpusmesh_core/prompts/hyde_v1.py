"""Prompt for a hypothetical passage (HyDE), version 1."""

from typing import Final

from corpusmesh_core.prompts.step_prompt import StepPrompt

HYDE_V1: Final = StepPrompt(
    version="hyde/1",
    task="""\
Write the passage of a document in which the answer to this question would stand: 60 to 150 words, in the language of \
the question, in the style of a manual, a paper or an article, with the terms that such a text uses. It only serves to \
find the real passage, so do not hedge, and do not speak of the question.""",
    form='{"passage": "InnoDB stores the rows of a table in a clustered index ordered by its primary key. ..."}',
    max_token_count=500,
)
"""Current prompt for a hypothetical passage (Gao et al., "Precise Zero-Shot Dense Retrieval", 2022)."""
