"""Port of the cache of what language models answered, so that a retry pays only for what failed (field report FR-A07).

Entries hold text made from documents: they belong to a tenant, name the versions they were made from, and go with them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

MAX_KEYS_PER_CALL = 1000
"""Most keys or entries of one call."""


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer worth keeping.

    Attributes:
        key: SHA-256 of all that decides the answer: model, prompt and its version, parameters, input.
        model: Model that gave it.
        response: The checked answer.
        sources: Ordinals of the versions that its input was made from.
    """

    key: bytes
    model: str
    response: str
    sources: tuple[int, ...]


class CompletionCache(Protocol):
    """Answers by key, for each tenant alone. Losing an entry costs one call and nothing else."""

    async def get(self, tenant_id: str, keys: Collection[bytes]) -> Mapping[bytes, str]:
        """Look answers up.

        Args:
            tenant_id: Tenant.
            keys: At most MAX_KEYS_PER_CALL keys.

        Returns:
            The answers that are kept, by key.

        Raises:
            UnavailableError: If the store does not answer.
            OverloadedError: If it is too busy.
        """
        ...

    async def put(self, tenant_id: str, completions: Sequence[Completion]) -> None:
        """Keep answers; an entry of the same key is replaced, and is then made from the sources of both.

        Args:
            tenant_id: Tenant.
            completions: At most MAX_KEYS_PER_CALL.

        Raises:
            UnavailableError: If the store does not answer.
            OverloadedError: If it is too busy.
        """
        ...

    async def forget(self, tenant_id: str, ordinals: Collection[int]) -> int:
        """Erase every answer that was made from one of some versions.

        Args:
            tenant_id: Tenant.
            ordinals: The versions.

        Returns:
            Entries erased.

        Raises:
            UnavailableError: If the store does not answer.
            OverloadedError: If it is too busy.
        """
        ...
