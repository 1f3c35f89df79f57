"""The SQL of the client, once for both its faces: every function returns a `Statement` that either of them runs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from psycopg.types.json import Jsonb

from pg_graphrag.beside.client.display import Results
from pg_graphrag.beside.client.graph_items import GRAPH, items, to_networkx
from pg_graphrag.beside.client.results import (
    Answer,
    Citation,
    Community,
    CorpusComparison,
    Curation,
    EntityResult,
    Evaluation,
    FailedJob,
    HealthIssue,
    InsertSummary,
    MergeSuggestion,
    Metric,
    Neighbor,
    Progress,
    RelationshipResult,
    ReportResult,
    SearchResult,
    WaitResult,
)
from pg_graphrag.ground.document import Document
from pg_graphrag.ground.errors import GraphRAGError

if TYPE_CHECKING:
    import networkx

Row = tuple[Any, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Statement(Generic[T]):
    """SQL with its parameters, and what makes the client's result of the rows.

    `function`, `columns`: where the SQL is nothing but the call of a function with the parameters as its arguments, which
    function, and which columns of its rows; a database without the extension has no such function (`hosts`).
    """

    sql: str
    parameters: Mapping[str, Any]
    result: Callable[[list[Row]], T]
    function: str | None = None
    columns: tuple[str, ...] | None = None


_TYPES = {
    "max_jobs": "int",
    "max_tokens": "int",
    "hops": "int",
    "top_k": "int",
    "only_level": "int",
    "max_suggestions": "int",
    "id": "bigint",
    "keywords": "text[]",
    "weight": "numeric",
    "graph": "jsonb",
    "relationships": "int",
    "chunks": "int",
    "milliseconds": "float8",
    "k": "int[]",
    "modes": "text[]",
    "low_level_keywords": "text[]",
    "high_level_keywords": "text[]",
    "evidence": "text[]",
    "embedding": "jsonb",
    "filter": "jsonb",
    "history": "jsonb",
    "options": "jsonb",
    "params": "jsonb",
    "questions": "jsonb",
    "retracted_at": "timestamptz",
}


def _type(function: str, argument: str) -> str:
    if argument == "entities":  # the number that a context had, or the names of those to merge
        return "int" if function == "log_query" else "text[]"
    return _TYPES.get(argument, "text")


def _call(
    function: str, arguments: Mapping[str, Any], result: Callable[[list[Row]], T], columns: str = "", suffix: str = ""
) -> Statement[T]:
    """The call of a function with named arguments: its value, or `columns` of its rows."""
    parameters = ", ".join(f"{name} => %({name})s::{_type(function, name)}" for name in arguments)
    call = f"graphrag.{function}({parameters})"
    sql = f"SELECT {columns} FROM {call}{suffix}" if columns else f"SELECT {call}"
    return Statement(sql, arguments, result, function, tuple(columns.split(", ")) if columns else None)


def _rows_as(cls: Callable[..., T]) -> Callable[[list[Row]], Results[T]]:
    return lambda rows: Results(cls(*row) for row in rows)


def _first(rows: list[Row]) -> Any:
    return rows[0][0]


def _nothing(rows: list[Row]) -> None:
    return None


def insert(corpus: str, documents: Sequence[Document]) -> Statement[InsertSummary]:
    """One statement for a batch, so that the triggers run once. Rows that would not change are left alone.

    They are written by key: two programs that write the same keys wait for each other, in whatever order they have them.
    """

    def summary(rows: list[Row]) -> InsertSummary:
        inserted = sum(new for (new,) in rows)
        return InsertSummary(inserted, len(rows) - inserted, len(documents) - len(rows))

    return Statement(
        """
        INSERT INTO graphrag.documents AS document (corpus, source_key, title, content, metadata, valid_from, valid_to)
        SELECT %(corpus)s, given.source_key, given.title, given.content, given.metadata,
               given.valid_from, given.valid_to
          FROM unnest(%(source_key)s::text[], %(title)s::text[], %(content)s::text[], %(metadata)s::jsonb[],
                      %(valid_from)s::timestamptz[], %(valid_to)s::timestamptz[])
               WITH ORDINALITY AS given (source_key, title, content, metadata, valid_from, valid_to, place)
         ORDER BY given.source_key COLLATE "C", given.place
            ON CONFLICT (corpus, source_key) DO UPDATE
           SET title = excluded.title, content = excluded.content, metadata = excluded.metadata,
               valid_from = excluded.valid_from, valid_to = excluded.valid_to
         WHERE (document.title, document.content, document.metadata, document.valid_from, document.valid_to)
               IS DISTINCT FROM
               (excluded.title, excluded.content, excluded.metadata, excluded.valid_from, excluded.valid_to)
        RETURNING document.xmax = 0
        """,
        {
            "corpus": corpus,
            "source_key": [document.source_key for document in documents],
            "title": [document.title for document in documents],
            "content": [document.content for document in documents],
            "metadata": [Jsonb(dict(document.metadata)) for document in documents],
            "valid_from": [document.valid_from for document in documents],
            "valid_to": [document.valid_to for document in documents],
        },
        summary,
    )


def get(corpus: str, source_keys: Iterable[str]) -> Statement[list[Document]]:
    return Statement(
        """
        SELECT d.content, d.source_key, d.title, d.metadata, d.valid_from, d.valid_to
          FROM pg_catalog.unnest(%(keys)s::text[]) WITH ORDINALITY AS k (source_key, place)
          JOIN graphrag.documents d ON d.corpus = %(corpus)s AND d.source_key = k.source_key
         WHERE d.retracted_at IS NULL
         ORDER BY k.place
        """,
        {"corpus": corpus, "keys": list(source_keys)},
        lambda rows: [Document(*row) for row in rows],
    )


def delete(corpus: str, source_keys: str | Iterable[str]) -> Statement[int]:
    keys = [source_keys] if isinstance(source_keys, str) else list(source_keys)
    return Statement(
        """
        WITH deleted AS (
            DELETE FROM graphrag.documents d
             WHERE d.corpus = %(corpus)s AND d.source_key = ANY (%(keys)s::text[])
            RETURNING d.id
        )
        SELECT pg_catalog.count(*) FROM deleted
        """,
        {"corpus": corpus, "keys": keys},
        _first,
    )


def retract(corpus: str, source_key: str, reason: str, retracted_at: datetime | None) -> Statement[None]:
    arguments: dict[str, Any] = {"corpus": corpus, "source_key": source_key, "reason": reason}
    if retracted_at is not None:
        arguments["retracted_at"] = retracted_at
    return _sql_call("retract", arguments)


def undo_retraction(corpus: str, source_key: str) -> Statement[None]:
    return _sql_call("undo_retraction", {"corpus": corpus, "source_key": source_key})


def _sql_call(name: str, arguments: dict[str, Any]) -> Statement[None]:
    """The call of a function that is SQL alone: the database has it on either host."""
    return replace(_call(name, arguments, _nothing), function=None)


def _json(value: Mapping[str, Any] | None) -> Jsonb | None:
    return None if value is None else Jsonb(dict(value))


def _list(value: Sequence[str] | None) -> list[str] | None:
    return None if value is None else list(value)


def search(
    corpus: str,
    query: str,
    mode: str,
    top_k: int,
    filter: Mapping[str, Any] | None,
    low_level_keywords: Sequence[str] | None,
    high_level_keywords: Sequence[str] | None,
    options: Mapping[str, Any],
) -> Statement[Results[SearchResult]]:
    arguments = {
        "query": query,
        "corpus": corpus,
        "mode": mode,
        "top_k": top_k,
        "filter": _json(filter),
        "low_level_keywords": _list(low_level_keywords),
        "high_level_keywords": _list(high_level_keywords),
        "options": _json(options),
    }
    columns = "rank, chunk_id, document_id, source_key, title, content, score, explain"
    return _call("search", arguments, _rows_as(SearchResult), columns, " ORDER BY rank")


def search_entities(
    corpus: str,
    query: str,
    top_k: int,
    filter: Mapping[str, Any] | None,
    low_level_keywords: Sequence[str] | None,
) -> Statement[Results[EntityResult]]:
    arguments = {
        "query": query,
        "corpus": corpus,
        "top_k": top_k,
        "filter": _json(filter),
        "low_level_keywords": _list(low_level_keywords),
    }
    columns = "rank, entity_id, name, type, description, degree, score, explain"
    return _call("search_entities", arguments, _rows_as(EntityResult), columns, " ORDER BY rank")


def search_relationships(
    corpus: str,
    query: str,
    top_k: int,
    filter: Mapping[str, Any] | None,
    high_level_keywords: Sequence[str] | None,
) -> Statement[Results[RelationshipResult]]:
    arguments = {
        "query": query,
        "corpus": corpus,
        "top_k": top_k,
        "filter": _json(filter),
        "high_level_keywords": _list(high_level_keywords),
    }
    columns = "rank, relationship_id, source, target, keywords, description, weight, score, explain"
    return _call("search_relationships", arguments, _rows_as(RelationshipResult), columns, " ORDER BY rank")


def search_reports(
    corpus: str, query: str, top_k: int, filter: Mapping[str, Any] | None, only_level: int | None
) -> Statement[Results[ReportResult]]:
    arguments = {
        "query": query,
        "corpus": corpus,
        "top_k": top_k,
        "filter": _json(filter),
        "only_level": only_level,
    }
    columns = "rank, community_id, level, title, summary, rating, score, explain"
    return _call("search_reports", arguments, _rows_as(ReportResult), columns, " ORDER BY rank")


def communities(corpus: str, level: int | None) -> Statement[Results[Community]]:
    return Statement(
        """
        SELECT o.community_id, o.level, o.parent_id, o.size, o.relationships, o.documents, o.title, o.summary, o.rating,
               o.model, o.written_at
          FROM graphrag.community_overview o
         WHERE o.corpus = %(corpus)s AND (%(level)s::int IS NULL OR o.level = %(level)s::int)
         ORDER BY o.level, o.size DESC, o.community_id
        """,
        {"corpus": corpus, "level": level},
        _rows_as(Community),
    )


def refresh_communities(corpus: str) -> Statement[dict[str, Any]]:
    return _call("refresh_communities", {"corpus": corpus}, _first)


def curate(corpus: str, function: str, arguments: Mapping[str, Any]) -> Statement[int]:
    """A curation by the function of its kind, which returns its number."""
    return _call(function, {"corpus": corpus, **arguments}, _first)


def undo_curation(number: int) -> Statement[None]:
    return _call("undo_curation", {"id": number}, _nothing)


def curations(corpus: str) -> Statement[Results[Curation]]:
    return Statement(
        """
        SELECT u.id, u.kind, u.arguments, u.made_by, u.made_at, u.undone_by, u.undone_at
          FROM graphrag.curations u
          JOIN graphrag.corpora c ON c.id = u.corpus_id
         WHERE c.name = %(corpus)s
         ORDER BY u.id
        """,
        {"corpus": corpus},
        _rows_as(Curation),
    )


def suggest_merges(corpus: str, max_suggestions: int) -> Statement[Results[MergeSuggestion]]:
    arguments = {"corpus": corpus, "max_suggestions": max_suggestions}
    return _call("suggest_merges", arguments, _rows_as(MergeSuggestion), "entity, target, score, reason")


def context(
    corpus: str,
    query: str,
    mode: str,
    max_tokens: int | None,
    filter: Mapping[str, Any] | None,
    low_level_keywords: Sequence[str] | None,
    high_level_keywords: Sequence[str] | None,
    options: Mapping[str, Any],
) -> Statement[dict[str, Any]]:
    arguments = {
        "query": query,
        "corpus": corpus,
        "mode": mode,
        "max_tokens": max_tokens,
        "filter": _json(filter),
        "low_level_keywords": _list(low_level_keywords),
        "high_level_keywords": _list(high_level_keywords),
        "options": _json(options),
    }
    return _call("context", arguments, _first)


def understand(corpus: str, question: str) -> Statement[dict[str, Any]]:
    return _call("understand", {"question": question, "corpus": corpus}, _first)


@dataclass(frozen=True, slots=True)
class Question:
    """The arguments of ``graphrag.ask`` and ``graphrag.ask_stream``."""

    question: str
    mode: str = "hybrid"
    max_tokens: int | None = None
    filter: Mapping[str, Any] | None = None
    low_level_keywords: Sequence[str] | None = None
    high_level_keywords: Sequence[str] | None = None
    history: Sequence[Mapping[str, str]] | None = None
    response_type: str = "multiple paragraphs"
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, question: str, arguments: Mapping[str, Any]) -> "Question":
        """A question with arguments by name; what is none of its own is a search option."""
        own_arguments = {name: value for name, value in arguments.items() if name in cls.__dataclass_fields__}
        return cls(
            question,
            **own_arguments,
            options={name: value for name, value in arguments.items() if name not in own_arguments},
        )

    def arguments(self, corpus: str) -> dict[str, Any]:
        """The arguments of the SQL functions."""
        return {
            "question": self.question,
            "corpus": corpus,
            "mode": self.mode,
            "max_tokens": self.max_tokens,
            "filter": _json(self.filter),
            "low_level_keywords": _list(self.low_level_keywords),
            "high_level_keywords": _list(self.high_level_keywords),
            "options": _json(self.options),
            "history": None if self.history is None else Jsonb([dict(turn) for turn in self.history]),
            "response_type": self.response_type,
        }


def ask(corpus: str, question: Question) -> Statement[Answer]:
    def the_answer(rows: list[Row]) -> Answer:
        answer, citations, usage, context = rows[0]
        return Answer(answer, [Citation(**citation) for citation in citations], usage, context)

    return _call("ask", question.arguments(corpus), the_answer, "answer, citations, usage, context")


def ask_stream(corpus: str, question: Question) -> Statement[None]:
    """In the SELECT list, where rows are made as a cursor fetches them."""
    return _call("ask_stream", question.arguments(corpus), _nothing)


def estimate_ask(corpus: str, question: Question) -> Statement[dict[str, Any]]:
    columns = "calls, tokens_in, tokens_out, cost, basis"

    def the_estimate(rows: list[Row]) -> dict[str, Any]:
        estimate = dict(zip(columns.split(", "), rows[0], strict=True))
        return estimate | {"cost": float(estimate["cost"])}

    return _call("estimate_ask", question.arguments(corpus), the_estimate, columns)


def log_query(corpus: str, kind: str, mode: str, question: str, seconds: float, result: Any) -> Statement[None]:
    """Note a search, or a context with its entities, relationships and chunks, in the query log."""
    parts = {part: len(result[part]) if isinstance(result, Mapping) else None for part in ("entities", "relationships")}
    arguments = {
        "question": question,
        "corpus": corpus,
        "kind": kind,
        "mode": mode,
        "milliseconds": 1000 * seconds,
        **parts,
        "chunks": len(result["chunks"]) if isinstance(result, Mapping) else len(result),
    }
    return _call("log_query", arguments, _nothing)


def evaluate(
    corpus: str,
    questions: Sequence[Mapping[str, Any]],
    modes: Sequence[str],
    k: Sequence[int],
    baseline: str | None,
    options: Mapping[str, Any],
) -> Statement[Results[Evaluation]]:
    arguments = {
        "corpus": corpus,
        "questions": Jsonb(list(questions)),
        "modes": list(modes),
        "k": list(k),
        "baseline": baseline,
        "options": _json(options),
    }
    columns = (
        "mode, k, questions, without_evidence, recall, ndcg, mrr, any_hit, all_hit, p50_ms, p95_ms, baseline,"
        " intervals, differences, per_question"
    )
    return _call("evaluate", arguments, _rows_as(Evaluation), columns)


def compare_corpora(
    corpus: str,
    other: str,
    questions: Sequence[Mapping[str, Any]],
    modes: Sequence[str],
    k: Sequence[int],
    options: Mapping[str, Any],
) -> Statement[Results[CorpusComparison]]:
    arguments = {
        "corpus": corpus,
        "other": other,
        "questions": Jsonb(list(questions)),
        "modes": list(modes),
        "k": list(k),
        "options": _json(options),
    }
    columns = "mode, k, metric, questions, value, other, difference, low, high, p, better, worse, changed, costs"
    return _call("compare_corpora", arguments, _rows_as(CorpusComparison), columns)


def clone_corpus(corpus: str, name: str, options: Mapping[str, Any]) -> Statement[int]:
    return _call("clone_corpus", {"corpus": corpus, "name": name, "options": _json(options)}, _first)


def feedback(
    corpus: str,
    question: str,
    verdict: str,
    evidence: Sequence[str] | None,
    answer: str | None,
    mode: str | None,
    author: str,
    comment: str | None,
) -> Statement[None]:
    arguments = {
        "question": question,
        "verdict": verdict,
        "corpus": corpus,
        "evidence": _list(evidence),
        "answer": answer,
        "mode": mode,
        "author": author,
        "comment": comment,
    }
    return _call("feedback", arguments, _nothing)


def golden_questions(corpus: str) -> Statement[list[dict[str, Any]]]:
    return _call("golden_questions", {"corpus": corpus}, _first)


def neighbors(corpus: str, entity: str, hops: int, filter: Mapping[str, Any] | None) -> Statement[Results[Neighbor]]:
    arguments: dict[str, Any] = {"entity": entity, "corpus": corpus, "hops": hops}
    if filter is not None:
        arguments["filter"] = _json(filter)
    columns = "hop, entity_id, name, type, description, degree, relationship_id, relationship, keywords, weight, path"
    return _call("neighbors", arguments, _rows_as(Neighbor), columns)


def cypher(corpus: str, query: str, params: Mapping[str, Any] | None) -> Statement[list[dict[str, Any]]]:
    arguments = {"corpus": corpus, "query": query, "params": Jsonb(dict(params or {}))}
    return _call("cypher", arguments, lambda rows: [row[0] for row in rows])


def graph(corpus: str) -> "Statement[networkx.Graph[str]]":
    return Statement(GRAPH, {"corpus": corpus}, lambda rows: to_networkx(items(corpus, rows)))


# Its columns only ever grow at the end: an extension before or after this client has less or more.
_PROGRESS = "SELECT p.* FROM graphrag.progress p"


def _progress_of(row: Row) -> Progress:
    # Before 0.3.0 a text was searchable when it was indexed.
    since_0_3 = (row[2], None, None, 0, 0, 0)
    return Progress(*row[:22], *since_0_3[len(row) - 16 :])


def health() -> Statement[Results[HealthIssue]]:
    return Statement("SELECT severity, subject, detail, hint FROM graphrag.health()", {}, _rows_as(HealthIssue))


def metrics() -> Statement[Results[Metric]]:
    return Statement(
        "SELECT name, labels, value::float8, help FROM graphrag.metrics ORDER BY name, labels", {}, _rows_as(Metric)
    )


def replica_lag() -> Statement[float]:
    """Seconds by which a server is behind its primary, as far as it knows; 0 for a primary, infinity for who receives nothing."""
    return Statement(
        """
        SELECT CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN 0
                    WHEN NOT EXISTS (SELECT FROM pg_catalog.pg_stat_wal_receiver) THEN 'infinity'
                    WHEN pg_catalog.pg_last_wal_receive_lsn() = pg_catalog.pg_last_wal_replay_lsn() THEN 0
                    ELSE coalesce(extract(epoch FROM pg_catalog.clock_timestamp()
                                                     - pg_catalog.pg_last_xact_replay_timestamp()), 'infinity')
               END::float8
        """,
        {},
        _first,
    )


def wait_indexed(corpus: str, keys: Iterable[str] | None, timeout: float) -> Statement[WaitResult]:
    return Statement(
        """
        SELECT indexed, failed, pending
          FROM graphrag.wait_indexed(%(corpus)s::text, %(keys)s::text[], %(timeout)s::float8 * interval '1 second')
        """,
        {"corpus": corpus, "keys": None if keys is None else list(keys), "timeout": timeout},
        lambda rows: WaitResult(*rows[0]),
    )


def progress(corpus: str) -> Statement[Progress]:
    def the_one(rows: list[Row]) -> Progress:
        if not rows:
            raise GraphRAGError(
                f'corpus "{corpus}" does not exist',
                sqlstate="42704",
                hint='Create it with create_corpus(); "default" is made by the first insert.',
            )
        return _progress_of(rows[0])

    return Statement(f"{_PROGRESS} WHERE p.corpus = %(corpus)s", {"corpus": corpus}, the_one)


def progress_of_all() -> Statement[Results[Progress]]:
    return Statement(f"{_PROGRESS} ORDER BY p.corpus", {}, lambda rows: Results(map(_progress_of, rows)))


def failed_jobs(corpus: str) -> Statement[Results[FailedJob]]:
    return Statement(
        """
        SELECT job_id, corpus, kind, document_id, source_key, attempts, last_error, created_at
          FROM graphrag.failed_jobs
         WHERE corpus = %(corpus)s
         ORDER BY job_id
        """,
        {"corpus": corpus},
        _rows_as(FailedJob),
    )


def retry_failed(corpus: str) -> Statement[int]:
    return Statement("SELECT graphrag.retry_failed(%(corpus)s::text)", {"corpus": corpus}, _first)


def process_jobs(max_jobs: int | None) -> Statement[None]:
    return Statement("CALL graphrag.process_jobs(%(max_jobs)s::int)", {"max_jobs": max_jobs}, _nothing, "process_jobs")


def create_corpus(corpus: str, options: Mapping[str, Any]) -> Statement[int]:
    return _call("create_corpus", {"name": corpus, "options": Jsonb(dict(options))}, _first)


def alter_corpus(corpus: str, options: Mapping[str, Any]) -> Statement[None]:
    return _call("alter_corpus", {"name": corpus, "options": Jsonb(dict(options))}, _nothing)


def reembed(corpus: str, embedding: Mapping[str, Any]) -> Statement[None]:
    return _call("reembed", {"corpus": corpus, "embedding": Jsonb(dict(embedding))}, _nothing)


def drop_corpus(corpus: str) -> Statement[None]:
    return _call("drop_corpus", {"name": corpus}, _nothing)


def pauses() -> Iterator[float]:
    """Seconds between two looks at the progress: short at first, then one."""
    pause = 0.05
    while True:
        yield pause
        pause = min(pause * 1.5, 1.0)
