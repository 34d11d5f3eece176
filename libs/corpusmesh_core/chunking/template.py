"""What a chunk template is: a name, documented settings and a pure function."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from corpusmesh_core.documents import Chunk, ParsedDocument
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.embedding import TextTokenizer


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """What a template made of a document.

    Attributes:
        chunks: In reading order, positions dense from 0 among those of each role; a parent stands before its children.
        warnings: What does not fit the template, one sentence each, without document text, at most
            `MAX_WARNINGS` and one that counts the others.
    """

    chunks: tuple[Chunk, ...]
    warnings: tuple[str, ...] = ()


MAX_WARNINGS = 20
"""Most warnings of a document that are written out."""


def bounded_warnings(warnings: Sequence[str]) -> tuple[str, ...]:
    """Keep the first warnings and count the others.

    Args:
        warnings: Any number of sentences.

    Returns:
        At most `MAX_WARNINGS` of them, and one more that says how many were left out.
    """
    if len(warnings) <= MAX_WARNINGS:
        return tuple(warnings)
    return (*warnings[:MAX_WARNINGS], f"{len(warnings) - MAX_WARNINGS} more warnings of this kind are not shown.")


@dataclass(frozen=True, slots=True)
class ChunkTemplate:
    """One way to cut documents into chunks.

    Attributes:
        name: Stable lower-case name, as in a knowledge base's configuration.
        summary: One sentence for the reader of a list of templates.
        settings_type: Frozen dataclass whose every field has a default; it validates itself.
        chunk: Cuts one document; pure, so a preview is the same call with the result thrown away.
    """

    name: str
    summary: str
    settings_type: type[Any]
    chunk: Callable[[ParsedDocument, TextTokenizer, Any], ChunkResult]

    def settings(self, values: Mapping[str, object]) -> Any:
        """Build the template's settings from configuration values.

        Args:
            values: Setting names and values; a JSON list stands for a tuple; what is missing keeps its default.

        Returns:
            An instance of `settings_type`.

        Raises:
            InvalidArgumentError: CHUNK_SETTING_UNKNOWN or CHUNK_SETTING_INVALID, with the field.
        """
        if not values:
            return self.settings_type()
        known = {entry.name: entry for entry in fields(self.settings_type)}
        accepted: dict[str, object] = {}
        for name, value in values.items():
            if name not in known:
                raise InvalidArgumentError(
                    "CHUNK_SETTING_UNKNOWN",
                    f"The template {self.name} has no setting {name!r}. It has: {', '.join(sorted(known))}.",
                    field=name,
                    template=self.name,
                    setting=name,
                )
            default = known[name].default
            accepted[name] = _typed(name, tuple(value) if isinstance(value, list) else value, default)
        return self.settings_type(**accepted)


def _typed(name: str, value: object, default: object) -> object:
    if default is MISSING or type(value) is type(default):
        return value
    if isinstance(default, float) and type(value) is int:
        return float(value)
    # Configurations that travelled through protobuf's Struct hold every number as a float.
    if type(default) is int and isinstance(value, float) and value.is_integer():
        return int(value)
    raise InvalidArgumentError(
        "CHUNK_SETTING_INVALID",
        f"The setting {name} takes a value like {default!r}, not {value!r}.",
        field=name,
        setting=name,
    )
