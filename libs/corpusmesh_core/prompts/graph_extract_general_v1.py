"""Prompt for the entities and relations of a few chunks, version 1: thorough, JSON."""

from typing import Final

GRAPH_EXTRACT_GENERAL_VERSION: Final = "graph_extract_general_v1"
"""Part of the key under which answers are kept, and of what decides a subgraph."""

GRAPH_EXTRACT_GENERAL_V1: Final = """\
Read the passages as somebody who maps what is known there. Proceed in this order.
1. Entities: everything with a name or a settled term that someone could look up, of one of these types: {types}. At \
most {max_entities}, the most telling first. No pronouns, no bare numbers or dates. Where the passages use several \
forms of one name, take the fullest, and use it throughout. Describe each in one to three sentences: what it is, what \
it does, its figures and dates, as far as the passages say so.
2. Relations: every pair of these entities that a passage connects by an act, a part, a cause, a place, a time or a \
comparison. Give the verb phrase that leads from source to target, one or two sentences with the circumstances, up to \
five keywords for the general subject, and a strength: 1 for a mention side by side, 10 where one makes no sense \
without the other.
Write in {language}. Say nothing that the passages do not say.
Answer with one JSON object in this form and nothing before or behind it; empty lists where there is nothing:
{"entities":[{"name":"","type":"","description":""}],"relations":[{"source":"","target":"","predicate":"",\
"description":"","keywords":[""],"strength":5}]}"""
"""Current instructions."""
