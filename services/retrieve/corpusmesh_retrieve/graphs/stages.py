"""The stages of graphs in a search, and where each stands among the others."""

from dataclasses import dataclass

from corpusmesh_core.ports.index import RecordIndex
from corpusmesh_core.ports.reranking import PassageReranker
from corpusmesh_retrieve.graphs.page_rank import PageRankStage
from corpusmesh_retrieve.graphs.stage import GraphStage, GraphTableStage, modes_of
from corpusmesh_retrieve.graphs.words import GraphWords
from corpusmesh_retrieve.recalling import Recaller
from corpusmesh_retrieve.stages import Stage
from corpusmesh_runtime.graphs.views import GraphViews


@dataclass(frozen=True, slots=True)
class GraphStages:
    """The stages.

    Attributes:
        words: Tells what a question is looked up by; beside the other stages that understand it.
        search: Searches graphs; right after scoring.
        walk: Walks graphs, where a plan asks for nothing else; where names are followed.
        tables: Puts what graphs say first; after all that reorders hits, before leaves are read.
    """

    words: Stage
    search: Stage
    walk: Stage
    tables: Stage


def graph_stages(
    views: GraphViews,
    index: RecordIndex,
    recaller: Recaller,
    reranker: PassageReranker,
) -> GraphStages:
    """Make the stages.

    Args:
        views: Gives the graphs that are searched.
        index: Holds the records.
        recaller: Scores passages.
        reranker: The cross-encoder.

    Returns:
        The stages.
    """
    return GraphStages(
        words=GraphWords(views),
        search=GraphStage(views, index, modes_of(recaller, reranker)),
        walk=PageRankStage(views, recaller),
        tables=GraphTableStage(),
    )
