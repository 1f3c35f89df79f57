-- What CREATE OR REPLACE cannot do on the way from 0.3.0 to 0.4.0: changes of tables, and what is no more.

-- What there is stays as it is; health() says so.
UPDATE graphrag.corpora c SET needs_reindex = true
 WHERE EXISTS (SELECT FROM graphrag.documents d WHERE d.corpus_id = c.id AND d.indexed_hash IS NOT NULL);
