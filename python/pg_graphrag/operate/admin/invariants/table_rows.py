"""Documents, queue, chunks, windows, and the numbers that rows get."""

from collections.abc import Iterator

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.index.indexing.prepare import MAX_TF
from pg_graphrag.operate.admin.invariants.violations import violations
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.text.chunks import token_counts
from pg_graphrag.text.languages import detect
from pg_graphrag.text.tokenizers import tokenizer

# Documents read at a time.
_FETCH = 5

# A document as a message names it.
_DOCUMENT = "pg_catalog.format('document %s (%s)', d.id, d.source_key)"
_CHUNK = "pg_catalog.format('chunk %s of document %s', c.id, c.document_id)"

# EXCEPT leaves out queued items if there may be many: with statistics of an empty queue, NOT EXISTS would be a scan for
# each row.
_STATEMENTS = {
    "a document's hash is that of its title, content and pictures": f"""
        SELECT {_DOCUMENT} AS object, pg_catalog.format('content_hash is %s', d.content_hash) AS detail
          FROM graphrag.documents d
         WHERE d.corpus_id = $1 AND d.content_hash <> pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(
                   coalesce(d.title, '') || E'\\n' || d.content || coalesce(E'\\n' || d.pictures_hash, ''), 'UTF8')), 'hex')""",
    "a document belongs to the corpus it names": f"""
        SELECT {_DOCUMENT} AS object, pg_catalog.format('corpus is "%s", corpus_id %s', d.corpus, d.corpus_id) AS detail
          FROM graphrag.documents d
         WHERE d.corpus_id = $1 AND NOT EXISTS (SELECT FROM graphrag.corpora c WHERE c.id = $1 AND c.name = d.corpus)""",
    "a document is indexed when its hash is": f"""
        SELECT {_DOCUMENT} AS object,
               pg_catalog.format('status %s, indexed_at %s, indexed_hash %s, content_hash %s',
                                 d.status, d.indexed_at, d.indexed_hash, d.content_hash) AS detail
          FROM graphrag.documents d
         WHERE d.corpus_id = $1
           AND ((d.indexed_at IS NOT NULL) <> (d.status = 'indexed')
                OR d.indexed_at IS NOT NULL AND d.indexed_hash IS DISTINCT FROM d.content_hash)""",
    "a retracted document is not indexed": f"""
        SELECT {_DOCUMENT} AS object,
               pg_catalog.format('status %s, retracted_at %s, indexed_hash %s: graphrag.repair()',
                                 d.status, d.retracted_at, d.indexed_hash) AS detail
          FROM graphrag.documents d
         WHERE d.corpus_id = $1
           AND ((d.retracted_at IS NOT NULL) <> (d.status = 'retracted')
                OR d.retracted_at IS NOT NULL AND d.indexed_hash IS NOT NULL)""",
    "a history has what documents say": f"""
        SELECT {_DOCUMENT} AS object, 'its latest version says something else, or there is none: graphrag.repair()' AS detail
          FROM graphrag._histories h
          JOIN graphrag.documents d ON d.corpus_id = h.corpus_id AND d.retracted_at IS NULL
          LEFT JOIN graphrag.documents v ON v.version_of = d.id AND v.corpus_id = h.history_id
         WHERE h.corpus_id = $1
           AND (v.id IS NULL OR (d.title, d.content, d.metadata) IS DISTINCT FROM (v.title, v.content, v.metadata))""",
    # A job of an indexed document is superseded work that is done once more.
    "what is due is queued": f"""
        SELECT {_DOCUMENT} AS object,
               CASE WHEN j.document_id IS NULL THEN 'is not indexed, and no job will do it: graphrag.repair()'
                    WHEN j.removes AND d.retracted_at IS NULL THEN 'exists, and is queued to be removed'
                    WHEN j.in_parts AND d.indexed_hash IS DISTINCT FROM d.content_hash THEN 'is done in parts, and has no text'
                    ELSE pg_catalog.format('is %s, a job of it has failed: %s', d.status, j.failed) END AS detail
          FROM graphrag.documents d
          LEFT JOIN (SELECT x.document_id,
                            pg_catalog.bool_or(x.kind = 'remove') AS removes,
                            pg_catalog.bool_or(x.chunks IS NOT NULL) AS in_parts,
                            pg_catalog.bool_or(x.state = 'failed') AS failed
                       FROM graphrag.jobs x WHERE x.corpus_id = $1 GROUP BY x.document_id) j ON j.document_id = d.id
         WHERE d.corpus_id = $1
           AND CASE WHEN j.document_id IS NULL THEN d.indexed_at IS NULL AND d.retracted_at IS NULL
                    ELSE j.removes AND d.retracted_at IS NULL OR j.in_parts AND d.indexed_hash IS DISTINCT FROM d.content_hash
                         OR d.indexed_at IS NULL AND j.failed <> (d.status = 'failed') END
         UNION ALL
        SELECT pg_catalog.format('job %s', j.id), pg_catalog.format('is to index document %s, which is gone', j.document_id)
          FROM graphrag.jobs j
         WHERE j.corpus_id = $1 AND j.kind IN ('index', 'embed', 'graph')
           AND NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.id = j.document_id AND d.retracted_at IS NULL)
           AND NOT EXISTS (SELECT FROM graphrag.jobs s WHERE s.corpus_id = $1 AND s.kind = 'sweep')""",
    "a chunk has its document, or a job that removes it": f"""
        SELECT {_CHUNK} AS object, 'the document is gone or retracted, and no job removes the chunk: graphrag.repair()' AS detail
          FROM (SELECT c.document_id FROM graphrag.chunks c WHERE c.corpus_id = $1
                EXCEPT SELECT d.id FROM graphrag.documents d WHERE d.corpus_id = $1 AND d.retracted_at IS NULL
                EXCEPT SELECT j.document_id FROM graphrag.jobs j WHERE j.corpus_id = $1 AND j.kind = 'remove') g
          JOIN graphrag.chunks c ON c.document_id = g.document_id
         WHERE c.corpus_id = $1
           AND NOT EXISTS (SELECT FROM graphrag.jobs j WHERE j.corpus_id = $1 AND j.kind = 'sweep')""",
    "the chunks of a document are the document": f"""
        SELECT {_DOCUMENT} AS object, f.detail
          FROM (SELECT d.id, d.source_key, d.content FROM graphrag.documents d
                 WHERE d.corpus_id = $1 AND d.indexed_hash = d.content_hash
                   -- Another system may have left out white space, or more.
                   AND NOT EXISTS (SELECT FROM graphrag.imported_extractions i WHERE i.document_id = d.id)) d
         CROSS JOIN LATERAL (
               SELECT pg_catalog.count(*) AS chunks,
                      coalesce(pg_catalog.max(x.end_offset), 0) AS covered,
                      pg_catalog.bool_or(x.ordinal <> x.place) AS misnumbered,
                      pg_catalog.bool_or(x.own_offset <> x.before OR x.start_offset > x.before) AS gaps,
                      -- Own parts are the document, and what a chunk shares with the one before is that one's end. Were each
                      -- looked up in the document, time would grow by the square of its length.
                      pg_catalog.string_agg(pg_catalog.substr(x.content, x.shared + 1), '' ORDER BY x.ordinal) <> d.content
                      OR pg_catalog.bool_or(
                          pg_catalog.char_length(x.content) <> x.end_offset - x.start_offset
                          OR pg_catalog.left(x.content, x.shared)
                             <> CASE WHEN x.start_offset >= x.start_before THEN pg_catalog.right(x.content_before, x.shared)
                                     ELSE pg_catalog.substr(d.content, x.start_offset + 1, x.shared) END) AS other
                 FROM (SELECT c.ordinal, c.start_offset, c.own_offset, c.end_offset, c.content,
                              greatest(c.own_offset - c.start_offset, 0) AS shared,
                              pg_catalog.row_number() OVER ordered - 1 AS place,
                              coalesce(pg_catalog.lag(c.end_offset) OVER ordered, 0) AS before,
                              pg_catalog.lag(c.start_offset) OVER ordered AS start_before,
                              pg_catalog.lag(c.content) OVER ordered AS content_before
                         FROM graphrag.chunks c
                        WHERE c.document_id = d.id AND c.picture_id IS NULL
                       WINDOW ordered AS (ORDER BY c.ordinal)) x) g
         CROSS JOIN LATERAL (
               SELECT CASE WHEN g.chunks = 0 THEN NULL
                           WHEN g.misnumbered THEN 'a chunk is missing'
                           WHEN g.gaps THEN 'the chunks leave a gap, or overlap in their own parts'
                           WHEN g.covered <> pg_catalog.char_length(d.content) THEN pg_catalog.format(
                                'the chunks end at %s of %s characters', g.covered, pg_catalog.char_length(d.content))
                           WHEN g.other THEN 'a chunk has other text than the document' END AS detail) f
         WHERE f.detail IS NOT NULL""",
    "pictures are of documents, and indexed with them": """
        SELECT pg_catalog.format('document %s', d.id) AS object, 'it is of other pictures: graphrag.repair()' AS detail
          FROM graphrag.documents d
         WHERE d.corpus_id = $1
           AND (d.pictures_hash IS NOT NULL OR EXISTS (SELECT FROM graphrag.pictures p WHERE p.document_id = d.id))
           AND d.pictures_hash IS DISTINCT FROM graphrag._pictures_hash(d.id)
         UNION ALL
        SELECT pg_catalog.format('picture %s of document %s', p.id, p.document_id),
               'there is no such document in its corpus: graphrag.repair()'
          FROM graphrag.pictures p
         WHERE p.corpus_id = $1
           AND NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.id = p.document_id AND d.corpus_id = p.corpus_id)
         UNION ALL
        SELECT pg_catalog.format('chunk %s of document %s', c.id, c.document_id), 'its picture is not there'
          FROM graphrag.chunks c
          JOIN graphrag.documents d ON d.id = c.document_id AND d.indexed_hash = d.content_hash
         WHERE c.corpus_id = $1 AND c.picture_id IS NOT NULL
           AND NOT EXISTS (SELECT FROM graphrag.pictures p WHERE p.id = c.picture_id AND p.document_id = c.document_id)""",
    "windows partition the own part of their chunk": f"""
        SELECT {_CHUNK} AS object, f.detail
          FROM (SELECT c.id, c.document_id, c.corpus_id, c.own_offset, c.end_offset,
                       pg_catalog.count(w.id) AS windows,
                       pg_catalog.min(w.start_offset) AS first,
                       pg_catalog.max(w.end_offset) AS last,
                       pg_catalog.sum(w.end_offset - w.start_offset) AS length,
                       pg_catalog.max(w.ordinal) AS highest,
                       pg_catalog.bool_or((w.document_id, w.corpus_id) <> (c.document_id, c.corpus_id)) AS astray,
                       pg_catalog.bool_or(w.before > w.start_offset) AS overlap
                  FROM graphrag.chunks c
                  LEFT JOIN (SELECT w.*, pg_catalog.lag(w.end_offset) OVER (PARTITION BY w.chunk_id ORDER BY w.ordinal) AS before
                               FROM graphrag.chunk_windows w WHERE w.corpus_id = $1) w ON w.chunk_id = c.id
                 WHERE c.corpus_id = $1
                 GROUP BY c.id) c
         CROSS JOIN LATERAL (
               SELECT CASE WHEN c.windows = 0 THEN CASE WHEN c.own_offset < c.end_offset THEN 'has no windows' END
                           WHEN c.astray THEN 'a window names another document or corpus'
                           WHEN c.overlap OR c.highest + 1 <> c.windows OR c.first <> c.own_offset OR c.last <> c.end_offset
                                OR c.length <> c.end_offset - c.own_offset THEN 'its windows leave a gap or overlap'
                           END AS detail) f
         WHERE f.detail IS NOT NULL""",
    "what refers to a chunk names its document": """
        SELECT pg_catalog.format('%s %s', x.what, x.id) AS object,
               pg_catalog.format('names document %s and corpus %s; its chunk %s does not', x.document_id, x.corpus_id, x.chunk_id)
                   AS detail
          FROM (SELECT 'entity mention' AS what, m.id, m.chunk_id, m.document_id, m.corpus_id FROM graphrag.entity_mentions m
                 UNION ALL
                SELECT 'relationship mention', m.id, m.chunk_id, m.document_id, m.corpus_id FROM graphrag.relationship_mentions m
                 UNION ALL
                SELECT 'claim', m.id, m.chunk_id, m.document_id, m.corpus_id FROM graphrag.claims m) x
          LEFT JOIN graphrag.chunks c ON c.id = x.chunk_id
         WHERE (x.corpus_id = $1 OR c.corpus_id = $1)
           AND (x.document_id, x.corpus_id) IS DISTINCT FROM (c.document_id, c.corpus_id)""",
    "a mention stands in its chunk, and in windows of it": """
        SELECT pg_catalog.format('%s mention %s', m.what, m.id) AS object,
               pg_catalog.format('stands at %s to %s, in windows {%s}; its chunk is %s to %s, and has %s windows',
                                 m.start_offset, m.end_offset, pg_catalog.array_to_string(m.windows, ', '), c.start_offset,
                                 c.end_offset, c.windows) AS detail
          FROM (SELECT 'entity' AS what, m.id, m.chunk_id, m.start_offset, m.end_offset, m.windows
                  FROM graphrag.entity_mentions m WHERE m.corpus_id = $1
                 UNION ALL
                SELECT 'relationship', m.id, m.chunk_id, m.start_offset, m.end_offset, m.windows
                  FROM graphrag.relationship_mentions m WHERE m.corpus_id = $1) m
          JOIN (SELECT c.id, c.start_offset, c.end_offset, pg_catalog.count(w.id) AS windows
                  FROM graphrag.chunks c
                  LEFT JOIN graphrag.chunk_windows w ON w.chunk_id = c.id
                 WHERE c.corpus_id = $1
                 GROUP BY c.id) c ON c.id = m.chunk_id
         WHERE (m.start_offset IS NULL) <> (m.end_offset IS NULL)
            OR m.start_offset < c.start_offset OR m.end_offset > c.end_offset OR m.start_offset > m.end_offset
            OR m.windows[1] < 0 OR m.windows[pg_catalog.cardinality(m.windows)] >= c.windows
            OR pg_catalog.array_position(m.windows, NULL) IS NOT NULL""",
    "a name of a row has the row's own entity beside it": """
        SELECT pg_catalog.format('entity mention %s', m.id) AS object,
               pg_catalog.format('is a name of “%s”, which its chunk does not mention', m.name_of) AS detail
          FROM graphrag.entity_mentions m
         WHERE m.corpus_id = $1 AND m.name_of IS NOT NULL
           AND NOT EXISTS (SELECT FROM graphrag.entity_mentions o WHERE o.chunk_id = m.chunk_id AND o.raw_key = m.name_of)""",
    # Digests of eight bytes, ascending, each as often as it counts; none where a model read a chunk and NLP finds nothing in it.
    "the concepts of a chunk can be read": f"""
        SELECT {_CHUNK} AS object, 'concepts are not whole, in order and at most {MAX_TF} times there' AS detail
          FROM graphrag.chunks c
         WHERE c.corpus_id = $1
           AND (pg_catalog.octet_length(c.concepts) % 8 <> 0
                OR EXISTS (SELECT FROM (SELECT pg_catalog.substr(c.concepts, 1 + 8 * n.place, 8) AS digest, n.place
                                          FROM pg_catalog.generate_series(0, pg_catalog.octet_length(c.concepts) / 8 - 1)
                                               AS n (place)) x
                            WHERE x.digest < pg_catalog.substr(c.concepts, 8 * x.place - 7, 8) AND x.place > 0
                               OR x.digest = pg_catalog.substr(c.concepts, 1 + 8 * (x.place + {MAX_TF}), 8)))""",
    "an attached table is there, and can be followed": """
        SELECT s.attached_table AS object, pg_catalog.format('is %s: %s', s.state, s.detail) AS detail
          FROM graphrag._attached_states s
          JOIN graphrag.corpora c ON c.name = s.corpus
         WHERE c.id = $1 AND s.state IN ('dropped', 'missing', 'broken')""",
    "a corpus with chunks has a revision": """
        SELECT pg_catalog.format('corpus %s', $1) AS object, 'sessions cannot see that its vectors change' AS detail
         WHERE EXISTS (SELECT FROM graphrag.chunks c WHERE c.corpus_id = $1)
           AND NOT EXISTS (SELECT FROM graphrag.corpus_revisions r WHERE r.corpus_id = $1)""",
    "progress counts what there is": """
        SELECT pg_catalog.format('corpus %s', $1) AS object,
               pg_catalog.format('%s %s are counted, there are %s: graphrag.repair()',
                                 coalesce(k.count, 0), coalesce(t.kind, k.kind), coalesce(t.count, 0)) AS detail
          FROM (SELECT 'documents ' || d.status AS kind, pg_catalog.count(*) AS count
                  FROM graphrag.documents d WHERE d.corpus_id = $1 GROUP BY d.status
                 UNION ALL
                SELECT 'searchable documents', pg_catalog.count(*)
                  FROM graphrag.documents d WHERE d.corpus_id = $1 AND d.indexed_hash = d.content_hash
                 UNION ALL
                SELECT 'chunks', pg_catalog.count(*) FROM graphrag.chunks c WHERE c.corpus_id = $1
                 UNION ALL
                SELECT 'entities', pg_catalog.count(*) FROM graphrag.entities e WHERE e.corpus_id = $1
                 UNION ALL
                SELECT 'relationships', pg_catalog.count(*) FROM graphrag.relationships r WHERE r.corpus_id = $1) t
          FULL JOIN (SELECT 'documents ' || x.status AS kind, pg_catalog.sum(x.count) AS count
                       FROM graphrag._document_counts x WHERE x.corpus_id = $1 GROUP BY x.status
                      UNION ALL
                     SELECT 'searchable documents', pg_catalog.sum(x.count)
                       FROM graphrag._document_counts x WHERE x.corpus_id = $1 AND x.is_searchable
                      UNION ALL
                     SELECT x.relation, pg_catalog.sum(x.count)
                       FROM graphrag._index_counts x WHERE x.corpus_id = $1 GROUP BY x.relation) k
            ON k.kind = t.kind
         WHERE coalesce(k.count, 0) <> coalesce(t.count, 0)""",
}
# The chunks of a document without jobs follow its corpus' options.
_CUT = """
SELECT d.content, i.document_id IS NOT NULL AS is_imported, c.*
  FROM (SELECT d.id FROM graphrag.documents d WHERE d.corpus_id = $1 AND d.indexed_hash = d.content_hash
        EXCEPT SELECT j.document_id FROM graphrag.jobs j WHERE j.corpus_id = $1) u
  JOIN graphrag.documents d ON d.id = u.id
  LEFT JOIN graphrag.imported_extractions i ON i.document_id = d.id AND i.content_hash = d.content_hash
 CROSS JOIN LATERAL (SELECT pg_catalog.array_agg(o.id) AS ids, pg_catalog.array_agg(o.start_offset) AS starts,
                            pg_catalog.array_agg(o.end_offset) AS ends, pg_catalog.array_agg(o.language) AS languages,
                            pg_catalog.array_agg(o.token_count) AS token_counts
                       FROM (SELECT x.* FROM graphrag.chunks x WHERE x.document_id = d.id AND x.picture_id IS NULL
                              ORDER BY x.ordinal) o) c
 WHERE c.ids IS NOT NULL
"""
_WITHOUT_CHUNKS = f"""
SELECT {_DOCUMENT} AS object, d.content,
       (SELECT pg_catalog.string_agg(
                   pg_catalog.concat(p.caption, p.alternative_text, p.description, p.recognised_text), '')
          FROM graphrag.pictures p WHERE p.document_id = d.id) AS of_pictures
  FROM graphrag.documents d
 WHERE d.corpus_id = $1 AND d.indexed_hash = d.content_hash
   AND NOT EXISTS (SELECT FROM graphrag.chunks c WHERE c.document_id = d.id)
"""
_SEQUENCES = """
SELECT a.attrelid::regclass::text AS relation,
       pg_catalog.pg_get_serial_sequence(a.attrelid::regclass::text, a.attname) AS sequence
  FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
 WHERE c.relnamespace = 'graphrag'::regnamespace AND c.relkind = 'r' AND a.attidentity <> '' AND a.attname = 'id'
 ORDER BY 1
"""


def check(db: Database, corpus: Corpus) -> Iterator[tuple[str, Iterator[tuple[str, str]]]]:
    """Yield each invariant with its violations."""
    for invariant, sql in _STATEMENTS.items():
        yield invariant, violations(db, sql, ["int4"], [corpus.id])
    yield "language and tokens of a chunk are those of its text", _languages_and_tokens(db, corpus)
    yield "a document with text has chunks", _without_chunks(db, corpus)
    yield "sequences are beyond the numbers in use", _sequences(db)


def _languages_and_tokens(db: Database, corpus: Corpus) -> Iterator[tuple[str, str]]:
    try:
        ranks, language = tokenizer(corpus.tokenizer, corpus.tokenizer_fingerprint), corpus.options.language
    except GraphRAGError as error:
        yield f'corpus "{corpus.name}"', f"cannot be compared: {error}"
        return
    for row in db.stream(_CUT, ["int4"], [corpus.id], _FETCH):
        text, spans = row["content"], [*zip(row["starts"], row["ends"], strict=True)]
        texts = [text[start:end] for start, end in spans]
        counts = map(ranks.count, texts) if row["is_imported"] else token_counts(text, ranks, spans)
        chunks = zip(row["ids"], row["languages"], row["token_counts"], texts, counts, strict=True)
        for number, of, tokens, own, count in chunks:
            expected = detect(own) if language == "auto" else language
            if (of, tokens) != (expected, count):
                yield f"chunk {number}", f"is “{of}” of {tokens} tokens, should be “{expected}” of {count}"


def _without_chunks(db: Database, corpus: Corpus) -> Iterator[tuple[str, str]]:
    # White space alone makes no chunk; what that is, the worker says.
    for row in db.stream(_WITHOUT_CHUNKS, ["int4"], [corpus.id]):
        if row["content"].strip() or (row["of_pictures"] or "").strip():
            yield row["object"], "has none"


def _sequences(db: Database) -> Iterator[tuple[str, str]]:
    for row in db.query(_SEQUENCES):
        (languages,) = db.query(
            f"SELECT (SELECT pg_catalog.max(t.id) FROM {row['relation']} t) AS used,"
            f" pg_catalog.pg_sequence_last_value('{row['sequence']}'::regclass) AS last"
        )
        if languages["used"] is not None and languages["used"] > (languages["last"] or 0):
            yield str(row["sequence"]), f"is at {languages['last']}; {row['relation']} has {languages['used']}"
