"""Sealed passwords: opened by the mesh that sealed them, for the tenant that they belong to."""

import pytest

from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError
from corpusmesh_ingest.sealing import MAX_PASSWORD_CHARACTERS, PasswordSealer

OLD, NEW = "aa" * 32, "bb" * 32


def test_what_was_sealed_is_opened_again() -> None:
    sealer = PasswordSealer([OLD])
    for text in ("openpassword", "пароль 密码", ""):
        assert sealer.unseal("acme", sealer.seal("acme", text)) == text


def test_a_sealed_text_shows_nothing_and_is_another_each_time() -> None:
    sealer = PasswordSealer([OLD])
    first, second = sealer.seal("acme", "openpassword"), sealer.seal("acme", "openpassword")
    assert first != second
    assert b"openpassword" not in first + second


def test_a_sealed_text_of_another_tenant_is_not_opened() -> None:
    sealer = PasswordSealer([OLD])
    with pytest.raises(FailedPreconditionError, match="send it again"):
        sealer.unseal("other", sealer.seal("acme", "openpassword"))


@pytest.mark.parametrize("place", [0, 1, 5, 20, -1])
def test_a_changed_text_is_not_opened(place: int) -> None:
    sealer = PasswordSealer([OLD])
    sealed = bytearray(sealer.seal("acme", "openpassword"))
    sealed[place] ^= 1
    with pytest.raises(FailedPreconditionError):
        sealer.unseal("acme", bytes(sealed))


@pytest.mark.parametrize("sealed", [b"", b"\x01", b"\x01" + bytes(12), b"plain"])
def test_what_was_never_sealed_is_not_opened(sealed: bytes) -> None:
    with pytest.raises(FailedPreconditionError):
        PasswordSealer([OLD]).unseal("acme", sealed)


def test_after_a_change_of_keys_old_texts_are_opened_and_new_ones_are_sealed_with_the_first_key() -> None:
    sealed = PasswordSealer([OLD]).seal("acme", "openpassword")
    both = PasswordSealer([NEW, OLD])
    assert both.unseal("acme", sealed) == "openpassword"
    assert PasswordSealer([NEW]).unseal("acme", both.seal("acme", "openpassword")) == "openpassword"
    with pytest.raises(FailedPreconditionError):
        PasswordSealer([NEW]).unseal("acme", sealed)


def test_no_key_a_bad_key_and_a_long_password_are_refused() -> None:
    with pytest.raises(FailedPreconditionError):
        PasswordSealer([])
    with pytest.raises(FailedPreconditionError):
        PasswordSealer(["no hexadecimal"])
    with pytest.raises(InvalidArgumentError, match=f"{MAX_PASSWORD_CHARACTERS}"):
        PasswordSealer([OLD]).seal("acme", "x" * (MAX_PASSWORD_CHARACTERS + 1))
