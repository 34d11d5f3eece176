"""The language model and embedder of the comparison, which also understands what CorpusMesh asks.

    PYTHON_OF_A_PEER bench/graph_stub.py FOLDER_OF_THE_COMPARISON --port 24101

Runs `stub_llm.py` of `../shared/bench` as it is, in an environment that has what it needs; prompts of CorpusMesh, known
by how they quote data, are answered by the same rule as those of its peers: names are capitalised words in a row, two
names of one sentence are related, a description is the sentence. Nothing of CorpusMesh is imported.
"""

import json
import re
import sys
from itertools import combinations
from typing import Any, Final

_NAME: Final = re.compile(
    r"\b[A-Z][A-Za-z0-9'-]*[a-z0-9][A-Za-z0-9'-]*(?:\s+[A-Z][A-Za-z0-9'-]*[a-z0-9][A-Za-z0-9'-]*)+"
)
_LEADS: Final = frozenset({"The", "A", "An", "In", "On", "At", "When", "After", "Before", "This", "That", "These"})
_BLOCK: Final = re.compile(r"<<<(DATA-[0-9a-f]+) ([^\n]*)\n(.*?)\n\1>>>", re.DOTALL)
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_KINDS: Final = re.compile(r"<<<DATA-[0-9a-f]+ (?:community|name|passages)\b")


def names_of(sentence: str) -> list[str]:
    """Name the entities of a sentence, as the stub of the comparison does."""
    found: dict[str, None] = {}
    for match in _NAME.finditer(sentence):
        words = match.group().split()
        while words and words[0] in _LEADS:
            words.pop(0)
        if len(words) > 1:
            found[" ".join(words)] = None
    return list(found)


def records(text: str) -> str:
    """Answer an extraction by that rule: at most 40 entities and 60 relations."""
    entities: dict[str, str] = {}
    relations: dict[tuple[str, str], str] = {}
    for sentence in _SENTENCE.split(text):
        names = names_of(sentence)[:4]
        for name in names:
            if len(entities) < 40:
                entities.setdefault(name, sentence[:200])
        for first, second in combinations(names, 2):
            is_known = first in entities and second in entities and (second, first) not in relations
            if is_known and len(relations) < 60:
                relations.setdefault((first, second), sentence[:200])
    rows = [f"entity | {name} | organization | {said}" for name, said in entities.items()]
    rows += [f"relation | {a} | {b} | agreement | {said} | 6" for (a, b), said in relations.items()]
    return "\n".join([*rows, "END"])


def answer(prompt: str) -> tuple[str, str]:
    """Answer a question; tell what it was for."""
    blocks = _BLOCK.findall(prompt)
    kind = blocks[0][1].split(" ")[0]
    text = blocks[0][2]
    if kind == "community":
        lines = text.splitlines()
        name, _, said = lines[0].partition(": ")
        report = {"title": name, "summary": said, "rating": 5, "findings": [{"summary": said, "explanation": said}]}
        return "report", json.dumps(report)
    if kind == "name":
        return "describe", " ".join(_SENTENCE.split(blocks[1][2])[:4])
    return "extract", records(text)


def serve(folder: str) -> None:
    """Serve, with what the command line says besides."""
    sys.path.insert(0, folder)
    import stub_llm  # type: ignore[import-not-found,unused-ignore]

    others = stub_llm.answer

    def answer_all(messages: list[dict[str, Any]]) -> tuple[str, str]:
        texts = [message["content"] for message in messages if isinstance(message.get("content"), str)]
        whole = "\n\n".join(texts)
        if '"high_level_keywords"' in whole and "low_level_keywords: what it is about in particular" in whole:
            question = texts[-1]
            keywords = {
                "high_level_keywords": re.findall(r"[a-z]{5,}", question)[-4:],
                "low_level_keywords": names_of(question)[-4:],
            }
            return "keywords", json.dumps(keywords)
        if _KINDS.search(whole):
            return answer(whole)
        given: tuple[str, str] = others(messages)
        return given

    stub_llm.answer = answer_all
    stub_llm.main()


if __name__ == "__main__":
    serve(sys.argv.pop(1))
