"""Answers from what a search found: by a language model where one may be asked, else by its own sentences."""

from corpusmesh_retrieve.answering.answerer import Answerer
from corpusmesh_retrieve.answering.values import AnswerOptions, AnswerResult

__all__ = ["AnswerOptions", "AnswerResult", "Answerer"]
