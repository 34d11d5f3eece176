"""Stages between recall and scoring: what tags and page rank add to the similarity of candidates."""

from corpusmesh_core.ports.index import RecordIndex
from corpusmesh_retrieve.features.page_rank import RANKING, PageRankFeature, page_rank_of
from corpusmesh_retrieve.features.tags import TagFeature
from corpusmesh_retrieve.stages import Stage
from corpusmesh_retrieve.viewing import SnapshotReader

__all__ = ["RANKING", "PageRankFeature", "TagFeature", "feature_stages", "page_rank_of"]


def feature_stages(snapshots: SnapshotReader, index: RecordIndex) -> tuple[Stage, ...]:
    """Make the stages in their order.

    Args:
        snapshots: Tells what the caller may see of tag sets.
        index: Searches tag sets.

    Returns:
        The stages.
    """
    return (TagFeature(snapshots, index), PageRankFeature())
