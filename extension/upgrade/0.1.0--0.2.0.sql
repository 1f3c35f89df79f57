-- What CREATE OR REPLACE cannot do on the way from 0.1.0 to 0.2.0: changes of tables, and what is no more.
-- Runs before everything that upgrade.awk takes from sql/.
ALTER TABLE graphrag.corpora ADD COLUMN protection text;
-- Curation: what people added stays when nothing mentions it; mentions of what they deleted lead nowhere.
ALTER TABLE graphrag.entities ADD COLUMN curated boolean NOT NULL DEFAULT false;
ALTER TABLE graphrag.relationships ADD COLUMN curated boolean NOT NULL DEFAULT false;
ALTER TABLE graphrag.entity_mentions ALTER COLUMN entity_id DROP NOT NULL;
ALTER TABLE graphrag.relationship_mentions ALTER COLUMN relationship_id DROP NOT NULL;
-- Jobs of kind sweep (a TRUNCATE queues one of each corpus), communities and reports.
ALTER TABLE graphrag.jobs DROP CONSTRAINT jobs_kind_check;
ALTER TABLE graphrag.jobs ADD CONSTRAINT jobs_kind_check
    CHECK (kind IN ('attach', 'remove', 'index', 'sweep', 'optimize', 'summarize', 'reembed', 'batch', 'communities', 'reports'));
DROP INDEX graphrag.jobs_corpus_kind_key;
CREATE UNIQUE INDEX jobs_corpus_kind_key ON graphrag.jobs (corpus_id, kind) WHERE kind IN ('sweep', 'optimize', 'summarize', 'reembed', 'batch', 'communities', 'reports');
DROP INDEX graphrag.jobs_due_idx;
CREATE INDEX jobs_due_idx ON graphrag.jobs ((kind IN ('optimize', 'communities', 'reports')), next_attempt_at, id) WHERE state <> 'failed';
-- They can compare rows with their documents now.
DROP FUNCTION graphrag._queue_attached(int, interval);
DROP FUNCTION graphrag._backfill_attached(int, text, int);
DROP FUNCTION graphrag._sweep_attached(int);
