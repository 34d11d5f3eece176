"""Settings of the retrieve service."""

from pydantic import Field

from corpusmesh_core.request_limits import MAX_QUESTION_CHARACTERS
from corpusmesh_retrieve.conversing.config import ConversationSettings
from corpusmesh_retrieve.evaluating.config import EvaluationSettings
from corpusmesh_runtime.config import Section, ServerSettings


class RetrieveSettings(Section):
    """How the retrieve service searches and answers."""

    server: ServerSettings = ServerSettings(listen_port=7103)
    """How it listens."""
    candidate_window: int = Field(default=64, ge=1, le=1000)
    """Candidates taken from each leg where a request names no window."""
    evidence_count: int = Field(default=12, ge=1, le=100)
    """Hits that an answer is made from."""
    max_evidence_tokens: int = Field(default=4000, ge=100, le=100_000)
    """Tokens of evidence where a request names no budget."""
    max_query_characters: int = Field(default=MAX_QUESTION_CHARACTERS, ge=100)
    """Longest query; a longer one is refused."""
    compress_by_model: bool = False
    """Whether compression asks the language model which sentences stay, where one is configured; else rules choose."""
    max_cached_page_bytes: int = Field(default=256 * 1024 * 1024, ge=0)
    """Vectors of page images kept in memory."""
    max_concurrent_answers: int = Field(default=64, ge=1)
    """Answers made at once; one more is refused with RESOURCE_EXHAUSTED."""
    max_concurrent_researches: int = Field(default=8, ge=1)
    """Researches under way at once; one more is refused with RESOURCE_EXHAUSTED."""
    evaluation: EvaluationSettings = EvaluationSettings()
    """What golden sets may cost."""
    conversations: ConversationSettings = ConversationSettings()
    """What a user may keep of conversations."""
