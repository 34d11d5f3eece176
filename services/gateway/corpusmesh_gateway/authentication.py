"""Finds out who calls: API keys today; an OIDC authenticator is one more link of the chain."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress

from prometheus_client import Counter

from corpusmesh_core.errors import UnauthenticatedError, UnavailableError
from corpusmesh_core.ports.metadata import KeyStore
from corpusmesh_core.tenancy import Identity
from corpusmesh_core.tenancy.keys import KeyMaterial, parse_key, secret_matches
from corpusmesh_gateway.config import AuthenticationSettings
from corpusmesh_runtime.interceptor import Authenticator

_SCHEME = "bearer "
_MAX_CACHED_KEYS = 10_000

AUTHENTICATIONS_TOTAL = Counter(
    "corpusmesh_gateway_authentications_total", "Callers identified or refused, by outcome.", ("outcome",)
)


class CredentialNotMineError(UnauthenticatedError):
    """The credential is of another kind: the next authenticator of the chain may know it."""


def credential_missing() -> UnauthenticatedError:
    """Give the error for a call without a credential that the gateway knows.

    Returns:
        The error.
    """
    return UnauthenticatedError(
        "CREDENTIAL_MISSING", "send an API key with the call: authorization: Bearer cm_<id>_<secret>"
    )


class AuthenticatorChain:
    """Asks authenticators in order until one knows the kind of the credential."""

    def __init__(self, authenticators: Sequence[Authenticator]) -> None:
        """Create the chain.

        Args:
            authenticators: In order; each raises `CredentialNotMineError` for a credential of another kind.
        """
        self._authenticators = tuple(authenticators)

    async def authenticate(self, metadata: Mapping[str, str]) -> Identity:
        """Identify the caller.

        Args:
            metadata: The call's metadata with lower-case keys.

        Returns:
            The caller.

        Raises:
            UnauthenticatedError: If no authenticator knows it.
        """
        for authenticator in self._authenticators:
            with suppress(CredentialNotMineError):
                return await authenticator.authenticate(metadata)
        AUTHENTICATIONS_TOTAL.labels("missing").inc()
        raise credential_missing()


class ApiKeyAuthenticator:
    """Knows callers by `authorization: Bearer cm_<key id>_<secret>`."""

    def __init__(self, store: KeyStore, settings: AuthenticationSettings) -> None:
        """Create the authenticator.

        Args:
            store: Knows the keys; it compares hashes in constant time and notes the time of use.
            settings: Deadline and cache.
        """
        self._store = store
        self._settings = settings
        # By key id: hash of the secret that was good, who it was, and until when that is trusted.
        self._cache: OrderedDict[str, tuple[bytes, Identity, float]] = OrderedDict()

    async def authenticate(self, metadata: Mapping[str, str]) -> Identity:
        """Identify the caller.

        Args:
            metadata: The call's metadata with lower-case keys.

        Returns:
            The caller.

        Raises:
            CredentialNotMineError: If there is no bearer token that looks like an API key.
            UnauthenticatedError: If the key is unknown, wrong, revoked or expired, or its user disabled: the same
                error for all.
        """
        value = metadata.get("authorization", "")
        token = value[len(_SCHEME) :].strip() if value[: len(_SCHEME)].lower() == _SCHEME else ""
        if not token.startswith("cm_"):
            raise CredentialNotMineError("CREDENTIAL_MISSING", "this call carries no API key")
        key = parse_key(token)
        identity = None if key is None else await self._identify(key)
        if identity is None:
            AUTHENTICATIONS_TOTAL.labels("refused").inc()
            raise UnauthenticatedError(
                "API_KEY_INVALID", "the API key is not valid, not any more, or its user is disabled; ask an admin"
            )
        AUTHENTICATIONS_TOTAL.labels("accepted").inc()
        return identity

    def forget(self, *, tenant_id: str, user_id: str) -> None:
        """Drop what is cached of a user's keys, so that a change holds from the next call on.

        Args:
            tenant_id: Tenant of the user.
            user_id: The user.
        """
        for key_id, (_, identity, _) in list(self._cache.items()):
            if (identity.tenant_id, identity.user_id) == (tenant_id, user_id):
                del self._cache[key_id]

    async def _identify(self, key: KeyMaterial) -> Identity | None:
        cached = self._cache.get(key.key_id)
        if cached is not None and cached[2] > time.monotonic() and secret_matches(key, cached[0]):
            return cached[1]
        try:
            async with asyncio.timeout(self._settings.key_lookup_timeout_seconds):
                identity = await self._store.identify(key)
        except TimeoutError as error:
            raise UnavailableError("KEY_STORE_UNAVAILABLE", "keys cannot be checked now; try again") from error
        if identity is not None and self._settings.key_cache_seconds > 0:
            until = time.monotonic() + self._settings.key_cache_seconds
            self._cache[key.key_id] = (key.secret_sha256, identity, until)
            self._cache.move_to_end(key.key_id)
            if len(self._cache) > _MAX_CACHED_KEYS:
                self._cache.popitem(last=False)
        return identity
