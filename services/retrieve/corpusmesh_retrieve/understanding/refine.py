"""Makes a stand-alone question of the last turn of a conversation (seed 002, step Q1: `refine_multiturn`)."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Final

from corpusmesh_core.answering.step_messages import DataBlock
from corpusmesh_core.prompts.refine_v1 import REFINE_V1
from corpusmesh_core.query.understanding import stand_alone
from corpusmesh_core.query.understanding.answers import read_question
from corpusmesh_core.text import analyze_query
from corpusmesh_retrieve.asking import question_block
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.stages import StageResult
from corpusmesh_runtime.context import CallContext

_MAX_TURNS: Final = 6
_MAX_TURN_CHARACTERS: Final = 1_000


class Refinement:
    """The stage `refine`."""

    name = "refine"

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return outcome.plan.understanding.refine and bool(outcome.request.history)

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """See `Stage`."""
        history = outcome.request.history
        earlier = [turn.text for turn in history if turn.is_user]
        said = [turn.text for turn in history if not turn.is_user]
        turns = [
            DataBlock(
                f"turn {place} of the {'user' if turn.is_user else 'assistant'}", turn.text[:_MAX_TURN_CHARACTERS]
            )
            for place, turn in enumerate(history[-_MAX_TURNS:], start=1)
        ]
        made = await outcome.request.session.make(
            call,
            REFINE_V1,
            [*turns, question_block(outcome.question)],
            read=read_question(outcome.question),
            # A second for the longest turns without spaces: not on the event loop.
            otherwise=partial(asyncio.to_thread, stand_alone, outcome.question, earlier, said),
        )
        if made.value == outcome.question:
            return StageResult(StageState.RAN, made.by_model, "the question stands alone")
        outcome.question = made.value
        outcome.variants[0] = replace(outcome.variants[0], text=made.value)
        outcome.terms = analyze_query(made.value)
        return StageResult(StageState.RAN, made.by_model, "the question was completed from the turns before it")
