"""Prompts as versioned constants: a change of wording is a new version, so that a record can say what made it."""

from corpusmesh_core.prompts.answer_v1 import ANSWER_V1, AnswerPrompt

__all__ = ["ANSWER_V1", "AnswerPrompt"]
