"""What a corpus has in a database: its rows, those of its history, and the numbers that they span."""

from dataclasses import dataclass
from typing import Any

import psycopg

from pg_graphrag.beside.process.copying import Cursor
from pg_graphrag.beside.process.numbers import ITEMS, domain_of, scalars
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import Ids, np

# (name, columns) of the tables that a dump has.
Relations = list[tuple[str, list[str]]]

_CONDITIONS = {
    # What is in a batch is asked again.
    "llm_batch_requests": "x.state <> 'sent'",
    # What says that a document is without some vectors, and what failed for good: all else is queued with its document.
    "jobs": "x.document_id IS NOT NULL AND x.chunks IS NULL AND x.state <> 'leased' AND (x.state = 'failed'"
    " OR x.last_error LIKE 'Unembeddable:%' AND x.document_id IN"
    " (SELECT d.id FROM graphrag.documents d WHERE d.indexed_at IS NOT NULL))",
}


@dataclass(frozen=True)
class FoundCorpus:
    """A corpus of the source, and its history where it has one: (number, name, options, protection, …) of each."""

    corpora: list[dict[str, Any]]
    # Whether it is the history of another, which does not come along.
    is_history: bool
    # Those in use: (number, corpus, provider, model, dimensions, state, time).
    spaces: list[tuple[Any, ...]]

    @classmethod
    def read(cls, reader: Cursor, name: str) -> "FoundCorpus":
        """Find a corpus; 42704 where there is none, 55000 where it has attached rows."""
        with reader.connection.cursor(row_factory=psycopg.rows.dict_row) as rows:
            corpora = rows.execute(_CORPORA, {"name": name}).fetchall()
        if not corpora:
            raise GraphRAGError(
                f'corpus "{name}" does not exist in database "{reader.connection.info.dbname}"',
                sqlstate="42704",
                hint="SELECT name FROM graphrag.corpora lists the corpora.",
            )
        ids = [row["id"] for row in corpora]
        if reader.execute(_HAS_ROWS, [ids]).fetchone() == (True,):
            raise GraphRAGError(
                f'corpus "{name}" has attached rows, which are for who may read their tables',
                sqlstate="55000",
                hint="End these attachments with graphrag.detach_table(), copy, and attach the tables of the target.",
            )
        is_history = reader.execute(
            "SELECT EXISTS (SELECT FROM graphrag._histories h WHERE h.history_id = %s)", [ids[0]]
        ).fetchone() == (True,)
        return cls(corpora, is_history, reader.execute(_SPACES, [ids]).fetchall())

    @property
    def ids(self) -> list[int]:
        """The numbers of the corpus and of its history."""
        return [row["id"] for row in self.corpora]

    def name_of(self, number: int) -> str:
        """Return the name of one of them."""
        return next(str(row["name"]) for row in self.corpora if row["id"] == number)

    def names(self, new_name: str | None, history_name: str | None) -> dict[int, str]:
        """Return what each is called in the copy, by number; 42704 for a name of a history that there is not."""
        if history_name is not None and len(self.corpora) < 2:
            raise GraphRAGError(
                f'corpus "{self.corpora[0]["name"]}" has no history that could be called "{history_name}"',
                sqlstate="42704",
                hint="Leave out --history-as.",
            )
        given = (new_name, history_name)
        return {row["id"]: row["name"] if new is None else new for row, new in zip(self.corpora, given, strict=False)}

    def condition(self, table: str, columns: list[str]) -> str:
        """Return SQL of which rows `x` of a table are of it."""
        corpora = ", ".join(map(str, self.ids))
        if "corpus_id" in columns:
            condition = f"x.corpus_id IN ({corpora})"
        elif "space_id" in columns:
            condition = f"x.space_id IN ({', '.join(str(space[0]) for space in self.spaces) or 'NULL'})"
        else:
            column, domain = next(
                (name, domain) for name in columns if name != "id" and (domain := domain_of(table, name)) is not None
            )
            condition = f'x."{column}" IN (SELECT y.id FROM graphrag.{domain} y WHERE y.corpus_id IN ({corpora}))'
        return f"{condition} AND ({_CONDITIONS.get(table, 'true')})"


_CORPORA = """
SELECT c.id, c.name, c.options, c.tokenizer, c.tokenizer_fingerprint, c.created_at, c.protection
  FROM graphrag.corpora c
  LEFT JOIN graphrag._histories h ON h.history_id = c.id
  LEFT JOIN graphrag.corpora o ON o.id = h.corpus_id
 WHERE %(name)s IN (c.name, o.name)
 ORDER BY c.name <> %(name)s
"""
_HAS_ROWS = """
SELECT EXISTS (SELECT FROM graphrag._attached_tables a WHERE a.kind <> 'documents' AND a.corpus_id = ANY (%s))
"""
_SPACES = """
SELECT s.id, s.corpus_id, s.provider, s.model, s.dimensions, s.state, s.created_at
  FROM graphrag.embedding_spaces s WHERE s.state <> 'retired' AND s.corpus_id = ANY (%s) ORDER BY s.id
"""


def int64s(packed: bytes) -> Ids:
    """Return the numbers of a packed column."""
    return np.frombuffer(packed, "<i8")


def edge_ends(edges: bytes, edge_count: int) -> bytes:
    """Return the part of packed edges that is numbers: of each its two ends, before the shares."""
    return edges[: 16 * edge_count]


_SEGMENTS = "SELECT x.kind, x.item_ids, x.document_ids FROM graphrag.bm25_segments x WHERE x.corpus_id = ANY (%s)"
_EDGES = "SELECT x.edges, x.edge_count FROM graphrag.community_states x WHERE x.corpus_id = ANY (%s)"


def bounds(reader: Cursor, found: FoundCorpus, relations: Relations) -> dict[str, tuple[int, int]]:
    """Return the lowest and the highest number of each table that the corpus has, also of rows that are gone."""
    spans: dict[str, tuple[int, int]] = {}

    def note(domain: str, *numbers: int | None) -> None:
        known = [number for number in (*spans.get(domain, ()), *numbers) if number is not None]
        if known:
            spans[domain] = min(known), max(known)

    for table, columns in relations:
        expressions = [item for column in columns for item in scalars(table, column)]
        if table in ("corpora", "providers", "_attached_tables", "_histories", "llm_batches") or not expressions:
            continue
        selected = ", ".join(
            f"{bound}({expression.format(bound=bound)})"
            for _, expression in expressions
            for bound in ("pg_catalog.min", "pg_catalog.max")
        )
        row = reader.execute(
            f"SELECT {selected} FROM graphrag.{table} x WHERE {found.condition(table, columns)}".encode()
        ).fetchone()
        for place, (domain, _) in enumerate(expressions):
            note(domain, *(row or ())[2 * place : 2 * place + 2])
    with reader.connection.cursor("graphrag_segments", row_factory=psycopg.rows.tuple_row) as segments:
        segments.itersize = 1
        for kind, items, documents in segments.execute(_SEGMENTS, [found.ids]):
            for domain, packed in ((ITEMS[kind], items), ("documents", documents)):
                if packed:
                    note(domain, int(int64s(packed).min()), int(int64s(packed).max()))
    for edges, edge_count in reader.execute(_EDGES, [found.ids]).fetchall():
        if edge_count:
            ends = int64s(edge_ends(edges, edge_count))
            note("entities", int(ends.min()), int(ends.max()))
    return spans
