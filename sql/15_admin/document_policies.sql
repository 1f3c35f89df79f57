-- Row-level security of documents carries protect(), grant_corpus() and what attached rows are for. It is on as long as a corpus is
-- protected, given to somebody, or has rows: under it an application's COPY FROM fails. Nothing else has policies: what was made of documents is read through
-- functions and views, which ask here, as the reader, which documents there are.

-- The policies that do not name a corpus. Sub-selects, not conditions on each row: they are evaluated once in a statement. What asks
-- for the corpus costs nothing by the planner's rules, so it comes first: a comparison of the reader's that PostgreSQL knows to
-- leak nothing would else be tried on hidden rows, and EXPLAIN ANALYZE tells which sub-select was run after it.
CREATE FUNCTION graphrag._document_policies() RETURNS TABLE (name name, definition text)
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    VALUES
        -- Restrictive policies narrow what a permissive one allows: whatever the grants on the table do. But permissive
        -- policies open to each other; beside one of the owner's own this one opens nothing.
        ('graphrag_grants'::name,
         'USING (NOT EXISTS (SELECT FROM pg_catalog.pg_policy p WHERE p.polrelid = ''graphrag.documents''::pg_catalog.regclass'
         ' AND p.polpermissive AND p.polname <> ''graphrag_grants''))'),
        ('graphrag_read',
         'AS RESTRICTIVE FOR SELECT TO graphrag_member USING ((SELECT pg_catalog.pg_has_role(''graphrag_reader'', ''USAGE''))'
         ' OR (SELECT graphrag._given_corpora(false))[corpus_id])'),
        -- A row's document is for who may read the row. Subscripts alone: they too cost nothing, and so come first.
        ('graphrag_rows',
         'AS RESTRICTIVE USING ((SELECT graphrag_attached._rows_are(''none''))[attached_id] IS NOT TRUE'
         ' AND ((SELECT graphrag_attached._rows_are(''some''))[attached_id] IS NOT TRUE'
         ' OR (SELECT graphrag_attached._keys_by_attachment())[attached_id][source_key] IS NOT NULL)) WITH CHECK (true)'),
        ('graphrag_insert',
         'AS RESTRICTIVE FOR INSERT TO graphrag_writer WITH CHECK'
         ' ((SELECT graphrag._given_corpora(true))[corpus_id])'),
        ('graphrag_update',
         'AS RESTRICTIVE FOR UPDATE TO graphrag_writer USING'
         ' ((SELECT graphrag._given_corpora(true))[corpus_id])'),
        ('graphrag_delete',
         'AS RESTRICTIVE FOR DELETE TO graphrag_writer USING'
         ' ((SELECT graphrag._given_corpora(true))[corpus_id])');
END;

-- One at a time decides what row-level security is to be, and sees what the one before has committed: else the last grant to go
-- would turn it off while another is made.
CREATE FUNCTION graphrag._lock_grants() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION 'who sees which document cannot be changed in a transaction that is %', upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'active_sql_transaction', HINT = 'Use BEGIN ISOLATION LEVEL READ COMMITTED.';
    END IF;
    LOCK TABLE graphrag.corpus_grants IN SHARE ROW EXCLUSIVE MODE;
END
$$;
COMMENT ON FUNCTION graphrag._lock_grants() IS 'Waits for others who grant, revoke, protect and unprotect, and keeps them waiting';

-- Brings row-level security and the privileges of limited roles to what corpora and corpus_grants say; touches, and locks, nothing that
-- is right already. Whoever else has policies, or has turned row-level security on, keeps it as it is.
CREATE FUNCTION graphrag._settle_policies() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET client_min_messages = warning
AS $$
DECLARE
    needed  boolean;
    secured boolean;
    policy  record;
    has_rows boolean;
BEGIN
    PERFORM graphrag._lock_grants();
    has_rows := EXISTS (SELECT FROM graphrag._attached_tables a WHERE a.kind <> 'documents')
        -- Others than the owner attach where the policy is there already.
        OR EXISTS (SELECT FROM pg_proc p, aclexplode(p.proacl) x
                    WHERE p.pronamespace = 'graphrag'::regnamespace AND p.proname IN ('attach_entities', 'attach_relationships')
                      AND x.grantee <> p.proowner);
    needed := EXISTS (SELECT FROM graphrag.corpus_grants) OR EXISTS (SELECT FROM graphrag.corpora c WHERE c.protection IS NOT NULL) OR has_rows;
    secured := (SELECT c.relrowsecurity FROM pg_class c WHERE c.oid = 'graphrag.documents'::regclass);
    FOR policy IN
        SELECT w.name, w.definition, p.oid IS NOT NULL AS present
          FROM graphrag._document_policies() w
          LEFT JOIN pg_policy p ON p.polrelid = 'graphrag.documents'::regclass AND p.polname = w.name
         WHERE (p.oid IS NOT NULL) <> (needed AND (has_rows OR w.name <> 'graphrag_rows'))
           -- Where somebody else had turned it on, he decides who gets in at all.
           AND (p.oid IS NOT NULL OR w.name <> 'graphrag_grants' OR NOT secured)
    LOOP
        PERFORM graphrag._lock_tables('graphrag.documents');
        IF policy.present THEN
            EXECUTE format('DROP POLICY %I ON graphrag.documents', policy.name);
        ELSE
            EXECUTE format('CREATE POLICY %I ON graphrag.documents %s', policy.name, policy.definition);
        END IF;
    END LOOP;
    IF needed AND NOT secured THEN
        PERFORM graphrag._lock_tables('graphrag.documents');
        ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY;
    ELSIF FOUND AND secured AND NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = 'graphrag.documents'::regclass) THEN
        ALTER TABLE graphrag.documents DISABLE ROW LEVEL SECURITY;
    END IF;
    -- Without row-level security these roles would have every corpus.
    IF needed AND NOT has_column_privilege('graphrag_writer', 'graphrag.documents', 'retracted_at', 'UPDATE') THEN
        GRANT SELECT ON graphrag.documents TO graphrag_member;
        GRANT INSERT (corpus, source_key, title, content, metadata, valid_from, valid_to, retracted_at, retraction_reason),
              UPDATE (source_key, title, content, metadata, valid_from, valid_to, retracted_at, retraction_reason), DELETE ON graphrag.documents TO graphrag_writer;
    ELSIF NOT needed AND has_table_privilege('graphrag_writer', 'graphrag.documents', 'DELETE') THEN
        REVOKE ALL ON graphrag.documents FROM graphrag_member, graphrag_writer;
    END IF;
END
$$;
COMMENT ON FUNCTION graphrag._settle_policies() IS 'Brings row-level security of documents in line with corpora and corpus_grants';
-- A dump without data has the privileges of these roles, and neither grants nor row-level security: they end before there is a document.
CREATE FUNCTION graphrag._corpora_created() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF has_table_privilege('graphrag_writer', 'graphrag.documents', 'DELETE')
       AND NOT (SELECT c.relrowsecurity FROM pg_class c WHERE c.oid = 'graphrag.documents'::regclass) THEN
        REVOKE ALL ON graphrag.documents FROM graphrag_member, graphrag_writer;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._corpora_created() IS 'Trigger of corpora: without row-level security, roles with grants get no documents';
CREATE TRIGGER corpora_created AFTER INSERT ON graphrag.corpora
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._corpora_created();

-- With the first rows, and in a restore.
CREATE FUNCTION graphrag._rows_attached() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- What locks documents is not for others than the owner to hold: _attach_rows() has asked whether it is done.
    IF NOT NEW.needs_grant OR NOT graphrag._has_row_policy() THEN
        PERFORM graphrag._settle_policies();
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._rows_attached() IS 'Trigger of attachments: documents of rows are for roles that may read the rows';

CREATE FUNCTION graphrag._has_row_policy() RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT c.relrowsecurity FROM pg_class c WHERE c.oid = 'graphrag.documents'::regclass)
       AND EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = 'graphrag.documents'::regclass AND p.polname = 'graphrag_rows');
END
$$;
COMMENT ON FUNCTION graphrag._has_row_policy() IS 'Whether documents of rows are for roles that may read the rows';
CREATE TRIGGER rows_attached AFTER INSERT ON graphrag._attached_tables
    FOR EACH ROW WHEN (NEW.kind <> 'documents') EXECUTE FUNCTION graphrag._rows_attached();
-- Also in a session that replicates or restores with triggers off.
ALTER TABLE graphrag._attached_tables ENABLE ALWAYS TRIGGER rows_attached;
