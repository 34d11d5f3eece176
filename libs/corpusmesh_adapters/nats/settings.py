"""Bounds of the broker's streams and consumers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """How the mesh uses JetStream.

    Attributes:
        url: `nats://user:password@host:port`; never logged.
        request_timeout_seconds: Longest wait for an answer of the broker.
        ping_interval_seconds: Silence after which a connection is probed; two probes without an answer end it, so that
            a frozen broker is noticed within three of these (the default of the client, 120, takes minutes).
        ack_wait_seconds: Silence after which a delivery counts as lost.
        max_deliver: Deliveries of one message; attempts are counted in the store, so this only bounds transport.
        max_ack_pending: Messages of one stage and lane that may be in work at once.
        max_work_messages: Messages that the stream of work holds; the broker refuses one more.
        duplicate_window_seconds: How long the broker remembers message ids; longer than the relay's longest retry.
        event_age_seconds: How long events are kept.
        event_bytes: How many bytes of events are kept.
        dead_letter_age_seconds: How long dead letters are kept.
        replica_count: Copies of each stream.
    """

    url: str
    request_timeout_seconds: float = 5.0
    ping_interval_seconds: float = 2.0
    ack_wait_seconds: float = 30.0
    max_deliver: int = 50
    max_ack_pending: int = 256
    max_work_messages: int = 1_000_000
    duplicate_window_seconds: float = 120.0
    event_age_seconds: float = 24 * 3600.0
    event_bytes: int = 256 * 1024 * 1024
    dead_letter_age_seconds: float = 30 * 24 * 3600.0
    replica_count: int = 1

    def __repr__(self) -> str:
        return f"BrokerSettings(ack_wait_seconds={self.ack_wait_seconds}, max_deliver={self.max_deliver})"
