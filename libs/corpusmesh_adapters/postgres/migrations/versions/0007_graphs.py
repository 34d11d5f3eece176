"""Graphs: what people give for them, and builds of two kinds."""

from corpusmesh_adapters.postgres.migrations.scripts import run_script

revision = "0007_graphs"
down_revision = "0006_trees"


def upgrade() -> None:
    """Run the script of this revision."""
    run_script(f"{revision}.sql")
