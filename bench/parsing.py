"""Measures reading PDFs to chunks beside pypdfium2's raw text, and every common file beside one all-in-one peer.

    python bench/parsing.py [--repeats 3] [--pages 1600,5000] [--documents ../shared/documents]
                            [--peer-python PATH --peer unstructured|docling|markitdown|kreuzberg] [--report FILE]

"raw" opens a file with pypdfium2, takes the text of every page and closes it; "ours" is the parser and the general
chunk template: with the word counter, with the default model's tokenizer where it is installed, and with one that meets
every word for the first time, as in the first document of a process. All of one file are measured in turn in one fresh
process, in CPU seconds (the machine is noisy), best of the repeats, imports not counted; peak memory is that of a
process that does nothing else. Two long PDFs are written by this program. The peer runs in an interpreter of its own,
to which this project's packages are not visible.
"""

import argparse
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("CORPUSMESH_SHARED", ROOT.parent / "shared"))
TIMEOUT_SECONDS = 900
WORDS = re.findall(
    r"\w+",
    "the of and to in a is that for it with as was on are be this by from at which or an not have river harbour treaty "
    "engine protein archive committee minister valley copper violin parliament glacier printing contract insurance "
    "turbine orchard satellite museum bridge election mineral poet railway vaccine castle harvest tribunal lantern",
)
COMMON = {"pdf", "docx", "pptx", "xlsx", "xls", "html", "md", "csv", "txt", "eml", "epub", "json", "jsonl"}

PEER_PROGRAM = """
import contextlib, io, json, os, sys, time
peer, paths = sys.argv[1], sys.argv[2:]
out = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
if peer == "unstructured":
    from unstructured.partition.auto import partition
    read = lambda path: "".join(str(part) for part in partition(filename=path, strategy="fast"))
elif peer == "docling":
    from docling.document_converter import DocumentConverter
    converter = DocumentConverter()
    read = lambda path: converter.convert(path).document.export_to_markdown()
elif peer == "markitdown":
    from markitdown import MarkItDown
    converter = MarkItDown()
    read = lambda path: converter.convert(path).text_content
else:
    from kreuzberg import extract_file_sync
    read = lambda path: extract_file_sync(path).content
for number, path in enumerate(paths):
    best, count, failure = None, 0, ""
    for repeat in range(2):
        started = time.process_time()
        try:
            count = len(read(path))
        except BaseException as error:
            failure = type(error).__name__
            break
        spent = time.process_time() - started
        best = spent if best is None else min(best, spent)
        if spent > 20:
            break
    out.write(json.dumps({"path": path, "seconds": best, "characters": count, "failure": failure}) + "\\n")
    out.flush()
"""
"""Runs in the peer's interpreter: the second reading of each file counts, after models and vocabularies are loaded."""


def write_book(path: Path, page_count: int) -> None:
    """A long report: running heads, headings, paragraphs in two fonts, a ruled table every 8 pages."""
    from reportlab.lib.pagesizes import A4
    from reportlab.pdfgen.canvas import Canvas

    dice = random.Random(4)
    canvas = Canvas(str(path), pagesize=A4, pageCompression=1)
    for page in range(1, page_count + 1):
        canvas.setFont("Helvetica", 8)
        canvas.drawString(60, 810, "Yearly report of the harbour committee")
        canvas.drawString(500, 30, str(page))
        canvas.setFont("Helvetica-Bold", 14)
        canvas.drawString(60, 780, f"{page} {' '.join(dice.choices(WORDS, k=4)).capitalize()}")
        canvas.setFont("Times-Roman", 11)
        height = 755.0
        for paragraph in range(5):
            text = " ".join(dice.choices(WORDS, k=110)).capitalize() + "."
            for line in textwrap.wrap(text, 92):
                canvas.drawString(60, height, line)
                height -= 13
            height -= 8
            if paragraph == 2 and page % 8 == 0:
                height = draw_table(canvas, height, dice)
        canvas.showPage()
    canvas.save()


def draw_table(canvas: Any, top: float, dice: random.Random) -> float:
    lefts, tops = [60, 160, 260, 360, 460], [top - 16 * row for row in range(6)]
    canvas.grid(lefts, tops)
    for row, y in enumerate(tops[1:]):
        for x in lefts[:-1]:
            canvas.drawString(x + 4, y + 4, dice.choice(WORDS) if row == 0 else str(dice.randint(1, 9_999)))
    return tops[-1] - 20


def raw_text(content: bytes) -> tuple[int, int]:
    """Pages and characters by pypdfium2 alone."""
    import pypdfium2 as pdfium

    pdf = pdfium.PdfDocument(content)
    page_count = len(pdf)
    characters = 0
    for index in range(page_count):
        page = pdf[index]
        textpage = page.get_textpage()
        characters += len(textpage.get_text_range())
        textpage.close()
        page.close()
    pdf.close()
    return page_count, characters


def reader_of(path: Path, content: bytes, counter: Any, max_pages: int) -> Callable[[], int]:
    """Our way from bytes to chunks."""
    from corpusmesh_adapters.parsers.builder import Source
    from corpusmesh_adapters.parsers.router import parse_source
    from corpusmesh_core.chunking import chunk_document
    from corpusmesh_core.ports.parsing import ParseLimits, ParseOptions, RecognitionMode

    options = ParseOptions(limits=ParseLimits(max_pages=max_pages), recognition=RecognitionMode.NEVER)

    def read() -> int:
        return len(chunk_document(parse_source(Source(content, path.name, options)), counter))

    return read


def counters() -> dict[str, Any]:
    """Token counters by name."""
    from corpusmesh_adapters.models.registry import DEFAULT_MODEL_NAME, model_directory
    from corpusmesh_adapters.models.tokenization import ModelTokenizer
    from corpusmesh_core.chunking import WordTokenCounter

    found: dict[str, Any] = {"words": WordTokenCounter()}
    tokenizer = model_directory(DEFAULT_MODEL_NAME) / "tokenizer.json"
    if tokenizer.is_file():
        found["model"] = ModelTokenizer(tokenizer)
    return found


def cpu_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def measure(path: Path, repeats: int, max_pages: int) -> dict[str, Any]:
    """CPU seconds of each way over one file, in turn."""
    content = path.read_bytes()
    ways: dict[str, Callable[[], object]] = {}
    pages = 0
    if content[:5] == b"%PDF-":
        pages = raw_text(content)[0]
        ways["raw"] = lambda: raw_text(content)
    for name, counter in counters().items():
        ways[name] = reader_of(path, content, counter, max_pages)
    for way in list(ways.values()):
        if pages < 100:
            way()
    spent: dict[str, list[float]] = {name: [] for name in ways}
    if "model" in ways:
        spent["new model"] = []
    for _ in range(repeats):
        for name, way in ways.items():
            spent[name].append(cpu_seconds(way))
        if "model" in ways:
            spent["new model"].append(cpu_seconds(reader_of(path, content, counters()["model"], max_pages)))
    return {"pages": pages, "seconds": {name: min(values) for name, values in spent.items()}}


def peak(path: Path, way: str, max_pages: int) -> dict[str, Any]:
    """Peak memory of one way over one file, above that of the process before it."""
    content = path.read_bytes()
    from corpusmesh_core.chunking import WordTokenCounter
    from corpusmesh_core.errors import DocumentError

    work = reader_of(path, content, WordTokenCounter(), max_pages) if way == "words" else lambda: raw_text(content)[0]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    started = time.process_time()
    outcome: object
    try:
        outcome = work()
    except DocumentError as error:
        outcome = error.reason
    return {
        "before_mib": before,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "seconds": time.process_time() - started,
        "outcome": outcome,
    }


def in_child(*arguments: object) -> dict[str, Any]:
    """Run a part of this program in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
        timeout=TIMEOUT_SECONDS,
        env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
    )
    if done.returncode or not done.stdout:
        return {"failure": f"status {done.returncode}"}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def common_files(folder: Path) -> list[dict[str, Any]]:
    """Files of the manifest that anybody should be able to read."""
    manifest = folder / "MANIFEST.jsonl"
    if not manifest.is_file():
        return []
    entries = [json.loads(line) for line in manifest.read_text(encoding="utf-8").splitlines() if line]
    return [
        entry
        for entry in entries
        if not {"error", "ocr", "either", "garbled_text_layer", "resource_limit"} & set(entry["expect"])
        and Path(entry["file"]).suffix[1:].lower() in COMMON
    ]


def table(title: str, header: list[str], rows: list[list[str]]) -> str:
    lines = [f"\n## {title}\n", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def pdf_report(paths: list[Path], options: argparse.Namespace) -> str:
    """Speed of PDFs: pages per CPU second and shares of raw text."""
    rows, totals, shares = [], {"pages": 0.0}, []
    for path in paths:
        found = in_child("--measure", path, "--repeats", options.repeats)
        seconds = found.get("seconds", {})
        if "raw" not in seconds:
            rows.append([path.name, found.get("failure", "no PDF"), "", "", "", "", ""])
            continue
        pages = found["pages"]
        rows.append([path.name, str(pages), *speeds(pages, seconds)])
        if path.parent != options.documents:
            continue
        totals["pages"] += pages
        for name, value in seconds.items():
            totals[name] = totals.get(name, 0.0) + value
        shares.append(seconds["raw"] / seconds["words"])
    if totals.get("raw"):
        rows.append(["**shared documents together**", f"{totals['pages']:.0f}", *speeds(totals["pages"], totals)])
        rows.append(["median shared document", "", "", "", f"{statistics.median(shares):.0%}", "", ""])
    header = ["file", "pages", "raw p/s", "ours p/s", "ours/raw", "ours/raw, model's tokenizer", "with new words"]
    return table("PDF to chunks beside pypdfium2's raw text (CPU seconds)", header, rows)


def speeds(pages: float, seconds: dict[str, float]) -> list[str]:
    raw = seconds["raw"]
    ways = ("words", "model", "new model")
    shares = [f"{raw / seconds[way]:.0%}" if way in seconds else "not installed" for way in ways]
    return [f"{pages / raw:.0f}", f"{pages / seconds['words']:.0f}", *shares]


def memory_report(paths: list[Path]) -> str:
    """Peak memory, and what happens beyond the limit on pages."""
    rows = []
    for path in paths:
        for way, limit in (("raw", 0), ("words", 3_000), ("words", 1_000_000)):
            found = in_child("--peak", path, way, "--max-pages", limit)
            name = "raw" if way == "raw" else f"ours, max_pages={limit}"
            if "failure" in found:
                rows.append([path.name, name, found["failure"], "", "", ""])
                continue
            rows.append(
                [
                    path.name,
                    name,
                    f"{found['before_mib']:.0f}",
                    f"{found['peak_mib']:.0f}",
                    f"{found['seconds']:.2f}",
                    str(found["outcome"]),
                ]
            )
    header = ["file", "way", "MiB before", "MiB peak", "CPU seconds", "outcome"]
    return table("Peak resident memory", header, rows)


def peer_report(entries: list[dict[str, Any]], folder: Path, options: argparse.Namespace) -> str:
    """How much faster than the peer each common file is read."""
    paths = [str(folder / entry["file"]) for entry in entries]
    done = subprocess.run(
        [options.peer_python, "-c", PEER_PROGRAM, options.peer, *paths],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
        timeout=TIMEOUT_SECONDS,
        text=True,
    )
    theirs = {entry["path"]: entry for entry in map(json.loads, done.stdout.splitlines())}
    rows, slower = [], []
    for path in paths:
        found = in_child("--measure", path, "--repeats", options.repeats)
        mine = found.get("seconds", {}).get("words")
        peer = theirs.get(path, {"seconds": None, "failure": "crashed", "characters": 0})
        ours = f"{1000 * mine:.1f}" if mine else found.get("failure", "")
        if mine and peer["seconds"]:
            factor = peer["seconds"] / mine
            rows.append([Path(path).name, ours, f"{1000 * peer['seconds']:.1f}", f"{factor:.1f}", ""])
            if factor <= 1.0:
                slower.append(Path(path).name)
        else:
            rows.append([Path(path).name, ours, "", "", f"peer: {peer['failure'] or 'nothing'}"])
    rows.append(["**slower than the peer**", "", "", "", ", ".join(slower) or "none"])
    header = ["file", "ours, ms to chunks", f"{options.peer}, ms to text", "times faster", "note"]
    return table(f"Every common file beside {options.peer} (CPU milliseconds)", header, rows)


def parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=Path, default=SHARED / "documents")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pages", default="1600,5000", help="lengths of the PDFs that are written, 0 for none")
    parser.add_argument("--peer-python", default="", help="interpreter with the peer installed")
    parser.add_argument("--peer", default="unstructured")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--max-pages", type=int, default=1_000_000, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = parsed_arguments()
    if options.measure:
        print(json.dumps(measure(options.measure, options.repeats, options.max_pages)))
        return
    if options.peak:
        print(json.dumps(peak(Path(options.peak[0]), options.peak[1], options.max_pages)))
        return
    entries = common_files(options.documents)
    parts: list[str] = []
    with tempfile.TemporaryDirectory(prefix="corpusmesh-bench-") as folder:
        books = []
        for count in [int(part) for part in options.pages.split(",") if int(part)]:
            books.append(Path(folder) / f"report-{count}-pages.pdf")
            write_book(books[-1], count)
        digital = [options.documents / entry["file"] for entry in entries if entry["format"] == "pdf"]
        if not digital:
            print(f"The shared documents are not at {options.documents}: only the PDFs written here are measured.")
        parts.append(pdf_report(digital + books, options))
        print(parts[-1], flush=True)
        if books:
            parts.append(memory_report(books))
            print(parts[-1], flush=True)
        if options.peer_python:
            parts.append(peer_report(entries, options.documents, options))
            print(parts[-1], flush=True)
    if options.report:
        options.report.write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
