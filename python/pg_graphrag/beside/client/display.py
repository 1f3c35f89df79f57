"""Display of results in a notebook: HTML tables, and pandas on request."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from pg_graphrag.ground.errors import GraphRAGError

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")
# A notebook shows a part of long texts and lists; the objects hold the whole.
MAX_ROWS = 50
MAX_CHARACTERS = 300


class Results(list[T]):
    """A list of results, all of one dataclass, that a notebook shows as a table."""

    __slots__ = ()

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a data frame with the fields as columns; of an empty list, one without columns.

        Raises GraphRAGError: 58P01 without pandas.
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise GraphRAGError(
                "to_pandas needs the Python package pandas",
                sqlstate="58P01",
                hint="Install it with pip install pandas.",
            ) from error
        return pandas.DataFrame([asdict(row) for row in self])  # type: ignore[call-overload]

    def _repr_html_(self) -> str:
        return table(self)


def table(rows: Sequence[Any]) -> str:
    """Return dataclasses as an HTML table, without fields that hold objects (`explain` and its like)."""
    if not rows:
        return "<p>no rows</p>"
    names = [
        field.name for field in fields(rows[0]) if not any(isinstance(getattr(row, field.name), dict) for row in rows)
    ]
    lines = [_line("th", names), *(_line("td", [getattr(row, name) for name in names]) for row in rows[:MAX_ROWS])]
    more = f"<p>{len(rows) - MAX_ROWS:,} more rows</p>" if len(rows) > MAX_ROWS else ""
    return f"<table>{''.join(lines)}</table>{more}"


def _line(tag: str, values: Iterable[Any]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_cell(value)}</{tag}>' for value in values)}</tr>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return escape(text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1].rstrip() + "…")


class ProgressBar:
    """Shows how many documents are indexed: a bar in a notebook, else a line on standard error."""

    def __init__(self) -> None:
        # Without IPython imported, there is no notebook.
        shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        self._is_notebook = shell is not None and hasattr(shell, "kernel")
        self._handle: Any = None
        self._line = ""

    def show(self, done: int, total: int) -> None:
        """Show that `done` of `total` documents are indexed, in place of the bar before."""
        line = f"{done:,} of {total:,} documents are indexed"
        if line == self._line:
            return
        self._line = line
        if not self._is_notebook:
            print(line, file=sys.stderr)
            return
        from IPython.display import HTML, display

        bar = HTML(f'<progress value="{done}" max="{max(total, 1)}"></progress> {line}')
        if self._handle is None:
            self._handle = display(bar, display_id=True)
        else:
            self._handle.update(bar)
