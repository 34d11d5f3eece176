"""`python -m corpusmesh_app.reference`: write the reference pages of this checkout."""

import argparse
import sys
from pathlib import Path

from corpusmesh_app.reference import pages

_FOLDER = Path(__file__).resolve().parents[3] / "docs" / "reference"


def main() -> int:
    """Write the pages, or with `--check` tell which ones are not what the code says.

    Returns:
        Exit status: 1 if `--check` found a difference.
    """
    parser = argparse.ArgumentParser(prog="python -m corpusmesh_app.reference", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if a page is out of date")
    is_check = parser.parse_args().check
    stale = 0
    for name, text in pages().items():
        path = _FOLDER / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if is_check:
            sys.stderr.write(f"docs/reference/{name} is out of date\n")
        else:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote docs/reference/{name}\n")
    return 1 if is_check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
