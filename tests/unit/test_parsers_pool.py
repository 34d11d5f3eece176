"""The pool: a document that kills, loops or eats memory costs itself alone; nothing outlives the pool."""

import asyncio
import sys
from pathlib import Path

import psutil
import pytest

from corpusmesh_adapters.parsers import ParserPool
from corpusmesh_core.errors import DeadlineExceededError, DocumentError, OverloadedError, UnavailableError
from corpusmesh_core.ports.parsing import ParseLimits, ParseOptions, ParseRequest

# Document text is the order to the reader: what no real format would do on demand.
EVIL = """
import os, signal, socket, sys, time
from corpusmesh_adapters.parsers.child import serve
from corpusmesh_adapters.parsers.router import parse_source
from corpusmesh_adapters.parsers.builder import Source

def parse(source):
    order = source.content.decode()
    if order.startswith("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    if order.startswith("crash"):
        os.kill(os.getpid(), signal.SIGSEGV)
    if order.startswith("kill warm"):
        os.kill(os.getppid(), signal.SIGKILL)
    if order.startswith("loop"):
        while True:
            pass
    if order.startswith("sleep"):
        time.sleep(600)
    if order.startswith("eat"):
        kept = []
        while True:
            kept.append(bytearray(16 * 1024 * 1024))
    if order.startswith("panic"):
        raise SystemExit(3)
    if order.startswith("look"):
        report = [" ".join(sorted(os.environ))]
        try:
            socket.create_connection(("127.0.0.1", PORT), timeout=2).close()
            report.append("connected")
        except OSError:
            report.append("no network")
        try:
            with open(source.display_name, "w") as file:
                file.write("x" * 10)
            report.append("wrote")
        except OSError:
            report.append("no files")
        return parse_source(Source("\\n\\n".join(report).encode(), "a.txt", source.options))
    return parse_source(source)

serve(parse)
"""
# A busy machine gives two processor seconds in many more: only the test of the wall limit lowers it.
OPTIONS = ParseOptions(limits=ParseLimits(cpu_seconds=1, wall_seconds=100, memory_bytes=256 * 1024 * 1024))
BRIEF = ParseOptions(limits=ParseLimits(wall_seconds=1))


@pytest.fixture(scope="module")
async def listening_port():
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


@pytest.fixture(scope="module")
async def evil_command(tmp_path_factory, listening_port):
    script = tmp_path_factory.mktemp("pool") / "evil.py"
    script.write_text(EVIL.replace("PORT", str(listening_port)))
    return (sys.executable, str(script))


@pytest.fixture(scope="module")
async def evil_pool(evil_command):
    async with ParserPool(process_count=1, command=evil_command) as pool:
        yield pool


async def parse(pool, text, *, options=OPTIONS, deadline_seconds=60.0):
    content = text if isinstance(text, bytes | Path) else text.encode()
    return await pool.parse(content, display_name="a.txt", options=options, deadline_seconds=deadline_seconds)


@pytest.mark.parametrize(
    ("order", "reason", "limit"),
    [
        ("kill", "DOCUMENT_RESOURCE_LIMIT", "memory_bytes"),
        ("crash", "DOCUMENT_CORRUPT", None),
        ("panic", "DOCUMENT_CORRUPT", None),
        ("loop", "DOCUMENT_RESOURCE_LIMIT", "cpu_seconds"),
        ("sleep", "DOCUMENT_RESOURCE_LIMIT", "wall_seconds"),
        ("eat", "DOCUMENT_RESOURCE_LIMIT", "memory_bytes"),
        ("kill warm", "DOCUMENT_RESOURCE_LIMIT", "memory_bytes"),
    ],
)
async def test_bad_document_costs_itself_alone(evil_pool, order, reason, limit):
    with pytest.raises(DocumentError) as raised:
        await parse(evil_pool, order, options=BRIEF if limit == "wall_seconds" else OPTIONS)
    assert raised.value.reason == reason
    assert raised.value.metadata.get("limit") == limit
    assert (await parse(evil_pool, "good")).blocks[0].text == "good"


async def test_bad_documents_in_a_batch_leave_the_others_alone(evil_pool):
    orders = ["one", "kill", "two", "loop", "three", "kill warm", "four", "crash"]
    requests = [ParseRequest(order.encode(), "a.txt", OPTIONS) for order in orders]
    results = await evil_pool.parse_many(requests, deadline_seconds=120)
    shown = [result.reason if isinstance(result, DocumentError) else result.blocks[0].text for result in results]
    assert shown == [
        "one",
        "DOCUMENT_RESOURCE_LIMIT",
        "two",
        "DOCUMENT_RESOURCE_LIMIT",
        "three",
        "DOCUMENT_RESOURCE_LIMIT",
        "four",
        "DOCUMENT_CORRUPT",
    ]


async def test_reader_has_no_network_no_files_and_no_secrets(evil_pool, tmp_path, monkeypatch):
    monkeypatch.setenv("CORPUSMESH_SECRET", "hunter2")
    target = str(tmp_path / "written.txt")
    document = await evil_pool.parse(b"look", display_name=target, options=OPTIONS, deadline_seconds=60)
    environment, network, files = (block.text for block in document.blocks)
    assert "SECRET" not in environment
    assert "HOME" not in environment.split()
    assert (network, files) == ("no network", "no files")


async def test_environment_of_the_pool_does_not_reach_its_processes(monkeypatch):
    monkeypatch.setenv("CORPUSMESH_SECRET", "hunter2")
    async with ParserPool(process_count=1) as pool:
        (pid,) = pool.process_ids
        assert "hunter2" not in psutil.Process(pid).environ().values()


@pytest.mark.parametrize("end", ["cancel", "deadline"])
async def test_call_that_ends_early_kills_its_reader(evil_pool, end):
    patient = ParseOptions(limits=ParseLimits(cpu_seconds=600, wall_seconds=600))
    deadline = 600.0 if end == "cancel" else 5.0
    task = asyncio.ensure_future(parse(evil_pool, "loop", options=patient, deadline_seconds=deadline))
    readers = []
    for _ in range(400):
        readers = psutil.Process(evil_pool.process_ids[0]).children()
        if readers:
            break
        await asyncio.sleep(0.01)
    assert readers
    if end == "cancel":
        task.cancel()
    with pytest.raises(asyncio.CancelledError if end == "cancel" else DeadlineExceededError):
        await task
    _, alive = psutil.wait_procs(readers, timeout=10)
    assert not [reader for reader in alive if reader.status() != psutil.STATUS_ZOMBIE]
    assert (await parse(evil_pool, "good")).blocks[0].text == "good"


async def test_closed_pool_leaves_no_process_and_refuses_calls():
    pool = ParserPool(process_count=2)
    await pool.start()
    processes = [psutil.Process(pid) for pid in pool.process_ids]
    assert len(processes) == 2
    await pool.close()
    assert not [process for process in processes if process.is_running() and process.status() != "zombie"]
    with pytest.raises(UnavailableError):
        await parse(pool, "good")


async def test_closing_fails_calls_in_flight(evil_command):
    patient = ParseOptions(limits=ParseLimits(cpu_seconds=600, wall_seconds=600))
    async with ParserPool(process_count=1, command=evil_command) as pool:
        running = [asyncio.ensure_future(parse(pool, "sleep", options=patient)) for _ in range(3)]
        await asyncio.sleep(0.2)
        await pool.close()
        for outcome in await asyncio.gather(*running, return_exceptions=True):
            assert isinstance(outcome, UnavailableError)


async def test_processes_die_with_the_process_that_made_the_pool(tmp_path):
    script = tmp_path / "owner.py"
    script.write_text(
        "import asyncio\n"
        "from corpusmesh_adapters.parsers import ParserPool\n"
        "async def main():\n"
        "    pool = ParserPool(process_count=1)\n"
        "    await pool.start()\n"
        "    print(*pool.process_ids, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    owner = await asyncio.create_subprocess_exec(sys.executable, str(script), stdout=asyncio.subprocess.PIPE)
    warm = psutil.Process(int(await owner.stdout.readline()))
    owner.kill()
    await owner.wait()
    psutil.wait_procs([warm], timeout=10)
    assert not warm.is_running() or warm.status() == psutil.STATUS_ZOMBIE


async def test_too_many_waiting_calls_are_refused(evil_command):
    async with ParserPool(process_count=1, max_waiting=1, command=evil_command) as pool:
        calls = [asyncio.ensure_future(parse(pool, "sleep", options=BRIEF)) for _ in range(2)]
        await asyncio.sleep(0.1)
        with pytest.raises(OverloadedError) as raised:
            await parse(pool, "good")
        assert raised.value.reason == "PARSER_QUEUE_FULL"
        await asyncio.gather(*calls, return_exceptions=True)


async def test_process_that_does_not_start_is_reported(tmp_path):
    pool = ParserPool(process_count=1, command=(sys.executable, "-c", "raise SystemExit(1)"))
    with pytest.raises(UnavailableError) as raised:
        await parse(pool, "good")
    assert raised.value.reason == "PARSER_UNAVAILABLE"
    await pool.close()


async def test_file_is_read_by_the_reader_and_its_length_checked_first(tmp_path, evil_pool):
    file = tmp_path / "a.txt"
    file.write_text("from a file")
    assert (await parse(evil_pool, file)).blocks[0].text == "from a file"
    small = ParseOptions(limits=ParseLimits(max_bytes=3))
    with pytest.raises(DocumentError) as raised:
        await parse(evil_pool, file, options=small)
    assert raised.value.metadata["limit"] == "max_bytes"


async def test_results_keep_the_order_of_requests():
    texts = [f"text {index}" * (1 if index % 3 else 20_000) for index in range(40)]
    async with ParserPool(process_count=2) as pool:
        requests = [ParseRequest(text.encode(), "a.txt") for text in texts]
        results = await pool.parse_many(requests, deadline_seconds=120)
    assert [result.blocks[0].text for result in results] == texts
