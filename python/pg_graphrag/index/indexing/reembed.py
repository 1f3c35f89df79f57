"""Re-embedding: fills the vectors of another model while the old ones are searched, then swaps (graphrag.reembed)."""

import json
from collections.abc import Iterator
from typing import Any

from pg_graphrag.index.indexing.extracting import weight
from pg_graphrag.index.indexing.item_vectors import (
    OF_CHUNKS,
    SOURCES,
    Item,
    embed,
    insert_vectors,
    is_in_words,
    window_text,
)
from pg_graphrag.index.indexing.outcomes import add_dead_letters
from pg_graphrag.index.indexing.prepare import MAX_TITLE
from pg_graphrag.llm.endpoints.faults import Unembeddable, Waiting
from pg_graphrag.server import Database, Row
from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.server.corpus.spaces import Space, indexed_rows, lock_spaces, of_state, set_option, set_state, spaces
from pg_graphrag.server.queue import Job, queue
from pg_graphrag.text.outline import PATH_JOINT

# Chunks (with their items) and names of one step: some seconds of the local model.
BATCH_CHUNKS = 32
BATCH_NAMES = 1000
# Dropping old vectors waits no longer for their readers: others queue behind that lock.
DROP_TIMEOUT = "1s"
DROP_SECONDS = 60.0


def reembed(db: Database, corpus: Corpus, job: Job) -> bool:
    """Do one step of a job of kind reembed: fill, swap, or drop old vectors; True: nothing is left.

    The tables decide the step; ``job.payload`` only keeps its progress: {space, chunk, key; skipped: {item without a vector
    by the model: [why, hint], or null beside one of the same document}}. Commits.

    Raises ProviderFault, BudgetReached, ItemFault after the vectors that came have been written.
    Raises Waiting: somebody still reads the old vectors.
    """
    all_spaces = spaces(db, corpus.id)
    building = of_state(all_spaces, "building")
    if building is None:
        for space in all_spaces:
            if space.state == "retired":
                _drop(db, space)
        return True
    payload = job.payload
    progress = payload if payload.get("space") == building.id else {"space": building.id, "chunk": 0, "key": ""}
    if _fill(db, corpus, building, job, progress) or _fill(
        db, corpus, building, job, progress | {"chunk": 0, "key": ""}
    ):
        return False
    # In a transaction of its own: writers of this corpus wait for it, and it must not wait for them.
    least_rows = indexed_rows(building.embedding.dimensions)
    db.query("SELECT graphrag._index_vectors($1, $2, 'building')", ["int4", "int4"], [corpus.id, least_rows])
    db.commit()
    _swap(db, corpus, building, progress)
    return False


def _fill(db: Database, corpus: Corpus, space: Space, job: Job, progress: dict[str, Any]) -> bool:
    """Embed and write the next items without a vector after `progress`; False when there are none."""
    chunks, items = _of_chunks(db, corpus, space, progress, BATCH_CHUNKS)
    if not chunks:
        items = {"entity": _names(db, corpus, space, progress)}
        if not items["entity"]:
            db.rollback()
            return False
    db.rollback()
    vectors, faults = embed(
        db, corpus, space.embedding, [item[3] for kind_items in items.values() for item in kind_items]
    )
    db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
    if space not in spaces(db, corpus.id):  # replaced or cancelled meanwhile
        db.rollback()
        return True
    for kind, kind_items in items.items():
        insert_vectors(db, space, kind, [item for item in kind_items if item[3] in vectors], vectors, is_late=True)
    without = {text for text, fault in faults.items() if isinstance(fault, Unembeddable)}
    if len(faults) > len(without):
        db.commit()
        raise min((fault for text, fault in faults.items() if text not in without), key=weight)
    if without:
        lacking = [(kind, item) for kind, kind_items in items.items() for item in kind_items if item[3] in without]
        progress["skipped"] = skipped = progress.get("skipped", {})
        noted = set[int]()
        for kind, item in lacking:
            fault = faults[item[3]]
            skipped[f"{kind} {item[0]}"] = None if item[2] in noted else [fault.message, fault.hint]
            noted |= {item[2]} - {0}
    new_progress = progress | ({"chunk": chunks[-1]} if chunks else {"key": items["entity"][-1][3]})
    db.query(
        "UPDATE graphrag.jobs SET payload = $2, last_error = NULL WHERE id = $1",
        ["int8", "jsonb"],
        [job.id, json.dumps(new_progress)],
    )
    db.commit()
    return True


# Items with vectors, and their texts as embedded when the chunk was written (window_texts, statements). The window of a
# row without texts as stored: `_text` makes its parts of it.
_ITEMS = {
    "window": (
        "chunk_windows",
        "true",
        "CASE WHEN c.is_lines THEN ''"
        f" ELSE coalesce(nullif(pg_catalog.concat_ws('{PATH_JOINT}', nullif(c.title, ''), c.section), '') || E'\\n', '') END"
        " || pg_catalog.substr(c.content, x.start_offset - c.start_offset + 1, x.end_offset - x.start_offset)",
    ),
    "entity_mention": ("entity_mentions", "x.description IS NOT NULL", "x.name || E'\\n' || x.description"),
    "relationship_mention": (
        "relationship_mentions",
        "x.description IS NOT NULL",
        "pg_catalog.concat_ws(E'\\t', pg_catalog.array_to_string(x.keywords, ', '),"
        " (SELECT e.name FROM graphrag.entity_mentions e WHERE e.chunk_id = c.id AND e.raw_key = x.source_key),"
        " (SELECT e.name FROM graphrag.entity_mentions e WHERE e.chunk_id = c.id AND e.raw_key = x.target_key),"
        " x.description)",
    ),
}


def _without_vector(space: Space, kind: str) -> str:
    """SQL from WHERE on: items x of a chunk c that have no vector in a space."""
    _, condition, _ = _ITEMS[kind]
    return (
        f"x.chunk_id = c.id AND {condition} AND NOT EXISTS (SELECT FROM {space.rows(kind)} v"
        f" WHERE v.chunk_id = c.id AND v.{kind.split('_')[-1]}_id = x.id)"
    )


# A document for which a dead letter says that it has texts without vectors.
_INCOMPLETE = (
    "EXISTS (SELECT FROM graphrag.jobs j"
    " WHERE j.document_id = {} AND j.chunks IS NULL AND j.last_error LIKE 'Unembeddable:%')"
)


def unembedded(db: Database, corpus: Corpus, space: Space, kind: str, *, only_indexed: bool) -> Iterator[int]:
    """Yield the ids of items of a kind of `SOURCES` that a space's model embeds and that have no vector in it.

    Without documents for which a dead letter says so; and, if an endpoint may have given none, without items that only
    people made.
    `only_indexed`: without documents that must still be indexed.
    """
    if kind == "entity":
        sql = (
            "SELECT x.id, x.key AS text FROM graphrag.entities x WHERE x.corpus_id = $1 AND NOT EXISTS"
            f" (SELECT FROM {space.rows(kind)} v WHERE v.entity_id = x.id) AND NOT EXISTS"
            f" (SELECT FROM graphrag.entity_mentions m WHERE m.entity_id = x.id AND {_INCOMPLETE.format('m.document_id')})"
        )
        if not space.embedding.local:
            sql += " AND EXISTS (SELECT FROM graphrag.entity_mentions m WHERE m.entity_id = x.id)"
    else:
        table, _, text = _ITEMS[kind]
        condition = f" AND NOT {_INCOMPLETE.format('k.document_id')}"
        condition += " AND d.indexed_at IS NOT NULL" if only_indexed else ""
        sql = (
            f"SELECT x.id, {text} AS text, c.title, c.is_lines FROM (SELECT k.id, k.start_offset, k.content, k.section,"
            f" pg_catalog.left(d.title, {MAX_TITLE}) AS title, graphrag._is_lines(d.attached_id, d.content) AS is_lines"
            "  FROM graphrag.chunks k"
            f" LEFT JOIN graphrag.documents d ON d.id = k.document_id WHERE k.corpus_id = $1{condition}) c"
            f" JOIN graphrag.{table} x ON {_without_vector(space, kind)}"
        )
    for row in db.stream(sql, ["int4"], [corpus.id], BATCH_NAMES):
        text = _text(kind, row)
        if text and space.embedding.embeds(text):
            yield row["id"]


def _of_chunks(
    db: Database, corpus: Corpus, space: Space, progress: dict[str, Any], limit: int
) -> tuple[list[int], dict[str, list[Item]]]:
    """Return the next chunks with items without vectors that the model embeds, and these items by kind."""
    start = progress["chunk"]
    while True:
        chunks, items = _page_of_chunks(db, corpus, space, start, limit)
        for kind, kind_items in items.items():
            items[kind] = [item for item in kind_items if f"{kind} {item[0]}" not in progress.get("skipped", {})]
        if not chunks or any(items.values()):
            return chunks, items
        start = chunks[-1]
        db.poll()


def _page_of_chunks(
    db: Database, corpus: Corpus, space: Space, start: int, limit: int
) -> tuple[list[int], dict[str, list[Item]]]:
    """Return the next chunks with items without vectors, and by kind those items that the model embeds."""
    any_missing = " OR ".join(
        f"EXISTS (SELECT FROM graphrag.{_ITEMS[kind][0]} x WHERE {_without_vector(space, kind)})" for kind in OF_CHUNKS
    )
    rows = db.query(
        f"SELECT c.id FROM graphrag.chunks c WHERE c.corpus_id = $1 AND c.id > $2 AND ({any_missing}) ORDER BY c.id LIMIT $3",
        ["int4", "int8", "int4"],
        [corpus.id, start, limit],
    )
    chunks = [row["id"] for row in rows]
    items: dict[str, list[Item]] = {}
    for kind, (table, _, text) in _ITEMS.items():
        rows = db.query(
            f"SELECT x.id, c.id AS chunk_id, c.document_id, {text} AS text, c.title, c.is_lines"
            "  FROM (SELECT k.id, k.document_id, k.start_offset, k.content, k.section,"
            f"               pg_catalog.left(d.title, {MAX_TITLE}) AS title,"
            "               graphrag._is_lines(d.attached_id, d.content) AS is_lines FROM graphrag.chunks k"
            "          LEFT JOIN graphrag.documents d ON d.id = k.document_id WHERE k.id = ANY ($1)) c"
            f"  JOIN graphrag.{table} x ON {_without_vector(space, kind)} ORDER BY c.id, x.id",
            ["int8[]"],
            [chunks],
        )
        missing = ((row["id"], row["chunk_id"], row["document_id"], _text(kind, row)) for row in rows)
        items[kind] = [item for item in missing if item[3] and space.embedding.embeds(item[3])]
    return chunks, items


def _text(kind: str, row: Row) -> str:
    """Return the text to embed for an item of a kind of `SOURCES`, "" for none."""
    match kind:
        case "window":
            return window_text(row["title"], row["text"]) if row["is_lines"] else str(row["text"])
        case "entity":
            return row["text"] if is_in_words(row["text"]) else ""
        case _:  # statements are stripped at their end; a window is embedded as it is
            return str(row["text"].rstrip())


def _names(db: Database, corpus: Corpus, space: Space, progress: dict[str, Any]) -> list[Item]:
    """Return the next names without vectors that the model embeds."""
    start = progress["key"]
    while True:
        rows = _page_of_names(db, corpus, space, start)
        items = [
            (row["id"], 0, 0, row["key"])
            for row in rows
            if is_in_words(row["key"])
            and space.embedding.embeds(row["key"])
            and f"entity {row['id']}" not in progress.get("skipped", {})
        ]
        if items or not rows:
            return items
        start = rows[-1]["key"]
        db.poll()


def _page_of_names(db: Database, corpus: Corpus, space: Space, start: str) -> list[Row]:
    return db.query(
        'SELECT e.id, e.key FROM graphrag.entities e WHERE e.corpus_id = $1 AND e.key > $2 COLLATE "C" AND NOT EXISTS'
        f" (SELECT FROM {space.rows('entity')} v WHERE v.entity_id = e.id) ORDER BY e.key LIMIT $3",
        ["int4", "text", "int4"],
        [corpus.id, start, BATCH_NAMES],
    )


def _swap(db: Database, corpus: Corpus, building: Space, progress: dict[str, Any]) -> None:
    """Search the new vectors from now on, unless items without one were written meanwhile."""
    lock_spaces(db, corpus.id, is_shared=False)
    db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
    start = progress | {"chunk": 0, "key": ""}
    all_spaces = spaces(db, corpus.id)
    # Its tables may be others than before.
    current = of_state(all_spaces, "building")
    if (
        current is not None
        and current.id == building.id
        and not _of_chunks(db, corpus, current, start, BATCH_CHUNKS)[0]
        and not _names(db, corpus, current, start)
    ):
        active = of_state(all_spaces, "active")
        if active is not None:
            set_state(db, active, "retired")
        set_state(db, building, "active")
        set_option(db, corpus.id, building.embedding)
        queue(db, "reports", corpus.id)
        _note_skipped(db, corpus, progress.get("skipped", {}))
    db.commit()


def _note_skipped(db: Database, corpus: Corpus, skipped: dict[str, Any]) -> None:
    """Record the documents for which the new model has no vector, in place of those for which the old one had none."""
    db.query(
        "DELETE FROM graphrag.jobs WHERE id IN (SELECT j.id FROM graphrag.jobs j WHERE j.corpus_id = $1 AND j.state = 'failed'"
        "  AND j.kind = 'index' AND j.last_error LIKE 'Unembeddable:%' ORDER BY j.id FOR UPDATE SKIP LOCKED)",
        ["int4"],
        [corpus.id],
    )
    for kind in SOURCES if skipped else ():
        faults = {
            int(item.split()[1]): Unembeddable(noted[0], hint=noted[1])
            for item, noted in skipped.items()
            if noted is not None and item.split()[0] == kind
        }
        add_dead_letters(db, corpus.id, kind, faults)


def _drop(db: Database, space: Space) -> None:
    """Drop a retired space after the searches that began before the swap."""
    rows = db.query(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_stat_activity a"
        " WHERE a.datname = pg_catalog.current_database() AND a.pid <> pg_catalog.pg_backend_pid()"
        " AND a.backend_type NOT IN ('autovacuum worker', 'walsender')"
        " AND pg_catalog.age(a.backend_xmin) >= pg_catalog.age(s.xmin)) AS yes"
        "  FROM graphrag.embedding_spaces s WHERE s.id = $1",
        ["int4"],
        [space.id],
    )
    if rows and rows[0]["yes"]:
        raise Waiting(
            "the old vectors are kept until the transactions that may still read them have ended", seconds=DROP_SECONDS
        )
    try:
        db.query("SELECT pg_catalog.set_config('lock_timeout', $1, true)", ["text"], [DROP_TIMEOUT])
        db.query("SELECT graphrag._drop_space($1)", ["int4"], [space.id])
    except Exception as error:
        if getattr(error, "sqlstate", None) != "55P03":
            raise
        db.rollback()
        raise Waiting(
            "the old vectors are kept until nobody holds a lock on their tables", seconds=DROP_SECONDS
        ) from None
    db.commit()
