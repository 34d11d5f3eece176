"""Runs the SQL scripts of revisions through the driver itself, which takes many statements at once."""

from importlib.resources import files

from alembic import op
from sqlalchemy.util import await_only


def run_script(name: str) -> None:
    """Run a script of the folder `sql` in the transaction of the revision.

    Args:
        name: File name.
    """
    script = (files(__package__) / "sql" / name).read_text(encoding="utf-8")
    connection = op.get_bind().connection.driver_connection
    assert connection is not None
    await_only(connection.execute(script))
