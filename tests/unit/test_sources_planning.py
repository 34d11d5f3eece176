"""What a sync does with an item, what it may delete, and who may read what it brings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.sources import (
    AccessRule,
    FolderPlace,
    ItemState,
    KnownItem,
    S3Place,
    SourceGrant,
    SourceItem,
    SourcePlace,
    Step,
    WebPlace,
    access_digest,
    check_place,
    check_rule,
    is_wanted,
    item_document_id,
    kind_of,
    map_access,
    place_from_json,
    place_to_json,
    plan_removals,
    plan_step,
)
from corpusmesh_core.tenancy import AclEntry

ALICE = AclEntry("user", "alice", "allow")
OWNER_ALONE = (AclEntry("user", "olga", "allow"),)


def known(key: str = "a", etag: str = "1", *, state: ItemState = ItemState.ACTIVE, **values: object) -> KnownItem:
    return KnownItem(key, etag, "", "doc-" + key, state, **values)  # type: ignore[arg-type]


def listed(etag: str = "1") -> SourceItem:
    return SourceItem("a", "a.txt", etag)


@pytest.mark.parametrize(
    ("before", "etag", "digest", "expected"),
    [
        (None, "1", "", Step.ADD),
        (KnownItem("a", "", "", "", ItemState.FAILED, has_document=False), "1", "", Step.ADD),
        (known(state=ItemState.REMOVED, has_document=False), "1", "", Step.ADD),
        (known(), "2", "", Step.CHANGE),
        (known(), "1", "", Step.NOTHING),
        (known(), "1", "d", Step.ACCESS),
        (known(), "2", "d", Step.CHANGE),
        (known(state=ItemState.FAILED), "1", "", Step.NOTHING),
        # Its version was cancelled before anybody could find it.
        (known(is_cancelled=True), "1", "", Step.CHANGE),
        # A person has deleted the document: it comes back when it changes, not before.
        (known(has_document=False), "1", "d", Step.NOTHING),
        (known(has_document=False), "2", "", Step.CHANGE),
        # Taken in by this very sync: a source whose etags never rest must not keep it going for ever.
        (known(is_current=True), "2", "", Step.NOTHING),
    ],
)
def test_step_follows_from_what_is_known(before: KnownItem | None, etag: str, digest: str, expected: Step) -> None:
    assert plan_step(before, listed(etag), digest) is expected


def items(*keys: str) -> dict[str, KnownItem]:
    return {key: known(key) for key in keys}


def test_complete_listing_removes_what_it_lacks() -> None:
    plan = plan_removals(items("a", "b", "c"), {"a", "b"}, (), is_complete=True, max_share=0.5, allow_mass_delete=False)
    assert (plan.keys, plan.is_refused, plan.gone_count, plan.known_count) == (("c",), False, 1, 3)


def test_incomplete_listing_removes_only_what_it_names() -> None:
    plan = plan_removals(
        items("a", "b", "c"), {"a"}, ["b", "z"], is_complete=False, max_share=0.5, allow_mass_delete=False
    )
    assert plan.keys == ("b",)


def test_shrunken_listing_removes_nothing_until_a_person_allows_it() -> None:
    refused = plan_removals(items("a", "b", "c"), {"a"}, (), is_complete=True, max_share=0.5, allow_mass_delete=False)
    assert (refused.keys, refused.is_refused, refused.gone_count) == ((), True, 2)
    allowed = plan_removals(items("a", "b", "c"), {"a"}, (), is_complete=True, max_share=0.5, allow_mass_delete=True)
    assert allowed.keys == ("b", "c")


def test_half_of_a_source_may_go_and_an_empty_listing_may_not() -> None:
    half = plan_removals(items("a", "b"), {"a"}, (), is_complete=True, max_share=0.5, allow_mass_delete=False)
    assert half.keys == ("b",)
    empty = plan_removals(items("a"), (), (), is_complete=True, max_share=0.5, allow_mass_delete=False)
    assert empty.is_refused


def test_what_was_named_as_gone_and_listed_later_stays() -> None:
    plan = plan_removals(items("a", "b"), {"a"}, ["a"], is_complete=False, max_share=1.0, allow_mass_delete=False)
    assert plan.keys == ()


def test_items_that_never_became_documents_are_forgotten_without_counting() -> None:
    never = KnownItem("z", "", "", "", ItemState.FAILED, has_document=False)
    plan = plan_removals(
        {**items("a"), "z": never}, {"a"}, (), is_complete=False, max_share=0.0, allow_mass_delete=False
    )
    assert (plan.keys, plan.is_refused) == (("z",), False)


@given(
    st.sets(st.sampled_from("abcdefgh")),
    st.sets(st.sampled_from("abcdefgh")),
    st.lists(st.sampled_from("abcdefghxyz")),
    st.booleans(),
    st.floats(0, 1),
)
def test_no_plan_removes_what_was_seen_or_more_than_the_share(
    keys: set[str], seen: set[str], removed: list[str], is_complete: bool, max_share: float
) -> None:
    before = items(*keys)
    plan = plan_removals(before, seen, removed, is_complete=is_complete, max_share=max_share, allow_mass_delete=False)
    assert not set(plan.keys) & seen
    assert set(plan.keys) <= keys
    assert len(plan.keys) <= max_share * len(keys)
    if not is_complete:
        assert set(plan.keys) <= set(removed)


RULE = AccessRule(
    follows_source=True,
    principals={"user:ada": "users/alice", "group:staff": "groups/team", "everyone": "everyone", "user:x": "users/x"},
)


@pytest.mark.parametrize(
    ("grants", "expected"),
    [
        ([("user:ada", False)], (ALICE,)),
        ([("user:ada", False), ("user:unknown", False)], (ALICE,)),
        ([("user:unknown", False)], OWNER_ALONE),
        ([], OWNER_ALONE),
        (None, OWNER_ALONE),
        ([("everyone", False)], ()),
        ([("everyone", False), ("user:x", True)], (AclEntry("user", "x", "deny"),)),
        # A denial that cannot be expressed must not be dropped.
        ([("everyone", False), ("user:unknown", True)], OWNER_ALONE),
        ([("user:ada", False), ("everyone", True)], OWNER_ALONE),
        ([("user:x", True)], OWNER_ALONE),
        (
            [("group:staff", False), ("user:x", True)],
            (AclEntry("group", "team", "allow"), AclEntry("user", "x", "deny")),
        ),
    ],
)
def test_what_is_not_mapped_is_denied(grants: list[tuple[str, bool]] | None, expected: tuple[AclEntry, ...]) -> None:
    lines = None if grants is None else tuple(SourceGrant(*grant) for grant in grants)
    assert map_access(RULE, lines, "olga") == expected


def test_without_a_rule_access_is_left_to_people_and_a_fixed_list_binds_all() -> None:
    assert map_access(AccessRule(), (SourceGrant("user:ada"),), "olga") is None
    fixed = AccessRule(allowed_users=("alice",), allowed_groups=("team",))
    assert map_access(fixed, None, "olga") == (AclEntry("group", "team", "allow"), ALICE)


def test_digest_tells_open_from_left_to_people_and_ignores_order() -> None:
    assert access_digest(None) == ""
    assert access_digest(()) != ""
    other = AclEntry("group", "team", "allow")
    assert access_digest((ALICE, other)) == access_digest((other, ALICE)) != access_digest((ALICE,))


@pytest.mark.parametrize("target", ["", "alice", "users/", "groups/" + "x" * 300, "roles/admin"])
def test_rule_that_maps_to_nobody_is_refused(target: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        check_rule(AccessRule(follows_source=True, principals={"user:ada": target}))
    assert caught.value.reason == "SOURCE_ACCESS_INVALID"


@pytest.mark.parametrize(
    "place",
    [
        FolderPlace("docs", "../etc"),
        FolderPlace("docs", "a//b"),
        FolderPlace("docs", "a/./b"),
        FolderPlace("docs", "a\x00b"),
        FolderPlace("/etc", ""),
        FolderPlace("docs", include=("x" * 257,)),
        S3Place("main", "Bucket"),
        S3Place("main", "../x"),
        S3Place("", "bucket"),
        WebPlace("file:///etc/passwd"),
        WebPlace("https://"),
        WebPlace("https://example.org", max_depth=33),
        WebPlace("https://example.org", max_pages=0),
        WebPlace("https://example.org", path_prefix="docs"),
    ],
)
def test_place_out_of_its_bounds_is_refused(place: SourcePlace) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        check_place(place)
    assert caught.value.reason == "SOURCE_PLACE_INVALID"


@pytest.mark.parametrize(
    "place",
    [FolderPlace("docs", "a/b", ("*.pdf",), ("x",)), S3Place("main", "bucket", "p/"), WebPlace("https://example.org")],
)
def test_place_is_read_as_it_was_written(place: SourcePlace) -> None:
    check_place(place)
    assert place_from_json(kind_of(place), place_to_json(place)) == place


@pytest.mark.parametrize(
    ("path", "include", "exclude", "expected"),
    [
        ("a/b.pdf", [], [], True),
        ("a/b.pdf", ["*.pdf"], [], True),
        ("a/b.txt", ["*.pdf"], [], False),
        ("a/b.pdf", ["*.pdf"], ["a/*"], False),
        ("c/b.pdf", ["a/*"], [], False),
        ("a/draft.pdf", [], ["draft*"], False),
    ],
)
def test_patterns_choose_files(path: str, include: list[str], exclude: list[str], expected: bool) -> None:
    assert is_wanted(path, include, exclude) is expected


@given(st.text(min_size=1, max_size=300), st.text(min_size=1, max_size=20))
def test_document_ids_fit_the_pattern_and_differ_by_source(key: str, source: str) -> None:
    made = item_document_id(source, key)
    assert 1 <= len(made) <= 63
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert made != item_document_id(source + "x", key)
    assert made == item_document_id(source, key)
