"""Whether the Apache AGE graph of a corpus is the one that pg_graphrag made for it, unchanged: for what reads it."""

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus

# From the catalogs alone: nothing is read of a schema before it is known whose it is.
_FLAW = """
SELECT CASE WHEN n.oid IS NOT NULL OR g.namespace IS NOT NULL
            THEN coalesce(graphrag._graph_flaw(c.graph_name),
                          CASE WHEN g.namespace IS DISTINCT FROM n.oid
                               THEN 'was not made for this corpus: it is from a restore or from an earlier installation' END)
       END AS flaw,
       n.oid IS NOT NULL OR g.namespace IS NOT NULL AS exists
  FROM graphrag.corpora c
  LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = c.graph_name
  LEFT JOIN graphrag._graphs g ON g.corpus_id = c.id
 WHERE c.id = $1
"""


def flaw_of_graph(db: Database, corpus: Corpus) -> tuple[bool, str | None]:
    """Return (whether there is a graph, or anything of its name, or a record of one; what is wrong with it, or None).

    55000 where others than superusers may create in AGE's schema.
    """
    db.query("SELECT graphrag._check_age()")
    rows = db.query(_FLAW, ["int4"], [corpus.id])
    return (bool(rows[0]["exists"]), rows[0]["flaw"]) if rows else (False, None)


def has_graph(db: Database, corpus: Corpus) -> bool:
    """Tell whether the corpus has its graph, and has it yet; 55000 for a graph that is not its own or was changed."""
    if not corpus.options.cypher:
        return False
    exists, flaw = flaw_of_graph(db, corpus)
    if flaw is not None:
        name = corpus.name.replace("'", "''")
        raise GraphRAGError(
            f"graph {corpus.graph_name} {flaw}",
            sqlstate="55000",
            hint=f"SELECT graphrag.rebuild_graph('{name}') makes it from the tables; after a restore, SELECT graphrag.repair().",
        )
    return exists
