"""Runs the revisions of pg_graphrag. An extension script owns every object; these only create and update the extension.

An application with an alembic environment of its own can list this folder's ``versions`` in its ``version_locations``,
or run the two side by side: this one keeps its state in a table of its own.
"""

import os
from logging.config import fileConfig

from alembic import context
from alembic.util import CommandError
from sqlalchemy import URL, create_engine, make_url, pool

VERSION_TABLE = "pg_graphrag_alembic_version"


def _url() -> URL:
    given = context.get_x_argument(as_dictionary=True).get("url") or os.environ.get("PG_GRAPHRAG_URL")
    if not given:
        raise CommandError("no database named: set PG_GRAPHRAG_URL, or give -x url=postgresql://user@host/database")
    # A libpq URL names no driver; SQLAlchemy would take psycopg2.
    return make_url(given).set(drivername="postgresql+psycopg")


if context.config.config_file_name is not None:
    fileConfig(context.config.config_file_name, disable_existing_loggers=False)

if context.is_offline_mode():
    context.configure(dialect_name="postgresql", literal_binds=True, version_table=VERSION_TABLE)
    with context.begin_transaction():
        context.run_migrations()
else:
    with create_engine(_url(), poolclass=pool.NullPool).connect() as connection:
        context.configure(connection=connection, version_table=VERSION_TABLE)
        with context.begin_transaction():
            context.run_migrations()
