"""What the steps of one request may cost holds for steps at the same time too."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import numpy as np
import pytest

from corpusmesh_core.answering.step_messages import DataBlock
from corpusmesh_core.ports.chat import ChatDelta, ChatMessage, FinishReason
from corpusmesh_core.prompts.rewrite_v1 import REWRITE_V1
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_retrieve.asking import Made, ModelBudget, ModelSession
from corpusmesh_runtime.context import CallContext

PASSAGE = "a long passage " * 400


class Chat:
    """A model that answers once it is let."""

    model = "held"

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.is_asked = asyncio.Event()
        self.prompt_count = 0

    async def stream(self, messages: Sequence[ChatMessage], **_: Any) -> AsyncIterator[ChatDelta]:
        self.prompt_count += 1
        self.is_asked.set()
        await self.may_answer.wait()
        yield ChatDelta('{"said": true}', FinishReason.STOP)


async def ask(session: ModelSession) -> Made[str]:
    identity = Identity("acme", "ann", Role.VIEWER, Scope.READ)
    call = CallContext(identity, "request-1", time.monotonic() + 60.0)
    return await session.make(
        call,
        REWRITE_V1,
        [DataBlock("question", PASSAGE)],
        read=lambda _: "model",
        otherwise=lambda: "rule",
        parameters={"count": "1"},
    )


async def test_a_step_knows_of_the_prompts_that_are_under_way() -> None:
    chat = Chat()
    session = ModelSession(cast(Any, chat), np.random.default_rng, ModelBudget(max_tokens=len(PASSAGE) // 3))
    first = asyncio.create_task(ask(session))
    await chat.is_asked.wait()
    second = await ask(session)
    assert (second.value, second.why_not) == ("rule", "the budget of the language model is spent")
    chat.may_answer.set()
    assert (await first).value == "model"
    assert chat.prompt_count == 1


async def test_a_call_is_paid_for_once() -> None:
    chat = Chat()
    chat.may_answer.set()
    session = ModelSession(cast(Any, chat), np.random.default_rng)
    await ask(session)
    once = session.token_count
    await ask(session)
    assert 0 < session.token_count - once <= once + 10
    session.charge(300)
    assert session.call_count == 3
    assert session.token_count == pytest.approx(2 * once + 100, abs=10)
