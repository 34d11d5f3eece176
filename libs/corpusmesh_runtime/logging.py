"""Logs are events with keys, one JSON object a line, never with document text or secrets."""

import logging as stdlib_logging
import re
import sys
import traceback
from typing import Any

import structlog

from corpusmesh_core.errors import CorpusMeshError
from corpusmesh_runtime.config import LogSettings
from corpusmesh_runtime.context import current_call

_SECRET = re.compile(
    r"cm_[a-z0-9]+_[A-Za-z0-9_\-]{16,}|(?i:bearer\s+)[A-Za-z0-9._\-]{16,}|eyJ[\w\-]+\.[\w\-]+\.[\w\-]+"
)
_MAX_CHAINED_EXCEPTIONS = 8
_SECRET_KEYS = frozenset({"authorization", "api_key", "password", "secret", "token"})


def _redact(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    for key, value in event.items():
        if key in _SECRET_KEYS:
            event[key] = "[redacted]"
        elif isinstance(value, str):
            event[key] = _SECRET.sub("[redacted]", value)
    return event


def _add_call(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    call = current_call.get()
    if call is not None:
        event.setdefault("request_id", call.request_id)
        event.setdefault("tenant_id", call.identity.tenant_id)
    return event


def exception_text(exc_info: tuple[Any, ...]) -> str:
    """Write a traceback without the messages of foreign exceptions: those may quote a document, a query or a value.

    Args:
        exc_info: Class, exception and traceback.

    Returns:
        Frames with their lines of code, and each exception's class; the message only of the project's own errors, which
        hold no text of documents, and of the operating system's.
    """
    return "\n".join(_exception_lines(exc_info[1], _MAX_CHAINED_EXCEPTIONS))


def _exception_lines(error: BaseException, budget: int) -> list[str]:
    if budget == 0:
        return ["..."]
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    lines = [*_exception_lines(cause, budget - 1), "which led to:"] if cause is not None else []
    lines += [line.rstrip() for line in traceback.format_tb(error.__traceback__)]
    message = f": {error}" if isinstance(error, CorpusMeshError | OSError) else ""
    lines.append(f"{type(error).__module__}.{type(error).__qualname__}{message}")
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions[:budget]:
            lines += [f"  | {line}" for line in _exception_lines(inner, budget - 1)]
    return lines


def configure_logging(settings: LogSettings, *, service: str) -> None:
    """Set up the process's log on standard error.

    Args:
        settings: Level and format.
        service: Name of the service, on every line.
    """
    level = stdlib_logging.getLevelNamesMapping()[settings.level.upper()]
    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
        if settings.format == "console"
        else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_call,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.ExceptionRenderer(exception_text), _redact, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(service=service)
    handler = stdlib_logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.ExceptionRenderer(exception_text),
                _redact,
                renderer,
            ],
        )
    )
    root = stdlib_logging.getLogger()
    root.handlers[:] = [handler]
    # Libraries speak up from WARNING on: their INFO lines may hold request bodies.
    root.setLevel(max(level, stdlib_logging.WARNING))


def get_logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """Give a logger.

    Args:
        name: The module's name.

    Returns:
        A logger whose calls take an event and keys.
    """
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(module=name)
    return logger
