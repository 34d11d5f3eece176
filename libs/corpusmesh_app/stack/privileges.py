"""Run servers without root's power.

OpenSearch and Postgres refuse to run as root. Started by root, every server runs as an unprivileged user, and of the
checkout only the servers' own folders change hands. Where that user cannot even reach them (a checkout below a folder
with mode 0700) the process gets one ambient capability that lets it pass, and nothing else of root's.
"""

import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corpusmesh_core.errors import FailedPreconditionError

_USER: Final = "corpusmesh"
_FALLBACK_USER: Final = "nobody"
_USERADD_TIMEOUT_SECONDS: Final = 30.0
# To pass folders, DAC_READ_SEARCH suffices; containers often have only DAC_OVERRIDE.
_PASSING_CAPABILITIES: Final = (("dac_read_search", 2), ("dac_override", 1))


@dataclass(frozen=True, slots=True)
class Identity:
    """The user that servers run as.

    Attributes:
        uid: User id.
        gid: Group id.
        capability: The ambient capability that lets it pass closed folders; None where it needs none.
    """

    uid: int
    gid: int
    capability: str | None


def choose_identity(paths: Iterable[Path]) -> Identity | None:
    """Choose who servers run as.

    Args:
        paths: What the servers must reach.

    Returns:
        The unprivileged user, or None if this process is not root: then servers run as the same user as it.

    Raises:
        FailedPreconditionError: SERVER_PATH_CLOSED if the user cannot reach a path and may not be given the means.
    """
    if os.geteuid() != 0:
        return None
    user = _unprivileged_user()
    closed = [path for path in paths if not _reaches(user.pw_uid, path)]
    if not closed:
        return Identity(user.pw_uid, user.pw_gid, None)
    bounding_set = _bounding_set()
    for capability, bit in _PASSING_CAPABILITIES:
        if bounding_set >> bit & 1:
            return Identity(user.pw_uid, user.pw_gid, capability)
    raise FailedPreconditionError(
        "SERVER_PATH_CLOSED",
        f"the user {user.pw_name} that servers run as cannot reach {closed[0]}; open its parent folders with chmod o+x",
        user=user.pw_name,
        path=closed[0],
    )


def spawn_prefix(identity: Identity | None, death_signal: str) -> list[str]:
    """Make the start of a command line that drops privileges and ties the process to the life of this one.

    `setpriv` sets the death signal last, after the change of user, which would clear it.

    Args:
        identity: Who to become; None to stay.
        death_signal: What the process gets when this one dies, however it dies; without `SIG`.

    Returns:
        The words to put before a command.

    Raises:
        FailedPreconditionError: SETPRIV_MISSING if util-linux is not installed.
    """
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise FailedPreconditionError("SETPRIV_MISSING", "the command setpriv is missing; install util-linux")
    prefix = [setpriv, "--no-new-privs", "--pdeathsig", death_signal]
    if identity is not None:
        prefix += ["--reuid", str(identity.uid), "--regid", str(identity.gid), "--clear-groups"]
        capability = f",+{identity.capability}" if identity.capability else ""
        prefix += ["--inh-caps", f"-all{capability}", "--ambient-caps", f"-all{capability}"]
        if identity.capability:
            # access(2), by which Java asks whether a file is there, ignores capabilities of a user other than root
            # unless this bit is set.
            prefix += ["--securebits", "+no_setuid_fixup"]
    return [*prefix, "--"]


def hand_over(directory: Path, identity: Identity | None) -> None:
    """Make a server's own folder and give it to the user that the server runs as.

    Args:
        directory: The folder; everything in it changes hands if it did not belong to that user.
        identity: The user; None for this process's.
    """
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    if identity is None or directory.stat().st_uid == identity.uid:
        return
    for folder, folders, files in os.walk(directory):
        for name in (*folders, *files):
            os.chown(Path(folder) / name, identity.uid, identity.gid, follow_symlinks=False)
    # The folder itself last: its owner says that all of it was done.
    os.chown(directory, identity.uid, identity.gid)


def give_file(path: Path, identity: Identity | None) -> None:
    """Give one file to the user that the server runs as."""
    if identity is not None:
        os.chown(path, identity.uid, identity.gid)


def _unprivileged_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(_USER)
    except KeyError:
        pass
    useradd = shutil.which("useradd")
    if useradd is not None:
        subprocess.run(
            [useradd, "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", _USER],
            check=False,  # on a read-only /etc the fallback does
            capture_output=True,
            timeout=_USERADD_TIMEOUT_SECONDS,
        )
    try:
        return pwd.getpwnam(_USER)
    except KeyError:
        return pwd.getpwnam(_FALLBACK_USER)


def _reaches(uid: int, path: Path) -> bool:
    """Say whether a user can pass every folder above a path, and read the path itself where it is there already."""
    path = path.resolve()
    if path.exists() and path.stat().st_uid != uid and not path.stat().st_mode & stat.S_IROTH:
        return False
    for parent in path.parents:
        if not parent.exists():
            continue  # made later by this process, open to all
        status = parent.stat()
        needed = stat.S_IXUSR if status.st_uid == uid else stat.S_IXOTH
        if not status.st_mode & needed:
            return False
    return True


def _bounding_set() -> int:
    """Read which capabilities a process of ours may ever have."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("CapBnd:"):
            return int(line.split()[1], 16)
    return 0
