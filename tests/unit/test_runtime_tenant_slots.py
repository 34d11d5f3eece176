"""Places for what takes long: some are always left for another tenant."""

import contextlib

import pytest

from corpusmesh_core.errors import OverloadedError
from corpusmesh_runtime.tenant_slots import TenantSlots


def slots(limit: int) -> TenantSlots:
    return TenantSlots(limit, busy=lambda: OverloadedError("BUSY", "try again"))


def taken_count(places: TenantSlots, tenant: str, stack: contextlib.ExitStack, *, tries: int = 20) -> int:
    for count in range(tries):
        try:
            stack.enter_context(places.taken(tenant))
        except OverloadedError:
            return count
    return tries


@pytest.mark.parametrize(("limit", "own", "others"), [(8, 6, 2), (2, 1, 1), (3, 2, 1)])
def test_one_tenant_leaves_places_to_others(limit: int, own: int, others: int) -> None:
    places = slots(limit)
    with contextlib.ExitStack() as stack:
        assert taken_count(places, "loud", stack) == own
        assert taken_count(places, "quiet", stack) == others
    with contextlib.ExitStack() as stack:
        assert taken_count(places, "quiet", stack) == own, "places come free again"


def test_the_only_place_goes_to_whoever_comes_first() -> None:
    places = slots(1)
    with places.taken("loud"), pytest.raises(OverloadedError), places.taken("quiet"):
        pass


def test_a_fault_gives_the_place_back() -> None:
    places = slots(1)
    with contextlib.suppress(ValueError), places.taken("loud"):
        raise ValueError
    with places.taken("quiet"):
        pass
