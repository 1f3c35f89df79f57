-- A condition on the documents of a corpus, for everybody who reads. It is kept in corpora.protection, which is dumped; policies
-- of an extension's tables are not. Owner, superusers and BYPASSRLS see all.
CREATE FUNCTION graphrag.protect(corpus text, condition text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    this_corpus CONSTANT int := graphrag._administered_corpus(corpus);
BEGIN
    IF condition IS NULL OR condition !~ '\S' THEN
        RAISE EXCEPTION 'protect() needs a condition' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'A boolean expression over columns of graphrag.documents, for example metadata ->> ''team'' = current_user; unprotect() ends the protection.';
    END IF;
    UPDATE graphrag.corpora c SET protection = condition WHERE c.id = this_corpus;
    PERFORM graphrag._enforce(this_corpus, condition);
END
$$;
COMMENT ON FUNCTION graphrag.protect(text, text) IS 'Shows readers only the documents of a corpus for which a condition holds, and only what these documents say of everything derived; communities and their reports, which are about all documents, are hidden. condition: a boolean expression over columns of graphrag.documents, evaluated as the reader; with qualified names. Replaces an earlier one; combines with policies of your own on graphrag.documents. After a restore the corpus is closed until repair(). Owner only; 42704 for an unknown corpus, 55P03 if documents stay locked.';

CREATE FUNCTION graphrag.unprotect(corpus text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    this_corpus CONSTANT int := graphrag._administered_corpus(corpus);
BEGIN
    UPDATE graphrag.corpora c SET protection = NULL WHERE c.id = this_corpus;
    PERFORM graphrag._enforce(this_corpus, NULL);
END
$$;
COMMENT ON FUNCTION graphrag.unprotect(text) IS 'Ends protect(): everybody who may read the corpus sees all its documents. Owner only; 42704 for an unknown corpus, 55P03 if documents stay locked.';

-- The number of a corpus whose row is now locked, and the grants (lock_tables.sql), for the owner alone.
CREATE FUNCTION graphrag._administered_corpus(corpus text) RETURNS int
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    this_corpus int;
BEGIN
    IF NOT (SELECT pg_has_role(e.extowner, 'USAGE') FROM pg_extension AS e WHERE e.extname = 'pg_graphrag') THEN
        RAISE EXCEPTION 'role "%" may not decide who sees corpus "%"', current_user, corpus
            USING ERRCODE = 'insufficient_privilege', HINT = 'Call it as the owner of the extension or as a superuser.';
    END IF;
    SELECT c.id INTO this_corpus FROM graphrag.corpora c WHERE c.name = corpus FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM graphrag._unknown_corpus(corpus);
    END IF;
    PERFORM graphrag._refuse_moved(this_corpus);
    PERFORM graphrag._lock_grants();
    RETURN this_corpus;
END
$$;

-- Makes the policy of a corpus say this (null: there is none). Its comment is the condition as it was given: one that is in
-- force already is not made again.
CREATE FUNCTION graphrag._enforce(corpus_id int, condition text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET client_min_messages = warning
AS $$
DECLARE
    policy   CONSTANT name := 'graphrag_protection_' || corpus_id;
    in_force record;
    changes  boolean;
BEGIN
    PERFORM graphrag._lock_grants();
    SELECT count(*) > 0 AS present, max(obj_description(p.oid, 'pg_policy')) AS condition INTO in_force
      FROM pg_policy p WHERE p.polrelid = 'graphrag.documents'::regclass AND p.polname = policy;
    changes := CASE WHEN _enforce.condition IS NULL THEN in_force.present ELSE in_force.condition IS DISTINCT FROM _enforce.condition END;
    IF changes THEN
        PERFORM graphrag._lock_tables('graphrag.documents');
        EXECUTE format('DROP POLICY IF EXISTS %I ON graphrag.documents', policy);
    END IF;
    IF changes AND _enforce.condition IS NOT NULL THEN
        -- Not corpus_id <> n: in a query of this corpus both comparisons are known to be false, so that an index may serve the condition.
        EXECUTE format('CREATE POLICY %I ON graphrag.documents AS RESTRICTIVE USING (corpus_id < %2$s OR corpus_id > %2$s OR (%3$s)) WITH CHECK (true)',
                       policy, corpus_id, _enforce.condition);
        EXECUTE format('COMMENT ON POLICY %I ON graphrag.documents IS %L', policy, _enforce.condition);
    END IF;
    PERFORM graphrag._settle_policies();
END
$$;

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
COMMENT ON FUNCTION graphrag._corpus_restored() IS 'Trigger of corpora: closes a restored corpus that was protected';
CREATE TRIGGER corpora_restored AFTER INSERT ON graphrag.corpora
    FOR EACH ROW WHEN (NEW.protection IS NOT NULL) EXECUTE FUNCTION graphrag._corpus_restored();
-- Also in a session that replicates or restores with triggers off.
ALTER TABLE graphrag.corpora ENABLE ALWAYS TRIGGER corpora_restored;
-- An update from a version whose policies were others leaves the protected corpora protected. It marks those to be made anew.
SELECT graphrag._enforce(c.id, c.protection)
  FROM graphrag.corpora AS c
  JOIN pg_catalog.pg_policy AS p ON p.polrelid = 'graphrag.documents'::pg_catalog.regclass AND p.polname = 'graphrag_protection_' || c.id
 WHERE pg_catalog.obj_description(p.oid, 'pg_policy') = 'to be made anew';
SELECT graphrag._settle_policies();
