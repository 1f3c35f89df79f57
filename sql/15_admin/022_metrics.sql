-- Numbers for a monitor that asks every few seconds: of counts that are kept, the queue, and the accounts of this month.
CREATE VIEW graphrag.metrics AS
SELECT 'documents' AS name, pg_catalog.jsonb_build_object('corpus', p.corpus, 'status', s.status) AS labels, s.value::numeric AS value,
       'Documents by status' AS help
  FROM graphrag.progress p
 CROSS JOIN LATERAL (VALUES ('indexed', p.indexed), ('pending', p.pending), ('failed', p.failed), ('retracted', p.retracted)) s (status, value)
 UNION ALL
SELECT 'searchable_documents', pg_catalog.jsonb_build_object('corpus', p.corpus), p.searchable, 'Documents whose current text can be found'
  FROM graphrag.progress p
 UNION ALL
SELECT 'index_items', pg_catalog.jsonb_build_object('corpus', p.corpus, 'kind', s.kind), s.value, 'Chunks, entities and relationships'
  FROM graphrag.progress p
 CROSS JOIN LATERAL (VALUES ('chunks', p.chunks), ('entities', p.entities), ('relationships', p.relationships)) s (kind, value)
 UNION ALL
SELECT 'jobs', pg_catalog.jsonb_build_object('corpus', c.name, 'kind', j.kind, 'state', j.state), pg_catalog.count(*), 'Jobs by kind and state'
  FROM graphrag.jobs j
  JOIN graphrag.corpora c ON c.id = j.corpus_id
 GROUP BY c.name, j.kind, j.state
 UNION ALL
SELECT 'queue_age_seconds', '{}',
       coalesce(extract(epoch FROM pg_catalog.max(pg_catalog.now() - j.next_attempt_at)), 0),
       'How long the job has waited that has been due longest'
  FROM graphrag.jobs j
 WHERE j.state = 'pending' AND j.next_attempt_at <= pg_catalog.now()
 UNION ALL
SELECT 'workers', '{}', pg_catalog.count(*), 'Sessions that work on jobs'
  FROM graphrag._workers
 UNION ALL
SELECT 'spared_providers', '{}', pg_catalog.count(*), 'Providers that are not asked since they failed'
  FROM graphrag.provider_state s
 WHERE s.open_until > pg_catalog.now()
 UNION ALL
SELECT 'month_cost', pg_catalog.jsonb_build_object('corpus', b.corpus), greatest(b.spent, b.metered), 'Cost of models in this calendar month (UTC)'
  FROM graphrag.budgets b
 UNION ALL
SELECT 'month_budget', pg_catalog.jsonb_build_object('corpus', b.corpus), b.budget, 'What a corpus may cost in a month'
  FROM graphrag.budgets b
 WHERE b.budget IS NOT NULL
 UNION ALL
SELECT 'health_issues', pg_catalog.jsonb_build_object('severity', s.severity), pg_catalog.count(h.severity), 'Rows of health() but for the package''s version'
  FROM (VALUES ('error'), ('warning')) s (severity)
  LEFT JOIN graphrag._health h USING (severity)
 GROUP BY s.severity;
COMMENT ON VIEW graphrag.metrics IS 'Current numbers for monitoring (gauges): corpora, queue, workers, costs; numbers and names alone, for pg_monitor too. pg-graphrag metrics writes them as OpenMetrics.';
COMMENT ON COLUMN graphrag.metrics.name IS 'Name of the number';
COMMENT ON COLUMN graphrag.metrics.labels IS 'Its labels: corpus, status, kind, state, severity';
COMMENT ON COLUMN graphrag.metrics.value IS 'The number; names ending in _seconds: seconds';
COMMENT ON COLUMN graphrag.metrics.help IS 'What it counts';
