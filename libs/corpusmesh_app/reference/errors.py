"""The page of error reasons, collected from the source."""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import corpusmesh_core.errors as error_tree
from corpusmesh_app.reference.tables import GENERATED, table
from corpusmesh_core.errors import CorpusMeshError, DocumentError, InternalError
from corpusmesh_runtime.status import code_of

_ROOT: Final = Path(__file__).resolve().parents[3]
_FOLDERS: Final = ("libs", "services")
_REASON: Final = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
_CLASSES: Final[Mapping[str, type[CorpusMeshError]]] = {
    name: value
    for name, value in vars(error_tree).items()
    if inspect.isclass(value) and issubclass(value, CorpusMeshError)
}
_PART_FAILURE: Final = "PartFailure"
_INTRODUCTION: Final = """\
Every failure is a `google.rpc.Status` whose `ErrorInfo` (domain `corpusmesh`) carries the reason; `metadata` holds the
variable parts of the message. `BadRequest` names the field at fault, `RetryInfo` says after which time trying again
can help, `RequestInfo` carries the request id that the log lines carry. Reasons are stable; messages are for people
and may change.

*Again* says whether trying again later can help without a change. *Document* marks the reasons that a document fails
with: they are in `Version.error`, `FailedPart.error` and `UploadedDocument.error`, and the rest of the run goes on.
A reason with the code INTERNAL does not reach a caller of a service: the caller gets `INTERNAL`, and the reason is in
the log under the request id.
"""


@dataclass(frozen=True, slots=True, order=True)
class _Use:
    """One place that raises.

    Attributes:
        reason: UPPER_SNAKE.
        class_name: Class of the error.
        message: What it says; a variable part stands in braces.
    """

    reason: str
    class_name: str
    message: str


def _constants(tree: ast.Module) -> Mapping[str, ast.expr]:
    """Give the constants of a module."""
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            found[node.target.id] = node.value
    return found


def _arguments(call: ast.Call, constants: Mapping[str, ast.expr]) -> list[ast.expr]:
    """Give the arguments by place, with constants of the module put in."""
    arguments: list[ast.expr] = []
    for argument in call.args:
        value = argument.value if isinstance(argument, ast.Starred) else argument
        if isinstance(value, ast.Name):
            value = constants.get(value.id, value)
        arguments.extend(value.elts if isinstance(argument, ast.Starred) and isinstance(value, ast.Tuple) else [value])
    return arguments


def _text(node: ast.expr, constants: Mapping[str, ast.expr]) -> str:
    """Show a message: literals as they are, variable parts by their last name."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, constants) for part in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left, constants) + _text(node.right, constants)
    if isinstance(node, ast.FormattedValue):
        value = node.value
        if isinstance(value, ast.Name):
            constant = constants.get(value.id)
            return str(constant.value) if isinstance(constant, ast.Constant) else "{" + value.id + "}"
        return "{" + value.attr + "}" if isinstance(value, ast.Attribute) else "{…}"
    return "…"


def _uses(tree: ast.Module) -> Iterator[_Use]:
    constants = _constants(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        first = 0 if name in _CLASSES else 1
        if name not in _CLASSES and name != _PART_FAILURE:
            continue
        arguments = _arguments(node, constants)[first : first + 2]
        if len(arguments) < 2 or not isinstance(arguments[0], ast.Constant):
            continue
        reason = str(arguments[0].value)
        if _REASON.fullmatch(reason):
            yield _Use(
                reason, DocumentError.__name__ if name == _PART_FAILURE else name, _text(arguments[1], constants)
            )


def _sources(root: Path) -> Iterable[Path]:
    return sorted(path for folder in _FOLDERS for path in (root / folder).rglob("*.py"))


def _row(class_name: str, reason: str, messages: Iterable[str]) -> tuple[str, str, str, str]:
    cls = _CLASSES[class_name]
    example = cls(reason, "")
    again = "yes" if example.retry_delay_seconds is not None else "no"
    kind = ", document" if issubclass(cls, DocumentError) else ""
    hidden = ", hidden" if issubclass(cls, InternalError) else ""
    return (
        f"`{reason}`",
        f"{code_of(example).name}{kind}{hidden}",
        again,
        max(messages, key=lambda text: (len(text), text)),
    )


def errors_page(root: Path = _ROOT) -> str:
    """Make the page of error reasons.

    Args:
        root: The checkout.

    Returns:
        Markdown; every reason with its gRPC code and its longest message.
    """
    messages: dict[tuple[str, str], set[str]] = {}
    for path in _sources(root):
        for use in _uses(ast.parse(path.read_text(encoding="utf-8"))):
            messages.setdefault((use.reason, use.class_name), set()).add(use.message)
    rows = [_row(class_name, reason, texts) for (reason, class_name), texts in sorted(messages.items())]
    lines = [GENERATED, "", "# Error reasons", "", _INTRODUCTION]
    lines += table(("Reason", "gRPC code", "Again", "Message"), rows)
    return "\n".join(lines)
