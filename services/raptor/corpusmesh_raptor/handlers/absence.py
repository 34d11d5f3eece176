"""Why a caller sees nothing of a tree, as far as the caller may know."""

from enum import StrEnum

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.builds import BuildRow, BuildState
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_core.trees.settings import TreeScope, TreeSettings
from corpusmesh_core.trees.telling import figures_of
from corpusmesh_runtime.build_views import BuildView
from corpusmesh_runtime.config_hash import config_hash


class Absence(StrEnum):
    """Why there is nothing to see."""

    TREES_OFF = "TREES_OFF"
    """The settings ask for no such tree."""
    NOT_PUBLISHED = "NOT_PUBLISHED"
    """No version of the document is published."""
    NOT_BUILT = "NOT_BUILT"
    """It is asked for, and was not made under the settings of now."""
    NO_TEXT = "NO_TEXT"
    """There is nothing that is summarized."""
    ONE_CHUNK = "ONE_CHUNK"
    """One chunk needs no summary."""
    ROWS_OF_TABLES = "ROWS_OF_TABLES"
    """There are chunks, most of them rows of tables, which are not summarized."""


def of_document(view: BuildView, version: VersionRow | None) -> Absence:
    """Tell why a document has no tree.

    Args:
        view: What the caller may see.
        version: Its published version, which the caller may see; None for none.

    Returns:
        The reason.
    """
    if _scope(view) is not TreeScope.FILE:
        return Absence.TREES_OFF
    if version is None:
        return Absence.NOT_PUBLISHED
    if version.config_hash != config_hash(view.inputs.config):
        return Absence.NOT_BUILT
    # Its ingest had the stage that makes trees, and that found nothing to do.
    if version.chunk_count > 1:
        return Absence.ROWS_OF_TABLES
    return Absence.ONE_CHUNK if version.chunk_count else Absence.NO_TEXT


def of_dataset(view: BuildView, row: BuildRow | None) -> Absence:
    """Tell why a knowledge base has no tree.

    Args:
        view: What the caller may see.
        row: Its build; None where it has none.

    Returns:
        The reason. From whom something is hidden, a tree that they see nothing of is hidden too: they are told what
        they would be told without it.
    """
    if _scope(view) is not TreeScope.DATASET:
        return Absence.TREES_OFF
    if row is None or row.state is not BuildState.READY or view.is_restricted or view.is_outdated:
        return Absence.NOT_BUILT
    return Absence.ONE_CHUNK if figures_of(row.figures).bill.leaf_count == 1 else Absence.NO_TEXT


def _scope(view: BuildView) -> TreeScope:
    try:
        return TreeSettings.of(view.inputs.config).scope
    except InvalidArgumentError:
        return TreeScope.OFF
