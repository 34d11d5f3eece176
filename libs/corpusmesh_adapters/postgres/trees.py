"""Trees of knowledge bases: their rows, the ordinals of their nodes, and the runs that build them."""

from corpusmesh_adapters.postgres.database import Database
from corpusmesh_adapters.postgres.run_creation import WorkLimits


class PostgresTreeStore:
    """`TreeStore` on Postgres."""

    def __init__(self, database: Database, limits: WorkLimits) -> None:
        """Create it.

        Args:
            database: The pool.
            limits: Bounds of the work that is taken in.
        """
        self._database = database
        self._limits = limits
