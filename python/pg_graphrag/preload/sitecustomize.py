"""Python imports this when it starts, in a postmaster whose PYTHONPATH names this folder: see `pg_graphrag.preload`."""

import pg_graphrag.preload

pg_graphrag.preload.load()
