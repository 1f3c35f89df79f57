"""Rows of attached tables in a context, as small tables with what the caller may see.

`Query.visible` holds the rows that the caller may SELECT: row-level security of documents, evaluated as the caller
(server/access/caller.py).
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pg_graphrag.ground.json_reading import json_text, read_shown_json
from pg_graphrag.ground.numeric import Ids, distinct, np, within
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.query.query import Query, timed, visible_digest
from pg_graphrag.search.query.session_values import cache_of_rows, cached_of_rows
from pg_graphrag.server import Row, cached_property
from pg_graphrag.text.marks import neutral_line

if TYPE_CHECKING:
    from pg_graphrag.text.tokenizers import Tokenizer

# Rows that are read for one context, and mentions of an entity among which its row is looked for.
MAX_ROWS = 200
HUB = 200.0
MAX_ENTITIES = 40
# Characters of a value; a longer one ends with "…".
MAX_VALUE = 200
# What parts the cells of a table, and what looks like it.
_BARS = dict.fromkeys(map(ord, "|｜¦│┃∣❘ǀ"), "/")
# Rows that a session caches by document and by source key, and entities whose rows it caches; and about how many bytes
# a row takes besides its values, and any other item.
MAX_CACHED, MAX_CACHED_ENTITIES = 1000, 20_000
_ROW_BYTES, _ITEM_BYTES = 2000, 200

# A row's own entity has the type of its table, in its mention alone.
_OF_ENTITIES = """
SELECT m.entity_id, m.document_id
  FROM graphrag.entity_mentions m
  JOIN graphrag.documents d ON d.id = m.document_id
  JOIN graphrag._attached_tables a ON a.id = d.attached_id AND a.kind = 'entities' AND a.entity_type = m.type
 WHERE m.chunk_id = ANY ($1) AND m.entity_id = ANY ($2)
 ORDER BY d.source_key COLLATE "C"
"""
# Of an attachment `a`.
TABLE_NAME = "CASE WHEN a.id IS NOT NULL THEN pg_catalog.format('%I.%I', a.schema_name, a.table_name) END"
_ROWS = f"""
SELECT d.id AS document_id, d.source_key, d.title, d.metadata, a.id AS attached_id, a.kind, a.key_prefix,
       {TABLE_NAME} AS table_name,
       a.entity_type, a.metadata_keys::text[] AS attributes, a.reference_types,
       pg_catalog.cardinality(a.alias_columns) > 0 AS has_aliases, a.key_columns = ARRAY[a.title_column] AS is_named_by_key,
       pg_catalog.strpos(d.content, E'\\n\\n') > 0 AS has_text, pg_catalog.split_part(d.content, E'\\n\\n', 1) AS head,
       (SELECT c.id FROM graphrag.chunks c WHERE c.document_id = d.id AND c.ordinal = 0) AS chunk_id
  FROM graphrag.documents d
  JOIN graphrag._attached_tables a ON a.id = d.attached_id AND a.kind <> 'documents'
 WHERE {{condition}} AND d.indexed_hash IS NOT NULL
"""
# How rows are read: the statement, the type of the argument, and the column that holds it.
_READS = {
    "documents": (
        _ROWS.format(condition="d.id = ANY ($1) AND d.corpus_id = $2 AND d.corpus = $3"),
        "int8[]",
        "document_id",
    ),
    "source keys": (
        _ROWS.format(condition="d.corpus_id = $2 AND d.corpus = $3 AND d.source_key = ANY ($1)"),
        "text[]",
        "source_key",
    ),
}


@dataclass(frozen=True)
class TableRow:
    """A row of an attached table: a row of `_ROWS`, its values by column, and which columns name other rows."""

    row: Row
    values: dict[str, Any]
    references: frozenset[str]

    @classmethod
    def of(cls, row: Row) -> "TableRow":
        """Make it of a row of `_ROWS`."""
        metadata = read_shown_json(row["metadata"])
        values: dict[str, Any] = {"key": key_of(row)}
        if row["kind"] == "entities":
            values["name"] = row["title"]
            if row["has_aliases"]:
                aliases = map(str, metadata.get("aliases") or ())
                values["aliases"] = ", ".join(
                    alias for alias in aliases if alias not in (values["key"], values["name"])
                )
        column_of = {
            name: f"attribute_{name}" if name in values else name
            for name in (*row["reference_types"], *row["attributes"])
        }
        values |= {column: metadata.get(name) for name, column in column_of.items()}
        return cls(row, values, frozenset(column_of[name] for name in row["reference_types"]))

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        return _ROW_BYTES + 3 * len(self.row["metadata"]) + len(self.row["head"])

    @cached_property
    def place(self) -> dict[str, str]:
        """Its table and its key there."""
        return {"table": self.row["table_name"], "key": key_of(self.row)}

    def entry(self, number: int) -> dict[str, Any]:
        """Return it as an entry of a context, whose document has a number."""
        row = self.row
        names = ("document_id", "chunk_id", "source_key", "has_text")
        return {name: row[name] for name in names} | {
            "reference": number,
            "table": row["table_name"],
            "type": row["entity_type"],
            "values": self.values,
            "heading": self.heading,
            "source": {"source_key": row["source_key"], "title": row["title"]} | self.place,
        }

    @cached_property
    def targets(self) -> list[str]:
        """The source keys of rows to which it leads."""
        return list(self._target_of.values())

    @cached_property
    def _target_of(self) -> dict[str, str]:
        """{column that refers to another row: that row's source key}."""
        return {name: self.values[name] for name in sorted(self.references) if isinstance(self.values[name], str)}

    def line(self, number: int, titles: dict[str, str]) -> str:
        """Return it as a line of a table, behind the number of its document; `titles`: {source key: what a row is called}."""
        cells = self._cells
        named = {name: _cell(titles[value]) for name, value in self._target_of.items() if value in titles}
        return f"| [{number}] | {' | '.join((cells | named if named else cells).values())} |\n"

    @cached_property
    def heading(self) -> str:
        """The name of its table, and the line of its columns."""
        kind = f"{self.row['entity_type']}: " if self.row["entity_type"] else ""
        return f"{neutral_line(kind + self.row['table_name'])}\n|  | {' | '.join(map(_cell, self._cells))} |\n"

    @cached_property
    def _cells(self) -> dict[str, str]:
        """Its values as text; of other rows the source keys. A key that is the name, too, stands there once."""
        key = self.values["key"]
        return {
            name: "" if value is None or (name == "key" and key == self.values.get("name")) else _cell(value)
            for name, value in self.values.items()
            if name != "key" or not self.row["is_named_by_key"]
        }


def key_of(row: Row) -> str:
    """Return the key of a row in its table: its source key without what stands before it."""
    return str(row["source_key"]).removeprefix(row["key_prefix"])


@dataclass(frozen=True)
class RowsNear:
    """Rows for a context, the best first, and {source key: name} of the rows that they refer to."""

    rows: list[TableRow]
    titles: dict[str, str]

    def places(self) -> dict[int, dict[str, str]]:
        """Return {document: its table and key}, for references."""
        return {row.row["document_id"]: row.place for row in self.rows}

    def fitting(self, budget: int, ranks: "Tokenizer", numbers: dict[int, int]) -> tuple[list[dict[str, Any]], int]:
        """Return the best rows that fit, table by table, as entries of a context, and their tokens; new ones are numbered."""
        entries: list[dict[str, Any]] = []
        order: dict[int, int] = {}
        tokens = 0
        for row in self.rows:
            table, document = row.row["attached_id"], row.row["document_id"]
            number = numbers.get(document, len(numbers) + 1)
            line = row.line(number, self.titles)
            cost = ranks.count_known(line) + (0 if table in order else ranks.count_known(row.heading) + 1)
            if tokens + cost > budget:
                break
            tokens += cost
            numbers[document] = number
            order.setdefault(table, len(order))
            entries.append(row.entry(number) | {"line": line, "place": order[table]})
        return sorted(entries, key=lambda entry: int(entry["place"])), tokens


def tables(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return entries of `RowsNear.fitting` by table: [{table, type, columns, rows: [{reference, document_id, …, values}]}]."""
    names = ("reference", "document_id", "chunk_id", "source_key", "values")
    by_place: dict[int, dict[str, Any]] = {}
    for entry in entries:
        table = {name: entry[name] for name in ("table", "type")} | {"columns": list(entry["values"]), "rows": []}
        by_place.setdefault(entry["place"], table)["rows"].append({name: entry[name] for name in names})
    return list(by_place.values())


def lines(entries: list[dict[str, Any]]) -> list[str]:
    """Return the lines of entries, with the columns before the first entry of each table."""
    parts: list[str] = []
    place = None
    for entry in entries:
        if entry["place"] != place:
            parts.append(entry["heading"])
        place = entry["place"]
        parts.append(entry["line"])
    return parts


@timed("rows")
def rows_near(query: Query, documents: Iterable[int], entities: Sequence[int]) -> RowsNear:
    """Return the rows among `documents`, then those of `entities`, then those to which these lead; each the best first."""
    ids = list(dict.fromkeys([*documents, *_documents_of(query, entities[:MAX_ENTITIES])]))
    by_id = _rows_of(query, ids, "documents")
    rows = [by_id[document] for document in ids if document in by_id][:MAX_ROWS]
    targets = list(dict.fromkeys(target for row in rows for target in row.targets))[:MAX_ROWS]
    by_key = _rows_of(query, targets, "source keys")
    document_ids = {row.row["document_id"] for row in rows}
    rows += [
        by_key[target]
        for target in targets
        if target in by_key and by_key[target].row["document_id"] not in document_ids
    ]
    titles = {key: row.row["title"] for key, row in by_key.items() if row.row["title"]}
    # If several rows share a name, the key is added.
    count = Counter(row.row["title"] for row in rows)
    return RowsNear(rows, {key: title if count[title] == 1 else f"{title} ({key})" for key, title in titles.items()})


def _rows_of(query: Query, items: list[Any], read: str) -> dict[Any, TableRow]:
    """Return {document or source key: its row} of those that are rows and that the caller may see; `read`: the keys to
    read.
    """
    cache_key: Hashable = "rows", query.corpus.id, read
    by_item: dict[Any, TableRow | None] = cached_of_rows(query, cache_key) or {}
    new = [item for item in items if item not in by_item]
    if new:
        new_rows: dict[Any, TableRow | None] = dict.fromkeys(new)
        corpus, (sql, kind, name) = query.corpus, _READS[read]
        rows = query.db.query(sql, [kind, "int4", "text"], [new, corpus.id, corpus.name])
        new_rows |= {row[name]: TableRow.of(row) for row in rows}
        by_item = by_item | new_rows
        cached = by_item if len(by_item) <= MAX_CACHED else new_rows
        cache_of_rows(query, cache_key, cached, sum(row.nbytes if row else _ITEM_BYTES for row in cached.values()))
    rows_of = {item: row for item in items if (row := by_item[item]) is not None}
    if query.visible is None:
        return rows_of
    documents = np.array([row.row["document_id"] for row in rows_of.values()], np.int64)
    is_visible = within(documents, query.visible).tolist()
    return {item: row for (item, row), seen in zip(rows_of.items(), is_visible, strict=True) if seen}


def _documents_of(query: Query, entities: Sequence[int]) -> Iterator[int]:
    """Yield the documents of rows that are these entities, in their order."""
    digest = None if query.visible is None else visible_digest(query)
    cache_key: Hashable = "documents of rows", query.corpus.id, digest
    documents_of: dict[int, list[int]] = cached_of_rows(query, cache_key) or {}
    if any(entity not in documents_of for entity in entities):
        mentioned, chunks, _, _ = graph_of(query).edges_of_entities(np.array(entities, np.int64), HUB)
        few = set(mentioned.tolist())
        new = [entity for entity in entities if entity in few and entity not in documents_of]
        if new:
            new_documents = _read_documents_of(query, chunks[within(mentioned, np.sort(new))], new)
            documents_of = documents_of | new_documents
            cached = documents_of if len(documents_of) <= MAX_CACHED_ENTITIES else new_documents
            cache_of_rows(query, cache_key, cached, _ITEM_BYTES * len(cached))
        # A hub's row is found in another entity's chunk: that depends on this query.
        hubs = [entity for entity in entities if entity not in few]
        if hubs:
            documents_of = documents_of | _read_documents_of(query, chunks, hubs)
    for entity in entities:
        yield from documents_of[entity]


def _read_documents_of(query: Query, chunks: Ids, entities: list[int]) -> dict[int, list[int]]:
    """Return {entity: the documents, among those of chunks, of rows that it is}."""
    documents: dict[int, list[int]] = {entity: [] for entity in entities}
    for row in query.db.query(_OF_ENTITIES, ["int8[]", "int8[]"], [distinct(chunks).tolist(), entities]):
        documents[row["entity_id"]].append(row["document_id"])
    return documents


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else json_text(value)
    text = neutral_line(text.translate(_BARS))
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"
