"""Trees: builds whose nodes are published each by an ordinal of its own."""

from corpusmesh_adapters.postgres.migrations.scripts import run_script

revision = "0006_trees"
down_revision = "0005_retrieval"


def upgrade() -> None:
    """Run the script of this revision."""
    run_script(f"{revision}.sql")
