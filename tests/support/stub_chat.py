"""A language model that does what a test says, behind a real loopback HTTP server that speaks the OpenAI protocol.

It answers well (citing the evidence it was given), badly, slowly, with a refusal, or never; deterministic throughout.

    with StubChat([Refuse(429), AnswerFromEvidence()]) as stub:
        model = OpenAIChatModel(OpenAIChatSettings(stub.base_url, "stub"), jitter=lambda: 0.5)
"""

import json
import re
import select
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar

_BLOCK = re.compile(r"<<<(DATA-[0-9a-f]+) ID: (\d+) \|[^\n]*\n(.*?)\n\1>>>", re.DOTALL)


@dataclass(frozen=True)
class Say:
    """Say a text in pieces of `piece_characters`, `pause_seconds` apart."""

    text: str
    piece_characters: int = 4
    pause_seconds: float = 0.0
    finish_reason: str | None = "stop"


@dataclass(frozen=True)
class AnswerFromEvidence:
    """Answer well: the first sentence of each of the first pieces of evidence, with its marker."""

    evidence_count: int = 1
    marker: str = "[ID:{}]"

    def text(self, prompt: str) -> str:
        found = _BLOCK.findall(prompt)[: self.evidence_count]
        if not found:
            return "The evidence does not answer this."
        firsts = [(re.split(r"(?<=[.。!！?？])", text.strip())[0].rstrip(".。"), label) for _, label, text in found]
        return " ".join(f"{sentence} {self.marker.format(label)}." for sentence, label in firsts)


@dataclass(frozen=True)
class Refuse:
    """Answer with an HTTP error whose body repeats the prompt and the key, as careless services do."""

    status: int
    retry_after: str | None = None


@dataclass(frozen=True)
class BreakOff:
    """Say a text and close the connection without an end."""

    text: str


@dataclass(frozen=True)
class CutJson:
    """Say a text, then an event whose JSON is cut."""

    text: str


@dataclass(frozen=True)
class ErrorInStream:
    """Say a text, then report an error inside the stream."""

    text: str


@dataclass(frozen=True)
class Never:
    """Take the request and answer nothing until the caller leaves."""


Behaviour = Say | AnswerFromEvidence | Refuse | BreakOff | CutJson | ErrorInStream | Never


@dataclass
class SeenRequest:
    """A request as it arrived."""

    path: str
    body: dict[str, Any]
    headers: Mapping[str, str]

    @property
    def prompt(self) -> str:
        return "\n\n".join(message["content"] for message in self.body["messages"])


@dataclass
class StubChat:
    """The server; one behaviour a request, the last one for all that follow."""

    behaviours: Sequence[Behaviour]
    requests: list[SeenRequest] = field(default_factory=list)
    left_early: threading.Event = field(default_factory=threading.Event)
    most_at_once: int = 0

    def __enter__(self) -> "StubChat":
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._at_once = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"stub": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def closing(self) -> threading.Event:
        return self._closing

    def begin(self, request: SeenRequest) -> Behaviour:
        with self._lock:
            self.requests.append(request)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            return self.behaviours[min(len(self.requests), len(self.behaviours)) - 1]

    def end(self) -> None:
        with self._lock:
            self._at_once -= 1


class _Handler(BaseHTTPRequestHandler):
    stub: ClassVar[StubChat]
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
        return

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = SeenRequest(self.path, body, dict(self.headers))
        behaviour = self.stub.begin(request)
        self.close_connection = True
        try:
            self._behave(behaviour, request)
        except (BrokenPipeError, ConnectionResetError):
            self.stub.left_early.set()
        finally:
            self.stub.end()

    def _behave(self, behaviour: Behaviour, request: SeenRequest) -> None:
        match behaviour:
            case Refuse(status, retry_after):
                self._refuse(status, retry_after, request)
            case Never():
                self._wait_for_leave(None)
            case AnswerFromEvidence():
                self._say(Say(behaviour.text(request.prompt), 4), request)
            case Say():
                self._say(behaviour, request)
            case BreakOff(text) | CutJson(text) | ErrorInStream(text):
                self._begin_stream()
                self._event({"choices": [{"index": 0, "delta": {"content": text}}]})
                if isinstance(behaviour, CutJson):
                    self.wfile.write(b'data: {"choices": [{"index": 0, "delta": {"conte\n\n')
                elif isinstance(behaviour, ErrorInStream):
                    self._event({"error": {"message": "out of memory", "type": "server_error"}})

    def _say(self, say: Say, request: SeenRequest) -> None:
        usage = {"prompt_tokens": len(request.prompt) // 4, "completion_tokens": len(say.text) // 4}
        if not request.body.get("stream"):
            message = {"role": "assistant", "content": say.text}
            choice = {"index": 0, "message": message, "finish_reason": say.finish_reason}
            self._json(200, {"choices": [choice], "usage": usage})
            return
        self._begin_stream()
        self._event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        for start in range(0, len(say.text), say.piece_characters):
            piece = say.text[start : start + say.piece_characters]
            self._event({"choices": [{"index": 0, "delta": {"content": piece}}]})
            if say.pause_seconds and self._wait_for_leave(say.pause_seconds):
                return
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": say.finish_reason}]})
        self._event({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()

    def _event(self, chunk: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n")
        self.wfile.flush()

    def _refuse(self, status: int, retry_after: str | None, request: SeenRequest) -> None:
        careless = f"refused key {self.headers.get('Authorization')} for prompt {request.prompt}"
        body = {"error": {"message": careless, "type": "stub_error", "code": "context_length_exceeded"}}
        self._json(status, body, {"Retry-After": retry_after} if retry_after else {})

    def _json(self, status: int, body: dict[str, Any], headers: Mapping[str, str] | None = None) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def _wait_for_leave(self, seconds: float | None) -> bool:
        """Wait until the time is over (False), or the caller leaves or the stub closes (True)."""
        waited = 0.0
        while seconds is None or waited < seconds:
            if self.stub.closing.is_set():
                return True
            step = 0.02 if seconds is None else min(0.02, seconds - waited)
            readable, _, _ = select.select([self.connection], [], [], step)
            if readable and self.connection.recv(1, socket.MSG_PEEK) == b"":
                self.stub.left_early.set()
                return True
            waited += step
        return False
