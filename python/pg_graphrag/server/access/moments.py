"""Times in calls: dates in filters, and the option ``as_of``."""

import json
import re
from datetime import datetime
from typing import Any, TypeGuard

from pg_graphrag.ground.json_reading import read_json

# What errors say of a moment.
A_DATE = 'a date or time in ISO 8601, such as "2024-02-29" or "2024-02-29T12:00:00Z"'
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?"
_IS_DATE = re.compile(_DATE)
_HAS_ZONE = re.compile("[Z+-]")
# For items v: values that are no dates are not compared; a date without a zone is UTC, whatever the session's zone.
DATES = f"""
SELECT CASE WHEN pg_catalog.substr(t.value, 11) ~ '[Z+-]' THEN t.value ELSE t.value || ' UTC' END AS value
  FROM (SELECT v.item #>> '{{}}' AS value, pg_catalog.jsonb_typeof(v.item) AS type) t
 WHERE t.type = 'string' AND pg_catalog.length(t.value) <= 40 AND t.value ~ '^({_DATE})$'
"""


def has_form_of_date(value: Any) -> TypeGuard[str]:
    """Return whether a value is written as a date or time in ISO 8601."""
    return isinstance(value, str) and _IS_DATE.fullmatch(value) is not None


def is_date(value: Any) -> TypeGuard[str]:
    """Return whether a value is a date or time in ISO 8601 that exists."""
    if not has_form_of_date(value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def zoned(date: str) -> str:
    """Return a date as PostgreSQL reads it in every session: of UTC, where it says no zone."""
    return date if _HAS_ZONE.search(date, 10) else f"{date} UTC"


def with_as_of(filter_: str | None, options: str) -> str | None:
    """Return the filter of a call together with its option `as_of`.

    Invalid options are left to the parser of options, which refuses them.
    """
    values = read_json(options)
    moment = values.get("as_of") if isinstance(values, dict) else None
    if not is_date(moment):
        return filter_
    as_of = json.dumps({"$as_of": moment})
    return as_of if filter_ is None else f'{{"$and": [{filter_}, {as_of}]}}'


def asks_a_moment(filter_: str) -> bool:
    """Return whether a filter is, or has among its conditions that all hold, ``{"$as_of": …}``."""
    if '"$as_of"' not in filter_:
        return False
    values = read_json(filter_)
    conditions = values.get("$and", []) if isinstance(values, dict) else []
    parts = [values, *(conditions if isinstance(conditions, list) else [])]
    return any(isinstance(part, dict) and "$as_of" in part for part in parts)
