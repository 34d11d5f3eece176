"""Alembic's entry: runs the revisions on the connection that `migrate` hands in."""

from alembic import context

_connection = context.config.attributes["connection"]
context.configure(connection=_connection, version_table_schema="public", version_table="corpusmesh_schema_version")
with context.begin_transaction():
    context.run_migrations()
