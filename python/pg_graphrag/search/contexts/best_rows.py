"""The best rows of a query in a mode: existing documents, in the order that the request asks for.

The first ranks hold one of several near-duplicate documents. Only the texts of the rows of one answer are compared, so
nothing that the caller may not see has an effect. Source: the Jaccard index of shingles (Broder 1997), at the threshold
of Lee et al. (arXiv 2107.06499).
"""

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import Ids, NDArray, distinct, np, union, within
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.query.found_chunk import FoundChunk
from pg_graphrag.search.query.mode import Mode
from pg_graphrag.search.query.mode_options import SearchOptions
from pg_graphrag.search.query.query import Query, timed
from pg_graphrag.search.query.rankings import Fused
from pg_graphrag.search.retrievers.empty import language_of_silence, note_instead
from pg_graphrag.server import cached_property
from pg_graphrag.text.letters import without_invisible
from pg_graphrag.text.outline import pages_text

MAX_TOP_K = 10_000
# How deep each retriever looks first, so that fusion sees chunks that are low in one list and high in another.
DEPTH = 100
# How many times deeper it looks next, where more rows are asked for.
STEP = 4
# Scores that differ by less are equal: sums of the same numbers in another order.
DIGITS = 9
# Ranks that no two near-duplicates share, and the rows that are looked at to fill them.
FIRST, LOOK = 10, 100
# Chunks of two documents are near-duplicates if they share at least this part of their shingles (Jaccard index).
LEAST_SHARED = 0.8
# A shingle is a run of so many bytes of UTF-8, some two words of Latin or of Chinese letters: rows of one form with
# different contents share few of them.
SHINGLE = 10
# Before shingles are made, some of one text are looked for in the other, evenly spread; half of them must be there.
_PROBES = 8
_MULTIPLIERS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)

# What the graph has of a chunk.
_READ = (
    "chunk_id",
    "document_id",
    "source_key",
    "title",
    "ordinal",
    "content",
    "token_count",
    "section",
    "page",
    "picture_id",
)

Shingles = NDArray[np.uint64]


def check_top_k(top_k: int | None) -> int:
    """Return top_k; 22023 outside 0 … 10,000."""
    if top_k is None or not 0 <= top_k <= MAX_TOP_K:
        raise GraphRAGError(
            f"top_k cannot be {'null' if top_k is None else top_k}", hint=f"Give 0 to {MAX_TOP_K:,} rows."
        )
    return top_k


class Stage(NamedTuple):
    """A step that reorders rows: (query, top_k) to how many to retrieve, (query, rows) to rows with new scores and notes."""

    rows_needed: Callable[[Query, int], int]
    ordered: Callable[[Query, list[FoundChunk]], list[FoundChunk]]


def _stages(options: SearchOptions) -> list[Stage]:
    """Return the stages that a search has, in their order; a session loads those alone that it is asked for."""
    stages: list[Stage] = []
    if options.rerank:
        from pg_graphrag.search.contexts import rerank

        stages.append(Stage(rerank.rows_needed, rerank.rescored))
    if options.select:
        from pg_graphrag.search.contexts import selection

        stages.append(Stage(selection.rows_needed, selection.selected))
    if options.near_duplicates == "behind":
        stages.append(_TWINS_BEHIND)
    return stages


def best_rows(query: Query, mode: Mode, top_k: int) -> tuple[Query, list[FoundChunk]]:
    """Return (the query that found them, at most `top_k` rows, each with its chunk, document, score and explanation)."""
    if not query.text or top_k == 0:
        return query, []
    stages = _stages(query.options)
    limit = max([top_k, *(stage.rows_needed(query, top_k) for stage in stages)])
    retrieve = _retriever(query, mode)
    rows, count = _retrieved(query, retrieve, limit)
    if len(rows) < min(limit, count) and query.visible is None:
        # Chunks of documents that were deleted past the triggers took places: search again among those that exist.
        query = query.existing()
        retrieve = _retriever(query, mode)
        rows, _ = _retrieved(query, retrieve, limit)
    if not rows and mode.reads_keywords and (language := language_of_silence(query)) is not None:
        from pg_graphrag.search.retrievers.hybrid_retrieval import hybrid  # most modes do without its retrievers

        retrieve = cache(partial(hybrid, query))
        rows, _ = _retrieved(query, retrieve, limit)
        if rows:
            note_instead(query, mode, language)
    # Rows that a model reads are no more than it was to read.
    while stages == [_TWINS_BEHIND] and (deeper := _deeper(query, rows, limit)) > limit:
        limit = deeper
        rows, _ = _retrieved(query, retrieve, limit)
    for stage in stages:
        rows = stage.ordered(query, rows)
    return query, rows[:top_k]


def _retriever(query: Query, mode: Mode) -> Callable[[int], Fused]:
    """Return what retrieves and fuses at a depth, each once."""
    if query.options.transform == "none":
        return cache(partial(mode.retrieve, query))
    from pg_graphrag.search.contexts.transforms import transformed  # few searches have one

    return cache(partial(transformed(mode.retrieve, query), query))


def _retrieved(query: Query, retrieve: Callable[[int], Fused], limit: int) -> tuple[list[FoundChunk], int]:
    """Return (at most `limit` rows, how many chunks were found).

    How deep retrievers look decides how their rankings are fused. So it does not depend on `limit`: deeper searches, where the
    first has too few chunks, add theirs behind. An answer of more rows begins with the answer of fewer.
    """
    rows: list[FoundChunk] = []
    earlier = np.empty(0, np.int64)
    depth = DEPTH
    while True:
        # A mode's own work besides its retrievers is to fuse them.
        with query.step("fuse"):
            fusion = retrieve(depth)
        rows += _rows(query, fusion, earlier, limit - len(rows), rows[-1].score if rows else np.inf)
        earlier = union(earlier, fusion.ids)
        # If it found fewer than it looked for, there are no more.
        if len(rows) >= limit or len(fusion.ids) < depth:
            return rows, len(earlier)
        depth *= STEP


@timed("texts")
def _rows(query: Query, fusion: Fused, earlier: Ids, top_k: int, most: float) -> list[FoundChunk]:
    """Return the best rows outside of the `earlier` chunks (ascending), with scores of at most `most`."""
    value = np.round(fusion.scores, DIGITS)
    order = np.argsort(-value, kind="stable")
    order = order[~within(fusion.ids[order], earlier)]
    # All that tie with the last place, and some more in place of deleted documents.
    last = min(len(order), top_k + top_k // 4 + 10)
    if 0 < last < len(order):
        last = int(np.searchsorted(-value[order], -value[order[last - 1]], side="right"))
    best = order[:last]
    score = dict(zip(fusion.ids[best].tolist(), value[best].tolist(), strict=True))
    rows = graph_of(query).chunks(list(score))
    rows.sort(key=lambda row: (-score[row["chunk_id"]], row["source_key"].encode(), row["ordinal"]))
    chunks = [FoundChunk(**{name: row[name] for name in _READ}, score=score[row["chunk_id"]]) for row in rows[:top_k]]
    embedding = query.corpus.options.embedding
    for row in chunks:
        row.explain |= fusion.explain(row.chunk_id)
        if row.section:
            row.explain["section"] = row.section
        if row.page is not None:
            row.explain["pages"] = pages_text(row.page, row.content)
        if row.picture_id is not None:
            row.explain["picture"] = row.picture_id
        if not embedding.embeds(row.content):
            row.explain["embedding"] = f"by words alone: {embedding.model} was not made for the text's language"
        row.score = min(row.score, most)
    return chunks


def _deeper(query: Query, rows: list[FoundChunk], limit: int) -> int:
    """Return how many rows to retrieve instead of `limit`, since near-duplicates leave first ranks empty; else `limit`."""
    if not limit == len(rows) < LOOK:
        return limit
    return min(2 * limit, LOOK) if len(_first(query, rows)[0]) < FIRST else limit


@timed("near_duplicates")
def apart(query: Query, rows: list[FoundChunk]) -> list[FoundChunk]:
    """Return the rows with near-duplicates of other documents behind the first ranks; `explain` names the twins.

    What the first ranks hold depends on the first LOOK rows alone, not on how many rows there are.
    """
    first, twins = _first(query, rows)
    for place, kept in twins.items():
        keys = rows[kept].explain.setdefault("twins", [])
        if rows[place].source_key not in keys:
            keys.append(rows[place].source_key)
        rows[place].explain["twin_of"] = rows[kept].source_key
    if not twins:
        return rows
    are_first = set(first)
    behind = [row for place, row in enumerate(rows) if place not in are_first]
    for row in behind:
        row.score = min(row.score, rows[first[-1]].score)
    return [rows[place] for place in first] + behind


_TWINS_BEHIND = Stage(lambda _, top_k: max(top_k, FIRST), apart)


def _first(query: Query, rows: list[FoundChunk]) -> tuple[list[int], dict[int, int]]:
    """Return (places of the rows for the first ranks, {place of a near-duplicate before the last of them: its twin's}).

    Rows of equal chunks are compared once in a query: mostly, the rows that decide how many are retrieved are the rows
    shown.
    """
    key = "first ranks", tuple(row.chunk_id for row in rows[:LOOK])
    if key not in query.memo:
        query.memo[key] = _compared(rows)
    compared: tuple[list[int], dict[int, int]] = query.memo[key]
    return compared


def _compared(rows: list[FoundChunk]) -> tuple[list[int], dict[int, int]]:
    first: list[int] = []
    twins: dict[int, int] = {}
    texts: dict[int, _Text] = {}
    for place, row in enumerate(rows[:LOOK]):
        texts[place] = _Text(row.document_id, row.content)
        twin = next((kept for kept in first if texts[kept].is_twin(texts[place])), None)
        if twin is not None:
            twins[place] = twin
            continue
        first.append(place)
        if len(first) == FIRST:
            break
    return first, twins


class _Text:
    """The text of a row, for comparison with others."""

    def __init__(self, document: int, content: str) -> None:
        self._document, self._content = document, without_invisible(content)

    def is_twin(self, other: "_Text") -> bool:
        """Whether the other text is a near-duplicate of this one, in another document."""
        short, long = (self, other) if len(self._content) <= len(other._content) else (other, self)
        if self._document == other._document or len(short._content) < LEAST_SHARED * len(long._content):
            return False
        if self.bytes == other.bytes:
            return True
        if not short._is_likely_in(long):
            return False
        shared = int(within(self.shingles, other.shingles).sum())
        return shared >= LEAST_SHARED * (len(self.shingles) + len(other.shingles) - shared)

    def _is_likely_in(self, other: "_Text") -> bool:
        """Whether half of some shingles of this text are in the other; False if one text is shorter than a shingle."""
        text, other_text = self.bytes, other.bytes
        size = min(len(text), len(other_text)) - SHINGLE
        if size <= 0:
            return False
        missing = 0
        for start in range(0, size, -(-size // _PROBES)):
            if text[start : start + SHINGLE] not in other_text:
                missing += 1
                if missing > _PROBES // 2:
                    return False
        return True

    @cached_property
    def bytes(self) -> bytes:
        """The visible text, without differences of case and white space."""
        return " ".join(self._content.casefold().split()).encode()

    @cached_property
    def shingles(self) -> Shingles:
        """A number for each shingle, ascending."""
        text, count = self.bytes, len(self.bytes) - SHINGLE + 1
        # Each run of bytes is the eight of one number and the two of another, which overlap with those of the next.
        eight = np.ndarray((count,), np.uint64, text, strides=(1,))
        two = np.ndarray((count,), np.uint16, text, 8, strides=(1,)).astype(np.uint64)
        return distinct(eight * _MULTIPLIERS[0] ^ two * _MULTIPLIERS[1])
