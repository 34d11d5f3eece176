"""The encoder of multilingual-e5-small as an ONNX graph, from the weights of the flat file.

The word table keeps its 4 bits (54 MB); every matrix becomes int8 with one scale per output, the form that ONNX
Runtime multiplies fastest on CPUs (twice as fast as fp32 or 4-bit MatMulNBits, measured with AVX-512 VNNI). Activations
are quantised per tensor while the model runs, which a few outlier channels would spoil, so each matrix's input is
divided by a factor per channel that its weights are multiplied with (SmoothQuant, Xiao et al., ICML 2023): cosine to
fp32 rises from 0.9973 to 0.999, and recall is that of fp32. Weights use 7 bits: two products of uint8 and 7-bit int8
never saturate the 16-bit sum that CPUs without VNNI add them in.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from corpusmesh_adapters.models.e5_file import BLOCK_SIZE, E5File

SENTENCE_OUTPUT: Final = "sentence_embedding"
TOKENS_OUTPUT: Final = "token_embeddings"
_CONTRIB: Final = "com.microsoft"
_OPSET: Final = 21
_IR_VERSION: Final = 10
_LARGEST_WEIGHT: Final = 63.0
_SMOOTHING: Final = 0.7
_FLOOR: Final = 1e-5


class Graph:
    """Nodes and constants of a graph that is being written."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def constant(self, name: str, values: NDArray[Any]) -> str:
        """Add a constant.

        Args:
            name: Its name, unique in the graph.
            values: Its values.

        Returns:
            Its name.
        """
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def operate(self, kind: str, inputs: Sequence[str], *, output_count: int = 1, **attributes: Any) -> list[str]:
        """Add a node of the standard operators.

        Args:
            kind: Operator.
            inputs: Names of its inputs; "" for an optional one that is not given.
            output_count: How many outputs it has.
            attributes: Its attributes.

        Returns:
            Names of its outputs.
        """
        name = f"{kind}_{len(self.nodes)}"
        outputs = [f"{name}_{index}" for index in range(output_count)]
        self.nodes.append(helper.make_node(kind, list(inputs), outputs, name=name, **attributes))
        return outputs

    def contribute(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add a node of ONNX Runtime's own operators; see `operate`.

        Args:
            kind: Operator.
            inputs: Names of its inputs.
            attributes: Its attributes.

        Returns:
            Name of its output.
        """
        return self.operate(kind, inputs, domain=_CONTRIB, **attributes)[0]


class Linear(Protocol):
    """Writes one matrix multiplication with its bias."""

    def __call__(
        self, graph: Graph, source: str, name: str, weight: NDArray[np.float32], bias: NDArray[np.float32]
    ) -> str:
        """Write it.

        Args:
            graph: Where to.
            source: Name of the input, shape (batch, tokens, k).
            name: Name of the matrix.
            weight: Shape (n, k).
            bias: Shape (n,).

        Returns:
            Name of the output, shape (batch, tokens, n).
        """
        ...


class FloatLinear:
    """Writes float multiplications and remembers the names of their inputs, for calibration.

    Attributes:
        inputs: Name of the input by name of the matrix.
    """

    def __init__(self) -> None:
        self.inputs: dict[str, str] = {}

    def __call__(
        self, graph: Graph, source: str, name: str, weight: NDArray[np.float32], bias: NDArray[np.float32]
    ) -> str:
        """Write it; see `Linear`."""
        self.inputs[name] = source
        product = graph.operate("MatMul", [source, graph.constant(f"{name}.w", weight.T)])[0]
        return graph.operate("Add", [product, graph.constant(f"{name}.b", bias)])[0]


class SmoothedInt8Linear:
    """Writes smoothed int8 multiplications."""

    def __init__(self, largest_inputs: Mapping[str, NDArray[np.float32]]) -> None:
        """Take the calibration.

        Args:
            largest_inputs: By name of the matrix: the largest magnitude seen in each channel of its input, shape (k,).
        """
        self._largest_inputs = largest_inputs

    def __call__(
        self, graph: Graph, source: str, name: str, weight: NDArray[np.float32], bias: NDArray[np.float32]
    ) -> str:
        """Write it; see `Linear`."""
        largest_inputs = np.maximum(self._largest_inputs[name], _FLOOR)
        largest_weights = np.maximum(np.abs(weight).max(axis=0), _FLOOR)
        factors = largest_inputs**_SMOOTHING / largest_weights ** (1 - _SMOOTHING)
        factors /= np.exp(np.log(factors).mean())
        smoothed = weight * factors
        scales = np.abs(smoothed).max(axis=1) / _LARGEST_WEIGHT
        quantized = np.rint(smoothed / scales[:, None]).astype(np.int8)
        inverse = graph.constant(f"{name}.f", (1 / factors).astype(np.float32))
        scaled = graph.operate("Mul", [source, inverse])[0]
        return graph.contribute(
            "DynamicQuantizeMatMul",
            [
                scaled,
                graph.constant(f"{name}.w", quantized.T),
                graph.constant(f"{name}.s", scales.astype(np.float32)),
                "",
                graph.constant(f"{name}.b", bias),
            ],
        )


def build_e5_graph(source: E5File, linear: Linear) -> onnx.ModelProto:
    """Write the encoder.

    Args:
        source: The weights.
        linear: How matrices are multiplied.

    Returns:
        A model with the inputs `input_ids` and `attention_mask`, int64, shape (batch, tokens), and the outputs
        `sentence_embedding`, the mean over unmasked tokens, not normalised, shape (batch, hidden), and
        `token_embeddings`, shape (batch, tokens, hidden).
    """
    header = source.header
    graph = Graph()
    hidden = _embed_tokens(graph, source)
    mask = graph.operate("Cast", ["attention_mask"], to=TensorProto.INT32)[0]
    for layer in range(header.layer_count):
        hidden = _write_layer(graph, source, linear, f"l{layer}", hidden, mask)
    weights = graph.operate("Cast", ["attention_mask"], to=TensorProto.FLOAT)[0]
    one = graph.constant("axis_one", np.array([1], np.int64))
    row = graph.operate("Unsqueeze", [weights, one])[0]
    total = graph.operate("Squeeze", [graph.operate("MatMul", [row, hidden])[0], one])[0]
    count = graph.operate("ReduceSum", [weights, one], keepdims=1)[0]
    graph.nodes.append(helper.make_node("Div", [total, count], [SENTENCE_OUTPUT], name="mean"))
    graph.nodes.append(helper.make_node("Identity", [hidden], [TOKENS_OUTPUT], name="tokens"))
    outputs = [
        helper.make_tensor_value_info(SENTENCE_OUTPUT, TensorProto.FLOAT, ["batch", header.hidden_size]),
        helper.make_tensor_value_info(TOKENS_OUTPUT, TensorProto.FLOAT, ["batch", "tokens", header.hidden_size]),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask")
    ]
    proto = helper.make_graph(graph.nodes, "multilingual-e5-small", inputs, outputs, graph.initializers)
    imports = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_CONTRIB, 1)]
    return helper.make_model(proto, opset_imports=imports, ir_version=_IR_VERSION)


def _embed_tokens(graph: Graph, source: E5File) -> str:
    """Write word and position embeddings with their normalisation; the one token type is part of the positions."""
    header = source.header
    words = source.matrix("emb.word", header.vocabulary_size)
    # Two's complement of (nibble - 8) in four bits is the nibble with its top bit turned.
    signed = words.nibbles.reshape(header.vocabulary_size, header.hidden_size) ^ 8
    packed = signed[:, 0::2] | (signed[:, 1::2] << 4)
    shape = [header.vocabulary_size, header.hidden_size]
    graph.initializers.append(helper.make_tensor("word", TensorProto.INT4, shape, packed.tobytes(), raw=True))
    word = graph.contribute(
        "GatherBlockQuantized",
        ["word", "input_ids", graph.constant("word.s", words.scales)],
        bits=4,
        block_size=BLOCK_SIZE,
        gather_axis=0,
        quantize_axis=1,
    )
    word = graph.operate("Cast", [word], to=TensorProto.FLOAT)[0]
    types = source.floats("emb.type").reshape(header.type_count, header.hidden_size)
    positions = source.floats("emb.pos").reshape(header.max_positions, header.hidden_size) + types[0]
    zero = graph.constant("axis_zero", np.array([0], np.int64))
    length = graph.operate("Shape", ["input_ids"], start=1, end=2)[0]
    position = graph.operate("Slice", [graph.constant("positions", positions), zero, length, zero])[0]
    return graph.operate(
        "LayerNormalization",
        [
            graph.operate("Add", [word, position])[0],
            graph.constant("emb.ln.w", source.floats("emb.ln.w")),
            graph.constant("emb.ln.b", source.floats("emb.ln.b")),
        ],
        axis=-1,
        epsilon=header.layer_norm_epsilon,
    )[0]


def _write_layer(graph: Graph, source: E5File, linear: Linear, layer: str, hidden: str, mask: str) -> str:
    header = source.header

    def weights(name: str, row_count: int) -> NDArray[np.float32]:
        return source.matrix(f"{layer}.{name}.w", row_count).dequantize()

    def add_and_normalize(left: str, right: str, name: str) -> str:
        gain = graph.constant(f"{layer}.{name}.w", source.floats(f"{layer}.{name}.w"))
        shift = graph.constant(f"{layer}.{name}.b", source.floats(f"{layer}.{name}.b"))
        return graph.contribute("SkipLayerNormalization", [left, right, gain, shift], epsilon=header.layer_norm_epsilon)

    joint_weight = np.concatenate([weights(name, header.hidden_size) for name in ("q", "k", "v")])
    joint_bias = np.concatenate([source.floats(f"{layer}.{name}.b") for name in ("q", "k", "v")])
    joint = linear(graph, hidden, f"{layer}.qkv", joint_weight, joint_bias)
    query, key, value = graph.operate("Split", [joint], output_count=3, axis=2, num_outputs=3)
    context = graph.contribute("MultiHeadAttention", [query, key, value, "", mask], num_heads=header.head_count)
    attended = linear(graph, context, f"{layer}.ao", weights("ao", header.hidden_size), source.floats(f"{layer}.ao.b"))
    hidden = add_and_normalize(hidden, attended, "aln")
    inner = linear(
        graph, hidden, f"{layer}.fi", weights("fi", header.feed_forward_size), source.floats(f"{layer}.fi.b")
    )
    inner = graph.contribute("Gelu", [inner])
    outer = linear(graph, inner, f"{layer}.fo", weights("fo", header.hidden_size), source.floats(f"{layer}.fo.b"))
    return add_and_normalize(hidden, outer, "oln")
