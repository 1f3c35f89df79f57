"""Read figures out of the tables of a page: of bench/RESULTS.md and docs/scale.md, for docs/results.py."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parent


class Page:
    """The tables and the first lines of a page's sections, by their headings."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sections: dict[str, str] = {}
        text = path.read_text(encoding="utf-8")
        for part in re.split(r"^#{1,4} +", text, flags=re.MULTILINE)[1:]:
            heading, _, below = part.partition("\n")
            self._sections[heading] = below

    def section(self, heading: str) -> str:
        """Return the text below a heading, up to the next.

        Raises
        ------
        LookupError
            There is no such heading.
        """
        if heading not in self._sections:
            raise LookupError(f'{self._path.name} has no section "{heading}"')
        return self._sections[heading]

    def cell(self, heading: str, row: str | tuple[str, ...], column: str, part: int = 0) -> str:
        """Return a figure: the part (of "a / b / c") of the cell in this row and column.

        Raises
        ------
        LookupError
            No table of the section has the row, or the column.
        """
        firsts = (row,) if isinstance(row, str) else row
        for titles, rows in tables(self.section(heading)):
            columns = [number for number, title in enumerate(titles) if title.startswith(column)]
            for cells in rows:
                if columns and all(cell.startswith(first) for cell, first in zip(cells, firsts, strict=False)):
                    return short(cells[columns[0]].split(" / ")[part])
        raise LookupError(f'{self._path.name}, "{heading}": no table has a row {firsts} and a column "{column}"')

    def machine(self) -> str:
        """Return the sentence of the page's head that says what was measured on."""
        (sentence,) = re.findall(r"Measured on [^\n]*?[a-z0-9]\.(?= )", self.section("Results"))
        return str(sentence)

    def link(self, heading: str, text: str = "") -> str:
        """Return a link from a page of docs/ to a section."""
        self.section(heading)
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        return f"[{text or heading}]({Path(os.path.relpath(self._path, DOCS)).as_posix()}#{anchor})"

    def run(self, heading: str) -> str:
        """Return the command that a section begins with, and what is said of its run: day, commit, load.

        Raises
        ------
        LookupError
            The section says neither day nor commit behind its first command.
        """
        run = re.search(r"`python -m bench [^`]+`[^(\n]*\((?:[^()]|\([^()]*\))*\)", self.section(heading))
        if run is None or not re.search(r"\b20\d\d-|\d November", run[0]):
            raise LookupError(f'{self._path.name}, "{heading}": no command with the day of its run')
        return run[0]


def tables(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yield (titles of the columns, rows of cells) of each table."""
    for block in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        rows = [[cell.strip().strip("*") for cell in line.strip().strip("|").split("|")] for line in block.splitlines()]
        yield rows[0], rows[2:]


def short(figure: str) -> str:
    """Return a figure without its interval and without a nought before the point."""
    return re.sub(r"^0(?=\.)", "", re.sub(r"\s*[\[(].*", "", figure.strip(" *")))
