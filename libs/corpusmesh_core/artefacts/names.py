"""Where what a stage makes of a batch lies: one object per task, named before anything is written to it."""

from collections.abc import Mapping
from typing import Final

from corpusmesh_core.orchestration.values import Stage
from corpusmesh_core.ports.objects import artefact_key

PARSED: Final = "parsed"
CHUNKS: Final = "chunks"
ENRICHED: Final = "enriched"
VECTORS: Final = "vectors"
TREE: Final = "tree"
PICTURES: Final = "pictures"
"""Names in `VersionRow.artefacts`; that of the pictures names a prefix, which ends in "/"."""

ARTEFACT_BY_STAGE: Mapping[Stage, str] = {
    Stage.PARSE: PARSED,
    Stage.CHUNK: CHUNKS,
    Stage.ENRICH: ENRICHED,
    Stage.EMBED: VECTORS,
    Stage.TREE: TREE,
}
"""What each stage writes of a whole batch; every other stage writes none."""


def stage_artefact_key(tenant_id: str, run_id: str, task_id: str, stage: Stage) -> str:
    """Name what a task writes: the same however often it is tried, so that a purge finds it whatever became of it.

    Args:
        tenant_id: Tenant.
        run_id: Run.
        task_id: Task.
        stage: A stage of `ARTEFACT_BY_STAGE`.

    Returns:
        The object's key.
    """
    return artefact_key(tenant_id, run_id, f"{task_id}.{ARTEFACT_BY_STAGE[stage]}")


def pictures_prefix(tenant_id: str, run_id: str, parse_task_id: str, ordinal: int) -> str:
    """Name the folder of a version's pictures and page images.

    Args:
        tenant_id: Tenant.
        run_id: Run.
        parse_task_id: Task that parses the version.
        ordinal: The version.

    Returns:
        Prefix of the objects' keys, which ends in "/"; a picture's own name follows.
    """
    return artefact_key(tenant_id, run_id, f"{parse_task_id}.{PICTURES}/{ordinal}") + "/"
