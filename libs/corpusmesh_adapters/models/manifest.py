"""The description beside a model's files: how to call the model, what it promises, and the sums of its files.

A model directory holds `model.json`, `model.onnx` and `tokenizer.json`. It appears under its name by one rename, so
what is there is whole.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import filelock

from corpusmesh_core.errors import FailedPreconditionError, UnavailableError
from corpusmesh_core.ports.embedding import EmbeddingSpace

MANIFEST_FILE: Final = "model.json"
WEIGHTS_FILE: Final = "model.onnx"
TOKENIZER_FILE: Final = "tokenizer.json"
_FORMAT: Final = 1
_INSTALL_LOCK_SECONDS: Final = 600.0


class Pooling(StrEnum):
    """How the vector of a text comes from the model's output."""

    SENTENCE = "sentence"
    """The model gives it itself, shape (batch, dimension)."""
    FIRST = "first"
    """The first token's, of (batch, tokens, dimension)."""
    MEAN = "mean"
    """The mean over the text's tokens, of (batch, tokens, dimension)."""


@dataclass(frozen=True, slots=True)
class ModelManifest:
    """How to call a model and what it promises.

    Attributes:
        model: Name of the model.
        dimension: Numbers per vector that the model is declared to give.
        max_input_tokens: Tokens read at once, special tokens and prefix included.
        query_prefix: Put before a query.
        passage_prefix: Put before a passage.
        output: Name of the model's output.
        pooling: How the vector comes from it.
        fold_traditional: Whether traditional Chinese is read as simplified.
        source: What the files were made from: a package with version and the SHA-256 sum of the file in it.
        recipe: Names how they were made from it; another recipe is another space.
        licence: Licence of the weights.
        file_sums: SHA-256 sum of each file, by name.
    """

    model: str
    dimension: int
    max_input_tokens: int
    query_prefix: str
    passage_prefix: str
    output: str
    pooling: Pooling
    fold_traditional: bool
    source: str
    recipe: str
    licence: str
    file_sums: dict[str, str]

    @property
    def space(self) -> EmbeddingSpace:
        """The space of the model's vectors.

        Its fingerprint digests source and recipe, not the files made from them: those may differ in the last bits of
        a calibration from machine to machine, and their vectors can be compared all the same.
        """
        identity = json.dumps(
            [self.source, self.recipe, self.query_prefix, self.passage_prefix, self.pooling, self.fold_traditional]
        )
        return EmbeddingSpace(self.model, self.dimension, True, hashlib.sha256(identity.encode()).hexdigest())


def read_manifest(directory: Path) -> ModelManifest:
    """Read the description of an installed model.

    Args:
        directory: The model's directory.

    Returns:
        The description.

    Raises:
        FailedPreconditionError: MODEL_NOT_INSTALLED if none is there, MODEL_CORRUPT if it cannot be used.
    """
    try:
        content = json.loads((directory / MANIFEST_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise FailedPreconditionError(
            "MODEL_NOT_INSTALLED",
            f"no model is installed in {directory.name}; run `corpusmesh models add {directory.name}`",
            model=directory.name,
        ) from error
    except (OSError, ValueError) as error:
        raise _corrupt(directory, "its description cannot be read") from error
    if not isinstance(content, dict) or content.pop("format", None) != _FORMAT:
        raise _corrupt(directory, "its description has another format")
    try:
        return ModelManifest(**(content | {"pooling": Pooling(content["pooling"])}))
    except (KeyError, TypeError, ValueError) as error:
        raise _corrupt(directory, "its description is not complete") from error


def verify_files(directory: Path, manifest: ModelManifest) -> None:
    """Check the sums of a model's files (0.2 s for the default model).

    Args:
        directory: The model's directory.
        manifest: Its description.

    Raises:
        FailedPreconditionError: MODEL_CORRUPT if a file is missing or changed.
    """
    for name, expected in manifest.file_sums.items():
        path = directory / name
        if not path.is_file() or file_sum(path) != expected:
            raise _corrupt(directory, f"the file {name} is missing or changed")


def file_sum(path: Path) -> str:
    """Digest a file.

    Args:
        path: The file.

    Returns:
        Its SHA-256 sum in hexadecimal.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def install_directory(
    target: Path, make: Callable[[Path], ModelManifest], *, source: str, recipe: str
) -> ModelManifest:
    """Make a model's directory unless it is there and made from the same source by the same recipe.

    Args:
        target: The directory; its parent is created.
        make: Writes model and tokenizer into the directory given, checks them and describes them, file sums apart.
        source: What the description must name to be kept.
        recipe: Likewise.

    Returns:
        The description.

    Raises:
        UnavailableError: MODEL_INSTALL_BUSY if another process installs for too long.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(target.parent / f".{target.name}.lock", timeout=_INSTALL_LOCK_SECONDS):
            current = _usable(target, source, recipe)
            if current is not None:
                return current
            for leftover in target.parent.glob(f".{target.name}-*"):
                shutil.rmtree(leftover, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as temporary:
                tree = Path(temporary) / "tree"
                tree.mkdir()
                manifest = make(tree)
                sums = {name: file_sum(tree / name) for name in (WEIGHTS_FILE, TOKENIZER_FILE)}
                content = asdict(manifest) | {"file_sums": sums, "format": _FORMAT}
                text = json.dumps(content, ensure_ascii=False, indent=1)
                (tree / MANIFEST_FILE).write_text(text + "\n", encoding="utf-8")
                shutil.rmtree(target, ignore_errors=True)
                tree.rename(target)
            return read_manifest(target)
    except filelock.Timeout as error:
        raise UnavailableError(
            "MODEL_INSTALL_BUSY", f"another process has been installing {target.name} for long; wait for it"
        ) from error


def _usable(target: Path, source: str, recipe: str) -> ModelManifest | None:
    try:
        manifest = read_manifest(target)
        if (manifest.source, manifest.recipe) != (source, recipe):
            return None
        verify_files(target, manifest)
    except FailedPreconditionError:
        return None
    return manifest


def _corrupt(directory: Path, what: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        "MODEL_CORRUPT",
        f"the model in {directory.name} cannot be used: {what}; remove it and run `corpusmesh models add` again",
        model=directory.name,
    )
