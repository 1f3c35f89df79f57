"""Each column that holds numbers of rows is known to the copy of a corpus: another database has other numbers."""

from pg_graphrag.beside.process.corpus_copy.row_numbers import domain_of, holds_many
from pg_graphrag.beside.process.routines import dumped

from tests.runtime.cluster import Database

# What could hold numbers and holds none: quantities, places, hashes, vectors, and objects whose fields name no row.
NO_NUMBERS = {
    "_attached_tables": "relation reference_widths",
    "_named_rows": "degree mention_count row_mention_count",
    "answer_feedback": "",
    "bm25_deletions": "deleted_count deleted_length bitmap",
    "bm25_postings": "df ordinals frequencies overflow",
    "bm25_segments": "item_count total_length lengths",
    "bm25_tail": "length frequencies",
    "chunk_windows": "ordinal start_offset end_offset",
    "chunks": "ordinal start_offset own_offset end_offset token_count tf_overflow page unfit concepts",
    "communities": "level size",
    "community_reports": "token_count",
    "community_states": "revision settings edge_count changed community_count",
    "corpora": "options move",
    "corpus_grants": "role_oid",
    "corpus_revisions": "revision",
    "curated": "ordinal value",
    "curations": "arguments",
    "documents": "metadata attached_id",
    "embedding_spaces": "dimensions",
    "entities": "degree mention_count evidence_rank row_mention_count",
    "entity_mentions": "tf evidence_rank start_offset end_offset windows attributes",
    "entity_values": "count tokens",
    "imported_communities": "communities cited part",
    "imported_extractions": "chunks",
    "jobs": "payload attempts errors lease",
    "llm_batch_requests": "messages schema max_tokens tries faults",
    "llm_batches": "requests completed failed polls",
    "llm_calls": "tokens_in tokens_out",
    "pictures": "place page content width height",
    "providers": "options",
    "query_log": "entities relationships chunks usage",
    "relationship_mentions": "evidence_rank start_offset end_offset windows",
    "relationship_values": "count tokens",
    "relationships": "mention_count direction evidence_rank row_mention_count",
}
COLUMNS = """
SELECT c.relname::text, a.attname::text
  FROM pg_catalog.pg_attribute a
  JOIN pg_catalog.pg_class c ON c.oid = a.attrelid AND c.relkind = 'r'
 WHERE c.oid = ANY (%s::regclass[]) AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
   AND (a.atttypid = ANY ('{int2,int4,int8,oid,xid8,bytea,json,jsonb}'::regtype[])
        OR a.atttypid IN (SELECT t.typarray FROM pg_catalog.pg_type t WHERE t.oid = ANY ('{int2,int4,int8,oid}'::regtype[])))
 ORDER BY 1, 2
"""
REFERENCES = """
SELECT c.relname::text, a.attname::text, f.relname::text
  FROM pg_catalog.pg_constraint x
  JOIN pg_catalog.pg_class c ON c.oid = x.conrelid
  JOIN pg_catalog.pg_class f ON f.oid = x.confrelid
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = x.conkey[1]
 WHERE x.contype = 'f' AND c.oid = ANY (%s::regclass[])
"""


def test_each_column_that_may_hold_numbers_is_known(db: Database) -> None:
    tables = [name for name, _ in dumped()]
    unknown = {
        (table, column)
        for table, column in db.execute(COLUMNS, [tables]).fetchall()
        if domain_of(table, column) is None and not holds_many(table, column)
    }
    assert unknown == {(table, column) for table, columns in NO_NUMBERS.items() for column in columns.split()}


def test_foreign_keys_say_the_same(db: Database) -> None:
    tables = [name for name, _ in dumped()]
    # A report has the number of its community.
    of_reports = {"community_reports": "communities"}
    references = db.execute(REFERENCES, [tables]).fetchall()
    assert len(references) > 30
    for table, column, referenced in references:
        if referenced == "nodes":  # by name
            continue
        assert domain_of(table, column) == of_reports.get(referenced, referenced), (table, column)
