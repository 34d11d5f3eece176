"""Golden sets: questions with known answers, and how well a knowledge base answers them."""

import uuid
from collections.abc import AsyncIterator, Callable, Sequence

from corpusmesh.retrieve.v1 import evaluation_service_pb2 as pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh.retrieve.v1.evaluation_service_pb2_grpc import EvaluationServiceStub
from corpusmesh_client.calls import Caller
from corpusmesh_core.errors import UnavailableError

MAX_QUESTIONS_PER_CALL = 500
"""Questions that are sent at once; the mesh takes 1,000, within the size of a message."""
_PAGE_SIZE = 200


class EvaluationCalls:
    """Calls on golden sets and evaluations."""

    def __init__(self, caller: Caller) -> None:
        """Create the calls.

        Args:
            caller: Makes them.
        """
        self._caller = caller
        self._stub = EvaluationServiceStub(caller.channel)

    async def create(
        self,
        parent: str,
        questions: Sequence[pb.GoldenQuestion] = (),
        *,
        golden_set_id: str = "",
        display_name: str = "",
    ) -> pb.GoldenSet:
        """Make a golden set, with any number of questions within the mesh's bound.

        Args:
            parent: `knowledgeBases/{knowledge_base}`.
            questions: Its questions.
            golden_set_id: Its identifier; "" to have one made.
            display_name: Name shown to people.

        Returns:
            The golden set.
        """
        request = pb.CreateGoldenSetRequest(
            parent=parent,
            golden_set_id=golden_set_id or _new_id(),
            golden_set=pb.GoldenSet(display_name=display_name),
            questions=questions[:MAX_QUESTIONS_PER_CALL],
        )
        made = await self._caller.unary(
            self._stub.CreateGoldenSet,
            request,
            timeout_seconds=self._caller.deadlines.write_seconds,
            idempotent=False,
        )
        rest = questions[MAX_QUESTIONS_PER_CALL:]
        return await self.import_questions(made.name, rest) if rest else made

    async def draw(
        self,
        parent: str,
        *,
        question_count: int = 0,
        golden_set_id: str = "",
        display_name: str = "",
        model_free: bool = False,
        seed: int = 0,
    ) -> pb.DrawGoldenSetResponse:
        """Make a golden set of questions drawn from the knowledge base's own documents.

        Args:
            parent: `knowledgeBases/{knowledge_base}`.
            question_count: Questions wanted; 0 for the mesh's default.
            golden_set_id: Its identifier; "" to have one made.
            display_name: Name shown to people.
            model_free: Whether to make them without a language model even where one is configured.
            seed: Of the draw.

        Returns:
            The golden set, and how it was made.
        """
        request = pb.DrawGoldenSetRequest(
            parent=parent,
            golden_set_id=golden_set_id or _new_id(),
            golden_set=pb.GoldenSet(display_name=display_name),
            question_count=question_count,
            model_free=model_free,
            seed=seed,
        )
        return await self._caller.unary(
            self._stub.DrawGoldenSet,
            request,
            timeout_seconds=self._caller.deadlines.answer_seconds,
            idempotent=False,
        )

    async def import_questions(self, name: str, questions: Sequence[pb.GoldenQuestion]) -> pb.GoldenSet:
        """Add questions, in as many calls as they take.

        Args:
            name: `knowledgeBases/*/goldenSets/*`.
            questions: The questions, at least one.

        Returns:
            The golden set.
        """
        response = pb.ImportGoldenQuestionsResponse()
        for start in range(0, len(questions), MAX_QUESTIONS_PER_CALL):
            response = await self._caller.unary(
                self._stub.ImportGoldenQuestions,
                pb.ImportGoldenQuestionsRequest(name=name, questions=questions[start : start + MAX_QUESTIONS_PER_CALL]),
                timeout_seconds=self._caller.deadlines.write_seconds,
                idempotent=False,
            )
        return response.golden_set

    async def get(self, name: str) -> pb.GoldenSet:
        """Read a golden set.

        Args:
            name: `knowledgeBases/*/goldenSets/*`.

        Returns:
            The golden set.
        """
        return await self._caller.unary(
            self._stub.GetGoldenSet,
            pb.GetGoldenSetRequest(name=name),
            timeout_seconds=self._caller.deadlines.read_seconds,
        )

    def list(self, parent: str) -> AsyncIterator[pb.GoldenSet]:
        """List the golden sets of a knowledge base, over all pages.

        Args:
            parent: `knowledgeBases/{knowledge_base}`.

        Returns:
            The golden sets, by identifier.
        """
        return self._caller.pages(
            lambda token: self._caller.unary(
                self._stub.ListGoldenSets,
                pb.ListGoldenSetsRequest(parent=parent, page_size=_PAGE_SIZE, page_token=token),
                timeout_seconds=self._caller.deadlines.read_seconds,
            ),
            lambda page: page.golden_sets,
        )

    def questions(self, parent: str) -> AsyncIterator[pb.GoldenQuestion]:
        """List the questions of a golden set whose gold the caller may see, over all pages.

        Args:
            parent: `knowledgeBases/*/goldenSets/*`.

        Returns:
            The questions, by position.
        """
        return self._caller.pages(
            lambda token: self._caller.unary(
                self._stub.ListGoldenQuestions,
                pb.ListGoldenQuestionsRequest(parent=parent, page_size=_PAGE_SIZE, page_token=token),
                timeout_seconds=self._caller.deadlines.read_seconds,
            ),
            lambda page: page.questions,
        )

    async def delete(self, name: str) -> None:
        """Delete a golden set with its questions and evaluations.

        Args:
            name: `knowledgeBases/*/goldenSets/*`.
        """
        await self._caller.unary(
            self._stub.DeleteGoldenSet,
            pb.DeleteGoldenSetRequest(name=name),
            timeout_seconds=self._caller.deadlines.write_seconds,
        )

    async def evaluate(
        self,
        name: str,
        *,
        plan: retrieval_pb.RetrievalPlan | None = None,
        against: retrieval_pb.RetrievalPlan | None = None,
        as_of_snapshot: str = "",
        with_answers: bool = False,
        model_free: bool = False,
        question_limit: int = 0,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> pb.Evaluation:
        """Ask every question of a golden set and measure what comes back.

        Args:
            name: `knowledgeBases/*/goldenSets/*`.
            plan: How to search; None for the knowledge base's own plan.
            against: A second plan to compare with.
            as_of_snapshot: Snapshot to search instead of the current one.
            with_answers: Whether to answer every question too.
            model_free: Whether to leave the language model alone.
            question_limit: Questions to ask, spread over the set; 0 for all.
            on_progress: Told how many searches and answers are done, and of how many.

        Returns:
            The evaluation, which the mesh keeps.

        Raises:
            UnavailableError: If the stream ended without one.
        """
        request = pb.EvaluateGoldenSetRequest(
            name=name,
            plan=plan,
            against=against,
            as_of_snapshot=as_of_snapshot,
            with_answers=with_answers,
            model_free=model_free,
            question_limit=question_limit,
        )
        evaluation: pb.Evaluation | None = None
        async for piece in self._caller.stream(
            self._stub.EvaluateGoldenSet, request, timeout_seconds=self._caller.deadlines.transfer_seconds
        ):
            if piece.HasField("evaluation"):
                evaluation = piece.evaluation
            elif on_progress is not None:
                on_progress(piece.progress.done_count, piece.progress.total_count)
        if evaluation is None:
            raise UnavailableError("STREAM_BROKEN", "the evaluation ended without a result; try again")
        return evaluation

    async def get_evaluation(self, name: str) -> pb.Evaluation:
        """Read an evaluation.

        Args:
            name: `knowledgeBases/*/goldenSets/*/evaluations/*`.

        Returns:
            The evaluation.
        """
        return await self._caller.unary(
            self._stub.GetEvaluation,
            pb.GetEvaluationRequest(name=name),
            timeout_seconds=self._caller.deadlines.read_seconds,
        )

    def list_evaluations(self, parent: str) -> AsyncIterator[pb.Evaluation]:
        """List the evaluations of a golden set, newest first, over all pages.

        Args:
            parent: `knowledgeBases/*/goldenSets/*`.

        Returns:
            The evaluations.
        """
        return self._caller.pages(
            lambda token: self._caller.unary(
                self._stub.ListEvaluations,
                pb.ListEvaluationsRequest(parent=parent, page_size=_PAGE_SIZE, page_token=token),
                timeout_seconds=self._caller.deadlines.read_seconds,
            ),
            lambda page: page.evaluations,
        )


def _new_id() -> str:
    # Made here, so that a call whose answer was lost is not made twice under two names.
    return f"gs-{uuid.uuid4().hex[:12]}"
