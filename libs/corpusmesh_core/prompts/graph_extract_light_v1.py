"""Prompt for the entities and relations of a few chunks, version 1: short, lines of tuples."""

from typing import Final

GRAPH_EXTRACT_LIGHT_VERSION: Final = "graph_extract_light_v1"
"""Part of the key under which answers are kept, and of what decides a subgraph."""

GRAPH_EXTRACT_LIGHT_V1: Final = """\
Write down who and what the passages name, and how these are related: one record a line, fields divided by "|", in \
exactly these forms:
entity | name | type | one short sentence with what the passages say of it
relation | name | name | 1 to 3 keywords, by commas | one short sentence with what the passages say of both | 1 to 10
The number says how strong the relation is. Types: {types}. First all entities, the most telling first, at most \
{max_entities}; then their relations. Take names of people, bodies, places, works, products, events and terms that \
someone could look up; no pronouns, no bare numbers or dates. Spell a name as the passages do, the same in every record.
Write in {language}. Say nothing that the passages do not say. Close with a line END; write END alone where there is \
nothing."""
"""Current instructions."""
