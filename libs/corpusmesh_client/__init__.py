"""A typed asynchronous client of CorpusMesh: gRPC and Protobuf are all that it needs."""

from corpusmesh_client.channel import Deadlines, TlsSettings
from corpusmesh_client.client import CorpusMeshClient
from corpusmesh_client.errors import error_from_rpc, error_from_status
from corpusmesh_client.runs import has_ended
from corpusmesh_client.uploads import UploadedItem, UploadItem, UploadResult
from corpusmesh_client.versions import Original

__all__ = [
    "CorpusMeshClient",
    "Deadlines",
    "Original",
    "TlsSettings",
    "UploadItem",
    "UploadResult",
    "UploadedItem",
    "error_from_rpc",
    "error_from_status",
    "has_ended",
]
