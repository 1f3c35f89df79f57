-- What pg_dump cannot carry is made again from the tables: the queue, the graphs, the run-time indexes, the protection. Safe at any time.

-- Moves sequences past the numbers in use: replication carries no sequences, nor does a restore of single tables.
CREATE FUNCTION graphrag._advance_sequences() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    numbered record;
BEGIN
    FOR numbered IN
        SELECT a.attrelid::regclass AS relation, a.attname AS name, pg_get_serial_sequence(a.attrelid::regclass::text, a.attname) AS sequence
          FROM pg_attribute a
          JOIN pg_class c ON c.oid = a.attrelid AND c.relkind = 'r' AND c.relnamespace = 'graphrag'::regnamespace
         WHERE a.attidentity <> '' AND NOT a.attisdropped
         ORDER BY a.attrelid
    LOOP
        EXECUTE format('SELECT setval(%L, m.number) FROM (SELECT max(t.%I) AS number FROM %s t) m, %s s
                         WHERE m.number > s.last_value OR m.number = s.last_value AND NOT s.is_called',
                       numbered.sequence, numbered.name, numbered.relation, numbered.sequence);
    END LOOP;
END
$$;
COMMENT ON FUNCTION graphrag._advance_sequences() IS 'Moves every sequence past the numbers in use';

-- First of all corpora together, in one transaction: who sees what, and the documents' jobs. Returns the number of jobs queued.
CREATE FUNCTION graphrag._repair_documents() RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    guard    record;
    corpus   record;
    suspects bigint[];
    queued   bigint;
    moving   CONSTANT int[] := ARRAY(SELECT c.id FROM graphrag.corpora c WHERE c.move IS NOT NULL);
BEGIN
    UPDATE graphrag.corpora c SET move = c.move - 'is_restored' WHERE c.move ? 'is_restored';
    -- pg_restore --disable-triggers leaves triggers that fire always, or for replication, firing like others: a role that may replicate
    -- would pass them.
    FOR guard IN
        SELECT t.tgrelid::regclass AS relation, t.tgname AS trigger, w.firing
          FROM pg_trigger t
         CROSS JOIN LATERAL (SELECT CASE WHEN t.tgname IN ('documents_replicated', 'documents_applied') THEN 'REPLICA' ELSE 'ALWAYS' END AS firing) w
         WHERE t.tgenabled <> left(w.firing, 1)::"char"
           AND (t.tgfoid = 'graphrag._owner_only()'::regprocedure
                OR (t.tgrelid, t.tgname) IN (('graphrag.corpora'::regclass, 'corpora_added'), ('graphrag.corpora'::regclass, 'corpora_restored'),
                                             ('graphrag._attached_tables'::regclass, 'rows_attached'),
                                             ('graphrag.corpus_grants'::regclass, 'corpus_grants_before'),
                                             ('graphrag.corpus_grants'::regclass, 'corpus_grants_changed'),
                                             ('graphrag.documents'::regclass, 'documents_authorize_attached'),
                                             ('graphrag.documents'::regclass, 'documents_authorize_insert'),
                                             ('graphrag.documents'::regclass, 'documents_authorize_update'),
                                             ('graphrag.documents'::regclass, 'documents_replicated'),
                                             ('graphrag.documents'::regclass, 'documents_applied'),
                                             ('graphrag.documents'::regclass, 'documents_truncated'),
                                             ('graphrag.documents'::regclass, 'documents_emptied'),
                                             ('graphrag.pictures'::regclass, 'pictures_before'),
                                             ('graphrag_attached._replicated'::regclass, 'replicated_by')))
         ORDER BY t.tgrelid, t.tgname
    LOOP
        PERFORM graphrag._lock_tables(guard.relation);
        EXECUTE format('ALTER TABLE %s ENABLE %s TRIGGER %I', guard.relation, guard.firing, guard.trigger);
    END LOOP;
    -- Locks in the order of lock_tables.sql. Who sees which document is settled first: nobody else sees it before the end.
    PERFORM FROM graphrag.corpora c ORDER BY c.id FOR NO KEY UPDATE;
    PERFORM graphrag._lock_grants();
    PERFORM graphrag._repair_grants();
    FOR corpus IN SELECT c.id, c.name, c.protection FROM graphrag.corpora c WHERE c.protection IS NOT NULL ORDER BY c.id LOOP
        BEGIN
            PERFORM graphrag._enforce(corpus.id, corpus.protection);
        EXCEPTION WHEN syntax_error_or_access_rule_violation OR data_exception THEN
            PERFORM graphrag._enforce(corpus.id, format('graphrag._closed(%s)', corpus.id));
            RAISE WARNING 'corpus "%" stays closed to readers: its condition cannot be put in force: %', corpus.name, SQLERRM
                USING ERRCODE = SQLSTATE, HINT = format('Make what the condition names, then call repair() again; or SELECT graphrag.protect(%L, …).', corpus.name);
        END;
    END LOOP;
    PERFORM graphrag._settle_policies();

    -- What came past the triggers: content without its hash, another version than the indexed one, or the word of a publisher
    -- that it is indexed, there; and what has lost its job. A dump has no dead letters of these: what had failed is tried again.
    DELETE FROM graphrag.pictures p WHERE NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.id = p.document_id AND d.corpus_id = p.corpus_id);
    PERFORM graphrag._settle_pictures(array_agg(d.id))
       FROM graphrag.documents d
      WHERE d.corpus_id <> ALL (moving) AND (d.pictures_hash IS NOT NULL OR EXISTS (SELECT FROM graphrag.pictures p WHERE p.document_id = d.id))
        AND d.pictures_hash IS DISTINCT FROM graphrag._pictures_hash(d.id);
    suspects := ARRAY(
        SELECT d.id
          FROM graphrag.documents d
         WHERE d.corpus_id <> ALL (moving) AND (
               (d.retracted_at IS NOT NULL) <> (d.status = 'retracted') OR d.retracted_at IS NOT NULL AND d.indexed_hash IS NOT NULL
            OR d.content_hash <> graphrag._content_hash(d.title, d.content, d.pictures_hash)
            OR d.indexed_at IS NOT NULL AND d.indexed_hash <> d.content_hash
            OR d.indexed_hash IS NOT NULL AND NOT EXISTS (SELECT FROM graphrag.chunks c WHERE c.document_id = d.id)
               AND (d.content ~ '\S' OR EXISTS (SELECT FROM graphrag.pictures p WHERE p.document_id = d.id
                                                   AND concat(p.caption, p.alternative_text, p.description, p.recognised_text) ~ '\S'))
            OR (d.indexed_at IS NULL AND d.retracted_at IS NULL OR d.status = 'failed') AND NOT EXISTS (SELECT FROM graphrag.jobs j WHERE j.document_id = d.id)));
    PERFORM graphrag._lock_rows(suspects);
    UPDATE graphrag.documents d
       SET indexed_at = NULL, content_hash = graphrag._content_hash(d.title, d.content, d.pictures_hash)
     WHERE d.id = ANY (suspects)
       AND ((d.retracted_at IS NOT NULL) <> (d.status = 'retracted') OR d.retracted_at IS NOT NULL AND d.indexed_hash IS NOT NULL
            OR d.content_hash <> graphrag._content_hash(d.title, d.content, d.pictures_hash) OR d.indexed_at IS NOT NULL AND d.indexed_hash <> d.content_hash);
    UPDATE graphrag.documents d
       SET indexed_hash = NULL
     WHERE d.id = ANY (suspects)
       AND d.indexed_hash IS NOT NULL AND NOT EXISTS (SELECT FROM graphrag.chunks c WHERE c.document_id = d.id)
               AND (d.content ~ '\S' OR EXISTS (SELECT FROM graphrag.pictures p WHERE p.document_id = d.id
                                                   AND concat(p.caption, p.alternative_text, p.description, p.recognised_text) ~ '\S'));
    UPDATE graphrag.documents d
       SET status = 'pending', error = NULL
     WHERE d.id = ANY (suspects)
       AND d.status = 'failed' AND NOT EXISTS (SELECT FROM graphrag.jobs j WHERE j.document_id = d.id);
    SELECT graphrag._queue_jobs('index', array_agg(d.corpus_id), array_agg(d.id)) INTO queued
      FROM graphrag.documents d WHERE d.id = ANY (suspects) AND d.indexed_at IS NULL AND d.retracted_at IS NULL;
    SELECT queued + coalesce(sum(graphrag._queue_removals(c.id)), 0) INTO queued FROM graphrag.corpora c;
    PERFORM graphrag._advance_sequences();
    PERFORM graphrag._settle_versions(h.corpus_id) FROM graphrag._histories h WHERE h.corpus_id <> ALL (moving) ORDER BY h.corpus_id;
    PERFORM graphrag._see_attached(a.id) FROM graphrag._attached_tables a ORDER BY a.id;
    PERFORM graphrag._queue_attached();
    PERFORM graphrag._notice_waiting();
    RETURN queued;
END
$$;

-- Then of each corpus: its graph, its own jobs, and what sessions hold of it. Returns the number of graphs made; null where rows of the
-- corpus are damaged, which a WARNING says, and nothing of it is changed.
CREATE FUNCTION graphrag._repair_corpus(corpus_id int, with_graph boolean DEFAULT true) RETURNS int
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
    corpus record;
BEGIN
    SELECT c.name, c.options INTO corpus FROM graphrag.corpora c WHERE c.id = corpus_id;
    IF NOT FOUND THEN   -- dropped meanwhile
        RETURN 0;
    END IF;
    -- Before its jobs: the row of one keeps a worker waiting who has the corpus.
    PERFORM graphrag._lock_corpus(corpus_id);
    IF with_graph AND EXISTS (SELECT FROM pg_extension x WHERE x.extname = 'pg_graphrag') THEN   -- a database without it has no Apache AGE graphs
        PERFORM graphrag.rebuild_graph(corpus.name);
    END IF;
    PERFORM graphrag._recount(corpus_id);
    PERFORM graphrag._restore_vectors(corpus_id);
    PERFORM graphrag._queue_jobs('reembed', ARRAY[corpus_id])
      WHERE EXISTS (SELECT FROM graphrag.embedding_spaces s WHERE s.corpus_id = corpus_id AND s.state <> 'active');
    -- Communities that nobody has found, or in what has changed since, where workers are to find them; and reports that are due.
    PERFORM graphrag._queue_jobs('communities', ARRAY[corpus_id])
       FROM graphrag.corpora c
       LEFT JOIN graphrag.community_states s ON s.corpus_id = c.id
       LEFT JOIN graphrag.corpus_revisions r ON r.corpus_id = c.id
      WHERE c.id = corpus_id
        AND CASE jsonb_typeof(c.options -> 'communities')
                WHEN 'boolean' THEN (c.options -> 'communities')::boolean
                WHEN 'object' THEN coalesce((c.options #> '{communities,automatic}')::boolean, true)
                ELSE true
            END
        AND (s.revision IS NULL AND EXISTS (SELECT FROM graphrag.entities e WHERE e.corpus_id = c.id) OR r.revision >= s.revision);
    PERFORM graphrag._queue_jobs('reports', ARRAY[corpus_id])
      WHERE EXISTS (SELECT FROM graphrag.communities c WHERE c.corpus_id = corpus_id AND c.report_due);
    -- A restored number of a transaction may come again in this cluster: sessions would take it for what they hold.
    INSERT INTO graphrag.corpus_revisions (corpus_id, revision) VALUES (corpus_id, pg_current_xact_id())
        ON CONFLICT ON CONSTRAINT corpus_revisions_pkey DO UPDATE SET revision = EXCLUDED.revision;
    PERFORM graphrag._queue_jobs('optimize', ARRAY[corpus_id]);
    RETURN graphrag._has_cypher(corpus.options)::int;
EXCEPTION WHEN data_exception OR integrity_constraint_violation OR undefined_table THEN
    RAISE WARNING 'corpus "%" is not repaired: %', corpus.name, SQLERRM USING ERRCODE = SQLSTATE,
        HINT = format('SELECT * FROM graphrag.check(%L) names what is damaged; SELECT graphrag.reindex(%1$L) makes the index again.', corpus.name);
    RETURN NULL;
END
$$;

CREATE FUNCTION graphrag.repair() RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    queued  bigint;
    graphs  bigint;
    damaged text[];
BEGIN
    queued := graphrag._repair_documents();
    SELECT coalesce(sum(c.graphs), 0), array_agg(c.name) FILTER (WHERE c.graphs IS NULL) INTO graphs, damaged
      FROM (SELECT x.name, graphrag._repair_corpus(x.id) AS graphs FROM (SELECT y.id, y.name FROM graphrag.corpora y WHERE y.move IS NULL ORDER BY y.id) x) c;
    RETURN jsonb_strip_nulls(jsonb_build_object('jobs_queued', queued, 'graphs_rebuilt', graphs, 'not_repaired', damaged));
EXCEPTION WHEN out_of_memory THEN
    RAISE EXCEPTION '%', SQLERRM USING ERRCODE = 'out_of_memory',
        HINT = 'A transaction cannot hold the locks of so many graphs. CALL graphrag.repair_corpora(); commits after each corpus; or increase max_locks_per_transaction.';
END
$$;
COMMENT ON FUNCTION graphrag.repair() IS 'Run it after a restore (pg_dump | psql, pg_restore), and after documents bypassed the triggers (disabled ones): refills the queue from the hashes, moves sequences past the numbers in use, compares attached tables with their documents, rebuilds the AGE graphs, queues the vector indexes, unfinished re-embedding, and missing or outdated communities and reports, and enforces protect() and grant_corpus(); grants follow renamed roles, and those of dropped roles go. Returns {jobs_queued, graphs_rebuilt}, and as not_repaired the corpora with damaged rows, of which a WARNING says more. One transaction: for hundreds of corpora CALL graphrag.repair_corpora(). 55P03 if others hold for seconds what it must lock.';

-- Neither SET nor SECURITY DEFINER, which would forbid the commits: every name is qualified, and what it calls is closed to others than the owner.
CREATE PROCEDURE graphrag.repair_corpora(INOUT result jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    queued    bigint;
    graphs    int := 0;
    rebuilt   int;
    damaged   pg_catalog.text[];
    corpus    record;
BEGIN
    queued := graphrag._repair_documents();
    COMMIT;
    FOR corpus IN SELECT c.id, c.name FROM graphrag.corpora c WHERE c.move IS NULL ORDER BY c.id LOOP
        rebuilt := graphrag._repair_corpus(corpus.id);
        graphs := graphs OPERATOR(pg_catalog.+) coalesce(rebuilt, 0);
        IF rebuilt IS NULL THEN
            damaged := pg_catalog.array_append(damaged, corpus.name);
        END IF;
        COMMIT;
    END LOOP;
    result := pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object('jobs_queued', queued, 'graphs_rebuilt', graphs, 'not_repaired', damaged));
END
$$;
COMMENT ON PROCEDURE graphrag.repair_corpora(jsonb) IS 'repair() for any number of corpora: commits after each, so that it needs the locks of one graph at a time. Call it as a statement of its own. If it ends early, finished work stays; call it again. Owner only.';
