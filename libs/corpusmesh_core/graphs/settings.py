"""Whether and how a graph is made: the section `graph` of a knowledge base's configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from corpusmesh_core.errors import InvalidArgumentError

GRAPH: Final = "graph"
"""Section of a knowledge base's configuration."""

ENTITY_TYPES: Final = ("organization", "person", "geo", "event", "category")
"""Types that a language model looks for, as in the seed's system."""


class GraphMethod(StrEnum):
    """How entities and relations are found."""

    NER = "ner"
    LIGHT = "light"
    GENERAL = "general"
    TRIPLES = "triples"


class Resolution(StrEnum):
    """Which names are held to be one entity."""

    OFF = "off"
    RULE = "rule"
    EMBEDDING = "embedding"
    LLM = "llm"
    LOOSE = "loose"


class ReportMethod(StrEnum):
    """Who writes the reports of communities."""

    OFF = "off"
    LITE = "lite"
    LLM = "llm"


class GraphVectors(StrEnum):
    """What of a graph has vectors of its own."""

    NONE = "none"
    ENTITIES = "entities"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """How a graph is made; settings that exist are valid.

    Attributes:
        methods: How entities and relations are found; none for no graph.
        entity_types: Types that a language model looks for.
        gleanings: How often a language model is asked what it has missed.
        resolution: Which names are held to be one entity.
        reports: Who writes the reports of communities.
        max_community_size: Most entities of a community of the finest level.
        vectors: What has vectors of its own; None for the default of the methods, see `effective_vectors`.
        merged_description_count: Descriptions of one entity or relation from which on a language model merges them.
        extraction_tokens: Tokens of chunks that a language model reads at once.
        max_chunk_relations: Most relations of a chunk that NER keeps.
        prompt: What a language model should mind besides.
        max_errors: Calls that may fail in a row for one document before it is left to NER.
        max_model_calls: Most calls of one build; 0 for no bound.
        max_model_tokens: Most tokens of one build, sent and received; 0 for no bound.
        auto_update: Whether the graph follows what is published by itself.
    """

    methods: tuple[GraphMethod, ...] = ()
    entity_types: tuple[str, ...] = ENTITY_TYPES
    gleanings: int = 0
    resolution: Resolution = Resolution.RULE
    reports: ReportMethod = ReportMethod.LITE
    max_community_size: int = 12
    vectors: GraphVectors | None = None
    merged_description_count: int = 12
    extraction_tokens: int = 1200
    max_chunk_relations: int = 12
    prompt: str = ""
    max_errors: int = 3
    max_model_calls: int = 0
    max_model_tokens: int = 0
    auto_update: bool = True

    def __post_init__(self) -> None:
        for name, low, high in _RANGES:
            value = getattr(self, name)
            # The comparison is false for NaN, which must not pass.
            if not low <= value <= high:
                raise _invalid(name, f"{name} must be within {low:,}..{high:,}")
        if len(self.prompt) > _MAX_PROMPT_CHARACTERS:
            raise _invalid("prompt", f"prompt may have {_MAX_PROMPT_CHARACTERS:,} characters")
        if len(set(self.methods)) < len(self.methods):
            raise _invalid("methods", "name each method once")
        if not 1 <= len(self.entity_types) <= _MAX_TYPES:
            raise _invalid("entity_types", f"entity_types takes 1 to {_MAX_TYPES} types")
        if any(not name.strip() or len(name) > _MAX_TYPE_CHARACTERS for name in self.entity_types):
            raise _invalid("entity_types", f"a type has 1 to {_MAX_TYPE_CHARACTERS} characters")

    @property
    def is_on(self) -> bool:
        """Whether there is a graph."""
        return bool(self.methods)

    @property
    def model_methods(self) -> tuple[GraphMethod, ...]:
        """Methods that ask a language model."""
        return tuple(method for method in self.methods if method in (GraphMethod.LIGHT, GraphMethod.GENERAL))

    @property
    def effective_vectors(self) -> GraphVectors:
        """What has vectors of its own."""
        if self.vectors is not None:
            return self.vectors
        return GraphVectors.NONE if set(self.methods) <= {GraphMethod.NER} else GraphVectors.ALL

    @classmethod
    def of(cls, config: Mapping[str, object]) -> "GraphSettings":
        """Read the section of a knowledge base's configuration.

        Args:
            config: The configuration.

        Returns:
            The settings; those of no graph where there is no section.

        Raises:
            InvalidArgumentError: GRAPH_SETTING_INVALID or SETTING_UNKNOWN with the field.
        """
        section = config.get(GRAPH)
        values: dict[str, Any] = dict(section) if isinstance(section, Mapping) else {}
        for name, kind in _ENUMS.items():
            if name in values:
                values[name] = _member(kind, values[name], name)
        values["methods"] = tuple(_member(GraphMethod, item, "methods") for item in _listed(values, "methods"))
        if types := _listed(values, "entity_types"):
            values["entity_types"] = tuple(map(str, types))
        else:
            values.pop("entity_types", None)
        for name in _ZERO_IS_DEFAULT:
            # The contract says 0 for what is not set.
            if values.get(name) == 0:
                del values[name]
        try:
            return cls(**values)
        except TypeError as error:
            known = ", ".join(cls.__slots__)
            raise InvalidArgumentError("SETTING_UNKNOWN", f"{GRAPH} takes {known}", field=GRAPH) from error


def _listed(values: Mapping[str, Any], name: str) -> Sequence[object]:
    given = values.get(name, ())
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise _invalid(name, f"{name} must be a list")
    return given


def _member(kind: type[StrEnum], value: object, name: str) -> StrEnum:
    try:
        return kind(str(value))
    except ValueError as error:
        raise _invalid(name, f"{name} must be one of {', '.join(kind)}") from error


def _invalid(name: str, message: str) -> InvalidArgumentError:
    return InvalidArgumentError("GRAPH_SETTING_INVALID", message, field=f"{GRAPH}.{name}", setting=name)


_MAX_PROMPT_CHARACTERS: Final = 2000
_MAX_TYPES: Final = 32
_MAX_TYPE_CHARACTERS: Final = 64
_RANGES: Final[tuple[tuple[str, float, float], ...]] = (
    ("gleanings", 0, 5),
    ("max_community_size", 4, 100),
    ("merged_description_count", 2, 100),
    ("extraction_tokens", 256, 100_000),
    ("max_chunk_relations", 1, 100),
    ("max_errors", 0, 100),
    ("max_model_calls", 0, 2**53),
    ("max_model_tokens", 0, 2**53),
)
_ZERO_IS_DEFAULT: Final = frozenset(
    {"max_community_size", "merged_description_count", "extraction_tokens", "max_chunk_relations"}
)
_ENUMS: Final[Mapping[str, type[StrEnum]]] = {
    "resolution": Resolution,
    "reports": ReportMethod,
    "vectors": GraphVectors,
}
