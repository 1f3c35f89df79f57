"""``python -m pg_graphrag.cli``: the command where its script is not on the path."""

import sys

from pg_graphrag.cli import main

sys.exit(main())
