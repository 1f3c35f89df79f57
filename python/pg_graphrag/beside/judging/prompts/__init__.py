"""Prompts of the judge and of the question makers: text files in this folder, with places ``{name}``."""

import re
from pathlib import Path

_PLACE = re.compile(r"\{([a-z_]+)\}")


def render(name: str, **values: str | int) -> str:
    """Return prompt `name` with `values` in its places, verbatim: braces in values mean nothing."""
    text = Path(__file__).with_name(f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")
    return _PLACE.sub(lambda match: str(values[match.group(1)]), text)
