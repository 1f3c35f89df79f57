"""How far a move has come: `corpora.move` in both databases, which outlives crashes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from pg_graphrag.beside.process.copying import Cursor
from pg_graphrag.beside.process.corpus_copy.row_numbers import Renumbering

_OF = "SELECT c.id, c.move, c.created_at FROM graphrag.corpora c WHERE c.name = %s"
_LOCKED = f"{_OF} FOR NO KEY UPDATE"


@dataclass(frozen=True)
class Mark:
    """A corpus of a database: its number, when it was created, and its move; None where it does not move."""

    number: int
    created_at: Any
    move: Mapping[str, Any] | None

    @property
    def state(self) -> str | None:
        """None, moving, moved or arriving."""
        return None if self.move is None else str(self.move["state"])

    def goes_to(self, connection: psycopg.Connection[Any], number: int) -> bool:
        """Whether it moves, or has moved, to the corpus of that number there."""
        return (
            self.state in ("moving", "moved")
            and (self.move or {}).items() >= {"place": place(connection), "number": number}.items()
        )


def mark_of(cursor: Cursor, name: str, *, is_locked: bool = False) -> Mark | None:
    """Return the mark of a corpus; None for an unknown corpus. `is_locked`: nobody else can set it meanwhile."""
    row = cursor.execute(_LOCKED if is_locked else _OF, [name]).fetchone()
    return None if row is None else Mark(row[0], row[2], row[1])


def is_open(here: Mark | None, there: Mark | None) -> bool:
    """Whether what moves from here is read and written there: only the last round, or what takes a move back, opens it."""
    if here is None or here.move is None or there is None:
        return False
    return there.move is None and (there.number, there.created_at) == (here.move["number"], here.created_at)


def set_mark(cursor: Cursor, numbers: list[int], move: Mapping[str, Any] | None) -> None:
    """Mark corpora, with the time of now; None takes their marks off."""
    cursor.execute(
        "UPDATE graphrag.corpora SET move = %s || pg_catalog.jsonb_build_object('since', pg_catalog.clock_timestamp())"
        " WHERE id = ANY (%s)",
        [None if move is None else Jsonb(move), numbers],
    )


def place(connection: psycopg.Connection[Any]) -> str:
    """Return HOST/DATABASE, as everybody may read it."""
    info = connection.info
    host = info.host or "localhost"
    return f"{host}{'' if info.port == 5432 else f':{info.port}'}/{info.dbname}"


@dataclass
class Arrival:
    """What a target knows of an arriving corpus: the numbers of its rows, and how much of the source it has.

    `seen`: the transaction of the source from which on rows may be missing. `written`: the transactions of the target that
    brought rows, in order. `equal`: the transaction of the target from which on others may have written rows that were not
    compared; None if nothing was compared.
    """

    numbers: Renumbering
    providers: dict[str, str]
    seen: str
    written: list[str]
    equal: str | None

    @classmethod
    def read(cls, move: Mapping[str, Any]) -> "Arrival":
        """Return what a mark says."""
        maps = {
            domain: {int(old): int(new) for old, new in pairs.items()}
            for domain, pairs in move["maps"].items()
            if domain in ("corpora", "embedding_spaces")
        }
        shifts, highest = (
            {str(domain): int(number) for domain, number in move[name].items()} for name in ("shifts", "highest")
        )
        return cls(
            Renumbering(shifts, maps, highest),
            dict(move["providers"]),
            str(int(move["seen"])),
            [str(int(number)) for number in move["written"]],
            None if move["equal"] is None else str(int(move["equal"])),
        )

    def as_move(self, where: str) -> dict[str, Any]:
        """Return the mark that says it."""
        return {
            "state": "arriving",
            "place": where,
            "maps": self.numbers.maps,
            "shifts": self.numbers.shifts,
            "highest": self.numbers.highest,
            "providers": self.providers,
            "seen": self.seen,
            "written": self.written,
            "equal": self.equal,
        }
