"""The name `pg_graphrag.alembic` of 0.2.0, which leads to `pg_graphrag.integrations.alembic`."""

import sys

from pg_graphrag.integrations import alembic

sys.modules[__name__] = alembic
