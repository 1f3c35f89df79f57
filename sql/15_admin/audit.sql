-- What a role could learn of documents or change of them, for who must answer for it. Objects of others are judged by the catalogs alone.

-- Things that nobody else may see, of a corpus that nobody was given. Who plants them takes them back.
CREATE FUNCTION graphrag._plant_canaries(corpus text, canary text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
    corpus_id     int;
    words         text := canary || ' is kept from everybody';
    document_id   bigint;
    chunk_id      bigint;
    entity_ids    bigint[];
    relationship_id bigint;
    community_id  bigint;
BEGIN
    PERFORM graphrag.create_corpus(corpus, '{"communities": false, "cypher": false}');
    SELECT c.id INTO corpus_id FROM graphrag.corpora c WHERE c.name = corpus;
    INSERT INTO graphrag.documents AS d (corpus, source_key, title, content, metadata)
    VALUES (corpus, canary, canary, words, jsonb_build_object('canary', canary)) RETURNING d.id INTO document_id;
    INSERT INTO graphrag.pictures (document_id, content, alternative_text, caption, recognised_text, description)
    VALUES (document_id, '\x89504e470d0a1a0a'::bytea || convert_to(canary, 'UTF8'), words, words, words, words);
    UPDATE graphrag.documents d SET status = 'indexed', indexed_hash = d.content_hash, indexed_at = now() WHERE d.id = document_id;
    INSERT INTO graphrag.chunks AS c (corpus_id, document_id, ordinal, start_offset, own_offset, end_offset, language, content, token_count, tsv, unfit)
    VALUES (corpus_id, document_id, 0, 0, 0, length(words), 'en', words, 6, to_tsvector('pg_catalog.simple', words),
            jsonb_build_array(jsonb_build_object('kind', 'entity', 'item', jsonb_build_object('name', canary)))) RETURNING c.id INTO chunk_id;
    PERFORM graphrag._bm25_add(corpus_id, 'chunk', ARRAY[chunk_id], ARRAY[document_id]);
    WITH made AS (
        INSERT INTO graphrag.entities AS e (corpus_id, key, name, type, description, degree, mention_count)
        VALUES (corpus_id, canary, canary, 'canary', words, 1, 1), (corpus_id, canary || ' b', canary || ' b', 'canary', words, 1, 1) RETURNING e.id)
    SELECT array_agg(m.id ORDER BY m.id) INTO entity_ids FROM made m;
    INSERT INTO graphrag.entity_mentions (corpus_id, document_id, chunk_id, entity_id, raw_key, name, type, description, attributes)
    SELECT e.corpus_id, document_id, chunk_id, e.id, e.key, e.name, e.type, words, jsonb_build_object('canary', canary)
      FROM (SELECT * FROM graphrag.entities x WHERE x.id = ANY (entity_ids)) e;
    INSERT INTO graphrag.relationships AS r (corpus_id, low_id, high_id, source_id, target_id, description, weight, mention_count)
    VALUES (corpus_id, entity_ids[1], entity_ids[2], entity_ids[1], entity_ids[2], words, 1, 1) RETURNING r.id INTO relationship_id;
    INSERT INTO graphrag.relationship_mentions (corpus_id, document_id, chunk_id, relationship_id, source_key, target_key, description, forward)
    VALUES (corpus_id, document_id, chunk_id, relationship_id, canary, canary || ' b', words, true);
    INSERT INTO graphrag.claims (corpus_id, document_id, chunk_id, subject_key, subject, type, status, description)
    VALUES (corpus_id, document_id, chunk_id, canary, canary, 'canary', 'TRUE', words);
    INSERT INTO graphrag.communities AS c (corpus_id, level, size) VALUES (corpus_id, 0, 2) RETURNING c.id INTO community_id;
    INSERT INTO graphrag.community_members (corpus_id, community_id, entity_id)
    SELECT corpus_id, community_id, u.id FROM unnest(entity_ids) AS u (id);
    INSERT INTO graphrag.community_reports (community_id, corpus_id, title, summary, rating, content, token_count, input_hash, tsv)
    VALUES (community_id, corpus_id, canary, words, 5, words, 6, 'x', to_tsvector('pg_catalog.simple', words));
    INSERT INTO graphrag.llm_cache (corpus_id, key, purpose, model, reply) VALUES (corpus_id, canary, 'extract', canary, words);
    INSERT INTO graphrag.query_log (corpus_id, kind, mode, question, milliseconds) VALUES (corpus_id, 'search', 'bm25', words, 1);
    INSERT INTO graphrag.answer_feedback (corpus_id, role, question, verdict, evidence, answer)
    VALUES (corpus_id, current_user, words, 'good', ARRAY[canary], words);
END
$$;
COMMENT ON FUNCTION graphrag._plant_canaries(text, text) IS 'Makes a corpus whose every text contains the canary';

-- Reads, calls and writes as the role what it may, and looks for the canaries: of a corpus that is protected and, for a role to which corpora must
-- be given, of one that was not given to it, as things are and without any grant. All is rolled back; what was found is returned.
CREATE FUNCTION graphrag._try_reads(role name) RETURNS TABLE (object oid, privilege text, verdict text, detail text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off SET client_min_messages = error
AS $$
#variable_conflict use_variable
DECLARE
    -- Names of corpora are known to all members.
    corpus  CONSTANT text := 'audit_' || replace(gen_random_uuid()::text, '-', '');
    -- One word in every picture.
    canary  CONSTANT text := 'canary' || replace(gen_random_uuid()::text, '-', '');
    former  CONSTANT text := current_setting('role');
    results jsonb := '[]';
    states  text[] := ARRAY['as things are', 'protected', 'without any grant'];
    state   text;
    item    record;
    verdict text;
    detail  text;
    has     boolean;
BEGIN
    BEGIN
        PERFORM graphrag._plant_canaries(corpus, canary);
        BEGIN
            PERFORM set_config('role', role, true);
            IF graphrag._may_use(NULL) THEN
                states := ARRAY['protected'];
            END IF;
            PERFORM set_config('role', former, true);
        -- He may not enter the schema.
        EXCEPTION WHEN insufficient_privilege THEN
            NULL;
        END;
        FOREACH state IN ARRAY states LOOP
            IF state = 'protected' THEN
                PERFORM graphrag.protect(corpus, 'false');
            ELSIF state = 'without any grant' THEN
                DELETE FROM graphrag.corpus_grants;
                PERFORM graphrag.unprotect(c.name) FROM graphrag.corpora c WHERE c.protection IS NOT NULL;
            END IF;
            FOR item IN
                SELECT c.oid, p.privilege, graphrag._foreign_code(c.oid) AS foreign_code,
                       CASE p.privilege
                           WHEN 'SELECT' THEN format('SELECT (%s) AS text FROM %s t %s', (
                                SELECT format('ROW (%s)::text', string_agg(format('t.%I', a.attname), ', ' ORDER BY a.attnum)) FROM pg_attribute a
                                 WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND has_column_privilege(role, c.oid, a.attnum, 'SELECT')),
                                c.oid::regclass, CASE WHEN k.is_of_corpus THEN format('WHERE t.corpus = %L', corpus) ELSE '' END)
                           WHEN 'DELETE' THEN format('DELETE FROM %s WHERE %s', c.oid::regclass, k.condition)
                           ELSE format('UPDATE %s SET %s = %L WHERE %s', c.oid::regclass, CASE WHEN k.is_of_corpus THEN 'title' ELSE 'caption' END, 'x',
                                       k.condition) END AS statement
                  FROM pg_class c
                 CROSS JOIN (VALUES ('SELECT'), ('UPDATE'), ('DELETE')) AS p (privilege)
                 CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'corpus' AND NOT a.attisdropped) AS is_of_corpus) o
                 CROSS JOIN LATERAL (SELECT o.is_of_corpus, CASE WHEN o.is_of_corpus THEN format('corpus = %L', corpus)
                                                                 ELSE format('caption = %L', canary || ' is kept from everybody') END AS condition) k
                 WHERE c.relnamespace IN ('graphrag'::regnamespace, 'graphrag_attached'::regnamespace) AND c.relkind IN ('r', 'v', 'm')
                   AND (p.privilege = 'SELECT' OR c.oid IN ('graphrag.documents'::regclass, 'graphrag.pictures'::regclass))
                   AND CASE p.privilege WHEN 'DELETE' THEN has_table_privilege(role, c.oid, 'DELETE') ELSE has_any_column_privilege(role, c.oid, p.privilege) END
                 UNION ALL
                -- What shows texts, in the ways that functions have to ask; by the types of their first arguments where several have one name.
                SELECT f.oid, 'EXECUTE', NULL, format('SELECT x::text AS text FROM graphrag.%I(%s) x', f.proname, v.arguments)
                  FROM (VALUES ('^(search|context)$', 'text', format('%L, %L, %L', canary, corpus, 'bm25')),
                               ('^(local|global|hybrid|naive|bm25)_search$|^search_(entities|relationships|reports)$|^(neighbors|to_dot|to_mermaid)$', 'text',
                                format('%L, %L', canary, corpus)),
                               ('^neighbors$', 'jsonb', format('%L, %L::jsonb, 1, %L', canary, '{}', corpus)),
                               ('^to_(dot|mermaid)$', 'bigint', (SELECT max(y.id) FROM graphrag.communities y)::text),
                               ('^_?graph_(nodes|edges)_at$', 'text', format('%L, now()', corpus)),
                               ('^cypher$', 'text', format('%L, %L', corpus, 'MATCH (n) RETURN n'))) AS v (name, type, arguments)
                  JOIN pg_proc f ON f.pronamespace = 'graphrag'::regnamespace AND f.proname ~ v.name AND has_function_privilege(role, f.oid, 'EXECUTE')
                   AND CASE WHEN f.proargtypes[0] = 'bigint'::regtype THEN 'bigint' WHEN f.proargtypes[1] = 'jsonb'::regtype THEN 'jsonb' ELSE 'text' END = v.type
                 ORDER BY 2 DESC, 1
            LOOP
                verdict := 'held';
                detail := 'had nothing of a closed corpus';
                IF item.foreign_code IS NOT NULL THEN
                    verdict := 'untried';
                    detail := format('a read would run %s', item.foreign_code);
                ELSE
                    BEGIN
                        PERFORM set_config('role', role, true);
                        IF item.privilege IN ('SELECT', 'EXECUTE') THEN
                            -- Counted: for EXISTS the planner would loop until the first.
                            EXECUTE format('SELECT count(*) > 0 FROM (%s OFFSET 0) x WHERE strpos(x.text, %L) > 0', item.statement, canary) INTO has;
                        ELSE
                            EXECUTE item.statement;
                            GET DIAGNOSTICS has = ROW_COUNT;
                        END IF;
                        PERFORM set_config('role', former, true);
                        IF has THEN
                            verdict := 'leaks';
                            detail := format('had what a closed corpus holds (%s)', state);
                        END IF;
                    EXCEPTION
                        -- Or there is no such entity, as far as he sees.
                        WHEN insufficient_privilege OR undefined_object OR no_data_found THEN
                            NULL;
                        WHEN OTHERS THEN
                            verdict := 'untried';
                            detail := SQLERRM;
                    END;
                END IF;
                results := results || jsonb_build_object('object', item.oid::bigint, 'privilege', item.privilege, 'verdict', verdict, 'detail', detail);
            END LOOP;
        END LOOP;
        RAISE EXCEPTION USING ERRCODE = 'GRAUD';
    EXCEPTION WHEN SQLSTATE 'GRAUD' THEN
        NULL;
    END;
    -- The worst of each.
    RETURN QUERY
    SELECT DISTINCT ON (1, 2) (r.one ->> 'object')::oid, r.one ->> 'privilege', r.one ->> 'verdict',
           (r.one ->> 'detail') || CASE WHEN r.one ->> 'verdict' = 'held' AND cardinality(states) > 1 THEN ': ' || array_to_string(states, ', ') ELSE '' END
      FROM jsonb_array_elements(results) WITH ORDINALITY AS r (one, place)
     ORDER BY 1, 2, array_position(ARRAY['leaks', 'untried', 'held'], r.one ->> 'verdict'), r.place;
END
$$;
COMMENT ON FUNCTION graphrag._try_reads(name) IS 'What a role sees of a closed corpus through each relation that it may read, change or delete from';

-- One object a row.
CREATE FUNCTION graphrag._audited(role name) RETURNS TABLE (kind text, object text, privilege text, protection text, verdict text, detail text)
LANGUAGE plpgsql VOLATILE ROWS 100 SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    owner   CONSTANT oid := (SELECT c.relowner FROM pg_class c WHERE c.oid = 'graphrag.corpora'::regclass);
    role_id CONSTANT oid := (SELECT r.oid FROM pg_roles r WHERE r.rolname = _audited.role);
    foreign_code text;
    tried jsonb;
BEGIN
    IF NOT pg_has_role(owner, 'USAGE') THEN
        RAISE EXCEPTION 'role "%" may not audit', current_user
            USING ERRCODE = 'insufficient_privilege', HINT = 'Call it as the owner of the extension or as a superuser.';
    END IF;
    IF role_id IS NULL THEN
        RAISE EXCEPTION 'role "%" does not exist', role
            USING ERRCODE = 'undefined_object', HINT = 'Give the name of a role, such as one of pg_roles.';
    END IF;
    IF NOT pg_has_role(role_id, 'MEMBER') THEN
        RAISE EXCEPTION 'role "%" cannot act as role "%"', current_user, role
            USING ERRCODE = 'insufficient_privilege', HINT = 'Call it as a superuser, who may act as any role.';
    END IF;
    -- What would run with our rights when canaries are planted and looked for.
    SELECT format('trigger %s of role "%s" on %s', t.tgname, pg_get_userbyid(p.proowner), t.tgrelid::regclass) INTO foreign_code
      FROM pg_trigger t
      JOIN pg_proc p ON p.oid = t.tgfoid
      JOIN pg_class c ON c.oid = t.tgrelid AND c.relnamespace = 'graphrag'::regnamespace
     WHERE NOT t.tgisinternal AND p.proowner <> owner AND NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.oid = p.proowner)
     LIMIT 1;
    -- Views ask for documents by functions, which the catalogs do not look into: what reading documents runs, they all run.
    foreign_code := coalesce(foreign_code, graphrag._foreign_code('graphrag.documents'));

    RETURN QUERY
    SELECT 'role', r.rolname::text, a.privilege, 'none', 'leaks', a.detail
      FROM pg_roles r
     CROSS JOIN LATERAL (VALUES
               (r.rolsuper, 'SUPERUSER', 'sees and changes everything'),
               (r.rolbypassrls, 'BYPASSRLS', 'passes by row-level security'),
               (r.rolreplication, 'REPLICATION', 'may stream the whole cluster'),
               (r.rolcreaterole, 'CREATEROLE', 'may grant itself roles that it administers')) AS a (has, privilege, detail)
     WHERE r.oid = role_id AND a.has;
    RETURN QUERY
    SELECT 'role', g.rolname::text, 'MEMBER', 'none', 'leaks',
           CASE WHEN g.rolsuper THEN 'a superuser' WHEN g.oid = owner THEN 'the owner of the extension' WHEN g.rolbypassrls THEN 'passes by row-level security'
                ELSE 'reads or writes past the privileges of single objects' END
      FROM pg_roles g
     WHERE g.oid <> role_id AND pg_has_role(role_id, g.oid, 'MEMBER') AND NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.oid = role_id)
       AND (g.rolsuper OR g.rolbypassrls OR g.oid = owner
            OR g.rolname IN ('pg_read_all_data', 'pg_write_all_data', 'pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program'));

    -- Its own relations, tried.
    SELECT jsonb_agg(to_jsonb(x)) INTO tried FROM graphrag._try_reads(_audited.role) x WHERE foreign_code IS NULL;
    RETURN QUERY
    SELECT CASE WHEN c.relkind = 'v' THEN 'view' WHEN c.relkind = 'S' THEN 'sequence' ELSE 'table' END, c.oid::regclass::text, p.privilege,
           CASE WHEN c.relrowsecurity THEN format('row-level security, %s policies', (SELECT count(*) FROM pg_policy y WHERE y.polrelid = c.oid))
                WHEN c.relkind = 'v' AND 'security_invoker=true' = ANY (c.reloptions) THEN 'view with the caller''s rights'
                WHEN c.relkind = 'v' THEN 'view with the owner''s rights that asks what the caller sees'
                ELSE 'privileges alone' END,
           coalesce(t.verdict, 'untried'),
           coalesce(t.detail, CASE WHEN p.privilege = 'SELECT' THEN 'it would run ' || foreign_code ELSE 'a right to change; who has it is to be trusted with it' END)
      FROM pg_class c
     CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE'), ('TRUNCATE'), ('REFERENCES'), ('TRIGGER')) AS p (privilege)
      LEFT JOIN jsonb_to_recordset(tried) AS t (object oid, privilege text, verdict text, detail text) ON t.object = c.oid AND t.privilege = p.privilege
     WHERE c.relnamespace IN ('graphrag'::regnamespace, 'graphrag_attached'::regnamespace) AND c.relkind IN ('r', 'p', 'v', 'm')
       AND has_table_privilege(role_id, c.oid, p.privilege)
     ORDER BY 2, 3;
    RETURN QUERY
    SELECT 'column', format('%s (%s)', c.oid::regclass, string_agg(quote_ident(a.attname), ', ' ORDER BY a.attname)), p.privilege,
           CASE WHEN c.relrowsecurity THEN 'row-level security' ELSE 'privileges alone' END,
           coalesce(min(t.verdict), CASE WHEN k.is_given THEN 'held' ELSE 'untried' END),
           coalesce(min(t.detail), CASE WHEN k.is_given THEN 'as the extension gives them to everybody; triggers check who asks' ELSE 'of single columns' END)
      FROM pg_class c
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
     CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE')) AS p (privilege)
      LEFT JOIN jsonb_to_recordset(tried) AS t (object oid, privilege text, verdict text, detail text) ON t.object = c.oid AND t.privilege = p.privilege
     CROSS JOIN LATERAL (SELECT p.privilege = 'INSERT' AND a.attname <> 'caller' AND c.oid IN ('graphrag._attach_requests'::regclass, 'graphrag_attached._handover'::regclass, 'graphrag_attached._replicated'::regclass)
                             OR p.privilege = 'SELECT' AND a.attname = 'source_keys' AND c.oid = 'graphrag_attached._handover'::regclass AS is_given) k
     WHERE c.relnamespace IN ('graphrag'::regnamespace, 'graphrag_attached'::regnamespace)
       AND has_column_privilege(role_id, c.oid, a.attnum, p.privilege) AND NOT has_table_privilege(role_id, c.oid, p.privilege)
     GROUP BY c.oid, p.privilege, k.is_given
     ORDER BY 2, 3;
    -- Triggers, those of attached tables among them, nobody calls.
    RETURN QUERY
    SELECT 'function', f.oid::regprocedure::text, 'EXECUTE',
           CASE WHEN f.prosecdef THEN 'owner''s rights, for a token of the package alone' ELSE 'the caller''s rights' END,
           CASE WHEN f.proowner <> owner AND NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.oid = f.proowner) OR t.verdict = 'leaks' THEN 'leaks'
                WHEN k.is_given AND t.verdict IS DISTINCT FROM 'untried' AND tried IS NOT NULL THEN 'held'
                ELSE 'untried' END,
           CASE WHEN f.proowner <> owner THEN format('belongs to role "%s"', pg_get_userbyid(f.proowner))
                WHEN t.verdict IS NOT NULL THEN t.detail
                WHEN k.is_given THEN 'as the extension gives them to its roles; not tried: shows no texts, or those alone that context() finds'
                ELSE 'of the extension, granted to it besides' END
      FROM pg_proc f
      LEFT JOIN jsonb_to_recordset(tried) AS t (object oid, privilege text, verdict text, detail text) ON t.object = f.oid AND t.privilege = 'EXECUTE'
     CROSS JOIN LATERAL (
           SELECT EXISTS (SELECT FROM aclexplode(coalesce(f.proacl, acldefault('f', f.proowner))) x
                           WHERE x.grantee IN (0, 'graphrag_member'::regrole, 'graphrag_writer'::regrole, 'pg_monitor'::regrole)
                             AND (x.grantee = 0 OR pg_has_role(role_id, x.grantee, 'USAGE'))) AS is_given) k
     WHERE f.pronamespace IN ('graphrag'::regnamespace, 'graphrag_attached'::regnamespace) AND has_function_privilege(role_id, f.oid, 'EXECUTE')
       AND f.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
     ORDER BY 2;

    -- Graphs for Cypher have no row-level security, and some functions of Apache AGE ask for no privileges.
    RETURN QUERY
    SELECT 'graph', c.oid::regclass::text, 'SELECT', 'none', 'leaks', 'a graph for Cypher shows all documents'
      FROM graphrag.corpora k
      JOIN pg_namespace n ON n.nspname = k.graph_name
      JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind IN ('r', 'p')
     WHERE has_any_column_privilege(role_id, c.oid, 'SELECT') AND has_schema_privilege(role_id, n.oid, 'USAGE')
     ORDER BY 2;
    RETURN QUERY
    SELECT 'function', f.oid::regprocedure::text, 'EXECUTE', 'none', 'leaks', 'of Apache AGE; passes by privileges'
      FROM graphrag._unguarded_age_functions() AS u
      JOIN pg_proc f ON f.oid = u
     WHERE has_function_privilege(role_id, f.oid, 'EXECUTE') AND has_schema_privilege(role_id, 'ag_catalog', 'USAGE')
     ORDER BY 2;

    -- Objects of others, by the catalogs.
    RETURN QUERY
    WITH RECURSIVE readers (view, reads) AS (
        SELECT DISTINCT r.ev_class, d.refobjid
          FROM pg_rewrite r
          JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> r.ev_class
    ), ours (relation) AS (
        SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'graphrag'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
         UNION
        SELECT v.view FROM ours o JOIN readers v ON v.reads = o.relation
    )
    SELECT CASE c.relkind WHEN 'm' THEN 'materialized view' ELSE 'view' END, c.oid::regclass::text, 'SELECT',
           CASE WHEN c.relkind = 'm' THEN 'none: a copy' WHEN 'security_invoker=true' = ANY (c.reloptions) THEN 'the caller''s rights'
                ELSE format('the rights of role "%s"', pg_get_userbyid(c.relowner)) END,
           CASE WHEN c.relkind = 'm' THEN 'leaks' WHEN 'security_invoker=true' = ANY (c.reloptions) THEN 'held'
                WHEN s.rolsuper OR s.rolbypassrls OR pg_has_role(s.oid, owner, 'USAGE') THEN 'leaks' ELSE 'untried' END,
           'of others; judged by the catalogs alone'
      FROM ours o
      JOIN pg_class c ON c.oid = o.relation AND c.relnamespace NOT IN ('graphrag'::regnamespace, 'graphrag_attached'::regnamespace)
      JOIN pg_roles s ON s.oid = c.relowner
     WHERE has_any_column_privilege(role_id, c.oid, 'SELECT') AND has_schema_privilege(role_id, c.relnamespace, 'USAGE')
     ORDER BY 2;
    RETURN QUERY
    SELECT 'function', f.oid::regprocedure::text, 'EXECUTE', format('the rights of role "%s"', pg_get_userbyid(f.proowner)),
           CASE WHEN EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = f.oid AND d.refclassid = 'pg_class'::regclass
                                AND d.refobjid IN (SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'graphrag'::regnamespace))
                  OR strpos(f.prosrc, 'graphrag') > 0 THEN 'leaks' ELSE 'untried' END,
           'of others, SECURITY DEFINER; judged by the catalogs and by whether its text names the schema'
      FROM pg_proc f
      JOIN pg_namespace n ON n.oid = f.pronamespace
     WHERE f.prosecdef AND n.nspname NOT IN ('graphrag', 'graphrag_attached', 'pg_catalog', 'information_schema')
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = f.oid AND d.deptype = 'e')
       AND has_function_privilege(role_id, f.oid, 'EXECUTE') AND has_schema_privilege(role_id, n.oid, 'USAGE')
       AND has_any_column_privilege(f.proowner, 'graphrag.documents', 'SELECT')
     ORDER BY 2;
    RETURN QUERY
    SELECT 'attached table', c.oid::regclass::text, 'SELECT',
           CASE a.kind WHEN 'documents' THEN 'that of the corpus alone' ELSE 'row-level security of documents asks the table' END,
           CASE a.kind WHEN 'documents' THEN 'untried' ELSE 'held' END,
           CASE WHEN a.kind = 'documents' THEN format('who reads corpus "%s" reads what comes from it', k.name)
                WHEN s.mend <> '' THEN format('shows it no row in corpus "%s": %s', k.name, s.mend)
                ELSE format('shows who reads corpus "%s" the rows that he may SELECT', k.name) END
      FROM graphrag._attached_tables a
      JOIN graphrag.corpora k ON k.id = a.corpus_id
      JOIN pg_class c ON c.oid = a.relation
      LEFT JOIN (SELECT r.attached_id, min(r.mend) AS mend FROM graphrag._row_readers r WHERE r.reader = role_id GROUP BY r.attached_id) s ON s.attached_id = a.id
     WHERE s.attached_id IS NOT NULL OR has_any_column_privilege(role_id, c.oid, 'SELECT') AND has_schema_privilege(role_id, c.relnamespace, 'USAGE')
     ORDER BY 2;
END
$$;
COMMENT ON FUNCTION graphrag._audited(name) IS 'The rows of audit(), one object each';

CREATE FUNCTION graphrag.audit(role name) RETURNS TABLE (kind text, object text, privilege text, protection text, verdict text, detail text)
LANGUAGE sql VOLATILE ROWS 20 SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT a.kind,
           CASE WHEN count(*) > 30 THEN format('%s: %s, …', count(*), array_to_string((array_agg(a.object ORDER BY a.object))[1:5], ', '))
                ELSE string_agg(a.object, ', ' ORDER BY a.object) END,
           a.privilege, a.protection, a.verdict, a.detail
      FROM graphrag._audited(audit.role) a
     GROUP BY a.kind, a.privilege, a.protection, a.verdict, a.detail, CASE a.verdict WHEN 'leaks' THEN a.object END
     ORDER BY array_position(ARRAY['leaks', 'untried', 'held'], a.verdict), a.kind, 2;
END;
COMMENT ON FUNCTION graphrag.audit(name) IS 'Everything by which a role could learn about documents or change them: a row for each of its attributes and memberships, relations, single columns, functions, graphs, and objects of others that read the schema; objects with the same verdict are one row, leaks apart and first. kind; object; privilege; protection; verdict; detail. verdict: held or leaks, if it was tried as the role on a closed corpus made for this and rolled back, or if the catalogs decide; untried, if only people can judge. Code of others is never run: if a read or the planting would run some, it is untried, with the owner''s name. Locks graphrag.documents like protect(), while it runs. Superusers, or the owner for roles that he may act as (42501); 42704 for an unknown role, 55P03 if documents stay locked.';
