-- Every session that works on jobs has an advisory lock: however it ends, the lock ends with it. Any user of SQL could take such a lock,
-- keep the jobs of a dead worker leased with it, and slow down the living. So it counts with the owner's rights alone.
CREATE VIEW graphrag._workers AS
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
CREATE FUNCTION graphrag._begin_work() RETURNS int
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

CREATE FUNCTION graphrag._end_work() RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    -- Only what is held: unlocking twice would be a WARNING.
    SELECT pg_advisory_unlock(1735549294, l.objid::int4) FROM pg_locks l
     WHERE l.pid = pg_backend_pid() AND l.locktype = 'advisory' AND l.classid = 1735549294 AND l.objsubid = 2 AND l.granted;
END;
COMMENT ON FUNCTION graphrag._end_work() IS 'Ends _begin_work()';
