"""What the tests of curation share: documents, calls, and the graph as it is compared."""

from typing import Any

from tests.sql.ingest import STORIES, canonical, corpus_id, put_all, rows, value, work

MORE = STORIES | {
    "lady": "Augusta King met Charles Babbage in Turin. Augusta King admired London.",
    "countess": "The Countess of Lovelace, Ada Lovelace, and Augusta King wrote to Michael Faraday.",
}
# What documents said of whom was deleted is kept, out of sight.
HIDDEN = """
SELECT d.source_key, m.raw_key FROM graphrag.entity_mentions m JOIN graphrag.documents d ON d.id = m.document_id
 WHERE m.corpus_id = %s AND m.entity_id IS NULL
 UNION ALL
SELECT d.source_key, concat_ws('|', m.source_key, m.target_key) FROM graphrag.relationship_mentions m
  JOIN graphrag.documents d ON d.id = m.document_id WHERE m.corpus_id = %s AND m.relationship_id IS NULL ORDER BY 1, 2
"""
CURATED = """
SELECT e.key, e.curated, (SELECT array_agg(concat_ws(':', v.kind, v.count, v.tokens, v.value) ORDER BY v.kind, v.value)
                            FROM graphrag.entity_values v WHERE v.entity_id = e.id)
  FROM graphrag.entities e WHERE e.corpus_id = %s
 UNION ALL
SELECT concat_ws('|', least(s.key, t.key), greatest(s.key, t.key)), r.curated,
       (SELECT array_agg(concat_ws(':', v.kind, v.count, v.tokens, v.value) ORDER BY v.kind, v.value)
          FROM graphrag.relationship_values v WHERE v.relationship_id = r.id)
  FROM graphrag.relationships r JOIN graphrag.entities s ON s.id = r.source_id
  JOIN graphrag.entities t ON t.id = r.target_id WHERE r.corpus_id = %s ORDER BY 1
"""


def whole(db: Any, corpus: str) -> Any:
    """All that was made of documents and curations, without ids."""
    number = corpus_id(db, corpus)
    return canonical(db, corpus) | {
        "hidden": rows(db, HIDDEN, number, number),
        "curated": rows(db, CURATED, number, number),
    }


def curate(db: Any, corpus: str, function: str, *given: Any, **named: Any) -> int:
    arguments = ", ".join(["%s"] * len(given) + [f"{name} => %s" for name in {**named, "corpus": corpus}])
    return int(value(db, f"SELECT graphrag.{function}({arguments})", *given, *named.values(), corpus))


def undo(db: Any, number: int) -> None:
    db.execute("SELECT graphrag.undo_curation(%s)", [number])


def ingest_anew(db: Any, corpus: str, documents: dict[str, str]) -> None:
    """Delete all documents, then insert them in the opposite order, in two batches."""
    db.execute("DELETE FROM graphrag.documents WHERE corpus = %s", [corpus])
    work(db)
    keys = sorted(documents, reverse=True)
    for part in (keys[: len(keys) // 2], keys[len(keys) // 2 :]):
        put_all(db, corpus, {key: documents[key] for key in part})
        work(db)


def entity(db: Any, corpus: str, key: str) -> dict[str, Any] | None:
    records = rows(
        db,
        "SELECT jsonb_build_object('name', e.name, 'type', e.type, 'description', e.description, 'degree', e.degree,"
        " 'mentions', e.mention_count) FROM graphrag.entities e WHERE e.corpus_id = %s AND e.key = %s",
        corpus_id(db, corpus),
        key,
    )
    return records[0][0] if records else None


def relationship(db: Any, corpus: str, source: str, target: str) -> dict[str, Any] | None:
    records = rows(
        db,
        "SELECT jsonb_build_object('keywords', r.keywords, 'description', r.description, 'weight', r.weight)"
        "  FROM graphrag.relationships r JOIN graphrag.entities s ON s.id = r.source_id"
        "  JOIN graphrag.entities t ON t.id = r.target_id"
        " WHERE r.corpus_id = %s AND ARRAY[s.key, t.key] @> ARRAY[%s, %s]",
        corpus_id(db, corpus),
        source,
        target,
    )
    return records[0][0] if records else None
