"""A language model for tasks over numbered items, and a cache of its answers, both in memory and deterministic."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from corpusmesh_core.errors import DeadlineExceededError
from corpusmesh_core.ports.chat import ChatDelta, ChatMessage, FinishReason
from corpusmesh_core.ports.completions import Completion

_ITEM = re.compile(r"<<<(DATA-[0-9a-f]+) item: (\d+)(?: \| section: ([^\n]*))?\n(.*?)\n\1>>>", re.DOTALL)
_KEYS = ("keywords", "questions", "summary", "title", "levels", "values", "propositions", "scores", "pairs", "context")


@dataclass(frozen=True)
class AskedItem:
    """One item as the model sees it."""

    number: int
    section: str
    text: str


@dataclass(frozen=True)
class AskedCall:
    """One call."""

    number: int
    kind: str
    system: str
    user: str
    items: tuple[AskedItem, ...]


class Never:
    """The model takes the call and says nothing; it keeps to the caller's time, or not even to that."""

    def __init__(self, *, keeps_time: bool = True) -> None:
        self.keeps_time = keeps_time


Reply = str | Exception | Never


def answer(entries: Mapping[int, object], key: str) -> str:
    """Write a good answer."""
    return json.dumps({"items": [{"n": number, key: value} for number, value in entries.items()]}, ensure_ascii=False)


def answer_well(call: AskedCall) -> str:
    """Answer every kind of task as a good model would, from the items' own words."""
    return answer({item.number: _entry(call.kind, item) for item in call.items}, call.kind)


def _entry(kind: str, item: AskedItem) -> object:
    words = re.findall(r"\w+", item.text)
    match kind:
        case "keywords":
            return [f"kw {words[-1]}"]
        case "questions":
            return [f"What about {words[-1]}?"]
        case "summary":
            return f"About {words[0]}."
        case "title":
            return item.text.splitlines()[0] if item.text.startswith("Part") else -1
        case "levels":
            return [1 + line.count("sub") for line in item.text.splitlines()]
        case "values":
            return {"signed": "2020-01-05"}
        case "propositions":
            return [f"Fact about {words[-1]}.", f"Vague thing about {words[-1]}."]
        case "scores":
            listed = item.text.split("Statements:\n")[1].splitlines()
            return [[9, 9, 9, 9] if "Fact" in line else [9, 6, 9, 9] for line in listed]
        case "context":
            return f"From the guide, on {words[-1]}."
        case _:
            return [{"topic": words[0], "details": f"It is about {words[-1]}."}]


@dataclass
class ItemChat:
    """The model: `reply` decides what every call gets."""

    reply: Callable[[AskedCall], Reply] = answer_well
    model: str = "stub"
    calls: list[AskedCall] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    async def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        max_token_count: int,
        timeout_seconds: float,
        temperature: float = 0.0,
    ) -> AsyncIterator[ChatDelta]:
        system, user = (message.content for message in messages)
        form = system.rsplit("Form of the answer:", 1)[1]
        kind = next(key for key in _KEYS if f'"{key}"' in form)
        items = tuple(AskedItem(int(found[2]), found[3] or "", found[4]) for found in _ITEM.finditer(user))
        call = AskedCall(len(self.calls) + 1, kind, system, user, items)
        self.calls.append(call)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)
            said = self.reply(call)
            if isinstance(said, Exception):
                raise said
            if isinstance(said, Never):
                await asyncio.sleep(timeout_seconds if said.keeps_time else 3600)
                raise DeadlineExceededError("CHAT_DEADLINE", "the model did not answer in time")
            for start in range(0, len(said), 50):
                yield ChatDelta(said[start : start + 50])
            yield ChatDelta("", FinishReason.STOP)
        finally:
            self.at_once -= 1


@dataclass
class MemoryCompletions:
    """`CompletionCache` in memory."""

    kept: dict[tuple[str, bytes], Completion] = field(default_factory=dict)
    failure: Exception | None = None

    async def get(self, tenant_id: str, keys: Collection[bytes]) -> Mapping[bytes, str]:
        if self.failure is not None:
            raise self.failure
        return {key: self.kept[tenant_id, key].response for key in keys if (tenant_id, key) in self.kept}

    async def put(self, tenant_id: str, completions: Sequence[Completion]) -> None:
        if self.failure is not None:
            raise self.failure
        self.kept.update({(tenant_id, completion.key): completion for completion in completions})

    async def forget(self, tenant_id: str, ordinals: Collection[int]) -> int:
        gone = [key for key, kept in self.kept.items() if key[0] == tenant_id and set(kept.sources) & set(ordinals)]
        for key in gone:
            del self.kept[key]
        return len(gone)
