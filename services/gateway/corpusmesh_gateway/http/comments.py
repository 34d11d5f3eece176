"""Comments of the contract, read from the descriptors that `build_protos.py` writes with source information."""

from collections.abc import Iterable, Mapping
from importlib import resources

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)

from corpusmesh_core.errors import FailedPreconditionError

_FILE_NAME = "descriptors.binpb"
_Path = tuple[int, ...]


def read_comments() -> Mapping[str, str]:
    """Read the comments above everything that has a name.

    Returns:
        Text by full name: of services, methods, messages, fields, enums and their values (`package.Enum.VALUE`).

    Raises:
        FailedPreconditionError: If the contract was generated without them.
    """
    try:
        content = (resources.files("corpusmesh") / _FILE_NAME).read_bytes()
    except OSError as error:
        raise FailedPreconditionError(
            "CONTRACT_COMMENTS_MISSING", f"{_FILE_NAME} is missing; generate the contract again: make proto"
        ) from error
    comments: dict[str, str] = {}
    for file in FileDescriptorSet.FromString(content).file:
        texts = {
            tuple(location.path): _tidy(location.leading_comments)
            for location in file.source_code_info.location
            if location.leading_comments
        }
        for path, name in _names_of(file):
            if path in texts:
                comments[name] = texts[path]
    return comments


def _tidy(comment: str) -> str:
    return "\n".join(line.strip() for line in comment.strip().splitlines())


def _names_of(file: FileDescriptorProto) -> Iterable[tuple[_Path, str]]:
    # The numbers are those of the fields of descriptor.proto that lead to each element.
    for index, message in enumerate(file.message_type):
        yield from _names_of_message(message, (4, index), file.package)
    for index, enum in enumerate(file.enum_type):
        yield from _names_of_enum(enum, (5, index), file.package)
    for index, service in enumerate(file.service):
        yield from _names_of_service(service, (6, index), file.package)


def _names_of_message(message: DescriptorProto, path: _Path, parent: str) -> Iterable[tuple[_Path, str]]:
    name = f"{parent}.{message.name}"
    yield path, name
    for index, field in enumerate(message.field):
        yield (*path, 2, index), f"{name}.{field.name}"
    for index, nested in enumerate(message.nested_type):
        yield from _names_of_message(nested, (*path, 3, index), name)
    for index, enum in enumerate(message.enum_type):
        yield from _names_of_enum(enum, (*path, 4, index), name)


def _names_of_enum(enum: EnumDescriptorProto, path: _Path, parent: str) -> Iterable[tuple[_Path, str]]:
    name = f"{parent}.{enum.name}"
    yield path, name
    for index, value in enumerate(enum.value):
        yield (*path, 2, index), f"{name}.{value.name}"


def _names_of_service(service: ServiceDescriptorProto, path: _Path, parent: str) -> Iterable[tuple[_Path, str]]:
    name = f"{parent}.{service.name}"
    yield path, name
    for index, method in enumerate(service.method):
        yield (*path, 2, index), f"{name}.{method.name}"
