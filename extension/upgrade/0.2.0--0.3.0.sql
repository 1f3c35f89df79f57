-- What CREATE OR REPLACE cannot do on the way from 0.2.0 to 0.3.0: changes of tables, and what is no more.
-- Runs before everything that upgrade.awk takes from sql/.

-- Readers reach models through ask() and search() alone.
DROP FUNCTION graphrag._model(int, text, jsonb, boolean);
DROP FUNCTION graphrag._models(int, text, jsonb, boolean, int);
DROP FUNCTION graphrag._model_stream(int, text, jsonb, boolean);
DROP FUNCTION graphrag._model_next(text);
DROP FUNCTION graphrag._embed(int, text[]);
DROP FUNCTION graphrag._rerank(int, text, text[]);
-- Sessions read vectors by pgvector's vector_send.
DROP FUNCTION graphrag._vector_bytes(@extschema:vector@.vector);

-- Roles and row-level security. Documents alone carry policies, readers hold nothing on what was made of documents. The policies
-- of the corpora (graphrag_protection_N) stay until protect.sql; document_policies.sql makes those around them.
DO $block$
DECLARE
    item record;
BEGIN
    FOR item IN SELECT p.polname, p.polrelid::pg_catalog.regclass AS relation FROM pg_catalog.pg_policy AS p
                  JOIN pg_catalog.pg_class AS c ON c.oid = p.polrelid AND c.relnamespace = 'graphrag'::pg_catalog.regnamespace
                 WHERE p.polname = 'graphrag_protection' LOOP
        EXECUTE pg_catalog.format('DROP POLICY %I ON %s', item.polname, item.relation);
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_policy AS p WHERE p.polrelid = item.relation AND p.polname !~ '^graphrag_protection_[0-9]+$') THEN
            EXECUTE pg_catalog.format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', item.relation);
        END IF;
    END LOOP;
END
$block$;
-- The policies of protected corpora are made anew (protect.sql): no index could serve the condition of theirs.
DO $block$
DECLARE
    item record;
BEGIN
    FOR item IN SELECT p.polname FROM graphrag.corpora AS c
                  JOIN pg_catalog.pg_policy AS p ON p.polrelid = 'graphrag.documents'::pg_catalog.regclass
                                                AND p.polname = 'graphrag_protection_' || c.id
                 WHERE c.protection IS NOT NULL
                   -- What was restored stays closed.
                   AND pg_catalog.pg_get_expr(p.polqual, p.polrelid) OPERATOR(pg_catalog.!~) '\m_closed\(' LOOP
        EXECUTE pg_catalog.format('COMMENT ON POLICY %I ON graphrag.documents IS %L', item.polname, 'to be made anew');
    END LOOP;
END
$block$;
DROP FUNCTION graphrag._secure(regclass);
DROP FUNCTION graphrag._readable_relations();
DROP FUNCTION graphrag._protected_corpus(text);

-- Attached tables: other triggers, which belong to the owners of the tables (040_attach_table.sql makes them).
SELECT pg_catalog.set_config('graphrag.attached_relations',
                             coalesce((SELECT pg_catalog.jsonb_object_agg(a.id, r.relation)::text
                                         FROM graphrag.attached_tables a
                                        CROSS JOIN LATERAL graphrag._attached_relation(a) r (relation)
                                        WHERE r.relation IS NOT NULL), '{}'), true);
DO $block$
DECLARE
    item record;
BEGIN
    FOR item IN
        SELECT t.tgname AS trigger, t.tgrelid::pg_catalog.regclass AS relation
          FROM pg_catalog.pg_trigger t
         WHERE t.tgfoid = 'graphrag._attached_changed()'::pg_catalog.regprocedure
         ORDER BY t.tgrelid, t.tgname
    LOOP
        EXECUTE pg_catalog.format('DROP TRIGGER %I ON %s', item.trigger, item.relation);
    END LOOP;
END
$block$;
ALTER TABLE graphrag.community_states ADD COLUMN community_count int;
ALTER TABLE graphrag.corpora
    ADD COLUMN move jsonb,
    ADD COLUMN needs_reindex boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT corpora_move_check CHECK (coalesce(move ->> 'state' IN ('moving', 'moved', 'arriving'), move IS NULL));
-- Tables that are attached go on feeding their corpora, whatever their owners were given.
ALTER TABLE graphrag.attached_tables RENAME TO _attached_tables;
ALTER TABLE graphrag._attached_tables
    ADD COLUMN needs_grant boolean NOT NULL DEFAULT false, ADD COLUMN key_columns name[], ADD COLUMN key_prefix text NOT NULL DEFAULT '',
    ADD COLUMN metadata_keys name[] NOT NULL DEFAULT '{}', ADD COLUMN where_column name, ADD COLUMN valid_from_column name,
    ADD COLUMN valid_to_column name,
    ADD COLUMN kind text NOT NULL DEFAULT 'documents', ADD COLUMN entity_type text, ADD COLUMN name_is_unique boolean NOT NULL DEFAULT false,
    ADD COLUMN is_referenced boolean NOT NULL DEFAULT false, ADD COLUMN alias_columns name[] NOT NULL DEFAULT '{}',
    ADD COLUMN reference_columns name[] NOT NULL DEFAULT '{}', ADD COLUMN reference_types text[] NOT NULL DEFAULT '{}',
    ADD COLUMN reference_prefixes text[] NOT NULL DEFAULT '{}', ADD COLUMN reference_widths int[] NOT NULL DEFAULT '{}',
    ADD COLUMN reference_by_name boolean[] NOT NULL DEFAULT '{}',
    ADD CONSTRAINT attached_tables_kind_check CHECK (kind IN ('documents', 'entities', 'relationships'));
UPDATE graphrag._attached_tables SET key_columns = ARRAY[key_column], metadata_keys = metadata_columns;
ALTER TABLE graphrag._attached_tables ALTER COLUMN key_columns SET NOT NULL, DROP COLUMN key_column;
ALTER TABLE graphrag._attach_requests ALTER COLUMN key_column TYPE name[] USING ARRAY[key_column];
ALTER TABLE graphrag._attach_requests RENAME COLUMN key_column TO key_columns;
ALTER TABLE graphrag._attach_requests
    ADD COLUMN key_prefix text, ADD COLUMN where_column name,
    ADD COLUMN valid_from_column name, ADD COLUMN valid_to_column name, ADD COLUMN kind text, ADD COLUMN entity_type text, ADD COLUMN alias_columns name[],
    ADD COLUMN reference_type text, ADD COLUMN from_columns name[], ADD COLUMN from_table oid, ADD COLUMN to_columns name[], ADD COLUMN to_table oid,
    DROP CONSTRAINT attach_requests_action_check,
    ADD CONSTRAINT attach_requests_action_check CHECK (action IN ('attach', 'relate', 'detach'));
-- attach_table() has another argument; who may call the old one may call the new one. What it does comes below.
CREATE FUNCTION graphrag.attach_table(source regclass, corpus text, key_column name, content_columns name[],
    title_column name DEFAULT NULL, metadata_columns name[] DEFAULT '{}', options jsonb DEFAULT '{}') RETURNS void
LANGUAGE plpgsql AS 'BEGIN END';
DO $block$
DECLARE
    item record;
BEGIN
    FOR item IN SELECT DISTINCT a.grantee::pg_catalog.regrole AS role FROM pg_catalog.pg_proc p, pg_catalog.aclexplode(p.proacl) a
                 WHERE p.oid = 'graphrag.attach_table(regclass, text, name, name[], name, name[], jsonb)'::pg_catalog.regprocedure AND a.grantee NOT IN (0, p.proowner) LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION graphrag.attach_table(regclass, text, name, name[], name, name[], jsonb) FROM %s CASCADE', item.role);
    END LOOP;
    FOR item IN
        SELECT r.rolname AS role, x.is_grantable
          FROM pg_catalog.pg_proc p
         CROSS JOIN LATERAL pg_catalog.aclexplode(p.proacl) x
          JOIN pg_catalog.pg_roles r ON r.oid = x.grantee
         WHERE p.oid = 'graphrag.attach_table(pg_catalog.regclass, pg_catalog.text, pg_catalog.name, pg_catalog.name[], pg_catalog.name, pg_catalog.name[])'::pg_catalog.regprocedure
           AND x.grantee <> p.proowner
         ORDER BY r.rolname
    LOOP
        EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION graphrag.attach_table(regclass, text, name, name[], name, name[], jsonb) TO %I%s',
                                  item.role, CASE WHEN item.is_grantable THEN ' WITH GRANT OPTION' END);
    END LOOP;
END
$block$;
DROP FUNCTION graphrag.attach_table(regclass, text, name, name[], name, name[]);
DROP FUNCTION graphrag._attached_changed();
DROP FUNCTION graphrag._sweep_attached(int, boolean);
DROP FUNCTION graphrag._backfill_attached(int, text, int, boolean);
DROP FUNCTION graphrag._hold_attached(int);
DROP FUNCTION graphrag._attached_comparison(record, boolean);
DROP FUNCTION graphrag._attached_upsert(record, text);
DROP FUNCTION graphrag._queue_attached(int, interval, boolean);
DROP FUNCTION graphrag._attached_source(int);
DROP FUNCTION graphrag._attached_key_index(oid, name);
DROP FUNCTION graphrag._attached_value(oid, name);
DROP FUNCTION graphrag._numbers_rows(oid, name);
DROP FUNCTION graphrag._attached_type(oid, name);
DROP FUNCTION graphrag._attached_relation(graphrag._attached_tables);
DROP FUNCTION graphrag._refuse_source_key(text, text);
DROP FUNCTION graphrag._refuse_taken_key(text, text, int);

-- What there is stays as it is; health() says so.
UPDATE graphrag.corpora c SET needs_reindex = true
 WHERE EXISTS (SELECT FROM graphrag.documents d WHERE d.corpus_id = c.id AND d.indexed_hash IS NOT NULL);

-- Documents may be retracted.
ALTER TABLE graphrag.documents DROP CONSTRAINT documents_status_check;
ALTER TABLE graphrag.documents
    ADD CONSTRAINT documents_status_check CHECK (status IN ('pending', 'indexed', 'failed', 'retracted'));

-- Who asked. What was asked before has none.
ALTER TABLE graphrag.llm_calls ADD COLUMN role name;
ALTER TABLE graphrag.llm_calls ALTER COLUMN role SET DEFAULT session_user;

-- Limits of replies: those that wait have none of their own.
ALTER TABLE graphrag.llm_batch_requests ADD COLUMN max_tokens int NOT NULL DEFAULT 4000;
ALTER TABLE graphrag.llm_batch_requests ALTER COLUMN max_tokens DROP DEFAULT;

-- Where in its document a chunk is; chunks that there are have neither before their document is indexed anew.
ALTER TABLE graphrag.chunks ADD COLUMN section text, ADD COLUMN page int, ADD COLUMN unfit jsonb, ADD COLUMN concepts bytea,
    ADD COLUMN is_row boolean NOT NULL DEFAULT false, ADD COLUMN picture_id bigint,
    DROP CONSTRAINT chunks_extraction_check,
    ADD CONSTRAINT chunks_extraction_check CHECK (extraction IN ('complete', 'repaired', 'cut off', 'stood in'));
ALTER TABLE graphrag.entities ADD COLUMN row_mention_count int NOT NULL DEFAULT 0;
ALTER TABLE graphrag.relationships ADD COLUMN row_mention_count int NOT NULL DEFAULT 0;
ALTER TABLE graphrag.entity_mentions ADD COLUMN attributes jsonb, ADD COLUMN name_of text COLLATE "C";

-- Communities are imported in parts.
DROP FUNCTION graphrag.import_communities(text, jsonb, jsonb);
ALTER TABLE graphrag.imported_communities ADD COLUMN part int NOT NULL DEFAULT 1;
ALTER TABLE graphrag.imported_communities DROP CONSTRAINT imported_communities_pkey;
ALTER TABLE graphrag.imported_communities ADD CONSTRAINT imported_communities_pkey PRIMARY KEY (corpus_id, part);

-- The queue is written by _queue_jobs() and _requeue_jobs(), which gives workers their hint too. The kinds of jobs are listed
-- once, by the table's constraint.
DROP FUNCTION graphrag._hint_workers();
DROP INDEX graphrag.jobs_corpus_kind_key;
CREATE UNIQUE INDEX jobs_corpus_kind_key ON graphrag.jobs (corpus_id, kind) WHERE document_id IS NULL AND kind <> 'attach';
-- A text is searchable before a model has found its graph, which is a job of its own, after the texts.
ALTER TABLE graphrag.jobs DROP CONSTRAINT jobs_kind_check, DROP CONSTRAINT jobs_document_check;
ALTER TABLE graphrag.jobs
    ADD COLUMN chunks int4range,
    ADD CONSTRAINT jobs_kind_check CHECK (kind IN ('attach', 'remove', 'index', 'embed', 'graph', 'sweep', 'pack', 'optimize', 'summarize', 'describe', 'reembed', 'batch', 'communities', 'reports')),
    ADD CONSTRAINT jobs_document_check CHECK ((document_id IS NOT NULL) = (kind IN ('index', 'embed', 'graph', 'remove'))),
    ADD CONSTRAINT jobs_chunks_check CHECK (CASE kind WHEN 'embed' THEN chunks IS NOT NULL WHEN 'graph' THEN true ELSE chunks IS NULL END);
DROP INDEX graphrag.jobs_document_key;
CREATE UNIQUE INDEX jobs_document_key ON graphrag.jobs (document_id) WHERE document_id IS NOT NULL AND chunks IS NULL;
DROP INDEX graphrag.jobs_due_idx;
-- Corpora take turns.
ALTER TABLE graphrag.jobs
    ADD COLUMN stage smallint NOT NULL GENERATED ALWAYS AS (CASE WHEN kind IN ('optimize', 'communities', 'reports') THEN 3 WHEN kind IN ('embed', 'graph', 'describe') THEN 2 ELSE 1 END) STORED,
    ADD COLUMN turn smallint NOT NULL GENERATED ALWAYS AS (CASE WHEN kind = 'pack' THEN 0 WHEN kind IN ('remove', 'sweep') THEN 1 WHEN kind = 'graph' THEN 3 ELSE 2 END) STORED;
CREATE INDEX jobs_due_idx ON graphrag.jobs (stage, corpus_id, turn, next_attempt_at, id) WHERE state <> 'failed';

-- Parts of long documents are projected by their chunks.
DROP FUNCTION graphrag._project(int, bigint[], bigint[], bigint[]);
-- It says whether the corpus has a graph.
DROP FUNCTION graphrag._ensure_graph(int);

-- Small spaces share the tables of vectors; those there are keep their own, which inherit from these now. DETACH and not a new table for
-- each: nothing of the vectors is written.
ALTER TABLE graphrag.embedding_spaces ADD COLUMN own_tables boolean NOT NULL DEFAULT true;
ALTER TABLE graphrag.embedding_spaces ALTER COLUMN own_tables SET DEFAULT false;
DO $block$
DECLARE
    stem text;
    part regclass;
    item record;
BEGIN
    FOREACH stem IN ARRAY ARRAY['window_vectors', 'entity_vectors', 'entity_mention_vectors', 'relationship_mention_vectors'] LOOP
        EXECUTE pg_catalog.format('ALTER TABLE graphrag.%1$s RENAME TO partitioned; CREATE TABLE graphrag.%1$s (LIKE graphrag.partitioned INCLUDING COMMENTS)', stem);
        EXECUTE pg_catalog.format('COMMENT ON TABLE graphrag.%s IS %L', stem,
                                  pg_catalog.obj_description('graphrag.partitioned'::pg_catalog.regclass, 'pg_class'));
        FOR part IN SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i WHERE i.inhparent = 'graphrag.partitioned'::pg_catalog.regclass ORDER BY i.inhrelid LOOP
            EXECUTE pg_catalog.format('ALTER TABLE graphrag.partitioned DETACH PARTITION %1$s; ALTER TABLE %1$s INHERIT graphrag.%2$s', part, stem);
        END LOOP;
        -- What the application was granted, instead of what default privileges give.
        FOR item IN SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::pg_catalog.regrole::text END AS grantee
                      FROM pg_catalog.pg_class AS c, pg_catalog.aclexplode(c.relacl) AS a
                     WHERE c.oid = pg_catalog.format('graphrag.%s', stem)::pg_catalog.regclass AND a.grantee <> c.relowner LOOP
            EXECUTE pg_catalog.format('REVOKE ALL ON TABLE graphrag.%s FROM %s CASCADE', stem, item.grantee);
        END LOOP;
        FOR item IN SELECT a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::pg_catalog.regrole::text END AS grantee, a.is_grantable
                      FROM pg_catalog.pg_class AS c, pg_catalog.aclexplode(c.relacl) AS a
                     WHERE c.oid = 'graphrag.partitioned'::pg_catalog.regclass AND a.grantee <> c.relowner LOOP
            EXECUTE pg_catalog.format('GRANT %s ON TABLE graphrag.%s TO %s %s', item.privilege_type, stem, item.grantee,
                                      CASE WHEN item.is_grantable THEN 'WITH GRANT OPTION' ELSE '' END);
        END LOOP;
        EXECUTE 'DROP TABLE graphrag.partitioned';
    END LOOP;
END
$block$;

-- What ANALYZE sampled of columns that sql/15_admin/unsampled_columns.sql excepts would stay.
DELETE FROM pg_catalog.pg_statistic s
 USING pg_catalog.pg_attribute a
 WHERE a.attrelid = s.starelid AND a.attnum = s.staattnum
   AND (a.attrelid = 'graphrag.claims'::pg_catalog.regclass
        OR (a.attrelid::pg_catalog.regclass::text, a.attname) IN (
            ('graphrag.documents', 'title'), ('graphrag.documents', 'content'), ('graphrag.documents', 'error'),
            ('graphrag.documents', 'content_hash'), ('graphrag.documents', 'indexed_hash'),
            ('graphrag.chunks', 'content'), ('graphrag.entities', 'name'), ('graphrag.entities', 'type'),
            ('graphrag.entities', 'description'), ('graphrag.relationships', 'keywords'), ('graphrag.relationships', 'description'),
            ('graphrag.community_reports', 'title'), ('graphrag.community_reports', 'summary')));

-- A blank beside Han and kana, the kind of a hyphen or an apostrophe, and what nobody sees, make no other key (text/words/concepts.py). Documents with
-- such names are indexed anew; what people said of them is found by the new keys.
CREATE FUNCTION graphrag._key_of_0_3(key text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
RETURN regexp_replace(regexp_replace(translate(regexp_replace(key, '[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164'
                                                              '\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+', '', 'g'),
                                               E'\u2010\u2011\u2012\u2013\u2212\ufe63\u2018\u2019\u02bc\u00b4\u2032\u2022\u2027\u2219',
                                               E'------\'\'\'\'\'\u00b7\u00b7\u00b7'), ' +', ' ', 'g'),
                      '(?<=[\u3005\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]) '
                      '| (?=[\u3005\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])', '', 'g');
INSERT INTO graphrag.jobs (corpus_id, kind, document_id)
SELECT DISTINCT c.corpus_id, 'index', c.document_id
  FROM graphrag.entity_mentions m
  JOIN graphrag.chunks c ON c.id = m.chunk_id
 WHERE m.raw_key <> graphrag._key_of_0_3(m.raw_key)
 ORDER BY 3
    ON CONFLICT DO NOTHING;
UPDATE graphrag.curations c
   SET arguments = c.arguments
       || CASE WHEN c.arguments ? 'entity' THEN pg_catalog.jsonb_build_object('entity', graphrag._key_of_0_3(c.arguments ->> 'entity')) ELSE '{}' END
       || CASE WHEN c.arguments ? 'new_key' THEN pg_catalog.jsonb_build_object('new_key', graphrag._key_of_0_3(c.arguments ->> 'new_key')) ELSE '{}' END
       || CASE WHEN c.arguments ? 'source' THEN pg_catalog.jsonb_build_object('source', graphrag._key_of_0_3(c.arguments ->> 'source')) ELSE '{}' END
       || CASE WHEN c.arguments ? 'target' THEN pg_catalog.jsonb_build_object('target', graphrag._key_of_0_3(c.arguments ->> 'target')) ELSE '{}' END
       || CASE WHEN c.kind = 'merge_entities'
               THEN pg_catalog.jsonb_build_object('entities', (SELECT pg_catalog.jsonb_agg(graphrag._key_of_0_3(e.key) ORDER BY e.ordinality)
                                                                 FROM pg_catalog.jsonb_array_elements_text(c.arguments -> 'entities') WITH ORDINALITY e (key)))
               ELSE '{}' END;
UPDATE graphrag.curated c
   SET key = graphrag._key_of_0_3(c.key), other_key = graphrag._key_of_0_3(c.other_key),
       entity_key = CASE WHEN n.swapped THEN n.other_entity_key ELSE n.entity_key END,
       other_entity_key = CASE WHEN n.swapped THEN n.entity_key ELSE n.other_entity_key END,
       forward = c.forward <> n.swapped
  FROM graphrag.curated o
 CROSS JOIN LATERAL (SELECT graphrag._key_of_0_3(o.entity_key) COLLATE "C" AS entity_key, graphrag._key_of_0_3(o.other_entity_key) COLLATE "C" AS other_entity_key) k
 CROSS JOIN LATERAL (SELECT k.entity_key, k.other_entity_key, coalesce(k.entity_key > k.other_entity_key, false) AS swapped) n
 WHERE o.curation_id = c.curation_id AND o.ordinal = c.ordinal
   AND (o.key, o.other_key, o.entity_key, o.other_entity_key)
       IS DISTINCT FROM (graphrag._key_of_0_3(o.key), graphrag._key_of_0_3(o.other_key), k.entity_key, k.other_entity_key);
DELETE FROM graphrag.aliases a
 WHERE graphrag._key_of_0_3(a.key) = graphrag._key_of_0_3(a.entity_key)
    OR a.key <> graphrag._key_of_0_3(a.key)
       AND EXISTS (SELECT FROM graphrag.aliases b
                    WHERE b.corpus_id = a.corpus_id AND b.key <> a.key AND graphrag._key_of_0_3(b.key) = graphrag._key_of_0_3(a.key)
                      AND (b.key = graphrag._key_of_0_3(b.key) OR b.key < a.key));
UPDATE graphrag.aliases a
   SET key = graphrag._key_of_0_3(a.key), entity_key = graphrag._key_of_0_3(a.entity_key)
 WHERE (a.key, a.entity_key) IS DISTINCT FROM (graphrag._key_of_0_3(a.key), graphrag._key_of_0_3(a.entity_key));
DROP FUNCTION graphrag._key_of_0_3(text);
-- A type that says what an entity is goes before NAME and CONCEPT; rebuild_graph() brings it into Cypher.
UPDATE graphrag.entities e
   SET type = t.value
  FROM (SELECT DISTINCT ON (v.entity_id) v.entity_id, v.value
          FROM graphrag.entity_values v
         WHERE v.kind = 't'
         ORDER BY v.entity_id, v.value = 'UNKNOWN', v.value IN ('NAME', 'CONCEPT'),
                   v.value IN ('PERSON', 'ORGANIZATION', 'LOCATION', 'PRODUCT', 'WORK', 'EVENT', 'LAW'), v.count DESC, v.value) t
 WHERE t.entity_id = e.id AND e.type <> t.value
   AND NOT EXISTS (SELECT FROM graphrag.curated c
                    WHERE c.corpus_id = e.corpus_id AND c.effect = 'edit' AND c.entity_key = e.key AND c.other_entity_key IS NULL
                      AND c.value ? 'type');
-- An entity or relationship is inserted after its values.
ALTER TABLE graphrag.entity_values ALTER CONSTRAINT entity_values_entity_fkey DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE graphrag.relationship_values ALTER CONSTRAINT relationship_values_relationship_fkey DEFERRABLE INITIALLY DEFERRED;
