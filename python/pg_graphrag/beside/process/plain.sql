-- What a database without the extension has in place of objects of sql/, or besides. By name: extension/plain_schema.py.

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

-- graph_nodes and graph_edges of corpora that the caller sees in part, in SQL alone: whoever connects as a reader has no process. As the
-- server's (search/explore/views.py) they take the documents that the caller may see, asked as the caller, and read what these state as the
-- owner. A function that a view calls runs as the caller, who may not read that: the bodies of the rules of the merge stand in place of
-- their calls (extension/plain_schema.py).
-- Not for callers: the others are made of it. is_whole: he sees all that the index of the corpus holds, and so the merged rows.
CREATE VIEW graphrag._partial_corpora WITH (security_barrier = true) AS
WITH visible AS MATERIALIZED (
    SELECT v.id FROM graphrag.visible_documents() AS v (id)
     UNION
    SELECT d.id
      FROM graphrag.documents d
     WHERE d.corpus_id IN (SELECT r.corpus_id FROM graphrag._removals r) AND graphrag._reads_whole(d.corpus_id) AND d.indexed_hash IS NOT NULL
), corpora AS MATERIALIZED (
    SELECT c.id, c.name
      FROM graphrag.corpora c
     WHERE graphrag._may_use(c.id) AND (NOT graphrag._reads_whole(c.id) OR c.id IN (SELECT r.corpus_id FROM graphrag._removals r))
), seen AS MATERIALIZED (
    SELECT c.id, c.name, pg_catalog.array_agg(d.id) AS documents
      FROM visible v
      JOIN graphrag.documents d ON d.id = v.id
      JOIN corpora c ON c.id = d.corpus_id
     GROUP BY c.id, c.name
)
SELECT s.id, s.name, s.documents,
       (SELECT pg_catalog.count(*) FROM graphrag.chunks k WHERE k.document_id = ANY (s.documents)) AS chunks,
       NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.corpus_id = s.id AND d.indexed_hash IS NOT NULL OFFSET pg_catalog.cardinality(s.documents))
       AND NOT EXISTS (SELECT FROM graphrag.chunks k WHERE k.corpus_id = s.id AND k.document_id <> ALL (s.documents)) AS is_whole
  FROM seen s;
COMMENT ON VIEW graphrag._partial_corpora IS 'Corpora that the caller sees in part, or whose merged rows tell of deleted documents, with the documents that he sees';

-- Names of attached rows as the rows' entities (sql/07_graph/025_row_names.sql), and what visible documents mention, of those corpora alone.
CREATE VIEW graphrag._stated_names WITH (security_barrier = true) AS
WITH documents AS MATERIALIZED (
    SELECT pg_catalog.array_agg(u.id) AS ids
      FROM graphrag._partial_corpora p
     CROSS JOIN LATERAL pg_catalog.unnest(p.documents) AS u (id)
     WHERE EXISTS (SELECT FROM graphrag._attached_tables a WHERE a.corpus_id = p.id AND a.kind <> 'documents')
), mentions AS MATERIALIZED (
    SELECT m.entity_id, m.chunk_id, m.raw_key, m.name_of, k.is_row
      FROM graphrag.chunks k
      JOIN graphrag.entity_mentions m ON m.chunk_id = k.id
     WHERE k.document_id = ANY ((SELECT d.ids FROM documents d)::bigint[])
), names AS MATERIALIZED (
    SELECT n.entity_id AS name_id, pg_catalog.min(o.entity_id) AS entity_id
      FROM mentions n
      JOIN mentions o ON o.chunk_id = n.chunk_id AND o.raw_key = n.name_of
     WHERE n.name_of IS NOT NULL AND n.entity_id IS NOT NULL
     GROUP BY n.entity_id
    HAVING pg_catalog.bool_and(n.raw_key <> n.name_of AND o.entity_id IS NOT NULL AND o.entity_id <> n.entity_id)
       AND pg_catalog.min(o.entity_id) = pg_catalog.max(o.entity_id)
)
SELECT coalesce(n.entity_id, m.entity_id) AS entity_id, pg_catalog.array_agg(DISTINCT n.name_id) FILTER (WHERE n.name_id IS NOT NULL) AS names,
       pg_catalog.count(DISTINCT m.chunk_id) AS mention_count,
       CASE WHEN pg_catalog.bool_and(m.is_row) THEN 'rows' WHEN pg_catalog.bool_or(m.is_row) THEN 'documents, rows' ELSE 'documents' END AS origin
  FROM mentions m
  LEFT JOIN names n ON n.name_id = m.entity_id
 WHERE m.entity_id IS NOT NULL
 GROUP BY coalesce(n.entity_id, m.entity_id);
COMMENT ON VIEW graphrag._stated_names IS 'Entities of corpora with attached rows that the caller sees in part, with the names of rows that are one with them';

CREATE VIEW graphrag._stated_nodes WITH (security_barrier = true) AS
WITH parts AS MATERIALIZED (
    SELECT p.* FROM graphrag._partial_corpora p
), documents AS MATERIALIZED (
    SELECT pg_catalog.array_agg(u.id) AS ids FROM parts p CROSS JOIN LATERAL pg_catalog.unnest(p.documents) AS u (id) WHERE NOT p.is_whole
), mentions AS MATERIALIZED (
    SELECT m.id, m.entity_id
      FROM graphrag.chunks k
      JOIN graphrag.entity_mentions m ON m.chunk_id = k.id
     WHERE k.document_id = ANY ((SELECT d.ids FROM documents d)::bigint[]) AND m.entity_id IS NOT NULL
), relationships AS MATERIALIZED (
    SELECT r.id, r.low_id, r.high_id
      FROM (SELECT DISTINCT m.relationship_id
              FROM graphrag.chunks k
              JOIN graphrag.relationship_mentions m ON m.chunk_id = k.id
             WHERE k.document_id = ANY ((SELECT d.ids FROM documents d)::bigint[])) s
      JOIN graphrag.relationships r ON r.id = s.relationship_id
), ends AS MATERIALIZED (
    SELECT e.entity_id, pg_catalog.count(*) AS degree
      FROM (SELECT r.low_id AS entity_id FROM relationships r UNION ALL SELECT r.high_id FROM relationships r) e
     GROUP BY e.entity_id
), items AS MATERIALIZED (
    SELECT ARRAY(SELECT m.entity_id FROM mentions m UNION SELECT e.entity_id FROM ends e) AS entity_ids,
           ARRAY(SELECT m.id FROM mentions m) AS mention_ids,
           ARRAY(SELECT r.id FROM relationships r) AS relationship_ids
), joined AS MATERIALIZED (
    SELECT n.* FROM graphrag._stated_names n
), names AS MATERIALIZED (
    SELECT u.id, j.entity_id FROM joined j CROSS JOIN LATERAL pg_catalog.unnest(j.names || j.entity_id) AS u (id) WHERE j.names IS NOT NULL
), outer_ends AS MATERIALIZED (
    -- Of a row's entity and its names: relationships with others.
    SELECT e.entity_id, pg_catalog.count(*) AS degree
      FROM (SELECT l.entity_id, h.entity_id AS other_id
              FROM (SELECT r.low_id, r.high_id FROM relationships r
                     UNION ALL
                    SELECT r.low_id, r.high_id
                      FROM parts p
                      JOIN graphrag.relationships r ON r.corpus_id = p.id
                     WHERE p.is_whole AND EXISTS (SELECT FROM names)) r
              LEFT JOIN names l ON l.id = r.low_id
              LEFT JOIN names h ON h.id = r.high_id
             WHERE l.entity_id IS DISTINCT FROM h.entity_id) x
     CROSS JOIN LATERAL (VALUES (x.entity_id), (x.other_id)) AS e (entity_id)
     WHERE e.entity_id IS NOT NULL
     GROUP BY e.entity_id
), nodes AS (
    SELECT e.corpus_id, e.id, coalesce(m.name, '') AS name, coalesce(m.type, '') AS type,
           coalesce(m.description, graphrag._as_description(m.sentence)) AS description, coalesce(d.degree, 0) AS degree, m.mention_count
      FROM graphrag._merged_entities((SELECT i.entity_ids FROM items i)::bigint[], (SELECT i.mention_ids FROM items i)::bigint[],
                                     (SELECT i.relationship_ids FROM items i)::bigint[], @max_tokens@) AS m
      JOIN graphrag.entities e ON e.id = m.entity_id
      LEFT JOIN ends d ON d.entity_id = e.id
     UNION ALL
    SELECT e.corpus_id, e.id, e.name, e.type, e.description, e.degree, e.mention_count
      FROM parts p
      JOIN graphrag.entities e ON e.corpus_id = p.id
     WHERE p.is_whole
)
SELECT p.name AS corpus, p.chunks::int AS chunks, pg_catalog.array_agg(n.id ORDER BY n.id)::text AS entity_ids,
       pg_catalog.array_agg(n.name ORDER BY n.id) AS names,
       pg_catalog.array_agg(n.type ORDER BY n.id) AS types, pg_catalog.array_agg(n.description ORDER BY n.id) AS entity_descriptions,
       pg_catalog.array_agg(CASE WHEN j.names IS NULL THEN n.degree ELSE coalesce(o.degree, 0) END ORDER BY n.id)::text AS degrees,
       pg_catalog.array_agg(CASE WHEN j.names IS NULL THEN n.mention_count ELSE j.mention_count END ORDER BY n.id)::text AS entity_mention_counts,
       pg_catalog.array_agg(j.origin ORDER BY n.id) AS entity_origins
  FROM parts p
  JOIN nodes n ON n.corpus_id = p.id
  LEFT JOIN joined j ON j.entity_id = n.id
  LEFT JOIN outer_ends o ON o.entity_id = n.id
 WHERE NOT EXISTS (SELECT FROM names x WHERE x.id = n.id AND x.entity_id <> n.id)
 GROUP BY p.name, p.chunks;
COMMENT ON VIEW graphrag._stated_nodes IS 'Rows of graph_nodes in corpora that the caller sees in part, packed';

CREATE VIEW graphrag._stated_edges WITH (security_barrier = true) AS
WITH parts AS MATERIALIZED (
    SELECT p.* FROM graphrag._partial_corpora p
), documents AS MATERIALIZED (
    SELECT pg_catalog.array_agg(u.id) AS ids FROM parts p CROSS JOIN LATERAL pg_catalog.unnest(p.documents) AS u (id) WHERE NOT p.is_whole
), counted AS MATERIALIZED (
    SELECT c.* FROM graphrag._counted_relationships(NULL::bigint[], NULL::bigint[], (SELECT d.ids FROM documents d)::bigint[]) AS c
), items AS MATERIALIZED (
    SELECT ARRAY(SELECT c.relationship_id FROM counted c) AS relationship_ids,
           ARRAY(SELECT m.id
                   FROM graphrag.chunks k
                   JOIN graphrag.relationship_mentions m ON m.chunk_id = k.id
                  WHERE k.document_id = ANY ((SELECT d.ids FROM documents d)::bigint[]) AND m.relationship_id IS NOT NULL) AS mention_ids
), names AS MATERIALIZED (
    SELECT u.id, n.entity_id FROM graphrag._stated_names n CROSS JOIN LATERAL pg_catalog.unnest(n.names) AS u (id)
), origins AS MATERIALIZED (
    SELECT m.relationship_id,
           CASE WHEN pg_catalog.bool_and(k.is_row) THEN 'rows' WHEN pg_catalog.bool_or(k.is_row) THEN 'documents, rows'
                ELSE 'documents' END AS origin
      FROM parts p
     CROSS JOIN LATERAL pg_catalog.unnest(p.documents) AS u (id)
      JOIN graphrag.chunks k ON k.document_id = u.id
      JOIN graphrag.relationship_mentions m ON m.chunk_id = k.id
     WHERE m.relationship_id IS NOT NULL
       AND EXISTS (SELECT FROM graphrag._attached_tables t WHERE t.corpus_id = p.id AND t.kind <> 'documents')
     GROUP BY m.relationship_id
), stated AS (
    SELECT r.corpus_id, r.id, CASE WHEN c.forward THEN r.low_id ELSE r.high_id END AS source_id,
           CASE WHEN c.forward THEN r.high_id ELSE r.low_id END AS target_id, c.weight::double precision AS weight, c.mention_count,
           m.keywords::text AS keywords, coalesce(m.description, graphrag._as_description(m.sentence)) AS description
      FROM graphrag._merged_relationships((SELECT i.relationship_ids FROM items i)::bigint[], (SELECT i.mention_ids FROM items i)::bigint[],
                                          @max_tokens@) AS m
      JOIN counted c ON c.relationship_id = m.relationship_id
      JOIN graphrag.relationships r ON r.id = m.relationship_id
     UNION ALL
    SELECT r.corpus_id, r.id, r.source_id, r.target_id, r.weight::double precision, r.mention_count, r.keywords::text, r.description
      FROM parts p
      JOIN graphrag.relationships r ON r.corpus_id = p.id
     WHERE p.is_whole
), edges AS (
    SELECT e.corpus_id, e.id, coalesce(s.entity_id, e.source_id) AS source_id, coalesce(t.entity_id, e.target_id) AS target_id, e.weight,
           e.mention_count, e.keywords, e.description, o.origin
      FROM stated e
      LEFT JOIN names s ON s.id = e.source_id
      LEFT JOIN names t ON t.id = e.target_id
      LEFT JOIN origins o ON o.relationship_id = e.id
     WHERE coalesce(s.entity_id, e.source_id) <> coalesce(t.entity_id, e.target_id)
)
SELECT p.name AS corpus, s.*
  FROM parts p
 CROSS JOIN LATERAL (
       SELECT pg_catalog.array_agg(e.id ORDER BY e.id)::text AS relationship_ids, pg_catalog.array_agg(e.source_id ORDER BY e.id)::text AS source_ids,
              pg_catalog.array_agg(e.target_id ORDER BY e.id)::text AS target_ids, pg_catalog.array_agg(e.weight ORDER BY e.id)::text AS weights,
              pg_catalog.array_agg(e.mention_count ORDER BY e.id)::text AS relationship_mention_counts,
              pg_catalog.array_agg(e.keywords ORDER BY e.id) AS keywords,
              pg_catalog.array_agg(e.description ORDER BY e.id) AS relationship_descriptions,
              pg_catalog.array_agg(e.origin ORDER BY e.id) AS relationship_origins
         FROM edges e
        WHERE e.corpus_id = p.id) s;
COMMENT ON VIEW graphrag._stated_edges IS 'Rows of graph_edges in corpora that the caller sees in part, packed';
GRANT SELECT ON graphrag._stated_nodes, graphrag._stated_edges TO graphrag_member;

-- As index/graph/merged.py has it: white space is what Python takes for it.
CREATE FUNCTION graphrag._as_description(sentence text) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
    SELECT pg_catalog.left(pg_catalog.btrim(pg_catalog.regexp_replace(
               coalesce(sentence, ''),
               '[\u0009-\u000D\u001C-\u0020\u0085\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]+', ' ', 'g')), @max_description@);
END;
COMMENT ON FUNCTION graphrag._as_description(text) IS 'How a sentence describes what it mentions: in one line, cut';
REVOKE ALL ON FUNCTION graphrag._as_description(text) FROM PUBLIC;

CREATE FUNCTION graphrag._visible_nodes(secret text)
RETURNS TABLE (corpus text, chunks int, entity_ids text, names text[], types text[], entity_descriptions text[], degrees text,
               entity_mention_counts text, entity_origins text[])
LANGUAGE plpgsql STABLE ROWS 100 PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
BEGIN
    RETURN QUERY SELECT n.* FROM graphrag._stated_nodes n;
END
$$;

CREATE FUNCTION graphrag._visible_edges(secret text)
RETURNS TABLE (corpus text, chunks int, entity_ids text, names text[], types text[], entity_mention_counts text,
               relationship_ids text, source_ids text, target_ids text, weights text,
               relationship_mention_counts text, keywords text[], relationship_descriptions text[],
               relationship_origins text[])
LANGUAGE plpgsql STABLE ROWS 100 PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
BEGIN
    RETURN QUERY
    SELECT n.corpus, n.chunks, n.entity_ids, n.names, n.types, n.entity_mention_counts, e.relationship_ids,
           e.source_ids, e.target_ids, e.weights, e.relationship_mention_counts, e.keywords, e.relationship_descriptions,
           e.relationship_origins
      FROM graphrag._stated_nodes n
      JOIN graphrag._stated_edges e ON e.corpus = n.corpus;
END
$$;
