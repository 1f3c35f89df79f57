"""What a session caches of corpora, and when it may be used: sizes, revisions and eviction in one place.

One rule: a cached value is right for every snapshot that sees the same `Corpus.revision`. In the transaction that
changed the corpus, the revision is None, and the tables are read. Documents come, go and are renamed without a merge,
so they are not cached, except for those of rows, by their state (search/query/session_values.py). The key of a value
for a part of the documents contains their ids.

The setting graphrag.session_memory bounds the cache (``0``: nothing is cached or used). The cache decides where an
answer is read, never what it is.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

from pg_graphrag.server import Database, Row
from pg_graphrag.server.backend import release_freed
from pg_graphrag.server.corpus.corpora import REVISION, Corpus

T = TypeVar("T")
# Corpora whose last seen revision a session remembers.
_MAX_CORPORA = 256
# With so many queries any caching pays.
_MANY_QUERIES = 1_000_000
# About the last so many queries decide how often a session asks each corpus.
_LAST_QUERIES = 256
# Reading a value of so many bytes takes as many again, until they are given back to the system.
_LARGE = 2 * 2**20
# Smaller frequencies are forgotten.
_RARE = 0.01


class _Entry(NamedTuple):
    value: Any
    size: int
    shared: int
    corpus_id: int
    revision: str | None
    first: bool


class _Visit(NamedTuple):
    corpus: Corpus
    earlier: int


class SessionCache:
    """Values by key, each of one revision of a corpus."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._visits: OrderedDict[int, _Visit] = OrderedDict()
        # How many of the session's last queries asked each corpus; an earlier one counts less.
        self._asked: dict[int, float] = {}

    def get(self, corpus: Corpus, key: Hashable) -> Any:
        """Return the value of the corpus' revision under `key`, or None."""
        entry = self._entries.get(key)
        if entry is None or corpus.revision is None or entry.revision != corpus.revision:
            return None
        self._entries.move_to_end(key)
        return entry.value

    def get_or_compute(self, corpus: Corpus, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the small value of the corpus' revision under `key`: computed, and cached, where it is not there."""
        value: T | None = self.get(corpus, key)
        if value is None:
            value = compute()
            if corpus.revision is not None:
                self.put(corpus, key, value, 0)
        return value

    def latest(self, corpus: Corpus, key: Hashable) -> Any:
        """Return the value under `key` for any revision, or None; None too if the extension was made again."""
        entry = self._entries.get(key)
        if entry is None or _table(entry.revision) != _table(corpus.revision):
            return None
        self._entries.move_to_end(key)
        return entry.value

    def put(
        self,
        corpus: Corpus,
        key: Hashable,
        value: Any,
        size: int,
        *,
        revision: str | None = None,
        first: bool = False,
        shared: int = 0,
    ) -> None:
        """Cache a value of `size` bytes; others are evicted for it if necessary, and it is dropped if that is not enough.

        `revision`: the revision at which the rows were read, if it may differ from the corpus'. `first`: is evicted last.
        `shared`: bytes that are mapped besides, which all sessions share.
        """
        former = self._entries.get(key)
        self._entries[key] = _Entry(value, size, shared, corpus.id, revision or corpus.revision, first)
        self._entries.move_to_end(key)
        self._evict(corpus)
        if size - (0 if former is None else former.size) >= _LARGE:
            release_freed()

    def is_shared(self, key: Hashable) -> bool:
        """Return whether the value under `key` is mapped."""
        entry = self._entries.get(key)
        return entry is not None and entry.shared > 0

    def room(self, corpus: Corpus, key: Hashable, *, first: bool = False) -> int:
        """Return how many bytes one large value may take: a quarter, or what the rest of the corpus leaves.

        Values with `first` get the quarter. The rest of a corpus gets the room that they leave, and never displaces them:
        otherwise a session whose corpus does not fit would read all of it again for every query. An eighth is left to small
        values: postings.
        """
        if first:
            return corpus.memory // 4
        used = sum(
            entry.size for other, entry in self._entries.items() if entry.corpus_id == corpus.id and other != key
        )
        return max(min(corpus.memory // 2, corpus.memory - corpus.memory // 8 - used), 0)

    def spare(self, corpus: Corpus, key: Hashable) -> int:
        """Return how many bytes one large thing may take at this moment: not those of corpora asked more than half as often.

        A session that asks more corpora than fit would else read a graph for nearly every query, and evict another.
        """
        own = self._asked.get(corpus.id, 0.0)
        used = sum(
            entry.size
            for other, entry in self._entries.items()
            if other != key and (entry.corpus_id == corpus.id or 2 * self._asked.get(entry.corpus_id, 0.0) > own)
        )
        return max(corpus.memory - corpus.memory // 8 - used, 0)

    def earlier_queries(self, corpus: Corpus) -> int:
        """Return how many earlier queries of the session saw the same revision in a row: reading much at once must pay."""
        if corpus.revision is None:
            return 0
        self._evict(corpus)
        visit = self._visits.get(corpus.id)
        if visit is None or visit.corpus is not corpus:
            repeated = visit is not None and visit.corpus.revision == corpus.revision
            self._count_query(corpus.id)
            visit = self._visits[corpus.id] = _Visit(corpus, visit.earlier + 1 if visit is not None and repeated else 0)
            self._visits.move_to_end(corpus.id)
            if len(self._visits) > _MAX_CORPORA:
                self._visits.popitem(last=False)
        return visit.earlier

    def expect_many(self, corpus: Corpus) -> None:
        """Take it that the session will ask the corpus often: whatever may be cached pays."""
        if corpus.revision is not None:
            self.earlier_queries(corpus)
            self._visits[corpus.id] = _Visit(corpus, _MANY_QUERIES)
            self._asked.clear()
            self._asked[corpus.id] = float(_LAST_QUERIES)

    def sizes(self, corpus: Corpus | None = None) -> dict[str, int]:
        """Return the cached bytes, of a corpus or of all, by the first word of the keys; mapped bytes included."""
        sizes: dict[str, int] = {}
        for key, entry in self._entries.items():
            if corpus is not None and entry.corpus_id != corpus.id:
                continue
            kind = key[0] if isinstance(key, tuple) else str(key)
            sizes[kind] = sizes.get(kind, 0) + entry.size + entry.shared
        return sizes

    def _count_query(self, corpus_id: int) -> None:
        faded = ((other, count * (1 - 1 / _LAST_QUERIES)) for other, count in self._asked.items())
        counts = {other: count for other, count in faded if count > _RARE}
        counts[corpus_id] = counts.get(corpus_id, 0.0) + 1
        self._asked.clear()
        self._asked.update(counts)

    def _evict(self, corpus: Corpus) -> None:
        """Evict until the rest is within the bound: first other corpora, then this one, values with `first` last; within
        these the corpora that the session asks least, least recently used first.
        """
        entries = self._entries
        total = sum(entry.size for entry in entries.values())
        if total <= corpus.memory:
            return

        def rank(key: Hashable) -> tuple[bool, bool, float]:
            entry = entries[key]
            return entry.corpus_id == corpus.id, entry.first, self._asked.get(entry.corpus_id, 0.0)

        for key in sorted(entries, key=rank):
            if total <= corpus.memory:
                break
            total -= entries.pop(key).size


def _table(revision: str | None) -> str | None:
    return revision and revision.split("/")[0]


cache = SessionCache()


def read_at_revision(db: Database, corpus: Corpus, sql: str, documents: list[int] | None = None) -> list[Row] | None:
    """Run a statement with the corpus' number as ``$1``, and documents as ``$2`` where they are given.

    None where it sees another revision than `corpus` has.

    In a volatile function under READ COMMITTED each statement has a snapshot of its own.
    """
    types, values = (["int4"], [corpus.id]) if documents is None else (["int4", "int8[]"], [corpus.id, documents])
    rows = db.query(f"SELECT {REVISION.format(corpus='$1')} AS revision, f.* FROM ({sql}) f", types, values)
    return None if any(row["revision"] != corpus.revision for row in rows) else rows


def is_at_revision(db: Database, corpus: Corpus) -> bool:
    """Whether a statement sees the revision that `corpus` has now: then earlier ones of the query did."""
    if corpus.revision is None:
        return False
    return bool(db.value(f"SELECT {REVISION.format(corpus='$1')}", ["int4"], [corpus.id]) == corpus.revision)
