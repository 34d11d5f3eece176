import subprocess
import sys
from pathlib import Path


def test_analysis_writes_no_file_and_no_log(tmp_path: Path) -> None:
    """The Chinese dictionary library would put a shared cache into the temp folder and log to stderr."""
    finished = subprocess.run(
        [sys.executable, "-c", "from corpusmesh_core.text import analyze; print(analyze('数据库索引').coarse)"],
        env={"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert finished.stdout.strip() == "('数据库', '索引')"
    assert finished.stderr == ""
    assert list(tmp_path.iterdir()) == []
