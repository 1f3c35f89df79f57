"""Where 0.2.0 had `pg_graphrag.alembic`."""

from pg_graphrag.integrations.alembic import include_name, include_object

__all__ = ["include_name", "include_object"]
