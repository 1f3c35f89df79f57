-- Whether the caller sees all documents of a corpus, as row-level security has it. Cheap: it reads the catalog, no document. protect()
-- narrows the corpora that it names; a policy of the user's own may narrow any.
CREATE FUNCTION graphrag._reads_whole(corpus_id int) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT NOT pg_catalog.row_security_active('graphrag.documents')
        OR EXISTS (SELECT FROM graphrag.corpora c WHERE c.id = _reads_whole.corpus_id AND c.protection IS NULL)
           AND EXISTS (SELECT FROM pg_catalog.pg_policy p
                        WHERE p.polrelid = 'graphrag.documents'::pg_catalog.regclass AND p.polname = 'graphrag_protection')
           AND NOT EXISTS (SELECT FROM pg_catalog.pg_policy p
                            WHERE p.polrelid = 'graphrag.documents'::pg_catalog.regclass AND p.polname !~ '^graphrag_protection');
END;
COMMENT ON FUNCTION graphrag._reads_whole(int) IS 'Whether no policy narrows what the caller sees of a corpus';

-- The documents whose evidence the caller may see: those that row-level security shows him and, with indexed_only, whose current
-- content is what the index holds. An earlier version may say what the current row no longer permits to be read.
-- SECURITY INVOKER: policies are the caller's. The SET clause keeps it from being inlined into views, which read as the owner.
CREATE FUNCTION graphrag.visible_documents(indexed_only boolean DEFAULT true) RETURNS SETOF bigint
LANGUAGE sql STABLE ROWS 1000 PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT d.id
      FROM graphrag.documents d
     WHERE NOT indexed_only OR d.indexed_hash = d.content_hash;
END;
COMMENT ON FUNCTION graphrag.visible_documents(boolean) IS 'Numbers of the documents that row-level security shows the caller; indexed_only: those whose current content is indexed. What the views show is made of these.';
