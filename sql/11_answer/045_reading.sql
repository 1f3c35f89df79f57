-- For the statement that a model wrote: the fence of lists lets nothing through that writes, and this is a wall behind it, which also
-- holds nextval() and setval(). PostgreSQL lets no function have the setting as its own; the subtransaction of the statement that calls
-- it takes the setting back.
CREATE FUNCTION graphrag._reading(statement text) RETURNS SETOF text
LANGUAGE plpgsql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    RETURN QUERY EXECUTE statement;
END;
$$;
COMMENT ON FUNCTION graphrag._reading(text) IS 'The texts that a statement with one column of type text returns, run with the caller''s rights; 25006 if it would write. Outside a subtransaction the rest of the transaction can only read.';
