"""What a tool is: what it takes, what it gives, and what a call of it comes with."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from corpusmesh_gateway.mcp.arguments import ToolArguments
from corpusmesh_gateway.mcp.results import ToolResult

Report = Callable[[str], Awaitable[None]]
"""Tells the caller what is being done."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool.

    Attributes:
        request: The HTTP request that it came with: key, request id, trace and deadline.
        report: Tells the caller what is being done.
    """

    request: Request
    report: Report


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool.

    Attributes:
        name: Its name.
        title: For people.
        description: What it does, for the model that picks it.
        arguments: What it takes.
        output_schema: What it gives.
        run: Does it.
    """

    name: str
    title: str
    description: str
    arguments: type[ToolArguments]
    output_schema: dict[str, Any]
    run: Callable[[Any, ToolCall], Awaitable[ToolResult]]
