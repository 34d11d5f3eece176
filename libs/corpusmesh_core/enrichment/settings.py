"""What a knowledge base wants to be made of its documents: the section `enrichment` of its configuration.

    {"keywords": {"method": "lite", "count": 5}, "summaries": {"method": "llm", "scope": "page", "max_tokens": 200}}

Everything is off unless it is asked for. `lite` needs no model; `llm` asks the configured language model and falls back
to `lite`, item by item, where it does not answer or answers badly.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

from corpusmesh_core.errors import InvalidArgumentError

_PREFIX: Final = "enrichment"


class EnrichMethod(StrEnum):
    """How something is made."""

    OFF = "off"
    LITE = "lite"
    LLM = "llm"


class SummaryScope(StrEnum):
    """What gets a summary of its own."""

    PAGE = "page"
    SECTION = "section"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class KeywordSettings:
    """Keywords of every chunk.

    Attributes:
        method: How.
        count: Most keywords of a chunk, 1 to 32.
    """

    method: EnrichMethod = EnrichMethod.OFF
    count: int = 5


@dataclass(frozen=True, slots=True)
class QuestionSettings:
    """Questions that a chunk answers (HyPE): each has a vector of its own and leads to the chunk.

    Attributes:
        method: How.
        count: Most questions of a chunk, 1 to 10.
    """

    method: EnrichMethod = EnrichMethod.OFF
    count: int = 3


@dataclass(frozen=True, slots=True)
class SummarySettings:
    """Summaries of pages and sections.

    Attributes:
        method: How.
        scope: What gets one.
        max_tokens: Longest summary in tokens of the embedder, 32 to 1,000.
    """

    method: EnrichMethod = EnrichMethod.OFF
    scope: SummaryScope = SummaryScope.SECTION
    max_tokens: int = 200


@dataclass(frozen=True, slots=True)
class TocSettings:
    """A table of contents whose entries lead to chunks.

    Attributes:
        method: `lite` takes the document's bookmarks, else its headings; `llm` asks a model where there are neither.
    """

    method: EnrichMethod = EnrichMethod.OFF


@dataclass(frozen=True, slots=True)
class TagSettings:
    """Tags of chunks, from sets of tagged examples.

    Attributes:
        method: `off` or `lite`.
        tag_sets: Ids of the knowledge bases that hold the examples, at most 8.
        max_tags: Most tags of a chunk, 1 to 10.
        threshold: Least similarity between a chunk and an example, above 0 and below 1.
    """

    method: EnrichMethod = EnrichMethod.OFF
    tag_sets: tuple[str, ...] = ()
    max_tags: int = 3
    threshold: float = 0.2


@dataclass(frozen=True, slots=True)
class MetadataSettings:
    """Values of the metadata schema.

    Attributes:
        method: `lite` reads fields of sources "rule" and "parser"; `llm` those of source "llm" too.
    """

    method: EnrichMethod = EnrichMethod.OFF


@dataclass(frozen=True, slots=True)
class PropositionSettings:
    """Statements that stand alone, each with a vector of its own.

    Attributes:
        method: How.
        threshold: Least score of a model's statement in accuracy, clarity, completeness and conciseness, 1 to 10.
    """

    method: EnrichMethod = EnrichMethod.OFF
    threshold: int = 7


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """Pairs of a topic and what the document says of it (MemoRAG).

    Attributes:
        method: How.
    """

    method: EnrichMethod = EnrichMethod.OFF


@dataclass(frozen=True, slots=True)
class CaptionSettings:
    """Descriptions of pictures, as text that can be searched.

    Attributes:
        method: `off` or `lite`: the caption beside the picture, its own text and the headings above it.
    """

    method: EnrichMethod = EnrichMethod.OFF


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """What a chunk needs to be understood alone (contextual retrieval), besides the headings that the chunker gives.

    Attributes:
        method: `off` or `llm`; without a model the headings are all there is.
    """

    method: EnrichMethod = EnrichMethod.OFF


@dataclass(frozen=True, slots=True)
class EnrichmentSettings:
    """All of it; everything is off by default.

    Attributes:
        keywords: Keywords of chunks.
        questions: Questions that chunks answer.
        summaries: Summaries of pages and sections.
        toc: Table of contents.
        tags: Tags of chunks.
        metadata: Values of the metadata schema.
        propositions: Statements that stand alone.
        memory: Topics and what is said of them.
        captions: Descriptions of pictures.
        context: What chunks need to be understood alone.
    """

    keywords: KeywordSettings = field(default_factory=KeywordSettings)
    questions: QuestionSettings = field(default_factory=QuestionSettings)
    summaries: SummarySettings = field(default_factory=SummarySettings)
    toc: TocSettings = field(default_factory=TocSettings)
    tags: TagSettings = field(default_factory=TagSettings)
    metadata: MetadataSettings = field(default_factory=MetadataSettings)
    propositions: PropositionSettings = field(default_factory=PropositionSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    captions: CaptionSettings = field(default_factory=CaptionSettings)
    context: ContextSettings = field(default_factory=ContextSettings)

    @property
    def is_off(self) -> bool:
        """Whether nothing is asked for."""
        return all(getattr(self, section.name).method is EnrichMethod.OFF for section in fields(self))

    @property
    def wants_model(self) -> bool:
        """Whether anything asks for a language model."""
        return any(getattr(self, section.name).method is EnrichMethod.LLM for section in fields(self))

    @classmethod
    def from_config(cls, config: Mapping[str, object] | None) -> "EnrichmentSettings":
        """Read and check the section `enrichment` of a configuration.

        Args:
            config: The section; None or empty for nothing.

        Returns:
            The settings.

        Raises:
            InvalidArgumentError: ENRICHMENT_SETTING_INVALID, with the field and what it allows.
        """
        sections: dict[str, Any] = {}
        for name, section in _mapping(config or {}, _PREFIX).items():
            if name not in _READERS:
                raise _invalid(f"{_PREFIX}.{name}", f"one of the sections {', '.join(_READERS)}")
            sections[name] = _read_section(name, _mapping(section, f"{_PREFIX}.{name}"))
        return cls(**sections)


_Reader = Callable[[object, str], object]


def _method(*allowed: EnrichMethod) -> _Reader:
    def read(value: object, name: str) -> EnrichMethod:
        if isinstance(value, str) and value in allowed:
            return EnrichMethod(value)
        raise _invalid(name, "one of " + ", ".join(f'"{method}"' for method in allowed))

    return read


def _integer(least: int, most: int) -> _Reader:
    def read(value: object, name: str) -> int:
        # Configurations that travelled through protobuf's Struct hold every number as a float.
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(number, int) and not isinstance(number, bool) and least <= number <= most:
            return number
        raise _invalid(name, f"a whole number from {least} to {most}")

    return read


def _share(value: object, name: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1:
        return float(value)
    raise _invalid(name, "a number above 0 and below 1")


def _scope(value: object, name: str) -> SummaryScope:
    if isinstance(value, str) and value in frozenset(SummaryScope):
        return SummaryScope(value)
    raise _invalid(name, "one of " + ", ".join(f'"{scope}"' for scope in SummaryScope))


def _names(value: object, name: str) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and len(value) <= 8 and all(isinstance(item, str) and item for item in value):
        return tuple(dict.fromkeys(value))
    raise _invalid(name, "a list of at most 8 ids of knowledge bases")


_ANY_METHOD: Final = _method(EnrichMethod.OFF, EnrichMethod.LITE, EnrichMethod.LLM)
_ONLY_MODEL: Final = _method(EnrichMethod.OFF, EnrichMethod.LLM)
_NO_MODEL: Final = _method(EnrichMethod.OFF, EnrichMethod.LITE)
_READERS: Final[Mapping[str, tuple[type[Any], Mapping[str, _Reader]]]] = {
    "keywords": (KeywordSettings, {"method": _ANY_METHOD, "count": _integer(1, 32)}),
    "questions": (QuestionSettings, {"method": _ANY_METHOD, "count": _integer(1, 10)}),
    "summaries": (SummarySettings, {"method": _ANY_METHOD, "scope": _scope, "max_tokens": _integer(32, 1000)}),
    "toc": (TocSettings, {"method": _ANY_METHOD}),
    "tags": (
        TagSettings,
        {"method": _NO_MODEL, "tag_sets": _names, "max_tags": _integer(1, 10), "threshold": _share},
    ),
    "metadata": (MetadataSettings, {"method": _ANY_METHOD}),
    "propositions": (PropositionSettings, {"method": _ANY_METHOD, "threshold": _integer(1, 10)}),
    "memory": (MemorySettings, {"method": _ANY_METHOD}),
    "captions": (CaptionSettings, {"method": _NO_MODEL}),
    "context": (ContextSettings, {"method": _ONLY_MODEL}),
}


def _read_section(name: str, section: Mapping[str, object]) -> object:
    settings_type, readers = _READERS[name]
    values: dict[str, object] = {}
    for key, value in section.items():
        path = f"{_PREFIX}.{name}.{key}"
        if key not in readers:
            raise _invalid(path, f"one of the settings {', '.join(readers)}")
        values[key] = readers[key](value, path)
    made = settings_type(**values)
    if isinstance(made, TagSettings) and made.method is not EnrichMethod.OFF and not made.tag_sets:
        raise _invalid(f"{_PREFIX}.tags.tag_sets", "at least one id of a knowledge base that holds a tag set")
    return made


def _mapping(value: object, name: str) -> Mapping[str, object]:
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return value
    raise _invalid(name, "an object of settings")


def _invalid(name: str, allowed: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "ENRICHMENT_SETTING_INVALID", f"The setting {name} must be {allowed}.", field=name, allowed=allowed
    )
