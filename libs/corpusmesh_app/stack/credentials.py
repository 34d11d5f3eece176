"""Passwords and keys of the embedded servers: random, made once, in a file that only its owner reads."""

import json
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from corpusmesh_core.errors import FailedPreconditionError

_SECRET_BYTES: Final = 24  # 192 bits


def write_private(path: Path, content: str) -> None:
    """Write a file that only its owner reads, whole or not at all.

    Args:
        path: The file; replaced if it is there.
        content: Its text.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(content)
    temporary.replace(path)


def load_credentials(path: Path, names: Iterable[str]) -> dict[str, str]:
    """Read the secrets, making those that are not there yet.

    Args:
        path: The file of secrets.
        names: The secrets that are needed.

    Returns:
        Every secret by name; URL-safe text.

    Raises:
        FailedPreconditionError: STACK_CREDENTIALS_UNREADABLE if the file is there but cannot be used. New secrets would
            lock the data out, so none are made.
    """
    found: dict[str, str] = {}
    if path.exists():
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            found = {str(key): str(value) for key, value in content.items()}
        except (OSError, ValueError, AttributeError) as error:
            raise FailedPreconditionError(
                "STACK_CREDENTIALS_UNREADABLE",
                f"{path} holds the servers' passwords and cannot be read ({error}); restore it, or use another folder",
                path=path,
            ) from error
    # hex, not base64: nothing in a password needs quoting in SQL, TOML, JSON or a URL
    missing = {name: secrets.token_hex(_SECRET_BYTES) for name in names if name not in found}
    if missing:
        found.update(missing)
        write_private(path, json.dumps(found, indent=1))
    return found
