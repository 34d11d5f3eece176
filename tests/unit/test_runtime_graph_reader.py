"""The reader of graphs: each caller its own view, each object fetched once, each view compiled once, all bounded."""

import asyncio
import stat
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyroaring import FrozenBitMap

from corpusmesh_core.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    NotFoundError,
    OverloadedError,
    UnavailableError,
)
from corpusmesh_core.graphs.corrections import Corrections, DeleteEntity, pack_corrections
from corpusmesh_core.graphs.keys import entity_key, pair_of
from corpusmesh_core.graphs.resolution import ResolvedPair, pack_pairs
from corpusmesh_core.graphs.segments import SegmentDocument, pack_segment
from corpusmesh_core.graphs.values import EntityFragment, Mention, Subgraph
from corpusmesh_core.graphs.view import GraphView, compile_view
from corpusmesh_core.ports.objects import ObjectInfo
from corpusmesh_core.visibility import Visibility
from corpusmesh_runtime.graphs.config import GraphCacheSettings
from corpusmesh_runtime.graphs.reader import GraphReader

_ACME, _OTHER, _KB = "acme", "other", "kb-1"


class _Store:
    """Objects, and what builds name of them; both remember what they were asked for."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.names: dict[tuple[str, str], dict[str, str]] = {}
        self.read: list[str] = []
        self.listed = 0
        self.on_list: list[Any] = []

    async def head(self, key: str, *, timeout_seconds: float = 10.0) -> ObjectInfo | None:
        return ObjectInfo(key, len(self.kept[key])) if key in self.kept else None

    async def open_stream(
        self, key: str, *, sha256: str | None = None, timeout_seconds: float = 300.0
    ) -> AsyncIterator[bytes]:
        self.read.append(key)
        await asyncio.sleep(0)
        if key not in self.kept:
            raise NotFoundError("OBJECT_NOT_FOUND", "there is no such object")
        content = self.kept[key]
        for start in range(0, len(content), 100):
            yield content[start : start + 100]

    async def artefacts(self, tenant_id: str, knowledge_base_id: str) -> Mapping[str, str]:
        self.listed += 1
        names = dict(self.names.get((tenant_id, knowledge_base_id), {}))
        if self.on_list:
            self.on_list.pop(0)()
        return names

    def publish(self, tenant_id: str, **parts: bytes) -> None:
        names = self.names[tenant_id, _KB] = {}
        for name, content in parts.items():
            key = f"{tenant_id}/artefacts/run/{name}-{hash(content):x}"
            self.kept[key] = content
            names[name.replace("_", ".")] = key


def _document(number: int, *names: str) -> SegmentDocument:
    fragments = sorted(
        (EntityFragment(entity_key(name), name, mentions=(Mention(0),)) for name in names), key=lambda item: item.key
    )
    return SegmentDocument(number, 100 + number, Subgraph(tuple(fragments)))


def _sees(*numbers: int) -> Visibility:
    return Visibility("s", FrozenBitMap([item for number in numbers for item in (number, 100 + number)]), 1000)


def _names(view: GraphView | None) -> list[str]:
    assert view is not None
    return sorted(view.name(place) for place in range(len(view.entity_keys)))


def _segment(*documents: SegmentDocument) -> bytes:
    return pack_segment(documents)


async def _view(
    reader: GraphReader, visibility: Visibility, tenant_id: str = _ACME, seconds: float = 20.0
) -> GraphView:
    view = await reader.view(tenant_id, _KB, visibility, timeout_seconds=seconds)
    assert view is not None
    return view


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _patch_compiling(monkeypatch: pytest.MonkeyPatch, before: Callable[[], object]) -> None:
    def patched(*arguments: Any) -> GraphView:
        before()
        return compile_view(*arguments)

    monkeypatch.setattr("corpusmesh_runtime.graphs.reader.compile_view", patched)


@pytest.fixture
def store() -> _Store:
    store = _Store()
    store.publish(_ACME, segment_0=_segment(_document(1, "Euler"), _document(2, "Basel")))
    return store


@pytest.fixture
async def reader(store: _Store, tmp_path: Path) -> AsyncIterator[GraphReader]:
    async with GraphReader(store, store, GraphCacheSettings(folder=tmp_path / "graphs")) as reader:  # type: ignore[arg-type]
        yield reader


async def test_a_knowledge_base_without_a_graph_has_no_view(reader: GraphReader, store: _Store) -> None:
    assert await reader.view(_ACME, "kb-2", _sees(1), timeout_seconds=5.0) is None
    assert store.read == []


async def test_callers_who_see_the_same_share_a_view_and_others_do_not(reader: GraphReader, store: _Store) -> None:
    both = await _view(reader, _sees(1, 2))
    assert _names(both) == ["Basel", "Euler"]
    assert _names(await _view(reader, _sees(2))) == ["Basel"]
    assert await _view(reader, _sees(1, 2, 77)) is both, "what is outside of the graph makes no difference"
    assert len(store.read) == 1


async def test_one_compiles_for_all_who_wait(
    reader: GraphReader, store: _Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    _patch_compiling(monkeypatch, lambda: compiled.append(threading.current_thread().name))
    views = await asyncio.gather(*(_view(reader, _sees(1, 2)) for _ in range(20)))
    assert len({id(view) for view in views}) == 1
    assert len(compiled) == 1
    assert compiled[0].startswith("graph-views"), "not in the thread of the event loop"
    assert len(store.read) == 1


async def test_two_tenants_with_the_same_ids_never_meet(reader: GraphReader, store: _Store) -> None:
    store.publish(_OTHER, segment_0=_segment(_document(1, "Secret"), _document(2, "Hidden")))
    assert _names(await _view(reader, _sees(1, 2), _OTHER)) == ["Hidden", "Secret"]
    assert _names(await _view(reader, _sees(1, 2))) == ["Basel", "Euler"]
    store.names[_OTHER, _KB] = dict(store.names[_ACME, _KB])
    with pytest.raises(UnavailableError):
        await _view(reader, _sees(1, 2), _OTHER)


@pytest.mark.parametrize("identifier", ["..", "a/b", "", "A", "x" * 64])
async def test_ids_never_lead_out_of_the_folder(reader: GraphReader, store: _Store, identifier: str) -> None:
    store.names[_ACME, identifier] = dict(store.names[_ACME, _KB])
    with pytest.raises(UnavailableError):
        await reader.view(_ACME, identifier, _sees(1), timeout_seconds=5.0)


async def test_files_are_for_this_user_alone(reader: GraphReader, tmp_path: Path) -> None:
    await _view(reader, _sees(1))
    found = list((tmp_path / "graphs").rglob("*"))
    assert any(path.is_file() for path in found)
    for path in (tmp_path / "graphs", *found):
        assert stat.S_IMODE(path.stat().st_mode) == (0o600 if path.is_file() else 0o700)


async def test_only_what_is_new_is_fetched_and_what_is_gone_is_removed(
    reader: GraphReader, store: _Store, tmp_path: Path
) -> None:
    old = store.names[_ACME, _KB]["segment.0"]
    await _view(reader, _sees(1, 2))
    first = store.kept[old]
    store.publish(_ACME, segment_0=first, segment_1=_segment(_document(3, "Bernoulli")))
    assert _names(await _view(reader, _sees(1, 2, 3))) == ["Basel", "Bernoulli", "Euler"]
    assert len(store.read) == 2
    store.publish(_ACME, segment_0=_segment(_document(1, "Euler"), _document(3, "Bernoulli")))
    assert _names(await _view(reader, _sees(1, 2, 3))) == ["Bernoulli", "Euler"]
    assert len(_files(tmp_path / "graphs")) == 1


async def test_a_part_that_is_swept_between_listing_and_reading_is_listed_again(
    reader: GraphReader, store: _Store
) -> None:
    def merge() -> None:
        store.kept.clear()
        store.publish(_ACME, segment_0=_segment(_document(1, "Merged")))

    store.on_list = [merge]
    assert _names(await _view(reader, _sees(1))) == ["Merged"]
    assert store.listed == 2
    store.kept.clear()
    store.names[_ACME, _KB] = {"segment.0": f"{_ACME}/gone"}
    with pytest.raises(UnavailableError):
        await _view(reader, _sees(1))


async def test_resolution_and_corrections_take_part(reader: GraphReader, store: _Store) -> None:
    segment = _segment(_document(1, "Euler", "Basel"), _document(2, "L. Euler"))
    pair = ResolvedPair(*pair_of(entity_key("Euler"), entity_key("L. Euler")), "rule", 1.0)
    store.publish(_ACME, segment_0=segment, resolution=pack_pairs([pair]))
    assert len(_names(await _view(reader, _sees(1, 2)))) == 2
    corrections = pack_corrections(Corrections((DeleteEntity((entity_key("Basel"),)),)))
    store.publish(_ACME, segment_0=segment, resolution=pack_pairs([pair]), corrections=corrections)
    assert len(_names(await _view(reader, _sees(1, 2)))) == 1


async def test_whoever_waits_too_long_is_told_and_the_view_is_there_the_next_time(
    reader: GraphReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    calls: list[bool] = []
    _patch_compiling(monkeypatch, lambda: calls.append(goes_on.wait(20)))
    with pytest.raises(DeadlineExceededError) as told:
        await _view(reader, _sees(1), seconds=0.2)
    assert told.value.reason == "GRAPH_NOT_READY"
    goes_on.set()
    assert _names(await _view(reader, _sees(1))) == ["Euler"]
    assert len(calls) == 1


async def test_too_many_views_at_once_are_refused(
    store: _Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        goes_on.wait(20)

    _patch_compiling(monkeypatch, wait)
    settings = GraphCacheSettings(folder=tmp_path, max_waiting_views=1)
    async with GraphReader(store, store, settings) as reader:  # type: ignore[arg-type]
        first = asyncio.create_task(_view(reader, _sees(1)))
        await asyncio.to_thread(begun.wait, 20)
        with pytest.raises(OverloadedError):
            await _view(reader, _sees(2))
        goes_on.set()
        assert _names(await first) == ["Euler"]


async def test_memory_and_disk_are_bounded(store: _Store, tmp_path: Path) -> None:
    names = [[f"Name {number} {place}" for place in range(200)] for number in range(40)]
    store.publish(_ACME, segment_0=_segment(*(_document(number + 1, *own) for number, own in enumerate(names))))
    settings = GraphCacheSettings(folder=tmp_path, max_memory_bytes=40_000)
    async with GraphReader(store, store, settings) as reader:  # type: ignore[arg-type]
        for number in range(1, 21):
            await _view(reader, _sees(number))
        assert 1 <= len(reader._views) <= 10
        assert sum(size for _, size in reader._views.values()) <= 40_000
    settings = GraphCacheSettings(folder=tmp_path / "small", max_file_bytes=1024**2)
    many = [_document(number, *(f"Name {number} {place}" for place in range(12_000))) for number in (1, 2)]
    store.publish(_ACME, segment_0=_segment(many[0]))
    store.publish(_OTHER, segment_0=_segment(many[1]))
    async with GraphReader(store, store, settings) as reader:  # type: ignore[arg-type]
        await _view(reader, _sees(1))
        await _view(reader, _sees(2), _OTHER)
        assert sum(path.stat().st_size for path in _files(tmp_path / "small")) <= 1024**2
        store.publish(_ACME, segment_0=_segment(*many))
        with pytest.raises(FailedPreconditionError):
            await _view(reader, _sees(1))


async def test_a_large_view_is_a_file_that_the_next_process_finds_and_a_damaged_one_is_made_anew(
    store: _Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corpusmesh_runtime.graphs.reader._MAPPED_BYTES", 1)
    settings = GraphCacheSettings(folder=tmp_path)
    compiled: list[int] = []
    _patch_compiling(monkeypatch, lambda: compiled.append(1))
    for times in (1, 1, 2):
        if times == 2:
            [file] = [path for path in _files(tmp_path) if path.suffix != ".artefact"]
            content = bytearray(file.read_bytes())
            content[-3] ^= 255
            file.write_bytes(content)
        async with GraphReader(store, store, settings) as reader:  # type: ignore[arg-type]
            assert _names(await _view(reader, _sees(1, 2))) == ["Basel", "Euler"]
        assert len(compiled) == times


async def test_a_hostile_segment_is_an_error_and_not_kept(reader: GraphReader, store: _Store, tmp_path: Path) -> None:
    store.publish(_ACME, segment_0=b"CMGRAPH\x01" + b"\xff" * 500)
    with pytest.raises(UnavailableError):
        await _view(reader, _sees(1))
    assert not _files(tmp_path / "graphs")


async def test_a_full_disk_is_told_and_a_view_that_cannot_be_written_is_kept_in_memory(
    reader: GraphReader, store: _Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr("corpusmesh_runtime.graphs.reader._MAPPED_BYTES", 1)
    monkeypatch.setattr("corpusmesh_runtime.graphs.folder.CacheFolder.write", full)
    view = await _view(reader, _sees(1))
    assert await _view(reader, _sees(1)) is view
    monkeypatch.setattr("corpusmesh_runtime.graphs.folder._create", full)
    store.publish(_ACME, segment_0=_segment(_document(3, "New")))
    with pytest.raises(UnavailableError) as told:
        await _view(reader, _sees(3))
    assert told.value.reason == "GRAPH_UNREADABLE"


@pytest.mark.parametrize("is_known", [True, False])
async def test_what_nobody_asks_for_any_more_goes_with_its_graph(
    store: _Store, tmp_path: Path, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corpusmesh_runtime.graphs.reader._MAPPED_BYTES", 1)
    store.publish(_OTHER, segment_0=_segment(_document(1, "Other")))
    settings = GraphCacheSettings(folder=tmp_path)
    async with GraphReader(store, store, settings) as reader:  # type: ignore[arg-type]
        await _view(reader, _sees(1, 2))
        await _view(reader, _sees(1), _OTHER)
        await reader.check()
        assert {path.parent.parent.name for path in _files(tmp_path)} == {_ACME, _OTHER}
        if is_known:
            store.names[_ACME, _KB] = {}
            await reader.check()
            assert [path.parent.parent.name for path in _files(tmp_path)] == [_OTHER, _OTHER]
            assert len(reader._views) == len(reader._open) == 1
    store.names[_ACME, _KB] = {}
    async with GraphReader(store, store, settings) as reader:  # type: ignore[arg-type]
        await reader.check()
        assert [path.parent.parent.name for path in _files(tmp_path)] == [_OTHER, _OTHER]


async def test_a_check_goes_on_where_one_graph_cannot_be_looked_up(
    reader: GraphReader, store: _Store, tmp_path: Path
) -> None:
    def fail() -> None:
        raise UnavailableError("DATABASE_UNAVAILABLE", "away")

    store.publish(_OTHER, segment_0=_segment(_document(1, "Other")))
    await _view(reader, _sees(1))
    await _view(reader, _sees(1), _OTHER)
    store.names.clear()
    store.on_list = [fail]
    await reader.check()
    assert {path.parent.parent.name for path in _files(tmp_path)} == {_ACME}


async def test_a_view_of_a_graph_that_has_changed_meanwhile_is_not_kept(
    reader: GraphReader, store: _Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corpusmesh_runtime.graphs.reader._MAPPED_BYTES", 1)
    begun, goes_on = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        goes_on.wait(20)

    _patch_compiling(monkeypatch, wait)
    first = asyncio.create_task(_view(reader, _sees(1)))
    await asyncio.to_thread(begun.wait, 20)
    store.publish(_ACME, segment_0=_segment(_document(2, "Basel")))
    await reader.check()
    goes_on.set()
    assert _names(await first) == ["Euler"]
    assert not reader._views
    assert not _files(tmp_path / "graphs")


async def test_without_a_folder_of_its_own_nothing_is_left_behind(store: _Store) -> None:
    async with GraphReader(store, store) as reader:  # type: ignore[arg-type]
        await _view(reader, _sees(1))
        assert reader._own_folder is not None
        name = reader._own_folder.name
        assert _files(Path(name))
    assert not _files(Path(name))
