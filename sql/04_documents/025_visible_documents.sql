-- Whether the caller may use a corpus at all: a limited role those it was given, who may not SELECT documents none. With corpus_id null:
-- whether he may use every one. Row-level security is not asked: while nothing is given or protected it is off. (Not a standard body: what
-- it names comes later.)
CREATE FUNCTION graphrag._may_use(corpus_id int) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT has_table_privilege('graphrag.documents', 'SELECT') THEN
        RETURN false;
    ELSIF pg_has_role('graphrag_reader', 'USAGE')
       OR NOT pg_has_role('graphrag_member', 'USAGE')
       OR pg_has_role((SELECT c.relowner FROM pg_class c WHERE c.oid = 'graphrag.documents'::regclass), 'USAGE')
       OR (SELECT r.rolbypassrls FROM pg_roles r WHERE r.rolname = current_user) THEN
        RETURN true;
    END IF;
    -- By itself: where restrict_nonsystem_relation_kind hides views, workers do not name one.
    RETURN EXISTS (SELECT FROM graphrag.granted_corpora g WHERE g.corpus_id = _may_use.corpus_id);
END
$$;
COMMENT ON FUNCTION graphrag._may_use(int) IS 'Whether the caller was granted a corpus, or needs no grant; with corpus_id null, whether he needs none';

-- Whether the caller sees every document there is. The one rule for it: views, functions and the package ask here.
CREATE FUNCTION graphrag._sees_all() RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN NOT row_security_active('graphrag.documents') AND graphrag._may_use(NULL);
END
$$;
COMMENT ON FUNCTION graphrag._sees_all() IS 'Whether the caller sees all documents: no row-level security applies to him, and he needs no grant of a corpus';

-- Whether the caller sees all documents of a corpus. Cheap: it reads the catalog, no document. A corpus is seen whole by who sees all,
-- or where of the policies only ours concern the corpus, they open it to him, and he may read all rows that are attached to it.
CREATE FUNCTION graphrag._reads_whole(corpus_id int) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF graphrag._sees_all() THEN
        RETURN true;
    END IF;
    RETURN NOT EXISTS (SELECT FROM pg_policy p
                        WHERE p.polrelid = 'graphrag.documents'::regclass
                          AND (p.polname = 'graphrag_protection_' || corpus_id
                               OR p.polname !~ '^graphrag_protection_[0-9]+$'
                                  AND p.polname NOT IN (SELECT d.name FROM graphrag._document_policies() d)))
       AND EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = 'graphrag.documents'::regclass AND p.polname = 'graphrag_grants')
       AND graphrag._may_use(corpus_id)
       AND graphrag_attached._reads_rows(corpus_id);
END
$$;
COMMENT ON FUNCTION graphrag._reads_whole(int) IS 'Whether no policy restricts what the caller sees of a corpus';

-- Which corpora the caller sees whole, by their numbers. For the views: (SELECT graphrag._whole_corpora())[corpus_id] is run once in a
-- statement, and the planner takes a subscript to cost nothing. So it comes first at every scan: EXPLAIN ANALYZE, which counts rows
-- and shows which sub-selects were run, tells nothing of how a condition of the caller's did on rows that he may not see.
CREATE FUNCTION graphrag._whole_corpora() RETURNS boolean[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT array_agg(c.id IS NOT NULL AND graphrag._reads_whole(n) ORDER BY n)
              FROM generate_series(1, (SELECT max(m.id) FROM graphrag.corpora m)) n
              LEFT JOIN graphrag.corpora c ON c.id = n);
END
$$;
COMMENT ON FUNCTION graphrag._whole_corpora() IS 'Whether the caller sees the corpus of each number whole';

-- The documents whose evidence the caller may see: those that row-level security shows him and, with indexed_only, whose current
-- content is what the index holds. An earlier version may say what the current row no longer permits to be read.
-- SECURITY INVOKER: policies are the caller's. Who may not SELECT documents has none, and no error: his views are empty.
CREATE FUNCTION graphrag.visible_documents(indexed_only boolean DEFAULT true) RETURNS SETOF bigint
LANGUAGE plpgsql STABLE ROWS 1000 PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp SET gin_fuzzy_search_limit = 0
AS $$
BEGIN
    IF has_table_privilege('graphrag.documents', 'SELECT') THEN
        RETURN QUERY SELECT d.id FROM graphrag.documents d WHERE NOT indexed_only OR d.indexed_hash = d.content_hash;
    END IF;
END
$$;
COMMENT ON FUNCTION graphrag.visible_documents(boolean) IS 'Numbers of the documents that row-level security shows the caller; indexed_only: those whose current content is indexed. The views show what these documents say.';
