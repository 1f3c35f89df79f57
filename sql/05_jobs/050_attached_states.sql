-- How the attached tables are. Reads the catalog and what is recorded; nothing of the tables.
CREATE VIEW graphrag._attached_states AS
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
COMMENT ON VIEW graphrag._attached_states IS 'The rows of attached_tables, for all tables';

-- With the owner's rights, for owners of attached tables and for pg_monitor, whom faults of rows are told by their codes alone.
-- OFFSET 0: EXPLAIN ANALYZE would count tables of others for which a condition of the caller's held.
CREATE VIEW graphrag.attached_tables WITH (security_barrier = true) AS
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
COMMENT ON VIEW graphrag.attached_tables IS 'Tables that attach_table(), attach_entities() and attach_relationships() attached, and whether their documents follow them. For the owner of the extension, owners of the tables, and pg_monitor.';
COMMENT ON COLUMN graphrag.attached_tables.corpus IS 'Corpus the rows go to';
COMMENT ON COLUMN graphrag.attached_tables.attached_table IS 'The table, as last seen';
COMMENT ON COLUMN graphrag.attached_tables.state IS 'current; behind (a worker will go through the table); failing (a worker tried, and detail says why it failed); waiting (its owner must CALL backfill_table()); broken (detail says why its changes are not followed); dropped (workers will delete its documents); missing (gone after a restore, or without our triggers)';
COMMENT ON COLUMN graphrag.attached_tables.behind_since IS 'Time of the first change that documents may not show; null: none';
COMMENT ON COLUMN graphrag.attached_tables.lag IS 'Age of that change';
COMMENT ON COLUMN graphrag.attached_tables.error_code IS 'SQLSTATE of the error that kept documents from following';
COMMENT ON COLUMN graphrag.attached_tables.detail IS 'The error; it may quote a row. For a current table: that no reader sees its rows. Null for pg_monitor';
COMMENT ON COLUMN graphrag.attached_tables.hint IS 'What to do. Null for pg_monitor';
COMMENT ON COLUMN graphrag.attached_tables.attached_at IS 'Time it was attached';

-- After DDL: what a table is called and whether it can be followed is looked at at once, and who changed it is told. DDL never fails
-- because of it.
-- SECURITY DEFINER: whoever may change a table has no right to the tables of attachments. It takes numbers from the event alone.
CREATE FUNCTION graphrag._attached_altered() RETURNS event_trigger
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
CREATE FUNCTION graphrag._attached_dropped() RETURNS event_trigger
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
CREATE FUNCTION graphrag._attached_rewritten() RETURNS event_trigger
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
COMMENT ON FUNCTION graphrag._attached_rewritten() IS 'Event trigger: attached tables that are rewritten';

-- Event triggers are for superusers to make. Without them workers and repair() see what became of attached tables.
CREATE FUNCTION graphrag._make_event_triggers() RETURNS void
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
