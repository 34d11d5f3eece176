"""Commands about this machine: how a mesh is announced and found, and what doctor says."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from corpusmesh_app.cli.app import build_app
from corpusmesh_app.cli.demonstration import examples_folder
from corpusmesh_app.cli.diagnosis import Verdict, check_machine, describe_mesh
from corpusmesh_app.cli.mesh_files import announce, choose_folder, read_mesh, withdraw
from corpusmesh_app.cli.target import TargetOptions, find_target
from corpusmesh_core.errors import FailedPreconditionError, NotFoundError, UnavailableError


def test_announced_mesh_is_found_from_anywhere_until_it_is_withdrawn(tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    data.mkdir()
    elsewhere.mkdir()
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    announce(data, "127.0.0.1:7100", "http://127.0.0.1:7180", None, environment)
    assert find_target(TargetOptions(), environment, elsewhere).endpoint == "127.0.0.1:7100"
    assert choose_folder(None, environment, elsewhere) == data
    mesh = read_mesh(data)
    assert mesh is not None
    assert mesh.gateway_http == "http://127.0.0.1:7180"
    withdraw(data)
    assert read_mesh(data) is None
    with pytest.raises(UnavailableError):
        find_target(TargetOptions(), environment, elsewhere)
    assert choose_folder(None, environment, elsewhere) == elsewhere / ".corpusmesh"


def test_mesh_file_tells_configuration_and_start(tmp_path: Path) -> None:
    announce(tmp_path, "127.0.0.1:1", "http://127.0.0.1:2", Path("mesh.yaml"), {"XDG_STATE_HOME": str(tmp_path / "s")})
    shape = json.loads((tmp_path / "mesh.json").read_text())
    assert set(shape) == {"gateway_grpc", "gateway_http", "pid", "started", "config"}
    assert shape["config"].endswith("/mesh.yaml")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"gateway_grpc": "x", "gateway_http": "y", "pid": "z"}'])
def test_broken_mesh_file_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "mesh.json").write_text(text)
    assert read_mesh(tmp_path) is None


def test_doctor_names_a_wrong_configuration(tmp_path: Path) -> None:
    config = tmp_path / "mesh.yaml"
    config.write_text("embed: {backend: openai}\n")
    found = {check.name: check for check in check_machine(tmp_path, config)}
    assert found["configuration"].verdict is Verdict.FAILURE
    assert "base_url" in found["configuration"].detail
    assert found["python"].verdict is Verdict.OK
    config.write_text("no_such_section: {}\n")
    found = {check.name: check for check in check_machine(tmp_path, config)}
    assert "no_such_section" in found["configuration"].detail


def test_doctor_tells_a_mesh_that_does_not_answer_from_none(tmp_path: Path) -> None:
    assert describe_mesh(None, None).verdict is Verdict.WARNING
    mesh = announce(tmp_path, "127.0.0.1:1", "http://127.0.0.1:2", None, {"XDG_STATE_HOME": str(tmp_path / "s")})
    assert describe_mesh(mesh, UnavailableError("GATEWAY_UNREACHABLE", "no answer")).verdict is Verdict.FAILURE
    assert describe_mesh(mesh, None).verdict is Verdict.OK


def test_down_without_a_mesh_says_so_and_forgets_a_dead_one(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path / "s")}
    announce(tmp_path, "127.0.0.1:1", "http://127.0.0.1:2", None, environment)
    dead = json.loads((tmp_path / "mesh.json").read_text()) | {"pid": 2**22 + 1}
    (tmp_path / "mesh.json").write_text(json.dumps(dead))
    result = CliRunner().invoke(build_app(), ["down", "--data", str(tmp_path), "--json"], env=environment)
    assert json.loads(result.stdout) == {"data": str(tmp_path), "stopped": False}
    assert not (tmp_path / "mesh.json").exists()


def test_config_print_shows_file_and_defaults_together(tmp_path: Path) -> None:
    config = tmp_path / "mesh.yaml"
    config.write_text("retrieve: {candidate_window: 7}\n")
    result = CliRunner().invoke(build_app(), ["config", "print", "--config", str(config), "--json"])
    values = json.loads(result.stdout)
    assert values["retrieve"]["candidate_window"] == 7
    assert values["log"]["level"] == "info"


def test_examples_are_questions_and_a_folder(tmp_path: Path) -> None:
    (tmp_path / "questions.json").write_text(json.dumps({"questions": [{"question": "a"}, "b"]}))
    assert examples_folder(tmp_path).questions == ("a", "b")
    (tmp_path / "questions.json").write_text('["a", {"question": "b"}]')
    assert examples_folder(tmp_path).questions == ("a", "b")
    (tmp_path / "questions.json").write_text('[{"text": "a"}]')
    with pytest.raises(FailedPreconditionError):
        examples_folder(tmp_path)
    with pytest.raises(NotFoundError):
        examples_folder(tmp_path / "none")
