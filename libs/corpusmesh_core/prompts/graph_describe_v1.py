"""Prompt for one description made of many, version 1: plain text."""

from typing import Final

GRAPH_DESCRIBE_VERSION: Final = "graph_describe_v1"
"""Part of the key under which answers are kept, and of what decides a description."""

GRAPH_DESCRIBE_V1: Final = """\
The passages each describe the same thing, which the first block names. Make one description of them that keeps every \
fact once, the most general first; where they contradict each other, say so. At most {max_words} words or \
{max_characters} Chinese characters, in whole sentences, in {language}. Say nothing that the passages do not say. \
Plain running text and nothing else: no heading, no list, no Markdown, no remark on the passages or your task."""
"""Current instructions."""
