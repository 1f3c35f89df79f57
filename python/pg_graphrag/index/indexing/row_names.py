"""Names of rows of attached tables that documents are read by, and what is read again where they come and go.

Which names there are is a question of the corpus, so documents are read again by a job of kind names: however rows and documents
come, the graph is the same. Names of tables under row-level security are left out: a document's graph would tell of hidden rows.
"""

from collections.abc import Iterable, Sequence

from pg_graphrag.index.graph.drafts import DocumentDraft
from pg_graphrag.index.indexing.item_vectors import LINES_END, poll
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.server.queue import Job, requeue
from pg_graphrag.text.naming.row_names import RowNames, name_keys

_HAS_NAMES = """
SELECT EXISTS (SELECT FROM graphrag._attached_tables a WHERE a.corpus_id = $1 AND a.name_is_unique AND NOT a.is_secured) AS yes
"""
# Not the key by which relationships lead to a row.
_KNOWN = """
SELECT DISTINCT ON (m.raw_key) m.raw_key, m.name
  FROM pg_catalog.unnest($2) AS u (key)
  JOIN graphrag.entity_mentions m ON m.corpus_id = $1 AND m.raw_key = u.key COLLATE "C" AND m.name_of IS NOT NULL
                                 AND m.type <> 'key'
  JOIN graphrag.documents d ON d.id = m.document_id
  JOIN graphrag._attached_tables a ON a.id = d.attached_id AND a.name_is_unique AND NOT a.is_secured
 ORDER BY m.raw_key, m.name COLLATE "C"
"""
# Of a document that is gone nobody knows any more whether its table had such names.
_NAMES = """
SELECT c.document_id, m.raw_key
  FROM graphrag.chunks c
  JOIN graphrag.entity_mentions m ON m.chunk_id = c.id AND m.name_of IS NOT NULL
  LEFT JOIN graphrag.documents d ON d.id = c.document_id
  LEFT JOIN graphrag._attached_tables a ON a.id = d.attached_id
 WHERE c.document_id = ANY ($1) AND (a.id IS NULL OR a.name_is_unique AND NOT a.is_secured)
"""
_TEXTS = """
SELECT d.id, pg_catalog.concat(d.title, E'\\n',
                               CASE WHEN a.id IS NULL THEN d.content
                                    ELSE pg_catalog.substr(d.content, pg_catalog.strpos(d.content, $4)) END) AS text
  FROM graphrag.documents d
  LEFT JOIN graphrag._attached_tables a ON a.id = d.attached_id AND a.kind <> 'documents'
 WHERE d.corpus_id = $1 AND d.id > $2 AND d.retracted_at IS NULL AND (a.id IS NULL OR a.content_columns <> '{}')
 ORDER BY d.id
 LIMIT $3
"""
_REQUEUE = """
SELECT graphrag._requeue_jobs('index', pg_catalog.array_agg($1), pg_catalog.array_agg(u.id)) FROM pg_catalog.unnest($2) AS u (id)
"""
# Names that a pass through the documents looks for, and documents that it reads at once.
_PASS, _DOCUMENTS = 20_000, 50


def known_names(db: Database, corpus: Corpus, texts: Iterable[str]) -> RowNames:
    """Return the names of rows that may stand in texts."""
    if corpus.options.extractor != "nlp" or not db.query(_HAS_NAMES, ["int4"], [corpus.id])[0]["yes"]:
        return RowNames({})
    keys = sorted({key for text in texts for key in name_keys(text)})
    rows = db.query(_KNOWN, ["int4", "text[]"], [corpus.id, keys])
    return RowNames({row["raw_key"]: row["name"] for row in rows})


def names_of(db: Database, document_ids: Sequence[int]) -> set[tuple[int, str]]:
    """Return the names of those of these documents that are rows, each with its row, as they are indexed."""
    return {(row["document_id"], row["raw_key"]) for row in db.query(_NAMES, ["int8[]"], [document_ids])}


def note_changed(db: Database, corpus: Corpus, before: set[tuple[int, str]], drafts: Sequence[DocumentDraft]) -> None:
    """Have documents read again by the names that came or went with a write; `before`: `names_of` what it changed."""
    if corpus.options.extractor != "nlp":
        return
    after = names_of(db, [draft.id for draft in drafts if draft.is_row])
    if keys := sorted({key for _, key in before ^ after}):
        db.query(
            "INSERT INTO graphrag._changed_names (corpus_id, key) SELECT $1, u.key FROM pg_catalog.unnest($2) AS u (key)",
            ["int4", "text[]"],
            [corpus.id, keys],
        )
        requeue(db, "names", corpus.id)


def read_again(db: Database, corpus: Corpus, job: Job) -> bool:
    """Serve a job of kind names: queue the documents that have a name which came or went; return whether that was all."""
    entries = db.query(
        "SELECT n.id, n.key FROM graphrag._changed_names n WHERE n.corpus_id = $1 ORDER BY n.id LIMIT $2",
        ["int4", "int4"],
        [corpus.id, _PASS],
    )
    names = RowNames({row["key"]: row["key"] for row in entries})
    affected: list[int] = []
    last = 0
    while rows := db.query(_TEXTS, ["int4", "int8", "int4", "text"], [corpus.id, last, _DOCUMENTS, LINES_END]):
        db.rollback()
        for row in rows:
            if next(names.places(row["text"]), None) is not None:
                affected.append(row["id"])
            poll(db)
        last = rows[-1]["id"]
    if affected:
        db.query(_REQUEUE, ["int4", "int8[]"], [corpus.id, affected])
    db.query(
        "DELETE FROM graphrag._changed_names n WHERE n.id = ANY ($1)", ["int8[]"], [[row["id"] for row in entries]]
    )
    db.commit()
    return len(entries) < _PASS
