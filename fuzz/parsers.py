"""Fuzzes every parser: whatever bytes come, a document or a typed error comes out, in bounded time and memory.

    python fuzz/parsers.py                   # every format, 60 seconds each
    python fuzz/parsers.py pdf docx --seconds 600

Each format has a process of its own. It starts from real files of that format (the examples, and the shared documents
where they are), so that the mutations get past the first magic bytes. A crash, an error that is not a `DocumentError`,
a file that takes longer than 30 seconds or more than 2 GiB ends the process and leaves the input in `--findings`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("CORPUSMESH_SHARED", ROOT.parent / "shared")) / "documents"
FORMATS = (
    "pdf",
    "docx",
    "doc",
    "pptx",
    "xlsx",
    "xls",
    "odt",
    "html",
    "md",
    "csv",
    "txt",
    "eml",
    "msg",
    "epub",
    "json",
    "jsonl",
    "rtf",
    "zip",
    "png",
    "jpeg",
)
MAX_SEED_BYTES = 300_000
SECONDS_PER_INPUT = 30
RSS_MEBIBYTES = 2_048


def seeds(extension: str) -> list[bytes]:
    """Real files of a format, and small ones that this script writes where there is none."""
    found = [path.read_bytes() for path in sorted((ROOT / "examples/documents").glob(f"*.{extension}"))]
    manifest = SHARED / "MANIFEST.jsonl"
    if manifest.exists():
        for line in manifest.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if entry["format"] == extension:
                found.append((SHARED / entry["file"]).read_bytes())
    found += WRITTEN.get(extension, [])
    return [content for content in found if 0 < len(content) <= MAX_SEED_BYTES]


def _zip(**members: bytes) -> bytes:
    import io
    import zipfile

    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_dot_", "."), content)
    return target.getvalue()


WRITTEN = {
    "rtf": [
        rb"{\rtf1\ansi\ansicpg936{\fonttbl{\f0 Arial;}}\f0 Hello \u20320?\par {\trowd\cellx100 a\cell b\cell\row}}"
    ],
    "txt": ["第一章 总则\n本办法适用于所有员工。\n".encode("gb18030"), b"plain text\n"],
    "json": [b'{"title": "t", "items": [{"a": 1}, {"b": [true, null, "text"]}]}'],
    "zip": [_zip(a_dot_txt=b"text", folder__b_dot_md=b"# Title\n\nbody")],
    "odt": [
        _zip(
            mimetype=b"application/vnd.oasis.opendocument.text",
            content_dot_xml=b'<?xml version="1.0"?><office:document-content '
            b'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
            b'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:text>'
            b'<text:h text:outline-level="1">T</text:h><text:p>body</text:p></office:text></office:body>'
            b"</office:document-content>",
        )
    ],
    "msg": [b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 1_528],
}


def fuzz(extension: str, arguments: list[str]) -> None:
    """Run the fuzzer in this process; it never returns."""
    import atheris

    with atheris.instrument_imports(include=["corpusmesh_adapters.parsers", "corpusmesh_core"]):
        from corpusmesh_adapters.parsers.builder import Source
        from corpusmesh_adapters.parsers.router import parse_source
        from corpusmesh_core.errors import DocumentError
        from corpusmesh_core.ports.parsing import ParseLimits, ParseOptions, RecognitionMode

    # Recognition takes seconds a page: what is fuzzed is what reads bytes.
    limits = ParseLimits(max_bytes=2_000_000, max_pages=200, max_uncompressed_bytes=20_000_000, max_pixels=4_000_000)
    options = ParseOptions(limits=limits, recognition=RecognitionMode.NEVER, keep_pictures=True)
    outcomes: Counter[str] = Counter()

    def read(content: bytes) -> None:
        if not content:
            return
        try:
            parse_source(Source(content, f"fuzzed.{extension}", options))
        except DocumentError as error:
            outcomes[error.reason] += 1
        else:
            outcomes["read"] += 1
        if sum(outcomes.values()) % 500 == 0:
            print(f"{extension}: {dict(outcomes)}", file=sys.stderr)

    atheris.Setup([sys.argv[0], *arguments], read)
    atheris.Fuzz()


def run(extension: str, seconds: int, findings: Path) -> bool:
    """Fuzz one format in a process of its own, and say how it went."""
    found = seeds(extension)
    with tempfile.TemporaryDirectory(prefix="corpusmesh-fuzz-") as folder:
        for index, content in enumerate(found):
            (Path(folder) / f"seed-{index}").write_bytes(content)
        findings.mkdir(parents=True, exist_ok=True)
        process = subprocess.run(
            [
                sys.executable,
                __file__,
                "--format",
                extension,
                folder,
                f"-max_total_time={seconds}",
                f"-timeout={SECONDS_PER_INPUT}",
                f"-rss_limit_mb={RSS_MEBIBYTES}",
                "-max_len=400000",
                f"-artifact_prefix={findings}/{extension}-",
                "-print_final_stats=1",
            ],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=seconds + 300,
        )
    runs = next((line.split()[-1] for line in process.stderr.splitlines() if "number_of_executed_units" in line), "?")
    last = [line for line in process.stderr.splitlines() if line.startswith(f"{extension}: ")]
    is_good = process.returncode == 0
    print(
        f"{extension:6} {'ok' if is_good else 'FAILED'}  {len(found)} seeds, {runs} inputs  {last[-1] if last else ''}"
    )
    if not is_good:
        print("\n".join(process.stderr.splitlines()[-30:]))
    sys.stdout.flush()
    return is_good


def main() -> int:
    """Fuzz the formats that were named, or all."""
    if len(sys.argv) > 2 and sys.argv[1] == "--format":
        fuzz(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("formats", nargs="*", choices=[*FORMATS, []], help="formats; all where none is named")
    parser.add_argument("--seconds", type=int, default=60, help="time for each format")
    parser.add_argument("--findings", type=Path, default=ROOT / "fuzz/findings", help="where inputs are left")
    options = parser.parse_args()
    results = [run(name, options.seconds, options.findings.resolve()) for name in options.formats or FORMATS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
