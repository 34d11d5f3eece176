"""JetStream as the mesh uses it: bounds, redelivery, bad messages, restarts."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from corpusmesh_adapters.nats import Broker, BrokerSettings, NatsWorkBroker, parse_work_message
from corpusmesh_core.errors import UnavailableError
from corpusmesh_core.orchestration.values import Lane, Stage
from corpusmesh_core.ports.work import Delivery, OutboxMessage
from tests.support.broker import OwnBroker, own_broker

pytestmark = pytest.mark.servers


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[OwnBroker]:
    folder = tmp_path / "jetstream"
    folder.mkdir()
    async with own_broker(folder) as broker:
        yield broker


@pytest.fixture
def settings(server: OwnBroker) -> BrokerSettings:
    return BrokerSettings(
        server.url, request_timeout_seconds=2.0, ping_interval_seconds=0.5, ack_wait_seconds=0.5, max_deliver=4
    )


@pytest.fixture
async def work(settings: BrokerSettings) -> AsyncIterator[NatsWorkBroker]:
    rejected: list[str] = []
    broker = Broker(settings)
    await broker.open()
    made = NatsWorkBroker(broker, on_rejected=rejected.append)
    made.rejected = rejected  # type: ignore[attr-defined]
    try:
        yield made
    finally:
        await broker.close()


def message(place: int, *, lane: Lane = Lane.BULK, stage: Stage = Stage.PARSE) -> OutboxMessage:
    body = {"tenant": "acme", "run": "r", "task": f"r.{place}.{stage}", "dispatch": 1}
    return OutboxMessage(str(place), f"work.{stage}.{lane}.acme", json.dumps(body).encode(), {"traceparent": "00-x"})


async def fetch_some(work: NatsWorkBroker, count: int, seconds: float, stage: Stage = Stage.PARSE) -> list[Delivery]:
    source = await work.source(stage, Lane.BULK)
    found: list[Delivery] = []
    deadline = asyncio.get_running_loop().time() + seconds
    while len(found) < count and asyncio.get_running_loop().time() < deadline:
        try:
            found.extend(await source.fetch(count - len(found), 0.3))
        except UnavailableError:
            await asyncio.sleep(0.1)
    with contextlib.suppress(UnavailableError):
        await source.close()
    return found


async def test_message_arrives_with_its_headers_and_is_gone_after_the_ack(work: NatsWorkBroker) -> None:
    assert await work.publish([message(1)]) == [None]
    [delivery] = await fetch_some(work, 1, 5)
    assert (delivery.message.task_id, delivery.message.stage, delivery.message.tenant_id) == (
        "r.1.parse", Stage.PARSE, "acme",
    )  # fmt: skip
    assert delivery.headers["traceparent"] == "00-x"
    assert delivery.delivery_count == 1
    await delivery.ack()
    assert await work.count_messages() == {}


async def test_same_message_id_is_stored_once(work: NatsWorkBroker) -> None:
    assert await work.publish([message(1), message(2), message(1)]) == [None, None, None]
    assert await work.publish([message(1)]) == [None]
    assert await work.count_messages() == {"work.parse.bulk.acme": 2}


async def test_unanswered_message_comes_again_and_a_sign_of_life_prevents_it(work: NatsWorkBroker) -> None:
    await work.publish([message(1)])
    source = await work.source(Stage.PARSE, Lane.BULK)
    [delivery] = await source.fetch(1, 1.0)
    for _ in range(5):
        await asyncio.sleep(0.25)
        await delivery.keep_alive()
    assert list(await source.fetch(1, 0.2)) == []
    again = await fetch_some(work, 1, 5)
    assert again[0].delivery_count == 2


async def test_lanes_and_stages_do_not_see_each_other(work: NatsWorkBroker) -> None:
    await work.publish([message(1), message(2, lane=Lane.INTERACTIVE), message(3, stage=Stage.EMBED)])
    interactive = await (await work.source(Stage.PARSE, Lane.INTERACTIVE)).fetch(10, 1.0)
    assert [delivery.message.task_id for delivery in interactive] == ["r.2.parse"]


@pytest.mark.parametrize(
    ("subject", "data"),
    [
        ("work.parse.bulk.acme", b"\xff not json"),
        ("work.parse.bulk.acme", b"[]"),
        ("work.parse.bulk.acme", b'{"tenant": "acme"}'),
        ("work.parse.bulk.acme", b'{"tenant": "other", "run": "r", "task": "r.1.parse", "dispatch": 1}'),
        ("work.parse.bulk.acme", b'{"tenant": "acme", "run": "r", "task": "q.1.parse", "dispatch": 1}'),
        ("work.parse.bulk.acme.more", b'{"tenant": "acme", "run": "r", "task": "r.1.parse", "dispatch": 1}'),
    ],
)
async def test_malformed_message_is_buried_and_the_next_one_is_served_fr_a01(
    work: NatsWorkBroker, subject: str, data: bytes
) -> None:
    stream = work.broker.stream()
    await stream.publish(subject, data)
    await work.publish([message(2)])
    [delivery] = await fetch_some(work, 1, 5)
    assert delivery.message.task_id == "r.2.parse"
    await delivery.ack()
    assert work.rejected == ["MESSAGE_MALFORMED"]  # type: ignore[attr-defined]
    assert await work.count_messages() == {}
    dead = await stream.get_last_msg("DEAD", "dead.parse.undeliverable")
    assert json.loads(dead.data or b"")["reason"] == "MESSAGE_MALFORMED"
    with pytest.raises(ValueError):
        parse_work_message(subject, data)


async def test_message_that_nobody_finishes_ends_in_the_dead_letters(work: NatsWorkBroker) -> None:
    await work.publish([message(1)])
    for _ in range(4):
        [delivery] = await fetch_some(work, 1, 5)
        await delivery.nak(0.01)
    assert await fetch_some(work, 1, 1.0) == []
    assert await work.count_messages() == {"work.parse.bulk.acme": 1}
    # The broker says so when the last wait is over and somebody asks for work.
    buried = 0
    for _ in range(40):
        await fetch_some(work, 1, 0.3)
        buried += await work.bury_undeliverable(10, 0.3)
        if buried:
            break
    assert buried == 1
    assert await work.count_messages() == {}
    dead = json.loads((await work.broker.stream().get_last_msg("DEAD", "dead.parse.undeliverable")).data or b"")
    assert dead["reason"] == "MAX_DELIVERIES"
    assert json.loads(dead["body"])["task"] == "r.1.parse"


async def test_full_stream_refuses_the_newest_and_keeps_the_rest(server: OwnBroker, settings: BrokerSettings) -> None:
    broker = Broker(replace(settings, max_work_messages=3))
    await broker.open()
    try:
        work = NatsWorkBroker(broker)
        results = await work.publish([message(place) for place in range(5)])
        assert sorted(result or "" for result in results) == ["", "", "", "STREAM_FULL", "STREAM_FULL"]
        assert await work.count_messages() == {"work.parse.bulk.acme": 3}
    finally:
        await broker.close()


async def test_idle_consumer_works_again_after_the_broker_was_killed_fr_a17(
    server: OwnBroker, work: NatsWorkBroker
) -> None:
    source = await work.source(Stage.PARSE, Lane.BULK)
    assert list(await source.fetch(1, 0.2)) == []
    server.kill()
    for _ in range(50):
        if not work.broker.is_connected:
            break
        await asyncio.sleep(0.1)
    with pytest.raises(UnavailableError):
        await source.fetch(1, 0.2)
    await server.start()
    done: set[str] = set()
    published: set[int] = set()
    for _ in range(200):
        wanted = [place for place in range(50) if place not in published]
        if wanted:
            results = await work.publish([message(place) for place in wanted])
            published |= {place for place, result in zip(wanted, results, strict=True) if result is None}
        try:
            for delivery in await source.fetch(50, 0.2):
                await delivery.ack()
                done.add(delivery.message.task_id)
        except UnavailableError:
            await asyncio.sleep(0.1)
        if len(done) == 50:
            break
    assert len(done) == 50


async def test_frozen_broker_is_noticed_and_work_goes_on_after_it_fr_a17(
    server: OwnBroker, work: NatsWorkBroker
) -> None:
    source = await work.source(Stage.PARSE, Lane.BULK)
    assert list(await source.fetch(1, 0.2)) == []
    server.freeze()
    try:
        # Pings every 0.5 s, two without an answer: noticed long before the two minutes of the client's default.
        for _ in range(100):
            if not work.broker.is_connected:
                break
            await asyncio.sleep(0.1)
        assert not work.broker.is_connected
        assert await work.publish([message(1)]) == ["BROKER_UNAVAILABLE"]
    finally:
        server.resume()
    for _ in range(100):
        if await work.publish([message(1)]) == [None]:
            break
        await asyncio.sleep(0.1)
    [delivery] = await fetch_some(work, 1, 5)
    await delivery.ack()


async def test_streams_and_consumers_are_made_again_after_their_loss(server: OwnBroker, work: NatsWorkBroker) -> None:
    source = await work.source(Stage.PARSE, Lane.BULK)
    assert list(await source.fetch(1, 0.2)) == []
    server.kill()
    server.lose_everything()
    await server.start()
    found: list[Delivery] = []
    for _ in range(100):
        if (await work.publish([message(1)])) == [None]:
            try:
                found = list(await source.fetch(1, 0.3))
            except UnavailableError:
                continue
            if found:
                break
        await asyncio.sleep(0.1)
    assert found[0].message.task_id == "r.1.parse"


async def test_events_reach_whoever_follows(work: NatsWorkBroker) -> None:
    feed = work.subscribe("events.run.acme.*")
    first = asyncio.ensure_future(anext(feed))
    await asyncio.sleep(0.2)
    await work.publish([OutboxMessage("e1", "events.run.acme.r", b"moved", {})])
    assert await asyncio.wait_for(first, 5) == b"moved"
    await feed.aclose()  # type: ignore[attr-defined]
