"""Prompts as versioned constants: a change of wording is a new version, so that a record can say what made it."""

from corpusmesh_core.prompts.answer_prompt import AnswerPrompt
from corpusmesh_core.prompts.answer_v2 import ANSWER_V2, NO_ANSWER_WORD, REVISE_V1
from corpusmesh_core.prompts.context_v1 import CONTEXT_V1
from corpusmesh_core.prompts.item_prompt import DATA_RULES, ItemPrompt
from corpusmesh_core.prompts.keywords_v1 import KEYWORDS_V1
from corpusmesh_core.prompts.memory_v1 import MEMORY_V1
from corpusmesh_core.prompts.metadata_v1 import METADATA_V1
from corpusmesh_core.prompts.proposition_scores_v1 import PROPOSITION_SCORES_V1
from corpusmesh_core.prompts.propositions_v1 import PROPOSITIONS_V1
from corpusmesh_core.prompts.questions_v1 import QUESTIONS_V1
from corpusmesh_core.prompts.summary_v1 import SUMMARY_V1
from corpusmesh_core.prompts.toc_levels_v1 import TOC_LEVELS_V1
from corpusmesh_core.prompts.toc_titles_v1 import TOC_TITLES_V1

__all__ = [
    "ANSWER_V2",
    "CONTEXT_V1",
    "DATA_RULES",
    "KEYWORDS_V1",
    "MEMORY_V1",
    "METADATA_V1",
    "NO_ANSWER_WORD",
    "PROPOSITIONS_V1",
    "PROPOSITION_SCORES_V1",
    "QUESTIONS_V1",
    "REVISE_V1",
    "SUMMARY_V1",
    "TOC_LEVELS_V1",
    "TOC_TITLES_V1",
    "AnswerPrompt",
    "ItemPrompt",
]
