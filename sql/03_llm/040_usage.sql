-- What models cost and how often they were asked: for the owner and those who watch (pg_monitor), with the owner's rights.
CREATE VIEW graphrag.llm_usage AS
SELECT c.name AS corpus,
       l.purpose,
       l.model,
       (l.at AT TIME ZONE pg_catalog.current_setting('TimeZone'))::date AS day,
       pg_catalog.count(*)                                             AS calls,
       pg_catalog.sum(l.tokens_in)::bigint                             AS tokens_in,
       pg_catalog.sum(l.tokens_out)::bigint                            AS tokens_out,
       pg_catalog.sum(l.cost)                                          AS cost,
       pg_catalog.count(l.error)                                       AS failures,
       1000 * pg_catalog.percentile_cont(0.5) WITHIN GROUP (ORDER BY l.seconds)  AS p50_ms,
       1000 * pg_catalog.percentile_cont(0.95) WITHIN GROUP (ORDER BY l.seconds) AS p95_ms
  FROM graphrag.llm_calls l
  JOIN graphrag.corpora c ON c.id = l.corpus_id
 GROUP BY 1, 2, 3, 4;

COMMENT ON VIEW graphrag.llm_usage IS 'Requests to models by corpus, purpose, model and day, failed ones included. Requests of search() are recorded by the session''s next ask() or understand() of that corpus.';
COMMENT ON COLUMN graphrag.llm_usage.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.llm_usage.purpose IS 'Role: extract, keywords, relevance, summary, report, vision, answer; or embedding, rerank, check';
COMMENT ON COLUMN graphrag.llm_usage.model IS 'Model';
COMMENT ON COLUMN graphrag.llm_usage.day IS 'Day, in the session''s time zone';
COMMENT ON COLUMN graphrag.llm_usage.calls IS 'Requests';
COMMENT ON COLUMN graphrag.llm_usage.tokens_in IS 'Tokens of prompts';
COMMENT ON COLUMN graphrag.llm_usage.tokens_out IS 'Tokens of answers';
COMMENT ON COLUMN graphrag.llm_usage.cost IS 'By the providers'' prices at the time';
COMMENT ON COLUMN graphrag.llm_usage.failures IS 'Requests without a usable answer';
COMMENT ON COLUMN graphrag.llm_usage.p50_ms IS 'Median time from request to answer, in milliseconds';
COMMENT ON COLUMN graphrag.llm_usage.p95_ms IS '95th percentile of it';

-- What a meter of python/pg_graphrag/llm/endpoints/meters.py shows.
CREATE FUNCTION graphrag._metered(corpus_id int, role name DEFAULT NULL) RETURNS double precision
LANGUAGE plpython3u STABLE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "llm.endpoints.meters:metered", corpus_id, role)
$$;
COMMENT ON FUNCTION graphrag._metered(int, name) IS 'Cost of a corpus, or of one role of it, this month (UTC), including rolled-back transactions; null: unknown';

CREATE VIEW graphrag.llm_usage_by_role AS
SELECT c.name AS corpus,
       l.role::text COLLATE "default"              AS role,
       pg_catalog.date_trunc('month', l.at, 'UTC') AS month,
       pg_catalog.count(*)                         AS calls,
       pg_catalog.sum(l.tokens_in)::bigint         AS tokens_in,
       pg_catalog.sum(l.tokens_out)::bigint        AS tokens_out,
       pg_catalog.sum(l.cost)                      AS cost,
       pg_catalog.count(l.error)                   AS failures,
       pg_catalog.max(l.at)                        AS last_call,
       CASE WHEN pg_catalog.date_trunc('month', l.at, 'UTC') = pg_catalog.date_trunc('month', pg_catalog.now(), 'UTC')
            THEN graphrag._metered(c.id, l.role) END AS metered
  FROM graphrag.llm_calls l
  JOIN graphrag.corpora c ON c.id = l.corpus_id
 GROUP BY c.name, c.id, l.role, 3;

COMMENT ON VIEW graphrag.llm_usage_by_role IS 'Who spent what: requests to models by corpus, role and month';
COMMENT ON COLUMN graphrag.llm_usage_by_role.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.llm_usage_by_role.role IS 'Role that asked; for workers the role that logged in; null: not recorded';
COMMENT ON COLUMN graphrag.llm_usage_by_role.month IS 'Beginning of the month (UTC)';
COMMENT ON COLUMN graphrag.llm_usage_by_role.calls IS 'Requests';
COMMENT ON COLUMN graphrag.llm_usage_by_role.tokens_in IS 'Tokens of prompts';
COMMENT ON COLUMN graphrag.llm_usage_by_role.tokens_out IS 'Tokens of answers';
COMMENT ON COLUMN graphrag.llm_usage_by_role.cost IS 'By the providers'' prices at the time';
COMMENT ON COLUMN graphrag.llm_usage_by_role.failures IS 'Requests without a usable answer';
COMMENT ON COLUMN graphrag.llm_usage_by_role.last_call IS 'Time the last one was recorded';
COMMENT ON COLUMN graphrag.llm_usage_by_role.metered IS 'Cost that the role''s limit counts this month, including rolled-back transactions; null for earlier months and for workers';

CREATE VIEW graphrag.budgets AS
SELECT b.corpus,
       b.budget,
       b.spent,
       CASE WHEN b.budget IS NULL THEN 'unlimited' WHEN greatest(b.spent, b.metered) >= b.budget THEN 'reached' ELSE 'open' END AS state,
       b.metered
  FROM (SELECT c.name AS corpus,
               (c.options #>> '{llm,monthly_budget}')::numeric AS budget,
               coalesce((SELECT pg_catalog.sum(l.cost) FROM graphrag.llm_calls l
                          WHERE l.corpus_id = c.id AND l.at >= pg_catalog.date_trunc('month', pg_catalog.now(), 'UTC')), 0) AS spent,
               graphrag._metered(c.id)::numeric AS metered
          FROM graphrag.corpora c) b;

COMMENT ON VIEW graphrag.budgets IS 'The budget of each corpus for this calendar month (UTC), and its cost so far';
COMMENT ON COLUMN graphrag.budgets.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.budgets.budget IS 'Option llm.monthly_budget; null: none';
COMMENT ON COLUMN graphrag.budgets.spent IS 'Cost of this month''s calls in llm_calls';
COMMENT ON COLUMN graphrag.budgets.metered IS 'The same, with calls under way and rolled-back transactions; null: unknown. The budget counts the greater of both';
COMMENT ON COLUMN graphrag.budgets.state IS 'unlimited, open, or reached: no call before the next month or a higher budget';
