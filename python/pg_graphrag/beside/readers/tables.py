"""Tables as text: small ones as Markdown, long ones as rows that each repeat their column heads."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest

# A longer table is cut into chunks and windows, most of which would lack its heads.
MAX_TABLE = 600


def table_text(rows: Sequence[Sequence[str]], has_heads: bool = True) -> str:
    """Return a table whose first row has the heads, as a rule; rows may be ragged, empty ones are left out."""
    cleaned = [[" ".join(cell.split()) for cell in row] for row in rows]
    cleaned = [row for row in cleaned if any(row)]
    if not cleaned:
        return ""
    width = max(map(len, cleaned))
    filled = [row + [""] * (width - len(row)) for row in cleaned]
    columns = [index for index in range(width) if any(row[index] for row in filled)]
    filled = [[row[index] for index in columns] for row in filled]
    if len(columns) == 1:
        return "\n".join(row[0] for row in filled)
    if len(filled) == 1:
        return " | ".join(cell for cell in filled[0] if cell)
    if has_heads and sum(len(cell) + 3 for row in filled for cell in row) > MAX_TABLE:
        return "\n".join(f"- {row_text(filled[0], row)}" for row in filled[1:])
    head, *body = map(_markdown, filled)
    return "\n".join([head, f"|{' --- |' * len(columns)}", *body])


def joined_heads(upper: Sequence[str], lower: Sequence[str]) -> list[str]:
    """Return the heads that two rows of them make: what stands above several columns before what stands in each."""
    pairs = zip_longest(upper, lower, fillvalue="")
    return [" ".join(dict.fromkeys(filter(None, (" ".join(cell.split()) for cell in pair)))) for pair in pairs]


def _markdown(row: Sequence[str]) -> str:
    return f"| {' | '.join(row)} |" if "|" not in "".join(row) else _markdown([cell.replace("|", "¦") for cell in row])


def row_text(heads: Sequence[str], row: Iterable[str]) -> str:
    """Return a row as ``head: cell; …``, without empty cells."""
    parts = []
    for index, cell in enumerate(row):
        head = heads[index] if index < len(heads) else ""
        if cell:
            parts.append(f"{head.rstrip(':')}: {cell}" if head and head != cell else cell)
    return "; ".join(parts)


def is_of_numbers(rows: Iterable[Iterable[str]]) -> bool:
    """Whether more than a third of the cells with text are numbers."""
    cells = [cell for row in rows for cell in row if cell]
    return 3 * sum(map(is_number, cells)) > len(cells)


def is_number(cell: str) -> bool:
    """Whether a cell is a number: more than half of its characters are digits."""
    return sum(map(str.isdigit, cell)) * 2 > len(cell)
