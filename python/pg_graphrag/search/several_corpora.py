"""graphrag.search over several corpora, of any nodes: each is searched as it is alone, and their rows are merged."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from pg_graphrag.ground import bounds
from pg_graphrag.ground.bounds import ALL, LEAST_CORPUS_SECONDS, MAX_CORPORA, MAX_CORPUS_SECONDS
from pg_graphrag.ground.errors import GraphRAGError, OutOfTimeError, is_interrupt
from pg_graphrag.ground.merged_order import FIRST, corpus_relevance, merged_order
from pg_graphrag.search import modes
from pg_graphrag.search.contexts.best_rows import best_rows, check_top_k
from pg_graphrag.search.nodes.links import Link, all_links, link_of, load_searches
from pg_graphrag.search.query.query import question
from pg_graphrag.search.retrievers.relevance import check_known, judge
from pg_graphrag.search.search import Call, notice_unindexed, parse_search_options, unranked_rows
from pg_graphrag.server import Database, unforeseen
from pg_graphrag.server.access.caller import READABLE, Caller, check_corpus, check_filter
from pg_graphrag.server.access.entry import as_owner
from pg_graphrag.server.corpus.corpora import ElsewhereError

if TYPE_CHECKING:
    from pg_graphrag.search.nodes.searches import OthersSearches

T = TypeVar("T")

_READABLE = f"""
SELECT c.id, c.name, graphrag._reads_whole(c.id) AS reads_whole
  FROM graphrag.corpora c
 WHERE {READABLE}
 ORDER BY c.id
"""
_SEES = "SELECT EXISTS (SELECT FROM graphrag.documents d WHERE d.corpus_id = $1) AS sees"
# SQLSTATEs and classes of them that are no fault of one corpus: the transaction fails, or the machine has no memory.
_OF_ALL = ("25", "40", "53200")


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of one corpus: its columns in a search without the rank, and how likely it has a part of the answer."""

    fields: tuple[Any, ...]
    relevance: float


@dataclass(frozen=True, slots=True)
class _Fault:
    """Why a corpus did not answer."""

    reason: str
    sqlstate: str
    detail: str | None = None
    hint: str | None = None

    def error(self, corpus: str | None, more: str = "") -> GraphRAGError:
        """Return the error to raise, with `more` of a hint."""
        hint = " ".join(part for part in (self.hint, more) if part)
        whose = "a corpus" if corpus is None else f'corpus "{corpus}"'
        message = f"{whose} did not answer: {self.reason}"
        return GraphRAGError(message, sqlstate=self.sqlstate, detail=self.detail, hint=hint or None)


def search_corpora(
    db: Database,
    text: str | None,
    corpora: list[str | None] | None,
    mode: str | None,
    top_k: int | None,
    filter_: str | None,
    low: list[str] | None,
    high: list[str] | None,
    options: str | None,
    seconds: float | None,
) -> list[tuple[Any, ...]]:
    """Return (rank, chunk_id, document_id, source_key, title, content, score, explain, corpus) best first.

    `corpora`: names in any order; ``*`` stands for all that the caller may read and sees something of.
    `seconds`: how long each may take; None: no limit but the session's.

    Raises GraphRAGError: as in search, for errors of the caller. A failure of one corpus is a WARNING, and an error if no
      other has a row. 22023 for no name or a bad limit, 22004 for a null, 42704 if the caller may read none, 54000 for too
      many.
    """
    limit = check_top_k(top_k)
    if seconds is not None and not LEAST_CORPUS_SECONDS <= seconds <= MAX_CORPUS_SECONDS:
        raise GraphRAGError(
            f"corpus_timeout cannot be {seconds:g}",
            hint=f"Give seconds for each corpus, from {LEAST_CORPUS_SECONDS:g} to {MAX_CORPUS_SECONDS:g}, or null for no"
            " limit.",
        )
    # What the caller gave is wrong for all of them.
    shared_options = parse_search_options(options, modes.find(mode))
    question(text, bounds.MAX_QUESTION)
    bounds.keywords(low, "low_level_keywords")
    bounds.keywords(high, "high_level_keywords")
    unnamed = Call("search", text, None, mode, top_k, filter_, low, high, options)
    last_rank = shared_options.offset + limit
    count = max(last_rank, FIRST) if limit else 0
    rows: dict[str, list[_Row]] = {}
    relevances: dict[str, list[float]] = {}
    faults: dict[str, _Fault] = {}
    order: list[tuple[str, int]] = []
    with _Others(db, unnamed, count, seconds, stays=shared_options.nodes == "here") as others:
        limits, unclear = _limits(db, corpora, seconds, others)
        # A relation of keys is each node's own.
        check_filter(db, unnamed.whole_filter, reads_relations=bool(limits) or not others)
        here = (
            (corpus, _answer(db, replace(unnamed, corpus=corpus), count, left, seconds))
            for corpus, left in limits.items()
        )
        for corpus, answer in chain(here, others.answers()):
            if isinstance(answer, _Fault):
                faults[corpus] = answer
                continue
            rows[corpus] = answer
            _check_count(rows)
            relevances[corpus] = [row.relevance for row in answer]
            order = merged_order(relevances)[:last_rank]
            # Others that follow only put rows behind. The first say how well a corpus answers.
            places = Counter(name for name, _ in order)
            for name in rows:
                del rows[name][places[name] :], relevances[name][max(places[name], FIRST) :]
    faults = dict(sorted(faults.items()))
    _warn_of_faults(db, faults, has_answers=bool(rows), has_rows=any(relevances.values()), is_unclear=unclear)
    note = {corpus: fault.reason for corpus, fault in faults.items()} | ({ALL: _UNCLEAR} if unclear else {})
    unanswered = {"unanswered": note} if note else {}
    best = {corpus: corpus_relevance(shares) for corpus, shares in relevances.items()}
    merged_rows = []
    for rank, (corpus, place) in list(enumerate(order, 1))[shared_options.offset :]:
        row = rows[corpus][place]
        if shared_options.min_relevance is None or row.relevance >= shared_options.min_relevance:
            # Whoever merges this answer with another one orders rows by these.
            why = {"corpus_rank": place + 1, "corpus_relevance": best[corpus]}
            merged_rows.append((rank, *row.fields[:-1], _with(row.fields[-1], why | unanswered), corpus))
    return merged_rows


class _Others:
    """The searches of a call at other nodes, which go on while corpora of this one are searched; most calls have none."""

    def __init__(self, db: Database, call: Call, count: int, seconds: float | None, *, stays: bool) -> None:
        self._db, self._call, self._count, self._seconds, self._stays = db, call, count, seconds, stays
        self._searches: OthersSearches | None = None

    def __enter__(self) -> "_Others":
        return self

    def __exit__(self, *_: object) -> None:
        if self._searches is not None:
            self._searches.close()

    def __bool__(self) -> bool:
        return self._searches is not None

    def start(self, elsewhere: Sequence[ElsewhereError], *, asks_all: bool) -> None:
        """Begin to ask for corpora that were named, and for all that the caller may read at any node."""
        if self._stays:
            if elsewhere:
                raise elsewhere[0]
            return
        corpora: dict[Link, list[str]] = {}
        for error in elsewhere:
            corpora.setdefault(link_of(self._db, error), []).append(error.corpus)
        links = all_links(self._db) if asks_all else []
        if not corpora and not links:
            return
        load_searches()
        from pg_graphrag.search.nodes.searches import Arguments, OthersSearches

        call = self._call
        arguments = Arguments(call.text, call.mode, call.size, call.filter, call.low, call.high, call.options)
        self._searches = OthersSearches(self._db, arguments, self._count, self._seconds)
        for link in dict.fromkeys([*corpora, *links]):
            self._searches.start(link, corpora.get(link, []), all_others=link in links)

    def answers(self) -> Iterator[tuple[str, list[_Row] | _Fault]]:
        """Yield what comes, by corpus."""
        for corpus, result in self._searches.answers() if self._searches is not None else ():
            if isinstance(result, GraphRAGError):
                yield corpus, _Fault(result.message, result.sqlstate, result.detail, result.hint)
            else:
                yield corpus, [_Row(row[1:-1], row[-1]) for row in result]


def _limits(
    db: Database, corpora: list[str | None] | None, seconds: float | None, others: _Others
) -> tuple[dict[str, float | None], bool]:
    """Return the seconds that each corpus of this database may take, by the code points of its name; and for which it was
    unknown whether the caller sees anything of it. Requests for corpora of other nodes are begun.
    """
    names = {name for name in corpora or () if name is not None}
    if corpora is None or None in corpora:
        raise GraphRAGError(
            "corpora cannot be null", sqlstate="22004", hint="Give names; '{*}' stands for all that you may read."
        )
    if not names:
        raise GraphRAGError("no corpus is given", hint="Give names; '{*}' stands for all that you may read.")
    named = names - {ALL}
    _check_count(named)
    limits: dict[str, float | None] = {}
    elsewhere: list[ElsewhereError] = []
    for name in sorted(named):
        try:
            check_corpus(db, name)
            limits[name] = seconds
        except ElsewhereError as error:
            elsewhere.append(error)
    others.start(elsewhere, asks_all=ALL in names)
    is_unclear = False
    if ALL in names:
        readable = db.query(_READABLE)
        if readable:
            check_corpus(db, readable[0]["name"])
        for row in readable:
            left, sees = seconds, row["reads_whole"] or row["name"] in named
            if not sees:
                # The name of a corpus of which he sees nothing belongs to others.
                begin = time.monotonic()
                sees = _attempt(db, partial(db.value, _SEES, ["int4"], [row["id"]]), seconds, seconds, None)
                left = None if seconds is None else max(seconds - time.monotonic() + begin, LEAST_CORPUS_SECONDS)
            if isinstance(sees, _Fault):
                is_unclear = True
            elif sees:
                limits.setdefault(row["name"], left)
                _check_count(limits)
        if not readable and not limits and not others:
            raise GraphRAGError(
                "there is no corpus that you may read",
                sqlstate="42704",
                hint="Who owns the extension can give one: graphrag.grant_corpus(…), or GRANT graphrag_reader.",
            )
    return dict(sorted(limits.items())), is_unclear


def _check_count(names: Any) -> None:
    if len(names) > MAX_CORPORA:
        raise GraphRAGError(
            f"more than {MAX_CORPORA} corpora are to be searched", sqlstate="54000", hint="Name those that matter."
        )


def _answer(db: Database, call: Call, count: int, left: float | None, seconds: float | None) -> list[_Row] | _Fault:
    """Return at most `count` rows of one corpus, best first, or why it did not answer in the seconds that are `left`."""
    return _attempt(db, lambda: _rows(db, call, call.caller(db), count), left, seconds, call.corpus)


def _attempt(
    db: Database, work: Callable[[], T], left: float | None, seconds: float | None, corpus: str | None
) -> T | _Fault:
    """Return the result of `work`, or why it failed. `corpus`: its name, if the caller may know it.

    Raises GraphRAGError: for a transaction that fails, or a machine without memory. A cancel is raised unchanged.
    """
    try:
        with db.subtransaction() if left is None else db.bounded(left):
            return work()
    except OutOfTimeError as error:
        return _Fault(f"it took longer than {seconds:g} s", error.sqlstate)
    except MemoryError:
        raise
    except Exception as error:
        if is_interrupt(error):
            raise
        visible: Any = error
        if not isinstance(error, GraphRAGError | db.statement_error):
            db.log_unforeseen(error)
            visible = unforeseen(error)
        detail, hint = db.texts_of(visible)
        reason = str(visible).removeprefix("graphrag: ")
        fault = _Fault(reason, str(getattr(visible, "sqlstate", None) or "XX000"), detail, hint)
        if fault.sqlstate.startswith(_OF_ALL):
            raise fault.error(corpus) from None
        return fault


def _rows(db: Database, call: Call, caller: Caller, count: int) -> list[_Row]:
    def run() -> list[_Row]:
        query, mode = call.query(db, caller)
        if query.options.min_relevance is not None:
            check_known(query)
        if caller.corpus != call.corpus:
            query.notes["history"] = caller.corpus
        # If the caller sees nothing of a corpus, he is not told what is wrong with it.
        if caller.documents is not None and not len(caller.documents):
            return []
        # Offset and relevance are applied to the merged answer.
        query = replace(query, options=replace(query.options, offset=0, min_relevance=None))
        query, hits = best_rows(query, mode, count)
        judge(query, hits)
        return [
            _Row(fields, hit.explain["relevance"])
            for hit, fields in zip(hits, unranked_rows(query, mode, hits), strict=True)
        ]

    rows = as_owner(db, run)
    if not rows and call.text and count:
        notice_unindexed(db, caller.corpus)
    return rows


_UNCLEAR = "of some it was not known whether you see anything in them"


def _warn_of_faults(
    db: Database, faults: dict[str, _Fault], *, has_answers: bool, has_rows: bool, is_unclear: bool
) -> None:
    """Warn of the corpora that did not answer; where nothing was found, that is an error: it may be there."""
    for corpus, fault in faults.items():
        if not has_answers:
            raise fault.error(corpus)
        if not has_rows:
            raise fault.error(corpus, "The others have nothing that was found. Leave it out to ask them alone.")
        error = fault.error(corpus, "The rows are those of the others.")
        texts = {"detail": error.detail, "hint": error.hint}
        db.warning(error.message, **{name: text for name, text in texts.items() if text})
    if is_unclear:
        db.warning(
            f'not all corpora of "{ALL}" were searched: {_UNCLEAR}',
            hint="A condition of protect() failed or took too long. Name the corpora that matter to be told why.",
        )


def _with(explain: str, more: dict[str, Any]) -> str:
    """Return the JSON of an explanation with more fields; its numbers keep their text."""
    return f"{explain[:-1]}, {json.dumps(more, ensure_ascii=False)[1:]}"
