"""What a model said, before it is parsed: as text that PostgreSQL can hold, and counted."""

import re
from typing import Any

# Characters of a model's words in an error or a warning.
MAX_QUOTED = 100
# Characters that PostgreSQL's text cannot hold.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def clean(text: str) -> str:
    """Return `text` without what PostgreSQL cannot hold: NUL, and halves of surrogate pairs."""
    return _UNSTORABLE.sub("", text)


def one_line(text: str, most: int = MAX_QUOTED) -> str:
    """Return the beginning of a text as one short line, as errors and warnings quote a model."""
    line = " ".join(clean(text[: 4 * most]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def count_tokens(api_count: Any, text: str) -> int:
    """Return the endpoint's count of tokens; without one, a quarter of the bytes."""
    if isinstance(api_count, int) and not isinstance(api_count, bool) and api_count >= 0:
        return min(api_count, 2**31 - 1)
    return len(text.encode("utf-8", "replace")) // 4 + 1
