"""Where 0.2.0 had `pg_graphrag.alembic`: the module of today under its former name."""

import sys

from pg_graphrag.integrations import alembic

sys.modules[__name__] = alembic
