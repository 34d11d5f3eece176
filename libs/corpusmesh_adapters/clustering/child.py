"""The clustering process: reads layers from standard input, writes clusters to standard output, one after the other.

umap is compiled when it is imported and when it is used first, some 25 seconds together; so the process stays for the
layers that follow. It ends when its input does, and when its parent dies.
"""

import ctypes
import os
import signal
import sys
from typing import BinaryIO, Final

import numpy as np

from corpusmesh_adapters.clustering.frames import REQUEST, pack_answer
from corpusmesh_adapters.clustering.mixture import soft_clusters

_PR_SET_PDEATHSIG: Final = 1


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Cluster layer after layer until the input ends.

    Args:
        source: Requests, see `frames`.
        sink: Takes the answers.
    """
    while len(head := source.read(REQUEST.size)) == REQUEST.size:
        count, dimension, seed = REQUEST.unpack(head)
        body = source.read(4 * count * dimension)
        if len(body) < 4 * count * dimension:
            return
        vectors = np.frombuffer(body, dtype=np.float32).reshape(count, dimension)
        sink.write(pack_answer(soft_clusters(vectors, seed)))
        sink.flush()


def main() -> None:
    """Serve on the standard streams; what libraries print goes to the standard error."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(sys.argv[1]):
        return
    sink = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin.buffer, sink)


if __name__ == "__main__":
    main()
