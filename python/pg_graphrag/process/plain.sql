-- What a database without the extension has in place of objects of sql/, or besides. By name: process/schema.py.

-- No corpus has an Apache AGE graph here.
CREATE FUNCTION graphrag._has_cypher(options jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
RETURN false;
COMMENT ON FUNCTION graphrag._has_cypher(jsonb) IS 'Whether a corpus has an Apache AGE graph: none has in a database without the extension';

CREATE FUNCTION graphrag._check_age() RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'there is no Apache AGE in this database'
        USING ERRCODE = 'feature_not_supported', HINT = 'Use neighbors(), or the views graphrag.graph_nodes and graphrag.graph_edges.';
END
$$;
COMMENT ON FUNCTION graphrag._check_age() IS 'Says that there is no Apache AGE';

CREATE FUNCTION graphrag._ensure_graph(corpus_id int) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
RETURN false;
COMMENT ON FUNCTION graphrag._ensure_graph(int) IS 'Makes the Apache AGE graph of a corpus in a database with the extension; nothing here';

CREATE FUNCTION graphrag._is_graph(schema_name name) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN false;
COMMENT ON FUNCTION graphrag._is_graph(name) IS 'Whether a schema is an Apache AGE graph: not known to a database without the extension';

CREATE FUNCTION graphrag._is_graph_of_ours(graph_name name) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
RETURN false;
COMMENT ON FUNCTION graphrag._is_graph_of_ours(name) IS 'Whether a schema is an Apache AGE graph of a corpus: none is here';

CREATE FUNCTION graphrag._drop_graph(corpus_id int) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
END
$$;
COMMENT ON FUNCTION graphrag._drop_graph(int) IS 'Drops the Apache AGE graph of a corpus in a database with the extension; nothing here';

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
COMMENT ON FUNCTION graphrag._refuse_cypher() IS 'Refuses the option cypher';
CREATE TRIGGER corpora_refuse_cypher BEFORE INSERT OR UPDATE ON graphrag.corpora
    FOR EACH ROW WHEN ((NEW.options ->> 'cypher') = 'true') EXECUTE FUNCTION graphrag._refuse_cypher();

-- The meters are files of the processes.
CREATE FUNCTION graphrag._metered(corpus_id int, role name DEFAULT NULL) RETURNS double precision
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN NULL::double precision;
COMMENT ON FUNCTION graphrag._metered(int, name) IS 'Null: meters are files of the processes';

-- A process of another version is refused before it does anything.
CREATE FUNCTION graphrag._package_version() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN '@extversion@';
COMMENT ON FUNCTION graphrag._package_version() IS 'Version of the package that the schema is for';

-- Only superusers lock a row of the catalog. So a schema's owner, who could put another one under its name, must be trusted anyway:
-- a superuser, who owns the database, or who can act as the table's owner or as the owner of the schema graphrag, who calls this.
CREATE FUNCTION graphrag._hold_schemas(schemas oid[], owner oid) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    other record;
BEGIN
    SELECT n.nspname, o.rolname INTO other
      FROM pg_namespace n
      JOIN pg_roles o ON o.oid = n.nspowner
     WHERE n.oid = ANY (schemas) AND NOT o.rolsuper AND o.rolname <> 'pg_database_owner'
       AND o.oid <> (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database())
       AND NOT pg_has_role(o.oid, owner, 'USAGE') AND NOT pg_has_role(o.oid, current_user, 'USAGE')
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'schema % belongs to role "%", who could put another one under its name', quote_ident(other.nspname), other.rolname
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'Have the schema belong to whom the table belongs, or to the owner of the database.';
    END IF;
END
$$;
COMMENT ON FUNCTION graphrag._hold_schemas(oid[], oid) IS 'Refuses schemas whose owner could put another one under the name';

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
COMMENT ON FUNCTION graphrag._default_corpus() IS 'Makes the corpus "default", or returns the number of the one there is';

CREATE TABLE graphrag._installed (
    version               text NOT NULL,
    tokenizer             text NOT NULL,
    tokenizer_fingerprint text NOT NULL,
    script                text NOT NULL
);
COMMENT ON TABLE graphrag._installed IS 'The version of the schema and the default tokenizer, in a database without the extension; one row. Each call of a process reads it, an update locks it.';
COMMENT ON COLUMN graphrag._installed.version IS 'Version of the package that made the schema, or updated it';
COMMENT ON COLUMN graphrag._installed.tokenizer IS 'Tokenizer of the corpus "default"';
COMMENT ON COLUMN graphrag._installed.tokenizer_fingerprint IS 'Hash of its ranks';
COMMENT ON COLUMN graphrag._installed.script IS 'What made the schema: an update runs what is new since';
REVOKE ALL ON FUNCTION graphrag._refuse_cypher() FROM PUBLIC;
-- Whoever calls by a process, with whatever rights: the version is no secret.
GRANT SELECT (version, tokenizer, tokenizer_fingerprint) ON graphrag._installed TO PUBLIC;
