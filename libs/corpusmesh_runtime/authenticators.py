"""How a service inside the mesh finds out who calls: by the signed identity of the call."""

from collections.abc import Mapping

from corpusmesh_core.errors import UnauthenticatedError
from corpusmesh_core.tenancy import Identity
from corpusmesh_runtime.identity import IDENTITY_METADATA_KEY, IdentitySigner


class SignedIdentityAuthenticator:
    """Reads the internal identity that the gateway or a service signed."""

    def __init__(self, signer: IdentitySigner) -> None:
        """Create the authenticator.

        Args:
            signer: Verifies tokens.
        """
        self._signer = signer

    async def authenticate(self, metadata: Mapping[str, str]) -> Identity:
        """Identify the caller.

        Args:
            metadata: The call's metadata with lower-case keys.

        Returns:
            The caller.

        Raises:
            UnauthenticatedError: If there is no valid identity.
        """
        token = metadata.get(IDENTITY_METADATA_KEY)
        if token is None:
            raise UnauthenticatedError(
                "INTERNAL_IDENTITY_MISSING", "this port is for services of the mesh; call the gateway instead"
            )
        return self._signer.verify(token)
