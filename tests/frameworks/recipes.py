"""The recipes of docs/frameworks.md."""

from __future__ import annotations

import re
from pathlib import Path

_PAGE = Path(__file__).parents[2] / "docs/frameworks.md"
_RECIPE = r"<!-- python: {name} -->\n```python\n(.*?)^```$"


def recipe(name: str) -> str:
    """Return the Python of the page that is marked with a name."""
    (source,) = re.findall(_RECIPE.format(name=name), _PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return str(source)
