"""Moments in the contract."""

from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp


def timestamp(moment: datetime | None) -> Timestamp | None:
    """Write a moment.

    Args:
        moment: UTC; None for absent.

    Returns:
        The timestamp, or None.
    """
    if moment is None:
        return None
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp
