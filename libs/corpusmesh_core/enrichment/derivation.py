"""From what was found or answered to derived records, each with its place and with what made it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from corpusmesh_core.chunking.places import merge_boxes
from corpusmesh_core.documents import Box, Chunk
from corpusmesh_core.enrichment.memories import MemoryPair
from corpusmesh_core.enrichment.settings import EnrichMethod
from corpusmesh_core.enrichment.summaries import Passage
from corpusmesh_core.enrichment.toc import TocEntry
from corpusmesh_core.enrichment.values import DERIVED_KINDS, Derived
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.records import RecordKind

_MAX_BOXES: Final = 64
_KIND_ORDER: Final = {kind: order for order, kind in enumerate(RecordKind) if kind in DERIVED_KINDS}
_COUNT_BATCH: Final = 512


def question_records(chunk: Chunk, questions: Sequence[str], made_by: Mapping[str, str]) -> list[Derived]:
    """Make the records of questions that a chunk answers.

    Args:
        chunk: The chunk.
        questions: The questions.
        made_by: Attributes that say what made them.

    Returns:
        One embedded record each.
    """
    return [
        _of_chunk(RecordKind.QUESTION, chunk, f"{chunk.position}-{number}", question, made_by)
        for number, question in enumerate(questions)
    ]


def proposition_records(
    chunk: Chunk,
    statements: Sequence[str],
    made_by: Mapping[str, str],
    scores: Sequence[Sequence[int]] = (),
) -> list[Derived]:
    """Make the records of statements of a chunk.

    Args:
        chunk: The chunk.
        statements: The statements.
        made_by: Attributes that say what made them.
        scores: Four numbers for each statement; empty where nobody scored.

    Returns:
        One embedded record each.
    """
    made: list[Derived] = []
    for number, statement in enumerate(statements):
        scored = {"scores": ",".join(map(str, scores[number]))} if scores else {}
        key = f"{chunk.position}-{number}"
        made.append(_of_chunk(RecordKind.PROPOSITION, chunk, key, statement, {**made_by, **scored}))
    return made


def summary_record(passage: Passage, text: str, made_by: Mapping[str, str]) -> Derived:
    """Make the record of a summary.

    Args:
        passage: What it summarises.
        text: The summary.
        made_by: Attributes that say what made it.

    Returns:
        An embedded record.
    """
    return Derived(
        kind=RecordKind.SUMMARY,
        key=passage.key,
        text=text,
        chunks=passage.chunks,
        is_embedded=True,
        page=passage.page,
        boxes=_merged(passage.boxes),
        heading_path=passage.heading_path,
        attributes={"scope": passage.scope.value, **made_by},
    )


def toc_records(entries: Sequence[TocEntry], made_by: Mapping[str, str]) -> list[Derived]:
    """Make the records of a table of contents; they are read in order, not searched by vector.

    Args:
        entries: Its entries.
        made_by: Attributes that say what made them.

    Returns:
        One record each; its key sorts as the entries do.
    """
    return [
        Derived(
            kind=RecordKind.TOC,
            key=f"{number:05d}",
            text=entry.title,
            chunks=entry.chunks,
            is_embedded=False,
            page=entry.page,
            heading_path=entry.path,
            attributes={"level": str(entry.level), **made_by},
        )
        for number, entry in enumerate(entries)
    ]


def memory_records(
    pairs: Sequence[MemoryPair], chunks: Mapping[int, Chunk], made_by: Mapping[str, str]
) -> list[Derived]:
    """Make the records of a memory.

    Args:
        pairs: Topics and details.
        chunks: Chunks by position.
        made_by: Attributes that say what made them.

    Returns:
        One embedded record each.
    """
    made: list[Derived] = []
    numbers: dict[int, int] = {}
    for pair in pairs:
        first = chunks[pair.chunks[0]]
        number = numbers.get(first.position, 0)
        numbers[first.position] = number + 1
        made.append(
            Derived(
                kind=RecordKind.MEMORY,
                key=f"{first.position}-{number}",
                text=pair.text,
                chunks=pair.chunks,
                is_embedded=True,
                page=first.page,
                boxes=_merged(box for position in pair.chunks for box in chunks[position].boxes),
                heading_path=first.heading_path,
                attributes={"topic": pair.topic, **made_by},
            )
        )
    return made


def made_by(method: EnrichMethod, prompt: str = "") -> dict[str, str]:
    """Say what made a record.

    Args:
        method: LITE or LLM.
        prompt: Version of the prompt, for LLM.

    Returns:
        Attributes.
    """
    return {"method": method.value, "prompt": prompt} if prompt else {"method": method.value}


def finish(
    chunks: Sequence[Chunk], derived: Iterable[Derived], counter: TextTokenizer
) -> tuple[tuple[Chunk, ...], tuple[Derived, ...]]:
    """Count the tokens of what is new, and put records in order.

    Args:
        chunks: Chunks; those with a text and a count of 0 are counted.
        derived: Records.
        counter: Counts tokens.

    Returns:
        Chunks in their order, and records by kind, then as they were made.
    """
    ordered = sorted(derived, key=lambda item: _KIND_ORDER[item.kind])
    texts = [item.text for item in ordered]
    uncounted = [place for place, chunk in enumerate(chunks) if chunk.text and not chunk.token_count]
    texts.extend(chunks[place].text for place in uncounted)
    counts: list[int] = []
    for start in range(0, len(texts), _COUNT_BATCH):
        counts.extend(counter.count_tokens(texts[start : start + _COUNT_BATCH]))
    counted = list(chunks)
    for place, count in zip(uncounted, counts[len(ordered) :], strict=True):
        counted[place] = replace(chunks[place], token_count=count)
    records = tuple(replace(item, token_count=count) for item, count in zip(ordered, counts, strict=False))
    return tuple(counted), records


def _of_chunk(kind: RecordKind, chunk: Chunk, key: str, text: str, attributes: Mapping[str, str]) -> Derived:
    return Derived(
        kind=kind,
        key=key,
        text=text,
        chunks=(chunk.position,),
        is_embedded=True,
        page=chunk.page,
        boxes=chunk.boxes[:_MAX_BOXES],
        heading_path=chunk.heading_path,
        attributes=attributes,
    )


def _merged(boxes: Iterable[Box]) -> tuple[Box, ...]:
    return merge_boxes(boxes)[:_MAX_BOXES]
