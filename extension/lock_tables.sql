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
