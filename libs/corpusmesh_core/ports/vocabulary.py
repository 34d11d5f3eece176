"""Port of the store of tenants' own words."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from corpusmesh_core.tenancy.identity import Identity
from corpusmesh_core.text.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class VocabularyRow:
    """The words of a tenant as they are stored.

    Attributes:
        vocabulary: The words.
        revision: Rises with each change; 0 where nothing was ever stored.
        update_user_id: Who changed them last; "" where nobody has.
        update_time: When, UTC; None where nobody has.
    """

    vocabulary: Vocabulary
    revision: int
    update_user_id: str = ""
    update_time: datetime | None = None


class VocabularyStore(Protocol):
    """The words of tenants; the caller's role is checked by the policy of the method."""

    async def read(self, identity: Identity, *, newer_than: int = -1) -> VocabularyRow | None:
        """Read the words of the caller's tenant.

        Args:
            identity: Caller.
            newer_than: A revision that is known already.

        Returns:
            The words, empty ones of revision 0 where nothing was stored; None if the revision is `newer_than`.
        """
        ...

    async def write(
        self, identity: Identity, vocabulary: Vocabulary, *, expected_revision: int | None = None
    ) -> VocabularyRow:
        """Replace the words of the caller's tenant.

        Args:
            identity: Caller.
            vocabulary: The words.
            expected_revision: Revision that they replace; None to write over any.

        Returns:
            What is stored now.

        Raises:
            ConflictError: If the revision is another one by now.
        """
        ...
