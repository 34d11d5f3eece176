"""Builds in what a read may see."""

from corpusmesh_adapters.postgres.migrations.scripts import run_script

revision = "0002_builds"
down_revision = "0001_initial"


def upgrade() -> None:
    """Run the script of this revision."""
    run_script(f"{revision}.sql")
