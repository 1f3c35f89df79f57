-- What a person or a monitor asks first. With the owner's rights, for pg_monitor; an error's text may quote a document or a model, and
-- a key is the application's: whoever is not the owner is told the kind of error alone.
CREATE VIEW graphrag.progress AS
SELECT c.name AS corpus,
       d.documents,
       d.indexed,
       d.pending,
       d.failed,
       i.chunks,
       i.entities,
       i.relationships,
       j.jobs,
       j.leased,
       j.oldest_pending,
       j.waiting,
       j.waiting_until,
       j.waiting_for,
       (SELECT pg_catalog.count(x.id)
          FROM graphrag.embedding_spaces s
          LEFT JOIN graphrag.jobs y ON y.corpus_id = s.corpus_id AND y.kind = 'reembed' AND (y.payload ->> 'space')::int = s.id
          LEFT JOIN graphrag.chunks x ON x.corpus_id = s.corpus_id AND x.id <= (y.payload ->> 'chunk')::bigint
         WHERE s.corpus_id = c.id AND s.state = 'building'
        HAVING pg_catalog.count(*) > 0) AS reembedded,
       CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.now() - pg_catalog.pg_last_xact_replay_timestamp() END AS replication_lag,
       d.searchable,
       s.embedding,
       CASE WHEN s.embedding = 'all-MiniLM-L6-v2' THEN (
            SELECT pg_catalog.format('%s of the last %s chunks are in other languages than English, and found by words alone: SELECT graphrag.reembed(%L, %L)',
                                     x.foreign_chunks, x.chunks, c.name, '{"model": "multilingual-e5-small"}')
              FROM (SELECT pg_catalog.count(*) FILTER (WHERE y.language <> 'en') AS foreign_chunks, pg_catalog.count(*) AS chunks
                      FROM (SELECT z.language FROM graphrag.chunks z WHERE z.corpus_id = c.id ORDER BY z.id DESC LIMIT 100) y) x
             WHERE x.foreign_chunks > 0.1 * x.chunks) END AS embedding_advice,
       j.vectors_pending,
       j.graphs_pending,
       d.retracted,
       (SELECT pg_catalog.count(*) FROM graphrag.chunks x WHERE x.corpus_id = c.id AND x.extraction = 'stood in') AS stood_in
  FROM graphrag.corpora c
  LEFT JOIN LATERAL (
       SELECT CASE WHEN x.provider = 'local' THEN x.model ELSE x.provider || ': ' || x.model END AS embedding
         FROM graphrag.embedding_spaces x
        WHERE x.corpus_id = c.id AND x.state = 'active') s ON true
 CROSS JOIN LATERAL (
       SELECT coalesce(pg_catalog.sum(x.count), 0)::bigint                                      AS documents,
              coalesce(pg_catalog.sum(x.count) FILTER (WHERE x.status = 'indexed'), 0)::bigint  AS indexed,
              coalesce(pg_catalog.sum(x.count) FILTER (WHERE x.status = 'pending'), 0)::bigint  AS pending,
              coalesce(pg_catalog.sum(x.count) FILTER (WHERE x.status = 'failed'), 0)::bigint   AS failed,
              coalesce(pg_catalog.sum(x.count) FILTER (WHERE x.status = 'retracted'), 0)::bigint AS retracted,
              coalesce(pg_catalog.sum(x.count) FILTER (WHERE x.is_searchable), 0)::bigint       AS searchable
         FROM graphrag._document_counts x
        WHERE x.corpus_id = c.id) d
 CROSS JOIN LATERAL (
       SELECT coalesce(pg_catalog.sum(x.count) FILTER (WHERE x.relation = 'chunks'), 0)::bigint         AS chunks,
              coalesce(pg_catalog.sum(x.count) FILTER (WHERE x.relation = 'entities'), 0)::bigint       AS entities,
              coalesce(pg_catalog.sum(x.count) FILTER (WHERE x.relation = 'relationships'), 0)::bigint  AS relationships
         FROM graphrag._index_counts x
        WHERE x.corpus_id = c.id) i
 CROSS JOIN LATERAL (
       SELECT pg_catalog.count(*) FILTER (WHERE x.state <> 'failed')           AS jobs,
              pg_catalog.count(*) FILTER (WHERE x.held)                        AS waiting,
              nullif(pg_catalog.min(x.next_attempt_at) FILTER (WHERE x.held), 'infinity') AS waiting_until,
              -- Of the one that goes next: the others wait for the same, nearly always.
              (pg_catalog.array_agg(CASE WHEN o.is_owner THEN x.last_error ELSE pg_catalog.substring(x.last_error, '^([A-Za-z]+):') END
                                    ORDER BY x.next_attempt_at, x.id) FILTER (WHERE x.held))[1] AS waiting_for,
              pg_catalog.count(*) FILTER (WHERE x.state = 'leased')            AS leased,
              pg_catalog.min(x.created_at) FILTER (WHERE x.state <> 'failed')  AS oldest_pending,
              coalesce(pg_catalog.sum(pg_catalog.upper(x.chunks) - pg_catalog.lower(x.chunks)) FILTER (WHERE x.kind = 'embed'), 0)::bigint AS vectors_pending,
              coalesce(pg_catalog.sum(pg_catalog.upper(x.chunks) - pg_catalog.lower(x.chunks)) FILTER (WHERE x.kind = 'graph'), 0)::bigint AS graphs_pending
         FROM (SELECT y.*, y.state = 'pending' AND y.last_error IS NOT NULL AND y.next_attempt_at > pg_catalog.now() AS held
                 FROM graphrag.jobs y
                WHERE y.corpus_id = c.id) x,
              (SELECT pg_catalog.pg_has_role(e.extowner, 'USAGE') AS is_owner FROM pg_catalog.pg_extension e WHERE e.extname = 'pg_graphrag') o) j;

COMMENT ON VIEW graphrag.progress IS 'One row per corpus: how far indexing is';
COMMENT ON COLUMN graphrag.progress.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.progress.documents IS 'Documents in all';
COMMENT ON COLUMN graphrag.progress.indexed IS 'Documents whose current content is indexed, text and graph';
COMMENT ON COLUMN graphrag.progress.pending IS 'Documents queued';
COMMENT ON COLUMN graphrag.progress.failed IS 'Documents that failed (see failed_jobs)';
COMMENT ON COLUMN graphrag.progress.chunks IS 'Chunks';
COMMENT ON COLUMN graphrag.progress.entities IS 'Entities';
COMMENT ON COLUMN graphrag.progress.relationships IS 'Relationships';
COMMENT ON COLUMN graphrag.progress.jobs IS 'Jobs that wait or are at work';
COMMENT ON COLUMN graphrag.progress.leased IS 'Jobs at work';
COMMENT ON COLUMN graphrag.progress.oldest_pending IS 'Time the oldest of these was queued';
COMMENT ON COLUMN graphrag.progress.waiting IS 'Jobs that wait after a fault: of the document, of a provider (time-out, rate limit, key), of the server (disk, memory, lock), for a budget, or for answers by batch';
COMMENT ON COLUMN graphrag.progress.waiting_until IS 'Time of the next retry among these; retry_failed() retries them at once. Null if all wait for somebody''s action';
COMMENT ON COLUMN graphrag.progress.waiting_for IS 'Reason of the wait: the last error; for others than the owner, its kind';
COMMENT ON COLUMN graphrag.progress.reembedded IS 'While reembed() is at work: chunks with vectors of the new model; else null';
COMMENT ON COLUMN graphrag.progress.replication_lag IS 'On a hot standby: age of the last replayed change';
COMMENT ON COLUMN graphrag.progress.searchable IS 'Documents whose current text is searchable; pending or failed ones among them lack their graph';
COMMENT ON COLUMN graphrag.progress.embedding IS 'Embedding model of the searched vectors: a local one''s name, or provider and name; null before the first document';
COMMENT ON COLUMN graphrag.progress.embedding_advice IS 'Why another embedding model would find more, and how to change to it; null if the model fits the last chunks';
COMMENT ON COLUMN graphrag.progress.vectors_pending IS 'Chunks of long documents without vectors yet; workers do them in parts, after the text';
COMMENT ON COLUMN graphrag.progress.graphs_pending IS 'Chunks of long documents without a graph yet; workers do them in parts, after the vectors';
COMMENT ON COLUMN graphrag.progress.retracted IS 'Retracted documents: rows without an index';
COMMENT ON COLUMN graphrag.progress.stood_in IS 'Chunks with the NLP extractor''s graph because the model''s replies were unusable; reindex(corpus, extraction => ''stood in'') asks again';

CREATE VIEW graphrag.failed_jobs AS
SELECT j.id AS job_id,
       c.name AS corpus,
       j.kind,
       j.document_id,
       CASE WHEN o.is_owner THEN d.source_key END AS source_key,
       j.attempts,
       CASE WHEN o.is_owner THEN j.last_error ELSE pg_catalog.substring(j.last_error, '^([A-Za-z]+):') END AS last_error,
       j.created_at
  FROM graphrag.jobs j
  JOIN graphrag.corpora c ON c.id = j.corpus_id
  LEFT JOIN graphrag.documents d ON d.id = j.document_id
 CROSS JOIN (SELECT pg_catalog.pg_has_role(e.extowner, 'USAGE') AS is_owner FROM pg_catalog.pg_extension e WHERE e.extname = 'pg_graphrag') o
 WHERE j.state = 'failed';

COMMENT ON VIEW graphrag.failed_jobs IS 'Dead letters: jobs that will not be tried again before retry_failed()';
COMMENT ON COLUMN graphrag.failed_jobs.job_id IS 'Number of the job';
COMMENT ON COLUMN graphrag.failed_jobs.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.failed_jobs.kind IS 'Kind of job';
COMMENT ON COLUMN graphrag.failed_jobs.document_id IS 'Document, if the job is about one';
COMMENT ON COLUMN graphrag.failed_jobs.source_key IS 'The application''s key of that document; null for others than the owner';
COMMENT ON COLUMN graphrag.failed_jobs.attempts IS 'Attempts made';
COMMENT ON COLUMN graphrag.failed_jobs.last_error IS 'Error of the last one; for others than the owner, its kind';
COMMENT ON COLUMN graphrag.failed_jobs.created_at IS 'Time the job was queued';
