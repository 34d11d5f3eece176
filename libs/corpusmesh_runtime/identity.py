"""The signed, short-lived identity that travels with every internal call.

HS256 with keys of the mesh: the algorithm list is fixed, and expiry, audience and issuer are required
(`research/reliability.md` 2.1: PyJWT accepts a token without them unless told otherwise).
"""

import time
from collections.abc import Sequence

import jwt

from corpusmesh_core.errors import FailedPreconditionError, UnauthenticatedError
from corpusmesh_core.tenancy import CallerKind, Identity, Role, Scope

_ALGORITHM = "HS256"
_AUDIENCE = "corpusmesh-internal"
_ISSUER = "corpusmesh"
_MIN_KEY_BYTES = 32
IDENTITY_METADATA_KEY = "corpusmesh-identity"


class IdentitySigner:
    """Signs and verifies internal identities."""

    def __init__(self, keys: Sequence[str], *, lifetime_seconds: float = 60.0, leeway_seconds: float = 30.0) -> None:
        """Create a signer.

        Args:
            keys: Signing keys in hexadecimal; the first signs, all verify.
            lifetime_seconds: How long a token is accepted.
            leeway_seconds: Clock difference tolerated.

        Raises:
            FailedPreconditionError: If there is no key, or one is not hexadecimal or too short.
        """
        if not keys:
            raise FailedPreconditionError(
                "IDENTITY_KEY_MISSING", "set identity.key_files: services cannot start without"
            )
        try:
            self._keys = [bytes.fromhex(key) for key in keys]
        except ValueError as error:
            raise FailedPreconditionError("IDENTITY_KEY_INVALID", "an identity key is not hexadecimal") from error
        if any(len(key) < _MIN_KEY_BYTES for key in self._keys):
            raise FailedPreconditionError(
                "IDENTITY_KEY_TOO_SHORT", f"an identity key needs at least {_MIN_KEY_BYTES} bytes"
            )
        self._lifetime_seconds = lifetime_seconds
        self._leeway_seconds = leeway_seconds

    def sign(self, identity: Identity) -> str:
        """Sign an identity.

        Args:
            identity: Who acts.

        Returns:
            A token that `verify` accepts for the lifetime.
        """
        now = time.time()
        claims = {
            "iss": _ISSUER,
            "aud": _AUDIENCE,
            "iat": int(now),
            "exp": int(now + self._lifetime_seconds) + 1,
            "sub": identity.user_id,
            "tenant": identity.tenant_id,
            "role": int(identity.role),
            "scope": int(identity.scope),
            "groups": list(identity.groups),
            "kind": str(identity.kind),
            "key": identity.key_id,
        }
        return jwt.encode(claims, self._keys[0], algorithm=_ALGORITHM)

    def verify(self, token: str) -> Identity:
        """Verify a token.

        Args:
            token: What `sign` made.

        Returns:
            The identity.

        Raises:
            UnauthenticatedError: If it is forged, expired, or not for this mesh.
        """
        for key in self._keys:
            try:
                claims = jwt.decode(
                    token,
                    key,
                    algorithms=[_ALGORITHM],
                    audience=_AUDIENCE,
                    issuer=_ISSUER,
                    leeway=self._leeway_seconds,
                    options={"require": ["exp", "iat", "aud", "iss", "sub"]},
                )
                return Identity(
                    tenant_id=str(claims["tenant"]),
                    user_id=str(claims["sub"]),
                    role=Role(claims["role"]),
                    scope=Scope(claims["scope"]),
                    groups=tuple(str(group) for group in claims["groups"]),
                    kind=CallerKind(claims["kind"]),
                    key_id=str(claims["key"]),
                )
            except jwt.InvalidSignatureError:
                continue
            except (jwt.InvalidTokenError, KeyError, ValueError, TypeError):
                break
        raise UnauthenticatedError("INTERNAL_IDENTITY_INVALID", "the internal identity is not valid")


def service_identity(name: str, *, tenant_id: str = "") -> Identity:
    """Make the identity of a service that acts by itself.

    Args:
        name: The service.
        tenant_id: The tenant it acts for; "" for none.

    Returns:
        An identity that no member has.
    """
    return Identity(tenant_id=tenant_id, user_id=name, role=Role.OWNER, scope=Scope.WRITE, kind=CallerKind.SERVICE)
