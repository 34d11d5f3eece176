"""Assemble the OpenSearch server from the artefacts that `opensearch.lock.json` names.

The tree appears under its final name by one rename, after every SHA-256 sum was checked: what is there is whole.
"""

import contextlib
import hashlib
import json
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import filelock
import requests
from maven_artifact import Artifact, RequestException

from corpusmesh_adapters.maven import download_artefact
from corpusmesh_core.errors import FailedPreconditionError, UnavailableError

TOOLS_DIRECTORY_VARIABLE: Final = "CORPUSMESH_TOOLS_DIRECTORY"

Progress = Callable[[int, int], None]
"""Called with the bytes fetched so far and the bytes in all."""

_LOCK_PATH: Final = Path(__file__).with_name("opensearch.lock.json")
_MARKER: Final = "corpusmesh-lock.sha256"
_DOWNLOAD_THREADS: Final = 12
_DOWNLOAD_ATTEMPTS: Final = 3
_MAX_ARTEFACT_BYTES: Final = 256 * 1024 * 1024
_INSTALL_LOCK_SECONDS: Final = 900.0
_EMPTY_FOLDERS: Final = ("bin", "extensions")  # the server makes them where they are missing, and may not write here

_DESCRIPTOR: Final = """description=OpenSearch {name}
version={version}
name={name}
classname={classname}
java.version=21
opensearch.version={version}
custom.foldername=
extended.plugins={extended_plugins}
has.native.controller=false
"""


@dataclass(frozen=True, slots=True)
class LockedArtefact:
    """One file of the lock.

    Attributes:
        coordinates: Group, artefact and version; classifier and extension follow.
        classifier: Empty for none.
        extension: `jar` or `zip`.
        folder: Where it goes, below the server's home.
        filename: Its name there.
        sha256: Lower-case hexadecimal sum of its content.
        size_bytes: Length of its content.
    """

    coordinates: tuple[str, str, str]
    classifier: str
    extension: str
    folder: str
    filename: str
    sha256: str
    size_bytes: int

    def __str__(self) -> str:
        return ":".join(self.coordinates)


def default_tools_directory() -> Path:
    """Say where programs are installed that no wheel brings.

    Returns:
        The environment's `CORPUSMESH_TOOLS_DIRECTORY`, else a folder inside the Python environment.
    """
    configured = os.environ.get(TOOLS_DIRECTORY_VARIABLE)
    return Path(configured).absolute() if configured else Path(sys.prefix) / "share" / "corpusmesh"


def opensearch_home(tools_directory: Path | None = None) -> Path | None:
    """Find the installed server.

    Args:
        tools_directory: Where programs are installed; None for the default.

    Returns:
        Its home, or None if it is not there or was made from another lock.
    """
    home = _home(tools_directory or default_tools_directory(), _read_lock(_LOCK_PATH))
    return home if _is_installed(home, _lock_hash(_LOCK_PATH)) else None


def install_opensearch(
    tools_directory: Path | None = None, progress: Progress | None = None, *, lock_path: Path = _LOCK_PATH
) -> Path:
    """Install the server that the lock describes, or find it installed.

    Args:
        tools_directory: Where programs are installed; None for the default.
        progress: Told of the bytes fetched; called from the calling thread.
        lock_path: The lock to install from.

    Returns:
        The server's home.

    Raises:
        FailedPreconditionError: OPENSEARCH_ARTEFACT_CORRUPT if a file is not what the lock says,
            OPENSEARCH_INSTALL_FAILED if the folder cannot be written.
        UnavailableError: OPENSEARCH_DOWNLOAD_FAILED if a file cannot be fetched, OPENSEARCH_INSTALL_BUSY if another
            process installs for too long.
    """
    directory = tools_directory or default_tools_directory()
    lock = _read_lock(lock_path)
    lock_hash = _lock_hash(lock_path)
    home = _home(directory, lock)
    if _is_installed(home, lock_hash):
        return home
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(directory / "install.lock", timeout=_INSTALL_LOCK_SECONDS):
            if _is_installed(home, lock_hash):  # by who held the lock
                return home
            _remove_leftovers(directory)
            with tempfile.TemporaryDirectory(prefix=".opensearch-", dir=directory) as temporary:
                tree = Path(temporary) / "tree"
                _assemble(tree, lock, progress)
                (tree / _MARKER).write_text(lock_hash, encoding="ascii")
                _open_to_readers(tree)
                shutil.rmtree(home, ignore_errors=True)
                tree.rename(home)
    except filelock.Timeout as error:
        raise UnavailableError(
            "OPENSEARCH_INSTALL_BUSY",
            f"another process has been installing into {directory} for {_INSTALL_LOCK_SECONDS:.0f} s; wait for it",
            directory=directory,
        ) from error
    except OSError as error:
        raise FailedPreconditionError(
            "OPENSEARCH_INSTALL_FAILED",
            f"cannot write {directory} ({error}); make room or set {TOOLS_DIRECTORY_VARIABLE} to another folder",
            directory=directory,
        ) from error
    return home


def _is_installed(home: Path, lock_hash: str) -> bool:
    with contextlib.suppress(OSError):
        return (home / _MARKER).read_text(encoding="ascii") == lock_hash
    return False


def _home(directory: Path, lock: Mapping[str, Any]) -> Path:
    return directory / f"opensearch-{lock['version']}"


def _read_lock(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _lock_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _remove_leftovers(directory: Path) -> None:
    """Remove what an install left that was killed; the caller holds the install lock."""
    for leftover in directory.glob(".opensearch-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _open_to_readers(tree: Path) -> None:
    """Let every user read the tree, whatever the umask: the server does not run as who installs it."""
    tree.chmod(0o755)
    for path in tree.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _artefacts(lock: Mapping[str, Any]) -> list[LockedArtefact]:
    return [
        LockedArtefact(
            (entry["group"], entry["artifact"], entry["version"]),
            entry["classifier"],
            entry["extension"],
            entry["folder"],
            entry["filename"],
            entry["sha256"],
            entry["size_bytes"],
        )
        for entry in lock["artefacts"]
    ]


def _assemble(tree: Path, lock: Mapping[str, Any], progress: Progress | None) -> None:
    artefacts = _artefacts(lock)
    for folder in {artefact.folder for artefact in artefacts}:
        (tree / folder).mkdir(parents=True)
    _fetch_all(tree, artefacts, progress)
    for artefact in artefacts:
        if artefact.extension == "zip":
            archive = tree / artefact.folder / artefact.filename
            with zipfile.ZipFile(archive) as opened:
                opened.extractall(archive.parent)
            archive.unlink()
    for folder in _EMPTY_FOLDERS:
        (tree / folder).mkdir()
    for plugin in lock["plugins"]:
        _describe(tree / plugin["folder"], plugin, lock["version"])


def _describe(folder: Path, plugin: Mapping[str, Any], version: str) -> None:
    """Write a module's descriptor, or correct what a plugin's own one extends."""
    descriptor = folder / "plugin-descriptor.properties"
    extended_plugins = ",".join(plugin["extended_plugins"])
    if descriptor.exists():
        lines = [
            f"extended.plugins={extended_plugins}" if line.startswith("extended.plugins=") else line
            for line in descriptor.read_text(encoding="utf-8").splitlines()
        ]
        descriptor.write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        descriptor.write_text(
            _DESCRIPTOR.format(
                name=plugin["name"],
                version=version,
                classname=plugin["classname"],
                extended_plugins=extended_plugins,
            ),
            encoding="utf-8",
        )


def _fetch_all(tree: Path, artefacts: Iterable[LockedArtefact], progress: Progress | None) -> None:
    pending = sorted(artefacts, key=lambda artefact: -artefact.size_bytes)
    total_bytes = sum(artefact.size_bytes for artefact in pending)
    done_bytes = 0
    with ThreadPoolExecutor(_DOWNLOAD_THREADS, thread_name_prefix="opensearch-install") as pool:
        futures = {pool.submit(_fetch, artefact, tree / artefact.folder): artefact for artefact in pending}
        try:
            for future in as_completed(futures):
                future.result()
                done_bytes += futures[future].size_bytes
                if progress is not None:
                    progress(done_bytes, total_bytes)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _fetch(artefact: LockedArtefact, folder: Path) -> None:
    """Fetch one file and check its sum.

    Raises:
        FailedPreconditionError: If the content is not what the lock says.
        UnavailableError: If it cannot be fetched.
    """
    group, name, version = artefact.coordinates
    path = folder / artefact.filename
    problem: Exception | None = None
    for _ in range(_DOWNLOAD_ATTEMPTS):
        path.unlink(missing_ok=True)
        try:
            found = download_artefact(
                Artifact(group, name, version, artefact.classifier or None, artefact.extension),
                path,
                max_bytes=_MAX_ARTEFACT_BYTES,
            )
        except (RequestException, requests.RequestException, OSError) as error:
            problem = error
            continue
        if found == artefact.sha256:
            return
        problem = FailedPreconditionError(
            "OPENSEARCH_ARTEFACT_CORRUPT",
            f"{artefact} has the SHA-256 sum {found} where the lock says {artefact.sha256}; "
            "it was changed on its way: do not use this repository, or make the lock anew",
            artefact=artefact,
            found_sha256=found,
            expected_sha256=artefact.sha256,
        )
    path.unlink(missing_ok=True)
    if isinstance(problem, FailedPreconditionError):
        raise problem
    raise UnavailableError(
        "OPENSEARCH_DOWNLOAD_FAILED",
        f"cannot fetch {artefact} ({problem}); check the network and run the installation again",
        artefact=artefact,
    ) from problem
