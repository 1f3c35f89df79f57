-- First start of the container: the extension, and a worker that drains the queue.
CREATE EXTENSION pg_graphrag CASCADE;
CREATE EXTENSION pg_cron;
SELECT graphrag.schedule_worker('10 seconds');
