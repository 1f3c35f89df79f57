-- What each worker does, as pg_stat_progress_* say it of the server's own commands. A claim commits before the work begins and sets
-- next_attempt_at, so the time is that of the claim.
CREATE VIEW graphrag.workers AS
SELECT w.worker,
       w.pid,
       w.role,
       c.name AS corpus,
       j.kind,
       coalesce(j.jobs, 0) AS jobs,
       coalesce(j.attempts, 0) AS attempts,
       j.since,
       a.wait_event_type || ': ' || a.wait_event AS waits_for
  FROM graphrag._workers w
  LEFT JOIN LATERAL pg_catalog.pg_stat_get_activity(w.pid) a ON true
  LEFT JOIN (SELECT x.lease, x.corpus_id, x.kind, pg_catalog.count(*) AS jobs, pg_catalog.max(x.attempts) AS attempts,
                    pg_catalog.min(x.next_attempt_at) AS since
               FROM graphrag.jobs x
              WHERE x.state = 'leased'
              GROUP BY x.lease, x.corpus_id, x.kind) j ON j.lease = w.worker
  LEFT JOIN graphrag.corpora c ON c.id = j.corpus_id;
COMMENT ON VIEW graphrag.workers IS 'One row for each live worker and its claimed jobs: numbers and names alone, for pg_monitor too';
COMMENT ON COLUMN graphrag.workers.worker IS 'Number of the worker';
COMMENT ON COLUMN graphrag.workers.pid IS 'Process of its session: pg_stat_activity has it too';
COMMENT ON COLUMN graphrag.workers.role IS 'Role that logged in';
COMMENT ON COLUMN graphrag.workers.corpus IS 'Corpus it works for; null: it looks for work, or ends';
COMMENT ON COLUMN graphrag.workers.kind IS 'Kind of its jobs: index, graph, communities, …';
COMMENT ON COLUMN graphrag.workers.jobs IS 'Jobs it has claimed; those of a batch are done together';
COMMENT ON COLUMN graphrag.workers.attempts IS 'Attempts of the job among them that was tried most often, this one included';
COMMENT ON COLUMN graphrag.workers.since IS 'When it claimed them';
COMMENT ON COLUMN graphrag.workers.waits_for IS 'Kind and name of its process'' wait event; null while it computes';
