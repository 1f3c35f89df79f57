"""Reserves numbers of the target for the rows of a corpus: as wide a range as in the source, so that the order
stays.
"""

import psycopg

from pg_graphrag.beside.process.copying import Cursor, value
from pg_graphrag.beside.process.corpus_copy.row_numbers import ITEMS, Renumbering, edge_ends, int64s, scalars
from pg_graphrag.beside.process.corpus_copy.source_corpus import Relations, SourceCorpus

# Numbers that others take between the two halves of a reservation lie in this gap.
_GAP = 1_000_000


def reserve(
    reader: Cursor, writer: Cursor, corpus: SourceCorpus, relations: Relations, *, room: int = 0
) -> Renumbering:
    """Take as many numbers of the target as the corpus spans: others go on with those behind. Lost where the copy fails.

    `room`: how many more it may get in the source, in any table; `numbers.highest` says up to which.
    """
    numbers = Renumbering()
    for domain in ("corpora", "embedding_spaces"):
        old = corpus.ids if domain == "corpora" else [space[0] for space in corpus.spaces]
        numbers.maps[domain] = {
            number: value(writer, f"SELECT pg_catalog.nextval('graphrag.{domain}_id_seq')::int") for number in old
        }
    bounds = _bounds(reader, corpus, relations)
    if room:
        for domain in _sequences(reader, relations):
            last = value(reader, f"SELECT s.last_value FROM graphrag.{domain}_id_seq s")
            ends = [last, *bounds.get(domain, ())]
            numbers.highest[domain] = max(ends) + room
            bounds[domain] = min(ends), numbers.highest[domain]
    for domain, (low, high) in bounds.items():
        if domain in numbers.maps:
            continue
        last = value(
            writer,
            f"SELECT pg_catalog.setval('graphrag.{domain}_id_seq', greatest(pg_catalog.nextval('graphrag.{domain}_id_seq'),"
            f" (SELECT pg_catalog.max(x.id) FROM graphrag.{domain} x)) + {_GAP + high - low + 1})",
        )
        numbers.shifts[domain] = last - high
    return numbers


def is_exhausted(reader: Cursor, numbers: Renumbering, relations: Relations) -> bool:
    """Whether the source may have given numbers beyond those that are reserved."""
    last_values = " UNION ALL ".join(
        f"SELECT '{domain}', s.last_value FROM graphrag.{domain}_id_seq s" for domain in _sequences(reader, relations)
    )
    rows = reader.execute(last_values.encode()).fetchall()
    return any(last > numbers.highest.get(domain, 0) for domain, last in rows)


def _sequences(reader: Cursor, relations: Relations) -> list[str]:
    """Return the tables whose rows are numbered by a sequence of 8 bytes."""
    numbered = (
        "SELECT t.name FROM pg_catalog.unnest(%s::text[]) AS t (name)"
        " WHERE pg_catalog.to_regclass('graphrag.' || t.name || '_id_seq') IS NOT NULL"
    )
    apart = ("corpora", "providers", "embedding_spaces", "llm_batches")
    tables = [table for table, _ in relations if table not in apart]
    return [row[0] for row in reader.execute(numbered, [tables]).fetchall()]


_SEGMENTS = "SELECT x.kind, x.item_ids, x.document_ids FROM graphrag.bm25_segments x WHERE x.corpus_id = ANY (%s)"
_EDGES = "SELECT x.edges, x.edge_count FROM graphrag.community_states x WHERE x.corpus_id = ANY (%s)"


def _bounds(reader: Cursor, corpus: SourceCorpus, relations: Relations) -> dict[str, tuple[int, int]]:
    """Return the lowest and the highest number of each table that the corpus has, also of rows that are gone."""
    spans: dict[str, tuple[int, int]] = {}

    def note(domain: str, *numbers: int | None) -> None:
        ends = [number for number in (*spans.get(domain, ()), *numbers) if number is not None]
        if ends:
            spans[domain] = min(ends), max(ends)

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
            f"SELECT {selected} FROM graphrag.{table} x WHERE {corpus.condition(table, columns)}".encode()
        ).fetchone()
        for place, (domain, _) in enumerate(expressions):
            note(domain, *(row or ())[2 * place : 2 * place + 2])
    with reader.connection.cursor("graphrag_segments", row_factory=psycopg.rows.tuple_row) as segments:
        segments.itersize = 1
        for kind, items, documents in segments.execute(_SEGMENTS, [corpus.ids]):
            for domain, packed in ((ITEMS[kind], items), ("documents", documents)):
                if packed:
                    note(domain, int(int64s(packed).min()), int(int64s(packed).max()))
    for edges, edge_count in reader.execute(_EDGES, [corpus.ids]).fetchall():
        if edge_count:
            ends = int64s(edge_ends(edges, edge_count))
            note("entities", int(ends.min()), int(ends.max()))
    return spans
