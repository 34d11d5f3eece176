"""Object store on any S3 service: SeaweedFS on a laptop, the platform's own in a cluster."""

from corpusmesh_adapters.s3.store import S3ObjectStore, S3Settings

__all__ = ["S3ObjectStore", "S3Settings"]
