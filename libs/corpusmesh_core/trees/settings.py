"""Whether and how trees are made: the section `tree` of a knowledge base's configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from corpusmesh_core.errors import InvalidArgumentError

TREE: Final = "tree"
"""Section of a knowledge base's configuration."""

LLM_SUMMARY_TOKENS: Final = 256
LITE_SUMMARY_TOKENS: Final = 128


class TreeScope(StrEnum):
    """What a tree is made of."""

    OFF = "off"
    FILE = "file"
    DATASET = "dataset"


class TreeMethod(StrEnum):
    """How chunks and summaries are put together."""

    WATERSHED = "watershed"
    MIXTURE = "mixture"
    PAGE = "page"
    SECTION = "section"


class SummaryMethod(StrEnum):
    """Who writes a summary."""

    LITE = "lite"
    LLM = "llm"


@dataclass(frozen=True, slots=True)
class TreeSettings:
    """How trees are made; settings that exist are valid.

    Defaults are those of the seed (`000_3271a9def2ed8e29.txt`, section 2) where it names one.

    Attributes:
        scope: What a tree is made of.
        method: How chunks are put together.
        clustering_threshold: Share of the neighbouring pairs that are parted.
        clustering_ratio: Most nodes of a layer against the layer beneath.
        small_layer_size: Layers of at most so many nodes get one node above them.
        max_cluster_size: Most children of a node.
        random_seed: Seed of what is drawn by chance.
        summaries: Who writes the summaries.
        summary_tokens: Most tokens of a summary; 0 for the default of who writes.
        context_tokens: Tokens that a language model reads and writes in one call.
        prompt: What a language model should mind besides.
        max_errors: Calls that may fail before the rest is made of sentences.
        max_model_calls: Most calls of one build, or for one document; 0 for no bound. A call that the client repeats
            before the first text comes, since the service was away, is one call.
        max_model_tokens: Most tokens of one build, or for one document, sent and received; 0 for no bound. A build that
            dies and goes on counts what it was charged before; a document whose task starts again counts anew, with
            the answers that were kept for nothing.
        auto_update: Whether the tree of a knowledge base follows what is published by itself.
    """

    scope: TreeScope = TreeScope.OFF
    method: TreeMethod = TreeMethod.WATERSHED
    clustering_threshold: float = 0.3
    clustering_ratio: float = 0.5
    small_layer_size: int = 8
    max_cluster_size: int = 64
    random_seed: int = 0
    summaries: SummaryMethod = SummaryMethod.LITE
    summary_tokens: int = 0
    context_tokens: int = 8192
    prompt: str = ""
    max_errors: int = 3
    max_model_calls: int = 0
    max_model_tokens: int = 0
    auto_update: bool = True

    def __post_init__(self) -> None:
        for name, low, high in _RANGES:
            value = getattr(self, name)
            # The comparison is false for NaN, which must not pass.
            if not low <= value <= high and not (value == 0 and name in _ZERO_IS_DEFAULT):
                raise InvalidArgumentError(
                    "TREE_SETTING_INVALID",
                    f"{name} must be within {low:,}..{high:,}",
                    field=f"{TREE}.{name}",
                    setting=name,
                    value=value,
                )
        if len(self.prompt) > _MAX_PROMPT_CHARACTERS:
            raise InvalidArgumentError(
                "TREE_SETTING_INVALID",
                f"prompt may have {_MAX_PROMPT_CHARACTERS:,} characters",
                field=f"{TREE}.prompt",
                setting="prompt",
            )
        if self.scope is TreeScope.DATASET and self.method in (TreeMethod.PAGE, TreeMethod.SECTION):
            raise InvalidArgumentError(
                "TREE_SETTING_INVALID",
                f"method {self.method} is for the scope of files",
                field=f"{TREE}.method",
                setting="method",
            )
        if 2 * self.effective_summary_tokens > self.context_tokens:
            raise InvalidArgumentError(
                "TREE_SETTING_INVALID",
                "summary_tokens must leave at least half of context_tokens to what is summarized",
                field=f"{TREE}.summary_tokens",
                setting="summary_tokens",
            )

    @property
    def effective_summary_tokens(self) -> int:
        """Most tokens of a summary."""
        default = LLM_SUMMARY_TOKENS if self.summaries is SummaryMethod.LLM else LITE_SUMMARY_TOKENS
        return self.summary_tokens or default

    @classmethod
    def of(cls, config: Mapping[str, object]) -> "TreeSettings":
        """Read the section of a knowledge base's configuration.

        Args:
            config: The configuration.

        Returns:
            The settings; those of no tree where there is no section.

        Raises:
            InvalidArgumentError: TREE_SETTING_INVALID or SETTING_UNKNOWN with the field.
        """
        section = config.get(TREE)
        values: dict[str, Any] = dict(section) if isinstance(section, Mapping) else {}
        for name, kind in _ENUMS.items():
            if name in values:
                values[name] = _member(kind, values[name], name)
        for name in _ZERO_IS_DEFAULT:
            # The contract says 0 for what is not set.
            if values.get(name) == 0:
                del values[name]
        try:
            return cls(**values)
        except TypeError as error:
            known = ", ".join(cls.__slots__)
            raise InvalidArgumentError("SETTING_UNKNOWN", f"{TREE} takes {known}", field=TREE) from error


def _member(kind: type[StrEnum], value: object, name: str) -> StrEnum:
    try:
        return kind(str(value))
    except ValueError as error:
        raise InvalidArgumentError(
            "TREE_SETTING_INVALID",
            f"{name} must be one of {', '.join(kind)}",
            field=f"{TREE}.{name}",
            setting=name,
        ) from error


_MAX_PROMPT_CHARACTERS: Final = 2000
_RANGES: Final[tuple[tuple[str, float, float], ...]] = (
    ("clustering_threshold", 0.01, 0.99),
    ("clustering_ratio", 0.05, 0.9),
    ("small_layer_size", 2, 64),
    ("max_cluster_size", 4, 512),
    ("summary_tokens", 32, 1024),
    ("context_tokens", 1024, 1_000_000),
    ("max_errors", 0, 100),
    ("max_model_calls", 0, 2**53),
    ("max_model_tokens", 0, 2**53),
)
_ZERO_IS_DEFAULT: Final = frozenset({"small_layer_size", "max_cluster_size", "summary_tokens", "context_tokens"})
_ENUMS: Final[Mapping[str, type[StrEnum]]] = {
    "scope": TreeScope,
    "method": TreeMethod,
    "summaries": SummaryMethod,
}
