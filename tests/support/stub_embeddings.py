"""An embeddings endpoint that does what a test says, behind a real loopback HTTP server."""

import hashlib
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

DIMENSION = 16


def stub_vector(text: str) -> list[float]:
    return [float(byte) + 1 for byte in hashlib.sha256(text.encode()).digest()[:DIMENSION]]


class StubEmbeddings:
    """Answers well unless `refuse` says a status; remembers what it was sent.

    `refuse` gets the inputs and the number of the request, and returns (status, retry-after) or None.
    """

    def __init__(
        self, refuse: Callable[[list[str], int], tuple[int, str] | None] = lambda _inputs, _count: None
    ) -> None:
        self.requests: list[list[str]] = []
        self.keys: list[str | None] = []
        self.answer: Callable[[list[str]], Any] = self.vectors
        self._refuse = refuse
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                inputs = body["input"]
                stub.requests.append(inputs)
                stub.keys.append(self.headers.get("authorization"))
                refused = stub._refuse(inputs, len(stub.requests))
                status, retry_after = refused or (200, "")
                answer = {"error": {"message": f"refused {inputs} {stub.keys[-1]}"}} if refused else stub.answer(inputs)
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(content)))
                if retry_after:
                    self.send_header("retry-after", retry_after)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *_arguments: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @staticmethod
    def vectors(inputs: list[str]) -> Any:
        items = [{"index": index, "embedding": stub_vector(text)} for index, text in enumerate(inputs)]
        return {"data": items[::-1]}

    def __enter__(self) -> "StubEmbeddings":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
