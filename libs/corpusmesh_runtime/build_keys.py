"""Where the objects of a build lie: under its id, by the run that wrote them."""

from corpusmesh_core.ports.builds import BuildRow
from corpusmesh_core.ports.objects import artefact_key, artefacts_prefix


def build_key(build: BuildRow, run_id: str, name: str) -> str:
    """Name something that a run wrote of a build, so that a sweep finds it whatever became of the run.

    Args:
        build: The build.
        run_id: The run.
        name: What it is.

    Returns:
        The object's key.
    """
    return artefact_key(build.tenant_id, build.build_id, f"{run_id}/{name}")


def build_prefix(build: BuildRow) -> str:
    """Name the folder of everything that was written of a build.

    Args:
        build: The build.

    Returns:
        The prefix, which ends in "/"; ids of runs follow.
    """
    return artefacts_prefix(build.tenant_id, build.build_id)
