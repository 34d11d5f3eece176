"""What a traceback in the log may hold."""

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog

from corpusmesh_core.errors import InternalError
from corpusmesh_runtime.config import LogSettings
from corpusmesh_runtime.logging import configure_logging, get_logger

CANARY = "the owl's salary is 90,000"


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """The log of this process."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure_logging(LogSettings(), service="test")
    yield stream
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    root.handlers[:] = handlers
    root.setLevel(level)


def raised() -> BaseException:
    try:
        try:
            float(CANARY)
        except ValueError as error:
            raise InternalError("ARTEFACT_UNREADABLE", "an artefact cannot be read") from error
    except InternalError as error:
        return error


def test_traceback_names_classes_and_lines_and_quotes_no_value(written: io.StringIO) -> None:
    get_logger("test").error("call failed", exc_info=raised())
    text = json.loads(written.getvalue())["exception"]
    assert CANARY not in written.getvalue()
    assert "builtins.ValueError" in text
    assert "float(CANARY)" in text, "the line of code is there"
    assert "InternalError: an artefact cannot be read" in text


def test_group_shows_each_of_its_exceptions(written: io.StringIO) -> None:
    group = ExceptionGroup(CANARY, [raised(), KeyError(CANARY)])  # type: ignore[list-item]
    get_logger("test").error("call failed", exc_info=group)
    assert CANARY not in written.getvalue()
    assert "  | builtins.KeyError" in json.loads(written.getvalue())["exception"]


def test_traceback_of_a_library_is_under_the_same_rule(written: io.StringIO) -> None:
    logging.getLogger("asyncio").error("Task exception was never retrieved", exc_info=raised())
    assert CANARY not in written.getvalue()
    assert "builtins.ValueError" in written.getvalue()
