-- Tables by which others decide what runs, who reads, and where keys go. Roles that write every table (pg_write_all_data), or
-- were granted it, are no owner.
CREATE FUNCTION graphrag._owner_only() RETURNS trigger
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
COMMENT ON FUNCTION graphrag._owner_only() IS 'Trigger of tables that only the owner may write';
CREATE TRIGGER corpora_owner_only BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON graphrag.corpora
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._owner_only();
CREATE TRIGGER corpus_grants_owner_only BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON graphrag.corpus_grants
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._owner_only();
CREATE TRIGGER providers_owner_only BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON graphrag.providers
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._owner_only();
CREATE TRIGGER nodes_owner_only BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON graphrag.nodes
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._owner_only();
CREATE TRIGGER placements_owner_only BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON graphrag.placements
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._owner_only();
CREATE TRIGGER attached_tables_owner_only BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON graphrag._attached_tables
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._owner_only();
CREATE TRIGGER graphs_owner_only BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON graphrag._graphs
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._owner_only();
CREATE TRIGGER attached_seen_owner_only BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON graphrag._attached_seen
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
CREATE FUNCTION graphrag._documents_authorize() RETURNS trigger
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
COMMENT ON FUNCTION graphrag._documents_authorize() IS 'Trigger of documents: only the owner may set the state of the index';
CREATE TRIGGER documents_authorize_insert BEFORE INSERT ON graphrag.documents
    FOR EACH ROW WHEN (NEW.indexed_hash IS NOT NULL OR NEW.indexed_at IS NOT NULL OR NEW.status IS DISTINCT FROM 'pending' OR NEW.error IS NOT NULL
                       OR NEW.version_of IS NOT NULL OR NEW.pictures_hash IS NOT NULL)
    EXECUTE FUNCTION graphrag._documents_authorize();
CREATE TRIGGER documents_authorize_update BEFORE UPDATE ON graphrag.documents
    FOR EACH ROW WHEN (NEW.indexed_hash IS DISTINCT FROM OLD.indexed_hash OR NEW.indexed_at IS DISTINCT FROM OLD.indexed_at
                       OR NEW.status IS DISTINCT FROM OLD.status OR NEW.error IS DISTINCT FROM OLD.error OR NEW.attached_id IS DISTINCT FROM OLD.attached_id
                       OR NEW.version_of IS DISTINCT FROM OLD.version_of OR NEW.pictures_hash IS DISTINCT FROM OLD.pictures_hash)
    EXECUTE FUNCTION graphrag._documents_authorize();
-- The same of attached_id, once in a statement: the rows of attached tables have one, all of them.
CREATE FUNCTION graphrag._documents_authorize_attached() RETURNS trigger
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
COMMENT ON FUNCTION graphrag._documents_authorize_attached() IS 'Trigger of documents: only attached tables may mark documents as theirs';
CREATE TRIGGER documents_authorize_attached AFTER INSERT ON graphrag.documents REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._documents_authorize_attached();
-- Also where a role may set session_replication_role.
ALTER TABLE graphrag.documents ENABLE ALWAYS TRIGGER documents_authorize_insert;
ALTER TABLE graphrag.documents ENABLE ALWAYS TRIGGER documents_authorize_attached;
ALTER TABLE graphrag.documents ENABLE ALWAYS TRIGGER documents_authorize_update;
