-- What a database without the extension has in place of objects of sql/, or besides. By name: process/schema.py.

-- The roles that grants name. They are the cluster's: who may make roles makes them, else they must be there.
CREATE FUNCTION graphrag._ensure_roles() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wanted record;
    wrong  text;
BEGIN
    FOR wanted IN
        SELECT * FROM (VALUES (1, 'graphrag_member', NULL), (2, 'graphrag_reader', 'graphrag_member'), (3, 'graphrag_writer', 'graphrag_member')
        ) v (place, name, parent) ORDER BY place
    LOOP
        IF to_regrole(wanted.name) IS NULL THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN %s', wanted.name, 'IN ROLE ' || wanted.parent);
            EXCEPTION WHEN insufficient_privilege THEN
                RAISE EXCEPTION 'role "%" does not exist, and "%" may not make it', wanted.name, current_user
                    USING ERRCODE = 'insufficient_privilege',
                          HINT = 'Have who may make roles run: CREATE ROLE graphrag_member NOLOGIN; CREATE ROLE graphrag_reader NOLOGIN IN ROLE graphrag_member; CREATE ROLE graphrag_writer NOLOGIN IN ROLE graphrag_member.';
            END;
        END IF;
        SELECT CASE
                   WHEN r.rolcanlogin THEN 'it may log in'
                   WHEN r.rolsuper OR r.rolcreatedb OR r.rolcreaterole OR r.rolreplication OR r.rolbypassrls
                       THEN 'it has attributes of its own (SUPERUSER, CREATEDB, CREATEROLE, REPLICATION or BYPASSRLS)'
                   -- Who may grant it could let anybody read. Besides superusers that is who installs, or owns the database.
                   WHEN EXISTS (SELECT FROM pg_auth_members m JOIN pg_roles a ON a.oid = m.member
                                 WHERE m.roleid = r.oid AND m.admin_option AND NOT a.rolsuper AND a.rolname <> current_user
                                   AND a.oid <> (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database()))
                       THEN 'a role that is neither superuser nor owner of this database may grant it'
                   WHEN wanted.parent IS NOT NULL AND NOT pg_has_role(wanted.name, wanted.parent, 'USAGE')
                       THEN format('it is no member of %s', wanted.parent)
               END INTO wrong
          FROM pg_roles r WHERE r.rolname = wanted.name;
        IF wrong IS NOT NULL THEN
            RAISE EXCEPTION 'role "%" exists, and cannot be used: %', wanted.name, wrong
                USING ERRCODE = 'insufficient_privilege', HINT = 'Have that changed by who may, then try again.';
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION graphrag._ensure_roles() IS 'Makes graphrag_member, graphrag_reader and graphrag_writer where they are not there';

-- No corpus has an Apache AGE graph here.
CREATE FUNCTION graphrag._has_cypher(options jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
RETURN false;

CREATE FUNCTION graphrag._check_age() RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'there is no Apache AGE in this database'
        USING ERRCODE = 'feature_not_supported', HINT = 'Use neighbors(), or the views graphrag.graph_nodes and graphrag.graph_edges.';
END
$$;

CREATE FUNCTION graphrag._ensure_graph(corpus_id int) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
RETURN false;

CREATE FUNCTION graphrag._is_graph_of_ours(graph_name name) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
RETURN false;

CREATE FUNCTION graphrag._drop_graph(corpus_id int) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
END
$$;

CREATE FUNCTION graphrag.rebuild_graph(corpus text DEFAULT 'default') RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM graphrag._check_age();
END
$$;

CREATE FUNCTION graphrag._refuse_cypher() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'corpus "%" cannot have the option cypher: there is no Apache AGE in this database', NEW.name
        USING ERRCODE = 'feature_not_supported', HINT = 'Leave the option out; neighbors() and the views need no graph.';
END
$$;
CREATE TRIGGER corpora_refuse_cypher BEFORE INSERT OR UPDATE ON graphrag.corpora
    FOR EACH ROW WHEN ((NEW.options ->> 'cypher') = 'true') EXECUTE FUNCTION graphrag._refuse_cypher();

-- The meters are files of the processes.
CREATE FUNCTION graphrag._metered(corpus_id int, role name DEFAULT NULL) RETURNS double precision
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN NULL::double precision;

-- A process of another version is refused before it does anything.
CREATE FUNCTION graphrag._package_version() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN '@extversion@';

CREATE FUNCTION graphrag.attach_table(source regclass, corpus text, key_column name, content_columns name[],
    title_column name DEFAULT NULL, metadata_columns name[] DEFAULT '{}', options jsonb DEFAULT '{}') RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'tables are not attached in a database without the extension'
        USING ERRCODE = 'feature_not_supported', HINT = 'Keep graphrag.documents up to date by triggers of your own on the table.';
END
$$;

CREATE FUNCTION graphrag.uninstall() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'there is no extension to uninstall'
        USING ERRCODE = 'feature_not_supported', HINT = 'DROP SCHEMA graphrag, graphrag_attached CASCADE removes everything.';
END
$$;

-- As create_corpus() makes it, with the tokenizer of the process that installed the schema.
CREATE FUNCTION graphrag._default_corpus() RETURNS int
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    corpus_id int;
BEGIN
    INSERT INTO graphrag.corpora (name, tokenizer, tokenizer_fingerprint)
    SELECT 'default', i.tokenizer, i.tokenizer_fingerprint FROM graphrag._installed i RETURNING id INTO corpus_id;
    RETURN corpus_id;
EXCEPTION WHEN unique_violation THEN
    RETURN (SELECT c.id FROM graphrag.corpora c WHERE c.name = 'default');
END
$$;

CREATE TABLE graphrag._installed (
    version               text NOT NULL,
    tokenizer             text NOT NULL,
    tokenizer_fingerprint text NOT NULL
);
COMMENT ON TABLE graphrag._installed IS 'The version of the schema and the default tokenizer, in a database without the extension';
REVOKE ALL ON FUNCTION graphrag._refuse_cypher() FROM PUBLIC;
GRANT SELECT ON graphrag._installed TO graphrag_member;
