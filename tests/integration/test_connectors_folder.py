"""The folder connector on real files: what it lists, what it never reads, and what a damaged folder leads to."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from corpusmesh_adapters.connectors import ConnectorSettings, FolderRoot, SettingsConnectorRegistry
from corpusmesh_core.errors import DeadlineExceededError, FailedPreconditionError, NotFoundError
from corpusmesh_core.sources import FailedItem, FolderPlace, ListingEnd, ListingEvent, SourceItem


async def listing(root: Path, place: FolderPlace | None = None) -> list[ListingEvent]:
    async with registry(root).connect("tenant", place or FolderPlace("docs")) as connector:
        return [event async for event in connector.list("", {}, timeout_seconds=30)]


async def read(root: Path, item: SourceItem, place: FolderPlace | None = None) -> bytes:
    async with registry(root).connect("tenant", place or FolderPlace("docs")) as connector:
        return b"".join([piece async for piece in connector.open(item, timeout_seconds=30)])


def registry(root: Path, tenants: tuple[str, ...] = ("*",)) -> SettingsConnectorRegistry:
    return SettingsConnectorRegistry(ConnectorSettings(folder_roots={"docs": FolderRoot(root, tenants)}))


def keys(events: Sequence[ListingEvent]) -> list[str]:
    return [event.key for event in events if isinstance(event, SourceItem)]


def write(root: Path, name: str, text: str = "x") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def test_files_are_listed_by_path_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("b.txt", "a/deep/c.txt", ".hidden", ".git/config", "a/.hidden.txt"):
        write(tmp_path, name)
    events = await listing(tmp_path)
    assert keys(events) == ["a/deep/c.txt", "b.txt"]
    assert events[-1] == ListingEnd(is_complete=True)
    first = events[0]
    assert isinstance(first, SourceItem)
    assert (first.display_name, first.size_bytes, first.source_uri, first.metadata) == (
        "c.txt",
        1,
        "docs:/a/deep/c.txt",
        {"folder": "a/deep"},
    )


async def test_etag_changes_with_the_content_and_not_otherwise(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "one")
    [before, _] = await listing(tmp_path)
    [again, _] = await listing(tmp_path)
    assert before == again
    path.write_text("two")
    os.utime(path, ns=(1, 1))
    [after, _] = await listing(tmp_path)
    assert isinstance(before, SourceItem)
    assert isinstance(after, SourceItem)
    assert before.etag != after.etag
    assert await read(tmp_path, after) == b"two"


async def test_place_below_the_root_and_patterns_choose_files(tmp_path: Path) -> None:
    for name in ("a/x.pdf", "a/y.txt", "b/z.pdf"):
        write(tmp_path, name)
    assert keys(await listing(tmp_path, FolderPlace("docs", "a"))) == ["x.pdf", "y.txt"]
    assert keys(await listing(tmp_path, FolderPlace("docs", include=("*.pdf",), exclude=("b/*",)))) == ["a/x.pdf"]


async def test_links_out_of_the_root_are_refused_and_links_inside_are_read(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    write(outside, "secret.txt", "secret")
    write(root, "real.txt", "inside")
    (root / "inside.txt").symlink_to(root / "real.txt")
    (root / "outside.txt").symlink_to(outside / "secret.txt")
    (root / "folder").symlink_to(outside)
    (root / "broken.txt").symlink_to(root / "nowhere")
    events = await listing(root)
    assert keys(events) == ["inside.txt", "real.txt"]
    [refused] = [event for event in events if isinstance(event, FailedItem)]
    assert (refused.key, refused.reason) == ("outside.txt", "SOURCE_LINK_OUTSIDE")


async def test_file_that_became_a_link_outside_after_it_was_listed_is_not_read(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    write(outside, "a.txt", "secret")
    write(root, "sub/a.txt", "public")
    [item, _] = await listing(root)
    assert isinstance(item, SourceItem)
    (root / "sub" / "a.txt").unlink()
    (root / "sub").rmdir()
    (root / "sub").symlink_to(outside)
    with pytest.raises(NotFoundError):
        await read(root, item)


async def test_what_is_no_regular_file_is_neither_listed_nor_waited_for(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt")
    [item, _] = await listing(tmp_path)
    assert isinstance(item, SourceItem)
    path.unlink()
    os.mkfifo(path)
    assert keys(await listing(tmp_path)) == []
    with pytest.raises(NotFoundError):
        await read(tmp_path, item)


async def test_place_that_leads_out_of_the_root_by_a_link_is_refused(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    write(outside, "secret.txt")
    root.mkdir()
    (root / "sub").symlink_to(outside)
    with pytest.raises(NotFoundError) as caught:
        await listing(root, FolderPlace("docs", "sub"))
    assert caught.value.reason == "SOURCE_FOLDER_MISSING"


async def test_missing_folder_is_an_error_and_not_an_empty_listing(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        await listing(tmp_path / "unmounted")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every folder")
async def test_folder_that_cannot_be_read_makes_the_listing_incomplete(tmp_path: Path) -> None:
    write(tmp_path, "closed/a.txt")
    write(tmp_path, "b.txt")
    (tmp_path / "closed").chmod(0)
    try:
        events = await listing(tmp_path)
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert keys(events) == ["b.txt"]
    assert events[-1] == ListingEnd(is_complete=False)


async def test_folders_deeper_than_the_bound_make_the_listing_incomplete(tmp_path: Path) -> None:
    write(tmp_path, "/".join(["d"] * 70) + "/a.txt")
    events = await listing(tmp_path)
    assert keys(events) == []
    assert events[-1] == ListingEnd(is_complete=False)


async def test_name_that_is_not_utf8_is_told_and_not_taken(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/caf\xe9.txt", "wb") as file:  # noqa: ASYNC230 - a test's own file
        file.write(b"x")
    [failed, _] = await listing(tmp_path)
    assert isinstance(failed, FailedItem)
    assert (failed.key, failed.reason) == ("caf\\xe9.txt", "SOURCE_NAME_INVALID")


async def test_modes_become_grants(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt")
    found: list[list[str]] = []
    for mode in (0o600, 0o640, 0o644, 0o004):
        path.chmod(mode)
        [item, _] = await listing(tmp_path)
        assert isinstance(item, SourceItem)
        found.append([grant.principal.split(":")[0] for grant in item.grants or ()])
    assert found == [["user"], ["user", "group"], ["user", "group", "everyone"], ["everyone"]]


async def test_listing_ends_in_time(tmp_path: Path) -> None:
    for place in range(600):
        write(tmp_path, f"{place}.txt")
    async with registry(tmp_path).connect("tenant", FolderPlace("docs")) as connector:
        with pytest.raises(DeadlineExceededError):
            async for _ in connector.list("", {}, timeout_seconds=0):
                pass


@pytest.mark.parametrize("tenants", [(), ("other",)])
async def test_root_is_open_to_nobody_unless_the_configuration_says_so(
    tmp_path: Path, tenants: tuple[str, ...]
) -> None:
    closed = registry(tmp_path, tenants)
    for place in (FolderPlace("docs"), FolderPlace("unknown")):
        with pytest.raises(FailedPreconditionError) as caught:
            closed.check("tenant", place)
        assert caught.value.reason == "SOURCE_ROOT_UNKNOWN"
        with pytest.raises(FailedPreconditionError):
            async with closed.connect("tenant", place):
                pass
