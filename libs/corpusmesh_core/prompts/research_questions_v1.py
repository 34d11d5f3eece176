"""Prompt that takes a question of a research apart, version 1 (seed 000, section 4)."""

from corpusmesh_core.prompts.step_prompt import StepPrompt

RESEARCH_QUESTIONS_V1 = StepPrompt(
    version="research_questions/1",
    task="""\
Evidence was searched for the question and does not answer it: something is missing. Write at most {max_questions} \
short questions to search for next, each of which finds one missing piece. Every question stands alone: it names \
persons, places and things instead of pointing at them, also by names that the passages bring in. Ask nothing that was \
asked already, nothing that the passages answer, and nothing beside the original question. Use the language of the \
original question.""",
    form='{"questions": ["In which year was the bridge over the Elbe opened?"]}',
    max_token_count=400,
)
"""Current prompt of the decomposition."""
