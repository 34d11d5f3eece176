"""Measures retrieval on every evaluation set: `make eval`.

    python bench/eval_all.py [--sets ../shared/eval] [--data .corpusmesh-eval] [--only xling,zh] [--ablate 150]
                             [--report docs/evaluation.md]

Starts a mesh of its own without a language model, ingests each set's corpus (a second run finds it there), and asks
every question by full text alone, vectors alone, reciprocal rank fusion, and the presets fast and balanced; then the
first questions of each set by `balanced` without each of its stages and by `fast` with each further one. Prints
recall@5, nDCG@10 and milliseconds per query, writes them between the markers of the report, and ends with status 1
where a bar is missed.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("CORPUSMESH_SHARED", ROOT.parent / "shared"))
PROGRAM = [sys.executable, "-m", "corpusmesh_app"]
BEGIN, END = "<!-- measured by make eval: begin -->", "<!-- measured by make eval: end -->"
FULL_TEXT, VECTORS, RRF, FAST, BALANCED = "full text", "vectors", "RRF", "fast", "balanced"
MAIN_PLANS = {
    FULL_TEXT: "lexical",
    VECTORS: "vector",
    RRF: "reciprocal-rank",
    FAST: "fast",
    BALANCED: "balanced",
}


def changed(preset: str, **parts: Mapping[str, object]) -> str:
    return json.dumps({"preset": f"PRESET_{preset.upper()}", **parts})


ABLATED_PLANS = {
    "fast": "fast",
    "balanced": "balanced",
    "balanced without hops": changed("balanced", assembly={"hops": 0}),
    "balanced without derived records": changed("balanced", recall={"derived": False}),
    "balanced without tags": changed("balanced", recall={"tags": False}),
    "balanced without parents": changed("balanced", assembly={"parents": False}),
    "balanced without collapsed duplicates": changed("balanced", assembly={"collapseDuplicates": False}),
    "fast plus hops": changed("fast", assembly={"hops": 1}),
    "fast plus two hops": changed("fast", assembly={"hops": 2}),
    "fast plus proximity": changed("fast", recall={"proximity": True}),
    "fast plus minimum match 0.3": changed("fast", recall={"minimumMatch": 0.3}),
    "fast plus lexical gate": changed("fast", recall={"lexicalGate": True}),
    "fast plus keywords": changed("fast", understanding={"keywords": True}),
    "fast plus MMR": changed("fast", assembly={"diversity": "DIVERSITY_MMR"}),
    "fast plus dartboard": changed("fast", assembly={"diversity": "DIVERSITY_DARTBOARD"}),
    "fast plus segments": changed("fast", assembly={"segments": True}),
    "thorough": "thorough",
}
FLOORS = {
    ("2wiki", "recall_at_5"): 0.71,
    ("scifact", "ndcg_at_10"): 0.71,
    ("zh", "recall_at_5"): 0.993,
    ("popqa", "recall_at_5"): 0.99,
    ("xling", "recall_at_5"): 0.88,
}
MEASURES = {"recall_at_5": "recall@5", "ndcg_at_10": "nDCG@10"}
MIN_LEAD_OVER_RRF = 0.02
_CEILING = 0.995
"""A leg this good leaves no room to be beaten in; there `balanced` must not be worse."""

Rows = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Asked:
    """The questions of one set in one language.

    Attributes:
        folder: Folder of the set.
        field: Field that holds the question.
    """

    folder: Path
    field: str

    @property
    def name(self) -> str:
        """What the tables call it."""
        language = self.field.removeprefix("question").removeprefix("_")
        return f"{self.folder.name} ({language})" if language else self.folder.name


def run(*arguments: str, check: bool = True) -> dict[str, Any]:
    done = subprocess.run([*PROGRAM, *arguments, "--json"], stdout=subprocess.PIPE, check=False, cwd=ROOT)
    if check and done.returncode:
        sys.exit(f"corpusmesh {' '.join(arguments)} ended with status {done.returncode}")
    return json.loads(done.stdout) if done.stdout.strip() else {}


def asked_of(folder: Path) -> list[Asked]:
    with (folder / "queries.jsonl").open(encoding="utf-8") as lines:
        first = json.loads(next(lines))
    fields = [field for field in first if field.startswith("question_")]
    return [Asked(folder, field) for field in fields or ["question"]]


def measure(asked: Asked, plans: Mapping[str, str], data: Path, *, limit: int = 0) -> Rows:
    named = [part for name, plan in plans.items() for part in ("--plan", f"{name}={plan}")]
    result = run(
        "eval", str(asked.folder), "--kb", asked.folder.name.replace("_", "-"), *named,
        "--question-field", asked.field, "--limit", str(limit), "--data", str(data), check=False,
    )  # fmt: skip
    rows = {row["plan"]: row for row in result.get("measurements", [])}
    if rows.keys() != plans.keys() or result.get("failed_count"):
        sys.exit(f"{asked.name} was not measured")
    return rows


def missed(figures: Mapping[str, Rows]) -> Iterator[str]:
    """Check the bars: `balanced` against the better leg, against RRF, and against floors."""
    for name, rows in figures.items():
        for measure_name, label in MEASURES.items():
            value = rows[BALANCED][measure_name]
            leg = max(rows[FULL_TEXT][measure_name], rows[VECTORS][measure_name])
            if value < leg - 1e-9 or (value <= leg and leg < _CEILING):
                yield f"{name}: {label} of balanced, {value:.4f}, does not beat the better leg, {leg:.4f}"
    for measure_name, label in MEASURES.items():
        leads = [rows[BALANCED][measure_name] - rows[RRF][measure_name] for rows in figures.values()]
        if sum(leads) / len(leads) < MIN_LEAD_OVER_RRF:
            yield f"{label} of balanced is only {100 * sum(leads) / len(leads):.1f} points above RRF on average"
    for (folder, measure_name), floor in FLOORS.items():
        values = [rows[BALANCED][measure_name] for name, rows in figures.items() if name.split()[0] == folder]
        if values and sum(values) / len(values) < floor:
            yield f"{folder}: {MEASURES[measure_name]} {sum(values) / len(values):.4f} is below {floor}"


def table(figures: Mapping[str, Rows]) -> list[str]:
    lines = ["| set | questions | plan | recall@2 | recall@5 | nDCG@10 | p50 ms | p95 ms |", "|" + "---|" * 8]
    for name, rows in figures.items():
        for place, (plan, row) in enumerate(rows.items()):
            head = (name, str(row["query_count"])) if place == 0 else ("", "")
            quality = [f"{100 * row[column]:.1f}" for column in ("recall_at_2", *MEASURES)]
            times = [f"{row[column]:.0f}" for column in ("milliseconds_p50", "milliseconds_p95")]
            lines.append("| " + " | ".join((*head, plan, *quality, *times)) + " |")
    return lines


def ablation_table(figures: Mapping[str, Rows]) -> list[str]:
    lines = [
        "| plan | " + " | ".join(figures) + " | p50 ms | p95 ms |",
        "|" + "---|" * (len(figures) + 3),
    ]
    for plan in ABLATED_PLANS:
        cells = [
            f"{100 * rows[plan]['recall_at_5']:.1f} / {100 * rows[plan]['ndcg_at_10']:.1f}" for rows in figures.values()
        ]
        times = [
            f"{sum(rows[plan][column] for rows in figures.values()) / len(figures):.0f}"
            for column in ("milliseconds_p50", "milliseconds_p95")
        ]
        lines.append("| " + " | ".join((plan, *cells, *times)) + " |")
    return lines


def write_report(path: Path, lines: Sequence[str]) -> None:
    text = path.read_text(encoding="utf-8") if path.exists() else f"{BEGIN}\n{END}\n"
    before, found, rest = text.partition(BEGIN)
    _, ends, behind = rest.partition(END)
    if not found or not ends:
        sys.exit(f"{path} holds no place for the tables: {BEGIN} … {END}")
    path.write_text("\n".join([f"{before}{BEGIN}", *lines, f"{END}{behind}"]), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=Path, default=SHARED / "eval")
    parser.add_argument("--data", type=Path, default=ROOT / ".corpusmesh-eval")
    parser.add_argument("--only", default="", help="names of sets, joined by commas")
    parser.add_argument("--ablate", type=int, default=150, help="questions of each set for the ablation; 0 for none")
    parser.add_argument("--report", type=Path, help="also write the tables between the markers of this file")
    arguments = parser.parse_args()
    if not arguments.sets.is_dir():
        print(f"no evaluation sets at {arguments.sets}: nothing was measured")
        return 0
    wanted = set(filter(None, arguments.only.split(",")))
    folders = [folder for folder in sorted(arguments.sets.iterdir()) if (folder / "corpus.jsonl").exists()]
    every = [asked for folder in folders if not wanted or folder.name in wanted for asked in asked_of(folder)]
    figures: dict[str, Rows] = {}
    ablated: dict[str, Rows] = {}
    run("up", "--detach", "--data", str(arguments.data))
    try:
        for asked in every:
            figures[asked.name] = measure(asked, MAIN_PLANS, arguments.data)
            print("\n".join(table({asked.name: figures[asked.name]})), flush=True)
        for asked in every if arguments.ablate else []:
            ablated[asked.name] = measure(asked, ABLATED_PLANS, arguments.data, limit=arguments.ablate)
            print("\n".join(ablation_table({asked.name: ablated[asked.name]})), flush=True)
    finally:
        run("down", "--data", str(arguments.data), check=False)
    failures = list(missed(figures))
    lines = ["", *table(figures)]
    if ablated:
        title = (
            f"What each stage adds: the first {arguments.ablate} questions of each set, recall@5 / nDCG@10 in percent."
        )
        lines += ["", title, "", *ablation_table(ablated)]
    lines += ["", "Bars that are missed: " + ("; ".join(failures) if failures else "none") + ".", ""]
    print("\n".join(lines))
    if arguments.report:
        write_report(arguments.report, lines)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
