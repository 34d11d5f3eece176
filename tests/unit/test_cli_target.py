"""Which mesh a command talks to, and which key it sends there."""

import json
import os
from pathlib import Path

import pytest

from corpusmesh_app.cli.target import TargetOptions, find_target, state_pointer
from corpusmesh_core.errors import CorpusMeshError, FailedPreconditionError, InvalidArgumentError, UnavailableError

NOTHING = TargetOptions()


def mesh(data: Path, endpoint: str = "127.0.0.1:7100", key: str = "cm_admin") -> Path:
    data.mkdir(parents=True)
    (data / "mesh.json").write_text(json.dumps({"gateway_grpc": endpoint, "gateway_http": "http://127.0.0.1:7180"}))
    (data / "admin.key").write_text(key + "\n")
    return data


def test_flag_weighs_more_than_everything(tmp_path: Path) -> None:
    mesh(tmp_path / ".corpusmesh")
    key_file = tmp_path / "key"
    key_file.write_text("cm_file\n")
    options = TargetOptions(endpoint="far:1", api_key_file=key_file, data=tmp_path / ".corpusmesh")
    target = find_target(options, {"CORPUSMESH_ENDPOINT": "other:1", "CORPUSMESH_API_KEY": "cm_env"}, tmp_path)
    assert (target.endpoint, target.api_key) == ("far:1", "cm_file")


def test_typed_data_folder_weighs_more_than_the_environment(tmp_path: Path) -> None:
    data = mesh(tmp_path / "mine")
    target = find_target(TargetOptions(data=data), {"CORPUSMESH_ENDPOINT": "production:1"}, tmp_path)
    assert (target.endpoint, target.api_key) == ("127.0.0.1:7100", "cm_admin")


def test_environment_weighs_more_than_the_folder_here(tmp_path: Path) -> None:
    mesh(tmp_path / ".corpusmesh")
    target = find_target(NOTHING, {"CORPUSMESH_ENDPOINT": "far:1"}, tmp_path)
    assert target.endpoint == "far:1"


def test_a_local_admin_key_is_never_sent_to_a_named_endpoint(tmp_path: Path) -> None:
    mesh(tmp_path / ".corpusmesh")
    assert find_target(NOTHING, {"CORPUSMESH_ENDPOINT": "far:1"}, tmp_path).api_key == ""
    assert find_target(TargetOptions(endpoint="far:1"), {}, tmp_path).api_key == ""


def test_nearest_folder_above_is_found(tmp_path: Path) -> None:
    mesh(tmp_path / ".corpusmesh", "127.0.0.1:1")
    mesh(tmp_path / "a" / ".corpusmesh", "127.0.0.1:2")
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    assert find_target(NOTHING, {}, deep).endpoint == "127.0.0.1:2"


def test_pointer_of_the_user_is_the_last_resort(tmp_path: Path) -> None:
    data = mesh(tmp_path / "elsewhere")
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    pointer = state_pointer(environment)
    pointer.parent.mkdir(parents=True)
    pointer.write_text(json.dumps({"data": str(data)}))
    empty = tmp_path / "empty"
    empty.mkdir()
    assert find_target(NOTHING, environment, empty).endpoint == "127.0.0.1:7100"


def test_nothing_known_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="corpusmesh up"):
        find_target(NOTHING, {"XDG_STATE_HOME": str(tmp_path)}, tmp_path)
    with pytest.raises(UnavailableError, match="corpusmesh up --data"):
        find_target(TargetOptions(data=tmp_path), {}, tmp_path)


@pytest.mark.parametrize("endpoint", ["evil.example.org:443", "10.0.0.1:1", "localhost.evil.org:1", "grpcs://far:1"])
def test_a_folder_that_names_another_machine_is_not_trusted(tmp_path: Path, endpoint: str) -> None:
    mesh(tmp_path / ".corpusmesh", endpoint)
    with pytest.raises(FailedPreconditionError) as caught:
        find_target(NOTHING, {"CORPUSMESH_API_KEY": "cm_env"}, tmp_path)
    assert caught.value.reason == "MESH_FILE_INVALID"


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_a_folder_of_another_user_is_not_trusted(tmp_path: Path) -> None:
    data = mesh(tmp_path / ".corpusmesh")
    os.chown(data / "mesh.json", 12345, 12345)
    with pytest.raises(FailedPreconditionError) as caught:
        find_target(NOTHING, {}, tmp_path)
    assert caught.value.reason == "MESH_FILE_FOREIGN"


def test_key_of_the_environment_weighs_more_than_the_admin_key(tmp_path: Path) -> None:
    mesh(tmp_path / ".corpusmesh")
    assert find_target(NOTHING, {"CORPUSMESH_API_KEY": " cm_env\n"}, tmp_path).api_key == "cm_env"
    key_file = tmp_path / "key"
    key_file.write_text("cm_file")
    assert find_target(NOTHING, {"CORPUSMESH_API_KEY_FILE": str(key_file)}, tmp_path).api_key == "cm_file"


@pytest.mark.parametrize("content", [b"", b"two keys", b"\xff\xfe"])
def test_key_file_must_hold_one_key(tmp_path: Path, content: bytes) -> None:
    key_file = tmp_path / "key"
    key_file.write_bytes(content)
    with pytest.raises(InvalidArgumentError):
        find_target(TargetOptions(endpoint="far:1", api_key_file=key_file), {}, tmp_path)


def test_broken_mesh_file_is_told_apart_from_none(tmp_path: Path) -> None:
    data = mesh(tmp_path / ".corpusmesh")
    (data / "mesh.json").write_text("{not json")
    with pytest.raises(CorpusMeshError) as caught:
        find_target(NOTHING, {}, tmp_path)
    assert caught.value.reason == "MESH_FILE_UNREADABLE"


def test_target_does_not_show_its_key(tmp_path: Path) -> None:
    mesh(tmp_path / ".corpusmesh")
    assert "cm_admin" not in repr(find_target(NOTHING, {}, tmp_path))
