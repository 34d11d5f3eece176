"""Measures retrieval on every evaluation set: `make eval`.

    python bench/eval_all.py [--sets ../shared/eval] [--data .corpusmesh-eval] [--only xling,zh] [--ablate 150]
                             [--limit 0] [--without-titles] [--report docs/evaluation.md]

Starts a mesh of its own without a language model, ingests each set's corpus (a second run finds it there), builds its
graph, and asks every question by full text alone, vectors alone, reciprocal rank fusion, and the presets fast and
balanced, without the graph; then, in turn, by `balanced`, by its first search alone (hybrid), and by `balanced` with
the graph; then the first questions of each set by `balanced` without each of its stages and by `fast` with each further
one. `--without-titles` does the same with documents that are texts alone, in knowledge bases of their own. Prints
recall@5, nDCG@10 and milliseconds per query, writes them between the markers of the report, and ends with status 1
where a bar is missed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import graph_questions

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("CORPUSMESH_SHARED", ROOT.parent / "shared"))
PROGRAM = [sys.executable, "-m", "corpusmesh_app"]
BEGIN, END = "<!-- measured by make eval: begin -->", "<!-- measured by make eval: end -->"
FULL_TEXT, VECTORS, RRF, FAST, BALANCED = "full text", "vectors", "RRF", "fast", "balanced"
HYBRID, GRAPH = "hybrid", "graph"
GRAPH_OFF = {"mode": "MODE_OFF"}


def changed(preset: str, **parts: object) -> str:
    """Give a preset with what differs; without the graph, where nothing is said of it."""
    return json.dumps({"preset": f"PRESET_{preset.upper()}", "graph": GRAPH_OFF, **parts})


MAIN_PLANS = {
    FULL_TEXT: changed("fast", mode="SEARCH_MODE_LEXICAL"),
    VECTORS: changed("fast", mode="SEARCH_MODE_VECTOR"),
    RRF: changed("fast", fusion="FUSION_RECIPROCAL_RANK"),
    FAST: changed("fast"),
}
GRAPH_PLANS = {
    BALANCED: changed("balanced"),
    HYBRID: changed("balanced", assembly={"hops": 0}),
    GRAPH: "balanced",
}
ABLATED_PLANS = {
    "fast": changed("fast"),
    "balanced": changed("balanced"),
    "balanced with the graph": "balanced",
    "balanced with the graph, without hops": changed("balanced", assembly={"hops": 0}, graph={}),
    "fast with the graph": "fast",
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
    "thorough": changed("thorough"),
}
FLOORS = {
    ("2wiki", "recall_at_5"): 0.71,
    ("scifact", "ndcg_at_10"): 0.71,
    ("zh", "recall_at_5"): 0.993,
    ("popqa", "recall_at_5"): 0.99,
    ("xling", "recall_at_5"): 0.88,
}
GRAPH_FLOORS = {"2wiki": 0.975, "mh_small": 0.85}
"""recall@5 of the graph, with titles."""
UNTITLED_GAINS = {"2wiki": 0.10, "mh_small": 0.06}
"""recall@5 of the graph above hybrid, without titles."""
MANY_HOPS = frozenset(GRAPH_FLOORS)
MAX_LOSS = 0.005
"""Of sets whose questions need one passage."""
MAX_ADDED_MILLISECONDS = 60
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

    @property
    def knowledge_base(self) -> str:
        """Identifier of the knowledge base."""
        return self.folder.name.replace("_", "-")


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
        "eval", str(asked.folder), "--kb", asked.knowledge_base, *named,
        "--question-field", asked.field, "--limit", str(limit), "--data", str(data), check=False,
    )  # fmt: skip
    rows = {row["plan"]: row for row in result.get("measurements", [])}
    if rows.keys() != plans.keys() or result.get("failed_count"):
        sys.exit(f"{asked.name} was not measured")
    return rows


def prepare(asked: Asked, data: Path) -> None:
    """Ingest what is missing of a set, and bring its graph up to date."""
    base, at = asked.knowledge_base, ("--data", str(data))
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "settings.json"
        settings.write_text(json.dumps(graph_questions.GRAPH_SETTINGS), encoding="utf-8")
        run("kb", "create", base, "--id", base, *at, check=False)
        run("kb", "update", base, "--settings", str(settings), *at)
    started = time.perf_counter()
    measure(asked, {"off": MAIN_PLANS[FAST]}, data, limit=1)
    ingested = time.perf_counter()
    run("graph", "build", "--kb", base, "--wait", *at)
    built = time.perf_counter() - ingested
    print(f"{asked.folder.name}: ingest {ingested - started:.0f} s, graph {built:.0f} s", flush=True)


def measure_all(asked: Asked, data: Path, *, limit: int) -> Rows:
    rows = measure(asked, MAIN_PLANS, data, limit=limit)
    return rows | graph_questions.ask(data, asked.knowledge_base, asked.folder, asked.field, GRAPH_PLANS, limit)


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


def missed_by_graphs(figures: Mapping[str, Rows]) -> Iterator[str]:
    """Check the bars of graphs: floors with titles, gains without, nothing lost where one passage is wanted, time."""
    for name, rows in figures.items():
        folder = name.split()[0]
        titled = folder.removesuffix(graph_questions.UNTITLED)
        graph = rows[GRAPH]
        value, gain = graph["recall_at_5"], graph["recall_at_5"] - rows[HYBRID]["recall_at_5"]
        if value < GRAPH_FLOORS.get(folder, 0):
            yield f"{name}: recall@5 of the graph, {100 * value:.1f}, is below {100 * GRAPH_FLOORS[folder]:.1f}"
        if titled != folder and gain < UNTITLED_GAINS.get(titled, -1):
            yield f"{name}: the graph gains {100 * gain:.1f} points, not {100 * UNTITLED_GAINS[titled]:.0f}"
        if titled not in MANY_HOPS:
            for measure_name, label in MEASURES.items():
                loss = max(rows[plan][measure_name] for plan in (BALANCED, HYBRID)) - graph[measure_name]
                if loss > MAX_LOSS:
                    yield f"{name}: the graph loses {100 * loss:.1f} points of {label}"
        if graph["added_p95"] > MAX_ADDED_MILLISECONDS:
            yield f"{name}: the graph adds {graph['added_p95']:.0f} ms to the 95th percentile"


def table(figures: Mapping[str, Rows]) -> list[str]:
    lines = ["| set | questions | plan | recall@2 | recall@5 | nDCG@10 | p50 ms | p95 ms |", "|" + "---|" * 8]
    for name, rows in figures.items():
        for place, (plan, row) in enumerate(rows.items()):
            head = (name, str(row["query_count"])) if place == 0 else ("", "")
            quality = [f"{100 * row[column]:.1f}" for column in ("recall_at_2", *MEASURES)]
            times = [f"{row[column]:.0f}" for column in ("milliseconds_p50", "milliseconds_p95")]
            lines.append("| " + " | ".join((*head, plan, *quality, *times)) + " |")
    return lines


def graph_table(figures: Mapping[str, Rows]) -> list[str]:
    heads = ("set", "plan", "all", "even questions", "odd questions", "added p50 ms", "added p95 ms")
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for name, rows in figures.items():
        for place, plan in enumerate((HYBRID, BALANCED, GRAPH)):
            row = rows[plan]
            parts = [(row["recall_at_5"], row["ndcg_at_10"]), row["even"], row["odd"]]
            quality = [f"{100 * recall:.1f} / {100 * ndcg:.1f}" for recall, ndcg in parts]
            times = [f"{row[column]:+.0f}" for column in ("added_p50", "added_p95")]
            lines.append("| " + " | ".join((name if place == 0 else "", plan, *quality, *times)) + " |")
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
    parser.add_argument("--limit", type=int, default=0, help="questions of each set; 0 for all")
    parser.add_argument("--without-titles", action="store_true", help="also with documents that are texts alone")
    arguments = parser.parse_args()
    if not arguments.sets.is_dir():
        print(f"no evaluation sets at {arguments.sets}: nothing was measured")
        return 0
    wanted = set(filter(None, arguments.only.split(",")))
    folders = [folder for folder in sorted(arguments.sets.iterdir()) if (folder / "corpus.jsonl").exists()]
    every = [asked for folder in folders if not wanted or folder.name in wanted for asked in asked_of(folder)]
    figures: dict[str, Rows] = {}
    untitled: dict[str, Rows] = {}
    ablated: dict[str, Rows] = {}
    run("up", "--detach", "--data", str(arguments.data))
    try:
        for asked in every:
            prepare(asked, arguments.data)
            figures[asked.name] = measure_all(asked, arguments.data, limit=arguments.limit)
            print("\n".join(table({asked.name: figures[asked.name]})), flush=True)
        for asked in every if arguments.without_titles else []:
            with graph_questions.without_titles(asked.folder) as folder:
                bare = Asked(folder, asked.field)
                prepare(bare, arguments.data)
                untitled[bare.name] = measure_all(bare, arguments.data, limit=arguments.limit)
            print("\n".join(table({bare.name: untitled[bare.name]})), flush=True)
        for asked in every if arguments.ablate else []:
            ablated[asked.name] = measure(asked, ABLATED_PLANS, arguments.data, limit=arguments.ablate)
            print("\n".join(ablation_table({asked.name: ablated[asked.name]})), flush=True)
    finally:
        run("down", "--data", str(arguments.data), check=False)
    failures = [*missed(figures), *missed_by_graphs(figures | untitled)]
    lines = ["", *table(figures | untitled), "", *graph_table(figures | untitled)]
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
