-- What CREATE OR REPLACE cannot do on the way from 0.2.0 to 0.3.0: changes of tables, and what is no more.
-- Runs before everything that upgrade.awk takes from sql/.
-- Readers reach models through ask() and search() alone.
DROP FUNCTION graphrag._model(int, text, jsonb, boolean);
DROP FUNCTION graphrag._models(int, text, jsonb, boolean, int);
DROP FUNCTION graphrag._model_stream(int, text, jsonb, boolean);
DROP FUNCTION graphrag._model_next(text);
DROP FUNCTION graphrag._embed(int, text[]);
DROP FUNCTION graphrag._rerank(int, text, text[]);
-- Who asked. What was asked before has none.
ALTER TABLE graphrag.llm_calls ADD COLUMN role name;
ALTER TABLE graphrag.llm_calls ALTER COLUMN role SET DEFAULT session_user;
