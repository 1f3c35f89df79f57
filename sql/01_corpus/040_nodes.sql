-- Nodes: databases that have the corpora between them. The two tables are the catalogue. One database writes it; the others have a copy,
-- by logical replication or `pg-graphrag nodes sync`.
-- Of how to connect a url says where, and nothing else: who connects, with which password or key, and how the network is secured is the
-- client's own. A hostaddr would send the password of one host to another.
CREATE TABLE graphrag.nodes (
    name     text        NOT NULL,
    url      text        NOT NULL,
    added_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT nodes_pkey PRIMARY KEY (name),
    CONSTRAINT nodes_name_check CHECK (name ~ '^[A-Za-z0-9_.-]{1,63}$'),
    CONSTRAINT nodes_url_check CHECK (
        pg_catalog.octet_length(url) <= 1000
        AND url ~ '^postgres(ql)?://([A-Za-z0-9_.,:%-]|\[[0-9A-Fa-f:.%]+\])*/[A-Za-z0-9_.~%-]+(\?((host|port|target_session_attrs|load_balance_hosts)=[A-Za-z0-9_./,%-]+(&(?=.)|$))+)?$'
        AND (url !~ '^[a-z]+:///' OR url ~ '[?&]host='))
);
SELECT pg_catalog.pg_extension_config_dump('graphrag.nodes', '');

COMMENT ON TABLE graphrag.nodes IS 'Databases that hold corpora, and where clients find them. Written by the owner alone, through add_node() and drop_node(); members read it.';
COMMENT ON COLUMN graphrag.nodes.name IS 'Name; a database declares that it is this node with ALTER DATABASE … SET graphrag.node = ''…''';
COMMENT ON COLUMN graphrag.nodes.url IS 'postgresql://HOST:PORT/DATABASE, without role, password and settings of the connection: these belong to each client';
COMMENT ON COLUMN graphrag.nodes.added_at IS 'Time it was added';

CREATE TABLE graphrag.placements (
    corpus text        NOT NULL,
    node   text        NOT NULL,
    since  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT placements_pkey PRIMARY KEY (corpus),
    CONSTRAINT placements_node_fkey FOREIGN KEY (node) REFERENCES graphrag.nodes (name),
    CONSTRAINT placements_corpus_check CHECK (corpus <> '' AND pg_catalog.octet_length(corpus) <= 200)
);
CREATE INDEX placements_node_idx ON graphrag.placements (node);
SELECT pg_catalog.pg_extension_config_dump('graphrag.placements', '');

COMMENT ON TABLE graphrag.placements IS 'Which node holds a corpus; names of corpora are unique over all nodes. Read and written by the owner alone, through place_corpus(). A corpus in this database is here, whatever this table says.';
COMMENT ON COLUMN graphrag.placements.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.placements.node IS 'Node that holds it';
COMMENT ON COLUMN graphrag.placements.since IS 'Time it was noted';

-- Where a corpus is that is not in this database: null where it is, where nobody says, and where this database is said to have it.
-- SECURITY DEFINER: whoever asks has the name; he is not told others. A local corpus of a name is no secret to him either (check_corpus).
CREATE FUNCTION graphrag._placed(corpus text, OUT node text, OUT url text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    SELECT n.name, n.url INTO node, url
      FROM graphrag.placements p
      JOIN graphrag.nodes n ON n.name = p.node
     WHERE p.corpus = _placed.corpus AND p.node IS DISTINCT FROM current_setting('graphrag.node', true)
       AND NOT EXISTS (SELECT FROM graphrag.corpora c WHERE c.name = _placed.corpus AND c.move ->> 'state' IS DISTINCT FROM 'moved');
END
$$;
COMMENT ON FUNCTION graphrag._placed(text) IS 'Node and url of a corpus that is not in this database; null if it is, or if no node is known to hold it';

-- Says that there is no such corpus in this database, and where it is. DETAIL is the url, for programs.
CREATE FUNCTION graphrag._unknown_corpus(corpus text, hint text DEFAULT 'SELECT name FROM graphrag.corpora lists the corpora.') RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    place record;
BEGIN
    SELECT p.node, p.url INTO place FROM graphrag._placed(corpus) p;
    IF place.node IS NOT NULL THEN
        RAISE EXCEPTION 'corpus "%" is at node "%"', corpus, place.node
            USING ERRCODE = 'undefined_object', DETAIL = place.url,
                  HINT = 'Ask that node; GraphRAG(url), pg-graphrag and pg-graphrag serve do so by themselves.';
    END IF;
    RAISE EXCEPTION 'corpus "%" does not exist', coalesce(corpus, 'null') USING ERRCODE = 'undefined_object', HINT = hint;
END
$$;
COMMENT ON FUNCTION graphrag._unknown_corpus(text, text) IS 'Raises that a corpus is not in this database, with the node that holds it';

-- The tables themselves refuse who is not the owner (15_admin/owner_only.sql).
CREATE FUNCTION graphrag.add_node(name text, url text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wrong text;
BEGIN
    INSERT INTO graphrag.nodes (name, url) VALUES (add_node.name, add_node.url)
        ON CONFLICT ON CONSTRAINT nodes_pkey DO UPDATE SET url = EXCLUDED.url;
EXCEPTION WHEN check_violation OR not_null_violation THEN
    GET STACKED DIAGNOSTICS wrong = CONSTRAINT_NAME;
    IF wrong = 'nodes_name_check' OR add_node.name IS NULL THEN
        RAISE EXCEPTION 'a node cannot be called "%"', left(coalesce(add_node.name, 'null'), 100)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give 1 to 63 letters of ASCII, digits, and any of _ . -';
    END IF;
    -- The url is not repeated: it may have a password.
    RAISE EXCEPTION 'the url of node "%" %', add_node.name,
            CASE WHEN left(add_node.url, 2000) ~* 'password|passfile|^[^/]*//[^/]*@' THEN 'has a role or a password, or says where one is' ELSE 'cannot be used' END
        USING ERRCODE = 'invalid_parameter_value',
              HINT = 'Give postgresql://HOST:PORT/DATABASE, of parameters target_session_attrs, load_balance_hosts, host and port alone. Role, password, service, keys and sslmode are each client''s own: of its URL, its environment, its password file.';
END
$$;
COMMENT ON FUNCTION graphrag.add_node(text, text) IS 'Registers a database as a node that may hold corpora, or changes its url: postgresql://HOST:PORT/DATABASE, which may name several hosts. Parameters: target_session_attrs, load_balance_hosts, host, port. Owner only; 22023 for a bad name, and for a url with a role, a password or its place, or settings of a client''s connection.';

CREATE FUNCTION graphrag.drop_node(name text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM graphrag.nodes n WHERE n.name = drop_node.name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'node "%" does not exist', coalesce(name, 'null') USING ERRCODE = 'undefined_object', HINT = 'SELECT name FROM graphrag.nodes lists them.';
    END IF;
EXCEPTION WHEN foreign_key_violation THEN
    RAISE EXCEPTION 'node "%" has corpora', name
        USING ERRCODE = 'dependent_objects_still_exist',
              HINT = format('SELECT corpus FROM graphrag.placements WHERE node = %L lists them; move them, or forget them with graphrag.place_corpus(corpus, NULL).', name);
END
$$;
COMMENT ON FUNCTION graphrag.drop_node(text) IS 'Removes a node that no corpus is placed at. Owner only; 2BP01 if one is, 42704 for an unknown node.';

CREATE FUNCTION graphrag.place_corpus(corpus text, node text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    IF coalesce(corpus, '') = '' OR octet_length(corpus) > 200 THEN
        RAISE EXCEPTION 'a corpus cannot be called "%"', left(coalesce(corpus, 'null'), 100)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give a non-empty name of at most 200 bytes.';
    END IF;
    IF node IS NULL THEN
        DELETE FROM graphrag.placements p WHERE p.corpus = place_corpus.corpus;
        RETURN;
    END IF;
    INSERT INTO graphrag.placements AS p (corpus, node) VALUES (place_corpus.corpus, place_corpus.node)
        ON CONFLICT ON CONSTRAINT placements_pkey DO UPDATE SET node = EXCLUDED.node, since = EXCLUDED.since WHERE p.node <> EXCLUDED.node;
EXCEPTION WHEN foreign_key_violation THEN
    RAISE EXCEPTION 'node "%" does not exist', node USING ERRCODE = 'undefined_object', HINT = 'SELECT graphrag.add_node(name, url) adds it.';
END
$$;
COMMENT ON FUNCTION graphrag.place_corpus(text, text) IS 'Records which node holds a corpus, so that callers who ask for it here get 42704 with the node in the message and its url in DETAIL. Node null: removes the record. It moves nothing. A corpus in this database is here, whatever is recorded. Owner only; 42704 for an unknown node, 22023 for a bad name.';
