"""The embedded servers: how each is prepared, started, asked whether it is ready, and cleaned up after."""

from corpusmesh_app.stack.servers.base import EmbeddedServer, ServerContext
from corpusmesh_app.stack.servers.nats import NatsServer
from corpusmesh_app.stack.servers.opensearch import OpenSearchServer
from corpusmesh_app.stack.servers.postgres import PostgresServer
from corpusmesh_app.stack.servers.seaweedfs import SeaweedServer

__all__ = ["EmbeddedServer", "NatsServer", "OpenSearchServer", "PostgresServer", "SeaweedServer", "ServerContext"]
