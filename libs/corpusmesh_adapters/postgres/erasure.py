"""What was made from documents outside of the index goes with them: cached answers, messages, retrievals, questions.

It goes at once when a document is deleted, and once more at the end of its purge: whoever was at work on it at that
moment may have written later.
"""

from collections.abc import Sequence

from corpusmesh_adapters.postgres.database import Connection

_ERASURES = (
    "DELETE FROM corpusmesh.llm_cache WHERE tenant_id = $1 AND sources && $2::int[]",
    # The message stays in its place, so that its conversation can be read on.
    "UPDATE corpusmesh.messages SET text = '', citations = '[]', sources = '{}', is_erased = true"
    " WHERE tenant_id = $1 AND sources && $2::int[]",
    "DELETE FROM corpusmesh.retrievals WHERE tenant_id = $1 AND sources && $2::int[]",
    "WITH gone AS (DELETE FROM corpusmesh.golden_questions WHERE tenant_id = $1 AND sources && $2::int[]"
    "   RETURNING knowledge_base_id, golden_set_id),"
    " counts AS (SELECT knowledge_base_id, golden_set_id, count(*) AS count FROM gone GROUP BY 1, 2)"
    " UPDATE corpusmesh.golden_sets s SET question_count = s.question_count - c.count, update_time = now()"
    " FROM counts c WHERE s.tenant_id = $1 AND s.knowledge_base_id = c.knowledge_base_id"
    "   AND s.golden_set_id = c.golden_set_id",
)
SOURCED_TABLES = ("llm_cache", "messages", "retrievals", "golden_questions")
"""Tables whose rows name in `sources` the ordinals that they were made from."""


async def erase_made_of(connection: Connection, tenant_id: str, ordinals: Sequence[int]) -> None:
    """Erase what was made of versions or builds.

    Args:
        connection: Transaction of the tenant.
        tenant_id: Tenant.
        ordinals: The versions and builds.
    """
    if not ordinals:
        return
    for statement in _ERASURES:
        await connection.execute(statement, tenant_id, list(ordinals))


def count_made_of(ordinals: str) -> str:
    """Give the expression that counts rows that are made of versions or builds.

    Args:
        ordinals: SQL expression of their ordinals, `int[]`; the tenant is `$1`.

    Returns:
        A scalar SQL expression.
    """
    return " + ".join(
        f"(SELECT count(*) FROM corpusmesh.{table} WHERE tenant_id = $1 AND sources && {ordinals})"  # noqa: S608
        for table in SOURCED_TABLES
    )
