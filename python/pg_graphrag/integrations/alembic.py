"""Filters that keep ``alembic revision --autogenerate`` of an application away from what pg_graphrag manages.

In the application's ``env.py``::

    from pg_graphrag.integrations.alembic import include_name, include_object

    context.configure(…, include_schemas=True, include_name=include_name, include_object=include_object)
"""

import re
from collections.abc import Mapping
from typing import Any

# The extension's schema, AGE's and pg_cron's, and those of AGE graphs, which are made at run time, one per corpus.
_MANAGED = re.compile(r"graphrag|graphrag_attached|graphrag_\d+|ag_catalog|cron")


def include_name(name: str | None, type_: str, parent_names: Mapping[str, str | None]) -> bool:
    """Leave those schemas out of what alembic reads from the database (alembic's ``include_name`` hook)."""
    schema = name if type_ == "schema" else parent_names.get("schema_name")
    return schema is None or _MANAGED.fullmatch(schema) is None


def include_object(object_: Any, name: str | None, type_: str, reflected: bool, compare_to: Any) -> bool:
    """Leave out the tables of `integrations.models`, where an application's metadata holds them (``include_object``)."""
    table = object_ if type_ == "table" else getattr(object_, "table", None)
    schema = getattr(table, "schema", None)
    return schema is None or _MANAGED.fullmatch(schema) is None
