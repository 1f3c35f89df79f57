"""graphrag.search over several corpora: each is searched as it is alone, and their rows are merged."""

import json
import time
from dataclasses import dataclass, replace
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.merged_order import FIRST, merged_order
from pg_graphrag.search import modes
from pg_graphrag.search.contexts.best_rows import best_rows, check_top_k
from pg_graphrag.search.retrievers.relevance import check_known, judge
from pg_graphrag.search.search import Call, notice_unindexed, parse, shown
from pg_graphrag.server import Database, unforeseen
from pg_graphrag.server.access.caller import Caller
from pg_graphrag.server.access.entry import as_owner

# Corpora of one call.
MAX_CORPORA = 100
# All that the caller may read.
ALL = "*"
MAX_SECONDS = 600.0

# Histories say again what their corpora say: they are asked by name, or as of a moment.
_READABLE = f"""
SELECT c.name
  FROM graphrag.corpora c
 WHERE ((SELECT graphrag._may_use(NULL)) OR c.id IN (SELECT g.corpus_id FROM graphrag.granted_corpora g))
   AND NOT EXISTS (SELECT FROM graphrag._histories h WHERE h.history_id = c.id)
 LIMIT {MAX_CORPORA + 1}
"""
_CANCELLED = "57014"
# Classes of SQLSTATEs: what the caller asked for is wrong, whichever corpus finds it; the transaction or the machine fails, or
# the call is cancelled.
_OF_CALLER = ("0A", "22", "42", "54")
_OF_ALL = ("25", "40", "53", "57")


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of one corpus: what search shows of it without its rank, and how likely it has something of the answer."""

    fields: tuple[Any, ...]
    relevance: float


@dataclass(frozen=True, slots=True)
class _Fault:
    """Why a corpus did not answer."""

    reason: str
    sqlstate: str


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

    Parameters
    ----------
    corpora
        Names in any order; ``*`` stands for all that the caller may read.
    seconds
        How long each may take; None: no limit but the session's.

    Raises
    ------
    GraphRAGError
        As of search, of each corpus. What else fails in one is a WARNING, and an error where no other has a row. 22023 for no
        name or a bad limit, 22004 for a null, 42704 where the caller may read none, 54000 for too many.
    """
    limit = check_top_k(top_k)
    if seconds is not None and not 0 < seconds <= MAX_SECONDS:
        raise GraphRAGError(
            f"corpus_timeout cannot be {seconds:g}",
            hint=f"Give seconds for each corpus, above 0 and at most {MAX_SECONDS:.0f}, or null for no limit.",
        )
    # Here, too: there may be nothing to search.
    given = parse(options, modes.find(mode))
    count = max(given.offset + limit, FIRST) if limit else 0
    answers: dict[str, list[_Row]] = {}
    faults: dict[str, _Fault] = {}
    for corpus in _names(db, corpora):
        call = Call("search", text, corpus, mode, top_k, filter_, low, high, options)
        answer = _answer(db, call, count, seconds)
        if isinstance(answer, _Fault):
            faults[corpus] = answer
        else:
            answers[corpus] = answer
    order = merged_order({corpus: [row.relevance for row in rows] for corpus, rows in answers.items()})
    _tell(db, faults, is_empty=not order)
    note = {corpus: fault.reason for corpus, fault in faults.items()}
    ranked = [
        (rank, corpus, answers[corpus][place]) for rank, (corpus, place) in enumerate(order[: given.offset + limit], 1)
    ]
    return [
        (rank, *row.fields[:-1], _with(row.fields[-1], "unanswered", note), corpus)
        for rank, corpus, row in ranked[given.offset :]
        if given.min_relevance is None or row.relevance >= given.min_relevance
    ]


def _names(db: Database, corpora: list[str | None] | None) -> list[str]:
    """Return the names of the corpora to search, in the order of their code points."""
    names = {name for name in corpora or () if name is not None}
    if corpora is None or None in corpora:
        raise GraphRAGError(
            "corpora cannot be null", sqlstate="22004", hint="Give names; '{*}' stands for all that you may read."
        )
    if not names:
        raise GraphRAGError("no corpus is given", hint="Give names; '{*}' stands for all that you may read.")
    if ALL in names:
        names = names - {ALL} | {row["name"] for row in db.query(_READABLE)}
    if not names:
        raise GraphRAGError(
            "there is no corpus that you may read",
            sqlstate="42704",
            hint="Who owns the extension can give one: graphrag.grant_corpus(…), or GRANT graphrag_reader.",
        )
    if len(names) > MAX_CORPORA:
        raise GraphRAGError(
            f"more than {MAX_CORPORA} corpora are to be searched", sqlstate="54000", hint="Name those that matter."
        )
    return sorted(names)


def _answer(db: Database, call: Call, count: int, seconds: float | None) -> list[_Row] | _Fault:
    """Return at most `count` rows of one corpus, best first, or why it did not answer."""
    start, caller = time.monotonic(), None
    try:
        with db.subtransaction() if seconds is None else db.bounded(seconds):
            caller = call.caller(db)
            return _rows(db, call, caller, count)
    except Exception as error:
        sqlstate = str(getattr(error, "sqlstate", None) or "XX000")
        if sqlstate == _CANCELLED and seconds is not None and time.monotonic() - start >= seconds:
            return _Fault(f"it took longer than {seconds:g} s", sqlstate)
        # Before the caller is known, it is his rights or his filter.
        if caller is None or isinstance(error, MemoryError | RecursionError):
            raise
        if sqlstate.startswith(_OF_ALL) or (isinstance(error, GraphRAGError) and sqlstate.startswith(_OF_CALLER)):
            raise
        is_foreseen = isinstance(error, GraphRAGError | db.statement_error)
        return _Fault(str(error if is_foreseen else unforeseen(error)).removeprefix("graphrag: "), sqlstate)


def _rows(db: Database, call: Call, caller: Caller, count: int) -> list[_Row]:
    def run() -> list[_Row]:
        query, mode = call.query(db, caller)
        if query.options.min_relevance is not None:
            check_known(query)
        if caller.corpus != call.corpus:
            query.notes["history"] = caller.corpus
        # Of a corpus of which the caller sees nothing, he is not told what is wrong with it.
        if caller.documents is not None and not len(caller.documents):
            return []
        # What is left out is left out of the merged answer.
        query = replace(query, options=replace(query.options, offset=0, min_relevance=None))
        query, found = best_rows(query, mode, count)
        judge(query, found)
        return [
            _Row(fields, row.explain["relevance"]) for row, fields in zip(found, shown(query, mode, found), strict=True)
        ]

    rows = as_owner(db, run)
    if not rows and call.text and count:
        notice_unindexed(db, caller.corpus)
    return rows


def _tell(db: Database, faults: dict[str, _Fault], *, is_empty: bool) -> None:
    """Warn of the corpora that did not answer; where nothing was found, that is an error: it may be there."""
    for corpus, fault in faults.items():
        message = f'corpus "{corpus}" did not answer: {fault.reason}'
        if is_empty:
            raise GraphRAGError(
                message,
                sqlstate=fault.sqlstate,
                hint="The others have nothing that was found. Leave it out to ask them alone.",
            )
        db.warning(message, hint="The rows are those of the others.")


def _with(explain: str, name: str, value: dict[str, str]) -> str:
    """Return the JSON of an explanation with one more field, where there is something to say; its numbers stay as they are."""
    return f"{explain[:-1]}, {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}}}" if value else explain
