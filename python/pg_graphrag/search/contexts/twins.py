"""Near-duplicate documents: of those, the first ranks hold one.

Judged by the texts of the rows of one answer alone: nothing that the caller may not see has a part in it.
Source: the Jaccard index of shingles (Broder 1997), at the threshold of Lee et al. (arXiv 2107.06499).
"""

from pg_graphrag.ground.numeric import NDArray, distinct, np, within
from pg_graphrag.search.query.query import Query, timed
from pg_graphrag.server import Row, cached_property
from pg_graphrag.text.letters import without_invisible

# Ranks that no two near-duplicates share, and the rows that are looked at to fill them.
FIRST, LOOK = 10, 100
# Chunks of two documents are near-duplicates where they share so many of their shingles (Jaccard index).
LEAST_SHARED = 0.8
# A shingle is a run of so many bytes of UTF-8, some two words of Latin or of Chinese letters: rows of one form that say
# different things share few of them.
SHINGLE = 10
# Before shingles are made, some of one text are looked for in the other, evenly spread; half of them must be there.
_PROBES = 8
_MULTIPLIERS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)

Shingles = NDArray[np.uint64]


def depth(_: Query, top_k: int) -> int:
    """Return how many rows to retrieve for `top_k`."""
    return max(top_k, FIRST)


def deeper(query: Query, rows: list[Row], limit: int) -> int:
    """Return how many rows to retrieve instead of `limit`, since near-duplicates leave first ranks empty; else `limit`."""
    if not limit == len(rows) < LOOK:
        return limit
    return min(2 * limit, LOOK) if len(_first(query, rows)[0]) < FIRST else limit


@timed("near_duplicates")
def ordered(query: Query, rows: list[Row]) -> list[Row]:
    """Return the rows with near-duplicates of other documents behind the first ranks; `explain` names the twins.

    What the first ranks hold depends on the first LOOK rows alone, not on how many rows there are.
    """
    first, twins = _first(query, rows)
    for place, kept in twins.items():
        keys = rows[kept]["explain"].setdefault("twins", [])
        if rows[place]["source_key"] not in keys:
            keys.append(rows[place]["source_key"])
        rows[place]["explain"]["twin_of"] = rows[kept]["source_key"]
    if not twins:
        return rows
    are_first = set(first)
    behind = [row for place, row in enumerate(rows) if place not in are_first]
    for row in behind:
        row["score"] = min(row["score"], rows[first[-1]]["score"])
    return [rows[place] for place in first] + behind


def _first(query: Query, rows: list[Row]) -> tuple[list[int], dict[int, int]]:
    """Return (places of the rows for the first ranks, {place of a near-duplicate before the last of them: its twin's}).

    Rows of equal chunks are compared once for a query: what decides how many are retrieved is mostly what is shown.
    """
    key = "first ranks", tuple(row["chunk_id"] for row in rows[:LOOK])
    if key not in query.memo:
        query.memo[key] = _compared(rows)
    compared: tuple[list[int], dict[int, int]] = query.memo[key]
    return compared


def _compared(rows: list[Row]) -> tuple[list[int], dict[int, int]]:
    first: list[int] = []
    twins: dict[int, int] = {}
    texts: dict[int, _Text] = {}
    for place, row in enumerate(rows[:LOOK]):
        texts[place] = _Text(row)
        twin = next((kept for kept in first if texts[kept].is_twin(texts[place])), None)
        if twin is not None:
            twins[place] = twin
            continue
        first.append(place)
        if len(first) == FIRST:
            break
    return first, twins


class _Text:
    """The text of a row, to be compared with others."""

    def __init__(self, row: Row) -> None:
        self._document, self._content = row["document_id"], without_invisible(row["content"])

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
        """Whether half of some shingles of this text are in the other; not where one of them is shorter than a shingle."""
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
        """The text as it is seen, without differences of case and white space."""
        return " ".join(self._content.casefold().split()).encode()

    @cached_property
    def shingles(self) -> Shingles:
        """A number for each shingle, ascending."""
        text, count = self.bytes, len(self.bytes) - SHINGLE + 1
        # Each run of bytes is the eight of one number and the two of another, which overlap with those of the next.
        eight = np.ndarray((count,), np.uint64, text, strides=(1,))
        two = np.ndarray((count,), np.uint16, text, 8, strides=(1,)).astype(np.uint64)
        return distinct(eight * _MULTIPLIERS[0] ^ two * _MULTIPLIERS[1])
