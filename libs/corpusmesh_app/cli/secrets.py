"""Shows a secret once, or writes it to a file that only its owner reads."""

import os
from collections.abc import Mapping
from pathlib import Path

from corpusmesh_app.cli.output import Output
from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError

_MAX_PASSWORD_FILE_BYTES = 8192


def check_secret_file(path: Path | None) -> None:
    """Check that a secret can be written, before the call that makes it: afterwards it would be lost.

    Args:
        path: The file; None if the secret is shown.

    Raises:
        FailedPreconditionError: If it exists, or its folder does not.
    """
    if path is not None and (path.exists() or not path.absolute().parent.is_dir()):
        raise FailedPreconditionError(
            "SECRET_FILE_INVALID", f"{path} exists or its folder does not; name a new file", path=path
        )


def print_secret(output: Output, shape: Mapping[str, object], secret: str, path: Path | None, sentence: str) -> None:
    """Print a result whose secret is known this once.

    Args:
        output: Prints.
        shape: The rest of the result.
        secret: The secret.
        path: File to write it to instead; None to show it.
        sentence: What was done, for people.
    """
    if path is not None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(secret + "\n")
        shape = {**shape, "secret": None, "secret_file": str(path)}
        text = f"{sentence}\nIts key is in {path}."
    else:
        shape = {**shape, "secret": secret, "secret_file": None}
        text = f"{sentence}\nIts key, shown this once: {secret}"
    output.result(shape, lambda console: console.print(text))


def read_password(path: Path | None) -> str:
    """Read what opens an encrypted document: never an argument, which every process of the machine could read.

    Args:
        path: File whose first line it is; None for no password.

    Returns:
        The password; "" for none.

    Raises:
        InvalidArgumentError: PASSWORD_FILE_INVALID if the file cannot be read or its first line is empty.
    """
    if path is None:
        return ""
    try:
        with path.open("rb") as source:
            lines = source.read(_MAX_PASSWORD_FILE_BYTES).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError("PASSWORD_FILE_INVALID", f"{path} cannot be read as text", path=path) from error
    if not lines or not lines[0]:
        raise InvalidArgumentError("PASSWORD_FILE_INVALID", f"the first line of {path} is empty", path=path)
    return lines[0]
