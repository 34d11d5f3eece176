"""A language model for summaries of trees that is as bad as each document asks for; behind a real HTTP server."""

import re
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.support.stub_chat import Behaviour, Never, Refuse, Say, SeenRequest, StubChat

_PASSAGE = re.compile(r"<<<(DATA-[0-9a-f]+) passage [^\n]*\n(.*?)\n\1>>>", re.DOTALL)
FLOOD_CHARACTERS = 100_000


def passages(prompt: str) -> list[str]:
    """Find what a prompt quotes."""
    return [text.strip() for _, text in _PASSAGE.findall(prompt)]


def write_well(prompt: str) -> str:
    """Write a good summary: the first sentence of each of the first passages, in other words at the joints."""
    firsts = [re.split(r"(?<=[.。])", text)[0].strip() for text in passages(prompt)[:3]]
    return " ".join(firsts)


@dataclass
class TreeStub(StubChat):
    """Answers by the first word of `moods` that stands in the prompt, and well where none does.

    Attributes:
        moods: Word of a document, and what is said where it stands: a behaviour, or the name of a way to go wrong.
        calls: Requests by that word; "" for those of no word.
        token_count: Tokens by the stub's own account of what was asked and said.
    """

    moods: Mapping[str, Behaviour | str] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    token_count: int = 0

    def begin(self, request: SeenRequest) -> Behaviour:
        super().begin(request)
        with self._counting:
            word = next((word for word in self.moods if word in request.prompt), "")
            self.calls[word] += 1
            behaviour = self._behaviour(self.moods.get(word, "well"), request.prompt, self.calls[word])
            if isinstance(behaviour, Say):
                self.token_count += len(request.prompt) // 4 + len(behaviour.text) // 4
            return behaviour

    def __enter__(self) -> "TreeStub":
        self._counting = threading.Lock()
        super().__enter__()
        return self

    def _behaviour(self, mood: Behaviour | str, prompt: str, number: int) -> Behaviour:
        good = write_well(prompt)
        match mood:
            case "well":
                return Say(good, 400)
            case "slowly":
                return Say(good, 40, pause_seconds=0.02)
            case "numbers":
                return Say(good + " It costs 98765 euros.", 400)
            case "names":
                return Say(good.rstrip(".") + ", says Professor Quillfeather.", 400)
            case "flood":
                return Say((good + " ") * (FLOOD_CHARACTERS // max(1, len(good)) + 1), 4000)
            case "third":
                return Say(good, 400) if number % 3 == 0 else Refuse(503)
            case "never":
                return Never()
            case str():
                raise AssertionError(mood)
            case _:
                return mood
