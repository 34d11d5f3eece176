"""Generates `gen/` from `protos/`: Python messages, typed stubs and gRPC classes.

Run by `make proto`, and by the wheel's build through the hook at the end. Generated code is never committed.
"""

import argparse
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
PROTOS = ROOT / "protos"
GENERATED = ROOT / "gen"
COMMON = ("google/api", "google/rpc", "google/type", "google/longrunning")


def lay_out_common_protos() -> Path:
    """Copy Google's common protos out of their wheel, for protoc and buf.

    Returns:
        The include folder.
    """
    import google.api.annotations_pb2 as annotations  # the namespace package itself has no file

    source = Path(annotations.__file__).resolve().parents[2]
    target = GENERATED / "third_party"
    shutil.rmtree(target, ignore_errors=True)
    needed = ("annotations", "http", "field_behavior", "status")
    for folder in COMMON:
        for proto in sorted((source / folder).glob("*.proto")):
            if proto.stem in needed:
                destination = target / folder / proto.name
                destination.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(proto, destination)
    return target


def generate() -> int:
    """Run protoc over every proto of the contract, then put the result in place.

    Returns:
        The exit status of protoc; what stood there before stays if it is not 0.
    """
    import grpc_tools
    from grpc_tools import protoc

    include = lay_out_common_protos()
    fresh = GENERATED / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    (fresh / "corpusmesh").mkdir(parents=True)
    # protoc finds its plugins on PATH, which a call by the interpreter's full name does not set.
    scripts = Path(sysconfig.get_path("scripts"))
    sources = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.rglob("*.proto"))
    status: int = protoc.main(
        [
            "protoc",
            f"-I{PROTOS}",
            f"-I{include}",
            f"-I{Path(grpc_tools.__file__).parent / '_proto'}",
            f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
            f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
            f"--python_out={fresh}",
            f"--grpc_python_out={fresh}",
            f"--mypy_out=quiet:{fresh}",
            f"--mypy_grpc_out=quiet:{fresh}",
            # With the comments, which the generated modules do not carry, for the pages that describe the API.
            f"--descriptor_set_out={fresh / 'corpusmesh' / 'descriptors.binpb'}",
            "--include_source_info",
            *sources,
        ]
    )
    if status:
        return status
    leaves = {path.parent for path in (fresh / "corpusmesh").rglob("*_pb2.py")}
    for package in leaves | {parent for leaf in leaves for parent in leaf.parents}:
        if fresh in package.parents:
            (package / "__init__.py").write_text('"""Generated from protos/ by `make proto`."""\n')
            (package / "py.typed").touch()
    shutil.rmtree(GENERATED / "corpusmesh", ignore_errors=True)
    (fresh / "corpusmesh").rename(GENERATED / "corpusmesh")
    fresh.rmdir()
    return 0


def get_build_hook() -> type[Any]:
    """Give hatchling the hook that generates the code before a wheel is built."""
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class ProtoBuildHook(BuildHookInterface[Any]):
        """Generates `gen/` before the wheel or the editable install is made."""

        PLUGIN_NAME = "custom"

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's names
            """Generate the code.

            Args:
                version: "standard" or "editable".
                build_data: What hatchling collects; unchanged.

            Raises:
                RuntimeError: If protoc fails.
            """
            if generate():
                raise RuntimeError("protoc failed; its messages are above")

    return ProtoBuildHook


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    sys.exit(generate())
