"""What the supervisor asks of an embedded server."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from corpusmesh_app.stack.leftovers import DATA_VARIABLE
from corpusmesh_app.stack.privileges import Identity
from corpusmesh_app.stack.process import LaunchPlan
from corpusmesh_app.stack.settings import ServerName, StackSettings


@dataclass(frozen=True, slots=True)
class ServerContext:
    """What a server is given.

    Attributes:
        settings: How the stack runs.
        directory: The server's own folder.
        ports: Its ports by purpose.
        credentials: The stack's secrets by name.
        identity: Who it runs as; None for the same user as this process.
    """

    settings: StackSettings
    directory: Path
    ports: Mapping[str, int]
    credentials: Mapping[str, str] = field(repr=False)
    identity: Identity | None

    def environment(self) -> dict[str, str]:
        """The environment of a server: only what it needs, and the mark by which leftovers are found."""
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "HOME": str(self.directory),
            "TMPDIR": str(self.directory / "tmp"),
            DATA_VARIABLE: str(self.settings.data_directory),
        }


class EmbeddedServer(Protocol):
    """One server of the local stack.

    Attributes:
        name: Which it is.
        port_purposes: The ports that it needs.
        credential_names: The secrets that it needs.
    """

    name: ClassVar[ServerName]
    port_purposes: ClassVar[tuple[str, ...]]
    credential_names: ClassVar[tuple[str, ...]]

    @staticmethod
    def programs(settings: StackSettings) -> tuple[Path, ...]:
        """Say what the server's user must be able to read, the program first; installs what is missing. May block."""

    def prepare(self) -> LaunchPlan:
        """Write configuration, repair what a crash left, and say how to start. May block; may run again any time."""

    async def check(self) -> None:
        """Ask for something that only a ready server can do; finish the set-up that needs a running server.

        Raises:
            UnavailableError: If it is not ready.
        """

    def clean_up(self, *, clean: bool) -> None:
        """Do what is left to do after it ended. May block.

        Args:
            clean: Whether it ended by itself after it was asked to.
        """
