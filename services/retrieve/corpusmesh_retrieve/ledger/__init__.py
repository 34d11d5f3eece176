"""The ledger: searches that are recorded, looked at and run again."""

from corpusmesh_retrieve.ledger.handlers import LedgerHandlers
from corpusmesh_retrieve.ledger.recording import Recorder
from corpusmesh_retrieve.ledger.replaying import Replayer

__all__ = ["LedgerHandlers", "Recorder", "Replayer"]
