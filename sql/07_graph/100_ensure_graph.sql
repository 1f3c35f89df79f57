-- AGE's own schema decides what its functions and operators are, and its tables which tables are a graph's: whoever may create or write there, or has, would
-- run with our rights. An overload wins by its types, a trigger by our DELETE.
CREATE FUNCTION graphrag._check_age() RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    superusers CONSTANT oid[]      := ARRAY(SELECT r.oid FROM pg_roles AS r WHERE r.rolsuper);
    registry   CONSTANT regclass[] := '{ag_catalog.ag_graph,ag_catalog.ag_label}';
    flaw       text;
BEGIN
    SELECT CASE x.role WHEN 0 THEN replace(x.flaw, '%s', 'public') ELSE replace(x.flaw, '%s', pg_get_userbyid(x.role)) END INTO flaw
      FROM (SELECT 'belongs to role "%s"' AS flaw, n.nspowner AS role FROM pg_namespace AS n WHERE n.nspname = 'ag_catalog'
             UNION ALL
            SELECT 'lets role "%s" create objects in it', a.grantee
              FROM pg_namespace AS n, aclexplode(n.nspacl) AS a WHERE n.nspname = 'ag_catalog' AND a.privilege_type = 'CREATE'
             UNION ALL
            SELECT 'has a table ' || c.relname || ' of role "%s"', c.relowner FROM pg_class AS c WHERE c.oid = ANY (registry)
             UNION ALL
            SELECT 'lets role "%s" change its table ' || c.relname, a.grantee
              FROM pg_class AS c, aclexplode(c.relacl) AS a WHERE c.oid = ANY (registry) AND a.privilege_type <> 'SELECT'
             UNION ALL
            SELECT 'lets role "%s" change its table ' || t.attrelid::regclass, a.grantee
              FROM pg_attribute AS t, aclexplode(t.attacl) AS a WHERE t.attrelid = ANY (registry) AND a.privilege_type <> 'SELECT'
             UNION ALL
            SELECT 'has a trigger of role "%s" on its table ' || t.tgrelid::regclass, p.proowner
              FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid WHERE t.tgrelid = ANY (registry)
             UNION ALL
            SELECT 'has a function ' || p.proname || ' of role "%s"', p.proowner FROM pg_proc AS p WHERE p.pronamespace = 'ag_catalog'::regnamespace
             UNION ALL
            SELECT 'has an operator ' || o.oprname || ' of role "%s"', o.oprowner FROM pg_operator AS o WHERE o.oprnamespace = 'ag_catalog'::regnamespace
           ) AS x
     WHERE x.role <> ALL (superusers)
     LIMIT 1;
    IF NOT FOUND THEN
        SELECT format('has a rule or policies on its table %s', c.relname) INTO flaw
          FROM pg_class AS c
         WHERE c.oid = ANY (registry) AND (c.relrowsecurity OR EXISTS (SELECT FROM pg_rewrite AS r WHERE r.ev_class = c.oid))
         LIMIT 1;
    END IF;
    IF FOUND THEN
        RAISE EXCEPTION 'schema "ag_catalog" %', flaw
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'It has to be the superusers'' alone: ALTER SCHEMA … OWNER TO, REVOKE … ON SCHEMA ag_catalog or ON ALL TABLES IN SCHEMA ag_catalog FROM …, or DROP what was added.';
    END IF;
END
$function$;

-- The functions by which AGE reads and fills any graph whatever the caller's privileges (tried: USAGE on ag_catalog is enough for the text of every entity);
-- those that load files read any file of the server, too. Shortest paths and statistics of graphs are of AGE 1.8.
CREATE FUNCTION graphrag._unguarded_age_functions() RETURNS SETOF regprocedure
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT p.oid::regprocedure
      FROM pg_proc AS p
      JOIN pg_namespace AS n ON n.oid = p.pronamespace AND n.nspname = 'ag_catalog'
     WHERE p.proname IN ('age_vle', 'age_startnode', 'age_endnode', 'age_vertex_stats', 'age_graph_stats', 'age_shortest_path', 'age_all_shortest_paths',
                         'load_labels_from_file', 'load_edges_from_file')
$function$;

-- Close them. Who needs them for graphs of his own is granted them by name. At run time, not in the extension's script: they are no objects of ours, and
-- pg_dump has to carry it.
CREATE FUNCTION graphrag._close_age() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    function regprocedure;
BEGIN
    FOR function IN
        SELECT p.oid
          FROM graphrag._unguarded_age_functions() AS u
          JOIN pg_proc AS p ON p.oid = u
         WHERE (p.proacl IS NULL OR EXISTS (SELECT FROM aclexplode(p.proacl) AS a WHERE a.grantee = 0))
    LOOP
        -- Two at once would fail ("tuple concurrently updated"): whoever comes second waits, and does it again.
        PERFORM graphrag._lock(0, 'age');
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', function);
    END LOOP;
END
$function$;

-- Whether a trigger is the one that AGE has had on labels since 1.8: it counts changes, by which what a session has read of a graph becomes old. Exactly
-- that: a function of this name that is no member of the extension age, a condition (WHEN runs code) or another event is somebody's own.
CREATE FUNCTION graphrag._is_trigger_of_age(trigger pg_trigger) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT trigger.tgtype = 4 + 8 + 16 + 32 -- AFTER INSERT OR DELETE OR UPDATE OR TRUNCATE, for each statement
       AND trigger.tgqual IS NULL AND trigger.tgnargs = 0 AND trigger.tgattr = ''::int2vector AND trigger.tgconstraint = 0
       AND trigger.tgoldtable IS NULL AND trigger.tgnewtable IS NULL AND trigger.tgenabled = 'O'
       AND EXISTS (SELECT FROM pg_depend AS d
                     JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid AND e.extname = 'age'
                     JOIN pg_proc AS p ON p.oid = d.objid
                     JOIN pg_namespace AS n ON n.oid = p.pronamespace AND n.nspname = 'ag_catalog'
                     JOIN pg_language AS l ON l.oid = p.prolang AND l.lanname = 'c'
                    WHERE d.classid = 'pg_proc'::regclass AND d.objid = trigger.tgfoid AND d.deptype = 'e'
                      AND p.proname = 'age_invalidate_graph_cache')
$function$;

-- What keeps the schema of that name from being a graph of ours; null where nothing does. Whoever has CREATE on the database can make a schema, or a graph
-- of AGE, of any name; what is planted there must not run with our rights. From the catalogs alone: nothing of the graph itself is read.
-- Whose graph it is, _graphs says. Defaults are compared as PostgreSQL writes them, without quotes that need not be.
CREATE FUNCTION graphrag._graph_flaw(graph_name name) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off
AS $function$
#variable_conflict use_variable
DECLARE
    extension_owner oid;
    schema          pg_namespace;
    graph_id        oid;
    flaw            text;
BEGIN
    SELECT e.extowner INTO extension_owner FROM pg_extension AS e WHERE e.extname = 'pg_graphrag';
    SELECT n.* INTO schema FROM pg_namespace AS n WHERE n.nspname = graph_name;
    IF NOT FOUND THEN
        RETURN 'is missing';
    ELSIF schema.nspowner <> extension_owner THEN
        RETURN format('belongs to role "%s", pg_graphrag to role "%s"', pg_get_userbyid(schema.nspowner), pg_get_userbyid(extension_owner));
    END IF;
    SELECT g.graphid INTO graph_id FROM ag_catalog.ag_graph AS g WHERE g.name = graph_name AND g.namespace = schema.oid;
    IF NOT FOUND THEN
        RETURN 'is not registered with Apache AGE';
    END IF;
    SELECT format('lets role "%s" create objects in it', CASE a.grantee WHEN 0 THEN 'public' ELSE pg_get_userbyid(a.grantee) END) INTO flaw
      FROM aclexplode(schema.nspacl) AS a
     WHERE a.privilege_type = 'CREATE' AND a.grantee <> extension_owner
     LIMIT 1;
    IF FOUND THEN
        RETURN flaw;
    END IF;

    -- Owners of tables and sequences (an index has its table's), and their columns. In AGE 1.5 a label is its table.
    SELECT format('has a label "%s" that is not as pg_graphrag makes it', l.name) INTO flaw
      FROM ag_catalog.ag_label AS l
      LEFT JOIN pg_class AS t ON t.oid = l.relation
      LEFT JOIN pg_class AS s ON s.relname = l.seq_name AND s.relnamespace = schema.oid
     WHERE l.graph = graph_id
       AND (t.relnamespace = schema.oid AND t.relname = l.name AND t.relkind = 'r' AND t.relpersistence = 'p' AND t.relowner = extension_owner
            AND NOT t.relrowsecurity AND t.reloftype = 0 AND s.relkind = 'S' AND s.relowner = extension_owner
            AND l.id = coalesce(array_position('{_ag_label_vertex,_ag_label_edge,Entity,Chunk,Document,RELATED,MENTIONED_IN,PART_OF,Community,IN_COMMUNITY,PARENT}',
                                               l.name), l.id)) IS NOT TRUE
     LIMIT 1;
    IF FOUND THEN
        RETURN flaw;
    END IF;

    -- Whatever else could run code when the tables are read or written.
    SELECT format('has, on label "%s", a %s', l.name, x.what) INTO flaw
      FROM ag_catalog.ag_label AS l
      JOIN pg_class AS t ON t.oid = l.relation
     CROSS JOIN LATERAL (
           SELECT 'trigger' AS what FROM pg_trigger AS g WHERE g.tgrelid = t.oid AND NOT graphrag._is_trigger_of_age(g)
            UNION ALL
           SELECT 'rule' FROM pg_rewrite AS r WHERE r.ev_class = t.oid
            UNION ALL
           SELECT 'policy' FROM pg_policy AS p WHERE p.polrelid = t.oid
            UNION ALL
           SELECT 'constraint' FROM pg_constraint AS c WHERE c.conrelid = t.oid AND c.contype NOT IN ('p', 'n')
            UNION ALL
           SELECT 'index on an expression' FROM pg_index AS i WHERE i.indrelid = t.oid AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
            UNION ALL
           SELECT 'statistics object on an expression' FROM pg_statistic_ext AS e WHERE e.stxrelid = t.oid AND e.stxexprs IS NOT NULL
            UNION ALL
           SELECT 'table that inherits from it' FROM pg_inherits AS h
            WHERE h.inhparent = t.oid AND NOT EXISTS (SELECT FROM ag_catalog.ag_label AS k WHERE k.relation = h.inhrelid AND k.graph = graph_id)
            UNION ALL
           SELECT 'column of another type' FROM pg_attribute AS a
            WHERE a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
              AND a.atttypid <> CASE a.attname WHEN 'properties' THEN 'ag_catalog.agtype'::regtype ELSE 'ag_catalog.graphid'::regtype END
            UNION ALL
           SELECT 'column default' FROM pg_attrdef AS d JOIN pg_attribute AS a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
            WHERE d.adrelid = t.oid
              AND pg_get_expr(d.adbin, d.adrelid)
                  <> CASE a.attname
                         WHEN 'properties' THEN 'ag_catalog.agtype_build_map()'
                         ELSE format('ag_catalog._graphid((ag_catalog._label_id(%L::name, %L::name))::integer, nextval(%L::regclass))',
                                     graph_name, l.name, format('%I.%I', graph_name, l.seq_name))
                     END
            UNION ALL
           SELECT format('privilege TRIGGER of role "%s"', CASE a.grantee WHEN 0 THEN 'public' ELSE pg_get_userbyid(a.grantee) END)
             FROM aclexplode(t.relacl) AS a
            WHERE a.privilege_type = 'TRIGGER' AND a.grantee <> extension_owner) AS x
     WHERE l.graph = graph_id
     LIMIT 1;
    RETURN flaw;
END
$function$;

-- Whether a schema is an Apache AGE graph, of whoever.
CREATE FUNCTION graphrag._is_graph(schema_name name) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM ag_catalog.ag_graph AS g WHERE g.name = schema_name)
$$;

-- Whether the schema of that name is a graph that pg_graphrag made, in this installation or an earlier one, and so may be dropped. What was done to it since
-- does not matter. A restore may have given it to another superuser. A restore of schemas alone brings a graph's tables, and not what AGE knows of them: such
-- a schema is a graph where all in it are labels of one, by what they inherit from.
CREATE FUNCTION graphrag._is_graph_of_ours(graph_name name) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $function$
    WITH ours AS (
        SELECT n.oid, n.nspname, k.name AS label, k.place
          FROM pg_extension AS e
          JOIN pg_namespace AS n ON n.nspname = graph_name
          JOIN pg_roles AS o ON o.oid = n.nspowner AND (o.oid = e.extowner OR o.rolsuper)
          JOIN unnest('{Entity,Chunk,Document,RELATED,MENTIONED_IN,PART_OF}'::name[]) WITH ORDINALITY AS k (name, place) ON true
         WHERE e.extname = 'pg_graphrag'
    )
    SELECT (SELECT count(*) = 6
              FROM ours AS n
              JOIN ag_catalog.ag_graph AS g ON g.namespace = n.oid AND g.name = n.nspname
              JOIN ag_catalog.ag_label AS l ON l.graph = g.graphid AND n.label = l.name AND n.place + 2 = l.id)
        OR (SELECT count(c.oid) = 6 FROM ours AS n LEFT JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = n.label)
           AND NOT EXISTS (SELECT FROM ag_catalog.ag_graph AS g WHERE g.name = graph_name)
           -- What stands in a schema depends on it, but for what depends on its tables. All else would be dropped with it.
           AND NOT EXISTS (
               SELECT FROM ours AS n
                 JOIN pg_depend AS d ON d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid AND d.deptype = 'n'
                 LEFT JOIN pg_class AS c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
                 LEFT JOIN pg_inherits AS h ON h.inhrelid = c.oid
                 LEFT JOIN pg_class AS l ON l.oid = coalesce(h.inhparent, c.oid) AND l.relnamespace = n.oid AND l.relname IN ('_ag_label_vertex', '_ag_label_edge')
                WHERE (c.relkind = 'S' OR c.relkind = 'r' AND l.oid IS NOT NULL) IS NOT TRUE)
$function$;

-- Which schema is the graph of a corpus. Never dumped, gone with the extension: a graph of a restore or of an earlier installation is not on it, and is made
-- again. The update from 0.2.0 takes in the graphs there are; when there is nothing to update, there are no corpora.
CREATE TABLE graphrag._graphs AS
SELECT c.id AS corpus_id, n.oid AS namespace
  FROM graphrag.corpora AS c
  JOIN pg_catalog.pg_namespace AS n ON n.nspname = c.graph_name
 WHERE graphrag._is_graph_of_ours(c.graph_name) AND graphrag._graph_flaw(c.graph_name) IS NULL;
ALTER TABLE graphrag._graphs ADD CONSTRAINT _graphs_pkey PRIMARY KEY (corpus_id);
ALTER TABLE graphrag._graphs ALTER COLUMN namespace SET NOT NULL;

-- Make the schema of a graph. Somebody else may have made one of that name, or be about to, in a transaction that never ends.
-- AGE 1.8 looks up the operator class of its indexes, graphid_ops, by the search path. After pg_catalog, only superusers make such classes, and whatever
-- else is in ag_catalog _check_age has seen to be theirs.
CREATE FUNCTION graphrag._create_graph(graph_name name) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, ag_catalog, pg_temp SET lock_timeout = '5s'
AS $function$
BEGIN
    -- Left by a schema that was dropped while AGE was not loaded. AGE forgets the name when it sees a change of schemas.
    DELETE FROM ag_catalog.ag_label AS l USING ag_catalog.ag_graph AS g WHERE g.name = graph_name AND l.graph = g.graphid;
    DELETE FROM ag_catalog.ag_graph AS g WHERE g.name = graph_name;
    IF FOUND THEN
        EXECUTE format('CREATE SCHEMA %I', graph_name);
        EXECUTE format('DROP SCHEMA %I', graph_name);
    END IF;
    PERFORM ag_catalog.create_graph(graph_name);
EXCEPTION
    WHEN duplicate_schema OR unique_violation THEN
        RAISE EXCEPTION 'schema "%" was made by somebody else at this moment', graph_name
            USING ERRCODE = 'duplicate_schema', HINT = 'Rename or drop that schema; pg_graphrag makes its own.';
    WHEN lock_not_available THEN
        RAISE EXCEPTION 'schema "%" cannot be made: another session holds its name', graph_name
            USING ERRCODE = 'lock_not_available',
                  HINT = 'A transaction that is open has made a schema of that name: pg_stat_activity and pg_blocking_pids() show which, or pg_prepared_xacts.';
END
$function$;

-- Make a label of a graph, of vertices or of edges. The search path is that of _create_graph, and for the same reason.
CREATE FUNCTION graphrag._create_label(graph_name name, label name) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, ag_catalog, pg_temp
AS $function$
BEGIN
    -- By literals: the functions take names in AGE 1.6, cstrings in 1.8.
    IF label IN ('Entity', 'Chunk', 'Document', 'Community') THEN
        EXECUTE format('SELECT ag_catalog.create_vlabel(%L, %L)', graph_name, label);
    ELSE
        EXECUTE format('SELECT ag_catalog.create_elabel(%L, %L)', graph_name, label);
    END IF;
END
$function$;

-- The labels of a graph whose tables have an index by id: ours, or the primary key that AGE 1.8 makes of vertices.
CREATE FUNCTION graphrag._indexed_labels(graph name) RETURNS name[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN ARRAY(SELECT t.relname
                   FROM pg_namespace AS n
                   JOIN pg_class AS t ON t.relnamespace = n.oid
                   JOIN pg_index AS i ON i.indrelid = t.oid AND i.indisunique AND i.indisvalid AND i.indnkeyatts = 1
                   JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum = i.indkey[0] AND a.attname = 'id'
                  WHERE n.nspname = graph
                    -- By name: pg_class has no index by schema.
                    AND t.relname IN ('Entity', 'Chunk', 'Document', 'RELATED', 'MENTIONED_IN', 'PART_OF', 'Community', 'IN_COMMUNITY', 'PARENT'));
END
$function$;

-- Label tables get their indexes once they have 2 MB: a smaller one is read as a whole in a few milliseconds, and thousands of corpora have no
-- relations to spare (AGE 1.8 has some of them from the beginning). By its size on disk, which needs no statistics. Left for the next time where the table is in use.
-- Not as a condition of the query: it locks a table, and the planner may try it on the tables of other graphs, which repair() holds.
CREATE FUNCTION graphrag._index_labels(graph name) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    indexed name[] := graphrag._indexed_labels(graph);
    label name;
    label_table regclass;
BEGIN
    FOR label, label_table IN
        SELECT l.name, l.relation
          FROM ag_catalog.ag_graph AS g
          JOIN ag_catalog.ag_label AS l ON l.graph = g.graphid
         WHERE g.name = graph
           AND l.name IN ('Entity', 'Chunk', 'Document', 'RELATED', 'MENTIONED_IN', 'PART_OF', 'Community', 'IN_COMMUNITY', 'PARENT')
           AND (l.name <> ALL (indexed)
                OR l.name = 'Entity' AND NOT EXISTS (SELECT FROM pg_class AS i WHERE i.relnamespace = g.namespace AND i.relname = 'Entity_properties_idx'))
         ORDER BY l.id
    LOOP
        CONTINUE WHEN pg_relation_size(label_table) < 2097152;
        BEGIN
            EXECUTE format('LOCK TABLE %I.%I IN SHARE MODE NOWAIT', graph, label);
            -- Another session may have made it meanwhile.
            IF label <> ALL (graphrag._indexed_labels(graph)) THEN
                EXECUTE format('CREATE UNIQUE INDEX IF NOT EXISTS %I ON %I.%I (id)', label || '_id_idx', graph, label);
            END IF;
            IF label = 'Entity' THEN
                EXECUTE format('CREATE INDEX IF NOT EXISTS "Entity_properties_idx" ON %I."Entity" USING gin (properties)', graph);
            ELSIF label NOT IN ('Chunk', 'Document', 'Community') THEN
                EXECUTE format('CREATE INDEX IF NOT EXISTS %I ON %I.%I (start_id)', label || '_start_id_idx', graph, label);
                EXECUTE format('CREATE INDEX IF NOT EXISTS %I ON %I.%I (end_id)', label || '_end_id_idx', graph, label);
            END IF;
        EXCEPTION WHEN lock_not_available OR object_in_use THEN
            NULL;
        END;
    END LOOP;
END
$function$;

-- The AGE graph of a corpus, made with its first documents: never an extension member, so it is dumped with its rows. False, and nothing made, where the
-- option cypher is off.
-- SECURITY DEFINER: every graph belongs to the extension's owner, whoever runs the worker. AGE is loaded by its type's input function.
CREATE FUNCTION graphrag._ensure_graph(corpus_id int) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning
AS $function$
#variable_conflict use_variable
DECLARE
    -- In this order: AGE numbers labels as they are made (110_project.sql).
    labels   CONSTANT name[] := '{Entity,Chunk,Document,RELATED,MENTIONED_IN,PART_OF,Community,IN_COMMUNITY,PARENT}';
    graph    name;
    corpus   text;
    has_cypher boolean;
    label    name;
    schema   oid;
    recorded oid;
    grantee  text;
    flaw     text;
BEGIN
    SELECT c.graph_name, c.name, graphrag._has_cypher(c.options) INTO graph, corpus, has_cypher FROM graphrag.corpora AS c WHERE c.id = corpus_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no corpus with id %', corpus_id
            USING ERRCODE = 'undefined_object', HINT = 'SELECT id, name FROM graphrag.corpora lists them.';
    ELSIF NOT has_cypher THEN
        RETURN false;
    END IF;
    PERFORM graphrag._check_age();
    PERFORM graphrag._close_age();
    IF EXISTS (SELECT FROM graphrag._graphs AS r JOIN pg_namespace AS n ON n.oid = r.namespace AND n.nspname = graph WHERE r.corpus_id = corpus_id)
       AND graphrag._graph_flaw(graph) IS NULL
       AND (SELECT count(*) = cardinality(labels)
              FROM ag_catalog.ag_graph AS g JOIN ag_catalog.ag_label AS l ON l.graph = g.graphid WHERE g.name = graph AND l.name = ANY (labels))
    THEN
        PERFORM graphrag._index_labels(graph);
        RETURN true;
    END IF;

    -- Two sessions may come here at once: the second waits, then finds the graph.
    PERFORM graphrag._lock_corpus(corpus_id);
    PERFORM '1'::ag_catalog.agtype;
    SELECT n.oid INTO schema FROM pg_namespace AS n WHERE n.nspname = graph;
    SELECT r.namespace INTO recorded FROM graphrag._graphs AS r WHERE r.corpus_id = corpus_id;
    IF schema IS NULL AND recorded IS NULL THEN
        PERFORM graphrag._create_graph(graph);
    ELSIF schema IS NULL OR schema IS DISTINCT FROM recorded AND graphrag._is_graph_of_ours(graph) THEN
        -- Dropped by hand, restored from a dump, or left by an earlier installation: whatever it holds, it is made from the tables.
        PERFORM graphrag.rebuild_graph(corpus);
        RETURN true;
    ELSIF schema IS DISTINCT FROM recorded THEN
        RAISE EXCEPTION 'schema "%" stands where the graph of corpus "%" belongs', graph, corpus
            USING ERRCODE = 'duplicate_schema',
                  DETAIL = format('The schema %s.', coalesce(graphrag._graph_flaw(graph), 'has not the labels of a graph of pg_graphrag')),
                  HINT = 'Rename or drop that schema; pg_graphrag makes its own.';
    END IF;

    -- A graph of an earlier version has some of the labels. A graph that has been changed is not touched.
    FOREACH label IN ARRAY CASE WHEN schema IS NULL OR graphrag._graph_flaw(graph) IS NULL THEN labels ELSE '{}' END LOOP
        CONTINUE WHEN EXISTS (SELECT FROM ag_catalog.ag_label AS l JOIN ag_catalog.ag_graph AS g ON g.graphid = l.graph
                               WHERE g.name = graph AND l.name = label);
        PERFORM graphrag._create_label(graph, label);
        -- The projection uses row ids as entry ids; what Cypher's CREATE makes begins at 2^47, half of AGE's range, and never meets them.
        PERFORM setval(format('%I.%I', graph, label || '_id_seq')::regclass, 140737488355328, false);
    END LOOP;
    -- What ALTER DEFAULT PRIVILEGES has given away of the new schema and its tables.
    FOR grantee IN
        SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END
          FROM pg_default_acl AS d, aclexplode(d.defaclacl) AS a
         WHERE schema IS NULL AND d.defaclobjtype IN ('n', 'r', 'S') AND a.grantee <> d.defaclrole
    LOOP
        EXECUTE format('REVOKE ALL ON SCHEMA %1$I FROM %2$s; REVOKE ALL ON ALL TABLES IN SCHEMA %1$I FROM %2$s;'
                       'REVOKE ALL ON ALL SEQUENCES IN SCHEMA %1$I FROM %2$s', graph, grantee);
    END LOOP;
    flaw := graphrag._graph_flaw(graph);
    IF flaw IS NOT NULL THEN
        RAISE EXCEPTION 'graph "%" of corpus "%" %', graph, corpus, flaw
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = format('Find out who changed it; SELECT graphrag.rebuild_graph(%L) makes it anew from the tables.', corpus);
    END IF;
    INSERT INTO graphrag._graphs (corpus_id, namespace)
    SELECT corpus_id, n.oid FROM pg_namespace AS n WHERE n.nspname = graph
        ON CONFLICT ON CONSTRAINT _graphs_pkey DO UPDATE SET namespace = EXCLUDED.namespace;
    RETURN true;
END
$function$;

-- Drop the graph of a corpus; nothing happens when there is none, and what is not ours stays. SECURITY DEFINER: likewise.
CREATE FUNCTION graphrag._drop_graph(corpus_id int) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning
AS $function$
#variable_conflict use_variable
DECLARE
    graph    CONSTANT name := 'graphrag_' || corpus_id;
    schema   oid;
    recorded oid;
BEGIN
    PERFORM graphrag._check_age();
    SELECT n.oid INTO schema FROM pg_namespace AS n WHERE n.nspname = graph;
    DELETE FROM graphrag._graphs AS r WHERE r.corpus_id = corpus_id RETURNING r.namespace INTO recorded;
    IF schema IS NULL THEN
        RETURN;
    ELSIF schema IS DISTINCT FROM recorded AND NOT graphrag._is_graph_of_ours(graph) THEN
        RAISE WARNING 'schema "%" is no graph of pg_graphrag: it stays', graph
            USING HINT = 'Rename or drop that schema if nobody needs it.';
        RETURN;
    END IF;
    PERFORM '1'::ag_catalog.agtype;
    -- First: AGE 1.5 would cache each label as it drops it, and its next cache flush would fail ("label (relation) cache corrupted").
    DELETE FROM ag_catalog.ag_label AS l USING ag_catalog.ag_graph AS g WHERE g.name = graph AND l.graph = g.graphid;
    IF EXISTS (SELECT FROM ag_catalog.ag_graph AS g WHERE g.name = graph AND g.namespace = schema) THEN
        PERFORM ag_catalog.drop_graph(graph, true);
    ELSE
        EXECUTE format('DROP SCHEMA %I CASCADE', graph);
    END IF;
END
$function$;
