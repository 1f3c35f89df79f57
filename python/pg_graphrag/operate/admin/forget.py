"""graphrag.forget: deletes a document with everything made of it, and searches for remains."""

from collections.abc import Sequence
from dataclasses import dataclass

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.index import bm25
from pg_graphrag.index.community.reports import drop_outdated
from pg_graphrag.index.documents.attach import take_replicated
from pg_graphrag.index.indexing.write import write_documents
from pg_graphrag.operate.admin import traces
from pg_graphrag.operate.admin.preconditions import check_isolation, check_sees_all
from pg_graphrag.server import Database
from pg_graphrag.server.caches import shared_arrays
from pg_graphrag.server.corpus.corpora import Corpus, find_corpus

CLEAR, REMAINS, UNPROVABLE = "clear", "remains", "unprovable"

# What people said, did or set: shown, never changed.
_SAID = {
    "graphrag.curations": "Names that people gave: graphrag.undo_curation() takes one back; then DELETE its row here.",
    "graphrag.curated": "Of a curation: see graphrag.curations.",
    "graphrag.aliases": "Of a curation: see graphrag.curations.",
    "graphrag.corpora": "The corpus' own name or options: change them with graphrag.alter_corpus().",
    "graphrag.providers": "Settings of a provider: change them with graphrag.set_provider().",
}
_LEFT = "Call graphrag.forget() again; if it stays, an unfinished transaction or a table of somebody else writes it."
_UNSETTLED = (
    "Documents of the corpus wait for a worker, and the index has their former text, which may have named this one:"
    " CALL graphrag.process_jobs(), then call graphrag.forget() again."
)

Line = tuple[str, str, int | None, int | None, str, str | None]


def forget(db: Database, name: str | None, source_key: str | None) -> list[Line]:
    """Serve graphrag.forget(): rows (place, state, removed, remaining, detail, hint).

    Raises GraphRAGError: 42704 for an unknown corpus, 22004 for a null key, 55000 for a document that an attached table would
      bring back, 42501 under row-level security, 25001 in a transaction that does not see what others commit meanwhile, 55P03
      while a transaction that asked a model is open.
    """
    corpus = find_corpus(db, name)
    if source_key is None:
        raise GraphRAGError("source_key cannot be null", sqlstate="22004", hint="Give the document's source_key.")
    check_sees_all(db, "forget()")
    check_isolation(db, "forget()")
    take_replicated(db, corpus)
    _check_not_attached(db, corpus, source_key)
    return _Forgetting(db, corpus, source_key).run()


def _check_not_attached(db: Database, corpus: Corpus, source_key: str) -> None:
    rows = db.query(
        "SELECT pg_catalog.format('%I.%I', a.schema_name, a.table_name) AS name"
        "  FROM graphrag.documents d JOIN graphrag._attached_tables a ON a.id = d.attached_id"
        " WHERE d.corpus_id = $1 AND d.source_key = $2",
        ["int4", "text"],
        [corpus.id, source_key],
    )
    if rows:
        raise GraphRAGError(
            f'document "{source_key}" comes from the attached table {rows[0]["name"]}, which would bring it back',
            sqlstate="55000",
            hint="DELETE its row there, whose document goes with it; then call graphrag.forget() with the same key.",
        )


@dataclass
class _Forgetting:
    """One document on its way out. `own`: stretches of text that it alone has."""

    db: Database
    corpus: Corpus
    key: str

    def run(self) -> list[Line]:
        """Delete, and look."""
        self.ids = traces.numbers(self.db, self.corpus, self.key)
        self.own = traces.stretches(self.db, self.corpus, self.ids, self.key)
        self.removed = {
            relation.name: traces.number_of_rows(self.db, self.corpus, relation, self.ids, self.key)
            for relation in traces.relations(self.db, self.corpus)
        }
        had_document = self.removed.get("graphrag.documents", 0) > 0
        # Slow work is done before anything is locked. Under the lock only rows found before, or written since, are compared.
        self.since = traces.horizon(self.db)
        self.places = {
            relation.name: traces.places_with_text(self.db, self.corpus, relation, self.own)
            for relation in traces.relations(self.db, self.corpus)
        }
        self._delete()
        lines = [self._line_of_document(had_document), *self._relations(), *self._packed(), self._statistics()]
        lines += [self._batches(), *self._other_corpora()]
        # Remains come first.
        lines.sort(key=lambda line: (line[1] != REMAINS, line[1] == UNPROVABLE))
        return lines + self._unprovable()

    def _delete(self) -> None:
        db, corpus = self.db, self.corpus
        # First: who holds a reply waits for no lock of the corpus.
        db.query("SELECT graphrag._forget_replies($1)", ["int4"], [corpus.id])
        for relation in self._relations_by_key():
            traces.delete_rows(db, corpus, relation, self.ids, self.key)
        # Also remains of earlier documents whose keys nobody knows any more.
        gone_ids = {
            row["id"]
            for row in db.query(
                "SELECT x.document_id AS id FROM (SELECT c.document_id FROM graphrag.chunks c WHERE c.corpus_id = $1"
                " UNION SELECT j.document_id FROM graphrag.jobs j WHERE j.corpus_id = $1 AND j.document_id IS NOT NULL) x"
                " WHERE NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.id = x.document_id)",
                ["int4"],
                [corpus.id],
            )
        }
        gone_ids |= set(self.ids)
        self.ids = sorted(gone_ids)
        if self.ids:
            write_documents(db, corpus, [], self.ids, {}, None)
        db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
        for relation in traces.relations(db, corpus):
            if relation.is_by_number:
                traces.delete_rows(db, corpus, relation, self.ids, self.key)
        bm25.optimize(db, corpus.id, max_deleted=0.0)
        self.reports = drop_outdated(db, corpus)
        self._delete_words()
        self._delete_replies()
        shared_arrays.forget(db, corpus.id)

    def _relations_by_key(self) -> list[traces.Relation]:
        """Tables whose rows have the key of the document; the documents first, whose triggers do most of the work."""
        relations = [relation for relation in traces.relations(self.db, self.corpus) if relation.is_by_key]
        return sorted(relations, key=lambda relation: relation.name != "graphrag.documents")

    def _delete_where(self, table: str, condition: str) -> None:
        """Delete and count rows of a table of the schema; ``$1`` is the corpus."""
        sql = f"""
        WITH gone AS (DELETE FROM graphrag.{table} t WHERE {condition} RETURNING 1)
        SELECT pg_catalog.count(*) AS n FROM gone"""
        self._add(table, self.db.value(sql, ["int4"], [self.corpus.id]))

    def _replace_where(self, table: str, column: str, text: str, condition: str) -> None:
        """Put another text into a column, and count the rows; ``$1`` is the corpus."""
        sql = f"""
        WITH changed AS (UPDATE graphrag.{table} t SET {column} = {text}
                          WHERE {condition} AND t.{column} IS DISTINCT FROM {text} RETURNING 1)
        SELECT pg_catalog.count(*) AS n FROM changed"""
        self._add(table, self.db.value(sql, ["int4"], [self.corpus.id]))

    def _add(self, table: str, count: int) -> None:
        self.removed[f"graphrag.{table}"] = self.removed.get(f"graphrag.{table}", 0) + count

    def _delete_replies(self) -> None:
        """Delete replies of models: nothing tells which documents they are about."""
        self._delete_where("llm_cache", "t.corpus_id = $1")
        self._delete_where("llm_batch_requests", "t.corpus_id = $1")
        self._delete_where("llm_batches", "t.corpus_id = $1 AND t.state = 'done'")
        # Under a number that no corpus has, workers cancel batches at their endpoints, and delete their files.
        self.db.query(
            "WITH orphan AS (SELECT pg_catalog.nextval('graphrag.corpora_id_seq')::int AS id),"
            " moved AS (UPDATE graphrag.llm_batches b SET corpus_id = o.id, error = NULL FROM orphan o WHERE b.corpus_id = $1"
            "           RETURNING o.id)"
            " SELECT graphrag._queue_jobs('batch', ARRAY(SELECT DISTINCT m.id FROM moved m))",
            ["int4"],
            [self.corpus.id],
        )
        self._replace_where("answer_feedback", "answer", "NULL::text", "t.corpus_id = $1")

    def _delete_words(self) -> None:
        """Delete questions and verdicts that quote the document; of errors, which may quote a reply, keep the kind."""
        for relation in traces.relations(self.db, self.corpus):
            if relation.name in ("graphrag.query_log", "graphrag.answer_feedback", "graphrag._attached_faults"):
                count = traces.delete_with_text(self.db, self.corpus, relation, self.own, self.key)
                self.removed[relation.name] = self.removed.get(relation.name, 0) + count
        for table, column, condition in (
            ("llm_calls", "error", "t.corpus_id = $1"),
            ("jobs", "last_error", "t.corpus_id = $1 AND t.document_id IS NULL"),
            ("provider_state", "last_error", "$1 IS NOT NULL"),
        ):
            kind = f"coalesce(pg_catalog.substring(t.{column}, '^[A-Za-z]+:'), 'other:')"
            self._replace_where(table, column, kind, f"t.{column} IS NOT NULL AND {condition}")

    def _line_of_document(self, had_document: bool) -> Line:
        if not had_document:
            detail = (
                "no document has this key; its text is not known any more, so places were looked through by key alone"
            )
        elif not self.own:
            detail = "every stretch of its text is in other documents too: places were looked through by number and key"
        else:
            detail = f"places were looked through by number, by key, and by {len(self.own)} stretches that it alone has"
        return ("document", CLEAR, int(had_document), 0, detail, None)

    def _relations(self) -> list[Line]:
        lines: list[Line] = []
        left = _UNSETTLED if self._is_unsettled() else _LEFT
        for relation in traces.relations(self.db, self.corpus):
            if not (relation.is_by_number or relation.is_by_key or relation.texts):
                continue
            named = traces.number_of_rows(self.db, self.corpus, relation, self.ids, self.key)
            places = self.places.get(relation.name, [])
            with_text = traces.number_with_text(self.db, self.corpus, relation, self.own, places, self.since)
            remaining, removed = max(named, with_text), self.removed.get(relation.name, 0)
            if relation.name == "graphrag.community_reports":
                removed += self.reports
            detail = f"{removed} rows removed or emptied" if removed else "nothing of it was there by number or key"
            hint = None
            if remaining:
                detail = f"{named} rows by number or key, {with_text} by stretches of its text"
                hint = _SAID.get(relation.name, left)
            lines.append((relation.name, REMAINS if remaining else CLEAR, removed, remaining, detail, hint))
        return lines

    def _is_unsettled(self) -> bool:
        """Tell whether the index has a former text of other documents, which may have named this one."""
        sql = (
            "SELECT EXISTS (SELECT FROM graphrag.jobs j WHERE j.corpus_id = $1 AND j.kind IN ('index', 'graph', 'remove'))"
            " OR EXISTS (SELECT FROM graphrag.documents d WHERE d.corpus_id = $1 AND d.indexed_hash <> d.content_hash) AS is_so"
        )
        return bool(self.db.value(sql, ["int4"], [self.corpus.id]))

    def _packed(self) -> list[Line]:
        remaining = traces.number_packed(self.db, self.corpus, self.ids)
        orphans = self.db.value(
            "SELECT pg_catalog.count(*) FROM graphrag.entity_vectors v"
            " WHERE NOT EXISTS (SELECT FROM graphrag.entities e WHERE e.id = v.entity_id)"
        )
        return [
            ("packed BM25 postings", _state(remaining), None, remaining, "segments were written anew", None),
            ("vectors of entities that are gone", _state(orphans), None, orphans, "of all corpora", None),
        ]

    def _statistics(self) -> Line:
        tables = traces.sampled_tables(self.db, self.corpus, self.own) if self.own else []
        for table in tables:
            self.db.query(f"ANALYZE {table}")
        left = traces.sampled_tables(self.db, self.corpus, self.own) if tables else []
        detail = "the planner's samples of columns" + (f"; of {', '.join(tables)} taken anew" if tables else "")
        hint = f"ANALYZE {', '.join(left)};" if left else None
        return ("statistics", _state(len(left)), len(tables) - len(left), len(left), detail, hint)

    def _batches(self) -> Line:
        remaining = self.db.value(
            "SELECT pg_catalog.count(*) FROM graphrag.llm_batches b"
            " WHERE NOT EXISTS (SELECT FROM graphrag.corpora c WHERE c.id = b.corpus_id)"
        )
        detail = "batches at endpoints that are to be cancelled, with their files"
        hint = (
            "A worker cancels them: CALL graphrag.process_jobs(). Then call graphrag.forget() again."
            if remaining
            else None
        )
        return ("batches at endpoints", _state(remaining), None, remaining, detail, hint)

    def _other_corpora(self) -> list[Line]:
        rows = self.db.query(
            "SELECT c.name, pg_catalog.count(*) AS n FROM graphrag.documents d JOIN graphrag.corpora c ON c.id = d.corpus_id"
            " WHERE d.corpus_id <> $1 AND d.source_key = $2 GROUP BY c.name ORDER BY c.name",
            ["int4", "text"],
            [self.corpus.id, self.key],
        )
        hint = "Call graphrag.forget() for that corpus too, if it is the same document."
        lines: list[Line] = [
            (f'corpus "{row["name"]}"', REMAINS, 0, row["n"], "has a document of the same source_key", hint)
            for row in rows
        ]
        return lines + self._versions()

    def _versions(self) -> list[Line]:
        rows = self.db.query(
            "SELECT v.history AS name, pg_catalog.count(*) AS n FROM graphrag.versions v"
            " WHERE v.corpus = $1 AND v.source_key = pg_catalog.left(graphrag._version_key($2, pg_catalog.now()), -28)"
            " GROUP BY v.history",
            ["text", "text"],
            [self.corpus.name, self.key],
        )
        hint = "Call graphrag.forget() for each: SELECT history, version_key FROM graphrag.versions."
        return [(f'corpus "{row["name"]}"', REMAINS, 0, row["n"], "has versions of the document", hint) for row in rows]

    def _unprovable(self) -> list[Line]:
        replicas = self.db.value("SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_replication")
        slots = self.db.value("SELECT pg_catalog.count(*) FROM pg_catalog.pg_replication_slots")
        archive = self.db.value("SELECT pg_catalog.current_setting('archive_mode')")
        places: Sequence[tuple[str, str, str | None]] = (
            (
                "dead rows",
                "The bytes stay in tables and indexes, vectors' among them, until VACUUM and until pages are used again.",
                "Run VACUUM on the tables of schema graphrag when no old transaction is open; VACUUM FULL writes them anew.",
            ),
            (
                "WAL",
                f"It has the old rows until it is removed; archive_mode is {archive}.",
                "CHECKPOINT; and remove archived WAL by its retention.",
            ),
            (
                "replicas",
                f"{replicas} are connected, {slots} replication slots hold back WAL. One that lags shows the document.",
                "Compare replay_lsn in pg_stat_replication with this transaction's.",
            ),
            ("backups", "Dumps and base backups taken before have it.", "Remove them by their retention."),
            (
                "sessions",
                "What other sessions cache or map of the corpus is void at their next call, and is freed then. A file that a"
                " search makes before this commits has names and vectors until the next search that makes one.",
                None,
            ),
            ("requests under way", "Who asked a model before gets its reply; nothing keeps it.", None),
            (
                "server log, pg_stat_statements, pg_stat_activity",
                "Statements with the text may have been logged.",
                "Remove logs by their retention; pg_stat_statements_reset().",
            ),
            (
                "endpoints",
                "Models that were asked have seen what they were sent; what a provider keeps, its contract says.",
                None,
            ),
            (
                "copies of others",
                "Materialised views, exports, pictures, COPYs and tables that were filled by queries.",
                None,
            ),
        )
        return [(place, UNPROVABLE, None, None, detail, hint) for place, detail, hint in places]


def _state(remaining: int) -> str:
    return REMAINS if remaining else CLEAR
