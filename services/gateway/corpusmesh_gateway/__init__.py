"""The only door of the mesh: who calls, what it may do, and the way to the service that does it."""

from corpusmesh_gateway.bootstrap import bootstrap_first_admin
from corpusmesh_gateway.config import GatewaySettings
from corpusmesh_gateway.handlers import GatewayStores
from corpusmesh_gateway.module import UPSTREAM_SERVICES, Gateway

__all__ = ["UPSTREAM_SERVICES", "Gateway", "GatewaySettings", "GatewayStores", "bootstrap_first_admin"]
