"""Golden questions in files: JSON lines with question, answers and gold."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corpusmesh.retrieve.v1 import evaluation_service_pb2 as pb
from corpusmesh_core.errors import InvalidArgumentError, NotFoundError

_SUFFIX = ".txt"


def read_golden_questions(path: Path, documents: Mapping[str, str]) -> list[pb.GoldenQuestion]:
    """Read questions.

    Each line is an object: `{"question": text, "answers": [text, …], "gold": [{"document": name, "quote": text,
    "page": n}, …]}`, where answers, quote and page may be missing and a gold entry may be a document alone. Lines of an
    evaluation set, with `gold_ids` in place of `gold`, are read too. No gold says that the documents do not answer it.

    Args:
        path: The file.
        documents: Resource name of each document by its display name.

    Returns:
        The questions.

    Raises:
        NotFoundError: If the file cannot be read, or names a document that there is not.
        InvalidArgumentError: If a line is not as it must be.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise NotFoundError("EVALUATION_FILE_NOT_FOUND", f"{path} cannot be read", path=path) from error
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            "EVALUATION_FILE_INVALID", f"{path} is not text in UTF-8: it must hold lines of JSON", path=path
        ) from error
    questions = [
        _question_of(path, number, line, documents) for number, line in enumerate(lines, start=1) if line.strip()
    ]
    if not questions:
        raise InvalidArgumentError("EVALUATION_EMPTY", f"{path} holds no question", path=path)
    return questions


def _question_of(path: Path, number: int, line: str, documents: Mapping[str, str]) -> pb.GoldenQuestion:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise _invalid(path, number, "a JSON object") from error
    if not isinstance(value, dict) or not isinstance(value.get("question"), str):
        raise _invalid(path, number, "an object with a question")
    answers, gold = value.get("answers", []), value.get("gold", value.get("gold_ids", []))
    if not isinstance(gold, list) or not isinstance(answers, list) or not all(isinstance(a, str) for a in answers):
        raise _invalid(path, number, "lists of answers and gold")
    return pb.GoldenQuestion(
        question=value["question"],
        answers=answers,
        gold=[_gold_of(path, number, entry, documents) for entry in gold],
    )


def _gold_of(path: Path, number: int, entry: Any, documents: Mapping[str, str]) -> pb.Gold:
    if isinstance(entry, str):
        entry = {"document": entry}
    if not isinstance(entry, dict) or not isinstance(entry.get("document"), str):
        raise _invalid(path, number, "gold entries with a document")
    wanted = entry["document"]
    quote, page = entry.get("quote", ""), entry.get("page", 0)
    if not isinstance(quote, str) or not isinstance(page, int):
        raise _invalid(path, number, "a text as quote and a number as page")
    name = wanted if wanted.startswith("knowledgeBases/") else documents.get(wanted, documents.get(wanted + _SUFFIX))
    if name is None:
        raise NotFoundError(
            "GOLD_DOCUMENT_UNKNOWN",
            f"line {number} of {path} names the document {wanted!r}, which the knowledge base does not have",
            path=path,
            line=number,
        )
    return pb.Gold(document=name, quote=quote, page=page)


def _invalid(path: Path, line: int, needed: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "EVALUATION_LINE_INVALID", f"line {line} of {path} must hold {needed}", path=path, line=line
    )
