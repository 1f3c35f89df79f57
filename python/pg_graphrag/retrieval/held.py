"""What a session keeps in memory of small corpora, and when it may be used.

One rule: what was read is right for every snapshot that sees the same `Corpus.revision`. That is None for callers who may not
read all of the tables, and in the transaction that changed the corpus: they read the tables. Documents are not kept: they
come, go and are renamed without a merge.

The setting graphrag.session_memory bounds it (``0``: nothing is kept or used). What is kept `first` depends on its own size
alone, because results do. The rest of a corpus has the room that this leaves, and never comes back for what was kept
instead: a session that asks one corpus more than fits would else read all of it again for every query.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, NamedTuple

from pg_graphrag.corpus.corpora import REVISION, Corpus
from pg_graphrag.server import Database, Row

# Corpora of which a session remembers what it saw last.
_MAX_CORPORA = 256


class _Kept(NamedTuple):
    value: Any
    size: int
    corpus: int
    first: bool


_kept: OrderedDict[Hashable, _Kept] = OrderedDict()
# By corpus: as the last query found it, and how many before that found the same revision.
_seen: OrderedDict[int, tuple[Corpus, int]] = OrderedDict()


def recall(key: Hashable) -> Any:
    """Return what was kept under `key`, of whatever revision, or None."""
    if key not in _kept:
        return None
    _kept.move_to_end(key)
    return _kept[key].value


def room(corpus: Corpus, key: Hashable, *, first: bool = False) -> int:
    """Return how many bytes one large thing may take: a quarter, or what is left beside the rest of the corpus.

    An eighth is left to what is small: postings.
    """
    if first:
        return corpus.memory // 4
    others = sum(one.size for other, one in _kept.items() if one.corpus == corpus.id and other != key)
    return max(min(corpus.memory // 2, corpus.memory - corpus.memory // 8 - others), 0)


def keep(corpus: Corpus, key: Hashable, value: Any, size: int, *, first: bool = False) -> None:
    """Keep something of `size` bytes; for it others are forgotten where need be, and it where that is not enough."""
    _kept[key] = _Kept(value, size, corpus.id, first)
    _kept.move_to_end(key)
    _bound(corpus)


def _bound(corpus: Corpus) -> None:
    """Forget what was used least lately until the rest is within the bound: of other corpora, then of this, at last `first`."""
    total = sum(one.size for one in _kept.values())
    for key in sorted(_kept, key=lambda key: (_kept[key].corpus == corpus.id, _kept[key].first)):
        if total <= corpus.memory:
            break
        total -= _kept.pop(key).size


def repeats(corpus: Corpus) -> int:
    """Return how many earlier queries of the session found the same revision in a row: reading much at once must pay."""
    if corpus.revision is None:
        return 0
    _bound(corpus)
    seen, count = _seen.get(corpus.id, (None, 0))
    if seen is not corpus:
        count = count + 1 if seen is not None and seen.revision == corpus.revision else 0
        _seen[corpus.id] = corpus, count
        _seen.move_to_end(corpus.id)
        if len(_seen) > _MAX_CORPORA:
            _seen.popitem(last=False)
    return count


def read(db: Database, corpus: Corpus, sql: str) -> list[Row] | None:
    """Run a statement with the corpus' number as ``$1``; None where it sees another revision than `corpus` has.

    In a volatile function under READ COMMITTED each statement has a snapshot of its own.
    """
    rows = db.query(f"SELECT {REVISION.format(corpus='$1')} AS revision, f.* FROM ({sql}) f", ["int4"], [corpus.id])
    return None if any(row["revision"] != corpus.revision for row in rows) else rows
