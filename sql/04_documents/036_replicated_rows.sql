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
COMMENT ON COLUMN graphrag_attached._replicated.source_key IS 'For write and delete: the document''s';
COMMENT ON COLUMN graphrag_attached._replicated.title IS 'For write: the document''s; for fault: SQLSTATE';
COMMENT ON COLUMN graphrag_attached._replicated.content IS 'For write: the document''s; for fault: the message';
COMMENT ON COLUMN graphrag_attached._replicated.metadata IS 'For write: the document''s';
COMMENT ON COLUMN graphrag_attached._replicated.valid_from IS 'For write: the document''s';
COMMENT ON COLUMN graphrag_attached._replicated.valid_to IS 'For write: the document''s';
COMMENT ON COLUMN graphrag_attached._replicated.attached_id IS 'Number of the attachment';
COMMENT ON COLUMN graphrag_attached._replicated.action IS 'write or delete a document; truncate: delete all; pass: compare the whole table; fault: a row that cannot be a document';
COMMENT ON COLUMN graphrag_attached._replicated.caller IS 'Role that recorded it, which must own the table';
COMMENT ON COLUMN graphrag_attached._replicated.at IS 'Time of its transaction';
COMMENT ON COLUMN graphrag_attached._replicated.id IS 'Order: the latest entry of a key counts';

-- Whether the session applies what another one wrote.
CREATE FUNCTION graphrag_attached._is_replicated() RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN current_setting('session_replication_role') = 'replica';
END
$$;

-- Only owners of attached tables note something here; what they say is heard of their own tables alone (_take_replicated).
CREATE FUNCTION graphrag_attached._replicated_by() RETURNS trigger
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
COMMENT ON FUNCTION graphrag_attached._replicated_by() IS 'Trigger of entries about replicated rows: records the role';
CREATE TRIGGER replicated_by BEFORE INSERT ON graphrag_attached._replicated
    FOR EACH ROW EXECUTE FUNCTION graphrag_attached._replicated_by();
ALTER TABLE graphrag_attached._replicated ENABLE ALWAYS TRIGGER replicated_by;

-- The body of the trigger function of an attachment. What rows make is written out in it: replication has a call for each row. Only
-- values of the row are looked at, and no table. Where that cannot be (a column is gone, a type of others would be named), a worker
-- compares the whole table instead. The search path of somebody else may be in force until _is_as_made() says that it is ours.
CREATE FUNCTION graphrag_attached._body(attached_id int) RETURNS text
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
CREATE FUNCTION graphrag._supersede_replicated(attached_id int, source_keys text[]) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    DELETE FROM graphrag_attached._replicated r
     WHERE r.attached_id = _supersede_replicated.attached_id AND r.source_key = ANY (_supersede_replicated.source_keys);
END;

-- Writes documents of rows that replication brought, a batch at a time in their order; returns whether to go on. What its owner
-- noted of a table he no longer owns, or while he may not write the corpus, is left to a pass.
-- SECURITY DEFINER: a worker need not own the extension.
CREATE FUNCTION graphrag._take_replicated(attached_id int) RETURNS boolean
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
