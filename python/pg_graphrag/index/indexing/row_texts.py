"""What is embedded of an attached row that has no text of its own, and of names.

A row is a few lines "column: value", and there may be a million. Its vector is made of vectors of parts: its name, which is an
entity and has one anyway, and the lines, which many rows have in common, so that a batch embeds each once.
"""

from pg_graphrag.text.concept import key

# Begins each part. No text of PostgreSQL has it.
PART = "\0"
# What a row says, up to its texts (sql/04_documents/031_attached_rows.sql).
LINES_END = "\n\n"


def window_text(title: str | None, window: str) -> str:
    """Return the parts of which the vector of a window of such a row is made; "" where it gets none.

    Of a number, a date or a key of another row the column alone says something. A row of a join table that says nothing in words
    gets none: all of its table would be alike.
    """
    parts = [key(title)] if title else []
    is_known = bool(title)
    for line in window.splitlines():
        column, _, value = line.partition(": ")
        in_words = value != title and not any(map(str.isdigit, value))
        parts.append(line if in_words else column)
        is_known |= in_words
    return "".join(PART + part for part in parts if part.strip()) if is_known else ""


def parts_of(text: str) -> list[str]:
    """Return the parts of a text of `window_text`; of any other none."""
    return text.split(PART)[1:]


def is_in_words(name: str) -> bool:
    """Whether a name, by its key, means something: no number, code or key of a row ("2019", "rz-500k", "plants/7")."""
    digits = sum(map(str.isdigit, name))
    if not digits or " " in name:
        return bool(name)
    return "/" not in name and digits < sum(map(str.isalpha, name))
