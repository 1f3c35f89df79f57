-- What needs somebody. With the owner's rights, for pg_monitor: numbers and names; of an error its kind alone.
CREATE VIEW graphrag._health AS
WITH alive AS MATERIALIZED (
    SELECT coalesce(pg_catalog.array_agg(w.worker), '{}') AS workers FROM graphrag._workers w
), due AS (
    SELECT pg_catalog.count(*) AS jobs, pg_catalog.now() - pg_catalog.min(j.next_attempt_at) AS age
      FROM graphrag.jobs j
     WHERE j.state = 'pending' AND j.next_attempt_at <= pg_catalog.now()
       AND NOT EXISTS (SELECT FROM graphrag.corpora c WHERE c.id = j.corpus_id AND c.move IS NOT NULL)
)
SELECT CASE WHEN d.age > '15 minutes' THEN 'error' ELSE 'warning' END AS severity,
       'queue' AS subject,
       pg_catalog.format('%s jobs are due, the first for %s; workers at it: %s', d.jobs, pg_catalog.date_trunc('second', d.age),
                         CASE WHEN pg_catalog.pg_is_in_recovery() THEN 'see the primary'
                              ELSE pg_catalog.cardinality(a.workers)::text END) AS detail,
       CASE WHEN pg_catalog.pg_is_in_recovery() THEN 'health() of the primary says more: its workers do not show on a standby.'
            WHEN a.workers = '{}' THEN 'Start a worker: pg-graphrag worker, graphrag.schedule_worker() or CALL graphrag.process_jobs().'
            ELSE 'Start more workers, one for each processor, or wait.' END AS hint
  FROM due d, alive a
 WHERE d.age > '2 minutes'
 UNION ALL
SELECT 'warning', pg_catalog.format('corpus "%s"', c.name),
       pg_catalog.format('%s jobs failed for good; kinds of errors: %s', pg_catalog.count(*),
                         pg_catalog.string_agg(DISTINCT coalesce(pg_catalog.substring(j.last_error, '^([A-Za-z]+):'), 'other'), ', ')),
       'graphrag.failed_jobs has them; graphrag.retry_failed() tries them again.'
  FROM graphrag.jobs j
  JOIN graphrag.corpora c ON c.id = j.corpus_id
 WHERE j.state = 'failed' AND j.last_error NOT LIKE 'Unembeddable:%' AND c.move IS NULL
 GROUP BY c.name
 UNION ALL
SELECT 'warning', pg_catalog.format('corpus "%s"', c.name),
       pg_catalog.format('%s documents are indexed without some vectors: the endpoint has none of these texts', pg_catalog.count(*)),
       'graphrag.failed_jobs says of which, and why; the text is found by its words. graphrag.retry_failed() asks again.'
  FROM graphrag.jobs j
  JOIN graphrag.corpora c ON c.id = j.corpus_id
 WHERE j.state = 'failed' AND j.last_error LIKE 'Unembeddable:%' AND c.move IS NULL
 GROUP BY c.name
 UNION ALL
SELECT 'warning', pg_catalog.format('corpus "%s"', k.name),
       pg_catalog.format('%s chunks have the graph that NLP finds, as nothing of the model''s replies could be used; most often: %s', s.chunks, s.reason),
       pg_catalog.format('Set a larger model, then ask again: SELECT graphrag.reindex(%L, extraction => ''stood in''). graphrag.unfit_extractions has what the model said.', k.name)
  FROM (SELECT c.corpus_id, pg_catalog.count(*) AS chunks,
               pg_catalog.mode() WITHIN GROUP (ORDER BY c.unfit -> 0 ->> 'reason') AS reason
          FROM graphrag.chunks c WHERE c.extraction = 'stood in' GROUP BY c.corpus_id) s
  JOIN graphrag.corpora k ON k.id = s.corpus_id
 UNION ALL
SELECT 'warning', pg_catalog.format('corpus "%s"', k.name),
       pg_catalog.format('%s chunks have a part of the model''s reply, and what NLP finds besides: it was cut off', s.chunks),
       pg_catalog.format('Raise llm.max_output_tokens or set a larger model, then ask again: SELECT graphrag.reindex(%L, extraction => ''stood in'').', k.name)
  FROM (SELECT c.corpus_id, pg_catalog.count(*) AS chunks FROM graphrag.chunks c
         WHERE c.extraction = 'cut off' GROUP BY c.corpus_id) s
  JOIN graphrag.corpora k ON k.id = s.corpus_id
 UNION ALL
SELECT 'warning', 'leases', pg_catalog.format('%s jobs are of workers that are gone', pg_catalog.count(*)),
       'The next worker takes them over: CALL graphrag.process_jobs().'
  FROM graphrag.jobs j, alive a
 WHERE j.state = 'leased' AND j.lease <> ALL (a.workers) AND NOT pg_catalog.pg_is_in_recovery()
HAVING pg_catalog.count(*) > 0
 UNION ALL
SELECT 'error', 'disk', pg_catalog.format('was full when workers wrote; %s jobs wait for room', pg_catalog.count(*)),
       'Make room on the server. They are tried again by themselves; graphrag.retry_failed() tries them at once.'
  FROM graphrag.jobs j
 WHERE j.state = 'pending' AND j.last_error LIKE 'DiskFull:%'
HAVING pg_catalog.count(*) > 0
 UNION ALL
SELECT 'warning', pg_catalog.format('provider "%s"', s.provider),
       pg_catalog.format('is not asked before %s, after %s failures: %s', pg_catalog.date_trunc('second', s.open_until), s.failures,
                         coalesce(pg_catalog.substring(s.last_error, '^([A-Za-z]+):'), 'other')),
       'Its jobs wait and are tried again by themselves; graphrag.retry_failed() tries them at once.'
  FROM graphrag.provider_state s
 WHERE s.open_until > pg_catalog.now()
 UNION ALL
-- Between two attempts the endpoint counts as well; what it fails at counts for no job.
SELECT 'warning', pg_catalog.format('corpus "%s"', c.name),
       pg_catalog.format('%s jobs wait for an endpoint, the first for %s: %s', pg_catalog.count(*), pg_catalog.date_trunc('second', pg_catalog.now() - pg_catalog.min(j.created_at)),
                         pg_catalog.string_agg(DISTINCT pg_catalog.substring(j.last_error, '^([A-Za-z]+):'), ', ')),
       'SELECT graphrag.check_provider(…) asks it; graphrag.set_provider() says where it is, graphrag.retry_failed() tries them at once.'
  FROM graphrag.jobs j
  JOIN graphrag.corpora c ON c.id = j.corpus_id
 WHERE j.state = 'pending' AND j.errors = 0 AND j.created_at < pg_catalog.now() - '15 minutes'::interval
   AND (j.last_error LIKE 'ProviderFault:%' OR j.last_error LIKE 'TimedOut:%')
 GROUP BY c.name
 UNION ALL
SELECT CASE b.state WHEN 'reached' THEN 'error' ELSE 'warning' END, pg_catalog.format('budget of corpus "%s"', b.corpus),
       pg_catalog.format('%s of %s are spent this month', pg_catalog.round(greatest(b.spent, b.metered), 4), b.budget),
       'Work waits when it is spent. Raise llm.monthly_budget with graphrag.alter_corpus(…), or wait for the next month.'
  FROM graphrag.budgets b
 WHERE b.budget IS NOT NULL AND (b.state = 'reached' OR greatest(b.spent, b.metered) >= 0.8 * b.budget)
 UNION ALL
SELECT CASE WHEN s.state IN ('behind', 'waiting', 'failing', 'dropped') THEN 'warning' ELSE 'error' END, 'attached table ' || s.attached_table,
       pg_catalog.format('of corpus "%s" is %s%s', s.corpus, s.state,
                         CASE WHEN s.has_defect OR s.state IN ('missing', 'dropped') THEN ': ' || s.detail
                              WHEN s.state = 'failing' THEN ': ' || coalesce(s.error_kind, 'other')
                              WHEN s.error_code IS NOT NULL THEN ': SQLSTATE ' || s.error_code ELSE '' END),
       CASE WHEN s.state IN ('missing', 'dropped', 'failing') THEN s.hint
            ELSE 'graphrag.attached_tables says why, to the owner of the table; CALL graphrag.backfill_table() brings it up to date.' END
  FROM graphrag._attached_states s
 WHERE s.state IN ('missing', 'broken', 'dropped', 'failing') OR s.state IN ('behind', 'waiting') AND s.behind_since < pg_catalog.now() - '15 minutes'::interval
 UNION ALL
-- Triggers come with a dump's schema, attachments with its data.
SELECT DISTINCT 'warning', pg_catalog.format('table %I.%I', n.nspname, c.relname),
       'has the triggers of an attachment that is not there, as after a restore without data: no document follows it',
       'Attach it with graphrag.attach_table(…), or drop its triggers graphrag_….'
  FROM (SELECT DISTINCT t.tgrelid, t.tgfoid
          FROM pg_catalog.pg_trigger t
          JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid AND p.pronamespace = 'graphrag_attached'::pg_catalog.regnamespace
         WHERE t.tgparentid = 0 AND p.proname OPERATOR(pg_catalog.~) '^_changed_[0-9]+$'
           AND NOT EXISTS (SELECT FROM graphrag._attached_tables a WHERE p.proname = '_changed_' || a.id)) x
  JOIN pg_catalog.pg_class c ON c.oid = x.tgrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 -- Of partitions their table alone.
 WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_inherits i
                     JOIN pg_catalog.pg_trigger t ON t.tgrelid = i.inhparent AND t.tgfoid = x.tgfoid
                    WHERE i.inhrelid = x.tgrelid)
 UNION ALL
SELECT 'warning', 'attached table ' || u.attached_table,
       pg_catalog.format('of corpus "%s" shows no row to %s, who may read the corpus', c.name, u.readers),
       u.mend
  FROM graphrag._unseen_rows u
  JOIN graphrag._attached_tables a ON a.id = u.attached_id
  JOIN graphrag.corpora c ON c.id = a.corpus_id
 UNION ALL
SELECT 'warning', 'replication', pg_catalog.format('this standby has replayed nothing for %s', pg_catalog.date_trunc('second', s.lag)),
       'Nothing was written since, or replication is behind: see pg_stat_replication on the primary.'
  FROM (SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.now() - pg_catalog.pg_last_xact_replay_timestamp() END AS lag) s
 WHERE s.lag > '5 minutes'
 UNION ALL
-- Of what everybody may read: how a subscription connects, with its password, only superusers may.
SELECT c.severity, pg_catalog.format('subscription "%s"', s.name), c.detail, c.hint
  FROM (SELECT u.subname AS name, u.subenabled AS is_enabled, u.subslotname AS slot, t.tables, t.unready, t.example, w.latest_end_time,
               coalesce(e.apply_error_count, 0) AS apply_errors, coalesce(e.sync_error_count, 0) AS copy_errors,
               w.pid IS NULL OR w.latest_end_time IS NULL AND e.apply_error_count > 0 AS is_stopped,
               pg_catalog.now() - w.last_msg_send_time AS lag,
               pg_catalog.pg_size_pretty(pg_catalog.pg_wal_lsn_diff(w.latest_end_lsn, w.received_lsn)) AS bytes
          FROM pg_catalog.pg_subscription u
          JOIN pg_catalog.pg_database d ON d.oid = u.subdbid AND d.datname = pg_catalog.current_database()
         CROSS JOIN LATERAL (
               SELECT pg_catalog.count(*) AS tables, pg_catalog.count(*) FILTER (WHERE r.srsubstate <> 'r') AS unready,
                      pg_catalog.min(r.srrelid::pg_catalog.regclass::text) FILTER (WHERE r.srsubstate <> 'r') AS example
                 FROM pg_catalog.pg_subscription_rel r
                WHERE r.srsubid = u.oid
                  AND (r.srrelid = 'graphrag.documents'::pg_catalog.regclass
                       OR EXISTS (SELECT FROM graphrag._attached_tables a WHERE a.relation = ANY (graphrag_attached._above(r.srrelid))))) t
          LEFT JOIN pg_catalog.pg_stat_subscription w ON w.subid = u.oid AND w.relid IS NULL AND w.leader_pid IS NULL
          LEFT JOIN pg_catalog.pg_stat_subscription_stats e ON e.subid = u.oid
         WHERE t.tables > 0) s
 CROSS JOIN LATERAL (
       SELECT 'error' AS severity, pg_catalog.format('is disabled: nothing of its publisher comes, and the slot "%s" there keeps its log', s.slot) AS detail,
              pg_catalog.format('Where the cause is mended: ALTER SUBSCRIPTION %I ENABLE.', s.name) AS hint
        WHERE NOT s.is_enabled
        UNION ALL
       SELECT 'error', pg_catalog.format('has no worker that comes through: %s errors so far; the slot "%s" of the publisher keeps its log', s.apply_errors, s.slot),
              CASE WHEN s.apply_errors = 0 THEN 'The publisher does not answer, or max_logical_replication_workers are at work: the server''s log says which.'
                   ELSE 'The server''s log has the error: mostly a column or table of the publisher that is not here.'
                        ' pg-graphrag subscribe --dry-run names what differs; without --dry-run it makes it, and the subscription goes on by itself.' END
        WHERE s.is_enabled AND s.is_stopped
        UNION ALL
       SELECT 'warning', pg_catalog.format('is %s behind its publisher, by %s at least', pg_catalog.date_trunc('second', s.lag), s.bytes),
              pg_catalog.format('It applies a large transaction, waits for a lock, or the publisher is silent; pg_replication_slots of the publisher says what "%s" keeps.', s.slot)
        WHERE s.is_enabled AND NOT s.is_stopped AND s.lag > '5 minutes'
        UNION ALL
       SELECT 'warning', pg_catalog.format('has not done the first copy of %s of %s tables, %s among them; %s errors so far', s.unready, s.tables, s.example, s.copy_errors),
              'It goes on by itself; where there are errors, the server''s log has them, and pg-graphrag subscribe --dry-run names what differs.'
        WHERE s.unready > 0) c
 UNION ALL
-- Of the database or the server, as providers set it where a disk is full; what a role has is its own affair.
SELECT 'error', 'default_transaction_read_only', pg_catalog.format('is on (%s): documents, curations and workers are refused', s.source),
       'Where its cause is gone: ALTER DATABASE … RESET default_transaction_read_only, or likewise ALTER SYSTEM, or postgresql.conf.'
  FROM pg_catalog.pg_settings s
 WHERE s.name = 'default_transaction_read_only' AND s.setting = 'on' AND NOT pg_catalog.pg_is_in_recovery()
   AND s.source IN ('database', 'global', 'configuration file', 'command line')
 UNION ALL
-- PostgreSQL's text search parser then takes all beyond ASCII for letters, whatever the locale provider, and folds no capitals.
SELECT 'warning', 'LC_CTYPE', pg_catalog.format('of this database is %s: words with letters beyond ASCII, or beside “quotation marks”, are not found as they are elsewhere', d.datctype),
       'CREATE DATABASE … LC_CTYPE ''C.UTF-8'' TEMPLATE template0, and bring the corpora there by pg-graphrag copy.'
  FROM pg_catalog.pg_database d
 WHERE d.datname = pg_catalog.current_database() AND d.datctype IN ('C', 'POSIX')
 UNION ALL
-- PostgreSQL refuses UPDATE and DELETE of a published table that has no replica identity.
SELECT 'error', pg_catalog.format('publication "%s"', p.pubname),
       pg_catalog.format('publishes changes of %s tables that have no replica identity, %s among them: workers cannot change them',
                         pg_catalog.count(*), pg_catalog.min(c.relname::text COLLATE "C")),
       'Publish graphrag.documents alone, with the columns that docs/operations.md names. Work that waits goes on by itself; graphrag.retry_failed() tries it at once.'
  FROM pg_catalog.pg_publication p
 CROSS JOIN LATERAL pg_catalog.pg_get_publication_tables(p.pubname::text) t
  JOIN pg_catalog.pg_class c ON c.oid = t.relid
 WHERE (p.pubupdate OR p.pubdelete)
   AND c.relnamespace = (SELECT d.relnamespace FROM pg_catalog.pg_class d WHERE d.oid = 'graphrag.documents'::pg_catalog.regclass)
   AND (c.relreplident = 'n' OR c.relreplident = 'd' AND NOT EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary))
 GROUP BY p.pubname
 UNION ALL
-- It keeps its locks whatever ends: its session, the server, transaction_timeout.
SELECT 'warning', pg_catalog.format('prepared transaction "%s"', x.gid),
       pg_catalog.format('of role "%s" is open for %s, and keeps what it has locked', x.owner, pg_catalog.date_trunc('second', pg_catalog.now() - x.prepared)),
       'COMMIT PREPARED or ROLLBACK PREPARED ends it, nothing else does.'
  FROM pg_catalog.pg_prepared_xacts x
 WHERE x.database = pg_catalog.current_database() AND x.prepared < pg_catalog.now() - '10 seconds'::interval
 UNION ALL
-- Which session holds the queue up, PostgreSQL tells its log alone. It is one with an old transaction, of any database.
SELECT CASE WHEN q.share >= 0.5 THEN 'error' ELSE 'warning' END, 'queue of notifications',
       pg_catalog.format('is %s %% full, as a session that LISTENs has a transaction open, one of these: %s', pg_catalog.round(100 * q.share::numeric),
                         coalesce(s.sessions, 'see pg_stat_activity')),
       pg_catalog.format('SELECT pg_terminate_backend(%s) ends the oldest; where that one never LISTENed, the server''s log names the one that holds it up. From 50 %% on no NOTIFY of documents is sent; when it is full, who sends one cannot commit.',
                         coalesce(s.pid, 'pid'))
  FROM (SELECT CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_notification_queue_usage() END AS share) q
 CROSS JOIN LATERAL (
       SELECT pg_catalog.string_agg(pg_catalog.format('pid %s of role "%s" in database "%s" for %s', a.pid, a.usename, a.datname,
                                                      pg_catalog.date_trunc('second', pg_catalog.clock_timestamp() - a.xact_start)),
                                    ', ' ORDER BY a.xact_start) AS sessions,
              (pg_catalog.array_agg(a.pid ORDER BY a.xact_start))[1]::text AS pid
         FROM (SELECT x.* FROM pg_catalog.pg_stat_activity x
                WHERE x.backend_type = 'client backend' AND x.pid <> pg_catalog.pg_backend_pid() AND x.xact_start IS NOT NULL
                ORDER BY x.xact_start LIMIT 20) a) s
 WHERE q.share >= 0.25
 UNION ALL
-- A look at some chunks from a random one on, which are neighbours: a page or two.
SELECT 'error', pg_catalog.format('corpus "%s"', k.name),
       pg_catalog.format('of %s sampled chunks, %s have other text than their documents, %s no windows', pg_catalog.count(*),
                         pg_catalog.count(*) FILTER (WHERE s.is_other), pg_catalog.count(*) FILTER (WHERE s.is_bare)),
       'SELECT * FROM graphrag.check(corpus) names all that is wrong; please report it, and index the documents anew.'
  FROM (SELECT c.corpus_id, c.picture_id IS NULL AND c.content <> pg_catalog.substr(d.content, c.start_offset + 1, c.end_offset - c.start_offset) AS is_other,
               c.own_offset < c.end_offset AND NOT EXISTS (SELECT FROM graphrag.chunk_windows w WHERE w.chunk_id = c.id) AS is_bare
          FROM (SELECT x.* FROM graphrag.chunks x
                 WHERE x.id >= (SELECT (pg_catalog.random() * pg_catalog.max(m.id))::bigint FROM graphrag.chunks m) ORDER BY x.id LIMIT 20) c
          JOIN graphrag.documents d ON d.id = c.document_id AND d.indexed_hash = d.content_hash
         WHERE pg_catalog.octet_length(d.content) < 200000) s
  JOIN graphrag.corpora k ON k.id = s.corpus_id
 GROUP BY k.name
HAVING pg_catalog.bool_or(s.is_other OR s.is_bare)
 UNION ALL
-- What only repair() brings back.
SELECT 'error', pg_catalog.format('corpus "%s"', c.name),
       pg_catalog.format('was restored: %s', pg_catalog.concat_ws(', ', r.closed, r.jobless, r.blind)),
       'SELECT graphrag.repair(); as the owner of the extension.'
  FROM graphrag.corpora c
 CROSS JOIN LATERAL (
       SELECT CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_policy p
                                 WHERE p.polrelid = 'graphrag.documents'::pg_catalog.regclass AND p.polname = 'graphrag_protection_' || c.id
                                   AND pg_catalog.pg_get_expr(p.polqual, p.polrelid) LIKE '%\_closed(%')
                   THEN 'readers see nothing of it' END AS closed,
              CASE WHEN (SELECT pg_catalog.sum(n.count) FROM graphrag._document_counts n WHERE n.corpus_id = c.id AND n.status = 'pending') > 0
                    AND NOT EXISTS (SELECT FROM graphrag.jobs j WHERE j.corpus_id = c.id)
                   THEN 'documents are to be indexed, and no job is there for them' END AS jobless,
              CASE WHEN EXISTS (SELECT FROM graphrag._without_vectors w WHERE w.corpus_id = c.id) THEN 'its texts have no vectors' END AS blind) r
 WHERE pg_catalog.num_nonnulls(r.closed, r.jobless, r.blind) > 0
 UNION ALL
-- The fault is the documents', or somebody's who stands in the way; those of models and disks are above.
SELECT 'warning', pg_catalog.format('corpus "%s"', c.name),
       pg_catalog.format('%s jobs failed and are tried again; kinds of errors: %s', pg_catalog.count(*),
                         pg_catalog.string_agg(DISTINCT coalesce(pg_catalog.substring(j.last_error, '^([A-Za-z]+):'), 'other'), ', ')),
       'SELECT last_error FROM graphrag.jobs says more, to the owner of the extension.'
  FROM graphrag.jobs j
  JOIN graphrag.corpora c ON c.id = j.corpus_id
 WHERE j.state = 'pending' AND j.errors > 0 AND j.kind <> 'attach' -- said of the table
 GROUP BY c.name
 UNION ALL
SELECT CASE c.move ->> 'state' WHEN 'moving' THEN 'error' ELSE 'warning' END, pg_catalog.format('corpus "%s"', c.name),
       pg_catalog.format(CASE c.move ->> 'state' WHEN 'moving' THEN 'has been moving to %s for %s, and is not written' ELSE 'has been arriving from %s, with nothing new for %s' END,
                         c.move ->> 'place', pg_catalog.date_trunc('second', pg_catalog.now() - (c.move ->> 'since')::timestamptz)),
       'pg-graphrag move, repeated as before, goes on where it ended; with --undo it is taken back.'
  FROM graphrag.corpora c
 WHERE c.move ->> 'state' = 'moving' AND (c.move ->> 'since')::timestamptz < pg_catalog.now() - '1 minute'::interval
    OR c.move ->> 'state' = 'arriving' AND (c.move ->> 'since')::timestamptz < pg_catalog.now() - '15 minutes'::interval
 UNION ALL
SELECT 'warning', pg_catalog.format('corpus "%s"', c.name), 'has documents that an earlier version indexed: the graph and the words of searches are what that found in them',
       pg_catalog.format('SELECT graphrag.reindex(%L); has workers index them anew. CHANGELOG.md marks with an asterisk what that brings.', c.name)
  FROM graphrag.corpora c
 WHERE c.needs_reindex AND c.move IS NULL -- else reindex() is refused
 UNION ALL
SELECT 'warning', 'extension', pg_catalog.format('of this database is version %s; %s is installed on the server', e.extversion, a.default_version),
       'ALTER EXTENSION pg_graphrag UPDATE; open sessions go over by themselves.'
  FROM pg_catalog.pg_extension e
  JOIN pg_catalog.pg_available_extensions a ON a.name = e.extname
 WHERE e.extname = 'pg_graphrag' AND a.default_version <> e.extversion;
COMMENT ON VIEW graphrag._health IS 'The database''s rows of health()';

CREATE FUNCTION graphrag._package_version() RETURNS text
LANGUAGE plpython3u STABLE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "operate.admin.package:version")
$$;
COMMENT ON FUNCTION graphrag._package_version() IS 'Version of the Python package that serves the session';

CREATE FUNCTION graphrag.health() RETURNS TABLE (severity text, subject text, detail text, hint text)
LANGUAGE plpgsql STABLE COST 100000 ROWS 10 SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY SELECT h.severity, h.subject, h.detail, h.hint FROM graphrag._health h ORDER BY h.severity, h.subject;
    BEGIN
        PERFORM graphrag._package_version();
    EXCEPTION WHEN external_routine_exception OR undefined_file THEN
        RETURN QUERY SELECT 'error', 'package', format('does not serve: %s', SQLERRM),
                            'Install the Python package pg_graphrag of version @extversion@ where the server''s Python finds it, or ALTER EXTENSION pg_graphrag UPDATE; then reconnect.';
    END;
END
$$;
COMMENT ON FUNCTION graphrag.health() IS 'Problems that need attention, worst first: severity (error, warning), subject, detail, and a hint. No row: there are none. It looks at the queue and its workers, jobs that failed for good, are retried or wait for an endpoint for more than 15 minutes, documents without some vectors, chunks for which NLP stood in for a model or completed its reply, leases of dead workers, a full disk, providers behind an open breaker, budgets, attached tables that cannot be followed, could not be gone through, are behind for more than 15 minutes, or show a reader of their corpus no row, some chunks (whether they equal their documents, and have vectors), things that only repair() brings back after a restore, corpora that an earlier version indexed, a standby''s lag, subscriptions of attached tables or documents (lag, errors, tables not copied yet), publications of tables that workers then cannot change, prepared transactions, corpora whose move to another database was interrupted, the server''s queue of notifications, and versions. Cheap enough for every minute; graphrag.check() looks into a corpus.';
