-- Code that reading a relation would run, and that must not get the session's rights. A view, policy or index expression can take SET ROLE
-- and SET SESSION AUTHORIZATION back, and so act as who logged in. Therefore a superuser's session, one with the owner's rights, and one
-- whose role is not its login's read only what belongs to roles that have the rights of both. Null: nothing.
CREATE FUNCTION graphrag._foreign_code(relation regclass) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF graphrag_attached._login() = current_user AND NOT pg_has_role((SELECT c.relowner FROM pg_class c WHERE c.oid = 'graphrag.corpora'::regclass), 'MEMBER') THEN
        RETURN NULL;
    END IF;
    RETURN graphrag_attached._code_of_others(relation);
END
$$;
COMMENT ON FUNCTION graphrag._foreign_code(regclass) IS 'Code that reading a relation would run and that must not have the rights of the session or the caller; null: none';

CREATE FUNCTION graphrag._refuse_foreign_code(relation regclass) RETURNS void
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
COMMENT ON FUNCTION graphrag._refuse_foreign_code(regclass) IS 'Refuses a relation whose code would get rights that its owners lack';
