-- Workers through pg_cron, where it is installed: one bare CALL per job, so that the procedure may commit.
CREATE FUNCTION graphrag.schedule_worker(every interval DEFAULT '10 seconds', workers int DEFAULT 1) RETURNS int
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
COMMENT ON FUNCTION graphrag.schedule_worker(interval, int) IS 'Lets pg_cron run that many workers at that interval (0 workers: stops them); replaces an earlier schedule. 42704 if pg_cron is not installed.';

CREATE FUNCTION graphrag._unschedule_workers() RETURNS void
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
