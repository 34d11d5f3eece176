"""Settings that chunk templates share: the budget of every chunk, and how running text is cut."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from corpusmesh_core.errors import InvalidArgumentError

MIN_BUDGET_TOKENS = 32
"""Smaller budgets cut words to pieces, and a single character may take ten byte tokens."""

MAX_BREAK_TOKENS = 1_000_000
"""Most tokens that may be asked for before a heading starts a new chunk; above the budget it never does."""

MAX_CONTEXT_TOKENS = 64
"""Longest contextual header; of an embedder that reads little, at most a quarter."""


def invalid_setting(setting: str, allowed: str) -> InvalidArgumentError:
    """Make the error for a setting that cannot work.

    Args:
        setting: Its name.
        allowed: What it must be, as the end of a sentence.

    Returns:
        CHUNK_SETTING_INVALID with the field.
    """
    return InvalidArgumentError(
        "CHUNK_SETTING_INVALID", f"The setting {setting} must be {allowed}.", field=setting, setting=setting
    )


def require_choice(setting: str, value: str, choices: Iterable[str]) -> None:
    """Refuse a value that is none of the choices.

    Args:
        setting: Name of the setting.
        value: Its value.
        choices: What it may be.

    Raises:
        InvalidArgumentError: CHUNK_SETTING_INVALID with the field.
    """
    known = tuple(choices)
    if value not in known:
        raise invalid_setting(setting, f"one of {', '.join(known)}")


def require_range(setting: str, value: int, lowest: int, highest: int) -> None:
    """Refuse a number outside of a range.

    Args:
        setting: Name of the setting.
        value: Its value.
        lowest: Least value allowed.
        highest: Greatest value allowed.

    Raises:
        InvalidArgumentError: CHUNK_SETTING_INVALID with the field.
    """
    if not lowest <= value <= highest:
        raise invalid_setting(setting, f"{lowest} to {highest}")


@dataclass(frozen=True, slots=True)
class BudgetSettings:
    """What every template can be told.

    Attributes:
        max_tokens: Budget of a chunk's text in the embedder's tokens; 400 leaves room for a contextual header in
            models that read 512.
        embedder_max_tokens: What the embedder can read of a text, its special tokens, prefix and the document's title
            taken off; no chunk with its contextual header is over it. The service sets it.
        contextual_header: Whether a chunk carries, beside its text, the headings above it and the caption or header of
            its table (`Chunk.context`): embedded and searched, not shown. At most 64 tokens.
        table_html: Whether a chunk carries its tables, or the rows of them that it holds, as HTML too
            (`Chunk.attributes["table_html"]`, at most 20,000 characters), merged cells included.
    """

    max_tokens: int = 400
    embedder_max_tokens: int = 510
    contextual_header: bool = True
    table_html: bool = False

    def __post_init__(self) -> None:
        """Refuse settings that cannot work.

        Raises:
            InvalidArgumentError: CHUNK_SETTING_INVALID with the field.
        """
        if self.max_tokens < MIN_BUDGET_TOKENS:
            raise invalid_setting("max_tokens", f"at least {MIN_BUDGET_TOKENS}")
        if self.embedder_max_tokens < MIN_BUDGET_TOKENS:
            raise invalid_setting("embedder_max_tokens", f"at least {MIN_BUDGET_TOKENS}")

    @property
    def budget_tokens(self) -> int:
        """The budget that holds: the smaller of the two maxima."""
        return min(self.max_tokens, self.embedder_max_tokens)

    @property
    def context_tokens(self) -> int:
        """Longest contextual header in tokens; 0 where there is none."""
        return min(MAX_CONTEXT_TOKENS, self.embedder_max_tokens // 4) if self.contextual_header else 0


@dataclass(frozen=True, slots=True)
class RunningTextSettings(BudgetSettings):
    """What every template for running text can be told.

    Attributes:
        overlap_tokens: Whole sentences of the chunk before, up to this many tokens, repeated at a chunk's start; 0 by
            default: retrieval can fetch neighbours instead, and each repeated token is embedded and stored twice.
        delimiters: What ends a sentence; text is cut only after one of them while the parts fit the budget.
        exact_delimiters: Where any is given, text is cut after exactly these and nowhere else, and the parts are not
            packed together: each is a chunk, only one over the budget is split. The delimiter stays at the end of its
            part. A value in backticks, as other systems write it, is taken without them.
        children_delimiter: Where given, each chunk becomes a parent (role PARENT: stored and read, not searched, and
            bounded by `max_tokens` alone), and its parts, split after each of these delimiters, are what is searched.
            A line break also splits between paragraphs, list items and table rows.
        child_max_tokens: Budget of such a part.
    """

    overlap_tokens: int = 0
    delimiters: tuple[str, ...] = field(
        default=("\n", "。", "！", "？", "；", "…", ". ", "! ", "? ", "; ", ".\u3000", "．"),
    )
    exact_delimiters: tuple[str, ...] = ()
    children_delimiter: str = ""
    child_max_tokens: int = 128

    def __post_init__(self) -> None:
        """Refuse settings that cannot work.

        Raises:
            InvalidArgumentError: CHUNK_SETTING_INVALID with the field.
        """
        # A class with slots is made twice, and `super()` would mean the first one.
        BudgetSettings.__post_init__(self)
        if not 0 <= self.overlap_tokens <= self.budget_tokens // 2:
            raise invalid_setting("overlap_tokens", f"0 to {self.budget_tokens // 2}, half the budget")
        require_texts("delimiters", self.delimiters)
        require_texts("exact_delimiters", self.exact_delimiters)
        if self.children_delimiter and self.child_max_tokens < MIN_BUDGET_TOKENS:
            raise invalid_setting("child_max_tokens", f"at least {MIN_BUDGET_TOKENS}")

    @property
    def budget_tokens(self) -> int:
        """The budget that holds; a parent is not embedded, so the embedder does not bound it."""
        return self.max_tokens if self.children_delimiter else min(self.max_tokens, self.embedder_max_tokens)


def require_texts(setting: str, values: Sequence[str]) -> None:
    """Refuse values that are not all texts of at least one character.

    Args:
        setting: Name of the setting.
        values: Its values.

    Raises:
        InvalidArgumentError: CHUNK_SETTING_INVALID with the field.
    """
    if not isinstance(values, tuple) or not all(isinstance(text, str) and text for text in values):
        raise invalid_setting(setting, "a list of texts of at least one character")
