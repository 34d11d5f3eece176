"""Soft clusters by UMAP and a Gaussian mixture, and the process that finds them."""

import asyncio
import io
import os
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest

from corpusmesh_adapters.clustering.child import serve
from corpusmesh_adapters.clustering.frames import answer_bytes, pack_answer, request_head, unpack_answer
from corpusmesh_adapters.clustering.mixture import mixture_members, soft_clusters
from corpusmesh_adapters.clustering.process import MixtureProcess
from corpusmesh_core.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    UnavailableError,
)
from corpusmesh_core.ports.clustering import MAX_VECTORS_PER_CALL, SoftClusterer
from corpusmesh_core.trees.clustering import group_layer
from corpusmesh_core.trees.settings import TreeMethod, TreeSettings
from corpusmesh_core.trees.values import Vectors

TIMEOUT = 120.0

ANSWERS = f"""
import sys
sys.path[:0] = {sys.path!r}
import numpy as np
from corpusmesh_adapters.clustering import frames
source, sink = sys.stdin.buffer, sys.stdout.buffer
while head := source.read(frames.REQUEST.size):
    count, dimension, seed = frames.REQUEST.unpack(head)
    source.read(4 * count * dimension)
    sink.write(frames.pack_answer([np.arange(count, dtype=np.int32), np.array([seed], dtype=np.int32)]))
    sink.flush()
"""


def topics(count: int, each: int, *, noise: float = 0.05) -> Vectors:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(count, 32))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    vectors = np.repeat(centres, each, axis=0) + noise * rng.normal(size=(count * each, 32))
    return vectors.astype(np.float32)


def process_of(source: str, **options: float) -> MixtureProcess:
    return MixtureProcess(command=(sys.executable, "-c", source), needed=("json",), **options)


def plain(clusters: Sequence[np.ndarray]) -> list[list[int]]:
    return [cluster.tolist() for cluster in clusters]


async def test_topics_are_clusters_and_the_same_seed_gives_the_same_ones() -> None:
    pytest.importorskip("umap")
    vectors = topics(3, 20)
    async with MixtureProcess() as clusterer:
        port: SoftClusterer = clusterer
        found = await port.cluster(vectors, seed=7, timeout_seconds=TIMEOUT)
        warm = clusterer.pid
        again = await port.cluster(vectors, seed=7, timeout_seconds=TIMEOUT)
        assert clusterer.pid == warm
        lost = await port.cluster(np.full((20, 4), np.nan, dtype=np.float32), seed=7, timeout_seconds=TIMEOUT)
    assert plain(found) == plain(again)
    assert {place for cluster in found for place in cluster.tolist()} == set(range(60))
    assert all(len({place // 20 for place in cluster.tolist()}) == 1 for cluster in found)
    assert plain(lost) == [list(range(20))]
    grouping = group_layer(vectors, TreeSettings(method=TreeMethod.MIXTURE), cluster=found)
    assert grouping is not None
    assert plain(grouping.clusters) == plain(found)
    assert clusterer.pid is None


def test_a_point_between_two_components_is_in_both() -> None:
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    left = rng.normal(size=(40, 2))
    # The mirror image: the point between is as likely of the one as of the other.
    members = mixture_members(np.concatenate((left, [8.0, 0.0] - left, [[4.0, 0.0]])), seed=0)
    assert sorted(plain(members)) == [[*range(40), 80], [*range(40, 80), 80]]


def test_points_that_were_lost_in_the_reduction_are_put_together() -> None:
    pytest.importorskip("sklearn")
    points = np.random.default_rng(0).normal(size=(10, 2))
    points[[3, 7]] = np.nan
    members = mixture_members(points, seed=0)
    assert members[0].tolist() == [3, 7]
    assert sorted({place for cluster in members for place in cluster.tolist()}) == list(range(10))


@pytest.mark.parametrize("vectors", [np.ones((40, 3)), np.zeros((40, 3)), np.eye(12)])
def test_few_nodes_and_equal_nodes_are_one_cluster(vectors: np.ndarray) -> None:
    assert plain(soft_clusters(vectors.astype(np.float32), seed=0)) == [list(range(len(vectors)))]


async def test_a_small_layer_needs_no_process() -> None:
    async with process_of("raise SystemExit(1)") as clusterer:
        assert plain(await clusterer.cluster(topics(1, 12), seed=0, timeout_seconds=TIMEOUT)) == [list(range(12))]
        assert await clusterer.cluster(topics(1, 0), seed=0, timeout_seconds=TIMEOUT) == ()
        assert clusterer.pid is None


async def test_what_is_not_installed_is_named_with_what_to_do() -> None:
    async with MixtureProcess(needed=("no_such_module_anywhere",)) as clusterer:
        with pytest.raises(FailedPreconditionError, match=r"pip install corpusmesh\[trees\]") as caught:
            await clusterer.cluster(topics(1, 20), seed=0, timeout_seconds=TIMEOUT)
    assert caught.value.reason == "TREE_METHOD_UNAVAILABLE"


async def test_a_layer_that_is_too_large_is_refused() -> None:
    async with process_of("") as clusterer:
        with pytest.raises(InvalidArgumentError, match="20,000"):
            await clusterer.cluster(
                np.zeros((MAX_VECTORS_PER_CALL + 1, 1), dtype=np.float32), seed=0, timeout_seconds=TIMEOUT
            )


async def test_a_process_that_takes_too_long_is_killed_and_the_next_call_has_another() -> None:
    async with process_of(
        f"import os, time\nif not os.path.exists({os.devnull!r} + 'x'): time.sleep(600)"
    ) as clusterer:
        with pytest.raises(DeadlineExceededError) as caught:
            await clusterer.cluster(topics(1, 20), seed=0, timeout_seconds=0.3)
        assert caught.value.reason == "TREE_CLUSTERING_TIMEOUT"
        assert clusterer.pid is None


async def test_a_cancelled_call_kills_its_process() -> None:
    async with process_of("import time\ntime.sleep(600)") as clusterer:
        call = asyncio.create_task(clusterer.cluster(topics(1, 20), seed=0, timeout_seconds=TIMEOUT))
        pid = await first_pid(clusterer)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert clusterer.pid is None
        await wait_until_gone(pid)


async def test_waiting_for_another_call_counts_and_does_not_kill_it() -> None:
    slow = ANSWERS.replace("    sink.write", "    import time; time.sleep(1.0)\n    sink.write")
    async with process_of(slow) as clusterer:
        first = asyncio.create_task(clusterer.cluster(topics(1, 20), seed=3, timeout_seconds=TIMEOUT))
        await asyncio.sleep(0)
        with pytest.raises(DeadlineExceededError):
            await clusterer.cluster(topics(1, 20), seed=3, timeout_seconds=0.05)
        assert plain(await first) == [list(range(20)), [3]]


@pytest.mark.parametrize(
    "source",
    [
        "raise SystemExit(1)",
        "import sys\nsys.stdout.buffer.write(b'\\xff' * 100)",
        "import sys\nsys.stdin.buffer.read(8)",
    ],
)
async def test_a_process_that_ends_or_says_nonsense_is_unavailable(source: str) -> None:
    async with process_of(source) as clusterer:
        with pytest.raises(UnavailableError) as caught:
            await clusterer.cluster(topics(1, 4000), seed=0, timeout_seconds=TIMEOUT)
        assert caught.value.reason == "TREE_CLUSTERING_STOPPED"
        assert clusterer.pid is None


async def test_a_process_stays_warm_and_is_ended_when_idle() -> None:
    async with process_of(ANSWERS, idle_seconds=0.2) as clusterer:
        await clusterer.cluster(topics(1, 20), seed=1, timeout_seconds=TIMEOUT)
        pid = clusterer.pid
        assert pid is not None
        assert plain(await clusterer.cluster(topics(1, 20), seed=2, timeout_seconds=TIMEOUT))[1] == [2]
        assert clusterer.pid == pid
        await wait_until_gone(pid)
        assert plain(await clusterer.cluster(topics(1, 20), seed=3, timeout_seconds=TIMEOUT))[1] == [3]
        assert clusterer.pid != pid


async def test_nothing_of_the_environment_reaches_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORPUSMESH_SECRET", "key")
    async with process_of(
        "import os\nif 'CORPUSMESH_SECRET' in os.environ: raise SystemExit(1)\n" + ANSWERS
    ) as clusterer:
        assert await clusterer.cluster(topics(1, 20), seed=1, timeout_seconds=TIMEOUT)


def test_the_process_answers_until_its_input_ends() -> None:
    vectors = topics(1, 12)
    request = request_head(vectors, 5) + vectors.tobytes()
    sink = io.BytesIO()
    serve(io.BytesIO(request + request + request[:-1]), sink)
    assert sink.getvalue() == 2 * pack_answer([np.arange(12, dtype=np.int32)])


def test_answers_are_read_as_they_were_written() -> None:
    clusters = [np.array(each, dtype=np.int32) for each in ([0, 1, 5], [2], [3, 4, 5])]
    packed = pack_answer(clusters)
    count, size = answer_bytes(packed[:12])
    assert size == len(packed) - 12
    assert plain(unpack_answer(count, packed[12:])) == plain(clusters)
    assert unpack_answer(0, b"") == ()


def test_nothing_heavy_is_imported_before_a_layer_comes() -> None:
    source = (
        "import sys, corpusmesh_adapters.clustering.process, corpusmesh_adapters.clustering.child\n"
        "assert not {'umap', 'sklearn', 'numba', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", source], check=True, timeout=60)


async def first_pid(clusterer: MixtureProcess) -> int:
    async with asyncio.timeout(20):
        while True:
            if (pid := clusterer.pid) is not None:
                return pid
            await asyncio.sleep(0.01)


async def wait_until_gone(pid: int) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return
            await asyncio.sleep(0.02)
