"""One run of one command: where the mesh is, how to print, and the client."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from corpusmesh_app.cli.output import Output
from corpusmesh_app.cli.target import Target, TargetOptions, find_target

if TYPE_CHECKING:
    from corpusmesh_client import CorpusMeshClient


@dataclass(frozen=True, slots=True)
class Session:
    """One run of one command.

    Attributes:
        output: Prints.
        options: What the command line says of the mesh.
        debug: Whether failures are shown with their traceback.
    """

    output: Output
    options: TargetOptions = field(default_factory=TargetOptions)
    debug: bool = False

    def target(self) -> Target:
        """Find the mesh to talk to.

        Returns:
            The mesh.
        """
        return find_target(self.options, os.environ, Path.cwd())

    @asynccontextmanager
    async def client(self) -> AsyncIterator["CorpusMeshClient"]:
        """Open a client of the mesh.

        Yields:
            The client; closed at the end.
        """
        # gRPC logs connection failures on its own; the command tells them in its own words.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        from corpusmesh_client import CorpusMeshClient, TlsSettings

        target = self.target()
        tls = TlsSettings(root_certificates_path=self.options.ca_file) if self.options.ca_file else None
        async with CorpusMeshClient(target.endpoint, api_key=target.api_key, tls=tls) as client:
            yield client
