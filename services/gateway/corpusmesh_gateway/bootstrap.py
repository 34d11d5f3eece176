"""The first admin of a new mesh, without a default password."""

from corpusmesh_core.errors import AlreadyExistsError
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_gateway.handlers import GatewayStores, RandomBytes, new_key

FIRST_TENANT_ID = "default"
FIRST_USER_ID = "admin"


async def bootstrap_first_admin(stores: GatewayStores, random_bytes: RandomBytes) -> str | None:
    """Create the tenant "default" with the owner "admin" and a key of the scope PLATFORM, if there is no tenant yet.

    A bootstrap that broke off before the key was there is finished by the next one.

    Args:
        stores: The metadata store.
        random_bytes: Source of the key, cryptographic.

    Returns:
        The key, to be written to a file that only its owner reads; None if there was nothing to do.
    """
    tenants = await stores.tenants.list_tenants("", 2)
    if tenants and [tenant.tenant_id for tenant in tenants] != [FIRST_TENANT_ID]:
        return None
    if not tenants:
        try:
            await stores.tenants.create_tenant(FIRST_TENANT_ID, "Default", FIRST_USER_ID)
        except AlreadyExistsError:
            return None  # Another replica is at it.
    elif not await _is_unfinished(stores):
        return None
    key = new_key(random_bytes)
    await stores.keys.create_key(FIRST_TENANT_ID, FIRST_USER_ID, key, Scope.PLATFORM, None)
    actor = Identity(FIRST_TENANT_ID, "bootstrap", Role.OWNER, Scope.PLATFORM)
    resource = f"users/{FIRST_USER_ID}/apiKeys/{key.key_id}"
    await stores.audit.append(actor, "key.create", resource, "allowed", "", {"scope": "platform"})
    return key.text


async def _is_unfinished(stores: GatewayStores) -> bool:
    users = await stores.tenants.list_users(FIRST_TENANT_ID, "", 2)
    if [user.user_id for user in users] != [FIRST_USER_ID]:
        return False
    return not await stores.keys.list_keys(FIRST_TENANT_ID, FIRST_USER_ID, "", 1)
