"""Measures retrieval on every evaluation set: `make eval`.

    python bench/eval_all.py [--sets ../shared/eval] [--data .corpusmesh-eval] [--only xling,zh] [--report FILE]

Starts a mesh of its own, ingests each set's corpus (a second run finds it there), asks every question with full text
alone, vectors alone and both, and prints recall@2/5/10, nDCG@10 and milliseconds per query. Ends with status 1 if on
any set the hybrid search is below the better of its legs.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("CORPUSMESH_SHARED", ROOT.parent / "shared"))
PROGRAM = [sys.executable, "-m", "corpusmesh_app"]
COLUMNS = ("recall_at_2", "recall_at_5", "recall_at_10", "ndcg_at_10")


def run(*arguments: str, check: bool = True) -> dict[str, Any]:
    done = subprocess.run([*PROGRAM, *arguments, "--json"], stdout=subprocess.PIPE, check=False, cwd=ROOT)
    if check and done.returncode:
        sys.exit(f"corpusmesh {' '.join(arguments)} ended with status {done.returncode}")
    return json.loads(done.stdout) if done.stdout.strip() else {}


def questions_of(folder: Path) -> list[tuple[str, str]]:
    """Fields that hold questions, with a name for each."""
    with (folder / "queries.jsonl").open(encoding="utf-8") as lines:
        first = json.loads(next(lines))
    fields = [field for field in first if field.startswith("question_")]
    return [(f"{folder.name} ({field.removeprefix('question_')})", field) for field in fields] or [
        (folder.name, "question")
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=Path, default=SHARED / "eval")
    parser.add_argument("--data", type=Path, default=ROOT / ".corpusmesh-eval")
    parser.add_argument("--only", default="", help="names of sets, joined by commas")
    parser.add_argument("--report", type=Path, help="also write the table to this file")
    arguments = parser.parse_args()
    if not arguments.sets.is_dir():
        print(f"no evaluation sets at {arguments.sets}: nothing was measured")
        return 0
    wanted = set(filter(None, arguments.only.split(",")))
    folders = [folder for folder in sorted(arguments.sets.iterdir()) if (folder / "corpus.jsonl").exists()]
    folders = [folder for folder in folders if not wanted or folder.name in wanted]
    lines = [
        "| set | plan | " + " | ".join(COLUMNS) + " | p50 ms | p95 ms |",
        "|---|---|" + "---|" * (len(COLUMNS) + 2),
    ]
    below: list[str] = []
    run("up", "--detach", "--data", str(arguments.data))
    try:
        for folder in folders:
            for name, field in questions_of(folder):
                result = run(
                    "eval", str(folder), "--kb", folder.name.replace("_", "-"), "--compare-legs",
                    "--question-field", field, "--data", str(arguments.data), check=False,
                )  # fmt: skip
                print(json.dumps({"set": name, **result}), flush=True)
                for row in result.get("measurements", []):
                    cells = [f"{row[column]:.4f}" for column in COLUMNS]
                    lines.append(
                        f"| {name} | {row['plan']} | {' | '.join(cells)} "
                        f"| {row['milliseconds_p50']:.1f} | {row['milliseconds_p95']:.1f} |"
                    )
                verdict = result.get("hybrid_at_least_better_leg") or {"nothing was measured": False}
                below.extend(f"{name}: {measure}" for measure, holds in verdict.items() if not holds)
    finally:
        run("down", "--data", str(arguments.data), check=False)
    table = "\n".join(lines)
    print(table)
    if arguments.report:
        arguments.report.write_text(table + "\n", encoding="utf-8")
    if below:
        print(f"hybrid is below the better leg on: {', '.join(below)}")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
