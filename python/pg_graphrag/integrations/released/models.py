"""The name `pg_graphrag.models` of 0.2.0, which leads to `pg_graphrag.integrations.models`."""

import sys

from pg_graphrag.integrations import models

sys.modules[__name__] = models
