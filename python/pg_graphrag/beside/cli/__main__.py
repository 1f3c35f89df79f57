"""``python -m pg_graphrag.beside.cli``: the command where its script is not on the path."""

import sys

from pg_graphrag.beside.cli import main

sys.exit(main())
