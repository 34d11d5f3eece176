"""OpenSearch with the k-NN plugin, tuned for a laptop: a quick start and little memory."""

import contextlib
import hashlib
import json
import os
import shutil
import signal
from pathlib import Path
from typing import ClassVar

from corpusmesh_app.stack.java import VECTOR_MODULE, JavaRuntime, find_java
from corpusmesh_app.stack.opensearch_install import default_tools_directory, install_opensearch
from corpusmesh_app.stack.privileges import hand_over
from corpusmesh_app.stack.probes import probe_opensearch
from corpusmesh_app.stack.process import LaunchPlan
from corpusmesh_app.stack.servers.base import ServerContext
from corpusmesh_app.stack.settings import ServerName, StackSettings

_LOG4J_CONFIGURATION = """status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%c{1.}] %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""
# Documents can be in the text of slow or failing requests; they are not logged.
_STOP_GRACE_SECONDS = 10.0
_ARCHIVE_GRACE_SECONDS = 45.0  # 4 s on two idle cores, once per installation


class OpenSearchServer:
    """The one shared index of the mesh."""

    name: ClassVar[ServerName] = ServerName.OPENSEARCH
    port_purposes: ClassVar[tuple[str, ...]] = ("http", "transport")
    credential_names: ClassVar[tuple[str, ...]] = ()

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._archive: Path | None = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"http://127.0.0.1:{self._context.ports['http']}"

    @staticmethod
    def programs(settings: StackSettings) -> tuple[Path, ...]:
        """See `EmbeddedServer`."""
        return (find_java().program, install_opensearch(settings.tools_directory) / "lib")

    def prepare(self) -> LaunchPlan:
        """See `EmbeddedServer`."""
        context = self._context
        home = install_opensearch(context.settings.tools_directory)
        java = find_java()
        for folder in ("", "config", "data", "logs", "tmp"):
            hand_over(context.directory / folder, context.identity)
        for name, content in (("opensearch.yml", self._configuration()), ("log4j2.properties", _LOG4J_CONFIGURATION)):
            path = context.directory / "config" / name
            path.write_text(content, encoding="utf-8")
            path.chmod(0o644)
        class_path = ":".join(str(path) for path in sorted((home / "lib").glob("*.jar")))
        archive_options, makes_archive = self._archive_options(java, class_path)
        return LaunchPlan(
            command=(
                str(java.program),
                *self._jvm_options(java),
                *archive_options,
                f"-Dopensearch.path.home={home}",
                f"-Dopensearch.path.conf={context.directory / 'config'}",
                "-cp",
                class_path,
                "org.opensearch.bootstrap.OpenSearch",
            ),
            environment=context.environment(),
            working_directory=context.directory,
            death_signal="KILL",  # every acknowledged write is in the translog
            stop_signal=signal.SIGTERM,
            stop_grace_seconds=_ARCHIVE_GRACE_SECONDS if makes_archive else _STOP_GRACE_SECONDS,
        )

    async def check(self) -> None:
        """See `EmbeddedServer`."""
        await probe_opensearch(self.url)

    def clean_up(self, *, clean: bool) -> None:
        """See `EmbeddedServer`: keeps the class archive that the runtime wrote while it ended by itself."""
        made = self._unfinished_archive
        if clean and self._archive is not None and made.exists():
            temporary = self._archive.with_name(f".{self._archive.name}.{os.getpid()}")
            # Without it the next start takes some seconds more, nothing else.
            with contextlib.suppress(OSError):
                self._archive.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(made, temporary)
                temporary.chmod(0o644)
                temporary.replace(self._archive)
        made.unlink(missing_ok=True)

    @property
    def _unfinished_archive(self) -> Path:
        return self._context.directory / "tmp" / "classes.jsa"

    def _archive_options(self, java: JavaRuntime, class_path: str) -> tuple[list[str], bool]:
        """Use the archive of loaded classes, or have it written at the end of this run.

        Measured: 12.0 s to the first answer without it, 5.3 s with it. It belongs to one runtime and one class path.

        Returns:
            The options, and whether this run writes the archive when it ends.
        """
        if not java.has_shared_archive:
            return [], False
        identity = hashlib.sha256("\n".join((str(java.program), java.version, class_path)).encode()).hexdigest()[:16]
        tools = self._context.settings.tools_directory or default_tools_directory()
        self._archive = tools / "class-archives" / f"opensearch-{identity}.jsa"
        if self._archive.exists():
            return [f"-XX:SharedArchiveFile={self._archive}"], False
        if not os.access(tools, os.W_OK):
            return [], False
        self._unfinished_archive.unlink(missing_ok=True)
        return [f"-XX:ArchiveClassesAtExit={self._unfinished_archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"], True

    def _jvm_options(self, java: JavaRuntime) -> list[str]:
        context = self._context
        heap = context.settings.opensearch_heap_mib
        options = [
            f"-Xms{heap}m",
            f"-Xmx{heap}m",
            "-XX:+UseSerialGC",  # as quick as the parallel one on 2 cores, and the smallest
            "-XX:+ExitOnOutOfMemoryError",  # a server without memory limps; a dead one is started again
            f"-XX:ErrorFile={context.directory / 'logs' / 'jvm-crash.log'}",
            f"-Djava.io.tmpdir={context.directory / 'tmp'}",
            "-Djava.awt.headless=true",
            "-Dfile.encoding=UTF-8",
            "-Dlog4j.shutdownHookEnabled=false",
            "-Dlog4j2.disable.jmx=true",
            "-Dio.netty.noUnsafe=true",
            "-Dio.netty.noKeySetOptimization=true",
            "-Dio.netty.recycler.maxCapacityPerThread=0",
            "--enable-native-access=ALL-UNNAMED",
        ]
        if java.has_vector_module:
            options.append(f"--add-modules={VECTOR_MODULE}")
        return options

    def _configuration(self) -> str:
        context = self._context
        settings = {
            "cluster.name": "corpusmesh",
            "node.name": "local",
            "discovery.type": "single-node",
            "network.host": "127.0.0.1",
            "http.port": context.ports["http"],
            "transport.port": context.ports["transport"],
            "path.data": str(context.directory / "data"),
            "path.logs": str(context.directory / "logs"),
            # The defaults are shares of the disk: on a full laptop they would stop the indices with 50 GB still free.
            "cluster.routing.allocation.disk.watermark.low": "2gb",
            "cluster.routing.allocation.disk.watermark.high": "1gb",
            "cluster.routing.allocation.disk.watermark.flood_stage": "500mb",
        }
        return "".join(f"{name}: {json.dumps(value)}\n" for name, value in settings.items())  # JSON is YAML
