\echo Use "ALTER EXTENSION pg_graphrag UPDATE" to load this file. \quit

-- What CREATE OR REPLACE cannot do on the way from 0.1.0 to 0.2.0: changes of tables, and what is no more.
-- Runs before everything that upgrade.awk takes from sql/.
ALTER TABLE graphrag.corpora ADD COLUMN protection text;
-- Curation: what people added stays when nothing mentions it; mentions of what they deleted lead nowhere.
ALTER TABLE graphrag.entities ADD COLUMN curated boolean NOT NULL DEFAULT false;
ALTER TABLE graphrag.relationships ADD COLUMN curated boolean NOT NULL DEFAULT false;
ALTER TABLE graphrag.entity_mentions ALTER COLUMN entity_id DROP NOT NULL;
ALTER TABLE graphrag.relationship_mentions ALTER COLUMN relationship_id DROP NOT NULL;
-- Jobs of kind sweep (a TRUNCATE queues one of each corpus), communities and reports.
ALTER TABLE graphrag.jobs DROP CONSTRAINT jobs_kind_check;
ALTER TABLE graphrag.jobs ADD CONSTRAINT jobs_kind_check
    CHECK (kind IN ('attach', 'remove', 'index', 'sweep', 'optimize', 'summarize', 'reembed', 'batch', 'communities', 'reports'));
DROP INDEX graphrag.jobs_corpus_kind_key;
CREATE UNIQUE INDEX jobs_corpus_kind_key ON graphrag.jobs (corpus_id, kind) WHERE kind IN ('sweep', 'optimize', 'summarize', 'reembed', 'batch', 'communities', 'reports');
DROP INDEX graphrag.jobs_due_idx;
CREATE INDEX jobs_due_idx ON graphrag.jobs ((kind IN ('optimize', 'communities', 'reports')), next_attempt_at, id) WHERE state <> 'failed';
-- They can compare rows with their documents now.
DROP FUNCTION graphrag._queue_attached(int, interval);
DROP FUNCTION graphrag._backfill_attached(int, text, int);
DROP FUNCTION graphrag._sweep_attached(int);

-- Refuse, before anything is made, a database this extension cannot serve.

-- What every PL/Python body calls: it checks that package and extension are of one version, and turns Python errors into SQL errors.


-- A corpus is a tenant: documents, graph, vectors and statistics of one never mix with another's.

COMMENT ON COLUMN graphrag.corpora.protection IS 'Condition by which readers see its documents, as given to protect(); null: they see all';

-- One lock per corpus orders the short merge steps of its workers, and drop_corpus(); nothing else waits for it.
CREATE OR REPLACE FUNCTION graphrag._lock_corpus(corpus_id int) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT pg_catalog.pg_advisory_xact_lock(1735549293, corpus_id);
END;

CREATE OR REPLACE FUNCTION graphrag.create_corpus(name text, options jsonb DEFAULT '{}') RETURNS int
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "corpus.corpora:create", name, options)
$$;

CREATE OR REPLACE FUNCTION graphrag.alter_corpus(name text, options jsonb) RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
call(plpy, "0.2.0", "corpus.corpora:alter", name, options)
$$;

CREATE OR REPLACE FUNCTION graphrag.drop_corpus(name text) RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
call(plpy, "0.2.0", "corpus.corpora:drop", name)
$$;

-- Endpoints of models. Owner-only: no grant, and no setting of an ordinary user decides where a key is sent. A key is a reference, never a value.


-- What workers found out about a provider lately: not dumped, and no loss when it is gone.

CREATE OR REPLACE FUNCTION graphrag.set_provider(
    name         text,
    kind         text,
    base_url     text,
    api_key_env  text DEFAULT NULL,
    api_key_file text DEFAULT NULL,
    options      jsonb DEFAULT '{}'
) RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
call(plpy, "0.2.0", "llm.providers:set_provider", name, kind, base_url, api_key_env, api_key_file, options)
$$;

CREATE OR REPLACE FUNCTION graphrag.drop_provider(name text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    used text;
BEGIN
    IF NOT (SELECT pg_has_role(e.extowner, 'USAGE') FROM pg_extension AS e WHERE e.extname = 'pg_graphrag') THEN
        RAISE EXCEPTION 'role "%" may not drop a provider', current_user
            USING ERRCODE = 'insufficient_privilege', HINT = 'Call it as the owner of the extension or as a superuser.';
    END IF;
    SELECT c.name INTO used FROM graphrag.corpora c
     WHERE EXISTS (SELECT FROM jsonb_path_query(c.options, '$.**.provider') AS p (value) WHERE p.value = to_jsonb(drop_provider.name))
     ORDER BY c.name LIMIT 1;
    IF used IS NOT NULL THEN
        RAISE EXCEPTION 'provider "%" is used by corpus "%"', name, used
            USING ERRCODE = 'dependent_objects_still_exist', HINT = 'Give that corpus another with graphrag.alter_corpus(…) first.';
    END IF;
    DELETE FROM graphrag.providers p WHERE p.name = drop_provider.name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'provider "%" does not exist', name USING ERRCODE = 'undefined_object', HINT = 'SELECT name FROM graphrag.providers lists them.';
    END IF;
END
$$;

-- Documents as users write them. Everything else in the schema is derived from these rows.


-- Before each row: resolve the corpus, keep the hash, and clear indexed_at when there is something to index.
-- SECURITY DEFINER: an application that may insert documents need not own corpora, which this makes for "default".
CREATE OR REPLACE FUNCTION graphrag._documents_before() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF (NEW.id, NEW.corpus) IS DISTINCT FROM (OLD.id, OLD.corpus) THEN
            RAISE EXCEPTION 'document % cannot change its id or corpus', OLD.id
                USING ERRCODE = 'feature_not_supported', HINT = 'Delete the document and insert it into the other corpus.';
        END IF;
        NEW.corpus_id := OLD.corpus_id;
        IF (NEW.title, NEW.content, NEW.source_key, NEW.metadata) IS DISTINCT FROM (OLD.title, OLD.content, OLD.source_key, OLD.metadata) THEN
            NEW.updated_at := now();
        END IF;
    ELSE
        SELECT c.id INTO NEW.corpus_id FROM graphrag.corpora c WHERE c.name = NEW.corpus;
        IF NOT FOUND THEN
            IF NEW.corpus IS DISTINCT FROM 'default' THEN
                RAISE EXCEPTION 'corpus "%" does not exist', NEW.corpus
                    USING ERRCODE = 'undefined_object', HINT = format('Create it with SELECT graphrag.create_corpus(%L);', NEW.corpus);
            END IF;
            NEW.corpus_id := graphrag._default_corpus();
        END IF;
    END IF;
    -- An indexed_hash that is taken away asks for a new look: content that came past this trigger has an old hash.
    IF TG_OP = 'INSERT' OR (NEW.title, NEW.content) IS DISTINCT FROM (OLD.title, OLD.content)
       OR (NEW.indexed_hash IS NULL AND OLD.indexed_hash IS NOT NULL) THEN
        NEW.content_hash := encode(sha256(convert_to(coalesce(NEW.title, '') || E'\n' || NEW.content, 'UTF8')), 'hex');
    ELSE
        NEW.content_hash := OLD.content_hash;
    END IF;
    NEW.source_key := coalesce(NEW.source_key, NEW.content_hash);
    -- The source key decides ties and is shown in the graph, so a new one is new work.
    IF NEW.indexed_hash IS DISTINCT FROM NEW.content_hash OR (TG_OP = 'UPDATE' AND NEW.source_key <> OLD.source_key) THEN
        NEW.indexed_at := NULL;
    END IF;
    IF NEW.indexed_at IS NOT NULL THEN
        NEW.status := 'indexed';
    ELSIF NEW.status = 'indexed' OR TG_OP = 'INSERT' OR NEW.content_hash <> OLD.content_hash THEN
        NEW.status := 'pending';
        NEW.error := NULL;
    END IF;
    RETURN NEW;
END
$$;

CREATE OR REPLACE FUNCTION graphrag._default_corpus() RETURNS int
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN graphrag.create_corpus('default');
EXCEPTION WHEN unique_violation THEN
    -- Another session made it at the same moment.
    RETURN (SELECT c.id FROM graphrag.corpora c WHERE c.name = 'default');
END
$$;

-- A hint for workers that LISTEN graphrag_jobs. Off unless ALTER DATABASE … SET graphrag.notify = on: a NOTIFY breaks the
-- application's PREPARE TRANSACTION, and workers poll anyway.
CREATE OR REPLACE FUNCTION graphrag._hint_workers() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('graphrag.notify', true) = 'on' THEN
        PERFORM pg_notify('graphrag_jobs', '');
    END IF;
END
$$;

-- After each statement: queue what is due. New content supersedes whatever was queued, leased or failed for the document.
-- SECURITY DEFINER: the queue is not the application's to write.
CREATE OR REPLACE FUNCTION graphrag._documents_inserted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO graphrag.jobs AS j (corpus_id, kind, document_id)
    SELECT d.corpus_id, 'index', d.id FROM inserted d WHERE d.indexed_at IS NULL ORDER BY d.id
        ON CONFLICT (document_id) WHERE document_id IS NOT NULL
        DO UPDATE SET kind = 'index', state = 'pending', lease = NULL, attempts = 0, errors = 0, next_attempt_at = now(), last_error = NULL, payload = '{}';
    PERFORM graphrag._hint_workers();
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION graphrag._documents_updated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO graphrag.jobs AS j (corpus_id, kind, document_id)
    SELECT n.corpus_id, 'index', n.id
      FROM updated_new n
      JOIN updated_old o USING (id)
     WHERE n.indexed_at IS NULL
       AND (o.indexed_at IS NOT NULL OR n.content_hash <> o.content_hash OR n.source_key <> o.source_key)
     ORDER BY n.id
        ON CONFLICT (document_id) WHERE document_id IS NOT NULL
        DO UPDATE SET kind = 'index', state = 'pending', lease = NULL, attempts = 0, errors = 0, next_attempt_at = now(), last_error = NULL, payload = '{}';
    PERFORM graphrag._hint_workers();
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION graphrag._documents_deleted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO graphrag.jobs AS j (corpus_id, kind, document_id)
    SELECT d.corpus_id, 'remove', d.id FROM deleted d ORDER BY d.id
        ON CONFLICT (document_id) WHERE document_id IS NOT NULL
        DO UPDATE SET kind = 'remove', state = 'pending', lease = NULL, attempts = 0, errors = 0, next_attempt_at = now(), last_error = NULL, payload = '{}';
    PERFORM graphrag._hint_workers();
    RETURN NULL;
END
$$;

-- TRUNCATE has no transition table, and in a transaction with an old snapshot it takes more documents than this sees: a worker
-- looks at what is left of them. Whatever waits is void.
CREATE OR REPLACE FUNCTION graphrag._documents_truncated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM graphrag.jobs WHERE document_id IS NOT NULL;
    DELETE FROM graphrag.imported_extractions;
    INSERT INTO graphrag.jobs AS j (corpus_id, kind)
    SELECT c.id, 'sweep' FROM graphrag.corpora c ORDER BY c.id
        ON CONFLICT (corpus_id, kind) WHERE kind IN ('sweep', 'optimize', 'summarize', 'reembed', 'batch')
        DO UPDATE SET state = 'pending', lease = NULL, attempts = 0, errors = 0, next_attempt_at = now(), last_error = NULL;
    PERFORM graphrag._hint_workers();
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER documents_before BEFORE INSERT OR UPDATE ON graphrag.documents
    FOR EACH ROW EXECUTE FUNCTION graphrag._documents_before();
CREATE OR REPLACE TRIGGER documents_inserted AFTER INSERT ON graphrag.documents REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._documents_inserted();
CREATE OR REPLACE TRIGGER documents_updated AFTER UPDATE ON graphrag.documents REFERENCING OLD TABLE AS updated_old NEW TABLE AS updated_new
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._documents_updated();
CREATE OR REPLACE TRIGGER documents_deleted AFTER DELETE ON graphrag.documents REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._documents_deleted();
CREATE OR REPLACE TRIGGER documents_truncated AFTER TRUNCATE ON graphrag.documents
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._documents_truncated();

-- Tables of the application that feed a corpus. Names are kept beside the oid, which a restore changes.


-- Which documents come from which table: they alone follow its deletes and TRUNCATE. No foreign key: detaching a large
-- table must not rewrite its documents; a number that is in attached_tables no more is history, and is never used again.

-- The table of an attachment: the relation that carries its triggers, by oid or, after a restore, by name. So a rename
-- works, and a trigger of somebody's own making cannot feed the corpus. Null when the table is gone.
CREATE OR REPLACE FUNCTION graphrag._attached_relation(attached graphrag.attached_tables) RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT t.tgrelid
              FROM pg_trigger t
             WHERE t.tgrelid IN (attached.relation, to_regclass(format('%I.%I', attached.schema_name, attached.table_name)))
               AND t.tgfoid = 'graphrag._attached_changed()'::regprocedure
               AND t.tgargs = convert_to(attached.id::text, 'UTF8') || '\x00'::bytea
             ORDER BY t.tgrelid <> attached.relation
             LIMIT 1);
END
$$;

-- Type of a column, domains looked through. `trusted`: made by a superuser, so that nobody else can have put code of his
-- own into its casts and operators; what reads attached tables runs with the rights of the extension's owner.
-- (PL/pgSQL throughout: it keeps plans, and every statement on an attached table comes here.)
CREATE OR REPLACE FUNCTION graphrag._attached_type(relation oid, column_name name, OUT base oid, OUT is_domain boolean, OUT trusted boolean)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t record;
BEGIN
    SELECT a.atttypid INTO base
      FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = column_name AND a.attnum > 0 AND NOT a.attisdropped;
    is_domain := false;
    LOOP
        SELECT y.typtype, y.typcategory, y.typelem, y.typbasetype, o.rolsuper INTO t
          FROM pg_type y JOIN pg_authid o ON o.oid = y.typowner WHERE y.oid = base;
        EXIT WHEN t.typtype IS DISTINCT FROM 'd';
        base := t.typbasetype;
        is_domain := true;
    END LOOP;
    trusted := t.typtype <> 'c' AND t.rolsuper;
    IF trusted AND t.typcategory = 'A' THEN
        SELECT y.typtype NOT IN ('c', 'd') AND o.rolsuper INTO trusted
          FROM pg_type y JOIN pg_authid o ON o.oid = y.typowner WHERE y.oid = t.typelem;
    END IF;
END
$$;

-- SQL for the value of a column of row r without its domain, and for its text. Casts of untrusted types are never called:
-- concat() calls the type's output function only.
CREATE OR REPLACE FUNCTION graphrag._attached_value(relation oid, column_name name, OUT value text, OUT as_text text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t record := graphrag._attached_type(relation, column_name);
BEGIN
    IF NOT t.trusted THEN
        value := format('CASE WHEN NOT r.%1$I IS NULL THEN concat(r.%1$I) COLLATE "C" END', column_name);
        as_text := value;
    ELSE
        value := format(CASE WHEN t.is_domain THEN 'r.%I::%s' ELSE 'r.%I' END, column_name, format_type(t.base, -1));
        as_text := value || '::text COLLATE "C"';
    END IF;
END
$$;

-- The unique index that makes a column a key: of this column alone or, on a partitioned table, led by it and completed by
-- columns of the partition key, without which no index there can be unique. Null when there is none.
CREATE OR REPLACE FUNCTION graphrag._attached_key_index(relation oid, column_name name) RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT i.indexrelid
      FROM pg_index i
      JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
      LEFT JOIN pg_partitioned_table p ON p.partrelid = i.indrelid
     WHERE i.indrelid = relation AND a.attname = column_name AND a.attnotnull
       AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
       AND NOT EXISTS (SELECT FROM generate_series(1, i.indnkeyatts - 1) n
                        WHERE (i.indkey[n] = ANY (p.partattrs::int2[])) IS NOT TRUE)
     ORDER BY i.indnkeyatts, i.indisprimary DESC, i.indexrelid
     LIMIT 1);
END
$$;

CREATE OR REPLACE FUNCTION graphrag._refuse_source_key(key text, source text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'the key "%" of a row of % cannot name a document', left(key, 100), source
        USING ERRCODE = 'check_violation', DETAIL = format('It has %s bytes.', octet_length(key)),
              HINT = 'graphrag.documents.source_key takes 1 to 2000 bytes.';
END
$$;

CREATE OR REPLACE FUNCTION graphrag._refuse_taken_key(key text, corpus text, attached_id int) RETURNS int
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'document "%" of corpus "%" comes from another table, %', key, corpus,
            (SELECT format('%I.%I', a.schema_name, a.table_name) FROM graphrag.attached_tables a WHERE a.id = attached_id)
        USING ERRCODE = 'unique_violation',
              HINT = 'Attach one of the tables to a corpus of its own, or by a key that differs, for example a unique column '
                     'GENERATED ALWAYS AS (''articles/'' || id) STORED.';
END
$$;

-- What is needed to read an attached table: its name, and SQL for keys and documents of its row r. No row when detached.
CREATE OR REPLACE FUNCTION graphrag._attached_source(attached_id int,
    OUT corpus text, OUT relation oid, OUT source text, OUT key_column text, OUT key_type text, OUT key_text text,
    OUT equals text, OUT less text, OUT greater text, OUT document text)
RETURNS SETOF record
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    a graphrag.attached_tables;
    missing text;
    key_index oid;
BEGIN
    SELECT t.* INTO a FROM graphrag.attached_tables t WHERE t.id = attached_id;
    relation := graphrag._attached_relation(a);
    SELECT c.name INTO corpus FROM graphrag.corpora c WHERE c.id = a.corpus_id;
    SELECT format('%I.%I', n.nspname, c.relname) INTO source
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
    IF source IS NULL THEN
        RETURN;
    END IF;
    SELECT string_agg(format('"%s"', u.name), ', ' ORDER BY u.name) INTO missing
      FROM unnest(array_cat(ARRAY[a.key_column, a.title_column], array_cat(a.content_columns, a.metadata_columns))) u (name)
     WHERE u.name IS NOT NULL AND (graphrag._attached_type(relation, u.name)).base IS NULL;
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION 'table % is attached to corpus "%" by columns it no longer has: %', source, corpus, missing
            USING ERRCODE = 'undefined_column',
                  HINT = format('SELECT graphrag.detach_table(%L, %L); then attach it again with the columns it has. Unchanged documents are not indexed anew.',
                                source, corpus);
    END IF;
    key_index := graphrag._attached_key_index(relation, a.key_column);
    SELECT min(format('OPERATOR(%I.%s)', n.nspname, o.oprname)) FILTER (WHERE m.amopstrategy = 1),
           min(format('OPERATOR(%I.%s)', n.nspname, o.oprname)) FILTER (WHERE m.amopstrategy = 3),
           min(format('OPERATOR(%I.%s)', n.nspname, o.oprname)) FILTER (WHERE m.amopstrategy = 5)
      INTO less, equals, greater
      FROM pg_index i
      JOIN pg_opclass c ON c.oid = i.indclass[0]
      JOIN pg_amop m ON m.amopfamily = c.opcfamily AND m.amoplefttype = c.opcintype AND m.amoprighttype = c.opcintype
      JOIN pg_operator o ON o.oid = m.amopopr
      JOIN pg_namespace n ON n.oid = o.oprnamespace
     WHERE i.indexrelid = key_index;
    IF equals IS NULL OR NOT (graphrag._attached_type(relation, a.key_column)).trusted THEN
        RAISE EXCEPTION 'column "%" is no longer a key of table %, by which it is attached to corpus "%"', a.key_column, source, corpus
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Make a unique index on it and make it NOT NULL, or detach the table with graphrag.detach_table().';
    END IF;
    key_column := format('%I', a.key_column);
    key_type := format_type((graphrag._attached_type(relation, a.key_column)).base, -1);
    key_text := (graphrag._attached_value(relation, a.key_column)).as_text;
    document := format(
        'CASE WHEN octet_length(%1$s) BETWEEN 1 AND 2000 THEN %1$s ELSE graphrag._refuse_source_key(%1$s, %2$L) END AS source_key,'
        ' %3$s AS title, array_to_string(ARRAY[%4$s], E''\n\n'') AS content, %5$s AS metadata',
        key_text, source,
        CASE WHEN a.title_column IS NULL THEN 'NULL::text' ELSE (graphrag._attached_value(relation, a.title_column)).as_text END,
        (SELECT string_agg((graphrag._attached_value(relation, u.name)).as_text, ', ' ORDER BY u.n)
           FROM unnest(a.content_columns) WITH ORDINALITY u (name, n)),
        coalesce((SELECT format('(SELECT to_jsonb(m) FROM (SELECT %s) m)',
                                string_agg(format('%s AS %I', (graphrag._attached_value(relation, u.name)).value, u.name), ', ' ORDER BY u.n))
                    FROM unnest(a.metadata_columns) WITH ORDINALITY u (name, n) HAVING count(*) > 0), '''{}''::jsonb'));
    RETURN NEXT;
END
$$;

-- The statement that writes the documents of rows as they are now: `keys` is a query that gives their keys (column key).
-- Its parameters: corpus, attachment, and whatever `keys` takes. Documents that say the same already are left alone; documents
-- of the corpus that no table owns are taken over. (A statement, because only the trigger function sees transition tables.)
CREATE OR REPLACE FUNCTION graphrag._attached_upsert(s record, keys text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN format(
        'INSERT INTO graphrag.documents AS d (corpus, source_key, title, content, metadata, attached_id)'
        ' SELECT $1, x.source_key, x.title, x.content, x.metadata, $2'
        '   FROM (SELECT %1$s FROM %2$s r JOIN (%3$s) k ON r.%4$s %5$s k.key) x'
        '  ORDER BY x.source_key'
        ' ON CONFLICT (corpus, source_key) DO UPDATE'
        '    SET title = excluded.title, content = excluded.content, metadata = excluded.metadata,'
        '        attached_id = CASE WHEN d.attached_id = $2 OR d.attached_id IS NULL'
        '                             OR NOT EXISTS (SELECT FROM graphrag.attached_tables a WHERE a.id = d.attached_id)'
        '                           THEN $2 ELSE graphrag._refuse_taken_key(d.source_key, $1, d.attached_id) END'
        '  WHERE (d.title, d.content, d.metadata, d.attached_id)'
        '        IS DISTINCT FROM (excluded.title, excluded.content, excluded.metadata, $2)',
        s.document, s.source, keys, s.key_column, s.equals);
END
$$;

-- Trigger of attached tables, one per event. What it writes is read from the table, not from the transition tables: these
-- only say which keys to look at, so triggers of the application that change rows again, MERGE, and a DELETE and INSERT
-- in one statement all end with documents that say what the table says.
-- SECURITY DEFINER: an application that writes its own table need not have rights in this schema.
-- The settings make text of dates and numbers the same in every session.
CREATE OR REPLACE FUNCTION graphrag._attached_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex'
AS $$
DECLARE
    attached int := TG_ARGV[0]::int;
    later_snapshot_needed boolean := current_setting('transaction_isolation') IN ('repeatable read', 'serializable');
    s record;
    missed boolean;
BEGIN
    SELECT * INTO s FROM graphrag._attached_source(attached);
    IF s.relation IS DISTINCT FROM TG_RELID THEN
        RAISE EXCEPTION 'table %.% is not attached under number %', quote_ident(TG_TABLE_SCHEMA), quote_ident(TG_TABLE_NAME), attached
            -- A snapshot older than attach_table() does not show it: the same transaction will work when tried again.
            USING ERRCODE = CASE WHEN later_snapshot_needed THEN 'serialization_failure' ELSE 'object_not_in_prerequisite_state' END,
                  HINT = CASE WHEN later_snapshot_needed THEN 'Try the transaction again.'
                         ELSE format('DROP TRIGGER %I on it, and attach it with graphrag.attach_table().', TG_NAME) END;
    END IF;
    UPDATE graphrag.attached_tables a
       SET relation = TG_RELID, schema_name = TG_TABLE_SCHEMA, table_name = TG_TABLE_NAME
     WHERE a.id IN (SELECT b.id FROM graphrag.attached_tables b
                     WHERE b.id = attached AND (b.relation, b.schema_name, b.table_name) <> (TG_RELID, TG_TABLE_SCHEMA, TG_TABLE_NAME)
                       FOR UPDATE SKIP LOCKED);

    IF TG_OP = 'TRUNCATE' THEN
        EXECUTE format('DELETE FROM graphrag.documents d WHERE d.attached_id = $1'
                       ' AND NOT EXISTS (SELECT FROM %s r WHERE %s = d.source_key)', s.source, s.key_text)
        USING attached;
        missed := true;
    ELSIF TG_OP IN ('UPDATE', 'DELETE') THEN
        EXECUTE format(
            'WITH gone AS MATERIALIZED ('
            '    SELECT o.source_key'
            '      FROM (SELECT r.%1$s AS key, %2$s AS source_key FROM %3$s r) o'
            '     WHERE NOT EXISTS (SELECT FROM (SELECT r.%1$s AS key, %2$s AS source_key FROM %4$s r) l'
            '                        WHERE l.key %5$s o.key AND l.source_key = o.source_key) %6$s'
            '), removed AS ('
            '    DELETE FROM graphrag.documents d USING gone g'
            -- Not "=": the only index to use here is that of the key, whatever old statistics say.
            '     WHERE d.corpus = $1 AND d.source_key = g.source_key COLLATE "default" AND d.attached_id IS NOT DISTINCT FROM $2 RETURNING d.id'
            ') SELECT (SELECT count(*) FROM gone) > (SELECT count(*) FROM removed)',
            s.key_column, s.key_text, CASE TG_OP WHEN 'DELETE' THEN 'deleted' ELSE 'updated_old' END, s.source, s.equals,
            CASE TG_OP WHEN 'UPDATE' THEN format('AND o.source_key NOT IN (SELECT %s FROM updated_new r)', s.key_text) ELSE '' END)
        INTO missed USING s.corpus, attached;
    END IF;
    IF later_snapshot_needed AND missed THEN
        -- Documents that the backfill wrote after this transaction's snapshot cannot be seen from here.
        PERFORM graphrag._queue_attached(attached);
    END IF;

    IF TG_OP = 'INSERT' THEN
        EXECUTE graphrag._attached_upsert(s, format('SELECT i.%s AS key FROM inserted i', s.key_column)) USING s.corpus, attached;
    ELSIF TG_OP = 'UPDATE' THEN
        -- Rows whose key and document are as before are not looked at again.
        EXECUTE graphrag._attached_upsert(s, format(
            'SELECT r.%1$s AS key, x.digest FROM updated_new r %2$s EXCEPT SELECT r.%1$s, x.digest FROM updated_old r %2$s',
            s.key_column,
            format('CROSS JOIN LATERAL (SELECT sha256(convert_to(w::text, ''UTF8'')) FROM (SELECT %s) w) x (digest)', s.document)))
        USING s.corpus, attached;
    END IF;
    RETURN NULL;
END
$$;

-- Queues the job that gives rows without a document theirs and deletes documents without a row: of one attachment, or of all
-- (after a restore, which brings no jobs); with `compare`, also rows whose document says something else. Looks for no such job first: an old snapshot may show one that is done. The worker
-- does jobs that say the same as one.
CREATE OR REPLACE FUNCTION graphrag._queue_attached(attached_id int DEFAULT NULL, delay interval DEFAULT '0', compare boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO graphrag.jobs (corpus_id, kind, payload, next_attempt_at)
    SELECT a.corpus_id, 'attach', jsonb_build_object('attached', a.id, 'after', NULL, 'compare', compare), now() + delay
      FROM graphrag.attached_tables a
     WHERE _queue_attached.attached_id IS NULL OR a.id = _queue_attached.attached_id
     ORDER BY a.id;
END
$$;
REVOKE ALL ON FUNCTION graphrag._queue_attached(int, interval, boolean) FROM PUBLIC;

-- Holds an attached table against DDL and detaching until the transaction ends. Null: detached or dropped; false: somebody
-- else holds it, and a worker does not wait.
CREATE OR REPLACE FUNCTION graphrag._hold_attached(attached_id int) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    held text := (SELECT s.source FROM graphrag._attached_source(attached_id) s);
BEGIN
    IF held IS NULL THEN
        RETURN NULL;
    END IF;
    BEGIN
        EXECUTE format('LOCK TABLE %s IN ROW SHARE MODE NOWAIT', held);
    EXCEPTION
        WHEN lock_not_available THEN RETURN false;
        WHEN undefined_table OR invalid_schema_name THEN RETURN NULL;
    END;
    -- Looked up again: who held the lock a moment ago may have detached the table, or given its name to another.
    RETURN CASE WHEN EXISTS (SELECT FROM graphrag._attached_source(attached_id) s WHERE s.source = held) THEN true END;
END
$$;

-- SQL that makes the document of a row r beside it, and the condition that document d says the same; nothing unless asked to.
CREATE OR REPLACE FUNCTION graphrag._attached_comparison(s record, compare boolean, OUT document text, OUT same text)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    document := CASE WHEN compare THEN format(' CROSS JOIN LATERAL (SELECT %s) x', s.document) ELSE '' END;
    same := CASE WHEN compare THEN ' AND (d.title, d.content, d.metadata) IS NOT DISTINCT FROM (x.title, x.content, x.metadata)' ELSE '' END;
END
$$;
REVOKE ALL ON FUNCTION graphrag._attached_comparison(record, boolean) FROM PUBLIC;

-- One step: the next rows, in key order after `after`, that have no document of this attachment, or one that says something
-- else if the two are to be compared. They are locked first (FOR SHARE), and read afterwards, so that none can be written stale; rows in others' hands are left to the next round.
-- No row: detached or dropped. taken is null: the table is locked.
CREATE OR REPLACE FUNCTION graphrag._backfill_attached(attached_id int, after text, max_rows int, compare boolean, OUT taken int, OUT last_key text) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex'
AS $$
DECLARE
    held boolean := graphrag._hold_attached(attached_id);
    s record;
    other record;
    keys text[];
BEGIN
    IF held THEN
        SELECT * INTO s FROM graphrag._attached_source(attached_id);
        SELECT * INTO other FROM graphrag._attached_comparison(s, compare);
        EXECUTE format(
            'SELECT array_agg(p.key) FROM ('
            '    SELECT %1$s AS key FROM %2$s r%6$s'
            '     WHERE %3$s NOT EXISTS (SELECT FROM graphrag.documents d'
            -- Not "=": the only index to use here is that of the key, whatever old statistics say.
            '                             WHERE d.corpus = $1 AND d.source_key = (%1$s) COLLATE "default" AND d.attached_id IS NOT DISTINCT FROM $2%7$s)'
            '     ORDER BY r.%4$s USING %5$s LIMIT $3 FOR SHARE OF r SKIP LOCKED) p',
            s.key_text, s.source,
            CASE WHEN after IS NOT NULL THEN format('r.%s %s $4::%s AND', s.key_column, s.greater, s.key_type) ELSE '' END,
            s.key_column, s.less,
            other.document, other.same)
        INTO keys USING s.corpus, attached_id, max_rows, after;
        taken := coalesce(cardinality(keys), 0);
        last_key := keys[taken];
        IF taken > 0 THEN
            EXECUTE graphrag._attached_upsert(s, format('SELECT u::%s AS key FROM unnest($3) u', s.key_type)) USING s.corpus, attached_id, keys;
        END IF;
    END IF;
    IF held IS NOT NULL THEN
        RETURN NEXT;
    END IF;
END
$$;
REVOKE ALL ON FUNCTION graphrag._backfill_attached(int, text, int, boolean) FROM PUBLIC;

-- Deletes the documents whose row is gone. True when another round is needed: something was locked meanwhile.
-- No nested loops: both tables have just grown, and what the statistics say of them would make the planner choose those.
CREATE OR REPLACE FUNCTION graphrag._sweep_attached(attached_id int, compare boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex'
SET enable_nestloop = off SET jit = off
AS $$
DECLARE
    held boolean := graphrag._hold_attached(attached_id);
    s record;
    other record;
    orphan text;
    orphans bigint[];
    rest boolean;
BEGIN
    IF held IS NOT TRUE THEN
        RETURN held IS NOT NULL;
    END IF;
    SELECT * INTO s FROM graphrag._attached_source(attached_id);
    SELECT * INTO other FROM graphrag._attached_comparison(s, compare);
    orphan := format('d.attached_id = $1 AND NOT EXISTS (SELECT FROM %s r WHERE %s = d.source_key)', s.source, s.key_text);
    -- Locked first and judged again by a later snapshot: a row inserted anew in between keeps its document.
    EXECUTE format('SELECT array_agg(o.id) FROM (SELECT d.id FROM graphrag.documents d WHERE %s FOR UPDATE OF d SKIP LOCKED) o', orphan)
    INTO orphans USING attached_id;
    IF orphans IS NOT NULL THEN
        EXECUTE format('DELETE FROM graphrag.documents d WHERE d.id = ANY ($2) AND %s', orphan) USING attached_id, orphans;
    END IF;
    EXECUTE format(
        'SELECT EXISTS (SELECT FROM graphrag.documents d WHERE %1$s)'
        ' OR EXISTS (SELECT FROM %2$s r%4$s WHERE NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.attached_id = $1 AND d.source_key = %3$s%5$s))',
        orphan, s.source, s.key_text, other.document, other.same)
    INTO rest USING attached_id;
    RETURN rest;
END
$$;
REVOKE ALL ON FUNCTION graphrag._sweep_attached(int, boolean) FROM PUBLIC;

-- How attach_table() and detach_table() prove who calls them. Inside SECURITY DEFINER nobody can tell: session_user is the
-- superuser whose ANALYZE or REFRESH MATERIALIZED VIEW runs an attacker's function. A column default says it: `caller` is
-- whoever runs the INSERT, and cannot be given. The trigger does the work and keeps no row.

CREATE OR REPLACE FUNCTION graphrag.attach_table(source regclass, corpus text, key_column name, content_columns name[],
    title_column name DEFAULT NULL, metadata_columns name[] DEFAULT '{}') RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF num_nulls(source, corpus, key_column, content_columns, metadata_columns) > 0
        OR cardinality(content_columns) = 0 OR array_position(content_columns || metadata_columns, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'attach_table() needs a table, a corpus, a key column and one content column at least; none can be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'For example SELECT graphrag.attach_table(''articles'', ''default'', ''id'', ARRAY[''body''], title_column => ''headline'');';
    END IF;
    INSERT INTO graphrag._attach_requests (action, source, corpus, key_column, content_columns, title_column, metadata_columns)
    VALUES ('attach', source, corpus, key_column, content_columns, title_column, metadata_columns);
END
$$;

-- Does what a request asks for, with the rights of the extension's owner and for the caller the row names.
CREATE OR REPLACE FUNCTION graphrag._attach_requested() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    attached record;
    found_one boolean := false;
BEGIN
    IF NEW.action = 'attach' THEN
        IF NOT has_function_privilege(NEW.caller, 'graphrag.attach_table(regclass, text, name, name[], name, name[])', 'EXECUTE') THEN
            RAISE EXCEPTION 'role "%" may not call graphrag.attach_table()', NEW.caller USING ERRCODE = 'insufficient_privilege';
        END IF;
        PERFORM graphrag._check_attachable(NEW);
        PERFORM graphrag._attach(NEW);
        RETURN NULL;
    END IF;
    IF NOT has_function_privilege(NEW.caller, 'graphrag.detach_table(regclass, text, boolean)', 'EXECUTE') THEN
        RAISE EXCEPTION 'role "%" may not call graphrag.detach_table()', NEW.caller USING ERRCODE = 'insufficient_privilege';
    END IF;
    FOR attached IN
        SELECT a.id, graphrag._attached_relation(a) AS relation
          FROM graphrag.attached_tables a
          JOIN graphrag.corpora c ON c.id = a.corpus_id
         WHERE coalesce(graphrag._attached_relation(a), a.relation) = NEW.source AND (NEW.corpus IS NULL OR c.name = NEW.corpus)
         ORDER BY a.id
    LOOP
        -- The owner of a table that is gone is unknown; the extension's owner cleans up.
        PERFORM graphrag._check_owner(NEW.caller, coalesce(attached.relation, 'graphrag.attached_tables'::regclass));
        PERFORM graphrag._detach(attached.id, NEW.keep_documents);
        found_one := true;
    END LOOP;
    IF NOT found_one THEN
        RAISE EXCEPTION 'table % is not attached%', NEW.source::regclass, ' to corpus ' || quote_ident(NEW.corpus)
            USING ERRCODE = 'undefined_object', HINT = 'See graphrag.attached_tables.';
    END IF;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER attach_requested BEFORE INSERT ON graphrag._attach_requests
    FOR EACH ROW EXECUTE FUNCTION graphrag._attach_requested();

CREATE OR REPLACE FUNCTION graphrag._check_owner(caller name, relation oid) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT (SELECT pg_has_role(caller, c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = relation) THEN
        RAISE EXCEPTION 'must be owner of table %', relation::regclass USING ERRCODE = 'insufficient_privilege',
            HINT = format('Role "%s" owns it.', (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = relation));
    END IF;
END
$$;

-- Registers a checked request: the attachment, its triggers, and the job for the rows that exist.
CREATE OR REPLACE FUNCTION graphrag._attach(request graphrag._attach_requests) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    attached int;
    event record;
BEGIN
    INSERT INTO graphrag.attached_tables (corpus_id, relation, schema_name, table_name, key_column, content_columns, title_column, metadata_columns)
    SELECT k.id, c.oid, n.nspname, c.relname, request.key_column, request.content_columns, request.title_column, request.metadata_columns
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, graphrag.corpora k
     WHERE c.oid = request.source AND k.name = request.corpus
    RETURNING id INTO attached;
    FOR event IN
        SELECT * FROM (VALUES ('INSERT', 'REFERENCING NEW TABLE AS inserted'),
                              ('UPDATE', 'REFERENCING OLD TABLE AS updated_old NEW TABLE AS updated_new'),
                              ('DELETE', 'REFERENCING OLD TABLE AS deleted'),
                              ('TRUNCATE', '')) v (name, rows)
    LOOP
        EXECUTE format('CREATE TRIGGER %I AFTER %s ON %s %s FOR EACH STATEMENT EXECUTE FUNCTION graphrag._attached_changed(%L)',
                       format('graphrag_%s_%s', attached, lower(event.name)), event.name, request.source::regclass, event.rows, attached);
        -- DROP EXTENSION takes them along instead of stopping at them.
        EXECUTE format('ALTER TRIGGER %I ON %s DEPENDS ON EXTENSION pg_graphrag',
                       format('graphrag_%s_%s', attached, lower(event.name)), request.source::regclass);
    END LOOP;
    PERFORM graphrag._queue_attached(attached);
END
$$;

-- Refuses what cannot be attached, with the reason. Takes the lock that CREATE TRIGGER needs first, so that all stays as checked.
CREATE OR REPLACE FUNCTION graphrag._check_attachable(request graphrag._attach_requests) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text := request.source::regclass;
    t record;
    columns name[] := request.content_columns || request.metadata_columns || request.key_column
                      || CASE WHEN request.title_column IS NOT NULL THEN ARRAY[request.title_column] ELSE '{}'::name[] END;
    wrong text;
BEGIN
    SELECT c.relkind, c.relpersistence, c.relispartition, n.nspname INTO t
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = request.source;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'table % does not exist', name USING ERRCODE = 'undefined_table', HINT = 'Give the name of a table.';
    END IF;
    PERFORM graphrag._check_owner(request.caller, request.source);
    wrong := CASE
        WHEN t.relkind = 'v' THEN 'it is a view; attach the tables under it'
        WHEN t.relkind = 'm' THEN 'it is a materialized view; attach the tables under it, or a table filled from it'
        WHEN t.relkind = 'f' THEN 'it is a foreign table; attach a local copy of it'
        WHEN t.relkind NOT IN ('r', 'p') THEN 'it is not a table'
        WHEN t.relpersistence = 't' THEN 'it is temporary; attach a permanent table'
        WHEN t.relpersistence = 'u' THEN 'it is unlogged, and a crash would empty it without its documents; ALTER TABLE … SET LOGGED first'
        WHEN t.nspname IN ('pg_catalog', 'information_schema', 'graphrag', 'ag_catalog') OR t.nspname ~ '^pg_'
            OR EXISTS (SELECT FROM ag_catalog.ag_graph g WHERE g.name = t.nspname)
            THEN 'it belongs to the system or to an extension; attach a table of your own'
        WHEN t.relispartition THEN 'it is a partition; attach the partitioned table'
        WHEN t.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits i WHERE request.source IN (i.inhrelid, i.inhparent))
            THEN 'it inherits or is inherited, and triggers do not follow inheritance; use a partitioned table'
        WHEN t.relkind = 'p' AND EXISTS (SELECT FROM pg_partition_tree(request.source) p JOIN pg_class c ON c.oid = p.relid WHERE c.relkind = 'f')
            THEN 'one of its partitions is a foreign table; attach a local copy of it'
    END;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'table % cannot be attached', name
            USING ERRCODE = 'wrong_object_type', HINT = upper(left(wrong, 1)) || substr(wrong, 2) || '.';
    END IF;
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', name);

    IF NOT EXISTS (SELECT FROM graphrag.corpora c WHERE c.name = request.corpus) THEN
        IF request.corpus <> 'default' THEN
            RAISE EXCEPTION 'corpus "%" does not exist', request.corpus
                USING ERRCODE = 'undefined_object', HINT = format('Create it with SELECT graphrag.create_corpus(%L);', request.corpus);
        END IF;
        PERFORM graphrag._default_corpus();
    END IF;
    IF EXISTS (SELECT FROM graphrag.attached_tables a JOIN graphrag.corpora c ON c.id = a.corpus_id
                WHERE c.name = request.corpus AND coalesce(graphrag._attached_relation(a), a.relation) = request.source) THEN
        RAISE EXCEPTION 'table % is already attached to corpus "%"', name, request.corpus USING ERRCODE = 'duplicate_object',
            HINT = format('To attach it with other columns, first SELECT graphrag.detach_table(%L, %L); unchanged documents are not indexed anew.', name, request.corpus);
    END IF;

    SELECT string_agg(DISTINCT format('"%s"', u.name), ', ') INTO wrong
      FROM unnest(columns) u (name) WHERE (graphrag._attached_type(request.source, u.name)).base IS NULL;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'table % has no column %', name, wrong USING ERRCODE = 'undefined_column',
            HINT = format('Its columns: %s.', (SELECT string_agg(a.attname, ', ' ORDER BY a.attnum) FROM pg_attribute a
                                                WHERE a.attrelid = request.source AND a.attnum > 0 AND NOT a.attisdropped));
    END IF;
    SELECT min(u.name) INTO wrong
      FROM (SELECT c.name FROM unnest(request.content_columns) c (name) GROUP BY c.name HAVING count(*) > 1
             UNION ALL
            SELECT c.name FROM unnest(request.metadata_columns) c (name) GROUP BY c.name HAVING count(*) > 1) u (name);
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'column "%" is given twice', wrong USING ERRCODE = 'duplicate_column', HINT = 'Give it once.';
    END IF;
    SELECT min(u.name) INTO wrong
      FROM unnest(request.content_columns || request.title_column) u (name)
     WHERE (graphrag._attached_type(request.source, u.name)).base = 'bytea'::regtype;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'column "%" of table % is bytea, not text', wrong, name USING ERRCODE = 'datatype_mismatch',
            HINT = 'Attach a text column; for text kept as bytes, one GENERATED ALWAYS AS (convert_from(…, ''UTF8'')) STORED.';
    END IF;

    IF graphrag._attached_key_index(request.source, request.key_column) IS NULL THEN
        RAISE EXCEPTION 'column "%" is not a key of table %', request.key_column, name USING ERRCODE = 'invalid_parameter_value',
            HINT = 'The key column must be NOT NULL and have a unique index of its own, neither partial nor deferrable (on a partitioned table '
                   'it may be completed by columns of the partition key). For a key of several columns add one: ALTER TABLE … ADD document_key '
                   'text GENERATED ALWAYS AS (a || ''/'' || b) STORED NOT NULL UNIQUE.';
    END IF;
    IF NOT (graphrag._attached_type(request.source, request.key_column)).trusted THEN
        RAISE EXCEPTION 'column "%" of table % is of type %, which cannot be a key here', request.key_column, name,
                format_type((graphrag._attached_type(request.source, request.key_column)).base, NULL)
            USING ERRCODE = 'datatype_mismatch', HINT = 'Types of PostgreSQL and of extensions can, user-defined ones cannot; add a unique text column.';
    END IF;
    -- Two tables that number their rows would take each other's documents, sooner or later.
    IF (SELECT count(*) FROM graphrag.attached_tables a JOIN graphrag.corpora c ON c.id = a.corpus_id
         WHERE c.name = request.corpus AND graphrag._numbers_rows(graphrag._attached_relation(a), a.key_column)) > 0
        AND graphrag._numbers_rows(request.source, request.key_column) THEN
        RAISE EXCEPTION 'corpus "%" has an attached table with a numeric key already; the keys of % would collide with its', request.corpus, name
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Attach it to a corpus of its own, or by a key that differs, for example a unique column GENERATED ALWAYS AS (''comments/'' || id) STORED NOT NULL.';
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION graphrag._numbers_rows(relation oid, column_name name) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT coalesce((SELECT y.typcategory = 'N'
                       FROM graphrag._attached_type(relation, column_name) t JOIN pg_catalog.pg_type y ON y.oid = t.base), false);
END;

CREATE OR REPLACE FUNCTION graphrag.detach_table(source regclass, corpus text DEFAULT NULL, keep_documents boolean DEFAULT true) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF num_nulls(source, keep_documents) > 0 THEN
        RAISE EXCEPTION 'detach_table() needs a table, and keep_documents true or false' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'For example SELECT graphrag.detach_table(''articles'');';
    END IF;
    INSERT INTO graphrag._attach_requests (action, source, corpus, keep_documents) VALUES ('detach', source, corpus, keep_documents);
END
$$;

-- Ends one attachment. The table is locked before anything else, as by those who write it: no deadlock with them.
CREATE OR REPLACE FUNCTION graphrag._detach(attached_id int, keep_documents boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    source regclass := (SELECT graphrag._attached_relation(a) FROM graphrag.attached_tables a WHERE a.id = attached_id);
    trigger name;
BEGIN
    IF source IS NOT NULL THEN
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', source);
        FOR trigger IN
            SELECT t.tgname FROM pg_trigger t
             WHERE t.tgrelid = source AND t.tgfoid = 'graphrag._attached_changed()'::regprocedure
               AND t.tgargs = convert_to(attached_id::text, 'UTF8') || '\x00'::bytea
        LOOP
            EXECUTE format('DROP TRIGGER %I ON %s', trigger, source);
        END LOOP;
    END IF;
    DELETE FROM graphrag.attached_tables a WHERE a.id = attached_id;
    DELETE FROM graphrag.jobs j WHERE j.kind = 'attach' AND (j.payload ->> 'attached')::int = attached_id;
    IF NOT keep_documents THEN
        DELETE FROM graphrag.documents d WHERE d.attached_id = _detach.attached_id;
    END IF;
END
$$;

-- Ends every attachment of a corpus, or of all corpora; for drop_corpus() and uninstall().
CREATE OR REPLACE FUNCTION graphrag._detach_all(corpus_id int) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT graphrag._detach(a.id, true)
      FROM graphrag.attached_tables a
     WHERE _detach_all.corpus_id IS NULL OR a.corpus_id = _detach_all.corpus_id
     ORDER BY a.id;
END;

-- What another GraphRAG said of a document, and how it was cut. Used in place of the corpus' own extractor whenever the
-- document is indexed, as long as its content is the one that was imported. No foreign key: documents may be truncated.
CREATE TABLE graphrag.imported_extractions (
    document_id  bigint NOT NULL,
    corpus_id    int    NOT NULL,
    content_hash text   NOT NULL COLLATE "C",
    chunks       jsonb  NOT NULL,
    CONSTRAINT imported_extractions_pkey PRIMARY KEY (document_id),
    CONSTRAINT imported_extractions_chunks_check CHECK (pg_catalog.jsonb_typeof(chunks) = 'array')
);
CREATE INDEX imported_extractions_corpus_idx ON graphrag.imported_extractions (corpus_id);
SELECT pg_catalog.pg_extension_config_dump('graphrag.imported_extractions', '');

COMMENT ON TABLE graphrag.imported_extractions IS 'Chunks, entities, relationships and claims of imported documents; removed with the document or its content';
COMMENT ON COLUMN graphrag.imported_extractions.document_id IS 'Document';
COMMENT ON COLUMN graphrag.imported_extractions.corpus_id IS 'Corpus of the document';
COMMENT ON COLUMN graphrag.imported_extractions.content_hash IS 'content_hash of the document when it was imported';
COMMENT ON COLUMN graphrag.imported_extractions.chunks IS '[{start, own_start, end, head, entities, relationships, claims}], as given to import_documents()';

CREATE OR REPLACE FUNCTION graphrag.import_documents(corpus text, documents jsonb) RETURNS jsonb
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "documents.imported:import_documents", corpus, documents)
$$;
REVOKE ALL ON FUNCTION graphrag.import_documents(text, jsonb) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.import_documents(text, jsonb) IS 'Inserts documents (or replaces those of the same source_key) together with what is known of them: [{source_key, title, content, metadata, chunks: [{start, end, own_start, head, entities: [{name, type, description}], relationships: [{source, target, keywords, description, weight}], claims: [{subject, object, type, status, start, end, description, source_text}]}]}]. Offsets count characters of content, own_start where the overlap with the chunk before ends. Workers index them without asking a model, now and later, as long as the content stays. Returns {documents, unchanged, dropped}: dropped says what could not be used. Owner only; 22023 for a bad entry, 42704 for an unknown corpus.';

-- The queue. A job is due when it is pending and its back-off has passed; a lease holds as long as the worker's advisory lock does.
-- One job per document: new content, or its removal, supersedes what was queued.
-- What is made of the whole corpus comes after its documents.

COMMENT ON COLUMN graphrag.jobs.kind IS 'index or remove (a document), attach (rows of an attached table), sweep (remove what was made of documents that are gone, after TRUNCATE), optimize (pack BM25, build vector indexes), summarize (descriptions of which there are many), reembed (vectors of another model), batch (requests that go through an endpoint''s batch API), communities (refresh them), reports (write those of communities that changed)';

-- The worker. No SET clause and no SECURITY DEFINER: either would forbid the commits between its short transactions.
CREATE OR REPLACE PROCEDURE graphrag.process_jobs(max_jobs int DEFAULT NULL)
LANGUAGE plpython3u
AS $$
from pg_graphrag.server import call
call(plpy, "0.2.0", "queue.worker:process_jobs", max_jobs)
$$;

CREATE OR REPLACE FUNCTION graphrag.retry_failed(corpus text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    retried bigint;
BEGIN
    IF corpus IS NOT NULL AND NOT EXISTS (SELECT FROM graphrag.corpora c WHERE c.name = retry_failed.corpus) THEN
        RAISE EXCEPTION 'corpus "%" does not exist', corpus
            USING ERRCODE = 'undefined_object', HINT = 'SELECT name FROM graphrag.corpora lists them.';
    END IF;
    -- Breakers are closed for all: a provider serves any corpus.
    DELETE FROM graphrag.provider_state;
    UPDATE graphrag.llm_batches b SET next_poll_at = now() WHERE b.next_poll_at > now();
    -- What was answered badly so often that it was given up is asked again.
    DELETE FROM graphrag.llm_batch_requests r
     USING graphrag.corpora c
     WHERE c.id = r.corpus_id AND (retry_failed.corpus IS NULL OR c.name = retry_failed.corpus) AND r.state = 'spoiled';
    WITH queued AS (
        UPDATE graphrag.jobs j
           SET state = 'pending', attempts = 0, errors = 0, next_attempt_at = now(), payload = j.payload - 'faults'
          FROM graphrag.corpora c
         WHERE c.id = j.corpus_id
           AND (retry_failed.corpus IS NULL OR c.name = retry_failed.corpus)
           AND (j.state = 'failed' OR j.state = 'pending' AND j.next_attempt_at > now())
        RETURNING j.document_id
    ), documents AS (
        UPDATE graphrag.documents d SET status = 'pending', error = NULL
          FROM queued q WHERE d.id = q.document_id AND d.status = 'failed'
    )
    SELECT count(*) INTO retried FROM queued;
    RETURN retried;
END
$$;

-- Queues the removal of whatever was made of documents that are gone past the triggers that would have done it: by a TRUNCATE,
-- or in a restore. Returns how many; what is queued to be indexed, and has gone meanwhile, is queued as its removal.
CREATE OR REPLACE FUNCTION graphrag._queue_removals(corpus_id int) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    queued bigint;
BEGIN
    INSERT INTO graphrag.jobs AS j (corpus_id, kind, document_id)
    SELECT DISTINCT c.corpus_id, 'remove', c.document_id FROM graphrag.chunks c
     WHERE c.corpus_id = _queue_removals.corpus_id
       AND NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.id = c.document_id)
     ORDER BY c.document_id
        ON CONFLICT (document_id) WHERE document_id IS NOT NULL
        DO UPDATE SET kind = 'remove', state = 'pending', lease = NULL, attempts = 0, errors = 0, next_attempt_at = now(), last_error = NULL, payload = '{}'
     WHERE j.kind = 'index';
    GET DIAGNOSTICS queued = ROW_COUNT;
    DELETE FROM graphrag.jobs j
     WHERE j.corpus_id = _queue_removals.corpus_id AND j.kind = 'index'
       AND NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.id = j.document_id);
    RETURN queued;
END
$$;
REVOKE ALL ON FUNCTION graphrag._queue_removals(int) FROM PUBLIC;

-- Workers through pg_cron, where it is installed: one bare CALL per job, so that the procedure may commit.
CREATE OR REPLACE FUNCTION graphrag.schedule_worker(every interval DEFAULT '10 seconds', workers int DEFAULT 1) RETURNS int
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    seconds numeric := extract(epoch FROM every);
    schedule text;
    home text := current_setting('cron.database_name', true);
BEGIN
    IF workers IS NULL OR workers < 0 OR workers > 64 THEN
        RAISE EXCEPTION 'workers cannot be %', coalesce(workers::text, 'null')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give 0 (none) to 64.';
    END IF;
    schedule := CASE
        WHEN seconds BETWEEN 1 AND 59 AND seconds = trunc(seconds) THEN format('%s seconds', seconds::int)
        WHEN seconds BETWEEN 60 AND 3540 AND seconds % 60 = 0 THEN format('*/%s * * * *', (seconds / 60)::int)
        WHEN seconds = 3600 THEN '0 * * * *'
    END;
    IF schedule IS NULL THEN
        RAISE EXCEPTION 'a worker cannot run every %', coalesce(every::text, 'null')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give 1 to 59 whole seconds, 1 to 59 whole minutes, or 1 hour.';
    END IF;
    -- pg_cron lives in one database of the cluster; only from there can it be told what to run here.
    IF home IS NULL OR to_regprocedure('cron.schedule_in_database(text,text,text,text,text,boolean)') IS NULL THEN
        RAISE EXCEPTION 'pg_cron is not installed in this database'
            USING ERRCODE = 'undefined_object',
                  HINT = CASE WHEN home IS NULL
                         THEN 'Add pg_cron to shared_preload_libraries, restart, and CREATE EXTENSION pg_cron; or run "pg-graphrag worker", or CALL graphrag.process_jobs() yourself.'
                         ELSE format('Run CREATE EXTENSION pg_cron in database %I, and there: SELECT cron.schedule_in_database(''pg_graphrag %s 1'', %L, ''CALL graphrag.process_jobs()'', %L);',
                                     home, current_database(), schedule, current_database()) END;
    END IF;
    PERFORM graphrag._unschedule_workers();
    FOR n IN 1..workers LOOP
        PERFORM cron.schedule_in_database(format('pg_graphrag %s %s', current_database(), n), schedule,
                                          'CALL graphrag.process_jobs()', current_database());
    END LOOP;
    RETURN workers;
END
$$;

CREATE OR REPLACE FUNCTION graphrag._unschedule_workers() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF to_regclass('cron.job') IS NOT NULL THEN
        EXECUTE 'SELECT cron.unschedule(jobid) FROM cron.job WHERE database = current_database() AND jobname LIKE ''pg\_graphrag %''';
    END IF;
END
$$;

-- Chunks: what retrieval returns. Immutable: new content of a document makes new chunks.


-- Windows: the unit of dense embedding. They partition the own part of each chunk, so together they partition the document.


-- BM25 postings of three kinds of items (chunks, entity mentions, relationship mentions), each with statistics of its own.
-- An item is, in any snapshot, in the tail or live in exactly one immutable segment: live = neither in the segment's
-- bm25_deletions nor named by a tombstone. N, df and avgdl are sums over these, so there is no counter to lock.
-- Not compressed: reading plain bytes is what a query spends its time on (bench/bm25.py).


-- One row for a term in a segment. Rare terms list ordinals; a term in more than a fifth of the items has one byte for every item.


-- Deletions folded by optimize(): an immutable bit map, replaced by a new row.


-- Items not packed yet, with their lexemes: a reader that may not see the item's row still gets the statistics right.




-- Add items to the tail, in the transaction that inserts them. Items whose tsv is null have no text and are no items of BM25.
-- The frequency of a lexeme is the number of its positions, or what tf_overflow says where a tsvector cannot hold them all.
CREATE OR REPLACE FUNCTION graphrag._bm25_add(corpus_id int, kind text, item_ids bigint[], document_ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO graphrag.bm25_tail (corpus_id, kind, item_id, document_id, length, terms, frequencies)
    SELECT $1, $2, given.item_id, given.document_id, counted.length, counted.terms, counted.frequencies
      FROM unnest($3, $4) AS given (item_id, document_id)
           JOIN LATERAL (
               SELECT c.tsv, c.tf_overflow
                 FROM graphrag.chunks c
                WHERE $2 = 'chunk' AND c.id = given.item_id
               UNION ALL
               SELECT m.tsv, NULL
                 FROM graphrag.entity_mentions m
                WHERE $2 = 'entity_mention' AND m.id = given.item_id AND m.tsv IS NOT NULL
               UNION ALL
               SELECT m.tsv, NULL
                 FROM graphrag.relationship_mentions m
                WHERE $2 = 'relationship_mention' AND m.id = given.item_id AND m.tsv IS NOT NULL
           ) AS item ON true
           CROSS JOIN LATERAL (
               SELECT coalesce(sum(tf), 0) AS length,
                      coalesce(array_agg(lexeme), '{}') AS terms,
                      coalesce(string_agg(int4send(tf), ''), '') AS frequencies
                 FROM (SELECT lexeme, coalesce((item.tf_overflow ->> lexeme)::int, cardinality(positions), 1) AS tf
                         FROM unnest(item.tsv)) AS term
           ) AS counted;
END
$$;

-- Remove items. Deleting the tail row waits for an optimize() that has just packed the item; a row that is gone then means it is packed.
CREATE OR REPLACE FUNCTION graphrag._bm25_remove(corpus_id int, kind text, item_ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Sorted, so that two removals lock rows in one order.
    PERFORM FROM graphrag.bm25_tail t
      WHERE t.corpus_id = $1 AND t.kind = $2 AND t.item_id = ANY ($3) ORDER BY t.item_id FOR UPDATE;
    WITH unpacked AS (
        DELETE FROM graphrag.bm25_tail t
         WHERE t.corpus_id = $1 AND t.kind = $2 AND t.item_id = ANY ($3)
        RETURNING t.item_id
    )
    INSERT INTO graphrag.bm25_tombstones (corpus_id, kind, item_id)
    SELECT DISTINCT $1, $2, given.item_id
      FROM unnest($3) AS given (item_id)
     WHERE NOT EXISTS (SELECT FROM unpacked WHERE unpacked.item_id = given.item_id)
    ON CONFLICT DO NOTHING;
END
$$;

-- One optimize() of a corpus at a time. Nothing else waits for this lock but dropping the corpus.
CREATE OR REPLACE FUNCTION graphrag._bm25_lock(corpus_id int) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT pg_catalog.pg_advisory_xact_lock('graphrag.bm25_segments'::pg_catalog.regclass::pg_catalog.oid::pg_catalog.int4, corpus_id);
END;

-- Postings go with their segment. A statement trigger instead of a foreign key, which would check every posting written.
CREATE OR REPLACE FUNCTION graphrag._bm25_delete_postings() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM graphrag.bm25_postings WHERE segment_id IN (SELECT id FROM gone);
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER bm25_segments_delete AFTER DELETE ON graphrag.bm25_segments
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION graphrag._bm25_delete_postings();

-- A vector as it lies in the server's memory, of which sessions read thousands: pgvector's vector_send turns each number into
-- network order, in three times the time. No search_path is pinned: what is built in looks nothing up, and a pin is set anew in every row.
CREATE OR REPLACE FUNCTION graphrag._vector_bytes(vector @extschema:vector@.vector) RETURNS bytea
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'byteasend';
COMMENT ON FUNCTION graphrag._vector_bytes(@extschema:vector@.vector) IS 'Four bytes, then the vector''s numbers as float4, in the byte order of the server''s machine';

-- One space per (corpus, model). Vectors live in tables LIST-partitioned by space: an index build blocks no other corpus,
-- and a new model is filled beside the old. Partitions are made at run time and are no extension members.






-- Makes a space of a corpus with its tables; returns its number. The tables are attached, not made as partitions: that
-- would lock the whole table against everyone.
CREATE OR REPLACE FUNCTION graphrag._add_space(corpus_id int, provider text, model text, dimensions int, state text) RETURNS int
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    space int;
    stem text;
BEGIN
    INSERT INTO graphrag.embedding_spaces (corpus_id, provider, model, dimensions, state)
    VALUES (corpus_id, provider, model, dimensions, state) RETURNING id INTO space;
    FOREACH stem IN ARRAY ARRAY['window_vectors', 'entity_vectors', 'entity_mention_vectors', 'relationship_mention_vectors'] LOOP
        EXECUTE format('CREATE TABLE graphrag.%1$s_%2$s (LIKE graphrag.%1$s)', stem, space);
        EXECUTE format('ALTER TABLE graphrag.%1$s ATTACH PARTITION graphrag.%1$s_%2$s FOR VALUES IN (%2$s)', stem, space);
        EXECUTE format('GRANT SELECT ON graphrag.%1$s_%2$s TO graphrag_reader', stem, space);
        IF stem = 'entity_vectors' THEN
            EXECUTE format('CREATE UNIQUE INDEX %1$s_%2$s_entity_idx ON graphrag.%1$s_%2$s (entity_id)', stem, space);
        ELSE
            EXECUTE format('CREATE INDEX %1$s_%2$s_chunk_idx ON graphrag.%1$s_%2$s (chunk_id)', stem, space);
        END IF;
        IF stem LIKE '%mention%' THEN
            EXECUTE format('CREATE UNIQUE INDEX %1$s_%2$s_mention_idx ON graphrag.%1$s_%2$s (mention_id)', stem, space);
        END IF;
        IF EXISTS (SELECT FROM graphrag.corpora c WHERE c.protection IS NOT NULL) THEN
            PERFORM graphrag._secure(format('graphrag.%s_%s', stem, space)::regclass);
        END IF;
    END LOOP;
    RETURN space;
END
$$;

CREATE OR REPLACE FUNCTION graphrag._drop_space(space int) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    EXECUTE format('DROP TABLE IF EXISTS graphrag.window_vectors_%1$s, graphrag.entity_vectors_%1$s, graphrag.entity_mention_vectors_%1$s, graphrag.relationship_mention_vectors_%1$s', space);
    DELETE FROM graphrag.embedding_spaces s WHERE s.id = space;
END
$$;

-- Vector tables of a corpus that have at least least_rows vectors and no HNSW index: those for which one is to be built.
CREATE OR REPLACE FUNCTION graphrag._unindexed_vectors(corpus_id int, least_rows int, state text DEFAULT 'active')
RETURNS TABLE (stem text, space_id int, dimensions int)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    enough boolean;
BEGIN
    FOR stem, space_id, dimensions IN
        SELECT t.stem, s.id, s.dimensions
          FROM graphrag.embedding_spaces s
         CROSS JOIN (VALUES ('window_vectors'), ('entity_vectors'), ('entity_mention_vectors'), ('relationship_mention_vectors')) t (stem)
         WHERE s.corpus_id = $1
           AND s.state = $3
           AND to_regclass(format('graphrag.%s_%s_hnsw_idx', t.stem, s.id)) IS NULL
    LOOP
        EXECUTE format('SELECT count(*) >= $1 FROM (SELECT FROM graphrag.%s_%s LIMIT $1) v', stem, space_id) INTO enough USING least_rows;
        IF enough THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;

-- Builds the HNSW indexes of a space once its tables are large enough for an index to be faster than a scan.
CREATE OR REPLACE FUNCTION graphrag._index_vectors(corpus_id int, least_rows int, state text DEFAULT 'active') RETURNS text[]
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    part  record;
    built text[] := '{}';
BEGIN
    FOR part IN SELECT u.stem, u.space_id, u.dimensions FROM graphrag._unindexed_vectors(corpus_id, least_rows, state) u LOOP
        EXECUTE format('CREATE INDEX %1$s_%2$s_hnsw_idx ON graphrag.%1$s_%2$s USING hnsw ((embedding::@extschema:vector@.vector(%3$s)) @extschema:vector@.vector_cosine_ops)',
                       part.stem, part.space_id, part.dimensions);
        built := built || format('%s_%s_hnsw_idx', part.stem, part.space_id);
    END LOOP;
    RETURN built;
END
$$;

-- Which transaction last changed what the documents of a corpus were made into: two snapshots that see one revision see the same
-- chunks, mentions, entities, relationships and vectors. Whoever changes them writes this row, in the same (sub)transaction.

COMMENT ON TABLE graphrag.corpus_revisions IS 'What sessions check by what they keep of small corpora in memory';
COMMENT ON COLUMN graphrag.corpus_revisions.revision IS 'Transaction that last changed its chunks, mentions, graph or vectors';

-- Another embedding model for a corpus with data. Only the decision is made here; workers do the work.
CREATE OR REPLACE FUNCTION graphrag.reembed(corpus text, embedding jsonb) RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
call(plpy, "0.2.0", "corpus.spaces:reembed", corpus, embedding)
$$;

-- Entities. Every value but the id is a function of the entity's mentions and of what people said of it (curated).

COMMENT ON COLUMN graphrag.entities.curated IS 'Whether people added it (create_entity, insert_graph): it stays when nothing mentions it';

CREATE INDEX entity_mentions_hidden_idx ON graphrag.entity_mentions (corpus_id, raw_key) WHERE entity_id IS NULL;

COMMENT ON COLUMN graphrag.entity_mentions.entity_id IS 'Entity mentioned, aliases resolved; null: it was deleted (delete_entity)';

-- Counted spellings, types and descriptions: a change costs the size of the change, also for an entity with 100,000 mentions.
-- The first descriptions of a hub, without reading all. By a beginning: a whole one may be too long for an index.


-- Relationships: an undirected pair of entities. Every value but the id is a function of the mentions and of what people said of it (curated).

COMMENT ON COLUMN graphrag.relationships.curated IS 'Whether people added it (create_relationship, insert_graph): it stays when nothing states it';

CREATE INDEX relationship_mentions_hidden_source_idx ON graphrag.relationship_mentions (corpus_id, source_key) WHERE relationship_id IS NULL;
CREATE INDEX relationship_mentions_hidden_target_idx ON graphrag.relationship_mentions (corpus_id, target_key) WHERE relationship_id IS NULL;

COMMENT ON COLUMN graphrag.relationship_mentions.relationship_id IS 'Relationship stated, aliases resolved; null: it or an end of it was deleted, or its ends were merged into one';



-- Claims: what a model says that someone did, announced or is accused of (GraphRAG's covariates). They belong to their chunk and go with it.

COMMENT ON COLUMN graphrag.claims.subject_key IS 'Normalised name of the subject, as the chunk gave it; graph_claims says which entity that is';
COMMENT ON COLUMN graphrag.claims.object_key IS 'Normalised name of the object, likewise';

-- The AGE graph of a corpus, made on first use: never an extension member, so it is dumped with its rows.
-- SECURITY DEFINER: every graph belongs to the extension's owner, whoever runs the worker. AGE is loaded by its type's input function.
CREATE OR REPLACE FUNCTION graphrag._ensure_graph(corpus_id int) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, ag_catalog, pg_temp
SET client_min_messages = warning
AS $function$
#variable_conflict use_variable
DECLARE
    graph name;
    label name;
BEGIN
    SELECT c.graph_name INTO graph FROM graphrag.corpora AS c WHERE c.id = corpus_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no corpus with id %', corpus_id
            USING ERRCODE = 'undefined_object', HINT = 'SELECT id, name FROM graphrag.corpora lists them.';
    END IF;
    IF pg_catalog.to_regclass(pg_catalog.format('%I."PARENT"', graph)) IS NOT NULL THEN
        RETURN;
    END IF;
    -- Two sessions may come here at once: the second waits, then finds the graph. By a query: to_regclass may still remember that it was not there.
    PERFORM graphrag._lock_corpus(corpus_id);
    PERFORM '1'::ag_catalog.agtype;
    PERFORM FROM ag_catalog.ag_graph AS g WHERE g.name = graph;
    IF NOT FOUND THEN
        IF pg_catalog.to_regnamespace(pg_catalog.quote_ident(graph)) IS NOT NULL THEN
            RAISE EXCEPTION 'schema "%" stands where the graph of corpus % belongs', graph, corpus_id
                USING ERRCODE = 'duplicate_schema', HINT = 'Rename or drop that schema; pg_graphrag makes its own.';
        END IF;
        PERFORM ag_catalog.create_graph(graph);
    END IF;

    -- In this order: AGE numbers labels as they are made (110_project.sql). A graph of an earlier version has some of them.
    FOREACH label IN ARRAY '{Entity,Chunk,Document,RELATED,MENTIONED_IN,PART_OF,Community,IN_COMMUNITY,PARENT}'::name[] LOOP
        CONTINUE WHEN EXISTS (SELECT FROM ag_catalog.ag_label AS l JOIN ag_catalog.ag_graph AS g ON g.graphid = l.graph
                               WHERE g.name = graph AND l.name = label);
        IF label IN ('Entity', 'Chunk', 'Document', 'Community') THEN
            PERFORM ag_catalog.create_vlabel(graph, label);
        ELSE
            PERFORM ag_catalog.create_elabel(graph, label);
            EXECUTE pg_catalog.format('CREATE INDEX %I ON %I.%I (start_id)', label || '_start_id_idx', graph, label);
            EXECUTE pg_catalog.format('CREATE INDEX %I ON %I.%I (end_id)', label || '_end_id_idx', graph, label);
        END IF;
        EXECUTE pg_catalog.format('CREATE UNIQUE INDEX %I ON %I.%I (id)', label || '_id_idx', graph, label);
        -- The projection uses row ids as entry ids; what Cypher's CREATE makes begins at 2^47, half of AGE's range, and never meets them.
        PERFORM pg_catalog.setval(pg_catalog.format('%I.%I', graph, label || '_id_seq')::pg_catalog.regclass, 140737488355328, false);
    END LOOP;
    EXECUTE pg_catalog.format('CREATE INDEX IF NOT EXISTS "Entity_properties_idx" ON %I."Entity" USING gin (properties)', graph);
END
$function$;

-- Drop the graph of a corpus; nothing happens when there is none. Copes with a graph a restore has left half-registered.
CREATE OR REPLACE FUNCTION graphrag._drop_graph(corpus_id int) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, ag_catalog, pg_temp
SET client_min_messages = warning
AS $function$
#variable_conflict use_variable
DECLARE
    graph CONSTANT name := 'graphrag_' || corpus_id;
BEGIN
    PERFORM '1'::ag_catalog.agtype;
    IF EXISTS (SELECT FROM ag_catalog.ag_graph AS g WHERE g.name = graph) THEN
        -- First: AGE 1.5 would cache each label as it drops it, and its next cache flush would fail ("label (relation) cache corrupted").
        DELETE FROM ag_catalog.ag_label AS l USING ag_catalog.ag_graph AS g WHERE g.name = graph AND l.graph = g.graphid;
        PERFORM ag_catalog.drop_graph(graph, true);
    END IF;
END
$function$;

-- Make the AGE projection equal to the tables for these ids of one corpus, whatever happened to them (inserted, changed, gone). The write step calls it in
-- its own transaction, under the corpus' lock. A document stands for its chunks and their mentions; rows that did not change are not touched.
-- SECURITY DEFINER: the graph is the owner's (100_ensure_graph.sql), and must be whole whoever runs the worker.
CREATE OR REPLACE FUNCTION graphrag._project(corpus_id int, document_ids bigint[], entity_ids bigint[], relationship_ids bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, ag_catalog, pg_temp
-- Plans outlive their tables' sizes (empty at first): always by index, from the ids given.
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $function$
#variable_conflict use_column
DECLARE
    -- A graph id is label << 48 | row id. AGE numbers labels in the order in which _ensure_graph makes them.
    entity       CONSTANT int := 3;
    chunk        CONSTANT int := 4;
    document     CONSTANT int := 5;
    related      CONSTANT int := 6;
    mentioned_in CONSTANT int := 7;
    part_of      CONSTANT int := 8;
    chunk_ids    bigint[];
BEGIN
    PERFORM graphrag._ensure_graph(corpus_id);
    -- The label tables stand first in the path, so that static statements, planned once a session, serve every graph.
    PERFORM pg_catalog.set_config('search_path', pg_catalog.format('graphrag_%s, pg_catalog, ag_catalog, pg_temp', corpus_id), true);

    MERGE INTO "Entity" AS v
    USING (SELECT ag_catalog._graphid(entity, i.id) AS id, e.id AS entity_id,
                  ag_catalog.agtype_build_map('entity_id', e.id, 'key', e.key, 'name', e.name, 'type', e.type,
                                              'description', e.description, 'degree', e.degree) AS properties
             FROM (SELECT DISTINCT pg_catalog.unnest(entity_ids) AS id) AS i
             LEFT JOIN graphrag.entities AS e ON e.id = i.id) AS s
       ON v.id = s.id
     WHEN MATCHED AND s.entity_id IS NULL THEN DELETE
     WHEN MATCHED AND pg_catalog.record_image_ne(ROW (v.properties), ROW (s.properties)) THEN UPDATE SET properties = s.properties
     WHEN NOT MATCHED AND s.entity_id IS NOT NULL THEN INSERT (id, properties) VALUES (s.id, s.properties);

    -- Who is in which community is projected by refresh_communities(); who is gone is in none.
    DELETE FROM "IN_COMMUNITY" AS v
     USING (SELECT DISTINCT pg_catalog.unnest(entity_ids) AS id) AS i
     WHERE v.start_id = ag_catalog._graphid(entity, i.id)
       AND NOT EXISTS (SELECT FROM graphrag.entities AS e WHERE e.id = i.id);

    -- Both directions, so that a directed pattern sees every neighbour: 2 id from low to high, 2 id + 1 back.
    MERGE INTO "RELATED" AS v
    USING (SELECT ag_catalog._graphid(related, 2 * i.id + d.back) AS id, r.id AS relationship_id,
                  ag_catalog._graphid(entity, CASE d.back WHEN 0 THEN r.low_id ELSE r.high_id END) AS start_id,
                  ag_catalog._graphid(entity, CASE d.back WHEN 0 THEN r.high_id ELSE r.low_id END) AS end_id,
                  ag_catalog.agtype_build_map('relationship_id', r.id, 'weight', r.weight, 'keywords', r.keywords,
                                              'description', r.description) AS properties
             FROM (SELECT DISTINCT pg_catalog.unnest(relationship_ids) AS id) AS i
             LEFT JOIN graphrag.relationships AS r ON r.id = i.id
            CROSS JOIN (VALUES (0), (1)) AS d (back)) AS s
       ON v.id = s.id
     WHEN MATCHED AND s.relationship_id IS NULL THEN DELETE
     WHEN MATCHED AND pg_catalog.record_image_ne(ROW (v.start_id, v.end_id, v.properties), ROW (s.start_id, s.end_id, s.properties))
          THEN UPDATE SET start_id = s.start_id, end_id = s.end_id, properties = s.properties
     WHEN NOT MATCHED AND s.relationship_id IS NOT NULL
          THEN INSERT (id, start_id, end_id, properties) VALUES (s.id, s.start_id, s.end_id, s.properties);

    MERGE INTO "Document" AS v
    USING (SELECT ag_catalog._graphid(document, i.id) AS id, d.id AS document_id,
                  ag_catalog.agtype_build_map_nonull('document_id', d.id, 'source_key', d.source_key, 'title', d.title) AS properties
             FROM (SELECT DISTINCT pg_catalog.unnest(document_ids) AS id) AS i
             LEFT JOIN graphrag.documents AS d ON d.id = i.id) AS s
       ON v.id = s.id
     WHEN MATCHED AND s.document_id IS NULL THEN DELETE
     WHEN MATCHED AND pg_catalog.record_image_ne(ROW (v.properties), ROW (s.properties)) THEN UPDATE SET properties = s.properties
     WHEN NOT MATCHED AND s.document_id IS NOT NULL THEN INSERT (id, properties) VALUES (s.id, s.properties);

    -- Chunks of these documents as they are, and as they were projected: a PART_OF edge has the entry id of its chunk.
    SELECT pg_catalog.array_agg(c.id) INTO chunk_ids
      FROM (SELECT c.id
              FROM graphrag.chunks AS c
             WHERE c.document_id = ANY (document_ids)
             UNION
            SELECT p.id::ag_catalog.agtype::bigint & 281474976710655
              FROM pg_catalog.unnest(document_ids) AS i (id)
              JOIN "PART_OF" AS p ON p.end_id = ag_catalog._graphid(document, i.id)) AS c;

    MERGE INTO "Chunk" AS v
    USING (SELECT ag_catalog._graphid(chunk, i.id) AS id, c.id AS chunk_id,
                  ag_catalog.agtype_build_map('chunk_id', c.id, 'document_id', c.document_id, 'ordinal', c.ordinal) AS properties
             FROM pg_catalog.unnest(chunk_ids) AS i (id)
             LEFT JOIN graphrag.chunks AS c ON c.id = i.id) AS s
       ON v.id = s.id
     WHEN MATCHED AND s.chunk_id IS NULL THEN DELETE
     WHEN MATCHED AND pg_catalog.record_image_ne(ROW (v.properties), ROW (s.properties)) THEN UPDATE SET properties = s.properties
     WHEN NOT MATCHED AND s.chunk_id IS NOT NULL THEN INSERT (id, properties) VALUES (s.id, s.properties);

    MERGE INTO "PART_OF" AS v
    USING (SELECT ag_catalog._graphid(part_of, i.id) AS id, c.id AS chunk_id,
                  ag_catalog._graphid(chunk, c.id) AS start_id, ag_catalog._graphid(document, c.document_id) AS end_id
             FROM pg_catalog.unnest(chunk_ids) AS i (id)
             LEFT JOIN graphrag.chunks AS c ON c.id = i.id) AS s
       ON v.id = s.id
     WHEN MATCHED AND s.chunk_id IS NULL THEN DELETE
     WHEN MATCHED AND v.end_id <> s.end_id THEN UPDATE SET end_id = s.end_id
     WHEN NOT MATCHED AND s.chunk_id IS NOT NULL THEN INSERT (id, start_id, end_id) VALUES (s.id, s.start_id, s.end_id);

    DELETE FROM "MENTIONED_IN" AS v
     USING pg_catalog.unnest(chunk_ids) AS i (id)
     WHERE v.end_id = ag_catalog._graphid(chunk, i.id)
       AND NOT EXISTS (SELECT FROM graphrag.entity_mentions AS m
                        WHERE m.id = v.id::ag_catalog.agtype::bigint & 281474976710655 AND m.chunk_id = i.id
                          AND m.entity_id IS NOT NULL);

    MERGE INTO "MENTIONED_IN" AS v
    USING (SELECT ag_catalog._graphid(mentioned_in, m.id) AS id,
                  ag_catalog._graphid(entity, m.entity_id) AS start_id, ag_catalog._graphid(chunk, m.chunk_id) AS end_id,
                  ag_catalog.agtype_build_map('mention_id', m.id, 'tf', m.tf) AS properties
             FROM pg_catalog.unnest(chunk_ids) AS i (id)
             JOIN graphrag.entity_mentions AS m ON m.chunk_id = i.id AND m.entity_id IS NOT NULL) AS s
       ON v.id = s.id
     WHEN MATCHED AND pg_catalog.record_image_ne(ROW (v.start_id, v.end_id, v.properties), ROW (s.start_id, s.end_id, s.properties))
          THEN UPDATE SET start_id = s.start_id, end_id = s.end_id, properties = s.properties
     WHEN NOT MATCHED THEN INSERT (id, start_id, end_id, properties) VALUES (s.id, s.start_id, s.end_id, s.properties);
END
$function$;

-- The same for mentions that were there before and belong to another entity now, or to none. SECURITY DEFINER: likewise.
CREATE OR REPLACE FUNCTION graphrag._project_mentions(corpus_id int, mention_ids bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, ag_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $function$
#variable_conflict use_column
DECLARE
    -- As in _project.
    entity       CONSTANT int := 3;
    chunk        CONSTANT int := 4;
    mentioned_in CONSTANT int := 7;
BEGIN
    PERFORM graphrag._ensure_graph(corpus_id);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.format('graphrag_%s, pg_catalog, ag_catalog, pg_temp', corpus_id), true);
    MERGE INTO "MENTIONED_IN" AS v
    USING (SELECT ag_catalog._graphid(mentioned_in, i.id) AS id, m.id AS mention_id,
                  ag_catalog._graphid(entity, m.entity_id) AS start_id, ag_catalog._graphid(chunk, m.chunk_id) AS end_id,
                  ag_catalog.agtype_build_map('mention_id', m.id, 'tf', m.tf) AS properties
             FROM (SELECT DISTINCT pg_catalog.unnest(mention_ids) AS id) AS i
             LEFT JOIN graphrag.entity_mentions AS m ON m.id = i.id AND m.entity_id IS NOT NULL) AS s
       ON v.id = s.id
     WHEN MATCHED AND s.mention_id IS NULL THEN DELETE
     WHEN MATCHED AND v.start_id <> s.start_id THEN UPDATE SET start_id = s.start_id
     WHEN NOT MATCHED AND s.mention_id IS NOT NULL THEN INSERT (id, start_id, end_id, properties) VALUES (s.id, s.start_id, s.end_id, s.properties);
END
$function$;
REVOKE ALL ON FUNCTION graphrag._project_mentions(int, bigint[]) FROM PUBLIC;

-- Normalise a name as the merge does: the key under which an entity is found.
CREATE OR REPLACE FUNCTION graphrag._key(name text) RETURNS text
LANGUAGE plpython3u IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "graph.keys:key", name)
$$;

-- Breadth first over the relationships, one set-based step per hop; each entity once, at its least distance.
-- The first hop has a plan that is kept; later ones are planned for what they hold, one id or a hundred thousand.
-- Who sees only some documents walks what these state: graph_nodes and graph_edges say what that is.
CREATE OR REPLACE FUNCTION graphrag.neighbors(entity text, corpus text DEFAULT 'default', hops int DEFAULT 1)
RETURNS TABLE (hop int, entity_id bigint, name text, type text, description text, degree int,
               relationship_id bigint, relationship text, keywords text[], weight numeric, path text[])
LANGUAGE plpgsql STABLE ROWS 100
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    secured constant boolean := row_security_active('graphrag.documents');
    this_corpus   int;
    start_id      bigint;
    start_name    text;
    start_key     text := graphrag._key(entity);
    visited       bigint[];
    -- What the last hop found, strongest first: entities, the relationships that led to them, and their paths as array literals.
    frontier      bigint[];
    relationships bigint[];
    paths         text[];
BEGIN
    IF hops IS NULL OR hops NOT BETWEEN 1 AND 10 THEN
        RAISE EXCEPTION 'hops cannot be %', coalesce(hops::text, 'null')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give 1 to 10.';
    END IF;
    IF corpus IS NULL THEN
        RAISE EXCEPTION 'corpus cannot be null'
            USING ERRCODE = 'null_value_not_allowed', HINT = 'Leave it out for the corpus “default”, or give a name.';
    END IF;
    SELECT c.id INTO this_corpus FROM graphrag.corpora AS c WHERE c.name = corpus;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'corpus "%" does not exist', corpus
            USING ERRCODE = 'undefined_object', HINT = 'SELECT name FROM graphrag.corpora lists the corpora.';
    END IF;
    SELECT e.id, e.name INTO start_id, start_name
      FROM graphrag.entities AS e
     WHERE e.corpus_id = this_corpus
       AND e.key = coalesce((SELECT a.entity_key FROM graphrag.aliases AS a WHERE a.corpus_id = this_corpus AND a.key = start_key), start_key);
    IF secured THEN
        SELECT n.name INTO start_name FROM graphrag.graph_nodes AS n WHERE n.entity_id = start_id;
    END IF;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    IF NOT secured THEN
        RETURN QUERY
        SELECT 1, e.id, e.name, e.type, e.description, e.degree, r.id, r.description, r.keywords, r.weight, ARRAY[start_name, e.name]
          FROM (SELECT l.high_id AS other_id, l.* FROM graphrag.relationships AS l WHERE l.low_id = start_id
                 UNION ALL
                SELECT h.low_id, h.* FROM graphrag.relationships AS h WHERE h.high_id = start_id) AS r
          JOIN graphrag.entities AS e ON e.id = r.other_id
         ORDER BY r.weight DESC, e.key;
        IF hops = 1 THEN
            RETURN;
        END IF;
    END IF;

    visited := ARRAY[start_id];
    frontier := visited;
    paths := ARRAY[ARRAY[start_name]::text];
    FOR step IN 1..hops LOOP
        -- Where several ways of this length lead to an entity, the strongest last relationship is shown, then the strongest before.
        EXECUTE format($sql$
        SELECT array_agg(n.id ORDER BY n.weight DESC, e.key), array_agg(n.relationship_id ORDER BY n.weight DESC, e.key),
               array_agg((n.path::text[] || %1$s)::text ORDER BY n.weight DESC, e.key)
          FROM (SELECT DISTINCT ON (r.id) r.id, r.relationship_id, r.weight, f.path
                  FROM ROWS FROM (unnest($1), unnest($2)) WITH ORDINALITY AS f (id, path, place)
                 CROSS JOIN LATERAL (
                       SELECT l.high_id AS id, l.id AS relationship_id, l.weight FROM graphrag.relationships AS l WHERE l.low_id = f.id
                        UNION ALL
                       SELECT h.low_id, h.id, h.weight FROM graphrag.relationships AS h WHERE h.high_id = f.id) AS %2$s
                 WHERE NOT EXISTS (SELECT FROM unnest($3) AS v (id) WHERE v.id = r.id)
                 ORDER BY r.id, r.weight DESC, f.place) AS n
          JOIN graphrag.entities AS e ON e.id = n.id %3$s
        $sql$, VARIADIC CASE WHEN secured THEN ARRAY['v.name', $sql$x
                 CROSS JOIN LATERAL (
                       SELECT x.id, x.relationship_id, sum(m.weight) AS weight
                         FROM graphrag.relationship_mentions AS m
                         JOIN graphrag.documents AS d ON d.id = m.document_id
                        WHERE m.relationship_id = x.relationship_id
                       HAVING count(*) > 0) AS r$sql$, 'JOIN graphrag.graph_nodes AS v ON v.entity_id = e.id']
                             ELSE ARRAY['e.name', 'r', ''] END)
           INTO frontier, relationships, paths
          USING frontier, paths, visited;
        EXIT WHEN frontier IS NULL;
        visited := visited || frontier;
        CONTINUE WHEN step = 1 AND NOT secured;
        RETURN QUERY EXECUTE format($sql$
        SELECT $1, e.%1$s, e.name, e.type, e.description, e.degree, r.%2$s, r.description, r.%3$s, r.weight::numeric, f.path::text[]
          FROM ROWS FROM (unnest($2), unnest($3), unnest($4)) WITH ORDINALITY AS f (id, relationship_id, path, place)
          JOIN graphrag.%4$s AS e ON e.%1$s = f.id
          JOIN graphrag.%5$s AS r ON r.%2$s = f.relationship_id
         ORDER BY f.place
        $sql$, VARIADIC CASE WHEN secured THEN ARRAY['entity_id', 'relationship_id', 'keyword_list', 'graph_nodes', 'graph_edges']
                             ELSE ARRAY['id', 'id', 'keywords', 'entities', 'relationships'] END)
        USING step, frontier, relationships, paths;
    END LOOP;
END
$function$;

-- Cypher that only reads, on the AGE projection. AGE's operators are found through the search_path.
CREATE OR REPLACE FUNCTION graphrag.cypher(corpus text, query text, params jsonb DEFAULT '{}') RETURNS SETOF jsonb
LANGUAGE plpython3u STABLE ROWS 100
SET search_path = pg_catalog, ag_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "graph.cypher:cypher", corpus, query, params)
$$;

-- What people changed of the graph, append-only: the graph is a function of the documents and of the curations not undone.
CREATE TABLE graphrag.curations (
    id        bigint      NOT NULL GENERATED BY DEFAULT AS IDENTITY (SEQUENCE NAME graphrag.curations_id_seq),
    corpus_id int         NOT NULL,
    kind      text        NOT NULL,
    arguments jsonb       NOT NULL,
    made_by   text        NOT NULL DEFAULT session_user,
    made_at   timestamptz NOT NULL DEFAULT now(),
    undone_by text,
    undone_at timestamptz,
    CONSTRAINT curations_pkey PRIMARY KEY (id),
    CONSTRAINT curations_corpus_fkey FOREIGN KEY (corpus_id) REFERENCES graphrag.corpora (id) ON DELETE CASCADE,
    CONSTRAINT curations_kind_check CHECK (kind IN ('create_entity', 'edit_entity', 'rename_entity', 'merge_entities', 'delete_entity',
                                                    'create_relationship', 'edit_relationship', 'delete_relationship', 'insert_graph')),
    CONSTRAINT curations_undone_check CHECK ((undone_by IS NULL) = (undone_at IS NULL))
);
CREATE INDEX curations_corpus_idx ON graphrag.curations (corpus_id, id);
SELECT pg_catalog.pg_extension_config_dump('graphrag.curations', '');
SELECT pg_catalog.pg_extension_config_dump('graphrag.curations_id_seq', '');

COMMENT ON TABLE graphrag.curations IS 'What people changed of the knowledge graph, who and when. Rows are never removed; undo_curation() marks them.';
COMMENT ON COLUMN graphrag.curations.id IS 'Number of the curation; later ones win over earlier ones';
COMMENT ON COLUMN graphrag.curations.corpus_id IS 'Corpus';
COMMENT ON COLUMN graphrag.curations.kind IS 'Function that made it';
COMMENT ON COLUMN graphrag.curations.arguments IS 'What was asked for, by the keys of the entities';
COMMENT ON COLUMN graphrag.curations.made_by IS 'Role of the session that made it';
COMMENT ON COLUMN graphrag.curations.made_at IS 'Time it was made';
COMMENT ON COLUMN graphrag.curations.undone_by IS 'Role of the session that undid it; null: it is in force';
COMMENT ON COLUMN graphrag.curations.undone_at IS 'Time it was undone';

-- Derived from the curations in force, for the merge: which entity a key leads to. Keys that lead to themselves have no row.
CREATE TABLE graphrag.aliases (
    corpus_id  int     NOT NULL,
    key        text    NOT NULL COLLATE "C",
    entity_key text    NOT NULL COLLATE "C",
    renamed    boolean NOT NULL,
    CONSTRAINT aliases_pkey PRIMARY KEY (corpus_id, key),
    CONSTRAINT aliases_corpus_fkey FOREIGN KEY (corpus_id) REFERENCES graphrag.corpora (id) ON DELETE CASCADE,
    CONSTRAINT aliases_other_check CHECK (key <> entity_key)
);
CREATE INDEX aliases_entity_key_idx ON graphrag.aliases (corpus_id, entity_key);
SELECT pg_catalog.pg_extension_config_dump('graphrag.aliases', '');

COMMENT ON TABLE graphrag.aliases IS 'Names that stand for another entity, by merge_entities() and rename_entity(): mentions of the key belong to entity_key';
COMMENT ON COLUMN graphrag.aliases.corpus_id IS 'Corpus';
COMMENT ON COLUMN graphrag.aliases.key IS 'Normalised name';
COMMENT ON COLUMN graphrag.aliases.entity_key IS 'Key of the entity it stands for';
COMMENT ON COLUMN graphrag.aliases.renamed IS 'True: an earlier name of that entity; false: another entity, merged into it';

-- Derived likewise: what is said of one entity or pair. Mentions and these together make the merged values.
CREATE TABLE graphrag.curated (
    curation_id      bigint  NOT NULL,
    ordinal          int     NOT NULL,
    corpus_id        int     NOT NULL,
    effect           text    NOT NULL,
    key              text    NOT NULL COLLATE "C",
    other_key        text    COLLATE "C",
    entity_key       text    NOT NULL COLLATE "C",
    other_entity_key text    COLLATE "C",
    forward          boolean NOT NULL DEFAULT true,
    own              boolean NOT NULL DEFAULT true,
    value            jsonb   NOT NULL DEFAULT '{}',
    tsv              tsvector,
    CONSTRAINT curated_pkey PRIMARY KEY (curation_id, ordinal),
    CONSTRAINT curated_curation_fkey FOREIGN KEY (curation_id) REFERENCES graphrag.curations (id) ON DELETE CASCADE,
    CONSTRAINT curated_effect_check CHECK (effect IN ('fragment', 'edit', 'delete')),
    CONSTRAINT curated_pair_check CHECK ((other_key IS NULL) = (other_entity_key IS NULL)),
    CONSTRAINT curated_order_check CHECK (entity_key <= other_entity_key)
);
CREATE INDEX curated_key_idx ON graphrag.curated (corpus_id, key);
CREATE INDEX curated_other_key_idx ON graphrag.curated (corpus_id, other_key) WHERE other_key IS NOT NULL;
CREATE INDEX curated_entity_key_idx ON graphrag.curated (corpus_id, entity_key, other_entity_key);
CREATE INDEX curated_other_entity_key_idx ON graphrag.curated (corpus_id, other_entity_key) WHERE other_entity_key IS NOT NULL;
CREATE INDEX curated_tsv_idx ON graphrag.curated USING gin (tsv);
SELECT pg_catalog.pg_extension_config_dump('graphrag.curated', '');

COMMENT ON TABLE graphrag.curated IS 'What the curations in force say of single entities and relationships; derived from curations';
COMMENT ON COLUMN graphrag.curated.curation_id IS 'Curation';
COMMENT ON COLUMN graphrag.curated.ordinal IS 'Place in the curation';
COMMENT ON COLUMN graphrag.curated.corpus_id IS 'Corpus';
COMMENT ON COLUMN graphrag.curated.effect IS 'fragment (counts as one mention), edit (wins over what is merged), delete (hides)';
COMMENT ON COLUMN graphrag.curated.key IS 'Entity, or source of the relationship, as it was called then';
COMMENT ON COLUMN graphrag.curated.other_key IS 'Target of the relationship; null: it is about an entity';
COMMENT ON COLUMN graphrag.curated.entity_key IS 'Where aliases lead from there; of a relationship the smaller of the two';
COMMENT ON COLUMN graphrag.curated.other_entity_key IS 'The larger of the two';
COMMENT ON COLUMN graphrag.curated.forward IS 'Whether the source is entity_key';
COMMENT ON COLUMN graphrag.curated.own IS 'Whether the keys are still (earlier) names of the entities: edits and deletions of what was merged into another rest';
COMMENT ON COLUMN graphrag.curated.value IS 'name, type, description; or keywords, description, weight, and source and target as written';
COMMENT ON COLUMN graphrag.curated.tsv IS 'Lexemes of these, by which search finds what no document says; null: there are none';

-- What edits in force say of an entity, or of the relationship of two: of several the last one, each value by itself. Null: nothing.
-- For those who see not all documents, whose values are made anew; the merge has applied them to the others.
CREATE OR REPLACE FUNCTION graphrag._edits(corpus_id int, key text, other_key text DEFAULT NULL) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT pg_catalog.jsonb_object_agg(v.key, v.value ORDER BY c.curation_id, c.ordinal)
      FROM graphrag.curated AS c
     CROSS JOIN LATERAL pg_catalog.jsonb_each(c.value) AS v
     WHERE c.corpus_id = _edits.corpus_id
       AND c.entity_key = least(_edits.key COLLATE "C", _edits.other_key COLLATE "C")
       AND c.other_entity_key IS NOT DISTINCT FROM CASE WHEN _edits.other_key IS NOT NULL
                                                        THEN greatest(_edits.key COLLATE "C", _edits.other_key COLLATE "C") END
       AND c.effect = 'edit'
       AND c.own
    HAVING pg_catalog.count(*) > 0;
END;

-- Views for BI tools: one row per thing, plain column types, names instead of numbers. They show what the caller may see:
-- under row-level security on documents, what was merged from all of them is made anew from those that are visible, and from
-- what people say: that belongs to no document, and is shown with every entity and relationship that is visible.
CREATE OR REPLACE VIEW graphrag.graph_nodes WITH (security_invoker = true) AS
SELECT c.name AS corpus,
       e.id   AS entity_id,
       e.key::text COLLATE "default" AS key,
       e.name,
       e.type,
       e.description,
       e.degree,
       e.mention_count
  FROM graphrag.entities e
  JOIN graphrag.corpora c ON c.id = e.corpus_id
 WHERE NOT pg_catalog.row_security_active('graphrag.documents')
 UNION ALL
SELECT c.name, e.id, e.key::text COLLATE "default", coalesce(p.value ->> 'name', v.name), coalesce(p.value ->> 'type', v.type),
       coalesce(p.value ->> 'description', v.description), g.degree, n.mention_count
  FROM graphrag.entities e
 CROSS JOIN LATERAL (SELECT graphrag._edits(e.corpus_id, e.key) AS value) p
  JOIN graphrag.corpora c ON c.id = e.corpus_id
 CROSS JOIN LATERAL (
       SELECT m.name, m.type,
              coalesce(m.description, pg_catalog.substr(k.content, m.start_offset - k.start_offset + 1, m.end_offset - m.start_offset)) AS description
         FROM graphrag.entity_mentions m
         JOIN graphrag.documents d ON d.id = m.document_id
         JOIN graphrag.chunks k ON k.id = m.chunk_id
        WHERE m.entity_id = e.id
        ORDER BY m.evidence_rank, m.description COLLATE "C", m.name COLLATE "C"
        LIMIT 1) v
 CROSS JOIN LATERAL (
       SELECT pg_catalog.count(*)::int AS mention_count
         FROM graphrag.entity_mentions m
         JOIN graphrag.documents d ON d.id = m.document_id
        WHERE m.entity_id = e.id) n
 CROSS JOIN LATERAL (
       SELECT pg_catalog.count(DISTINCT r.id)::int AS degree
         FROM (SELECT l.id FROM graphrag.relationships l WHERE l.low_id = e.id
               UNION ALL
               SELECT h.id FROM graphrag.relationships h WHERE h.high_id = e.id) r
         JOIN graphrag.relationship_mentions m ON m.relationship_id = r.id
         JOIN graphrag.documents d ON d.id = m.document_id) g
 WHERE pg_catalog.row_security_active('graphrag.documents');

COMMENT ON COLUMN graphrag.graph_nodes.description IS 'What the documents, or people (edit_entity), say of the entity';

-- PMI depends on the whole corpus, so it is computed here. Probabilities are shares of the corpus' chunks, for the pair and for each entity alike.
-- The LEFT JOIN for N costs nothing where pmi is not asked for.
CREATE OR REPLACE VIEW graphrag.graph_edges WITH (security_invoker = true) AS
SELECT c.name AS corpus,
       r.id   AS relationship_id,
       r.source_id,
       s.name AS source,
       s.type AS source_type,
       r.target_id,
       t.name AS target,
       t.type AS target_type,
       pg_catalog.array_to_string(r.keywords, ', ') AS keywords,
       r.keywords AS keyword_list,
       r.description,
       r.weight::double precision AS weight,
       r.mention_count,
       CASE WHEN r.mention_count > 0 AND s.mention_count > 0 AND t.mention_count > 0 AND n.chunks > 0 THEN
            r.mention_count::double precision / n.chunks
            * pg_catalog.ln(r.mention_count::double precision * n.chunks / s.mention_count / t.mention_count) / pg_catalog.ln(2::double precision)
       END AS pmi
  FROM (SELECT r.id, r.corpus_id, r.source_id, r.target_id, r.keywords, r.description, r.weight, r.mention_count
          FROM graphrag.relationships r
         WHERE NOT pg_catalog.row_security_active('graphrag.documents')
         UNION ALL
        SELECT r.id, r.corpus_id, r.source_id, r.target_id,
               CASE WHEN p.value ->> 'keywords' IS NULL THEN w.keywords
                    ELSE ARRAY(SELECT pg_catalog.jsonb_array_elements_text(p.value -> 'keywords')) END,
               coalesce(p.value ->> 'description', v.description),
               coalesce((p.value ->> 'weight')::numeric, a.weight), a.mention_count
          FROM graphrag.relationships r
          JOIN graphrag.entities l ON l.id = r.low_id
          JOIN graphrag.entities h ON h.id = r.high_id
         CROSS JOIN LATERAL (SELECT graphrag._edits(r.corpus_id, l.key, h.key) AS value) p
         CROSS JOIN LATERAL (
               SELECT coalesce(m.description, pg_catalog.substr(k.content, m.start_offset - k.start_offset + 1, m.end_offset - m.start_offset)) AS description
                 FROM graphrag.relationship_mentions m
                 JOIN graphrag.documents d ON d.id = m.document_id
                 JOIN graphrag.chunks k ON k.id = m.chunk_id
                WHERE m.relationship_id = r.id
                ORDER BY m.evidence_rank, m.description COLLATE "C"
                LIMIT 1) v
         CROSS JOIN LATERAL (
               SELECT pg_catalog.sum(m.weight)
                      + (SELECT coalesce(pg_catalog.sum((x.value ->> 'weight')::numeric), 0)
                           FROM graphrag.curated x
                          WHERE x.corpus_id = r.corpus_id AND x.effect = 'fragment'
                            AND x.entity_key = least(l.key, h.key) AND x.other_entity_key = greatest(l.key, h.key)) AS weight,
                      pg_catalog.count(DISTINCT m.chunk_id)::int AS mention_count
                 FROM graphrag.relationship_mentions m
                 JOIN graphrag.documents d ON d.id = m.document_id
                WHERE m.relationship_id = r.id
               HAVING pg_catalog.count(*) > 0) a
         CROSS JOIN LATERAL (
               SELECT coalesce(pg_catalog.array_agg(DISTINCT u.keyword COLLATE "C"), '{}') COLLATE "default" AS keywords
                 FROM (SELECT pg_catalog.unnest(m.keywords)
                         FROM graphrag.relationship_mentions m
                         JOIN graphrag.documents d ON d.id = m.document_id
                        WHERE m.relationship_id = r.id
                       UNION ALL
                       SELECT pg_catalog.jsonb_array_elements_text(x.value -> 'keywords')
                         FROM graphrag.curated x
                        WHERE x.corpus_id = r.corpus_id AND x.effect = 'fragment'
                          AND x.entity_key = least(l.key, h.key) AND x.other_entity_key = greatest(l.key, h.key)) AS u (keyword)) w
         WHERE pg_catalog.row_security_active('graphrag.documents')) r
  JOIN graphrag.corpora c ON c.id = r.corpus_id
  JOIN graphrag.graph_nodes s ON s.entity_id = r.source_id
  JOIN graphrag.graph_nodes t ON t.entity_id = r.target_id
  LEFT JOIN (SELECT x.corpus_id, pg_catalog.count(*) AS chunks
               FROM graphrag.chunks x JOIN graphrag.documents d ON d.id = x.document_id
              GROUP BY x.corpus_id) n ON n.corpus_id = r.corpus_id;

COMMENT ON COLUMN graphrag.graph_edges.description IS 'What the documents, or people (edit_relationship), say of the relationship';

-- Claims with the entities they are about: aliases lead there, whenever people merged or renamed.
CREATE OR REPLACE VIEW graphrag.graph_claims WITH (security_invoker = true) AS
SELECT d.corpus,
       x.id AS claim_id,
       x.document_id,
       x.chunk_id,
       s.id AS subject_id,
       x.subject,
       o.id AS object_id,
       x.object,
       x.type,
       x.status,
       x.start_date,
       x.end_date,
       x.description,
       x.source_text
  FROM graphrag.claims x
  JOIN graphrag.documents d ON d.id = x.document_id
  LEFT JOIN graphrag.aliases a ON a.corpus_id = x.corpus_id AND a.key = x.subject_key
  LEFT JOIN graphrag.aliases b ON b.corpus_id = x.corpus_id AND b.key = x.object_key
  LEFT JOIN graphrag.entities s ON s.corpus_id = x.corpus_id AND s.key = coalesce(a.entity_key, x.subject_key)
  LEFT JOIN graphrag.entities o ON o.corpus_id = x.corpus_id AND o.key = coalesce(b.entity_key, x.object_key);

COMMENT ON VIEW graphrag.graph_claims IS 'Claims that a model found, where the corpus option claims is true, and the entities they are about';
COMMENT ON COLUMN graphrag.graph_claims.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.graph_claims.claim_id IS 'Number of the claim';
COMMENT ON COLUMN graphrag.graph_claims.document_id IS 'Document that makes the claim';
COMMENT ON COLUMN graphrag.graph_claims.chunk_id IS 'Chunk that makes it';
COMMENT ON COLUMN graphrag.graph_claims.subject_id IS 'Entity the claim is about, aliases resolved; null: there is no such entity, or somebody deleted it';
COMMENT ON COLUMN graphrag.graph_claims.subject IS 'Its name, as the chunk gave it';
COMMENT ON COLUMN graphrag.graph_claims.object_id IS 'Entity that is concerned besides, likewise';
COMMENT ON COLUMN graphrag.graph_claims.object IS 'Its name, as the chunk gave it; null: nobody';
COMMENT ON COLUMN graphrag.graph_claims.type IS 'Kind of claim';
COMMENT ON COLUMN graphrag.graph_claims.status IS 'TRUE, FALSE or SUSPECTED, according to the chunk';
COMMENT ON COLUMN graphrag.graph_claims.start_date IS 'From when it holds, as the model wrote it; null: not said';
COMMENT ON COLUMN graphrag.graph_claims.end_date IS 'Until when it holds, likewise';
COMMENT ON COLUMN graphrag.graph_claims.description IS 'The claim';
COMMENT ON COLUMN graphrag.graph_claims.source_text IS 'Words of the chunk that make it';

-- Each count is a subquery of its own: a tool that does not select it does not pay for it.
CREATE OR REPLACE VIEW graphrag.document_coverage WITH (security_invoker = true) AS
SELECT d.corpus,
       d.id AS document_id,
       d.source_key,
       d.title,
       d.status,
       d.error,
       pg_catalog.char_length(d.content) AS characters,
       (SELECT pg_catalog.count(*) FROM graphrag.chunks c WHERE c.document_id = d.id) AS chunks,
       (SELECT pg_catalog.count(*)
          FROM graphrag.chunks c JOIN graphrag.chunk_windows w ON w.chunk_id = c.id
         WHERE c.document_id = d.id) AS windows,
       (SELECT coalesce(pg_catalog.sum(c.token_count), 0) FROM graphrag.chunks c WHERE c.document_id = d.id) AS tokens,
       (SELECT pg_catalog.count(DISTINCT m.entity_id)
          FROM graphrag.chunks c JOIN graphrag.entity_mentions m ON m.chunk_id = c.id
         WHERE c.document_id = d.id) AS entities,
       (SELECT pg_catalog.count(DISTINCT m.relationship_id)
          FROM graphrag.chunks c JOIN graphrag.relationship_mentions m ON m.chunk_id = c.id
         WHERE c.document_id = d.id) AS relationships,
       d.created_at,
       d.updated_at,
       d.indexed_at
  FROM graphrag.documents d;


-- Pictures of a neighbourhood, as text that other programs draw. They show what neighbors() and the views show the caller.
CREATE OR REPLACE FUNCTION graphrag.to_dot(entity text, corpus text DEFAULT 'default', hops int DEFAULT 1, max_nodes int DEFAULT 50) RETURNS text
LANGUAGE plpython3u STABLE
SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "graph.pictures:to_dot", entity, corpus, hops, max_nodes)
$$;
COMMENT ON FUNCTION graphrag.to_dot(text, text, int, int) IS 'Graphviz (DOT) text of an entity''s neighbourhood: the nearest max_nodes (1 to 1000) entities, strongest first, and all relationships among them. Entities are n<entity_id>, labelled with the name; descriptions are tooltips. Under row-level security on documents only what visible documents say. 42704 for an unknown entity or corpus.';

CREATE OR REPLACE FUNCTION graphrag.to_mermaid(entity text, corpus text DEFAULT 'default', hops int DEFAULT 1, max_nodes int DEFAULT 50) RETURNS text
LANGUAGE plpython3u STABLE
SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "graph.pictures:to_mermaid", entity, corpus, hops, max_nodes)
$$;
COMMENT ON FUNCTION graphrag.to_mermaid(text, text, int, int) IS 'Mermaid flowchart of an entity''s neighbourhood, for Markdown: as to_dot(), with at most 500 relationships, the strongest, since Mermaid refuses more.';

-- When documents speak of entities, for BI tools: by the day a document begins to hold, else the day it came.
CREATE OR REPLACE VIEW graphrag.entity_timeline WITH (security_invoker = true) AS
SELECT n.corpus,
       n.entity_id,
       n.name,
       n.type,
       t.day,
       pg_catalog.date_trunc('month', t.day::timestamp)::date AS month,
       t.documents,
       t.mentions
  FROM graphrag.graph_nodes n
  JOIN (SELECT m.entity_id,
               (coalesce(d.valid_from, d.created_at) AT TIME ZONE 'UTC')::date AS day,
               pg_catalog.count(DISTINCT m.document_id) AS documents,
               pg_catalog.count(*) AS mentions
          FROM graphrag.entity_mentions m
          JOIN graphrag.documents d ON d.id = m.document_id
         GROUP BY 1, 2) t ON t.entity_id = n.entity_id;

COMMENT ON VIEW graphrag.entity_timeline IS 'How often documents of a day mention an entity; a document is of the day of its valid_from, else of its created_at (UTC)';
COMMENT ON COLUMN graphrag.entity_timeline.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.entity_timeline.entity_id IS 'Number of the entity';
COMMENT ON COLUMN graphrag.entity_timeline.name IS 'Most frequent spelling';
COMMENT ON COLUMN graphrag.entity_timeline.type IS 'Most frequent type';
COMMENT ON COLUMN graphrag.entity_timeline.day IS 'Day';
COMMENT ON COLUMN graphrag.entity_timeline.month IS 'First day of its month, to group by';
COMMENT ON COLUMN graphrag.entity_timeline.documents IS 'Documents of the day that mention the entity';
COMMENT ON COLUMN graphrag.entity_timeline.mentions IS 'Chunks of these documents that do';

-- What people may do to entities; each returns the number of the curation, for undo_curation(). Documents that come later meet the same curations.
CREATE OR REPLACE FUNCTION graphrag.create_entity(name text, corpus text DEFAULT 'default', type text DEFAULT 'UNKNOWN', description text DEFAULT '') RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "curation.entities:create", corpus, name, type, description)
$$;
REVOKE ALL ON FUNCTION graphrag.create_entity(text, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.create_entity(text, text, text, text) IS 'Adds an entity that no document need mention, and returns the number of the curation. Name and type stay; the description joins those that documents give. Owner only; 23505 where there is such an entity, 55000 where it was deleted.';

CREATE OR REPLACE FUNCTION graphrag.edit_entity(entity text, corpus text DEFAULT 'default', type text DEFAULT NULL, description text DEFAULT NULL) RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "curation.entities:edit", corpus, entity, type, description)
$$;
REVOKE ALL ON FUNCTION graphrag.edit_entity(text, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.edit_entity(text, text, text, text) IS 'Gives an entity a type or description (null: as it is) that wins over what documents say, now and later; returns the number of the curation. Owner only; 42704 where there is no such entity.';

CREATE OR REPLACE FUNCTION graphrag.rename_entity(entity text, new_name text, corpus text DEFAULT 'default') RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "curation.entities:rename", corpus, entity, new_name)
$$;
REVOKE ALL ON FUNCTION graphrag.rename_entity(text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.rename_entity(text, text, text) IS 'Gives an entity another name; mentions of the old name, also later ones, stay its own. Returns the number of the curation. Owner only; 42704 where there is no such entity, 23505 where the new name is another entitys: merge_entities() makes them one.';

CREATE OR REPLACE FUNCTION graphrag.merge_entities(entities text[], target text, corpus text DEFAULT 'default') RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "curation.entities:merge", corpus, entities, target)
$$;
REVOKE ALL ON FUNCTION graphrag.merge_entities(text[], text, text) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.merge_entities(text[], text, text) IS 'Makes entities one with target, which keeps its name; their names become its aliases, so that later mentions land on it. Returns the number of the curation. Owner only; 42704 where there is no such entity, 22023 for an entity and itself.';

CREATE OR REPLACE FUNCTION graphrag.delete_entity(entity text, corpus text DEFAULT 'default') RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "curation.entities:delete", corpus, entity)
$$;
REVOKE ALL ON FUNCTION graphrag.delete_entity(text, text) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.delete_entity(text, text) IS 'Takes an entity and its relationships out of the graph; later mentions do not bring it back. Returns the number of the curation. Owner only; 42704 where there is no such entity.';


-- The same for relationships. A pair of entities has one relationship, so that two become one only with their entities (merge_entities).
CREATE OR REPLACE FUNCTION graphrag.create_relationship(source text, target text, corpus text DEFAULT 'default', keywords text[] DEFAULT '{}', description text DEFAULT '', weight numeric DEFAULT 1) RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "curation.relationships:create", corpus, source, target, keywords, description, weight)
$$;
REVOKE ALL ON FUNCTION graphrag.create_relationship(text, text, text, text[], text, numeric) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.create_relationship(text, text, text, text[], text, numeric) IS 'Adds a relationship between two entities that no document need state; what documents state later joins it. Returns the number of the curation. Owner only; 42704 where there is no such entity, 23505 where they are related already, 55000 where that was deleted.';

CREATE OR REPLACE FUNCTION graphrag.edit_relationship(source text, target text, corpus text DEFAULT 'default', keywords text[] DEFAULT NULL, description text DEFAULT NULL, weight numeric DEFAULT NULL) RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "curation.relationships:edit", corpus, source, target, keywords, description, weight)
$$;
REVOKE ALL ON FUNCTION graphrag.edit_relationship(text, text, text, text[], text, numeric) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.edit_relationship(text, text, text, text[], text, numeric) IS 'Gives a relationship keywords, a description or a weight (null: as it is) that win over what documents say, now and later; returns the number of the curation. The order of the two entities does not matter. Owner only; 42704 where there is no such relationship.';

CREATE OR REPLACE FUNCTION graphrag.delete_relationship(source text, target text, corpus text DEFAULT 'default') RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "curation.relationships:delete", corpus, source, target)
$$;
REVOKE ALL ON FUNCTION graphrag.delete_relationship(text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.delete_relationship(text, text, text) IS 'Takes a relationship out of the graph; documents that state it later do not bring it back. Returns the number of the curation. Owner only; 42704 where there is no such relationship.';


-- A graph made elsewhere, as one curation; and the way back from any curation.
CREATE OR REPLACE FUNCTION graphrag.insert_graph(corpus text, graph jsonb) RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "curation.graphs:insert", corpus, graph)
$$;
REVOKE ALL ON FUNCTION graphrag.insert_graph(text, jsonb) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.insert_graph(text, jsonb) IS 'Merges a graph made elsewhere with what documents say: {"entities": [{name, type, description, source}], "relationships": [{source, target, keywords, description, weight}]}, each entry like one mention; entities that only relationships name are made. Returns the number of the curation. Owner only; 22023 for a bad entry.';

CREATE OR REPLACE FUNCTION graphrag.undo_curation(id bigint) RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
call(plpy, "0.2.0", "curation.records:undo", id)
$$;
REVOKE ALL ON FUNCTION graphrag.undo_curation(bigint) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.undo_curation(bigint) IS 'Makes the graph what it were had this curation never been made; later ones stay. Owner only; 42704 where there is none of that number, 55000 where it was undone already.';


-- Entities that may be one, for a person to decide; nothing is merged. Owner only, as what it leads to.
CREATE OR REPLACE FUNCTION graphrag.suggest_merges(corpus text DEFAULT 'default', max_suggestions int DEFAULT 100)
RETURNS TABLE (entity text, target text, score double precision, reason text)
LANGUAGE plpython3u STABLE ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "curation.suggest:suggest", corpus, max_suggestions)
$$;
REVOKE ALL ON FUNCTION graphrag.suggest_merges(text, int) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.suggest_merges(text, int) IS 'Pairs of entities that may be one, best first, with a score (0.6 to 1) and its reason: spelling, transliteration, abbreviation or embedding; neighbours in common, near names and types count besides. What merge_entities() would be called with; a merge that was undone is not suggested again. Owner only; 42704 for an unknown corpus.';

-- Communities: what hierarchical Leiden finds in the graph of a corpus. A parent holds all members of its children.
CREATE TABLE graphrag.communities (
    id         bigint      NOT NULL GENERATED BY DEFAULT AS IDENTITY (SEQUENCE NAME graphrag.communities_id_seq),
    corpus_id  int         NOT NULL,
    level      int         NOT NULL,
    parent_id  bigint,
    size       int         NOT NULL,
    report_due boolean     NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT communities_pkey PRIMARY KEY (id),
    CONSTRAINT communities_corpus_fkey FOREIGN KEY (corpus_id) REFERENCES graphrag.corpora (id) ON DELETE CASCADE,
    CONSTRAINT communities_parent_fkey FOREIGN KEY (parent_id) REFERENCES graphrag.communities (id) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT communities_parent_check CHECK ((level = 0) = (parent_id IS NULL))
);
CREATE INDEX communities_corpus_idx ON graphrag.communities (corpus_id, level);
CREATE INDEX communities_parent_idx ON graphrag.communities (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX communities_due_idx ON graphrag.communities (corpus_id, level) WHERE report_due;
SELECT pg_catalog.pg_extension_config_dump('graphrag.communities', '');
SELECT pg_catalog.pg_extension_config_dump('graphrag.communities_id_seq', '');

COMMENT ON TABLE graphrag.communities IS 'Groups of entities that are more connected among themselves than with others, by hierarchical Leiden; made by refresh_communities()';
COMMENT ON COLUMN graphrag.communities.id IS 'Number of the community; stays as long as most of its members do';
COMMENT ON COLUMN graphrag.communities.corpus_id IS 'Corpus of the community';
COMMENT ON COLUMN graphrag.communities.level IS '0 is the coarsest (C0 of the GraphRAG paper)';
COMMENT ON COLUMN graphrag.communities.parent_id IS 'The community one level up that it is a part of; null at level 0';
COMMENT ON COLUMN graphrag.communities.size IS 'Number of member entities';
COMMENT ON COLUMN graphrag.communities.report_due IS 'Whether what its report is made from may have changed since it was written';
COMMENT ON COLUMN graphrag.communities.created_at IS 'Time it was first found';

CREATE TABLE graphrag.community_members (
    id           bigint NOT NULL GENERATED BY DEFAULT AS IDENTITY (SEQUENCE NAME graphrag.community_members_id_seq),
    corpus_id    int    NOT NULL,
    community_id bigint NOT NULL,
    entity_id    bigint NOT NULL,
    CONSTRAINT community_members_pkey PRIMARY KEY (id),
    CONSTRAINT community_members_key UNIQUE (community_id, entity_id),
    CONSTRAINT community_members_community_fkey FOREIGN KEY (community_id) REFERENCES graphrag.communities (id) ON DELETE CASCADE,
    CONSTRAINT community_members_entity_fkey FOREIGN KEY (entity_id) REFERENCES graphrag.entities (id) ON DELETE CASCADE
);
CREATE INDEX community_members_entity_idx ON graphrag.community_members (entity_id);
SELECT pg_catalog.pg_extension_config_dump('graphrag.community_members', '');
SELECT pg_catalog.pg_extension_config_dump('graphrag.community_members_id_seq', '');

COMMENT ON TABLE graphrag.community_members IS 'Which entities a community holds; an entity is in one community of each level that reaches it';
COMMENT ON COLUMN graphrag.community_members.id IS 'Number of the membership';
COMMENT ON COLUMN graphrag.community_members.corpus_id IS 'Corpus';
COMMENT ON COLUMN graphrag.community_members.community_id IS 'Community';
COMMENT ON COLUMN graphrag.community_members.entity_id IS 'Member';

CREATE TABLE graphrag.community_reports (
    community_id       bigint           NOT NULL,
    corpus_id          int              NOT NULL,
    title              text             NOT NULL,
    summary            text             NOT NULL,
    findings           jsonb            NOT NULL DEFAULT '[]',
    rating             double precision NOT NULL,
    rating_explanation text             NOT NULL DEFAULT '',
    content            text             NOT NULL,
    token_count        int              NOT NULL,
    model              text,
    input_hash         text             NOT NULL COLLATE "C",
    tsv                tsvector         NOT NULL,
    written_at         timestamptz      NOT NULL DEFAULT now(),
    CONSTRAINT community_reports_pkey PRIMARY KEY (community_id),
    CONSTRAINT community_reports_community_fkey FOREIGN KEY (community_id) REFERENCES graphrag.communities (id) ON DELETE CASCADE,
    CONSTRAINT community_reports_findings_check CHECK (pg_catalog.jsonb_typeof(findings) = 'array'),
    CONSTRAINT community_reports_rating_check CHECK (rating BETWEEN 0 AND 10)
);
CREATE INDEX community_reports_tsv_idx ON graphrag.community_reports USING gin (tsv);
SELECT pg_catalog.pg_extension_config_dump('graphrag.community_reports', '');

COMMENT ON TABLE graphrag.community_reports IS 'What a community is about: written by the corpus'' model for reports, or put together from the graph where there is none';
COMMENT ON COLUMN graphrag.community_reports.community_id IS 'Community';
COMMENT ON COLUMN graphrag.community_reports.corpus_id IS 'Corpus';
COMMENT ON COLUMN graphrag.community_reports.title IS 'Title';
COMMENT ON COLUMN graphrag.community_reports.summary IS 'Summary';
COMMENT ON COLUMN graphrag.community_reports.findings IS '[{summary, explanation, entity_ids, relationship_ids, chunk_ids}]: what it rests on exists in these tables';
COMMENT ON COLUMN graphrag.community_reports.rating IS 'Importance, 0 to 10';
COMMENT ON COLUMN graphrag.community_reports.rating_explanation IS 'Why';
COMMENT ON COLUMN graphrag.community_reports.content IS 'The whole report as text';
COMMENT ON COLUMN graphrag.community_reports.token_count IS 'Tokens of content, by the corpus'' tokenizer';
COMMENT ON COLUMN graphrag.community_reports.model IS 'Model that wrote it, or the system it was imported from; null: put together without one';
COMMENT ON COLUMN graphrag.community_reports.input_hash IS 'Hash of what it was made from: as long as that stays, so does the report';
COMMENT ON COLUMN graphrag.community_reports.tsv IS 'Lexemes of the whole report';
COMMENT ON COLUMN graphrag.community_reports.written_at IS 'Time of writing';

-- A corpus has some thousand reports at most: they are scanned, exactly, and need neither partitions nor indexes of their own.
CREATE TABLE graphrag.report_vectors (
    space_id     int    NOT NULL,
    community_id bigint NOT NULL,
    embedding    @extschema:vector@.vector NOT NULL,
    CONSTRAINT report_vectors_pkey PRIMARY KEY (space_id, community_id),
    CONSTRAINT report_vectors_space_fkey FOREIGN KEY (space_id) REFERENCES graphrag.embedding_spaces (id) ON DELETE CASCADE,
    CONSTRAINT report_vectors_report_fkey FOREIGN KEY (community_id) REFERENCES graphrag.community_reports (community_id) ON DELETE CASCADE
);
CREATE INDEX report_vectors_report_idx ON graphrag.report_vectors (community_id);
SELECT pg_catalog.pg_extension_config_dump('graphrag.report_vectors', '');

COMMENT ON TABLE graphrag.report_vectors IS 'Vectors of title and summary of reports, L2-normalised';
COMMENT ON COLUMN graphrag.report_vectors.space_id IS 'Embedding space';
COMMENT ON COLUMN graphrag.report_vectors.community_id IS 'Community of the report';
COMMENT ON COLUMN graphrag.report_vectors.embedding IS 'Vector with the space''s dimensions';

-- What the last refresh saw: the next one finds by it what has changed since.
CREATE TABLE graphrag.community_states (
    corpus_id    int              NOT NULL,
    revision     xid8,
    settings     jsonb            NOT NULL,
    edges        bytea            NOT NULL,
    edge_count   int              NOT NULL,
    changed      int              NOT NULL DEFAULT 0,
    modularity   double precision NOT NULL,
    seconds      double precision NOT NULL,
    refreshed_at timestamptz      NOT NULL DEFAULT now(),
    CONSTRAINT community_states_pkey PRIMARY KEY (corpus_id),
    CONSTRAINT community_states_corpus_fkey FOREIGN KEY (corpus_id) REFERENCES graphrag.corpora (id) ON DELETE CASCADE
);
SELECT pg_catalog.pg_extension_config_dump('graphrag.community_states', '');

COMMENT ON TABLE graphrag.community_states IS 'The graph as the last refresh of communities saw it. The owner''s: no grant.';
COMMENT ON COLUMN graphrag.community_states.corpus_id IS 'Corpus';
COMMENT ON COLUMN graphrag.community_states.revision IS 'Revision of the corpus that was clustered';
COMMENT ON COLUMN graphrag.community_states.settings IS 'Parameters of the clustering; others begin anew';
COMMENT ON COLUMN graphrag.community_states.edges IS 'Packed: ids of the clustered relationships (int64, ascending), then their shares of the whole weight (float32)';
COMMENT ON COLUMN graphrag.community_states.edge_count IS 'Number of clustered relationships';
COMMENT ON COLUMN graphrag.community_states.changed IS 'Relationships that changed since the last clustering from nothing';
COMMENT ON COLUMN graphrag.community_states.modularity IS 'Modularity of level 0';
COMMENT ON COLUMN graphrag.community_states.seconds IS 'Time the refresh took; the next waits in proportion';
COMMENT ON COLUMN graphrag.community_states.refreshed_at IS 'Time of the last refresh';

-- The graph that is clustered. What a model extracted counts by its weight. Concepts are pruned first, at read time, from the counts of the mentions
-- (LazyGraphRAG's index): names of one chunk and hubs (degree above mean + 3 sigma) are left out, pairs weigh their PMI, and the weakest 40 % go.
-- A small corpus, or one that only states what it says once, is clustered as it is: there is nothing to prune by.
CREATE OR REPLACE FUNCTION graphrag.clustered_relationships(corpus text DEFAULT 'default')
RETURNS TABLE (relationship_id bigint, low_id bigint, high_id bigint, weight double precision)
LANGUAGE plpgsql STABLE ROWS 100000 SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    this_corpus int;
    concepts    boolean;
    chunks      double precision;
    hub         double precision;
    weakest     double precision;
BEGIN
    SELECT c.id, coalesce(c.options ->> 'extractor', 'nlp') = 'nlp' INTO this_corpus, concepts
      FROM graphrag.corpora AS c WHERE c.name = corpus;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'corpus "%" does not exist', corpus
            USING ERRCODE = 'undefined_object', HINT = 'SELECT name FROM graphrag.corpora lists the corpora.';
    END IF;
    SELECT count(*) INTO chunks FROM graphrag.chunks AS c WHERE c.corpus_id = this_corpus;
    IF NOT concepts OR chunks < 100 THEN
        RETURN QUERY
        SELECT r.id, r.low_id, r.high_id, r.weight::double precision
          FROM graphrag.relationships AS r
         WHERE r.corpus_id = this_corpus AND r.weight > 0;
        RETURN;
    END IF;
    SELECT avg(e.degree) + 3 * coalesce(stddev_pop(e.degree), 0) INTO hub
      FROM graphrag.entities AS e WHERE e.corpus_id = this_corpus AND e.mention_count >= 2;
    SELECT percentile_cont(0.4) WITHIN GROUP (ORDER BY r.mention_count * ln(r.mention_count * chunks / l.mention_count / h.mention_count))
      INTO weakest
      FROM graphrag.relationships AS r
      JOIN graphrag.entities AS l ON l.id = r.low_id
      JOIN graphrag.entities AS h ON h.id = r.high_id
     WHERE r.corpus_id = this_corpus AND l.mention_count >= 2 AND h.mention_count >= 2 AND l.degree <= hub AND h.degree <= hub;
    RETURN QUERY
    SELECT p.id, p.low_id, p.high_id, p.pmi / (chunks * ln(2::double precision))
      FROM (SELECT r.id, r.low_id, r.high_id,
                   r.mention_count * ln(r.mention_count * chunks / l.mention_count / h.mention_count) AS pmi
              FROM graphrag.relationships AS r
              JOIN graphrag.entities AS l ON l.id = r.low_id
              JOIN graphrag.entities AS h ON h.id = r.high_id
             WHERE r.corpus_id = this_corpus AND l.mention_count >= 2 AND h.mention_count >= 2
               AND l.degree <= hub AND h.degree <= hub) AS p
     WHERE p.pmi > 0 AND p.pmi >= weakest;
END
$function$;
COMMENT ON FUNCTION graphrag.clustered_relationships(text) IS 'The relationships that communities are found in, with their weights: of a model''s extraction all, of concepts those that pruning leaves (names of two chunks or more, no hubs, PMI as weight, the weakest 40 % left out; a corpus under 100 chunks is not pruned). 42704 for an unknown corpus.';

-- Make the AGE projection equal to the tables for these communities of one corpus, whatever happened to them: vertices Community, edges
-- IN_COMMUNITY from their members and PARENT to the community they are a part of. The caller holds the corpus' lock.
-- SECURITY DEFINER: the graph is the owner's (05_graph/100_ensure_graph.sql), and must be whole whoever runs the worker.
CREATE OR REPLACE FUNCTION graphrag._project_communities(corpus_id int, community_ids bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, ag_catalog, pg_temp
SET jit = off
AS $function$
#variable_conflict use_column
DECLARE
    -- As in 05_graph/110_project.sql.
    entity       CONSTANT int := 3;
    community    CONSTANT int := 9;
    in_community CONSTANT int := 10;
    parent       CONSTANT int := 11;
BEGIN
    PERFORM graphrag._ensure_graph(corpus_id);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.format('graphrag_%s, pg_catalog, ag_catalog, pg_temp', corpus_id), true);

    MERGE INTO "Community" AS v
    USING (SELECT ag_catalog._graphid(community, i.id) AS id, c.id AS community_id,
                  ag_catalog.agtype_build_map_nonull('community_id', c.id, 'level', c.level, 'size', c.size, 'title', r.title) AS properties
             FROM (SELECT DISTINCT pg_catalog.unnest(community_ids) AS id) AS i
             LEFT JOIN graphrag.communities AS c ON c.id = i.id
             LEFT JOIN graphrag.community_reports AS r ON r.community_id = c.id) AS s
       ON v.id = s.id
     WHEN MATCHED AND s.community_id IS NULL THEN DELETE
     WHEN MATCHED AND pg_catalog.record_image_ne(ROW (v.properties), ROW (s.properties)) THEN UPDATE SET properties = s.properties
     WHEN NOT MATCHED AND s.community_id IS NOT NULL THEN INSERT (id, properties) VALUES (s.id, s.properties);

    MERGE INTO "PARENT" AS v
    USING (SELECT ag_catalog._graphid(parent, i.id) AS id, c.parent_id,
                  ag_catalog._graphid(community, i.id) AS start_id, ag_catalog._graphid(community, c.parent_id) AS end_id
             FROM (SELECT DISTINCT pg_catalog.unnest(community_ids) AS id) AS i
             LEFT JOIN graphrag.communities AS c ON c.id = i.id) AS s
       ON v.id = s.id
     WHEN MATCHED AND s.parent_id IS NULL THEN DELETE
     WHEN MATCHED AND v.end_id <> s.end_id THEN UPDATE SET end_id = s.end_id
     WHEN NOT MATCHED AND s.parent_id IS NOT NULL THEN INSERT (id, start_id, end_id) VALUES (s.id, s.start_id, s.end_id);

    DELETE FROM "IN_COMMUNITY" AS v
     USING pg_catalog.unnest(community_ids) AS i (id)
     WHERE v.end_id = ag_catalog._graphid(community, i.id)
       AND NOT EXISTS (SELECT FROM graphrag.community_members AS m
                        WHERE m.id = v.id::ag_catalog.agtype::bigint & 281474976710655 AND m.community_id = i.id);

    INSERT INTO "IN_COMMUNITY" (id, start_id, end_id)
    SELECT ag_catalog._graphid(in_community, m.id), ag_catalog._graphid(entity, m.entity_id), ag_catalog._graphid(community, m.community_id)
      FROM graphrag.community_members AS m
     WHERE m.community_id = ANY (community_ids)
       AND NOT EXISTS (SELECT FROM "IN_COMMUNITY" AS v WHERE v.id = ag_catalog._graphid(in_community, m.id));
END
$function$;
REVOKE ALL ON FUNCTION graphrag._project_communities(int, bigint[]) FROM PUBLIC;

-- Find the communities of a corpus, or bring them up to date. Workers do it by themselves (corpus option communities).
CREATE OR REPLACE FUNCTION graphrag.refresh_communities(corpus text DEFAULT 'default') RETURNS jsonb
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "community.refresh:refresh_named", corpus)
$$;
REVOKE ALL ON FUNCTION graphrag.refresh_communities(text) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.refresh_communities(text) IS 'Finds the communities of a corpus now, from the previous ones where there are any: only what changed is clustered again, and communities that are still the same keep their ids. Queues the reports of those that changed, for workers to write. Returns {communities, levels, created, changed, removed, clustered: all, part or nothing, modularity, reports_due}. Owner only; 42704 for an unknown corpus.';

-- For BI tools. What several documents say together is shown to who may see them all.
CREATE OR REPLACE VIEW graphrag.community_overview WITH (security_invoker = true) AS
SELECT c.name AS corpus,
       o.id   AS community_id,
       o.level,
       o.parent_id,
       o.size,
       (SELECT pg_catalog.count(*)
          FROM graphrag.community_members l
          JOIN graphrag.relationships r ON r.low_id = l.entity_id
          JOIN graphrag.community_members h ON h.entity_id = r.high_id AND h.community_id = o.id
         WHERE l.community_id = o.id) AS relationships,
       (SELECT pg_catalog.count(DISTINCT x.document_id)
          FROM graphrag.community_members l
          JOIN graphrag.entity_mentions x ON x.entity_id = l.entity_id
         WHERE l.community_id = o.id) AS documents,
       r.title,
       r.summary,
       r.rating,
       r.model,
       r.written_at
  FROM graphrag.communities o
  JOIN graphrag.corpora c ON c.id = o.corpus_id
  LEFT JOIN graphrag.community_reports r ON r.community_id = o.id
 WHERE NOT pg_catalog.row_security_active('graphrag.documents')
    OR NOT EXISTS (SELECT
                     FROM graphrag.community_members l
                     JOIN graphrag.entity_mentions x ON x.entity_id = l.entity_id
                     LEFT JOIN graphrag.documents d ON d.id = x.document_id
                    WHERE l.community_id = o.id AND d.id IS NULL);

COMMENT ON VIEW graphrag.community_overview IS 'Communities with their reports, one row each; under row-level security on documents those whose documents are all visible';
COMMENT ON COLUMN graphrag.community_overview.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.community_overview.community_id IS 'Number of the community';
COMMENT ON COLUMN graphrag.community_overview.level IS '0 is the coarsest';
COMMENT ON COLUMN graphrag.community_overview.parent_id IS 'The community one level up';
COMMENT ON COLUMN graphrag.community_overview.size IS 'Number of member entities';
COMMENT ON COLUMN graphrag.community_overview.relationships IS 'Relationships among its members';
COMMENT ON COLUMN graphrag.community_overview.documents IS 'Documents that mention a member';
COMMENT ON COLUMN graphrag.community_overview.title IS 'Title of its report; null: none is written yet';
COMMENT ON COLUMN graphrag.community_overview.summary IS 'Summary of its report';
COMMENT ON COLUMN graphrag.community_overview.rating IS 'Importance, 0 to 10';
COMMENT ON COLUMN graphrag.community_overview.model IS 'Model that wrote the report; null: put together without one';
COMMENT ON COLUMN graphrag.community_overview.written_at IS 'Time the report was written';

-- Communities and reports of another GraphRAG that wait for their entities: the next refresh takes them over, and removes the row.
CREATE TABLE graphrag.imported_communities (
    corpus_id   int   NOT NULL,
    communities jsonb NOT NULL,
    cited       jsonb,
    CONSTRAINT imported_communities_pkey PRIMARY KEY (corpus_id),
    CONSTRAINT imported_communities_corpus_fkey FOREIGN KEY (corpus_id) REFERENCES graphrag.corpora (id) ON DELETE CASCADE,
    CONSTRAINT imported_communities_check CHECK (pg_catalog.jsonb_typeof(communities) = 'array')
);
SELECT pg_catalog.pg_extension_config_dump('graphrag.imported_communities', '');

COMMENT ON TABLE graphrag.imported_communities IS 'Imported communities that the next refresh of the corpus takes over. The owner''s: no grant.';
COMMENT ON COLUMN graphrag.imported_communities.corpus_id IS 'Corpus';
COMMENT ON COLUMN graphrag.imported_communities.communities IS 'As given to import_communities()';
COMMENT ON COLUMN graphrag.imported_communities.cited IS 'What the numbers in the texts stand for, likewise';

CREATE OR REPLACE FUNCTION graphrag.import_communities(corpus text, communities jsonb, cited jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "community.imported:import_communities", corpus, communities, cited)
$$;
REVOKE ALL ON FUNCTION graphrag.import_communities(text, jsonb, jsonb) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.import_communities(text, jsonb, jsonb) IS 'Makes these the communities of a corpus, with their own reports: [{number, level, parent, entities: [name], created, report: {title, summary, content, findings: [{summary, explanation}], rating, rating_explanation, model}}], parent being the number of a community one level up. Taken over by the next refresh, which is queued; until its input changes, a report stays. cited: what the numbers of references such as [Data: Entities (5); Relationships (23, +more)] stand for, {"Entities": {"5": name}, "Relationships": {"23": [source, target]}}: the texts get the numbers of here, and those that stand for nothing are left out. Owner only; 22023 for a bad entry, 42704 for an unknown corpus.';

-- Pictures of a community, as 05_graph/210_pictures.sql has them of a neighbourhood.
CREATE OR REPLACE FUNCTION graphrag.to_dot(community_id bigint, max_nodes int DEFAULT 50) RETURNS text
LANGUAGE plpython3u STABLE
SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "graph.pictures:community_to_dot", community_id, max_nodes)
$$;
COMMENT ON FUNCTION graphrag.to_dot(bigint, int) IS 'Graphviz (DOT) text of a community: the max_nodes (1 to 1000) members with the strongest relationships within it, and all relationships among them. 42704 for a community that there is not, or that tells of documents the caller may not see.';

CREATE OR REPLACE FUNCTION graphrag.to_mermaid(community_id bigint, max_nodes int DEFAULT 50) RETURNS text
LANGUAGE plpython3u STABLE
SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "graph.pictures:community_to_mermaid", community_id, max_nodes)
$$;
COMMENT ON FUNCTION graphrag.to_mermaid(bigint, int) IS 'Mermaid flowchart of a community, for Markdown: as to_dot(), with at most 500 relationships, the strongest, since Mermaid refuses more.';

-- Search. STABLE, read only, and at work on a hot standby. HNSW settings are pinned here, so that no session can under-fill results.
CREATE OR REPLACE FUNCTION graphrag.search(
    query               text,
    corpus              text DEFAULT 'default',
    mode                text DEFAULT 'hybrid',
    top_k               int DEFAULT 10,
    filter              jsonb DEFAULT NULL,
    low_level_keywords  text[] DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL,
    options             jsonb DEFAULT '{}'
) RETURNS TABLE (rank int, chunk_id bigint, document_id bigint, source_key text, title text, content text, score double precision, explain jsonb)
LANGUAGE plpython3u STABLE ROWS 10
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "retrieval.search:search", query, corpus, mode, top_k, filter, low_level_keywords,
            high_level_keywords, options)
$$;
COMMENT ON FUNCTION graphrag.search(text, text, text, int, jsonb, text[], text[], jsonb) IS 'Chunks that answer a query, best first. mode: naive, bm25, local, global, hybrid, mix, path, ppr, graph_local, graph_global, drift, lazy. top_k: rows (0–10,000). filter: jsonb containment on documents.metadata. Keywords given here are used instead of the query''s own. explain says which retriever found the row, at which rank and score, through which entity or relationship. 42704 unknown corpus; 22023 unknown mode or option.';

-- search() with the mode fixed.

CREATE OR REPLACE FUNCTION graphrag.local_search(
    query               text,
    corpus              text DEFAULT 'default',
    top_k               int DEFAULT 10,
    filter              jsonb DEFAULT NULL,
    low_level_keywords  text[] DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL,
    options             jsonb DEFAULT '{}'
) RETURNS TABLE (rank int, chunk_id bigint, document_id bigint, source_key text, title text, content text, score double precision, explain jsonb)
LANGUAGE sql STABLE ROWS 10
BEGIN ATOMIC
    SELECT s.rank, s.chunk_id, s.document_id, s.source_key, s.title, s.content, s.score, s.explain
      FROM graphrag.search(local_search.query, local_search.corpus, 'local', top_k => local_search.top_k, filter => local_search.filter,
                           low_level_keywords => local_search.low_level_keywords, high_level_keywords => local_search.high_level_keywords,
                           options => local_search.options) s;
END;

CREATE OR REPLACE FUNCTION graphrag.global_search(
    query               text,
    corpus              text DEFAULT 'default',
    top_k               int DEFAULT 10,
    filter              jsonb DEFAULT NULL,
    low_level_keywords  text[] DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL,
    options             jsonb DEFAULT '{}'
) RETURNS TABLE (rank int, chunk_id bigint, document_id bigint, source_key text, title text, content text, score double precision, explain jsonb)
LANGUAGE sql STABLE ROWS 10
BEGIN ATOMIC
    SELECT s.rank, s.chunk_id, s.document_id, s.source_key, s.title, s.content, s.score, s.explain
      FROM graphrag.search(global_search.query, global_search.corpus, 'global', top_k => global_search.top_k, filter => global_search.filter,
                           low_level_keywords => global_search.low_level_keywords, high_level_keywords => global_search.high_level_keywords,
                           options => global_search.options) s;
END;

CREATE OR REPLACE FUNCTION graphrag.hybrid_search(
    query               text,
    corpus              text DEFAULT 'default',
    top_k               int DEFAULT 10,
    filter              jsonb DEFAULT NULL,
    low_level_keywords  text[] DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL,
    options             jsonb DEFAULT '{}'
) RETURNS TABLE (rank int, chunk_id bigint, document_id bigint, source_key text, title text, content text, score double precision, explain jsonb)
LANGUAGE sql STABLE ROWS 10
BEGIN ATOMIC
    SELECT s.rank, s.chunk_id, s.document_id, s.source_key, s.title, s.content, s.score, s.explain
      FROM graphrag.search(hybrid_search.query, hybrid_search.corpus, 'hybrid', top_k => hybrid_search.top_k, filter => hybrid_search.filter,
                           low_level_keywords => hybrid_search.low_level_keywords, high_level_keywords => hybrid_search.high_level_keywords,
                           options => hybrid_search.options) s;
END;

CREATE OR REPLACE FUNCTION graphrag.naive_search(
    query               text,
    corpus              text DEFAULT 'default',
    top_k               int DEFAULT 10,
    filter              jsonb DEFAULT NULL,
    options             jsonb DEFAULT '{}'
) RETURNS TABLE (rank int, chunk_id bigint, document_id bigint, source_key text, title text, content text, score double precision, explain jsonb)
LANGUAGE sql STABLE ROWS 10
BEGIN ATOMIC
    SELECT s.rank, s.chunk_id, s.document_id, s.source_key, s.title, s.content, s.score, s.explain
      FROM graphrag.search(naive_search.query, naive_search.corpus, 'naive', top_k => naive_search.top_k, filter => naive_search.filter,
                           options => naive_search.options) s;
END;

CREATE OR REPLACE FUNCTION graphrag.bm25_search(
    query               text,
    corpus              text DEFAULT 'default',
    top_k               int DEFAULT 10,
    filter              jsonb DEFAULT NULL,
    options             jsonb DEFAULT '{}'
) RETURNS TABLE (rank int, chunk_id bigint, document_id bigint, source_key text, title text, content text, score double precision, explain jsonb)
LANGUAGE sql STABLE ROWS 10
BEGIN ATOMIC
    SELECT s.rank, s.chunk_id, s.document_id, s.source_key, s.title, s.content, s.score, s.explain
      FROM graphrag.search(bm25_search.query, bm25_search.corpus, 'bm25', top_k => bm25_search.top_k, filter => bm25_search.filter,
                           options => bm25_search.options) s;
END;

-- The graph's own rows, by relevance to a query.
CREATE OR REPLACE FUNCTION graphrag.search_entities(
    query              text,
    corpus             text DEFAULT 'default',
    top_k              int DEFAULT 10,
    filter             jsonb DEFAULT NULL,
    low_level_keywords text[] DEFAULT NULL
) RETURNS TABLE (rank int, entity_id bigint, name text, type text, description text, degree int, score double precision, explain jsonb)
LANGUAGE plpython3u STABLE ROWS 10
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "retrieval.items:entities", query, corpus, top_k, filter, low_level_keywords)
$$;

CREATE OR REPLACE FUNCTION graphrag.search_relationships(
    query               text,
    corpus              text DEFAULT 'default',
    top_k               int DEFAULT 10,
    filter              jsonb DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL
) RETURNS TABLE (rank int, relationship_id bigint, source text, target text, keywords text[], description text, weight numeric, score double precision, explain jsonb)
LANGUAGE plpython3u STABLE ROWS 10
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "retrieval.items:relationships", query, corpus, top_k, filter, high_level_keywords)
$$;

CREATE OR REPLACE FUNCTION graphrag.search_reports(
    query      text,
    corpus     text DEFAULT 'default',
    top_k      int DEFAULT 10,
    filter     jsonb DEFAULT NULL,
    only_level int DEFAULT NULL
) RETURNS TABLE (rank int, community_id bigint, level int, title text, summary text, rating double precision, score double precision, explain jsonb)
LANGUAGE plpython3u STABLE ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "retrieval.items:reports", query, corpus, top_k, filter, only_level)
$$;
COMMENT ON FUNCTION graphrag.search_reports(text, text, int, jsonb, int) IS 'Reports on communities that a query is about, best first; of only_level, where it is given. Score: the mean of the cosine of title and summary and of the words in the whole report (as a share of the best). Under row-level security on documents, reports whose documents are all visible; with a filter, those that some of its documents tell of.';

-- What a language model is given: entities, relationships, claims and chunks within token budgets, with numbered references.
CREATE OR REPLACE FUNCTION graphrag.context(
    query               text,
    corpus              text DEFAULT 'default',
    mode                text DEFAULT 'hybrid',
    max_tokens          int DEFAULT NULL,
    filter              jsonb DEFAULT NULL,
    low_level_keywords  text[] DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL,
    options             jsonb DEFAULT '{}'
) RETURNS jsonb
LANGUAGE plpython3u STABLE
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "retrieval.context:context", query, corpus, mode, max_tokens, filter, low_level_keywords,
            high_level_keywords, options)
$$;
COMMENT ON FUNCTION graphrag.context(text, text, text, int, jsonb, text[], text[], jsonb) IS 'Context for a language model: {entities, relationships, reports, claims, chunks, references, prompt, tokens}. Reports are in graph_local, graph_global and drift, claims in graph_local, drift and lazy. max_tokens bounds the whole (default: option max_total_tokens, 30,000); options max_entity_tokens, max_relation_tokens, chunk_top_k and include_chunks bound its parts.';

-- The corpus' embedding model, for applications that compare vectors of their own.
CREATE OR REPLACE FUNCTION graphrag.embed(input text, corpus text DEFAULT 'default') RETURNS @extschema:vector@.vector
LANGUAGE plpython3u STABLE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "retrieval.embed:embed", input, corpus)
$$;

-- Search measured on questions with known evidence. STABLE, as search() is: all modes see one state, and standbys measure too.
CREATE TYPE graphrag.evaluation AS (
    mode             text,
    k                int,
    questions        int,
    without_evidence int,
    recall           double precision,
    ndcg             double precision,
    mrr              double precision,
    any_hit          double precision,
    all_hit          double precision,
    p50_ms           double precision,
    p95_ms           double precision,
    baseline         text,
    intervals        jsonb,
    differences      jsonb,
    per_question     jsonb
);
COMMENT ON TYPE graphrag.evaluation IS 'A row of evaluate(), for one mode and one depth k. Documents are judged (best chunk wins): recall, ndcg (binary) and mrr of the first k, means over questions that have evidence; without_evidence counts the others. any_hit, all_hit: share of questions of which any, or all, evidence is among the first k chunks as they are. p50_ms, p95_ms: of a search in a warm session, its embedding included. intervals: {metric: [low, high]}, 95 %, bootstrap over questions. differences to the baseline: {metric: {difference, low, high, p}}, paired, p for one comparison. per_question: with that option.';

CREATE OR REPLACE FUNCTION graphrag.evaluate(
    corpus    text,
    questions jsonb,
    modes     text[] DEFAULT '{naive,bm25,hybrid}',
    k         int[] DEFAULT '{5,10}',
    baseline  text DEFAULT NULL,
    options   jsonb DEFAULT '{}'
) RETURNS SETOF graphrag.evaluation
LANGUAGE plpython3u STABLE ROWS 10
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "evaluation.retrieval:evaluate", corpus, questions, modes, k, baseline, options)
$$;
COMMENT ON FUNCTION graphrag.evaluate(text, jsonb, text[], int[], text, jsonb) IS 'Measures modes of search on questions: [{id, question, evidence: [source_key], low_level_keywords, high_level_keywords, query_entities, answer_types}], the last two for modes that have these options, where a variant does not set them. baseline: the mode that others are compared to (default: the first). options: seed of the bootstrap (0); per_question (false): scores of each question and what was found; variants {name: {mode, …search options}}: names that modes may have besides. 42704 unknown corpus; 22023 unknown mode, option or source_key, no questions, k < 1.';

-- The rows of a table as questions; only for evaluate(), with the caller's own rights.
CREATE OR REPLACE FUNCTION graphrag._questions(source regclass) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    questions jsonb;
BEGIN
    IF source IS NULL THEN
        RETURN NULL;
    END IF;
    EXECUTE pg_catalog.format('SELECT pg_catalog.jsonb_agg(pg_catalog.to_jsonb(q)) FROM %s q', source) INTO questions;
    RETURN questions;
END
$$;

CREATE OR REPLACE FUNCTION graphrag.evaluate(
    corpus    text,
    questions regclass,
    modes     text[] DEFAULT '{naive,bm25,hybrid}',
    k         int[] DEFAULT '{5,10}',
    baseline  text DEFAULT NULL,
    options   jsonb DEFAULT '{}'
) RETURNS SETOF graphrag.evaluation
LANGUAGE sql STABLE ROWS 10
BEGIN ATOMIC
    SELECT * FROM graphrag.evaluate(corpus, graphrag._questions(questions), modes, k, baseline, options);
END;
COMMENT ON FUNCTION graphrag.evaluate(text, regclass, text[], int[], text, jsonb) IS 'As evaluate(text, jsonb, …), with the rows of a table or view: its columns are the fields of a question (evidence, keywords, query_entities and answer_types: text[] or jsonb).';

-- So that a literal needs no cast, be it an array or the name of a table.
CREATE OR REPLACE FUNCTION graphrag.evaluate(
    corpus    text,
    questions text,
    modes     text[] DEFAULT '{naive,bm25,hybrid}',
    k         int[] DEFAULT '{5,10}',
    baseline  text DEFAULT NULL,
    options   jsonb DEFAULT '{}'
) RETURNS SETOF graphrag.evaluation
LANGUAGE sql STABLE ROWS 10
BEGIN ATOMIC
    SELECT *
      FROM graphrag.evaluate(
               corpus,
               CASE
                   WHEN questions OPERATOR(pg_catalog.~) '^\s*[\[{]' THEN questions::pg_catalog.jsonb
                   ELSE graphrag._questions(questions::pg_catalog.regclass)
               END,
               modes, k, baseline, options);
END;
COMMENT ON FUNCTION graphrag.evaluate(text, text, text[], int[], text, jsonb) IS 'As evaluate(text, jsonb, …), with the text of a JSON array, or the name of a table.';

-- Answers of models that were read completely: the same prompt costs nothing the second time.


-- Every request to a provider, also those that failed.


-- Batches at endpoints. A row is there before the endpoint hears of the batch, and its mark goes with it: no batch is made twice.


-- Requests on their way through a batch, and answers that nobody has read yet: who asks reads them with its own parser.


-- The one door of readers to models. SECURITY DEFINER: providers, cache and accounts are the owner's; a caller chooses a task of a fixed
-- list and gives its data, never a prompt, and of a fault sees no more than he may (a member of the owner role: all).
CREATE OR REPLACE FUNCTION graphrag._model(corpus_id int, task text, arguments jsonb, record boolean) RETURNS jsonb
LANGUAGE plpython3u VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "answer.door:model", corpus_id, task, arguments, record)
$$;
COMMENT ON FUNCTION graphrag._model(int, text, jsonb, boolean) IS 'Has a model of the corpus do a task (keywords, hyde, decompose, rewrite, grades, answer, reduce, map, rate, refine, relevant, expand, primer, follow_up): {value, cached, usage}, or {fault, usage}. record: write cache and accounts, where the transaction may write.';

-- As _model, and SECURITY DEFINER for the same reason: one task for each of several arguments, side by side.
CREATE OR REPLACE FUNCTION graphrag._models(corpus_id int, task text, arguments jsonb, record boolean, retries int) RETURNS jsonb
LANGUAGE plpython3u VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "answer.door:models", corpus_id, task, arguments, record, retries)
$$;
REVOKE ALL ON FUNCTION graphrag._models(int, text, jsonb, boolean, int) FROM PUBLIC;
COMMENT ON FUNCTION graphrag._models(int, text, jsonb, boolean, int) IS 'Has a model of the corpus do a task for each of an array of arguments: {outcomes: [{value} or {fault}], usage}. retries: how many requests that failed may be sent again, all together; null: each as often as the gateway does.';

-- As _model, and SECURITY DEFINER for the same reason: the answer in pieces, as they come. Not a set: a cursor in the caller's function would
-- be a pinned portal, and COMMIT while the caller's own cursor is open could fail on it.
CREATE OR REPLACE FUNCTION graphrag._model_stream(corpus_id int, task text, arguments jsonb, record boolean) RETURNS text
LANGUAGE plpython3u VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "answer.door:open_stream", corpus_id, task, arguments, record)
$$;

-- SECURITY DEFINER: what ends with the answer is written to cache and accounts.
CREATE OR REPLACE FUNCTION graphrag._model_next(stream text) RETURNS text
LANGUAGE plpython3u VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "answer.streams:next_piece", stream)
$$;

-- As _model, and SECURITY DEFINER for the same reason: the vectors of a query's texts. Writes nothing: search() is read only.
CREATE OR REPLACE FUNCTION graphrag._embed(corpus_id int, texts text[], OUT vectors bytea, OUT usage jsonb)
LANGUAGE plpython3u VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "answer.door:embed", corpus_id, texts)
$$;

-- As _embed, and SECURITY DEFINER for the same reason: how relevant texts are to a query, by the corpus' cross-encoder.
CREATE OR REPLACE FUNCTION graphrag._rerank(corpus_id int, query text, texts text[], OUT scores double precision[], OUT usage jsonb)
LANGUAGE plpython3u VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "answer.door:rerank", corpus_id, query, texts)
$$;
REVOKE ALL ON FUNCTION graphrag._rerank(int, text, text[]) FROM PUBLIC;
COMMENT ON FUNCTION graphrag._rerank(int, text, text[]) IS 'Relevance of up to 200 texts to a query by the corpus'' cross-encoder, in their order; and what it cost';

-- What a question asks for. VOLATILE: writes cache and accounts where the transaction may write.
CREATE OR REPLACE FUNCTION graphrag.understand(question text, corpus text DEFAULT 'default') RETURNS jsonb
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "answer.understanding:understand_named", question, corpus)
$$;

-- What was asked, where a corpus opts in with "query_log": true.


-- SECURITY DEFINER: readers may add to the log, not read it. Nothing happens for a corpus that has not opted in, or where nothing may be written.
CREATE OR REPLACE FUNCTION graphrag.log_query(
    question      text,
    corpus        text,
    kind          text,
    mode          text,
    milliseconds  double precision,
    entities      int DEFAULT NULL,
    relationships int DEFAULT NULL,
    chunks        int DEFAULT NULL,
    usage         jsonb DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    this_corpus int;
BEGIN
    SELECT c.id INTO this_corpus FROM graphrag.corpora c WHERE c.name = log_query.corpus AND c.options @> '{"query_log": true}';
    IF this_corpus IS NULL OR current_setting('transaction_read_only')::boolean THEN
        RETURN false;
    END IF;
    INSERT INTO graphrag.query_log (corpus_id, kind, mode, question, milliseconds, entities, relationships, chunks, usage)
    VALUES (this_corpus, log_query.kind, log_query.mode, left(log_query.question, 10000), log_query.milliseconds,
            log_query.entities, log_query.relationships, log_query.chunks, log_query.usage);
    RETURN true;
END
$$;

-- Answers. VOLATILE: cache, accounts and query log are written where the transaction may write. HNSW settings as in search().
CREATE OR REPLACE FUNCTION graphrag.ask(
    question            text,
    corpus              text DEFAULT 'default',
    mode                text DEFAULT 'hybrid',
    max_tokens          int DEFAULT NULL,
    filter              jsonb DEFAULT NULL,
    low_level_keywords  text[] DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL,
    options             jsonb DEFAULT '{}',
    history             jsonb DEFAULT NULL,
    response_type       text DEFAULT 'multiple paragraphs'
) RETURNS TABLE (answer text, citations jsonb, usage jsonb, context jsonb)
LANGUAGE plpython3u VOLATILE ROWS 1
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "answer.ask:ask", question, corpus, mode, max_tokens, filter, low_level_keywords,
            high_level_keywords, options, history, response_type)
$$;
COMMENT ON FUNCTION graphrag.ask(text, text, text, int, jsonb, text[], text[], jsonb, jsonb, text) IS 'Answers a question from the documents, by the corpus'' model for answers. Arguments as of context(); history: [{role: user or assistant, content}]; response_type: the form of the answer, in words. One row: answer with [numbers]; citations [{number, document_id, source_key, title, chunk_id}], only of documents in the context; usage {calls, tokens_in, tokens_out, cost, cache_hits, invalid_citations}; context (in graph_global, drift and lazy: points, what models noted, and map, drift or relevance_tests, what was read and what failed). Answers are cached by question, context, history and form. With an empty context no model is asked. 55000: no model for answers; 08006: it cannot be reached; 22000: it gave no usable answer; 53400: the budget is reached.';

CREATE OR REPLACE FUNCTION graphrag.ask_stream(
    question            text,
    corpus              text DEFAULT 'default',
    mode                text DEFAULT 'hybrid',
    max_tokens          int DEFAULT NULL,
    filter              jsonb DEFAULT NULL,
    low_level_keywords  text[] DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL,
    options             jsonb DEFAULT '{}',
    history             jsonb DEFAULT NULL,
    response_type       text DEFAULT 'multiple paragraphs'
) RETURNS SETOF text
LANGUAGE plpython3u VOLATILE ROWS 100
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "answer.ask:ask_stream", question, corpus, mode, max_tokens, filter, low_level_keywords,
            high_level_keywords, options, history, response_type)
$$;

-- What models cost and how often they were asked. The owner's: no grant.
CREATE OR REPLACE VIEW graphrag.llm_usage WITH (security_invoker = true) AS
SELECT c.name AS corpus,
       l.purpose,
       l.model,
       (l.at AT TIME ZONE pg_catalog.current_setting('TimeZone'))::date AS day,
       pg_catalog.count(*)                                             AS calls,
       pg_catalog.sum(l.tokens_in)::bigint                             AS tokens_in,
       pg_catalog.sum(l.tokens_out)::bigint                            AS tokens_out,
       pg_catalog.sum(l.cost)                                          AS cost,
       pg_catalog.count(l.error)                                       AS failures,
       1000 * pg_catalog.percentile_cont(0.5) WITHIN GROUP (ORDER BY l.seconds)  AS p50_ms,
       1000 * pg_catalog.percentile_cont(0.95) WITHIN GROUP (ORDER BY l.seconds) AS p95_ms
  FROM graphrag.llm_calls l
  JOIN graphrag.corpora c ON c.id = l.corpus_id
 GROUP BY 1, 2, 3, 4;


CREATE OR REPLACE VIEW graphrag.budgets WITH (security_invoker = true) AS
SELECT b.corpus,
       b.budget,
       b.spent,
       CASE WHEN b.budget IS NULL THEN 'unlimited' WHEN b.spent >= b.budget THEN 'reached' ELSE 'open' END AS state
  FROM (SELECT c.name AS corpus,
               (c.options #>> '{llm,monthly_budget}')::numeric AS budget,
               coalesce((SELECT pg_catalog.sum(l.cost) FROM graphrag.llm_calls l
                          WHERE l.corpus_id = c.id AND l.at >= pg_catalog.date_trunc('month', pg_catalog.now())), 0) AS spent
          FROM graphrag.corpora c) b;


CREATE OR REPLACE VIEW graphrag.query_stats WITH (security_invoker = true) AS
SELECT c.name AS corpus,
       q.mode,
       pg_catalog.count(*)                                               AS queries,
       pg_catalog.avg(q.milliseconds)                                    AS mean_ms,
       pg_catalog.percentile_cont(0.95) WITHIN GROUP (ORDER BY q.milliseconds) AS p95_ms,
       pg_catalog.avg(q.entities)::double precision                      AS mean_entities,
       pg_catalog.avg(q.relationships)::double precision                 AS mean_relationships
  FROM graphrag.query_log q
  JOIN graphrag.corpora c ON c.id = q.corpus_id
 GROUP BY 1, 2;


-- Of what is there now: a document counts on the day its current content was indexed, an entity on the day of its first document.
CREATE OR REPLACE VIEW graphrag.graph_growth WITH (security_invoker = true) AS
WITH indexed AS (
    SELECT d.id, d.corpus_id, (d.indexed_at AT TIME ZONE pg_catalog.current_setting('TimeZone'))::date AS day
      FROM graphrag.documents d
     WHERE d.indexed_at IS NOT NULL
), grown AS (
    SELECT i.corpus_id, i.day, 1 AS documents, 0::bigint AS chunks, 0 AS entities, 0 AS relationships FROM indexed i
    UNION ALL
    SELECT i.corpus_id, i.day, 0, 1, 0, 0 FROM graphrag.chunks c JOIN indexed i ON i.id = c.document_id
    UNION ALL
    SELECT m.corpus_id, pg_catalog.min(i.day), 0, 0, 1, 0
      FROM graphrag.entity_mentions m JOIN indexed i ON i.id = m.document_id
     WHERE m.entity_id IS NOT NULL
     GROUP BY m.corpus_id, m.entity_id
    UNION ALL
    SELECT m.corpus_id, pg_catalog.min(i.day), 0, 0, 0, 1
      FROM graphrag.relationship_mentions m JOIN indexed i ON i.id = m.document_id
     WHERE m.relationship_id IS NOT NULL
     GROUP BY m.corpus_id, m.relationship_id
)
SELECT c.name AS corpus,
       g.day,
       pg_catalog.sum(g.documents)::bigint     AS documents,
       pg_catalog.sum(g.chunks)::bigint        AS chunks,
       pg_catalog.sum(g.entities)::bigint      AS entities,
       pg_catalog.sum(g.relationships)::bigint AS relationships
  FROM grown g
  JOIN graphrag.corpora c ON c.id = g.corpus_id
 GROUP BY 1, 2;


-- Age and size limits of what grows with use. Also part of every optimize job.
CREATE OR REPLACE FUNCTION graphrag.prune(corpus text DEFAULT 'default') RETURNS jsonb
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "answer.retention:prune_named", corpus)
$$;

-- What the queue would cost, before it is spent. STABLE: cuts and counts, asks nobody.
CREATE OR REPLACE FUNCTION graphrag.estimate_cost(corpus text DEFAULT 'default', extractor text DEFAULT NULL, sample int DEFAULT 500)
RETURNS TABLE (documents bigint, chunks bigint, calls bigint, cached_calls bigint, tokens_in bigint, tokens_out bigint, cost numeric, basis jsonb)
LANGUAGE plpython3u STABLE ROWS 1 SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "answer.estimate:estimate", corpus, extractor, sample)
$$;
COMMENT ON FUNCTION graphrag.estimate_cost(text, text, int) IS 'What indexing the documents that wait would cost, at most: they are cut into chunks (above sample documents: a sample of them, scaled up) and their prompts counted. extractor: nlp, llm or given, null: the corpus'' own. calls: requests to be made, every gleaning round included; cached_calls: further ones that are answered already, or will be by the same text elsewhere. cost: of extraction, of embeddings from an endpoint, and of summaries once the corpus has had enough calls to go by (basis.summaries.cost is null until then). basis says how it was counted. Owner only.';

-- What an answer would cost, before it is asked for. STABLE: counts, asks nobody. HNSW settings as in search().
CREATE OR REPLACE FUNCTION graphrag.estimate_ask(
    question            text,
    corpus              text DEFAULT 'default',
    mode                text DEFAULT 'hybrid',
    max_tokens          int DEFAULT NULL,
    filter              jsonb DEFAULT NULL,
    low_level_keywords  text[] DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL,
    options             jsonb DEFAULT '{}',
    history             jsonb DEFAULT NULL,
    response_type       text DEFAULT 'multiple paragraphs'
) RETURNS TABLE (calls bigint, tokens_in bigint, tokens_out bigint, cost numeric, basis jsonb)
LANGUAGE plpython3u STABLE ROWS 1
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "answer.estimate_ask:estimate", question, corpus, mode, max_tokens, filter, low_level_keywords,
            high_level_keywords, options, history, response_type)
$$;
REVOKE ALL ON FUNCTION graphrag.estimate_ask(text, text, text, int, jsonb, text[], text[], jsonb, jsonb, text) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.estimate_ask(text, text, text, int, jsonb, text[], text[], jsonb, jsonb, text) IS 'What ask() with the same arguments would cost; no model is asked. calls: at most so many requests, as if nothing had been asked before; those tried again after a fault come on top. tokens_in: of their prompts, at four bytes each: counted where the text is known, else the longest that it can get (a context: its whole budget, at the most bytes per token that chunks of the corpus have). tokens_out and so cost: a guess. basis: {parts: {task: {calls, tokens_in, exact}}, …}. Owner only; errors as of ask().';

-- What a person or a monitor asks first.
CREATE OR REPLACE VIEW graphrag.progress WITH (security_invoker = true) AS
SELECT c.name AS corpus,
       d.documents,
       d.indexed,
       d.pending,
       d.failed,
       (SELECT pg_catalog.count(*) FROM graphrag.chunks x WHERE x.corpus_id = c.id)        AS chunks,
       (SELECT pg_catalog.count(*) FROM graphrag.entities x WHERE x.corpus_id = c.id)      AS entities,
       (SELECT pg_catalog.count(*) FROM graphrag.relationships x WHERE x.corpus_id = c.id) AS relationships,
       j.jobs,
       j.leased,
       j.oldest_pending,
       j.waiting,
       j.waiting_until,
       j.waiting_for,
       (SELECT pg_catalog.count(x.id)
          FROM graphrag.embedding_spaces s
          LEFT JOIN graphrag.jobs y ON y.corpus_id = s.corpus_id AND y.kind = 'reembed' AND (y.payload ->> 'space')::int = s.id
          LEFT JOIN graphrag.chunks x ON x.corpus_id = s.corpus_id AND x.id <= (y.payload ->> 'chunk')::bigint
         WHERE s.corpus_id = c.id AND s.state = 'building'
        HAVING pg_catalog.count(*) > 0) AS reembedded,
       CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.now() - pg_catalog.pg_last_xact_replay_timestamp() END AS replication_lag
  FROM graphrag.corpora c
 CROSS JOIN LATERAL (
       SELECT pg_catalog.count(*)                                       AS documents,
              pg_catalog.count(*) FILTER (WHERE x.status = 'indexed')   AS indexed,
              pg_catalog.count(*) FILTER (WHERE x.status = 'pending')   AS pending,
              pg_catalog.count(*) FILTER (WHERE x.status = 'failed')    AS failed
         FROM graphrag.documents x
        WHERE x.corpus_id = c.id) d
 CROSS JOIN LATERAL (
       SELECT pg_catalog.count(*) FILTER (WHERE x.state <> 'failed')           AS jobs,
              pg_catalog.count(*) FILTER (WHERE x.held)                        AS waiting,
              pg_catalog.min(x.next_attempt_at) FILTER (WHERE x.held)          AS waiting_until,
              -- Of the one that goes next: the others wait for the same, nearly always.
              (pg_catalog.array_agg(x.last_error ORDER BY x.next_attempt_at, x.id) FILTER (WHERE x.held))[1] AS waiting_for,
              pg_catalog.count(*) FILTER (WHERE x.state = 'leased')            AS leased,
              pg_catalog.min(x.created_at) FILTER (WHERE x.state <> 'failed')  AS oldest_pending
         FROM (SELECT y.*, y.state = 'pending' AND y.last_error IS NOT NULL AND y.next_attempt_at > pg_catalog.now() AS held
                 FROM graphrag.jobs y
                WHERE y.corpus_id = c.id) x) j;


CREATE OR REPLACE VIEW graphrag.failed_jobs WITH (security_invoker = true) AS
SELECT j.id AS job_id,
       c.name AS corpus,
       j.kind,
       j.document_id,
       d.source_key,
       j.attempts,
       j.last_error,
       j.created_at
  FROM graphrag.jobs j
  JOIN graphrag.corpora c ON c.id = j.corpus_id
  LEFT JOIN graphrag.documents d ON d.id = j.document_id
 WHERE j.state = 'failed';


-- What must hold in every snapshot, while workers work too; whatever does not is named.
CREATE OR REPLACE FUNCTION graphrag.check(corpus text DEFAULT 'default') RETURNS TABLE (invariant text, object text, detail text)
LANGUAGE plpython3u STABLE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "admin.check:check", corpus)
$$;
REVOKE ALL ON FUNCTION graphrag.check(text) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.check(text) IS 'Checks every invariant of a corpus in one snapshot: queue and hashes, chunks and windows against documents, merged values against mentions, vectors, BM25 postings, the AGE graph, sequences. No row: all hold; else the invariant, what breaks it (at most 100 of each) and how. Reads the whole corpus, blocks nobody. Owner only; 42704 for an unknown corpus.';

-- Equal documents give equal fingerprints: what shows that no order, batch, edit, crash, dump or restore left a trace.
CREATE OR REPLACE FUNCTION graphrag.fingerprint(corpus text DEFAULT 'default') RETURNS text
LANGUAGE plpython3u STABLE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "admin.fingerprint:fingerprint", corpus)
$$;
REVOKE ALL ON FUNCTION graphrag.fingerprint(text) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.fingerprint(text) IS 'Hash of everything made of the documents of a corpus, and of the AGE graph, without numbers (ids), vectors, times and communities: equal documents and options give equal fingerprints, whatever happened on the way. One snapshot; reads the whole corpus. Owner only; 42704 for an unknown corpus.';

CREATE OR REPLACE FUNCTION graphrag.fingerprint_sections(corpus text DEFAULT 'default') RETURNS TABLE (section text, row_count bigint, hash text)
LANGUAGE plpython3u STABLE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "admin.fingerprint:fingerprint_sections", corpus)
$$;
REVOKE ALL ON FUNCTION graphrag.fingerprint_sections(text) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.fingerprint_sections(text) IS 'What fingerprint() is made of: rows and hash of each section, to see where two corpora differ. Owner only; 42704 for an unknown corpus.';

-- The rows themselves, in C order; of one section, or of all.
CREATE OR REPLACE FUNCTION graphrag._canonical(corpus text, section text DEFAULT NULL) RETURNS TABLE (section_name text, line text)
LANGUAGE plpython3u STABLE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "admin.fingerprint:canonical", corpus, section)
$$;
REVOKE ALL ON FUNCTION graphrag._canonical(text, text) FROM PUBLIC;

-- Maintenance of one corpus. Searches are exact before, during and after; this makes them faster.
CREATE OR REPLACE FUNCTION graphrag.optimize(corpus text DEFAULT 'default') RETURNS jsonb
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "0.2.0", "queue.maintenance:optimize_named", corpus)
$$;

-- Row-level security for a corpus: a condition on documents decides over them and over everything made of them. It is kept in
-- corpora.protection, which is dumped; policies of an extension's tables are not. Owner, superusers and BYPASSRLS see all.
CREATE OR REPLACE FUNCTION graphrag.protect(corpus text, condition text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    this_corpus int := graphrag._protected_corpus(corpus);
BEGIN
    IF condition IS NULL OR condition !~ '\S' THEN
        RAISE EXCEPTION 'protect() needs a condition' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'A boolean expression over columns of graphrag.documents, for example metadata ->> ''team'' = current_setting(''app.team'', true); unprotect() ends the protection.';
    END IF;
    IF EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = 'graphrag.documents'::regclass AND p.polname !~ '^graphrag_protection') THEN
        RAISE EXCEPTION 'graphrag.documents has policies of its own' USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'Drop them (\d graphrag.documents lists them) and say in the condition what they said.';
    END IF;
    UPDATE graphrag.corpora c SET protection = condition WHERE c.id = this_corpus;
    PERFORM graphrag._enforce(this_corpus, condition);
END
$$;
REVOKE ALL ON FUNCTION graphrag.protect(text, text) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.protect(text, text) IS 'Lets those who read see only the documents of a corpus for which a condition holds, and of chunks, mentions, entities, relationships, claims and vectors only what these documents say, and no communities and reports, which tell of all documents. condition: a boolean expression over columns of graphrag.documents, evaluated as the reader; names in it qualified. Replaces an earlier one. After a restore the corpus is closed until repair(). Owner only; 42704 for an unknown corpus. Not hidden from a reader''s own SQL: the statistics of BM25 (bm25_*), and the merged values of entities and relationships that a document he may see mentions too (the views and functions show those of his documents alone).';

CREATE OR REPLACE FUNCTION graphrag.unprotect(corpus text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    this_corpus int := graphrag._protected_corpus(corpus);
BEGIN
    UPDATE graphrag.corpora c SET protection = NULL WHERE c.id = this_corpus;
    PERFORM graphrag._enforce(this_corpus, NULL);
END
$$;
REVOKE ALL ON FUNCTION graphrag.unprotect(text) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.unprotect(text) IS 'Ends what protect() began: who may read graphrag.documents sees all documents of the corpus. Owner only; 42704 for an unknown corpus.';

CREATE OR REPLACE FUNCTION graphrag._protected_corpus(corpus text) RETURNS int
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    found_id int;
BEGIN
    IF NOT (SELECT pg_has_role(e.extowner, 'USAGE') FROM pg_extension AS e WHERE e.extname = 'pg_graphrag') THEN
        RAISE EXCEPTION 'role "%" may not protect a corpus', current_user
            USING ERRCODE = 'insufficient_privilege', HINT = 'Call it as the owner of the extension or as a superuser.';
    END IF;
    SELECT c.id INTO found_id FROM graphrag.corpora c WHERE c.name = corpus;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'corpus "%" does not exist', corpus
            USING ERRCODE = 'undefined_object', HINT = 'SELECT name FROM graphrag.corpora lists the corpora.';
    END IF;
    RETURN found_id;
END
$$;
REVOKE ALL ON FUNCTION graphrag._protected_corpus(text) FROM PUBLIC;

-- Makes the policies say this of a corpus (null: nothing). The first protected corpus turns row-level security on, the last one off.
CREATE OR REPLACE FUNCTION graphrag._enforce(corpus_id int, condition text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET client_min_messages = warning
AS $$
DECLARE
    relation regclass;
BEGIN
    EXECUTE format('DROP POLICY IF EXISTS graphrag_protection_%s ON graphrag.documents', corpus_id);
    IF condition IS NOT NULL THEN
        EXECUTE format('CREATE POLICY graphrag_protection_%1$s ON graphrag.documents AS RESTRICTIVE USING (corpus_id <> %1$s OR (%2$s)) WITH CHECK (true)',
                       corpus_id, condition);
        IF NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = 'graphrag.documents'::regclass AND p.polname = 'graphrag_protection') THEN
            -- Restrictive policies narrow what a permissive one allows: documents of other corpora, and whatever grants allow to write.
            CREATE POLICY graphrag_protection ON graphrag.documents USING (true) WITH CHECK (true);
            ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY;
        END IF;
        PERFORM graphrag._secure(r.relation) FROM graphrag._readable_relations() AS r (relation);
    ELSIF NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = 'graphrag.documents'::regclass AND p.polname LIKE 'graphrag\_protection\__%') THEN
        FOR relation IN SELECT p.polrelid FROM pg_policy p WHERE p.polname = 'graphrag_protection' ORDER BY p.polrelid LOOP
            EXECUTE format('DROP POLICY graphrag_protection ON %s', relation);
            EXECUTE format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', relation);
        END LOOP;
    END IF;
END
$$;
REVOKE ALL ON FUNCTION graphrag._enforce(int, text) FROM PUBLIC;

-- Tables that tell what documents say, partitions among them. The others that readers may read are named here: they tell of
-- corpora, or are statistics that scores need whole.
CREATE OR REPLACE FUNCTION graphrag._readable_relations() RETURNS SETOF regclass
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT c.oid::pg_catalog.regclass
      FROM pg_catalog.pg_class c
     WHERE c.relnamespace = 'graphrag'::pg_catalog.regnamespace
       AND c.relkind IN ('r', 'p')
       AND c.relname NOT IN ('documents', 'corpora', 'corpus_revisions', 'embedding_spaces', 'bm25_segments', 'bm25_postings',
                             'bm25_deletions', 'bm25_tail', 'bm25_tombstones')
       AND pg_catalog.has_table_privilege('graphrag_reader', c.oid, 'SELECT')
     ORDER BY c.oid;
END;
REVOKE ALL ON FUNCTION graphrag._readable_relations() FROM PUBLIC;

-- Rows of a table are as visible as the document, entity or relationship they belong to (what people said, as what they said it
-- of); rows of a protected corpus that belong to none (communities and their reports tell of all; what people added and no
-- document mentions) are closed.
CREATE OR REPLACE FUNCTION graphrag._secure(relation regclass) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET client_min_messages = warning
AS $$
DECLARE
    name    name   := (SELECT c.relname FROM pg_class c WHERE c.oid = relation);
    columns name[] := (SELECT array_agg(a.attname) FROM pg_attribute a WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped);
BEGIN
    EXECUTE format('DROP POLICY IF EXISTS graphrag_protection ON %s', relation);
    EXECUTE format('CREATE POLICY graphrag_protection ON %s FOR SELECT USING (' || CASE
        WHEN name = 'entities'             THEN 'EXISTS (SELECT FROM graphrag.entity_mentions m WHERE m.entity_id = %2$I.id)'
            ' OR curated AND EXISTS (SELECT FROM graphrag.corpora c WHERE c.id = %2$I.corpus_id AND c.protection IS NULL)'
        WHEN name = 'relationships'        THEN 'EXISTS (SELECT FROM graphrag.relationship_mentions m WHERE m.relationship_id = %2$I.id)'
            ' OR curated AND EXISTS (SELECT FROM graphrag.corpora c WHERE c.id = %2$I.corpus_id AND c.protection IS NULL)'
        WHEN name = 'aliases'              THEN 'EXISTS (SELECT FROM graphrag.entities e WHERE e.corpus_id = %2$I.corpus_id AND e.key = %2$I.entity_key)'
        WHEN name = 'curated'              THEN 'EXISTS (SELECT FROM graphrag.entities e WHERE e.corpus_id = %2$I.corpus_id AND e.key = %2$I.entity_key)'
            ' AND (%2$I.other_entity_key IS NULL OR EXISTS (SELECT FROM graphrag.entities s JOIN graphrag.entities t ON t.corpus_id = s.corpus_id'
            ' JOIN graphrag.relationships r ON r.low_id = least(s.id, t.id) AND r.high_id = greatest(s.id, t.id)'
            ' WHERE s.corpus_id = %2$I.corpus_id AND s.key = %2$I.entity_key AND t.key = %2$I.other_entity_key))'
        WHEN 'community_id' = ANY (columns) THEN 'EXISTS (SELECT FROM graphrag.communities c WHERE c.id = %2$I.community_id)'
        WHEN 'document_id' = ANY (columns) THEN 'EXISTS (SELECT FROM graphrag.documents d WHERE d.id = %2$I.document_id)'
        WHEN 'entity_id'   = ANY (columns) THEN 'EXISTS (SELECT FROM graphrag.entities e WHERE e.id = %2$I.entity_id)'
        WHEN 'corpus_id'   = ANY (columns) THEN 'EXISTS (SELECT FROM graphrag.corpora c WHERE c.id = %2$I.corpus_id AND c.protection IS NULL)'
        ELSE 'false' END || ')', relation, name);
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', relation);
END
$$;
REVOKE ALL ON FUNCTION graphrag._secure(regclass) FROM PUBLIC;

-- What stands in for the condition between a restore and repair(): it may speak of what is not restored yet.
CREATE OR REPLACE FUNCTION graphrag._closed(corpus_id int) RETURNS boolean
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
CREATE OR REPLACE FUNCTION graphrag._corpus_restored() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM graphrag._enforce(NEW.id, format('graphrag._closed(%s)', NEW.id));
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._corpus_restored() IS 'Trigger of corpora: closes a protected one that is restored';
CREATE OR REPLACE TRIGGER corpora_restored AFTER INSERT ON graphrag.corpora
    FOR EACH ROW WHEN (NEW.protection IS NOT NULL) EXECUTE FUNCTION graphrag._corpus_restored();
-- Also in a session that replicates or restores with triggers off.
ALTER TABLE graphrag.corpora ENABLE ALWAYS TRIGGER corpora_restored;

-- Drop the AGE graph of a corpus and project the tables again: after a restore, or after the graph was changed by hand.
CREATE OR REPLACE FUNCTION graphrag.rebuild_graph(corpus text DEFAULT 'default') RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    this_corpus int;
    ids         bigint[];
    label       text;
BEGIN
    SELECT c.id INTO this_corpus FROM graphrag.corpora AS c WHERE c.name = corpus;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'corpus "%" does not exist', corpus
            USING ERRCODE = 'undefined_object', HINT = 'SELECT name FROM graphrag.corpora lists the corpora.';
    END IF;
    PERFORM graphrag._lock_corpus(this_corpus);
    PERFORM graphrag._drop_graph(this_corpus);
    PERFORM graphrag._ensure_graph(this_corpus);
    -- In portions, so that memory does not grow with the corpus.
    FOR ids IN
        SELECT array_agg(e.id) FROM (SELECT e.id, row_number() OVER () / 10000 AS portion
                                       FROM graphrag.entities AS e WHERE e.corpus_id = this_corpus) AS e GROUP BY e.portion
    LOOP
        PERFORM graphrag._project(this_corpus, '{}', ids, '{}');
    END LOOP;
    FOR ids IN
        SELECT array_agg(r.id) FROM (SELECT r.id, row_number() OVER () / 10000 AS portion
                                       FROM graphrag.relationships AS r WHERE r.corpus_id = this_corpus) AS r GROUP BY r.portion
    LOOP
        PERFORM graphrag._project(this_corpus, '{}', '{}', ids);
    END LOOP;
    -- Those that were indexed; also documents that are deleted while what was made of them waits to be removed.
    FOR ids IN
        SELECT array_agg(d.id) FROM (SELECT d.id, row_number() OVER () / 1000 AS portion
                                       FROM (SELECT x.id FROM graphrag.documents AS x
                                               WHERE x.corpus_id = this_corpus AND x.indexed_hash IS NOT NULL
                                              UNION
                                             SELECT c.document_id FROM graphrag.chunks AS c WHERE c.corpus_id = this_corpus) AS d) AS d
         GROUP BY d.portion
    LOOP
        PERFORM graphrag._project(this_corpus, ids, '{}', '{}');
    END LOOP;
    PERFORM graphrag._project_communities(this_corpus, ARRAY(SELECT c.id FROM graphrag.communities AS c WHERE c.corpus_id = this_corpus));
    FOREACH label IN ARRAY '{Entity,Chunk,Document,RELATED,MENTIONED_IN,PART_OF,Community,IN_COMMUNITY,PARENT}'::text[] LOOP
        EXECUTE format('ANALYZE %I.%I', 'graphrag_' || this_corpus, label);
    END LOOP;
END
$function$;

-- What pg_dump cannot carry is made again from the tables: the queue, the graphs, the run-time indexes, the protection. Safe at any time.
CREATE OR REPLACE FUNCTION graphrag.repair() RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    corpus record;
    queued bigint;
    graphs int := 0;
BEGIN
    -- What came past the triggers: content without its hash, a hash that is not the indexed one, or the word of a publisher
    -- that it is indexed, there.
    UPDATE graphrag.documents d
       SET indexed_hash = NULL
     WHERE d.indexed_hash IS NOT NULL
       AND (d.indexed_hash <> d.content_hash
            OR d.content_hash <> encode(sha256(convert_to(coalesce(d.title, '') || E'\n' || d.content, 'UTF8')), 'hex')
            OR d.content ~ '\S' AND NOT EXISTS (SELECT FROM graphrag.chunks c WHERE c.document_id = d.id));
    -- A dump has no dead letters: what had failed is tried again.
    UPDATE graphrag.documents d
       SET status = 'pending', error = NULL
     WHERE d.status = 'failed' AND NOT EXISTS (SELECT FROM graphrag.jobs j WHERE j.document_id = d.id);
    INSERT INTO graphrag.jobs (corpus_id, kind, document_id)
    SELECT d.corpus_id, 'index', d.id FROM graphrag.documents d WHERE d.indexed_at IS NULL
        ON CONFLICT (document_id) WHERE document_id IS NOT NULL DO NOTHING;
    GET DIAGNOSTICS queued = ROW_COUNT;
    SELECT queued + coalesce(sum(graphrag._queue_removals(c.id)), 0) INTO queued FROM graphrag.corpora c;
    INSERT INTO graphrag.jobs (corpus_id, kind)
    SELECT DISTINCT s.corpus_id, 'reembed' FROM graphrag.embedding_spaces s WHERE s.state <> 'active'
        ON CONFLICT DO NOTHING;
    -- Communities that nobody has found, or in what has changed since, where workers are to find them; and reports that are due.
    INSERT INTO graphrag.jobs (corpus_id, kind)
    SELECT c.id, 'communities'
      FROM graphrag.corpora c
      LEFT JOIN graphrag.community_states s ON s.corpus_id = c.id
      LEFT JOIN graphrag.corpus_revisions r ON r.corpus_id = c.id
     WHERE CASE jsonb_typeof(c.options -> 'communities')
               WHEN 'boolean' THEN (c.options -> 'communities')::boolean
               WHEN 'object' THEN coalesce((c.options #> '{communities,automatic}')::boolean, true)
               ELSE true
           END
       AND (s.revision IS NULL AND EXISTS (SELECT FROM graphrag.entities e WHERE e.corpus_id = c.id) OR r.revision >= s.revision)
        ON CONFLICT DO NOTHING;
    INSERT INTO graphrag.jobs (corpus_id, kind)
    SELECT DISTINCT c.corpus_id, 'reports' FROM graphrag.communities c WHERE c.report_due
        ON CONFLICT DO NOTHING;
    PERFORM graphrag._queue_attached(compare => true);
    FOR corpus IN SELECT c.id, c.name FROM graphrag.corpora c ORDER BY c.id LOOP
        PERFORM graphrag.rebuild_graph(corpus.name);
        -- A restored number of a transaction may come again in this cluster: sessions would take it for what they hold.
        INSERT INTO graphrag.corpus_revisions (corpus_id, revision) VALUES (corpus.id, pg_current_xact_id())
            ON CONFLICT ON CONSTRAINT corpus_revisions_pkey DO UPDATE SET revision = EXCLUDED.revision;
        INSERT INTO graphrag.jobs (corpus_id, kind) VALUES (corpus.id, 'optimize') ON CONFLICT DO NOTHING;
        graphs := graphs + 1;
    END LOOP;
    -- Last: a protected corpus is closed to readers until everything else is there.
    PERFORM graphrag._enforce(c.id, c.protection) FROM graphrag.corpora c WHERE c.protection IS NOT NULL ORDER BY c.id;
    RETURN jsonb_build_object('jobs_queued', queued, 'graphs_rebuilt', graphs);
END
$$;
COMMENT ON FUNCTION graphrag.repair() IS 'Run after a restore (pg_dump | psql, pg_restore), and after documents came past the triggers (logical replication): refills the queue from the hashes, compares attached tables with their documents, rebuilds the AGE graphs, queues the vector indexes, unfinished re-embedding, and communities and reports that are missing or not up to date, and puts the protection of corpora (protect()) in force. Returns {jobs_queued, graphs_rebuilt}.';

-- What DROP EXTENSION cannot take along, because it was made at run time or lives elsewhere: AGE graphs, pg_cron jobs, partitions, triggers.
-- With the caller's rights: a superuser or the extension's owner.
CREATE OR REPLACE FUNCTION graphrag.uninstall() RETURNS void
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
    FOR corpus_id IN SELECT c.id FROM graphrag.corpora AS c ORDER BY c.id LOOP
        PERFORM graphrag._lock_corpus(corpus_id);
        PERFORM graphrag._drop_graph(corpus_id);
    END LOOP;
    -- Triggers with our functions on tables that are not ours: attached tables.
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
          JOIN pg_class AS p ON p.oid = i.inhparent AND p.relkind = 'p' AND p.relnamespace = 'graphrag'::regnamespace
         ORDER BY i.inhrelid
    LOOP
        EXECUTE format('DROP TABLE %s', item.relation);
    END LOOP;
END
$function$;

-- What readers may read; sorts last, when everything is there. Named one by one: a new table is closed until someone thinks of it.
-- The queue and whatever holds or names secrets are not here. Functions run with the reader's own rights.

GRANT SELECT ON    graphrag.aliases TO graphrag_reader;
GRANT SELECT ON    graphrag.curated TO graphrag_reader;
GRANT SELECT ON    graphrag.graph_claims TO graphrag_reader;
GRANT SELECT ON    graphrag.entity_timeline TO graphrag_reader;
GRANT SELECT ON    graphrag.communities TO graphrag_reader;
GRANT SELECT ON    graphrag.community_members TO graphrag_reader;
GRANT SELECT ON    graphrag.community_reports TO graphrag_reader;
GRANT SELECT ON    graphrag.report_vectors TO graphrag_reader;
GRANT SELECT ON    graphrag.community_overview TO graphrag_reader;
-- Asking: models are reached through these alone. What they cost, and what others asked, is the owner's.
GRANT EXECUTE ON FUNCTION    graphrag._models(int, text, jsonb, boolean, int) TO graphrag_reader;
GRANT EXECUTE ON FUNCTION    graphrag._rerank(int, text, text[]) TO graphrag_reader;
