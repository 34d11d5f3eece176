"""Calls on researches."""

from collections.abc import AsyncIterator, Sequence

from corpusmesh.retrieve.v1 import research_service_pb2 as pb
from corpusmesh.retrieve.v1.research_service_pb2_grpc import ResearchServiceStub
from corpusmesh.retrieve.v1.retrieval_service_pb2 import RetrievalPlan, Turn
from corpusmesh_client.calls import Caller

_DEFAULT_SECONDS = 120
_SPARE_SECONDS = 30.0
"""What a caller waits beyond the budget, so that the answer made at its end arrives."""


class ResearchCalls:
    """Researches a question."""

    def __init__(self, caller: Caller) -> None:
        """Create the group.

        Args:
            caller: Makes the calls.
        """
        self._caller = caller
        self._stub = ResearchServiceStub(caller.channel)

    def research(
        self,
        knowledge_bases: Sequence[str],
        question: str,
        *,
        plan: RetrievalPlan | None = None,
        budget: pb.ResearchBudget | None = None,
        max_evidence_tokens: int = 0,
        model_free: bool = False,
        history: Sequence[Turn] = (),
    ) -> AsyncIterator[pb.ResearchResponse]:
        """Research a question: progress as it goes, then the evidence, then text as it is made, then the summary.

        Args:
            knowledge_bases: `knowledgeBases/{knowledge_base}`, at most 16; none lets the router pick.
            question: The question.
            plan: How each question is searched; None for the defaults.
            budget: What it may cost; None for the defaults.
            max_evidence_tokens: Tokens of evidence; 0 for the mesh's default.
            model_free: Whether to do without a language model even where one is configured.
            history: Turns before the question, oldest first.

        Returns:
            The pieces of the research; leaving early ends it.
        """
        request = pb.ResearchRequest(
            knowledge_bases=knowledge_bases,
            question=question,
            plan=plan,
            budget=budget,
            max_evidence_tokens=max_evidence_tokens,
            model_free=model_free,
            history=history,
        )
        seconds = (budget.max_seconds if budget is not None else 0) or _DEFAULT_SECONDS
        return self._caller.stream(self._stub.Research, request, timeout_seconds=seconds + _SPARE_SECONDS)
