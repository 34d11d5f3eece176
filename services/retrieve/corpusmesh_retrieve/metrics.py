"""Metrics of the retrieve service."""

from typing import Final

from prometheus_client import Counter

STEP_CALLS_TOTAL: Final = Counter(
    "corpusmesh_retrieve_step_calls_total",
    "Calls to the language model for a step of a retrieval or an answer, by step and by how they ended: answered,"
    " unusable or lost. Which steps run without the model that was meant for them?",
    ["step", "outcome"],
)
STAGES_TOTAL: Final = Counter(
    "corpusmesh_retrieve_stages_total",
    "Optional stages of searches, by stage and by what became of them: ran, skipped or failed. Which stages are asked"
    " for and cannot run?",
    ["stage", "state"],
)
RESEARCHES_TOTAL: Final = Counter(
    "corpusmesh_retrieve_researches_total",
    "Researches that were answered, by what ended their search: done, or the budget. Are the budgets large enough?",
    ["ended_by"],
)
