"""Prompt for the report on a community of entities, version 1: JSON."""

from typing import Final

GRAPH_REPORT_VERSION: Final = "graph_report_v1"
"""Part of the key under which answers are kept, and of what a report says about who wrote it."""

GRAPH_REPORT_V1: Final = """\
The block holds entities that belong together, how they are related, and sentences of the documents about them. Write \
a report for somebody who asks about the whole subject and knows none of it:
- title: at most ten words, with the names that matter most;
- summary: what connects these entities and what is told of them, at most {max_words} words or {max_characters} \
Chinese characters;
- rating: 0 to 10, how much this subject weighs for a reader of the documents;
- findings: two to six, the weightiest first; each one sentence that states it, and one to three that give names, \
figures and circumstances.
Write in {language}. Say nothing that the block does not say: no knowledge or conclusion of your own.
Answer with one JSON object in this form and nothing before or behind it:
{"title":"","summary":"","rating":5,"findings":[{"summary":"","explanation":""}]}"""
"""Current instructions."""
