"""The process of all services under `corpusmesh up`; it ends when its supervisor does, however that ends."""

import asyncio
import ctypes
import os
import signal
import sys
from pathlib import Path

from corpusmesh_app.serving import serve
from corpusmesh_app.settings import load_settings
from corpusmesh_core.errors import CorpusMeshError

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve until told to end; `argv` is the configuration and the supervisor's process id."""
    config, supervisor = Path(sys.argv[1]), int(sys.argv[2])
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != supervisor:
        sys.exit("the supervisor has ended")
    try:
        asyncio.run(serve("all", load_settings(config), "both"))
    except CorpusMeshError as error:
        sys.exit(f"{error.reason}: {error.message}")


if __name__ == "__main__":
    main()
