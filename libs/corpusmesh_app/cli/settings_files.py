"""Files with the settings of a knowledge base, YAML or JSON; documented in `docs/guide/cli.md`."""

from pathlib import Path
from typing import Final

import yaml

from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as pb
from corpusmesh_client.knowledge_base_settings import SECTIONS, settings_from_plain
from corpusmesh_core.errors import InvalidArgumentError

_MAX_FILE_BYTES: Final = 1024 * 1024


def read_settings(path: Path | None) -> tuple[pb.KnowledgeBase, tuple[str, ...]]:
    """Read a file of settings.

    Args:
        path: The file; None for no settings.

    Returns:
        A knowledge base with these settings alone, and the fields that the file sets.

    Raises:
        InvalidArgumentError: SETTINGS_UNREADABLE if it is no such file, SETTING_UNKNOWN or SETTING_INVALID with the
            field if it holds something else.
    """
    if path is None:
        return pb.KnowledgeBase(), ()
    try:
        with path.open("rb") as source:
            content = source.read(_MAX_FILE_BYTES + 1)
        # YAML reads JSON too.
        values = yaml.safe_load(content.decode()) if len(content) <= _MAX_FILE_BYTES else None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidArgumentError(
            "SETTINGS_UNREADABLE", f"the settings {path} cannot be read as YAML or JSON", path=path
        ) from error
    if not isinstance(values, dict):
        raise InvalidArgumentError(
            "SETTINGS_UNREADABLE",
            f"the settings {path} must be an object of at most {_MAX_FILE_BYTES} bytes with sections out of"
            f" {', '.join(SECTIONS)}",
            path=path,
        )
    return settings_from_plain(values), tuple(SECTIONS[section] for section in values)
