"""BM25: segments, tail and tombstones together hold each live item once, with exactly the terms of its tsvector."""

from collections.abc import Iterable, Iterator
from typing import Any

from pg_graphrag.ground.numeric import NDArray, np
from pg_graphrag.index.bm25.index import KINDS
from pg_graphrag.index.bm25.packing import Entry, merge_runs, segment_entries, tail_entries
from pg_graphrag.index.bm25.segments import Ids, Postings, State, locate, read_state
from pg_graphrag.index.bm25.tail import TermCounts, Vocabulary, read_tail
from pg_graphrag.server import Database, Row
from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.text.words.search_terms import NAME_END

# Terms read at a time: each has up to twelve bytes an item.
_FETCH = 100
# Indexed items of each kind: (id, document_id, tsv, tf_overflow).
_ITEMS = {
    "chunk": "SELECT c.id, c.document_id, c.tsv, c.tf_overflow FROM graphrag.chunks c WHERE c.corpus_id = $1",
    **{
        f"{name}_mention": f"SELECT m.id, m.document_id, m.tsv, NULL::jsonb AS tf_overflow FROM graphrag.{name}_mentions m"
        " WHERE m.corpus_id = $1 AND m.tsv IS NOT NULL"
        for name in ("entity", "relationship")
    },
}
_TF = "coalesce((x.tf_overflow ->> t.lexeme)::int, pg_catalog.cardinality(t.positions), 1)"
_LENGTHS = f"""
SELECT pg_catalog.string_agg(pg_catalog.int8send(x.id), '' ORDER BY x.id) AS ids,
       pg_catalog.string_agg(pg_catalog.int8send(x.document_id), '' ORDER BY x.id) AS documents,
       pg_catalog.string_agg(pg_catalog.int8send(n.length), '' ORDER BY x.id) AS lengths
  FROM ({{items}}) x
 CROSS JOIN LATERAL (SELECT coalesce(pg_catalog.sum({_TF}) FILTER (WHERE t.lexeme NOT LIKE '%{NAME_END}'), 0)::bigint AS length
                       FROM pg_catalog.unnest(x.tsv) t) n
"""
_COUNTS = """
SELECT p.segment_id, p.term, p.df, p.ordinals, p.frequencies, p.overflow, s.item_count
  FROM graphrag.bm25_segments s JOIN graphrag.bm25_postings p ON p.segment_id = s.id
 WHERE s.corpus_id = $1
"""
_TERMS = f"""
SELECT t.lexeme COLLATE "C" AS term,
       pg_catalog.string_agg(pg_catalog.int8send(x.id), '' ORDER BY x.id) AS ids,
       pg_catalog.string_agg(pg_catalog.int4send({_TF}), '' ORDER BY x.id) AS frequencies
  FROM ({{items}}) x, pg_catalog.unnest(x.tsv) t
 GROUP BY t.lexeme COLLATE "C"
 ORDER BY t.lexeme COLLATE "C"
"""


def check(db: Database, corpus: Corpus) -> Iterator[tuple[str, Iterator[tuple[str, str]]]]:
    """Yield each invariant with its violations."""
    yield "BM25 counts the items of each term", _counts(db, corpus)
    for kind in KINDS:
        yield "BM25 holds each item once", _items(db, corpus, kind)
        yield "BM25 holds the terms of its items", _terms(db, corpus, kind)


def _array(data: bytes | None, dtype: str) -> Ids:
    return np.frombuffer(data or b"", dtype).astype(np.int64)


def _items(db: Database, corpus: Corpus, kind: str) -> Iterator[tuple[str, str]]:
    (row,) = db.query(_LENGTHS.format(items=_ITEMS[kind]), ["int4"], [corpus.id])
    item_ids, documents, lengths = (_array(row[name], ">i8") for name in ("ids", "documents", "lengths"))
    state = read_state(db, corpus.id, kind)
    indexed_ids, indexed_documents, indexed_lengths = items(state)
    unique, copies = np.unique(indexed_ids, return_counts=True)
    name = kind.replace("_", " ")
    for item in unique[copies > 1].tolist():
        yield f"{name} {item}", "is in the index more than once"
    for item in np.setdiff1d(item_ids, unique).tolist():
        yield f"{name} {item}", "is not in the index"
    for item in np.setdiff1d(unique, item_ids).tolist():
        yield f"{name} {item}", "is in the index, and gone"
    places, is_indexed = locate(item_ids, indexed_ids)
    if len(item_ids):
        differ = is_indexed & ((documents[places] != indexed_documents) | (lengths[places] != indexed_lengths))
        for item in indexed_ids[differ].tolist():
            yield f"{name} {item}", "is in the index with another document or length"
    for segment in state.segments:
        numbers, total = segment.item_ids(), int(segment.lengths().sum(dtype=np.int64))
        if segment.length != total or (numbers[1:] <= numbers[:-1]).any():
            yield f"segment {segment.id}", "its items are out of order, or its total length is wrong"
        dead = 0 if segment.dead is None else int(np.count_nonzero(segment.dead))
        dead_length = 0 if segment.dead is None else int(segment.lengths()[segment.dead].sum(dtype=np.int64))
        if (segment.deleted_count, segment.deleted_length) != (dead, dead_length):
            yield f"segment {segment.id}", f"counts {segment.deleted_count} deleted items, there are {dead}"


def _counts(db: Database, corpus: Corpus) -> Iterator[tuple[str, str]]:
    for row in db.stream(_COUNTS, ["int4"], [corpus.id], _FETCH):
        if not row["term"] or not _is_whole(row):
            yield (
                f"segment {row['segment_id']}",
                f"counts {row['df']} items with the term “{row['term']}”, and has others",
            )


def _is_whole(row: Row) -> bool:
    """Whether postings can be read, count their items, and name none that the segment has not."""
    try:
        postings = Postings.unpack(row["df"], row["ordinals"], row["frequencies"], row["overflow"])
    except (ValueError, IndexError):
        return False
    ordinals, frequencies = postings.ordinals, postings.frequencies
    if postings.df != np.count_nonzero(frequencies):
        return False
    if ordinals is None:
        return len(frequencies) == int(row["item_count"])
    return len(ordinals) == len(frequencies) and bool(
        (np.diff(ordinals, prepend=-1, append=row["item_count"]) > 0).all()
    )


def _terms(db: Database, corpus: Corpus, kind: str) -> Iterator[tuple[str, str]]:
    """Compare term by term: both sides are ordered by term (by code point, as "C" orders UTF-8)."""
    name = kind.replace("_", " ")
    expected_rows = db.stream(_TERMS.format(items=_ITEMS[kind]), ["int4"], [corpus.id], _FETCH)
    index_entries = entries(db, corpus.id, kind)
    row, entry = next(expected_rows, None), next(index_entries, None)
    while row is not None or entry is not None:
        if entry is None or (row is not None and row["term"] < entry[0]):
            assert row is not None
            yield f"{name}s with the term “{row['term']}”", "are not in the index under it"
            row = next(expected_rows, None)
        elif row is None or entry[0] < row["term"]:
            yield f"{name}s with the term “{entry[0]}”", "are in the index, and none has it"
            entry = next(index_entries, None)
        else:
            if (entry[1].astype(">i8").tobytes(), entry[2].astype(">i4").tobytes()) != (row["ids"], row["frequencies"]):
                yield f"{name}s with the term “{entry[0]}”", "are other ones in the index, or with other frequencies"
            row, entry = next(expected_rows, None), next(index_entries, None)


def statistics(db: Database, corpus_id: int, kind: str) -> tuple[int, int]:
    """Return N and the sum of lengths, as searches count them."""
    state = read_state(db, corpus_id, kind)
    return state.count, state.length


def items(state: State) -> tuple[Ids, Ids, Ids]:
    """Return the live items in ascending order, with their documents and lengths, (n,) each."""
    parts = [(state.tail_items, state.tail_documents, state.tail_lengths.astype(np.int64))]
    for segment in state.segments:
        live = segment.live_ordinals()
        parts.append((segment.item_ids()[live], segment.document_ids()[live], segment.lengths()[live].astype(np.int64)))
    columns = [np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return columns[0][order], columns[1][order], columns[2][order]


def entries(db: Database, corpus_id: int, kind: str) -> Iterator[tuple[str, Ids, NDArray[np.integer[Any]]]]:
    """Yield (term, live items that contain it in ascending order, frequencies), in the order of terms.

    The tail is in memory (12 bytes a posting), segments are not.
    """
    state = read_state(db, corpus_id, kind)
    item_ids, _, _ = items(state)
    runs: list[Iterable[Entry]] = []
    for segment in state.segments:
        live = segment.live_ordinals()
        places = np.full(segment.count, -1, np.int32)
        places[live] = np.searchsorted(item_ids, segment.item_ids()[live])
        runs.append(segment_entries(db, segment.id, places))
    vocabulary = Vocabulary()
    counts: list[TermCounts] = []
    tail: list[Ids] = [np.zeros(0, np.int64)]
    item_count = 0
    for part, terms in read_tail(db, corpus_id, kind, state.tail_items, vocabulary):
        tail.append(part)
        counts.append(terms.shifted(item_count))
        item_count += len(part)
    if item_count:
        places = np.searchsorted(item_ids, np.concatenate(tail)).astype(np.int32)
        runs.append(tail_entries(TermCounts.join(counts), vocabulary, places))
    if runs:
        for term, ordinals, frequencies in merge_runs(runs):
            yield term, item_ids[ordinals], frequencies
