"""Where 0.2.0 had `pg_graphrag.models`."""

from pg_graphrag.integrations.models import *  # noqa: F403
from pg_graphrag.integrations.models import __all__ as __all__
