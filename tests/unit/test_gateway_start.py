"""What the gateway loads before it answers."""

import subprocess
import sys


def test_the_door_loads_no_dictionary_no_stemmer_and_no_matrices() -> None:
    script = "import sys, corpusmesh_gateway.module; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"jieba", "snowballstemmer", "opencc", "corpusmesh_core.text", "scipy", "graspologic_native"}
    assert not heavy & set(loaded)
