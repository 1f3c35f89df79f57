\echo Use "ALTER EXTENSION pg_graphrag UPDATE" to load this file. \quit
SET LOCAL search_path TO pg_catalog, pg_temp;

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

-- All tables first, in short tries: who waits for one makes all others wait, and who holds some while he waits may be ended by a
-- deadlock, or end a worker.
DO $block$
DECLARE
    former CONSTANT text := pg_catalog.current_setting('lock_timeout');
    names  CONSTANT text := (SELECT pg_catalog.string_agg(c.oid::pg_catalog.regclass::text, ', ' ORDER BY c.oid)
                               FROM pg_catalog.pg_class AS c
                               JOIN pg_catalog.pg_depend AS d ON d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid AND d.deptype = 'e'
                              WHERE c.relnamespace = 'graphrag'::pg_catalog.regnamespace AND c.relkind = 'r');
BEGIN
    FOR attempt IN 1..240 LOOP
        BEGIN
            PERFORM pg_catalog.set_config('lock_timeout', '200ms', true);
            EXECUTE pg_catalog.format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', names);
            PERFORM pg_catalog.set_config('lock_timeout', former, true);
            RETURN;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            PERFORM pg_catalog.pg_sleep(0.1 + 0.2 * pg_catalog.random());
        END;
    END LOOP;
    RAISE EXCEPTION 'others do not let go of the tables of pg_graphrag'
        USING ERRCODE = 'lock_not_available',
              HINT = 'Stop the workers, and end transactions that stay open: pg_blocking_pids() and pg_stat_activity say which. Then update again.';
END
$block$;

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

-- Refuse, before anything is made, a database this extension cannot serve.

-- A schema that was there before must be empty: what stands in it could be called in place of ours.

-- What an update finds. All else is new, and closed at the end (zz_privileges.sql).
DO $new$
BEGIN
    PERFORM pg_catalog.set_config('graphrag.objects_before', (
        SELECT coalesce(pg_catalog.array_agg(x.id), '{}')::text
          FROM pg_catalog.pg_namespace n
         CROSS JOIN LATERAL (SELECT 'relation ' || c.oid FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid
                              UNION ALL
                             SELECT 'routine ' || p.oid FROM pg_catalog.pg_proc p WHERE p.pronamespace = n.oid
                              UNION ALL
                             SELECT n.nspname) x (id)
         WHERE n.nspname IN ('graphrag', 'graphrag_attached')), true);
END
$new$;

-- It must be a superuser's, too, and closed to others, who could put something before ours, or replace it. A restore makes it first, and passes.
CREATE OR REPLACE FUNCTION graphrag._check_schema() RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    other text;
BEGIN
    SELECT r.rolname INTO other
      FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner
     WHERE n.nspname = 'graphrag' AND r.rolname <> current_user AND NOT r.rolsuper;
    IF FOUND THEN
        RAISE EXCEPTION 'schema graphrag belongs to role "%"', other
            USING ERRCODE = 'insufficient_privilege',
                  HINT = format('Drop the schema, or ALTER SCHEMA graphrag OWNER TO %I, then try again.', current_user);
    END IF;
    SELECT string_agg(coalesce(r.rolname, 'PUBLIC'), ', ' ORDER BY r.rolname) INTO other
      FROM pg_namespace n
     CROSS JOIN aclexplode(n.nspacl) a
      LEFT JOIN pg_roles r ON r.oid = a.grantee
     WHERE n.nspname = 'graphrag' AND a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner AND r.rolsuper IS NOT TRUE
       -- Default privileges on a schema that CREATE EXTENSION itself has just made end with the script (zz_privileges.sql).
       AND n.xmin <> pg_current_xact_id()::xid;
    IF other IS NOT NULL THEN
        RAISE EXCEPTION 'others may create objects in schema graphrag: %', other
            USING ERRCODE = 'insufficient_privilege', HINT = format('REVOKE CREATE ON SCHEMA graphrag FROM %s, then try again.', other);
    END IF;
END
$$;
COMMENT ON FUNCTION graphrag._check_schema() IS 'Refuses a schema that is not a superuser''s, or in which others may create';
SELECT graphrag._check_schema();

-- The type vector and its operators are named with their schema at run time. Whoever owns it could give its name to another, with a domain and
-- an operator of his own, which sessions with our rights would run. Of public that is the owner of the database.
CREATE OR REPLACE FUNCTION graphrag._check_vector() RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    home  name;
    other name;
BEGIN
    SELECT n.nspname, r.rolname INTO home, other
      FROM pg_extension v
      JOIN pg_namespace n ON n.oid = v.extnamespace
      JOIN pg_database d ON d.datname = current_database()
     CROSS JOIN unnest(ARRAY[v.extowner, CASE WHEN n.nspowner = 'pg_database_owner'::regrole THEN d.datdba ELSE n.nspowner END]) o (owner)
      JOIN pg_roles r ON r.oid = o.owner
     WHERE v.extname = 'vector' AND NOT pg_has_role(o.owner, current_user, 'MEMBER')
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the extension vector, or its schema "%", belongs to role "%"', home, other
            USING ERRCODE = 'insufficient_privilege', DETAIL = format('"%s" could put code of its own in its place, which would run as "%s".', other, current_user),
                  HINT = format('ALTER SCHEMA %1$I OWNER TO %2$I, and GRANT CREATE ON SCHEMA %1$I TO %3$I if it needs that; or ALTER EXTENSION vector SET SCHEMA to one of your own. Then try again.', home, current_user, other);
    END IF;
END
$$;
COMMENT ON FUNCTION graphrag._check_vector() IS 'Refuses the extension vector of a role, or in a schema of a role, that has not the rights of who installs';
SELECT graphrag._check_vector();

-- What every PL/Python body calls: it checks that package and extension are of one version, and turns Python errors into SQL errors.


-- The roles of the cluster that grants name. They stay when the schema goes: other databases may use them.
-- A role of that name that exists is taken only if nobody else made it more than a name, or decides who has it: nobody but
-- superusers, and, where no superuser installs (beside a database without the extension), who installs or owns the database.
CREATE OR REPLACE FUNCTION graphrag._ensure_roles() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    is_superuser boolean := (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user);
    wanted       record;
    wrong        text;
BEGIN
    -- Roles are the cluster's: another database may be making them at this moment.
    IF is_superuser THEN
        LOCK TABLE pg_catalog.pg_authid IN SHARE ROW EXCLUSIVE MODE;
    END IF;
    FOR wanted IN
        SELECT * FROM (VALUES
            (1, 'graphrag_member', '{}'::name[],              'pg_graphrag: reads the corpora that grant_corpus() gave to it'),
            (2, 'graphrag_reader', '{graphrag_member}'::name[], 'pg_graphrag: reads every corpus, and of protected ones what protect() lets it see'),
            (3, 'graphrag_writer', '{graphrag_member}'::name[], 'pg_graphrag: writes documents of the corpora that grant_corpus() gave to it')
        ) v (place, name, groups, comment) ORDER BY place
    LOOP
        IF to_regrole(wanted.name) IS NULL THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', wanted.name);
                EXECUTE format('COMMENT ON ROLE %I IS %L', wanted.name, wanted.comment);
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
                   WHEN g.others IS NOT NULL THEN format('it is a member of %s', g.others)
                   WHEN a.admins IS NOT NULL THEN format('%s may grant it (ADMIN OPTION)', a.admins)
               END INTO wrong
          FROM pg_roles r
         CROSS JOIN LATERAL (
               SELECT string_agg(quote_ident(x.rolname), ', ' ORDER BY x.rolname) AS others
                 FROM pg_auth_members m JOIN pg_roles x ON x.oid = m.roleid
                WHERE m.member = r.oid AND x.rolname <> ALL (wanted.groups)) g
         CROSS JOIN LATERAL (
               -- Who inherits from a superuser, and cannot become him, is no superuser, and has what he may grant.
               SELECT string_agg(DISTINCT quote_ident(x.rolname), ', ') AS admins
                 FROM pg_auth_members m
                 JOIN pg_roles x ON x.oid = m.member OR pg_has_role(x.oid, m.member, 'USAGE') AND NOT pg_has_role(x.oid, m.member, 'SET')
                WHERE m.roleid = r.oid AND m.admin_option AND NOT x.rolsuper
                  AND (is_superuser OR x.rolname <> current_user AND x.oid <> (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database()))) a
         WHERE r.rolname = wanted.name;
        IF wrong IS NOT NULL THEN
            RAISE EXCEPTION 'role "%" exists, and cannot be trusted: %', wanted.name, wrong
                USING ERRCODE = 'insufficient_privilege',
                      HINT = format('Have who may take that away, or DROP ROLE %I, or give it another name: ALTER ROLE %1$I RENAME TO …. Then try again.', wanted.name);
        END IF;
        IF wanted.groups <> '{}' AND NOT pg_has_role(wanted.name, wanted.groups[1], 'USAGE') THEN
            EXECUTE format('GRANT %I TO %I WITH INHERIT TRUE', wanted.groups[1], wanted.name);
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION graphrag._ensure_roles() IS 'Makes graphrag_member, graphrag_reader and graphrag_writer, or refuses those there are';
SELECT graphrag._ensure_roles();

-- A corpus is a tenant: documents, graph, vectors and statistics of one never mix with another's.

COMMENT ON COLUMN graphrag.corpora.move IS 'State of a move between databases, by pg-graphrag move: moving (it is read, not written), moved (it is elsewhere) or arriving (neither is done yet); null: none';
COMMENT ON COLUMN graphrag.corpora.needs_reindex IS 'Whether it has documents that an earlier version indexed, of which this one finds more; reindex() sets it back';

-- Whether a corpus with these options has an Apache AGE graph.
CREATE OR REPLACE FUNCTION graphrag._has_cypher(options jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
RETURN coalesce((options OPERATOR(pg_catalog.->>) 'cypher')::boolean, true);

-- Documents name their corpus, and so do policies, grants and attached tables: an UPDATE here would leave them behind.
CREATE OR REPLACE FUNCTION graphrag._corpora_renamed() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'corpus "%" cannot change its name or number', OLD.name
        USING ERRCODE = 'feature_not_supported',
              HINT = format('SELECT graphrag.clone_corpus(%L, %L) makes one of that name with the same documents; then drop_corpus(%1$L).', OLD.name, NEW.name);
END
$$;
COMMENT ON FUNCTION graphrag._corpora_renamed() IS 'Trigger of corpora: name and number stay';
CREATE OR REPLACE TRIGGER corpora_renamed BEFORE UPDATE OF id, name ON graphrag.corpora FOR EACH ROW
    WHEN ((NEW.id, NEW.name) IS DISTINCT FROM (OLD.id, OLD.name)) EXECUTE FUNCTION graphrag._corpora_renamed();

-- A corpus that moves to another database is written by nobody in its last seconds here, read by nobody once it is there, and neither
-- read nor written there before. `corpora.move` says which. Whoever moves it takes the mark off in his own transactions.

-- Says where a corpus is, by its mark.
CREATE OR REPLACE FUNCTION graphrag._say_moved(corpus text, move jsonb) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    CASE move ->> 'state'
    WHEN 'moved' THEN
        -- A node that clients follow.
        PERFORM graphrag._unknown_corpus(corpus) FROM graphrag._placed(corpus) p WHERE p.node IS NOT NULL;
        RAISE EXCEPTION 'corpus "%" is at %', corpus, move ->> 'place'
            USING ERRCODE = 'undefined_object', HINT = 'Connect to that database. What is still here of it goes with graphrag.drop_corpus().';
    WHEN 'arriving' THEN
        RAISE EXCEPTION 'corpus "%" is still arriving from %', corpus, move ->> 'place'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'It is read and written there until pg-graphrag move has ended; the command repeated goes on.';
    ELSE
        RAISE EXCEPTION 'corpus "%" is moving to %', corpus, move ->> 'place'
            USING ERRCODE = 'read_only_sql_transaction', HINT = 'It is only read for some seconds. Try again: then it is written there, or here where the move was undone.';
    END CASE;
END
$$;
COMMENT ON FUNCTION graphrag._say_moved(text, jsonb) IS 'Raises that a corpus has moved (42704), is arriving (55000) or is moving (25006), and where';

-- A restore brings the marks first, and then writes the rows: the marks are in force from repair() on.
CREATE OR REPLACE FUNCTION graphrag._move_restored() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    NEW.move := NEW.move || '{"is_restored": true}';
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION graphrag._move_restored() IS 'Trigger of corpora: the mark of a move that is restored lets the rest of the restore write';
CREATE OR REPLACE TRIGGER corpora_move_restored BEFORE INSERT ON graphrag.corpora FOR EACH ROW
    WHEN (NEW.move IS NOT NULL) EXECUTE FUNCTION graphrag._move_restored();

-- Whoever writes anything of a corpus comes here, before or after he writes: who moves it waits for those who were here, and those who
-- come later see the mark. A snapshot of before does not see it, but fails at a row that was written since (40001).
CREATE OR REPLACE FUNCTION graphrag._refuse_moved(VARIADIC corpus_ids int[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Refused at once, not behind who waits for the row.
    PERFORM graphrag._say_moved(c.name, c.move) FROM graphrag.corpora c WHERE c.id = ANY (corpus_ids) AND NOT c.move ? 'is_restored';
    IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
        -- The row that is locked may be of before the mark, which changes no key: a statement of its own sees what has come meanwhile.
        PERFORM FROM graphrag.corpora c WHERE c.id = ANY (corpus_ids) ORDER BY c.id FOR KEY SHARE;
        PERFORM graphrag._say_moved(c.name, c.move) FROM graphrag.corpora c WHERE c.id = ANY (corpus_ids) AND NOT c.move ? 'is_restored';
    ELSE
        PERFORM graphrag._lock(x.corpus_id, 'moves', true) FROM (SELECT unnest(corpus_ids) AS corpus_id ORDER BY 1) x;
    END IF;
END
$$;
COMMENT ON FUNCTION graphrag._refuse_moved(int[]) IS 'Keeps corpora here until the transaction ends, and raises where one is moving or has moved';

-- The same for what is noted beside a search or an answer, which go on.
CREATE OR REPLACE FUNCTION graphrag._may_note(corpus_id int) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM graphrag._refuse_moved(corpus_id);
    RETURN true;
EXCEPTION WHEN read_only_sql_transaction OR undefined_object OR object_not_in_prerequisite_state OR serialization_failure THEN
    RETURN false;
END
$$;
COMMENT ON FUNCTION graphrag._may_note(int) IS 'Whether what is asked of a corpus may be noted: not while it moves';

-- What decides how a corpus is read and written stays as it is while it moves.
CREATE OR REPLACE FUNCTION graphrag._corpora_moving() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM graphrag._say_moved(OLD.name, OLD.move);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._corpora_moving() IS 'Trigger of corpora: one that moves is not altered';
CREATE OR REPLACE TRIGGER corpora_moving BEFORE UPDATE ON graphrag.corpora FOR EACH ROW
    WHEN (OLD.move IS NOT NULL AND NEW.move IS NOT DISTINCT FROM OLD.move) EXECUTE FUNCTION graphrag._corpora_moving();

-- What sessions that write wait for: rows that the owner alone may lock. An advisory lock is open to every user of SQL, who could hold up
-- all workers with it, or play one.
CREATE TABLE graphrag._locks (
    corpus_id int  NOT NULL,
    kind      text NOT NULL,
    forgets   int  NOT NULL DEFAULT 0,
    CONSTRAINT _locks_pkey PRIMARY KEY (corpus_id, kind),
    CONSTRAINT _locks_kind_check CHECK (kind IN ('corpus', 'spaces', 'before spaces', 'batches', 'replies', 'bm25', 'age', 'moves'))
);
COMMENT ON TABLE graphrag._locks IS 'Rows that are locked in the order of _lock_tables(); made when they are first wanted, those of replies and moves with their corpus';
COMMENT ON COLUMN graphrag._locks.corpus_id IS 'Corpus; 0: of the whole database';
COMMENT ON COLUMN graphrag._locks.forgets IS 'Of replies: how many documents forget() has taken out of the corpus. A reply to a question of before is not kept';
COMMENT ON COLUMN graphrag._locks.kind IS 'What the lock orders: corpus (merges), spaces (writers of vectors, who share it, and swaps), before spaces (who waits for spaces), batches (of requests to models), replies (who keeps what a model said shares it, forget() has it alone), bm25 (optimize), age (closing functions of Apache AGE), moves (who writes in a snapshot of before shares it, who moves the corpus writes it)';

CREATE OR REPLACE FUNCTION graphrag._lock(corpus_id int, kind text, is_shared boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    FOR attempt IN 1..2 LOOP
        IF is_shared THEN
            PERFORM FROM graphrag._locks l WHERE l.corpus_id = _lock.corpus_id AND l.kind = _lock.kind FOR SHARE;
        ELSE
            PERFORM FROM graphrag._locks l WHERE l.corpus_id = _lock.corpus_id AND l.kind = _lock.kind FOR UPDATE;
        END IF;
        EXIT WHEN FOUND;
        INSERT INTO graphrag._locks (corpus_id, kind) VALUES (_lock.corpus_id, _lock.kind) ON CONFLICT DO NOTHING;
    END LOOP;
END
$$;
COMMENT ON FUNCTION graphrag._lock(int, text, boolean) IS 'Waits for a lock of a corpus, and holds it until the transaction ends';

-- Whoever asks shares the lock of replies in a transaction of his own, and may leave it open: did he make its row, all others who ask
-- would wait for him. So the row comes with the corpus, as does that of moves, which writers share.
CREATE OR REPLACE FUNCTION graphrag._make_locks() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO graphrag._locks (corpus_id, kind) VALUES (NEW.id, 'replies'), (NEW.id, 'moves') ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._make_locks() IS 'Trigger of corpora: makes what is shared by who asks a model, and by who writes';
CREATE OR REPLACE TRIGGER corpora_added AFTER INSERT ON graphrag.corpora FOR EACH ROW EXECUTE FUNCTION graphrag._make_locks();
ALTER TABLE graphrag.corpora ENABLE ALWAYS TRIGGER corpora_added;
INSERT INTO graphrag._locks (corpus_id, kind) SELECT c.id, k.kind FROM graphrag.corpora c, (VALUES ('replies'), ('moves')) k (kind);

-- A statement of its own reads the number: it sees what was committed while the one before it waited.
CREATE OR REPLACE FUNCTION graphrag._hold_replies(corpus_id int) RETURNS int
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM graphrag._lock(corpus_id, 'replies', true);
    RETURN (SELECT l.forgets FROM graphrag._locks l WHERE l.corpus_id = _hold_replies.corpus_id AND l.kind = 'replies');
END
$$;
COMMENT ON FUNCTION graphrag._hold_replies(int) IS 'Keeps forget() waiting until the transaction ends; returns how many documents it has taken out of the corpus';

-- Whoever asked and has not ended his transaction would hold up forget() for as long as he likes.
CREATE OR REPLACE FUNCTION graphrag._forget_replies(corpus_id int) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s'
AS $$
BEGIN
    PERFORM graphrag._lock(corpus_id, 'replies');
    UPDATE graphrag._locks l SET forgets = l.forgets + 1 WHERE l.corpus_id = _forget_replies.corpus_id AND l.kind = 'replies';
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'a transaction that asked a model is still open, and may keep what it said of the document'
        USING ERRCODE = 'lock_not_available',
              HINT = 'Call forget() again when it has ended: pg_stat_activity shows the oldest by xact_start; pg_terminate_backend() ends it. ROLLBACK PREPARED ends those of pg_prepared_xacts.';
END
$$;
COMMENT ON FUNCTION graphrag._forget_replies(int) IS 'Waits for who keeps a reply, and has no reply kept to what was asked before, once the transaction commits. 55P03 after ten seconds.';

-- Sharers do not queue for a row that others share: who waits for it alone would wait for ever under load. So all pass a gate, which he
-- holds and they let go of at once, by ending a subtransaction.
CREATE OR REPLACE FUNCTION graphrag._lock_spaces(corpus_id int, is_shared boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Before it, as in _lock_corpus(): who has documents as a whole may wait for spaces.
    LOCK TABLE graphrag.documents IN ACCESS SHARE MODE;
    PERFORM graphrag._refuse_moved(corpus_id);
    IF is_shared THEN
        BEGIN
            PERFORM graphrag._lock(corpus_id, 'before spaces', true);
            RAISE EXCEPTION USING ERRCODE = 'GR001';
        EXCEPTION WHEN SQLSTATE 'GR001' THEN
            NULL;
        END;
    ELSE
        PERFORM graphrag._lock(corpus_id, 'before spaces');
    END IF;
    PERFORM graphrag._lock(corpus_id, 'spaces', is_shared);
END
$$;
COMMENT ON FUNCTION graphrag._lock_spaces(int, boolean) IS 'Keeps the active space of a corpus until the transaction ends (shared), or waits for all who keep it (not shared)';

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

COMMENT ON TABLE graphrag.nodes IS 'Databases that have corpora, and where clients find them. Written by the owner alone, through add_node() and drop_node(); members read it.';
COMMENT ON COLUMN graphrag.nodes.name IS 'Name; the database itself says that it is this one with ALTER DATABASE … SET graphrag.node = ''…''';
COMMENT ON COLUMN graphrag.nodes.url IS 'postgresql://HOST:PORT/DATABASE, without role, password and how to connect: these are each client''s own';
COMMENT ON COLUMN graphrag.nodes.added_at IS 'When it was added';

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

COMMENT ON TABLE graphrag.placements IS 'On which node a corpus is; names of corpora are unique over all nodes. Read and written by the owner alone, through place_corpus(). A corpus that is in this database is here, whatever this says.';
COMMENT ON COLUMN graphrag.placements.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.placements.node IS 'Node that has it';
COMMENT ON COLUMN graphrag.placements.since IS 'Since when';

-- Where a corpus is that is not in this database: null where it is, where nobody says, and where this database is said to have it.
-- SECURITY DEFINER: whoever asks has the name; he is not told others. A local corpus of a name is no secret to him either (check_corpus).
CREATE OR REPLACE FUNCTION graphrag._placed(corpus text, OUT node text, OUT url text)
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
COMMENT ON FUNCTION graphrag._placed(text) IS 'Node and url of a corpus that is not in this database; null where it is, or where no node is known to have it';

-- Says that there is no such corpus in this database, and where it is. DETAIL is the url, for programs.
CREATE OR REPLACE FUNCTION graphrag._unknown_corpus(corpus text, hint text DEFAULT 'SELECT name FROM graphrag.corpora lists the corpora.') RETURNS void
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
COMMENT ON FUNCTION graphrag._unknown_corpus(text, text) IS 'Says that a corpus is not in this database, and at which node it is';

-- The tables themselves refuse who is not the owner (15_admin/owner_only.sql).
CREATE OR REPLACE FUNCTION graphrag.add_node(name text, url text) RETURNS void
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
COMMENT ON FUNCTION graphrag.add_node(text, text) IS 'Makes a database known as a node that may have corpora, or changes its url: postgresql://HOST:PORT/DATABASE, which may name several hosts. Parameters: target_session_attrs, load_balance_hosts, host, port. Owner only; 22023 for a url that names a role, a password or where one is, or how a client is to connect, and for a bad name.';

CREATE OR REPLACE FUNCTION graphrag.drop_node(name text) RETURNS void
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
COMMENT ON FUNCTION graphrag.drop_node(text) IS 'Forgets a node that no corpus is placed at. Owner only; 2BP01 where one is, 42704 when there is none of that name.';

CREATE OR REPLACE FUNCTION graphrag.place_corpus(corpus text, node text) RETURNS void
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
COMMENT ON FUNCTION graphrag.place_corpus(text, text) IS 'Notes which node has a corpus, so that whoever asks for it here is told: 42704, with the node in the message and its url in DETAIL. Node null: forgets what was noted. It moves nothing. A corpus that is in this database is here, whatever is noted. Owner only; 42704 for an unknown node, 22023 for a bad name.';

-- The owner's rights for what the package decided on. A caller cannot make a token: tokens are stored in the memory of PL/Python, which
-- no SQL user can write, just before they are used, and are good once (python/pg_graphrag/server/access/entry.py).
-- SECURITY DEFINER: what was made of documents is the owner's to read; readers get what their documents say of it.
CREATE OR REPLACE FUNCTION graphrag._enter(token text) RETURNS void
LANGUAGE plpython3u STABLE PARALLEL RESTRICTED SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
call(plpy, "0.3.0", "server.access.entry:enter", token)
$$;
COMMENT ON FUNCTION graphrag._enter(text) IS 'Does the work that waits under a one-time token of the package, reading in the snapshot of the calling statement. 42501 for anything else.';

-- As _enter, and SECURITY DEFINER for the same reason: for what writes the cache of models, accounts and the query log.
CREATE OR REPLACE FUNCTION graphrag._enter_writing(token text) RETURNS void
LANGUAGE plpython3u VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
call(plpy, "0.3.0", "server.access.entry:enter", token)
$$;
COMMENT ON FUNCTION graphrag._enter_writing(text) IS 'As _enter(), for work that writes';

-- Likewise, but with the caller's own rights: for functions that write, whose statements otherwise each have a snapshot of their own.
CREATE OR REPLACE FUNCTION graphrag._at_one_snapshot(token text) RETURNS void
LANGUAGE plpython3u STABLE PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
call(plpy, "0.3.0", "server.access.entry:enter", token)
$$;
COMMENT ON FUNCTION graphrag._at_one_snapshot(text) IS 'As _enter(), with the rights of the caller';

-- Code that reading a relation would run, and that must not get the session's rights. A view, policy or index expression can take SET ROLE
-- and SET SESSION AUTHORIZATION back, and so act as who logged in. Therefore a superuser's session, one with the owner's rights, and one
-- whose role is not its login's read only what belongs to roles that have the rights of both. Null: nothing.
CREATE OR REPLACE FUNCTION graphrag._foreign_code(relation regclass) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF graphrag_attached._login() = current_user AND NOT pg_has_role((SELECT c.relowner FROM pg_class c WHERE c.oid = 'graphrag.corpora'::regclass), 'MEMBER') THEN
        RETURN NULL;
    END IF;
    RETURN graphrag_attached._code_of_others(relation);
END
$$;
COMMENT ON FUNCTION graphrag._foreign_code(regclass) IS 'What a read of a relation would run that is not to have the rights of the session or of the caller; null: nothing';

CREATE OR REPLACE FUNCTION graphrag._refuse_foreign_code(relation regclass) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    foreign_code text := graphrag._foreign_code(relation);
BEGIN
    IF foreign_code IS NOT NULL THEN
        RAISE EXCEPTION '% is not read by a session of "%" as "%"', relation, graphrag_attached._login(), current_user
            USING ERRCODE = 'insufficient_privilege', DETAIL = format('What it runs could take the rights of both: %s.', foreign_code),
                  HINT = 'Log in as an ordinary role that may read it, without SET ROLE and SECURITY DEFINER; or let relation and schema belong to a role that has the rights of both, such as a superuser.';
    END IF;
END
$$;
COMMENT ON FUNCTION graphrag._refuse_foreign_code(regclass) IS 'Refuses a relation whose code would get rights that its owners have not';

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
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
call(plpy, "0.3.0", "llm.endpoints.providers:set_provider", name, kind, base_url, api_key_env, api_key_file, options)
$$;
COMMENT ON FUNCTION graphrag.set_provider(text, text, text, text, text, jsonb) IS 'Makes or replaces an endpoint. kind: openai (chat, embeddings) or rerank. base_url: for example https://api.openai.com/v1. The key is read from an environment variable or a file of the server when a call is made, and kept nowhere. options: concurrency (8), requests_per_minute, tokens_per_minute, timeout (120 s), stream_idle (60 s: an answer of ask_stream() of which nothing is fetched for so long ends and frees its place) and stream_seconds (600 s: so does one that is open for so long), streams_per_role (4 open at once in all sessions; the owner has no such limit), price_input and price_output (per million tokens), batch (false: true sends what workers ask through the endpoint''s batch API), batch_price (0.5 of the price), batch_requests (10000 per batch), batch_endpoint (what its requests ask for: /v1/chat/completions), json (schema, object, none), shape (rerank: cohere, tei), auth (bearer, api-key), chat_request and embedding_request (fields to add), headers, query. The server''s proxy variables (HTTPS_PROXY, NO_PROXY) hold, but not for endpoints on its own machine; redirects are not followed. Owner only; 42501 for others, 22023 for a bad value.';

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

CREATE OR REPLACE FUNCTION graphrag.check_provider(
    provider text DEFAULT NULL,
    model    text DEFAULT NULL,
    corpus   text DEFAULT 'default'
) RETURNS TABLE (provider_name text, model_name text, subject text, ok boolean, value double precision, detail text, hint text)
LANGUAGE plpython3u VOLATILE COST 100000 ROWS 10 SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "llm.endpoints.check_provider:check_provider", provider, model, corpus)
$$;
COMMENT ON FUNCTION graphrag.check_provider(text, text, text) IS 'Tries, once each, what a model at an endpoint can do; without arguments, each model that a corpus uses, and without model, those that it uses of a provider. A row for each subject: endpoint (is it there, and has it the model), chat (value: tokens a second), streaming (seconds to the first words), output limit (tokens written of 64), JSON (whether the provider''s option json is what it can do), context (tokens read of a prompt of some 6,000: fewer are a prompt that was cut, or a context that is too short), embedding (dimensions), rerank (by how much a text that answers is before another). ok is null where it cannot be told; hint says what to do. The prompts cost some 6,500 tokens a model, on the account and within the budget of the corpus, and some seconds; at most 20 s each, 45 s for the long prompt, and 3 minutes in all. Owner only; 42501 for others, 42704 for an unknown provider or corpus, 55000 when the corpus uses no model at an endpoint.';

-- Answers of models that were read completely: the same prompt costs nothing the second time.

COMMENT ON COLUMN graphrag.llm_cache.purpose IS 'Role that asked: extract, keywords, relevance, summary, report, vision, answer';

-- Who asked first and has not ended his transaction would keep waiting whoever asks the same. What he has not committed is left to him.
CREATE OR REPLACE FUNCTION graphrag._keep_replies(corpus_id int, keys text[], purposes text[], models text[], replies text[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms'
AS $$
DECLARE
    places int[] := ARRAY[0];
BEGIN
    -- All at once; where somebody has one of them, each by itself.
    FOR attempt IN 1..2 LOOP
        FOR i IN 1..cardinality(places) LOOP
            BEGIN
                INSERT INTO graphrag.llm_cache (corpus_id, key, purpose, model, reply)
                SELECT _keep_replies.corpus_id, u.key, u.purpose, u.model, u.reply
                  FROM unnest(keys, purposes, models, replies) WITH ORDINALITY AS u (key, purpose, model, reply, place)
                 WHERE places[i] IN (0, u.place)
                    ON CONFLICT ON CONSTRAINT llm_cache_pkey DO UPDATE
                   SET purpose = excluded.purpose, model = excluded.model, reply = excluded.reply, created_at = excluded.created_at;
                IF attempt = 1 THEN
                    RETURN;
                END IF;
            EXCEPTION WHEN lock_not_available THEN
                NULL;
            END;
        END LOOP;
        places := ARRAY(SELECT generate_subscripts(keys, 1));
        PERFORM set_config('lock_timeout', '1ms', true);
    END LOOP;
END
$$;
COMMENT ON FUNCTION graphrag._keep_replies(int, text[], text[], text[], text[]) IS 'Keeps what models said, in the order of the keys; but for what another transaction keeps that is still open';

-- Every request to a provider, also those that failed.

COMMENT ON COLUMN graphrag.llm_calls.purpose IS 'Role: extract, keywords, relevance, summary, report, vision, answer; or embedding, rerank, check';
COMMENT ON COLUMN graphrag.llm_calls.role IS 'Role that asked, current_user at the call; of workers the role that logged in; null: of a version that did not note it';

-- Batches at endpoints. A row is there before the endpoint hears of the batch, and its mark goes with it: no batch is made twice.


-- Requests on their way through a batch, and answers that nobody has read yet: who asks reads them with its own parser.

COMMENT ON COLUMN graphrag.llm_batch_requests.temperature IS 'Temperature; higher where an answer could not be used';
COMMENT ON COLUMN graphrag.llm_batch_requests.max_tokens IS 'The limit of the answer';
COMMENT ON COLUMN graphrag.llm_batch_requests.state IS 'unsent, sent (in a batch), answered (nobody has read it yet), spoiled (the answer could not be used; another request is sent in its place)';
COMMENT ON COLUMN graphrag.llm_batch_requests.error IS 'What the endpoint found wrong';

-- What models cost and how often they were asked: for the owner and those who watch (pg_monitor), with the owner's rights.
CREATE OR REPLACE VIEW graphrag.llm_usage AS
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

COMMENT ON COLUMN graphrag.llm_usage.purpose IS 'Role: extract, keywords, relevance, summary, report, vision, answer; or embedding, rerank, check';

-- What a meter of python/pg_graphrag/llm/endpoints/meters.py shows.
CREATE OR REPLACE FUNCTION graphrag._metered(corpus_id int, role name DEFAULT NULL) RETURNS double precision
LANGUAGE plpython3u STABLE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "llm.endpoints.meters:metered", corpus_id, role)
$$;
COMMENT ON FUNCTION graphrag._metered(int, name) IS 'What a corpus, or one role of it, has spent this month (UTC), whatever became of the transactions; null: nothing is known';

CREATE OR REPLACE VIEW graphrag.llm_usage_by_role AS
SELECT c.name AS corpus,
       l.role::text COLLATE "default"              AS role,
       pg_catalog.date_trunc('month', l.at, 'UTC') AS month,
       pg_catalog.count(*)                         AS calls,
       pg_catalog.sum(l.tokens_in)::bigint         AS tokens_in,
       pg_catalog.sum(l.tokens_out)::bigint        AS tokens_out,
       pg_catalog.sum(l.cost)                      AS cost,
       pg_catalog.count(l.error)                   AS failures,
       pg_catalog.max(l.at)                        AS last_call,
       CASE WHEN pg_catalog.date_trunc('month', l.at, 'UTC') = pg_catalog.date_trunc('month', pg_catalog.now(), 'UTC')
            THEN graphrag._metered(c.id, l.role) END AS metered
  FROM graphrag.llm_calls l
  JOIN graphrag.corpora c ON c.id = l.corpus_id
 GROUP BY c.name, c.id, l.role, 3;

COMMENT ON VIEW graphrag.llm_usage_by_role IS 'Who spent what: requests to models by corpus, role and month';
COMMENT ON COLUMN graphrag.llm_usage_by_role.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.llm_usage_by_role.role IS 'Role that asked; of workers the role that logged in; null: not noted then';
COMMENT ON COLUMN graphrag.llm_usage_by_role.month IS 'Begin of the month (UTC)';
COMMENT ON COLUMN graphrag.llm_usage_by_role.calls IS 'Requests';
COMMENT ON COLUMN graphrag.llm_usage_by_role.tokens_in IS 'Tokens of prompts';
COMMENT ON COLUMN graphrag.llm_usage_by_role.tokens_out IS 'Tokens of answers';
COMMENT ON COLUMN graphrag.llm_usage_by_role.cost IS 'By the providers'' prices at the time';
COMMENT ON COLUMN graphrag.llm_usage_by_role.failures IS 'Requests whose answer could not be used, or that had none';
COMMENT ON COLUMN graphrag.llm_usage_by_role.last_call IS 'Time the last was written down';
COMMENT ON COLUMN graphrag.llm_usage_by_role.metered IS 'What the role''s limit goes by, in this month: also what transactions that were rolled back spent; null for earlier months and for workers';

CREATE OR REPLACE VIEW graphrag.budgets AS
SELECT b.corpus,
       b.budget,
       b.spent,
       CASE WHEN b.budget IS NULL THEN 'unlimited' WHEN greatest(b.spent, b.metered) >= b.budget THEN 'reached' ELSE 'open' END AS state,
       b.metered
  FROM (SELECT c.name AS corpus,
               (c.options #>> '{llm,monthly_budget}')::numeric AS budget,
               coalesce((SELECT pg_catalog.sum(l.cost) FROM graphrag.llm_calls l
                          WHERE l.corpus_id = c.id AND l.at >= pg_catalog.date_trunc('month', pg_catalog.now(), 'UTC')), 0) AS spent,
               graphrag._metered(c.id)::numeric AS metered
          FROM graphrag.corpora c) b;

COMMENT ON VIEW graphrag.budgets IS 'What each corpus may spend in this calendar month, and has spent (UTC)';
COMMENT ON COLUMN graphrag.budgets.spent IS 'Cost of this month''s calls, as llm_calls has them';
COMMENT ON COLUMN graphrag.budgets.metered IS 'The same with what is under way and what transactions that were rolled back spent; null: nothing is known. The budget goes by the greater of both';

-- Documents as users write them. Everything else in the schema is derived from these rows.

COMMENT ON COLUMN graphrag.documents.metadata IS 'Anything the application wants to filter by: search(filter => …) reads this column';
COMMENT ON COLUMN graphrag.documents.valid_from IS 'Start of validity: as_of (an option of search, context and ask) finds no document before it; null: no bound';
COMMENT ON COLUMN graphrag.documents.valid_to IS 'End of validity: as_of finds no document from then on; null: no bound';
COMMENT ON COLUMN graphrag.documents.status IS 'pending (text or graph are still to come), indexed, failed (see failed_jobs), or retracted';
COMMENT ON COLUMN graphrag.documents.content_hash IS 'SHA-256 (hex) of title and content, and of what its pictures say; set by trigger';
COMMENT ON COLUMN graphrag.documents.indexed_hash IS 'content_hash of the version whose chunks the index holds, which can be found; null: it holds nothing of this row';
COMMENT ON COLUMN graphrag.documents.indexed_at IS 'Time the current content was indexed, text and graph; null: a part is still to come';

-- What tells versions of a document apart. STABLE as convert_to() is: else it is not inlined, and called for each row.
CREATE OR REPLACE FUNCTION graphrag._content_hash(title text, content text, pictures_hash text DEFAULT NULL) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(coalesce(title, '') || E'\n' || content || coalesce(E'\n' || pictures_hash, ''), 'UTF8')), 'hex');
END;

-- Whether a document is a row of an attached table: its mentions are made of its metadata, too.
CREATE OR REPLACE FUNCTION graphrag._is_row(attached_id int) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN attached_id IS NOT NULL
       AND EXISTS (SELECT FROM graphrag._attached_tables a WHERE a.id = _is_row.attached_id AND a.kind <> 'documents');
END
$$;

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
        -- The foreign key would wait for who drops the corpus too, and then fail without a hint. In other levels a lock fails where the
        -- corpus was altered since the snapshot.
        IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
            SELECT c.id INTO NEW.corpus_id FROM graphrag.corpora c WHERE c.name = NEW.corpus AND (c.move IS NULL OR c.move ? 'is_restored') FOR KEY SHARE;
        ELSE
            SELECT c.id INTO NEW.corpus_id FROM graphrag.corpora c WHERE c.name = NEW.corpus AND (c.move IS NULL OR c.move ? 'is_restored');
        END IF;
        IF NEW.corpus_id IS NULL THEN
            -- Before ON CONFLICT, which would tell of a key that arrives.
            PERFORM graphrag._say_moved(c.name, c.move) FROM graphrag.corpora c WHERE c.name = NEW.corpus AND c.move IS NOT NULL;
            IF NEW.corpus IS DISTINCT FROM 'default' OR (SELECT p.node FROM graphrag._placed(NEW.corpus) p) IS NOT NULL THEN
                PERFORM graphrag._unknown_corpus(NEW.corpus, format('Create it with SELECT graphrag.create_corpus(%L);', NEW.corpus));
            END IF;
            NEW.corpus_id := graphrag._default_corpus();
        END IF;
    END IF;
    -- An indexed_hash that is taken away, or another content_hash, asks for a new look: content that came past this trigger has an old hash.
    IF TG_OP = 'INSERT' OR (NEW.title, NEW.content, NEW.pictures_hash) IS DISTINCT FROM (OLD.title, OLD.content, OLD.pictures_hash)
       OR (NEW.indexed_hash IS NULL AND OLD.indexed_hash IS NOT NULL) OR NEW.content_hash IS DISTINCT FROM OLD.content_hash THEN
        NEW.content_hash := graphrag._content_hash(NEW.title, NEW.content, NEW.pictures_hash);
    ELSE
        NEW.content_hash := OLD.content_hash;
    END IF;
    NEW.source_key := coalesce(NEW.source_key, NEW.content_hash);
    -- The check says the same of rows that come past this trigger, without a way out.
    IF jsonb_typeof(NEW.metadata) <> 'object' THEN
        RAISE EXCEPTION 'metadata of document "%" cannot be %', left(NEW.source_key, 200), left(NEW.metadata::text, 100)
            USING ERRCODE = 'check_violation', HINT = 'Give an object, such as {"version": 17}; a list may be the value of one of its names.',
                  SCHEMA = 'graphrag', TABLE = 'documents', CONSTRAINT = 'documents_metadata_check';
    END IF;
    IF NEW.retracted_at IS NOT NULL THEN
        -- Nothing of it is found from now on, whatever was at work on it; a worker removes what was made of it.
        NEW.indexed_hash := NULL;
        NEW.indexed_at := NULL;
        NEW.status := 'retracted';
        NEW.error := NULL;
        RETURN NEW;
    END IF;
    -- The source key decides ties and is shown in the graph, so a new one is new work.
    IF NEW.indexed_hash IS DISTINCT FROM NEW.content_hash
       OR TG_OP = 'UPDATE' AND (NEW.source_key <> OLD.source_key
                                OR (NEW.metadata, NEW.attached_id) IS DISTINCT FROM (OLD.metadata, OLD.attached_id) AND graphrag._is_row(NEW.attached_id)) THEN
        NEW.indexed_at := NULL;
    END IF;
    IF NEW.indexed_at IS NOT NULL THEN
        NEW.status := 'indexed';
    ELSIF NEW.status IN ('indexed', 'retracted') OR TG_OP = 'INSERT' OR NEW.content_hash <> OLD.content_hash THEN
        NEW.status := 'pending';
        NEW.error := NULL;
    END IF;
    RETURN NEW;
END
$$;

-- Rows that a subscription applies pass the other triggers. Their corpus is the one that they name: its number at the publisher may be
-- another corpus' here, one that more may read. What the publisher has indexed is not what is indexed here: taken for it, former text
-- would be shown by the permission of the new, and chunks of a deleted document as those of another under its number.
-- SECURITY DEFINER: who applies rows as himself may not read what is made of documents.
CREATE OR REPLACE FUNCTION graphrag._documents_replicated() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    NEW.pictures_hash := graphrag._pictures_hash(NEW.id);
    NEW.content_hash := graphrag._content_hash(NEW.title, NEW.content, NEW.pictures_hash);
    IF TG_OP = 'UPDATE' THEN
        IF (NEW.id, NEW.corpus) IS DISTINCT FROM (OLD.id, OLD.corpus) THEN
            RAISE EXCEPTION 'document % cannot change its id or corpus', OLD.id
                USING ERRCODE = 'feature_not_supported', HINT = 'Delete the document and insert it into the other corpus.';
        END IF;
        NEW.corpus_id := OLD.corpus_id;
        NEW.indexed_hash := CASE WHEN NEW.retracted_at IS NULL THEN OLD.indexed_hash END;
        -- As above.
        NEW.indexed_at := CASE WHEN NEW.retracted_at IS NULL AND (NEW.content_hash, NEW.source_key) = (OLD.content_hash, OLD.source_key) THEN OLD.indexed_at END;
        NEW.status := CASE WHEN NEW.retracted_at IS NOT NULL THEN 'retracted'
                           WHEN NEW.indexed_at IS NULL AND (OLD.status IN ('indexed', 'retracted') OR NEW.content_hash <> OLD.content_hash) THEN 'pending'
                           ELSE OLD.status END;
        NEW.error := CASE WHEN NEW.status = OLD.status THEN OLD.error END;
        RETURN NEW;
    END IF;
    SELECT c.id INTO NEW.corpus_id FROM graphrag.corpora c WHERE c.name = NEW.corpus;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a replicated document is of corpus "%", which does not exist here', NEW.corpus
            USING ERRCODE = 'undefined_object', HINT = format('Create it with SELECT graphrag.create_corpus(%L); the subscription goes on by itself.', NEW.corpus);
    END IF;
    -- A restore that leaves triggers out brings what is indexed, and the chunks after the documents.
    IF EXISTS (SELECT FROM graphrag.chunks c WHERE c.document_id = NEW.id) THEN
        NEW.indexed_hash := NULL;
        NEW.indexed_at := NULL;
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION graphrag._documents_replicated() IS 'Trigger of documents that replication applies: corpus, hash, and what is indexed here';

-- What the triggers of statements do, for rows that replication applies: it fires none of those but for TRUNCATE.
-- SECURITY DEFINER: who applies rows may not write the queue.
CREATE OR REPLACE FUNCTION graphrag._documents_applied() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    is_due boolean;
BEGIN
    PERFORM graphrag._refuse_moved(CASE TG_OP WHEN 'DELETE' THEN OLD.corpus_id ELSE NEW.corpus_id END);
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO graphrag._document_counts (corpus_id, status, is_searchable, count)
        VALUES (OLD.corpus_id, OLD.status, coalesce(OLD.indexed_hash = OLD.content_hash, false), -1);
    END IF;
    IF TG_OP = 'DELETE' THEN
        PERFORM graphrag._void_documents(ARRAY[OLD.id]);
        RETURN NULL;
    END IF;
    INSERT INTO graphrag._document_counts (corpus_id, status, is_searchable, count)
    VALUES (NEW.corpus_id, NEW.status, coalesce(NEW.indexed_hash = NEW.content_hash, false), 1);
    is_due := NEW.indexed_at IS NULL AND NEW.retracted_at IS NULL;
    IF TG_OP = 'UPDATE' THEN
        is_due := is_due AND (OLD.indexed_at IS NOT NULL OR OLD.retracted_at IS NOT NULL
                              OR (NEW.content_hash, NEW.source_key) <> (OLD.content_hash, OLD.source_key));
        IF NEW.retracted_at IS NOT NULL AND OLD.retracted_at IS NULL THEN
            PERFORM graphrag._requeue_jobs('remove', ARRAY[NEW.corpus_id], ARRAY[NEW.id]);
        END IF;
    END IF;
    IF is_due THEN
        PERFORM graphrag._requeue_jobs('index', ARRAY[NEW.corpus_id], ARRAY[NEW.id]);
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._documents_applied() IS 'Trigger of documents that replication applies: queues and counts them';

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

-- After each statement: queue what is due. New content supersedes whatever was queued, leased or failed for the document.
-- SECURITY DEFINER: the queue is not the application's to write.
CREATE OR REPLACE FUNCTION graphrag._documents_inserted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM graphrag._refuse_moved(VARIADIC array_agg(DISTINCT d.corpus_id)) FROM inserted d;
    PERFORM graphrag._requeue_jobs('index', array_agg(d.corpus_id), array_agg(d.id)) FROM inserted d
      WHERE d.indexed_at IS NULL AND d.retracted_at IS NULL;
    RETURN NULL;
END
$$;

-- No nested loops: the plan that a session keeps was made for few rows, and 10,000 would take 40 s.
CREATE OR REPLACE FUNCTION graphrag._documents_updated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_nestloop = off
AS $$
DECLARE
    rewritten_ids bigint[];
BEGIN
    PERFORM graphrag._refuse_moved(VARIADIC array_agg(DISTINCT n.corpus_id)) FROM updated_new n;
    PERFORM graphrag._requeue_jobs('index', array_agg(n.corpus_id), array_agg(n.id))
       FROM updated_new n
       JOIN updated_old o USING (id)
      WHERE n.indexed_at IS NULL AND n.retracted_at IS NULL
        AND (o.indexed_at IS NOT NULL OR n.content_hash <> o.content_hash OR n.source_key <> o.source_key
             OR n.indexed_hash IS NULL AND o.indexed_hash IS NOT NULL OR o.retracted_at IS NOT NULL
             OR (n.metadata, n.attached_id) IS DISTINCT FROM (o.metadata, o.attached_id) AND graphrag._is_row(n.attached_id));
    PERFORM graphrag._requeue_jobs('remove', array_agg(n.corpus_id), array_agg(n.id))
       FROM updated_new n
       JOIN updated_old o USING (id)
      WHERE n.retracted_at IS NOT NULL AND o.retracted_at IS NULL;
    -- Pictures are of the content that they came with.
    SELECT array_agg(n.id) INTO rewritten_ids
      FROM updated_new n
      JOIN updated_old o USING (id)
     WHERE n.pictures_hash IS NOT NULL AND n.content <> o.content;
    IF rewritten_ids IS NOT NULL THEN
        DELETE FROM graphrag.pictures p WHERE p.document_id = ANY (rewritten_ids);
    END IF;
    RETURN NULL;
END
$$;

-- Of what was never indexed there is nothing to remove, and no search has to look past it: what waits for it is void. A worker that
-- writes a document has locked it, so this comes after what that has written.
CREATE OR REPLACE FUNCTION graphrag._void_documents(ids bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
BEGIN
    DELETE FROM graphrag.jobs j WHERE j.chunks IS NULL AND j.document_id = ANY (ids);
    DELETE FROM graphrag.imported_extractions i WHERE i.document_id = ANY (ids);
    DELETE FROM graphrag.pictures p WHERE p.document_id = ANY (ids);
    PERFORM graphrag._requeue_jobs('remove', array_agg(c.corpus_id), array_agg(c.document_id))
       FROM (SELECT DISTINCT k.corpus_id, k.document_id FROM graphrag.chunks k WHERE k.document_id = ANY (ids)) c;
END
$$;

CREATE OR REPLACE FUNCTION graphrag._documents_deleted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM graphrag._refuse_moved(VARIADIC array_agg(DISTINCT d.corpus_id)) FROM deleted d;
    PERFORM graphrag._void_documents((SELECT array_agg(d.id) FROM deleted d));
    RETURN NULL;
END
$$;

-- TRUNCATE has no transition table, and in a transaction with an old snapshot it takes more documents than this sees: a worker
-- looks at what is left of them. Whatever waits is void.
CREATE OR REPLACE FUNCTION graphrag._documents_truncated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM graphrag._refuse_moved(VARIADIC array_agg(c.id)) FROM graphrag.corpora c;
    DELETE FROM graphrag.jobs WHERE document_id IS NOT NULL;
    DELETE FROM graphrag.imported_extractions;
    TRUNCATE graphrag.pictures;
    PERFORM graphrag._requeue_jobs('sweep', array_agg(c.id)) FROM graphrag.corpora c;
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER documents_before BEFORE INSERT OR UPDATE ON graphrag.documents
    FOR EACH ROW EXECUTE FUNCTION graphrag._documents_before();
CREATE OR REPLACE TRIGGER documents_replicated BEFORE INSERT OR UPDATE ON graphrag.documents
    FOR EACH ROW EXECUTE FUNCTION graphrag._documents_replicated();
ALTER TABLE graphrag.documents ENABLE REPLICA TRIGGER documents_replicated;
CREATE OR REPLACE TRIGGER documents_applied AFTER INSERT OR UPDATE OR DELETE ON graphrag.documents
    FOR EACH ROW EXECUTE FUNCTION graphrag._documents_applied();
ALTER TABLE graphrag.documents ENABLE REPLICA TRIGGER documents_applied;
CREATE OR REPLACE TRIGGER documents_inserted AFTER INSERT ON graphrag.documents REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._documents_inserted();
CREATE OR REPLACE TRIGGER documents_updated AFTER UPDATE ON graphrag.documents REFERENCING OLD TABLE AS updated_old NEW TABLE AS updated_new
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._documents_updated();
CREATE OR REPLACE TRIGGER documents_deleted AFTER DELETE ON graphrag.documents REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._documents_deleted();
CREATE OR REPLACE TRIGGER documents_truncated AFTER TRUNCATE ON graphrag.documents
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._documents_truncated();
ALTER TABLE graphrag.documents ENABLE ALWAYS TRIGGER documents_truncated;

-- Whether the caller may use a corpus at all: a limited role those it was given, who may not SELECT documents none. With corpus_id null:
-- whether he may use every one. Row-level security is not asked: while nothing is given or protected it is off. (Not a standard body: what
-- it names comes later.)
CREATE OR REPLACE FUNCTION graphrag._may_use(corpus_id int) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT has_table_privilege('graphrag.documents', 'SELECT') THEN
        RETURN false;
    ELSIF pg_has_role('graphrag_reader', 'USAGE')
       OR NOT pg_has_role('graphrag_member', 'USAGE')
       OR pg_has_role((SELECT c.relowner FROM pg_class c WHERE c.oid = 'graphrag.documents'::regclass), 'USAGE')
       OR (SELECT r.rolbypassrls FROM pg_roles r WHERE r.rolname = current_user) THEN
        RETURN true;
    END IF;
    -- By itself: where restrict_nonsystem_relation_kind hides views, workers do not name one.
    RETURN EXISTS (SELECT FROM graphrag.granted_corpora g WHERE g.corpus_id = _may_use.corpus_id);
END
$$;
COMMENT ON FUNCTION graphrag._may_use(int) IS 'Whether the caller was given a corpus, or needs not to be; with corpus_id null, whether he needs not to be';

-- Whether the caller sees every document there is. The one rule for it: views, functions and the package ask here.
CREATE OR REPLACE FUNCTION graphrag._sees_all() RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN NOT row_security_active('graphrag.documents') AND graphrag._may_use(NULL);
END
$$;
COMMENT ON FUNCTION graphrag._sees_all() IS 'Whether the caller sees all documents: no row-level security holds for him, and no corpus need be given to him';

-- Whether the caller sees all documents of a corpus. Cheap: it reads the catalog, no document. A corpus is seen whole by who sees all,
-- or where of the policies only ours concern the corpus, they open it to him, and he may read all rows that are attached to it.
CREATE OR REPLACE FUNCTION graphrag._reads_whole(corpus_id int) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF graphrag._sees_all() THEN
        RETURN true;
    END IF;
    RETURN NOT EXISTS (SELECT FROM pg_policy p
                        WHERE p.polrelid = 'graphrag.documents'::regclass
                          AND (p.polname = 'graphrag_protection_' || corpus_id
                               OR p.polname !~ '^graphrag_protection_[0-9]+$'
                                  AND p.polname NOT IN (SELECT d.name FROM graphrag._document_policies() d)))
       AND EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = 'graphrag.documents'::regclass AND p.polname = 'graphrag_grants')
       AND graphrag._may_use(corpus_id)
       AND graphrag_attached._reads_rows(corpus_id);
END
$$;
COMMENT ON FUNCTION graphrag._reads_whole(int) IS 'Whether no policy narrows what the caller sees of a corpus';

-- Which corpora the caller sees whole, by their numbers. For the views: (SELECT graphrag._whole_corpora())[corpus_id] is run once in a
-- statement, and the planner takes a subscript to cost nothing. So it comes first at every scan: EXPLAIN ANALYZE, which counts rows
-- and shows which sub-selects were run, tells nothing of how a condition of the caller's did on rows that he may not see.
CREATE OR REPLACE FUNCTION graphrag._whole_corpora() RETURNS boolean[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT array_agg(c.id IS NOT NULL AND graphrag._reads_whole(n) ORDER BY n)
              FROM generate_series(1, (SELECT max(m.id) FROM graphrag.corpora m)) n
              LEFT JOIN graphrag.corpora c ON c.id = n);
END
$$;
COMMENT ON FUNCTION graphrag._whole_corpora() IS 'Whether the caller sees the corpus of each number whole';

-- The documents whose evidence the caller may see: those that row-level security shows him and, with indexed_only, whose current
-- content is what the index holds. An earlier version may say what the current row no longer permits to be read.
-- SECURITY INVOKER: policies are the caller's. Who may not SELECT documents has none, and no error: his views are empty.
CREATE OR REPLACE FUNCTION graphrag.visible_documents(indexed_only boolean DEFAULT true) RETURNS SETOF bigint
LANGUAGE plpgsql STABLE ROWS 1000 PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp SET gin_fuzzy_search_limit = 0
AS $$
BEGIN
    IF has_table_privilege('graphrag.documents', 'SELECT') THEN
        RETURN QUERY SELECT d.id FROM graphrag.documents d WHERE NOT indexed_only OR d.indexed_hash = d.content_hash;
    END IF;
END
$$;
COMMENT ON FUNCTION graphrag.visible_documents(boolean) IS 'Numbers of the documents that row-level security shows the caller; indexed_only: those whose current content is indexed. What the views show is made of these.';

-- Tables of the application that feed a corpus. Names are kept beside the oid, which a restore changes.
SELECT pg_catalog.pg_extension_config_dump('graphrag._attached_tables', '');

COMMENT ON TABLE graphrag._attached_tables IS 'Tables that attach_table(), attach_entities() and attach_relationships() made a source of documents';
COMMENT ON COLUMN graphrag._attached_tables.id IS 'Number of the attachment; the argument of the triggers on the table';
COMMENT ON COLUMN graphrag._attached_tables.corpus_id IS 'Corpus the rows go to';
COMMENT ON COLUMN graphrag._attached_tables.relation IS 'The table, as last seen; stale after a restore or DROP TABLE';
COMMENT ON COLUMN graphrag._attached_tables.schema_name IS 'Its schema, as last seen';
COMMENT ON COLUMN graphrag._attached_tables.table_name IS 'Its name, as last seen';
COMMENT ON COLUMN graphrag._attached_tables.content_columns IS 'Columns that become documents.content, joined by a blank line; nulls are left out';
COMMENT ON COLUMN graphrag._attached_tables.title_column IS 'Column that becomes documents.title';
COMMENT ON COLUMN graphrag._attached_tables.metadata_columns IS 'Columns that become documents.metadata';
COMMENT ON COLUMN graphrag._attached_tables.attached_at IS 'Time of attach_table()';
COMMENT ON COLUMN graphrag._attached_tables.needs_grant IS 'Whether the table''s owner must be allowed to write the corpus; false: the extension''s owner attached it';
COMMENT ON COLUMN graphrag._attached_tables.key_columns IS 'Columns that become documents.source_key, several of them joined by "/"';
COMMENT ON COLUMN graphrag._attached_tables.key_prefix IS 'What stands before them in documents.source_key';
COMMENT ON COLUMN graphrag._attached_tables.metadata_keys IS 'Fields of documents.metadata, one for each of metadata_columns: their names when they were attached';
COMMENT ON COLUMN graphrag._attached_tables.where_column IS 'Boolean column that says which rows are documents; null: all are';
COMMENT ON COLUMN graphrag._attached_tables.valid_from_column IS 'Column that becomes documents.valid_from';
COMMENT ON COLUMN graphrag._attached_tables.valid_to_column IS 'Column that becomes documents.valid_to';
COMMENT ON COLUMN graphrag._attached_tables.kind IS 'documents (attach_table), entities (attach_entities: each row is one), relationships (attach_relationships: each row of a join table is one)';
COMMENT ON COLUMN graphrag._attached_tables.entity_type IS 'Type of the rows'' entities; null: rows are none';
COMMENT ON COLUMN graphrag._attached_tables.name_is_unique IS 'Whether a unique index was on the name (title_column) when it was attached: a row is the entity of its name';
COMMENT ON COLUMN graphrag._attached_tables.is_referenced IS 'Whether relationships lead to rows of the table';
COMMENT ON COLUMN graphrag._attached_tables.alias_columns IS 'Columns with further names of the row';
COMMENT ON COLUMN graphrag._attached_tables.reference_columns IS 'Columns that name rows of other tables, one reference after the other';
COMMENT ON COLUMN graphrag._attached_tables.reference_types IS 'Type of the relationship of each reference; of a join table the first is the source of its relationships, called from';
COMMENT ON COLUMN graphrag._attached_tables.reference_prefixes IS 'What stands before the key of the other row, of each reference';
COMMENT ON COLUMN graphrag._attached_tables.reference_widths IS 'How many of reference_columns each reference takes';
COMMENT ON COLUMN graphrag._attached_tables.reference_by_name IS 'Whether the key of the other row is its name, of each reference: then it is mentioned by that';

-- The table of each attachment as it was last seen in this cluster: its columns by number, so that a rename is followed. Not dumped:
-- a restore numbers columns anew, and a table that was never seen here was not dropped here.
CREATE TABLE graphrag._attached_seen (
    attached_id int    NOT NULL,
    relation    oid    NOT NULL,
    owner       oid    NOT NULL,
    names       name[] NOT NULL,
    numbers     int2[] NOT NULL,
    types       oid[]  NOT NULL,
    partitions  oid[]  NOT NULL,
    labels      text[] NOT NULL,
    CONSTRAINT attached_seen_pkey PRIMARY KEY (attached_id)
);
COMMENT ON TABLE graphrag._attached_seen IS 'Attached tables as they were last seen here';
COMMENT ON COLUMN graphrag._attached_seen.attached_id IS 'Number of the attachment';
COMMENT ON COLUMN graphrag._attached_seen.relation IS 'The table';
COMMENT ON COLUMN graphrag._attached_seen.owner IS 'Its owner';
COMMENT ON COLUMN graphrag._attached_seen.names IS 'Names of the columns that the attachment reads';
COMMENT ON COLUMN graphrag._attached_seen.numbers IS 'Their numbers (pg_attribute.attnum)';
COMMENT ON COLUMN graphrag._attached_seen.types IS 'Their types (pg_attribute.atttypid)';
COMMENT ON COLUMN graphrag._attached_seen.partitions IS 'Partitions of the table, of every level, in order';
COMMENT ON COLUMN graphrag._attached_seen.labels IS 'Values of enumerations among their types, each with its number (pg_enum.oid), in order: a value may be renamed without a row being written';

-- Why documents of an attached table do not follow it. Rows are added and no row is changed: the application's transactions write them,
-- and at any isolation level an INSERT without a key waits for nobody and fails for nobody. A pass through the table ends them.
-- Not dumped: a restore is followed by a pass.
CREATE TABLE graphrag._attached_faults (
    attached_id int         NOT NULL,
    at          timestamptz NOT NULL DEFAULT now(),
    error_code  text        NOT NULL,
    message     text        NOT NULL,
    hint        text,
    needs_pass  boolean     NOT NULL
);
CREATE INDEX attached_faults_attached_id_idx ON graphrag._attached_faults (attached_id);
COMMENT ON TABLE graphrag._attached_faults IS 'What kept documents of attached tables from following their rows';
COMMENT ON COLUMN graphrag._attached_faults.attached_id IS 'Number of the attachment';
COMMENT ON COLUMN graphrag._attached_faults.at IS 'Time of the statement that was not followed';
COMMENT ON COLUMN graphrag._attached_faults.error_code IS 'SQLSTATE';
COMMENT ON COLUMN graphrag._attached_faults.message IS 'What was wrong; it may quote a row';
COMMENT ON COLUMN graphrag._attached_faults.hint IS 'What to do';
COMMENT ON COLUMN graphrag._attached_faults.needs_pass IS 'Whether a statement was not followed, which a pass through the table makes good; false: rows that can be no documents';

-- Which documents come from which table: they alone follow its deletes and TRUNCATE. No foreign key: detaching a large
-- table must not rewrite its documents; a number that is in _attached_tables no more is history, and is never used again.
COMMENT ON COLUMN graphrag.documents.attached_id IS 'Number of the attachment of the table the document comes from; null: written here';

-- Reading a table plans its index expressions, predicates and statistics: code of whoever owns it. So nothing of ours reads an
-- attached table unless whoever owns it, and the code, has the reader's rights anyway. What reads it is a trigger function of
-- the attachment that the table's owner owns, or the owner's own session. What they need lies in this schema, which anyone may
-- use: it holds no data, and its functions run with the rights of who calls them and see the catalog alone.
CREATE SCHEMA graphrag_attached;
COMMENT ON SCHEMA graphrag_attached IS 'pg_graphrag: what the owners of attached tables run; not to be called by hand';

-- The table of an attachment: the relation that carries its triggers, by oid or, after a restore, by name. So a rename
-- works, and a trigger of somebody's own making cannot feed the corpus. Null when the table is gone.
CREATE OR REPLACE FUNCTION graphrag_attached._relation(attached graphrag._attached_tables) RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT t.tgrelid
              FROM pg_trigger t
              JOIN pg_proc p ON p.oid = t.tgfoid
             WHERE t.tgrelid IN (attached.relation, (SELECT c.oid
                                                       FROM pg_class c
                                                       JOIN pg_namespace n ON n.oid = c.relnamespace
                                                      WHERE n.nspname = attached.schema_name AND c.relname = attached.table_name))
               AND p.proname = '_changed_' || attached.id AND p.pronamespace = 'graphrag_attached'::regnamespace
             ORDER BY t.tgrelid <> attached.relation
             LIMIT 1);
END
$$;

-- What columns are called now: by number, so that a rename changes nothing; by name where the number is not known (after a restore) or
-- the column is gone (another may have its name). One that is neither keeps its name.
CREATE OR REPLACE FUNCTION graphrag_attached._names(columns name[], relation oid, seen_names name[], seen_numbers int2[]) RETURNS name[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT coalesce(array_agg(coalesce(a.attname, u.name) ORDER BY u.n), '{}')
              FROM unnest(columns) WITH ORDINALITY u (name, n)
              LEFT JOIN unnest(seen_names, seen_numbers) s (name, number) ON s.name = u.name
              LEFT JOIN pg_attribute a ON a.attrelid = relation AND a.attnum = s.number AND NOT a.attisdropped);
END
$$;

-- Attachments with their tables, as these are now.
-- OFFSET 0: a condition on what the catalog does not tell everybody meets no attachment of others; EXPLAIN ANALYZE would count them.
CREATE OR REPLACE VIEW graphrag._attachments AS
SELECT a.id, s.corpus, c.oid AS relation, c.relowner AS owner, n.nspname AS schema_name, c.relname AS table_name,
       s.key_columns, s.content_columns, s.title_column, s.metadata_columns, s.metadata_keys, s.key_prefix, s.where_column,
       s.valid_from_column, s.valid_to_column,
       s.kind, s.entity_type, s.name_is_unique, s.alias_columns, s.reference_columns, s.reference_types, s.reference_prefixes, s.reference_widths, s.reference_by_name
  FROM graphrag._attached_tables a
  JOIN pg_catalog.pg_class c ON c.oid = graphrag_attached._relation(a)
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 CROSS JOIN LATERAL (
       SELECT k.name AS corpus, a.metadata_keys, a.key_prefix,
              graphrag_attached._names(a.key_columns, c.oid, w.names, w.numbers) AS key_columns,
              graphrag_attached._names(a.content_columns, c.oid, w.names, w.numbers) AS content_columns,
              graphrag_attached._names(a.metadata_columns, c.oid, w.names, w.numbers) AS metadata_columns,
              x.names[1] AS title_column, x.names[2] AS where_column, x.names[3] AS valid_from_column, x.names[4] AS valid_to_column,
              a.kind, a.entity_type, a.name_is_unique,
              graphrag_attached._names(a.alias_columns, c.oid, w.names, w.numbers) AS alias_columns,
              graphrag_attached._names(a.reference_columns, c.oid, w.names, w.numbers) AS reference_columns,
              a.reference_types, a.reference_prefixes, a.reference_widths, a.reference_by_name
         FROM graphrag.corpora k
         LEFT JOIN graphrag._attached_seen w ON w.attached_id = a.id AND w.relation = c.oid
        CROSS JOIN LATERAL graphrag_attached._names(ARRAY[a.title_column, a.where_column, a.valid_from_column, a.valid_to_column],
                                                    c.oid, w.names, w.numbers) x (names)
        WHERE k.id = a.corpus_id
       OFFSET 0) s;
COMMENT ON VIEW graphrag._attachments IS 'Attachments whose tables are there, by the names that tables and columns have now';

-- Those of tables that the caller owns. With the rights of the extension's owner on what it shows.
CREATE OR REPLACE VIEW graphrag_attached._attachments WITH (security_barrier = true) AS
SELECT v.* FROM graphrag._attachments v WHERE pg_catalog.pg_has_role(current_user, v.owner, 'USAGE');

-- Tables under a table, of every level: partitions, and what inherits.
CREATE OR REPLACE FUNCTION graphrag_attached._under(source oid) RETURNS oid[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN ARRAY(
        WITH RECURSIVE tables (id) AS (
            SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = source
             UNION
            SELECT i.inhrelid FROM tables t JOIN pg_inherits i ON i.inhparent = t.id
        )
        SELECT t.id FROM tables t ORDER BY t.id);
END
$$;

-- A table and those above it.
CREATE OR REPLACE FUNCTION graphrag_attached._above(source oid) RETURNS oid[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN ARRAY(
        WITH RECURSIVE tables (id) AS (
            SELECT source
             UNION
            SELECT i.inhparent FROM tables t JOIN pg_inherits i ON i.inhrelid = t.id
        )
        SELECT t.id FROM tables t);
END
$$;

-- Whose code a role would run that reads the table: the table and its partitions, and the functions of index keys and predicates,
-- constraints, statistics, partition keys, operators and operator classes. `changed`: the snapshot of this transaction is older
-- than what it shows of it, or does not show it at all; currtid2() looks with a new one.
CREATE OR REPLACE FUNCTION graphrag_attached._owners(source oid) RETURNS TABLE (class oid, id oid, owner oid, changed boolean)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    is_older boolean := current_setting('transaction_isolation') IN ('repeatable read', 'serializable');
    named oid[] := CASE WHEN is_older THEN graphrag_attached._schemas(source) END;
BEGIN
    RETURN QUERY
        WITH tables (id) AS (
            SELECT unnest(source || graphrag_attached._under(source))
        ), parts (class, id) AS (
            SELECT 'pg_class'::regclass, t.id FROM tables t
             UNION ALL
            SELECT 'pg_class'::regclass, i.indexrelid FROM tables t JOIN pg_index i ON i.indrelid = t.id
             UNION ALL
            SELECT 'pg_constraint'::regclass, c.oid FROM tables t JOIN pg_constraint c ON c.conrelid = t.id
             UNION ALL
            SELECT 'pg_statistic_ext'::regclass, s.oid FROM tables t JOIN pg_statistic_ext s ON s.stxrelid = t.id
        ), used (class, id) AS (
            SELECT d.refclassid, d.refobjid
              FROM parts p
              JOIN pg_depend d ON d.classid = p.class AND d.objid = p.id
             WHERE d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_opclass'::regclass)
        ), families (id) AS (
            SELECT c.opcfamily FROM used u JOIN pg_opclass c ON c.oid = u.id WHERE u.class = 'pg_opclass'::regclass
        ), operators (id) AS (
            SELECT u.id FROM used u WHERE u.class = 'pg_operator'::regclass
             UNION
            SELECT m.amopopr FROM families f JOIN pg_amop m ON m.amopfamily = f.id
        ), functions (id) AS (
            SELECT u.id FROM used u WHERE u.class = 'pg_proc'::regclass
             UNION
            SELECT o.oprcode::oid FROM operators p JOIN pg_operator o ON o.oid = p.id
             UNION
            SELECT m.amproc::oid FROM families f JOIN pg_amproc m ON m.amprocfamily = f.id
        )
        SELECT 'pg_class'::regclass::oid, c.oid, c.relowner, is_older AND currtid2('pg_class', c.ctid) <> c.ctid
          FROM tables t JOIN pg_class c ON c.oid = t.id
         UNION ALL
        SELECT 'pg_proc'::regclass::oid, p.oid, p.proowner, is_older AND currtid2('pg_proc', p.ctid) <> p.ctid
          FROM functions f JOIN pg_proc p ON p.oid = f.id
         UNION ALL
        SELECT 'pg_namespace'::regclass::oid, n.oid, n.nspowner, currtid2('pg_namespace', n.ctid) <> n.ctid
          FROM pg_namespace n
         WHERE n.oid = ANY (named)
         UNION ALL
        SELECT 'pg_class'::regclass::oid, p.relid::oid, NULL::oid, true
          FROM pg_partition_tree(source) p
         WHERE is_older AND p.relid NOT IN (SELECT t.id FROM tables t);
END
$$;

-- Schemas that SQL on an attached table names: of the table, of its columns' types, of the operators of its indexes.
CREATE OR REPLACE FUNCTION graphrag_attached._schemas(source oid) RETURNS oid[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN ARRAY(
        WITH RECURSIVE types (id) AS (
            SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = source AND a.attnum > 0 AND NOT a.attisdropped
             UNION
            SELECT y.typbasetype FROM types t JOIN pg_type y ON y.oid = t.id WHERE y.typtype = 'd'
        )
        SELECT c.relnamespace FROM pg_class c WHERE c.oid = source
         UNION
        SELECT y.typnamespace FROM types t JOIN pg_type y ON y.oid = t.id
         UNION
        SELECT o.oprnamespace
          FROM pg_index i
         CROSS JOIN unnest(i.indclass::oid[]) u (opclass)
          JOIN pg_opclass c ON c.oid = u.opclass
          JOIN pg_amop m ON m.amopfamily = c.opcfamily AND m.amoplefttype = c.opcintype AND m.amoprighttype = c.opcintype
          JOIN pg_operator o ON o.oid = m.amopopr
         WHERE i.indrelid = source);
END
$$;

-- Those of them whose owner has not the reader's rights, and could put something else under a name that the reader is about to use.
CREATE OR REPLACE FUNCTION graphrag_attached._foreign_schemas(source oid, reader oid) RETURNS oid[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    named oid[] := graphrag_attached._schemas(source);
BEGIN
    RETURN ARRAY(
        SELECT n.oid
          FROM pg_namespace n
          JOIN pg_database d ON d.datname = current_database()
         WHERE n.oid = ANY (named)
           AND NOT pg_has_role(CASE WHEN n.nspowner = 'pg_database_owner'::regrole THEN d.datdba ELSE n.nspowner END, reader, 'USAGE')
         ORDER BY n.oid);
END
$$;

-- Who else's code a role would run that reads the table: whose table, partition, function or schema it is; null: nobody's.
-- Whoever has the reader's rights anyway is nobody else. Schemas count for superusers and the extension's owner alone: they take
-- no risk in the background. For others they are held while they are named (_hold_schemas).
CREATE OR REPLACE FUNCTION graphrag_attached._foreign_code(source oid, reader oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    schemas oid[] := CASE WHEN graphrag_attached._is_privileged(reader) THEN graphrag_attached._foreign_schemas(source, reader) END;
BEGIN
    RETURN (
        SELECT min(format('%s of role "%s"', pg_describe_object(f.class, f.id, 0), pg_get_userbyid(f.owner)))
          FROM (SELECT o.class, o.id, o.owner
                  FROM graphrag_attached._owners(source) o
                 WHERE o.class <> 'pg_namespace'::regclass AND NOT pg_has_role(o.owner, reader, 'USAGE')
                 UNION ALL
                SELECT 'pg_namespace'::regclass, n.oid, CASE WHEN n.nspowner = 'pg_database_owner'::regrole THEN d.datdba ELSE n.nspowner END
                  FROM pg_namespace n
                  JOIN pg_database d ON d.datname = current_database()
                 WHERE n.oid = ANY (schemas)) f);
END
$$;

-- Superusers, and who can act as the extension's owner.
CREATE OR REPLACE FUNCTION graphrag_attached._is_privileged(reader oid) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT r.rolsuper OR pg_has_role(reader, e.extowner, 'MEMBER')
              FROM pg_roles r, pg_extension e WHERE r.oid = reader AND e.extname = 'pg_graphrag');
END
$$;

-- Type of a column, domains looked through. `trusted`: made by a superuser, so that nobody else can have put code of his
-- own into its casts and operators.
-- (PL/pgSQL throughout: it keeps plans, and every statement on an attached table comes here.)
CREATE OR REPLACE FUNCTION graphrag_attached._type(relation oid, column_name name, OUT base oid, OUT is_domain boolean, OUT trusted boolean)
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
          FROM pg_type y JOIN pg_roles o ON o.oid = y.typowner WHERE y.oid = base;
        EXIT WHEN t.typtype IS DISTINCT FROM 'd';
        base := t.typbasetype;
        is_domain := true;
    END LOOP;
    trusted := t.typtype <> 'c' AND t.rolsuper;
    IF trusted AND t.typcategory = 'A' THEN
        SELECT y.typtype NOT IN ('c', 'd') AND o.rolsuper INTO trusted
          FROM pg_type y JOIN pg_roles o ON o.oid = y.typowner WHERE y.oid = t.typelem;
    END IF;
END
$$;

-- SQL for the value of a column of row r without its domain, and for its text. Casts of untrusted types are never called:
-- concat() calls the type's output function only.
CREATE OR REPLACE FUNCTION graphrag_attached._value(relation oid, column_name name, OUT value text, OUT as_text text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t record := graphrag_attached._type(relation, column_name);
BEGIN
    IF NOT t.trusted THEN
        value := format('CASE WHEN NOT r.%1$I IS NULL THEN concat(r.%1$I) COLLATE "C" END', column_name);
        as_text := value;
    ELSE
        value := format(CASE WHEN t.is_domain THEN 'r.%I::%s' ELSE 'r.%I' END, column_name, format_type(t.base, -1));
        as_text := value || '::text COLLATE "C"';
        IF t.base IN ('json'::regtype, 'json[]'::regtype) THEN
            value := format('graphrag_attached._as_jsonb(to_json(%s), %s)', value, as_text);
        END IF;
    END IF;
END
$$;

-- SQL for the text of a column by which rows are named and found, the same of equal values: a foreign key may have 1 where the key has 1.00.
CREATE OR REPLACE FUNCTION graphrag_attached._key_text(relation oid, column_name name) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v record := graphrag_attached._value(relation, column_name);
BEGIN
    RETURN CASE WHEN (graphrag_attached._type(relation, column_name)).base = 'numeric'::regtype THEN format('trim_scale(%s)::text COLLATE "C"', v.value)
           ELSE v.as_text END;
END
$$;

-- Whether a column is an array whose elements can be read one by one.
CREATE OR REPLACE FUNCTION graphrag_attached._is_list(relation oid, column_name name) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t record := graphrag_attached._type(relation, column_name);
BEGIN
    RETURN t.trusted AND (SELECT y.typcategory = 'A' FROM pg_type y WHERE y.oid = t.base);
END
$$;

-- A json as jsonb; as its text where jsonb has no place for it (\u0000, half of a surrogate pair, a number or a depth beyond its limits).
CREATE OR REPLACE FUNCTION graphrag_attached._as_jsonb(value json, as_text text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN value::jsonb;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN to_jsonb(as_text);
END
$$;

-- SQL for a column of dates as a timestamp: a day after the last one is the end of time. Null for no column.
CREATE OR REPLACE FUNCTION graphrag_attached._moment(relation oid, column_name name) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    moment text;
BEGIN
    IF column_name IS NULL THEN
        RETURN 'NULL::timestamptz';
    END IF;
    moment := (graphrag_attached._value(relation, column_name)).value;
    IF (graphrag_attached._type(relation, column_name)).base = 'date'::regtype THEN
        moment := format('CASE WHEN %1$s > ''294276-12-30''::date THEN ''infinity'' ELSE %1$s END', moment);
    END IF;
    RETURN moment || '::timestamptz';
END
$$;

-- The unique index that makes a column a key: of this column alone or, on a partitioned table, led by it and completed by
-- columns of the partition key, without which no index there can be unique. Null when there is none.
CREATE OR REPLACE FUNCTION graphrag_attached._key_index(relation oid, column_name name) RETURNS oid
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

-- The unique index of the key: of one column as above; of several, of exactly these in any order, each NOT NULL. Null when there is none.
CREATE OR REPLACE FUNCTION graphrag_attached._keys_index(relation oid, column_names name[]) RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF cardinality(column_names) = 1 THEN
        RETURN graphrag_attached._key_index(relation, column_names[1]);
    END IF;
    RETURN (SELECT i.indexrelid
      FROM pg_index i
     WHERE i.indrelid = relation AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
       AND i.indnkeyatts = cardinality(column_names)
       AND i.indnkeyatts = (SELECT count(*) FROM pg_attribute a
                             WHERE a.attrelid = relation AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
                               AND a.attnotnull AND a.attname = ANY (column_names))
     ORDER BY i.indisprimary DESC, i.indexrelid
     LIMIT 1);
END
$$;

-- The source key of several key values: joined by "/"; what is "/" or "\" in a value has a "\" before it.
CREATE OR REPLACE FUNCTION graphrag_attached._joined(key_values text[]) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
    SELECT pg_catalog.string_agg(pg_catalog.replace(pg_catalog.replace(u.value, '\', '\\'), '/', '\/'), '/' ORDER BY u.n)
      FROM pg_catalog.unnest(key_values) WITH ORDINALITY u (value, n);
END;

-- The values that _joined() made the key of.
CREATE OR REPLACE FUNCTION graphrag_attached._split(source_key text) RETURNS text[]
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
    SELECT pg_catalog.array_agg(pg_catalog.regexp_replace(m.match[1], '\\(.)', '\1', 'g') ORDER BY m.n)
      FROM pg_catalog.regexp_matches(source_key || '/', '((?:[^\\/]|\\.)*)/', 'g') WITH ORDINALITY m (match, n);
END;

-- SQL for the values of the key columns, as text, of what `source_key` is SQL for.
CREATE OR REPLACE FUNCTION graphrag_attached._parsed(key_prefix text, count int, source_key text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    rest text := CASE key_prefix WHEN '' THEN source_key
                 ELSE format('CASE WHEN starts_with(%1$s, %2$L) THEN substr(%1$s, %3$s) END', source_key, key_prefix, length(key_prefix) + 1) END;
BEGIN
    RETURN CASE count WHEN 1 THEN ARRAY[rest]
           ELSE ARRAY(SELECT format('(graphrag_attached._split(%s))[%s]', rest, n) FROM generate_series(1, count) n) END;
END
$$;

-- Refuses an attachment that cannot be followed: 42703 where a column is gone, 42804 where one has a type that it cannot have, 55000
-- where the key is no longer one.
CREATE OR REPLACE FUNCTION graphrag_attached._check_columns(a graphrag_attached._attachments) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    source text := format('%I.%I', a.schema_name, a.table_name);
    wrong text;
BEGIN
    SELECT string_agg(format('"%s"', u.name), ', ' ORDER BY u.name) INTO wrong
      FROM (SELECT DISTINCT x.name
              FROM unnest(ARRAY[a.title_column, a.where_column, a.valid_from_column, a.valid_to_column]
                          || graphrag_attached._listed_columns(a)) x (name)) u
     WHERE u.name IS NOT NULL AND (graphrag_attached._type(a.relation, u.name)).base IS NULL;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'table % is attached to corpus "%" by columns it no longer has: %', source, a.corpus, wrong
            USING ERRCODE = 'undefined_column',
                  HINT = format('SELECT graphrag.detach_table(%L, %L); then attach it again with the columns it has. Unchanged documents are not indexed anew.',
                                source, a.corpus);
    END IF;
    SELECT string_agg(format('"%s" (%s)', u.name, format_type(y.oid, NULL)), ', ' ORDER BY u.name) INTO wrong
      FROM (SELECT a.where_column AS name, ARRAY['bool'::regtype] AS types
             UNION ALL
            SELECT x.name, ARRAY['date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype]
              FROM unnest(ARRAY[a.valid_from_column, a.valid_to_column]) x (name)
             UNION ALL
            SELECT x.name, NULL FROM unnest(a.content_columns || a.alias_columns || a.title_column) x (name)) u
     CROSS JOIN LATERAL (SELECT (graphrag_attached._type(a.relation, u.name)).base AS oid) y
     WHERE u.name IS NOT NULL AND CASE WHEN u.types IS NULL THEN y.oid = 'bytea'::regtype ELSE y.oid <> ALL (u.types::oid[]) END;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'table % cannot be attached to corpus "%" by the types of these columns: %', source, a.corpus, wrong
            USING ERRCODE = 'datatype_mismatch',
                  HINT = 'Text must not be bytea (of text kept as bytes make a column GENERATED ALWAYS AS (convert_from(…, ''UTF8'')) STORED), '
                         'the column of "where" must be boolean, those of "valid_from" and "valid_to" date or timestamp.';
    END IF;
    IF graphrag_attached._keys_index(a.relation, a.key_columns) IS NULL
       OR EXISTS (SELECT FROM unnest(a.key_columns) u (name) WHERE NOT (graphrag_attached._type(a.relation, u.name)).trusted) THEN
        RAISE EXCEPTION 'column % is no longer a key of table %, by which it is attached to corpus "%"',
                (SELECT string_agg(format('"%s"', u.name), ', ' ORDER BY u.n) FROM unnest(a.key_columns) WITH ORDINALITY u (name, n)), source, a.corpus
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Make a unique index on it and make it NOT NULL, or detach the table with graphrag.detach_table().';
    END IF;
    IF a.name_is_unique AND NOT graphrag_attached._is_unique(a.relation, a.title_column) THEN
        RAISE EXCEPTION 'column "%" of table % is no longer unique, so that it names no entity of corpus "%"', a.title_column, source, a.corpus
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Make a unique index on it, or detach the table with graphrag.detach_table() and attach it again.';
    END IF;
END
$$;

-- Columns of an attachment, but for those that stand alone.
CREATE OR REPLACE FUNCTION graphrag_attached._listed_columns(a graphrag_attached._attachments) RETURNS name[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN a.key_columns || a.content_columns || a.metadata_columns || a.alias_columns || a.reference_columns;
END
$$;

-- Whether no two rows have one value of a column.
CREATE OR REPLACE FUNCTION graphrag_attached._is_unique(relation oid, column_name name) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pg_index i
                     JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
                    WHERE i.indrelid = relation AND a.attname = column_name AND i.indisunique AND i.indisvalid
                      AND i.indnkeyatts = 1 AND i.indpred IS NULL AND i.indexprs IS NULL);
END
$$;

-- What is needed to read an attached table: its name, and SQL for keys and documents of its row r. `key_values` are those of the key
-- columns without their domains: an operator made for the domain is not the key's. `key_text` is the source key. `condition` says which
-- rows are documents.
CREATE OR REPLACE FUNCTION graphrag_attached._source(a graphrag_attached._attachments,
    OUT source text, OUT condition text, OUT key_prefix text, OUT key_values text[], OUT key_types text[], OUT key_text text,
    OUT equals text[], OUT less text[], OUT greater text[], OUT at_least text[], OUT document text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM graphrag_attached._check_columns(a);
    source := format('%I.%I', a.schema_name, a.table_name);
    SELECT array_agg(o.equals ORDER BY u.n), array_agg(o.less ORDER BY u.n), array_agg(o.greater ORDER BY u.n), array_agg(o.at_least ORDER BY u.n)
      INTO equals, less, greater, at_least
      FROM unnest(a.key_columns) WITH ORDINALITY u (name, n)
      JOIN pg_attribute t ON t.attrelid = a.relation AND t.attname = u.name
      JOIN pg_index i ON i.indexrelid = graphrag_attached._keys_index(a.relation, a.key_columns)
      JOIN LATERAL unnest(i.indkey::int2[], i.indclass::oid[]) k (number, class) ON k.number = t.attnum AND k.class IS NOT NULL
     CROSS JOIN LATERAL (
           SELECT min(format('OPERATOR(%I.%s)', n.nspname, o.oprname)) FILTER (WHERE m.amopstrategy = 1) AS less,
                  min(format('OPERATOR(%I.%s)', n.nspname, o.oprname)) FILTER (WHERE m.amopstrategy = 3) AS equals,
                  min(format('OPERATOR(%I.%s)', n.nspname, o.oprname)) FILTER (WHERE m.amopstrategy = 5) AS greater,
                  min(format('OPERATOR(%I.%s)', n.nspname, o.oprname)) FILTER (WHERE m.amopstrategy = 4) AS at_least
             FROM pg_opclass c
             JOIN pg_amop m ON m.amopfamily = c.opcfamily AND m.amoplefttype = c.opcintype AND m.amoprighttype = c.opcintype
             JOIN pg_operator o ON o.oid = m.amopopr
             JOIN pg_namespace n ON n.oid = o.oprnamespace
            WHERE c.oid = k.class) o;
    SELECT array_agg(v.value ORDER BY u.n), array_agg(format_type((graphrag_attached._type(a.relation, u.name)).base, -1) ORDER BY u.n),
           CASE WHEN count(*) = 1 THEN min(k.text) ELSE format('graphrag_attached._joined(ARRAY[%s])', string_agg(k.text, ', ' ORDER BY u.n)) END
      INTO key_values, key_types, key_text
      FROM unnest(a.key_columns) WITH ORDINALITY u (name, n)
     CROSS JOIN LATERAL graphrag_attached._value(a.relation, u.name) v
     CROSS JOIN LATERAL (SELECT CASE a.kind WHEN 'documents' THEN v.as_text ELSE graphrag_attached._key_text(a.relation, u.name) END AS text) k;
    key_prefix := a.key_prefix;
    IF key_prefix <> '' THEN
        key_text := format('(%L || %s)', key_prefix, key_text);
    END IF;
    condition := coalesce('r.' || quote_ident(a.where_column) || ' IS TRUE', 'true');
    IF a.kind <> 'documents' THEN
        document := graphrag_attached._row_document(a, key_text);
        RETURN;
    END IF;
    document := format(
        '%1$s AS source_key, %2$s AS title, array_to_string(ARRAY[%3$s], E''\n\n'') AS content, %4$s AS metadata,'
        ' %5$s AS valid_from, %6$s AS valid_to',
        key_text,
        CASE WHEN a.title_column IS NULL THEN 'NULL::text' ELSE (graphrag_attached._value(a.relation, a.title_column)).as_text END,
        (SELECT string_agg((graphrag_attached._value(a.relation, u.name)).as_text, ', ' ORDER BY u.n)
           FROM unnest(a.content_columns) WITH ORDINALITY u (name, n)),
        coalesce((SELECT format('(SELECT to_jsonb(m.*) FROM (SELECT %s) m)',
                                string_agg(format('%s AS %I', (graphrag_attached._value(a.relation, u.name)).value, u.field), ', ' ORDER BY u.n))
                    FROM unnest(a.metadata_columns, a.metadata_keys) WITH ORDINALITY u (name, field, n) HAVING count(*) > 0), '''{}''::jsonb'),
        graphrag_attached._moment(a.relation, a.valid_from_column),
        graphrag_attached._moment(a.relation, a.valid_to_column));
END
$$;

-- SQL for the document of a row that is an entity or a relationship. Its content is a line "name: value" for everything that it says, then
-- its texts; its metadata have the same values by these names. The package makes its mentions of both (index/indexing/attached_rows.py).
CREATE OR REPLACE FUNCTION graphrag_attached._row_document(a graphrag_attached._attachments, key_text text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text := CASE a.kind WHEN 'entities' THEN format('coalesce(nullif(btrim(%s), ''''), %s)', (graphrag_attached._value(a.relation, a.title_column)).as_text, key_text)
                 ELSE 'NULL::text' END;
    -- A line has no line ends.
    line text := $line$CASE WHEN %2$s IS NOT NULL THEN %1$L || translate(%2$s, E'\n\r\f', '   ') END$line$;
    lines text[] := CASE a.kind WHEN 'entities' THEN ARRAY[format(line, a.entity_type || ': ', name)] ELSE '{}' END;
    fields text[] := '{}';
    texts text[] := '{}';
    place int := 1;
    reference text;
    item record;
BEGIN
    FOR i IN 1..cardinality(a.reference_types) LOOP
        -- Null where one of its columns is.
        SELECT CASE WHEN count(*) = 1 THEN min(k.text)
                    ELSE format('CASE WHEN num_nulls(%1$s) = 0 THEN graphrag_attached._joined(ARRAY[%1$s]) END', string_agg(k.text, ', ' ORDER BY u.n)) END
          INTO reference
          FROM unnest(a.reference_columns[place:place + a.reference_widths[i] - 1]) WITH ORDINALITY u (name, n)
         CROSS JOIN LATERAL graphrag_attached._key_text(a.relation, u.name) k (text);
        place := place + a.reference_widths[i];
        -- A name says more than a key with the name of its table before it.
        lines := lines || format(line, a.reference_types[i] || ': ',
                                 CASE WHEN a.reference_by_name[i] THEN reference ELSE format('(%L || %s)', a.reference_prefixes[i], reference) END);
        fields := fields || format('(%L, to_jsonb(%L || %s))', a.reference_types[i], a.reference_prefixes[i], reference);
    END LOOP;
    FOR item IN SELECT v.*, graphrag_attached._is_list(a.relation, u.name) AS is_list
                  FROM unnest(a.alias_columns) WITH ORDINALITY u (name, n), graphrag_attached._value(a.relation, u.name) v ORDER BY u.n LOOP
        IF item.is_list THEN
            lines := lines || format($list$(SELECT string_agg(%s, E'\n' ORDER BY u.n) FROM unnest((%s)::text[]) WITH ORDINALITY u (name, n) WHERE btrim(u.name) <> '')$list$,
                                     format(line, 'alias: ', 'u.name'), item.value);
            texts := texts || format($list$ARRAY(SELECT btrim(u.name) FROM unnest((%s)::text[]) WITH ORDINALITY u (name, n) WHERE btrim(u.name) <> '' ORDER BY u.n)$list$,
                                     item.value);
        ELSE
            lines := lines || format(line, 'alias: ', item.as_text);
            texts := texts || format($field$ARRAY[nullif(btrim(%s), '')]$field$, item.as_text);
        END IF;
    END LOOP;
    IF texts <> '{}' THEN
        fields := fields || format($field$('aliases', nullif(to_jsonb(array_remove(%s, NULL)), '[]'))$field$, array_to_string(texts, ' || '));
    END IF;
    FOR item IN SELECT u.field, v.* FROM unnest(a.metadata_columns, a.metadata_keys) WITH ORDINALITY u (name, field, n), graphrag_attached._value(a.relation, u.name) v
                 ORDER BY u.n LOOP
        lines := lines || format(line, item.field || ': ', item.as_text);
        fields := fields || format('(%L, to_jsonb(%s))', item.field, item.value);
    END LOOP;
    texts := ARRAY[format($text$array_to_string(ARRAY[%s]::text[], E'\n')$text$, array_to_string(lines, ', '))]
             || ARRAY(SELECT v.as_text FROM unnest(a.content_columns) WITH ORDINALITY u (name, n), graphrag_attached._value(a.relation, u.name) v ORDER BY u.n);
    RETURN format($document$%s AS source_key, %s AS title, array_to_string(ARRAY[%s], E'\n\n') AS content, %s AS metadata,
                  %s AS valid_from, %s AS valid_to$document$,
                  key_text, name, array_to_string(texts, ', '),
                  CASE WHEN fields = '{}' THEN '''{}''::jsonb'
                       ELSE format($fields$(SELECT coalesce(jsonb_object_agg(f.name, f.value), '{}') FROM (VALUES %s) f (name, value) WHERE f.value IS NOT NULL)$fields$,
                                   array_to_string(fields, ', ')) END,
                  graphrag_attached._moment(a.relation, a.valid_from_column),
                  graphrag_attached._moment(a.relation, a.valid_to_column));
END
$$;

-- Whether a document is a row that has no texts: its lines alone.
CREATE OR REPLACE FUNCTION graphrag._is_lines(attached_id int, content text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN strpos(content, E'\n\n') = 0
       AND EXISTS (SELECT FROM graphrag._attached_tables a WHERE a.id = attached_id AND a.kind <> 'documents');
COMMENT ON FUNCTION graphrag._is_lines(int, text) IS 'Whether a document is a row of an attached table that has no texts';

-- SQL that compares the key of row r with other values, one for each key column.
CREATE OR REPLACE FUNCTION graphrag_attached._has_key(s record, others text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT string_agg(format('%s %s %s', u.value, u.equals, u.other), ' AND ' ORDER BY u.n)
              FROM unnest(s.key_values, s.equals, others) WITH ORDINALITY u (value, equals, other, n));
END
$$;

-- SQL for values of the key columns under the names k1, k2, …
CREATE OR REPLACE FUNCTION graphrag_attached._as_keys(key_values text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT string_agg(format('%s AS k%s', u.value, u.n), ', ' ORDER BY u.n) FROM unnest(key_values) WITH ORDINALITY u (value, n));
END
$$;

-- These names, of a row that is called `alias`.
CREATE OR REPLACE FUNCTION graphrag_attached._key_names(alias text, count int) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN ARRAY(SELECT format('%s.k%s', alias, n) FROM generate_series(1, count) n);
END
$$;

-- SQL for the values of the key columns, by their types, of what `source_key` is SQL for.
CREATE OR REPLACE FUNCTION graphrag_attached._typed(s record, source_key text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN ARRAY(SELECT format('(%s)::%s', u.part, u.type)
                   FROM unnest(graphrag_attached._parsed(s.key_prefix, cardinality(s.key_values), source_key), s.key_types)
                        WITH ORDINALITY u (part, type, n)
                  ORDER BY u.n);
END
$$;

-- Where the owner of an attached table hands over what its rows say: an INSERT that a trigger answers, and no row is kept.
-- `caller` is whoever runs the INSERT, and cannot be given: only the owner of the table is heard. All values are of types of
-- PostgreSQL; what made them of the table's own types ran before, with its owner's rights.
CREATE OR REPLACE VIEW graphrag_attached._handover AS
SELECT NULL::name AS caller, NULL::text AS action, NULL::int AS attached_id, NULL::oid AS relation, NULL::text[] AS source_keys,
       NULL::text[] AS titles, NULL::text[] AS contents, NULL::jsonb[] AS metadata, NULL::bytea[] AS digests,
       NULL::timestamptz[] AS valid_from, NULL::timestamptz[] AS valid_to
 WHERE false;
ALTER VIEW graphrag_attached._handover ALTER COLUMN caller SET DEFAULT current_user;

-- Seconds and not the text of a time, which the session's time zone changes.
CREATE OR REPLACE FUNCTION graphrag_attached._digest(title text, content text, metadata jsonb, valid_from timestamptz, valid_to timestamptz) RETURNS bytea
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT pg_catalog.sha256(pg_catalog.convert_to(ROW(title, content, metadata, extract(epoch FROM valid_from), extract(epoch FROM valid_to))::text,
                                                   'UTF8'));
END;

-- Keeps the names of an attached table's schemas where others could change them; for its owner, who reads it by these names. Not
-- to the end of a statement but of the transaction: what is read is locked that long too.
CREATE OR REPLACE FUNCTION graphrag_attached._hold_schemas(attached_id int, relation oid, reader oid) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF cardinality(graphrag_attached._foreign_schemas(relation, reader)) > 0 THEN
        INSERT INTO graphrag_attached._handover (action, attached_id, relation) VALUES ('hold', attached_id, relation);
    END IF;
END
$$;

-- SQL that hands over the documents of rows as they are now: `keys` is a query that gives their keys (columns k1, k2, …), with $1.
-- In slices, since no array is larger than 1 GB; these in the order of keys, so that no two sessions wait for each other.
CREATE OR REPLACE FUNCTION graphrag_attached._write_sql(attached_id int, relation oid, s record, keys text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN format(
        'INSERT INTO graphrag_attached._handover (action, attached_id, relation, source_keys, titles, contents, metadata, valid_from, valid_to)'
        ' SELECT ''write'', %1$s, %2$s, array_agg(x.source_key), array_agg(x.title), array_agg(x.content), array_agg(x.metadata),'
        '        array_agg(x.valid_from), array_agg(x.valid_to)'
        '   FROM (SELECT x.*, sum(100 + octet_length(x.content) + coalesce(octet_length(x.title), 0) + pg_column_size(x.metadata))'
        '                     OVER (ORDER BY x.source_key ROWS UNBOUNDED PRECEDING) / 8000000 AS slice'
        '           FROM (SELECT %3$s FROM %4$s r JOIN (%5$s) k ON %6$s WHERE %7$s) x) x'
        '  GROUP BY x.slice ORDER BY x.slice',
        attached_id, relation, s.document, s.source, keys,
        graphrag_attached._has_key(s, graphrag_attached._key_names('k', cardinality(s.key_values))), s.condition);
END
$$;

-- Whether the function of an attachment has the settings that _make_attached_function() gave it. Its owner can change them, and where
-- it looks names up.
CREATE OR REPLACE FUNCTION graphrag_attached._is_as_made(attached_id int) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT p.prosecdef AND p.proconfig = ARRAY['search_path=pg_catalog, pg_temp', 'row_security=off', 'DateStyle=ISO, YMD',
                                                       'TimeZone=UTC', 'IntervalStyle=postgres', 'extra_float_digits=1', 'bytea_output=hex',
                                                       'quote_all_identifiers=off']
              FROM pg_proc p
             WHERE p.proname = '_changed_' || attached_id AND p.pronamespace = 'graphrag_attached'::regnamespace);
END
$$;

-- The table of an attachment, of a table that has its triggers: itself, or the partitioned table above it.
CREATE OR REPLACE FUNCTION graphrag_attached._attached_above(attached_id int, relation oid) RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT t.tgrelid
              FROM pg_trigger t
             WHERE t.tgrelid = ANY (graphrag_attached._above(relation))
               AND t.tgfoid = to_regprocedure(format('graphrag_attached._changed_%s()', attached_id))
             ORDER BY cardinality(graphrag_attached._above(t.tgrelid))
             LIMIT 1);
END
$$;

-- What the trigger of an attached table runs, one statement after another. `relation` is the table, also where a partition was written
-- directly. What it hands over is read from the table, not from
-- the transition tables: these only say which keys to look at, so triggers of the application that change rows again, MERGE,
-- and a DELETE and INSERT in one statement all end with documents that say what the table says.
CREATE OR REPLACE FUNCTION graphrag_attached._changed_sql(attached_id int, relation oid, event text, trigger name) RETURNS text[]
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    is_older boolean := current_setting('transaction_isolation') IN ('repeatable read', 'serializable');
    handover text := format('INSERT INTO graphrag_attached._handover (action, attached_id, relation, source_keys) SELECT %%L, %s, %s, ',
                            attached_id, relation);
    reader oid := quote_ident(current_user)::regrole;
    patience CONSTANT text := '100ms';
    lock_timeout CONSTANT text := current_setting('lock_timeout');
    changed text;
    foreign_code text;
    a graphrag_attached._attachments;
    s record;
    keys text;
    again text;
BEGIN
    -- That of rows is for replication (_set_attached_firing).
    IF starts_with(trigger, '_') THEN
        RETURN '{}';
    END IF;
    -- The table has changed hands, and is not for this owner to read any more; or the function has (REASSIGN OWNED), with settings of
    -- whoever had it. Workers compare the table, or its new owner does.
    IF (SELECT c.relowner FROM pg_class c WHERE c.oid = relation) <> reader OR NOT graphrag_attached._is_as_made(attached_id) THEN
        RETURN ARRAY[format(handover, 'queue') || 'NULL'];
    END IF;
    PERFORM graphrag_attached._hold_schemas(attached_id, relation, reader);
    -- Partitions too must stay their owners' until they are read; the table itself is locked by the statement. Who has locked another
    -- partition would hold up a statement that needs nothing of it, and waits for this one where both truncate: a pass comes later.
    IF (SELECT c.relhassubclass FROM pg_class c WHERE c.oid = relation) THEN
        BEGIN
            IF lock_timeout = '0' OR lock_timeout::interval > patience::interval THEN
                PERFORM set_config('lock_timeout', patience, true);
            END IF;
            EXECUTE format('LOCK TABLE %s IN ACCESS SHARE MODE%s', relation::regclass, CASE WHEN event = 'TRUNCATE' THEN ' NOWAIT' END);
            PERFORM set_config('lock_timeout', lock_timeout, true);
        EXCEPTION WHEN lock_not_available THEN
            RETURN ARRAY[format(handover, 'queue') || 'NULL'];
        END;
    END IF;
    IF is_older THEN
        SELECT min(pg_describe_object(o.class, o.id, 0)) INTO changed FROM graphrag_attached._owners(relation) o WHERE o.changed;
        IF changed IS NOT NULL THEN
            RAISE EXCEPTION 'the attached table % is not read by an old snapshot: % has changed since', relation::regclass, changed
                USING ERRCODE = 'serialization_failure', HINT = 'Try the transaction again.';
        END IF;
    END IF;
    SELECT v.* INTO a FROM graphrag_attached._attachments v WHERE v.id = attached_id AND v.relation = _changed_sql.relation;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'table % is not attached under number %', relation::regclass, attached_id
            -- A snapshot older than attach_table() does not show it: the same transaction will work when tried again.
            USING ERRCODE = CASE WHEN is_older THEN 'serialization_failure' ELSE 'object_not_in_prerequisite_state' END,
                  HINT = CASE WHEN is_older THEN 'Try the transaction again.'
                         ELSE format('DROP TRIGGER %I on it, and attach it with graphrag.attach_table().', trigger) END;
    END IF;
    foreign_code := graphrag_attached._foreign_code(relation, reader);
    IF foreign_code IS NOT NULL THEN
        RAISE EXCEPTION 'reading the attached table % would run code of others with its owner''s rights: %', relation::regclass, foreign_code
            USING ERRCODE = 'insufficient_privilege',
                  HINT = format('Give it to "%s", the owner of the table, or detach the table with graphrag.detach_table().', pg_get_userbyid(a.owner));
    END IF;
    s := graphrag_attached._source(a);
    IF to_regclass(s.source) IS DISTINCT FROM relation THEN
        RAISE EXCEPTION 'the attached table % has another name now', s.source USING ERRCODE = 'serialization_failure', HINT = 'Try the transaction again.';
    END IF;
    keys := graphrag_attached._as_keys(s.key_values);
    -- Whether a row that is a document now has the key of an old one (o).
    again := format('SELECT FROM %s r WHERE %s AND %s = o.source_key AND %s', s.source,
                    graphrag_attached._has_key(s, graphrag_attached._key_names('o', cardinality(s.key_values))), s.key_text, s.condition);
    RETURN CASE event
        WHEN 'INSERT' THEN ARRAY[
            graphrag_attached._write_sql(attached_id, relation, s, format('SELECT %s FROM inserted r', keys))]
        WHEN 'DELETE' THEN ARRAY[
            format(handover, 'delete')
            || format('array_agg(o.source_key) FROM (SELECT %s, %s AS source_key FROM deleted r WHERE %s) o'
                      ' WHERE NOT EXISTS (%s) HAVING count(*) > 0',
                      keys, s.key_text, s.condition, again)]
        -- Rows whose key and document are as before are not looked at again. A key may equal the old one, and have another text.
        WHEN 'UPDATE' THEN ARRAY[
            format(handover, 'delete')
            || format('array_agg(o.source_key)'
                      '  FROM (SELECT %1$s, %2$s AS source_key FROM updated_old r'
                      '         WHERE %3$s AND %2$s NOT IN (SELECT %2$s FROM updated_new r WHERE %3$s)) o'
                      ' WHERE NOT EXISTS (%4$s) HAVING count(*) > 0',
                      keys, s.key_text, s.condition, again),
            graphrag_attached._write_sql(attached_id, relation, s, format(
                'SELECT %1$s, x.source_key AS new_key, x.digest FROM updated_new r %2$s WHERE %3$s'
                ' EXCEPT SELECT %1$s, x.source_key, x.digest FROM updated_old r %2$s WHERE %3$s',
                keys,
                format('CROSS JOIN LATERAL (SELECT w.source_key, graphrag_attached._digest(w.title, w.content, w.metadata, w.valid_from, w.valid_to)'
                       ' FROM (SELECT %s) w) x (source_key, digest)', s.document),
                s.condition))]
        -- The rows that there are again.
        WHEN 'TRUNCATE' THEN ARRAY[
            format(handover, 'truncate') || format('array_agg(%s) FROM %s r WHERE %s', s.key_text, s.source, s.condition)]
    END;
END
$$;

-- Called where documents could not follow a statement, which goes on: records why, queues a pass through the table, and warns. What is
-- recorded already is not said again. What cannot be recorded fails the statement: else who writes the table could keep documents of rows
-- that are gone (in a transaction that he makes read only, near the limit of the stack, without views), and nobody would know. But where
-- the owner has made the function another one, which may not record, workers see that it is.
CREATE OR REPLACE FUNCTION graphrag_attached._not_followed(attached_id int, relation oid, error_code text, message text, hint text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    is_new boolean := true;
BEGIN
    BEGIN
        INSERT INTO graphrag_attached._handover (action, attached_id, relation, titles)
        VALUES ('fault', attached_id, relation, ARRAY[error_code, message, hint])
        RETURNING source_keys IS NOT NULL INTO is_new;
    EXCEPTION WHEN insufficient_privilege THEN
        hint := format('%s This could not be recorded: %s.', hint, SQLERRM);
    END;
    IF is_new THEN
        RAISE WARNING 'documents do not follow table %: %', relation::regclass, message
            USING ERRCODE = error_code, HINT = concat_ws(' ', nullif(hint, ''),
                'The table was changed; graphrag.attached_tables says what is behind, graphrag.backfill_table() brings it up to date.');
    END IF;
END
$$;

-- Have schemas keep their names until this transaction ends. Rows of the catalog, locked as a foreign key locks: a schema that is
-- renamed waits; with an old snapshot, one that was renamed is a serialization failure. `owner`: of the table in question; it matters
-- where nobody may lock these rows (a database without the extension).
CREATE OR REPLACE FUNCTION graphrag._hold_schemas(schemas oid[], owner oid) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM FROM pg_namespace n WHERE n.oid = ANY (schemas) ORDER BY n.oid FOR KEY SHARE;
END
$$;

-- What an attached table needs belongs to its owner. Superusers make it; beside a database without the extension, who owns the schema
-- graphrag must be a member.
CREATE OR REPLACE FUNCTION graphrag._check_may_act_for(owner name) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT pg_has_role(current_user, owner, 'USAGE') THEN
        RAISE EXCEPTION 'role "%", who owns the schema graphrag, cannot act for role "%", who owns the table', current_user, owner
            USING ERRCODE = 'insufficient_privilege', HINT = format('GRANT %I TO %I; then try again.', owner, current_user);
    END IF;
END
$$;

-- The trigger function of an attachment. SECURITY DEFINER, of the owner of the table: who writes the table need have no rights
-- to read it, nor any in our schemas, and nobody's rights but the owner's are lent to the code that reading it runs.
-- The statement of the application never fails because of it, but by its own cancel (which OTHERS leaves out), deadlock or lock_timeout, or
-- where nothing can be recorded (_not_followed).
-- The settings make text of dates, numbers and names the same in every session; of a table whose policies hide rows even from its
-- owner, row_security = off makes an error. With quote_all_identifiers PostgreSQL would write its search_path otherwise.
CREATE OR REPLACE FUNCTION graphrag._make_attached_function(attached_id int, relation oid, is_made_again boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off
AS $$
DECLARE
    name  text := format('graphrag_attached._changed_%s()', attached_id);
    owner name := (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = relation);
BEGIN
    PERFORM graphrag._check_may_act_for(owner);
    EXECUTE format('CREATE OR REPLACE FUNCTION %s RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER'
                   ' SET search_path = pg_catalog, pg_temp SET row_security = off'
                   ' SET datestyle = ''ISO, YMD'' SET timezone = ''UTC'' SET intervalstyle = ''postgres'' SET extra_float_digits = 1 SET bytea_output = ''hex'''
                   ' SET quote_all_identifiers = off AS %L', name, graphrag_attached._body(attached_id));
    -- Made by an update of the extension, it would be its member, and not be dumped. What is no member an update may not replace.
    IF NOT is_made_again AND EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = name::regprocedure AND d.deptype = 'e') THEN
        EXECUTE format('ALTER EXTENSION pg_graphrag DROP FUNCTION %s', name);
    END IF;
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', name);
    EXECUTE format('COMMENT ON FUNCTION %s IS ''Trigger of attached table %s: its rows become documents''', name, attached_id);
    -- DROP EXTENSION takes it along instead of stopping at it.
    IF EXISTS (SELECT FROM pg_extension x WHERE x.extname = 'pg_graphrag') THEN
        EXECUTE format('ALTER FUNCTION %s DEPENDS ON EXTENSION pg_graphrag', name);
    END IF;
    -- To own a function takes CREATE on its schema, where no superuser gives it: in this transaction alone.
    IF has_schema_privilege(owner, 'graphrag_attached', 'CREATE') OR (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user) THEN
        EXECUTE format('ALTER FUNCTION %s OWNER TO %I', name, owner);
    ELSE
        EXECUTE format('GRANT CREATE ON SCHEMA graphrag_attached TO %I', owner);
        EXECUTE format('ALTER FUNCTION %s OWNER TO %I', name, owner);
        EXECUTE format('REVOKE CREATE ON SCHEMA graphrag_attached FROM %I', owner);
    END IF;
END
$$;

-- The triggers of an attachment on its table and the partitions, one per event: makes those that are not there, and drops those on tables
-- that are no partitions any more. Returns whether rows may have been written past them: a table that had none has rows, or somebody dropped one.
-- Statement triggers see what names their table. Partitions have some of their own, for what names them.
CREATE OR REPLACE FUNCTION graphrag._follow_partitions(attached_id int, relation oid) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    changed oid := to_regprocedure(format('graphrag_attached._changed_%s()', attached_id));
    tables oid[] := relation || graphrag_attached._under(relation);
    missed boolean := false;
    source oid;
    name text;
    event record;
BEGIN
    FOR source IN
        SELECT c.oid FROM pg_class c
         WHERE c.oid = ANY (tables) AND (c.oid = relation OR c.relispartition AND c.relkind IN ('r', 'p'))
           AND (SELECT count(*) FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgfoid = changed) < 5
         ORDER BY c.oid <> relation, c.oid
    LOOP
        PERFORM graphrag._check_may_act_for(pg_get_userbyid(c.relowner)) FROM pg_class c WHERE c.oid = source;
        name := graphrag._lock_attached(source, 'SHARE ROW EXCLUSIVE');
        -- Nobody writes it now. A partition that is empty on disk, and had none of them, is new.
        missed := missed OR source = relation OR pg_relation_size(source) > 0 OR EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = source AND t.tgfoid = changed AND t.tgparentid = 0);
        FOR event IN
            SELECT CASE v.level WHEN 'ROW' THEN format('_graphrag_%s_replicated', attached_id) ELSE format('graphrag_%s_%s', attached_id, lower(v.name)) END
                       AS trigger, v.*
              FROM (VALUES ('INSERT', 'REFERENCING NEW TABLE AS inserted', 'STATEMENT'),
                           ('UPDATE', 'REFERENCING OLD TABLE AS updated_old NEW TABLE AS updated_new', 'STATEMENT'),
                           ('DELETE', 'REFERENCING OLD TABLE AS deleted', 'STATEMENT'),
                           ('TRUNCATE', '', 'STATEMENT'),
                           -- Partitions have it of the table above them. It comes before triggers of the application that change the row again.
                           ('INSERT OR UPDATE OR DELETE', '', 'ROW')) v (name, rows, level)
        LOOP
            CONTINUE WHEN EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = source AND t.tgfoid = changed AND t.tgname = event.trigger);
            EXECUTE format('CREATE TRIGGER %I AFTER %s ON %s %s FOR EACH %s EXECUTE FUNCTION graphrag_attached._changed_%s()',
                           event.trigger, event.name, name, event.rows, event.level, attached_id);
            IF EXISTS (SELECT FROM pg_extension x WHERE x.extname = 'pg_graphrag') THEN
                EXECUTE format('ALTER TRIGGER %I ON %s DEPENDS ON EXTENSION pg_graphrag', event.trigger, name);
            END IF;
        END LOOP;
    END LOOP;
    FOR event IN
        SELECT t.tgrelid AS source, t.tgname AS trigger FROM pg_trigger t
         WHERE t.tgfoid = changed AND t.tgrelid <> ALL (tables) AND starts_with(t.tgname, format('graphrag_%s_', attached_id))
    LOOP
        name := graphrag._lock_attached(event.source, 'ACCESS EXCLUSIVE');
        EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', event.trigger, name);
    END LOOP;
    PERFORM graphrag._set_attached_firing(attached_id, tables);
    RETURN missed;
END
$$;

-- When the triggers of an attachment fire: those of statements where sessions write, that of rows where replication does, which fires none of
-- statements but of TRUNCATE. So no row is followed twice. pg_restore --disable-triggers and ENABLE TRIGGER leave all firing where sessions write.
CREATE OR REPLACE FUNCTION graphrag._set_attached_firing(attached_id int, tables oid[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- Our own event trigger need not look at it.
    silences boolean := current_setting('event_triggers', true) = 'on' AND (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user);
    odd record;
BEGIN
    FOR odd IN
        SELECT t.tgrelid AS source, t.tgname AS trigger, w.firing
          FROM pg_trigger t
          JOIN (VALUES (format('_graphrag_%s_replicated', attached_id), 'REPLICA'),
                       (format('graphrag_%s_truncate', attached_id), 'ALWAYS')) w (name, firing) ON w.name = t.tgname
         WHERE t.tgfoid = to_regprocedure(format('graphrag_attached._changed_%s()', attached_id)) AND t.tgrelid = ANY (tables)
           AND t.tgparentid = 0 AND t.tgenabled = 'O'
         ORDER BY t.tgrelid, t.tgname
    LOOP
        IF silences THEN
            PERFORM set_config('event_triggers', 'off', true);
        END IF;
        EXECUTE format('ALTER TABLE %s ENABLE %s TRIGGER %I', graphrag._lock_attached(odd.source, 'SHARE ROW EXCLUSIVE'), odd.firing, odd.trigger);
        IF silences THEN
            PERFORM set_config('event_triggers', 'on', true);
        END IF;
    END LOOP;
END
$$;

-- The function of an attachment and its triggers.
CREATE OR REPLACE FUNCTION graphrag._make_attached_triggers(attached_id int, relation oid) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    left_behind record;
BEGIN
    -- A restore of schemas brought them without their attachment, which had another number.
    FOR left_behind IN
        SELECT t.tgname AS trigger, t.tgrelid AS source
          FROM pg_trigger t
          JOIN pg_proc p ON p.oid = t.tgfoid AND p.pronamespace = 'graphrag_attached'::regnamespace
         WHERE t.tgrelid = ANY (relation || graphrag_attached._under(relation)) AND t.tgparentid = 0 AND p.proname ~ '^_changed_[0-9]+$'
           AND NOT EXISTS (SELECT FROM graphrag._attached_tables a WHERE p.proname = '_changed_' || a.id)
    LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', left_behind.trigger, graphrag._lock_attached(left_behind.source, 'ACCESS EXCLUSIVE'));
    END LOOP;
    PERFORM graphrag._make_attached_function(attached_id, relation, is_made_again => true);
    PERFORM graphrag._follow_partitions(attached_id, relation);
    -- Again: by its triggers the table is known, and by the table what its rows are.
    PERFORM graphrag._make_attached_function(attached_id, relation);
END
$$;

-- Why documents of an attachment do not follow its rows; returns whether nobody said so before.
CREATE OR REPLACE FUNCTION graphrag._record_fault(attached_id int, error_code text, message text, hint text, needs_pass boolean) RETURNS boolean
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    WITH recorded AS (
        INSERT INTO graphrag._attached_faults (attached_id, error_code, message, hint, needs_pass)
        SELECT _record_fault.attached_id, left(_record_fault.error_code, 5), left(_record_fault.message, 2000), left(_record_fault.hint, 2000),
               _record_fault.needs_pass
         WHERE NOT EXISTS (SELECT FROM graphrag._attached_faults f
                            WHERE f.attached_id = _record_fault.attached_id AND f.message = left(_record_fault.message, 2000)
                              AND f.needs_pass = _record_fault.needs_pass)
        RETURNING true AS is_new)
    SELECT EXISTS (SELECT FROM recorded);
END;

-- Writes documents that the owner of an attached table hands over. Those that say the same already are left alone; documents
-- of the corpus that no table owns are taken over. Rows that can be no documents are left out, and said.
CREATE OR REPLACE FUNCTION graphrag._write_attached(handed graphrag_attached._handover, corpus text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    refused record;
BEGIN
    FOR refused IN
        SELECT r.error_code, min(r.message) AS message, r.hint
          FROM unnest(handed.source_keys, handed.valid_from, handed.valid_to) u (source_key, valid_from, valid_to)
          LEFT JOIN LATERAL (SELECT x.attached_id FROM graphrag.documents x
                              WHERE x.corpus = _write_attached.corpus AND x.source_key = u.source_key AND x.attached_id <> handed.attached_id OFFSET 0) d ON true
          LEFT JOIN graphrag._attached_tables a ON a.id = d.attached_id
         CROSS JOIN LATERAL (
               SELECT '23514' AS error_code, format('the key "%s" of a row cannot name a document: it has %s bytes', left(u.source_key, 100), octet_length(u.source_key)) AS message,
                      'graphrag.documents.source_key takes 1 to 2000 bytes. Change the key, and call graphrag.backfill_table().' AS hint
                WHERE octet_length(u.source_key) NOT BETWEEN 1 AND 2000
                UNION ALL
               SELECT '23514', format('the row of the key "%s" is valid to a time before it is valid from', left(u.source_key, 100)),
                      'Mend the dates of the row, and call graphrag.backfill_table().'
                WHERE u.valid_from > u.valid_to
                UNION ALL
               SELECT '23505', format('document "%s" of corpus "%s" comes from another table, %I.%I', left(u.source_key, 100), _write_attached.corpus, a.schema_name, a.table_name),
                      'Attach one of the tables with options => ''{"key_prefix": "articles/"}'', or to a corpus of its own; then call graphrag.backfill_table().'
                WHERE a.id IS NOT NULL) r
         GROUP BY r.error_code, r.hint
         ORDER BY r.error_code, r.hint
    LOOP
        IF graphrag._record_fault(handed.attached_id, refused.error_code, refused.message, refused.hint, false) THEN
            RAISE WARNING '%', refused.message USING ERRCODE = refused.error_code, HINT = refused.hint;
        END IF;
    END LOOP;
    INSERT INTO graphrag.documents AS d (corpus, source_key, title, content, metadata, valid_from, valid_to, attached_id)
    SELECT _write_attached.corpus, u.source_key, u.title, u.content, u.metadata, u.valid_from, u.valid_to, handed.attached_id
      FROM unnest(handed.source_keys, handed.titles, handed.contents, handed.metadata, handed.valid_from, handed.valid_to)
           u (source_key, title, content, metadata, valid_from, valid_to)
     WHERE octet_length(u.source_key) BETWEEN 1 AND 2000 AND (u.valid_from > u.valid_to) IS NOT TRUE
        ON CONFLICT (corpus, source_key) DO UPDATE
       SET title = excluded.title, content = excluded.content, metadata = excluded.metadata,
           valid_from = excluded.valid_from, valid_to = excluded.valid_to, attached_id = handed.attached_id
     WHERE (d.attached_id = handed.attached_id OR d.attached_id IS NULL
            OR NOT EXISTS (SELECT FROM graphrag._attached_tables a WHERE a.id = d.attached_id))
       AND (d.title, d.content, d.metadata, d.valid_from, d.valid_to, d.attached_id)
           IS DISTINCT FROM (excluded.title, excluded.content, excluded.metadata, excluded.valid_from, excluded.valid_to, handed.attached_id);
END
$$;

-- Deletes documents of an attachment by their keys; returns how many there were.
CREATE OR REPLACE FUNCTION graphrag._delete_attached(attached_id int, corpus text, source_keys text[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    removed bigint;
BEGIN
    DELETE FROM graphrag.documents d
     WHERE d.id = ANY (ARRAY(SELECT x.id
                               FROM unnest(_delete_attached.source_keys) u (source_key)
                              CROSS JOIN LATERAL (SELECT k.id FROM graphrag.documents k
                                                   WHERE k.corpus = _delete_attached.corpus AND k.source_key = u.source_key
                                                     AND k.attached_id IS NOT DISTINCT FROM _delete_attached.attached_id OFFSET 0) x))
       AND d.attached_id IS NOT DISTINCT FROM _delete_attached.attached_id;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END
$$;

-- The keys of a handover that are to be gone on with. LATERAL and OFFSET 0 find each document by its key: statistics of a table that was
-- empty a moment ago would have each key compared with all documents. Not "=" for attached_id: the only index to use is that of the key.
-- Of compare: those whose document is not there or says something else;
-- of list: the next documents of the attachment after the one given; of lock: those whose documents are now locked.
CREATE OR REPLACE FUNCTION graphrag._select_attached(handed graphrag_attached._handover, corpus text) RETURNS text[]
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    selected text[];
BEGIN
    CASE handed.action
        WHEN 'compare' THEN
            SELECT array_agg(u.source_key ORDER BY u.n) INTO selected
              FROM unnest(handed.source_keys, handed.digests) WITH ORDINALITY u (source_key, digest, n)
              LEFT JOIN LATERAL (SELECT x.* FROM graphrag.documents x
                                  WHERE x.corpus = _select_attached.corpus AND x.source_key = u.source_key
                                    AND x.attached_id IS NOT DISTINCT FROM handed.attached_id OFFSET 0) d ON true
             WHERE d.id IS NULL OR graphrag_attached._digest(d.title, d.content, d.metadata, d.valid_from, d.valid_to) IS DISTINCT FROM u.digest;
        WHEN 'list' THEN
            SELECT array_agg(l.source_key ORDER BY l.source_key) INTO selected
              FROM (SELECT d.source_key
                      FROM graphrag.documents d
                     WHERE d.corpus = _select_attached.corpus AND d.attached_id IS NOT DISTINCT FROM handed.attached_id
                       AND d.source_key > handed.source_keys[1]
                     ORDER BY d.corpus, d.source_key
                     LIMIT 2000) l;
        WHEN 'lock' THEN
            SELECT array_agg(l.source_key) INTO selected
              FROM (SELECT d.source_key
                      FROM graphrag.documents d
                     WHERE d.corpus = _select_attached.corpus AND d.source_key = ANY (handed.source_keys)
                       AND d.attached_id IS NOT DISTINCT FROM handed.attached_id
                       FOR UPDATE SKIP LOCKED) l;
    END CASE;
    RETURN coalesce(selected, '{}');
END
$$;

-- Refuses what the owner of a table may not do any more: where he attached it himself he needs level write in the corpus, as for
-- an INSERT into documents; where the extension's owner did, its documents go with her rights.
CREATE OR REPLACE FUNCTION graphrag._check_may_feed(attached graphrag._attached_tables, owner name) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    corpus text;
BEGIN
    IF attached.needs_grant AND NOT graphrag._may_write(owner, attached.corpus_id) THEN
        corpus := (SELECT c.name FROM graphrag.corpora c WHERE c.id = attached.corpus_id);
        RAISE EXCEPTION 'role "%" may no longer write corpus "%", to which table %.% is attached',
                owner, corpus, quote_ident(attached.schema_name), quote_ident(attached.table_name)
            USING ERRCODE = 'insufficient_privilege',
                  HINT = format('The owner of the extension gives it with SELECT graphrag.grant_corpus(%L, %L, ''write''); the owner of the table ends'
                                ' the attachment with SELECT graphrag.detach_table(''%I.%I'', %L).',
                                corpus, owner, attached.schema_name, attached.table_name, corpus);
    END IF;
END
$$;

-- Values of the enumerations that types are made of, each with its number, in order.
CREATE OR REPLACE FUNCTION graphrag_attached._labels(types oid[]) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    first_of_users CONSTANT oid := 16384;
BEGIN
    -- Every statement on an attached table comes here.
    IF (SELECT max(u.id) FROM unnest(types) u (id)) >= first_of_users IS NOT TRUE THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(
        WITH RECURSIVE parts (id) AS (
            SELECT u.id FROM unnest(types) u (id) WHERE u.id >= first_of_users
             UNION
            -- Under domains, arrays, composite types, ranges and multiranges.
            SELECT o.id
              FROM parts p
              JOIN pg_type y ON y.oid = p.id
             CROSS JOIN LATERAL (
                   SELECT y.typbasetype AS id
                    UNION ALL
                   SELECT y.typelem
                    UNION ALL
                   SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = y.typrelid AND a.attnum > 0 AND NOT a.attisdropped
                    UNION ALL
                   SELECT r.rngsubtype FROM pg_range r WHERE y.oid IN (r.rngtypid, r.rngmultitypid)) o
             WHERE o.id >= first_of_users
        )
        SELECT format('%s %s', e.oid, e.enumlabel) FROM parts p JOIN pg_enum e ON e.enumtypid = p.id ORDER BY e.oid);
END
$$;

-- Remembers what an attached table is called and what its columns are, for a dump and for the next look. A column that has another
-- number or type now, or whose enumeration has another value, has other values: a pass through the table brings the documents up to date.
CREATE OR REPLACE FUNCTION graphrag._see_attached(attached_id int) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v graphrag_attached._attachments;
    a graphrag._attached_tables;
    before graphrag._attached_seen;
    now graphrag._attached_seen;
BEGIN
    SELECT x.* INTO v FROM graphrag_attached._attachments x WHERE x.id = _see_attached.attached_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT x.* INTO a FROM graphrag._attached_tables x WHERE x.id = v.id;
    SELECT x.* INTO before FROM graphrag._attached_seen x WHERE x.attached_id = v.id;
    SELECT v.id, v.relation, v.owner, coalesce(array_agg(k.attname ORDER BY k.attnum), '{}'), coalesce(array_agg(k.attnum ORDER BY k.attnum), '{}'),
           coalesce(array_agg(k.atttypid ORDER BY k.attnum), '{}'), graphrag_attached._under(v.relation),
           graphrag_attached._labels(array_agg(k.atttypid))
      INTO now
      FROM pg_attribute k
     WHERE k.attrelid = v.relation AND k.attnum > 0 AND NOT k.attisdropped
       AND k.attname = ANY (ARRAY[v.title_column, v.where_column, v.valid_from_column, v.valid_to_column]
                            || graphrag_attached._listed_columns(v));
    IF now IS DISTINCT FROM before THEN
        -- Nobody waits here, and a transaction with an old snapshot does not fail: whoever looks next will see it.
        PERFORM FROM graphrag._attached_tables x WHERE x.id = v.id FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        IF before.attached_id IS NULL THEN
            INSERT INTO graphrag._attached_seen SELECT now.* ON CONFLICT DO NOTHING;
        ELSE
            PERFORM FROM graphrag._attached_seen x WHERE x.attached_id = v.id FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                RETURN;
            END IF;
            UPDATE graphrag._attached_seen x
               SET relation = now.relation, owner = now.owner, names = now.names, numbers = now.numbers, types = now.types,
                   partitions = now.partitions, labels = now.labels
             WHERE x.attached_id = v.id;
            -- Rows of partitions that are gone are gone. Those of new ones: _follow_partitions(). No row has a label that is new.
            IF (now.numbers, now.types) IS DISTINCT FROM (before.numbers, before.types) OR NOT before.partitions <@ now.partitions
                OR NOT before.labels <@ now.labels THEN
                PERFORM graphrag._queue_attached(v.id);
            END IF;
        END IF;
    END IF;
    IF (a.relation, a.schema_name, a.table_name, a.key_columns, a.content_columns, a.title_column, a.metadata_columns, a.where_column,
        a.valid_from_column, a.valid_to_column, a.alias_columns, a.reference_columns)
       IS DISTINCT FROM
       (v.relation, v.schema_name, v.table_name, v.key_columns, v.content_columns, v.title_column, v.metadata_columns, v.where_column,
        v.valid_from_column, v.valid_to_column, v.alias_columns, v.reference_columns)
    THEN
        UPDATE graphrag._attached_tables x
           SET relation = v.relation, schema_name = v.schema_name, table_name = v.table_name, key_columns = v.key_columns,
               content_columns = v.content_columns, title_column = v.title_column, metadata_columns = v.metadata_columns,
               where_column = v.where_column, valid_from_column = v.valid_from_column, valid_to_column = v.valid_to_column,
               alias_columns = v.alias_columns, reference_columns = v.reference_columns
         WHERE x.id IN (SELECT y.id FROM graphrag._attached_tables y WHERE y.id = v.id FOR UPDATE SKIP LOCKED);
    END IF;
END
$$;

-- Does what a handover asks for.
-- SECURITY DEFINER: documents are written with the rights of the extension's owner, for the owner of the attached table alone.
CREATE OR REPLACE FUNCTION graphrag._attached_handed_over() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    attached graphrag._attached_tables;
    t record;
    corpus_name text;
    is_older boolean := current_setting('transaction_isolation') IN ('repeatable read', 'serializable');
    missed boolean := false;
BEGIN
    IF NEW.action = 'fault' THEN
        -- A snapshot may be older than the attachment: whose function it is, is asked of what there is now. Nobody else may execute it.
        IF has_function_privilege(NEW.caller, to_regprocedure(format('graphrag_attached._changed_%s()', NEW.attached_id)), 'EXECUTE') IS NOT TRUE THEN
            RAISE EXCEPTION 'role "%" may not hand over rows of attachment %', NEW.caller, NEW.attached_id
                USING ERRCODE = 'insufficient_privilege', HINT = 'Only the owner of the attached table may; its triggers do.';
        END IF;
        IF graphrag._record_fault(NEW.attached_id, NEW.titles[1], NEW.titles[2], NEW.titles[3], true) THEN
            PERFORM graphrag._queue_attached(NEW.attached_id);
            NEW.source_keys := '{}';
        END IF;
        RETURN NEW;
    END IF;
    SELECT a.* INTO attached FROM graphrag._attached_tables a WHERE a.id = NEW.attached_id;
    SELECT c.oid, c.relname, n.nspname, c.relowner, p.proowner INTO t
      FROM pg_class c
      JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_proc p ON p.proname = '_changed_' || attached.id AND p.pronamespace = 'graphrag_attached'::regnamespace
     WHERE c.oid = graphrag_attached._relation(attached) AND c.oid = NEW.relation;
    IF pg_has_role(NEW.caller, CASE NEW.action WHEN 'queue' THEN t.proowner ELSE t.relowner END, 'USAGE') IS NOT TRUE THEN
        RAISE EXCEPTION 'role "%" may not hand over rows of attachment %', NEW.caller, NEW.attached_id
            USING ERRCODE = CASE WHEN is_older THEN 'serialization_failure' ELSE 'insufficient_privilege' END,
                  HINT = CASE WHEN is_older THEN 'Try the transaction again. ' ELSE '' END
                         || 'Only the owner of the attached table may; its triggers do.';
    END IF;
    IF NEW.action NOT IN ('hold', 'queue', 'later') THEN
        PERFORM graphrag._check_may_feed(attached, pg_get_userbyid(t.relowner));
    END IF;
    SELECT c.name INTO corpus_name FROM graphrag.corpora c WHERE c.id = attached.corpus_id;

    CASE NEW.action
        WHEN 'write' THEN
            -- First, as workers do: what is noted is locked before documents are.
            PERFORM graphrag._supersede_replicated(attached.id, NEW.source_keys);
            PERFORM graphrag._write_attached(NEW, corpus_name);
        -- orphans: of a pass. A row of such a key may have come by replication since.
        WHEN 'delete', 'orphans' THEN
            IF NEW.action = 'delete' THEN
                PERFORM graphrag._supersede_replicated(attached.id, NEW.source_keys);
            END IF;
            missed := graphrag._delete_attached(attached.id, corpus_name, NEW.source_keys) < cardinality(NEW.source_keys);
        WHEN 'truncate' THEN
            DELETE FROM graphrag_attached._replicated r
             WHERE r.attached_id = attached.id AND r.source_key NOT IN (SELECT u.source_key FROM unnest(NEW.source_keys) u (source_key));
            -- Of a partition the keys of all others are handed over. Not "<> ALL": a generic plan would compare each document with each key.
            DELETE FROM graphrag.documents d
             WHERE d.attached_id = attached.id AND d.source_key NOT IN (SELECT u.source_key FROM unnest(NEW.source_keys) u (source_key));
            missed := true;
        WHEN 'compare', 'list', 'lock' THEN
            NEW.source_keys := graphrag._select_attached(NEW, corpus_name);
            RETURN NEW;
        WHEN 'hold' THEN
            PERFORM graphrag._hold_schemas(graphrag_attached._foreign_schemas(t.oid, t.relowner), t.relowner);
        WHEN 'begin' THEN
            DELETE FROM graphrag._attached_faults f WHERE f.attached_id = attached.id;
            DELETE FROM graphrag.jobs j WHERE j.kind = 'attach' AND (j.payload ->> 'attached')::int = attached.id AND j.state <> 'leased';
        WHEN 'later' THEN
            PERFORM graphrag._queue_attached(attached.id, '5 seconds');
        WHEN 'queue' THEN
            -- The table has changed hands: so does the function, made anew. Likewise where its settings are not ours. One session is enough.
            PERFORM FROM graphrag._attached_tables a WHERE a.id = attached.id FOR UPDATE SKIP LOCKED;
            IF FOUND AND (t.proowner <> t.relowner OR NOT graphrag_attached._is_as_made(attached.id)) THEN
                PERFORM graphrag._make_attached_function(attached.id, t.oid);
            END IF;
            PERFORM graphrag._queue_attached(attached.id);
    END CASE;
    IF missed AND is_older THEN
        -- Documents that the backfill wrote after this transaction's snapshot cannot be seen from here.
        PERFORM graphrag._queue_attached(attached.id);
    END IF;
    PERFORM graphrag._see_attached(attached.id);
    RETURN NEW;
END
$$;

-- Who hands over, or asks to attach, is who inserts, whatever the row says: a role may write all tables (pg_write_all_data), and is not
-- all roles. SECURITY INVOKER, to tell who it is. Its triggers come first, by name.
CREATE OR REPLACE FUNCTION graphrag._set_caller() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    NEW.caller := current_user;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION graphrag._set_caller() IS 'Trigger of what others insert: who they are';
CREATE OR REPLACE TRIGGER attached_by INSTEAD OF INSERT ON graphrag_attached._handover
    FOR EACH ROW EXECUTE FUNCTION graphrag._set_caller();
CREATE OR REPLACE TRIGGER attached_handed_over INSTEAD OF INSERT ON graphrag_attached._handover
    FOR EACH ROW EXECUTE FUNCTION graphrag._attached_handed_over();

-- Why rows of a table are, or may be, changed past triggers of ours, as (SQLSTATE, message, hint); null: they are not. `name` is the table's.
-- What triggers see is followed all the same, and a pass reads what they did not.
CREATE OR REPLACE FUNCTION graphrag_attached._bypass(attached_id int, relation oid, name text) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    is_partitioned boolean;
    is_partition boolean;
    tables oid[];
    other text;
BEGIN
    SELECT c.relkind = 'p', c.relispartition INTO is_partitioned, is_partition FROM pg_class c WHERE c.oid = relation;
    IF is_partition THEN
        RETURN ARRAY['55000', format('table %s is a partition now, and what is written to the table above it is not followed', name),
                     'DETACH PARTITION, or detach it with graphrag.detach_table() and attach the partitioned table.'];
    END IF;
    tables := relation || graphrag_attached._under(relation);
    IF NOT is_partitioned AND (cardinality(tables) > 1 OR cardinality(graphrag_attached._above(relation)) > 1) THEN
        RETURN ARRAY['55000', format('table %s inherits or is inherited now, and triggers do not follow inheritance', name),
                     'ALTER TABLE … NO INHERIT; or use a partitioned table.'];
    END IF;
    SELECT min(c.oid::regclass::text) INTO other FROM pg_class c WHERE c.oid = ANY (tables) AND c.relpersistence = 'u';
    IF other IS NOT NULL THEN
        RETURN ARRAY['55000', format('table %s is unlogged, and a crash would empty it without its documents', other),
                     format('ALTER TABLE %s SET LOGGED.', other)];
    END IF;
    SELECT min(t.tgrelid::regclass::text) INTO other
      FROM pg_trigger t
     WHERE t.tgrelid = ANY (tables) AND (t.tgenabled = 'D' OR t.tgenabled = 'R' AND NOT starts_with(t.tgname, '_'))
       AND t.tgfoid = to_regprocedure(format('graphrag_attached._changed_%s()', attached_id));
    IF other IS NOT NULL THEN
        RETURN ARRAY['55000', format('triggers of table %s are disabled', other), format('ALTER TABLE %s ENABLE TRIGGER USER.', other)];
    END IF;
    RETURN NULL;
END
$$;

-- Why an attachment cannot be followed, as (SQLSTATE, message, hint); null: it can. Reads the catalog alone.
CREATE OR REPLACE FUNCTION graphrag_attached._defect(a graphrag_attached._attachments) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    hint text;
BEGIN
    IF a.id IS NOT NULL THEN
        PERFORM graphrag_attached._check_columns(a);
        RETURN graphrag_attached._bypass(a.id, a.relation, format('%I.%I', a.schema_name, a.table_name));
    END IF;
    RETURN NULL;
EXCEPTION WHEN undefined_column OR datatype_mismatch OR object_not_in_prerequisite_state THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RETURN ARRAY[SQLSTATE, SQLERRM, hint];
END
$$;

-- Whether the table of an attachment was dropped here. After a restore nobody has seen it, and nothing is said of it: its table may be
-- still to come.
CREATE OR REPLACE FUNCTION graphrag._is_dropped(a graphrag._attached_tables) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Not BEGIN ATOMIC: a parsed body would keep updates from altering the table whose row it takes.
    RETURN graphrag_attached._relation(a) IS NULL
       AND EXISTS (SELECT FROM graphrag._attached_seen s
                    WHERE s.attached_id = a.id AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = s.relation));
END
$$;

-- Why the rows of an attached table wait for somebody else than a worker; null: workers may read it.
CREATE OR REPLACE FUNCTION graphrag._attached_waits(a graphrag_attached._attachments) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    extension_owner oid := (SELECT e.extowner FROM pg_extension e WHERE e.extname = 'pg_graphrag');
    source text;
    foreign_code text;
    defect text[];
BEGIN
    IF a.id IS NULL THEN
        RETURN NULL;
    END IF;
    source := format('%I.%I', a.schema_name, a.table_name);
    foreign_code := graphrag_attached._foreign_code(a.relation, extension_owner);
    defect := graphrag_attached._defect(a);
    RETURN CASE
        WHEN defect IS NOT NULL THEN concat_ws(' ', defect[2] || '.', defect[3])
        WHEN foreign_code IS NULL THEN NULL
        WHEN pg_has_role(a.owner, extension_owner, 'USAGE') THEN format('reading %s would run code of others: %s; give it to "%s"',
                                                                      source, foreign_code, pg_get_userbyid(a.owner))
        ELSE format('role "%s" owns %s and must CALL graphrag.backfill_table(%L, %L)', pg_get_userbyid(a.owner), source, source, a.corpus)
    END;
END
$$;

-- Why the documents of a dropped table wait; null: workers may delete them.
CREATE OR REPLACE FUNCTION graphrag._dropped_waits(a graphrag._attached_tables) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    owner oid := (SELECT s.owner FROM graphrag._attached_seen s WHERE s.attached_id = a.id);
BEGIN
    IF a.needs_grant AND graphrag._may_write((SELECT r.rolname FROM pg_roles r WHERE r.oid = owner), a.corpus_id) IS NOT TRUE THEN
        RETURN format('the table was dropped, and its owner may not write the corpus any more: SELECT graphrag.detach_table(''%s'', keep_documents => false); deletes its documents, true keeps them',
                      a.relation::bigint);
    END IF;
    RETURN NULL;
END
$$;

-- Queues the job that gives rows their documents and deletes documents without a row: of one attachment, or of all (after a
-- restore, which brings no jobs). No worker takes the job of a table that is not the extension owner's: it is there to say
-- what waits, and for whom. Looks for no such job first: an old snapshot may show one that is done.
CREATE OR REPLACE FUNCTION graphrag._queue_attached(attached_id int DEFAULT NULL, delay interval DEFAULT '0') RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    attached record;
BEGIN
    FOR attached IN
        SELECT t.id, t.corpus_id, CASE WHEN graphrag._is_dropped(t) THEN graphrag._dropped_waits(t) ELSE graphrag._attached_waits(v) END AS waits
          FROM graphrag._attached_tables t
          LEFT JOIN graphrag_attached._attachments v ON v.id = t.id
         WHERE _queue_attached.attached_id IS NULL OR t.id = _queue_attached.attached_id
         ORDER BY t.id
    LOOP
        PERFORM graphrag._queue_jobs('attach', ARRAY[attached.corpus_id], payload => jsonb_build_object('attached', attached.id),
                                     next_attempt_at => CASE WHEN attached.waits IS NULL THEN now() + delay ELSE 'infinity' END,
                                     last_error => attached.waits);
    END LOOP;
END
$$;

-- Looks at all attached tables, as workers do before they look at the queue: remembers their columns, and makes due what waited for a
-- defect that is gone, or for a table that was dropped. One table stops no other, and its owner no worker: what he keeps locked is
-- looked at by the next worker.
-- SECURITY DEFINER: a worker need not own the extension.
CREATE OR REPLACE FUNCTION graphrag._watch_attached() RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms'
AS $$
DECLARE
    attached record;
    has_unfollowed boolean;
    hint text;
BEGIN
    PERFORM graphrag._queue_jobs('attach', ARRAY[a.corpus_id], payload => w.payload)
       FROM graphrag._attached_tables a
      CROSS JOIN LATERAL (SELECT jsonb_build_object('attached', a.id, 'replicated', true) AS payload) w
      WHERE EXISTS (SELECT FROM graphrag_attached._replicated r WHERE r.attached_id = a.id)
        AND NOT EXISTS (SELECT FROM graphrag.jobs j WHERE j.corpus_id = a.corpus_id AND j.kind = 'attach' AND j.payload @> w.payload);
    FOR attached IN
        SELECT a.id, v.relation, v.id IS NULL AS is_gone, p.proowner <> v.owner OR NOT graphrag_attached._is_as_made(a.id) AS is_changed,
               d.is_dropped, p.prosrc <> graphrag_attached._body(a.id) AS is_other, graphrag_attached._defect(v) AS defect, j.id AS job, j.last_error, j.is_waiting, j.is_dead,
               CASE WHEN d.is_dropped THEN graphrag._dropped_waits(a) ELSE graphrag._attached_waits(v) END AS waits
          FROM graphrag._attached_tables a
          LEFT JOIN graphrag_attached._attachments v ON v.id = a.id
          LEFT JOIN pg_proc p ON p.proname = '_changed_' || a.id AND p.pronamespace = 'graphrag_attached'::regnamespace
         CROSS JOIN LATERAL (SELECT graphrag._is_dropped(a) AS is_dropped) d
          LEFT JOIN LATERAL (SELECT x.id, x.last_error, x.next_attempt_at = 'infinity' AS is_waiting, x.state = 'failed' AS is_dead FROM graphrag.jobs x
                              WHERE x.kind = 'attach' AND (x.payload ->> 'attached')::int = a.id AND NOT x.payload ? 'replicated'
                              ORDER BY x.state = 'failed', x.next_attempt_at LIMIT 1) j ON true
         ORDER BY a.id
    LOOP
        BEGIN
            PERFORM FROM graphrag._attached_tables a WHERE a.id = attached.id FOR UPDATE SKIP LOCKED;
            CONTINUE WHEN NOT FOUND;
            IF NOT attached.is_gone THEN
                PERFORM graphrag._see_attached(attached.id);
            END IF;
            IF attached.is_changed OR attached.is_other AND NOT attached.is_gone THEN
                PERFORM graphrag._make_attached_function(attached.id, attached.relation);
            END IF;
            has_unfollowed := NOT attached.is_gone AND graphrag._follow_partitions(attached.id, attached.relation);
            IF attached.is_changed OR has_unfollowed OR attached.defect IS NOT NULL AND graphrag._record_fault(attached.id, attached.defect[1], attached.defect[2], attached.defect[3], true)
               OR attached.is_dead AND attached.is_dropped
               OR attached.job IS NULL AND (attached.is_dropped OR EXISTS (SELECT FROM graphrag._attached_faults f
                                                                            WHERE f.attached_id = attached.id AND f.needs_pass))
               -- What it waited for is no more, or is something else. A pass that failed has its back-off.
               OR attached.last_error IS DISTINCT FROM attached.waits AND attached.last_error IS NOT NULL AND NOT (attached.is_gone AND NOT attached.is_dropped)
                  AND (attached.is_waiting OR attached.waits IS NOT NULL)
            THEN
                DELETE FROM graphrag.jobs j WHERE j.id = attached.job AND j.state <> 'leased' AND j.last_error IS NOT NULL;
                PERFORM graphrag._queue_attached(attached.id);
            END IF;
        EXCEPTION
            WHEN lock_not_available THEN
                NULL;
            WHEN OTHERS THEN
                GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
                IF graphrag._record_fault(attached.id, SQLSTATE, SQLERRM, hint, true) THEN
                    RAISE WARNING 'attached table % is not looked at: %', attached.relation::regclass, SQLERRM USING ERRCODE = SQLSTATE, HINT = hint;
                END IF;
        END;
    END LOOP;
END
$$;

-- Deletes documents of a dropped table, a batch at a time, and ends its attachment with the last; returns whether there are no more.
-- Its owner must still be allowed to write the corpus, as for a TRUNCATE before the DROP. What somebody keeps locked comes later.
-- SECURITY DEFINER: a worker need not own the extension.
CREATE OR REPLACE FUNCTION graphrag._remove_dropped(attached_id int) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms'
AS $$
DECLARE
    a graphrag._attached_tables;
    removed bigint;
BEGIN
    SELECT x.* INTO a FROM graphrag._attached_tables x WHERE x.id = attached_id;
    IF graphrag._is_dropped(a) IS NOT TRUE OR graphrag._dropped_waits(a) IS NOT NULL THEN
        RETURN true;
    END IF;
    DELETE FROM graphrag.documents d
     WHERE d.id IN (SELECT x.id FROM graphrag.documents x WHERE x.attached_id = _remove_dropped.attached_id ORDER BY x.corpus, x.source_key LIMIT 2000);
    GET DIAGNOSTICS removed = ROW_COUNT;
    IF removed < 2000 THEN
        DELETE FROM graphrag._attached_tables x WHERE x.id = attached_id;
        DELETE FROM graphrag._attached_seen x WHERE x.attached_id = _remove_dropped.attached_id;
        DELETE FROM graphrag._attached_faults x WHERE x.attached_id = _remove_dropped.attached_id;
        DELETE FROM graphrag_attached._replicated x WHERE x.attached_id = _remove_dropped.attached_id;
        EXECUTE format('DROP FUNCTION IF EXISTS graphrag_attached._changed_%s() CASCADE', attached_id);
        PERFORM graphrag._settle_references(a.corpus_id);
        RETURN true;
    END IF;
    RETURN false;
EXCEPTION
    WHEN lock_not_available THEN
        PERFORM graphrag._queue_attached(attached_id, '5 seconds');
        RETURN true;
END
$$;

-- Says which attached tables wait for their owners: of one attachment, or of all.
CREATE OR REPLACE FUNCTION graphrag._notice_waiting(attached_id int DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    waits text;
BEGIN
    FOR waits IN
        SELECT graphrag._attached_waits(v)
          FROM graphrag_attached._attachments v
         WHERE _notice_waiting.attached_id IS NULL OR v.id = _notice_waiting.attached_id
         ORDER BY v.id
    LOOP
        IF waits IS NOT NULL THEN
            RAISE NOTICE 'rows that exist are not read by workers: %', waits
                USING HINT = 'Workers run with the rights of the extension''s owner and read no table of others. The owner needs USAGE on schema graphrag and EXECUTE on the procedure.';
        END IF;
    END LOOP;
END
$$;

-- Holds an attached table against DDL and detaching until the transaction ends, for whoever may read it here: its owner, and
-- neither a superuser nor who can act as the extension's owner, unless nothing of others is run. `state` is held, gone
-- (detached, dropped, or not the caller's), locked (by somebody else), or refused for `reason`.
CREATE OR REPLACE FUNCTION graphrag_attached._hold(attached_id int, OUT state text, OUT reason text, OUT held graphrag_attached._attachments)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text;
BEGIN
    -- Looked up again under the lock: somebody may have changed anything a moment ago.
    FOR look IN 1..2 LOOP
        SELECT v.* INTO held FROM graphrag_attached._attachments v WHERE v.id = attached_id;
        IF held.relation IS NULL OR name <> format('%I.%I', held.schema_name, held.table_name) THEN
            state := 'gone';
            RETURN;
        END IF;
        SELECT min(graphrag_attached._foreign_code(held.relation, r.oid)) INTO reason
          FROM pg_roles r
         WHERE r.oid = held.owner OR r.rolname IN (current_user, session_user) AND graphrag_attached._is_privileged(r.oid);
        IF reason IS NOT NULL THEN
            state := 'refused';
            RETURN;
        END IF;
        name := format('%I.%I', held.schema_name, held.table_name);
        PERFORM graphrag_attached._hold_schemas(attached_id, held.relation, held.owner);
        BEGIN
            EXECUTE format('LOCK TABLE %s IN ROW SHARE MODE NOWAIT', name);
        EXCEPTION
            WHEN lock_not_available THEN
                state := 'locked';
                RETURN;
            WHEN undefined_table OR invalid_schema_name THEN
                state := 'gone';
                RETURN;
        END;
    END LOOP;
    state := CASE WHEN to_regclass(name) = held.relation THEN 'held' ELSE 'locked' END;
END
$$;

-- The next rows, in key order after `after`: those whose document is not there or says something else are locked (FOR SHARE) and
-- read afterwards, so that none can be written stale; rows in others' hands are left over.
CREATE OR REPLACE FUNCTION graphrag_attached._write_rows(a graphrag_attached._attachments, after text, OUT last_key text, OUT left_over boolean)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    s record := graphrag_attached._source(a);
    max_rows int := 1000;
    width int := cardinality(s.key_values);
    typed text[] := graphrag_attached._typed(s, '$1');
    keys text[];
    digests bytea[];
    differing text[];
    locked text[];
    beyond text := format('%s %s %s', s.key_values[width], s.greater[width], typed[width]);
BEGIN
    IF after IS NULL THEN
        beyond := 'true';
    ELSIF width > 1 THEN
        -- The first column is greater, or equal and the second is, and so on. What comes first is for the index.
        FOR n IN REVERSE width - 1..1 LOOP
            beyond := format('(%1$s %2$s %3$s OR %1$s %4$s %3$s AND %5$s)', s.key_values[n], s.greater[n], typed[n], s.equals[n], beyond);
        END LOOP;
        beyond := format('%s %s %s AND %s', s.key_values[1], s.at_least[1], typed[1], beyond);
    END IF;
    EXECUTE format(
        'SELECT array_agg(w.source_key), array_agg(graphrag_attached._digest(w.title, w.content, w.metadata, w.valid_from, w.valid_to))'
        '  FROM (SELECT %1$s FROM (SELECT r.* FROM %2$s r WHERE %3$s AND %4$s ORDER BY %5$s LIMIT $2) r) w',
        s.document, s.source, s.condition, beyond,
        (SELECT string_agg(format('%s USING %s', u.value, u.less), ', ' ORDER BY u.n) FROM unnest(s.key_values, s.less) WITH ORDINALITY u (value, less, n)))
    INTO keys, digests USING after, max_rows;
    last_key := CASE WHEN cardinality(keys) = max_rows THEN keys[max_rows] END;
    INSERT INTO graphrag_attached._handover (action, attached_id, relation, source_keys, digests)
    VALUES ('compare', a.id, a.relation, keys, digests)
    RETURNING source_keys INTO differing;
    typed := graphrag_attached._typed(s, 'u.key');
    EXECUTE format('SELECT array_agg(l.key) FROM (SELECT u.key FROM unnest($1) u (key) JOIN %s r ON %s WHERE %s FOR SHARE OF r SKIP LOCKED) l',
                   s.source, graphrag_attached._has_key(s, typed), s.condition)
    INTO locked USING differing;
    left_over := cardinality(differing) > coalesce(cardinality(locked), 0);
    EXECUTE graphrag_attached._write_sql(a.id, a.relation, s, format('SELECT %s FROM unnest($1) u (key)', graphrag_attached._as_keys(typed)))
      USING locked;
END
$$;

-- The next documents of the attachment, in key order after `after`: those whose row is gone are deleted. They are locked first
-- and judged again by a later snapshot: a row inserted anew in between keeps its document.
CREATE OR REPLACE FUNCTION graphrag_attached._delete_orphans(a graphrag_attached._attachments, after text, OUT last_key text, OUT left_over boolean)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
-- By the key's index: the table has just grown, and what the statistics say of it would make the planner choose otherwise.
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    s record := graphrag_attached._source(a);
    judged text := format(
        'SELECT array_agg(u.key) FROM unnest($1) u (key)'
        ' WHERE NOT EXISTS (SELECT FROM %1$s r WHERE %2$s AND %3$s = u.key AND %4$s)',
        s.source,
        graphrag_attached._has_key(s, ARRAY(
            SELECT format('CASE WHEN pg_input_is_valid(%1$s, %2$L) THEN (%1$s)::%2$s END', u.part, u.type)
              FROM unnest(graphrag_attached._parsed(s.key_prefix, cardinality(s.key_values), 'u.key'), s.key_types) WITH ORDINALITY u (part, type, n)
             ORDER BY u.n)),
        s.key_text, s.condition);
    keys text[];
    orphans text[];
    locked text[];
BEGIN
    INSERT INTO graphrag_attached._handover (action, attached_id, relation, source_keys)
    VALUES ('list', a.id, a.relation, ARRAY[coalesce(after, '')])
    RETURNING source_keys INTO keys;
    last_key := keys[cardinality(keys)];
    EXECUTE judged INTO orphans USING keys;
    left_over := false;
    IF orphans IS NOT NULL THEN
        INSERT INTO graphrag_attached._handover (action, attached_id, relation, source_keys)
        VALUES ('lock', a.id, a.relation, orphans)
        RETURNING source_keys INTO locked;
        left_over := cardinality(locked) < cardinality(orphans);
        EXECUTE judged INTO orphans USING locked;
        INSERT INTO graphrag_attached._handover (action, attached_id, relation, source_keys)
        VALUES ('orphans', a.id, a.relation, coalesce(orphans, '{}'));
    END IF;
END
$$;

-- One step of a pass through an attached table: `sweeps` false: rows that come after the key `after`; true: documents that do.
-- `state` is done (this step), or as _hold() has it; last_key is null at the end. The pass is for READ COMMITTED: what
-- is looked at again under a lock must be seen as it is then.
CREATE OR REPLACE FUNCTION graphrag_attached._step(attached_id int, after text, sweeps boolean,
    OUT state text, OUT reason text, OUT last_key text, OUT left_over boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET row_security = off
SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex'
SET quote_all_identifiers = off
AS $$
DECLARE
    h record;
BEGIN
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION 'an attached table is not read at isolation level %', current_setting('transaction_isolation')
            USING ERRCODE = 'active_sql_transaction', HINT = 'SET default_transaction_isolation = ''read committed'' first.';
    END IF;
    h := graphrag_attached._hold(attached_id);
    state := CASE h.state WHEN 'held' THEN 'done' ELSE h.state END;
    reason := h.reason;
    IF h.state = 'held' THEN
        IF sweeps THEN
            SELECT d.last_key, d.left_over INTO last_key, left_over FROM graphrag_attached._delete_orphans(h.held, after) d;
        ELSE
            SELECT w.last_key, w.left_over INTO last_key, left_over FROM graphrag_attached._write_rows(h.held, after) w;
        END IF;
    END IF;
END
$$;

-- As _step, for workers. SECURITY DEFINER: a worker need not be the extension's owner. Reads what is the extension owner's alone.
CREATE OR REPLACE FUNCTION graphrag._backfill_attached(attached_id int, after text, sweeps boolean,
    OUT state text, OUT reason text, OUT last_key text, OUT left_over boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF after IS NULL AND NOT sweeps THEN
        DELETE FROM graphrag._attached_faults f WHERE f.attached_id = _backfill_attached.attached_id;
    END IF;
    SELECT s.* INTO state, reason, last_key, left_over FROM graphrag_attached._step(attached_id, after, sweeps) s;
END
$$;

-- Numbers of the attachments of a table, for its owner.
CREATE OR REPLACE FUNCTION graphrag_attached._attachment_ids(source oid, corpus text) RETURNS int[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    owner oid := (SELECT c.relowner FROM pg_class c WHERE c.oid = source);
    ids int[] := (SELECT array_agg(v.id ORDER BY v.id) FROM graphrag_attached._attachments v
                   WHERE v.relation = source AND (_attachment_ids.corpus IS NULL OR v.corpus = _attachment_ids.corpus));
BEGIN
    IF NOT pg_has_role(current_user, owner, 'USAGE') THEN
        RAISE EXCEPTION 'must be owner of table %', source::regclass USING ERRCODE = 'insufficient_privilege',
            HINT = format('Role "%s" owns it.', pg_get_userbyid(owner));
    ELSIF ids IS NULL THEN
        RAISE EXCEPTION 'table % is not attached%', source::regclass, coalesce(' to corpus ' || quote_ident(corpus), '')
            USING ERRCODE = 'undefined_object', HINT = 'Attach it with graphrag.attach_table().';
    END IF;
    RETURN ids;
END
$$;

-- In the owner's own session, which commits each step. No SET clause: it would forbid the commits.
CREATE OR REPLACE PROCEDURE graphrag.backfill_table(source regclass, corpus text DEFAULT NULL)
LANGUAGE plpython3u
AS $$
from pg_graphrag.server import call
call(plpy, "0.3.0", "index.documents.attach:backfill_table", source, corpus)
$$;
COMMENT ON PROCEDURE graphrag.backfill_table(regclass, text) IS
    'Brings the documents of an attached table up to date with its rows, for one corpus or all: after attach_table(), and after writes that bypassed the triggers. For the owner of the table, in a session of its own (a superuser may not, unless the table is a superuser''s); of the extension owner''s tables workers do the same. Commits step by step: call it as a statement of its own. 42501 for who is not the owner, 42704 for a table that is not attached.';

-- Who may read the rows of attached tables: asked as the caller, by the row-level security of documents.

-- Attachments whose rows are entities or relationships, for everybody: what it shows of tables is in the catalog, and their triggers tell
-- that they are attached. Columns by number, as they were last seen: after a restore there are none before somebody has looked.
CREATE OR REPLACE VIEW graphrag_attached._row_tables WITH (security_barrier = true) AS
SELECT a.id, a.corpus_id, x.relation, w.numbers,
       ROW(a.id, '', x.relation, x.owner, x.schema_name, x.table_name, x.key_columns, x.content_columns, x.title_column, x.metadata_columns,
           x.metadata_keys, x.key_prefix, x.where_column, x.valid_from_column, x.valid_to_column, x.kind, x.entity_type, x.name_is_unique,
           x.alias_columns, x.reference_columns, x.reference_types, x.reference_prefixes, x.reference_widths, x.reference_by_name)::graphrag_attached._attachments AS attachment
  FROM graphrag._attached_tables a
  LEFT JOIN graphrag._attachments x ON x.id = a.id
  LEFT JOIN graphrag._attached_seen w ON w.attached_id = a.id AND w.relation = x.relation
 WHERE a.kind <> 'documents';

-- Which rows of a table the caller may SELECT: all, some (its policies say which) or none; withheld: some, if what the policies run were
-- not of others. All columns that are attached count, since a row's document has them all. Reads the catalog alone.
CREATE OR REPLACE FUNCTION graphrag_attached._rows_of(relation oid, numbers int2[]) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN CASE
        WHEN relation IS NULL OR cardinality(numbers) > 0 IS NOT TRUE THEN 'none'
        WHEN has_schema_privilege((SELECT c.relnamespace FROM pg_class c WHERE c.oid = relation), 'USAGE') IS NOT TRUE THEN 'none'
        WHEN (SELECT bool_and(has_column_privilege(relation, u.number, 'SELECT') IS TRUE) FROM unnest(numbers) u (number)) IS NOT TRUE THEN 'none'
        WHEN NOT row_security_active(relation) THEN 'all'
        WHEN graphrag_attached._code_of_others(relation) IS NULL THEN 'some'
        ELSE 'withheld' END;
END
$$;

-- Of each attachment of rows, by its number: whether the caller may read all, some or none of them.
CREATE OR REPLACE FUNCTION graphrag_attached._rows_are(access text) RETURNS boolean[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT array_agg(t.id IS NOT NULL AND replace(graphrag_attached._rows_of(t.relation, t.numbers), 'withheld', 'none') = access ORDER BY n)
              FROM generate_series(1, (SELECT max(m.id) FROM graphrag_attached._row_tables m)) n
              LEFT JOIN graphrag_attached._row_tables t ON t.id = n);
END
$$;

-- Whether the caller may read all rows that are attached to a corpus.
CREATE OR REPLACE FUNCTION graphrag_attached._reads_rows(corpus_id int) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN NOT EXISTS (SELECT FROM graphrag_attached._row_tables t
                        WHERE t.corpus_id = _reads_rows.corpus_id AND graphrag_attached._rows_of(t.relation, t.numbers) <> 'all');
END
$$;

-- The role that logged in, whatever the session took on since.
CREATE OR REPLACE FUNCTION graphrag_attached._login() RETURNS name
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT r.rolname FROM pg_stat_get_activity(pg_backend_pid()) a JOIN pg_roles r ON r.oid = a.usesysid;
END;

-- What reading a relation would run, and whose it is. The owner counts for the relation, not its policies alone: these may call
-- query_to_xml(), which runs any text and is in no catalog of dependencies; and who may make an index makes it between a look at the
-- catalog and the read.
CREATE OR REPLACE FUNCTION graphrag_attached._code_of(relation oid) RETURNS TABLE (object text, owner oid)
LANGUAGE plpgsql STABLE ROWS 10 PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
        WITH RECURSIVE parts (class, id) AS (
            SELECT 'pg_class'::regclass::oid, relation
             UNION
            (WITH part AS (SELECT p.class, p.id FROM parts p)
             -- What a view reads and calls; what a table's indexes, policies, constraints and columns call; its partitions.
             SELECT d.refclassid, d.refobjid
               FROM part p
              CROSS JOIN LATERAL (
                    SELECT 'pg_rewrite'::regclass::oid AS class, r.oid AS id FROM pg_rewrite r WHERE r.ev_class = p.id
                     UNION ALL
                    SELECT 'pg_class'::regclass, i.indexrelid FROM pg_index i WHERE i.indrelid = p.id
                     UNION ALL
                    SELECT 'pg_policy'::regclass, y.oid FROM pg_policy y WHERE y.polrelid = p.id
                     UNION ALL
                    SELECT 'pg_constraint'::regclass, c.oid FROM pg_constraint c WHERE c.conrelid = p.id
                     UNION ALL
                    SELECT 'pg_statistic_ext'::regclass, s.oid FROM pg_statistic_ext s WHERE s.stxrelid = p.id
                     UNION ALL
                    SELECT 'pg_attrdef'::regclass, a.oid FROM pg_attrdef a WHERE a.adrelid = p.id
                     UNION ALL
                    SELECT 'pg_class'::regclass, p.id) o
               JOIN pg_depend d ON d.classid = o.class AND d.objid = o.id
              WHERE p.class = 'pg_class'::regclass
                AND d.refclassid IN ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_operator'::regclass, 'pg_opclass'::regclass, 'pg_type'::regclass)
             UNION ALL
             SELECT 'pg_class'::regclass, h.inhrelid FROM part p JOIN pg_inherits h ON h.inhparent = p.id WHERE p.class = 'pg_class'::regclass
             UNION ALL
             SELECT 'pg_proc'::regclass, o.oprcode FROM part p JOIN pg_operator o ON o.oid = p.id WHERE p.class = 'pg_operator'::regclass
             UNION ALL
             SELECT d.refclassid, d.refobjid
               FROM part p
               JOIN pg_constraint c ON c.contypid = p.id
               JOIN pg_depend d ON d.classid = 'pg_constraint'::regclass AND d.objid = c.oid
              WHERE p.class = 'pg_type'::regclass AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass)
             UNION ALL
             SELECT 'pg_type'::regclass, t.typbasetype FROM part p JOIN pg_type t ON t.oid = p.id WHERE p.class = 'pg_type'::regclass AND t.typtype = 'd')
        ), owners (object, owner) AS (
            SELECT pg_describe_object(p.class, p.id, 0), c.relowner FROM parts p JOIN pg_class c ON p.class = 'pg_class'::regclass AND c.oid = p.id
             UNION ALL
            -- Who owns the schema can put something else under the name.
            SELECT pg_describe_object('pg_namespace'::regclass, n.oid, 0), CASE WHEN n.nspowner = 'pg_database_owner'::regrole THEN d.datdba ELSE n.nspowner END
              FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_database d ON d.datname = current_database()
             WHERE c.oid = relation
             UNION ALL
            SELECT pg_describe_object(p.class, p.id, 0), f.proowner FROM parts p JOIN pg_proc f ON p.class = 'pg_proc'::regclass AND f.oid = p.id
             UNION ALL
            SELECT pg_describe_object(p.class, p.id, 0), o.opcowner FROM parts p JOIN pg_opclass o ON p.class = 'pg_opclass'::regclass AND o.oid = p.id
             UNION ALL
            SELECT pg_describe_object(p.class, p.id, 0), t.typowner FROM parts p JOIN pg_type t ON p.class = 'pg_type'::regclass AND t.oid = p.id
        )
        SELECT o.object, o.owner FROM owners o;
END
$$;

-- What of it is of others than roles that have the rights of the caller and of the session anyway: superusers above all. Null: nothing.
CREATE OR REPLACE FUNCTION graphrag_attached._code_of_others(relation oid) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    login CONSTANT name := graphrag_attached._login();
BEGIN
    RETURN (SELECT min(format('%s of role "%s"', o.object, pg_get_userbyid(o.owner)))
              FROM graphrag_attached._code_of(relation) o
             WHERE NOT (pg_has_role(o.owner, login, 'MEMBER') AND pg_has_role(o.owner, current_user, 'MEMBER')));
END
$$;

-- The statements that give a role the rights of others. No role is a member of its members: what leads to them from it is taken back
-- before, which the statement says. Not a part of the queries that print it: each of them would be planned as a join of all memberships.
CREATE OR REPLACE FUNCTION graphrag_attached._lending(roles oid[], to_role oid) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN concat((SELECT string_agg(format('REVOKE %s FROM %s%s /* takes rights of %s from %s */; ', m.roleid::regrole, m.member::regrole,
                                            -- What a superuser granted, any superuser revokes.
                                            CASE WHEN m.grantor <> 10 THEN format(' GRANTED BY %s', m.grantor::regrole) END,
                                            -- No name begins or ends a comment.
                                            translate(m.roleid::regrole::text, '*/', '__'), translate(m.member::regrole::text, '*/', '__')), '' ORDER BY m.member::regrole::text)
                     FROM pg_auth_members m
                    WHERE m.roleid = to_role AND EXISTS (SELECT FROM unnest(roles) u (role) WHERE pg_has_role(u.role, m.member, 'MEMBER'))),
                  format('GRANT %s TO %s;', (SELECT string_agg(u.role::regrole::text, ', ' ORDER BY u.place) FROM unnest(roles) WITH ORDINALITY u (role, place)),
                         to_role::regrole));
END
$$;

-- Attached tables of a corpus that keep their rows from the caller, though he may SELECT some: what they would run, null where no policy
-- for SELECT is for him; what mends it; and the superuser whose session it is, which is lent to nobody.
CREATE OR REPLACE FUNCTION graphrag_attached._withheld(corpus_id int) RETURNS TABLE (attached_table text, code text, mend text, superuser name)
LANGUAGE plpgsql STABLE ROWS 1 PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    login CONSTANT name := graphrag_attached._login();
BEGIN
    RETURN QUERY
    SELECT t.relation::regclass::text, a.code,
           concat_ws(' ', CASE WHEN a.lacks_policy THEN format('CREATE POLICY readers ON %s FOR SELECT TO %I USING (condition);', t.relation::regclass, current_user) END,
           (SELECT string_agg(DISTINCT graphrag_attached._lending(l.roles, o.owner), ' ')
              FROM graphrag_attached._code_of(t.relation) o
             CROSS JOIN LATERAL (
                   SELECT array_agg(r.oid ORDER BY r.rolname) AS roles FROM pg_roles r
                    WHERE r.rolname IN (login, current_user) AND NOT r.rolsuper AND NOT pg_has_role(o.owner, r.oid, 'MEMBER')) l
             WHERE l.roles IS NOT NULL)),
           (SELECT r.rolname FROM pg_roles r WHERE r.rolname = login AND r.rolsuper AND a.code IS NOT NULL)
      FROM graphrag_attached._row_tables t
     CROSS JOIN LATERAL (SELECT graphrag_attached._rows_of(t.relation, t.numbers) AS shown OFFSET 0) r
     CROSS JOIN LATERAL (
           SELECT CASE WHEN r.shown = 'withheld' THEN graphrag_attached._code_of_others(t.relation) END AS code,
                  NOT EXISTS (SELECT FROM pg_policy p CROSS JOIN LATERAL unnest(p.polroles) u (role)
                               WHERE p.polrelid = t.relation AND p.polpermissive AND p.polcmd IN ('r', '*')
                                 AND (u.role = 0 OR pg_has_role(u.role, 'USAGE'))) AS lacks_policy
           OFFSET 0) a
     WHERE t.corpus_id = _withheld.corpus_id AND r.shown IN ('some', 'withheld') AND (a.code IS NOT NULL OR a.lacks_policy);
END
$$;

-- Roles that own what the policies of a table run, where none of them has the rights of any reader: who shows its rows to nobody. Null: it
-- has no row-level security, or some reader's rights are theirs.
CREATE OR REPLACE FUNCTION graphrag_attached._withholding(relation oid) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (SELECT c.relrowsecurity FROM pg_class c WHERE c.oid = relation) IS NOT TRUE THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT string_agg(DISTINCT quote_ident(w.rolname), ', ')
              FROM graphrag_attached._code_of(relation) o
              JOIN pg_roles w ON w.oid = o.owner AND NOT w.rolsuper
             WHERE NOT EXISTS (SELECT FROM pg_roles r
                                WHERE r.oid <> w.oid AND r.rolname !~ '^(pg_|graphrag_)' AND pg_has_role(w.oid, r.oid, 'MEMBER')
                                  AND pg_has_role(r.oid, 'graphrag_member', 'USAGE')));
END
$$;

-- The documents of the rows that policies of their tables show the caller, by attachment and key. VOLATILE, to lock each table before it is
-- looked at: nobody takes it over meanwhile.
CREATE OR REPLACE FUNCTION graphrag_attached._readable_keys() RETURNS TABLE (attached_id int, source_key text)
LANGUAGE plpgsql VOLATILE ROWS 1000 PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp SET row_security = on
SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex'
SET quote_all_identifiers = off
AS $$
#variable_conflict use_column
DECLARE
    t record;
    s record;
BEGIN
    FOR t IN SELECT x.* FROM graphrag_attached._row_tables x WHERE graphrag_attached._rows_of(x.relation, x.numbers) = 'some' ORDER BY x.id LOOP
        BEGIN
            s := graphrag_attached._source(t.attachment);
            EXECUTE format('LOCK TABLE %s IN ACCESS SHARE MODE', s.source);
            IF to_regclass(s.source) = t.relation AND graphrag_attached._rows_of(t.relation, t.numbers) = 'some' THEN
                RETURN QUERY EXECUTE format('SELECT %s, %s FROM %s r WHERE %s', t.id, s.key_text, s.source, s.condition);
            END IF;
        EXCEPTION
            WHEN deadlock_detected OR lock_not_available OR serialization_failure OR statement_too_complex OR insufficient_resources OR system_error THEN
                -- Nothing of the table: what the server lacks at the moment, such as stack, would silently leave rows out.
                RAISE;
            -- What cannot be read is not seen: a column is gone, a policy raises an error, only columns were granted, which lock no table.
            WHEN OTHERS THEN
                NULL;
        END;
    END LOOP;
END
$$;

-- The same as {attachment: {key: true}}.
CREATE OR REPLACE FUNCTION graphrag_attached._keys_by_attachment() RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT jsonb_object_agg(a.attached_id, a.keys)
              FROM (SELECT k.attached_id, jsonb_object_agg(k.source_key, true) AS keys
                      FROM graphrag_attached._readable_keys() k GROUP BY k.attached_id) a);
END
$$;

-- What replication applies to attached tables, and whoever sets session_replication_role = replica. There neither triggers of statements
-- fire (but for TRUNCATE), nor those of graphrag.documents. So the trigger of rows notes the document that a row makes, with the rights
-- of the table's owner, and a worker writes it. Nothing else is done in the session that applies: whatever failed there would stop the
-- subscription. Rows are added and no row is changed. Not dumped: a restore is followed by a pass.
CREATE TABLE graphrag_attached._replicated (
    source_key  text,
    title       text,
    content     text,
    metadata    jsonb,
    valid_from  timestamptz,
    valid_to    timestamptz,
    attached_id int         NOT NULL,
    action      text        NOT NULL,
    caller      name        NOT NULL DEFAULT current_user,
    at          timestamptz NOT NULL DEFAULT now(),
    id          bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    CONSTRAINT replicated_pkey PRIMARY KEY (attached_id, id),
    CONSTRAINT replicated_action_check CHECK (action IN ('write', 'delete', 'truncate', 'pass', 'fault'))
);
-- A key may be longer than a B-tree takes.
CREATE INDEX replicated_source_key_idx ON graphrag_attached._replicated USING hash (source_key);
COMMENT ON TABLE graphrag_attached._replicated IS 'Documents of rows that replication brought to attached tables, until a worker writes them';
COMMENT ON COLUMN graphrag_attached._replicated.source_key IS 'Of write and delete: the document''s';
COMMENT ON COLUMN graphrag_attached._replicated.title IS 'Of write: the document''s; of fault: SQLSTATE';
COMMENT ON COLUMN graphrag_attached._replicated.content IS 'Of write: the document''s; of fault: the message';
COMMENT ON COLUMN graphrag_attached._replicated.metadata IS 'Of write: the document''s';
COMMENT ON COLUMN graphrag_attached._replicated.valid_from IS 'Of write: the document''s';
COMMENT ON COLUMN graphrag_attached._replicated.valid_to IS 'Of write: the document''s';
COMMENT ON COLUMN graphrag_attached._replicated.attached_id IS 'Number of the attachment';
COMMENT ON COLUMN graphrag_attached._replicated.action IS 'write or delete a document; truncate: delete all; pass: compare the whole table; fault: a row of which no document could be made';
COMMENT ON COLUMN graphrag_attached._replicated.caller IS 'Who noted it, who must own the table';
COMMENT ON COLUMN graphrag_attached._replicated.at IS 'Time of its transaction';
COMMENT ON COLUMN graphrag_attached._replicated.id IS 'Order: what was noted later of a key holds';

-- Whether the session applies what another one wrote.
CREATE OR REPLACE FUNCTION graphrag_attached._is_replicated() RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN current_setting('session_replication_role') = 'replica';
END
$$;

-- Only owners of attached tables note something here; what they say is heard of their own tables alone (_take_replicated).
CREATE OR REPLACE FUNCTION graphrag_attached._replicated_by() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF has_function_privilege(to_regprocedure(format('graphrag_attached._changed_%s()', NEW.attached_id)), 'EXECUTE') IS NOT TRUE THEN
        RAISE EXCEPTION 'role "%" may not hand over rows of attachment %', current_user, NEW.attached_id
            USING ERRCODE = 'insufficient_privilege', HINT = 'Only the owner of the attached table may; its triggers do.';
    END IF;
    NEW.caller := current_user;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION graphrag_attached._replicated_by() IS 'Trigger of what replication brought to attached tables: who says so';
CREATE OR REPLACE TRIGGER replicated_by BEFORE INSERT ON graphrag_attached._replicated
    FOR EACH ROW EXECUTE FUNCTION graphrag_attached._replicated_by();
ALTER TABLE graphrag_attached._replicated ENABLE ALWAYS TRIGGER replicated_by;

-- The body of the trigger function of an attachment. What rows make is written out in it: replication has a call for each row. Only
-- values of the row are looked at, and no table. Where that cannot be (a column is gone, a type of others would be named), a worker
-- compares the whole table instead. The search path of somebody else may be in force until _is_as_made() says that it is ours.
CREATE OR REPLACE FUNCTION graphrag_attached._body(attached_id int) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off
AS $$
DECLARE
    a graphrag_attached._attachments;
    s record;
    rows text := format('INSERT INTO graphrag_attached._replicated (attached_id, action) VALUES (%s, ''pass'');', attached_id);
BEGIN
    SELECT v.* INTO a FROM graphrag_attached._attachments v WHERE v.id = attached_id;
    IF a.id IS NOT NULL
       AND NOT EXISTS (SELECT FROM pg_attribute t
                         JOIN pg_type y ON y.oid = (graphrag_attached._type(a.relation, t.attname)).base
                        WHERE t.attrelid = a.relation AND t.attnum > 0 AND NOT t.attisdropped
                          AND t.attname = ANY (graphrag_attached._listed_columns(a)
                                               || ARRAY[a.title_column, a.where_column, a.valid_from_column, a.valid_to_column])
                          -- Such a column is computed where a table is read.
                          AND (t.attgenerated = 'v'
                               -- A cast to it would name it, and who owns its schema could put another under its name.
                               OR y.oid <> t.atttypid AND y.typnamespace <> 'pg_catalog'::regnamespace)) THEN
        BEGIN
            s := graphrag_attached._source(a);
            rows := format($rows$
            BEGIN
                IF TG_OP <> 'INSERT' THEN
                    SELECT %2$s INTO former FROM (SELECT OLD.*) r WHERE %3$s;
                END IF;
                IF TG_OP <> 'DELETE' THEN
                    SELECT %2$s INTO written FROM (SELECT NEW.*) r WHERE %3$s;
                END IF;
            EXCEPTION WHEN OTHERS THEN
                fault := ARRAY[SQLSTATE, SQLERRM];
            END;
            IF fault IS NOT NULL THEN
                INSERT INTO graphrag_attached._replicated (attached_id, action, title, content) VALUES (%1$s, 'fault', fault[1], fault[2]);
            ELSE
                INSERT INTO graphrag_attached._replicated (attached_id, action, source_key)
                SELECT %1$s, 'delete', former.source_key WHERE former.source_key <> written.source_key OR written.source_key IS NULL AND former.source_key IS NOT NULL;
                INSERT INTO graphrag_attached._replicated (attached_id, action, source_key, title, content, metadata, valid_from, valid_to)
                SELECT %1$s, 'write', written.source_key, written.title, written.content, written.metadata, written.valid_from, written.valid_to
                 WHERE written.source_key IS NOT NULL AND written IS DISTINCT FROM former;
            END IF;$rows$, attached_id, s.document, s.condition);
        EXCEPTION WHEN undefined_column OR datatype_mismatch OR object_not_in_prerequisite_state THEN
            NULL;
        END;
    END IF;
    RETURN format($body$
#variable_conflict use_column
DECLARE
    statement text;
    hint text;
    former graphrag_attached._replicated;
    written graphrag_attached._replicated;
    fault text[];
BEGIN
    IF graphrag_attached._is_replicated() THEN
        IF NOT graphrag_attached._is_as_made(%1$s) THEN
            INSERT INTO graphrag_attached._replicated (attached_id, action) VALUES (%1$s, 'pass');
        ELSIF TG_LEVEL = 'STATEMENT' THEN
            INSERT INTO graphrag_attached._replicated (attached_id, action)
            VALUES (%1$s, CASE WHEN TG_RELID = graphrag_attached._attached_above(%1$s, TG_RELID) THEN 'truncate' ELSE 'pass' END);
        ELSE
            %2$s
        END IF;
        RETURN NULL;
    END IF;
    BEGIN
        FOREACH statement IN ARRAY graphrag_attached._changed_sql(%1$s, graphrag_attached._attached_above(%1$s, TG_RELID), TG_OP, TG_NAME) LOOP
            EXECUTE statement;
        END LOOP;
    EXCEPTION
        WHEN deadlock_detected OR lock_not_available THEN
            RAISE;
        WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
            PERFORM graphrag_attached._not_followed(%1$s, graphrag_attached._attached_above(%1$s, TG_RELID), SQLSTATE, SQLERRM, hint);
    END;
    RETURN NULL;
END
$body$, attached_id, rows);
END
$$;

-- What a session writes to rows, and what a pass reads of them, is newer than what was noted of them.
CREATE OR REPLACE FUNCTION graphrag._supersede_replicated(attached_id int, source_keys text[]) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    DELETE FROM graphrag_attached._replicated r
     WHERE r.attached_id = _supersede_replicated.attached_id AND r.source_key = ANY (_supersede_replicated.source_keys);
END;

-- Writes documents of rows that replication brought, a batch at a time in their order; returns whether to go on. What its owner
-- noted of a table he no longer owns, or while he may not write the corpus, is left to a pass.
-- SECURITY DEFINER: a worker need not own the extension.
CREATE OR REPLACE FUNCTION graphrag._take_replicated(attached_id int) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    attached graphrag._attached_tables;
    corpus text;
    relation oid;
    owner oid;
    batch graphrag_attached._replicated[];
    accepted graphrag_attached._replicated[];
    needs_pass boolean;
    emptied bigint;
    hint text;
BEGIN
    SELECT x.* INTO attached FROM graphrag._attached_tables x WHERE x.id = _take_replicated.attached_id;
    corpus := (SELECT c.name FROM graphrag.corpora c WHERE c.id = attached.corpus_id);
    SELECT c.oid, c.relowner INTO relation, owner FROM pg_class c WHERE c.oid = graphrag_attached._relation(attached);
    IF relation IS NULL THEN
        -- Of a table that was dropped the documents go anyway; one that is missing is compared when it is there.
        DELETE FROM graphrag_attached._replicated r WHERE r.attached_id = _take_replicated.attached_id;
        RETURN false;
    END IF;
    WITH oldest AS (
        SELECT r.id, sum(pg_column_size(r.*)) OVER (ORDER BY r.id ROWS UNBOUNDED PRECEDING) - pg_column_size(r.*) AS bytes_before
          FROM (SELECT x.* FROM graphrag_attached._replicated x WHERE x.attached_id = attached.id ORDER BY x.id LIMIT 1000) r
    ), free AS (
        SELECT r.id FROM graphrag_attached._replicated r JOIN oldest o ON o.id = r.id
         WHERE r.attached_id = attached.id AND o.bytes_before < 8000000
         ORDER BY r.id FOR UPDATE OF r SKIP LOCKED
    ), gone AS (
        -- What comes after one that a session holds, which writes the row itself, is for a later worker: its order is kept.
        DELETE FROM graphrag_attached._replicated r
         USING free f
         WHERE r.attached_id = attached.id AND r.id = f.id AND r.id < ALL (SELECT o.id FROM oldest o WHERE o.bytes_before < 8000000 EXCEPT SELECT x.id FROM free x)
        RETURNING r.*
    ) SELECT array_agg(g.*::graphrag_attached._replicated ORDER BY g.id) INTO batch FROM gone g;
    IF batch IS NULL THEN
        RETURN false;
    END IF;
    BEGIN
        PERFORM graphrag._check_may_feed(attached, pg_get_userbyid(owner));
        accepted := ARRAY(SELECT u FROM unnest(batch) u
                            JOIN pg_roles r ON r.rolname = u.caller AND pg_has_role(r.oid, owner, 'USAGE') ORDER BY u.id);
    EXCEPTION WHEN insufficient_privilege THEN
        GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
        PERFORM graphrag._record_fault(attached.id, SQLSTATE, SQLERRM, hint, true);
        accepted := '{}';
    END;
    needs_pass := cardinality(accepted) < cardinality(batch) OR EXISTS (SELECT FROM unnest(batch) u WHERE u.action NOT IN ('write', 'delete'));
    PERFORM graphrag._record_fault(attached.id, u.title, u.content, 'Mend the row, and call graphrag.backfill_table().', true)
       FROM unnest(accepted) u WHERE u.action = 'fault' ORDER BY u.id;
    emptied := (SELECT max(u.id) FROM unnest(accepted) u WHERE u.action = 'truncate');
    IF emptied IS NOT NULL THEN
        DELETE FROM graphrag.documents d WHERE d.attached_id = attached.id;
    END IF;
    WITH last AS (
        SELECT DISTINCT ON (u.source_key) u.*
          FROM unnest(accepted) u
         WHERE u.action IN ('write', 'delete') AND (emptied IS NULL OR u.id > emptied)
         ORDER BY u.source_key, u.id DESC
    ) SELECT array_agg(l.*::graphrag_attached._replicated ORDER BY l.source_key) INTO accepted FROM last l;
    PERFORM graphrag._delete_attached(attached.id, corpus, ARRAY(SELECT u.source_key FROM unnest(accepted) u WHERE u.action = 'delete'));
    PERFORM graphrag._write_attached(ROW(NULL, 'write', attached.id, relation, array_agg(u.source_key), array_agg(u.title), array_agg(u.content),
                                         array_agg(u.metadata), NULL, array_agg(u.valid_from), array_agg(u.valid_to))::graphrag_attached._handover, corpus)
       FROM unnest(accepted) u WHERE u.action = 'write' HAVING count(*) > 0;
    IF needs_pass THEN
        PERFORM graphrag._queue_attached(attached.id);
    END IF;
    PERFORM graphrag._see_attached(attached.id);
    RETURN EXISTS (SELECT FROM graphrag_attached._replicated r WHERE r.attached_id = _take_replicated.attached_id);
END
$$;

-- How attach_table(), attach_entities(), attach_relationships() and detach_table() prove who calls them. Inside SECURITY DEFINER nobody can tell: session_user is the
-- superuser whose ANALYZE or REFRESH MATERIALIZED VIEW runs an attacker's function. A column default says it: `caller` is
-- whoever runs the INSERT, and cannot be given. The trigger does the work and keeps no row.

CREATE OR REPLACE FUNCTION graphrag.attach_table(source regclass, corpus text, key_column name, content_columns name[],
    title_column name DEFAULT NULL, metadata_columns name[] DEFAULT '{}', options jsonb DEFAULT '{}') RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wrong text;
    key_columns name[];
BEGIN
    IF jsonb_typeof(options) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'options of attach_table() must be an object, not %', coalesce(jsonb_typeof(options), 'null')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'For example options => ''{"key_prefix": "articles/", "where": "is_public"}''.';
    END IF;
    SELECT min(o.key) INTO wrong
      FROM jsonb_each(options) o
     WHERE o.key NOT IN ('key_columns', 'key_prefix', 'where', 'valid_from', 'valid_to')
        OR jsonb_typeof(o.value) IS DISTINCT FROM CASE o.key WHEN 'key_columns' THEN 'array' ELSE 'string' END
        OR o.key = 'key_columns' AND (SELECT count(*) FILTER (WHERE jsonb_typeof(e.value) <> 'string') > 0 OR count(*) = 0 OR count(*) > 32
                                        FROM jsonb_array_elements(CASE jsonb_typeof(o.value) WHEN 'array' THEN o.value ELSE '[]' END) e)
        OR o.key = 'key_prefix' AND (octet_length(o.value #>> '{}') > 200 OR o.value #>> '{}' = '');
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'option "%" of attach_table() cannot be %', left(wrong, 100), left(options ->> wrong, 200) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Options are key_columns (a list of columns), key_prefix (a text of at most 200 bytes), where, valid_from and valid_to (a column each).';
    END IF;
    IF options ? 'key_columns' AND key_column IS NOT NULL THEN
        RAISE EXCEPTION 'attach_table() takes key_column or the option key_columns, not both' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'For a key of several columns: key_column => NULL, options => ''{"key_columns": ["a", "b"]}''.';
    END IF;
    key_columns := CASE WHEN options ? 'key_columns' THEN ARRAY(SELECT jsonb_array_elements_text(options -> 'key_columns')::name) ELSE ARRAY[key_column] END;
    IF num_nulls(source, corpus, content_columns, metadata_columns) > 0 OR cardinality(content_columns) = 0
        OR array_position(content_columns || metadata_columns || key_columns, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'attach_table() needs a table, a corpus, a key column and one content column at least; none can be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'For example SELECT graphrag.attach_table(''articles'', ''default'', ''id'', ARRAY[''body''], title_column => ''headline'');';
    END IF;
    INSERT INTO graphrag._attach_requests (action, source, corpus, key_columns, content_columns, title_column, metadata_columns, key_prefix, where_column,
                                           valid_from_column, valid_to_column)
    VALUES ('attach', source, corpus, key_columns, content_columns, title_column, metadata_columns, coalesce(options ->> 'key_prefix', ''),
            options ->> 'where', options ->> 'valid_from', options ->> 'valid_to');
END
$$;
COMMENT ON FUNCTION graphrag.attach_table(regclass, text, name, name[], name, name[], jsonb) IS
    'Makes the rows of a table documents of a corpus (source_key: the key as text) and keeps them so: INSERT, UPDATE, DELETE, COPY, MERGE and TRUNCATE follow in the same transaction; rows that exist are brought in by workers when the table is the extension owner''s, else by its owner: CALL backfill_table(). Options: key_columns (a key of several columns, joined by "/"; key_column is null then), key_prefix (stands before the key), where (a boolean column that says which rows are documents), valid_from and valid_to (columns of dates). Columns are followed when they are renamed; what cannot be followed marks the attachment in attached_tables, and never fails a statement on the table. For the owner of the table, who may be granted EXECUTE. Partitions may be written directly, attached and detached. What logical replication applies follows as soon as a worker looks.';

-- Does what a request asks for, with the rights of the extension's owner and for the caller the row names.
CREATE OR REPLACE FUNCTION graphrag._attach_requested() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    attached record;
    found_one boolean := false;
    had_rows boolean := false;
    referring text;
BEGIN
    IF NEW.action = 'relate' OR NEW.action = 'attach' AND NEW.kind <> 'documents' THEN
        PERFORM graphrag._attach_rows(NEW);
        RETURN NULL;
    END IF;
    IF NEW.action = 'attach' THEN
        IF NOT has_function_privilege(NEW.caller, 'graphrag.attach_table(regclass, text, name, name[], name, name[], jsonb)', 'EXECUTE') THEN
            RAISE EXCEPTION 'role "%" may not call graphrag.attach_table()', NEW.caller
                USING ERRCODE = 'insufficient_privilege', HINT = 'The owner of the extension gives it: GRANT EXECUTE ON FUNCTION graphrag.attach_table TO the role.';
        END IF;
        PERFORM graphrag._check_may_act_for(pg_get_userbyid(c.relowner)) FROM pg_class c WHERE c.oid = NEW.source;
        PERFORM graphrag._check_attachable(NEW);
        PERFORM graphrag._attach(NEW);
        RETURN NULL;
    END IF;
    IF NOT has_function_privilege(NEW.caller, 'graphrag.detach_table(regclass, text, boolean)', 'EXECUTE') THEN
        RAISE EXCEPTION 'role "%" may not call graphrag.detach_table()', NEW.caller
            USING ERRCODE = 'insufficient_privilege', HINT = 'The owner of the extension gives it: GRANT EXECUTE ON FUNCTION graphrag.detach_table TO the role.';
    END IF;
    FOR attached IN
        SELECT a.id, a.corpus_id, a.kind, a.key_prefix, graphrag_attached._relation(a) AS relation
          FROM graphrag._attached_tables a
          JOIN graphrag.corpora c ON c.id = a.corpus_id
         WHERE coalesce(graphrag_attached._relation(a), a.relation) = NEW.source AND (NEW.corpus IS NULL OR c.name = NEW.corpus)
         ORDER BY a.id
    LOOP
        -- The owner of a table that is gone is unknown; the extension's owner cleans up.
        PERFORM graphrag._check_owner(NEW.caller, coalesce(attached.relation, 'graphrag._attached_tables'::regclass));
        IF NOT NEW.keep_documents THEN
            PERFORM graphrag._check_may_feed(a, NEW.caller) FROM graphrag._attached_tables a WHERE a.id = attached.id;
        END IF;
        PERFORM graphrag._detach(attached.id, NEW.keep_documents);
        PERFORM graphrag._settle_references(attached.corpus_id);
        SELECT string_agg(format('%I.%I', o.schema_name, o.table_name), ', ' ORDER BY o.id) INTO referring
          FROM graphrag._attached_tables o
         WHERE o.corpus_id = attached.corpus_id AND attached.key_prefix = ANY (o.reference_prefixes);
        IF attached.kind = 'entities' AND referring IS NOT NULL THEN
            RAISE NOTICE 'relationships of % still lead to rows of table %, whose keys begin with "%"', referring, NEW.source::regclass, attached.key_prefix
                USING HINT = 'Attach it again by the same key and key_prefix, or detach and attach them too.';
        END IF;
        found_one := true;
        had_rows := had_rows OR attached.kind <> 'documents';
    END LOOP;
    -- Not for others to lock documents by: their policy stays until the owner changes something.
    IF had_rows AND pg_has_role(NEW.caller, (SELECT c.relowner FROM pg_class c WHERE c.oid = 'graphrag.corpora'::regclass), 'USAGE') THEN
        PERFORM graphrag._settle_policies();
    END IF;
    IF NOT found_one THEN
        RAISE EXCEPTION 'table % is not attached%', NEW.source::regclass, ' to corpus ' || quote_ident(NEW.corpus)
            USING ERRCODE = 'undefined_object', HINT = 'See graphrag.attached_tables.';
    END IF;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER attach_by BEFORE INSERT ON graphrag._attach_requests
    FOR EACH ROW EXECUTE FUNCTION graphrag._set_caller();
CREATE OR REPLACE TRIGGER attach_requested BEFORE INSERT ON graphrag._attach_requests
    FOR EACH ROW EXECUTE FUNCTION graphrag._attach_requested();

-- Whether a role may write the documents of a corpus: as the owner of the extension, or by an INSERT on documents that policies of
-- ours let through.
CREATE OR REPLACE FUNCTION graphrag._may_write(role name, corpus_id int) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN pg_has_role(role, (SELECT e.extowner FROM pg_extension e WHERE e.extname = 'pg_graphrag'), 'USAGE')
        OR (SELECT bool_and(has_column_privilege(role, 'graphrag.documents', c.name, 'INSERT'))
              FROM unnest(ARRAY['corpus', 'source_key', 'title', 'content', 'metadata']) c (name))
           AND (NOT pg_has_role(role, 'graphrag_writer', 'USAGE')
                OR EXISTS (SELECT FROM graphrag.corpus_grants g
                             JOIN pg_roles r ON r.oid = g.role_oid AND r.rolname = g.role
                            WHERE g.corpus_id = _may_write.corpus_id AND g.level = 'write' AND pg_has_role(_may_write.role, r.oid, 'USAGE')));
END
$$;

-- The name of a relation whose schema keeps its name until this transaction ends: nobody puts another under it meanwhile.
CREATE OR REPLACE FUNCTION graphrag._held_name(relation oid) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    schema_id oid := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = relation);
BEGIN
    PERFORM graphrag._hold_schemas(ARRAY[schema_id], (SELECT c.relowner FROM pg_class c WHERE c.oid = relation));
    RETURN (SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname)
              FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation AND n.oid = schema_id);
END
$$;

-- Locks a table for its number: whatever has its name.
CREATE OR REPLACE FUNCTION graphrag._lock_attached(relation oid, mode text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text := graphrag._held_name(relation);
BEGIN
    EXECUTE format('LOCK TABLE %s IN %s MODE', name, mode);
    IF to_regclass(name) IS DISTINCT FROM relation THEN
        RAISE EXCEPTION 'table % was changed by others meanwhile', name
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Try again.';
    END IF;
    RETURN name;
END
$$;

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
BEGIN
    INSERT INTO graphrag._attached_tables (corpus_id, relation, schema_name, table_name, content_columns, title_column, metadata_columns, needs_grant,
                                           key_columns, key_prefix, metadata_keys, where_column, valid_from_column, valid_to_column,
                                           kind, entity_type, name_is_unique, alias_columns)
    SELECT k.id, c.oid, n.nspname, c.relname, request.content_columns, request.title_column, request.metadata_columns,
           NOT pg_has_role(request.caller, e.extowner, 'USAGE'),
           request.key_columns, request.key_prefix, request.metadata_columns, request.where_column, request.valid_from_column, request.valid_to_column,
           coalesce(request.kind, 'documents'), request.entity_type,
           coalesce(request.kind = 'entities' AND graphrag_attached._is_unique(request.source, request.title_column), false),
           coalesce(request.alias_columns, '{}')
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, graphrag.corpora k, pg_extension e
     WHERE c.oid = request.source AND k.name = request.corpus AND e.extname = 'pg_graphrag'
    RETURNING id INTO attached;
    PERFORM graphrag._make_attached_triggers(attached, request.source);
    PERFORM graphrag_attached._check_columns(v) FROM graphrag_attached._attachments v WHERE v.id = attached;
    PERFORM graphrag._see_attached(attached);
    PERFORM graphrag._queue_attached(attached);
    PERFORM graphrag._notice_waiting(attached);
END
$$;

-- An update from a version whose triggers were other ones says which tables had them. A new installation has no attachment, whatever
-- somebody (ALTER DATABASE … SET) has the setting say.
SELECT graphrag._make_attached_triggers(a.id, u.value::oid)
  FROM graphrag._attached_tables a
  JOIN pg_catalog.jsonb_each_text(coalesce(nullif(pg_catalog.current_setting('graphrag.attached_relations', true), ''), '{}')::jsonb) u
    ON u.key = a.id::text;

-- Refuses what is no table that can be attached: a view, a part of another table, one of the system.
CREATE OR REPLACE FUNCTION graphrag._check_relation(relation oid) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t record;
    wrong text;
BEGIN
    SELECT c.relkind, c.relpersistence, c.relispartition, n.nspname INTO t
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
    wrong := CASE
        WHEN t.relkind IN ('v', 'm') THEN
            format('it is a %sview, whose rows change without a statement on it; attach %s: generated columns say what it computes, and a boolean one, option where, which rows it shows',
                   CASE t.relkind WHEN 'm' THEN 'materialized ' ELSE '' END,
                   coalesce((SELECT string_agg(DISTINCT d.refobjid::regclass::text, ', ')
                               FROM pg_rewrite r
                               JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
                                               AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> relation
                              WHERE r.ev_class = relation), 'a table'))
        WHEN t.relkind = 'f' THEN 'it is a foreign table; attach a local copy of it'
        WHEN t.relkind NOT IN ('r', 'p') THEN 'it is not a table'
        WHEN t.relpersistence = 't' THEN 'it is temporary; attach a permanent table'
        WHEN t.relpersistence = 'u' THEN 'it is unlogged, and a crash would empty it without its documents; ALTER TABLE … SET LOGGED first'
        WHEN t.nspname IN ('pg_catalog', 'information_schema', 'graphrag', 'graphrag_attached', 'ag_catalog') OR t.nspname ~ '^pg_'
            OR graphrag._is_graph(t.nspname)
            THEN 'it belongs to the system or to an extension; attach a table of your own'
        WHEN t.relispartition THEN 'it is a partition; attach the partitioned table'
        WHEN t.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits i WHERE relation IN (i.inhrelid, i.inhparent))
            THEN 'it inherits or is inherited, and triggers do not follow inheritance; use a partitioned table'
        WHEN t.relkind = 'p' AND EXISTS (SELECT FROM pg_partition_tree(relation) p JOIN pg_class c ON c.oid = p.relid WHERE c.relkind = 'f')
            THEN 'one of its partitions is a foreign table; attach a local copy of it'
        WHEN t.relkind = 'p' AND EXISTS (SELECT FROM pg_partition_tree(relation) p JOIN pg_class c ON c.oid = p.relid WHERE c.relpersistence = 'u')
            THEN 'one of its partitions is unlogged, and a crash would empty it without its documents; ALTER TABLE … SET LOGGED first'
    END;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'table % cannot be attached', relation::regclass
            USING ERRCODE = 'wrong_object_type', HINT = upper(left(wrong, 1)) || substr(wrong, 2) || '.';
    END IF;
END
$$;

-- Refuses what cannot be attached, with the reason. Takes the lock that CREATE TRIGGER needs first, so that all stays as checked.
CREATE OR REPLACE FUNCTION graphrag._check_attachable(request graphrag._attach_requests) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text := request.source::regclass;
    t record;
    columns name[] := array_remove(request.content_columns || request.metadata_columns || request.key_columns || request.alias_columns
                                   || request.from_columns || request.to_columns || ARRAY[request.title_column, request.where_column, request.valid_from_column, request.valid_to_column], NULL);
    wrong text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = request.source) THEN
        RAISE EXCEPTION 'table % does not exist', name USING ERRCODE = 'undefined_table', HINT = 'Give the name of a table.';
    END IF;
    PERFORM graphrag._check_owner(request.caller, request.source);
    PERFORM graphrag._check_relation(request.source);
    name := graphrag._lock_attached(request.source, 'SHARE ROW EXCLUSIVE');
    -- Again: it may have changed hands while we waited.
    PERFORM graphrag._check_owner(request.caller, request.source);
    SELECT pg_get_userbyid(c.relowner) AS owner, c.relforcerowsecurity,
           graphrag_attached._foreign_code(c.oid, c.relowner) AS foreign_code INTO t
      FROM pg_class c WHERE c.oid = request.source;
    IF t.relforcerowsecurity THEN
        RAISE EXCEPTION 'table % cannot be attached: its row-level security is in force for its owner too', name
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY first.', name);
    ELSIF t.foreign_code IS NOT NULL THEN
        RAISE EXCEPTION 'table % cannot be attached: reading it would run code of others with its owner''s rights: %', name, t.foreign_code
            USING ERRCODE = 'insufficient_privilege', HINT = format('Give it to "%s", the owner of the table.', t.owner);
    END IF;

    IF NOT EXISTS (SELECT FROM graphrag.corpora c WHERE c.name = request.corpus) THEN
        IF request.corpus <> 'default' THEN
            RAISE EXCEPTION 'corpus "%" does not exist', request.corpus
                USING ERRCODE = 'undefined_object', HINT = format('Create it with SELECT graphrag.create_corpus(%L);', request.corpus);
        END IF;
        PERFORM graphrag._default_corpus();
    END IF;
    PERFORM graphrag._refuse_moved(c.id) FROM graphrag.corpora c WHERE c.name = request.corpus;
    IF NOT pg_has_role(request.caller, (SELECT e.extowner FROM pg_extension e WHERE e.extname = 'pg_graphrag'), 'USAGE')
        AND NOT graphrag._may_write(t.owner, (SELECT c.id FROM graphrag.corpora c WHERE c.name = request.corpus)) THEN
        RAISE EXCEPTION 'role "%" may not write corpus "%"', t.owner, request.corpus
            USING ERRCODE = 'insufficient_privilege',
                  HINT = format('Whoever owns an attached table writes documents. The owner of the extension gives the corpus with SELECT graphrag.grant_corpus(%L, %L, ''write'');',
                                request.corpus, t.owner);
    END IF;
    IF EXISTS (SELECT FROM graphrag._attached_tables a JOIN graphrag.corpora c ON c.id = a.corpus_id
                WHERE c.name = request.corpus AND coalesce(graphrag_attached._relation(a), a.relation) = request.source) THEN
        RAISE EXCEPTION 'table % is already attached to corpus "%"', name, request.corpus USING ERRCODE = 'duplicate_object',
            HINT = format('To attach it with other columns, first SELECT graphrag.detach_table(%L, %L);%s', name, request.corpus,
                          CASE WHEN request.kind IN ('entities', 'relationships') THEN '' ELSE ' unchanged documents are not indexed anew.' END);
    END IF;

    SELECT string_agg(DISTINCT format('"%s"', u.name), ', ') INTO wrong
      FROM unnest(columns) u (name) WHERE (graphrag_attached._type(request.source, u.name)).base IS NULL;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'table % has no column %', name, wrong USING ERRCODE = 'undefined_column',
            HINT = format('Its columns: %s.', (SELECT string_agg(a.attname, ', ' ORDER BY a.attnum) FROM pg_attribute a
                                                WHERE a.attrelid = request.source AND a.attnum > 0 AND NOT a.attisdropped));
    END IF;
    SELECT min(u.name) INTO wrong
      FROM (SELECT c.name FROM unnest(request.content_columns) c (name) GROUP BY c.name HAVING count(*) > 1
             UNION ALL
            SELECT c.name FROM unnest(request.metadata_columns) c (name) GROUP BY c.name HAVING count(*) > 1
             UNION ALL
            SELECT c.name FROM unnest(request.key_columns) c (name) GROUP BY c.name HAVING count(*) > 1) u (name);
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'column "%" is given twice', wrong USING ERRCODE = 'duplicate_column', HINT = 'Give it once.';
    END IF;
    IF graphrag_attached._keys_index(request.source, request.key_columns) IS NULL THEN
        RAISE EXCEPTION 'column % is not a key of table %',
                (SELECT string_agg(format('"%s"', u.name), ', ' ORDER BY u.n) FROM unnest(request.key_columns) WITH ORDINALITY u (name, n)), name
            USING ERRCODE = 'invalid_parameter_value',
            HINT = 'The key column must be NOT NULL and have a unique index of its own, neither partial nor deferrable (on a partitioned table '
                   'it may be completed by columns of the partition key). For a key of several columns: '
                   || CASE request.kind WHEN 'entities' THEN 'key_columns => ARRAY[''a'', ''b''].'
                      ELSE CASE request.kind WHEN 'relationships' THEN '' ELSE 'key_column => NULL, ' END || 'options => ''{"key_columns": ["a", "b"]}''.' END
                   || ' Or add a column: ALTER TABLE … ADD document_key text GENERATED ALWAYS AS (…) STORED NOT NULL UNIQUE.';
    END IF;
    SELECT min(u.name) INTO wrong FROM unnest(request.key_columns) u (name) WHERE NOT (graphrag_attached._type(request.source, u.name)).trusted;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'column "%" of table % is of type %, which cannot be a key here', wrong, name,
                format_type((graphrag_attached._type(request.source, wrong)).base, NULL)
            USING ERRCODE = 'datatype_mismatch', HINT = 'Types of PostgreSQL and of extensions can, user-defined ones cannot; add a unique text column.';
    END IF;
    -- Two tables that number their rows would take each other's documents, sooner or later.
    IF cardinality(request.key_columns) = 1 AND graphrag._numbers_rows(request.source, request.key_columns[1])
       AND EXISTS (SELECT FROM graphrag._attachments v
                    WHERE v.corpus = request.corpus AND v.key_prefix = request.key_prefix AND cardinality(v.key_columns) = 1
                      AND graphrag._numbers_rows(v.relation, v.key_columns[1])) THEN
        RAISE EXCEPTION 'corpus "%" has an attached table with a numeric key already; the keys of % would collide with its', request.corpus, name
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Attach it with options => ''{"key_prefix": "comments/"}'', which its keys begin with, or to a corpus of its own.';
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION graphrag._numbers_rows(relation oid, column_name name) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT coalesce((SELECT y.typcategory = 'N'
                       FROM graphrag_attached._type(relation, column_name) t JOIN pg_catalog.pg_type y ON y.oid = t.base), false);
END;

CREATE OR REPLACE FUNCTION graphrag.attach_entities(source regclass, corpus text, key_columns name[], name name, aliases name[] DEFAULT '{}',
    type text DEFAULT NULL, attributes name[] DEFAULT '{}', text name[] DEFAULT '{}', options jsonb DEFAULT '{}') RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF num_nulls(source, corpus, key_columns, name, aliases, attributes, text) > 0 OR cardinality(key_columns) NOT BETWEEN 1 AND 32
        OR array_position(key_columns || aliases || attributes || text, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'attach_entities() needs a table, a corpus, key columns and a column of names; none can be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'For example SELECT graphrag.attach_entities(''machines'', ''default'', ARRAY[''id''], name => ''code'', attributes => ARRAY[''status'']);';
    END IF;
    PERFORM graphrag_attached._check_row_options('attach_entities', options);
    INSERT INTO graphrag._attach_requests (action, kind, source, corpus, key_columns, title_column, alias_columns, entity_type, metadata_columns,
                                           content_columns, key_prefix, where_column, valid_from_column, valid_to_column)
    VALUES ('attach', 'entities', source, corpus, key_columns, name, aliases, type, attributes, text, options ->> 'key_prefix', options ->> 'where',
            options ->> 'valid_from', options ->> 'valid_to');
END
$$;
COMMENT ON FUNCTION graphrag.attach_entities(regclass, text, name[], name, name[], text, name[], name[], jsonb) IS
    'Makes each row of a table an entity of a corpus, with its name, aliases, type (null: the name of the table) and attributes, and a document of it, whose content names them and has the columns of text. It follows the table as attach_table() does. Where a unique index is on the column of the name alone, the row is the entity of that name that documents mention; else an entity "name (key)" that is related to it. A row is seen by who may SELECT these columns of it. Options: key_prefix (stands before the key in source_key; default: the name of the table and "/"), where, valid_from, valid_to. For the owner of the table, who may be granted EXECUTE.';

CREATE OR REPLACE FUNCTION graphrag.attach_relationships(source regclass, corpus text, type text, to_columns name[], to_table regclass,
    from_columns name[] DEFAULT '{}', from_table regclass DEFAULT NULL, attributes name[] DEFAULT '{}', options jsonb DEFAULT '{}') RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    key_columns name[];
BEGIN
    IF num_nulls(source, corpus, type, to_columns, to_table, from_columns, attributes) > 0 OR cardinality(to_columns) NOT BETWEEN 1 AND 32
        OR array_position(to_columns || from_columns || attributes, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'attach_relationships() needs a table, a corpus, a type, columns and the table to which they lead; none can be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'For example SELECT graphrag.attach_relationships(''machines'', ''default'', ''stands in'', ARRAY[''plant_id''], ''plants'');';
    ELSIF (from_columns = '{}') <> (from_table IS NULL) OR cardinality(from_columns) > 32 THEN
        RAISE EXCEPTION 'attach_relationships() takes from_columns and from_table together, for a join table'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Leave both out where the rows of the table are entities themselves, which attach_entities() attached.';
    END IF;
    PERFORM graphrag_attached._check_row_options('attach_relationships', options);
    IF from_table IS NULL THEN
        IF attributes <> '{}' OR options <> '{}' THEN
            RAISE EXCEPTION 'attach_relationships() takes attributes and options for a join table alone'
                USING ERRCODE = 'invalid_parameter_value', HINT = 'Give attributes of the row to attach_entities().';
        END IF;
        INSERT INTO graphrag._attach_requests (action, source, corpus, reference_type, to_columns, to_table)
        VALUES ('relate', source, corpus, type, to_columns, to_table);
        RETURN;
    END IF;
    key_columns := CASE WHEN options ? 'key_columns' THEN ARRAY(SELECT jsonb_array_elements_text(options -> 'key_columns')::name)
                   ELSE (SELECT array_agg(a.attname ORDER BY k.n)
                           FROM pg_index i
                          CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k (number, n)
                           JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
                          WHERE i.indrelid = source AND i.indisprimary AND k.n <= i.indnkeyatts) END;
    -- What is no table is refused for that (_check_relation).
    IF key_columns IS NULL AND (SELECT c.relkind IN ('r', 'p') FROM pg_class c WHERE c.oid = source) THEN
        RAISE EXCEPTION 'table % has no primary key', source
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Name the columns of a unique index: options => ''{"key_columns": ["a", "b"]}''.';
    END IF;
    INSERT INTO graphrag._attach_requests (action, kind, source, corpus, key_columns, metadata_columns, content_columns, key_prefix, where_column,
                                           valid_from_column, valid_to_column, reference_type, from_columns, from_table, to_columns, to_table)
    VALUES ('attach', 'relationships', source, corpus, key_columns, attributes, '{}', options ->> 'key_prefix', options ->> 'where',
            options ->> 'valid_from', options ->> 'valid_to', type, from_columns, from_table, to_columns, to_table);
END
$$;
COMMENT ON FUNCTION graphrag.attach_relationships(regclass, text, text, name[], regclass, name[], regclass, name[], jsonb) IS
    'Makes foreign keys relationships of a type. Without from_columns: of the rows'' own entities (attach_entities() attached the table) to the rows of to_table that to_columns name, in the order of the key columns by which it is attached. With from_columns and from_table: each row of a join table is a relationship from a row of the one to a row of the other, with attributes of its own. Columns need not have a constraint. Options, for a join table: key_columns (default: its primary key), key_prefix, where, valid_from, valid_to. For the owner of the table, who may be granted EXECUTE, and has the privilege REFERENCES on the others.';

CREATE OR REPLACE FUNCTION graphrag_attached._check_row_options(function text, options jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wrong text;
BEGIN
    IF jsonb_typeof(options) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'options of %() must be an object, not %', function, coalesce(jsonb_typeof(options), 'null')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'For example options => ''{"key_prefix": "machines/", "where": "is_public"}''.';
    END IF;
    SELECT min(o.key) INTO wrong
      FROM jsonb_each(options) o
     WHERE NOT (o.key IN ('key_prefix', 'where', 'valid_from', 'valid_to') OR o.key = 'key_columns' AND function = 'attach_relationships')
        OR jsonb_typeof(o.value) IS DISTINCT FROM CASE o.key WHEN 'key_columns' THEN 'array' ELSE 'string' END
        OR o.key = 'key_columns' AND (SELECT count(*) FILTER (WHERE jsonb_typeof(e.value) <> 'string') > 0 OR count(*) = 0 OR count(*) > 32
                                        FROM jsonb_array_elements(CASE jsonb_typeof(o.value) WHEN 'array' THEN o.value ELSE '[]' END) e);
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'option "%" of %() cannot be %', left(wrong, 100), function, left(options ->> wrong, 200) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Options are key_prefix (a text of at most 200 bytes), where, valid_from and valid_to (a column each), and for a join table key_columns (a list of columns).';
    END IF;
END
$$;

-- Does what attach_entities() and attach_relationships() ask for. Anyone may have written the request: everything is checked here.
CREATE OR REPLACE FUNCTION graphrag._attach_rows(request graphrag._attach_requests) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    function CONSTANT text := CASE WHEN request.action = 'attach' AND request.kind = 'entities'
        THEN 'graphrag.attach_entities(regclass, text, name[], name, name[], text, name[], name[], jsonb)'
        ELSE 'graphrag.attach_relationships(regclass, text, text, name[], regclass, name[], regclass, name[], jsonb)' END;
    owner name := (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = request.source);
    attached int;
    ends graphrag._attached_tables[];
    wrong text;
BEGIN
    IF NOT has_function_privilege(request.caller, function, 'EXECUTE') THEN
        RAISE EXCEPTION 'role "%" may not call %', request.caller, regexp_replace(function, '\(.*', '()')
            USING ERRCODE = 'insufficient_privilege',
                  HINT = format('The owner of the extension gives it: GRANT EXECUTE ON FUNCTION %s TO the role.', regexp_replace(function, '\(.*', ''));
    END IF;
    PERFORM graphrag._check_may_act_for(owner);
    IF request.action = 'attach' THEN
        -- A policy of documents is made under a lock that stops everybody, to the end of the transaction.
        IF NOT pg_has_role(request.caller, (SELECT c.relowner FROM pg_class c WHERE c.oid = 'graphrag.corpora'::regclass), 'USAGE')
            AND NOT graphrag._has_row_policy() THEN
            RAISE EXCEPTION 'documents have no row-level security for rows yet'
                USING ERRCODE = 'object_not_in_prerequisite_state',
                      HINT = 'The owner of the extension calls SELECT graphrag.repair(); once, after the GRANT on this function.';
        END IF;
        request.key_prefix := coalesce(request.key_prefix, (SELECT c.relname FROM pg_class c WHERE c.oid = request.source) || '/');
        IF request.kind = 'entities' THEN
            request.entity_type := coalesce(request.entity_type, (SELECT c.relname FROM pg_class c WHERE c.oid = request.source));
        END IF;
        request.alias_columns := coalesce(request.alias_columns, '{}');
        -- A view has no keys to ask for, and what it is of is for its owner to know.
        PERFORM graphrag._check_owner(request.caller, request.source);
        PERFORM graphrag._check_relation(request.source);
        wrong := CASE
            WHEN request.kind NOT IN ('entities', 'relationships') THEN format('kind %s', request.kind)
            WHEN num_nulls(request.corpus, request.key_columns, request.content_columns, request.metadata_columns) > 0
                OR array_position(request.key_columns || request.content_columns || request.metadata_columns || request.alias_columns, NULL) IS NOT NULL
                OR cardinality(request.key_columns) NOT BETWEEN 1 AND 32 THEN 'columns that are null'
            WHEN request.kind = 'entities' AND request.title_column IS NULL THEN 'no column of names'
            WHEN request.kind = 'relationships' AND request.alias_columns || request.content_columns || request.title_column <> ARRAY[NULL::name]
                THEN 'names or texts of a join table'
            WHEN octet_length(request.key_prefix) NOT BETWEEN 1 AND 200 THEN format('the key_prefix "%s"', left(request.key_prefix, 250))
            WHEN request.kind = 'entities' AND NOT graphrag._is_label(request.entity_type) THEN format('the type "%s"', left(request.entity_type, 250))
        END;
        IF wrong IS NOT NULL THEN
            RAISE EXCEPTION 'rows cannot be attached with %', wrong USING ERRCODE = 'invalid_parameter_value',
                HINT = 'Give a key_prefix of 1 to 200 bytes, and a type of at most 64 characters on one line without ":".';
        END IF;
    ELSE
        SELECT a.id INTO attached
          FROM graphrag._attached_tables a JOIN graphrag.corpora c ON c.id = a.corpus_id
         WHERE a.kind = 'entities' AND graphrag_attached._relation(a) = request.source AND c.name = request.corpus
           FOR UPDATE OF a;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'rows of table % are not entities of corpus "%"', request.source::regclass, request.corpus
                USING ERRCODE = 'object_not_in_prerequisite_state',
                      HINT = 'Attach it first with graphrag.attach_entities(), or as a join table with from_columns and from_table.';
        END IF;
        PERFORM graphrag._check_owner(request.caller, request.source);
        PERFORM graphrag._check_may_feed(a, owner) FROM graphrag._attached_tables a WHERE a.id = attached;
    END IF;
    IF request.action = 'relate' OR request.kind = 'relationships' THEN
        IF NOT graphrag._is_label(request.reference_type) THEN
            RAISE EXCEPTION 'relationships cannot have the type "%"', left(request.reference_type, 250) USING ERRCODE = 'invalid_parameter_value',
                HINT = 'Give a type of at most 64 characters on one line without ":".';
        END IF;
        ends := CASE request.action WHEN 'attach' THEN ARRAY[graphrag._referenced(request, request.from_table, request.from_columns)] END
                || graphrag._referenced(request, request.to_table, request.to_columns);
    END IF;
    IF request.action = 'attach' THEN
        PERFORM graphrag._check_attachable(request);
        IF EXISTS (SELECT FROM graphrag._attachments v WHERE v.corpus = request.corpus AND v.key_prefix = request.key_prefix) THEN
            RAISE EXCEPTION 'corpus "%" has an attached table whose keys begin with "%" already', request.corpus, request.key_prefix
                USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Give another: options => ''{"key_prefix": "sales.orders/"}''.';
        END IF;
        PERFORM graphrag._attach(request);
        SELECT v.id INTO attached FROM graphrag._attachments v WHERE v.corpus = request.corpus AND v.relation = request.source;
    END IF;
    IF ends IS NOT NULL THEN
        UPDATE graphrag._attached_tables a
           SET reference_columns = a.reference_columns || request.from_columns || request.to_columns,
               reference_types = a.reference_types || CASE request.action WHEN 'attach' THEN ARRAY['from'] END || request.reference_type,
               reference_prefixes = a.reference_prefixes || ARRAY(SELECT e.key_prefix FROM unnest(ends) WITH ORDINALITY e ORDER BY e.ordinality),
               reference_by_name = a.reference_by_name
                                   || ARRAY(SELECT e.key_columns = ARRAY[e.title_column] FROM unnest(ends) WITH ORDINALITY e ORDER BY e.ordinality),
               reference_widths = a.reference_widths || CASE request.action WHEN 'attach' THEN ARRAY[cardinality(request.from_columns)] END || cardinality(request.to_columns)
         WHERE a.id = attached;
    END IF;
    PERFORM graphrag._settle_references(a.corpus_id) FROM graphrag._attached_tables a WHERE a.id = attached;
    SELECT min(u.name) INTO wrong
      FROM (SELECT u.name FROM graphrag._attached_tables a
             CROSS JOIN LATERAL unnest(a.metadata_keys::text[] || a.reference_types || CASE WHEN a.alias_columns = '{}' THEN '{}' ELSE ARRAY['aliases', 'alias'] END) u (name)
             WHERE a.id = attached GROUP BY u.name HAVING count(*) > 1) u;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'the rows would have two values called "%"', wrong USING ERRCODE = 'duplicate_column',
            HINT = 'Attributes, types of relationships, "alias", "aliases" and of a join table "from" are fields of a row: give the relationship another type, or leave the attribute out.';
    END IF;
    PERFORM graphrag_attached._check_columns(v) FROM graphrag_attached._attachments v WHERE v.id = attached;
    PERFORM graphrag._see_attached(attached);
    PERFORM graphrag._queue_attached(attached);
    IF request.action = 'attach' THEN
        PERFORM graphrag._warn_of_unseen(ARRAY[attached]);
    END IF;
END
$$;

-- Notes of a corpus' attachments whether relationships lead to their rows: those are mentioned by their keys too. Where that has changed,
-- the rows are indexed again, also those that a worker has at hand.
CREATE OR REPLACE FUNCTION graphrag._settle_references(corpus_id int) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    changed int[];
BEGIN
    WITH led AS (
        SELECT a.id, EXISTS (SELECT FROM graphrag._attached_tables o
                              WHERE o.corpus_id = a.corpus_id AND a.key_prefix = ANY (o.reference_prefixes)) AS is_referenced
          FROM graphrag._attached_tables a
         WHERE a.corpus_id = _settle_references.corpus_id AND a.kind = 'entities'
    ), settled AS (
        UPDATE graphrag._attached_tables a SET is_referenced = led.is_referenced
          FROM led WHERE a.id = led.id AND a.is_referenced <> led.is_referenced RETURNING a.id
    )
    SELECT array_agg(s.id) INTO changed FROM settled s;
    UPDATE graphrag.documents d SET indexed_at = NULL WHERE d.attached_id = ANY (changed) AND d.indexed_at IS NOT NULL;
    PERFORM graphrag._requeue_jobs('index', array_agg(j.corpus_id), array_agg(j.document_id))
       FROM graphrag.documents d
       JOIN graphrag.jobs j ON j.document_id = d.id AND j.chunks IS NULL AND j.kind IN ('index', 'graph')
      WHERE d.attached_id = ANY (changed) AND d.indexed_at IS NULL;
END
$$;

-- Whether a text can stand before the ":" of a line.
CREATE OR REPLACE FUNCTION graphrag._is_label(label text) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
    SELECT coalesce(pg_catalog.char_length(label) BETWEEN 1 AND 64 AND label !~ '[:[:cntrl:]]' AND label = pg_catalog.btrim(label), false);
END;

-- The attachment to whose rows columns lead.
CREATE OR REPLACE FUNCTION graphrag._referenced(request graphrag._attach_requests, target oid, columns name[]) RETURNS graphrag._attached_tables
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    attached graphrag._attached_tables;
BEGIN
    SELECT a.* INTO attached
      FROM graphrag._attached_tables a JOIN graphrag.corpora c ON c.id = a.corpus_id
     WHERE a.kind = 'entities' AND graphrag_attached._relation(a) = target AND c.name = request.corpus;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'rows of table % are not entities of corpus "%"', coalesce(target::regclass::text, 'null'), request.corpus
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Attach it first with graphrag.attach_entities().';
    ELSIF NOT has_table_privilege(request.caller, target, 'REFERENCES') THEN
        RAISE EXCEPTION 'permission denied for table %', target::regclass USING ERRCODE = 'insufficient_privilege',
            HINT = format('Its owner can GRANT REFERENCES ON %s TO %I.', target::regclass, request.caller);
    ELSIF cardinality(columns) IS DISTINCT FROM cardinality(attached.key_columns) OR array_position(columns, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'table % has a key of % columns, and % are given', target::regclass, cardinality(attached.key_columns), coalesce(cardinality(columns), 0)
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = format('Give them in the order of %s.', (SELECT string_agg(format('"%s"', k), ', ') FROM unnest(attached.key_columns) k));
    END IF;
    RETURN attached;
END
$$;

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
COMMENT ON FUNCTION graphrag.detach_table(regclass, text, boolean) IS
    'Ends what attach_table(), attach_entities() and attach_relationships() began, for one corpus or all: the table''s documents stay as they are and no longer follow it, or are deleted (keep_documents => false, and always where rows are entities or relationships). For the owner of the table. Of a table that was dropped, the number in the hint of attached_tables is its name.';

-- Ends one attachment. The table is locked before anything else, as by those who write it: no deadlock with them.
CREATE OR REPLACE FUNCTION graphrag._detach(attached_id int, keep_documents boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    source regclass := (SELECT graphrag_attached._relation(a) FROM graphrag._attached_tables a WHERE a.id = attached_id);
    changed text := format('graphrag_attached._changed_%s()', attached_id);
    -- A row's document is for who may read the row; nobody can be asked any more.
    keeps boolean := keep_documents AND (SELECT a.kind = 'documents' FROM graphrag._attached_tables a WHERE a.id = attached_id);
    name text;
    trigger name;
BEGIN
    IF source IS NOT NULL THEN
        name := graphrag._lock_attached(source, 'ACCESS EXCLUSIVE');
        FOR trigger IN
            SELECT t.tgname FROM pg_trigger t
             WHERE t.tgrelid = source AND t.tgparentid = 0 AND t.tgfoid = to_regprocedure(changed)
        LOOP
            EXECUTE format('DROP TRIGGER %I ON %s', trigger, name);
        END LOOP;
    END IF;
    -- CASCADE: its owner can have made triggers of it too.
    EXECUTE format('DROP FUNCTION IF EXISTS %s CASCADE', changed);
    DELETE FROM graphrag._attached_tables a WHERE a.id = attached_id;
    DELETE FROM graphrag._attached_seen x WHERE x.attached_id = _detach.attached_id;
    DELETE FROM graphrag._attached_faults x WHERE x.attached_id = _detach.attached_id;
    DELETE FROM graphrag_attached._replicated x WHERE x.attached_id = _detach.attached_id;
    DELETE FROM graphrag.jobs j WHERE j.kind = 'attach' AND (j.payload ->> 'attached')::int = attached_id;
    IF NOT keeps THEN
        DELETE FROM graphrag.documents d WHERE d.attached_id = _detach.attached_id;
    END IF;
END
$$;

-- Ends every attachment of a corpus, or of all corpora; for drop_corpus() and uninstall().
CREATE OR REPLACE FUNCTION graphrag._detach_all(corpus_id int) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT graphrag._detach(a.id, true)
      FROM graphrag._attached_tables a
     WHERE _detach_all.corpus_id IS NULL OR a.corpus_id = _detach_all.corpus_id
     ORDER BY a.id;
END;

-- Pictures of documents: their bytes, and what is known of them in words, which is indexed with the document (index/indexing/prepare.py).
-- No foreign key to documents: these may be truncated.
CREATE TABLE graphrag.pictures (
    id               bigint NOT NULL GENERATED BY DEFAULT AS IDENTITY (SEQUENCE NAME graphrag.pictures_id_seq),
    corpus_id        int    NOT NULL,
    document_id      bigint NOT NULL,
    place            int,
    page             int,
    is_page          boolean NOT NULL DEFAULT false,
    media_type       text   NOT NULL,
    content          bytea  NOT NULL,
    width            int,
    height           int,
    alternative_text text,
    caption          text,
    recognised_text  text,
    description      text,
    error            text,
    document_key     text   NOT NULL GENERATED ALWAYS AS (document_id::text) STORED,
    CONSTRAINT pictures_pkey PRIMARY KEY (id),
    CONSTRAINT pictures_corpus_fkey FOREIGN KEY (corpus_id) REFERENCES graphrag.corpora (id),
    CONSTRAINT pictures_media_type_check CHECK (media_type IN ('image/png', 'image/jpeg', 'image/gif', 'image/webp')),
    CONSTRAINT pictures_place_check CHECK (place >= 0 AND page >= 1),
    CONSTRAINT pictures_size_check CHECK (width >= 1 AND height >= 1)
);
CREATE INDEX pictures_document_idx ON graphrag.pictures (document_id, place, id);
CREATE INDEX pictures_due_idx ON graphrag.pictures (corpus_id, id) WHERE description IS NULL AND error IS NULL;
-- Compressed as they are.
ALTER TABLE graphrag.pictures ALTER COLUMN content SET STORAGE EXTERNAL;
SELECT pg_catalog.pg_extension_config_dump('graphrag.pictures', '');
SELECT pg_catalog.pg_extension_config_dump('graphrag.pictures_id_seq', '');

COMMENT ON TABLE graphrag.pictures IS 'Pictures of documents. INSERT, UPDATE and DELETE are the interface; what their words say is found as the document''s text is. They go with the document and with its content';
COMMENT ON COLUMN graphrag.pictures.id IS 'Number of the picture';
COMMENT ON COLUMN graphrag.pictures.corpus_id IS 'Corpus of the document; set by trigger';
COMMENT ON COLUMN graphrag.pictures.document_id IS 'Document of the picture';
COMMENT ON COLUMN graphrag.pictures.place IS 'Character of the document''s content before which it stands, from 0; null: its page alone is known';
COMMENT ON COLUMN graphrag.pictures.page IS 'Page, from 1; null: that of its place';
COMMENT ON COLUMN graphrag.pictures.is_page IS 'Whether it shows the whole page, as of a scan: what the text says on that page is cited with it';
COMMENT ON COLUMN graphrag.pictures.media_type IS 'image/png, image/jpeg, image/gif or image/webp, as its bytes begin; set by trigger';
COMMENT ON COLUMN graphrag.pictures.content IS 'Bytes of the file, at most 10 MiB';
COMMENT ON COLUMN graphrag.pictures.width IS 'Pixels';
COMMENT ON COLUMN graphrag.pictures.height IS 'Pixels';
COMMENT ON COLUMN graphrag.pictures.alternative_text IS 'What the document says in its place';
COMMENT ON COLUMN graphrag.pictures.caption IS 'What the document says beside it';
COMMENT ON COLUMN graphrag.pictures.recognised_text IS 'Text in it, as recognised';
COMMENT ON COLUMN graphrag.pictures.description IS 'What it shows: a model of the role vision says it, or the application; null: not described';
COMMENT ON COLUMN graphrag.pictures.error IS 'Why the model could not describe it; retry_failed() has it asked again';
COMMENT ON COLUMN graphrag.pictures.document_key IS 'document_id as text, by which row-level security looks it up';

ALTER TABLE graphrag.documents ADD COLUMN pictures_hash text;
CREATE INDEX documents_pictured_idx ON graphrag.documents (id) WHERE pictures_hash IS NOT NULL;
COMMENT ON COLUMN graphrag.documents.pictures_hash IS 'SHA-256 (hex) of what its pictures say, part of content_hash; null: it has none; set by trigger';

-- The media type that bytes begin with; null: none that a browser shows without running anything.
CREATE OR REPLACE FUNCTION graphrag._picture_type(content bytea) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
RETURN CASE WHEN substr(content, 1, 8) = '\x89504e470d0a1a0a' THEN 'image/png'
            WHEN substr(content, 1, 3) = '\xffd8ff' THEN 'image/jpeg'
            WHEN substr(content, 1, 6) IN ('GIF87a'::bytea, 'GIF89a'::bytea) THEN 'image/gif'
            WHEN substr(content, 1, 4) = 'RIFF'::bytea AND substr(content, 9, 4) = 'WEBP'::bytea THEN 'image/webp' END;
COMMENT ON FUNCTION graphrag._picture_type(bytea) IS 'Media type of a picture by its first bytes; null for what is not kept';

-- With the numbers: a chunk names its picture.
CREATE OR REPLACE FUNCTION graphrag._pictures_hash(document_id bigint) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT encode(sha256(convert_to(string_agg(ROW (p.id, p.place, p.page, p.alternative_text, p.caption, p.recognised_text, p.description)::text,
                                                       E'\n' ORDER BY p.id), 'UTF8')), 'hex')
              FROM graphrag.pictures p WHERE p.document_id = _pictures_hash.document_id);
END
$$;
COMMENT ON FUNCTION graphrag._pictures_hash(bigint) IS 'What tells the pictures of a document from others, as far as they are indexed; null: it has none';

-- A picture is seen with its document. As of documents_policies: subscripts cost nothing, so they come before conditions of the reader's.
-- SECURITY INVOKER: row-level security of documents is the caller's.
CREATE OR REPLACE FUNCTION graphrag._pictured_documents() RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp SET gin_fuzzy_search_limit = 0
AS $$
BEGIN
    IF has_table_privilege('graphrag.documents', 'SELECT') THEN
        RETURN (SELECT jsonb_object_agg(d.id, true) FROM graphrag.documents d WHERE d.pictures_hash IS NOT NULL);
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._pictured_documents() IS 'Numbers of the documents with pictures that row-level security shows the caller: {number: true}';
CREATE POLICY pictures_of_documents ON graphrag.pictures
    USING ((SELECT graphrag._whole_corpora())[corpus_id] OR (SELECT graphrag._pictured_documents())[document_key] IS NOT NULL)
    WITH CHECK (true);
ALTER TABLE graphrag.pictures ENABLE ROW LEVEL SECURITY;

-- Who may change a document may give it pictures, and no other. SECURITY INVOKER: the lock asks for the caller's right to UPDATE, under his
-- row-level security, and keeps the document until the end of the transaction.
CREATE OR REPLACE FUNCTION graphrag._pictures_before() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    is_owner    CONSTANT boolean := (SELECT pg_has_role(e.extowner, 'USAGE') FROM pg_extension AS e WHERE e.extname = 'pg_graphrag');
    document_id CONSTANT bigint := CASE TG_OP WHEN 'DELETE' THEN OLD.document_id ELSE NEW.document_id END;
    corpus_id   int;
    longest     record;
BEGIN
    IF TG_OP = 'INSERT' OR NOT is_owner THEN
        SELECT d.corpus_id INTO corpus_id FROM graphrag.documents d WHERE d.id = document_id FOR KEY SHARE;
        -- A restore may bring pictures first; they have their corpus.
        IF NOT FOUND AND (TG_OP <> 'INSERT' OR NOT is_owner OR NEW.corpus_id IS NULL) THEN
            RAISE EXCEPTION 'there is no document %', coalesce(document_id::text, 'null')
                USING ERRCODE = 'foreign_key_violation', HINT = 'INSERT the document first: SELECT id FROM graphrag.documents says its number.';
        END IF;
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    SELECT * INTO longest
      FROM (VALUES ('alternative_text', NEW.alternative_text), ('caption', NEW.caption), ('recognised_text', NEW.recognised_text),
                   ('description', NEW.description)) AS w (name, words)
     ORDER BY octet_length(w.words) DESC NULLS LAST LIMIT 1;
    IF octet_length(longest.words) > 1048576 THEN
        RAISE EXCEPTION 'the % of a picture of document % has % bytes', longest.name, document_id, octet_length(longest.words)
            USING ERRCODE = 'program_limit_exceeded', HINT = 'At most 1048576 are kept: what is longer is a document.';
    END IF;
    IF TG_OP = 'UPDATE' THEN
        NEW.corpus_id := OLD.corpus_id;
        IF (NEW.id, NEW.document_id, NEW.media_type) IS DISTINCT FROM (OLD.id, OLD.document_id, OLD.media_type)
           OR NEW.content IS DISTINCT FROM OLD.content THEN
            RAISE EXCEPTION 'picture % cannot change its id, document or bytes', OLD.id
                USING ERRCODE = 'feature_not_supported', HINT = 'Delete it and insert another.';
        END IF;
        RETURN NEW;
    END IF;
    NEW.corpus_id := coalesce(corpus_id, NEW.corpus_id);
    IF octet_length(NEW.content) > 10485760 THEN
        RAISE EXCEPTION 'a picture of document % has % bytes', document_id, octet_length(NEW.content)
            USING ERRCODE = 'program_limit_exceeded', HINT = 'At most 10485760 are kept: scale it down.';
    END IF;
    NEW.media_type := graphrag._picture_type(NEW.content);
    IF NEW.media_type IS NULL THEN
        RAISE EXCEPTION 'a picture of document % is no PNG, JPEG, GIF or WebP', document_id
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Convert it; SVG, which can run scripts, is not kept.';
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION graphrag._pictures_before() IS 'Trigger of pictures: rights, corpus, media type and bounds';

-- After each statement: what pictures say is part of what their documents are, whose triggers queue the work.
CREATE OR REPLACE FUNCTION graphrag._settle_pictures(document_ids bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    former_hashes text[];
    changed_ids   bigint[];
BEGIN
    -- A statement without rows has triggers, too.
    IF document_ids IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(x.content_hash) INTO former_hashes
      FROM (SELECT d.content_hash FROM graphrag.documents d WHERE d.id = ANY (document_ids) ORDER BY d.id FOR NO KEY UPDATE) x;
    WITH changed AS (
        UPDATE graphrag.documents d SET pictures_hash = h.hash
          FROM unnest(document_ids) AS u (id)
         CROSS JOIN LATERAL graphrag._pictures_hash(u.id) AS h (hash)
         WHERE d.id = u.id AND d.pictures_hash IS DISTINCT FROM h.hash
        RETURNING d.id)
    SELECT array_agg(c.id) INTO changed_ids FROM changed c;
    IF changed_ids IS NULL THEN
        RETURN;
    END IF;
    -- What was imported with the text holds as before.
    UPDATE graphrag.imported_extractions i SET content_hash = d.content_hash
      FROM graphrag.documents d
     WHERE d.id = ANY (changed_ids) AND i.document_id = d.id AND i.content_hash = ANY (former_hashes);
    PERFORM graphrag._copy_pictures(changed_ids);
END
$$;
COMMENT ON FUNCTION graphrag._settle_pictures(bigint[]) IS 'Brings documents, and their latest versions in a history, to what their pictures are';

-- SECURITY DEFINER: documents' pictures_hash is not the application's to write.
CREATE OR REPLACE FUNCTION graphrag._pictures_changed() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        PERFORM graphrag._settle_pictures(array_agg(d.id)) FROM graphrag.documents d WHERE d.pictures_hash IS NOT NULL;
    ELSE
        PERFORM graphrag._settle_pictures(array_agg(DISTINCT c.document_id)) FROM changed c;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._pictures_changed() IS 'Trigger of pictures: their documents are due';

CREATE OR REPLACE TRIGGER pictures_before BEFORE INSERT OR UPDATE OR DELETE ON graphrag.pictures
    FOR EACH ROW EXECUTE FUNCTION graphrag._pictures_before();
-- Also where a role may set session_replication_role.
ALTER TABLE graphrag.pictures ENABLE ALWAYS TRIGGER pictures_before;
CREATE OR REPLACE TRIGGER pictures_inserted AFTER INSERT ON graphrag.pictures REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._pictures_changed();
CREATE OR REPLACE TRIGGER pictures_updated AFTER UPDATE ON graphrag.pictures REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._pictures_changed();
CREATE OR REPLACE TRIGGER pictures_deleted AFTER DELETE ON graphrag.pictures REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._pictures_changed();
CREATE OR REPLACE TRIGGER pictures_truncated AFTER TRUNCATE ON graphrag.pictures
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._pictures_changed();

-- In a history the latest version has the pictures of its document, a former one those that it had. Bytes are copied once.
CREATE OR REPLACE FUNCTION graphrag._copy_pictures(document_ids bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM graphrag.documents v WHERE v.version_of = ANY (document_ids)) THEN
        RETURN;
    END IF;
    -- The same bytes may come several times.
    WITH pairs AS MATERIALIZED (
        SELECT version_id, o.id AS original_id, c.id AS copy_id
          FROM (SELECT v.id AS version_id, p.id, h.digest, row_number() OVER (PARTITION BY v.id, h.digest ORDER BY p.id) AS number
                  FROM graphrag.documents v
                  JOIN graphrag.pictures p ON p.document_id = v.version_of
                 CROSS JOIN LATERAL (SELECT sha256(p.content) AS digest OFFSET 0) h
                 WHERE v.version_of = ANY (document_ids)) o
          FULL JOIN (SELECT v.id AS version_id, p.id, h.digest, row_number() OVER (PARTITION BY v.id, h.digest ORDER BY p.id) AS number
                       FROM graphrag.documents v
                       JOIN graphrag.pictures p ON p.document_id = v.id
                      CROSS JOIN LATERAL (SELECT sha256(p.content) AS digest OFFSET 0) h
                      WHERE v.version_of = ANY (document_ids)) c USING (version_id, digest, number)
    ), gone AS (
        DELETE FROM graphrag.pictures p USING pairs x WHERE p.id = x.copy_id AND x.original_id IS NULL
    ), changed AS (
        UPDATE graphrag.pictures c
           SET (place, page, is_page, width, height, alternative_text, caption, recognised_text, description)
             = (p.place, p.page, p.is_page, p.width, p.height, p.alternative_text, p.caption, p.recognised_text, p.description)
          FROM pairs x
          JOIN graphrag.pictures p ON p.id = x.original_id
         WHERE c.id = x.copy_id
           AND (c.place, c.page, c.is_page, c.width, c.height, c.alternative_text, c.caption, c.recognised_text, c.description)
               IS DISTINCT FROM (p.place, p.page, p.is_page, p.width, p.height, p.alternative_text, p.caption, p.recognised_text, p.description)
    )
    INSERT INTO graphrag.pictures (document_id, place, page, is_page, content, width, height, alternative_text, caption, recognised_text, description)
    SELECT x.version_id, p.place, p.page, p.is_page, p.content, p.width, p.height, p.alternative_text, p.caption, p.recognised_text, p.description
      FROM pairs x
      JOIN graphrag.pictures p ON p.id = x.original_id
     WHERE x.copy_id IS NULL
     ORDER BY x.version_id, p.id;
END
$$;
COMMENT ON FUNCTION graphrag._copy_pictures(bigint[]) IS 'Gives the latest versions of documents their pictures';

-- A retracted document stays as a row, with the moment and the reason. The index holds nothing of it: nobody finds it, and the graph is
-- what the other documents say. Whoever may UPDATE the columns may retract; these functions do no more.
ALTER TABLE graphrag.documents
    ADD COLUMN retracted_at timestamptz,
    ADD COLUMN retraction_reason text,
    ADD CONSTRAINT documents_retraction_check CHECK (retracted_at IS NOT NULL OR retraction_reason IS NULL);
COMMENT ON COLUMN graphrag.documents.retracted_at IS 'Since when the document is retracted: no search and no view of the graph has anything of it; null: it is not. graphrag.retract() sets it';
COMMENT ON COLUMN graphrag.documents.retraction_reason IS 'Why it is retracted';

CREATE OR REPLACE FUNCTION graphrag.retract(corpus text, source_key text, reason text, retracted_at timestamptz DEFAULT now()) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    IF coalesce(btrim(reason), '') = '' THEN
        RAISE EXCEPTION 'reason cannot be %', coalesce(quote_literal(reason), 'null')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Say why the document is retracted: who reads documents is shown it.';
    END IF;
    IF retracted_at IS NULL OR retracted_at > now() THEN
        RAISE EXCEPTION 'retracted_at cannot be %', coalesce(retracted_at::text, 'null')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give a moment that is not in the future, or leave it out: now.';
    END IF;
    UPDATE graphrag.documents d
       SET retracted_at = retracted_at, retraction_reason = reason
     WHERE d.corpus = corpus AND d.source_key = source_key;
    IF NOT FOUND THEN
        PERFORM graphrag._refuse_unknown_document(corpus, source_key);
    END IF;
END
$$;
COMMENT ON FUNCTION graphrag.retract(text, text, text, timestamptz) IS 'Retracts a document: from now on no search and no view of the graph has anything of it, and when a worker has come nor has cypher(); its row stays, with reason and moment. Again: the later reason and moment count. With the rights of who calls, as UPDATE of documents (retracted_at, retraction_reason). 22023 without a reason or for a moment in the future; P0002 where the caller sees no such document; 42501 without the right.';

CREATE OR REPLACE FUNCTION graphrag.undo_retraction(corpus text, source_key text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    UPDATE graphrag.documents d
       SET retracted_at = NULL, retraction_reason = NULL
     WHERE d.corpus = corpus AND d.source_key = source_key;
    IF NOT FOUND THEN
        PERFORM graphrag._refuse_unknown_document(corpus, source_key);
    END IF;
END
$$;
COMMENT ON FUNCTION graphrag.undo_retraction(text, text) IS 'Ends the retraction of a document, which workers index again; nothing where it is not retracted. Rights and errors as of retract().';

CREATE OR REPLACE FUNCTION graphrag._refuse_unknown_document(corpus text, source_key text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM graphrag.corpora c WHERE c.name = corpus) THEN
        PERFORM graphrag._unknown_corpus(corpus);
    END IF;
    RAISE EXCEPTION 'corpus "%" has no document "%"', corpus, coalesce(source_key, 'null')
        USING ERRCODE = 'no_data_found', HINT = 'SELECT source_key FROM graphrag.documents lists those that you may see.';
END
$$;
COMMENT ON FUNCTION graphrag._refuse_unknown_document(text, text) IS 'Says that there is no such corpus, or no such document that the caller sees';

-- The history of a corpus is a corpus of its own, whose documents are the versions of the other's: what a document said, and from when to
-- when. So modes, as_of, filters, dumps and rights are those of any corpus, and the other corpus is as it would be without.
CREATE TABLE graphrag._histories (
    corpus_id  int NOT NULL,
    history_id int NOT NULL,
    CONSTRAINT _histories_pkey PRIMARY KEY (corpus_id),
    CONSTRAINT _histories_history_id_key UNIQUE (history_id),
    CONSTRAINT _histories_corpus_fkey FOREIGN KEY (corpus_id) REFERENCES graphrag.corpora (id) ON DELETE CASCADE,
    CONSTRAINT _histories_history_fkey FOREIGN KEY (history_id) REFERENCES graphrag.corpora (id) ON DELETE CASCADE
);
SELECT pg_catalog.pg_extension_config_dump('graphrag._histories', '');
COMMENT ON TABLE graphrag._histories IS 'Which corpora have their versions kept, and where';
COMMENT ON COLUMN graphrag._histories.corpus_id IS 'The corpus';
COMMENT ON COLUMN graphrag._histories.history_id IS 'The corpus of its versions';

ALTER TABLE graphrag.documents ADD COLUMN version_of bigint;
CREATE UNIQUE INDEX documents_version_of_key ON graphrag.documents (version_of) WHERE version_of IS NOT NULL;
COMMENT ON COLUMN graphrag.documents.version_of IS 'Of a history: number of the document whose latest version this is; null: a version that was replaced, or no version';

-- The key of a version. The mark has a fixed length, so no two keys have the same: whatever a key of the application looks like.
CREATE OR REPLACE FUNCTION graphrag._version_stem(source_key text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
RETURN CASE WHEN octet_length(source_key) <= 1970 THEN source_key ELSE encode(sha256(convert_to(source_key, 'UTF8')), 'hex') END;
COMMENT ON FUNCTION graphrag._version_stem(text) IS 'What the keys of all versions of a document begin with: 28 characters follow';
CREATE OR REPLACE FUNCTION graphrag._version_key(source_key text, moment timestamptz) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN graphrag._version_stem(source_key) || to_char(moment AT TIME ZONE 'UTC', '"@"YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
COMMENT ON FUNCTION graphrag._version_key(text, timestamptz) IS 'Key of the version of a document that was written at a moment';

-- Writes what documents say now as their latest versions, valid from these moments. On conflict: the document was deleted and inserted
-- again in one transaction, or took another's key, so that its version was never to be seen.
CREATE OR REPLACE FUNCTION graphrag._begin_versions(document_ids bigint[], beginnings timestamptz[]) RETURNS void
LANGUAGE sql VOLATILE SET enable_nestloop = on
BEGIN ATOMIC
    INSERT INTO graphrag.documents AS v (corpus, source_key, title, content, metadata, valid_from, valid_to, version_of)
    SELECT c.name, graphrag._version_key(d.source_key, pg_catalog.now()), d.title, d.content, d.metadata, CASE WHEN u.beginning IS NOT NULL THEN least(u.beginning, d.valid_to) END, least(d.valid_to, d.retracted_at), d.id
      FROM ROWS FROM (pg_catalog.unnest(document_ids), pg_catalog.unnest(beginnings)) AS u (id, beginning)
      JOIN graphrag.documents d ON d.id = u.id
      JOIN graphrag._histories h ON h.corpus_id = d.corpus_id
      JOIN graphrag.corpora c ON c.id = h.history_id
     ORDER BY d.id
        ON CONFLICT (corpus, source_key) DO UPDATE
       SET title = EXCLUDED.title, content = EXCLUDED.content, metadata = EXCLUDED.metadata, valid_from = EXCLUDED.valid_from,
           valid_to = EXCLUDED.valid_to, version_of = EXCLUDED.version_of;
    SELECT graphrag._copy_pictures(document_ids);
END;

-- Brings versions to documents that were changed or deleted. says_other: what it says, or that it is said again after a retraction, is
-- new; begins_elsewhere: it has another valid_from.
CREATE OR REPLACE FUNCTION graphrag._change_versions(document_ids bigint[], says_other boolean[], begins_elsewhere boolean[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_nestloop = on
AS $$
DECLARE
    next_ids   bigint[];
    beginnings timestamptz[];
BEGIN
    UPDATE graphrag.documents v
       SET valid_to = greatest(least(v.valid_to, now()), v.valid_from), version_of = NULL
     WHERE v.version_of = ANY (document_ids) AND NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.id = v.version_of);
    UPDATE graphrag.documents v
       SET valid_to = greatest(least(d.valid_to, d.retracted_at), v.valid_from)
      FROM graphrag.documents d
     WHERE v.version_of = ANY (document_ids) AND d.id = v.version_of AND d.retracted_at IS NOT NULL;
    -- The version stays where the document says the same, and where this transaction wrote it: nobody else has seen it.
    UPDATE graphrag.documents v
       SET title = d.title, content = d.content, metadata = d.metadata, valid_to = d.valid_to,
           valid_from = CASE WHEN u.begins_elsewhere AND d.valid_from IS NOT NULL THEN d.valid_from
                             WHEN v.valid_from IS NOT NULL THEN least(v.valid_from, d.valid_to) END
      FROM unnest(document_ids, says_other, begins_elsewhere) AS u (id, says_other, begins_elsewhere)
      JOIN graphrag.documents d ON d.id = u.id
     WHERE v.version_of = u.id AND d.retracted_at IS NULL
       AND (NOT u.says_other OR v.source_key = graphrag._version_key(d.source_key, now()));
    -- Else one version ends where the next begins: when it is written, or from when its document says. The clock of a transaction may
    -- be behind that of one which committed before.
    SELECT array_agg(d.id), array_agg(CASE WHEN u.begins_elsewhere AND d.valid_from IS NOT NULL THEN d.valid_from
                                           ELSE greatest(now(), v.valid_from) END)
      INTO next_ids, beginnings
      FROM unnest(document_ids, says_other, begins_elsewhere) AS u (id, says_other, begins_elsewhere)
      JOIN graphrag.documents d ON d.id = u.id
      LEFT JOIN graphrag.documents v ON v.version_of = d.id
     WHERE u.says_other AND d.retracted_at IS NULL AND v.source_key IS DISTINCT FROM graphrag._version_key(d.source_key, now());
    UPDATE graphrag.documents v
       SET valid_to = greatest(least(v.valid_to, u.beginning), v.valid_from), version_of = NULL
      FROM unnest(next_ids, beginnings) AS u (id, beginning)
     WHERE v.version_of = u.id;
    IF next_ids IS NOT NULL THEN
        PERFORM graphrag._begin_versions(next_ids, beginnings);
    END IF;
END
$$;
COMMENT ON FUNCTION graphrag._change_versions(bigint[], boolean[], boolean[]) IS 'Ends versions of documents that were changed or deleted, and begins the next';

-- SECURITY DEFINER: who writes a document may not write the history. No nested loops, as in _documents_updated().
CREATE OR REPLACE FUNCTION graphrag._keep_versions() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_nestloop = off
AS $$
DECLARE
    changed record;
BEGIN
    IF NOT EXISTS (SELECT FROM graphrag._histories) THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' THEN
        -- What says when it is valid is valid then, all else from when it was written. A row of a restore is older than its
        -- transaction, and its versions come with it.
        SELECT array_agg(i.id) AS ids, array_agg(CASE WHEN i.valid_to IS NULL THEN coalesce(i.valid_from, now()) ELSE i.valid_from END) AS beginnings
          INTO changed
          FROM inserted i
          JOIN graphrag._histories h ON h.corpus_id = i.corpus_id
         -- What comes retracted was valid until then, if it says from when.
         WHERE (i.retracted_at IS NULL OR i.valid_from < i.retracted_at) AND i.created_at = now();
        IF changed.ids IS NOT NULL THEN
            PERFORM graphrag._begin_versions(changed.ids, changed.beginnings);
        END IF;
        RETURN NULL;
    ELSIF TG_OP = 'DELETE' THEN
        SELECT array_agg(d.id) AS ids, NULL::boolean[] AS says_other, NULL::boolean[] AS begins_elsewhere
          INTO changed
          FROM deleted d
          JOIN graphrag._histories h ON h.corpus_id = d.corpus_id;
    ELSE
        SELECT array_agg(n.id) AS ids,
               array_agg(o.retracted_at IS NOT NULL
                         OR (n.title, n.content, n.source_key, n.metadata) IS DISTINCT FROM (o.title, o.content, o.source_key, o.metadata)) AS says_other,
               array_agg(n.valid_from IS DISTINCT FROM o.valid_from) AS begins_elsewhere
          INTO changed
          FROM updated_new n
          JOIN updated_old o USING (id)
          JOIN graphrag._histories h ON h.corpus_id = n.corpus_id
         WHERE (n.title, n.content, n.source_key, n.metadata, n.valid_from, n.valid_to, n.retracted_at)
               IS DISTINCT FROM (o.title, o.content, o.source_key, o.metadata, o.valid_from, o.valid_to, o.retracted_at);
    END IF;
    IF changed.ids IS NOT NULL THEN
        PERFORM graphrag._change_versions(changed.ids, changed.says_other, changed.begins_elsewhere);
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._keep_versions() IS 'Trigger of documents: writes versions into the history of a corpus that has one';
CREATE OR REPLACE TRIGGER documents_keep_inserted AFTER INSERT ON graphrag.documents REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._keep_versions();
CREATE OR REPLACE TRIGGER documents_keep_updated AFTER UPDATE ON graphrag.documents REFERENCING OLD TABLE AS updated_old NEW TABLE AS updated_new
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._keep_versions();
CREATE OR REPLACE TRIGGER documents_keep_deleted AFTER DELETE ON graphrag.documents REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._keep_versions();

-- Brings a history to what the documents say: at its beginning, and after what came past the triggers.
CREATE OR REPLACE FUNCTION graphrag._settle_versions(corpus_id int) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    UPDATE graphrag.documents v
       SET valid_to = greatest(least(v.valid_to, now()), v.valid_from), version_of = NULL
      FROM graphrag._histories h
     WHERE h.corpus_id = _settle_versions.corpus_id AND v.corpus_id = h.history_id AND v.version_of IS NOT NULL
       AND NOT EXISTS (SELECT FROM graphrag.documents d
                        WHERE d.id = v.version_of AND d.corpus_id = h.corpus_id
                          AND CASE WHEN d.retracted_at IS NULL THEN (d.title, d.content, d.metadata) IS NOT DISTINCT FROM (v.title, v.content, v.metadata)
                                   ELSE v.valid_to <= greatest(d.retracted_at, v.valid_from) END);
    PERFORM graphrag._begin_versions(array_agg(m.id), array_agg(CASE WHEN m.is_known THEN now() WHEN m.valid_to IS NULL THEN coalesce(m.valid_from, m.updated_at)
                                                                     ELSE m.valid_from END))
       -- By a window, which reads both once whatever the planner expects.
       FROM (SELECT x.*, bool_or(x.is_version) OVER (PARTITION BY x.stem) AS is_known
               FROM (SELECT d.id, d.valid_from, d.valid_to, d.updated_at, d.retracted_at, graphrag._version_stem(d.source_key) AS stem, false AS is_version
                       FROM graphrag.documents d
                      WHERE d.corpus_id = _settle_versions.corpus_id AND (d.retracted_at IS NULL OR d.valid_from < d.retracted_at)
                        AND NOT EXISTS (SELECT FROM graphrag.documents v WHERE v.version_of = d.id)
                      UNION ALL
                     SELECT NULL, NULL, NULL, NULL, NULL, left(v.source_key, -28), true
                       FROM graphrag._histories h
                       JOIN graphrag.documents v ON v.corpus_id = h.history_id
                      WHERE h.corpus_id = _settle_versions.corpus_id) x) m
      WHERE NOT m.is_version AND (m.retracted_at IS NULL OR NOT m.is_known)
     HAVING count(*) > 0;
END
$$;
COMMENT ON FUNCTION graphrag._settle_versions(int) IS 'Ends versions that are no more what their documents say, and begins those that lack';

-- SECURITY INVOKER: row-level security of the histories is the caller's.
CREATE OR REPLACE VIEW graphrag.versions WITH (security_invoker = true) AS
SELECT c.name AS corpus,
       pg_catalog.left(v.source_key, -28) AS source_key,
       v.corpus AS history,
       v.id AS document_id,
       v.source_key AS version_key,
       pg_catalog.row_number() OVER (PARTITION BY v.corpus_id, pg_catalog.left(v.source_key, -28) ORDER BY pg_catalog.right(v.source_key, 27) COLLATE "C")::int AS version,
       v.version_of IS NOT NULL AS is_latest,
       CASE WHEN v.source_key ~ '@[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}Z$' THEN pg_catalog.right(v.source_key, 27)::timestamptz END AS written_at,
       v.valid_from,
       v.valid_to,
       v.title,
       v.content,
       v.metadata,
       v.status
  FROM graphrag.documents v
  JOIN graphrag._histories h ON h.history_id = v.corpus_id
  JOIN graphrag.corpora c ON c.id = h.corpus_id
 WHERE v.source_key ~ '@[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}Z$';
COMMENT ON VIEW graphrag.versions IS 'Versions of the documents of corpora with a history, as far as the caller may see the documents of the history';
COMMENT ON COLUMN graphrag.versions.corpus IS 'Corpus of the document';
COMMENT ON COLUMN graphrag.versions.source_key IS 'Key of the document; of one longer than 1,970 bytes its SHA-256';
COMMENT ON COLUMN graphrag.versions.history IS 'Corpus of the versions';
COMMENT ON COLUMN graphrag.versions.document_id IS 'Number of the version, as search() of the history gives it';
COMMENT ON COLUMN graphrag.versions.version_key IS 'Key of the version in the history';
COMMENT ON COLUMN graphrag.versions.version IS 'Its number among those that the caller may see, from 1';
COMMENT ON COLUMN graphrag.versions.is_latest IS 'Whether it is what the document says now, or said when it was retracted';
COMMENT ON COLUMN graphrag.versions.written_at IS 'Time it was written';
COMMENT ON COLUMN graphrag.versions.valid_from IS 'From when it counts; null: always has';
COMMENT ON COLUMN graphrag.versions.valid_to IS 'Until when: it was replaced, deleted or retracted then, or its document says so; null: it still does';
COMMENT ON COLUMN graphrag.versions.title IS 'Title';
COMMENT ON COLUMN graphrag.versions.content IS 'Text';
COMMENT ON COLUMN graphrag.versions.metadata IS 'Metadata';
COMMENT ON COLUMN graphrag.versions.status IS 'Of its indexing, as of documents';

-- What another GraphRAG said of a document, and how it was cut. Used in place of the corpus' own extractor whenever the
-- document is indexed, as long as its content is the one that was imported. No foreign key: documents may be truncated.


CREATE OR REPLACE FUNCTION graphrag.import_documents(corpus text, documents jsonb) RETURNS jsonb
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "index.documents.imported_documents:import_documents", corpus, documents)
$$;

-- Calls of attach_entities() and attach_relationships() for the tables of a schema, from the catalogs alone: no row is read, no code of
-- others runs, nothing is attached. With the caller's rights.
CREATE OR REPLACE FUNCTION graphrag.suggest_attachments(schema text DEFAULT 'public', corpus text DEFAULT 'default')
RETURNS TABLE (source regclass, kind text, call text, reason text)
LANGUAGE plpgsql STABLE COST 100000 ROWS 50
SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = suggest_attachments.schema) THEN
        RAISE EXCEPTION 'schema % does not exist', coalesce(format('"%s"', suggest_attachments.schema), 'null')
            USING ERRCODE = 'invalid_schema_name', HINT = 'Give the schema of the application''s tables, for example ''public''.';
    ELSIF corpus IS NULL THEN
        RAISE EXCEPTION 'corpus cannot be null' USING ERRCODE = 'null_value_not_allowed', HINT = 'For example ''default''.';
    END IF;
    RETURN QUERY
    WITH tables AS (
        SELECT c.oid, c.relname, c.relowner, c.reltuples, w.singular, btrim(translate(w.singular, '_:', '  ')) AS label
          FROM pg_class c
          JOIN pg_namespace n ON n.oid = c.relnamespace
         CROSS JOIN LATERAL (
               SELECT lower(CASE WHEN c.relname ~* 'ies$' THEN regexp_replace(c.relname, 'ies$', 'y', 'i')
                                 WHEN c.relname ~* '(ss|us|is)$' THEN c.relname
                                 ELSE regexp_replace(c.relname, '((?<=([tnr]|oa|ea)ch|sh|x|ss|tus)e)?s$', '', 'i') END) AS singular) w
         WHERE n.nspname = suggest_attachments.schema AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition
           AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
           AND has_any_column_privilege(c.oid, 'SELECT')
    -- Unique indexes of whole columns: what may be a key, and what may name a row.
    ), uniques AS (
        SELECT t.oid, i.indexrelid, i.indisprimary,
               (SELECT array_agg(k.attnum ORDER BY k.n) FROM unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, n) WHERE k.n <= i.indnkeyatts) AS columns
          FROM tables t
          JOIN pg_index i ON i.indrelid = t.oid
         WHERE i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
    ), keys AS (
        SELECT DISTINCT ON (u.oid) u.oid, u.columns, u.indisprimary AS is_primary
          FROM uniques u
         WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = u.oid AND a.attnum = ANY (u.columns) AND NOT a.attnotnull)
         -- By another key than the primary one where foreign keys lead to that alone.
         ORDER BY u.oid, EXISTS (SELECT FROM pg_constraint f WHERE f.contype = 'f' AND f.confrelid = u.oid AND u.columns @> f.confkey AND u.columns <@ f.confkey) DESC,
                  u.indisprimary DESC, cardinality(u.columns), u.columns
    ), foreign_keys AS (
        SELECT f.oid AS id, f.conrelid, f.confrelid, f.conkey, f.confkey,
               count(*) OVER (PARTITION BY f.conrelid) AS of_table,
               row_number() OVER (PARTITION BY f.conrelid ORDER BY f.conkey, f.oid) AS n
          FROM pg_constraint f
          JOIN tables t ON t.oid = f.conrelid
          JOIN keys k ON k.oid = f.confrelid AND k.columns @> f.confkey AND k.columns <@ f.confkey
          JOIN keys own ON own.oid = f.conrelid
         WHERE f.contype = 'f' AND f.conparentid = 0
    ), columns AS (
        SELECT t.oid, a.attnum, a.attname,
               -- An array of texts, of which each may be an alias, is a text here.
               CASE WHEN b.typcategory = 'A' AND (SELECT y.typcategory = 'S' FROM pg_type y WHERE y.oid = b.typelem) THEN 'S' ELSE b.typcategory END AS category,
               b.typcategory = 'A' AS is_array,
               a.attnum = ANY (k.columns) AS in_key,
               EXISTS (SELECT FROM pg_constraint f WHERE f.conrelid = t.oid AND f.contype = 'f' AND a.attnum = ANY (f.conkey)) AS in_foreign_key,
               EXISTS (SELECT FROM uniques u WHERE u.oid = t.oid AND u.columns = ARRAY[a.attnum]) AS is_unique,
               coalesce(s.avg_width, CASE WHEN a.atttypmod BETWEEN 5 AND 104 THEN 20 END) AS width,
               a.attname ~* '^((full|display)_?)?(name|title|label)$' OR lower(a.attname) IN (t.singular, t.singular || '_name', t.singular || 'name') AS is_called_name,
               a.attname ~* '(^|[_ ])(name|title|label|subject|headline|caption|login)$|(?<!nick)name$' OR a.attname ~ '[[:lower:]](Title|Label)$' AS sounds_like_name,
               a.attname ~* '(^|_)(codes?|alias(es)?|synonyms?|(other|short)_names?|abbr|abbreviations?|acronyms?|nick(name)?s?|sku|serial|serial_(no|number)|symbol|iso\d?)$' AS sounds_like_alias,
               a.attname ~* '(^|_)(description|descr|notes?|body|content|comments?|text|summary|abstract|remarks?|bio|details|message)$' AS sounds_like_text,
               a.attname ~* '(pass(word|wd|phrase)|secret|token|salt|credential|api_?key|(^|_)(hash|pin|ssn|iban|cvv)($|_))' AS is_secret,
               a.attname ~* '^(created|updated|modified|deleted|inserted|last_(update|modified))(_(at|on|by|date))?$' AS is_bookkeeping
          FROM tables t
          JOIN keys k ON k.oid = t.oid
          JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
          -- The type under a domain.
          JOIN pg_type y ON y.oid = a.atttypid
          JOIN pg_type b ON b.oid = CASE y.typtype WHEN 'd' THEN y.typbasetype ELSE y.oid END
          LEFT JOIN pg_stats s ON s.schemaname = suggest_attachments.schema AND s.tablename = t.relname AND s.attname = a.attname AND NOT s.inherited
    -- The column that names a row: by what it is called, then by what is unique.
    ), names AS (
        SELECT DISTINCT ON (c.oid) c.oid, c.attnum, c.attname, c.is_unique
          FROM columns c
         WHERE c.category = 'S' AND NOT c.is_array AND NOT c.in_foreign_key AND NOT c.is_secret AND NOT c.sounds_like_text AND coalesce(c.width, 0) < 120
           AND (c.is_called_name OR c.sounds_like_name OR c.is_unique)
         ORDER BY c.oid, c.is_called_name DESC, c.is_unique DESC, c.attnum
    ), roles AS (
        SELECT c.oid, c.attnum, c.attname, c.is_secret,
               CASE WHEN c.is_secret OR c.is_bookkeeping OR c.attnum = n.attnum THEN NULL
                    WHEN c.is_array THEN CASE WHEN c.category = 'S' AND c.sounds_like_alias THEN 'alias' END
                    WHEN c.category = 'S' AND (c.sounds_like_text OR c.width >= 80) THEN 'text'
                    WHEN c.in_foreign_key THEN NULL
                    WHEN c.category = 'S' AND (c.sounds_like_alias OR c.is_unique) THEN 'alias'
                    -- Rows have a field of this name.
                    WHEN c.attname IN ('alias', 'aliases', 'from') THEN 'taken'
                    WHEN c.in_key THEN NULL
                    WHEN c.category IN ('N', 'B', 'D', 'T', 'E', 'S') THEN 'attribute'
               END AS role
          FROM columns c
          LEFT JOIN names n ON n.oid = c.oid
    -- A table without a name of its own and with two foreign keys says how two others belong together.
    ), shapes AS (
        SELECT t.oid, t.relname, t.relowner, t.reltuples, k.columns AS key, n.attname AS name, n.is_unique AS name_is_unique, t.label,
               n.attnum IS NULL AND (SELECT count(*) = 2 FROM foreign_keys f WHERE f.conrelid = t.oid) AS joins_two,
               coalesce(n.attname, (SELECT a.attname FROM pg_attribute a
                                     WHERE a.attrelid = t.oid AND cardinality(k.columns) = 1 AND a.attnum = k.columns[1])) AS name_or_key
          FROM tables t
          JOIN keys k ON k.oid = t.oid
          LEFT JOIN names n ON n.oid = t.oid
    ), entities AS (
        SELECT s.* FROM shapes s
         WHERE NOT s.joins_two AND s.name_or_key IS NOT NULL
           AND (s.name IS NOT NULL OR EXISTS (SELECT FROM foreign_keys f WHERE s.oid IN (f.conrelid, f.confrelid)))
    ), arguments AS (
        SELECT s.oid,
               (SELECT jsonb_agg(a.attname ORDER BY k.n)
                  FROM unnest(s.key) WITH ORDINALITY k (attnum, n) JOIN pg_attribute a ON a.attrelid = s.oid AND a.attnum = k.attnum) AS key_names,
               (SELECT format('ARRAY[%s]', string_agg(quote_literal(a.attname), ', ' ORDER BY k.n))
                  FROM unnest(s.key) WITH ORDINALITY k (attnum, n) JOIN pg_attribute a ON a.attrelid = s.oid AND a.attnum = k.attnum) AS key,
               (SELECT string_agg(quote_literal(r.attname), ', ' ORDER BY r.attnum) FROM roles r WHERE r.oid = s.oid AND r.role = 'alias') AS aliases,
               (SELECT string_agg(quote_literal(r.attname), ', ' ORDER BY r.attnum) FROM roles r WHERE r.oid = s.oid AND r.role = 'attribute') AS attributes,
               (SELECT string_agg(quote_literal(r.attname), ', ' ORDER BY r.attnum) FROM roles r WHERE r.oid = s.oid AND r.role = 'text') AS text,
               (SELECT string_agg(format('"%s"', r.attname), ', ' ORDER BY r.attnum) FROM roles r WHERE r.oid = s.oid AND r.is_secret) AS secrets,
               (SELECT string_agg(format('"%s"', r.attname), ', ' ORDER BY r.attnum) FROM roles r WHERE r.oid = s.oid AND r.role = 'taken') AS taken,
               (SELECT string_agg(format('"%s"', f.conname), ', ' ORDER BY f.conname) FROM pg_constraint f
                 WHERE f.conrelid = s.oid AND f.contype = 'f' AND f.conparentid = 0 AND f.oid NOT IN (SELECT k.id FROM foreign_keys k)) AS elsewhere,
               CASE WHEN s.reltuples >= 0 THEN format('about %s rows', to_char(s.reltuples, 'FM999,999,999,990')) ELSE 'never analyzed' END
                   || CASE WHEN pg_has_role(s.relowner, 'USAGE') THEN '' ELSE format('; for its owner "%s" to call', pg_get_userbyid(s.relowner)) END AS note
          FROM shapes s
    ), relationships AS (
        -- Each foreign key of an entity, and the pair of a table that joins two.
        SELECT f.id, f.conrelid, f.confrelid AS to_table, f.conkey AS to_key, f.confkey AS to_target, NULL::oid AS from_table, NULL::int2[] AS from_key,
               NULL::int2[] AS from_target, f.n
          FROM foreign_keys f JOIN entities e ON e.oid = f.conrelid JOIN entities o ON o.oid = f.confrelid
         UNION ALL
        SELECT g.id, f.conrelid, g.confrelid, g.conkey, g.confkey, f.confrelid, f.conkey, f.confkey, g.n
          FROM shapes s
          JOIN foreign_keys f ON f.conrelid = s.oid AND f.n = 1
          JOIN foreign_keys g ON g.conrelid = s.oid AND g.n = 2
          JOIN entities e ON e.oid = f.confrelid JOIN entities o ON o.oid = g.confrelid
         WHERE s.joins_two
    -- What a relationship may be called, the best first: by its comment, its column or the table, all its columns, its constraint.
    ), labels AS (
        SELECT r.id, r.conrelid, o.n, l.label
          FROM relationships r
          JOIN shapes s ON s.oid = r.conrelid
          JOIN pg_constraint c ON c.oid = r.id
          JOIN tables t ON t.oid = r.to_table
         CROSS JOIN LATERAL (
               SELECT string_agg(a.attname, ' ' ORDER BY k.n) AS names
                 FROM unnest(r.to_key) WITH ORDINALITY k (attnum, n) JOIN pg_attribute a ON a.attrelid = r.conrelid AND a.attnum = k.attnum) x
         CROSS JOIN LATERAL unnest(ARRAY[
               obj_description(r.id, 'pg_constraint'),
               CASE WHEN r.from_table IS NOT NULL THEN s.label
                    WHEN cardinality(r.to_key) > 1 THEN t.label
                    ELSE regexp_replace(regexp_replace(x.names, '_(id|code|key|fk|no|number)$', '', 'i'), '(?<=[[:lower:]])(ID|Id|Code|Key)$', '') END,
               x.names, c.conname]) WITH ORDINALITY o (raw, n)
         CROSS JOIN LATERAL (SELECT btrim(translate(o.raw, '_:', '  ')) AS label) l
         -- As _is_label() has it.
         WHERE char_length(l.label) BETWEEN 1 AND 64 AND l.label !~ '[[:cntrl:]]' AND l.label NOT IN ('alias', 'aliases', 'from')
           AND NOT EXISTS (SELECT FROM roles a WHERE a.oid = r.conrelid AND a.role = 'attribute' AND a.attname = l.label)
    ), types AS (
        SELECT DISTINCT ON (l.id) l.id, l.label
          FROM labels l
         WHERE NOT EXISTS (SELECT FROM labels o WHERE o.conrelid = l.conrelid AND o.label = l.label AND o.id <> l.id)
         ORDER BY l.id, l.n
    ), calls AS (
        SELECT e.oid, 'entities' AS kind, 1 AS part, 0::bigint AS n,
               format('SELECT graphrag.attach_entities(%L, %L, %s, name => %L', e.oid::regclass, corpus, a.key, e.name_or_key)
                   || coalesce(', aliases => ARRAY[' || a.aliases || ']', '') || format(', type => %L', e.label)
                   || coalesce(', attributes => ARRAY[' || a.attributes || ']', '') || coalesce(', text => ARRAY[' || a.text || ']', '') || ');' AS call,
               concat_ws('; ',
                   CASE WHEN e.name IS NULL THEN 'it has no name but its key'
                        WHEN e.name_is_unique THEN format('"%s" is unique', e.name)
                        ELSE format('"%s" is not unique: rows of one name are told apart by their keys', e.name) END,
                   'left out as secret: ' || a.secrets, 'left out, since rows have a field of this name: ' || a.taken,
                   'not proposed, since they do not lead to the key of a table of this schema: ' || a.elsewhere, a.note) AS reason
          FROM entities e JOIN arguments a ON a.oid = e.oid
         UNION ALL
        SELECT r.conrelid, 'relationships', 2, r.n,
               format('SELECT graphrag.attach_relationships(%L, %L, type => %L, to_columns => %s, to_table => %L', r.conrelid::regclass, corpus,
                      y.label, t.columns, r.to_table::regclass)
                   || CASE WHEN r.from_table IS NULL THEN ''
                           ELSE format(', from_columns => %s, from_table => %L', f.columns, r.from_table::regclass)
                                || coalesce(', attributes => ARRAY[' || a.attributes || ']', '')
                                || CASE WHEN (SELECT k.is_primary FROM keys k WHERE k.oid = r.conrelid) THEN ''
                                        ELSE format(', options => %L', jsonb_build_object('key_columns', a.key_names)) END END || ');',
               CASE WHEN r.from_table IS NULL THEN format('foreign key "%s"', (SELECT c.conname FROM pg_constraint c WHERE c.oid = r.id))
                    ELSE 'it has no name, and joins two tables' END
                   || '; ' || a.note
          FROM relationships r
          JOIN types y ON y.id = r.id
          JOIN arguments a ON a.oid = r.conrelid
          -- In the order of the key of the other table.
          CROSS JOIN LATERAL (
              SELECT format('ARRAY[%s]', string_agg(quote_literal(c.attname), ', ' ORDER BY array_position(k.columns, o.attnum))) AS columns
                FROM keys k, unnest(r.to_key, r.to_target) o (own, attnum)
                JOIN pg_attribute c ON c.attrelid = r.conrelid AND c.attnum = o.own
               WHERE k.oid = r.to_table) t
          CROSS JOIN LATERAL (
              SELECT format('ARRAY[%s]', string_agg(quote_literal(c.attname), ', ' ORDER BY array_position(k.columns, o.attnum))) AS columns
                FROM keys k, unnest(r.from_key, r.from_target) o (own, attnum)
                JOIN pg_attribute c ON c.attrelid = r.conrelid AND c.attnum = o.own
               WHERE k.oid = r.from_table) f
    )
    SELECT c.oid::regclass, c.kind, c.call, c.reason
      FROM calls c
      JOIN tables t ON t.oid = c.oid
     ORDER BY c.part, t.relname COLLATE "C", c.n;
END
$$;
COMMENT ON FUNCTION graphrag.suggest_attachments(text, text) IS 'Calls of attach_entities() and attach_relationships() for the tables of a schema that the caller may read, in an order that works; nothing is attached. From the catalogs alone: keys, foreign keys, unique indexes, types, comments, statistics and names of columns. A table without a name of its own and with two foreign keys is taken for relationships. kind: entities or relationships; reason: why, and how many rows. Columns that sound like secrets are left out. A proposal: read it before you run it. For the owner of the extension, who may grant EXECUTE; 3F000 for an unknown schema.';

-- The queue. A job is due when it is pending and its back-off has passed; a lease holds as long as the worker's advisory lock does.
-- One job per document, or those of its parts: new content, or its removal, supersedes what was queued.
CREATE UNIQUE INDEX jobs_part_key ON graphrag.jobs (document_id, kind, chunks) WHERE chunks IS NOT NULL;
-- Every search asks whether there is any.
CREATE INDEX jobs_removals_idx ON graphrag.jobs (corpus_id) WHERE kind IN ('remove', 'sweep') OR payload ? 'removes';
-- Corpora whose index may still have something of documents that were deleted or retracted, also of those whose retraction ended since.
CREATE OR REPLACE VIEW graphrag._removals AS
SELECT DISTINCT j.corpus_id FROM graphrag.jobs j WHERE j.kind IN ('remove', 'sweep') OR j.payload OPERATOR(pg_catalog.?) 'removes';
-- What says that an indexed document is without some vectors; nothing else does.
SELECT pg_catalog.pg_extension_config_dump('graphrag.jobs', 'WHERE state <> ''leased'' AND chunks IS NULL AND last_error LIKE ''Unembeddable:%'' AND document_id IN (SELECT d.id FROM graphrag.documents d WHERE d.indexed_at IS NOT NULL)');

COMMENT ON TABLE graphrag.jobs IS 'Work that waits or failed. Of it a dump has what says that an indexed document is without some vectors; a document is due when its indexed_hash differs from its content_hash.';
COMMENT ON COLUMN graphrag.jobs.kind IS 'index or remove (a document), embed (vectors of a part of a long document), graph (of a document whose text is searchable already, what a model finds; of a part of a long one, also what is found without), attach (rows of an attached table), sweep (remove what was made of documents that are gone, after TRUNCATE), pack (BM25, while documents wait), optimize (pack BM25, build vector indexes), summarize (descriptions of which there are many), describe (pictures, by a model that sees), reembed (vectors of another model), batch (requests that go through an endpoint''s batch API), communities (refresh them), reports (write those of communities that changed)';
COMMENT ON COLUMN graphrag.jobs.document_id IS 'Document of an index, embed, graph or remove job';
COMMENT ON COLUMN graphrag.jobs.chunks IS 'Ordinals of the chunks of the part of a long document that the job is for; null: all';
COMMENT ON COLUMN graphrag.jobs.stage IS 'Texts of all corpora (1) come before their vectors of long documents with their pictures, and their graphs (2), so that what is new is found soon, and these before what is made of a whole corpus (3); within a stage corpora take turns';
COMMENT ON COLUMN graphrag.jobs.turn IS 'Order within the stage of a corpus: packing (0), which is short and makes every search faster; then removals (1), until which searches look past what is gone; then texts or vectors (2), then graphs (3)';
COMMENT ON COLUMN graphrag.jobs.payload IS 'What else the job needs to know; raw: the answer of a model that could not be used; faults: how often a fault of a provider or of the server put it off; unembeddable: why the document will be without some vectors; skipped: of reembed and reports, what the model has no vector of; waiting: keys of the requests in llm_batch_requests that it waits for; text: of a graph job, whether the chunks are those of this content and these options, so that the graph alone is missing; removes: whether an index job took the place of a removal, so that the index has what no search may count';

-- Every session that works on jobs has an advisory lock: however it ends, the lock ends with it. Any user of SQL could take such a lock,
-- keep the jobs of a dead worker leased with it, and slow down the living. So it counts with the owner's rights alone.
CREATE OR REPLACE VIEW graphrag._workers AS
SELECT l.objid::bigint AS worker, l.pid, pg_catalog.pg_get_userbyid(a.usesysid) AS role
  FROM pg_catalog.pg_locks l
  JOIN LATERAL pg_catalog.pg_stat_get_activity(l.pid) a ON a.pid = l.pid
 WHERE l.locktype = 'advisory' AND l.classid = 1735549294 AND l.objsubid = 2 AND l.granted
   AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
   AND pg_catalog.pg_has_role(a.usesysid, (SELECT c.relowner FROM pg_catalog.pg_class c WHERE c.oid = 'graphrag.corpora'::pg_catalog.regclass), 'MEMBER');
COMMENT ON VIEW graphrag._workers IS 'Workers that are alive';
COMMENT ON COLUMN graphrag._workers.worker IS 'Number of the worker, which is the lease of its jobs';
COMMENT ON COLUMN graphrag._workers.pid IS 'Process of its session';
COMMENT ON COLUMN graphrag._workers.role IS 'Role that logged in';

-- The number of a new worker: one whose lock nobody has, so that it waits for nobody.
CREATE OR REPLACE FUNCTION graphrag._begin_work() RETURNS int
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    worker int;
BEGIN
    LOOP
        worker := nextval('graphrag.worker_id_seq');
        EXIT WHEN pg_try_advisory_lock(1735549294, worker);
    END LOOP;
    RETURN worker;
END
$$;
COMMENT ON FUNCTION graphrag._begin_work() IS 'Makes the session a worker until _end_work(), or its end';

CREATE OR REPLACE FUNCTION graphrag._end_work() RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    -- Only what is held: unlocking twice would be a WARNING.
    SELECT pg_advisory_unlock(1735549294, l.objid::int4) FROM pg_locks l
     WHERE l.pid = pg_backend_pid() AND l.locktype = 'advisory' AND l.classid = 1735549294 AND l.objsubid = 2 AND l.granted;
END;
COMMENT ON FUNCTION graphrag._end_work() IS 'Ends what _begin_work() began';

-- A session that LISTENs and leaves a transaction open keeps all NOTIFYs of the server in a queue. Where it is full, who sends
-- one cannot commit. So from half of it on ours are left out, whose listeners look for themselves.
CREATE OR REPLACE FUNCTION graphrag._may_notify(bytes bigint) RETURNS boolean
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
-- An entry never begins on one page and ends on the next.
RETURN pg_notification_queue_usage()
       + (1 + 2 * bytes / 8192.0) / coalesce(current_setting('max_notify_queue_pages', true)::float8, 1048576) < 0.5;
COMMENT ON FUNCTION graphrag._may_notify(bigint) IS 'Whether the server''s queue of notifications has room for so many bytes';

-- The writers of the queue: every job that is to be done comes by one of these three, so that what keeps a job the only one of its
-- kind, and what a new one begins with, are written once. Jobs of documents have a document, or a part of one, each; the others of a
-- corpus stand alone. (index/indexing/outcomes.py writes the dead letter of a document that is indexed.)

-- Queues jobs. Where there is one already it stays as it is, leased, failed or in its back-off. Returns how many are new.
CREATE OR REPLACE FUNCTION graphrag._queue_jobs(kind text, corpus_ids int[], document_ids bigint[] DEFAULT NULL, next_attempt_at timestamptz DEFAULT now(), payload jsonb DEFAULT '{}', last_error text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    queued bigint;
BEGIN
    INSERT INTO graphrag.jobs (corpus_id, kind, document_id, next_attempt_at, payload, last_error)
    SELECT u.corpus_id, _queue_jobs.kind, u.document_id, _queue_jobs.next_attempt_at, _queue_jobs.payload, _queue_jobs.last_error
      FROM unnest(corpus_ids, document_ids) AS u (corpus_id, document_id)
     ORDER BY u.document_id, u.corpus_id
        ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS queued = ROW_COUNT;
    RETURN queued;
END
$$;

-- Queues jobs that begin anew: one that waits, is leased or failed is superseded, and its worker's lease void; so are the parts of a
-- document. Rows are locked in one order. What a job begins with are the defaults of its columns. Returns how many.
-- By index alone: the plan that a session keeps was made for an empty queue.
CREATE OR REPLACE FUNCTION graphrag._requeue_jobs(kind text, corpus_ids int[], document_ids bigint[] DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    queued bigint;
BEGIN
    IF document_ids IS NOT NULL THEN
        -- Who changes the same documents waits for their rows before: no order is needed here.
        DELETE FROM graphrag.jobs j WHERE j.chunks IS NOT NULL AND j.document_id = ANY (_requeue_jobs.document_ids);
        INSERT INTO graphrag.jobs (corpus_id, kind, document_id)
        SELECT u.corpus_id, _requeue_jobs.kind, u.document_id
          FROM unnest(corpus_ids, document_ids) AS u (corpus_id, document_id)
         ORDER BY u.document_id
            ON CONFLICT (document_id) WHERE document_id IS NOT NULL AND chunks IS NULL
            DO UPDATE SET (kind, state, lease, attempts, errors, next_attempt_at, last_error, payload)
                        = (EXCLUDED.kind, EXCLUDED.state, EXCLUDED.lease, EXCLUDED.attempts, EXCLUDED.errors,
                           EXCLUDED.next_attempt_at, EXCLUDED.last_error,
                           -- Until this one writes the text, the index has what the removal would have taken out.
                           CASE WHEN EXCLUDED.kind = 'index' AND (jobs.kind = 'remove' OR jobs.payload ? 'removes')
                                THEN '{"removes": true}' ELSE EXCLUDED.payload END);
    ELSE
        INSERT INTO graphrag.jobs (corpus_id, kind)
        SELECT u.corpus_id, _requeue_jobs.kind FROM unnest(corpus_ids) AS u (corpus_id) ORDER BY u.corpus_id
            ON CONFLICT (corpus_id, kind) WHERE document_id IS NULL AND kind <> 'attach'
            DO UPDATE SET (state, lease, attempts, errors, next_attempt_at, last_error, payload)
                        = (EXCLUDED.state, EXCLUDED.lease, EXCLUDED.attempts, EXCLUDED.errors,
                           EXCLUDED.next_attempt_at, EXCLUDED.last_error, EXCLUDED.payload);
    END IF;
    GET DIAGNOSTICS queued = ROW_COUNT;
    -- A hint for workers that LISTEN. Off unless ALTER DATABASE … SET graphrag.notify = on: a NOTIFY breaks the application's
    -- PREPARE TRANSACTION, and workers poll anyway.
    IF current_setting('graphrag.notify', true) = 'on' AND graphrag._may_notify(0) THEN
        PERFORM pg_notify('graphrag_jobs', '');
    END IF;
    RETURN queued;
END
$$;

-- Queues what is left to do of a long document whose text is written: jobs of a kind, each for a range of chunks. Those there are stay:
-- a dead letter of the whole may be tried again before its parts are done.
CREATE OR REPLACE FUNCTION graphrag._queue_parts(kind text, corpus_id int, document_id bigint, parts int4range[]) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
    INSERT INTO graphrag.jobs (corpus_id, kind, document_id, chunks)
    SELECT _queue_parts.corpus_id, _queue_parts.kind, _queue_parts.document_id, p.chunks
      FROM pg_catalog.unnest(parts) WITH ORDINALITY AS p (chunks, place)
     ORDER BY p.place
        ON CONFLICT DO NOTHING;
END;

CREATE OR REPLACE FUNCTION graphrag.retry_failed(corpus text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    retried bigint;
BEGIN
    IF corpus IS NOT NULL AND NOT EXISTS (SELECT FROM graphrag.corpora c WHERE c.name = retry_failed.corpus) THEN
        PERFORM graphrag._unknown_corpus(corpus);
    END IF;
    PERFORM graphrag._say_moved(c.name, c.move) FROM graphrag.corpora c WHERE c.name = retry_failed.corpus AND c.move IS NOT NULL;
    -- Documents before their pictures: lock_tables.sql.
    PERFORM FROM graphrag.documents d
      WHERE d.id IN (SELECT p.document_id
                       FROM graphrag.pictures p
                       JOIN graphrag.corpora c ON c.id = p.corpus_id
                      WHERE c.move IS NULL AND (retry_failed.corpus IS NULL OR c.name = retry_failed.corpus) AND p.error IS NOT NULL)
      ORDER BY d.id FOR NO KEY UPDATE;
    -- Breakers are closed for all: a provider serves any corpus.
    DELETE FROM graphrag.provider_state;
    UPDATE graphrag.llm_batches b SET next_poll_at = now() WHERE b.next_poll_at > now();
    -- What was answered badly is asked again.
    DELETE FROM graphrag.llm_batch_requests r
     USING graphrag.corpora c
     WHERE c.id = r.corpus_id AND c.move IS NULL AND (retry_failed.corpus IS NULL OR c.name = retry_failed.corpus) AND r.state = 'spoiled';
    WITH cleared AS (
        UPDATE graphrag.pictures p SET error = NULL
          FROM graphrag.corpora c
         WHERE c.id = p.corpus_id AND c.move IS NULL AND (retry_failed.corpus IS NULL OR c.name = retry_failed.corpus) AND p.error IS NOT NULL
        RETURNING p.corpus_id)
    SELECT graphrag._queue_jobs('describe', array_agg(DISTINCT x.corpus_id)) INTO retried FROM cleared x;
    WITH queued AS (
        UPDATE graphrag.jobs j
           SET state = 'pending', attempts = 0, errors = 0, next_attempt_at = now(), payload = j.payload - '{faults,timeouts,unembeddable,skipped}'::text[]
          FROM graphrag.corpora c
         WHERE c.id = j.corpus_id
           AND c.move IS NULL AND (retry_failed.corpus IS NULL OR c.name = retry_failed.corpus)
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

-- The first corpus with a number above `beyond` that has a job due in a stage, and does not move; null: none has. Corpora are stepped through by the index,
-- and so are their turns: what is not due yet, however much, is not read.
CREATE OR REPLACE FUNCTION graphrag._next_due_corpus(of_stage int, beyond int, alive int[]) RETURNS int
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
DECLARE
    next_corpus int := beyond;
BEGIN
    LOOP
        next_corpus := (SELECT j.corpus_id
                          FROM graphrag.jobs j
                         WHERE j.stage = of_stage AND j.corpus_id > next_corpus AND j.state <> 'failed'
                         ORDER BY j.corpus_id
                         LIMIT 1);
        EXIT WHEN next_corpus IS NULL
               OR NOT EXISTS (SELECT FROM graphrag.corpora c WHERE c.id = next_corpus AND c.move IS NOT NULL)
              AND EXISTS (SELECT
                            FROM graphrag.jobs j
                           WHERE j.stage = of_stage AND j.corpus_id = next_corpus AND j.turn IN (0, 1, 2, 3) AND j.next_attempt_at <= now()
                             AND j.state <> 'failed'
                             AND (j.state = 'pending' OR j.lease <> ALL (alive)));
    END LOOP;
    RETURN next_corpus;
END
$$;

-- Leases the jobs of one batch, of one kind of work, of a corpus that has jobs due in a stage, and returns them; with no kind, those whose
-- document an open transaction has locked, which come back after retry_seconds.
-- What workers died over alone_from times is tried alone. A batch has at most `most` documents, or most_short where these are short,
-- short_bytes together; or most_rows where they are rows of attached tables without texts, whose cost no text adds to: where one comes first,
-- as many are looked at. Beyond `most` documents, most_short of these rows, or short_bytes, it has no more than half of what is due for each
-- worker, so that one that begins a moment later has its share, and all end at about the same time. What models find is not told by bytes.
-- The claim sets next_attempt_at, so that what a worker died over comes back behind the others. A part of a long document is leased
-- alone, while others may have other parts of it: so it locks the document as they do, shared.
-- Jobs are updated by index: the plan that a session keeps was made for an empty queue.
CREATE OR REPLACE FUNCTION graphrag._claim_corpus_jobs(worker int, of_stage int, of_corpus int, alive int[], most int, most_rows int, most_bytes bigint, most_short int, short_bytes bigint, alone_from int, look int, retry_seconds int)
    RETURNS TABLE (id bigint, corpus_id int, kind text, document_id bigint, first_chunk int, last_chunk int, payload jsonb, attempts int, errors int)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    share int;
BEGIN
    SELECT greatest(count(*) / (2 * greatest(cardinality(alive), 1)), 1)
      INTO share
      FROM (SELECT FROM graphrag.jobs j
             WHERE j.stage = of_stage AND j.corpus_id = of_corpus
               AND j.state = 'pending' AND j.next_attempt_at <= now() AND j.document_id IS NOT NULL
             LIMIT 2 * greatest(cardinality(alive), 1) * greatest(most_short, most_rows)) d;
    most_rows := least(most_rows, greatest(most_short, share));
    most_short := least(most_short, greatest(most, share));
    look := greatest(look, most_short);
    IF EXISTS (SELECT FROM (SELECT j.document_id
                              FROM graphrag.jobs j
                             WHERE j.stage = of_stage AND j.corpus_id = of_corpus AND j.state = 'pending' AND j.next_attempt_at <= now()
                             ORDER BY j.turn, j.next_attempt_at, j.id
                             LIMIT 1) f
                 JOIN graphrag.documents doc ON doc.id = f.document_id
                WHERE graphrag._is_lines(doc.attached_id, doc.content))
    THEN
        look := greatest(look, most_rows);
    END IF;
    RETURN QUERY
    WITH due AS (
        SELECT j.id, j.kind, j.document_id, j.chunks IS NOT NULL AS is_part, j.attempts, j.next_attempt_at, j.turn
          FROM graphrag.jobs j
         WHERE j.stage = of_stage
           AND j.corpus_id = of_corpus
           AND j.state <> 'failed'
           AND j.next_attempt_at <= now()
           AND (j.state = 'pending' OR j.lease <> ALL (alive))
         ORDER BY j.turn, j.next_attempt_at, j.id
         LIMIT look
           FOR UPDATE SKIP LOCKED
    ), free AS MATERIALIZED (
        SELECT doc.id
          FROM graphrag.documents doc
         WHERE doc.id IN (SELECT d.document_id FROM due d WHERE NOT d.is_part)
           FOR NO KEY UPDATE SKIP LOCKED
    ), shared AS MATERIALIZED (
        SELECT doc.id
          FROM graphrag.documents doc
         WHERE doc.id IN (SELECT d.document_id FROM due d WHERE d.is_part)
           FOR SHARE SKIP LOCKED
    ), held AS (
        SELECT d.id
          FROM due d
          JOIN graphrag.documents doc ON doc.id = d.document_id
         WHERE d.kind IN ('index', 'embed', 'graph')
           AND NOT EXISTS (SELECT FROM free f WHERE NOT d.is_part AND f.id = d.document_id)
           AND NOT EXISTS (SELECT FROM shared s WHERE d.is_part AND s.id = d.document_id)
    ), sized AS (
        SELECT d.id, d.kind, d.is_part,
               row_number() OVER same AS place,
               count(*) FILTER (WHERE NOT graphrag._is_lines(doc.attached_id, doc.content)) OVER (same ROWS UNBOUNDED PRECEDING) AS documents,
               max(d.attempts) OVER (same ROWS UNBOUNDED PRECEDING) AS attempts,
               coalesce(sum(octet_length(doc.content)) OVER (same ROWS UNBOUNDED PRECEDING), 0)
                   AS bytes,
               first_value(d.kind) OVER turns AS first_kind,
               first_value(d.is_part) OVER turns AS first_is_part
          FROM due d
          LEFT JOIN graphrag.documents doc ON doc.id = d.document_id AND NOT d.is_part
         WHERE NOT EXISTS (SELECT FROM held h WHERE h.id = d.id)
        WINDOW same AS (PARTITION BY d.kind, d.is_part ORDER BY d.id),
               turns AS (ORDER BY d.turn, d.next_attempt_at, d.id)
    ), postponed AS (
        UPDATE graphrag.jobs j
           SET state = 'pending', lease = NULL, next_attempt_at = now() + retry_seconds * interval '1 second'
         WHERE j.id = ANY (ARRAY(SELECT h.id FROM held h))
        RETURNING j.id
    ), leased AS (
        UPDATE graphrag.jobs j
           SET state = 'leased', lease = _claim_corpus_jobs.worker, attempts = j.attempts + 1, next_attempt_at = now()
         WHERE j.id = ANY (ARRAY(
                   SELECT s.id
                     FROM sized s
                    WHERE s.kind = s.first_kind
                      AND s.is_part = s.first_is_part
                      AND (s.place = 1
                           OR (NOT s.is_part AND s.place <= greatest(most, most_short, most_rows) AND s.bytes <= most_bytes AND s.attempts < alone_from
                               AND (s.documents <= most OR s.documents <= most_short AND s.bytes <= short_bytes)
                               AND (of_stage > 1 OR s.place <= share OR s.bytes <= short_bytes)
                               AND s.kind IN ('index', 'graph', 'remove')))))
        RETURNING j.id, j.corpus_id, j.kind, j.document_id, lower(j.chunks), upper(j.chunks) - 1, j.payload, j.attempts, j.errors
    )
    SELECT l.* FROM leased l
     UNION ALL
    SELECT p.id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM postponed p;
END
$$;

-- The first of a worker's three transactions: leases the jobs of one batch, of the first stage in which anything is due, and there of the
-- next corpus after after_corpus, which had the last batch; with null, of one that differs from worker to worker. So each corpus has its
-- turn, however much others have, also where a run does few jobs. Nothing is returned where nothing is due, or others are leasing it.
CREATE OR REPLACE FUNCTION graphrag._claim_jobs(worker int, after_corpus int, most int, most_rows int, most_bytes bigint, most_short int, short_bytes bigint, alone_from int, look int, retry_seconds int)
    RETURNS TABLE (id bigint, corpus_id int, kind text, document_id bigint, first_chunk int, last_chunk int, payload jsonb, attempts int, errors int)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    alive int[] := ARRAY(SELECT w.worker FROM graphrag._workers w);
    due_corpus int;
    is_wrapped boolean;
BEGIN
    after_corpus := coalesce(after_corpus, worker % (SELECT coalesce(max(c.id), 0) + 1 FROM graphrag.corpora c));
    FOR due_stage IN 1..3 LOOP
        due_corpus := after_corpus;
        is_wrapped := false;
        LOOP
            due_corpus := graphrag._next_due_corpus(due_stage, due_corpus, alive);
            IF due_corpus IS NULL AND NOT is_wrapped THEN
                is_wrapped := true;
                due_corpus := graphrag._next_due_corpus(due_stage, 0, alive);
            END IF;
            EXIT WHEN due_corpus IS NULL OR is_wrapped AND due_corpus > after_corpus;
            RETURN QUERY
            SELECT * FROM graphrag._claim_corpus_jobs(worker, due_stage, due_corpus, alive, most, most_rows, most_bytes, most_short, short_bytes, alone_from, look, retry_seconds);
            IF FOUND THEN
                RETURN;
            END IF;
        END LOOP;
    END LOOP;
END
$$;

-- Queues the removal of whatever was made of documents that are gone, or retracted, past the triggers that would have done it: by a
-- TRUNCATE, or in a restore. Returns how many; what is queued to be indexed, and has gone meanwhile, is queued as its removal.
CREATE OR REPLACE FUNCTION graphrag._queue_removals(corpus_id int) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    queued bigint;
BEGIN
    SELECT graphrag._requeue_jobs('remove', array_agg(gone.corpus_id), array_agg(gone.document_id)) INTO queued
      FROM (SELECT c.corpus_id, c.document_id FROM graphrag.chunks c WHERE c.corpus_id = _queue_removals.corpus_id
            EXCEPT SELECT d.corpus_id, d.id FROM graphrag.documents d WHERE d.corpus_id = _queue_removals.corpus_id AND d.retracted_at IS NULL
            -- To statistics of an empty queue, NOT EXISTS would be a scan of it for each chunk.
            EXCEPT SELECT j.corpus_id, j.document_id FROM graphrag.jobs j WHERE j.corpus_id = _queue_removals.corpus_id AND j.kind = 'remove') gone
     WHERE NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.id = gone.document_id AND d.retracted_at IS NULL);
    DELETE FROM graphrag.jobs j
     WHERE j.corpus_id = _queue_removals.corpus_id AND j.kind IN ('index', 'embed', 'graph')
       AND NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.id = j.document_id AND d.retracted_at IS NULL);
    RETURN queued;
END
$$;

-- How the attached tables are. Reads the catalog and what is recorded; nothing of the tables.
CREATE OR REPLACE VIEW graphrag._attached_states AS
SELECT a.id, c.name AS corpus, a.relation, v.owner, pg_catalog.format('%I.%I', a.schema_name, a.table_name) AS attached_table,
       CASE WHEN d.is_dropped THEN 'dropped'
            WHEN v.id IS NULL THEN 'missing'
            WHEN e.defect IS NOT NULL THEN 'broken'
            WHEN f.at IS NOT NULL AND NOT f.needs_pass AND j.id IS NULL THEN 'broken'
            WHEN j.has_failed THEN 'failing'
            WHEN j.last_error IS NOT NULL THEN 'waiting'
            WHEN f.at IS NOT NULL OR j.id IS NOT NULL OR r.at IS NOT NULL THEN 'behind'
            ELSE 'current' END AS state,
       least(f.at, j.created_at, r.at) AS behind_since,
       CASE WHEN d.is_dropped OR v.id IS NULL THEN NULL ELSE coalesce(e.defect[1], f.error_code) END AS error_code,
       CASE WHEN d.is_dropped THEN 'the table was dropped, and its documents are still there'
            WHEN v.id IS NULL THEN 'the table is not there, or has no trigger of ours; its documents are still served'
            ELSE coalesce(e.defect[2], CASE WHEN j.has_failed THEN j.last_error END, f.message) END AS detail,
       CASE WHEN d.is_dropped OR v.id IS NULL THEN
                 coalesce(j.last_error, CASE WHEN d.is_dropped THEN 'Workers delete them: CALL graphrag.process_jobs(). ' ELSE '' END
                          || pg_catalog.format('SELECT graphrag.detach_table(''%s'', %L, keep_documents => false); deletes them, true keeps them.',
                                               a.relation::bigint, c.name))
            WHEN j.has_failed AND e.defect IS NULL THEN
                 'Workers go through the table again, three times in all. Mend what the error names; SELECT graphrag.retry_failed() does not wait for that.'
            ELSE coalesce(e.defect[3], f.hint, j.last_error) END AS hint,
       a.attached_at, e.defect IS NOT NULL AS has_defect, pg_catalog.substring(j.last_error, '^([A-Za-z]+):') AS error_kind, a.kind
  FROM graphrag._attached_tables a
  JOIN graphrag.corpora c ON c.id = a.corpus_id
  LEFT JOIN graphrag._attachments v ON v.id = a.id
 CROSS JOIN LATERAL (
       SELECT v.id IS NULL AND EXISTS (SELECT FROM graphrag._attached_seen s
                                        WHERE s.attached_id = a.id
                                          AND NOT EXISTS (SELECT FROM pg_catalog.pg_class k WHERE k.oid = s.relation)) AS is_dropped) d
 CROSS JOIN LATERAL (
       SELECT CASE WHEN v.id IS NOT NULL THEN graphrag_attached._defect(
                   ROW(v.id, v.corpus, v.relation, v.owner, v.schema_name, v.table_name, v.key_columns, v.content_columns, v.title_column,
                       v.metadata_columns, v.metadata_keys, v.key_prefix, v.where_column, v.valid_from_column, v.valid_to_column, v.kind,
                       v.entity_type, v.name_is_unique, v.alias_columns, v.reference_columns, v.reference_types, v.reference_prefixes,
                       v.reference_widths, v.reference_by_name)) END AS defect) e
  LEFT JOIN LATERAL (
       SELECT x.at, x.error_code, x.message, x.hint, x.needs_pass FROM graphrag._attached_faults x
        WHERE x.attached_id = a.id ORDER BY x.needs_pass DESC, x.at LIMIT 1) f ON true
  LEFT JOIN LATERAL (
       -- What waits for somebody has a last error, too.
       SELECT x.id, x.created_at, x.last_error, x.errors > 0 AND x.last_error IS NOT NULL AS has_failed FROM graphrag.jobs x
        WHERE x.corpus_id = a.corpus_id AND x.kind = 'attach' AND (x.payload ->> 'attached')::int = a.id
        ORDER BY x.state = 'failed', x.next_attempt_at LIMIT 1) j ON true
  LEFT JOIN LATERAL (
       SELECT x.at FROM graphrag_attached._replicated x WHERE x.attached_id = a.id ORDER BY x.id LIMIT 1) r ON true;
COMMENT ON VIEW graphrag._attached_states IS 'What attached_tables shows, of all of them';

-- With the owner's rights, for owners of attached tables and for pg_monitor, whom faults of rows are told by their codes alone.
-- OFFSET 0: EXPLAIN ANALYZE would count tables of others for which a condition of the caller's held.
CREATE OR REPLACE VIEW graphrag.attached_tables WITH (security_barrier = true) AS
SELECT s.corpus, s.attached_table, s.state, s.behind_since, pg_catalog.now() - s.behind_since AS lag, s.error_code,
       CASE WHEN o.may_read THEN coalesce(s.detail, 'no reader sees its rows: its policies are asked for those alone whose rights ' || w.owners || ' has') END AS detail,
       CASE WHEN o.may_read THEN coalesce(s.hint, 'GRANT reader TO ' || w.owners || '; for each role that reads.') END AS hint, s.attached_at
  FROM graphrag._attached_states s
 CROSS JOIN LATERAL (
       SELECT pg_catalog.pg_has_role(e.extowner, 'USAGE') OR coalesce(pg_catalog.pg_has_role(s.owner, 'USAGE'), false) AS may_read
         FROM pg_catalog.pg_extension e WHERE e.extname = 'pg_graphrag') o
 CROSS JOIN LATERAL (SELECT CASE WHEN s.kind <> 'documents' AND s.state = 'current' THEN graphrag_attached._withholding(s.relation) END AS owners) w
 WHERE o.may_read OR pg_catalog.pg_has_role('pg_monitor', 'USAGE')
OFFSET 0;
COMMENT ON VIEW graphrag.attached_tables IS 'Tables that attach_table(), attach_entities() and attach_relationships() made sources, and whether their documents follow them. For the owner of the extension, owners of the tables, and pg_monitor.';
COMMENT ON COLUMN graphrag.attached_tables.corpus IS 'Corpus the rows go to';
COMMENT ON COLUMN graphrag.attached_tables.attached_table IS 'The table, as last seen';
COMMENT ON COLUMN graphrag.attached_tables.state IS 'current; behind (a worker will go through the table); failing (a worker went, and detail says why it did not come through); waiting (its owner must CALL backfill_table()); broken (detail says why its changes are not followed); dropped (workers will delete its documents); missing (not there after a restore, or without our triggers)';
COMMENT ON COLUMN graphrag.attached_tables.behind_since IS 'Time of the first change that documents may not show; null: none';
COMMENT ON COLUMN graphrag.attached_tables.lag IS 'Age of that change';
COMMENT ON COLUMN graphrag.attached_tables.error_code IS 'SQLSTATE of what kept documents from following';
COMMENT ON COLUMN graphrag.attached_tables.detail IS 'What that was; it may quote a row. Of a current one, that no reader sees its rows. Null for pg_monitor';
COMMENT ON COLUMN graphrag.attached_tables.hint IS 'What to do. Null for pg_monitor';
COMMENT ON COLUMN graphrag.attached_tables.attached_at IS 'Time it was attached';

-- After DDL: what a table is called and whether it can be followed is looked at at once, and who changed it is told. DDL never fails
-- because of it.
-- SECURITY DEFINER: whoever may change a table has no right to the tables of attachments. It takes numbers from the event alone.
CREATE OR REPLACE FUNCTION graphrag._attached_altered() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    attached record;
    defect text[];
    lost_some boolean;
BEGIN
    IF NOT EXISTS (SELECT FROM graphrag._attached_tables) THEN
        RETURN;
    END IF;
    FOR attached IN
        SELECT DISTINCT a.id, a.relation
          FROM (SELECT c.classid, c.objid, graphrag_attached._above(c.objid) || graphrag_attached._under(c.objid) AS tables
                  FROM pg_event_trigger_ddl_commands() c
                OFFSET 0) e,
               graphrag._attached_tables a
         WHERE CASE e.classid
                   WHEN 'pg_class'::regclass THEN
                       a.relation = ANY (e.tables) OR a.relation = (SELECT i.indrelid FROM pg_index i WHERE i.indexrelid = e.objid)
                   WHEN 'pg_namespace'::regclass THEN e.objid = (SELECT c.relnamespace FROM pg_class c WHERE c.oid = a.relation)
                   -- Of an enumeration; which tables have its values is asked of each (_see_attached).
                   WHEN 'pg_type'::regclass THEN (SELECT y.typtype = 'e' FROM pg_type y WHERE y.oid = e.objid)
               END
    LOOP
        lost_some := EXISTS (SELECT FROM graphrag._attached_seen s
                              WHERE s.attached_id = attached.id AND NOT s.partitions <@ graphrag_attached._under(attached.relation));
        PERFORM graphrag._see_attached(attached.id);
        -- What its rows are has other names now.
        PERFORM graphrag._make_attached_function(attached.id, attached.relation)
           FROM pg_proc p
          WHERE p.oid = to_regprocedure(format('graphrag_attached._changed_%s()', attached.id)) AND p.prosrc <> graphrag_attached._body(attached.id);
        IF graphrag._follow_partitions(attached.id, attached.relation) THEN
            PERFORM graphrag._queue_attached(attached.id);
            PERFORM graphrag._notice_waiting(attached.id);
        ELSIF lost_some THEN
            PERFORM graphrag._notice_waiting(attached.id);
        END IF;
        SELECT graphrag_attached._defect(v) INTO defect FROM graphrag_attached._attachments v WHERE v.id = attached.id;
        IF defect IS NOT NULL AND graphrag._record_fault(attached.id, defect[1], defect[2], defect[3], true) THEN
            PERFORM graphrag._queue_attached(attached.id);
            RAISE WARNING '%', defect[2] USING ERRCODE = defect[1],
                HINT = concat_ws(' ', defect[3], 'Until then its changes go on, and documents do not follow them.');
        END IF;
        PERFORM graphrag._warn_of_unseen(ARRAY[attached.id]);
    END LOOP;
EXCEPTION
    WHEN deadlock_detected OR lock_not_available THEN
        RAISE;
    WHEN OTHERS THEN
        RAISE WARNING 'attached tables were not looked at: %', SQLERRM USING HINT = 'The next worker looks at them: CALL graphrag.process_jobs().';
END
$$;
COMMENT ON FUNCTION graphrag._attached_altered() IS 'Event trigger: attached tables that were altered';

-- After a DROP: workers delete the documents. In one transaction with it a million of them would hold it up.
-- SECURITY DEFINER: as above.
CREATE OR REPLACE FUNCTION graphrag._attached_dropped() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    attached record;
BEGIN
    FOR attached IN
        SELECT a.id, format('%I.%I', a.schema_name, a.table_name) AS name, c.name AS corpus,
               coalesce(graphrag._dropped_waits(a), 'workers will delete its documents') AS outcome
          FROM pg_event_trigger_dropped_objects() e
          JOIN graphrag._attached_tables a ON a.relation = e.objid
          JOIN graphrag.corpora c ON c.id = a.corpus_id
         WHERE e.classid = 'pg_class'::regclass AND e.objsubid = 0
         ORDER BY a.id
    LOOP
        PERFORM graphrag._queue_attached(attached.id);
        RAISE NOTICE 'table % was attached to corpus "%": %', attached.name, attached.corpus, attached.outcome;
    END LOOP;
    -- Partitions of tables that are still there: a pass finds the documents without a row.
    FOR attached IN
        SELECT DISTINCT s.attached_id AS id
          FROM pg_event_trigger_dropped_objects() e
          JOIN graphrag._attached_seen s ON e.objid = ANY (s.partitions)
          JOIN pg_class c ON c.oid = s.relation
         WHERE e.classid = 'pg_class'::regclass AND e.objsubid = 0
         ORDER BY 1
    LOOP
        PERFORM graphrag._see_attached(attached.id);
        PERFORM graphrag._notice_waiting(attached.id);
    END LOOP;
EXCEPTION
    WHEN deadlock_detected OR lock_not_available THEN
        RAISE;
    WHEN OTHERS THEN
        RAISE WARNING 'attached tables were not looked at: %', SQLERRM USING HINT = 'The next worker looks at them: CALL graphrag.process_jobs().';
END
$$;
COMMENT ON FUNCTION graphrag._attached_dropped() IS 'Event trigger: attached tables that were dropped';

-- Before a table is written anew: its rows say something else afterwards, and no trigger of the table sees it.
-- SECURITY DEFINER: as above.
CREATE OR REPLACE FUNCTION graphrag._attached_rewritten() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- By a default or a generated column's expression, or by the type of a column: ALTER COLUMN … TYPE text USING 'redacted'.
    of_values CONSTANT int := 2 | 4;
    attached record;
BEGIN
    IF pg_event_trigger_table_rewrite_reason() & of_values = 0 THEN
        RETURN;
    END IF;
    FOR attached IN
        SELECT a.id FROM graphrag._attached_tables a
         WHERE a.relation = ANY (graphrag_attached._above(pg_event_trigger_table_rewrite_oid()))
         ORDER BY a.id
    LOOP
        PERFORM graphrag._queue_attached(attached.id);
        PERFORM graphrag._notice_waiting(attached.id);
    END LOOP;
EXCEPTION
    WHEN deadlock_detected OR lock_not_available THEN
        RAISE;
    WHEN OTHERS THEN
        RAISE WARNING 'attached tables were not looked at: %', SQLERRM USING HINT = 'CALL graphrag.backfill_table(); brings documents up to date.';
END
$$;
COMMENT ON FUNCTION graphrag._attached_rewritten() IS 'Event trigger: attached tables that are written anew';

-- Event triggers are for superusers to make. Without them workers and repair() see what became of attached tables.
CREATE OR REPLACE FUNCTION graphrag._make_event_triggers() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user) AND NOT EXISTS (SELECT FROM pg_event_trigger t WHERE t.evtname = 'graphrag_attached_altered') THEN
        EXECUTE 'CREATE EVENT TRIGGER graphrag_attached_altered ON ddl_command_end'
                ' WHEN TAG IN (''CREATE TABLE'', ''ALTER TABLE'', ''ALTER SCHEMA'', ''ALTER INDEX'', ''ALTER TYPE'') EXECUTE FUNCTION graphrag._attached_altered()';
        EXECUTE 'CREATE EVENT TRIGGER graphrag_attached_dropped ON sql_drop'
                ' WHEN TAG IN (''DROP TABLE'', ''DROP SCHEMA'', ''DROP OWNED'') EXECUTE FUNCTION graphrag._attached_dropped()';
    END IF;
    IF (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user) AND NOT EXISTS (SELECT FROM pg_event_trigger t WHERE t.evtname = 'graphrag_attached_rewritten') THEN
        EXECUTE 'CREATE EVENT TRIGGER graphrag_attached_rewritten ON table_rewrite EXECUTE FUNCTION graphrag._attached_rewritten()';
    END IF;
END
$$;
SELECT graphrag._make_event_triggers();

-- Chunks: what retrieval returns. Immutable: new content of a document makes new chunks.
CREATE INDEX chunks_nlp_idx ON graphrag.chunks (corpus_id) WHERE extraction IN ('cut off', 'stood in');

COMMENT ON COLUMN graphrag.chunks.tsv IS 'Lexemes of title, section and text: what BM25 scores';
COMMENT ON COLUMN graphrag.chunks.extraction IS 'What a model''s extraction came to: complete, repaired (a part of its reply was unreadable), cut off (the rest of its reply could not be had: those of the NLP extractor are beside its mentions), or stood in (nothing of it could be used: the mentions are those of the NLP extractor); null: no model was asked';
COMMENT ON COLUMN graphrag.chunks.section IS 'Headings under which all of the chunk''s own text stands, the outermost first, joined by › ; null: none';
COMMENT ON COLUMN graphrag.chunks.page IS 'Page, from 1, of the first character: form feeds in the content end pages; null: the document has none';
COMMENT ON COLUMN graphrag.chunks.unfit IS 'What a model extracted and the text or the schema has no place for: [{kind, item, reason}], with kept where the graph has it all the same; null: nothing';
COMMENT ON COLUMN graphrag.chunks.concepts IS 'What NLP finds in a chunk, for walks of hybrid and ppr: where a model read it all concepts, else those that are too weak for entities. 8 bytes of BLAKE2b of the key of each mention, of one concept at most three, ascending; null: not looked for, or none too weak';
COMMENT ON COLUMN graphrag.chunks.is_row IS 'Whether it is of a row of an attached table, whose mentions are the row''s';
COMMENT ON COLUMN graphrag.chunks.picture_id IS 'Picture whose words it is of; its offsets go on behind the content. Null: it is of the content';

-- Windows: the unit of dense embedding. They partition the own part of each chunk, so together they partition the document.


-- BM25 postings of three kinds of items (chunks, entity mentions, relationship mentions), each with statistics of its own.
-- An item is, in any snapshot, in the tail or live in exactly one immutable segment: live = neither in the segment's
-- bm25_deletions nor named by a tombstone. N, df and avgdl are sums over these, so there is no counter to lock.
-- Not compressed: reading plain bytes is what a query spends its time on (bench/load/bm25.py).


-- One row for a term in a segment. Rare terms list ordinals; a term in more than a fifth of the items has one byte for every item.


-- Deletions folded by optimize(): an immutable bit map, replaced by a new row.


-- Items not packed yet, with their lexemes: a reader that may not see the item's row still gets the statistics right.

COMMENT ON COLUMN graphrag.bm25_tail.length IS 'Words of the text: the sum of the term frequencies, without terms made for names';



-- Add items to the tail, in the transaction that inserts them. Items whose tsv is null have no text and are no items of BM25.
-- The frequency of a lexeme is the number of its positions, or what tf_overflow says where a tsvector cannot hold them all.
-- Terms made for names (who0z0 for The Who, signhash120z0 for #12) stand beside a text, and make it no longer: "What about you?" has five.
-- By index alone: the plan that a session keeps was made for small tables.
CREATE OR REPLACE FUNCTION graphrag._bm25_add(corpus_id int, kind text, item_ids bigint[], document_ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
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
               SELECT coalesce(sum(tf) FILTER (WHERE lexeme NOT LIKE '%0z0'), 0) AS length,
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
    SELECT graphrag._lock(corpus_id, 'bm25');
    SELECT graphrag._refuse_moved(corpus_id);
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

-- One space per (corpus, model): a new model is filled beside the old. Small spaces share four tables, so that a corpus costs no relation. One that is
-- large enough for an HNSW index has tables of its own, which inherit from these: an index build blocks no other corpus, and a query finds all vectors
-- in the shared ones' names. Own tables are made at run time and are no extension members.

COMMENT ON COLUMN graphrag.embedding_spaces.id IS 'Number of the space';
COMMENT ON COLUMN graphrag.embedding_spaces.own_tables IS 'Whether its vectors have tables of their own (window_vectors_N and so on), as many vectors have';

CREATE INDEX window_vectors_chunk_idx ON graphrag.window_vectors (space_id, chunk_id);
SELECT pg_catalog.pg_extension_config_dump('graphrag.window_vectors', '');

CREATE UNIQUE INDEX entity_vectors_entity_idx ON graphrag.entity_vectors (space_id, entity_id);
SELECT pg_catalog.pg_extension_config_dump('graphrag.entity_vectors', '');

CREATE INDEX entity_mention_vectors_chunk_idx ON graphrag.entity_mention_vectors (space_id, chunk_id);
CREATE UNIQUE INDEX entity_mention_vectors_mention_idx ON graphrag.entity_mention_vectors (space_id, mention_id);
SELECT pg_catalog.pg_extension_config_dump('graphrag.entity_mention_vectors', '');

CREATE INDEX relationship_mention_vectors_chunk_idx ON graphrag.relationship_mention_vectors (space_id, chunk_id);
CREATE UNIQUE INDEX relationship_mention_vectors_mention_idx ON graphrag.relationship_mention_vectors (space_id, mention_id);
SELECT pg_catalog.pg_extension_config_dump('graphrag.relationship_mention_vectors', '');

-- Drops the tables of a space.
CREATE OR REPLACE FUNCTION graphrag._drop_tables(space int) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    tables CONSTANT regclass[] := ARRAY(
        SELECT c.oid::regclass FROM pg_class c
         WHERE c.relnamespace = 'graphrag'::regnamespace AND c.relname ~ ('^(window|entity|entity_mention|relationship_mention)_vectors_' || space || '$')
         ORDER BY c.relname);
BEGIN
    IF tables <> '{}' THEN
        -- A reader's transaction may hold them as long as it likes.
        PERFORM graphrag._lock_tables(VARIADIC tables);
        EXECUTE format('DROP TABLE %s', array_to_string(tables, ', '));
    END IF;
END
$$;

-- Makes a space of a corpus; returns its number.
CREATE OR REPLACE FUNCTION graphrag._add_space(corpus_id int, provider text, model text, dimensions int, state text) RETURNS int
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    space int;
BEGIN
    INSERT INTO graphrag.embedding_spaces (corpus_id, provider, model, dimensions, state)
    VALUES (corpus_id, provider, model, dimensions, state) RETURNING id INTO space;
    -- A restore of schemas alone leaves those of other spaces, which had their numbers.
    PERFORM graphrag._drop_tables(space);
    -- What takes the place of many vectors will be as many.
    IF EXISTS (SELECT FROM graphrag.embedding_spaces s WHERE s.corpus_id = corpus_id AND s.own_tables) THEN
        PERFORM graphrag._make_tables(space);
    END IF;
    RETURN space;
END
$$;

-- Gives a space tables of its own, and moves its vectors there. The caller keeps its writers away.
CREATE OR REPLACE FUNCTION graphrag._make_tables(space int) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    stem text;
BEGIN
    FOREACH stem IN ARRAY ARRAY['window_vectors', 'entity_vectors', 'entity_mention_vectors', 'relationship_mention_vectors'] LOOP
        -- Not CREATE TABLE … INHERITS: a query of the shared table may go on.
        EXECUTE format('CREATE TABLE graphrag.%1$s_%2$s (LIKE graphrag.%1$s)', stem, space);
        EXECUTE format('ALTER TABLE graphrag.%1$s_%2$s INHERIT graphrag.%1$s', stem, space);
        PERFORM graphrag._close(format('graphrag.%s_%s', stem, space)::regclass);
        EXECUTE format('WITH moved AS (DELETE FROM ONLY graphrag.%1$s v WHERE v.space_id = %2$s RETURNING v.*)'
                       'INSERT INTO graphrag.%1$s_%2$s SELECT m.* FROM moved m', stem, space);
        IF stem = 'entity_vectors' THEN
            EXECUTE format('CREATE UNIQUE INDEX %1$s_%2$s_entity_idx ON graphrag.%1$s_%2$s (entity_id)', stem, space);
        ELSE
            EXECUTE format('CREATE INDEX %1$s_%2$s_chunk_idx ON graphrag.%1$s_%2$s (chunk_id)', stem, space);
        END IF;
        IF stem LIKE '%mention%' THEN
            EXECUTE format('CREATE UNIQUE INDEX %1$s_%2$s_mention_idx ON graphrag.%1$s_%2$s (mention_id)', stem, space);
        END IF;
    END LOOP;
    UPDATE graphrag.embedding_spaces s SET own_tables = true WHERE s.id = space;
END
$$;

CREATE OR REPLACE FUNCTION graphrag._drop_space(space int) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    stem text;
    own  boolean;
BEGIN
    DELETE FROM graphrag.embedding_spaces s WHERE s.id = space RETURNING s.own_tables INTO own;
    IF own THEN
        PERFORM graphrag._drop_tables(space);
    END IF;
    FOREACH stem IN ARRAY ARRAY['window_vectors', 'entity_vectors', 'entity_mention_vectors', 'relationship_mention_vectors'] LOOP
        EXECUTE format('DELETE FROM ONLY graphrag.%s v WHERE v.space_id = %s', stem, space);
    END LOOP;
END
$$;

-- Corpora whose texts have no vectors at all, though every model of ours reads English: after a restore of a part. Not those of which the
-- endpoint has none. Of rows alone many chunks would be read.
CREATE OR REPLACE VIEW graphrag._without_vectors AS
SELECT s.corpus_id
  FROM graphrag.embedding_spaces s
 WHERE s.state = 'active'
   AND NOT EXISTS (SELECT FROM graphrag.embedding_spaces b WHERE b.corpus_id = s.corpus_id AND b.state = 'building')
   -- health() asks each minute: shared tables by the index of a space, own ones, below, by that of chunks.
   AND (s.own_tables OR NOT EXISTS (SELECT FROM ONLY graphrag.window_vectors v WHERE v.space_id = s.id OFFSET 0))
   AND EXISTS (SELECT FROM (SELECT x.* FROM graphrag.chunks x WHERE x.corpus_id = s.corpus_id LIMIT 1000) c
                 JOIN graphrag.documents d ON d.id = c.document_id AND d.indexed_at IS NOT NULL
                 JOIN graphrag.chunk_windows w ON w.chunk_id = c.id
                WHERE NOT c.is_row AND (c.language = 'en' OR s.provider <> 'local')
                  AND NOT (s.own_tables AND EXISTS (SELECT FROM graphrag.window_vectors v WHERE v.chunk_id = c.id AND v.space_id = s.id OFFSET 0))
                  AND NOT EXISTS (SELECT FROM graphrag.jobs j
                                   WHERE j.document_id = d.id AND j.chunks IS NULL AND j.last_error LIKE 'Unembeddable:%'));
COMMENT ON VIEW graphrag._without_vectors IS 'Corpora whose texts have no vectors, which repair() has made again';
COMMENT ON COLUMN graphrag._without_vectors.corpus_id IS 'Corpus';

-- After a restore of a part: where the vectors of a corpus, or their tables, are missing, a space is made in which workers embed its texts again.
CREATE OR REPLACE FUNCTION graphrag._restore_vectors(corpus_id int) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    space graphrag.embedding_spaces;
BEGIN
    FOR space IN
        SELECT s.* FROM graphrag.embedding_spaces s
         WHERE s.corpus_id = corpus_id AND s.own_tables
           AND EXISTS (SELECT FROM unnest('{window,entity,entity_mention,relationship_mention}'::text[]) kind
                        WHERE to_regclass(format('graphrag.%s_vectors_%s', kind, s.id)) IS NULL)
    LOOP
        PERFORM graphrag._drop_tables(space.id);
        UPDATE graphrag.embedding_spaces s SET own_tables = false WHERE s.id = space.id;
    END LOOP;
    PERFORM graphrag._add_space(corpus_id, s.provider, s.model, s.dimensions, 'building')
       FROM graphrag.embedding_spaces s
       JOIN graphrag._without_vectors w ON w.corpus_id = s.corpus_id
      WHERE s.corpus_id = corpus_id AND s.state = 'active';
END
$$;

-- Vectors of a corpus, by kind, that are at least least_rows and have no HNSW index: those for which one is to be built.
CREATE OR REPLACE FUNCTION graphrag._unindexed_vectors(corpus_id int, least_rows int, state text DEFAULT 'active')
RETURNS TABLE (stem text, space_id int, dimensions int)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    own    boolean;
    enough boolean;
BEGIN
    FOR stem, space_id, dimensions, own IN
        SELECT t.stem, s.id, s.dimensions, s.own_tables
          FROM graphrag.embedding_spaces s
         CROSS JOIN (VALUES ('window_vectors'), ('entity_vectors'), ('entity_mention_vectors'), ('relationship_mention_vectors')) t (stem)
         WHERE s.corpus_id = $1
           AND s.state = $3
           AND to_regclass(format('graphrag.%s_%s_hnsw_idx', t.stem, s.id)) IS NULL
    LOOP
        EXECUTE format('SELECT count(*) >= $1 FROM (SELECT FROM %s LIMIT $1) v',
                       CASE WHEN own THEN format('graphrag.%s_%s', stem, space_id)
                            ELSE format('ONLY graphrag.%s x WHERE x.space_id = %s', stem, space_id) END)
           INTO enough USING least_rows;
        IF enough THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;

-- Gives a space tables of its own once there are enough vectors for an HNSW index. Its locks come before that of BM25 (lock_tables.sql).
CREATE OR REPLACE FUNCTION graphrag._separate_vectors(corpus_id int, least_rows int, state text DEFAULT 'active') RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    space int;
BEGIN
    IF NOT EXISTS (SELECT FROM graphrag._unindexed_vectors($1, $2, $3) u JOIN graphrag.embedding_spaces s ON s.id = u.space_id WHERE NOT s.own_tables) THEN
        RETURN;
    END IF;
    -- Who writes vectors holds the one, or the other (server/corpus/spaces.py).
    PERFORM graphrag._lock_spaces($1, false);
    PERFORM graphrag._lock_corpus($1);
    FOR space IN
        SELECT DISTINCT u.space_id FROM graphrag._unindexed_vectors($1, $2, $3) u
          JOIN graphrag.embedding_spaces s ON s.id = u.space_id WHERE NOT s.own_tables
    LOOP
        PERFORM graphrag._make_tables(space);
    END LOOP;
    -- A writer whose snapshot is older would write to the shared tables: this makes it a serialization failure.
    INSERT INTO graphrag.corpus_revisions (corpus_id, revision) VALUES ($1, pg_current_xact_id())
        ON CONFLICT ON CONSTRAINT corpus_revisions_pkey DO UPDATE SET revision = EXCLUDED.revision;
END
$$;

-- Builds the HNSW indexes of a space once its tables are large enough for an index to be faster than a scan. A document has some
-- five new names: with half the neighbours a name costs half the time to insert, and of 100,000 names a scan that looks at half
-- as many again finds as many of the nearest (docs/decisions/indexing.md).
-- Rows beyond maintenance_work_mem take three times as long or more. So a build may have what its rows need, of a quarter of what the server says
-- that its machine has for caches; with memory of type posix by itself, as /dev/shm of a container has 64 MB.
CREATE OR REPLACE FUNCTION graphrag._index_vectors(corpus_id int, least_rows int, state text DEFAULT 'active') RETURNS text[]
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    part       record;
    built      text[] := '{}';
    neighbours int;
    needed     bigint; -- kB
    memory     text := current_setting('maintenance_work_mem');
    processes  text := current_setting('max_parallel_maintenance_workers');
BEGIN
    PERFORM graphrag._separate_vectors(corpus_id, least_rows, state);
    FOR part IN SELECT u.stem, u.space_id, u.dimensions FROM graphrag._unindexed_vectors(corpus_id, least_rows, state) u LOOP
        neighbours := CASE part.stem WHEN 'entity_vectors' THEN 8 ELSE 16 END;
        -- As measured: the vector, lists of neighbours, and some 200 bytes.
        EXECUTE format('SELECT 1024 + count(*) * (4 * %s + 36 * %s + 200) / 1024 FROM graphrag.%s_%s', part.dimensions, neighbours, part.stem, part.space_id)
           INTO needed;
        needed := least(needed, pg_size_bytes(current_setting('effective_cache_size')) / 4096);
        IF needed > pg_size_bytes(memory) / 1024 THEN
            PERFORM set_config('maintenance_work_mem', needed || 'kB', true);
            IF current_setting('dynamic_shared_memory_type') = 'posix' THEN
                PERFORM set_config('max_parallel_maintenance_workers', '0', true);
            END IF;
        END IF;
        EXECUTE format('CREATE INDEX %1$s_%2$s_hnsw_idx ON graphrag.%1$s_%2$s USING hnsw ((embedding::@extschema:vector@.vector(%3$s)) @extschema:vector@.vector_cosine_ops) WITH (m = %4$s)',
                       part.stem, part.space_id, part.dimensions, neighbours);
        PERFORM set_config('maintenance_work_mem', memory, true), set_config('max_parallel_maintenance_workers', processes, true);
        built := built || format('%s_%s_hnsw_idx', part.stem, part.space_id);
    END LOOP;
    RETURN built;
END
$$;

-- Which transaction last changed what the documents of a corpus were made into: two snapshots that see one revision see the same
-- chunks, mentions, entities, relationships and vectors. Whoever changes them writes this row, in the same (sub)transaction.


-- Entities. Every value but the id is a function of the entity's mentions and of what people said of it (curated).

COMMENT ON COLUMN graphrag.entities.key IS 'Normalised name, unique in the corpus: as it is seen, NFKC, case-folded, white space collapsed (none beside Han and kana), one form of hyphens and apostrophes, outer quotes stripped';
COMMENT ON COLUMN graphrag.entities.type IS 'Most frequent type (ties: smallest); NAME or CONCEPT, which say how it is written, only where no mention gave another, UNKNOWN where none gave one';
COMMENT ON COLUMN graphrag.entities.row_mention_count IS 'Of the chunks that mention the entity, those of rows of attached tables';

CREATE INDEX entity_mentions_attributes_idx ON graphrag.entity_mentions (entity_id) WHERE attributes IS NOT NULL;
CREATE INDEX entity_mentions_name_idx ON graphrag.entity_mentions (entity_id) WHERE name_of IS NOT NULL;

COMMENT ON COLUMN graphrag.entity_mentions.attributes IS 'Attributes that the chunk gives, by the schema of the corpus: {name: value}; null: none';
COMMENT ON COLUMN graphrag.entity_mentions.name_of IS 'raw_key of the row''s own entity in the chunk of an attached row, of which this is the name, an alias, a spelling of a code or the key; raw_key itself: the own entity; null: all others';

-- Counted spellings, types and descriptions: a change costs the size of the change, also for an entity with 100,000 mentions.
-- The first descriptions of a hub, without reading all. By a beginning: a whole one may be too long for an index.


-- Attributes of an entity, {name: value}: of each the value that most chunks give, the smallest of equally frequent ones; null: none. An index has the
-- mentions with attributes alone. No join: where _project forbids nested loops, one would cost so much that no index is worth it.
CREATE OR REPLACE FUNCTION graphrag._merged_attributes(entity bigint) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT pg_catalog.jsonb_object_agg(v.key, v.value)
      FROM (SELECT DISTINCT ON (x.key) x.key, x.value
              FROM (SELECT (a.pair).key, (a.pair).value, pg_catalog.count(DISTINCT a.chunk_id) AS count
                      FROM (SELECT pg_catalog.jsonb_each(m.attributes) AS pair, m.chunk_id
                              FROM graphrag.entity_mentions AS m
                             WHERE m.entity_id = entity AND m.attributes IS NOT NULL) AS a
                     GROUP BY (a.pair).key, (a.pair).value) AS x
             ORDER BY x.key, x.count DESC, x.value::text COLLATE "C") AS v;
END;

-- Attributes as Apache AGE can hold them: a value with a number beyond its integers, or its floats, is a text.
CREATE OR REPLACE FUNCTION graphrag._graph_attributes(attributes jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
    SELECT CASE WHEN pg_catalog.jsonb_path_exists(attributes, '$.** ? (@ > 9223372036854775807 || @ < -9223372036854775808)')
                THEN (SELECT pg_catalog.jsonb_object_agg(a.key, CASE WHEN pg_catalog.jsonb_path_exists(a.value,
                                                                            '$.** ? (@ > 9223372036854775807 || @ < -9223372036854775808)')
                                                                     THEN pg_catalog.to_jsonb(a.value::text) ELSE a.value END)
                        FROM pg_catalog.jsonb_each(attributes) AS a)
                ELSE attributes END;
END;

-- Relationships: an undirected pair of entities. Every value but the id is a function of the mentions and of what people said of it (curated).

COMMENT ON COLUMN graphrag.relationships.row_mention_count IS 'Of the chunks that state the relationship, those of rows of attached tables';





-- Names of rows. What documents call a row by its name, an alias, a code or its key is one entity with the row's own, for those who see
-- the row. The two have mentions of their own (entity_mentions.name_of says which), and are joined as the graph is read: what a caller
-- does not see joins nothing for him.

-- Of entities those that are names of one row, each with the row's own entity, as documents say (null: all). A name that several rows
-- have, or that is another row's own entity, is none: the first two mentions tell, also of a name that 200,000 rows have. OFFSET 0: no
-- plan reads all of them.
CREATE OR REPLACE FUNCTION graphrag._rows_named(entities bigint[], documents bigint[]) RETURNS TABLE (name_id bigint, entity_id bigint)
LANGUAGE sql STABLE ROWS 10
BEGIN ATOMIC
    SELECT u.id, f.entity_id
      FROM (SELECT DISTINCT x.id FROM pg_catalog.unnest(entities) AS x (id)) AS u
     CROSS JOIN LATERAL (
           SELECT o.entity_id
             FROM graphrag.entity_mentions AS n
             JOIN graphrag.entity_mentions AS o ON o.chunk_id = n.chunk_id AND o.raw_key = n.name_of
            WHERE n.entity_id = u.id AND n.name_of IS NOT NULL AND (documents IS NULL OR n.document_id = ANY (documents))
            LIMIT 1) AS f
     WHERE NOT EXISTS (
           SELECT
             FROM graphrag.entity_mentions AS n
             JOIN graphrag.entity_mentions AS o ON o.chunk_id = n.chunk_id AND o.raw_key = n.name_of
            WHERE n.entity_id = u.id AND n.name_of IS NOT NULL AND (documents IS NULL OR n.document_id = ANY (documents))
              AND (n.raw_key <> n.name_of AND o.entity_id <> n.entity_id AND o.entity_id = f.entity_id) IS NOT TRUE
           OFFSET 0);
END;
COMMENT ON FUNCTION graphrag._rows_named(bigint[], bigint[]) IS 'Of entities those that are names of one row, each with the row''s own entity';

-- The names of rows whose own entities are given, as these documents say.
CREATE OR REPLACE FUNCTION graphrag._names_of_rows(entities bigint[], documents bigint[]) RETURNS TABLE (name_id bigint, entity_id bigint)
LANGUAGE sql STABLE ROWS 10
BEGIN ATOMIC
    SELECT r.name_id, r.entity_id
      FROM graphrag._rows_named(ARRAY(
               SELECT DISTINCT n.entity_id
                 FROM graphrag.entity_mentions AS o
                 JOIN graphrag.entity_mentions AS n ON n.chunk_id = o.chunk_id AND n.name_of = o.raw_key AND n.entity_id <> o.entity_id
                WHERE o.entity_id = ANY (entities) AND o.name_of = o.raw_key AND o.document_id = ANY (documents)), documents) AS r
     WHERE r.entity_id = ANY (entities);
END;
COMMENT ON FUNCTION graphrag._names_of_rows(bigint[], bigint[]) IS 'The names of rows whose own entities are given';

-- The names of rows as all documents give them: who sees a corpus whole reads this. The merge keeps it, a row where _rows_named has one.
-- No foreign keys: an entity that goes has no mentions, and so no row here. The server would look for each, by whatever plan it has.
CREATE TABLE graphrag._row_names (
    name_id   bigint NOT NULL,
    corpus_id int    NOT NULL,
    entity_id bigint NOT NULL,
    CONSTRAINT _row_names_pkey PRIMARY KEY (name_id)
);
CREATE INDEX _row_names_entity_idx ON graphrag._row_names (entity_id);
CREATE INDEX _row_names_corpus_idx ON graphrag._row_names (corpus_id);
SELECT pg_catalog.pg_extension_config_dump('graphrag._row_names', '');

COMMENT ON TABLE graphrag._row_names IS 'Entities that are names of one row, each with the row''s own entity, as all documents of a corpus give them';
COMMENT ON COLUMN graphrag._row_names.name_id IS 'Entity that is a name of the row';
COMMENT ON COLUMN graphrag._row_names.corpus_id IS 'Corpus of both';
COMMENT ON COLUMN graphrag._row_names.entity_id IS 'The row''s own entity';

-- Brings the table up to date after mentions of these entities came, went or moved; returns the rows whose names are others now. The
-- caller holds the corpus' lock. A batch looks its entities up, whatever old statistics say of the tables.
CREATE OR REPLACE FUNCTION graphrag._renew_row_names(entities bigint[]) RETURNS SETOF bigint
LANGUAGE sql VOLATILE SET enable_seqscan = off
BEGIN ATOMIC
    WITH affected AS MATERIALIZED (
        SELECT u.id FROM pg_catalog.unnest(entities) AS u (id)
         UNION
        SELECT r.name_id FROM graphrag._row_names AS r WHERE r.entity_id = ANY (entities)
         UNION
        SELECT n.entity_id
          FROM graphrag.entity_mentions AS o
          JOIN graphrag.entity_mentions AS n ON n.chunk_id = o.chunk_id AND n.name_of = o.raw_key
         WHERE o.entity_id = ANY (entities) AND o.name_of = o.raw_key
    ), named AS MATERIALIZED (
        SELECT r.name_id, r.entity_id FROM graphrag._rows_named(ARRAY(SELECT a.id FROM affected AS a), NULL) AS r
    ), old AS MATERIALIZED (
        SELECT r.name_id, r.entity_id FROM affected AS a JOIN graphrag._row_names AS r ON r.name_id = a.id
    ), removed AS (
        DELETE FROM graphrag._row_names AS r
         USING old AS o
         WHERE r.name_id = o.name_id AND NOT EXISTS (SELECT FROM named AS n WHERE n.name_id = o.name_id)
    ), added AS (
        INSERT INTO graphrag._row_names AS r (name_id, corpus_id, entity_id)
        SELECT n.name_id, e.corpus_id, n.entity_id FROM named AS n JOIN graphrag.entities AS e ON e.id = n.name_id
            ON CONFLICT (name_id) DO UPDATE SET entity_id = excluded.entity_id WHERE r.entity_id <> excluded.entity_id
    )
    SELECT u.entity_id
      FROM old AS o
      FULL JOIN named AS n ON n.name_id = o.name_id
     CROSS JOIN LATERAL (VALUES (o.entity_id), (n.entity_id)) AS u (entity_id)
     WHERE o.entity_id IS DISTINCT FROM n.entity_id AND u.entity_id IS NOT NULL;
END;
COMMENT ON FUNCTION graphrag._renew_row_names(bigint[]) IS 'Brings the names of rows up to date after mentions of entities came, went or moved, and returns the rows with other names';

-- Numbers of rows that have names. The merge counts them (index/graph/merge.py).
CREATE TABLE graphrag._named_rows (
    entity_id         bigint NOT NULL,
    corpus_id         int    NOT NULL,
    degree            int    NOT NULL,
    mention_count     int    NOT NULL,
    row_mention_count int    NOT NULL,
    CONSTRAINT _named_rows_pkey PRIMARY KEY (entity_id)
) WITH (fillfactor = 80);
CREATE INDEX _named_rows_corpus_idx ON graphrag._named_rows (corpus_id);
SELECT pg_catalog.pg_extension_config_dump('graphrag._named_rows', '');

COMMENT ON TABLE graphrag._named_rows IS 'Numbers of rows'' own entities and their names as one, as all documents of a corpus give them';
COMMENT ON COLUMN graphrag._named_rows.entity_id IS 'The row''s own entity';
COMMENT ON COLUMN graphrag._named_rows.corpus_id IS 'Its corpus';
COMMENT ON COLUMN graphrag._named_rows.degree IS 'Number of relationships with others';
COMMENT ON COLUMN graphrag._named_rows.mention_count IS 'Number of chunks that mention it by any name';
COMMENT ON COLUMN graphrag._named_rows.row_mention_count IS 'Of these, chunks of rows of attached tables';

-- Makes these numbers anew, of rows whose own entities are given.
CREATE OR REPLACE FUNCTION graphrag._recount_named_rows(entities bigint[]) RETURNS void
LANGUAGE sql VOLATILE SET enable_seqscan = off
BEGIN ATOMIC
    DELETE FROM graphrag._named_rows AS x
     WHERE x.entity_id = ANY (entities) AND NOT EXISTS (SELECT FROM graphrag._row_names AS r WHERE r.entity_id = x.entity_id);
    INSERT INTO graphrag._named_rows (entity_id, corpus_id, degree, mention_count, row_mention_count)
    SELECT o.id, o.corpus_id, d.degree, m.mention_count, m.row_mention_count
      FROM (SELECT e.id, e.corpus_id, pg_catalog.array_agg(r.name_id) || e.id AS ids
              FROM graphrag._row_names AS r
              JOIN graphrag.entities AS e ON e.id = r.entity_id
             WHERE r.entity_id = ANY (entities)
             GROUP BY e.id) AS o
     CROSS JOIN LATERAL (
           SELECT pg_catalog.sum(e.degree)
                  - 2 * (SELECT pg_catalog.count(*) FROM graphrag.relationships AS r WHERE r.low_id = ANY (o.ids) AND r.high_id = ANY (o.ids)) AS degree
             FROM graphrag.entities AS e WHERE e.id = ANY (o.ids)) AS d
     CROSS JOIN LATERAL (
           SELECT pg_catalog.count(DISTINCT x.chunk_id) AS mention_count,
                  pg_catalog.count(DISTINCT x.chunk_id) FILTER (WHERE c.is_row) AS row_mention_count
             FROM graphrag.entity_mentions AS x
             JOIN graphrag.chunks AS c ON c.id = x.chunk_id
            WHERE x.entity_id = ANY (o.ids)) AS m
        ON CONFLICT (entity_id) DO UPDATE
       SET degree = excluded.degree, mention_count = excluded.mention_count, row_mention_count = excluded.row_mention_count;
END;
COMMENT ON FUNCTION graphrag._recount_named_rows(bigint[]) IS 'Makes the numbers of rows with names anew, whose own entities are given';

-- Claims: what a model says that someone did, announced or is accused of (GraphRAG's covariates). They belong to their chunk and go with it.


-- How many documents, chunks, entities and relationships a corpus has: kept for progress, and for the PMI of graph_edges, because counting
-- 100,000 documents takes half a second.
-- Every statement adds what it changed as rows of their own, so that writers wait for nobody and each snapshot has true sums; who
-- writes the index, under the corpus' lock, folds the rows. So they tell sessions of every change of attached rows too, also of one that
-- changes no number (search/query/session_values.py). Not dumped: a restore makes the counts with the rows. An update counts.
CREATE TABLE graphrag._document_counts AS
SELECT d.corpus_id, d.status, coalesce(d.indexed_hash = d.content_hash, false) AS is_searchable, pg_catalog.count(*) AS count
  FROM graphrag.documents AS d GROUP BY 1, 2, 3;
CREATE INDEX _document_counts_idx ON graphrag._document_counts (corpus_id);
CREATE TABLE graphrag._index_counts AS
SELECT c.corpus_id, 'chunks' AS relation, pg_catalog.count(*) AS count FROM graphrag.chunks AS c GROUP BY c.corpus_id
 UNION ALL
SELECT e.corpus_id, 'entities', pg_catalog.count(*) FROM graphrag.entities AS e GROUP BY e.corpus_id
 UNION ALL
SELECT r.corpus_id, 'relationships', pg_catalog.count(*) FROM graphrag.relationships AS r GROUP BY r.corpus_id;
CREATE INDEX _index_counts_idx ON graphrag._index_counts (corpus_id);

-- SECURITY DEFINER: the counts are not the application's to write.
CREATE OR REPLACE FUNCTION graphrag._count_documents() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO graphrag._document_counts (corpus_id, status, is_searchable, count)
        SELECT a.corpus_id, a.status, coalesce(a.indexed_hash = a.content_hash, false), count(*) FROM added a GROUP BY 1, 2, 3;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO graphrag._document_counts (corpus_id, status, is_searchable, count)
        SELECT x.corpus_id, x.status, x.is_searchable, sum(x.change)
          FROM (SELECT a.corpus_id, a.status, coalesce(a.indexed_hash = a.content_hash, false) AS is_searchable, 1 AS change, a.attached_id FROM added a
                 UNION ALL
                SELECT r.corpus_id, r.status, coalesce(r.indexed_hash = r.content_hash, false), -1, r.attached_id FROM removed r) x
         GROUP BY x.corpus_id, x.status, x.is_searchable
        -- Sessions see by it that rows have changed. Other documents have changes that no worker ever folds.
        HAVING sum(x.change) <> 0 OR count(x.attached_id) > 0;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO graphrag._document_counts (corpus_id, status, is_searchable, count)
        SELECT r.corpus_id, r.status, coalesce(r.indexed_hash = r.content_hash, false), - count(*) FROM removed r GROUP BY 1, 2, 3;
    ELSE
        -- Like the documents: also what an old snapshot does not see.
        TRUNCATE graphrag._document_counts;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._count_documents() IS 'Trigger of documents: keeps their number for progress';
CREATE OR REPLACE TRIGGER documents_added AFTER INSERT ON graphrag.documents REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._count_documents();
CREATE OR REPLACE TRIGGER documents_altered AFTER UPDATE ON graphrag.documents REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._count_documents();
CREATE OR REPLACE TRIGGER documents_removed AFTER DELETE ON graphrag.documents REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._count_documents();
CREATE OR REPLACE TRIGGER documents_emptied AFTER TRUNCATE ON graphrag.documents
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._count_documents();
-- Replication fires it, too.
ALTER TABLE graphrag.documents ENABLE ALWAYS TRIGGER documents_emptied;

CREATE OR REPLACE FUNCTION graphrag._count_index() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO graphrag._index_counts (corpus_id, relation, count)
    SELECT c.corpus_id, TG_TABLE_NAME, CASE TG_OP WHEN 'INSERT' THEN count(*) ELSE - count(*) END FROM changed c GROUP BY c.corpus_id;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._count_index() IS 'Trigger of chunks, entities and relationships: keeps their number for progress';
CREATE OR REPLACE TRIGGER chunks_added AFTER INSERT ON graphrag.chunks REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._count_index();
CREATE OR REPLACE TRIGGER chunks_removed AFTER DELETE ON graphrag.chunks REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._count_index();
CREATE OR REPLACE TRIGGER entities_added AFTER INSERT ON graphrag.entities REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._count_index();
CREATE OR REPLACE TRIGGER entities_removed AFTER DELETE ON graphrag.entities REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._count_index();
CREATE OR REPLACE TRIGGER relationships_added AFTER INSERT ON graphrag.relationships REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._count_index();
CREATE OR REPLACE TRIGGER relationships_removed AFTER DELETE ON graphrag.relationships REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._count_index();

-- Replaces the rows of a corpus by their sums. The caller has the corpus' lock: two at once would do it twice.
CREATE OR REPLACE FUNCTION graphrag._fold_counts(corpus_id int) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH folded AS (DELETE FROM graphrag._document_counts x WHERE x.corpus_id = $1 RETURNING x.status, x.is_searchable, x.count)
    INSERT INTO graphrag._document_counts (corpus_id, status, is_searchable, count)
    SELECT $1, f.status, f.is_searchable, pg_catalog.sum(f.count) FROM folded f GROUP BY f.status, f.is_searchable
    HAVING pg_catalog.sum(f.count) <> 0;
    WITH folded AS (DELETE FROM graphrag._index_counts x WHERE x.corpus_id = $1 RETURNING x.relation, x.count)
    INSERT INTO graphrag._index_counts (corpus_id, relation, count)
    SELECT $1, f.relation, pg_catalog.sum(f.count) FROM folded f GROUP BY f.relation HAVING pg_catalog.sum(f.count) <> 0;
END;

-- Counts a corpus anew: rows came past the triggers. One statement for each table, so that it counts what it replaces; likewise locked.
CREATE OR REPLACE FUNCTION graphrag._recount(corpus_id int) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH gone AS (DELETE FROM graphrag._document_counts x WHERE x.corpus_id = $1)
    INSERT INTO graphrag._document_counts (corpus_id, status, is_searchable, count)
    SELECT $1, d.status, coalesce(d.indexed_hash = d.content_hash, false), pg_catalog.count(*) FROM graphrag.documents d WHERE d.corpus_id = $1 GROUP BY 2, 3;
    WITH gone AS (DELETE FROM graphrag._index_counts x WHERE x.corpus_id = $1)
    INSERT INTO graphrag._index_counts (corpus_id, relation, count)
    SELECT $1, 'chunks', pg_catalog.count(*) FROM graphrag.chunks c WHERE c.corpus_id = $1
     UNION ALL
    SELECT $1, 'entities', pg_catalog.count(*) FROM graphrag.entities e WHERE e.corpus_id = $1
     UNION ALL
    SELECT $1, 'relationships', pg_catalog.count(*) FROM graphrag.relationships r WHERE r.corpus_id = $1;
END;

-- How much a relationship says: its weight and its pointwise mutual information together. A pair that occurs together more rarely than by
-- chance has less than 0, whatever its weight. What people alone relate counts as one mention.
-- Rounded, so that equal ones are equal here and in numpy (search/graph_view/edge_strength.py).
CREATE OR REPLACE FUNCTION graphrag._strength(weight double precision, chunks_of_both int, chunks_of_source int, chunks_of_target int, chunks double precision)
RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN pg_catalog.round((weight * pg_catalog.ln(greatest(chunks_of_both, 1) * greatest(chunks, 1::double precision)
                                                / greatest(chunks_of_source, 1) / greatest(chunks_of_target, 1))
                         / pg_catalog.ln(2::double precision))::numeric, 6)::double precision;
COMMENT ON FUNCTION graphrag._strength(double precision, int, int, int, double precision) IS 'weight * log2(p(x,y) / (p(x) p(y))), p = share of the corpus'' chunks';

-- Communities: what hierarchical Leiden finds in the graph of a corpus. A parent holds all members of its children.


-- Statistics of a corpus that had one community would have each read them all, when there are many.
ALTER TABLE graphrag.community_members ALTER COLUMN community_id SET (n_distinct = -0.02);




-- A corpus has some thousand reports at most: they are scanned, exactly, and need neither partitions nor indexes of their own.


-- What the last refresh saw: the next one finds by it what has changed since.

COMMENT ON COLUMN graphrag.community_states.edges IS 'Packed: the ids of both entities of each clustered relationship (int64), then its share of the whole weight (float32)';
COMMENT ON COLUMN graphrag.community_states.community_count IS 'Number of communities that it left; null where 0.2.0 found them';

-- AGE's own schema decides what its functions and operators are, and its tables which tables are a graph's: whoever may create or write there, or has, would
-- run with our rights. An overload wins by its types, a trigger by our DELETE.
CREATE OR REPLACE FUNCTION graphrag._check_age() RETURNS void
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
CREATE OR REPLACE FUNCTION graphrag._unguarded_age_functions() RETURNS SETOF regprocedure
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
CREATE OR REPLACE FUNCTION graphrag._close_age() RETURNS void
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
CREATE OR REPLACE FUNCTION graphrag._is_trigger_of_age(trigger pg_trigger) RETURNS boolean
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
CREATE OR REPLACE FUNCTION graphrag._graph_flaw(graph_name name) RETURNS text
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
CREATE OR REPLACE FUNCTION graphrag._is_graph(schema_name name) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM ag_catalog.ag_graph AS g WHERE g.name = schema_name)
$$;

-- Whether the schema of that name is a graph that pg_graphrag made, in this installation or an earlier one, and so may be dropped. What was done to it since
-- does not matter. A restore may have given it to another superuser. A restore of schemas alone brings a graph's tables, and not what AGE knows of them: such
-- a schema is a graph where all in it are labels of one, by what they inherit from.
CREATE OR REPLACE FUNCTION graphrag._is_graph_of_ours(graph_name name) RETURNS boolean
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
CREATE OR REPLACE FUNCTION graphrag._create_graph(graph_name name) RETURNS void
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
CREATE OR REPLACE FUNCTION graphrag._create_label(graph_name name, label name) RETURNS void
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
CREATE OR REPLACE FUNCTION graphrag._indexed_labels(graph name) RETURNS name[]
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
CREATE OR REPLACE FUNCTION graphrag._index_labels(graph name) RETURNS void
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
CREATE OR REPLACE FUNCTION graphrag._ensure_graph(corpus_id int) RETURNS boolean
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
CREATE OR REPLACE FUNCTION graphrag._drop_graph(corpus_id int) RETURNS void
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

-- Have the statements that follow find rows of a label by its index, or, where it has none yet, hash the small table. A plan goes with the index it was
-- made for. For callers whose own SET ends this.
CREATE OR REPLACE FUNCTION graphrag._plan_for(is_indexed boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM set_config('enable_hashjoin', CASE WHEN is_indexed THEN 'off' ELSE 'on' END, true),
            set_config('enable_nestloop', CASE WHEN is_indexed THEN 'on' ELSE 'off' END, true);
END
$function$;

-- Make the AGE projection equal to the tables for these ids of one corpus, whatever happened to them (inserted, changed, gone). The write step calls it in
-- its own transaction, under the corpus' lock. A document stands for its chunks and their mentions, and a chunk of given_chunk_ids for its own;
-- rows that did not change are not touched.
-- SECURITY DEFINER: the graph is the owner's (100_ensure_graph.sql), and must be whole whoever runs the worker.
CREATE OR REPLACE FUNCTION graphrag._project(corpus_id int, document_ids bigint[], entity_ids bigint[], relationship_ids bigint[], given_chunk_ids bigint[] DEFAULT '{}') RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- Plans outlive their tables' sizes (empty at first): always by index, from the ids given. LATERAL and OFFSET 0 have our tables read so even where
-- a label table, which has no index yet, is hashed (_plan_for).
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_nestloop = on
SET enable_mergejoin = off
SET jit = off
-- AGE 1.8 counts the changes of 128 graphs, and warns at each change of another; its caches go by snapshots then.
SET client_min_messages = error
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
    indexed      name[];
    chunk_ids    bigint[];
BEGIN
    IF NOT graphrag._ensure_graph(corpus_id) THEN
        RETURN;
    END IF;
    -- Static statements, planned once a session, serve every graph: the label tables, and nothing else, are named without a schema. Safe, because
    -- pg_catalog has no such tables, _ensure_graph has just seen that the owner's graph has them all and that nobody else can create there, and every
    -- function and operator is of an exact type in pg_catalog or named with its schema.
    PERFORM pg_catalog.set_config('search_path', pg_catalog.format('pg_catalog, graphrag_%s, pg_temp', corpus_id), true);
    indexed := graphrag._indexed_labels(pg_catalog.format('graphrag_%s', corpus_id)::name);

    PERFORM graphrag._plan_for('Entity' = ANY (indexed));
    MERGE INTO "Entity" AS v
    USING (SELECT ag_catalog._graphid(entity, i.id) AS id, e.id AS entity_id,
                  -- A map that is null adds nothing.
                  ag_catalog.agtype_build_map_nonull('entity_id', e.id, 'key', e.key, 'name', e.name, 'type', e.type,
                                                     'description', e.description, 'degree', e.degree, 'attributes', a.attributes) AS properties
             FROM (SELECT DISTINCT pg_catalog.unnest(entity_ids) AS id) AS i
             LEFT JOIN LATERAL (SELECT e.* FROM graphrag.entities AS e WHERE e.id = i.id OFFSET 0) AS e ON true
             -- Most have none, which an index says at once.
             LEFT JOIN LATERAL (SELECT CASE WHEN (SELECT true FROM graphrag.entity_mentions AS m
                                                   WHERE m.entity_id = i.id AND m.attributes IS NOT NULL LIMIT 1)
                                            THEN graphrag._graph_attributes(graphrag._merged_attributes(i.id))::text::ag_catalog.agtype END AS attributes OFFSET 0) AS a ON true) AS s
       ON v.id OPERATOR(ag_catalog.=) s.id
     WHEN MATCHED AND s.entity_id IS NULL THEN DELETE
     WHEN MATCHED AND pg_catalog.record_image_ne(ROW (v.properties), ROW (s.properties)) THEN UPDATE SET properties = s.properties
     WHEN NOT MATCHED AND s.entity_id IS NOT NULL THEN INSERT (id, properties) VALUES (s.id, s.properties);

    -- Who is in which community is projected by refresh_communities(); who is gone is in none.
    PERFORM graphrag._plan_for('IN_COMMUNITY' = ANY (indexed));
    DELETE FROM "IN_COMMUNITY" AS v
     USING (SELECT DISTINCT pg_catalog.unnest(entity_ids) AS id) AS i
     WHERE v.start_id OPERATOR(ag_catalog.=) ag_catalog._graphid(entity, i.id)
       AND NOT EXISTS (SELECT FROM graphrag.entities AS e WHERE e.id = i.id OFFSET 0);

    -- Both directions, so that a directed pattern sees every neighbour: 2 id from low to high, 2 id + 1 back.
    PERFORM graphrag._plan_for('RELATED' = ANY (indexed));
    MERGE INTO "RELATED" AS v
    USING (SELECT ag_catalog._graphid(related, 2 * i.id + d.back) AS id, r.id AS relationship_id,
                  ag_catalog._graphid(entity, CASE d.back WHEN 0 THEN r.low_id ELSE r.high_id END) AS start_id,
                  ag_catalog._graphid(entity, CASE d.back WHEN 0 THEN r.high_id ELSE r.low_id END) AS end_id,
                  ag_catalog.agtype_build_map('relationship_id', r.id, 'weight', r.weight, 'keywords', r.keywords,
                                              'description', r.description) AS properties
             FROM (SELECT DISTINCT pg_catalog.unnest(relationship_ids) AS id) AS i
             LEFT JOIN LATERAL (SELECT r.* FROM graphrag.relationships AS r WHERE r.id = i.id OFFSET 0) AS r ON true
            CROSS JOIN (VALUES (0), (1)) AS d (back)) AS s
       ON v.id OPERATOR(ag_catalog.=) s.id
     WHEN MATCHED AND s.relationship_id IS NULL THEN DELETE
     WHEN MATCHED AND pg_catalog.record_image_ne(ROW (v.start_id, v.end_id, v.properties), ROW (s.start_id, s.end_id, s.properties))
          THEN UPDATE SET start_id = s.start_id, end_id = s.end_id, properties = s.properties
     WHEN NOT MATCHED AND s.relationship_id IS NOT NULL
          THEN INSERT (id, start_id, end_id, properties) VALUES (s.id, s.start_id, s.end_id, s.properties);

    PERFORM graphrag._plan_for('Document' = ANY (indexed));
    MERGE INTO "Document" AS v
    USING (SELECT ag_catalog._graphid(document, i.id) AS id, d.id AS document_id,
                  ag_catalog.agtype_build_map_nonull('document_id', d.id, 'source_key', d.source_key, 'title', d.title) AS properties
             FROM (SELECT DISTINCT pg_catalog.unnest(document_ids) AS id) AS i
             LEFT JOIN LATERAL (SELECT d.id, d.source_key, d.title FROM graphrag.documents AS d
                                 WHERE d.id = i.id AND d.retracted_at IS NULL OFFSET 0) AS d ON true) AS s
       ON v.id OPERATOR(ag_catalog.=) s.id
     WHEN MATCHED AND s.document_id IS NULL THEN DELETE
     WHEN MATCHED AND pg_catalog.record_image_ne(ROW (v.properties), ROW (s.properties)) THEN UPDATE SET properties = s.properties
     WHEN NOT MATCHED AND s.document_id IS NOT NULL THEN INSERT (id, properties) VALUES (s.id, s.properties);

    -- Chunks of these documents as they are, and as they were projected: a PART_OF edge has the entry id of its chunk.
    PERFORM graphrag._plan_for('PART_OF' = ANY (indexed));
    SELECT pg_catalog.array_agg(c.id) INTO chunk_ids
      FROM (SELECT c.id
              FROM graphrag.chunks AS c
             WHERE c.document_id = ANY (document_ids)
             UNION
            SELECT pg_catalog.unnest(given_chunk_ids)
             UNION
            SELECT p.id::ag_catalog.agtype::bigint & 281474976710655
              FROM pg_catalog.unnest(document_ids) AS i (id)
              JOIN "PART_OF" AS p ON p.end_id OPERATOR(ag_catalog.=) ag_catalog._graphid(document, i.id)) AS c;

    PERFORM graphrag._plan_for('Chunk' = ANY (indexed));
    MERGE INTO "Chunk" AS v
    USING (SELECT ag_catalog._graphid(chunk, i.id) AS id, c.id AS chunk_id,
                  ag_catalog.agtype_build_map('chunk_id', c.id, 'document_id', c.document_id, 'ordinal', c.ordinal) AS properties
             FROM pg_catalog.unnest(chunk_ids) AS i (id)
             LEFT JOIN LATERAL (SELECT c.id, c.document_id, c.ordinal FROM graphrag.chunks AS c WHERE c.id = i.id OFFSET 0) AS c ON true) AS s
       ON v.id OPERATOR(ag_catalog.=) s.id
     WHEN MATCHED AND s.chunk_id IS NULL THEN DELETE
     WHEN MATCHED AND pg_catalog.record_image_ne(ROW (v.properties), ROW (s.properties)) THEN UPDATE SET properties = s.properties
     WHEN NOT MATCHED AND s.chunk_id IS NOT NULL THEN INSERT (id, properties) VALUES (s.id, s.properties);

    PERFORM graphrag._plan_for('PART_OF' = ANY (indexed));
    MERGE INTO "PART_OF" AS v
    USING (SELECT ag_catalog._graphid(part_of, i.id) AS id, c.id AS chunk_id,
                  ag_catalog._graphid(chunk, c.id) AS start_id, ag_catalog._graphid(document, c.document_id) AS end_id
             FROM pg_catalog.unnest(chunk_ids) AS i (id)
             LEFT JOIN LATERAL (SELECT c.id, c.document_id, c.ordinal FROM graphrag.chunks AS c WHERE c.id = i.id OFFSET 0) AS c ON true) AS s
       ON v.id OPERATOR(ag_catalog.=) s.id
     WHEN MATCHED AND s.chunk_id IS NULL THEN DELETE
     WHEN MATCHED AND v.end_id OPERATOR(ag_catalog.<>) s.end_id THEN UPDATE SET end_id = s.end_id
     WHEN NOT MATCHED AND s.chunk_id IS NOT NULL THEN INSERT (id, start_id, end_id) VALUES (s.id, s.start_id, s.end_id);

    PERFORM graphrag._plan_for('MENTIONED_IN' = ANY (indexed));
    DELETE FROM "MENTIONED_IN" AS v
     USING pg_catalog.unnest(chunk_ids) AS i (id)
     WHERE v.end_id OPERATOR(ag_catalog.=) ag_catalog._graphid(chunk, i.id)
       AND NOT EXISTS (SELECT FROM graphrag.entity_mentions AS m
                        WHERE m.id = v.id::ag_catalog.agtype::bigint & 281474976710655 AND m.chunk_id = i.id
                          AND m.entity_id IS NOT NULL OFFSET 0);

    MERGE INTO "MENTIONED_IN" AS v
    USING (SELECT ag_catalog._graphid(mentioned_in, m.id) AS id,
                  ag_catalog._graphid(entity, m.entity_id) AS start_id, ag_catalog._graphid(chunk, m.chunk_id) AS end_id,
                  ag_catalog.agtype_build_map('mention_id', m.id, 'tf', m.tf) AS properties
             FROM pg_catalog.unnest(chunk_ids) AS i (id)
            CROSS JOIN LATERAL (SELECT m.id, m.entity_id, m.chunk_id, m.tf FROM graphrag.entity_mentions AS m
                                 WHERE m.chunk_id = i.id AND m.entity_id IS NOT NULL OFFSET 0) AS m
           -- Without statistics the label table would be hashed once for each chunk.
           OFFSET 0) AS s
       ON v.id OPERATOR(ag_catalog.=) s.id
     WHEN MATCHED AND pg_catalog.record_image_ne(ROW (v.start_id, v.end_id, v.properties), ROW (s.start_id, s.end_id, s.properties))
          THEN UPDATE SET start_id = s.start_id, end_id = s.end_id, properties = s.properties
     WHEN NOT MATCHED THEN INSERT (id, start_id, end_id, properties) VALUES (s.id, s.start_id, s.end_id, s.properties);
END
$function$;

-- The same for mentions that were there before and belong to another entity now, or to none. SECURITY DEFINER: likewise.
CREATE OR REPLACE FUNCTION graphrag._project_mentions(corpus_id int, mention_ids bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_nestloop = on
SET enable_mergejoin = off
SET jit = off
SET client_min_messages = error
AS $function$
#variable_conflict use_column
DECLARE
    -- As in _project.
    entity       CONSTANT int := 3;
    chunk        CONSTANT int := 4;
    mentioned_in CONSTANT int := 7;
    indexed      name[];
BEGIN
    IF NOT graphrag._ensure_graph(corpus_id) THEN
        RETURN;
    END IF;
    PERFORM pg_catalog.set_config('search_path', pg_catalog.format('pg_catalog, graphrag_%s, pg_temp', corpus_id), true);
    indexed := graphrag._indexed_labels(pg_catalog.format('graphrag_%s', corpus_id)::name);
    PERFORM graphrag._plan_for('MENTIONED_IN' = ANY (indexed));
    MERGE INTO "MENTIONED_IN" AS v
    USING (SELECT ag_catalog._graphid(mentioned_in, i.id) AS id, m.id AS mention_id,
                  ag_catalog._graphid(entity, m.entity_id) AS start_id, ag_catalog._graphid(chunk, m.chunk_id) AS end_id,
                  ag_catalog.agtype_build_map('mention_id', m.id, 'tf', m.tf) AS properties
             FROM (SELECT DISTINCT pg_catalog.unnest(mention_ids) AS id) AS i
             LEFT JOIN LATERAL (SELECT m.id, m.entity_id, m.chunk_id, m.tf FROM graphrag.entity_mentions AS m
                                 WHERE m.id = i.id AND m.entity_id IS NOT NULL OFFSET 0) AS m ON true) AS s
       ON v.id OPERATOR(ag_catalog.=) s.id
     WHEN MATCHED AND s.mention_id IS NULL THEN DELETE
     WHEN MATCHED AND v.start_id OPERATOR(ag_catalog.<>) s.start_id THEN UPDATE SET start_id = s.start_id
     WHEN NOT MATCHED AND s.mention_id IS NOT NULL THEN INSERT (id, start_id, end_id, properties) VALUES (s.id, s.start_id, s.end_id, s.properties);
END
$function$;

-- Normalise a name as the merge does: the key under which an entity is found.
CREATE OR REPLACE FUNCTION graphrag._key(name text) RETURNS text
LANGUAGE plpython3u IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "index.graph.keys:key", name)
$$;

-- Cypher that only reads, on the AGE projection, for its owner. AGE finds its operators through the search_path; _check_age() has seen that its schema is a
-- superuser's alone, and functions and operators are never looked for in pg_temp.
CREATE OR REPLACE FUNCTION graphrag.cypher(corpus text, query text, params jsonb DEFAULT '{}') RETURNS SETOF jsonb
LANGUAGE plpython3u STABLE COST 300000 ROWS 100
SET search_path = pg_catalog, ag_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "index.graph.cypher:cypher", corpus, query, params)
$$;
COMMENT ON FUNCTION graphrag.cypher(text, text, jsonb) IS 'Runs a Cypher query that only reads on the graph of a corpus; one object per row, keyed by RETURN''s aliases; $name stands for a value in params. For the owner of the extension: others use neighbors() and the views. 25006 for a clause that writes, 42501 for others, 42704 for an unknown corpus, 55000 for a graph that is not the corpus''s: rebuild_graph(), or repair() after a restore; and where the option cypher is false; Apache AGE''s own errors otherwise.';

-- What people changed of the graph, append-only: the graph is a function of the documents and of the curations not undone.


-- Derived from the curations in force, for the merge: which entity a key leads to. Keys that lead to themselves have no row.


-- Derived likewise: what is said of one entity or pair. Mentions and these together make the merged values.


-- What edits in force say of an entity, or of the relationship of two: of several the last one, each value by itself. Null: nothing.
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

-- The rules of the merge, each once: what mentions, and people, make of entities and relationships. index/curation/recompute.py renews merged
-- rows by them, and who sees a part of the documents gets what they make of it (search/graph_view/visible_texts.py, visible_topology.py).
-- Inserts and deletes count what they change instead (index/graph/merged.py); tests hold the outcome equal.
-- mention_ids: mentions of these items that are merged; null: all. What people say belongs to no document and holds in either case.
-- A statement each, without SET: the planner looks through them.

-- How often mentions and people give each name (n), type (t) and description (d) of entities. relationship_ids: people's fragments
-- of these name their ends; null: of all.
CREATE OR REPLACE FUNCTION graphrag._given_entity_values(entity_ids bigint[], mention_ids bigint[], relationship_ids bigint[])
RETURNS TABLE (entity_id bigint, kind "char", value text, count bigint)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
    SELECT g.entity_id, g.kind::"char", g.value COLLATE "C", pg_catalog.count(*)
      FROM (SELECT m.entity_id, v.kind, v.value
              FROM (SELECT o.entity_id, o.name, o.type, o.description
                      FROM graphrag.entity_mentions AS o
                     WHERE o.id = ANY (mention_ids) AND o.entity_id IS NOT NULL
                     UNION ALL
                    SELECT o.entity_id, o.name, o.type, o.description
                      FROM graphrag.entity_mentions AS o
                     WHERE mention_ids IS NULL AND o.entity_id = ANY (entity_ids)) AS m
             CROSS JOIN LATERAL (VALUES ('n', m.name), ('t', m.type), ('d', m.description)) AS v (kind, value)
             UNION ALL
            SELECT f.entity_id, v.kind, v.value
              FROM (SELECT e.id AS entity_id, e.corpus_id, c.value, c.other_entity_key AS other_key, c.forward AS is_source
                      FROM graphrag.entities AS e
                      JOIN graphrag.curated AS c ON c.corpus_id = e.corpus_id AND c.entity_key = e.key AND c.effect = 'fragment'
                     WHERE e.id = ANY (entity_ids)
                     UNION ALL
                    SELECT e.id, e.corpus_id, c.value, c.entity_key, NOT c.forward
                      FROM graphrag.entities AS e
                      JOIN graphrag.curated AS c ON c.corpus_id = e.corpus_id AND c.other_entity_key = e.key AND c.effect = 'fragment'
                     WHERE e.id = ANY (entity_ids)) AS f
             CROSS JOIN LATERAL (
                   SELECT s.kind, s.value
                     FROM (VALUES ('n', f.value ->> 'name'), ('t', f.value ->> 'type'), ('d', f.value ->> 'description')) AS s (kind, value)
                    WHERE f.other_key IS NULL
                    UNION ALL
                   SELECT s.kind, s.value
                     FROM (VALUES ('n', f.value ->> CASE WHEN f.is_source THEN 'source' ELSE 'target' END), ('t', 'UNKNOWN')) AS s (kind, value)
                    WHERE f.other_key IS NOT NULL) AS v
             WHERE f.other_key IS NULL
                OR relationship_ids IS NULL
                OR EXISTS (SELECT FROM graphrag.entities AS o
                             JOIN graphrag.relationships AS r ON r.low_id = least(f.entity_id, o.id) AND r.high_id = greatest(f.entity_id, o.id)
                            WHERE o.corpus_id = f.corpus_id AND o.key = f.other_key AND r.id = ANY (relationship_ids))) AS g
     WHERE g.value IS NOT NULL AND (g.kind <> 'd' OR g.value <> '')
     GROUP BY g.entity_id, g.kind, g.value COLLATE "C";
END;
COMMENT ON FUNCTION graphrag._given_entity_values(bigint[], bigint[], bigint[]) IS 'How often mentions and people give each name, type and description';

-- Which types go first, whatever their frequency: what a table or a model calls a thing, what the reader of names does, how it is written.
CREATE OR REPLACE FUNCTION graphrag._type_rank(type text) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN type = 'UNKNOWN' THEN 3 WHEN type IN ('NAME', 'CONCEPT') THEN 2
            WHEN type IN ('PERSON', 'ORGANIZATION', 'LOCATION', 'PRODUCT', 'WORK', 'EVENT', 'LAW') THEN 1 ELSE 0 END;
COMMENT ON FUNCTION graphrag._type_rank(text) IS 'Types of a lower rank go first in a merge, whatever their frequency';

-- Names and types by frequency; descriptions as their distinct fragments by frequency, the first and what max_tokens hold, null where
-- there are none; the best sentence, as its chunk has it (index/graph/merged.py shows it). Edits win. No summaries: a model
-- wrote them of all documents. Of all mentions it takes what entity_values counts. fragments, tokens: of all descriptions; tokens as
-- they were counted when they were stored.
CREATE OR REPLACE FUNCTION graphrag._merged_entities(entity_ids bigint[], mention_ids bigint[], relationship_ids bigint[], max_tokens bigint)
RETURNS TABLE (entity_id bigint, name text, type text, description text, fragments bigint, tokens bigint, mention_count bigint,
               evidence_rank bigint, sentence text)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
    WITH given AS MATERIALIZED (
        SELECT g.entity_id, g.kind, g.value COLLATE "C" AS value, g.count
          FROM graphrag._given_entity_values(entity_ids, mention_ids, relationship_ids) AS g
         WHERE mention_ids IS NOT NULL
         UNION ALL
        SELECT v.entity_id, v.kind, v.value, v.count
          FROM graphrag.entity_values AS v
         WHERE mention_ids IS NULL AND v.entity_id = ANY (entity_ids)
    ), names AS (
        SELECT DISTINCT ON (g.entity_id) g.entity_id, g.value
          FROM given AS g WHERE g.kind = 'n' ORDER BY g.entity_id, g.count DESC, g.value
    ), types AS (
        SELECT DISTINCT ON (g.entity_id) g.entity_id, g.value
          FROM given AS g WHERE g.kind = 't' ORDER BY g.entity_id, graphrag._type_rank(g.value), g.count DESC, g.value
    ), fragments AS (
        SELECT g.entity_id, g.value,
               pg_catalog.row_number() OVER ordered AS place,
               pg_catalog.sum(coalesce(v.tokens, 0)) OVER (ordered ROWS UNBOUNDED PRECEDING) AS tokens
          FROM given AS g
          LEFT JOIN graphrag.entity_values AS v
            ON v.entity_id = g.entity_id AND v.kind = 'd' AND pg_catalog.md5(v.value) = pg_catalog.md5(g.value)
         WHERE g.kind = 'd'
        WINDOW ordered AS (PARTITION BY g.entity_id ORDER BY g.count DESC, g.value)
    ), descriptions AS (
        SELECT f.entity_id, pg_catalog.count(*) AS fragments, pg_catalog.max(f.tokens) AS tokens,
               pg_catalog.string_agg(f.value, E'\n' ORDER BY f.place) FILTER (WHERE f.place = 1 OR f.tokens <= max_tokens) AS text
          FROM fragments AS f
         GROUP BY f.entity_id
    ), counts AS (
        -- Aliases may mention an entity several times in a chunk, which counts as one.
        SELECT m.entity_id, pg_catalog.count(DISTINCT m.chunk_id) AS chunks
          FROM (SELECT o.entity_id, o.chunk_id FROM graphrag.entity_mentions AS o WHERE o.id = ANY (mention_ids)
                 UNION ALL
                SELECT o.entity_id, o.chunk_id FROM graphrag.entity_mentions AS o
                 WHERE mention_ids IS NULL AND o.entity_id = ANY (entity_ids)) AS m
         GROUP BY m.entity_id
    ), best AS (
        SELECT DISTINCT ON (m.entity_id) m.entity_id, m.evidence_rank, m.chunk_id, m.start_offset, m.end_offset
          FROM graphrag.entity_mentions AS m
         WHERE m.id = ANY (mention_ids) AND m.evidence_rank IS NOT NULL
         ORDER BY m.entity_id, m.evidence_rank
    ), sentences AS (
        SELECT b.entity_id, b.evidence_rank,
               pg_catalog.substr(k.content, b.start_offset - k.start_offset + 1, b.end_offset - b.start_offset) AS text
          FROM (SELECT * FROM best
                 UNION ALL
                -- Of all mentions, the index has the best first.
                SELECT i.id, o.*
                  FROM pg_catalog.unnest(entity_ids) AS i (id)
                 CROSS JOIN LATERAL (
                       SELECT m.evidence_rank, m.chunk_id, m.start_offset, m.end_offset
                         FROM graphrag.entity_mentions AS m
                        WHERE m.entity_id = i.id AND m.evidence_rank IS NOT NULL
                        ORDER BY m.evidence_rank
                        LIMIT 1) AS o
                 WHERE mention_ids IS NULL) AS b
          JOIN graphrag.chunks AS k ON k.id = b.chunk_id
    )
    SELECT e.id, coalesce(p.value ->> 'name', n.value)::text COLLATE "default", coalesce(p.value ->> 'type', t.value)::text COLLATE "default",
           coalesce(p.value ->> 'description', d.text)::text COLLATE "default", coalesce(d.fragments, 0), coalesce(d.tokens, 0)::bigint,
           coalesce(c.chunks, 0), s.evidence_rank, s.text
      FROM graphrag.entities AS e
     CROSS JOIN LATERAL (
           SELECT CASE WHEN EXISTS (SELECT FROM graphrag.curated AS x
                                     WHERE x.corpus_id = e.corpus_id AND x.entity_key = e.key AND x.effect = 'edit')
                       THEN graphrag._edits(e.corpus_id, e.key) END AS value) AS p
      LEFT JOIN names AS n ON n.entity_id = e.id
      LEFT JOIN types AS t ON t.entity_id = e.id
      LEFT JOIN descriptions AS d ON d.entity_id = e.id
      LEFT JOIN counts AS c ON c.entity_id = e.id
      LEFT JOIN sentences AS s ON s.entity_id = e.id
     WHERE e.id = ANY (entity_ids);
END;
COMMENT ON FUNCTION graphrag._merged_entities(bigint[], bigint[], bigint[], bigint) IS 'Entities as mentions, and people, state them';

-- How often mentions and people give each keyword (k) and description (d) of relationships.
CREATE OR REPLACE FUNCTION graphrag._given_relationship_values(relationship_ids bigint[], mention_ids bigint[])
RETURNS TABLE (relationship_id bigint, kind "char", value text, count bigint)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
    SELECT g.relationship_id, g.kind::"char", g.value COLLATE "C", pg_catalog.count(*)
      FROM (SELECT m.relationship_id, v.kind, v.value
              FROM (SELECT o.relationship_id, o.description, o.keywords
                      FROM graphrag.relationship_mentions AS o
                     WHERE o.id = ANY (mention_ids) AND o.relationship_id IS NOT NULL
                     UNION ALL
                    SELECT o.relationship_id, o.description, o.keywords
                      FROM graphrag.relationship_mentions AS o
                     WHERE mention_ids IS NULL AND o.relationship_id = ANY (relationship_ids)) AS m
             CROSS JOIN LATERAL (
                   SELECT 'd' AS kind, m.description AS value
                    UNION ALL
                   SELECT 'k', w.keyword FROM pg_catalog.unnest(m.keywords) AS w (keyword)) AS v
             UNION ALL
            SELECT r.id, v.kind, v.value
              FROM graphrag.relationships AS r
              JOIN graphrag.entities AS l ON l.id = r.low_id
              JOIN graphrag.entities AS h ON h.id = r.high_id
              JOIN graphrag.curated AS c ON c.corpus_id = r.corpus_id AND c.entity_key = least(l.key, h.key)
                                        AND c.other_entity_key = greatest(l.key, h.key) AND c.effect = 'fragment'
             CROSS JOIN LATERAL (
                   SELECT 'd' AS kind, c.value ->> 'description' AS value
                    UNION ALL
                   SELECT 'k', w.keyword FROM pg_catalog.jsonb_array_elements_text(c.value -> 'keywords') AS w (keyword)) AS v
             WHERE r.id = ANY (relationship_ids)) AS g
     WHERE g.value IS NOT NULL AND (g.kind <> 'd' OR g.value <> '')
     GROUP BY g.relationship_id, g.kind, g.value COLLATE "C";
END;
COMMENT ON FUNCTION graphrag._given_relationship_values(bigint[], bigint[]) IS 'How often mentions and people give each keyword and description';

-- Keywords as their sorted union; descriptions and sentences as of entities.
CREATE OR REPLACE FUNCTION graphrag._merged_relationships(relationship_ids bigint[], mention_ids bigint[], max_tokens bigint)
RETURNS TABLE (relationship_id bigint, keywords text[], description text, fragments bigint, tokens bigint, sentence text)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
    WITH given AS MATERIALIZED (
        SELECT g.relationship_id, g.kind, g.value COLLATE "C" AS value, g.count
          FROM graphrag._given_relationship_values(relationship_ids, mention_ids) AS g
         WHERE mention_ids IS NOT NULL
         UNION ALL
        SELECT v.relationship_id, v.kind, v.value, v.count
          FROM graphrag.relationship_values AS v
         WHERE mention_ids IS NULL AND v.relationship_id = ANY (relationship_ids)
    ), words AS (
        SELECT g.relationship_id, pg_catalog.array_agg(g.value ORDER BY g.value) AS keywords
          FROM given AS g WHERE g.kind = 'k' GROUP BY g.relationship_id
    ), fragments AS (
        SELECT g.relationship_id, g.value,
               pg_catalog.row_number() OVER ordered AS place,
               pg_catalog.sum(coalesce(v.tokens, 0)) OVER (ordered ROWS UNBOUNDED PRECEDING) AS tokens
          FROM given AS g
          LEFT JOIN graphrag.relationship_values AS v
            ON v.relationship_id = g.relationship_id AND v.kind = 'd' AND pg_catalog.md5(v.value) = pg_catalog.md5(g.value)
         WHERE g.kind = 'd'
        WINDOW ordered AS (PARTITION BY g.relationship_id ORDER BY g.count DESC, g.value)
    ), descriptions AS (
        SELECT f.relationship_id, pg_catalog.count(*) AS fragments, pg_catalog.max(f.tokens) AS tokens,
               pg_catalog.string_agg(f.value, E'\n' ORDER BY f.place) FILTER (WHERE f.place = 1 OR f.tokens <= max_tokens) AS text
          FROM fragments AS f
         GROUP BY f.relationship_id
    ), best AS (
        SELECT DISTINCT ON (m.relationship_id) m.relationship_id, m.chunk_id, m.start_offset, m.end_offset
          FROM graphrag.relationship_mentions AS m
         WHERE m.id = ANY (mention_ids) AND m.evidence_rank IS NOT NULL
         ORDER BY m.relationship_id, m.evidence_rank
    ), sentences AS (
        SELECT b.relationship_id,
               pg_catalog.substr(k.content, b.start_offset - k.start_offset + 1, b.end_offset - b.start_offset) AS text
          FROM (SELECT * FROM best
                 UNION ALL
                SELECT i.id, o.*
                  FROM pg_catalog.unnest(relationship_ids) AS i (id)
                 CROSS JOIN LATERAL (
                       SELECT m.chunk_id, m.start_offset, m.end_offset
                         FROM graphrag.relationship_mentions AS m
                        WHERE m.relationship_id = i.id AND m.evidence_rank IS NOT NULL
                        ORDER BY m.evidence_rank
                        LIMIT 1) AS o
                 WHERE mention_ids IS NULL) AS b
          JOIN graphrag.chunks AS k ON k.id = b.chunk_id
    )
    SELECT r.id,
           CASE WHEN p.value ->> 'keywords' IS NULL THEN coalesce(w.keywords, '{}')
                ELSE ARRAY(SELECT pg_catalog.jsonb_array_elements_text(p.value -> 'keywords')) END COLLATE "default",
           coalesce(p.value ->> 'description', d.text)::text COLLATE "default", coalesce(d.fragments, 0), coalesce(d.tokens, 0)::bigint, s.text
      FROM graphrag.relationships AS r
      JOIN graphrag.entities AS l ON l.id = r.low_id
      JOIN graphrag.entities AS h ON h.id = r.high_id
     CROSS JOIN LATERAL (
           SELECT CASE WHEN EXISTS (SELECT FROM graphrag.curated AS x
                                     WHERE x.corpus_id = r.corpus_id AND x.entity_key = least(l.key, h.key)
                                       AND x.other_entity_key = greatest(l.key, h.key) AND x.effect = 'edit')
                       THEN graphrag._edits(r.corpus_id, l.key, h.key) END AS value) AS p
      LEFT JOIN words AS w ON w.relationship_id = r.id
      LEFT JOIN descriptions AS d ON d.relationship_id = r.id
      LEFT JOIN sentences AS s ON s.relationship_id = r.id
     WHERE r.id = ANY (relationship_ids);
END;
COMMENT ON FUNCTION graphrag._merged_relationships(bigint[], bigint[], bigint) IS 'Keywords and descriptions of relationships as mentions, and people, state them';

-- Weights, counts and directions: of relationship_ids by mention_ids (null: by all mentions), or of all that document_ids state by theirs
-- (one of the two is null). forward: from low to high, in the direction that most mentions have, else that of the keys. An edited weight wins.
CREATE OR REPLACE FUNCTION graphrag._counted_relationships(relationship_ids bigint[], mention_ids bigint[], document_ids bigint[])
RETURNS TABLE (relationship_id bigint, mention_count bigint, evidence_rank bigint, weight numeric, direction bigint, forward boolean,
               fragments bigint, is_edited boolean)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
    WITH stated AS (
        -- Aliases may state a relationship several times in a chunk, which counts as one.
        SELECT m.relationship_id, pg_catalog.count(DISTINCT m.chunk_id) AS mention_count, pg_catalog.min(m.evidence_rank) AS evidence_rank,
               pg_catalog.sum(m.weight) AS weight, pg_catalog.sum(CASE WHEN m.forward THEN 1 WHEN NOT m.forward THEN -1 END) AS direction
          FROM (SELECT o.relationship_id, o.chunk_id, o.evidence_rank, o.weight, o.forward
                  FROM graphrag.chunks AS k
                  JOIN graphrag.relationship_mentions AS o ON o.chunk_id = k.id
                 WHERE k.document_id = ANY (document_ids) AND o.relationship_id IS NOT NULL
                 UNION ALL
                SELECT o.relationship_id, o.chunk_id, o.evidence_rank, o.weight, o.forward
                  FROM graphrag.relationship_mentions AS o
                 WHERE o.relationship_id = ANY (relationship_ids) AND mention_ids IS NULL
                 UNION ALL
                SELECT o.relationship_id, o.chunk_id, o.evidence_rank, o.weight, o.forward
                  FROM graphrag.relationship_mentions AS o
                 WHERE o.id = ANY (mention_ids) AND o.relationship_id IS NOT NULL
                 UNION ALL
                -- Also what nothing mentions.
                SELECT u.id, NULL, NULL, NULL, NULL FROM pg_catalog.unnest(relationship_ids) AS u (id)) AS m
         GROUP BY m.relationship_id
    ), ends AS (
        SELECT s.*, r.corpus_id, l.key AS low_key, h.key AS high_key
          FROM stated AS s
          JOIN graphrag.relationships AS r ON r.id = s.relationship_id
          JOIN graphrag.entities AS l ON l.id = r.low_id
          JOIN graphrag.entities AS h ON h.id = r.high_id
    ), said AS (
        SELECT e.relationship_id, pg_catalog.count(*) FILTER (WHERE c.effect = 'fragment') AS fragments,
               pg_catalog.sum((c.value ->> 'weight')::numeric) FILTER (WHERE c.effect = 'fragment') AS weight,
               pg_catalog.sum(CASE WHEN c.forward = (e.low_key < e.high_key) THEN 1 ELSE -1 END) FILTER (WHERE c.effect = 'fragment') AS direction,
               pg_catalog.bool_or(c.effect = 'edit' AND c.own) AS is_edited
          FROM ends AS e
          JOIN graphrag.curated AS c ON c.corpus_id = e.corpus_id AND c.entity_key = least(e.low_key, e.high_key)
                                    AND c.other_entity_key = greatest(e.low_key, e.high_key)
         GROUP BY e.relationship_id
    ), summed AS (
        SELECT e.relationship_id, e.mention_count, e.evidence_rank, e.corpus_id, e.low_key, e.high_key,
               coalesce(e.weight, 0) + coalesce(p.weight, 0) AS weight, coalesce(e.direction, 0) + coalesce(p.direction, 0) AS direction,
               coalesce(p.fragments, 0) AS fragments, coalesce(p.is_edited, false) AS is_edited
          FROM ends AS e
          LEFT JOIN said AS p ON p.relationship_id = e.relationship_id
    )
    SELECT s.relationship_id, s.mention_count, s.evidence_rank,
           pg_catalog.trim_scale(coalesce(CASE WHEN s.is_edited
                                               THEN (graphrag._edits(s.corpus_id, s.low_key, s.high_key) ->> 'weight')::numeric END, s.weight)),
           s.direction, CASE s.direction WHEN 0 THEN s.low_key < s.high_key ELSE s.direction > 0 END, s.fragments, s.is_edited
      FROM summed AS s;
END;
COMMENT ON FUNCTION graphrag._counted_relationships(bigint[], bigint[], bigint[]) IS 'Weights, counts and directions of relationships as mentions, and people, state them';

-- What people may do to entities; each returns the number of the curation, for undo_curation(). Documents that come later meet the same curations.
CREATE OR REPLACE FUNCTION graphrag.create_entity(name text, corpus text DEFAULT 'default', type text DEFAULT 'UNKNOWN', description text DEFAULT '') RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "index.curation.entities:create", corpus, name, type, description)
$$;

CREATE OR REPLACE FUNCTION graphrag.edit_entity(entity text, corpus text DEFAULT 'default', type text DEFAULT NULL, description text DEFAULT NULL) RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "index.curation.entities:edit", corpus, entity, type, description)
$$;

CREATE OR REPLACE FUNCTION graphrag.rename_entity(entity text, new_name text, corpus text DEFAULT 'default') RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "index.curation.entities:rename", corpus, entity, new_name)
$$;
COMMENT ON FUNCTION graphrag.rename_entity(text, text, text) IS 'Gives an entity another name; mentions of the old name, also later ones, stay its own. Returns the number of the curation. Owner only; 42704 where there is no such entity, 23505 where the new name is another entity''s: merge_entities() makes them one.';

CREATE OR REPLACE FUNCTION graphrag.merge_entities(entities text[], target text, corpus text DEFAULT 'default') RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "index.curation.entities:merge", corpus, entities, target)
$$;

CREATE OR REPLACE FUNCTION graphrag.delete_entity(entity text, corpus text DEFAULT 'default') RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "index.curation.entities:delete", corpus, entity)
$$;

-- The same for relationships. A pair of entities has one relationship, so that two become one only with their entities (merge_entities).
CREATE OR REPLACE FUNCTION graphrag.create_relationship(source text, target text, corpus text DEFAULT 'default', keywords text[] DEFAULT '{}', description text DEFAULT '', weight numeric DEFAULT 1) RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "index.curation.relationships:create", corpus, source, target, keywords, description, weight)
$$;

CREATE OR REPLACE FUNCTION graphrag.edit_relationship(source text, target text, corpus text DEFAULT 'default', keywords text[] DEFAULT NULL, description text DEFAULT NULL, weight numeric DEFAULT NULL) RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "index.curation.relationships:edit", corpus, source, target, keywords, description, weight)
$$;

CREATE OR REPLACE FUNCTION graphrag.delete_relationship(source text, target text, corpus text DEFAULT 'default') RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "index.curation.relationships:delete", corpus, source, target)
$$;

-- A graph made elsewhere, as one curation; and the way back from any curation.
CREATE OR REPLACE FUNCTION graphrag.insert_graph(corpus text, graph jsonb) RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "index.curation.graphs:insert", corpus, graph)
$$;

CREATE OR REPLACE FUNCTION graphrag.undo_curation(id bigint) RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
call(plpy, "0.3.0", "index.curation.curation_records:undo", id)
$$;
COMMENT ON FUNCTION graphrag.undo_curation(bigint) IS 'Makes the graph what it would be had this curation never been made; later ones stay. Owner only; 42704 where there is none of that number, 55000 where it was undone already.';

-- Entities that may be one, for a person to decide; nothing is merged. Owner only, as what it leads to.
CREATE OR REPLACE FUNCTION graphrag.suggest_merges(corpus text DEFAULT 'default', max_suggestions int DEFAULT 100)
RETURNS TABLE (entity text, target text, score double precision, reason text)
LANGUAGE plpython3u STABLE COST 10000000 ROWS 100
SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "index.curation.suggest:suggest", corpus, max_suggestions)
$$;
COMMENT ON FUNCTION graphrag.suggest_merges(text, int) IS 'Pairs of entities that may be one, best first, with a score (0.6 to 1) and its reason: spelling, transliteration, abbreviation, embedding, or a name, alias or code that documents mention and several attached rows have (what one row has is one entity with it already); neighbours in common, near names and types count besides. What merge_entities() would be called with; a merge that was undone is not suggested again. Owner only; 42704 for an unknown corpus.';

-- The graph's own rows, by relevance to a query.
CREATE OR REPLACE FUNCTION graphrag.search_entities(
    query              text,
    corpus             text DEFAULT 'default',
    top_k              int DEFAULT 10,
    filter             jsonb DEFAULT NULL,
    low_level_keywords text[] DEFAULT NULL
) RETURNS TABLE (rank int, entity_id bigint, name text, type text, description text, degree int, score double precision, explain jsonb)
LANGUAGE plpython3u STABLE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.contexts.items:entities", query, corpus, top_k, filter, low_level_keywords)
$$;
COMMENT ON FUNCTION graphrag.search_entities(text, text, int, jsonb, text[]) IS 'Entities that a query is about, best first: named in it (score 1), with a near name (cosine), or written like it, where no entity has the name itself: mistyped, by initials, in another script';

CREATE OR REPLACE FUNCTION graphrag.search_relationships(
    query               text,
    corpus              text DEFAULT 'default',
    top_k               int DEFAULT 10,
    filter              jsonb DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL
) RETURNS TABLE (rank int, relationship_id bigint, source text, target text, keywords text[], description text, weight numeric, score double precision, explain jsonb)
LANGUAGE plpython3u STABLE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.contexts.items:relationships", query, corpus, top_k, filter, high_level_keywords)
$$;

CREATE OR REPLACE FUNCTION graphrag.search_reports(
    query      text,
    corpus     text DEFAULT 'default',
    top_k      int DEFAULT 10,
    filter     jsonb DEFAULT NULL,
    only_level int DEFAULT NULL
) RETURNS TABLE (rank int, community_id bigint, level int, title text, summary text, rating double precision, score double precision, explain jsonb)
LANGUAGE plpython3u STABLE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.contexts.items:reports", query, corpus, top_k, filter, only_level)
$$;
COMMENT ON FUNCTION graphrag.search_reports(text, text, int, jsonb, int) IS 'Reports on communities that a query is about, best first; of only_level, where it is given. Score: the mean of the cosine of title and summary and of the words in the whole report (as a share of the best). None for who does not see the corpus whole; with a filter, those that some of its documents tell of.';

-- The corpus' embedding model, for applications that compare vectors of their own.
CREATE OR REPLACE FUNCTION graphrag.embed(input text, corpus text DEFAULT 'default') RETURNS @extschema:vector@.vector
LANGUAGE plpython3u STABLE COST 500000 SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.query.embed:embed", input, corpus)
$$;
COMMENT ON FUNCTION graphrag.embed(text, text) IS 'Vector of a text by the corpus'' embedding model, L2-normalised; null for null. Of a text too long for the model, the beginning counts.';

-- A database may move between machines, so what embeds here is said on demand.
CREATE OR REPLACE FUNCTION graphrag.embedding_engine(OUT documents text, OUT questions text, OUT reason text)
LANGUAGE plpython3u STABLE COST 10000 SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.query.embed:embedding_engine")
$$;
COMMENT ON FUNCTION graphrag.embedding_engine() IS 'What embeds texts of the local model in this session, and in which precision: those of documents, questions, and why. Set by graphrag.embedding_engine: auto, bfloat16, int8, float32 or numpy.';

-- What a question asks for. VOLATILE: writes cache and accounts where the transaction may write.
CREATE OR REPLACE FUNCTION graphrag.understand(question text, corpus text DEFAULT 'default') RETURNS jsonb
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.query.embed:understand_named", question, corpus)
$$;
COMMENT ON FUNCTION graphrag.understand(text, text) IS 'What a question asks for: {low_level_keywords, high_level_keywords, entities, answer_types, by}, in one call to the corpus'' model for keywords. by: model; cache (asked before; only the extension''s owner is told, to others that is model too); noun phrases (no model is set, or it failed: then with a WARNING and the reason). 42704 unknown corpus.';

-- Breadth first over the relationships; each entity once, at its least distance.
CREATE OR REPLACE FUNCTION graphrag.neighbors(entity text, corpus text DEFAULT 'default', hops int DEFAULT 1)
RETURNS TABLE (hop int, entity_id bigint, name text, type text, description text, degree int,
               relationship_id bigint, relationship text, keywords text[], weight numeric, path text[])
LANGUAGE plpython3u STABLE COST 300000 ROWS 100
SET search_path = pg_catalog, pg_temp SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.explore.neighbors:neighbors", entity, corpus, hops)
$$;
COMMENT ON FUNCTION graphrag.neighbors(text, text, int) IS 'Entities within some hops (1 to 10) of an entity, found by its name, whatever its spelling: hop, the entity, the relationship that led to it, and the path of names from the start. Nearest first, then strongest relationship first (weight times log2 of how much oftener than by chance both are in one chunk; of equal ones the heavier). Under row-level security on documents only what visible documents say. No row when there is no such entity; 42704 for an unknown corpus.';

-- A function of its own: neighbors() cannot get an argument, since views of users name it. No third argument is a text, so that three
-- of unknown type are those of the other one.
CREATE OR REPLACE FUNCTION graphrag.neighbors(entity text, filter jsonb, hops int DEFAULT 1, corpus text DEFAULT 'default')
RETURNS TABLE (hop int, entity_id bigint, name text, type text, description text, degree int,
               relationship_id bigint, relationship text, keywords text[], weight numeric, path text[])
LANGUAGE plpython3u STABLE COST 300000 ROWS 100
SET search_path = pg_catalog, pg_temp SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.explore.neighbors:neighbors", entity, corpus, hops, filter)
$$;
COMMENT ON FUNCTION graphrag.neighbors(text, jsonb, int, text) IS 'As neighbors(), in the graph that the documents make which a filter keeps (as in search()). 22023 for a bad filter.';

-- Of a whole corpus: one set-based step per hop. The first hop has a plan that is kept; later ones are planned for what they hold,
-- one id or a hundred thousand. Where rows are attached, names of a row are the row's entity.
CREATE OR REPLACE FUNCTION graphrag._neighbors(this_corpus int, start_key text, hops int)
RETURNS TABLE (hop int, entity_id bigint, name text, type text, description text, degree int,
               relationship_id bigint, relationship text, keywords text[], weight numeric, path text[])
LANGUAGE plpgsql STABLE COST 300000 ROWS 100
SET search_path = pg_catalog, pg_temp SET jit = off
AS $function$
#variable_conflict use_column
DECLARE
    start_id      bigint;
    start_name    text;
    start_count   int;
    chunks        double precision;
    visited       bigint[];
    -- What the last hop found, strongest first: entities, the relationships that led to them, and their paths as array literals.
    frontier      bigint[];
    relationships bigint[];
    paths         text[];
    has_rows      boolean;
BEGIN
    SELECT e.id, e.name, e.mention_count INTO start_id, start_name, start_count
      FROM graphrag.entities AS e
     WHERE e.corpus_id = this_corpus
       AND e.key = coalesce((SELECT a.entity_key FROM graphrag.aliases AS a WHERE a.corpus_id = this_corpus AND a.key = start_key), start_key);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT sum(x.count) INTO chunks FROM graphrag._index_counts AS x WHERE x.corpus_id = this_corpus AND x.relation = 'chunks';
    has_rows := EXISTS (SELECT FROM graphrag._attached_tables AS a WHERE a.corpus_id = this_corpus AND a.kind = 'entities');
    IF has_rows THEN
        SELECT e.id, e.name INTO start_id, start_name
          FROM graphrag.entities AS e
         WHERE e.id = coalesce((SELECT r.entity_id FROM graphrag._row_names AS r WHERE r.name_id = start_id), start_id);
    END IF;

    IF NOT has_rows THEN
        RETURN QUERY
        SELECT 1, e.id, e.name, e.type, e.description, e.degree, r.id, r.description, r.keywords, r.weight, ARRAY[start_name, e.name]
          FROM (SELECT l.high_id AS other_id, l.* FROM graphrag.relationships AS l WHERE l.low_id = start_id
                 UNION ALL
                SELECT h.low_id, h.* FROM graphrag.relationships AS h WHERE h.high_id = start_id) AS r
          JOIN graphrag.entities AS e ON e.id = r.other_id
         ORDER BY graphrag._strength(r.weight::double precision, r.mention_count, start_count, e.mention_count, chunks) DESC, r.weight DESC, e.key;
    END IF;

    visited := ARRAY[start_id];
    frontier := visited;
    paths := ARRAY[ARRAY[start_name]::text];
    FOR step IN 1..hops LOOP
        EXIT WHEN hops = 1 AND NOT has_rows;
        -- Where several ways of this length lead to an entity, the strongest last relationship is shown, then the strongest before.
        EXECUTE CASE WHEN has_rows THEN $sql$
        WITH frontier AS MATERIALIZED (
            SELECT f.* FROM ROWS FROM (unnest($1), unnest($2)) WITH ORDINALITY AS f (id, path, place)
        ), members AS MATERIALIZED (
            SELECT f.id, f.id AS owner, f.path, f.place FROM frontier AS f
             UNION ALL
            SELECT m.name_id, f.id, f.path, f.place FROM frontier AS f JOIN graphrag._row_names AS m ON m.entity_id = f.id
        ), led AS MATERIALIZED (
            SELECT x.id, x.relationship_id, x.weight, x.count, m.owner, m.path, m.place, m.id AS member
              FROM members AS m
             CROSS JOIN LATERAL (
                   SELECT l.high_id AS id, l.id AS relationship_id, l.weight, l.mention_count AS count FROM graphrag.relationships AS l WHERE l.low_id = m.id
                    UNION ALL
                   SELECT h.low_id, h.id, h.weight, h.mention_count FROM graphrag.relationships AS h WHERE h.high_id = m.id) AS x
        ), joined AS MATERIALIZED (
            SELECT coalesce(r.entity_id, l.id) AS id, l.relationship_id, l.weight, l.count, l.path, l.place, l.member, l.id AS other
              FROM led AS l
              LEFT JOIN graphrag._row_names AS r ON r.name_id = l.id
        )
        SELECT array_agg(n.id ORDER BY n.strength DESC, n.weight DESC, e.key), array_agg(n.relationship_id ORDER BY n.strength DESC, n.weight DESC, e.key),
               array_agg((n.path::text[] || e.name)::text ORDER BY n.strength DESC, n.weight DESC, e.key)
          FROM (SELECT DISTINCT ON (j.id) j.id, j.relationship_id, j.weight, j.path, s.strength
                  FROM joined AS j
                  JOIN graphrag.entities AS m ON m.id = j.member
                  JOIN graphrag.entities AS o ON o.id = j.other
                 CROSS JOIN LATERAL (SELECT graphrag._strength(j.weight::double precision, j.count, m.mention_count, o.mention_count, $4) AS strength) AS s
                 WHERE NOT EXISTS (SELECT FROM unnest($3) AS v (id) WHERE v.id = j.id)
                 ORDER BY j.id, s.strength DESC, j.weight DESC, j.place, m.key, o.key) AS n
          JOIN graphrag.entities AS e ON e.id = n.id
        $sql$ ELSE $sql$
        SELECT array_agg(n.id ORDER BY n.strength DESC, n.weight DESC, e.key), array_agg(n.relationship_id ORDER BY n.strength DESC, n.weight DESC, e.key),
               array_agg((n.path::text[] || e.name)::text ORDER BY n.strength DESC, n.weight DESC, e.key)
          FROM (SELECT DISTINCT ON (r.id) r.id, r.relationship_id, r.weight, f.path, s.strength
                  FROM ROWS FROM (unnest($1), unnest($2)) WITH ORDINALITY AS f (id, path, place)
                 CROSS JOIN LATERAL (
                       SELECT l.high_id AS id, l.id AS relationship_id, l.weight, l.mention_count AS count FROM graphrag.relationships AS l WHERE l.low_id = f.id
                        UNION ALL
                       SELECT h.low_id, h.id, h.weight, h.mention_count FROM graphrag.relationships AS h WHERE h.high_id = f.id) AS r
                  JOIN graphrag.entities AS m ON m.id = f.id
                  JOIN graphrag.entities AS o ON o.id = r.id
                 CROSS JOIN LATERAL (SELECT graphrag._strength(r.weight::double precision, r.count, m.mention_count, o.mention_count, $4) AS strength) AS s
                 WHERE NOT EXISTS (SELECT FROM unnest($3) AS v (id) WHERE v.id = r.id)
                 ORDER BY r.id, s.strength DESC, r.weight DESC, f.place) AS n
          JOIN graphrag.entities AS e ON e.id = n.id
        $sql$ END
           INTO frontier, relationships, paths
          USING frontier, paths, visited, chunks;
        EXIT WHEN frontier IS NULL;
        visited := visited || frontier;
        CONTINUE WHEN step = 1 AND NOT has_rows;
        RETURN QUERY EXECUTE $sql$
        SELECT $1, e.id, e.name, e.type, e.description, coalesce(n.degree, e.degree), r.id, r.description, r.keywords, r.weight, f.path::text[]
          FROM ROWS FROM (unnest($2), unnest($3), unnest($4)) WITH ORDINALITY AS f (id, relationship_id, path, place)
          JOIN graphrag.entities AS e ON e.id = f.id
          JOIN graphrag.relationships AS r ON r.id = f.relationship_id
          LEFT JOIN graphrag._named_rows AS n ON n.entity_id = e.id
         ORDER BY f.place
        $sql$
        USING step, frontier, relationships, paths;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION graphrag._neighbors(int, text, int) IS 'neighbors() of a whole corpus, by the normalised name of the entity';

-- Which statement of a member's reads a view, and which calls its functions, PostgreSQL does not say. A view reads this with the owner's rights.
CREATE TABLE graphrag._view_secret AS SELECT pg_catalog.gen_random_uuid()::text AS secret;
COMMENT ON TABLE graphrag._view_secret IS 'What _visible_nodes() and _visible_edges() ask for: who cannot read it has the views';
COMMENT ON COLUMN graphrag._view_secret.secret IS 'Made with the extension; not dumped';

-- What graph_nodes and graph_edges show of corpora that the caller does not see whole. SECURITY INVOKER: they ask as the caller which
-- documents he may see, then read what these state with the owner's rights (server/access/entry.py). A row for each corpus; its columns
-- are packed (search/explore/views.py). A name, type or description is null where the merged row says it, and what follows the last that
-- is not is left out; whether it is would tell what hidden documents state. So they answer to the views alone, which read a secret of the
-- owner's, and join all ids alike: EXPLAIN ANALYZE counts rows.
-- ROWS 100: with unnest() the planner expects a thousand items, and joins them by hashes. With more it takes a join of a few rows
-- for one of millions, and compiles it for seconds.
CREATE OR REPLACE FUNCTION graphrag._visible_nodes(secret text)
RETURNS TABLE (corpus text, chunks int, entity_ids text, names text[], types text[], entity_descriptions text[], degrees text,
               entity_mention_counts text, entity_origins text[])
LANGUAGE plpython3u STABLE ROWS 100 PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.explore.views:nodes", secret)
$$;
COMMENT ON FUNCTION graphrag._visible_nodes(text) IS 'Rows of graph_nodes in corpora that the caller sees in part, packed; for the view alone';

CREATE OR REPLACE FUNCTION graphrag._visible_edges(secret text)
RETURNS TABLE (corpus text, chunks int, entity_ids text, names text[], types text[], entity_mention_counts text,
               relationship_ids text, source_ids text, target_ids text, weights text,
               relationship_mention_counts text, keywords text[], relationship_descriptions text[], relationship_origins text[])
LANGUAGE plpython3u STABLE ROWS 100 PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.explore.views:edges", secret)
$$;
COMMENT ON FUNCTION graphrag._visible_edges(text) IS 'Rows of graph_edges in corpora that the caller sees in part, packed; for the view alone';

-- Views for BI tools: one row per thing, plain column types, names instead of numbers. They read with the owner's rights and show
-- what the caller may see: of a corpus that he sees whole the merged rows; of others what his documents state.
-- A corpus is seen whole or in part: graphrag._whole_corpora(). security_barrier: a condition of the caller's sees no other rows. It
-- does not hold for a bare UNION ALL, whose parts the planner takes apart: a SELECT stands around it.
-- Nor does it keep out what PostgreSQL knows to leak nothing by itself, as = and <, and EXPLAIN ANALYZE counts the rows for which such
-- a condition held: it would tell hidden texts letter by letter. So it must not meet a row that the caller may not see. Where corpora
-- are seen whole or not at all, each table is asked for its corpus first (_whole_corpora). Where documents are, callers under
-- row-level security read a part of its own, which conditions do not enter: OFFSET 0.
-- While documents that were deleted or retracted wait to be removed, merged rows tell of them: everybody then reads what the others state.
-- Without statistics the planner expects one row in two hundred of IS NULL and of =, and loops over the few. Of num_nulls() <> 0 it
-- expects nearly all, of coalesce() a half, of >= a third.
-- Under a LIMIT it wants the first rows soon, and of each part of a UNION ALL takes the plan that begins cheapest: one that begins for .28
-- less loops over all pairs. So merged rows are joined by keys that have an index, after _costly_start(). What is seen in part has none, and
-- is planned for all its rows: beside generate_series(1, 1) there is no LIMIT.

CREATE OR REPLACE FUNCTION graphrag._costly_start() RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 400000 SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN true;
END
$$;
COMMENT ON FUNCTION graphrag._costly_start() IS 'True. PostgreSQL takes it to cost 1000: of plans that begin for 1 % more or less it chooses by what they cost in all';

-- The documents whose evidence the caller may see. Not for callers: the other views are made of it.
CREATE OR REPLACE VIEW graphrag._visible_documents WITH (security_barrier = true) AS
SELECT u.id, u.corpus_id, u.corpus, u.source_key, u.title, u.indexed_at, u.valid_from, u.created_at, u.metadata
  FROM (
SELECT d.id, d.corpus_id, d.corpus, d.source_key, d.title, d.indexed_at, d.valid_from, d.created_at, d.metadata
  FROM graphrag.documents d
 WHERE graphrag._sees_all() AND pg_catalog.num_nulls(d.retracted_at) <> 0
 UNION ALL
SELECT v.id, v.corpus_id, v.corpus, v.source_key, v.title, v.indexed_at, v.valid_from, v.created_at, v.metadata
  FROM (SELECT d.id, d.corpus_id, d.corpus, d.source_key, d.title, d.indexed_at, d.valid_from, d.created_at, d.metadata
          FROM graphrag.documents d
         WHERE NOT graphrag._sees_all()
           AND pg_catalog.num_nulls(d.retracted_at) <> 0
           AND ((SELECT graphrag._whole_corpora())[d.corpus_id] OR d.id IN (SELECT graphrag.visible_documents()))
        OFFSET 0) v) u;

-- Of which corpora, by their numbers, the caller sees the merged rows: whole, and no removal waits. Asked as a subscript: see above. One
-- row; none, where there is no such corpus: then what reads merged rows is left out (EXISTS).
CREATE OR REPLACE VIEW graphrag._merged_corpora WITH (security_barrier = true) AS
SELECT pg_catalog.array_agg(f.flag ORDER BY f.id) AS flags
  FROM (SELECT w.id, w.is_whole AND w.id NOT IN (SELECT r.corpus_id FROM graphrag._removals r) AS flag
          FROM pg_catalog.unnest(graphrag._whole_corpora()) WITH ORDINALITY AS w (is_whole, id)
        OFFSET 0) f
HAVING pg_catalog.bool_or(f.flag);

-- Mentions that the caller may see, of entities as the views show them: names of rows are the row's entity. What a row says of its own
-- names it says of itself. First of corpora of which the caller sees the merged rows; then of those that are seen in part, where names are
-- those that visible documents give. The latter has no barrier: what shows it puts one around it, OFFSET 0.
-- LEFT JOIN: what each mention has costs nothing where no column of it is asked for.
CREATE OR REPLACE VIEW graphrag._merged_mentions WITH (security_barrier = true) AS
WITH whole AS MATERIALIZED (
    SELECT c.flags FROM graphrag._merged_corpora c
)
SELECT u.*
  FROM (
SELECT k.name AS corpus, m.entity_id, e.name, e.type, m.document_id, m.chunk_id, m.attributes, d.source_key, d.title,
       (coalesce(d.valid_from, d.created_at) AT TIME ZONE 'UTC')::date AS day, d.metadata, c.extraction, c.is_row
  FROM graphrag.entity_mentions m
  JOIN graphrag.documents d ON d.id = m.document_id AND (SELECT w.flags FROM whole w)[d.corpus_id]
  LEFT JOIN graphrag.corpora k ON k.id = m.corpus_id
  LEFT JOIN graphrag.entities e ON e.id = m.entity_id AND (SELECT w.flags FROM whole w)[e.corpus_id]
  LEFT JOIN graphrag.chunks c ON c.id = m.chunk_id AND (SELECT w.flags FROM whole w)[c.corpus_id]
 WHERE EXISTS (SELECT FROM whole) AND graphrag._costly_start() AND (SELECT w.flags FROM whole w)[m.corpus_id] AND m.entity_id IS NOT NULL
   AND NOT EXISTS (SELECT FROM graphrag._row_names n WHERE n.name_id = m.entity_id)
 UNION ALL
SELECT k.name, n.entity_id, e.name, e.type, m.document_id, m.chunk_id, m.attributes, d.source_key, d.title,
       (coalesce(d.valid_from, d.created_at) AT TIME ZONE 'UTC')::date, d.metadata, c.extraction, c.is_row
  FROM graphrag._row_names n
  JOIN graphrag.entity_mentions m ON m.entity_id = n.name_id AND m.name_of IS NULL AND (SELECT w.flags FROM whole w)[m.corpus_id]
  JOIN graphrag.documents d ON d.id = m.document_id AND (SELECT w.flags FROM whole w)[d.corpus_id]
  LEFT JOIN graphrag.corpora k ON k.id = m.corpus_id
  LEFT JOIN graphrag.entities e ON e.id = n.entity_id AND (SELECT w.flags FROM whole w)[e.corpus_id]
  LEFT JOIN graphrag.chunks c ON c.id = m.chunk_id AND (SELECT w.flags FROM whole w)[c.corpus_id]
 WHERE EXISTS (SELECT FROM whole) AND graphrag._costly_start() AND (SELECT w.flags FROM whole w)[n.corpus_id]) u;

CREATE OR REPLACE VIEW graphrag._visible_mentions AS
WITH visible AS MATERIALIZED (
    SELECT v.* FROM graphrag._visible_documents v
     WHERE (SELECT c.flags FROM graphrag._merged_corpora c)[v.corpus_id] IS NOT TRUE
       AND (NOT graphrag._sees_all() OR EXISTS (SELECT FROM graphrag._removals))
), names AS MATERIALIZED (
    SELECT n.entity_id AS name_id, pg_catalog.min(o.entity_id) AS entity_id
      FROM visible v
      JOIN graphrag.entity_mentions n ON n.document_id = v.id AND n.name_of IS NOT NULL AND n.entity_id IS NOT NULL
      JOIN graphrag.entity_mentions o ON o.chunk_id = n.chunk_id AND o.raw_key = n.name_of
     WHERE EXISTS (SELECT FROM graphrag._attached_tables t WHERE t.kind <> 'documents')
     GROUP BY n.entity_id
    HAVING pg_catalog.bool_and(n.raw_key <> n.name_of AND o.entity_id IS NOT NULL AND o.entity_id <> n.entity_id)
       AND pg_catalog.min(o.entity_id) >= pg_catalog.max(o.entity_id)
)
SELECT coalesce(n.entity_id, m.entity_id) AS entity_id, m.document_id, m.chunk_id, m.attributes, v.source_key, v.title,
       (coalesce(v.valid_from, v.created_at) AT TIME ZONE 'UTC')::date AS day, v.metadata
  FROM visible v
  JOIN graphrag.entity_mentions m ON m.document_id = v.id
  LEFT JOIN names n ON n.name_id = m.entity_id
 WHERE m.entity_id IS NOT NULL AND coalesce(n.name_id IS NULL OR m.name_of IS NULL, false);

-- Entities of corpora that are seen in part, as of graph_nodes. No barrier either.
CREATE OR REPLACE VIEW graphrag._visible_entities AS
WITH visible AS MATERIALIZED (
    SELECT v.*, v.entity_ids::bigint[] AS ids
      FROM graphrag._visible_nodes((SELECT s.secret FROM graphrag._view_secret s)) v
     WHERE NOT graphrag._sees_all() OR EXISTS (SELECT FROM graphrag._removals)
)
SELECT e.corpus, e.id AS entity_id, (e.key || '')::text COLLATE "default" AS key, coalesce(n.name, e.name) AS name, coalesce(n.type, e.type) AS type,
       coalesce(n.description, e.description) AS description, coalesce(n.degree, e.degree) AS degree,
       coalesce(n.mention_count, e.mention_count) AS mention_count, NULL::bigint AS community_id, NULL::text AS community,
       NULL::bigint[] AS community_ids,
       coalesce(n.origin, CASE coalesce(n.mention_count, e.mention_count) WHEN 0 THEN 'people' ELSE 'documents' END) AS origin
  FROM (SELECT v.corpus, x.* FROM visible v JOIN graphrag.entities x ON x.id = ANY (v.ids)) e
  LEFT JOIN (SELECT x.*
               FROM visible v
              CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(v.ids), pg_catalog.unnest(v.names), pg_catalog.unnest(v.types),
                                            pg_catalog.unnest(v.entity_descriptions), pg_catalog.unnest(v.degrees::int[]),
                                            pg_catalog.unnest(v.entity_mention_counts::int[]), pg_catalog.unnest(v.entity_origins))
                         AS x (id, name, type, description, degree, mention_count, origin)) n ON n.id = e.id;

-- Communities tell of all documents together: only rows of corpora that are seen whole look for them, and where a column is asked for.
CREATE OR REPLACE VIEW graphrag.graph_nodes WITH (security_barrier = true) AS
WITH whole AS MATERIALIZED (
    SELECT c.flags FROM graphrag._merged_corpora c
)
SELECT u.corpus, u.entity_id, u.key, u.name, u.type, u.description, u.degree, u.mention_count, u.community_id, u.community, u.community_ids,
       u.origin
  FROM (
SELECT c.name AS corpus,
       e.id   AS entity_id,
       -- Planned without the statistics of keys, which EXPLAIN would tell.
       (e.key || '')::text COLLATE "default" AS key,
       e.name,
       e.type,
       e.description,
       coalesce(r.degree, e.degree) AS degree,
       coalesce(r.mention_count, e.mention_count) AS mention_count,
       i.community_id,
       i.community,
       i.community_ids,
       CASE WHEN coalesce(r.mention_count, e.mention_count) = 0 THEN 'people'
            WHEN coalesce(r.row_mention_count, e.row_mention_count) = 0 THEN 'documents'
            WHEN coalesce(r.row_mention_count, e.row_mention_count) = coalesce(r.mention_count, e.mention_count) THEN 'rows'
            ELSE 'documents, rows' END AS origin
  FROM graphrag.entities e
  JOIN graphrag.corpora c ON c.id = e.corpus_id
  LEFT JOIN graphrag._named_rows r ON r.entity_id = e.id
  -- One row: where no column of it is asked for, the planner leaves it out.
  LEFT JOIN LATERAL (SELECT pg_catalog.max(q.id) FILTER (WHERE q.level = 0) AS community_id,
                            pg_catalog.max(p.title) FILTER (WHERE q.level = 0) AS community,
                            pg_catalog.array_agg(q.id ORDER BY q.level) AS community_ids
                       FROM graphrag.community_members m
                       JOIN graphrag.communities q ON q.id = m.community_id
                       LEFT JOIN graphrag.community_reports p ON p.community_id = q.id
                      WHERE m.entity_id = e.id) i ON true
 WHERE EXISTS (SELECT FROM whole) AND graphrag._costly_start()
   AND (SELECT w.flags FROM whole w)[e.corpus_id]
   AND NOT EXISTS (SELECT FROM graphrag._row_names n WHERE n.name_id = e.id)
 UNION ALL
SELECT p.* FROM (SELECT e.* FROM graphrag._visible_entities e OFFSET 0) p CROSS JOIN pg_catalog.generate_series(1, 1)) u;

COMMENT ON VIEW graphrag.graph_nodes IS 'Entities of the knowledge graph, one row each. Names of a row of an attached table are the row''s entity';
COMMENT ON COLUMN graphrag.graph_nodes.type IS 'Most frequent type that says what it is, else NAME or CONCEPT';
COMMENT ON COLUMN graphrag.graph_nodes.community_id IS 'Its community of level 0, the coarsest; null: it is in none, the caller sees a part of the corpus, or deleted documents wait to be removed';
COMMENT ON COLUMN graphrag.graph_nodes.community IS 'Title of the report on that community; null: none is written yet';
COMMENT ON COLUMN graphrag.graph_nodes.community_ids IS 'Its communities, of level 0 first; null as community_id';
COMMENT ON COLUMN graphrag.graph_nodes.origin IS 'What mentions it: documents, rows of attached tables, "documents, rows", or nothing any more but people''s word: people';

-- PMI depends on the whole corpus, so it is computed here. Probabilities are shares of the corpus' chunks, for the pair and for each entity alike.
-- LEFT JOIN: N and the entities, which every relationship has, cost nothing where no column of theirs is asked for.
CREATE OR REPLACE VIEW graphrag.graph_edges WITH (security_barrier = true) AS
WITH whole AS MATERIALIZED (
    SELECT c.flags FROM graphrag._merged_corpora c
), visible AS MATERIALIZED (
    SELECT v.*, v.entity_ids::bigint[] AS entities, v.relationship_ids::bigint[] AS relationships
      FROM graphrag._visible_edges((SELECT s.secret FROM graphrag._view_secret s)) v
     WHERE NOT graphrag._sees_all() OR EXISTS (SELECT FROM graphrag._removals)
), visible_entities AS MATERIALIZED (
    SELECT e.id, coalesce(n.name, e.name) AS name, coalesce(n.type, e.type) AS type, coalesce(n.mention_count, e.mention_count) AS mention_count
      FROM (SELECT x.* FROM visible v JOIN graphrag.entities x ON x.id = ANY (v.entities)) e
      LEFT JOIN (SELECT x.*
                   FROM visible v
                  CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(v.entities), pg_catalog.unnest(v.names),
                                                pg_catalog.unnest(v.types), pg_catalog.unnest(v.entity_mention_counts::int[]))
                             AS x (id, name, type, mention_count)) n ON n.id = e.id
)
SELECT u.corpus, u.relationship_id, u.source_id, u.source, u.source_type, u.target_id, u.target, u.target_type, u.keywords, u.keyword_list,
       u.description, u.weight, u.mention_count, u.pmi, u.strength, u.origin
  FROM (
SELECT c.name AS corpus,
       r.id   AS relationship_id,
       coalesce(a.entity_id, r.source_id) AS source_id,
       s.name AS source,
       s.type AS source_type,
       coalesce(b.entity_id, r.target_id) AS target_id,
       t.name AS target,
       t.type AS target_type,
       pg_catalog.array_to_string(r.keywords, ', ') AS keywords,
       r.keywords AS keyword_list,
       r.description,
       r.weight::double precision AS weight,
       r.mention_count,
       CASE WHEN r.mention_count > 0 AND k.source > 0 AND k.target > 0 AND n.chunks > 0 THEN
            r.mention_count::double precision / n.chunks
            * pg_catalog.ln(r.mention_count::double precision * n.chunks / k.source / k.target) / pg_catalog.ln(2::double precision)
       END AS pmi,
       CASE WHEN r.mention_count > 0 AND k.source > 0 AND k.target > 0 AND n.chunks > 0 THEN
            graphrag._strength(r.weight::double precision, r.mention_count, k.source, k.target, n.chunks)
       END AS strength,
       CASE WHEN r.mention_count = 0 THEN 'people'
            WHEN r.row_mention_count = 0 THEN 'documents'
            WHEN r.row_mention_count = r.mention_count THEN 'rows'
            ELSE 'documents, rows' END AS origin
  FROM graphrag.relationships r
  JOIN graphrag.corpora c ON c.id = r.corpus_id
  LEFT JOIN graphrag._row_names a ON a.name_id = r.source_id
  LEFT JOIN graphrag._row_names b ON b.name_id = r.target_id
  LEFT JOIN graphrag.entities s ON s.id = coalesce(a.entity_id, r.source_id) AND (SELECT w.flags FROM whole w)[s.corpus_id]
  LEFT JOIN graphrag.entities t ON t.id = coalesce(b.entity_id, r.target_id) AND (SELECT w.flags FROM whole w)[t.corpus_id]
  LEFT JOIN graphrag._named_rows x ON x.entity_id = coalesce(a.entity_id, r.source_id)
  LEFT JOIN graphrag._named_rows y ON y.entity_id = coalesce(b.entity_id, r.target_id)
 CROSS JOIN LATERAL (SELECT coalesce(x.mention_count, s.mention_count) AS source, coalesce(y.mention_count, t.mention_count) AS target) k
  LEFT JOIN (SELECT x.corpus_id, pg_catalog.sum(x.count)::bigint AS chunks FROM graphrag._index_counts x WHERE x.relation = 'chunks'
              GROUP BY x.corpus_id) n ON n.corpus_id = r.corpus_id
 WHERE EXISTS (SELECT FROM whole) AND graphrag._costly_start()
   AND (SELECT w.flags FROM whole w)[r.corpus_id]
   AND (a.name_id IS NULL AND b.name_id IS NULL OR coalesce(a.entity_id, r.source_id) <> coalesce(b.entity_id, r.target_id))
 UNION ALL
SELECT p.*
  FROM (
SELECT e.corpus, e.id, s.id, s.name, s.type, t.id, t.name, t.type, pg_catalog.array_to_string(e.keywords, ', '), e.keywords, e.description,
       e.weight, e.mention_count,
       CASE WHEN e.mention_count > 0 AND s.mention_count > 0 AND t.mention_count > 0 AND e.chunks > 0 THEN
            e.mention_count::double precision / e.chunks
            * pg_catalog.ln(e.mention_count::double precision * e.chunks / s.mention_count / t.mention_count) / pg_catalog.ln(2::double precision)
       END,
       CASE WHEN e.mention_count > 0 AND s.mention_count > 0 AND t.mention_count > 0 AND e.chunks > 0 THEN
            graphrag._strength(e.weight, e.mention_count, s.mention_count, t.mention_count, e.chunks)
       END,
       coalesce(e.origin, CASE e.mention_count WHEN 0 THEN 'people' ELSE 'documents' END)
  FROM (SELECT r.corpus, r.chunks, r.id, coalesce(x.source_id, r.source_id) AS source_id, coalesce(x.target_id, r.target_id) AS target_id,
               coalesce(x.keywords::text[], r.keywords) AS keywords, coalesce(x.description, r.description) AS description,
               coalesce(x.weight, r.weight::double precision) AS weight, coalesce(x.mention_count, r.mention_count) AS mention_count, x.origin
          FROM (SELECT v.corpus, v.chunks, x.* FROM visible v JOIN graphrag.relationships x ON x.id = ANY (v.relationships)) r
          LEFT JOIN (SELECT x.*
                       FROM visible v
                      CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(v.relationships), pg_catalog.unnest(v.source_ids::bigint[]),
                                                    pg_catalog.unnest(v.target_ids::bigint[]), pg_catalog.unnest(v.weights::double precision[]),
                                                    pg_catalog.unnest(v.relationship_mention_counts::int[]), pg_catalog.unnest(v.keywords),
                                                    pg_catalog.unnest(v.relationship_descriptions), pg_catalog.unnest(v.relationship_origins))
                                 AS x (id, source_id, target_id, weight, mention_count, keywords, description, origin)) x ON x.id = r.id) e
  JOIN visible_entities s ON s.id = e.source_id
  JOIN visible_entities t ON t.id = e.target_id
OFFSET 0) p CROSS JOIN pg_catalog.generate_series(1, 1)) u;

COMMENT ON VIEW graphrag.graph_edges IS 'Relationships of the knowledge graph, one row each, in the direction most mentions have. What is stated of a name of a row is between the row''s entity and the other';
COMMENT ON COLUMN graphrag.graph_edges.strength IS 'weight * log2(p(x,y) / (p(x) p(y))): weight and pmi together. A pair that occurs together more rarely than by chance has less than 0, whatever its weight';
COMMENT ON COLUMN graphrag.graph_edges.origin IS 'What states it: documents, rows of attached tables, "documents, rows", or nothing any more but people''s word: people';

-- Claims with the entities they are about: aliases lead there, whenever people merged or renamed. Where documents are hidden, with those
-- alone that visible ones state: whether hidden ones have a name, they do not tell.
CREATE OR REPLACE VIEW graphrag.graph_claims WITH (security_barrier = true) AS
WITH whole AS MATERIALIZED (
    SELECT c.flags FROM graphrag._merged_corpora c
)
SELECT u.corpus, u.claim_id, u.document_id, u.chunk_id, u.subject_id, u.subject, u.object_id, u.object, u.type, u.status, u.start_date, u.end_date,
       u.description, u.source_text
  FROM (
SELECT d.corpus, y.id AS claim_id, y.document_id, y.chunk_id, s.id AS subject_id, y.subject, o.id AS object_id, y.object, y.type, y.status,
       y.start_date, y.end_date, y.description, y.source_text
  FROM graphrag.claims y
  JOIN graphrag.documents d ON d.id = y.document_id AND (SELECT w.flags FROM whole w)[d.corpus_id] AND pg_catalog.num_nulls(d.retracted_at) <> 0
  LEFT JOIN graphrag.aliases a ON a.corpus_id = y.corpus_id AND a.key = y.subject_key
  LEFT JOIN graphrag.aliases b ON b.corpus_id = y.corpus_id AND b.key = y.object_key
  -- The alias' corpus, for what is looked up by the corpus alone has all entities.
  LEFT JOIN graphrag.entities s ON s.corpus_id = coalesce(a.corpus_id, y.corpus_id) AND s.key = coalesce(a.entity_key, y.subject_key)
  LEFT JOIN graphrag.entities o ON o.corpus_id = coalesce(b.corpus_id, y.corpus_id) AND o.key = coalesce(b.entity_key, y.object_key)
 WHERE EXISTS (SELECT FROM whole) AND graphrag._costly_start() AND (SELECT w.flags FROM whole w)[y.corpus_id]
 UNION ALL
SELECT p.*
  FROM (
  WITH visible AS MATERIALIZED (
      -- As of _visible_documents, of whose documents nothing is read where no removal waits.
      SELECT d.id FROM graphrag.documents d
       WHERE EXISTS (SELECT FROM graphrag._removals) AND pg_catalog.num_nulls(d.retracted_at) <> 0
         AND (SELECT graphrag._whole_corpora())[d.corpus_id] AND (SELECT w.flags FROM whole w)[d.corpus_id] IS NOT TRUE
       UNION
      SELECT v.id FROM graphrag.visible_documents() v (id) WHERE NOT graphrag._sees_all()
  ), stated AS (
      SELECT m.entity_id AS id FROM visible v JOIN graphrag.entity_mentions m ON m.document_id = v.id
       UNION
      SELECT e.id
        FROM visible v
        JOIN graphrag.relationship_mentions m ON m.document_id = v.id
        JOIN graphrag.relationships r ON r.id = m.relationship_id
       CROSS JOIN LATERAL (VALUES (r.low_id), (r.high_id)) AS e (id)
  ), stated_keys AS MATERIALIZED (
      -- By number first: by key entities would be found, and counted in plans, that hidden documents alone state.
      SELECT e.corpus_id, e.key, e.id FROM stated t JOIN graphrag.entities e ON e.id = t.id
  ), named AS MATERIALIZED (
      -- Mostly the chunk that makes a claim mentions what it is about: then this is not read.
      SELECT pg_catalog.jsonb_object_agg(k.corpus_id || ' ' || k.key, k.id ORDER BY k.is_alias) AS ids
        FROM (SELECT e.*, false AS is_alias FROM stated_keys e
               UNION ALL
              SELECT e.corpus_id, a.key, e.id, true
                FROM stated_keys e
                JOIN graphrag.aliases a ON a.corpus_id = e.corpus_id AND a.entity_key = e.key) k
  )
  SELECT c.name, y.id, y.document_id, y.chunk_id,
         coalesce(s.entity_id, ((SELECT n.ids FROM named n) ->> (y.corpus_id || ' ' || y.subject_key))::bigint), y.subject,
         coalesce(o.entity_id, CASE WHEN y.object_key IS NOT NULL THEN
                  ((SELECT n.ids FROM named n) ->> (y.corpus_id || ' ' || y.object_key))::bigint END), y.object,
         y.type, y.status, y.start_date, y.end_date, y.description, y.source_text
    FROM graphrag.claims y
    JOIN graphrag.corpora c ON c.id = y.corpus_id
    LEFT JOIN graphrag.entity_mentions s ON s.chunk_id = y.chunk_id AND s.raw_key = y.subject_key
    -- Most have no object, and are not looked up.
    LEFT JOIN LATERAL (SELECT m.entity_id FROM graphrag.entity_mentions m
                        WHERE m.chunk_id = y.chunk_id AND m.raw_key = y.object_key OFFSET 0) o ON true
   WHERE (NOT graphrag._sees_all() OR EXISTS (SELECT FROM graphrag._removals))
     -- Numbers, since of a boolean the planner expects a half, and then looks mentions up one by one.
     AND coalesce((SELECT w.flags FROM whole w)[y.corpus_id], false)::int <> 1
     AND (y.document_id IN (SELECT v.id FROM visible v))::int <> 0
  OFFSET 0) p CROSS JOIN pg_catalog.generate_series(1, 1)) u;

COMMENT ON COLUMN graphrag.graph_claims.subject_id IS 'Entity the claim is about, aliases resolved; null: no document that the caller may see mentions one, or somebody deleted it';

-- Each count is a subquery of its own: a tool that does not select it does not pay for it. OFFSET 0: a chunk is looked up. Without statistics
-- the planner expects of a document one chunk in two hundred, and of those few that are in a range.
CREATE OR REPLACE VIEW graphrag.document_coverage WITH (security_barrier = true) AS
SELECT d.corpus,
       d.id AS document_id,
       d.source_key,
       d.title,
       d.status,
       d.error,
       pg_catalog.char_length(d.content) AS characters,
       (SELECT pg_catalog.count(*) FROM graphrag.chunks c WHERE c.document_id = d.shown_id) AS chunks,
       (SELECT pg_catalog.count(*)
          FROM graphrag.chunks c
         CROSS JOIN LATERAL (SELECT FROM graphrag.chunk_windows x WHERE x.chunk_id = c.id OFFSET 0) w
         WHERE c.document_id = d.shown_id AND c.ordinal BETWEEN 0 AND 2147483647) AS windows,
       (SELECT coalesce(pg_catalog.sum(c.token_count), 0) FROM graphrag.chunks c WHERE c.document_id = d.shown_id) AS tokens,
       (SELECT pg_catalog.count(DISTINCT m.entity_id)
          FROM graphrag.chunks c
         CROSS JOIN LATERAL (SELECT x.entity_id FROM graphrag.entity_mentions x WHERE x.chunk_id = c.id OFFSET 0) m
         WHERE c.document_id = d.shown_id AND c.ordinal BETWEEN 0 AND 2147483647) AS entities,
       (SELECT pg_catalog.count(DISTINCT m.relationship_id)
          FROM graphrag.chunks c
         CROSS JOIN LATERAL (SELECT x.relationship_id FROM graphrag.relationship_mentions x WHERE x.chunk_id = c.id OFFSET 0) m
         WHERE c.document_id = d.shown_id AND c.ordinal BETWEEN 0 AND 2147483647) AS relationships,
       d.created_at,
       d.updated_at,
       d.indexed_at,
       d.retracted_at,
       d.retraction_reason
  FROM (
SELECT y.*, CASE WHEN y.retracted_at IS NULL THEN y.id END AS shown_id
  FROM graphrag.documents y
 WHERE graphrag._sees_all()
 UNION ALL
SELECT v.*
  FROM (SELECT y.*, CASE WHEN (SELECT graphrag._whole_corpora())[y.corpus_id] AND y.retracted_at IS NULL OR y.indexed_hash = y.content_hash THEN y.id END AS shown_id
          FROM graphrag.documents y
         WHERE NOT graphrag._sees_all()
           AND y.id = ANY (ARRAY(SELECT graphrag.visible_documents(false)))
        OFFSET 0) v) d;

COMMENT ON COLUMN graphrag.document_coverage.status IS 'pending, indexed, failed or retracted';
COMMENT ON COLUMN graphrag.document_coverage.retracted_at IS 'Since when it is retracted; null: it is not';
COMMENT ON COLUMN graphrag.document_coverage.retraction_reason IS 'Why it is retracted';

-- The graph as the documents valid at a moment say it. Functions, since a view takes no moment. SECURITY INVOKER: they ask as the caller
-- which documents he may see, then read what these state with the owner's rights (server/access/entry.py).
-- The public ones are SQL and without settings, so that the planner sees through them: where all is valid they are the view, and a
-- LIMIT reads no more than it shows; where not, the view is not read at all. The settings of the others make the moment the same text in
-- every session.
CREATE TYPE graphrag.graph_node AS (
    corpus text, entity_id bigint, key text, name text, type text, description text, degree int, mention_count int
);
COMMENT ON TYPE graphrag.graph_node IS 'A row as of graph_nodes, but for its communities, which are of no moment, and its origin';
CREATE TYPE graphrag.graph_edge AS (
    corpus text, relationship_id bigint, source_id bigint, source text, source_type text, target_id bigint, target text, target_type text,
    keywords text, keyword_list text[], description text, weight double precision, mention_count int, pmi double precision,
    strength double precision
);
COMMENT ON TYPE graphrag.graph_edge IS 'A row as of graph_edges, but for its origin';

CREATE OR REPLACE FUNCTION graphrag._all_valid_at(corpus text, at timestamptz) RETURNS text
LANGUAGE plpython3u STABLE COST 100000
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.explore.views:all_valid_at", corpus, at)
$$;
COMMENT ON FUNCTION graphrag._all_valid_at(text, timestamptz) IS 'The corpus (its history where it has one) where views show its graph of that moment, and no other that they make anew; else null';

CREATE OR REPLACE FUNCTION graphrag._graph_nodes_at(corpus text, at timestamptz) RETURNS SETOF graphrag.graph_node
LANGUAGE plpython3u STABLE COST 1000000 ROWS 1000
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.explore.views:nodes_at", corpus, at)
$$;
COMMENT ON FUNCTION graphrag._graph_nodes_at(text, timestamptz) IS 'Rows of graph_nodes_at()';

CREATE OR REPLACE FUNCTION graphrag.graph_nodes_at(corpus text, at timestamptz) RETURNS SETOF graphrag.graph_node
LANGUAGE sql STABLE COST 1000000 ROWS 1000
BEGIN ATOMIC
    WITH whole AS MATERIALIZED (SELECT graphrag._all_valid_at(graph_nodes_at.corpus, graph_nodes_at.at) AS corpus)
    SELECT v.corpus, v.entity_id, v.key, v.name, v.type, v.description, v.degree, v.mention_count
      FROM graphrag.graph_nodes v
     WHERE (SELECT w.corpus FROM whole w) IS NOT NULL AND v.corpus = (SELECT w.corpus FROM whole w)
     UNION ALL
    SELECT x.*
      FROM graphrag._graph_nodes_at(graph_nodes_at.corpus, graph_nodes_at.at) x
     WHERE (SELECT w.corpus FROM whole w) IS NULL;
END;
COMMENT ON FUNCTION graphrag.graph_nodes_at(text, timestamptz) IS 'Rows as of graph_nodes, of the graph that the documents of a corpus make which are valid at a moment (valid_from <= at < valid_to; null: no bound) and which the caller may see. 42704 for an unknown corpus, 22023 for no date.';

CREATE OR REPLACE FUNCTION graphrag._graph_edges_at(corpus text, at timestamptz) RETURNS SETOF graphrag.graph_edge
LANGUAGE plpython3u STABLE COST 10000000 ROWS 1000
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.explore.views:edges_at", corpus, at)
$$;
COMMENT ON FUNCTION graphrag._graph_edges_at(text, timestamptz) IS 'Rows of graph_edges_at()';

CREATE OR REPLACE FUNCTION graphrag.graph_edges_at(corpus text, at timestamptz) RETURNS SETOF graphrag.graph_edge
LANGUAGE sql STABLE COST 10000000 ROWS 1000
BEGIN ATOMIC
    WITH whole AS MATERIALIZED (SELECT graphrag._all_valid_at(graph_edges_at.corpus, graph_edges_at.at) AS corpus)
    SELECT v.corpus, v.relationship_id, v.source_id, v.source, v.source_type, v.target_id, v.target, v.target_type, v.keywords, v.keyword_list,
           v.description, v.weight, v.mention_count, v.pmi, v.strength
      FROM graphrag.graph_edges v
     WHERE (SELECT w.corpus FROM whole w) IS NOT NULL AND v.corpus = (SELECT w.corpus FROM whole w)
     UNION ALL
    SELECT x.*
      FROM graphrag._graph_edges_at(graph_edges_at.corpus, graph_edges_at.at) x
     WHERE (SELECT w.corpus FROM whole w) IS NULL;
END;
COMMENT ON FUNCTION graphrag.graph_edges_at(text, timestamptz) IS 'Rows as of graph_edges, of the graph that the documents of a corpus make which are valid at a moment (valid_from <= at < valid_to; null: no bound) and which the caller may see. 42704 for an unknown corpus, 22023 for no date.';

-- Which chunks mention which entities, with the attributes that a schema (the option entity_types) asked for; and what it had no place for.
CREATE OR REPLACE VIEW graphrag.graph_mentions WITH (security_barrier = true) AS
SELECT u.corpus, u.entity_id, u.name, u.type, u.document_id, u.source_key, u.chunk_id, u.attributes, u.title, u.day, u.metadata,
       coalesce(u.extraction, CASE WHEN u.is_row THEN 'row' ELSE 'nlp' END) AS extraction
  FROM (
SELECT m.* FROM graphrag._merged_mentions m
 UNION ALL
SELECT p.*
  FROM (SELECT n.corpus, n.entity_id, n.name, n.type, m.document_id, m.chunk_id, m.attributes, m.source_key, m.title, m.day, m.metadata,
               c.extraction, c.is_row
          FROM graphrag._visible_mentions m
          JOIN graphrag._visible_entities n ON n.entity_id = m.entity_id
          LEFT JOIN graphrag.chunks c ON c.id = m.chunk_id
        OFFSET 0) p CROSS JOIN pg_catalog.generate_series(1, 1)) u;

COMMENT ON VIEW graphrag.graph_mentions IS 'Which chunks of which documents mention which entities, one row for each name in a chunk';
COMMENT ON COLUMN graphrag.graph_mentions.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.graph_mentions.entity_id IS 'Number of the entity';
COMMENT ON COLUMN graphrag.graph_mentions.name IS 'Its name';
COMMENT ON COLUMN graphrag.graph_mentions.type IS 'Its type';
COMMENT ON COLUMN graphrag.graph_mentions.document_id IS 'Document that mentions it';
COMMENT ON COLUMN graphrag.graph_mentions.source_key IS 'Its key: a view of these serves as $relation of a filter';
COMMENT ON COLUMN graphrag.graph_mentions.chunk_id IS 'Chunk that mentions it';
COMMENT ON COLUMN graphrag.graph_mentions.attributes IS 'Attributes that the chunk gives, by the schema of the corpus: {name: value}; null: none';
COMMENT ON COLUMN graphrag.graph_mentions.title IS 'Title of the document';
COMMENT ON COLUMN graphrag.graph_mentions.day IS 'Day of the document: of its valid_from, else of its created_at (UTC)';
COMMENT ON COLUMN graphrag.graph_mentions.metadata IS 'Metadata of the document';
COMMENT ON COLUMN graphrag.graph_mentions.extraction IS 'What it is of: complete (a model''s reply, or an import), repaired (the readable part of one), cut off (the beginning of one, and the NLP extractor), stood in (the NLP extractor, where nothing of the model''s replies could be used), nlp, or row';

CREATE OR REPLACE VIEW graphrag.entity_attributes WITH (security_barrier = true) AS
SELECT n.corpus, n.entity_id, n.name, n.type, x.key AS attribute, x.value, pg_catalog.count(DISTINCT m.chunk_id)::int AS mention_count
  FROM (SELECT m.entity_id, m.chunk_id, m.attributes FROM graphrag._merged_mentions m WHERE m.attributes IS NOT NULL
         UNION ALL
        SELECT p.*
          FROM (SELECT m.entity_id, m.chunk_id, m.attributes FROM graphrag._visible_mentions m WHERE m.attributes IS NOT NULL OFFSET 0) p) m
  JOIN graphrag.graph_nodes n ON n.entity_id = m.entity_id
 CROSS JOIN LATERAL pg_catalog.jsonb_each(m.attributes) x
   -- Of all that have any. The planner knows nothing of the column, and expects one mention in a hundred, where it expected all.
 WHERE m.attributes OPERATOR(pg_catalog.@>) '{}'
 GROUP BY n.corpus, n.entity_id, n.name, n.type, x.key, x.value;

COMMENT ON VIEW graphrag.entity_attributes IS 'Attributes of entities, which a model extracted by the schema of the corpus: one row for each value that chunks give';
COMMENT ON COLUMN graphrag.entity_attributes.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.entity_attributes.entity_id IS 'Number of the entity';
COMMENT ON COLUMN graphrag.entity_attributes.name IS 'Its name';
COMMENT ON COLUMN graphrag.entity_attributes.type IS 'Its type';
COMMENT ON COLUMN graphrag.entity_attributes.attribute IS 'Attribute';
COMMENT ON COLUMN graphrag.entity_attributes.value IS 'Value, of the attribute''s type: a JSON string (also a date, as 2024-12-31), number or boolean';
COMMENT ON COLUMN graphrag.entity_attributes.mention_count IS 'Number of chunks that give this value';

CREATE OR REPLACE VIEW graphrag.unfit_extractions WITH (security_barrier = true) AS
SELECT u.corpus, u.document_id, u.source_key, u.chunk_id, u.kind, u.item, u.reason, u.is_kept
  FROM (SELECT d.corpus, d.id AS document_id, d.source_key, c.id AS chunk_id, x.value ->> 'kind' AS kind, x.value -> 'item' AS item,
               x.value ->> 'reason' AS reason, x.value ? 'kept' AS is_kept
          FROM graphrag.chunks c
          JOIN graphrag.documents d ON d.id = c.document_id AND pg_catalog.num_nulls(d.retracted_at) <> 0
         CROSS JOIN LATERAL pg_catalog.jsonb_array_elements(c.unfit) x
         WHERE c.unfit IS NOT NULL
           -- As of _visible_documents, but asked of few chunks in place of all documents. A number: of booleans the planner expects a half.
           AND ((SELECT graphrag._whole_corpora())[c.corpus_id] OR c.document_id IN (SELECT graphrag.visible_documents()))::int <> 0
        OFFSET 0) u;

COMMENT ON VIEW graphrag.unfit_extractions IS 'What models extracted and the text or the schema of the corpus has no place for. It is kept apart, no search, view or graph shows it; or kept and marked (is_kept)';
COMMENT ON COLUMN graphrag.unfit_extractions.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.unfit_extractions.document_id IS 'Document';
COMMENT ON COLUMN graphrag.unfit_extractions.source_key IS 'Its key';
COMMENT ON COLUMN graphrag.unfit_extractions.chunk_id IS 'Chunk';
COMMENT ON COLUMN graphrag.unfit_extractions.kind IS 'entity, attribute, relationship, description or claim; reply: of a chunk for which NLP stood in; rest: so many more of the chunk, which are only counted';
COMMENT ON COLUMN graphrag.unfit_extractions.item IS 'What the model said: {name, type}, {name, attribute, value}, {source, target, keywords}, {said} or {count}; of a description or claim, lacking: the numbers and names in it that the text does not have';
COMMENT ON COLUMN graphrag.unfit_extractions.reason IS 'Why it does not fit';
COMMENT ON COLUMN graphrag.unfit_extractions.is_kept IS 'Whether the graph has it all the same: descriptions and claims, and, with grounding marked, names';

-- When documents speak of entities, for BI tools: by the day a document begins to hold, else the day it came.
CREATE OR REPLACE VIEW graphrag.entity_timeline WITH (security_barrier = true) AS
WITH whole AS MATERIALIZED (
    SELECT c.flags FROM graphrag._merged_corpora c
)
SELECT u.corpus, u.entity_id, u.name, u.type, u.day, pg_catalog.date_trunc('month', u.day::timestamp)::date AS month, u.documents, u.mentions
  FROM (
SELECT t.corpus, t.entity_id, e.name, e.type, t.day, t.documents, t.mentions
  FROM (SELECT m.corpus, m.entity_id, m.day, pg_catalog.count(DISTINCT m.document_id) AS documents, pg_catalog.count(*) AS mentions
          FROM graphrag._merged_mentions m
         GROUP BY 2, 3, 1) t
  LEFT JOIN graphrag.entities e ON e.id = t.entity_id AND (SELECT w.flags FROM whole w)[e.corpus_id]
 WHERE EXISTS (SELECT FROM whole)
 UNION ALL
SELECT p.*
  FROM (SELECT n.corpus, n.entity_id, n.name, n.type, t.day, t.documents, t.mentions
          FROM (SELECT m.entity_id, m.day, pg_catalog.count(DISTINCT m.document_id) AS documents, pg_catalog.count(*) AS mentions
                  FROM graphrag._visible_mentions m
                 GROUP BY 1, 2) t
          JOIN graphrag._visible_entities n ON n.entity_id = t.entity_id
        OFFSET 0) p CROSS JOIN pg_catalog.generate_series(1, 1)) u;

COMMENT ON COLUMN graphrag.entity_timeline.type IS 'Most frequent type that says what it is, else NAME or CONCEPT';

-- Of what is there now: a document counts on the day its current content was indexed, an entity on the day of its first document.
CREATE OR REPLACE VIEW graphrag.graph_growth WITH (security_barrier = true) AS
WITH indexed AS (
    SELECT d.id, d.corpus_id, (d.indexed_at AT TIME ZONE pg_catalog.current_setting('TimeZone'))::date AS day
      FROM graphrag._visible_documents d
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


-- Pictures of a neighbourhood, as text that other programs draw. They show what neighbors() and the views show the caller.
CREATE OR REPLACE FUNCTION graphrag.to_dot(entity text, corpus text DEFAULT 'default', hops int DEFAULT 1, max_nodes int DEFAULT 50) RETURNS text
LANGUAGE plpython3u STABLE COST 300000
SET search_path = pg_catalog, pg_temp SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.explore.drawings:to_dot", entity, corpus, hops, max_nodes)
$$;

CREATE OR REPLACE FUNCTION graphrag.to_mermaid(entity text, corpus text DEFAULT 'default', hops int DEFAULT 1, max_nodes int DEFAULT 50) RETURNS text
LANGUAGE plpython3u STABLE COST 300000
SET search_path = pg_catalog, pg_temp SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.explore.drawings:to_mermaid", entity, corpus, hops, max_nodes)
$$;
COMMENT ON FUNCTION graphrag.to_mermaid(text, text, int, int) IS 'Mermaid flowchart of an entity''s neighbourhood, for Markdown: as to_dot(), with at most 500 relationships, the strongest, since Mermaid refuses more. A line is labelled with its keywords, without any with what its sentence says between the two names.';

-- Drawings of a community, as 150_drawings.sql has them of a neighbourhood.
CREATE OR REPLACE FUNCTION graphrag.to_dot(community_id bigint, max_nodes int DEFAULT 50) RETURNS text
LANGUAGE plpython3u STABLE COST 300000
SET search_path = pg_catalog, pg_temp SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.explore.drawings:community_to_dot", community_id, max_nodes)
$$;

CREATE OR REPLACE FUNCTION graphrag.to_mermaid(community_id bigint, max_nodes int DEFAULT 50) RETURNS text
LANGUAGE plpython3u STABLE COST 300000
SET search_path = pg_catalog, pg_temp SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.explore.drawings:community_to_mermaid", community_id, max_nodes)
$$;

-- Search. STABLE, read only, and at work on a hot standby. HNSW settings are pinned here, so that no session can under-fill results;
-- likewise, in all that readers call, what has GIN leave rows out by chance, and what says how names of tables are written.
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
LANGUAGE plpython3u STABLE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.search:search", query, corpus, mode, top_k, filter, low_level_keywords,
            high_level_keywords, options)
$$;
COMMENT ON FUNCTION graphrag.search(text, text, text, int, jsonb, text[], text[], jsonb) IS 'Chunks that answer a query, best first. mode: naive, bm25, local, global, hybrid, mix, path, ppr, graph_local, graph_global, drift, lazy. top_k: rows (0–10,000). filter: jsonb containment on documents.metadata; with operators ($gte, $in, $exists, $prefix, $or, $not, $source_key, $ids, $relation …) what docs/search.md says. Keywords given here are used instead of the query''s own. explain says which retriever found the row, at which rank and score, through which entity or relationship. A corpus of another node is searched there, where the caller has a user mapping for the foreign server of its name. 42704 unknown corpus, or one of a node that is not reached from here; 08001, 08006, 08P01 a node that is not there or answers something else; 22023 unknown mode or option, or a bad filter.';

-- Over several corpora. Another name for the argument, which has no default: search('…') and corpus => '…' mean one corpus.
CREATE OR REPLACE FUNCTION graphrag.search(
    query               text,
    corpora             text[],
    mode                text DEFAULT 'hybrid',
    top_k               int DEFAULT 10,
    filter              jsonb DEFAULT NULL,
    low_level_keywords  text[] DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL,
    options             jsonb DEFAULT '{}',
    corpus_timeout      double precision DEFAULT NULL
) RETURNS TABLE (rank int, chunk_id bigint, document_id bigint, source_key text, title text, content text, score double precision, explain jsonb, corpus text)
LANGUAGE plpython3u STABLE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.several_corpora:search_corpora", query, corpora, mode, top_k, filter, low_level_keywords,
            high_level_keywords, options, corpus_timeout)
$$;
COMMENT ON FUNCTION graphrag.search(text, text[], text, int, jsonb, text[], text[], jsonb, double precision) IS 'search() over several corpora, in one list: corpora has names, or * for all that the caller may read, histories aside, at any node. Each is searched as it is alone; score is that of its own answer, and relevance, which explain has, is what the rows are merged by. corpus_timeout: seconds that each may take; without it, one of another node 60. A corpus that fails or takes longer is a WARNING and in explain.unanswered of every row, and an error where no other has a row. 22004 for a null; 22023 no name; 42704 an unknown corpus, or none that may be read; 42501 a corpus that may not; 54000 more than 100. Others as of search().';

-- search() with the mode fixed. Written by docs/modes.py.

CREATE OR REPLACE FUNCTION graphrag.naive_search(
    query               text,
    corpus              text DEFAULT 'default',
    top_k               int DEFAULT 10,
    filter              jsonb DEFAULT NULL,
    options             jsonb DEFAULT '{}'
) RETURNS TABLE (rank int, chunk_id bigint, document_id bigint, source_key text, title text, content text, score double precision, explain jsonb)
LANGUAGE sql STABLE COST 1000000 ROWS 10
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
LANGUAGE sql STABLE COST 1000000 ROWS 10
BEGIN ATOMIC
    SELECT s.rank, s.chunk_id, s.document_id, s.source_key, s.title, s.content, s.score, s.explain
      FROM graphrag.search(bm25_search.query, bm25_search.corpus, 'bm25', top_k => bm25_search.top_k, filter => bm25_search.filter,
                           options => bm25_search.options) s;
END;

CREATE OR REPLACE FUNCTION graphrag.local_search(
    query               text,
    corpus              text DEFAULT 'default',
    top_k               int DEFAULT 10,
    filter              jsonb DEFAULT NULL,
    low_level_keywords  text[] DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL,
    options             jsonb DEFAULT '{}'
) RETURNS TABLE (rank int, chunk_id bigint, document_id bigint, source_key text, title text, content text, score double precision, explain jsonb)
LANGUAGE sql STABLE COST 1000000 ROWS 10
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
LANGUAGE sql STABLE COST 1000000 ROWS 10
BEGIN ATOMIC
    SELECT s.rank, s.chunk_id, s.document_id, s.source_key, s.title, s.content, s.score, s.explain
      FROM graphrag.search(global_search.query, global_search.corpus, 'global', top_k => global_search.top_k, filter => global_search.filter,
                           low_level_keywords => global_search.low_level_keywords, high_level_keywords => global_search.high_level_keywords,
                           options => global_search.options) s;
END;
COMMENT ON FUNCTION graphrag.global_search(text, text, int, jsonb, text[], text[], jsonb) IS 'search() with mode global: LightRAG global: relationships about the query''s theme, their endpoints, and the chunks that state them. GraphRAG''s global search over community reports is another thing (mode graph_global)';

CREATE OR REPLACE FUNCTION graphrag.hybrid_search(
    query               text,
    corpus              text DEFAULT 'default',
    top_k               int DEFAULT 10,
    filter              jsonb DEFAULT NULL,
    low_level_keywords  text[] DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL,
    options             jsonb DEFAULT '{}'
) RETURNS TABLE (rank int, chunk_id bigint, document_id bigint, source_key text, title text, content text, score double precision, explain jsonb)
LANGUAGE sql STABLE COST 1000000 ROWS 10
BEGIN ATOMIC
    SELECT s.rank, s.chunk_id, s.document_id, s.source_key, s.title, s.content, s.score, s.explain
      FROM graphrag.search(hybrid_search.query, hybrid_search.corpus, 'hybrid', top_k => hybrid_search.top_k, filter => hybrid_search.filter,
                           low_level_keywords => hybrid_search.low_level_keywords, high_level_keywords => hybrid_search.high_level_keywords,
                           options => hybrid_search.options) s;
END;

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
LANGUAGE plpython3u STABLE COST 1000000
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.context:context", query, corpus, mode, max_tokens, filter, low_level_keywords,
            high_level_keywords, options)
$$;
COMMENT ON FUNCTION graphrag.context(text, text, text, int, jsonb, text[], text[], jsonb) IS 'Context for a language model: {entities, relationships, reports, claims, tables, chunks, references, prompt, tokens}. Reports are in graph_local, graph_global and drift, claims in graph_local, drift and lazy. max_tokens bounds the whole (default: option max_total_tokens); options max_entity_tokens, max_relation_tokens, max_row_tokens, chunk_top_k and include_chunks bound its parts. Where nothing is found, explain.empty says why.';

-- What the first searches of a session would load, for connection pools.
CREATE OR REPLACE FUNCTION graphrag.warm(corpus text DEFAULT 'default') RETURNS jsonb
LANGUAGE plpython3u STABLE COST 1000000
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.warm:warm", corpus)
$$;
COMMENT ON FUNCTION graphrag.warm(text) IS 'Loads into the session what its first searches of a corpus would load: models, modules, and what graphrag.session_memory lets it keep of the corpus. Asks no endpoint. Returns {ms, cached: bytes by kind}; cached only to who sees the whole corpus. 42704 unknown corpus.';

-- What was asked, where a corpus opts in with "query_log": true.


-- With the caller's rights: readers add to the log of what they may read, and do not read it. Nothing happens for a corpus that has
-- not opted in, or where nothing may be written.
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
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.answer.query_log:log_named", question, corpus, kind, mode, milliseconds, entities,
            relationships, chunks, usage)
$$;
COMMENT ON FUNCTION graphrag.log_query(text, text, text, text, double precision, int, int, int, jsonb) IS 'Notes a search in the query log of a corpus that opted in ("query_log": true); true: it is noted; false: the corpus has not opted in, the caller sees nothing of it or has noted 600 queries of it in this minute, or nothing may be written. kind: search or context. 22023 for a time or a count that is none. For applications, after search() or context(), which only read: the Python client (log_queries) and the CLI do it. ask() and ask_stream() log themselves.';

CREATE OR REPLACE VIEW graphrag.query_stats AS
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


-- For the statement that a model wrote: the fence of lists lets nothing through that writes, and this is a wall behind it, which also
-- holds nextval() and setval(). PostgreSQL lets no function have the setting as its own; the subtransaction of the statement that calls
-- it takes the setting back.
CREATE OR REPLACE FUNCTION graphrag._reading(statement text) RETURNS SETOF text
LANGUAGE plpgsql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    RETURN QUERY EXECUTE statement;
END;
$$;
COMMENT ON FUNCTION graphrag._reading(text) IS 'The texts that a statement of one column of type text returns, run with the rights of the caller; 25006 where it would write. Outside a subtransaction all that follows in the transaction can only read.';

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
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.answer.ask:ask", question, corpus, mode, max_tokens, filter, low_level_keywords,
            high_level_keywords, options, history, response_type)
$$;
COMMENT ON FUNCTION graphrag.ask(text, text, text, int, jsonb, text[], text[], jsonb, jsonb, text) IS 'Answers a question from the documents, by the corpus'' model for answers; where it has none, by their sentences. Arguments as of context(); history: [{role: user or assistant, content}]; response_type: the form of the answer, in words. One row: answer with [numbers]; citations [{number, document_id, source_key, title, chunk_id, section, pages, picture}], only of documents in the context; usage {calls, tokens_in, tokens_out, cost, cache_hits, invalid_citations; answer: "extracts" and reason where there is no model, or it gave no answer that holds, and sentences of the documents are given, each with its citation}, to who is not the extension''s owner as if nothing had been asked before, tokens being a quarter of the bytes; context (in graph_global, drift and lazy: points, what models noted, and map, drift or relevance_tests, what was read and what failed). Answers are cached by question, context, history and form. Option "sql": true: the model also writes one SELECT over attached tables and graph views, which is run as the caller; its rows are context -> ''sql'', and a citation of them has neither document nor key. With an empty context no model is asked. Option answer_timeout (seconds; default: the corpus'' option, 60): until the answer begins, all of it takes at most twice that. Options instructions (how to answer, in words), max_answer_tokens, answer_schema (a JSON schema: the answer is JSON, its citations stand in the column alone, and it is never extracts), bypass (true: the model alone, without documents), pictures (true: the model is shown up to four pictures of the context, of 5 MiB together; context -> ''pictures'' has their numbers). 0A000: option sql without the package pglast; 55000: neither a model for answers nor a text to cite; 08006: it cannot be reached; 22000: it gave no usable answer; 53400: the budget is reached.';

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
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.answer.ask:ask_stream", question, corpus, mode, max_tokens, filter, low_level_keywords,
            high_level_keywords, options, history, response_type)
$$;
COMMENT ON FUNCTION graphrag.ask_stream(text, text, text, int, jsonb, text[], text[], jsonb, jsonb, text) IS 'The answer of ask() in pieces; together they are exactly that answer. Where they turn out to be none that holds, they end there, and what follows behind a blank line are the sentences of the documents that ask() would give. To who is not the extension''s owner each is a word. They arrive as they come through a cursor: DECLARE c CURSOR FOR SELECT graphrag.ask_stream(…); FETCH 1 FROM c; closing it ends the request to the model.';

-- Age and size limits of what grows with use. Also part of every optimize job.
CREATE OR REPLACE FUNCTION graphrag.prune(corpus text DEFAULT 'default') RETURNS jsonb
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.answer.retention:prune_named", corpus)
$$;

-- What the queue would cost, before it is spent. STABLE: cuts and counts, asks nobody.
CREATE OR REPLACE FUNCTION graphrag.estimate_cost(corpus text DEFAULT 'default', extractor text DEFAULT NULL, sample int DEFAULT 500)
RETURNS TABLE (documents bigint, chunks bigint, calls bigint, cached_calls bigint, tokens_in bigint, tokens_out bigint, cost numeric, basis jsonb)
LANGUAGE plpython3u STABLE ROWS 1 SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.answer.estimate:estimate", corpus, extractor, sample)
$$;
COMMENT ON FUNCTION graphrag.estimate_cost(text, text, int) IS 'What indexing the documents that wait would cost, at most: they are cut into chunks (above sample documents: a sample of them, scaled up) and their prompts counted. extractor: nlp, llm or given, null: the corpus'' own. calls: requests to be made, every gleaning round included; cached_calls: further ones that are answered already, or will be by the same text elsewhere. cost: of extraction, of descriptions of pictures, of embeddings from an endpoint, and of summaries once the corpus has had enough calls to go by (basis.summaries.cost is null until then). basis says how it was counted. Owner only.';

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
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.answer.estimate_ask:estimate", question, corpus, mode, max_tokens, filter, low_level_keywords,
            high_level_keywords, options, history, response_type)
$$;

-- The graph that is clustered. What a model extracted counts by its weight. Concepts are pruned first, at read time, from the counts of the mentions
-- (LazyGraphRAG's index): names of one chunk and hubs (degree above mean + 3 sigma) are left out, pairs weigh their PMI, and the weakest 40 % go.
-- A corpus of under 20 chunks is clustered as it is: there is nothing to prune by. Under 100 chunks, where names of two chunks or more have
-- fewer relationships than there are chunks, they keep those with names of one chunk: what is said of these alone is a community of one chunk.
-- What a person relates counts as one mention. A weight of 0 relates nothing.
-- Joins by hashes: statistics that do not know the corpus yet say that it has one relationship, and loops over all pairs would be quadratic.
-- Names of rows are the rows' own entities (07_graph/025_row_names.sql): communities are for who sees all documents, and so all rows.
CREATE OR REPLACE FUNCTION graphrag.clustered_relationships(corpus text DEFAULT 'default')
RETURNS TABLE (relationship_id bigint, low_id bigint, high_id bigint, weight double precision)
LANGUAGE plpgsql STABLE COST 1000000 ROWS 10000 SET search_path = pg_catalog, pg_temp SET enable_nestloop = off SET jit = off
AS $function$
#variable_conflict use_column
DECLARE
    this_corpus int;
    concepts    boolean;
    chunks      double precision;
BEGIN
    SELECT c.id, coalesce(c.options ->> 'extractor', 'nlp') = 'nlp' INTO this_corpus, concepts
      FROM graphrag.corpora AS c WHERE c.name = corpus;
    IF NOT FOUND THEN
        PERFORM graphrag._unknown_corpus(corpus);
    END IF;
    SELECT greatest(count(*), 1) INTO chunks FROM graphrag.chunks AS c WHERE c.corpus_id = this_corpus;
    RETURN QUERY
    WITH names AS MATERIALIZED (
        SELECT n.name_id, n.entity_id FROM graphrag._row_names AS n WHERE n.corpus_id = this_corpus
    ), pairs AS MATERIALIZED (
        -- What is stated of two names of a row is one.
        SELECT min(r.id) AS id, least(x.low, x.high) AS low, greatest(x.low, x.high) AS high, sum(r.weight)::double precision AS weight,
               sum(r.mention_count)::int AS count
          FROM graphrag.relationships AS r
          LEFT JOIN names AS a ON a.name_id = r.low_id
          LEFT JOIN names AS b ON b.name_id = r.high_id
         CROSS JOIN LATERAL (SELECT coalesce(a.entity_id, r.low_id) AS low, coalesce(b.entity_id, r.high_id) AS high) AS x
         WHERE r.corpus_id = this_corpus AND r.weight > 0 AND x.low <> x.high
         GROUP BY 2, 3
    ), ends AS MATERIALIZED (
        SELECT e.id, coalesce(d.degree, 0) AS degree, coalesce(n.mention_count, e.mention_count) AS mention_count
          FROM graphrag.entities AS e
          LEFT JOIN (SELECT u.id, count(*) AS degree FROM pairs AS p CROSS JOIN LATERAL (VALUES (p.low), (p.high)) AS u (id) GROUP BY u.id) AS d
                 ON d.id = e.id
          LEFT JOIN graphrag._named_rows AS n ON n.entity_id = e.id
         WHERE e.corpus_id = this_corpus AND NOT EXISTS (SELECT FROM names AS x WHERE x.name_id = e.id)
    ), known AS MATERIALIZED (
        SELECT p.*, l.degree AS low_degree, h.degree AS high_degree, least(l.mention_count, h.mention_count) >= 2 AS is_repeated,
               greatest(l.mention_count, h.mention_count) < 2 AS is_of_one_chunk,
               l.mention_count AS low_mention_count, h.mention_count AS high_mention_count
          FROM pairs AS p
          JOIN ends AS l ON l.id = p.low
          JOIN ends AS h ON h.id = p.high
    ), bounds AS MATERIALIZED (
        SELECT avg(e.degree) + 3 * coalesce(stddev_pop(e.degree), 0) AS hub,
               NOT concepts OR chunks < 20 OR chunks < 100 AND chunks > (SELECT count(*) FROM known AS k WHERE k.is_repeated) AS takes_all
          FROM ends AS e WHERE e.mention_count >= 2
    ), apart AS MATERIALIZED (
        SELECT k.id, k.low, k.high,
               graphrag._strength(greatest(k.count, 1)::double precision, k.count, k.low_mention_count, k.high_mention_count, chunks) / chunks AS pmi
          FROM known AS k, bounds AS b
         WHERE NOT b.takes_all AND k.is_repeated AND k.low_degree <= b.hub AND k.high_degree <= b.hub
    )
    SELECT k.id, k.low, k.high, k.weight
      FROM known AS k, bounds AS b
     WHERE b.takes_all AND (NOT concepts OR chunks < 20 OR k.count = 0 OR NOT k.is_of_one_chunk)
     UNION ALL
    SELECT a.id, a.low, a.high, a.pmi
      FROM apart AS a
     WHERE a.pmi > 0 AND a.pmi >= (SELECT percentile_cont(0.4) WITHIN GROUP (ORDER BY l.pmi) FROM apart AS l);
END
$function$;
COMMENT ON FUNCTION graphrag.clustered_relationships(text) IS 'The relationships that communities are found in, with their weights: of a model''s extraction all, of concepts those that pruning leaves (names of two chunks or more, no hubs, PMI as weight, the weakest 40 % left out; a corpus under 20 chunks is not pruned; one under 100 in which such names have fewer relationships than there are chunks keeps all of theirs). 42704 for an unknown corpus.';

-- Make the AGE projection equal to the tables for these communities of one corpus, whatever happened to them: vertices Community, edges
-- IN_COMMUNITY from their members and PARENT to the community they are a part of. The caller holds the corpus' lock.
-- SECURITY DEFINER: the graph is the owner's (07_graph/100_ensure_graph.sql), and must be whole whoever runs the worker.
CREATE OR REPLACE FUNCTION graphrag._project_communities(corpus_id int, community_ids bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET client_min_messages = error
AS $function$
#variable_conflict use_column
DECLARE
    -- As in 07_graph/110_project.sql.
    entity       CONSTANT int := 3;
    community    CONSTANT int := 9;
    in_community CONSTANT int := 10;
    parent       CONSTANT int := 11;
BEGIN
    IF NOT graphrag._ensure_graph(corpus_id) THEN
        RETURN;
    END IF;
    -- As in 07_graph/110_project.sql.
    PERFORM pg_catalog.set_config('search_path', pg_catalog.format('pg_catalog, graphrag_%s, pg_temp', corpus_id), true);

    MERGE INTO "Community" AS v
    USING (SELECT ag_catalog._graphid(community, i.id) AS id, c.id AS community_id,
                  ag_catalog.agtype_build_map_nonull('community_id', c.id, 'level', c.level, 'size', c.size, 'title', r.title) AS properties
             FROM (SELECT DISTINCT pg_catalog.unnest(community_ids) AS id) AS i
             LEFT JOIN graphrag.communities AS c ON c.id = i.id
             LEFT JOIN graphrag.community_reports AS r ON r.community_id = c.id) AS s
       ON v.id OPERATOR(ag_catalog.=) s.id
     WHEN MATCHED AND s.community_id IS NULL THEN DELETE
     WHEN MATCHED AND pg_catalog.record_image_ne(ROW (v.properties), ROW (s.properties)) THEN UPDATE SET properties = s.properties
     WHEN NOT MATCHED AND s.community_id IS NOT NULL THEN INSERT (id, properties) VALUES (s.id, s.properties);

    MERGE INTO "PARENT" AS v
    USING (SELECT ag_catalog._graphid(parent, i.id) AS id, c.parent_id,
                  ag_catalog._graphid(community, i.id) AS start_id, ag_catalog._graphid(community, c.parent_id) AS end_id
             FROM (SELECT DISTINCT pg_catalog.unnest(community_ids) AS id) AS i
             LEFT JOIN graphrag.communities AS c ON c.id = i.id) AS s
       ON v.id OPERATOR(ag_catalog.=) s.id
     WHEN MATCHED AND s.parent_id IS NULL THEN DELETE
     WHEN MATCHED AND v.end_id OPERATOR(ag_catalog.<>) s.end_id THEN UPDATE SET end_id = s.end_id
     WHEN NOT MATCHED AND s.parent_id IS NOT NULL THEN INSERT (id, start_id, end_id) VALUES (s.id, s.start_id, s.end_id);

    DELETE FROM "IN_COMMUNITY" AS v
     USING pg_catalog.unnest(community_ids) AS i (id)
     WHERE v.end_id OPERATOR(ag_catalog.=) ag_catalog._graphid(community, i.id)
       AND NOT EXISTS (SELECT FROM graphrag.community_members AS m
                        WHERE m.id = v.id::ag_catalog.agtype::bigint & 281474976710655 AND m.community_id = i.id);

    INSERT INTO "IN_COMMUNITY" (id, start_id, end_id)
    SELECT ag_catalog._graphid(in_community, m.id), ag_catalog._graphid(entity, m.entity_id), ag_catalog._graphid(community, m.community_id)
      FROM graphrag.community_members AS m
     WHERE m.community_id = ANY (community_ids)
       AND NOT EXISTS (SELECT FROM "IN_COMMUNITY" AS v WHERE v.id OPERATOR(ag_catalog.=) ag_catalog._graphid(in_community, m.id));
END
$function$;

-- Find the communities of a corpus, or bring them up to date. Workers do it by themselves (corpus option communities).
CREATE OR REPLACE FUNCTION graphrag.refresh_communities(corpus text DEFAULT 'default') RETURNS jsonb
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "index.community.refresh:refresh_named", corpus)
$$;

-- For BI tools. Communities tell of all documents of a corpus together: they are shown to who sees it whole.
CREATE OR REPLACE VIEW graphrag.community_overview WITH (security_barrier = true) AS
WITH whole AS MATERIALIZED (SELECT graphrag._whole_corpora() AS corpora)
SELECT c.name AS corpus,
       o.id   AS community_id,
       o.level,
       o.parent_id,
       o.size,
       -- Each member is looked up (OFFSET 0), whatever else there is: no community reads a table whole.
       (SELECT pg_catalog.count(*)
          FROM graphrag.community_members l
         CROSS JOIN LATERAL (SELECT x.low_id, x.high_id FROM graphrag.relationships x WHERE x.low_id = l.entity_id OFFSET 0) r
          JOIN graphrag.community_members h ON h.entity_id = r.high_id AND h.community_id = o.id
          LEFT JOIN LATERAL (SELECT n.entity_id FROM graphrag._row_names n WHERE n.name_id = r.low_id OFFSET 0) a ON true
          LEFT JOIN LATERAL (SELECT n.entity_id FROM graphrag._row_names n WHERE n.name_id = r.high_id OFFSET 0) b ON true
         WHERE l.community_id = o.id AND coalesce(a.entity_id, r.low_id) <> coalesce(b.entity_id, r.high_id)) AS relationships,
       (SELECT pg_catalog.count(DISTINCT x.document_id)
          FROM graphrag.community_members l
         CROSS JOIN LATERAL (SELECT m.document_id FROM graphrag.entity_mentions m WHERE m.entity_id = l.entity_id OFFSET 0) x
         WHERE l.community_id = o.id) AS documents,
       r.title,
       r.summary,
       r.rating,
       r.model,
       r.written_at
  FROM graphrag.communities o
  JOIN graphrag.corpora c ON c.id = o.corpus_id
  LEFT JOIN graphrag.community_reports r ON r.community_id = o.id AND (SELECT w.corpora FROM whole w)[r.corpus_id]
 WHERE (SELECT w.corpora FROM whole w)[o.corpus_id];

COMMENT ON VIEW graphrag.community_overview IS 'Communities with their reports, one row each; of corpora that the caller sees whole: they tell of all documents together';

CREATE OR REPLACE VIEW graphrag.community_entities WITH (security_barrier = true) AS
SELECT c.name AS corpus,
       o.id   AS community_id,
       o.level,
       m.entity_id
  FROM graphrag.community_members m
  JOIN graphrag.communities o ON o.id = m.community_id
  JOIN graphrag.corpora c ON c.id = o.corpus_id
 WHERE (SELECT graphrag._whole_corpora())[o.corpus_id]
   AND NOT EXISTS (SELECT FROM graphrag._row_names n WHERE n.name_id = m.entity_id);

COMMENT ON VIEW graphrag.community_entities IS 'Which entities each community holds; of corpora that the caller sees whole';
COMMENT ON COLUMN graphrag.community_entities.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.community_entities.community_id IS 'Number of the community';
COMMENT ON COLUMN graphrag.community_entities.level IS '0 is the coarsest';
COMMENT ON COLUMN graphrag.community_entities.entity_id IS 'Number of the entity';

-- Communities and reports of another GraphRAG that wait for their entities: the next refresh takes them over, and removes the rows.

COMMENT ON COLUMN graphrag.imported_communities.part IS 'Number of the call that gave them, of those since the first: what is more than one argument may hold comes in parts';

CREATE OR REPLACE FUNCTION graphrag.import_communities(corpus text, communities jsonb, cited jsonb DEFAULT NULL, more boolean DEFAULT false) RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "index.community.imported_communities:import_communities", corpus, communities, cited, more)
$$;
COMMENT ON FUNCTION graphrag.import_communities(text, jsonb, jsonb, boolean) IS 'Makes these the communities of a corpus, with their own reports: [{number, level, parent, entities: [name], created, report: {title, summary, content, findings: [{summary, explanation}], rating, rating_explanation, model}}], parent being the number of a community one level up. Taken over by the next refresh, which is queued; until its input changes, a report stays. cited: what the numbers of references such as [Data: Entities (5); Relationships (23, +more)] stand for, {"Entities": {"5": name}, "Relationships": {"23": [source, target]}}: the texts get the numbers of here, and those that stand for nothing are left out. more: these are added to those of the calls before, in one transaction with them; parents come first. Owner only; 22023 for a bad entry, 42704 for an unknown corpus, 54000 for more than 8,388,608 characters, 55000 where more has nothing to be added to.';

-- The worker. No SET clause and no SECURITY DEFINER: either would forbid the commits between its short transactions.
CREATE OR REPLACE PROCEDURE graphrag.process_jobs(max_jobs int DEFAULT NULL)
LANGUAGE plpython3u
AS $$
from pg_graphrag.server import call
call(plpy, "0.3.0", "operate.jobs.process_jobs:process_jobs", max_jobs)
$$;

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
                  HINT = CASE WHEN home = current_database()
                         THEN 'Run CREATE EXTENSION pg_cron, then this again.'
                         WHEN home IS NULL
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
        -- A database that was dropped or renamed leaves its jobs, which fail ever after.
        EXECUTE 'SELECT cron.unschedule(j.jobid) FROM cron.job j WHERE j.jobname LIKE ''pg\_graphrag %'''
                '   AND (j.database = current_database() OR NOT EXISTS (SELECT FROM pg_database d WHERE d.datname = j.database))';
    END IF;
END
$$;

-- Maintenance of one corpus. BM25 is exact before, during and after; this makes it faster.
CREATE OR REPLACE FUNCTION graphrag.optimize(corpus text DEFAULT 'default') RETURNS jsonb
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "operate.jobs.maintenance:optimize_named", corpus)
$$;
COMMENT ON FUNCTION graphrag.optimize(text) IS
    'Packs what was added since the last time, merges small BM25 segments and forgets deleted items; builds HNSW indexes of large vector tables; prunes as prune() does. Says what it did';

-- Search measured on questions with known evidence. STABLE, as search() is: all modes see one state, and standbys measure too.

CREATE OR REPLACE FUNCTION graphrag.evaluate(
    corpus    text,
    questions jsonb,
    modes     text[] DEFAULT '{naive,bm25,hybrid}',
    k         int[] DEFAULT '{5,10}',
    baseline  text DEFAULT NULL,
    options   jsonb DEFAULT '{}'
) RETURNS SETOF graphrag.evaluation
LANGUAGE plpython3u STABLE COST 10000000 ROWS 10
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.evaluation.evaluate:evaluate", corpus, questions, modes, k, baseline, options)
$$;

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
    PERFORM graphrag._refuse_foreign_code(source);
    EXECUTE pg_catalog.format('SELECT pg_catalog.jsonb_agg(pg_catalog.to_jsonb(q.*)) FROM %s q', source) INTO questions;
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
LANGUAGE sql STABLE COST 10000000 ROWS 10
BEGIN ATOMIC
    SELECT * FROM graphrag.evaluate(corpus, graphrag._questions(questions), modes, k, baseline, options);
END;

-- So that a literal needs no cast, be it an array or the name of a table.
CREATE OR REPLACE FUNCTION graphrag.evaluate(
    corpus    text,
    questions text,
    modes     text[] DEFAULT '{naive,bm25,hybrid}',
    k         int[] DEFAULT '{5,10}',
    baseline  text DEFAULT NULL,
    options   jsonb DEFAULT '{}'
) RETURNS SETOF graphrag.evaluation
LANGUAGE sql STABLE COST 10000000 ROWS 10
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

-- Verdicts on answers, from SQL, applications and people; they grow into questions with known evidence.
CREATE TABLE graphrag.answer_feedback (
    id        bigint      NOT NULL GENERATED BY DEFAULT AS IDENTITY (SEQUENCE NAME graphrag.answer_feedback_id_seq),
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    corpus_id int         NOT NULL,
    role      name        NOT NULL,
    author    text        NOT NULL DEFAULT '',
    question  text        NOT NULL,
    verdict   text        NOT NULL,
    evidence  text[]      NOT NULL DEFAULT '{}',
    answer    text,
    mode      text,
    comment   text,
    CONSTRAINT answer_feedback_pkey PRIMARY KEY (id),
    CONSTRAINT answer_feedback_corpus_fkey FOREIGN KEY (corpus_id) REFERENCES graphrag.corpora (id) ON DELETE CASCADE,
    CONSTRAINT answer_feedback_verdict_check CHECK (verdict IN ('good', 'bad'))
);
-- A hash: a question may be longer than what an index takes.
CREATE UNIQUE INDEX answer_feedback_question_idx ON graphrag.answer_feedback (corpus_id, role, author, pg_catalog.md5(question));
SELECT pg_catalog.pg_extension_config_dump('graphrag.answer_feedback', '');
SELECT pg_catalog.pg_extension_config_dump('graphrag.answer_feedback_id_seq', '');

COMMENT ON TABLE graphrag.answer_feedback IS 'Verdicts on answers, by feedback(); the newest of each role and author on a question';
COMMENT ON COLUMN graphrag.answer_feedback.id IS 'Number of the verdict';
COMMENT ON COLUMN graphrag.answer_feedback.at IS 'Time of the verdict';
COMMENT ON COLUMN graphrag.answer_feedback.corpus_id IS 'Corpus';
COMMENT ON COLUMN graphrag.answer_feedback.role IS 'Role that called feedback()';
COMMENT ON COLUMN graphrag.answer_feedback.author IS 'Who says so, where many people share a role; empty: the role';
COMMENT ON COLUMN graphrag.answer_feedback.question IS 'The question';
COMMENT ON COLUMN graphrag.answer_feedback.verdict IS 'good or bad';
COMMENT ON COLUMN graphrag.answer_feedback.evidence IS 'Source keys of the documents that answer the question, as far as the author knows them';
COMMENT ON COLUMN graphrag.answer_feedback.answer IS 'The answer that was judged';
COMMENT ON COLUMN graphrag.answer_feedback.mode IS 'Mode of that answer';
COMMENT ON COLUMN graphrag.answer_feedback.comment IS 'A remark';

CREATE OR REPLACE FUNCTION graphrag.feedback(
    question text,
    verdict  text,
    corpus   text DEFAULT 'default',
    evidence text[] DEFAULT NULL,
    answer   text DEFAULT NULL,
    mode     text DEFAULT NULL,
    author   text DEFAULT '',
    comment  text DEFAULT NULL
) RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
call(plpy, "0.3.0", "search.evaluation.feedback:give", question, verdict, corpus, evidence, answer, mode, author, comment)
$$;
COMMENT ON FUNCTION graphrag.feedback(text, text, text, text[], text, text, text, text) IS 'Notes a verdict on an answer, good or bad. evidence: source keys of documents that answer the question, for example those that the answer cites. A later verdict of the same role and author on the question replaces it. Who may search the corpus may call it, 60 times a minute (54000); nobody but the owner reads it. 22023 for another verdict, texts that are too long, and keys of documents that the caller does not see.';

CREATE OR REPLACE FUNCTION graphrag.golden_questions(corpus text DEFAULT 'default') RETURNS jsonb
LANGUAGE plpython3u STABLE COST 100000 SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.evaluation.feedback:golden_questions", corpus)
$$;
COMMENT ON FUNCTION graphrag.golden_questions(text) IS 'The questions of the corpus'' verdicts, as evaluate() and compare_corpora() take them: [{id, question, evidence, good, bad}]. evidence: documents that most roles that named evidence for the question named, and that are still there; good, bad: number of roles. A role says what most of its authors say, of as many its newest verdict. Owner only. 42704 for an unknown corpus.';

CREATE TYPE graphrag.corpus_comparison AS (
    mode       text,
    k          int,
    metric     text,
    questions  int,
    value      double precision,
    other      double precision,
    difference double precision,
    low        double precision,
    high       double precision,
    p          double precision,
    better     int,
    worse      int,
    changed    jsonb,
    costs      jsonb
);
COMMENT ON TYPE graphrag.corpus_comparison IS 'A row of compare_corpora(), for a mode, a depth k and a metric of evaluate(). value, other: means of the two corpora. difference: other − value; low, high: its 95 % interval, bootstrap over questions, paired; p: of no difference, for one comparison. better, worse: number of questions for which the other corpus is. changed: those questions, the greatest change first: [{id, question, value, other, evidence, found, other_found}], found: source_keys of the first k documents. costs: {corpus, other}, each {documents, chunks, entities, relationships, calls, tokens_in, tokens_out, cost, p50_ms}: what is indexed, what models were asked for the corpus since it was made, and the median time of a search here.';

CREATE OR REPLACE FUNCTION graphrag.compare_corpora(
    corpus    text,
    other     text,
    questions jsonb,
    modes     text[] DEFAULT '{hybrid}',
    k         int[] DEFAULT '{5,10}',
    options   jsonb DEFAULT '{}'
) RETURNS SETOF graphrag.corpus_comparison
LANGUAGE plpython3u STABLE COST 10000000 ROWS 10
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "search.evaluation.comparison:compare", corpus, other, questions, modes, k, options)
$$;
COMMENT ON FUNCTION graphrag.compare_corpora(text, text, jsonb, text[], int[], jsonb) IS 'Measures the same questions on two corpora with the same documents, for example before a switch to other options: clone_corpus() makes the second. questions, modes, k, and options (seed, variants) as in evaluate(). Owner only. 42704 unknown corpus; 22023 as evaluate(), and for evidence that one of them lacks.';

-- What a person or a monitor asks first. With the owner's rights, for pg_monitor; an error's text may quote a document or a model, and
-- a key is the application's: whoever is not the owner is told the kind of error alone.
CREATE OR REPLACE VIEW graphrag.progress AS
SELECT c.name AS corpus,
       d.documents,
       d.indexed,
       d.pending,
       d.failed,
       i.chunks,
       i.entities,
       i.relationships,
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
       CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.now() - pg_catalog.pg_last_xact_replay_timestamp() END AS replication_lag,
       d.searchable,
       s.embedding,
       CASE WHEN s.embedding = 'all-MiniLM-L6-v2' THEN (
            SELECT pg_catalog.format('%s of the last %s chunks are in other languages than English, and found by words alone: SELECT graphrag.reembed(%L, %L)',
                                     x.foreign_chunks, x.chunks, c.name, '{"model": "multilingual-e5-small"}')
              FROM (SELECT pg_catalog.count(*) FILTER (WHERE y.language <> 'en') AS foreign_chunks, pg_catalog.count(*) AS chunks
                      FROM (SELECT z.language FROM graphrag.chunks z WHERE z.corpus_id = c.id ORDER BY z.id DESC LIMIT 100) y) x
             WHERE x.foreign_chunks > 0.1 * x.chunks) END AS embedding_advice,
       j.vectors_pending,
       j.graphs_pending,
       d.retracted,
       (SELECT pg_catalog.count(*) FROM graphrag.chunks x WHERE x.corpus_id = c.id AND x.extraction = 'stood in') AS stood_in
  FROM graphrag.corpora c
  LEFT JOIN LATERAL (
       SELECT CASE WHEN x.provider = 'local' THEN x.model ELSE x.provider || ': ' || x.model END AS embedding
         FROM graphrag.embedding_spaces x
        WHERE x.corpus_id = c.id AND x.state = 'active') s ON true
 CROSS JOIN LATERAL (
       SELECT coalesce(pg_catalog.sum(x.count), 0)::bigint                                      AS documents,
              coalesce(pg_catalog.sum(x.count) FILTER (WHERE x.status = 'indexed'), 0)::bigint  AS indexed,
              coalesce(pg_catalog.sum(x.count) FILTER (WHERE x.status = 'pending'), 0)::bigint  AS pending,
              coalesce(pg_catalog.sum(x.count) FILTER (WHERE x.status = 'failed'), 0)::bigint   AS failed,
              coalesce(pg_catalog.sum(x.count) FILTER (WHERE x.status = 'retracted'), 0)::bigint AS retracted,
              coalesce(pg_catalog.sum(x.count) FILTER (WHERE x.is_searchable), 0)::bigint       AS searchable
         FROM graphrag._document_counts x
        WHERE x.corpus_id = c.id) d
 CROSS JOIN LATERAL (
       SELECT coalesce(pg_catalog.sum(x.count) FILTER (WHERE x.relation = 'chunks'), 0)::bigint         AS chunks,
              coalesce(pg_catalog.sum(x.count) FILTER (WHERE x.relation = 'entities'), 0)::bigint       AS entities,
              coalesce(pg_catalog.sum(x.count) FILTER (WHERE x.relation = 'relationships'), 0)::bigint  AS relationships
         FROM graphrag._index_counts x
        WHERE x.corpus_id = c.id) i
 CROSS JOIN LATERAL (
       SELECT pg_catalog.count(*) FILTER (WHERE x.state <> 'failed')           AS jobs,
              pg_catalog.count(*) FILTER (WHERE x.held)                        AS waiting,
              nullif(pg_catalog.min(x.next_attempt_at) FILTER (WHERE x.held), 'infinity') AS waiting_until,
              -- Of the one that goes next: the others wait for the same, nearly always.
              (pg_catalog.array_agg(CASE WHEN o.is_owner THEN x.last_error ELSE pg_catalog.substring(x.last_error, '^([A-Za-z]+):') END
                                    ORDER BY x.next_attempt_at, x.id) FILTER (WHERE x.held))[1] AS waiting_for,
              pg_catalog.count(*) FILTER (WHERE x.state = 'leased')            AS leased,
              pg_catalog.min(x.created_at) FILTER (WHERE x.state <> 'failed')  AS oldest_pending,
              coalesce(pg_catalog.sum(pg_catalog.upper(x.chunks) - pg_catalog.lower(x.chunks)) FILTER (WHERE x.kind = 'embed'), 0)::bigint AS vectors_pending,
              coalesce(pg_catalog.sum(pg_catalog.upper(x.chunks) - pg_catalog.lower(x.chunks)) FILTER (WHERE x.kind = 'graph'), 0)::bigint AS graphs_pending
         FROM (SELECT y.*, y.state = 'pending' AND y.last_error IS NOT NULL AND y.next_attempt_at > pg_catalog.now() AS held
                 FROM graphrag.jobs y
                WHERE y.corpus_id = c.id) x,
              (SELECT pg_catalog.pg_has_role(e.extowner, 'USAGE') AS is_owner FROM pg_catalog.pg_extension e WHERE e.extname = 'pg_graphrag') o) j;

COMMENT ON COLUMN graphrag.progress.indexed IS 'Documents whose current content is indexed, text and graph';
COMMENT ON COLUMN graphrag.progress.waiting IS 'Jobs that wait after a fault: of the document, of a provider (time-out, rate limit, key), of the server (disk, memory, lock), for a budget, or for answers by batch';
COMMENT ON COLUMN graphrag.progress.waiting_until IS 'Time the first of these is tried again; retry_failed() tries them at once. Null where all wait for what somebody has to do';
COMMENT ON COLUMN graphrag.progress.waiting_for IS 'What it waits for: its last error; for others than the owner, its kind';
COMMENT ON COLUMN graphrag.progress.searchable IS 'Documents whose current text can be found; of those that are pending or failed, the graph is still to come';
COMMENT ON COLUMN graphrag.progress.embedding IS 'Embedding model of the vectors that are searched: a local one''s name, or provider and name; null before the first document';
COMMENT ON COLUMN graphrag.progress.embedding_advice IS 'Why another embedding model would find more, and how to change to it; null where the model fits the last chunks';
COMMENT ON COLUMN graphrag.progress.vectors_pending IS 'Chunks of long documents whose vectors are still to come; workers do them in parts, after the text';
COMMENT ON COLUMN graphrag.progress.graphs_pending IS 'Chunks of long documents whose graph is still to come; workers do them in parts, after the vectors';
COMMENT ON COLUMN graphrag.progress.retracted IS 'Documents that are retracted: rows without an index';
COMMENT ON COLUMN graphrag.progress.stood_in IS 'Chunks whose graph is that of the NLP extractor, as nothing of the model''s replies could be used; reindex(corpus, extraction => ''stood in'') asks again';

CREATE OR REPLACE VIEW graphrag.failed_jobs AS
SELECT j.id AS job_id,
       c.name AS corpus,
       j.kind,
       j.document_id,
       CASE WHEN o.is_owner THEN d.source_key END AS source_key,
       j.attempts,
       CASE WHEN o.is_owner THEN j.last_error ELSE pg_catalog.substring(j.last_error, '^([A-Za-z]+):') END AS last_error,
       j.created_at
  FROM graphrag.jobs j
  JOIN graphrag.corpora c ON c.id = j.corpus_id
  LEFT JOIN graphrag.documents d ON d.id = j.document_id
 CROSS JOIN (SELECT pg_catalog.pg_has_role(e.extowner, 'USAGE') AS is_owner FROM pg_catalog.pg_extension e WHERE e.extname = 'pg_graphrag') o
 WHERE j.state = 'failed';

COMMENT ON COLUMN graphrag.failed_jobs.source_key IS 'The application''s key of that document; null for others than the owner';
COMMENT ON COLUMN graphrag.failed_jobs.last_error IS 'Error of the last one; for others than the owner, its kind';

-- Who was given which corpus. A dump carries names: roles are another cluster's there, with other numbers. Here a grant holds for
-- the role that had the name when it was given: one that was dropped and made again, or renamed, has nothing before
-- grant_corpus() or repair(). What is void is not dumped, or it would come back for whoever has the name then.
CREATE TABLE graphrag.corpus_grants (
    corpus_id  int         NOT NULL,
    role       name        NOT NULL,
    level      text        NOT NULL,
    role_oid   oid         NOT NULL,
    granted_by name        NOT NULL DEFAULT current_user,
    granted_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT corpus_grants_pkey PRIMARY KEY (corpus_id, role, level),
    CONSTRAINT corpus_grants_corpus_fkey FOREIGN KEY (corpus_id) REFERENCES graphrag.corpora (id),
    CONSTRAINT corpus_grants_level_check CHECK (level IN ('read', 'write'))
);
SELECT pg_catalog.pg_extension_config_dump('graphrag.corpus_grants',
    'WHERE EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE (r.oid, r.rolname) = (role_oid, role))');

COMMENT ON TABLE graphrag.corpus_grants IS 'Which role was given which corpus, by grant_corpus()';
COMMENT ON COLUMN graphrag.corpus_grants.corpus_id IS 'Corpus';
COMMENT ON COLUMN graphrag.corpus_grants.role IS 'Role; its members that inherit have the grant too';
COMMENT ON COLUMN graphrag.corpus_grants.level IS 'read, or write (which includes read)';
COMMENT ON COLUMN graphrag.corpus_grants.role_oid IS 'The role that had the name when the grant was made or restored; 0: there was none';
COMMENT ON COLUMN graphrag.corpus_grants.granted_by IS 'Who gave it';
COMMENT ON COLUMN graphrag.corpus_grants.granted_at IS 'When';

-- A view, for current_user: the conditions on documents ask it as the reader, who sees no grants of others.
-- OFFSET 0: EXPLAIN ANALYZE would count grants of others for which a condition of the caller's held.
CREATE OR REPLACE VIEW graphrag.granted_corpora WITH (security_barrier = true) AS
SELECT g.corpus_id,
       c.name AS corpus,
       g.level
  FROM graphrag.corpus_grants g
  JOIN graphrag.corpora c ON c.id = g.corpus_id
  JOIN pg_catalog.pg_roles r ON r.oid = g.role_oid AND r.rolname = g.role
 WHERE pg_catalog.pg_has_role(r.oid, 'USAGE')
OFFSET 0;

COMMENT ON VIEW graphrag.granted_corpora IS 'Corpora that were given to the current role, or to roles it inherits from';
COMMENT ON COLUMN graphrag.granted_corpora.corpus_id IS 'Number of the corpus';
COMMENT ON COLUMN graphrag.granted_corpora.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.granted_corpora.level IS 'read, or write (which includes read)';

-- The same by the numbers of corpora, for the conditions on documents, which come first as a subscript does (_whole_corpora).
CREATE OR REPLACE FUNCTION graphrag._given_corpora(writable boolean) RETURNS boolean[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT array_agg(n IN (SELECT g.corpus_id FROM graphrag.granted_corpora g WHERE NOT writable OR g.level = 'write') ORDER BY n)
              FROM generate_series(1, (SELECT max(g.corpus_id) FROM graphrag.granted_corpora g)) n);
END
$$;
COMMENT ON FUNCTION graphrag._given_corpora(boolean) IS 'Whether the corpus of each number was given to the caller, to read or to write';

CREATE OR REPLACE FUNCTION graphrag._corpus_grant_before() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    NEW.role_oid := coalesce((SELECT r.oid FROM pg_roles r WHERE r.rolname = NEW.role), 0);
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION graphrag._corpus_grant_before() IS 'Trigger of corpus_grants: the role of that name';
CREATE OR REPLACE TRIGGER corpus_grants_before BEFORE INSERT OR UPDATE ON graphrag.corpus_grants
    FOR EACH ROW EXECUTE FUNCTION graphrag._corpus_grant_before();

CREATE OR REPLACE FUNCTION graphrag._corpus_grants_changed() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM graphrag._settle_policies();
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._corpus_grants_changed() IS 'Trigger of corpus_grants: row-level security of documents follows them';
CREATE OR REPLACE TRIGGER corpus_grants_changed AFTER INSERT OR DELETE OR TRUNCATE ON graphrag.corpus_grants
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._corpus_grants_changed();
-- Also in a session that replicates or restores with triggers off.
ALTER TABLE graphrag.corpus_grants ENABLE ALWAYS TRIGGER corpus_grants_before;
ALTER TABLE graphrag.corpus_grants ENABLE ALWAYS TRIGGER corpus_grants_changed;

-- Checks the arguments of grant_corpus() and revoke_corpus(), and locks the corpus first of all (lock_tables.sql).
CREATE OR REPLACE FUNCTION graphrag._grant_arguments(corpus text, INOUT level text, OUT corpus_id int)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    corpus_id := graphrag._administered_corpus(corpus);
    IF level IS NOT NULL THEN
        level := CASE lower(level) WHEN 'read' THEN 'read' WHEN 'reader' THEN 'read' WHEN 'write' THEN 'write' WHEN 'writer' THEN 'write' ELSE level END;
        IF level NOT IN ('read', 'write') THEN
            RAISE EXCEPTION 'there is no level "%"', level
                USING ERRCODE = 'invalid_parameter_value', HINT = 'Give read, or write, which includes read.';
        END IF;
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION graphrag.grant_corpus(corpus text, role name, level text DEFAULT 'read') RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    given record;
BEGIN
    SELECT * INTO given FROM graphrag._grant_arguments(grant_corpus.corpus, coalesce(grant_corpus.level, '')) g;
    PERFORM graphrag._grant_group(grant_corpus.role, given.level);
    -- Of a role that was dropped or renamed: its name is another's now.
    DELETE FROM graphrag.corpus_grants g
     WHERE g.role = grant_corpus.role AND g.role_oid <> (SELECT r.oid FROM pg_roles r WHERE r.rolname = grant_corpus.role);
    INSERT INTO graphrag.corpus_grants (corpus_id, role, level) VALUES (given.corpus_id, grant_corpus.role, given.level)
        ON CONFLICT ON CONSTRAINT corpus_grants_pkey DO NOTHING;
    PERFORM graphrag._warn_of_unseen(array_agg(r.attached_id))
       FROM graphrag._row_readers r
      WHERE EXISTS (SELECT FROM graphrag._attached_tables a WHERE a.corpus_id = given.corpus_id)
        AND r.corpus_id = given.corpus_id AND r.granted = (SELECT m.oid FROM pg_roles m WHERE m.rolname = grant_corpus.role) AND r.mend <> ''
     HAVING count(*) > 0;
END
$$;
COMMENT ON FUNCTION graphrag.grant_corpus(text, name, text) IS 'Gives a corpus to a role: level read shows its documents and what was made of them, write lets it INSERT, UPDATE and DELETE them too. Makes the role a member of graphrag_member or graphrag_writer. The first grant turns row-level security of documents on: COPY FROM is then for the owner alone. Owner only; 42704 for an unknown corpus or role, 22023 for another level, 0LP01 for PUBLIC and reserved roles, 55P03 when documents stay locked.';

CREATE OR REPLACE FUNCTION graphrag.revoke_corpus(corpus text, role name, level text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    given record;
BEGIN
    SELECT * INTO given FROM graphrag._grant_arguments(revoke_corpus.corpus, revoke_corpus.level) g;
    DELETE FROM graphrag.corpus_grants g
     WHERE g.corpus_id = given.corpus_id AND g.role = revoke_corpus.role AND (given.level IS NULL OR g.level = given.level);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'corpus "%" was not given to role "%"%', corpus, role, ' at level ' || given.level
            USING ERRCODE = 'undefined_object', HINT = 'SELECT * FROM graphrag.corpus_grants lists who was given what.';
    END IF;
END
$$;
COMMENT ON FUNCTION graphrag.revoke_corpus(text, name, text) IS 'Takes back what grant_corpus() gave: one level, or all of the corpus (null). The role stays a member of graphrag_member or graphrag_writer, which gives no document: memberships are the cluster''s, and another database may need them. The last grant to go turns row-level security of documents off, unless a corpus is protected. Owner only; 42704 for an unknown corpus and for what was not given.';

-- Makes a role a member of the group that a level needs. INHERIT: also where the role is NOINHERIT.
CREATE OR REPLACE FUNCTION graphrag._grant_group(role name, level text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    group_name CONSTANT name := CASE level WHEN 'write' THEN 'graphrag_writer' ELSE 'graphrag_member' END;
BEGIN
    IF lower(role) = 'public' OR role ~ '^(pg_|graphrag_(member|reader|writer)$)' THEN
        RAISE EXCEPTION 'a corpus cannot be given to %', CASE WHEN lower(role) = 'public' THEN 'PUBLIC' ELSE format('role "%s"', role) END
            USING ERRCODE = 'invalid_grant_operation', HINT = 'Give it to a role of your own; GRANT that role to those who shall have the corpus.';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = role) THEN
        RAISE EXCEPTION 'role "%" does not exist', coalesce(role, 'null')
            USING ERRCODE = 'undefined_object', HINT = 'Create it with CREATE ROLE; give the name without quotes.';
    END IF;
    IF NOT pg_has_role(role, group_name, 'USAGE') THEN
        EXECUTE format('GRANT %I TO %I WITH INHERIT TRUE', group_name, role);
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE EXCEPTION 'role "%" may not grant %', current_user, group_name
        USING ERRCODE = 'insufficient_privilege', HINT = format('As a superuser, GRANT %I TO %I, then try again.', group_name, role);
END
$$;

-- After a restore, and after roles were renamed or dropped: a restored grant waits for its role, others follow theirs.
CREATE OR REPLACE FUNCTION graphrag._repair_grants() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    WITH stray AS (
        DELETE FROM graphrag.corpus_grants g
         WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE (r.oid, r.rolname) = (g.role_oid, g.role))
           AND (g.role_oid <> 0 OR EXISTS (SELECT FROM pg_roles r WHERE r.rolname = g.role))
        RETURNING g.*
    )
    INSERT INTO graphrag.corpus_grants (corpus_id, role, level, granted_by, granted_at)
    SELECT s.corpus_id, r.rolname, s.level, s.granted_by, s.granted_at
      FROM stray s
      JOIN pg_roles r ON CASE s.role_oid WHEN 0 THEN r.rolname = s.role ELSE r.oid = s.role_oid END
        ON CONFLICT ON CONSTRAINT corpus_grants_pkey DO NOTHING;
    PERFORM graphrag._grant_group(g.role, g.level)
       FROM graphrag.corpus_grants g JOIN pg_roles r ON (r.oid, r.rolname) = (g.role_oid, g.role)
      ORDER BY g.role, g.level;
END
$$;

-- Who reads the corpora of attached rows, and what each lacks to see rows of a table. Judged as where they log in, or who takes their role
-- on does.
-- By memberships: pg_has_role() would be asked of every role of the cluster for every grant. GROUP BY keeps what is found of a table from being
-- found again for each reader, and lets who asks for one table look at no other.
CREATE OR REPLACE VIEW graphrag._row_readers AS
WITH RECURSIVE attached AS (
    SELECT t.id, t.corpus_id, t.relation, t.numbers, n.oid AS schema_id, n.nspname, c.relname, c.relowner, c.relrowsecurity, c.relforcerowsecurity,
           pg_catalog.array_agg(DISTINCT o.owner) FILTER (WHERE o.owner IS NOT NULL) AS owners,
           ARRAY(SELECT u.role FROM pg_catalog.pg_policy p CROSS JOIN LATERAL pg_catalog.unnest(p.polroles) u (role)
                  WHERE p.polrelid = t.relation AND p.polpermissive AND p.polcmd IN ('r', '*')) AS shown_to
      FROM graphrag_attached._row_tables t
      JOIN pg_catalog.pg_class c ON c.oid = t.relation
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      LEFT JOIN LATERAL graphrag_attached._code_of(t.relation) o ON c.relrowsecurity
     WHERE pg_catalog.cardinality(t.numbers) > 0
     GROUP BY t.id, t.corpus_id, t.relation, t.numbers, n.oid, n.nspname, c.relname, c.relowner, c.relrowsecurity, c.relforcerowsecurity
), given AS MATERIALIZED (
    SELECT g.corpus_id, g.role
      FROM (SELECT g.corpus_id, r.oid AS role FROM graphrag.corpus_grants g JOIN pg_catalog.pg_roles r ON (r.oid, r.rolname) = (g.role_oid, g.role)
             UNION ALL
            SELECT c.id, r.oid FROM graphrag.corpora c JOIN pg_catalog.pg_roles r ON r.rolname = 'graphrag_reader') g
     WHERE g.corpus_id IN (SELECT t.corpus_id FROM graphrag_attached._row_tables t)
), held (role, holder, inherits) AS (
    SELECT g.role, g.role, true FROM given g
     UNION
    SELECT h.role, m.member, h.inherits AND m.inherit_option FROM held h JOIN pg_catalog.pg_auth_members m ON m.roleid = h.holder
), holders AS MATERIALIZED (
    SELECT h.role, h.inherits, r.oid, r.rolname, r.rolcanlogin, r.rolsuper, r.rolbypassrls FROM held h JOIN pg_catalog.pg_roles r ON r.oid = h.holder
), readers AS MATERIALIZED (
    SELECT DISTINCT g.corpus_id, g.role AS granted, m.oid, m.rolname, coalesce(l.oid, m.oid) AS login
      FROM given g
      JOIN holders m ON m.role = g.role AND m.inherits AND (m.rolcanlogin OR m.oid = g.role)
      -- Who takes a reader's role on by SET ROLE, as a pool does.
      LEFT JOIN holders l ON NOT m.rolcanlogin AND l.role = m.oid AND l.rolcanlogin AND NOT l.rolsuper
     WHERE NOT m.rolsuper AND NOT m.rolbypassrls AND m.rolname <> 'graphrag_reader'
       AND NOT pg_catalog.pg_has_role(m.oid, (SELECT c.relowner FROM pg_catalog.pg_class c WHERE c.oid = 'graphrag.corpora'::pg_catalog.regclass), 'USAGE')
), looks AS (
    SELECT a.id, r.corpus_id, r.granted, r.oid AS reader, r.rolname, r.login,
           pg_catalog.has_schema_privilege(r.oid, a.schema_id, 'USAGE') AS may_enter,
           -- Where policies are asked, the table is locked, for which columns are not enough.
           CASE WHEN s.is_under THEN pg_catalog.has_table_privilege(r.oid, a.relation, 'SELECT')
                ELSE (SELECT pg_catalog.bool_and(pg_catalog.has_column_privilege(r.oid, a.relation, u.number, 'SELECT')) FROM pg_catalog.unnest(a.numbers) u (number))
                END AS may_select,
           CASE WHEN s.is_under
                THEN ARRAY(SELECT u.owner FROM pg_catalog.unnest(a.owners) u (owner)
                            WHERE NOT (pg_catalog.pg_has_role(u.owner, r.oid, 'MEMBER') AND pg_catalog.pg_has_role(u.owner, r.login, 'MEMBER'))
                            ORDER BY pg_catalog.pg_get_userbyid(u.owner))
                ELSE '{}' END AS owners,
           s.is_under AND NOT EXISTS (SELECT FROM pg_catalog.unnest(a.shown_to) u (role) WHERE u.role = 0 OR pg_catalog.pg_has_role(r.oid, u.role, 'USAGE')) AS lacks_policy,
           pg_catalog.pg_has_role(r.oid, a.relowner, 'USAGE') AS owns, a.nspname, a.relname
      FROM attached a
      JOIN readers r ON r.corpus_id = a.corpus_id
     CROSS JOIN LATERAL (SELECT a.relrowsecurity AND (a.relforcerowsecurity OR NOT pg_catalog.pg_has_role(r.oid, a.relowner, 'USAGE')) AS is_under) s
)
SELECT l.id AS attached_id, l.corpus_id, l.granted, pg_catalog.format('%I.%I', l.nspname, l.relname) AS attached_table, l.reader, l.rolname,
       l.may_enter AND l.may_select AND NOT l.lacks_policy AS may_select, l.owns,
       pg_catalog.concat_ws(' ',
           CASE WHEN NOT l.may_enter THEN pg_catalog.format('GRANT USAGE ON SCHEMA %I TO %I;', l.nspname, l.rolname) END,
           CASE WHEN NOT l.may_select THEN pg_catalog.format('GRANT SELECT ON %I.%I TO %I;', l.nspname, l.relname, l.rolname) END,
           CASE WHEN l.lacks_policy THEN pg_catalog.format('CREATE POLICY readers ON %I.%I FOR SELECT TO %I USING (condition);', l.nspname, l.relname, l.rolname) END,
           (SELECT pg_catalog.string_agg(graphrag_attached._lending(ARRAY[l.reader, nullif(l.login, l.reader)], u.owner), ' ')
              FROM pg_catalog.unnest(l.owners) u (owner))) AS mend
  FROM looks l;
REVOKE ALL ON graphrag._row_readers FROM PUBLIC;
COMMENT ON VIEW graphrag._row_readers IS 'Readers of corpora with attached rows, by table, and the statements without which they see none of its rows; empty: they see those that its policies show';

-- Where some reader beside its owner may SELECT a table's rows, those who may not are not meant to; policies that are not asked are another thing.
CREATE OR REPLACE VIEW graphrag._unseen_rows AS
SELECT r.attached_id, r.corpus_id, r.attached_table,
       pg_catalog.format('role "%s"%s', pg_catalog.min(r.rolname),
                         CASE WHEN pg_catalog.count(DISTINCT r.rolname) > 1 THEN pg_catalog.format(' and %s more', pg_catalog.count(DISTINCT r.rolname) - 1) ELSE '' END) AS readers,
       -- As many as one reads; where these are mended, the next are named.
       pg_catalog.array_to_string((pg_catalog.array_agg(DISTINCT r.mend))[1:5], ' ') AS mend
  FROM (SELECT x.*, pg_catalog.bool_or(x.may_select AND NOT x.owns) OVER (PARTITION BY x.attached_id, x.corpus_id) AS is_for_some FROM graphrag._row_readers x) r
 WHERE r.mend <> '' AND (r.may_select OR NOT r.is_for_some)
 GROUP BY r.attached_id, r.corpus_id, r.attached_table;
REVOKE ALL ON graphrag._unseen_rows FROM PUBLIC;
COMMENT ON VIEW graphrag._unseen_rows IS 'Attached tables of which a reader of their corpus sees no row, who that is, and the statements that mend it';

-- Tells whoever attaches, grants, or changes a table. Without a reader yet, of what the next will lack.
CREATE OR REPLACE FUNCTION graphrag._warn_of_unseen(attached_ids int[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    unseen record;
BEGIN
    FOR unseen IN
        SELECT t.relation::regclass::text AS attached_table, u.readers, u.mend, graphrag_attached._withholding(t.relation) AS owners,
               c.relrowsecurity AND NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = t.relation AND p.polpermissive AND p.polcmd IN ('r', '*')) AS lacks_policy
          FROM graphrag_attached._row_tables t
          JOIN pg_class c ON c.oid = t.relation
          LEFT JOIN LATERAL (SELECT x.* FROM graphrag._unseen_rows x WHERE (x.attached_id, x.corpus_id) = (t.id, t.corpus_id) OFFSET 0) u ON true
         WHERE t.id = ANY (attached_ids)
         ORDER BY 1
    LOOP
        IF unseen.lacks_policy AND unseen.readers IS NULL THEN
            RAISE WARNING 'rows of % are shown to no reader: it has row-level security and no policy for SELECT', unseen.attached_table
                USING HINT = format('CREATE POLICY readers ON %s FOR SELECT USING (condition);', unseen.attached_table);
        ELSIF unseen.readers IS NOT NULL THEN
            RAISE WARNING 'rows of % are not shown to %', unseen.attached_table, unseen.readers USING HINT = unseen.mend;
        ELSIF unseen.owners IS NOT NULL THEN
            RAISE WARNING 'rows of % are shown to no reader: its policies are asked for those alone whose rights % has', unseen.attached_table, unseen.owners
                USING HINT = format('GRANT reader TO %s; for each role that reads, and for the one that logs in where that takes it on by SET ROLE.', unseen.owners);
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION graphrag._warn_of_unseen(int[]) IS 'Says which attached tables show a reader no rows, and what mends it';

-- What needs somebody. With the owner's rights, for pg_monitor: numbers and names; of an error its kind alone.
CREATE OR REPLACE VIEW graphrag._health AS
WITH alive AS MATERIALIZED (
    SELECT coalesce(pg_catalog.array_agg(w.worker), '{}') AS workers FROM graphrag._workers w
), due AS (
    SELECT pg_catalog.count(*) AS jobs, pg_catalog.now() - pg_catalog.min(j.next_attempt_at) AS age
      FROM graphrag.jobs j
     WHERE j.state = 'pending' AND j.next_attempt_at <= pg_catalog.now()
       AND NOT EXISTS (SELECT FROM graphrag.corpora c WHERE c.id = j.corpus_id AND c.move IS NOT NULL)
)
SELECT CASE WHEN d.age > '15 minutes' THEN 'error' ELSE 'warning' END AS severity,
       'queue' AS subject,
       pg_catalog.format('%s jobs are due, the first for %s; workers at it: %s', d.jobs, pg_catalog.date_trunc('second', d.age),
                         CASE WHEN pg_catalog.pg_is_in_recovery() THEN 'see the primary'
                              ELSE pg_catalog.cardinality(a.workers)::text END) AS detail,
       CASE WHEN pg_catalog.pg_is_in_recovery() THEN 'health() of the primary says more: its workers do not show on a standby.'
            WHEN a.workers = '{}' THEN 'Start a worker: pg-graphrag worker, graphrag.schedule_worker() or CALL graphrag.process_jobs().'
            ELSE 'Start more workers, one for each processor, or wait.' END AS hint
  FROM due d, alive a
 WHERE d.age > '2 minutes'
 UNION ALL
SELECT 'warning', pg_catalog.format('corpus "%s"', c.name),
       pg_catalog.format('%s jobs failed for good; kinds of errors: %s', pg_catalog.count(*),
                         pg_catalog.string_agg(DISTINCT coalesce(pg_catalog.substring(j.last_error, '^([A-Za-z]+):'), 'other'), ', ')),
       'graphrag.failed_jobs has them; graphrag.retry_failed() tries them again.'
  FROM graphrag.jobs j
  JOIN graphrag.corpora c ON c.id = j.corpus_id
 WHERE j.state = 'failed' AND j.last_error NOT LIKE 'Unembeddable:%' AND c.move IS NULL
 GROUP BY c.name
 UNION ALL
SELECT 'warning', pg_catalog.format('corpus "%s"', c.name),
       pg_catalog.format('%s documents are indexed without some vectors: the endpoint has none of these texts', pg_catalog.count(*)),
       'graphrag.failed_jobs says of which, and why; the text is found by its words. graphrag.retry_failed() asks again.'
  FROM graphrag.jobs j
  JOIN graphrag.corpora c ON c.id = j.corpus_id
 WHERE j.state = 'failed' AND j.last_error LIKE 'Unembeddable:%' AND c.move IS NULL
 GROUP BY c.name
 UNION ALL
SELECT 'warning', pg_catalog.format('corpus "%s"', k.name),
       pg_catalog.format('%s chunks have the graph that NLP finds, as nothing of the model''s replies could be used; most often: %s', s.chunks, s.reason),
       pg_catalog.format('Set a larger model, then ask again: SELECT graphrag.reindex(%L, extraction => ''stood in''). graphrag.unfit_extractions has what the model said.', k.name)
  FROM (SELECT c.corpus_id, pg_catalog.count(*) AS chunks,
               pg_catalog.mode() WITHIN GROUP (ORDER BY c.unfit -> 0 ->> 'reason') AS reason
          FROM graphrag.chunks c WHERE c.extraction = 'stood in' GROUP BY c.corpus_id) s
  JOIN graphrag.corpora k ON k.id = s.corpus_id
 UNION ALL
SELECT 'warning', pg_catalog.format('corpus "%s"', k.name),
       pg_catalog.format('%s chunks have a part of the model''s reply, and what NLP finds besides: it was cut off', s.chunks),
       pg_catalog.format('Raise llm.max_output_tokens or set a larger model, then ask again: SELECT graphrag.reindex(%L, extraction => ''stood in'').', k.name)
  FROM (SELECT c.corpus_id, pg_catalog.count(*) AS chunks FROM graphrag.chunks c
         WHERE c.extraction = 'cut off' GROUP BY c.corpus_id) s
  JOIN graphrag.corpora k ON k.id = s.corpus_id
 UNION ALL
SELECT 'warning', 'leases', pg_catalog.format('%s jobs are of workers that are gone', pg_catalog.count(*)),
       'The next worker takes them over: CALL graphrag.process_jobs().'
  FROM graphrag.jobs j, alive a
 WHERE j.state = 'leased' AND j.lease <> ALL (a.workers) AND NOT pg_catalog.pg_is_in_recovery()
HAVING pg_catalog.count(*) > 0
 UNION ALL
SELECT 'error', 'disk', pg_catalog.format('was full when workers wrote; %s jobs wait for room', pg_catalog.count(*)),
       'Make room on the server. They are tried again by themselves; graphrag.retry_failed() tries them at once.'
  FROM graphrag.jobs j
 WHERE j.state = 'pending' AND j.last_error LIKE 'DiskFull:%'
HAVING pg_catalog.count(*) > 0
 UNION ALL
SELECT 'warning', pg_catalog.format('provider "%s"', s.provider),
       pg_catalog.format('is not asked before %s, after %s failures: %s', pg_catalog.date_trunc('second', s.open_until), s.failures,
                         coalesce(pg_catalog.substring(s.last_error, '^([A-Za-z]+):'), 'other')),
       'Its jobs wait and are tried again by themselves; graphrag.retry_failed() tries them at once.'
  FROM graphrag.provider_state s
 WHERE s.open_until > pg_catalog.now()
 UNION ALL
-- Between two attempts the endpoint counts as well; what it fails at counts for no job.
SELECT 'warning', pg_catalog.format('corpus "%s"', c.name),
       pg_catalog.format('%s jobs wait for an endpoint, the first for %s: %s', pg_catalog.count(*), pg_catalog.date_trunc('second', pg_catalog.now() - pg_catalog.min(j.created_at)),
                         pg_catalog.string_agg(DISTINCT pg_catalog.substring(j.last_error, '^([A-Za-z]+):'), ', ')),
       'SELECT graphrag.check_provider(…) asks it; graphrag.set_provider() says where it is, graphrag.retry_failed() tries them at once.'
  FROM graphrag.jobs j
  JOIN graphrag.corpora c ON c.id = j.corpus_id
 WHERE j.state = 'pending' AND j.errors = 0 AND j.created_at < pg_catalog.now() - '15 minutes'::interval
   AND (j.last_error LIKE 'ProviderFault:%' OR j.last_error LIKE 'TimedOut:%')
 GROUP BY c.name
 UNION ALL
SELECT CASE b.state WHEN 'reached' THEN 'error' ELSE 'warning' END, pg_catalog.format('budget of corpus "%s"', b.corpus),
       pg_catalog.format('%s of %s are spent this month', pg_catalog.round(greatest(b.spent, b.metered), 4), b.budget),
       'Work waits when it is spent. Raise llm.monthly_budget with graphrag.alter_corpus(…), or wait for the next month.'
  FROM graphrag.budgets b
 WHERE b.budget IS NOT NULL AND (b.state = 'reached' OR greatest(b.spent, b.metered) >= 0.8 * b.budget)
 UNION ALL
SELECT CASE WHEN s.state IN ('behind', 'waiting', 'failing', 'dropped') THEN 'warning' ELSE 'error' END, 'attached table ' || s.attached_table,
       pg_catalog.format('of corpus "%s" is %s%s', s.corpus, s.state,
                         CASE WHEN s.has_defect OR s.state IN ('missing', 'dropped') THEN ': ' || s.detail
                              WHEN s.state = 'failing' THEN ': ' || coalesce(s.error_kind, 'other')
                              WHEN s.error_code IS NOT NULL THEN ': SQLSTATE ' || s.error_code ELSE '' END),
       CASE WHEN s.state IN ('missing', 'dropped', 'failing') THEN s.hint
            ELSE 'graphrag.attached_tables says why, to the owner of the table; CALL graphrag.backfill_table() brings it up to date.' END
  FROM graphrag._attached_states s
 WHERE s.state IN ('missing', 'broken', 'dropped', 'failing') OR s.state IN ('behind', 'waiting') AND s.behind_since < pg_catalog.now() - '15 minutes'::interval
 UNION ALL
-- Triggers come with a dump's schema, attachments with its data.
SELECT DISTINCT 'warning', pg_catalog.format('table %I.%I', n.nspname, c.relname),
       'has the triggers of an attachment that is not there, as after a restore without data: no document follows it',
       'Attach it with graphrag.attach_table(…), or drop its triggers graphrag_….'
  FROM (SELECT DISTINCT t.tgrelid, t.tgfoid
          FROM pg_catalog.pg_trigger t
          JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid AND p.pronamespace = 'graphrag_attached'::pg_catalog.regnamespace
         WHERE t.tgparentid = 0 AND p.proname OPERATOR(pg_catalog.~) '^_changed_[0-9]+$'
           AND NOT EXISTS (SELECT FROM graphrag._attached_tables a WHERE p.proname = '_changed_' || a.id)) x
  JOIN pg_catalog.pg_class c ON c.oid = x.tgrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 -- Of partitions their table alone.
 WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_inherits i
                     JOIN pg_catalog.pg_trigger t ON t.tgrelid = i.inhparent AND t.tgfoid = x.tgfoid
                    WHERE i.inhrelid = x.tgrelid)
 UNION ALL
SELECT 'warning', 'attached table ' || u.attached_table,
       pg_catalog.format('of corpus "%s" shows no row to %s, who may read the corpus', c.name, u.readers),
       u.mend
  FROM graphrag._unseen_rows u
  JOIN graphrag._attached_tables a ON a.id = u.attached_id
  JOIN graphrag.corpora c ON c.id = a.corpus_id
 UNION ALL
SELECT 'warning', 'replication', pg_catalog.format('this standby has replayed nothing for %s', pg_catalog.date_trunc('second', s.lag)),
       'Nothing was written since, or replication is behind: see pg_stat_replication on the primary.'
  FROM (SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.now() - pg_catalog.pg_last_xact_replay_timestamp() END AS lag) s
 WHERE s.lag > '5 minutes'
 UNION ALL
-- Of what everybody may read: how a subscription connects, with its password, only superusers may.
SELECT c.severity, pg_catalog.format('subscription "%s"', s.name), c.detail, c.hint
  FROM (SELECT u.subname AS name, u.subenabled AS is_enabled, u.subslotname AS slot, t.tables, t.unready, t.example, w.latest_end_time,
               coalesce(e.apply_error_count, 0) AS apply_errors, coalesce(e.sync_error_count, 0) AS copy_errors,
               w.pid IS NULL OR w.latest_end_time IS NULL AND e.apply_error_count > 0 AS is_stopped,
               pg_catalog.now() - w.last_msg_send_time AS lag,
               pg_catalog.pg_size_pretty(pg_catalog.pg_wal_lsn_diff(w.latest_end_lsn, w.received_lsn)) AS bytes
          FROM pg_catalog.pg_subscription u
          JOIN pg_catalog.pg_database d ON d.oid = u.subdbid AND d.datname = pg_catalog.current_database()
         CROSS JOIN LATERAL (
               SELECT pg_catalog.count(*) AS tables, pg_catalog.count(*) FILTER (WHERE r.srsubstate <> 'r') AS unready,
                      pg_catalog.min(r.srrelid::pg_catalog.regclass::text) FILTER (WHERE r.srsubstate <> 'r') AS example
                 FROM pg_catalog.pg_subscription_rel r
                WHERE r.srsubid = u.oid
                  AND (r.srrelid = 'graphrag.documents'::pg_catalog.regclass
                       OR EXISTS (SELECT FROM graphrag._attached_tables a WHERE a.relation = ANY (graphrag_attached._above(r.srrelid))))) t
          LEFT JOIN pg_catalog.pg_stat_subscription w ON w.subid = u.oid AND w.relid IS NULL AND w.leader_pid IS NULL
          LEFT JOIN pg_catalog.pg_stat_subscription_stats e ON e.subid = u.oid
         WHERE t.tables > 0) s
 CROSS JOIN LATERAL (
       SELECT 'error' AS severity, pg_catalog.format('is disabled: nothing of its publisher comes, and the slot "%s" there keeps its log', s.slot) AS detail,
              pg_catalog.format('Where the cause is mended: ALTER SUBSCRIPTION %I ENABLE.', s.name) AS hint
        WHERE NOT s.is_enabled
        UNION ALL
       SELECT 'error', pg_catalog.format('has no worker that comes through: %s errors so far; the slot "%s" of the publisher keeps its log', s.apply_errors, s.slot),
              CASE WHEN s.apply_errors = 0 THEN 'The publisher does not answer, or max_logical_replication_workers are at work: the server''s log says which.'
                   ELSE 'The server''s log has the error: mostly a column or table of the publisher that is not here.'
                        ' pg-graphrag subscribe --dry-run names what differs; without --dry-run it makes it, and the subscription goes on by itself.' END
        WHERE s.is_enabled AND s.is_stopped
        UNION ALL
       SELECT 'warning', pg_catalog.format('is %s behind its publisher, by %s at least', pg_catalog.date_trunc('second', s.lag), s.bytes),
              pg_catalog.format('It applies a large transaction, waits for a lock, or the publisher is silent; pg_replication_slots of the publisher says what "%s" keeps.', s.slot)
        WHERE s.is_enabled AND NOT s.is_stopped AND s.lag > '5 minutes'
        UNION ALL
       SELECT 'warning', pg_catalog.format('has not done the first copy of %s of %s tables, %s among them; %s errors so far', s.unready, s.tables, s.example, s.copy_errors),
              'It goes on by itself; where there are errors, the server''s log has them, and pg-graphrag subscribe --dry-run names what differs.'
        WHERE s.unready > 0) c
 UNION ALL
-- Of the database or the server, as providers set it where a disk is full; what a role has is its own affair.
SELECT 'error', 'default_transaction_read_only', pg_catalog.format('is on (%s): documents, curations and workers are refused', s.source),
       'Where its cause is gone: ALTER DATABASE … RESET default_transaction_read_only, or likewise ALTER SYSTEM, or postgresql.conf.'
  FROM pg_catalog.pg_settings s
 WHERE s.name = 'default_transaction_read_only' AND s.setting = 'on' AND NOT pg_catalog.pg_is_in_recovery()
   AND s.source IN ('database', 'global', 'configuration file', 'command line')
 UNION ALL
-- PostgreSQL refuses UPDATE and DELETE of a published table that has no replica identity.
SELECT 'error', pg_catalog.format('publication "%s"', p.pubname),
       pg_catalog.format('publishes changes of %s tables that have no replica identity, %s among them: workers cannot change them',
                         pg_catalog.count(*), pg_catalog.min(c.relname::text COLLATE "C")),
       'Publish graphrag.documents alone, with the columns that docs/operations.md names. Work that waits goes on by itself; graphrag.retry_failed() tries it at once.'
  FROM pg_catalog.pg_publication p
 CROSS JOIN LATERAL pg_catalog.pg_get_publication_tables(p.pubname::text) t
  JOIN pg_catalog.pg_class c ON c.oid = t.relid
 WHERE (p.pubupdate OR p.pubdelete)
   AND c.relnamespace = (SELECT d.relnamespace FROM pg_catalog.pg_class d WHERE d.oid = 'graphrag.documents'::pg_catalog.regclass)
   AND (c.relreplident = 'n' OR c.relreplident = 'd' AND NOT EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary))
 GROUP BY p.pubname
 UNION ALL
-- It keeps its locks whatever ends: its session, the server, transaction_timeout.
SELECT 'warning', pg_catalog.format('prepared transaction "%s"', x.gid),
       pg_catalog.format('of role "%s" is open for %s, and keeps what it has locked', x.owner, pg_catalog.date_trunc('second', pg_catalog.now() - x.prepared)),
       'COMMIT PREPARED or ROLLBACK PREPARED ends it, nothing else does.'
  FROM pg_catalog.pg_prepared_xacts x
 WHERE x.database = pg_catalog.current_database() AND x.prepared < pg_catalog.now() - '10 seconds'::interval
 UNION ALL
-- Which session holds the queue up, PostgreSQL tells its log alone. It is one with an old transaction, of any database.
SELECT CASE WHEN q.share >= 0.5 THEN 'error' ELSE 'warning' END, 'queue of notifications',
       pg_catalog.format('is %s %% full, as a session that LISTENs has a transaction open, one of these: %s', pg_catalog.round(100 * q.share::numeric),
                         coalesce(s.sessions, 'see pg_stat_activity')),
       pg_catalog.format('SELECT pg_terminate_backend(%s) ends the oldest; where that one never LISTENed, the server''s log names the one that holds it up. From 50 %% on no NOTIFY of documents is sent; when it is full, who sends one cannot commit.',
                         coalesce(s.pid, 'pid'))
  FROM (SELECT CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_notification_queue_usage() END AS share) q
 CROSS JOIN LATERAL (
       SELECT pg_catalog.string_agg(pg_catalog.format('pid %s of role "%s" in database "%s" for %s', a.pid, a.usename, a.datname,
                                                      pg_catalog.date_trunc('second', pg_catalog.clock_timestamp() - a.xact_start)),
                                    ', ' ORDER BY a.xact_start) AS sessions,
              (pg_catalog.array_agg(a.pid ORDER BY a.xact_start))[1]::text AS pid
         FROM (SELECT x.* FROM pg_catalog.pg_stat_activity x
                WHERE x.backend_type = 'client backend' AND x.pid <> pg_catalog.pg_backend_pid() AND x.xact_start IS NOT NULL
                ORDER BY x.xact_start LIMIT 20) a) s
 WHERE q.share >= 0.25
 UNION ALL
-- A look at some chunks from a random one on, which are neighbours: a page or two.
SELECT 'error', pg_catalog.format('corpus "%s"', k.name),
       pg_catalog.format('of %s sampled chunks, %s have other text than their documents, %s no windows', pg_catalog.count(*),
                         pg_catalog.count(*) FILTER (WHERE s.is_other), pg_catalog.count(*) FILTER (WHERE s.is_bare)),
       'SELECT * FROM graphrag.check(corpus) names all that is wrong; please report it, and index the documents anew.'
  FROM (SELECT c.corpus_id, c.picture_id IS NULL AND c.content <> pg_catalog.substr(d.content, c.start_offset + 1, c.end_offset - c.start_offset) AS is_other,
               c.own_offset < c.end_offset AND NOT EXISTS (SELECT FROM graphrag.chunk_windows w WHERE w.chunk_id = c.id) AS is_bare
          FROM (SELECT x.* FROM graphrag.chunks x
                 WHERE x.id >= (SELECT (pg_catalog.random() * pg_catalog.max(m.id))::bigint FROM graphrag.chunks m) ORDER BY x.id LIMIT 20) c
          JOIN graphrag.documents d ON d.id = c.document_id AND d.indexed_hash = d.content_hash
         WHERE pg_catalog.octet_length(d.content) < 200000) s
  JOIN graphrag.corpora k ON k.id = s.corpus_id
 GROUP BY k.name
HAVING pg_catalog.bool_or(s.is_other OR s.is_bare)
 UNION ALL
-- What only repair() brings back.
SELECT 'error', pg_catalog.format('corpus "%s"', c.name),
       pg_catalog.format('was restored: %s', pg_catalog.concat_ws(', ', r.closed, r.jobless, r.blind)),
       'SELECT graphrag.repair(); as the owner of the extension.'
  FROM graphrag.corpora c
 CROSS JOIN LATERAL (
       SELECT CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_policy p
                                 WHERE p.polrelid = 'graphrag.documents'::pg_catalog.regclass AND p.polname = 'graphrag_protection_' || c.id
                                   AND pg_catalog.pg_get_expr(p.polqual, p.polrelid) LIKE '%\_closed(%')
                   THEN 'readers see nothing of it' END AS closed,
              CASE WHEN (SELECT pg_catalog.sum(n.count) FROM graphrag._document_counts n WHERE n.corpus_id = c.id AND n.status = 'pending') > 0
                    AND NOT EXISTS (SELECT FROM graphrag.jobs j WHERE j.corpus_id = c.id)
                   THEN 'documents are to be indexed, and no job is there for them' END AS jobless,
              CASE WHEN EXISTS (SELECT FROM graphrag._without_vectors w WHERE w.corpus_id = c.id) THEN 'its texts have no vectors' END AS blind) r
 WHERE pg_catalog.num_nonnulls(r.closed, r.jobless, r.blind) > 0
 UNION ALL
-- The fault is the documents', or somebody's who stands in the way; those of models and disks are above.
SELECT 'warning', pg_catalog.format('corpus "%s"', c.name),
       pg_catalog.format('%s jobs failed and are tried again; kinds of errors: %s', pg_catalog.count(*),
                         pg_catalog.string_agg(DISTINCT coalesce(pg_catalog.substring(j.last_error, '^([A-Za-z]+):'), 'other'), ', ')),
       'SELECT last_error FROM graphrag.jobs says more, to the owner of the extension.'
  FROM graphrag.jobs j
  JOIN graphrag.corpora c ON c.id = j.corpus_id
 WHERE j.state = 'pending' AND j.errors > 0 AND j.kind <> 'attach' -- said of the table
 GROUP BY c.name
 UNION ALL
SELECT CASE c.move ->> 'state' WHEN 'moving' THEN 'error' ELSE 'warning' END, pg_catalog.format('corpus "%s"', c.name),
       pg_catalog.format(CASE c.move ->> 'state' WHEN 'moving' THEN 'has been moving to %s for %s, and is not written' ELSE 'has been arriving from %s, with nothing new for %s' END,
                         c.move ->> 'place', pg_catalog.date_trunc('second', pg_catalog.now() - (c.move ->> 'since')::timestamptz)),
       'pg-graphrag move, repeated as before, goes on where it ended; with --undo it is taken back.'
  FROM graphrag.corpora c
 WHERE c.move ->> 'state' = 'moving' AND (c.move ->> 'since')::timestamptz < pg_catalog.now() - '1 minute'::interval
    OR c.move ->> 'state' = 'arriving' AND (c.move ->> 'since')::timestamptz < pg_catalog.now() - '15 minutes'::interval
 UNION ALL
SELECT 'warning', pg_catalog.format('corpus "%s"', c.name), 'has documents that an earlier version indexed: the graph and the words of searches are what that found in them',
       pg_catalog.format('SELECT graphrag.reindex(%L); has workers index them anew. CHANGELOG.md marks with an asterisk what that brings.', c.name)
  FROM graphrag.corpora c
 WHERE c.needs_reindex AND c.move IS NULL -- else reindex() is refused
 UNION ALL
SELECT 'warning', 'extension', pg_catalog.format('of this database is version %s; %s is installed on the server', e.extversion, a.default_version),
       'ALTER EXTENSION pg_graphrag UPDATE; open sessions go over by themselves.'
  FROM pg_catalog.pg_extension e
  JOIN pg_catalog.pg_available_extensions a ON a.name = e.extname
 WHERE e.extname = 'pg_graphrag' AND a.default_version <> e.extversion;
COMMENT ON VIEW graphrag._health IS 'What health() says of the database';

CREATE OR REPLACE FUNCTION graphrag._package_version() RETURNS text
LANGUAGE plpython3u STABLE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "operate.admin.package:version")
$$;
COMMENT ON FUNCTION graphrag._package_version() IS 'Version of the Python package that serves the session';

CREATE OR REPLACE FUNCTION graphrag.health() RETURNS TABLE (severity text, subject text, detail text, hint text)
LANGUAGE plpgsql STABLE COST 100000 ROWS 10 SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY SELECT h.severity, h.subject, h.detail, h.hint FROM graphrag._health h ORDER BY h.severity, h.subject;
    BEGIN
        PERFORM graphrag._package_version();
    EXCEPTION WHEN external_routine_exception OR undefined_file THEN
        RETURN QUERY SELECT 'error', 'package', format('does not serve: %s', SQLERRM),
                            'Install the Python package pg_graphrag of version 0.3.0 where the server''s Python finds it, or ALTER EXTENSION pg_graphrag UPDATE; then reconnect.';
    END;
END
$$;
COMMENT ON FUNCTION graphrag.health() IS 'What needs somebody, worst first: severity (error, warning), subject, detail, and a hint what to do. No row: nothing does. It looks at the queue and its workers, jobs that failed for good, are tried again or wait for an endpoint for more than 15 minutes, documents without some vectors, chunks for which NLP stood in for a model or completed its reply, leases of workers that are gone, a full disk, providers that are spared, budgets, attached tables that cannot be followed, through which a worker did not come, that are behind for more than 15 minutes, or show a reader of their corpus no row, some chunks (whether they are what their documents say, and have vectors), what only repair() brings back after a restore, corpora that an earlier version indexed, a standby''s lag, subscriptions of attached tables or documents (lag, errors, tables not copied yet), publications of tables that workers cannot change then, prepared transactions, corpora whose move to another database has ended early, the server''s queue of notifications, and versions. Cheap enough for every minute; graphrag.check() looks at what is in a corpus.';

-- What each worker does, as pg_stat_progress_* say it of the server's own commands. A claim commits before the work begins and sets
-- next_attempt_at, so the time is that of the claim.
CREATE OR REPLACE VIEW graphrag.workers AS
SELECT w.worker,
       w.pid,
       w.role,
       c.name AS corpus,
       j.kind,
       coalesce(j.jobs, 0) AS jobs,
       coalesce(j.attempts, 0) AS attempts,
       j.since,
       a.wait_event_type || ': ' || a.wait_event AS waits_for
  FROM graphrag._workers w
  LEFT JOIN LATERAL pg_catalog.pg_stat_get_activity(w.pid) a ON true
  LEFT JOIN (SELECT x.lease, x.corpus_id, x.kind, pg_catalog.count(*) AS jobs, pg_catalog.max(x.attempts) AS attempts,
                    pg_catalog.min(x.next_attempt_at) AS since
               FROM graphrag.jobs x
              WHERE x.state = 'leased'
              GROUP BY x.lease, x.corpus_id, x.kind) j ON j.lease = w.worker
  LEFT JOIN graphrag.corpora c ON c.id = j.corpus_id;
COMMENT ON VIEW graphrag.workers IS 'One row per worker that is alive, and what it has claimed: numbers and names alone, for pg_monitor too';
COMMENT ON COLUMN graphrag.workers.worker IS 'Number of the worker';
COMMENT ON COLUMN graphrag.workers.pid IS 'Process of its session: pg_stat_activity has it too';
COMMENT ON COLUMN graphrag.workers.role IS 'Role that logged in';
COMMENT ON COLUMN graphrag.workers.corpus IS 'Corpus it works for; null: it looks for work, or ends';
COMMENT ON COLUMN graphrag.workers.kind IS 'Kind of its jobs: index, graph, communities, …';
COMMENT ON COLUMN graphrag.workers.jobs IS 'Jobs it has claimed; those of a batch are done together';
COMMENT ON COLUMN graphrag.workers.attempts IS 'Attempts of the job among them that was tried most often, this one included';
COMMENT ON COLUMN graphrag.workers.since IS 'When it claimed them';
COMMENT ON COLUMN graphrag.workers.waits_for IS 'Kind and name of what its process waits for; null while it computes';

-- Numbers for a monitor that asks every few seconds: of counts that are kept, the queue, and the accounts of this month.
CREATE OR REPLACE VIEW graphrag.metrics AS
SELECT 'documents' AS name, pg_catalog.jsonb_build_object('corpus', p.corpus, 'status', s.status) AS labels, s.value::numeric AS value,
       'Documents by status' AS help
  FROM graphrag.progress p
 CROSS JOIN LATERAL (VALUES ('indexed', p.indexed), ('pending', p.pending), ('failed', p.failed), ('retracted', p.retracted)) s (status, value)
 UNION ALL
SELECT 'searchable_documents', pg_catalog.jsonb_build_object('corpus', p.corpus), p.searchable, 'Documents whose current text can be found'
  FROM graphrag.progress p
 UNION ALL
SELECT 'index_items', pg_catalog.jsonb_build_object('corpus', p.corpus, 'kind', s.kind), s.value, 'Chunks, entities and relationships'
  FROM graphrag.progress p
 CROSS JOIN LATERAL (VALUES ('chunks', p.chunks), ('entities', p.entities), ('relationships', p.relationships)) s (kind, value)
 UNION ALL
SELECT 'jobs', pg_catalog.jsonb_build_object('corpus', c.name, 'kind', j.kind, 'state', j.state), pg_catalog.count(*), 'Jobs by kind and state'
  FROM graphrag.jobs j
  JOIN graphrag.corpora c ON c.id = j.corpus_id
 GROUP BY c.name, j.kind, j.state
 UNION ALL
SELECT 'queue_age_seconds', '{}',
       coalesce(extract(epoch FROM pg_catalog.max(pg_catalog.now() - j.next_attempt_at)), 0),
       'How long the job has waited that has been due longest'
  FROM graphrag.jobs j
 WHERE j.state = 'pending' AND j.next_attempt_at <= pg_catalog.now()
 UNION ALL
SELECT 'workers', '{}', pg_catalog.count(*), 'Sessions that work on jobs'
  FROM graphrag._workers
 UNION ALL
SELECT 'spared_providers', '{}', pg_catalog.count(*), 'Providers that are not asked since they failed'
  FROM graphrag.provider_state s
 WHERE s.open_until > pg_catalog.now()
 UNION ALL
SELECT 'month_cost', pg_catalog.jsonb_build_object('corpus', b.corpus), greatest(b.spent, b.metered), 'Cost of models in this calendar month (UTC)'
  FROM graphrag.budgets b
 UNION ALL
SELECT 'month_budget', pg_catalog.jsonb_build_object('corpus', b.corpus), b.budget, 'What a corpus may cost in a month'
  FROM graphrag.budgets b
 WHERE b.budget IS NOT NULL
 UNION ALL
SELECT 'health_issues', pg_catalog.jsonb_build_object('severity', s.severity), pg_catalog.count(h.severity), 'Rows of health() but for the package''s version'
  FROM (VALUES ('error'), ('warning')) s (severity)
  LEFT JOIN graphrag._health h USING (severity)
 GROUP BY s.severity;
COMMENT ON VIEW graphrag.metrics IS 'Numbers for a monitor, all of this moment (gauges): corpora, queue, workers, costs; numbers and names alone, for pg_monitor too. pg-graphrag metrics writes them as OpenMetrics.';
COMMENT ON COLUMN graphrag.metrics.name IS 'Name of the number';
COMMENT ON COLUMN graphrag.metrics.labels IS 'What it is of: corpus, status, kind, state, severity';
COMMENT ON COLUMN graphrag.metrics.value IS 'The number; names ending in _seconds: seconds';
COMMENT ON COLUMN graphrag.metrics.help IS 'What it counts';

-- Each statement sees what workers have committed since the one before. The pause grows with what a look costs, so that waiting
-- takes a tenth of a processor at most.
CREATE OR REPLACE FUNCTION graphrag.wait_indexed(corpus text DEFAULT 'default', keys text[] DEFAULT NULL, timeout interval DEFAULT '1 minute')
RETURNS TABLE (indexed bigint, failed bigint, pending bigint)
LANGUAGE plpgsql VOLATILE ROWS 1 SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    deadline CONSTANT timestamptz := clock_timestamp() + timeout;
    this_corpus       int;
    looked_at         timestamptz;
    documents         record;
    missing           text;
BEGIN
    IF timeout IS NULL OR timeout < interval '0' THEN
        RAISE EXCEPTION 'timeout cannot be %', coalesce(timeout::text, 'null')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give an interval, such as ''30 seconds''.';
    END IF;
    SELECT c.id INTO this_corpus FROM graphrag.corpora c WHERE c.name = corpus;
    IF NOT FOUND THEN
        PERFORM graphrag._unknown_corpus(corpus);
    END IF;
    SELECT k.key INTO missing
      FROM unnest(keys) k (key)
     WHERE NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.corpus = wait_indexed.corpus AND d.source_key = k.key)
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'corpus "%" has no document "%"', corpus, coalesce(missing, 'null')
            USING ERRCODE = 'no_data_found', HINT = 'Insert it first, and commit; or leave out keys, to wait for all documents.';
    END IF;
    LOOP
        looked_at := clock_timestamp();
        SELECT count(*) FILTER (WHERE d.status = 'indexed') AS indexed, count(*) FILTER (WHERE d.status = 'failed') AS failed,
               count(*) FILTER (WHERE d.status = 'pending') AS pending,
               coalesce(bool_or(d.status = 'pending' AND d.xmin = pg_current_xact_id_if_assigned()::xid), false) AS own
          INTO documents
          FROM graphrag.documents d
         WHERE d.corpus_id = this_corpus AND (keys IS NULL OR d.corpus = wait_indexed.corpus AND d.source_key = ANY (keys));
        EXIT WHEN documents.pending = 0 OR clock_timestamp() >= deadline;
        IF documents.own THEN
            RAISE EXCEPTION 'documents of this transaction cannot be indexed before it commits'
                USING ERRCODE = 'active_sql_transaction', HINT = 'COMMIT, then call wait_indexed().';
        ELSIF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
            RAISE EXCEPTION 'a transaction that is % does not see what workers commit', upper(current_setting('transaction_isolation'))
                USING ERRCODE = 'active_sql_transaction', HINT = 'Use BEGIN ISOLATION LEVEL READ COMMITTED.';
        END IF;
        PERFORM pg_sleep(least(greatest(0.05, 10 * extract(epoch FROM clock_timestamp() - looked_at)),
                               extract(epoch FROM deadline - clock_timestamp())));
    END LOOP;
    RETURN QUERY SELECT documents.indexed, documents.failed, documents.pending;
END
$$;
COMMENT ON FUNCTION graphrag.wait_indexed(text, text[], interval) IS 'Waits until no document of a corpus, or of some keys of it, is pending, at most a time; returns how many are indexed, failed for good, and still pending. Of what the caller may see. Some worker must be at work; while it waits, its statement holds back vacuum: CALL wait_until_indexed() does not. 42704 unknown corpus; P0002 a key that is not there; 25001 for documents of the own transaction, and where it does not see what others commit; 22023 a bad timeout.';

-- No SET clause: it would forbid the commits. Every look is a transaction of its own, and so is every pause of a second at most, so that
-- no snapshot is older. Nothing but pg_catalog and graphrag is named.
CREATE OR REPLACE PROCEDURE graphrag.wait_until_indexed(corpus text DEFAULT 'default', keys text[] DEFAULT NULL, timeout interval DEFAULT '1 minute',
    INOUT indexed bigint DEFAULT NULL, INOUT failed bigint DEFAULT NULL, INOUT pending bigint DEFAULT NULL)
LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
DECLARE
    deadline CONSTANT timestamptz := pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) coalesce(timeout, '0'::pg_catalog.interval);
    pause double precision := 0.05;
BEGIN
    IF (timeout OPERATOR(pg_catalog.>=) '0'::pg_catalog.interval) IS NOT TRUE THEN
        PERFORM FROM graphrag.wait_indexed(corpus, keys, timeout);  -- which refuses it
    END IF;
    LOOP
        SELECT w.indexed, w.failed, w.pending INTO indexed, failed, pending FROM graphrag.wait_indexed(corpus, keys, '0') w;
        EXIT WHEN pending OPERATOR(pg_catalog.=) 0 OR pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>=) deadline;
        COMMIT;
        PERFORM pg_catalog.pg_sleep(pause);
        COMMIT;
        pause := least(pause OPERATOR(pg_catalog.*) 1.5, 1.0);
    END LOOP;
END
$$;
COMMENT ON PROCEDURE graphrag.wait_until_indexed(text, text[], interval, bigint, bigint, bigint) IS 'As wait_indexed(), without holding back vacuum: it commits after each look. CALL it as a statement of its own; 2D000 within a transaction. The client of the application sees indexed, failed and pending as the row of the CALL.';

-- What a role could learn of documents or change of them, for who must answer for it. Objects of others are judged by the catalogs alone.

-- Things that nobody else may see, of a corpus that nobody was given. Who plants them takes them back.
CREATE OR REPLACE FUNCTION graphrag._plant_canaries(corpus text, canary text) RETURNS void
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
COMMENT ON FUNCTION graphrag._plant_canaries(text, text) IS 'Makes a corpus whose every text has the canary in it';

-- Reads, calls and writes as the role what it may, and looks for the canaries: of a corpus that is protected and, for a role to which corpora must
-- be given, of one that was not given to it, as things are and without any grant. All is rolled back; what was found is returned.
CREATE OR REPLACE FUNCTION graphrag._try_reads(role name) RETURNS TABLE (object oid, privilege text, verdict text, detail text)
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
COMMENT ON FUNCTION graphrag._try_reads(name) IS 'What a role gets of a closed corpus by each relation that it may read, change or delete from';

-- One object a row.
CREATE OR REPLACE FUNCTION graphrag._audited(role name) RETURNS TABLE (kind text, object text, privilege text, protection text, verdict text, detail text)
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
COMMENT ON FUNCTION graphrag._audited(name) IS 'What audit() says, one object a row';

CREATE OR REPLACE FUNCTION graphrag.audit(role name) RETURNS TABLE (kind text, object text, privilege text, protection text, verdict text, detail text)
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
COMMENT ON FUNCTION graphrag.audit(name) IS 'By what a role could learn of documents or change them: a row for each of its attributes and memberships, relations, single columns, functions, graphs, and objects of others that read the schema; what is judged alike is one row, leaks apart and first. kind; object; privilege; protection; verdict; detail. verdict: held or leaks, where it was tried as the role on a closed corpus planted for it, and rolled back, or where the catalogs decide; untried, where only people can judge. Code of others is never run: where a read or the planting would run some, it is untried and says whose. Holds graphrag.documents as protect() does, for as long as it takes. Superusers, or the owner for roles that he may act as (42501); 42704 for an unknown role, 55P03 when documents stay locked.';

-- What must hold in every snapshot, while workers work too; whatever does not is named.
CREATE OR REPLACE FUNCTION graphrag.check(corpus text DEFAULT 'default') RETURNS TABLE (invariant text, object text, detail text)
LANGUAGE plpython3u STABLE COST 10000000 ROWS 10 SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "operate.admin.check:check", corpus)
$$;

-- One lock per corpus orders the short merge steps of its workers, and drop_corpus(); nothing else waits for it. Documents first (lock_tables.sql): who
-- holds them as a whole may come for this lock.
CREATE OR REPLACE FUNCTION graphrag._lock_corpus(corpus_id int) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    LOCK TABLE graphrag.documents IN ACCESS SHARE MODE;
    PERFORM graphrag._lock(corpus_id, 'corpus');
    PERFORM graphrag._refuse_moved(corpus_id);
END
$$;

CREATE OR REPLACE FUNCTION graphrag.create_corpus(name text, options jsonb DEFAULT '{}') RETURNS int
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "operate.admin.corpus_changes:create", name, options)
$$;
COMMENT ON FUNCTION graphrag.create_corpus(text, jsonb) IS 'Makes a corpus and returns its number. Options: extractor, language, chunk_token_size, chunk_overlap, tokenizer, embedding, entity_types, max_gleaning, claims, grounding, prompts, llm, rerank, communities, conversation, full_names, answer_timeout, query_log, notify, retention. Without embedding, the corpus gets the local model that fits its language or its first documents; progress names it. 23505 when the name is taken, 22023 for an unknown option or a bad value.';

CREATE OR REPLACE FUNCTION graphrag.alter_corpus(name text, options jsonb) RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
call(plpy, "0.3.0", "operate.admin.corpus_changes:alter", name, options)
$$;
COMMENT ON FUNCTION graphrag.alter_corpus(text, jsonb) IS 'Changes options of a corpus (null: back to the default). Options that decide chunks or mentions queue every document anew (55P03 when transactions write to it for half a minute); tokenizer is fixed once there are documents (55000), and embedding changes by reembed().';

CREATE OR REPLACE FUNCTION graphrag.drop_corpus(name text) RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
call(plpy, "0.3.0", "operate.admin.corpus_changes:drop", name)
$$;
COMMENT ON FUNCTION graphrag.drop_corpus(text) IS 'Removes a corpus: its documents, chunks, graph, vectors, statistics, jobs and triggers on attached tables. 42704 when there is none of that name, 55P03 when transactions write to it, hold its tables, or wrote something of it (a verdict, what a model said) and stay open, for half a minute.';

CREATE OR REPLACE FUNCTION graphrag.clone_corpus(corpus text, name text, options jsonb DEFAULT '{}') RETURNS int
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "operate.admin.corpus_changes:clone", corpus, name, options)
$$;
COMMENT ON FUNCTION graphrag.clone_corpus(text, text, jsonb) IS 'Makes a corpus with the documents and options of another, changed by options (null: back to the default), and returns its number. Workers index it as if the documents were new; curations, grants and attached tables stay behind. It is closed to all but the owner, whatever protects the other, until unprotect() or protect(). 42704 unknown corpus, 23505 when the name is taken, 22023 for a bad option.';

-- Row-level security of documents carries protect(), grant_corpus() and what attached rows are for. It is on as long as a corpus is
-- protected, given to somebody, or has rows: under it an application's COPY FROM fails. Nothing else has policies: what was made of documents is read through
-- functions and views, which ask here, as the reader, which documents there are.

-- The policies that do not name a corpus. Sub-selects, not conditions on each row: they are evaluated once in a statement. What asks
-- for the corpus costs nothing by the planner's rules, so it comes first: a comparison of the reader's that PostgreSQL knows to
-- leak nothing would else be tried on hidden rows, and EXPLAIN ANALYZE tells which sub-select was run after it.
CREATE OR REPLACE FUNCTION graphrag._document_policies() RETURNS TABLE (name name, definition text)
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    VALUES
        -- Restrictive policies narrow what a permissive one allows: whatever the grants on the table do. But permissive
        -- policies open to each other; beside one of the owner's own this one opens nothing.
        ('graphrag_grants'::name,
         'USING (NOT EXISTS (SELECT FROM pg_catalog.pg_policy p WHERE p.polrelid = ''graphrag.documents''::pg_catalog.regclass'
         ' AND p.polpermissive AND p.polname <> ''graphrag_grants''))'),
        ('graphrag_read',
         'AS RESTRICTIVE FOR SELECT TO graphrag_member USING ((SELECT pg_catalog.pg_has_role(''graphrag_reader'', ''USAGE''))'
         ' OR (SELECT graphrag._given_corpora(false))[corpus_id])'),
        -- A row's document is for who may read the row. Subscripts alone: they too cost nothing, and so come first.
        ('graphrag_rows',
         'AS RESTRICTIVE USING ((SELECT graphrag_attached._rows_are(''none''))[attached_id] IS NOT TRUE'
         ' AND ((SELECT graphrag_attached._rows_are(''some''))[attached_id] IS NOT TRUE'
         ' OR (SELECT graphrag_attached._keys_by_attachment())[attached_id][source_key] IS NOT NULL)) WITH CHECK (true)'),
        ('graphrag_insert',
         'AS RESTRICTIVE FOR INSERT TO graphrag_writer WITH CHECK'
         ' ((SELECT graphrag._given_corpora(true))[corpus_id])'),
        ('graphrag_update',
         'AS RESTRICTIVE FOR UPDATE TO graphrag_writer USING'
         ' ((SELECT graphrag._given_corpora(true))[corpus_id])'),
        ('graphrag_delete',
         'AS RESTRICTIVE FOR DELETE TO graphrag_writer USING'
         ' ((SELECT graphrag._given_corpora(true))[corpus_id])');
END;

-- One at a time decides what row-level security is to be, and sees what the one before has committed: else the last grant to go
-- would turn it off while another is made.
CREATE OR REPLACE FUNCTION graphrag._lock_grants() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION 'who sees which document cannot be changed in a transaction that is %', upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'active_sql_transaction', HINT = 'Use BEGIN ISOLATION LEVEL READ COMMITTED.';
    END IF;
    LOCK TABLE graphrag.corpus_grants IN SHARE ROW EXCLUSIVE MODE;
END
$$;
COMMENT ON FUNCTION graphrag._lock_grants() IS 'Waits for others who grant, revoke, protect and unprotect, and keeps them waiting';

-- Brings row-level security and the privileges of limited roles to what corpora and corpus_grants say; touches, and locks, nothing that
-- is right already. Whoever else has policies, or has turned row-level security on, keeps it as it is.
CREATE OR REPLACE FUNCTION graphrag._settle_policies() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET client_min_messages = warning
AS $$
DECLARE
    needed  boolean;
    secured boolean;
    policy  record;
    has_rows boolean;
BEGIN
    PERFORM graphrag._lock_grants();
    has_rows := EXISTS (SELECT FROM graphrag._attached_tables a WHERE a.kind <> 'documents')
        -- Others than the owner attach where the policy is there already.
        OR EXISTS (SELECT FROM pg_proc p, aclexplode(p.proacl) x
                    WHERE p.pronamespace = 'graphrag'::regnamespace AND p.proname IN ('attach_entities', 'attach_relationships')
                      AND x.grantee <> p.proowner);
    needed := EXISTS (SELECT FROM graphrag.corpus_grants) OR EXISTS (SELECT FROM graphrag.corpora c WHERE c.protection IS NOT NULL) OR has_rows;
    secured := (SELECT c.relrowsecurity FROM pg_class c WHERE c.oid = 'graphrag.documents'::regclass);
    FOR policy IN
        SELECT w.name, w.definition, p.oid IS NOT NULL AS present
          FROM graphrag._document_policies() w
          LEFT JOIN pg_policy p ON p.polrelid = 'graphrag.documents'::regclass AND p.polname = w.name
         WHERE (p.oid IS NOT NULL) <> (needed AND (has_rows OR w.name <> 'graphrag_rows'))
           -- Where somebody else had turned it on, he decides who gets in at all.
           AND (p.oid IS NOT NULL OR w.name <> 'graphrag_grants' OR NOT secured)
    LOOP
        PERFORM graphrag._lock_tables('graphrag.documents');
        IF policy.present THEN
            EXECUTE format('DROP POLICY %I ON graphrag.documents', policy.name);
        ELSE
            EXECUTE format('CREATE POLICY %I ON graphrag.documents %s', policy.name, policy.definition);
        END IF;
    END LOOP;
    IF needed AND NOT secured THEN
        PERFORM graphrag._lock_tables('graphrag.documents');
        ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY;
    ELSIF FOUND AND secured AND NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = 'graphrag.documents'::regclass) THEN
        ALTER TABLE graphrag.documents DISABLE ROW LEVEL SECURITY;
    END IF;
    -- Without row-level security these roles would have every corpus.
    IF needed AND NOT has_column_privilege('graphrag_writer', 'graphrag.documents', 'retracted_at', 'UPDATE') THEN
        GRANT SELECT ON graphrag.documents TO graphrag_member;
        GRANT INSERT (corpus, source_key, title, content, metadata, valid_from, valid_to, retracted_at, retraction_reason),
              UPDATE (source_key, title, content, metadata, valid_from, valid_to, retracted_at, retraction_reason), DELETE ON graphrag.documents TO graphrag_writer;
    ELSIF NOT needed AND has_table_privilege('graphrag_writer', 'graphrag.documents', 'DELETE') THEN
        REVOKE ALL ON graphrag.documents FROM graphrag_member, graphrag_writer;
    END IF;
END
$$;
COMMENT ON FUNCTION graphrag._settle_policies() IS 'Row-level security of documents as corpora and corpus_grants say';
-- A dump without data has the privileges of these roles, and neither grants nor row-level security: they end before there is a document.
CREATE OR REPLACE FUNCTION graphrag._corpora_created() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF has_table_privilege('graphrag_writer', 'graphrag.documents', 'DELETE')
       AND NOT (SELECT c.relrowsecurity FROM pg_class c WHERE c.oid = 'graphrag.documents'::regclass) THEN
        REVOKE ALL ON graphrag.documents FROM graphrag_member, graphrag_writer;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._corpora_created() IS 'Trigger of corpora: limited roles have no documents without row-level security';
CREATE OR REPLACE TRIGGER corpora_created AFTER INSERT ON graphrag.corpora
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._corpora_created();

-- With the first rows, and in a restore.
CREATE OR REPLACE FUNCTION graphrag._rows_attached() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- What locks documents is not for others than the owner to hold: _attach_rows() has asked whether it is done.
    IF NOT NEW.needs_grant OR NOT graphrag._has_row_policy() THEN
        PERFORM graphrag._settle_policies();
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._rows_attached() IS 'Trigger of attachments: the documents of rows are for who may read these';

CREATE OR REPLACE FUNCTION graphrag._has_row_policy() RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT c.relrowsecurity FROM pg_class c WHERE c.oid = 'graphrag.documents'::regclass)
       AND EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = 'graphrag.documents'::regclass AND p.polname = 'graphrag_rows');
END
$$;
COMMENT ON FUNCTION graphrag._has_row_policy() IS 'Whether documents of rows are for who may read these';
CREATE OR REPLACE TRIGGER rows_attached AFTER INSERT ON graphrag._attached_tables
    FOR EACH ROW WHEN (NEW.kind <> 'documents') EXECUTE FUNCTION graphrag._rows_attached();
-- Also in a session that replicates or restores with triggers off.
ALTER TABLE graphrag._attached_tables ENABLE ALWAYS TRIGGER rows_attached;

-- Equal documents give equal fingerprints: what shows that no order, batch, edit, crash, dump or restore left a trace.
CREATE OR REPLACE FUNCTION graphrag.fingerprint(corpus text DEFAULT 'default') RETURNS text
LANGUAGE plpython3u STABLE COST 10000000 SET search_path = pg_catalog, pg_temp SET jit = off SET bytea_output = 'hex' SET extra_float_digits = 1
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "operate.admin.fingerprint:fingerprint", corpus)
$$;

CREATE OR REPLACE FUNCTION graphrag.fingerprint_sections(corpus text DEFAULT 'default') RETURNS TABLE (section text, row_count bigint, hash text)
LANGUAGE plpython3u STABLE COST 10000000 ROWS 10 SET search_path = pg_catalog, pg_temp SET jit = off SET bytea_output = 'hex' SET extra_float_digits = 1
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "operate.admin.fingerprint:fingerprint_sections", corpus)
$$;

-- The rows themselves, in C order; of one section, or of all.
CREATE OR REPLACE FUNCTION graphrag._canonical(corpus text, section text DEFAULT NULL) RETURNS TABLE (section_name text, line text)
LANGUAGE plpython3u STABLE COST 10000000 SET search_path = pg_catalog, pg_temp SET jit = off SET bytea_output = 'hex' SET extra_float_digits = 1
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "operate.admin.fingerprint:canonical", corpus, section)
$$;

-- The right to be forgotten, with a report for who must answer for it.
CREATE OR REPLACE FUNCTION graphrag.forget(corpus text, source_key text)
RETURNS TABLE (place text, state text, removed bigint, remaining bigint, detail text, hint text)
LANGUAGE plpython3u VOLATILE COST 10000000 ROWS 60 SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "operate.admin.forget:forget", corpus, source_key)
$$;
COMMENT ON FUNCTION graphrag.forget(text, text) IS 'Deletes a document with everything made of it, in one transaction, and then looks through every table of the schema and of the corpus'' graph, found in the catalogs: by the document''s number and key, and by stretches of its text that no other document has. Rows: place; state (clear, remains, unprovable: what no database can promise); rows removed or emptied; rows remaining; detail; hint. Of the corpus it also deletes replies of models, cached or on their way, answers in answer_feedback, reports that would read otherwise now, and questions that quote the document; of errors the kind stays. Batches at endpoints are cancelled by the next worker; a second call then shows that. Of a key that has no document any more, it deletes what is left, and looks by key. Owner only; 42704 for an unknown corpus, 55000 for a document of an attached table.';

CREATE OR REPLACE FUNCTION graphrag.keep_history(corpus text, history text, options jsonb DEFAULT '{}') RETURNS int
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "operate.admin.history:keep", corpus, history, options)
$$;
COMMENT ON FUNCTION graphrag.keep_history(text, text, jsonb) IS 'Keeps every version of the documents of a corpus, from now on, as documents of a new corpus, its history; returns its number. Keys there are key@moment of writing (UTC). Versions are valid from when they were written, or from when their document says, to when they were replaced, deleted or retracted: as_of finds those of a moment. The history has the options of the corpus, changed by options, and no Cypher graph. It is closed to all but the owner until protect() or unprotect(). 42704 unknown corpus; 23505 when the name is taken; 55000 where the corpus has a history or is one; 22023 for a bad option.';

CREATE OR REPLACE FUNCTION graphrag.end_history(corpus text) RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
call(plpy, "0.3.0", "operate.admin.history:end", corpus)
$$;
COMMENT ON FUNCTION graphrag.end_history(text) IS 'Ends keep_history(): what was kept stays, as a corpus like any other; drop_corpus() removes it. 42704 unknown corpus, or one without a history.';

-- The order of locks, for whatever takes several: the row of corpora (FOR NO KEY UPDATE), the grants (_lock_grants), the table documents as a whole, rows of documents in the order of
-- their ids, rows of their pictures (which go with new content, under the lock of the document), the locks of a corpus (_locks: before spaces, spaces, corpus, bm25; batches and age are held alone), its graph's tables, jobs.
-- Tables as a whole are taken in short tries: who waits for such a lock makes everybody after him wait too, and who waits less
-- than deadlock_timeout never ends anybody. Now and then a longer one, by which autovacuum gives way.
CREATE OR REPLACE FUNCTION graphrag._lock_tables(VARIADIC tables regclass[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms'
AS $$
DECLARE
    names CONSTANT text := array_to_string(tables, ', ');
BEGIN
    IF cardinality(tables) = 0 THEN
        RETURN;
    END IF;
    FOR attempt IN 1..24 LOOP
        BEGIN
            PERFORM set_config('lock_timeout', CASE WHEN attempt % 8 = 0 THEN '1100ms' ELSE '200ms' END, true);
            EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', names);
            RETURN;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            PERFORM pg_sleep(0.1 + 0.2 * random());
        END;
    END LOOP;
    RAISE EXCEPTION 'others do not let go of %', names
        USING ERRCODE = 'lock_not_available',
              HINT = 'A transaction holds a lock since seconds; pg_blocking_pids() and pg_stat_activity say which, pg_prepared_xacts which is prepared. Try again when it has ended.';
END
$$;
COMMENT ON FUNCTION graphrag._lock_tables(regclass[]) IS 'Locks tables exclusively, in short tries; 55P03 after some seconds';

-- Rows of documents: all or none, so that it never waits while it holds some. Their holders may wait for us.
CREATE OR REPLACE FUNCTION graphrag._lock_rows(document_ids bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    others bigint;
BEGIN
    FOR attempt IN 1..24 LOOP
        BEGIN
            SELECT count(*) INTO others
              FROM graphrag.documents d
             WHERE d.id = ANY (document_ids)
               AND d.id NOT IN (SELECT x.id FROM graphrag.documents x WHERE x.id = ANY (document_ids) ORDER BY x.id FOR NO KEY UPDATE SKIP LOCKED);
            IF others = 0 THEN
                RETURN;
            END IF;
            RAISE lock_not_available;   -- lets go of the rows
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
        PERFORM pg_sleep(0.2);
    END LOOP;
    RAISE EXCEPTION 'others are changing % of the documents to repair', others
        USING ERRCODE = 'lock_not_available', HINT = 'Try again when their transactions, or the workers'' batches, have ended.';
END
$$;
COMMENT ON FUNCTION graphrag._lock_rows(bigint[]) IS 'Locks documents against changes; 55P03 when others hold some of them for seconds';

-- All that writes to a corpus, for who drops it, or has all of it indexed anew. Its documents' writers may hold what comes later in the order, as a transaction that
-- inserts one and then changes another does: so it lets go of everything, and tries again, before anybody is ended by a deadlock.
CREATE OR REPLACE FUNCTION graphrag._lock_writers_out(corpus_id int, is_dropped boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '250ms'
AS $$
BEGIN
    FOR attempt IN 1..96 LOOP
        BEGIN
            PERFORM FROM graphrag.documents d WHERE d.corpus_id = _lock_writers_out.corpus_id ORDER BY d.id FOR UPDATE;
            PERFORM graphrag._lock_spaces(corpus_id, false);
            PERFORM graphrag._lock_corpus(corpus_id);
            PERFORM graphrag._bm25_lock(corpus_id);
            IF is_dropped THEN
                -- Who inserts a document now waits, and finds no corpus; what others inserted is deleted with the rest. Replies first: who
                -- asked a model, or gave a verdict, has them in that order.
                PERFORM graphrag._lock(corpus_id, 'replies');
                PERFORM FROM graphrag.corpora c WHERE c.id = corpus_id FOR UPDATE;
            END IF;
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
        PERFORM pg_sleep((0.25 + 0.25 * random()) * extract(epoch FROM current_setting('lock_timeout')::interval));
    END LOOP;
    RAISE EXCEPTION 'others do not let go of the corpus'
        USING ERRCODE = 'lock_not_available',
              HINT = 'A transaction writes to it since seconds; pg_blocking_pids() and pg_stat_activity say which, pg_prepared_xacts which is prepared. Try again when it has ended.';
END
$$;
COMMENT ON FUNCTION graphrag._lock_writers_out(int, boolean) IS 'Keeps all writers of a corpus out until the transaction ends, in short tries; 55P03 after half a minute';

-- Tables by which others decide what runs, who reads, and where keys go. Roles that write every table (pg_write_all_data), or
-- were granted it, are no owner.
CREATE OR REPLACE FUNCTION graphrag._owner_only() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT (SELECT pg_has_role(e.extowner, 'USAGE') FROM pg_extension AS e WHERE e.extname = 'pg_graphrag') THEN
        RAISE EXCEPTION 'role "%" may not write graphrag.%', current_user, TG_TABLE_NAME
            USING ERRCODE = 'insufficient_privilege', HINT = 'Only the owner of the extension may, whatever was granted.';
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._owner_only() IS 'Trigger of tables that only the owner writes';
CREATE OR REPLACE TRIGGER corpora_owner_only BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON graphrag.corpora
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._owner_only();
CREATE OR REPLACE TRIGGER corpus_grants_owner_only BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON graphrag.corpus_grants
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._owner_only();
CREATE OR REPLACE TRIGGER providers_owner_only BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON graphrag.providers
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._owner_only();
CREATE OR REPLACE TRIGGER nodes_owner_only BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON graphrag.nodes
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._owner_only();
CREATE OR REPLACE TRIGGER placements_owner_only BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON graphrag.placements
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._owner_only();
CREATE OR REPLACE TRIGGER attached_tables_owner_only BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON graphrag._attached_tables
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._owner_only();
CREATE OR REPLACE TRIGGER graphs_owner_only BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON graphrag._graphs
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._owner_only();
CREATE OR REPLACE TRIGGER attached_seen_owner_only BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON graphrag._attached_seen
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._owner_only();
-- Also for who may set session_replication_role.
ALTER TABLE graphrag.corpora ENABLE ALWAYS TRIGGER corpora_owner_only;
ALTER TABLE graphrag.corpus_grants ENABLE ALWAYS TRIGGER corpus_grants_owner_only;
ALTER TABLE graphrag.providers ENABLE ALWAYS TRIGGER providers_owner_only;
ALTER TABLE graphrag.nodes ENABLE ALWAYS TRIGGER nodes_owner_only;
ALTER TABLE graphrag.placements ENABLE ALWAYS TRIGGER placements_owner_only;
ALTER TABLE graphrag._graphs ENABLE ALWAYS TRIGGER graphs_owner_only;
ALTER TABLE graphrag._attached_tables ENABLE ALWAYS TRIGGER attached_tables_owner_only;
ALTER TABLE graphrag._attached_seen ENABLE ALWAYS TRIGGER attached_seen_owner_only;

-- What says that a document is indexed, and as what, is for those who index: else a reader is shown what was made of other text.
-- SECURITY INVOKER, to tell who writes; the conditions let ordinary rows pass without a call. Before documents_before, by name.
CREATE OR REPLACE FUNCTION graphrag._documents_authorize() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT (SELECT pg_has_role(e.extowner, 'USAGE') FROM pg_extension AS e WHERE e.extname = 'pg_graphrag') THEN
        RAISE EXCEPTION 'role "%" may not set status, error, indexed_hash, indexed_at, attached_id, version_of or pictures_hash of document "%"', current_user, NEW.source_key
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'Leave these columns out; workers set them. The owner of the extension indexes documents anew with UPDATE … SET indexed_at = NULL.';
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION graphrag._documents_authorize() IS 'Trigger of documents: only the owner says what is indexed';
CREATE OR REPLACE TRIGGER documents_authorize_insert BEFORE INSERT ON graphrag.documents
    FOR EACH ROW WHEN (NEW.indexed_hash IS NOT NULL OR NEW.indexed_at IS NOT NULL OR NEW.status IS DISTINCT FROM 'pending' OR NEW.error IS NOT NULL
                       OR NEW.version_of IS NOT NULL OR NEW.pictures_hash IS NOT NULL)
    EXECUTE FUNCTION graphrag._documents_authorize();
CREATE OR REPLACE TRIGGER documents_authorize_update BEFORE UPDATE ON graphrag.documents
    FOR EACH ROW WHEN (NEW.indexed_hash IS DISTINCT FROM OLD.indexed_hash OR NEW.indexed_at IS DISTINCT FROM OLD.indexed_at
                       OR NEW.status IS DISTINCT FROM OLD.status OR NEW.error IS DISTINCT FROM OLD.error OR NEW.attached_id IS DISTINCT FROM OLD.attached_id
                       OR NEW.version_of IS DISTINCT FROM OLD.version_of OR NEW.pictures_hash IS DISTINCT FROM OLD.pictures_hash)
    EXECUTE FUNCTION graphrag._documents_authorize();
-- The same of attached_id, once in a statement: the rows of attached tables have one, all of them.
CREATE OR REPLACE FUNCTION graphrag._documents_authorize_attached() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT (SELECT pg_has_role(e.extowner, 'USAGE') FROM pg_extension AS e WHERE e.extname = 'pg_graphrag')
        AND EXISTS (SELECT FROM inserted n WHERE n.attached_id IS NOT NULL) THEN
        RAISE EXCEPTION 'role "%" may not set attached_id of document "%"', current_user, (SELECT min(n.source_key) FROM inserted n WHERE n.attached_id IS NOT NULL)
            USING ERRCODE = 'insufficient_privilege', HINT = 'Leave this column out; graphrag.attach_table() sets it.';
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._documents_authorize_attached() IS 'Trigger of documents: only attached tables have their documents marked';
CREATE OR REPLACE TRIGGER documents_authorize_attached AFTER INSERT ON graphrag.documents REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._documents_authorize_attached();
-- Also where a role may set session_replication_role.
ALTER TABLE graphrag.documents ENABLE ALWAYS TRIGGER documents_authorize_insert;
ALTER TABLE graphrag.documents ENABLE ALWAYS TRIGGER documents_authorize_attached;
ALTER TABLE graphrag.documents ENABLE ALWAYS TRIGGER documents_authorize_update;

-- A condition on the documents of a corpus, for everybody who reads. It is kept in corpora.protection, which is dumped; policies
-- of an extension's tables are not. Owner, superusers and BYPASSRLS see all.
CREATE OR REPLACE FUNCTION graphrag.protect(corpus text, condition text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    this_corpus CONSTANT int := graphrag._administered_corpus(corpus);
BEGIN
    IF condition IS NULL OR condition !~ '\S' THEN
        RAISE EXCEPTION 'protect() needs a condition' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'A boolean expression over columns of graphrag.documents, for example metadata ->> ''team'' = current_user; unprotect() ends the protection.';
    END IF;
    UPDATE graphrag.corpora c SET protection = condition WHERE c.id = this_corpus;
    PERFORM graphrag._enforce(this_corpus, condition);
END
$$;
COMMENT ON FUNCTION graphrag.protect(text, text) IS 'Lets those who read see only the documents of a corpus for which a condition holds, and of what was made of documents only what these say; communities and their reports, which tell of all documents, not at all. condition: a boolean expression over columns of graphrag.documents, evaluated as the reader; names in it qualified. Replaces an earlier one; combines with policies of your own on graphrag.documents. After a restore the corpus is closed until repair(). Owner only; 42704 for an unknown corpus, 55P03 when documents stay locked.';

CREATE OR REPLACE FUNCTION graphrag.unprotect(corpus text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    this_corpus CONSTANT int := graphrag._administered_corpus(corpus);
BEGIN
    UPDATE graphrag.corpora c SET protection = NULL WHERE c.id = this_corpus;
    PERFORM graphrag._enforce(this_corpus, NULL);
END
$$;
COMMENT ON FUNCTION graphrag.unprotect(text) IS 'Ends what protect() began: who may read the corpus sees all its documents. Owner only; 42704 for an unknown corpus, 55P03 when documents stay locked.';

-- The number of a corpus whose row is now locked, and the grants (lock_tables.sql), for the owner alone.
CREATE OR REPLACE FUNCTION graphrag._administered_corpus(corpus text) RETURNS int
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    this_corpus int;
BEGIN
    IF NOT (SELECT pg_has_role(e.extowner, 'USAGE') FROM pg_extension AS e WHERE e.extname = 'pg_graphrag') THEN
        RAISE EXCEPTION 'role "%" may not decide who sees corpus "%"', current_user, corpus
            USING ERRCODE = 'insufficient_privilege', HINT = 'Call it as the owner of the extension or as a superuser.';
    END IF;
    SELECT c.id INTO this_corpus FROM graphrag.corpora c WHERE c.name = corpus FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM graphrag._unknown_corpus(corpus);
    END IF;
    PERFORM graphrag._refuse_moved(this_corpus);
    PERFORM graphrag._lock_grants();
    RETURN this_corpus;
END
$$;

-- Makes the policy of a corpus say this (null: there is none). Its comment is the condition as it was given: one that is in
-- force already is not made again.
CREATE OR REPLACE FUNCTION graphrag._enforce(corpus_id int, condition text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET client_min_messages = warning
AS $$
DECLARE
    policy   CONSTANT name := 'graphrag_protection_' || corpus_id;
    in_force record;
    changes  boolean;
BEGIN
    PERFORM graphrag._lock_grants();
    SELECT count(*) > 0 AS present, max(obj_description(p.oid, 'pg_policy')) AS condition INTO in_force
      FROM pg_policy p WHERE p.polrelid = 'graphrag.documents'::regclass AND p.polname = policy;
    changes := CASE WHEN _enforce.condition IS NULL THEN in_force.present ELSE in_force.condition IS DISTINCT FROM _enforce.condition END;
    IF changes THEN
        PERFORM graphrag._lock_tables('graphrag.documents');
        EXECUTE format('DROP POLICY IF EXISTS %I ON graphrag.documents', policy);
    END IF;
    IF changes AND _enforce.condition IS NOT NULL THEN
        -- Not corpus_id <> n: in a query of this corpus both comparisons are known to be false, so that an index may serve the condition.
        EXECUTE format('CREATE POLICY %I ON graphrag.documents AS RESTRICTIVE USING (corpus_id < %2$s OR corpus_id > %2$s OR (%3$s)) WITH CHECK (true)',
                       policy, corpus_id, _enforce.condition);
        EXECUTE format('COMMENT ON POLICY %I ON graphrag.documents IS %L', policy, _enforce.condition);
    END IF;
    PERFORM graphrag._settle_policies();
END
$$;

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

-- A row of corpora that comes with a protection comes from a dump, and before the documents, which refer to it.
CREATE OR REPLACE FUNCTION graphrag._corpus_restored() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM graphrag._enforce(NEW.id, format('graphrag._closed(%s)', NEW.id));
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER corpora_restored AFTER INSERT ON graphrag.corpora
    FOR EACH ROW WHEN (NEW.protection IS NOT NULL) EXECUTE FUNCTION graphrag._corpus_restored();
-- Also in a session that replicates or restores with triggers off.
ALTER TABLE graphrag.corpora ENABLE ALWAYS TRIGGER corpora_restored;
-- An update from a version whose policies were others leaves the protected corpora protected. It marks those to be made anew.
SELECT graphrag._enforce(c.id, c.protection)
  FROM graphrag.corpora AS c
  JOIN pg_catalog.pg_policy AS p ON p.polrelid = 'graphrag.documents'::pg_catalog.regclass AND p.polname = 'graphrag_protection_' || c.id
 WHERE pg_catalog.obj_description(p.oid, 'pg_policy') = 'to be made anew';
SELECT graphrag._settle_policies();

-- Drop the AGE graph of a corpus and project the tables again: after a restore, or after the graph was changed by hand.
CREATE OR REPLACE FUNCTION graphrag.rebuild_graph(corpus text DEFAULT 'default') RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $function$
#variable_conflict use_column
DECLARE
    this_corpus int;
    ids         bigint[];
    label       text;
BEGIN
    SELECT c.id INTO this_corpus FROM graphrag.corpora AS c WHERE c.name = corpus;
    IF NOT FOUND THEN
        PERFORM graphrag._unknown_corpus(corpus);
    END IF;
    PERFORM graphrag._lock_corpus(this_corpus);
    PERFORM graphrag._lock_tables(VARIADIC ARRAY(
        SELECT l.relation FROM ag_catalog.ag_label AS l JOIN ag_catalog.ag_graph AS g ON g.graphid = l.graph
         WHERE g.name = 'graphrag_' || this_corpus ORDER BY l.relation));
    PERFORM graphrag._drop_graph(this_corpus);
    IF NOT graphrag._ensure_graph(this_corpus) THEN
        RETURN;
    END IF;
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
COMMENT ON FUNCTION graphrag.rebuild_graph(text) IS 'Drops the Apache AGE graph of a corpus and makes it again from the tables, in one transaction. What was added to the graph by Cypher is lost. Of a corpus whose option cypher is false, what is left of a graph is dropped, and none made. Owner only; 42704 for an unknown corpus.';

-- Another embedding model for a corpus with data. Only the decision is made here; workers do the work.
CREATE OR REPLACE FUNCTION graphrag.reembed(corpus text, embedding jsonb) RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
call(plpy, "0.3.0", "operate.admin.start_reembed:reembed", corpus, embedding)
$$;

-- Everything that was made of a corpus' documents is made again by workers, however torn it is.
CREATE OR REPLACE FUNCTION graphrag.reindex(corpus text DEFAULT 'default', extraction text DEFAULT NULL) RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "0.3.0", "operate.admin.reindex:reindex", corpus, extraction)
$$;
COMMENT ON FUNCTION graphrag.reindex(text, text) IS 'Has workers make again what was made of the documents of a corpus: chunks, vectors, BM25, entities, relationships, communities, the AGE graph. For an index that is torn, as by TRUNCATE or a restore of single tables, or that an earlier version made. Documents, curations, attached tables, grants, options, feedback and accounts stay. Texts are found all the time; the graph is empty at first, and grows as workers come. One transaction, which waits for writers of the corpus and keeps them out; replies of models come from the cache as far as it has them. With extraction => ''stood in'', those documents alone that have chunks for which NLP stood in for the model, or completed its reply: what there is of them stays until the model has been asked again. Returns the number of documents queued. Owner only; 22023 for another value of extraction, 42704 for an unknown corpus, 25001 in REPEATABLE READ, 42501 under row-level security, 55P03 when transactions write to it for half a minute.';

-- What pg_dump cannot carry is made again from the tables: the queue, the graphs, the run-time indexes, the protection. Safe at any time.

-- Moves sequences past the numbers in use: replication carries no sequences, nor does a restore of single tables.
CREATE OR REPLACE FUNCTION graphrag._advance_sequences() RETURNS void
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
CREATE OR REPLACE FUNCTION graphrag._repair_documents() RETURNS bigint
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
CREATE OR REPLACE FUNCTION graphrag._repair_corpus(corpus_id int, with_graph boolean DEFAULT true) RETURNS int
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

CREATE OR REPLACE FUNCTION graphrag.repair() RETURNS jsonb
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
COMMENT ON FUNCTION graphrag.repair() IS 'Run after a restore (pg_dump | psql, pg_restore), and after documents came past the triggers (disabled ones): refills the queue from the hashes, moves sequences past the numbers in use, compares attached tables with their documents, rebuilds the AGE graphs, queues the vector indexes, unfinished re-embedding, and communities and reports that are missing or not up to date, and puts protect() and grant_corpus() in force; grants of roles that were renamed follow them, of dropped ones they go. Returns {jobs_queued, graphs_rebuilt}, and as not_repaired the corpora in which rows are damaged, of which a WARNING says more. One transaction: of hundreds of corpora CALL graphrag.repair_corpora(). 55P03 when others hold for seconds what it has to lock.';

-- Neither SET nor SECURITY DEFINER, which would forbid the commits: every name is qualified, and what it calls is closed to others than the owner.
CREATE OR REPLACE PROCEDURE graphrag.repair_corpora(INOUT result jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    queued    bigint;
    graphs    int := 0;
    rebuilt   int;
    damaged   text[];
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
COMMENT ON PROCEDURE graphrag.repair_corpora(jsonb) IS 'repair() for any number of corpora: commits after each, so that it needs the locks of one graph at a time. Call it as a statement of its own. What it has done stays when it ends early; call it again. Owner only.';

-- The graph of a corpus, and the tables of its vectors.
CREATE OR REPLACE FUNCTION graphrag._uninstall_corpus(corpus_id int) RETURNS void
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
CREATE OR REPLACE FUNCTION graphrag._remove_files() RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
call(plpy, "0.3.0", "operate.admin.corpus_changes:remove_files")
$$;
COMMENT ON FUNCTION graphrag._remove_files() IS 'Removes the files that searches map, of all corpora; sessions make others when they need them';

-- What DROP EXTENSION cannot take along, because it was made at run time or lives elsewhere: AGE graphs, pg_cron jobs, tables of vectors, triggers, files.
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
COMMENT ON FUNCTION graphrag.uninstall() IS 'Removes what DROP EXTENSION cannot: AGE graphs, pg_cron jobs, run-time tables (vectors), triggers on attached tables. Then DROP EXTENSION pg_graphrag CASCADE; DROP SCHEMA graphrag. The roles graphrag_member, graphrag_reader and graphrag_writer, which other databases may use, stay. One transaction: of hundreds of corpora CALL graphrag.uninstall_corpora(). Owner only.';

-- Neither SET nor SECURITY DEFINER, which would forbid the commits: every name is qualified, and what it calls is closed to others than the owner.
CREATE OR REPLACE PROCEDURE graphrag.uninstall_corpora()
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
COMMENT ON PROCEDURE graphrag.uninstall_corpora() IS 'uninstall() for any number of corpora: commits after each, so that it needs the locks of one graph at a time. Call it as a statement of its own, with no worker at work. Where it ends early, nothing can be searched before it is called again, or repair_corpora() is: the latter does not bring back vectors of large corpora. Owner only.';

-- What documents say is not sampled by ANALYZE: EXPLAIN of a view, with a condition on a column, would tell its most common values and
-- its histogram, hidden rows among them. No statement is planned by these columns.
ALTER TABLE graphrag.documents
    ALTER COLUMN title SET STATISTICS 0, ALTER COLUMN content SET STATISTICS 0, ALTER COLUMN error SET STATISTICS 0,
    ALTER COLUMN content_hash SET STATISTICS 0, ALTER COLUMN indexed_hash SET STATISTICS 0,
    ALTER COLUMN retraction_reason SET STATISTICS 0;
ALTER TABLE graphrag.pictures
    ALTER COLUMN document_id SET STATISTICS 0, ALTER COLUMN document_key SET STATISTICS 0, ALTER COLUMN content SET STATISTICS 0,
    ALTER COLUMN alternative_text SET STATISTICS 0, ALTER COLUMN caption SET STATISTICS 0, ALTER COLUMN recognised_text SET STATISTICS 0,
    ALTER COLUMN description SET STATISTICS 0, ALTER COLUMN error SET STATISTICS 0;
ALTER TABLE graphrag.chunks
    ALTER COLUMN content SET STATISTICS 0, ALTER COLUMN unfit SET STATISTICS 0,
    ALTER COLUMN concepts SET STATISTICS 0;
ALTER TABLE graphrag.entity_mentions
    ALTER COLUMN attributes SET STATISTICS 0, ALTER COLUMN name_of SET STATISTICS 0;
ALTER TABLE graphrag.entities
    ALTER COLUMN name SET STATISTICS 0, ALTER COLUMN type SET STATISTICS 0, ALTER COLUMN description SET STATISTICS 0;
ALTER TABLE graphrag.relationships
    ALTER COLUMN keywords SET STATISTICS 0, ALTER COLUMN description SET STATISTICS 0;
ALTER TABLE graphrag.claims
    ALTER COLUMN subject SET STATISTICS 0, ALTER COLUMN object SET STATISTICS 0, ALTER COLUMN type SET STATISTICS 0,
    ALTER COLUMN status SET STATISTICS 0, ALTER COLUMN start_date SET STATISTICS 0, ALTER COLUMN end_date SET STATISTICS 0,
    ALTER COLUMN description SET STATISTICS 0, ALTER COLUMN source_text SET STATISTICS 0;
ALTER TABLE graphrag.community_reports
    ALTER COLUMN title SET STATISTICS 0, ALTER COLUMN summary SET STATISTICS 0;
-- Nor what people and models said, nor what is packed: of a table that is empty, ANALYZE keeps the old sample, which forget() cannot remove.
ALTER TABLE graphrag.query_log
    ALTER COLUMN question SET STATISTICS 0;
ALTER TABLE graphrag.answer_feedback
    ALTER COLUMN question SET STATISTICS 0, ALTER COLUMN evidence SET STATISTICS 0, ALTER COLUMN answer SET STATISTICS 0,
    ALTER COLUMN comment SET STATISTICS 0;
ALTER TABLE graphrag.llm_cache
    ALTER COLUMN reply SET STATISTICS 0;
ALTER TABLE graphrag.llm_batch_requests
    ALTER COLUMN messages SET STATISTICS 0, ALTER COLUMN reply SET STATISTICS 0, ALTER COLUMN error SET STATISTICS 0;
ALTER TABLE graphrag.imported_extractions
    ALTER COLUMN chunks SET STATISTICS 0;
ALTER TABLE graphrag.bm25_tail
    ALTER COLUMN terms SET STATISTICS 0;

-- Who may do what; sorts last, when everything is there. Named one by one: what is new is closed until someone thinks of it.
-- Nobody but the owner reads what was made of documents: members read it through functions and views.

-- Takes a relation from everybody but its owner.
CREATE OR REPLACE FUNCTION graphrag._close(relation regclass) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    grantee oid;
BEGIN
    FOR grantee IN SELECT DISTINCT a.grantee FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = relation AND a.grantee <> c.relowner LOOP
        EXECUTE format('REVOKE ALL ON %s FROM %s CASCADE', relation, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END);
    END LOOP;
END
$$;
COMMENT ON FUNCTION graphrag._close(regclass) IS 'Revokes what everybody but the owner may do with a relation: what ALTER DEFAULT PRIVILEGES gave';

-- What the installing role's default privileges give away was meant for its own tables; and everybody calls no function that is new.
DO $new$
DECLARE
    before  CONSTANT text[] := pg_catalog.current_setting('graphrag.objects_before');
    schemas CONSTANT oid[]  := '{graphrag,graphrag_attached}'::pg_catalog.regnamespace[];
    item record;
BEGIN
    FOR item IN SELECT c.oid::pg_catalog.regclass AS relation FROM pg_catalog.pg_class AS c
                 WHERE c.relnamespace = ANY (schemas) AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
                   AND c.relacl IS NOT NULL AND 'relation ' || c.oid <> ALL (before) LOOP
        PERFORM graphrag._close(item.relation);
    END LOOP;
    -- Whoever owns an attached table calls the functions of graphrag_attached.
    FOR item IN SELECT DISTINCT p.oid::pg_catalog.regprocedure AS routine,
                       CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::pg_catalog.regrole::text END AS grantee
                  FROM pg_catalog.pg_proc AS p,
                       pg_catalog.aclexplode(coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) AS a
                 WHERE p.pronamespace = ANY (schemas) AND a.grantee <> p.proowner AND 'routine ' || p.oid <> ALL (before)
                   AND (a.grantee <> 0 OR p.pronamespace = 'graphrag'::pg_catalog.regnamespace) LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON ROUTINE %s FROM %s CASCADE', item.routine, item.grantee);
    END LOOP;
    FOR item IN SELECT DISTINCT n.nspname, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::pg_catalog.regrole::text END AS grantee
                  FROM pg_catalog.pg_namespace AS n, pg_catalog.aclexplode(n.nspacl) AS a
                 WHERE n.oid = ANY (schemas) AND a.grantee <> n.nspowner
                   -- An installation finds a schema graphrag with nothing in it.
                   AND (before <@ '{graphrag}' OR n.nspname <> ALL (before)) LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON SCHEMA %I FROM %s CASCADE', item.nspname, item.grantee);
    END LOOP;
END
$new$;
-- Earlier versions gave readers the tables, and everybody the functions.
REVOKE ALL ON SCHEMA graphrag FROM graphrag_reader;
REVOKE ALL ON ALL TABLES IN SCHEMA graphrag FROM graphrag_reader;
REVOKE ALL ON ALL ROUTINES IN SCHEMA graphrag FROM PUBLIC, graphrag_reader;

GRANT USAGE ON SCHEMA graphrag TO graphrag_member, pg_monitor;
-- Members get documents with the first corpus that is given to one of them (_settle_policies): before, nothing would limit them.
GRANT SELECT ON TABLE graphrag.documents TO graphrag_reader;
GRANT SELECT ON    graphrag.corpora TO graphrag_member;
GRANT SELECT ON    graphrag.nodes TO graphrag_member;
GRANT SELECT ON    graphrag.pictures TO graphrag_member;
GRANT SELECT ON    graphrag.granted_corpora TO graphrag_member;
GRANT SELECT ON    graphrag.graph_nodes TO graphrag_member;
GRANT SELECT ON    graphrag.graph_edges TO graphrag_member;
GRANT SELECT ON    graphrag.graph_claims TO graphrag_member;
GRANT SELECT ON    graphrag.graph_mentions TO graphrag_member;
GRANT SELECT ON    graphrag.entity_attributes TO graphrag_member;
GRANT SELECT ON    graphrag.unfit_extractions TO graphrag_member;
GRANT SELECT ON    graphrag._histories TO graphrag_member;
GRANT SELECT ON    graphrag.versions TO graphrag_member;
GRANT SELECT ON    graphrag.document_coverage TO graphrag_member;
GRANT SELECT ON    graphrag.graph_growth TO graphrag_member;
GRANT SELECT ON    graphrag.entity_timeline TO graphrag_member;
GRANT SELECT ON    graphrag.community_entities TO graphrag_member;
GRANT SELECT ON    graphrag.community_overview TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.search(text, text, text, int, jsonb, text[], text[], jsonb) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.search(text, text[], text, int, jsonb, text[], text[], jsonb, double precision) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.local_search(text, text, int, jsonb, text[], text[], jsonb) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.global_search(text, text, int, jsonb, text[], text[], jsonb) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.hybrid_search(text, text, int, jsonb, text[], text[], jsonb) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.naive_search(text, text, int, jsonb, jsonb) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.bm25_search(text, text, int, jsonb, jsonb) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.search_entities(text, text, int, jsonb, text[]) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.search_relationships(text, text, int, jsonb, text[]) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.search_reports(text, text, int, jsonb, int) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.neighbors(text, text, int) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.neighbors(text, jsonb, int, text) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.graph_nodes_at(text, timestamptz) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.graph_edges_at(text, timestamptz) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.to_dot(text, text, int, int) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.to_dot(bigint, int) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.to_mermaid(text, text, int, int) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.to_mermaid(bigint, int) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.cypher(text, text, jsonb) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.context(text, text, text, int, jsonb, text[], text[], jsonb) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.embed(text, text) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.warm(text) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.wait_indexed(text, text[], interval) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.embedding_engine() TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.evaluate(text, jsonb, text[], int[], text, jsonb) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.evaluate(text, regclass, text[], int[], text, jsonb) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.evaluate(text, text, text[], int[], text, jsonb) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.understand(text, text) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.ask(text, text, text, int, jsonb, text[], text[], jsonb, jsonb, text) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.ask_stream(text, text, text, int, jsonb, text[], text[], jsonb, jsonb, text) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.log_query(text, text, text, text, double precision, int, int, int, jsonb) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.feedback(text, text, text, text[], text, text, text, text) TO graphrag_member;
GRANT EXECUTE ON PROCEDURE graphrag.wait_until_indexed(text, text[], interval, bigint, bigint, bigint) TO graphrag_member;
-- Private functions that members need: each with its reason in tests/security/private_functions.txt.
GRANT EXECUTE ON FUNCTION    graphrag._all_valid_at(text, timestamptz) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._at_one_snapshot(text) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._reading(text) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._closed(int) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._costly_start() TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._document_policies() TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._enter(text) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._enter_writing(text) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._foreign_code(regclass) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._given_corpora(boolean) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._graph_edges_at(text, timestamptz) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._graph_nodes_at(text, timestamptz) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._may_use(int) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._pictured_documents() TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._placed(text) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._questions(regclass) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._reads_whole(int) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._refuse_foreign_code(regclass) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._say_moved(text, jsonb) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._sees_all() TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._strength(double precision, int, int, int, double precision) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._type_rank(text) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._unknown_corpus(text, text) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._visible_edges(text) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._visible_nodes(text) TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag._whole_corpora() TO graphrag_member;
GRANT EXECUTE ON FUNCTION    graphrag.visible_documents(boolean) TO graphrag_member;
-- What an operator watches: numbers and names, with the owner's rights; no text, no question, no key of a document.
GRANT SELECT ON    graphrag.nodes TO pg_monitor;
GRANT SELECT ON    graphrag.progress TO pg_monitor;
GRANT SELECT ON    graphrag.failed_jobs TO pg_monitor;
GRANT SELECT ON    graphrag.llm_usage TO pg_monitor;
GRANT SELECT ON    graphrag.llm_usage_by_role TO pg_monitor;
GRANT SELECT ON    graphrag.budgets TO pg_monitor;
GRANT SELECT ON    graphrag.query_stats TO pg_monitor;
GRANT SELECT ON    graphrag._health TO pg_monitor;
GRANT SELECT ON    graphrag.metrics TO pg_monitor;
GRANT SELECT ON    graphrag.workers TO pg_monitor;
GRANT EXECUTE ON FUNCTION graphrag._metered(int, name), graphrag.health(), graphrag._package_version() TO pg_monitor;
-- Owners of attached tables need be members of nothing; the view shows each his own.
GRANT SELECT ON graphrag.attached_tables TO PUBLIC;
-- Whoever attaches, and owns what is attached, reads and hands over by these; not `caller`, which says who that is.
GRANT USAGE ON SCHEMA graphrag_attached TO PUBLIC;
GRANT SELECT ON graphrag_attached._attachments TO PUBLIC;
GRANT SELECT ON graphrag_attached._row_tables TO PUBLIC;
GRANT INSERT (action, attached_id, relation, source_keys, titles, contents, metadata, digests, valid_from, valid_to), SELECT (source_keys)
    ON graphrag_attached._handover TO PUBLIC;
GRANT INSERT (source_key, title, content, metadata, valid_from, valid_to, attached_id, action) ON graphrag_attached._replicated TO PUBLIC;
GRANT INSERT (action, source, corpus, content_columns, title_column, metadata_columns, keep_documents, key_columns, key_prefix, where_column,              valid_from_column, valid_to_column, kind, entity_type, alias_columns, reference_type, from_columns, from_table, to_columns, to_table)     ON graphrag._attach_requests TO PUBLIC;
-- By row-level security and a trigger, which ask for the right to change the document.
GRANT INSERT (document_id, place, page, is_page, content, width, height, alternative_text, caption, recognised_text, description),
      UPDATE (place, page, is_page, width, height, alternative_text, caption, recognised_text, description), DELETE ON graphrag.pictures TO graphrag_writer;
GRANT EXECUTE ON FUNCTION    graphrag._picture_type(bytea) TO graphrag_writer;
GRANT EXECUTE ON FUNCTION    graphrag._refuse_unknown_document(text, text) TO graphrag_writer;
GRANT EXECUTE ON FUNCTION    graphrag.retract(text, text, text, timestamptz) TO graphrag_writer;
GRANT EXECUTE ON FUNCTION    graphrag.undo_retraction(text, text) TO graphrag_writer;
-- The end of every upgrade script. A GRANT or REVOKE in an extension script makes everything the object is granted at that
-- moment initial privileges, the application's grants too, and pg_dump does not dump those. They become the application's again.
DO $block$
DECLARE
    ours CONSTANT oid[] := ARRAY(SELECT r.oid FROM pg_catalog.pg_roles AS r
                                  WHERE r.rolname ~ '^(graphrag_(member|reader|writer)|pg_monitor)$') || 0::oid;
    -- What limited roles may do with documents comes and goes at run time (_settle_policies).
    limited CONSTANT oid[] := ARRAY(SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname ~ '^graphrag_(member|writer)$');
    initial oid[];
    item record;
BEGIN
    -- Tables made at run time are not the extension's: they have none.
    WITH stray AS (
        DELETE FROM pg_catalog.pg_init_privs AS i
         USING pg_catalog.pg_class AS c
         WHERE i.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass AND i.objoid = c.oid AND c.relnamespace = 'graphrag'::pg_catalog.regnamespace
           AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend AS d WHERE (d.classid, d.objid) = (i.classoid, i.objoid) AND d.deptype = 'e')
        RETURNING i.classoid, i.objoid
    )
    DELETE FROM pg_catalog.pg_shdepend AS s
     USING stray AS t
     WHERE s.dbid = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())
       AND (s.classid, s.objid) = (t.classoid, t.objoid) AND s.deptype = 'i';
    FOR item IN
        SELECT i.classoid, i.objoid, i.objsubid, i.initprivs,
               coalesce((SELECT r.relowner FROM pg_catalog.pg_class AS r WHERE i.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass AND r.oid = i.objoid),
                        (SELECT p.proowner FROM pg_catalog.pg_proc AS p WHERE i.classoid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND p.oid = i.objoid),
                        (SELECT n.nspowner FROM pg_catalog.pg_namespace AS n WHERE i.classoid = 'pg_catalog.pg_namespace'::pg_catalog.regclass AND n.oid = i.objoid)) AS owner
          FROM pg_catalog.pg_init_privs AS i
         WHERE i.privtype = 'e'
           AND (i.classoid = 'pg_catalog.pg_namespace'::pg_catalog.regclass AND i.objoid = 'graphrag'::pg_catalog.regnamespace
                OR EXISTS (SELECT FROM pg_catalog.pg_depend AS d JOIN pg_catalog.pg_extension AS x ON x.oid = d.refobjid
                            WHERE (d.classid, d.objid) = (i.classoid, i.objoid) AND d.deptype = 'e'
                              AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND x.extname = 'pg_graphrag'))
    LOOP
        initial := ARRAY(SELECT u.id FROM pg_catalog.unnest(ours || item.owner) AS u (id)
                          WHERE item.objoid <> 'graphrag.documents'::pg_catalog.regclass OR u.id <> ALL (limited));
        IF EXISTS (SELECT FROM pg_catalog.aclexplode(item.initprivs) AS a WHERE a.grantee <> ALL (initial)) THEN
            UPDATE pg_catalog.pg_init_privs AS i
               SET initprivs = (SELECT coalesce(pg_catalog.array_agg(u.one), '{}') FROM pg_catalog.unnest(i.initprivs) AS u (one)
                                 WHERE EXISTS (SELECT FROM pg_catalog.aclexplode(ARRAY[u.one]) AS a WHERE a.grantee = ANY (initial)))
             WHERE (i.classoid, i.objoid, i.objsubid) = (item.classoid, item.objoid, item.objsubid);
            DELETE FROM pg_catalog.pg_shdepend AS s
             WHERE s.dbid = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())
               AND (s.classid, s.objid, s.objsubid) = (item.classoid, item.objoid, item.objsubid)
               AND s.deptype = 'i' AND s.refobjid <> ALL (initial);
        END IF;
    END LOOP;
    DELETE FROM pg_catalog.pg_init_privs AS i
     WHERE i.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass AND i.objoid = 'graphrag.documents'::pg_catalog.regclass AND i.initprivs = '{}';
END
$block$;
