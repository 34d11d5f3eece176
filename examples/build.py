"""Makes the sample documents: the product's own guides in every office format, from the texts in `sources/`.

    python examples/build.py            # writes documents/
    python examples/build.py --check    # fails if documents/ is not what the sources give

The same sources give the same bytes on any machine: dates are fixed, packages are stored without compression.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rendering import render_docx, render_html, render_markdown, render_pdf, render_pptx, render_xlsx
from sources import read_source

HERE = Path(__file__).parent
SOURCES = HERE / "sources"
DOCUMENTS = HERE / "documents"


@dataclass(frozen=True)
class Sample:
    """One sample document: which text, under which name, by which renderer."""

    source: str
    name: str
    language: str


SAMPLES = (
    Sample("user-guide.md", "CorpusMesh User Guide.pdf", "en"),
    Sample("operators-handbook.md", "CorpusMesh Operator's Handbook.docx", "en"),
    Sample("security-and-permissions.md", "Security and permissions.html", "en"),
    Sample("snapshots.md", "Snapshots, publishing and rollback.md", "en"),
    Sample("release-notes.md", "Release notes 0.1.md", "en"),
    Sample("limits.md", "CorpusMesh limits.xlsx", "en"),
    Sample("architecture.md", "CorpusMesh architecture.pptx", "en"),
    Sample("yonghu-shouce.md", "CorpusMesh用户手册.docx", "zh"),
    Sample("changjian-wenti.md", "CorpusMesh常见问题.html", "zh"),
    Sample("guanli-suji.md", "CorpusMesh管理员速查.pdf", "zh"),
)
RENDERERS: dict[str, Callable[..., bytes]] = {
    ".md": render_markdown,
    ".html": render_html,
    ".docx": render_docx,
    ".pptx": render_pptx,
    ".xlsx": render_xlsx,
    ".pdf": render_pdf,
}


def build() -> Iterator[tuple[str, bytes]]:
    """Yield the name and the bytes of every sample document."""
    for sample in SAMPLES:
        source = read_source(SOURCES / sample.source, sample.language)
        yield sample.name, RENDERERS[Path(sample.name).suffix](source)


def main() -> int:
    """Write the documents, or check them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    check = parser.parse_args().check
    DOCUMENTS.mkdir(exist_ok=True)
    stale = []
    total = 0
    for name, content in build():
        path = DOCUMENTS / name
        total += len(content)
        if check and (not path.is_file() or path.read_bytes() != content):
            stale.append(name)
        if not check:
            path.write_bytes(content)
            print(f"{len(content):>9,}  {name}")
    extra = sorted({path.name for path in DOCUMENTS.iterdir()} - {sample.name for sample in SAMPLES})
    if stale or extra:
        print(f"stale: {stale}; unknown: {extra}; run python examples/build.py", file=sys.stderr)
        return 1
    print(f"{total:>9,}  bytes in {len(SAMPLES)} documents")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
