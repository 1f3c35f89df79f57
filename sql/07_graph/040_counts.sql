-- How many documents, chunks, entities and relationships a corpus has: kept for progress, and for the PMI of graph_edges, because counting
-- 100,000 documents takes half a second.
-- Every statement adds what it changed as rows of their own, so that writers wait for nobody and each snapshot has true sums; who
-- writes the index, under the corpus' lock, folds the rows. So they tell sessions of every change of attached rows too, also of one that
-- changes no number (search/query/session_values.py). Not dumped: a restore makes the counts with the rows. An update counts.
CREATE TABLE graphrag._document_counts AS
SELECT d.corpus_id, d.status, coalesce(d.indexed_hash = d.content_hash, false) AS is_searchable, pg_catalog.count(*) AS count
  FROM graphrag.documents AS d GROUP BY 1, 2, 3;
CREATE INDEX _document_counts_idx ON graphrag._document_counts (corpus_id);
CREATE TABLE graphrag._index_counts AS
SELECT c.corpus_id, 'chunks' AS relation, pg_catalog.count(*) AS count FROM graphrag.chunks AS c GROUP BY c.corpus_id
 UNION ALL
SELECT e.corpus_id, 'entities', pg_catalog.count(*) FROM graphrag.entities AS e GROUP BY e.corpus_id
 UNION ALL
SELECT r.corpus_id, 'relationships', pg_catalog.count(*) FROM graphrag.relationships AS r GROUP BY r.corpus_id;
CREATE INDEX _index_counts_idx ON graphrag._index_counts (corpus_id);

-- SECURITY DEFINER: the counts are not the application's to write.
CREATE FUNCTION graphrag._count_documents() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO graphrag._document_counts (corpus_id, status, is_searchable, count)
        SELECT a.corpus_id, a.status, coalesce(a.indexed_hash = a.content_hash, false), count(*) FROM added a GROUP BY 1, 2, 3;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO graphrag._document_counts (corpus_id, status, is_searchable, count)
        SELECT x.corpus_id, x.status, x.is_searchable, sum(x.change)
          FROM (SELECT a.corpus_id, a.status, coalesce(a.indexed_hash = a.content_hash, false) AS is_searchable, 1 AS change, a.attached_id FROM added a
                 UNION ALL
                SELECT r.corpus_id, r.status, coalesce(r.indexed_hash = r.content_hash, false), -1, r.attached_id FROM removed r) x
         GROUP BY x.corpus_id, x.status, x.is_searchable
        -- Sessions see by it that rows have changed. Other documents have changes that no worker ever folds.
        HAVING sum(x.change) <> 0 OR count(x.attached_id) > 0;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO graphrag._document_counts (corpus_id, status, is_searchable, count)
        SELECT r.corpus_id, r.status, coalesce(r.indexed_hash = r.content_hash, false), - count(*) FROM removed r GROUP BY 1, 2, 3;
    ELSE
        -- Like the documents: also what an old snapshot does not see.
        TRUNCATE graphrag._document_counts;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._count_documents() IS 'Trigger of documents: keeps their number for progress';
CREATE TRIGGER documents_added AFTER INSERT ON graphrag.documents REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._count_documents();
CREATE TRIGGER documents_altered AFTER UPDATE ON graphrag.documents REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._count_documents();
CREATE TRIGGER documents_removed AFTER DELETE ON graphrag.documents REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._count_documents();
CREATE TRIGGER documents_emptied AFTER TRUNCATE ON graphrag.documents
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._count_documents();
-- Replication fires it, too.
ALTER TABLE graphrag.documents ENABLE ALWAYS TRIGGER documents_emptied;

CREATE FUNCTION graphrag._count_index() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO graphrag._index_counts (corpus_id, relation, count)
    SELECT c.corpus_id, TG_TABLE_NAME, CASE TG_OP WHEN 'INSERT' THEN count(*) ELSE - count(*) END FROM changed c GROUP BY c.corpus_id;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._count_index() IS 'Trigger of chunks, entities and relationships: keeps their number for progress';
CREATE TRIGGER chunks_added AFTER INSERT ON graphrag.chunks REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._count_index();
CREATE TRIGGER chunks_removed AFTER DELETE ON graphrag.chunks REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._count_index();
CREATE TRIGGER entities_added AFTER INSERT ON graphrag.entities REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._count_index();
CREATE TRIGGER entities_removed AFTER DELETE ON graphrag.entities REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._count_index();
CREATE TRIGGER relationships_added AFTER INSERT ON graphrag.relationships REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._count_index();
CREATE TRIGGER relationships_removed AFTER DELETE ON graphrag.relationships REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._count_index();

-- Replaces the rows of a corpus by their sums. The caller has the corpus' lock: two at once would do it twice.
CREATE FUNCTION graphrag._fold_counts(corpus_id int) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH folded AS (DELETE FROM graphrag._document_counts x WHERE x.corpus_id = $1 RETURNING x.status, x.is_searchable, x.count)
    INSERT INTO graphrag._document_counts (corpus_id, status, is_searchable, count)
    SELECT $1, f.status, f.is_searchable, pg_catalog.sum(f.count) FROM folded f GROUP BY f.status, f.is_searchable
    HAVING pg_catalog.sum(f.count) <> 0;
    WITH folded AS (DELETE FROM graphrag._index_counts x WHERE x.corpus_id = $1 RETURNING x.relation, x.count)
    INSERT INTO graphrag._index_counts (corpus_id, relation, count)
    SELECT $1, f.relation, pg_catalog.sum(f.count) FROM folded f GROUP BY f.relation HAVING pg_catalog.sum(f.count) <> 0;
END;

-- Counts a corpus anew: rows came past the triggers. One statement for each table, so that it counts what it replaces; likewise locked.
CREATE FUNCTION graphrag._recount(corpus_id int) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH gone AS (DELETE FROM graphrag._document_counts x WHERE x.corpus_id = $1)
    INSERT INTO graphrag._document_counts (corpus_id, status, is_searchable, count)
    SELECT $1, d.status, coalesce(d.indexed_hash = d.content_hash, false), pg_catalog.count(*) FROM graphrag.documents d WHERE d.corpus_id = $1 GROUP BY 2, 3;
    WITH gone AS (DELETE FROM graphrag._index_counts x WHERE x.corpus_id = $1)
    INSERT INTO graphrag._index_counts (corpus_id, relation, count)
    SELECT $1, 'chunks', pg_catalog.count(*) FROM graphrag.chunks c WHERE c.corpus_id = $1
     UNION ALL
    SELECT $1, 'entities', pg_catalog.count(*) FROM graphrag.entities e WHERE e.corpus_id = $1
     UNION ALL
    SELECT $1, 'relationships', pg_catalog.count(*) FROM graphrag.relationships r WHERE r.corpus_id = $1;
END;
