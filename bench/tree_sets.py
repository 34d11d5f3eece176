"""Long documents and questions that need more than one place of them, made of the evaluation sets and real documents.

Nothing is written by hand or by a model, and no data is kept here: everything is read at run time and comes out the
same every time. Two kinds of questions:

- *several places*: questions of the sets that have two to five gold passages (2wiki, mh_small, scifact's training
  claims). The whole corpus is cut into documents of 30 to 80 passages by subject, so that all gold passages of a
  question stand in one document among many near ones. Passages stand in an order in which neighbours are alike, which
  knows nothing of the questions.
- *a section*: "What is said about X?" for the real headings of real texts: articles of XQuAD (English) and DRCD
  (Chinese) with at least four paragraphs, and sections of at least two chunks of a book, a paper, a handbook and a
  regulation. Gold is every paragraph of the section. The heading stands alone before the first paragraph, as in a file,
  and is the only thing that the question repeats. Headings that name no subject ("Introduction") are not asked for.

The sets with one gold passage stay as they are, one document a passage: they must lose nothing.
"""

import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SHARED = Path(os.environ.get("CORPUSMESH_SHARED", Path(__file__).resolve().parent.parent.parent / "shared"))
SETS = ("2wiki", "mh_small", "scifact", "articles-en", "drcd", "real")
_DOCUMENT_PASSAGES = 50
_LEAST_SECTION_PASSAGES = 4
_REAL_FILES = (
    "winter-sports.epub",
    "tracemonkey.pdf",
    "redp5110_sampled.pdf",
    "federal-register-2020-17221.pdf",
)
_NO_SECTION = re.compile(
    r"contents|illustrations|licen[cs]e|acknowledg|references|authors|list of subjects|winter sports in switzerland$"
    r"|introduction|background|implementation|evaluation|related work|correctness|(section|part) [\w—–-]{1,4}\b",
    re.IGNORECASE,
)

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Passage:
    """A paragraph of a long document: one leaf of its tree."""

    passage_id: str
    text: str
    heading_path: tuple[str, ...] = ()
    page: int = 0


@dataclass(frozen=True)
class LongDocument:
    """A document made of passages, in order."""

    document_id: str
    title: str
    passages: tuple[Passage, ...]
    path: Path | None = None
    """The real file; None for one that was put together."""


@dataclass(frozen=True)
class Question:
    """A question and the passages that answer it; `facts` are strings that the evidence should hold."""

    text: str
    gold: tuple[str, ...]
    facts: tuple[str, ...] = ()


@dataclass(frozen=True)
class TreeSet:
    """Long documents with questions."""

    name: str
    documents: tuple[LongDocument, ...]
    questions: tuple[Question, ...]


def lines_of(path: Path) -> list[dict[str, object]]:
    """Read a file of JSON lines."""
    return [json.loads(line) for line in path.open(encoding="utf-8")]


def chain(vectors: Vectors) -> list[int]:
    """Order rows so that neighbours are alike: from the row most like all, always on to the nearest that is left."""
    at = int(np.argmax(vectors @ vectors.mean(axis=0)))
    left = np.ones(len(vectors), dtype=bool)
    order = [at]
    left[at] = False
    for _ in range(len(vectors) - 1):
        at = int(np.argmax(np.where(left, vectors @ vectors[at], -2.0)))
        left[at] = False
        order.append(at)
    return order


def several_places(name: str, vectors: Vectors, *, document_passages: int = _DOCUMENT_PASSAGES) -> TreeSet:
    """Cut a corpus into documents by subject and keep the questions with two to five gold passages."""
    folder = SHARED / "eval" / name
    corpus = lines_of(folder / "corpus.jsonl")
    asked = lines_of(folder / "queries.jsonl")
    if name == "scifact":
        asked += lines_of(folder / "queries_train.jsonl")
    asked = [entry for entry in asked if 2 <= len(entry["gold_ids"]) <= 5]  # type: ignore[arg-type]
    row_by_id = {str(entry["id"]): row for row, entry in enumerate(corpus)}
    groups = _glued([[row_by_id[gold] for gold in entry["gold_ids"]] for entry in asked], len(corpus))  # type: ignore[attr-defined]
    centres = np.stack([vectors[group].mean(axis=0) for group in groups])
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    documents: list[list[int]] = [[]]
    for place in chain(centres):
        if len(documents[-1]) + len(groups[place]) > document_passages:
            documents.append([])
        documents[-1] += groups[place]
    # Within a document the passages are put in order one by one: gold passages are no neighbours for being gold.
    documents = [[rows[place] for place in chain(vectors[rows])] for rows in documents if rows]
    made = tuple(
        LongDocument(
            f"{name}-{number}",
            f"Volume {number}",
            tuple(Passage(str(corpus[row]["id"]), f"{corpus[row]['title']}\n{corpus[row]['text']}") for row in rows),
        )
        for number, rows in enumerate(documents, start=1)
    )
    questions = [
        Question(
            str(entry["question"]),
            tuple(entry["gold_ids"]),  # type: ignore[arg-type]
            tuple(entry["answers"]),  # type: ignore[arg-type]
        )
        for entry in asked
    ]
    return TreeSet(name, made, tuple(questions))


def one_place(name: str) -> TreeSet:
    """Take a set as it is, each passage a document of its own."""
    folder = SHARED / "eval" / name
    corpus = lines_of(folder / "corpus.jsonl")
    documents = tuple(
        LongDocument(str(e["id"]), str(e["title"]), (Passage(str(e["id"]), f"{e['title']}\n{e['text']}"),))
        for e in corpus
    )
    asked = lines_of(folder / "queries.jsonl")
    if name == "scifact":
        asked += lines_of(folder / "queries_train.jsonl")
    questions = tuple(
        Question(str(e["question"]), tuple(e["gold_ids"]), tuple(e["answers"]))  # type: ignore[arg-type]
        for e in asked
    )
    return TreeSet(f"one-{name}", documents, questions)


def _glued(wanted: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """Put rows together that any list wants together; all others alone, by their first row."""
    root = list(range(count))

    def find(row: int) -> int:
        while root[row] != row:
            root[row] = root[root[row]]
            row = root[row]
        return row

    for rows in wanted:
        for first, second in pairwise(rows):
            root[max(find(first), find(second))] = min(find(first), find(second))
    groups: dict[int, list[int]] = defaultdict(list)
    for row in range(count):
        groups[find(row)].append(row)
    return list(groups.values())


def articles(name: str) -> TreeSet:
    """Put whole articles, in their order, into documents; ask what is said about each."""
    language, folder, prefix = {
        "articles-en": ("en", "xling", "en-"),
        "drcd": ("zh", "zh", "drcd-"),
    }[name]
    corpus = [e for e in lines_of(SHARED / "eval" / folder / "corpus.jsonl") if str(e["id"]).startswith(prefix)]
    asked = lines_of(SHARED / "eval" / folder / "queries.jsonl")
    by_title: dict[str, list[dict[str, object]]] = defaultdict(list)
    for entry in corpus:
        by_title[str(entry["title"])].append(entry)
    sections = {
        title: sorted(entries, key=lambda e: int(str(e["id"]).split("-")[-1]))
        for title, entries in by_title.items()
        if len(entries) >= _LEAST_SECTION_PASSAGES and title
    }
    facts: dict[str, list[str]] = defaultdict(list)
    for entry in asked:
        answers = entry.get(f"answers_{language}") or entry["answers"]
        for gold in entry["gold_ids"]:  # type: ignore[attr-defined]
            facts[gold] += answers[:1]  # type: ignore[index]
    documents: list[list[str]] = [[]]
    for title in sorted(sections):
        if sum(len(sections[other]) for other in documents[-1]) + len(sections[title]) > _DOCUMENT_PASSAGES:
            documents.append([])
        documents[-1].append(title)
    made = tuple(
        LongDocument(
            f"{name}-{number}",
            f"Volume {number}",
            tuple(
                Passage(str(entry["id"]), str(entry["text"]), (title,))
                for title in titles_of_document
                for entry in sections[title]
            ),
        )
        for number, titles_of_document in enumerate(documents, start=1)
    )
    questions = tuple(
        Question(
            _about(title, language),
            tuple(str(entry["id"]) for entry in entries),
            tuple(fact for entry in entries for fact in facts[str(entry["id"])]),
        )
        for title, entries in sections.items()
    )
    return TreeSet(name, made, questions)


def _about(title: str, language: str) -> str:
    return f"What is said about {title}?" if language == "en" else f"關於{title}，文中講了些什麼？"


def real_documents() -> TreeSet:
    """Read real files with the product's parsers; ask what is said in each of their sections."""
    documents: list[LongDocument] = []
    questions: list[Question] = []
    for file_name in _REAL_FILES:
        path = SHARED / "documents" / file_name
        document = _read(path)
        documents.append(document)
        by_heading: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for passage in document.passages:
            for depth in range(1, len(passage.heading_path) + 1):
                by_heading[passage.heading_path[:depth]].append(passage.passage_id)
        for heading, gold in by_heading.items():
            if 2 <= len(gold) <= 50 and not any(_NO_SECTION.search(part) for part in heading[-1:]):
                name = re.sub(r"^(chapter\s+)?[\divxlc]+([.]\d+)*[.]?\s+", "", heading[-1], flags=re.IGNORECASE)
                if re.search(r"[a-zA-Z]{4}", name) and not re.fullmatch(r"chapter .{1,6}", name, re.IGNORECASE):
                    text = f"What does {document.title} say about {name.title() if name.isupper() else name}?"
                    questions.append(Question(text, tuple(gold)))
    return TreeSet("real", tuple(documents), tuple(questions))


def _read(path: Path) -> LongDocument:
    from corpusmesh_adapters.models.registry import DEFAULT_MODEL_NAME, model_directory
    from corpusmesh_adapters.models.tokenization import ModelTokenizer
    from corpusmesh_adapters.parsers.builder import Source
    from corpusmesh_adapters.parsers.router import parse_source
    from corpusmesh_core.chunking import chunk_document
    from corpusmesh_core.ports.parsing import ParseLimits, ParseOptions, RecognitionMode

    options = ParseOptions(limits=ParseLimits(max_pages=500), recognition=RecognitionMode.NEVER)
    parsed = parse_source(Source(path.read_bytes(), path.name, options))
    counter = ModelTokenizer(model_directory(DEFAULT_MODEL_NAME) / "tokenizer.json")
    title = parsed.title or "the Federal Register"
    passages = tuple(
        Passage(f"{path.stem}#{chunk.position}", chunk.text, chunk.heading_path, chunk.page)
        for chunk in chunk_document(parsed, counter)
    )
    return LongDocument(path.stem, title, passages, path)


def tree_sets(names: Sequence[str], vectors_of: Callable[[str], Vectors]) -> Iterator[TreeSet]:
    """Make sets by name; `vectors_of` gives the vectors of a corpus, which say what of it is alike."""
    for name in names:
        if name.startswith("one-"):
            yield one_place(name.removeprefix("one-"))
        elif name in ("2wiki", "mh_small", "scifact"):
            yield several_places(name, vectors_of(name))
        elif name == "real":
            yield real_documents()
        else:
            yield articles(name)
