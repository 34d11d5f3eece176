"""Reads a vocabulary from a file."""

import json
import re
import sys
from pathlib import Path

from corpusmesh_core.errors import InvalidArgumentError

_MAX_BYTES = 8 * 1024 * 1024
_SEPARATOR = re.compile(r"\s*(?:[,，、\t]|=>|=)\s*")


def read_vocabulary_file(path: str) -> tuple[list[str], list[tuple[str, ...]]]:
    """Read terms and synonyms.

    Args:
        path: The file; "-" for standard input. JSON like `{"terms": […], "synonyms": [[…], …]}`, or text: one entry a
            line, a group of synonyms where it has commas, else a term; a line that begins with # is a remark.

    Returns:
        Terms, and groups of synonyms.

    Raises:
        InvalidArgumentError: If the file cannot be read, or is neither.
    """
    text = _text_of(path)
    if text.lstrip().startswith("{"):
        return _from_json(text)
    lines = [line.strip() for line in text.splitlines()]
    groups = [split_group(line) for line in lines if line and not line.startswith("#")]
    return [group[0] for group in groups if len(group) == 1], [group for group in groups if len(group) > 1]


def split_group(line: str) -> tuple[str, ...]:
    """Split the words of a line.

    Args:
        line: Words between commas.

    Returns:
        The words.
    """
    return tuple(word for word in _SEPARATOR.split(line.strip()) if word)


def _text_of(path: str) -> str:
    try:
        raw = sys.stdin.buffer.read(_MAX_BYTES + 1) if path == "-" else _bytes_of(Path(path))
        if len(raw) > _MAX_BYTES:
            raise _invalid(f"is larger than {_MAX_BYTES // 1024 // 1024} MB")
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise _invalid(f"cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise _invalid("is not text in UTF-8") from error


def _bytes_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MAX_BYTES + 1)


def _from_json(text: str) -> tuple[list[str], list[tuple[str, ...]]]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise _invalid("is no valid JSON") from error
    terms, synonyms = value.get("terms", []), value.get("synonyms", [])
    if set(value) - {"terms", "synonyms", "etag"} or not _are_texts(terms) or not isinstance(synonyms, list):
        raise _invalid('must be like {"terms": ["…"], "synonyms": [["…", "…"]]}')
    if not all(_are_texts(group) for group in synonyms):
        raise _invalid("has a group of synonyms that is no list of texts")
    return list(terms), [tuple(group) for group in synonyms]


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _invalid(what: str) -> InvalidArgumentError:
    return InvalidArgumentError("VOCABULARY_FILE_INVALID", f"the file {what}", field="file")
