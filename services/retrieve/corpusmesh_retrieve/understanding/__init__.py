"""The stages that understand a question before the search, in their order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from corpusmesh_core.ports.embedding import Embedder
from corpusmesh_core.ports.index import RecordIndex
from corpusmesh_core.ports.metadata import KnowledgeBaseStore
from corpusmesh_retrieve.stages import Stage
from corpusmesh_retrieve.understanding.cross_language import CrossLanguage
from corpusmesh_retrieve.understanding.decompose import Decomposition
from corpusmesh_retrieve.understanding.hyde import HypotheticalPassage
from corpusmesh_retrieve.understanding.keywords import Keywords
from corpusmesh_retrieve.understanding.memory import MemoryClues
from corpusmesh_retrieve.understanding.metadata_filter import MetadataConditions
from corpusmesh_retrieve.understanding.probing import Prober
from corpusmesh_retrieve.understanding.refine import Refinement
from corpusmesh_retrieve.understanding.routing import KnowledgeBaseRouter
from corpusmesh_retrieve.understanding.step_back import StepBack
from corpusmesh_retrieve.understanding.synonyms import Synonyms
from corpusmesh_retrieve.understanding.together import Together
from corpusmesh_retrieve.viewing import Viewer
from corpusmesh_retrieve.vocabulary.reading import VocabularyReader


@dataclass(frozen=True, slots=True)
class UnderstandingTools:
    """What the stages stand on.

    Attributes:
        viewer: Tells what a search may see.
        index: Finds memory records and languages.
        embedder: Embeds the question for that.
        vocabularies: Gives the words of a tenant.
        now: The clock, UTC.
    """

    viewer: Viewer
    index: RecordIndex
    embedder: Embedder
    vocabularies: VocabularyReader
    now: Callable[[], datetime]


def understanding_stages(tools: UnderstandingTools, *, beside: Sequence[Stage] = ()) -> tuple[Stage, ...]:
    """Make the stages.

    Args:
        tools: What they stand on.
        beside: Further stages that work on the stand-alone question, at the same time as the others.

    Returns:
        The stand-alone question first; then all that works on it, at the same time, where memory waits for the
        conditions on metadata, since these narrow what it may find.
    """
    prober = Prober(tools.index, tools.embedder)
    return (
        Refinement(),
        Together(
            (MetadataConditions(tools.viewer.look, tools.now), MemoryClues(prober)),
            (Synonyms(tools.vocabularies),),
            (Keywords(),),
            (CrossLanguage(prober),),
            (Decomposition(),),
            (StepBack(),),
            (HypotheticalPassage(),),
            *((stage,) for stage in beside),
        ),
    )


def knowledge_base_router(tools: UnderstandingTools, knowledge_bases: KnowledgeBaseStore) -> KnowledgeBaseRouter:
    """Make the router.

    Args:
        tools: What it stands on.
        knowledge_bases: Lists what a caller may read.

    Returns:
        The router.
    """
    return KnowledgeBaseRouter(knowledge_bases, tools.viewer, Prober(tools.index, tools.embedder), tools.embedder)


__all__ = ["KnowledgeBaseRouter", "UnderstandingTools", "knowledge_base_router", "understanding_stages"]
