"""A tiny vision model that really runs: it sees the colours of a page's patches, and questions name colours.

Its page side averages a 4 x 4 grid of patches and looks at them from three directions (red, green, blue); its question
side looks words up in a table. That is the whole shape of a late-interaction model, small enough to be made in a test.
"""

import io
import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, processors

SIDE = 64
GRID = 4
DIMENSION = 4
WORDS = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1), "white": (1, 1, 1), "black": (0.01, 0.01, 0.01)}


def write_page_model(directory: Path) -> Path:
    """Write the model's files."""
    directory.mkdir(parents=True, exist_ok=True)
    description = {
        "model": "colours",
        "dimension": DIMENSION,
        "image_width": SIDE,
        "image_height": SIDE,
        "mean": [0.0, 0.0, 0.0],
        "deviation": [1.0, 1.0, 1.0],
    }
    (directory / "page_model.json").write_text(json.dumps(description))
    _write_pages(directory / "pages.onnx")
    _write_question(directory / "question.onnx")
    vocabulary = {"[PAD]": 0, "[UNK]": 1, "[S]": 2} | {word: 3 + index for index, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[S] $A [S]", pair="[S] $A $B [S]", special_tokens=[("[S]", 2)]
    )
    tokenizer.save(str(directory / "tokenizer.json"))
    return directory


def page_of(colour: str, *, patch_only: bool = False) -> bytes:
    """Draw a page of one colour, or a white page with one patch of it."""
    rgb = tuple(round(255 * value) for value in WORDS[colour])
    image = Image.new("RGB", (SIDE * 4, SIDE * 4), "white" if patch_only else rgb)
    if patch_only:
        image.paste(rgb, (0, 0, SIDE, SIDE))
    target = io.BytesIO()
    image.save(target, "PNG")
    return target.getvalue()


def _write_pages(path: Path) -> None:
    # A fourth number tells how dark a patch is, so that black is no zero vector.
    projection = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]], np.float32)
    patch = SIDE // GRID
    nodes = [
        helper.make_node("AveragePool", ["images"], ["patches"], kernel_shape=[patch, patch], strides=[patch, patch]),
        helper.make_node("Reshape", ["patches", "flat"], ["rows"]),
        helper.make_node("Transpose", ["rows"], ["colours"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["colours", "projection"], ["projected"]),
        helper.make_node("Add", ["projected", "floor"], ["vectors"]),
    ]
    graph = helper.make_graph(
        nodes,
        "pages",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["batch", GRID * GRID, DIMENSION])],
        [
            numpy_helper.from_array(projection, "projection"),
            numpy_helper.from_array(np.array([0, 0, 0, 0.05], np.float32), "floor"),
            numpy_helper.from_array(np.array([0, 3, GRID * GRID], np.int64), "flat"),
        ],
    )
    _save(graph, path)


def _write_question(path: Path) -> None:
    table = np.zeros((3 + len(WORDS), DIMENSION), np.float32)
    table[:3, 3] = 1.0
    for index, rgb in enumerate(WORDS.values()):
        table[3 + index, :3] = rgb
        table[3 + index, 3] = 0.05
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["vectors"], axis=0)],
        "question",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"])],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["batch", "tokens", DIMENSION])],
        [numpy_helper.from_array(table, "table")],
    )
    _save(graph, path)


def _save(graph: onnx.GraphProto, path: Path) -> None:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
