"""The contract is linted, reproducible, and cannot be broken unnoticed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUF = Path(sys.executable).parent / "buf"
SERVICE = "protos/corpusmesh/embed/v1/embed_service.proto"


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    """A copy of the contract that a test may change."""
    shutil.copytree(ROOT / "protos", tmp_path / "protos")
    shutil.copytree(ROOT / "gen" / "third_party", tmp_path / "gen" / "third_party")
    shutil.copy(ROOT / "buf.yaml", tmp_path)
    return tmp_path


def buf(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BUF, *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def breaks(folder: Path) -> subprocess.CompletedProcess[str]:
    built = buf(folder, "build", "-o", "new.binpb")
    assert built.returncode == 0, built.stderr
    return buf(folder, "breaking", "new.binpb", "--against", "protos/baseline.binpb")


def test_the_contract_passes_the_linter_and_breaks_nothing(contract: Path) -> None:
    linted = buf(contract, "lint")
    assert linted.returncode == 0, linted.stdout
    assert breaks(contract).returncode == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  string fingerprint = 5;", "  int32 fingerprint = 5;"),
        ("  string fingerprint = 5;", "  string fingerprint = 6;"),
        ("  int64 token_count = 3;", "  int64 tokens = 3;"),
    ],
    ids=["type", "number", "name"],
)
def test_a_change_that_breaks_callers_is_refused(contract: Path, old: str, new: str) -> None:
    service = contract / SERVICE
    text = service.read_text()
    assert old in text
    service.write_text(text.replace(old, new))
    refused = breaks(contract)
    assert refused.returncode != 0
    assert "embed_service.proto" in refused.stdout


def test_a_method_without_a_comment_is_refused_by_the_linter(contract: Path) -> None:
    service = contract / SERVICE
    service.write_text(service.read_text().replace("  // Embeds texts in the order given.\n", ""))
    assert buf(contract, "lint").returncode != 0


def test_generated_code_is_reproducible(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "protos", tmp_path / "protos")
    shutil.copy(ROOT / "build_protos.py", tmp_path)
    subprocess.run([sys.executable, "build_protos.py"], cwd=tmp_path, check=True, timeout=120)
    for path in sorted((ROOT / "gen" / "corpusmesh").rglob("*_pb2*.py*")):
        if "__pycache__" not in path.parts:
            assert (tmp_path / path.relative_to(ROOT)).read_bytes() == path.read_bytes(), path.name
