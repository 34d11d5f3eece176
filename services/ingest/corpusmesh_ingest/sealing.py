"""Seals what must lie in the metadata store for a while and be read by nobody there: passwords of originals."""

import secrets
from collections.abc import Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError

MAX_PASSWORD_CHARACTERS: Final = 1024
_PURPOSE: Final = b"corpusmesh password sealing 1"
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_FORMAT: Final = b"\x01"


class PasswordSealer:
    """Seals texts with AES-256-GCM under keys derived from those of the mesh (RFC 5869), bound to a tenant."""

    def __init__(self, keys: Sequence[str]) -> None:
        """Create a sealer.

        Args:
            keys: The mesh's identity keys in hexadecimal; the first seals, all unseal.

        Raises:
            FailedPreconditionError: If there is no key or one is not hexadecimal.
        """
        if not keys:
            raise FailedPreconditionError("IDENTITY_KEY_MISSING", "set identity.key_files: passwords need a key")
        try:
            secrets_ = [bytes.fromhex(key) for key in keys]
        except ValueError as error:
            raise FailedPreconditionError("IDENTITY_KEY_INVALID", "an identity key is not hexadecimal") from error
        # A purpose of its own: what seals here can neither sign nor be derived from what does.
        self._ciphers = [
            AESGCM(HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=_PURPOSE).derive(secret))
            for secret in secrets_
        ]

    def seal(self, tenant_id: str, text: str) -> bytes:
        """Seal a text.

        Args:
            tenant_id: Tenant that it belongs to.
            text: The text.

        Returns:
            What `unseal` opens; another one each time.

        Raises:
            InvalidArgumentError: PASSWORD_TOO_LONG if the text has more than 1,024 characters.
        """
        if len(text) > MAX_PASSWORD_CHARACTERS:
            raise InvalidArgumentError(
                "PASSWORD_TOO_LONG", f"a password takes at most {MAX_PASSWORD_CHARACTERS} characters", field="password"
            )
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return _FORMAT + nonce + self._ciphers[0].encrypt(nonce, text.encode(), tenant_id.encode())

    def unseal(self, tenant_id: str, sealed: bytes) -> str:
        """Open what `seal` made.

        Args:
            tenant_id: Tenant that it belongs to.
            sealed: The sealed text.

        Returns:
            The text.

        Raises:
            FailedPreconditionError: PASSWORD_UNREADABLE if it was sealed for another tenant or with a key that the mesh
                has no more.
        """
        start = len(_FORMAT) + _NONCE_BYTES
        if sealed.startswith(_FORMAT):
            for cipher in self._ciphers:
                try:
                    opened = cipher.decrypt(sealed[len(_FORMAT) : start], sealed[start:], tenant_id.encode())
                except (InvalidTag, ValueError):
                    continue
                return opened.decode()
        raise FailedPreconditionError(
            "PASSWORD_UNREADABLE", "the password was kept under a key that the mesh has no more; send it again"
        )
