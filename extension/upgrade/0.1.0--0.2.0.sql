-- What CREATE OR REPLACE cannot do on the way from 0.1.0 to 0.2.0: changes of tables, and what is no more.
-- Runs before everything that upgrade.awk takes from sql/.

-- Jobs of kind communities and reports.
ALTER TABLE graphrag.jobs DROP CONSTRAINT jobs_kind_check;
ALTER TABLE graphrag.jobs ADD CONSTRAINT jobs_kind_check
    CHECK (kind IN ('attach', 'remove', 'index', 'optimize', 'summarize', 'reembed', 'batch', 'communities', 'reports'));
DROP INDEX graphrag.jobs_corpus_kind_key;
CREATE UNIQUE INDEX jobs_corpus_kind_key ON graphrag.jobs (corpus_id, kind) WHERE kind IN ('optimize', 'summarize', 'reembed', 'batch', 'communities', 'reports');
DROP INDEX graphrag.jobs_due_idx;
CREATE INDEX jobs_due_idx ON graphrag.jobs ((kind IN ('optimize', 'communities', 'reports')), next_attempt_at, id) WHERE state <> 'failed';
