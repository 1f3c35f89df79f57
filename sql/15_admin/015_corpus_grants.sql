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

COMMENT ON TABLE graphrag.corpus_grants IS 'Corpora granted to roles, by grant_corpus()';
COMMENT ON COLUMN graphrag.corpus_grants.corpus_id IS 'Corpus';
COMMENT ON COLUMN graphrag.corpus_grants.role IS 'Role; members that inherit from it have the grant too';
COMMENT ON COLUMN graphrag.corpus_grants.level IS 'read, or write (which includes read)';
COMMENT ON COLUMN graphrag.corpus_grants.role_oid IS 'The role that had the name when the grant was made or restored; 0: there was none';
COMMENT ON COLUMN graphrag.corpus_grants.granted_by IS 'Role that granted it';
COMMENT ON COLUMN graphrag.corpus_grants.granted_at IS 'Time of the grant';

-- A view, for current_user: the conditions on documents ask it as the reader, who sees no grants of others.
-- OFFSET 0: EXPLAIN ANALYZE would count grants of others for which a condition of the caller's held.
CREATE VIEW graphrag.granted_corpora WITH (security_barrier = true) AS
SELECT g.corpus_id,
       c.name AS corpus,
       g.level
  FROM graphrag.corpus_grants g
  JOIN graphrag.corpora c ON c.id = g.corpus_id
  JOIN pg_catalog.pg_roles r ON r.oid = g.role_oid AND r.rolname = g.role
 WHERE pg_catalog.pg_has_role(r.oid, 'USAGE')
OFFSET 0;

COMMENT ON VIEW graphrag.granted_corpora IS 'Corpora granted to the current role, or to roles it inherits from';
COMMENT ON COLUMN graphrag.granted_corpora.corpus_id IS 'Number of the corpus';
COMMENT ON COLUMN graphrag.granted_corpora.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.granted_corpora.level IS 'read, or write (which includes read)';

-- The same by the numbers of corpora, for the conditions on documents, which come first as a subscript does (_whole_corpora).
CREATE FUNCTION graphrag._given_corpora(writable boolean) RETURNS boolean[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT array_agg(n IN (SELECT g.corpus_id FROM graphrag.granted_corpora g WHERE NOT writable OR g.level = 'write') ORDER BY n)
              FROM generate_series(1, (SELECT max(g.corpus_id) FROM graphrag.granted_corpora g)) n);
END
$$;
COMMENT ON FUNCTION graphrag._given_corpora(boolean) IS 'Whether the corpus of each number was granted to the caller, to read or to write';

CREATE FUNCTION graphrag._corpus_grant_before() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    NEW.role_oid := coalesce((SELECT r.oid FROM pg_roles r WHERE r.rolname = NEW.role), 0);
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION graphrag._corpus_grant_before() IS 'Trigger of corpus_grants: sets the oid of the role';
CREATE TRIGGER corpus_grants_before BEFORE INSERT OR UPDATE ON graphrag.corpus_grants
    FOR EACH ROW EXECUTE FUNCTION graphrag._corpus_grant_before();

CREATE FUNCTION graphrag._corpus_grants_changed() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM graphrag._settle_policies();
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._corpus_grants_changed() IS 'Trigger of corpus_grants: updates row-level security of documents';
CREATE TRIGGER corpus_grants_changed AFTER INSERT OR DELETE OR TRUNCATE ON graphrag.corpus_grants
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._corpus_grants_changed();
-- Also in a session that replicates or restores with triggers off.
ALTER TABLE graphrag.corpus_grants ENABLE ALWAYS TRIGGER corpus_grants_before;
ALTER TABLE graphrag.corpus_grants ENABLE ALWAYS TRIGGER corpus_grants_changed;

-- Checks the arguments of grant_corpus() and revoke_corpus(), and locks the corpus first of all (lock_tables.sql).
CREATE FUNCTION graphrag._grant_arguments(corpus text, INOUT level text, OUT corpus_id int)
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

CREATE FUNCTION graphrag.grant_corpus(corpus text, role name, level text DEFAULT 'read') RETURNS void
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
COMMENT ON FUNCTION graphrag.grant_corpus(text, name, text) IS 'Grants a corpus to a role: level read shows its documents and everything made of them, write also allows INSERT, UPDATE and DELETE. Makes the role a member of graphrag_member or graphrag_writer. The first grant turns row-level security of documents on: COPY FROM is then for the owner alone. Owner only; 42704 for an unknown corpus or role, 22023 for another level, 0LP01 for PUBLIC and reserved roles, 55P03 if documents stay locked.';

CREATE FUNCTION graphrag.revoke_corpus(corpus text, role name, level text DEFAULT NULL) RETURNS void
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
COMMENT ON FUNCTION graphrag.revoke_corpus(text, name, text) IS 'Revokes grants of grant_corpus(): one level, or all of the corpus (null). The role stays a member of graphrag_member or graphrag_writer, which shows no document: memberships belong to the cluster, and another database may need them. After the last grant, row-level security of documents is turned off, unless a corpus is protected. Owner only; 42704 for an unknown corpus and for a grant that does not exist.';

-- Makes a role a member of the group that a level needs. INHERIT: also where the role is NOINHERIT.
CREATE FUNCTION graphrag._grant_group(role name, level text) RETURNS void
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
CREATE FUNCTION graphrag._repair_grants() RETURNS void
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
