"""Connectors: how the places are read that knowledge bases follow (folder, S3, web)."""

from corpusmesh_adapters.connectors.registry import SettingsConnectorRegistry
from corpusmesh_adapters.connectors.settings import ConnectorSettings, FolderRoot, S3Connection, WebSettings

__all__ = ["ConnectorSettings", "FolderRoot", "S3Connection", "SettingsConnectorRegistry", "WebSettings"]
