"""Where 0.2.0 had `pg_graphrag.models`: the module of today under its former name."""

import sys

from pg_graphrag.integrations import models

sys.modules[__name__] = models
