"""Prompt of the answer of a research, version 1: as of any answer, and of several parts."""

from corpusmesh_core.prompts.answer_prompt import AnswerPrompt
from corpusmesh_core.prompts.answer_v2 import ANSWER_V2

RESEARCH_REPORT_V1 = AnswerPrompt(
    version="research_report/1",
    system=f"""\
{ANSWER_V2.system}
7. The evidence was gathered by several searches for one question. Answer the whole question: begin with the answer in \
one or two sentences, then treat its parts one by one, each in a short paragraph or a list. Where a part stays without \
evidence, say which.""",
    before_evidence=ANSWER_V2.before_evidence,
    after_evidence=ANSWER_V2.after_evidence,
)
"""Current prompt of the answer of a research."""
