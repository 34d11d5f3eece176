"""The first schema."""

from corpusmesh_adapters.postgres.migrations.scripts import run_script

revision = "0001_initial"
down_revision = None


def upgrade() -> None:
    """Run the script of this revision."""
    run_script(f"{revision}.sql")
