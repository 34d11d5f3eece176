"""Retrieval: vocabularies, conversations, the ledger of retrievals, golden sets."""

from corpusmesh_adapters.postgres.migrations.scripts import run_script

revision = "0005_retrieval"
down_revision = "0004_sources"


def upgrade() -> None:
    """Run the script of this revision."""
    run_script(f"{revision}.sql")
