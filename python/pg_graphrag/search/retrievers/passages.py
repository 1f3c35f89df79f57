"""Short passages of chunks for relevance tests: the sentences to test, and the windows around them."""

from collections.abc import Sequence
from dataclasses import dataclass

from pg_graphrag.ground.numeric import np
from pg_graphrag.search.query import cached_vectors
from pg_graphrag.search.query.query import Query, timed
from pg_graphrag.search.retrievers.lexical import SharedWords, shared_words
from pg_graphrag.server import Row
from pg_graphrag.text.chunks import half_words
from pg_graphrag.text.sentences import sentences

# Half words of a passage: about 50 words, or 100 Han characters. A model reads more of longer ones, and finds hardly more.
PASSAGE_SIZE = 100

_WINDOWS = """
SELECT w.id, w.chunk_id, w.start_offset - c.start_offset AS start, w.end_offset - c.start_offset AS end, c.language,
       pg_catalog.substr(c.content, w.start_offset - c.start_offset + 1, w.end_offset - w.start_offset) AS content
  FROM graphrag.chunks c
  JOIN graphrag.chunk_windows w ON w.chunk_id = c.id
 WHERE c.id = ANY ($1)
 ORDER BY w.chunk_id, w.ordinal
"""


@dataclass(frozen=True, slots=True)
class Passage:
    """The window of a chunk that is nearest a query, and its few nearest sentences."""

    window: str
    sentences: str


@timed("passages")
def nearest(query: Query, chunks: Sequence[int]) -> dict[int, Passage]:
    """Return {chunk: its passage nearest the query}; a chunk without text has none."""
    best: dict[int, Row] = {}
    for row in windows(query, chunks):
        if row["chunk_id"] not in best or row["nearness"] > best[row["chunk_id"]]["nearness"]:
            best[row["chunk_id"]] = row
    words = shared_words(query)
    return {chunk: _passage(row["content"], row["language"], words) for chunk, row in best.items()}


def windows(query: Query, chunks: Sequence[int], *, asks: bool = True) -> list[Row]:
    """Return the windows of chunks as they follow each other, each with its `nearness` to the query.

    That is the share of the query's words that it has, and its cosine to the query where there are vectors. `asks`: whether an
    endpoint may be asked for the query's.
    """
    rows = query.db.query(_WINDOWS, ["int8[]"], [list(chunks)]) if chunks else []
    if not rows:
        return []
    nearness = shared_words(query).shares_of_query([row["content"] for row in rows])
    if query.dense_works and (asks or query.has_vector):
        ids = np.array([row["id"] for row in rows], np.int64)
        (cosines,) = cached_vectors.read_cosines(query, "window", ids, [query.vector])
        nearness += cosines
    for row, score in zip(rows, np.round(nearness, 9).tolist(), strict=True):
        row["nearness"] = score
    return rows


def windows_of(query: Query, chunks: Sequence[int], *, asks: bool = True) -> dict[int, list[Row]]:
    """Return {chunk: its `windows`}."""
    by_chunk: dict[int, list[Row]] = {}
    for window in windows(query, chunks, asks=asks):
        by_chunk.setdefault(window["chunk_id"], []).append(window)
    return by_chunk


def _passage(window: str, language: str, words: SharedWords) -> Passage:
    """Return a window with the sentence that shares most with the query, and its neighbours as far as there is room."""
    spans = sentences(window, language)
    shares = words.shares_of_query([window[start:end] for start, end in spans]).tolist()
    if not any(shares):
        # Another language, or other words: the vector alone says that it is near.
        return Passage(window.strip(), window.strip())
    first = last = max(range(len(spans)), key=shares.__getitem__)
    size = half_words(window, *spans[first])
    while True:
        # The text after a sentence explains it better than the text before.
        following = [last + 1] if last + 1 < len(spans) else []
        preceding = [first - 1] if first > 0 else []
        room = [place for place in following + preceding if size + half_words(window, *spans[place]) <= PASSAGE_SIZE]
        if not room:
            break
        place = max(room, key=shares.__getitem__)
        size += half_words(window, *spans[place])
        first, last = min(first, place), max(last, place)
    return Passage(window.strip(), window[spans[first][0] : spans[last][1]].strip())
