"""Keys of the object store: made of checked parts alone."""

import pytest

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.objects import artefact_key, artefacts_prefix, original_key, originals_prefix

SHA = "a" * 64


def test_keys_follow_the_layout_of_the_design() -> None:
    assert original_key("acme", SHA) == f"acme/originals/{SHA}"
    assert artefact_key("acme", "run-1", "pages/0001.png") == "acme/artefacts/run-1/pages/0001.png"


@pytest.mark.parametrize("tenant", ["", "ACME", "a/b", "..", "a" * 64, "acme\n"])
def test_a_tenant_outside_its_pattern_makes_no_key(tenant: str) -> None:
    with pytest.raises(InvalidArgumentError):
        originals_prefix(tenant)
    with pytest.raises(InvalidArgumentError):
        artefacts_prefix(tenant, "r")


@pytest.mark.parametrize(
    "name", ["", "/a", "a/", "a//b", "../../other/originals/x", "a/../b", ".hidden", "a\x00", "ä", "a" * 600, "a\n"]
)
def test_an_artefact_name_outside_its_pattern_makes_no_key(name: str) -> None:
    with pytest.raises(InvalidArgumentError):
        artefact_key("acme", "r", name)


@pytest.mark.parametrize("sha256", ["", "A" * 64, "a" * 63, "../" + "a" * 61])
def test_an_original_is_named_by_a_digest_alone(sha256: str) -> None:
    with pytest.raises(InvalidArgumentError):
        original_key("acme", sha256)
