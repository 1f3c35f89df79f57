-- All tables and views first, in short tries: who waits for one makes all others wait, and who holds some while he waits may be ended
-- by a deadlock, or end a worker. What was in the way is tried first, now and then for longer than deadlock_timeout, by which
-- autovacuum gives way: nothing else is held then.
DO $block$
DECLARE
    former CONSTANT text := pg_catalog.current_setting('lock_timeout');
    -- LOCK TABLE locks what a view reads too, as pg_class. Tables that inherit are locked with their parent.
    locks CONSTANT text[] := ARRAY(
        SELECT pg_catalog.format(CASE c.relkind WHEN 'v' THEN 'ALTER VIEW %s OWNER TO %I' ELSE 'LOCK TABLE %s IN ACCESS EXCLUSIVE MODE' END,
                                 c.oid::pg_catalog.regclass, pg_catalog.pg_get_userbyid(c.relowner))
          FROM pg_catalog.pg_class AS c
          JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
         WHERE n.nspname IN ('graphrag', 'graphrag_attached') AND c.relkind IN ('r', 'p', 'v') AND pg_catalog.pg_has_role(c.relowner, 'USAGE')
           AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits AS i WHERE i.inhrelid = c.oid)
            -- Tables that 0.2.0 attached get other triggers.
            OR EXISTS (SELECT FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = c.oid AND t.tgfoid = pg_catalog.to_regproc('graphrag._attached_changed'))
         ORDER BY c.relkind DESC, c.oid DESC);
    last  text := locks[1];
    began timestamptz;
BEGIN
    FOR attempt IN 1..240 LOOP
        BEGIN
            PERFORM pg_catalog.set_config('lock_timeout', CASE WHEN attempt % 8 = 0 THEN '1100ms' ELSE '200ms' END, true);
            EXECUTE last;
            began := pg_catalog.clock_timestamp();
            FOREACH last IN ARRAY locks LOOP
                PERFORM pg_catalog.set_config(
                    'lock_timeout', greatest(1, 200 - pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - began) * 1000)::int::text, true);
                EXECUTE last;
            END LOOP;
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
