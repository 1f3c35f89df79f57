-- Row-level security for a corpus: a condition on documents decides over them and over everything made of them. It is kept in
-- corpora.protection, which is dumped; policies of an extension's tables are not. Owner, superusers and BYPASSRLS see all.
CREATE FUNCTION graphrag.protect(corpus text, condition text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    this_corpus int := graphrag._protected_corpus(corpus);
BEGIN
    IF condition IS NULL OR condition !~ '\S' THEN
        RAISE EXCEPTION 'protect() needs a condition' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'A boolean expression over columns of graphrag.documents, for example metadata ->> ''team'' = current_setting(''app.team'', true); unprotect() ends the protection.';
    END IF;
    IF EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = 'graphrag.documents'::regclass AND p.polname !~ '^graphrag_protection') THEN
        RAISE EXCEPTION 'graphrag.documents has policies of its own' USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'Drop them (\d graphrag.documents lists them) and say in the condition what they said.';
    END IF;
    UPDATE graphrag.corpora c SET protection = condition WHERE c.id = this_corpus;
    PERFORM graphrag._enforce(this_corpus, condition);
END
$$;
REVOKE ALL ON FUNCTION graphrag.protect(text, text) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.protect(text, text) IS 'Lets those who read see only the documents of a corpus for which a condition holds, and of chunks, mentions, entities, relationships, claims and vectors only what these documents say, and no communities and reports, which tell of all documents. condition: a boolean expression over columns of graphrag.documents, evaluated as the reader; names in it qualified. Replaces an earlier one. After a restore the corpus is closed until repair(). Owner only; 42704 for an unknown corpus. Not hidden from a reader''s own SQL: the statistics of BM25 (bm25_*), and the merged values of entities and relationships that a document he may see mentions too (the views and functions show those of his documents alone).';

CREATE FUNCTION graphrag.unprotect(corpus text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    this_corpus int := graphrag._protected_corpus(corpus);
BEGIN
    UPDATE graphrag.corpora c SET protection = NULL WHERE c.id = this_corpus;
    PERFORM graphrag._enforce(this_corpus, NULL);
END
$$;
REVOKE ALL ON FUNCTION graphrag.unprotect(text) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.unprotect(text) IS 'Ends what protect() began: who may read graphrag.documents sees all documents of the corpus. Owner only; 42704 for an unknown corpus.';

CREATE FUNCTION graphrag._protected_corpus(corpus text) RETURNS int
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    found_id int;
BEGIN
    IF NOT (SELECT pg_has_role(e.extowner, 'USAGE') FROM pg_extension AS e WHERE e.extname = 'pg_graphrag') THEN
        RAISE EXCEPTION 'role "%" may not protect a corpus', current_user
            USING ERRCODE = 'insufficient_privilege', HINT = 'Call it as the owner of the extension or as a superuser.';
    END IF;
    SELECT c.id INTO found_id FROM graphrag.corpora c WHERE c.name = corpus;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'corpus "%" does not exist', corpus
            USING ERRCODE = 'undefined_object', HINT = 'SELECT name FROM graphrag.corpora lists the corpora.';
    END IF;
    RETURN found_id;
END
$$;
REVOKE ALL ON FUNCTION graphrag._protected_corpus(text) FROM PUBLIC;

-- Makes the policies say this of a corpus (null: nothing). The first protected corpus turns row-level security on, the last one off.
CREATE FUNCTION graphrag._enforce(corpus_id int, condition text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET client_min_messages = warning
AS $$
DECLARE
    relation regclass;
BEGIN
    EXECUTE format('DROP POLICY IF EXISTS graphrag_protection_%s ON graphrag.documents', corpus_id);
    IF condition IS NOT NULL THEN
        EXECUTE format('CREATE POLICY graphrag_protection_%1$s ON graphrag.documents AS RESTRICTIVE USING (corpus_id <> %1$s OR (%2$s)) WITH CHECK (true)',
                       corpus_id, condition);
        IF NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = 'graphrag.documents'::regclass AND p.polname = 'graphrag_protection') THEN
            -- Restrictive policies narrow what a permissive one allows: documents of other corpora, and whatever grants allow to write.
            CREATE POLICY graphrag_protection ON graphrag.documents USING (true) WITH CHECK (true);
            ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY;
        END IF;
        PERFORM graphrag._secure(r.relation) FROM graphrag._readable_relations() AS r (relation);
    ELSIF NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = 'graphrag.documents'::regclass AND p.polname LIKE 'graphrag\_protection\__%') THEN
        FOR relation IN SELECT p.polrelid FROM pg_policy p WHERE p.polname = 'graphrag_protection' ORDER BY p.polrelid LOOP
            EXECUTE format('DROP POLICY graphrag_protection ON %s', relation);
            EXECUTE format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', relation);
        END LOOP;
    END IF;
END
$$;
REVOKE ALL ON FUNCTION graphrag._enforce(int, text) FROM PUBLIC;

-- Tables that tell what documents say, partitions among them. The others that readers may read are named here: they tell of
-- corpora, or are statistics that scores need whole.
CREATE FUNCTION graphrag._readable_relations() RETURNS SETOF regclass
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT c.oid::pg_catalog.regclass
      FROM pg_catalog.pg_class c
     WHERE c.relnamespace = 'graphrag'::pg_catalog.regnamespace
       AND c.relkind IN ('r', 'p')
       AND c.relname NOT IN ('documents', 'corpora', 'corpus_revisions', 'embedding_spaces', 'bm25_segments', 'bm25_postings',
                             'bm25_deletions', 'bm25_tail', 'bm25_tombstones')
       AND pg_catalog.has_table_privilege('graphrag_reader', c.oid, 'SELECT')
     ORDER BY c.oid;
END;
REVOKE ALL ON FUNCTION graphrag._readable_relations() FROM PUBLIC;

-- Rows of a table are as visible as the document, entity or relationship they belong to (what people said, as what they said it
-- of); rows of a protected corpus that belong to none (communities and their reports tell of all; what people added and no
-- document mentions) are closed.
CREATE FUNCTION graphrag._secure(relation regclass) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET client_min_messages = warning
AS $$
DECLARE
    name    name   := (SELECT c.relname FROM pg_class c WHERE c.oid = relation);
    columns name[] := (SELECT array_agg(a.attname) FROM pg_attribute a WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped);
BEGIN
    EXECUTE format('DROP POLICY IF EXISTS graphrag_protection ON %s', relation);
    EXECUTE format('CREATE POLICY graphrag_protection ON %s FOR SELECT USING (' || CASE
        WHEN name = 'entities'             THEN 'EXISTS (SELECT FROM graphrag.entity_mentions m WHERE m.entity_id = %2$I.id)'
            ' OR curated AND EXISTS (SELECT FROM graphrag.corpora c WHERE c.id = %2$I.corpus_id AND c.protection IS NULL)'
        WHEN name = 'relationships'        THEN 'EXISTS (SELECT FROM graphrag.relationship_mentions m WHERE m.relationship_id = %2$I.id)'
            ' OR curated AND EXISTS (SELECT FROM graphrag.corpora c WHERE c.id = %2$I.corpus_id AND c.protection IS NULL)'
        WHEN name = 'aliases'              THEN 'EXISTS (SELECT FROM graphrag.entities e WHERE e.corpus_id = %2$I.corpus_id AND e.key = %2$I.entity_key)'
        WHEN name = 'curated'              THEN 'EXISTS (SELECT FROM graphrag.entities e WHERE e.corpus_id = %2$I.corpus_id AND e.key = %2$I.entity_key)'
            ' AND (%2$I.other_entity_key IS NULL OR EXISTS (SELECT FROM graphrag.entities s JOIN graphrag.entities t ON t.corpus_id = s.corpus_id'
            ' JOIN graphrag.relationships r ON r.low_id = least(s.id, t.id) AND r.high_id = greatest(s.id, t.id)'
            ' WHERE s.corpus_id = %2$I.corpus_id AND s.key = %2$I.entity_key AND t.key = %2$I.other_entity_key))'
        WHEN 'community_id' = ANY (columns) THEN 'EXISTS (SELECT FROM graphrag.communities c WHERE c.id = %2$I.community_id)'
        WHEN 'document_id' = ANY (columns) THEN 'EXISTS (SELECT FROM graphrag.documents d WHERE d.id = %2$I.document_id)'
        WHEN 'entity_id'   = ANY (columns) THEN 'EXISTS (SELECT FROM graphrag.entities e WHERE e.id = %2$I.entity_id)'
        WHEN 'corpus_id'   = ANY (columns) THEN 'EXISTS (SELECT FROM graphrag.corpora c WHERE c.id = %2$I.corpus_id AND c.protection IS NULL)'
        ELSE 'false' END || ')', relation, name);
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', relation);
END
$$;
REVOKE ALL ON FUNCTION graphrag._secure(regclass) FROM PUBLIC;

-- What stands in for the condition between a restore and repair(): it may speak of what is not restored yet.
CREATE FUNCTION graphrag._closed(corpus_id int) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'corpus "%" is closed: it was restored, and its protection is not in force yet',
        (SELECT c.name FROM graphrag.corpora c WHERE c.id = _closed.corpus_id)
        USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'SELECT graphrag.repair(); as the owner of the extension opens it to those who may read.';
END
$$;
COMMENT ON FUNCTION graphrag._closed(int) IS 'Says that a restored corpus is closed to readers until repair()';

-- A row of corpora that comes with a protection comes from a dump, and before the documents, which refer to it.
CREATE FUNCTION graphrag._corpus_restored() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM graphrag._enforce(NEW.id, format('graphrag._closed(%s)', NEW.id));
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._corpus_restored() IS 'Trigger of corpora: closes a protected one that is restored';
CREATE TRIGGER corpora_restored AFTER INSERT ON graphrag.corpora
    FOR EACH ROW WHEN (NEW.protection IS NOT NULL) EXECUTE FUNCTION graphrag._corpus_restored();
-- Also in a session that replicates or restores with triggers off.
ALTER TABLE graphrag.corpora ENABLE ALWAYS TRIGGER corpora_restored;
