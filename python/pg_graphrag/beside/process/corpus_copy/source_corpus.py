"""The corpus in the source: its own row, its history and spaces, and which rows belong to it."""

from dataclasses import dataclass
from typing import Any

import psycopg

from pg_graphrag.beside.process.copying import Cursor, check_rows, value
from pg_graphrag.beside.process.corpus_copy.row_numbers import domain_of
from pg_graphrag.ground.errors import GraphRAGError

# (name, columns) of the tables that a dump has.
Relations = list[tuple[str, list[str]]]

_CONDITIONS = {
    # Requests in a batch are asked again.
    "llm_batch_requests": "x.state <> 'sent'",
    # What says that a document is without some vectors, and what failed for good: all else is queued with its document.
    "jobs": "x.document_id IS NOT NULL AND x.chunks IS NULL AND x.state <> 'leased' AND (x.state = 'failed'"
    " OR x.last_error LIKE 'Unembeddable:%' AND x.document_id IN"
    " (SELECT d.id FROM graphrag.documents d WHERE d.indexed_at IS NOT NULL))",
}


@dataclass(frozen=True)
class SourceCorpus:
    """A corpus of the source, and its history where it has one: (number, name, options, protection, …) of each."""

    corpora: list[dict[str, Any]]
    # Whether it is the history of another, which does not come along.
    is_history: bool
    # Spaces in use: (number, corpus, provider, model, dimensions, state, time).
    spaces: list[tuple[Any, ...]]

    @classmethod
    def read(cls, reader: Cursor, name: str) -> "SourceCorpus":
        """Find a corpus; 42704 if there is none, 55000 if it has attached rows."""
        with reader.connection.cursor(row_factory=psycopg.rows.dict_row) as rows:
            corpora = rows.execute(_CORPORA, {"name": name}).fetchall()
        if not corpora:
            raise unknown_corpus(reader.connection, name)
        ids = [row["id"] for row in corpora]
        check_rows(reader, f'corpus "{name}"', ids)
        is_history = "SELECT EXISTS (SELECT FROM graphrag._histories h WHERE h.history_id = %s)"
        return cls(corpora, value(reader, is_history, [ids[0]]), reader.execute(_SPACES, [ids]).fetchall())

    @property
    def ids(self) -> list[int]:
        """The numbers of the corpus and of its history."""
        return [row["id"] for row in self.corpora]

    def name_of(self, number: int) -> str:
        """Return the name of one of them."""
        return next(str(row["name"]) for row in self.corpora if row["id"] == number)

    def names(self, new_name: str | None, history_name: str | None) -> dict[int, str]:
        """Return {corpus id: its name in the copy}; 42704 for the name of a history that does not exist."""
        if history_name is not None and len(self.corpora) < 2:
            raise GraphRAGError(
                f'corpus "{self.corpora[0]["name"]}" has no history that could be called "{history_name}"',
                sqlstate="42704",
                hint="Leave out --history-as.",
            )
        new_names = (new_name, history_name)
        return {
            row["id"]: row["name"] if new is None else new for row, new in zip(self.corpora, new_names, strict=False)
        }

    def attached_tables(self, reader: Cursor) -> str | None:
        """Return the names of the tables that are attached to it; None if there are none."""
        names: str | None = value(reader, _ATTACHED, [self.ids])
        return names

    def condition(self, table: str, columns: list[str]) -> str:
        """Return SQL of which rows `x` of a table belong to it."""
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


def unknown_corpus(source: psycopg.Connection[Any], name: str) -> GraphRAGError:
    """Return the error of a name that no corpus of the source has."""
    return GraphRAGError(
        f'corpus "{name}" does not exist in database "{source.info.dbname}"',
        sqlstate="42704",
        hint="SELECT name FROM graphrag.corpora lists the corpora.",
    )


_CORPORA = """
SELECT c.id, c.name, c.options, c.tokenizer, c.tokenizer_fingerprint, c.created_at, c.protection, c.needs_reindex
  FROM graphrag.corpora c
  LEFT JOIN graphrag._histories h ON h.history_id = c.id
  LEFT JOIN graphrag.corpora o ON o.id = h.corpus_id
 WHERE %(name)s IN (c.name, o.name)
 ORDER BY c.name <> %(name)s
"""
_ATTACHED = """
SELECT pg_catalog.string_agg(pg_catalog.format('%%I.%%I', a.schema_name, a.table_name), ', ' ORDER BY a.id)
  FROM graphrag._attached_tables a WHERE a.corpus_id = ANY (%s)
"""
_SPACES = """
SELECT s.id, s.corpus_id, s.provider, s.model, s.dimensions, s.state, s.created_at
  FROM graphrag.embedding_spaces s WHERE s.state <> 'retired' AND s.corpus_id = ANY (%s) ORDER BY s.id
"""
