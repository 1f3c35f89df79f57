-- What CREATE OR REPLACE cannot do on the way from 0.2.0 to 0.3.0: changes of tables, and what is no more.
-- Runs before everything that upgrade.awk takes from sql/.
-- Readers reach models through ask() and search() alone.
DROP FUNCTION graphrag._model(int, text, jsonb, boolean);
DROP FUNCTION graphrag._models(int, text, jsonb, boolean, int);
DROP FUNCTION graphrag._model_stream(int, text, jsonb, boolean);
DROP FUNCTION graphrag._model_next(text);
DROP FUNCTION graphrag._embed(int, text[]);
DROP FUNCTION graphrag._rerank(int, text, text[]);
-- What ANALYZE sampled of columns that sql/09_admin/unsampled_columns.sql excepts would stay.
DELETE FROM pg_catalog.pg_statistic s
 USING pg_catalog.pg_attribute a
 WHERE a.attrelid = s.starelid AND a.attnum = s.staattnum
   AND (a.attrelid = 'graphrag.claims'::pg_catalog.regclass
        OR (a.attrelid::pg_catalog.regclass::text, a.attname) IN (
            ('graphrag.documents', 'title'), ('graphrag.documents', 'content'), ('graphrag.documents', 'error'),
            ('graphrag.chunks', 'content'), ('graphrag.entities', 'name'), ('graphrag.entities', 'type'),
            ('graphrag.entities', 'description'), ('graphrag.relationships', 'keywords'), ('graphrag.relationships', 'description'),
            ('graphrag.community_reports', 'title'), ('graphrag.community_reports', 'summary')));
