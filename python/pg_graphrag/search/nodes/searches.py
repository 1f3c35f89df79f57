"""graphrag.search of corpora on other nodes: the same call is made there, and its rows are returned as they are."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pg_graphrag.ground.bounds import MAX_CORPORA
from pg_graphrag.ground.errors import GraphRAGError, is_interrupt
from pg_graphrag.ground.json_reading import read_json, read_options
from pg_graphrag.search.nodes.connections import Answer, Asked, NodeError, Question, answer
from pg_graphrag.search.nodes.links import Link, link_of
from pg_graphrag.server import Database
from pg_graphrag.server.access.caller import READABLE
from pg_graphrag.server.corpus.corpora import ElsewhereError, placed

# Seconds that a corpus has where none are given, and a node beyond those that it counts itself.
MOST_SECONDS, GRACE_SECONDS = 60.0, 0.25

_ROW = """SELECT s.rank, s.chunk_id, s.document_id, s.source_key, s.title, s.content, s.score, s.explain"""
# The node asks no third one: two catalogues may say each that the other has a corpus.
_ARGUMENTS = """mode => $3::text, top_k => $4::int4, filter => $5::jsonb, low_level_keywords => $6::text[],
                       high_level_keywords => $7::text[], options => CASE
                           WHEN $8::jsonb IS NULL THEN '{"nodes": "here"}'
                           WHEN pg_catalog.jsonb_typeof($8::jsonb) = 'object' THEN $8::jsonb || '{"nodes": "here"}'
                           ELSE $8::jsonb END"""
_ALONE = f"{_ROW} FROM graphrag.search($1::text, $2::text, {_ARGUMENTS}) s"
# With the relevance of each row, and its seconds kept there.
_AMONG_OTHERS = f"""{_ROW}
  FROM graphrag.search($1::text, ARRAY[$2::text], {_ARGUMENTS}, corpus_timeout => $9::float8) s"""
_COLUMNS = 8
# What '{*}' means there.
_READABLE = f"""
SELECT c.name
  FROM graphrag.corpora c
 WHERE {READABLE}
   AND (graphrag._reads_whole(c.id) OR EXISTS (SELECT FROM graphrag.documents d WHERE d.corpus_id = c.id))
 ORDER BY c.id
"""
_INVALID = "SELECT pg_catalog.count(*) AS count FROM pg_catalog.unnest($1) e WHERE NOT pg_catalog.pg_input_is_valid(e, 'jsonb')"
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_INT4, _INT8 = 2**31, 2**63


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of search, without the corpus, in SQL's types."""

    text: str | None
    mode: str | None
    top_k: int | None
    filter: str | None
    low: list[str] | None
    high: list[str] | None
    options: str | None

    def values(self, corpus: str) -> list[str | None]:
        """Return the parameters of a search of one corpus."""
        top_k = None if self.top_k is None else str(self.top_k)
        return [self.text, corpus, self.mode, top_k, self.filter, _array(self.low), _array(self.high), self.options]

    def of_all_rows(self, count: int) -> "Arguments":
        """Return the arguments for the first `count` rows; offset and relevance are applied to the merged answer here."""
        values = read_options(self.options, "{}")
        values.pop("offset", None)
        if values.get("min_relevance") is not None:
            values["min_relevance"] = 0
        options = self.options if self.options in (None, "", "{}") else json.dumps(values)
        return Arguments(self.text, self.mode, count, self.filter, self.low, self.high, options)


def search_there(db: Database, elsewhere: ElsewhereError, arguments: Arguments) -> list[tuple[Any, ...]]:
    """Return the rows of search() of a corpus that another node holds, unchanged.

    Raises GraphRAGError: 42704 if the caller cannot, or must not, reach the node from here; 08001 and 08006 if it is not
      there, 08P01 for an invalid answer; else its own error, with the node's name.
    """
    if read_options(arguments.options, "{}").get("nodes") == "here":
        raise elsewhere
    link = link_of(db, elsewhere)
    values = arguments.values(elsewhere.corpus)
    question = Question(_ALONE, values, _COLUMNS, max(arguments.top_k or 0, 0), MOST_SECONDS)
    asked = Asked(db)
    try:
        asked.start(None, partial(answer, link, question))
        ((_, result),) = asked.outcomes()
    finally:
        asked.close()
    if isinstance(result, GraphRAGError):
        if isinstance(result, NodeError) and result.is_lost and result.sqlstate == "57014":
            result.hint = (
                "Several corpora, also one, can be given another time: corpora => ARRAY[…], corpus_timeout => 300."
            )
        raise result
    return _rows(db, link, result)


class OthersSearches:
    """Searches of corpora at other nodes, asked side by side; those of one node one after another. As the caller."""

    def __init__(self, db: Database, arguments: Arguments, count: int, seconds: float | None) -> None:
        self._db, self._count = db, count
        self._arguments = arguments.of_all_rows(count)
        self._seconds = MOST_SECONDS if seconds is None else seconds
        self._asked = Asked(db)

    def start(self, link: Link, corpora: Sequence[str], *, all_others: bool = False) -> None:
        """Begin to ask a node for some of its corpora, and for all others in which the caller sees something there."""
        self._asked.start(link, partial(self._search_all, link, corpora, all_others))

    def close(self) -> None:
        """End the requests under way."""
        self._asked.close()

    def answers(self) -> Iterator[tuple[str, list[tuple[Any, ...]] | GraphRAGError]]:
        """Yield (corpus, its rows or its error) as they come; rows as in search(), with their relevance at the end.

        If a node did not say which corpora it has, its own name stands instead: ``* at node "b"``.
        """
        for link, answers in self._asked.outcomes():
            for corpus, is_asked, result in answers:
                # A node has what the catalogue says.
                place = None if is_asked else placed(self._db, corpus)
                if not is_asked and corpus != _all_of(link) and (place is None or place.node != link.node):
                    continue
                try:
                    yield corpus, result if isinstance(result, GraphRAGError) else _judged_rows(self._db, link, result)
                except NodeError as error:
                    yield corpus, error

    async def _search_all(self, link: Link, corpora: Sequence[str], all_others: bool) -> list[tuple[str, bool, Any]]:
        """Return (corpus, whether it was asked for by its name, answer or error) of each."""
        answers: list[tuple[str, bool, Any]] = []
        names = dict.fromkeys(corpora, True)
        lost: NodeError | None = None
        if all_others:
            # One more than may be.
            question = Question(_READABLE, [], 1, MAX_CORPORA + 1, self._seconds + GRACE_SECONDS)
            result = await answer(link, question)
            if isinstance(result, Answer):
                names = dict.fromkeys([name for (name,) in result.rows if name is not None], False) | names
            elif result.is_lost:
                lost = self._in_time(link, result)
                answers.append((_all_of(link), False, lost))
            elif result.sqlstate != "42501":
                # It is unknown which corpus failed, and whether the caller sees anything of it.
                failed = NodeError(link.node, "it could not say what you may read there", sqlstate=result.sqlstate)
                answers.append((_all_of(link), False, failed))
        for corpus, is_asked in names.items():
            result = lost or await self._search(link, corpus)
            answers.append((corpus, is_asked, result))
            if isinstance(result, NodeError) and result.is_lost:
                lost = result
        return answers

    async def _search(self, link: Link, corpus: str) -> Answer | NodeError:
        values = [*self._arguments.values(corpus), repr(self._seconds)]
        seconds = self._seconds + GRACE_SECONDS
        result = await answer(link, Question(_AMONG_OTHERS, values, _COLUMNS, self._count, seconds))
        if isinstance(result, NodeError):
            result.message = result.message.replace(f'corpus "{corpus}" did not answer: ', "", 1)
            return self._in_time(link, result)
        return result

    def _in_time(self, link: Link, error: NodeError) -> NodeError:
        """Return an error; of a node that did not answer in time, with the seconds that were given."""
        if error.is_lost and error.sqlstate == "57014":
            error.message = f'node "{link.node}": it took longer than {self._seconds:g} s'
        return error


def _all_of(link: Link) -> str:
    return f'* at node "{link.node}"'


def _rows(db: Database, link: Link, result: Answer) -> list[tuple[Any, ...]]:
    """Return the checked rows of search() of a node, and pass on its messages."""
    for is_warning, message, detail, hint in result.notices:
        texts = {name: text for name, text in (("detail", detail), ("hint", hint)) if text}
        (db.warning if is_warning else db.notice)(f'node "{link.node}": {message.removeprefix("graphrag: ")}', **texts)
    try:
        rows = [_row(values) for values in result.rows]
    except (TypeError, ValueError):
        raise _odd(link) from None
    try:
        with db.subtransaction():
            is_valid = not rows or not db.value(_INVALID, ["text[]"], [[row[-1] for row in rows]])
    except db.statement_error as error:
        if is_interrupt(error):
            raise
        is_valid = False
    if not is_valid:
        raise _odd(link)
    return rows


def _judged_rows(db: Database, link: Link, result: Answer) -> list[tuple[Any, ...]]:
    """Return the rows of a node with their relevance at the end."""
    rows = _rows(db, link, result)
    try:
        relevances = [float(read_json(row[-1])["relevance"]) for row in rows]
    except (GraphRAGError, KeyError, TypeError, ValueError):
        raise _odd(link) from None
    if not all(0.0 <= relevance <= 1.0 for relevance in relevances):
        raise _odd(link)
    return [(*row, relevance) for row, relevance in zip(rows, relevances, strict=True)]


def _row(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return a row of search() made of its texts; ValueError or TypeError if they are none."""
    rank, chunk_id, document_id, source_key, title, content, score, explain = values
    if None in (source_key, content, explain) or not explain.startswith("{") or not math.isfinite(float(score)):
        raise ValueError
    ids = _whole(chunk_id, _INT8), _whole(document_id, _INT8)
    return (_whole(rank, _INT4), *ids, source_key, title, content, float(score), explain)


def _whole(text: str, limit: int) -> int:
    number = int(text) if _WHOLE.fullmatch(text) else limit
    if not -limit <= number < limit:
        raise ValueError
    return number


def _odd(link: Link) -> NodeError:
    hint = f'Whoever runs node "{link.node}" can say what answers there.'
    return NodeError(link.node, "its answer is none of graphrag.search()", sqlstate="08P01", hint=hint)


def _array(values: Sequence[str | None] | None) -> str | None:
    """Return a list as text[] is written."""
    if values is None:
        return None
    escaped = (None if value is None else value.replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return "{" + ",".join("NULL" if value is None else f'"{value}"' for value in escaped) + "}"
