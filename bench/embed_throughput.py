"""Embedding throughput: the engine with many callers against the bare model, in the same run on the same texts.

    python bench/embed_throughput.py [--texts 384] [--callers 32] [--threads 0] [--batch-tokens 1024] [--repeats 3]

Prints one JSON line per repeat and the median ratios, of wall time and of CPU time: on a machine that does other work
only the second means something. "raw" hands the model all texts sorted by length in batches of the
same token budget, which is the best that any batching can do. "interactive" is the time of single questions while the
bulk callers run, against the same questions on the idle engine.
"""

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import time

from corpusmesh_adapters.models.install import install_model
from corpusmesh_adapters.models.onnx_backend import OnnxEmbeddingBackend, available_core_count
from corpusmesh_adapters.models.registry import DEFAULT_MODEL_NAME, model_directory
from corpusmesh_core.ports.embedding import EmbedLane, EmbedRole
from corpusmesh_embed.batching import BatchingEmbedder
from corpusmesh_embed.config import EmbedSettings

TEXTS_PER_CALL = 16
QUESTIONS = 24
WORDS = re.findall(
    r"\w+",
    "river harbour treaty engine protein archive committee minister valley copper violin parliament glacier printing "
    "contract insurance turbine orchard satellite museum bridge election mineral poet railway vaccine castle",
)


def make_texts(count: int, dice: random.Random) -> list[str]:
    """Texts of 20 to 300 words, as chunks of real documents are: most near the middle."""
    return [
        " ".join(dice.choice(WORDS) for _ in range(int(dice.triangular(20, 300, 140)))) + f" {number}"
        for number in range(count)
    ]


def run_raw(backend: OnnxEmbeddingBackend, texts: list[str], batch_tokens: int) -> float:
    """Seconds of the bare model over all texts."""
    started = time.perf_counter()
    lengths = [count + backend.prefix_tokens for count in backend.count_tokens(texts)]
    batch: list[str] = []
    for place in sorted(range(len(texts)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[place] > batch_tokens:
            backend.encode(batch, role=EmbedRole.PASSAGE)
            batch = []
        batch.append(texts[place])
    backend.encode(batch, role=EmbedRole.PASSAGE)
    return time.perf_counter() - started


async def ask(engine: BatchingEmbedder, count: int, pause_seconds: float) -> list[float]:
    """Milliseconds of single questions, one after another."""
    spent = []
    for number in range(count):
        started = time.perf_counter()
        await engine.embed(
            [f"which {WORDS[number % len(WORDS)]} is older than the {WORDS[-number % len(WORDS)]}?"],
            role=EmbedRole.QUERY,
            lane=EmbedLane.INTERACTIVE,
            deadline_seconds=60,
        )
        spent.append((time.perf_counter() - started) * 1000)
        await asyncio.sleep(pause_seconds)
    return spent


async def run_engine(
    backend: OnnxEmbeddingBackend, texts: list[str], callers: int, settings: EmbedSettings, *, with_questions: bool
) -> tuple[float, list[float]]:
    """Seconds of the engine over all texts in calls of TEXTS_PER_CALL from `callers` callers, and the questions'."""
    calls = [texts[start : start + TEXTS_PER_CALL] for start in range(0, len(texts), TEXTS_PER_CALL)]
    async with BatchingEmbedder(backend, settings) as engine:

        async def caller() -> None:
            while calls:
                own = calls.pop()
                await engine.embed(own, role=EmbedRole.PASSAGE, lane=EmbedLane.BULK, deadline_seconds=600)

        started = time.perf_counter()
        asking = asyncio.create_task(ask(engine, QUESTIONS, 0.05)) if with_questions else None
        await asyncio.gather(*(caller() for _ in range(callers)))
        seconds = time.perf_counter() - started
        return seconds, await asking if asking is not None else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=384)
    parser.add_argument("--callers", type=int, default=32)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--batch-tokens", type=int, default=EmbedSettings().max_batch_tokens)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    install_model(DEFAULT_MODEL_NAME)
    threads = options.threads or available_core_count()
    backend = OnnxEmbeddingBackend(model_directory(DEFAULT_MODEL_NAME), thread_count=threads)
    settings = EmbedSettings(max_batch_tokens=options.batch_tokens)
    dice = random.Random(1)
    ratios: list[tuple[float, float]] = []
    for _ in range(options.repeats):
        texts = make_texts(options.texts, dice)
        tokens = sum(backend.count_tokens(texts))
        cpu = [time.process_time()]
        raw = run_raw(backend, texts, options.batch_tokens)
        cpu.append(time.process_time())
        engine, _ = asyncio.run(run_engine(backend, texts, options.callers, settings, with_questions=False))
        cpu.append(time.process_time())
        _, idle = asyncio.run(run_engine(backend, [], 0, settings, with_questions=True))
        _, busy = asyncio.run(run_engine(backend, texts, options.callers, settings, with_questions=True))
        ratios.append((raw / engine, (cpu[1] - cpu[0]) / (cpu[2] - cpu[1])))
        line = {
            "load": round(os.getloadavg()[0], 1),
            "threads": threads,
            "batch_tokens": options.batch_tokens,
            "texts": len(texts),
            "tokens": tokens,
            "raw_tokens_per_second": round(tokens / raw),
            "engine_tokens_per_second": round(tokens / engine),
            "ratio": round(ratios[-1][0], 3),
            "cpu_ratio": round(ratios[-1][1], 3),
            "question_idle_ms": round(statistics.median(idle), 1),
            "question_under_bulk_ms": round(statistics.median(busy), 1),
            "question_under_bulk_max_ms": round(max(busy), 1),
        }
        print(json.dumps(line), flush=True)
    wall, cpu_time = (round(statistics.median(column), 3) for column in zip(*ratios, strict=True))
    print(json.dumps({"median_ratio": wall, "median_cpu_ratio": cpu_time, "callers": options.callers}))


if __name__ == "__main__":
    main()
