"""Documents in depth: records beside chunks, configuration of one version."""

from corpusmesh_adapters.postgres.migrations.scripts import run_script

revision = "0003_documents"
down_revision = "0002_builds"


def upgrade() -> None:
    """Run the script of this revision."""
    run_script(f"{revision}.sql")
