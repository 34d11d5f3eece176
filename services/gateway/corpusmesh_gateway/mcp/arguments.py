"""What each tool takes; its JSON schema is made of these."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from corpusmesh_core.request_limits import MAX_KNOWLEDGE_BASES, MAX_QUESTION_CHARACTERS

_NAME_PATTERN = r"^(knowledgeBases/)?[a-z0-9-]{1,63}$"
PresetName = Literal["fast", "balanced", "thorough"]


class ToolArguments(BaseModel):
    """Arguments of a tool; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NoArguments(ToolArguments):
    """Nothing."""


class _Asking(ToolArguments):
    knowledge_bases: list[str] = Field(
        default_factory=list,
        max_length=MAX_KNOWLEDGE_BASES,
        description="Knowledge bases, such as `knowledgeBases/handbook`; empty lets the router pick.",
        json_schema_extra={"items": {"type": "string", "pattern": _NAME_PATTERN}},
    )
    preset: PresetName | None = Field(
        default=None, description="How thoroughly to search; the knowledge base's own where it is left out."
    )


class SearchArguments(_Asking):
    """A search."""

    query: str = Field(min_length=1, max_length=MAX_QUESTION_CHARACTERS, description="A question or words.")
    top_k: int = Field(default=8, ge=1, le=50, description="Passages to return.")


class AskArguments(_Asking):
    """A question."""

    question: str = Field(min_length=1, max_length=MAX_QUESTION_CHARACTERS, description="The question, complete.")


class ResearchArguments(AskArguments):
    """A question for research."""

    max_seconds: int = Field(default=120, ge=2, le=1800, description="Seconds it may take.")


class ReadArguments(ToolArguments):
    """A place in a document."""

    uri: str = Field(
        max_length=500,
        description="URI of a citation or passage, `corpusmesh:///knowledgeBases/…/versions/2/pages/3`, or the name of "
        "a version, `knowledgeBases/…/versions/2`, for its beginning.",
    )
    neighbours: int = Field(
        default=2, ge=0, le=20, description="Chunks before and behind, where the URI names a chunk and no page."
    )


class OutlineArguments(ToolArguments):
    """A document, or a knowledge base."""

    name: str = Field(
        max_length=300,
        description="Document or version of a passage, such as `knowledgeBases/handbook/documents/manual`, or a "
        "knowledge base, such as `knowledgeBases/handbook`.",
    )
    max_summaries: int = Field(default=12, ge=1, le=100, description="Summaries to return, the most general first.")


class EntityArguments(ToolArguments):
    """An entity of the graph of a knowledge base."""

    knowledge_base: str = Field(
        max_length=300, description="Knowledge base, such as `knowledgeBases/handbook`.", pattern=_NAME_PATTERN
    )
    entity: str = Field(min_length=1, max_length=128, description="Name of the entity, as documents write it.")
    hops: int = Field(default=1, ge=1, le=3, description="How many relations away to look.")
    max_entities: int = Field(default=20, ge=1, le=100, description="Entities to return, the nearest first.")
