"""The embedded servers of a laptop: OpenSearch, Postgres, NATS and S3 under one supervisor."""

from corpusmesh_app.stack.folder import read_endpoints, running_pid
from corpusmesh_app.stack.java import JavaRuntime, find_java
from corpusmesh_app.stack.opensearch_install import default_tools_directory, install_opensearch, opensearch_home
from corpusmesh_app.stack.settings import (
    ServerName,
    ServerState,
    ServerStatus,
    StackEndpoints,
    StackEvent,
    StackSettings,
)
from corpusmesh_app.stack.stack import Stack

__all__ = [
    "JavaRuntime",
    "ServerName",
    "ServerState",
    "ServerStatus",
    "Stack",
    "StackEndpoints",
    "StackEvent",
    "StackSettings",
    "default_tools_directory",
    "find_java",
    "install_opensearch",
    "opensearch_home",
    "read_endpoints",
    "running_pid",
]
