-- The worker. No SET clause and no SECURITY DEFINER: either would forbid the commits between its short transactions.
CREATE PROCEDURE graphrag.process_jobs(max_jobs int DEFAULT NULL)
LANGUAGE plpython3u
AS $$
from pg_graphrag.server import call
call(plpy, "@extversion@", "operate.jobs.process_jobs:process_jobs", max_jobs)
$$;
COMMENT ON PROCEDURE graphrag.process_jobs(int) IS 'Does the due work, batch by batch, each committed on its own; returns when none is due, or after max_jobs jobs. Call it as a statement of its own (CALL), from as many sessions as there are free processors.';
