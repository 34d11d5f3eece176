"""A tiny cross-encoder that really runs, and an endpoint that speaks the protocols of rerankers.

The model's logit is the share of a passage's tokens that the question has too, made by comparing every token of the
pair with every other one: the shape of attention, small enough to be made in a test.
"""

import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = ("mysql", "index", "tree", "leaf", "page", "cat", "dog", "soup", "salt", "recipe", "why", "range", "query")


def write_rerank_model(directory: Path, *, outputs: int = 1, **described: Any) -> Path:
    """Write the model's files; with two outputs it is a classifier of two classes."""
    directory.mkdir(parents=True, exist_ok=True)
    description = {"model": "overlap", "max_input_tokens": 32} | described
    if outputs == 2:
        description.setdefault("activation", "softmax")
    (directory / "rerank_model.json").write_text(json.dumps(description))
    vocabulary = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3} | {word: 4 + i for i, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.save(str(directory / "tokenizer.json"))
    _write_graph(directory / "model.onnx", len(vocabulary), outputs)
    return directory


def _write_graph(path: Path, vocabulary_size: int, outputs: int) -> None:
    # One-hot rows, zero for the special tokens and the unknown one, which match nothing.
    table = np.eye(vocabulary_size, dtype=np.float32)
    table[:4] = 0.0
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"], axis=0),
        helper.make_node("Cast", ["token_type_ids"], ["kind"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["kind", "mask"], ["is_passage"]),
        helper.make_node("Sub", ["mask", "is_passage"], ["is_question"]),
        helper.make_node("Unsqueeze", ["is_passage", "axis2"], ["passage_weight"]),
        helper.make_node("Unsqueeze", ["is_question", "axis2"], ["question_weight"]),
        helper.make_node("Mul", ["rows", "passage_weight"], ["passage_rows"]),
        helper.make_node("Mul", ["rows", "question_weight"], ["question_rows"]),
        helper.make_node("ReduceMax", ["question_rows"], ["question_set"], axes=[1], keepdims=1),
        helper.make_node("Mul", ["passage_rows", "question_set"], ["shared"]),
        helper.make_node("ReduceSum", ["shared", "axes12"], ["count"], keepdims=0),
        helper.make_node("Mul", ["count", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "bias"], ["logit"]),
        helper.make_node("Unsqueeze", ["logit", "axis1"], ["one"]),
    ]
    if outputs == 2:
        nodes += [
            helper.make_node("Neg", ["one"], ["other"]),
            helper.make_node("Concat", ["other", "one"], ["logits"], axis=1),
        ]
    else:
        nodes.append(helper.make_node("Identity", ["one"], ["logits"]))
    integers = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    graph = helper.make_graph(
        nodes,
        "overlap",
        integers,
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", outputs])],
        [
            numpy_helper.from_array(table, "table"),
            numpy_helper.from_array(np.array([2], np.int64), "axis2"),
            numpy_helper.from_array(np.array([1], np.int64), "axis1"),
            numpy_helper.from_array(np.array([1, 2], np.int64), "axes12"),
            numpy_helper.from_array(np.array(2.0, np.float32), "scale"),
            numpy_helper.from_array(np.array(-3.0, np.float32), "bias"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())


class StubReranker:
    """An endpoint that scores by shared words, behind a real loopback HTTP server; remembers what it was sent.

    `refuse` gets the number of the request and returns (status, retry-after) or None; `answer` may be replaced.
    """

    def __init__(self, refuse: Callable[[int], tuple[int, str] | None] = lambda _count: None) -> None:
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.keys: list[str | None] = []
        self.answer: Callable[[str, Sequence[str], bool], Any] = self.scores
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                stub.requests.append(body)
                stub.paths.append(self.path)
                stub.keys.append(self.headers.get("authorization"))
                refused = refuse(len(stub.requests))
                status, retry_after = refused or (200, "")
                is_tei = "texts" in body
                passages = body["texts"] if is_tei else body["documents"]
                answer = {"error": f"refused {body}"} if refused else stub.answer(body["query"], passages, is_tei)
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
    def scores(question: str, passages: Sequence[str], is_tei: bool) -> Any:
        asked = set(question.split())
        shares = [len(asked & set(passage.split())) / max(1, len(asked)) for passage in passages]
        order = sorted(range(len(passages)), key=lambda place: -shares[place])
        if is_tei:
            return [{"index": place, "score": shares[place]} for place in order]
        return {"results": [{"index": place, "relevance_score": shares[place]} for place in order]}

    def __enter__(self) -> "StubReranker":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
