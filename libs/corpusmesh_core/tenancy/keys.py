"""API keys: made from given random bytes, stored as a hash, compared in constant time.

The id and the secret are independent random values, so that neither can be derived from the other
(CVE-2025-69286 in `research/reliability.md` section 5 is what happens otherwise).
"""

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass, field

KEY_ID_BYTE_COUNT = 10
SECRET_BYTE_COUNT = 32

_KEY_PATTERN = re.compile(r"cm_([a-z2-7]{16})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class KeyMaterial:
    """The two parts of a key.

    Attributes:
        key_id: Public part, 16 characters of base32.
        secret: Secret part, 256 bits as base64url; never logged or stored.
    """

    key_id: str
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """The key as a caller sends it, shown to its owner once."""
        return f"cm_{self.key_id}_{self.secret}"

    @property
    def secret_sha256(self) -> bytes:
        """What is stored, 32 bytes."""
        return hashlib.sha256(self.secret.encode()).digest()


def make_key(id_bytes: bytes, secret_bytes: bytes) -> KeyMaterial:
    """Make a key from random bytes.

    Args:
        id_bytes: 10 random bytes.
        secret_bytes: 32 other random bytes of a cryptographic source.

    Returns:
        The key.

    Raises:
        ValueError: If a length is wrong.
    """
    if len(id_bytes) != KEY_ID_BYTE_COUNT or len(secret_bytes) != SECRET_BYTE_COUNT:
        raise ValueError(f"a key needs {KEY_ID_BYTE_COUNT} and {SECRET_BYTE_COUNT} random bytes")
    key_id = base64.b32encode(id_bytes).decode().lower()
    return KeyMaterial(key_id, base64.urlsafe_b64encode(secret_bytes).decode().rstrip("="))


def parse_key(text: str) -> KeyMaterial | None:
    """Split a key as a caller sent it.

    Args:
        text: Untrusted text of any length.

    Returns:
        Its parts, or None where it cannot be a key.
    """
    match = _KEY_PATTERN.fullmatch(text) if len(text) <= 128 else None
    return KeyMaterial(match.group(1), match.group(2)) if match else None


def secret_matches(key: KeyMaterial, stored_sha256: bytes) -> bool:
    """Compare a key's secret with the stored hash in constant time.

    Args:
        key: Key as the caller sent it.
        stored_sha256: 32 bytes from the store.

    Returns:
        True if it is the same secret.
    """
    return hmac.compare_digest(key.secret_sha256, stored_sha256)
