-- A session that LISTENs and leaves a transaction open keeps all NOTIFYs of the server in a queue. Where it is full, who sends
-- one cannot commit. So from half of it on ours are left out, whose listeners look for themselves.
CREATE FUNCTION graphrag._may_notify(bytes bigint) RETURNS boolean
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
-- An entry never begins on one page and ends on the next.
RETURN pg_notification_queue_usage()
       + (1 + 2 * bytes / 8192.0) / coalesce(current_setting('max_notify_queue_pages', true)::float8, 1048576) < 0.5;
COMMENT ON FUNCTION graphrag._may_notify(bigint) IS 'Whether the server''s queue of notifications has room for so many bytes';
