-- The graph of a corpus, and the tables of its vectors.
CREATE FUNCTION graphrag._uninstall_corpus(corpus_id int) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    item record;
BEGIN
    PERFORM graphrag._lock_corpus(corpus_id);
    PERFORM graphrag._drop_graph(corpus_id);
    FOR item IN
        SELECT i.inhrelid::regclass AS relation
          FROM graphrag.embedding_spaces AS s
          JOIN pg_inherits AS i ON i.inhparent IN ('graphrag.window_vectors'::regclass, 'graphrag.entity_vectors'::regclass,
                                                   'graphrag.entity_mention_vectors'::regclass, 'graphrag.relationship_mention_vectors'::regclass)
          JOIN pg_class AS c ON c.oid = i.inhrelid AND c.relname ~ format('_vectors_%s$', s.id)
         WHERE s.corpus_id = corpus_id
         ORDER BY i.inhrelid
    LOOP
        EXECUTE format('DROP TABLE %s', item.relation);
    END LOOP;
END
$function$;

-- The files that searches map, of all corpora.
CREATE FUNCTION graphrag._remove_files() RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
call(plpy, "@extversion@", "operate.admin.corpus_changes:remove_files")
$$;
COMMENT ON FUNCTION graphrag._remove_files() IS 'Removes the files that searches map, of all corpora; sessions make new ones when they need them';

-- What DROP EXTENSION cannot take along, because it was made at run time or lives elsewhere: AGE graphs, pg_cron jobs, tables of vectors, triggers, files.
-- With the caller's rights: a superuser or the extension's owner.
CREATE FUNCTION graphrag.uninstall() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    corpus_id int;
    item      record;
    batches   text[];
BEGIN
    IF NOT (SELECT pg_has_role(e.extowner, 'USAGE') FROM pg_extension AS e WHERE e.extname = 'pg_graphrag') THEN
        RAISE EXCEPTION 'role "%" may not uninstall pg_graphrag', current_user
            USING ERRCODE = 'insufficient_privilege', HINT = 'Call it as the owner of the extension or as a superuser.';
    END IF;
    SELECT array_agg(format('%s at %s', coalesce(b.remote_id, 'one being made'), b.provider) ORDER BY b.id) INTO batches
      FROM graphrag.llm_batches AS b WHERE b.state IN ('creating', 'open');
    IF batches IS NOT NULL THEN
        RAISE WARNING '% batch(es) of requests go on, and cost, at their endpoints', cardinality(batches)
            USING DETAIL = array_to_string(batches, ', '),
                  HINT = 'Cancel them there; or, before uninstall(), call graphrag.drop_corpus() for their corpora and then CALL graphrag.process_jobs().';
    END IF;
    PERFORM graphrag._unschedule_workers();
    UPDATE graphrag.corpora c SET move = NULL WHERE c.move IS NOT NULL;
    FOR corpus_id IN SELECT c.id FROM graphrag.corpora AS c ORDER BY c.id LOOP
        PERFORM graphrag._uninstall_corpus(corpus_id);
    END LOOP;
    PERFORM graphrag._detach_all(NULL);
    PERFORM graphrag._remove_files();
    -- Triggers with our functions on tables that are not ours.
    FOR item IN
        SELECT t.tgname AS trigger, t.tgrelid::regclass AS relation
          FROM pg_trigger AS t
          JOIN pg_proc AS p ON p.oid = t.tgfoid AND p.pronamespace = 'graphrag'::regnamespace
          JOIN pg_class AS c ON c.oid = t.tgrelid AND c.relnamespace <> 'graphrag'::regnamespace
         WHERE NOT t.tgisinternal AND t.tgparentid = 0
         ORDER BY c.oid, t.tgname
    LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', item.trigger, item.relation);
    END LOOP;
    FOR item IN
        SELECT i.inhrelid::regclass AS relation
          FROM pg_inherits AS i
          JOIN pg_class AS p ON p.oid = i.inhparent AND p.relkind = 'r' AND p.relnamespace = 'graphrag'::regnamespace
         ORDER BY i.inhrelid
    LOOP
        EXECUTE format('DROP TABLE %s', item.relation);
    END LOOP;
EXCEPTION WHEN out_of_memory THEN
    RAISE EXCEPTION '%', SQLERRM USING ERRCODE = 'out_of_memory',
        HINT = 'A transaction cannot hold the locks of so many graphs. CALL graphrag.uninstall_corpora(); commits after each corpus; or increase max_locks_per_transaction.';
END
$function$;
COMMENT ON FUNCTION graphrag.uninstall() IS 'Removes what DROP EXTENSION cannot: AGE graphs, pg_cron jobs, run-time tables (vectors), triggers on attached tables. Then DROP EXTENSION pg_graphrag CASCADE; DROP SCHEMA graphrag. The roles graphrag_member, graphrag_reader and graphrag_writer, which other databases may use, stay. One transaction: for hundreds of corpora CALL graphrag.uninstall_corpora(). Owner only.';

-- Neither SET nor SECURITY DEFINER, which would forbid the commits: every name is qualified, and what it calls is closed to others than the owner.
CREATE PROCEDURE graphrag.uninstall_corpora()
LANGUAGE plpgsql
AS $procedure$
DECLARE
    corpus_id int;
BEGIN
    UPDATE graphrag.corpora c SET move = NULL WHERE c.move IS NOT NULL;
    FOREACH corpus_id IN ARRAY ARRAY(SELECT c.id FROM graphrag.corpora c ORDER BY c.id) LOOP
        PERFORM graphrag._uninstall_corpus(corpus_id);
        COMMIT;
    END LOOP;
    PERFORM graphrag.uninstall();
END
$procedure$;
COMMENT ON PROCEDURE graphrag.uninstall_corpora() IS 'uninstall() for any number of corpora: commits after each, so that it needs the locks of one graph at a time. Call it as a statement of its own, with no worker at work. If it ends early, nothing can be searched until it, or repair_corpora(), is called again; the latter does not bring back vectors of large corpora. Owner only.';
