"""The page of settings, made from the models that read them."""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import PurePath
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from corpusmesh_app.reference.tables import GENERATED, table
from corpusmesh_app.settings import CONFIG_VARIABLE, MeshSettings

_PREFIX: Final = str(MeshSettings.model_config.get("env_prefix", ""))
_UNITS: Final = {"_seconds": "s", "_milliseconds": "ms"}
_BOUNDS: Final = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
_INTRODUCTION: Final = f"""\
A value comes from, in order of weight: the environment variable, the YAML file that `--config` or `{CONFIG_VARIABLE}`
names, the default. In the file, sections nest as the names show:

```yaml
ingest:
  max_document_bytes: 104857600
  worker:
    bulk_slots: 4
```

An unknown section or name in the file, or a value out of bounds, ends the process with a message that names it.
Secrets are never values: a setting names the file that holds one. A list in a variable is JSON:
`CORPUSMESH_IDENTITY__KEY_FILES='["/run/secrets/identity"]'`. `corpusmesh config print` shows the configuration in
force.

`corpusmesh up` fills in what is empty in `postgres.dsn`, `opensearch.url`, `nats.url` and `object_store.url` with
servers of its own, makes an identity key, chooses free ports, and writes the result to `<data>/config.yaml`.
"""


def _plain(value: object) -> str:
    """Show a default as a person would write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or value in ("", ()):
        return "none"
    if isinstance(value, StrEnum):
        return f"`{value.value}`"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, int):
        return f"{value:,}"
    return f"`{value}`"


def _default(name: str, value: object) -> str:
    text = _plain(value)
    unit = next((unit for suffix, unit in _UNITS.items() if name.endswith(suffix)), "")
    if name.endswith("_bytes") and isinstance(value, int) and value >= 1024:
        for size, label in ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB")):
            if value % size == 0:
                return f"{value // size} {label}"
    return f"{text} {unit}".strip()


def _bounds(field: FieldInfo) -> str:
    parts = [
        f"{symbol} {_plain(limit)}"
        for rule in field.metadata
        for attribute, symbol in _BOUNDS.items()
        if (limit := getattr(rule, attribute, None)) is not None
    ]
    annotation = field.annotation
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        parts.append(", ".join(f"`{choice.value}`" for choice in annotation))
    elif annotation is bool:
        parts.append("true, false")
    elif isinstance(field.default, PurePath) or "Path" in str(annotation):
        parts.append("path")
    return "; ".join(parts)


def _rows(model: BaseModel, path: tuple[str, ...]) -> Iterator[tuple[str, str, str, str]]:
    for name, field in type(model).model_fields.items():
        value: Any = getattr(model, name)
        where = (*path, name)
        if isinstance(value, BaseModel):
            yield from _rows(value, where)
        else:
            variable = _PREFIX + "__".join(where).upper()
            yield f"`{'.'.join(where)}`<br>`{variable}`", _default(name, value), _bounds(field), field.description or ""


def configuration_page() -> str:
    """Make the page of settings.

    Returns:
        Markdown; every setting with its variable, default, bounds and meaning.
    """
    lines = [GENERATED, "", "# Configuration", "", _INTRODUCTION]
    for name, field in MeshSettings.model_fields.items():
        lines += [f"## {name}", "", field.description or "", ""]
        lines += table(("Setting and variable", "Default", "Bounds", "Meaning"), _rows(field.default, (name,)))
    return "\n".join(lines)
