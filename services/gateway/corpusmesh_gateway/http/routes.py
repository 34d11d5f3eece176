"""Paths of the contract: from `google.api.http` options to patterns, and from a request's path to its method.

Syntax as in `google/api/http.proto`: `/v1/{name=knowledgeBases/*/documents/*}:verb`. A segment never holds a slash or,
unescaped, a colon: that begins the verb.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from google.api import annotations_pb2
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor

from corpusmesh_core.errors import CorpusMeshError, FailedPreconditionError, NotFoundError

VARIABLE = re.compile(r"\{([a-z_.]+)(?:=([^{}]+))?\}")


class MethodNotAllowedError(CorpusMeshError):
    """The path is known, with other HTTP methods."""

    def __init__(self, allowed: Iterable[str]) -> None:
        """Create the error.

        Args:
            allowed: HTTP methods of the path.
        """
        self.allowed = ", ".join(sorted(set(allowed)))
        super().__init__("HTTP_METHOD_NOT_ALLOWED", f"this path takes {self.allowed}", allowed=self.allowed)


@dataclass(frozen=True, slots=True)
class Binding:
    """One HTTP method and path of a gRPC method.

    Attributes:
        method: The gRPC method.
        http_method: Such as "GET".
        template: The path as the contract writes it.
        pattern: Matches a raw path; one group a variable.
        variables: Dotted field paths of the groups.
        body: "*" where the body is the whole request, the name of a field, or "" for none.
    """

    method: MethodDescriptor
    http_method: str
    template: str
    pattern: re.Pattern[str]
    variables: tuple[str, ...]
    body: str

    @property
    def full_method(self) -> str:
        """`/package.Service/Method`."""
        return f"/{self.method.containing_service.full_name}/{self.method.name}"


class RouteTable:
    """Finds the method of a request."""

    def __init__(self, service_names: Iterable[str], open_methods: Iterable[str]) -> None:
        """Read the bindings of services.

        Args:
            service_names: Full names; their modules must be imported.
            open_methods: Methods that members may call, as `/package.Service/Method`; others get no path.
        """
        self._bindings = tuple(_bindings_of(service_names, frozenset(open_methods)))

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """All bindings, in the contract's order; those of one method stand together, its main one first."""
        return self._bindings

    def binding(self, full_method: str) -> Binding:
        """Give the binding of a method.

        Args:
            full_method: `/package.Service/Method`.

        Returns:
            Its first binding.

        Raises:
            FailedPreconditionError: If members may not call it.
        """
        for binding in self._bindings:
            if binding.full_method == full_method:
                return binding
        raise FailedPreconditionError("METHOD_NOT_OPEN", f"{full_method} has no path", method=full_method)

    def find(self, http_method: str, raw_path: str) -> tuple[Binding, Mapping[str, str]]:
        """Find the binding of a request.

        Args:
            http_method: Such as "GET".
            raw_path: The path, still percent-encoded.

        Returns:
            The binding, and the decoded values of the path's variables.

        Raises:
            NotFoundError: If no method has this path.
            MethodNotAllowedError: If only other HTTP methods have it.
        """
        others = []
        for binding in self._bindings:
            match = binding.pattern.fullmatch(raw_path)
            if match is None:
                continue
            if binding.http_method == http_method:
                return binding, dict(zip(binding.variables, map(_decode, match.groups()), strict=True))
            others.append(binding.http_method)
        if others:
            raise MethodNotAllowedError(others)
        raise _route_not_found()


def _route_not_found() -> NotFoundError:
    return NotFoundError("ROUTE_NOT_FOUND", "there is no such path; /openapi.json lists all")


def _decode(value: str) -> str:
    try:
        segments = [unquote(segment, errors="strict") for segment in value.split("/")]
    except UnicodeDecodeError:
        raise _route_not_found() from None
    # An escaped slash would let one segment name a resource below another.
    if any("/" in segment or not segment.isprintable() for segment in segments):
        raise _route_not_found()
    return "/".join(segments)


def _bindings_of(service_names: Iterable[str], open_methods: frozenset[str]) -> Iterable[Binding]:
    pool = descriptor_pool.Default()
    for service_name in service_names:
        for method in pool.FindServiceByName(service_name).methods:
            if f"/{service_name}/{method.name}" not in open_methods:
                continue
            extension: Any = annotations_pb2.http
            rule: Any = method.GetOptions().Extensions[extension]
            for path in (rule, *rule.additional_bindings):
                kind = path.WhichOneof("pattern")
                if kind in (None, "custom"):
                    raise FailedPreconditionError(
                        "METHOD_WITHOUT_PATH",
                        f"{method.full_name} has no google.api.http option",
                        method=method.full_name,
                    )
                template = str(getattr(path, kind))
                pattern, variables = compile_template(template)
                yield Binding(method, kind.upper(), template, pattern, variables, path.body)


def compile_template(template: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Turn a path template into a pattern.

    Args:
        template: As in the contract.

    Returns:
        A pattern with one group a variable, and the variables' dotted field paths.
    """
    parts: list[str] = []
    variables: list[str] = []
    end = 0
    for variable in VARIABLE.finditer(template):
        parts.append(re.escape(template[end : variable.start()]))
        segments = (variable.group(2) or "*").split("/")
        parts.append("(" + "/".join("[^/:]+" if item == "*" else re.escape(item) for item in segments) + ")")
        variables.append(variable.group(1))
        end = variable.end()
    parts.append(re.escape(template[end:]))
    return re.compile("".join(parts)), tuple(variables)
