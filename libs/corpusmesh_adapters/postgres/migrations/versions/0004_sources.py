"""Sources: places that a knowledge base follows."""

from corpusmesh_adapters.postgres.migrations.scripts import run_script

revision = "0004_sources"
down_revision = "0003_documents"


def upgrade() -> None:
    """Run the script of this revision."""
    run_script(f"{revision}.sql")
