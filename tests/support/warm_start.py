"""Starts services out of a process that has imported them already.

A service imports for three processor seconds before it does anything, and end-to-end tests start services some sixty
times. So one process imports everything once and forks a child for each start: a process of its own all the same, with
an environment, a log, a session and a command line of its own, that can be killed. Starts and ends of processes that
import for themselves are proven in `test_local_mesh.py` and `test_field_reports_models.py`.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

_MAX_MESSAGE_BYTES = 128 * 1024
_ANSWER_SECONDS = 60.0
_ROOT = Path(__file__).parents[2]


class WarmProcess:
    """A started service; what `subprocess.Popen` has, as far as tests need it."""

    def __init__(self, pid: int, args: Sequence[str]) -> None:
        self.pid = pid
        self.args = tuple(args)
        self.returncode: int | None = None
        self._ended = threading.Event()

    def poll(self) -> int | None:
        """Give its status if it has ended: below zero, the number of the signal that ended it."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(list(self.args), timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def end(self, status: int) -> None:
        """Take note of its end."""
        self.returncode = status
        self._ended.set()


class WarmStart:
    """The process that has imported everything, seen from the tests."""

    def __init__(self) -> None:
        """Start it; its imports go on while the servers start."""
        own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = own
        self._answers = threading.Condition()
        self._pids: list[int] = []
        self._running: dict[int, WarmProcess] = {}
        self._early: dict[int, int] = {}
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.warm_start", str(other.fileno())],
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=(other.fileno(),),
                start_new_session=True,
            )
        threading.Thread(target=self._listen, name="warm-start", daemon=True).start()

    def spawn(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> WarmProcess:
        """Start `corpusmesh` with some arguments.

        Args:
            arguments: What follows the program's name.
            environment: The whole environment of it.
            log: Its standard output and error are added to this file.
        """
        message = {"arguments": list(arguments), "environment": dict(environment), "log": str(log)}
        deadline = time.monotonic() + _ANSWER_SECONDS
        with self._answers:
            self._control.send(json.dumps(message).encode())
            while not self._pids:
                assert self._process.poll() is None, "the process that starts services has ended"
                assert self._answers.wait(deadline - time.monotonic()), "no service was started in time"
            process = WarmProcess(self._pids.pop(0), arguments)
            if (status := self._early.pop(process.pid, None)) is not None:
                process.end(status)
            else:
                self._running[process.pid] = process
        return process

    def close(self) -> None:
        """End it, and with it what it has started and still runs."""
        self._control.shutdown(socket.SHUT_RDWR)
        self._process.wait(30)
        self._control.close()

    def _listen(self) -> None:
        while data := self._control.recv(_MAX_MESSAGE_BYTES):
            message = json.loads(data)
            with self._answers:
                if "started" in message:
                    self._pids.append(message["started"])
                elif (process := self._running.pop(message["ended"], None)) is not None:
                    process.end(message["status"])
                else:
                    self._early[message["ended"]] = message["status"]
                self._answers.notify_all()


def _serve(control: socket.socket) -> list[str] | None:
    """Fork a child for each message until the tests are gone; gives its arguments in a child, None in the parent."""
    waking, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: set[int] = set()
    while True:
        ready, _, _ = select.select([control.fileno(), waking], [], [])
        if waking in ready:
            os.read(waking, 4096)
            _reap(control, running)
        if control.fileno() not in ready:
            continue
        data = control.recv(_MAX_MESSAGE_BYTES)
        if not data:
            for pid in running:
                os.killpg(pid, signal.SIGKILL)
            return None
        message = json.loads(data)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for descriptor in (waking, wakes):
                os.close(descriptor)
            control.close()
            return _become(message["arguments"], message["environment"], message["log"])
        running.add(pid)
        control.send(json.dumps({"started": pid}).encode())


def _reap(control: socket.socket, running: set[int]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        running.discard(pid)
        control.send(json.dumps({"ended": pid, "status": os.waitstatus_to_exitcode(status)}).encode())


def _become(arguments: list[str], environment: dict[str, str], log: str) -> list[str]:
    os.setsid()
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for target in (1, 2):
        os.dup2(descriptor, target)
    os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    return arguments


def main() -> None:
    """Import what services need, and start them; a child goes on as `corpusmesh`."""
    import corpusmesh_app.cli.app
    import corpusmesh_app.serving  # noqa: F401 - imported for the children
    from corpusmesh_app.backends import embedding_tokenizer
    from corpusmesh_app.cli import main as corpusmesh
    from corpusmesh_app.settings import MeshSettings

    # Without threads, which a fork would lack; children choose for themselves again.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    embedding_tokenizer(MeshSettings())
    arguments = _serve(socket.socket(fileno=int(sys.argv[1])))
    if arguments is None:
        return
    sys.argv = ["corpusmesh", *arguments]
    status = 1
    try:
        corpusmesh()
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Native libraries begin a helper thread as they are imported, and wait for it as they are unloaded: a fork has
        # none of the threads of its parent.
        os._exit(status)


if __name__ == "__main__":
    main()
