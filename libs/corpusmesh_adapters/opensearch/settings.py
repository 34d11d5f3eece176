"""What the index adapter can be told."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class OpenSearchSettings:
    """Settings of the OpenSearch adapter.

    Attributes:
        urls: Addresses of the cluster's nodes or of its load balancer.
        username: User, "" for none.
        password: Password; never in a log or in the representation of this object.
        ca_certificates_path: PEM file that signs the cluster's certificate; "" for the system's.
        engine: k-NN engine of new spaces: "lucene", or "faiss" where its native libraries are installed.
        shard_count: Primary shards of new spaces.
        replica_count: Replicas of new spaces; 0 on one machine.
        hnsw_m: Links per node of the vector graph.
        hnsw_ef_construction: Candidates while the vector graph is built.
        refresh_interval_seconds: How often new records become searchable by themselves; publishing refreshes anyway.
        max_bulk_bytes: Largest body of one bulk request.
        max_bulk_items: Most records of one bulk request.
        max_attempt_count: How often one record is sent before the write fails.
        retry_delay_seconds: First pause before sending again; doubles each time, with jitter.
        max_retry_delay_seconds: Longest such pause.
        connection_count: Connections per node.
    """

    urls: tuple[str, ...]
    username: str = ""
    password: str = field(default="", repr=False)
    ca_certificates_path: str = ""
    engine: str = "lucene"
    shard_count: int = 1
    replica_count: int = 0
    hnsw_m: int = 16
    hnsw_ef_construction: int = 100
    refresh_interval_seconds: float = 30.0
    max_bulk_bytes: int = 4 * 1024 * 1024
    max_bulk_items: int = 500
    max_attempt_count: int = 6
    retry_delay_seconds: float = 0.1
    max_retry_delay_seconds: float = 5.0
    connection_count: int = 16
