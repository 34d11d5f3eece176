"""Evaluation sets on disk: `corpus.jsonl` (id, title, text) and `queries.jsonl` (id, question, gold_ids)."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from corpusmesh_core.errors import InvalidArgumentError, NotFoundError

CORPUS_FILE = "corpus.jsonl"
QUERIES_FILE = "queries.jsonl"


@dataclass(frozen=True, slots=True)
class CorpusEntry:
    """One document of a set.

    Attributes:
        identifier: Its identifier; the display name in the knowledge base.
        title: Title.
        text: Text.
    """

    identifier: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """One question of a set.

    Attributes:
        identifier: Its identifier.
        question: The question.
        gold: Identifiers of the documents that should be found.
    """

    identifier: str
    question: str
    gold: frozenset[str]


def read_corpus(folder: Path) -> list[CorpusEntry]:
    """Read the documents of a set.

    Args:
        folder: Folder of the set.

    Returns:
        The documents, in order.

    Raises:
        NotFoundError: If there is no corpus.
        InvalidArgumentError: If a line is not as it must be, or an identifier comes twice.
    """
    entries: dict[str, CorpusEntry] = {}
    for line, value in _lines(folder / CORPUS_FILE):
        identifier, text = value.get("id"), value.get("text")
        if not isinstance(identifier, str) or not identifier or not isinstance(text, str) or identifier in entries:
            raise _invalid(folder / CORPUS_FILE, line, "a unique id and a text")
        entries[identifier] = CorpusEntry(identifier, str(value.get("title") or ""), text)
    return list(entries.values())


def read_queries(folder: Path, *, question_field: str, limit: int) -> list[Query]:
    """Read the questions of a set.

    Args:
        folder: Folder of the set.
        question_field: Field that holds the question.
        limit: Questions to read, 0 for all.

    Returns:
        The questions, in order.

    Raises:
        NotFoundError: If there are no questions.
        InvalidArgumentError: If a line is not as it must be.
    """
    queries: list[Query] = []
    for line, value in _lines(folder / QUERIES_FILE):
        if limit and len(queries) == limit:
            break
        question, gold = value.get(question_field), value.get("gold_ids")
        if not isinstance(question, str) or not isinstance(gold, list) or not gold:
            raise _invalid(folder / QUERIES_FILE, line, f"{question_field} and gold_ids")
        queries.append(Query(str(value.get("id", line)), question, frozenset(map(str, gold))))
    if not queries:
        raise NotFoundError("EVALUATION_EMPTY", f"{folder / QUERIES_FILE} holds no question", path=folder)
    return queries


def _lines(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                value = json.loads(line)
                if not isinstance(value, dict):
                    raise _invalid(path, number, "a JSON object")
                yield number, value
    except OSError as error:
        raise NotFoundError(
            "EVALUATION_FILE_NOT_FOUND", f"{path} cannot be read ({error.strerror})", path=path
        ) from error
    except ValueError as error:
        raise InvalidArgumentError(
            "EVALUATION_LINE_INVALID", f"{path} is not JSON lines: {error}", path=path
        ) from error


def _invalid(path: Path, line: int, needed: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "EVALUATION_LINE_INVALID", f"line {line} of {path} must hold {needed}", path=path, line=line
    )
