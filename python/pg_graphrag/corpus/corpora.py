"""Creation, look-up, change and removal of corpora."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pg_graphrag.community.queueing import queue_refresh
from pg_graphrag.corpus.options import PINNED, Options, changed, parse, reindexes
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.graph.descriptions import queue_summaries
from pg_graphrag.json_reading import read_json
from pg_graphrag.server import Database, Row


@dataclass(frozen=True, slots=True)
class Corpus:
    """A corpus as the rest of the package sees it. `space` is the id of its embedding space, if there are vectors.

    `revision` names the state of what its documents were made into, as the statement's snapshot has it. None: nothing yet,
    the transaction itself has changed it, or nothing is to be held. `memory`: bytes that the session may hold
    (retrieval/held.py).
    """

    id: int
    name: str
    options: Options
    graph_name: str
    tokenizer: str
    tokenizer_fingerprint: str
    space: int | None
    revision: str | None
    memory: int


# What graphrag.session_memory is where nobody set it.
SESSION_MEMORY = "64MB"
# The transaction that changed a corpus may change it again under the same number, or undo a part.
REVISION = """(
       SELECT r.tableoid::text || '/' || r.revision::text
         FROM graphrag.corpus_revisions r
        WHERE r.corpus_id = {corpus}
          AND r.revision IS DISTINCT FROM pg_catalog.pg_current_xact_id_if_assigned())"""

_SELECT = f"""
SELECT c.id, c.name, c.options, c.graph_name, c.tokenizer, c.tokenizer_fingerprint,
       (SELECT s.id FROM graphrag.embedding_spaces s WHERE s.corpus_id = c.id AND s.state = 'active') AS space,
       {REVISION.format(corpus="c.id")} AS revision,
       pg_catalog.pg_size_bytes(coalesce(nullif(pg_catalog.current_setting('graphrag.session_memory', true), ''),
                                         '{SESSION_MEMORY}')) AS memory
  FROM graphrag.corpora c
"""


def find(db: Database, name: str | None) -> Corpus:
    """Return the corpus called `name`; 42704 when there is none, 22004 for a null."""
    rows = _read(db, "WHERE c.name = $1", "text", name) if name is not None else []
    if not rows:
        raise unknown_corpus(db, name)
    return _corpus(rows[0])


def unknown_corpus(db: Database, name: str | None) -> GraphRAGError:
    """Return the error that there is no corpus called `name`."""
    if name is None:
        return GraphRAGError(
            "corpus cannot be null", sqlstate="22004", hint="Give a name; where it may be left out, “default” is meant."
        )
    known = [row["name"] for row in db.query("SELECT name FROM graphrag.corpora ORDER BY name LIMIT 20")]
    return GraphRAGError(
        f'corpus "{name}" does not exist',
        sqlstate="42704",
        hint=f"Corpora: {', '.join(known)}."
        if known
        else "Create it with graphrag.create_corpus(…), or INSERT INTO graphrag.documents: that makes “default”.",
    )


def by_id(db: Database, corpus_id: int) -> Corpus | None:
    """Return the corpus with that number, or None when it has been dropped."""
    rows = _read(db, "WHERE c.id = $1", "int4", corpus_id)
    return _corpus(rows[0]) if rows else None


def _read(db: Database, where: str, type_: str, value: Any) -> Sequence[Row]:
    try:
        rows = db.query(_SELECT + where, [type_], [value])
    except Exception as error:
        # What pg_size_bytes cannot read is no size, or a greater one than there is.
        if getattr(error, "sqlstate", None) not in ("22023", "22003"):
            raise
        rows = None
    if rows is None or any(row["memory"] < 0 for row in rows):
        said = db.query("SELECT pg_catalog.current_setting('graphrag.session_memory', true) AS value")[0]["value"]
        raise GraphRAGError(
            f'the setting graphrag.session_memory cannot be "{said}"',
            hint="Give a size such as 64MB, or 0 to hold nothing: SET graphrag.session_memory = '64MB'; RESET for the default"
            f" ({SESSION_MEMORY}).",
        )
    return rows


def _corpus(row: Row) -> Corpus:
    # No memory for what is held: nothing is to be.
    revision = row["revision"] if row["memory"] else None
    return Corpus(**{**row, "options": _options(row["options"]), "revision": revision})


@lru_cache(maxsize=64)
def _options(text: str) -> Options:
    return parse(json.loads(text))


def revise(db: Database, corpus_id: int) -> None:
    """Name a new revision: every transaction that changes what documents were made into does, under the corpus' lock."""
    db.query(
        "INSERT INTO graphrag.corpus_revisions AS r (corpus_id, revision) VALUES ($1, pg_catalog.pg_current_xact_id())"
        " ON CONFLICT (corpus_id) DO UPDATE SET revision = EXCLUDED.revision",
        ["int4"],
        [corpus_id],
    )


def create(db: Database, name: str | None, options: str | None) -> int:
    """Make a corpus and pin its tokenizer; return its number."""
    if not name:
        raise GraphRAGError("a corpus needs a name", hint="Give a non-empty name of at most 200 bytes.")
    parsed = parse(_object(options))
    _check_providers(db, parsed)
    from pg_graphrag.text.tokenizers import tokenizer  # half a second that look-ups need not wait for

    ranks = tokenizer(parsed.tokenizer)
    row = db.query(
        "INSERT INTO graphrag.corpora (name, options, tokenizer, tokenizer_fingerprint)"
        " VALUES ($1, $2, $3, $4) RETURNING id",
        ["text", "jsonb", "text", "text"],
        [name, options, ranks.name, ranks.fingerprint],
    )
    return int(row[0]["id"])


def alter(db: Database, name: str | None, options: str | None) -> None:
    """Change options; where chunks or mentions depend on them, queue every document anew."""
    corpus = find(db, name)
    given = _object(options)
    # Locked, and read anew: a model that reembed() has swapped meanwhile must not come back.
    locked = "SELECT options FROM graphrag.corpora WHERE id = $1 FOR NO KEY UPDATE"
    stored = json.loads(str(db.query(locked, ["int4"], [corpus.id])[0]["options"]))
    corpus = find(db, name)
    merged = {key: value for key, value in {**stored, **given}.items() if value is not None}
    new = parse(merged)
    _check_providers(db, new)
    pinned = changed(corpus.options, new, PINNED)
    filled = "SELECT FROM graphrag.documents WHERE corpus_id = $1 LIMIT 1"
    # Vectors outlive the documents.
    spaced = "embedding" in pinned and corpus.space is not None
    if pinned and (spaced or db.query(filled, ["int4"], [corpus.id])):
        raise GraphRAGError(
            f'option "{pinned[0]}" of corpus "{name}" cannot change: the corpus has documents',
            sqlstate="55000",
            hint="Call graphrag.reembed(corpus, embedding)."
            if pinned[0] == "embedding"
            else "Create a new corpus with that option and insert the documents there.",
        )
    from pg_graphrag.text.tokenizers import tokenizer  # half a second that look-ups need not wait for

    ranks = tokenizer(new.tokenizer)
    db.query(
        "UPDATE graphrag.corpora SET options = $2, tokenizer = $3, tokenizer_fingerprint = $4 WHERE id = $1",
        ["int4", "jsonb", "text", "text"],
        [corpus.id, json.dumps(merged), ranks.name, ranks.fingerprint],
    )
    if changed(corpus.options, new, ("communities",)) and new.communities.automatic:
        queue_refresh(db, corpus.id)
    if new.llm.has("summary") and not corpus.options.llm.has("summary"):
        queue_summaries(db, corpus.id)
    if reindexes(corpus.options, new):
        db.query(
            "UPDATE graphrag.documents SET indexed_at = NULL, status = 'pending', error = NULL WHERE corpus_id = $1",
            ["int4"],
            [corpus.id],
        )
        # Also what waits, failed, or is at work with the old options: the lease is gone, so the work is done again.
        db.query(
            "UPDATE graphrag.jobs SET state = 'pending', lease = NULL, attempts = 0, errors = 0,"
            " next_attempt_at = pg_catalog.now(), last_error = NULL, payload = '{}' WHERE corpus_id = $1 AND kind = 'index'",
            ["int4"],
            [corpus.id],
        )


def _check_providers(db: Database, options: Options) -> None:
    """Refuse a provider that there is none of, or not of that kind: found out now rather than by the first document."""
    named = options.providers()
    names = sorted(set(named.values()))
    rows = db.query("SELECT p.name, p.kind FROM graphrag.providers p WHERE p.name = ANY ($1)", ["text[]"], [names])
    kinds = {str(row["name"]): row["kind"] for row in rows}
    for option, name in named.items():
        if name not in kinds:
            raise GraphRAGError(
                f'option "{option}": provider "{name}" does not exist',
                hint="Make it first, with graphrag.set_provider(…).",
            )
        kind = "rerank" if option == "rerank.provider" else "openai"
        if kinds[name] != kind:
            raise GraphRAGError(
                f'option "{option}": provider "{name}" is of kind {kinds[name]}, not {kind}',
                hint=f"Make one for it: SELECT graphrag.set_provider(…, '{kind}', …).",
            )


def drop(db: Database, name: str | None) -> None:
    """Remove a corpus with everything derived from it."""
    corpus = find(db, name)
    # In the order of lock_tables.sql: what locks documents as a whole, then rows before the corpus' lock, as the worker has it.
    db.query("SELECT FROM graphrag.corpora c WHERE c.id = $1 FOR NO KEY UPDATE", ["int4"], [corpus.id])
    guarded = "SELECT FROM graphrag.corpora WHERE id = $1 AND protection IS NOT NULL UNION ALL"
    if db.query(f"{guarded} SELECT FROM graphrag.corpus_grants WHERE corpus_id = $1", ["int4"], [corpus.id]):
        for statement in _OPEN:
            db.query(statement, ["int4"], [corpus.id])
    db.query("SELECT FROM graphrag.documents d WHERE d.corpus_id = $1 ORDER BY d.id FOR UPDATE", ["int4"], [corpus.id])
    db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
    db.query("SELECT graphrag._bm25_lock($1)", ["int4"], [corpus.id])
    db.query("SELECT graphrag._drop_graph($1)", ["int4"], [corpus.id])
    db.query(
        "SELECT graphrag._drop_space(s.id) FROM graphrag.embedding_spaces s WHERE s.corpus_id = $1",
        ["int4"],
        [corpus.id],
    )
    for statement in _DROP:
        db.query(statement, ["int4"], [corpus.id])


# Ends what protect() and grant_corpus() did.
_OPEN = (
    "SELECT graphrag._lock_grants() FROM graphrag.corpora WHERE id = $1",
    "DELETE FROM graphrag.corpus_grants WHERE corpus_id = $1",
    "UPDATE graphrag.corpora SET protection = NULL WHERE id = $1 AND protection IS NOT NULL",
    "SELECT graphrag._enforce($1, NULL)",
)
_DROP = (
    "SELECT graphrag._detach_all($1)",
    "DELETE FROM graphrag.documents WHERE corpus_id = $1",
    "DELETE FROM graphrag.jobs WHERE corpus_id = $1",
    "DELETE FROM graphrag.relationship_mentions WHERE corpus_id = $1",
    "DELETE FROM graphrag.entity_mentions WHERE corpus_id = $1",
    "DELETE FROM graphrag.communities WHERE corpus_id = $1",
    "DELETE FROM graphrag.relationships WHERE corpus_id = $1",
    "DELETE FROM graphrag.entities WHERE corpus_id = $1",
    "DELETE FROM graphrag.chunks WHERE corpus_id = $1",
    "DELETE FROM graphrag.imported_extractions WHERE corpus_id = $1",
    "DELETE FROM graphrag.bm25_segments WHERE corpus_id = $1",
    "DELETE FROM graphrag.bm25_tail WHERE corpus_id = $1",
    "DELETE FROM graphrag.bm25_tombstones WHERE corpus_id = $1",
    "DELETE FROM graphrag.corpora WHERE id = $1",
    # What an endpoint still works on is cancelled there by a worker.
    "DELETE FROM graphrag.llm_batches WHERE corpus_id = $1 AND state IN ('done', 'failed')",
    "INSERT INTO graphrag.jobs (corpus_id, kind) SELECT $1, 'batch'"
    " WHERE EXISTS (SELECT FROM graphrag.llm_batches b WHERE b.corpus_id = $1)",
)


def _object(options: str | None) -> dict[str, object]:
    value = None if options is None else read_json(options)
    if not isinstance(value, dict):
        raise GraphRAGError(
            f"options must be a JSON object, not {options or 'NULL'}", hint='For example {"language": "ja"}.'
        )
    return value
