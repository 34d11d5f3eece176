"""${message}."""

from corpusmesh_adapters.postgres.migrations.scripts import run_script

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """Run the script of this revision."""
    run_script(f"{revision}.sql")
