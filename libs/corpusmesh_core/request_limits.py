"""How much one request may ask; what a gateway refuses or cuts early is what the service behind it refuses."""

from typing import Final

MAX_QUESTION_CHARACTERS: Final = 40_000
"""Of a question, where an installation sets nothing else."""
MAX_TURNS: Final = 50
"""Turns of a conversation that a request brings along."""
MAX_TURN_CHARACTERS: Final = 40_000
MAX_KNOWLEDGE_BASES: Final = 16
MAX_DOCUMENTS: Final = 1_000
MAX_METADATA_CONDITIONS: Final = 32
