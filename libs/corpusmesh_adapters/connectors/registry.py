"""From the kind of a place to its connector, and whether a tenant may have it at all."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from corpusmesh_adapters.connectors.folder import FOLDER_CAPABILITIES, FolderConnector
from corpusmesh_adapters.connectors.s3 import S3_CAPABILITIES, S3Connector
from corpusmesh_adapters.connectors.settings import ConnectorSettings, FolderRoot, S3Connection, is_open_to
from corpusmesh_adapters.connectors.web.site import WEB_CAPABILITIES, open_site
from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError
from corpusmesh_core.ports.sources import Connector, ConnectorCapabilities
from corpusmesh_core.sources import FolderPlace, S3Place, SourcePlace, WebPlace


class SettingsConnectorRegistry:
    """`ConnectorRegistry` on the configuration; another kind is a class, a place in core and a case here."""

    def __init__(self, settings: ConnectorSettings) -> None:
        """Create the registry.

        Args:
            settings: What is open to whom.
        """
        self._settings = settings

    def check(self, tenant_id: str, place: SourcePlace) -> ConnectorCapabilities:
        """See `ConnectorRegistry`.

        Args:
            tenant_id: Who wants to read.
            place: The place.

        Returns:
            What its connector can do.
        """
        match place:
            case FolderPlace():
                self._root(tenant_id, place)
                return FOLDER_CAPABILITIES
            case S3Place():
                self._connection(tenant_id, place)
                return S3_CAPABILITIES
            case WebPlace():
                self._check_web(place)
                return WEB_CAPABILITIES

    def connect(self, tenant_id: str, place: SourcePlace) -> AbstractAsyncContextManager[Connector]:
        """See `ConnectorRegistry`.

        Args:
            tenant_id: Who reads.
            place: The place.

        Returns:
            A context manager that gives the connector.
        """
        return self._connect(tenant_id, place)

    @asynccontextmanager
    async def _connect(self, tenant_id: str, place: SourcePlace) -> AsyncIterator[Connector]:
        match place:
            case FolderPlace():
                yield FolderConnector(self._root(tenant_id, place).path, place)
            case S3Place():
                connector = S3Connector(self._connection(tenant_id, place), place)
                try:
                    yield connector
                finally:
                    connector.close()
            case WebPlace():
                self._check_web(place)
                async with open_site(place, self._settings.web) as site:
                    yield site

    def _root(self, tenant_id: str, place: FolderPlace) -> FolderRoot:
        root = self._settings.folder_roots.get(place.root)
        if root is None or not is_open_to(root.tenants, tenant_id):
            raise FailedPreconditionError(
                "SOURCE_ROOT_UNKNOWN",
                f"the configuration opens no folder {place.root!r} to your tenant (ingest.sources.folder_roots)",
                field="source.folder.root",
                root=place.root,
            )
        return root

    def _connection(self, tenant_id: str, place: S3Place) -> S3Connection:
        connection = self._settings.s3_connections.get(place.connection)
        if connection is None or not is_open_to(connection.tenants, tenant_id):
            raise FailedPreconditionError(
                "SOURCE_CONNECTION_UNKNOWN",
                f"the configuration opens no connection {place.connection!r} to your tenant"
                " (ingest.sources.s3_connections)",
                field="source.s3.connection",
                connection=place.connection,
            )
        if place.bucket not in connection.buckets:
            raise FailedPreconditionError(
                "SOURCE_BUCKET_FORBIDDEN",
                f"the connection {place.connection!r} does not open the bucket {place.bucket!r}",
                field="source.s3.bucket",
                connection=place.connection,
                bucket=place.bucket,
            )
        return connection

    def _check_web(self, place: WebPlace) -> None:
        web = self._settings.web
        if place.max_pages > web.max_pages or place.max_bytes > web.max_bytes:
            raise InvalidArgumentError(
                "SOURCE_LIMIT_TOO_LARGE",
                f"a site is read to at most {web.max_pages} pages and {web.max_bytes} bytes",
                field="source.web",
                max_pages=web.max_pages,
                max_bytes=web.max_bytes,
            )
