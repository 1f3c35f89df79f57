"""The SQL of the client. Each function returns a `Statement`, which the server or the process beside it runs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from psycopg.types.json import Jsonb

from pg_graphrag.beside.client.display import Results
from pg_graphrag.beside.client.graph_items import GRAPH, items, to_networkx
from pg_graphrag.beside.client.results import (
    Answer,
    Citation,
    Community,
    Curation,
    FailedJob,
    HealthIssue,
    InsertSummary,
    Metric,
    Progress,
    SearchResult,
    WaitResult,
)
from pg_graphrag.beside.process.routines import Routine, find
from pg_graphrag.ground.bounds import ALL
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


def _given(routine: Routine, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the arguments of a call as SQL, and their values."""
    types = {item.name: item.type for item in routine.arguments}
    named_values = ", ".join(f"{name} => %({name})s::{types[name]}" for name in arguments)
    return named_values, {name: _parameter(types[name], value) for name, value in arguments.items()}


def _parameter(type_: str, value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if type_ == "jsonb":
        return Jsonb(_plain(value))
    return list(value) if type_.endswith("[]") else value


def _plain(value: Any) -> Any:
    """Return a value made of dictionaries and lists, the only containers that json knows."""
    if isinstance(value, Mapping):
        return dict(value)
    return [_plain(item) for item in value] if isinstance(value, Sequence) and not isinstance(value, str) else value


def _call(
    function: str, arguments: Mapping[str, Any], result: Callable[[list[Row]], T], columns: Sequence[str] = ()
) -> Statement[T]:
    """The call of a function with named arguments: its value, or `columns` of its rows."""
    given, parameters = _given(find(function, arguments), arguments)
    call = f"graphrag.{function}({given})"
    sql = f"SELECT {', '.join(columns)} FROM {call}" if columns else f"SELECT {call}"
    return Statement(sql + " ORDER BY rank" * ("rank" in columns), parameters, result, function, tuple(columns) or None)


def any_call(corpus: str, function: str, arguments: Mapping[str, Any]) -> Statement[Any]:
    """The call of any function of the schema whose body is Python, with arguments by name, on either host.

    Raises GraphRAGError: 42883 if no function takes these arguments.
    """
    try:
        routine = find(function, arguments)
    except GraphRAGError as error:
        try:
            routine = find(function, {"corpus": corpus, **arguments})
        except GraphRAGError:
            raise error from None
    if "corpus" in {item.name for item in routine.arguments}:
        arguments = {"corpus": corpus, **arguments}
    given, parameters = _given(routine, arguments)
    names = tuple(column for column, _ in routine.columns)

    def result(rows: list[Row]) -> Any:
        if not names:
            return None
        returned = [row[0] if names == ("",) else dict(zip(names, row, strict=True)) for row in rows]
        return returned if routine.is_set else returned[0]

    sql = (
        f"CALL graphrag.{function}({given})" if routine.is_procedure else f"SELECT * FROM graphrag.{function}({given})"
    )
    return Statement(sql, parameters, result, function)


def value(function: str, kind: type[T], **arguments: Any) -> Statement[T]:
    """The value of a function, of type `kind`."""
    return _call(function, arguments, _first)


def values(function: str, **arguments: Any) -> Statement[list[Any]]:
    """The values that a function returns, one a row."""
    return _call(function, arguments, lambda rows: [row[0] for row in rows])


def nothing(function: str, **arguments: Any) -> Statement[None]:
    """The call of a function for its effect."""
    return _call(function, arguments, _nothing)


def results(function: str, cls: Callable[..., T], **arguments: Any) -> Statement[Results[T]]:
    """The rows of a function as objects of a dataclass, whose fields are its columns."""
    return _call(function, arguments, _rows_as(cls), [field.name for field in fields(cls)])  # type: ignore[arg-type]


def search(
    corpus: str, corpora: Sequence[str] | None, seconds: float | None, **arguments: Any
) -> Statement[Results[SearchResult]]:
    """Chunks of one corpus, or of several with a time limit in seconds for each.

    Raises GraphRAGError: 22023 for seconds without `corpora`.
    """
    if corpora is not None:
        return results("search", SearchResult, corpora=corpora, corpus_timeout=seconds, **arguments)
    if seconds is not None:
        raise GraphRAGError(
            "corpus_timeout belongs to a search of several corpora", hint="Give corpora, or leave it out."
        )
    columns = [field.name for field in fields(SearchResult) if field.name != "corpus"]
    own = {"query": arguments.pop("query"), "corpus": corpus, **arguments}
    return _call("search", own, lambda rows: Results(SearchResult(*(*row, corpus)) for row in rows), columns)


def names_of(corpora: Iterable[str] | None) -> list[str] | None:
    """Return names of corpora as a list; 22023 for one text, whose letters would be taken for names."""
    if isinstance(corpora, str):
        raise GraphRAGError(f"corpora cannot be the text {corpora[:100]!r}", hint=f"Give a list: [{corpora[:100]!r}].")
    return None if corpora is None else list(corpora)


def by_corpus(corpora: Iterable[str], hits: Any) -> dict[str, list[SearchResult]]:
    """Return {corpus: its hits} for each corpus that answered, if it was named or has a hit."""
    unanswered = hits[0].explain.get("unanswered", {}) if hits else {}
    names = sorted({*corpora, *(hit.corpus for hit in hits)} - {ALL, *unanswered})
    return {name: [hit for hit in hits if hit.corpus == name] for name in names}


def in_sql(function: str, **arguments: Any) -> Statement[Any]:
    """The value of a function that is SQL alone, which the database has on either host."""
    named_values = ", ".join(f"{name} => %({name})s" for name in arguments)
    return Statement(f"SELECT graphrag.{function}({named_values})", arguments, _first)


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


_PICTURE_COLUMNS = {
    "place": "int",
    "page": "int",
    "is_page": "boolean",
    "alternative_text": "text",
    "caption": "text",
    "recognised_text": "text",
    "description": "text",
    "width": "int",
    "height": "int",
}
_PICTURE_ARRAYS = ", ".join(f"%({name})s::{kind}[]" for name, kind in _PICTURE_COLUMNS.items())
# Bytes of pictures that one statement inserts, unless a single one has more.
_PICTURE_BYTES = 16 << 20
# What a picture that is there already has in common with one that is given.
_SAME_PICTURE = """
    p.digest = g.digest
    AND (p.place, p.page, p.is_page, p.alternative_text, p.caption, p.recognised_text)
        IS NOT DISTINCT FROM (g.place, g.page, g.is_page, g.alternative_text, g.caption, g.recognised_text)
    AND (g.description IS NULL OR g.description IS NOT DISTINCT FROM p.description)
"""


def lock_document(corpus: str, source_key: str) -> Statement[int]:
    """The number of a document, which is locked before its pictures are locked.

    Raises GraphRAGError: 02000 for an unknown document, when the result is read.
    """

    def number(rows: list[Row]) -> int:
        if not rows:
            raise GraphRAGError(
                f'corpus "{corpus}" has no document "{source_key}"', sqlstate="02000", hint="Insert the document first."
            )
        return int(rows[0][0])

    return Statement(
        """
        SELECT d.id FROM graphrag.documents d WHERE d.corpus = %(corpus)s AND d.source_key = %(source_key)s
           FOR NO KEY UPDATE
        """,
        {"corpus": corpus, "source_key": source_key},
        number,
    )


def keep_pictures(document: int, pictures: Sequence[Mapping[str, Any]]) -> Statement[list[int]]:
    """Delete the pictures of a document that are not given; return the places of given pictures that are new.

    Raises GraphRAGError: 22023 for an unknown field, or content that is not bytes.
    """
    for picture in pictures:
        if unknown := sorted(set(picture) - {"content", *_PICTURE_COLUMNS}):
            raise GraphRAGError(
                f"a picture has no field {unknown[0]!r}",
                hint=f"Its fields are content, {', '.join(sorted(_PICTURE_COLUMNS))}.",
            )
        if not isinstance(content := picture.get("content"), (bytes, bytearray, memoryview)):
            raise GraphRAGError(
                f"the content of a picture cannot be {type(content).__name__}", hint="Give the bytes of its file."
            )
    return Statement(
        f"""
        WITH g AS MATERIALIZED (
            SELECT * FROM ROWS FROM (unnest(%(digest)s::bytea[], {_PICTURE_ARRAYS})) WITH ORDINALITY
                       AS g (digest, {", ".join(_PICTURE_COLUMNS)}, number)
        ), p AS MATERIALIZED (
            SELECT p.id, pg_catalog.sha256(p.content) AS digest, {", ".join(f"p.{name}" for name in _PICTURE_COLUMNS)}
              FROM graphrag.pictures p WHERE p.document_id = %(document)s
        ), gone AS (
            DELETE FROM graphrag.pictures x USING p
             WHERE x.id = p.id AND NOT EXISTS (SELECT FROM g WHERE {_SAME_PICTURE})
        )
        SELECT g.number FROM g WHERE NOT EXISTS (SELECT FROM p WHERE {_SAME_PICTURE}) ORDER BY 1
        """,
        {"document": document, "digest": [sha256(p["content"]).digest() for p in pictures]}
        | _picture_columns(pictures),
        lambda rows: [number - 1 for (number,) in rows],
    )


def add_pictures(document: int, pictures: Iterable[Mapping[str, Any]]) -> Iterator[Statement[None]]:
    """Give a document pictures, some together."""
    part: list[Mapping[str, Any]] = []
    size = 0
    for picture in pictures:
        if part and size + len(picture["content"]) > _PICTURE_BYTES:
            yield _add_part(document, part)
            part, size = [], 0
        part.append(picture)
        size += len(picture["content"])
    if part:
        yield _add_part(document, part)


def _picture_columns(pictures: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return {column: what each picture has in it}."""
    columns = {name: [picture.get(name) for picture in pictures] for name in _PICTURE_COLUMNS}
    return columns | {"is_page": list(map(bool, columns["is_page"]))}


def _add_part(document: int, pictures: Sequence[Mapping[str, Any]]) -> Statement[None]:
    return Statement(
        f"""
        INSERT INTO graphrag.pictures (document_id, content, {", ".join(_PICTURE_COLUMNS)})
        SELECT %(document)s, g.* FROM unnest(%(content)b::bytea[], {_PICTURE_ARRAYS}) AS g
        """,
        {"document": document, "content": [bytes(picture["content"]) for picture in pictures]}
        | _picture_columns(pictures),
        _nothing,
    )


def get(corpus: str, source_keys: Iterable[str]) -> Statement[list[Document]]:
    """Documents by their keys, in the order of these."""
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
    """Delete documents by their keys; how many there were."""
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


def communities(corpus: str, level: int | None) -> Statement[Results[Community]]:
    """Communities with their reports, of one level or all."""
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


def curations(corpus: str) -> Statement[Results[Curation]]:
    """Curations of a corpus in their order."""
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


def question_arguments(
    corpus: str,
    question: str,
    /,
    *,
    mode: str = "hybrid",
    max_tokens: int | None = None,
    filter: Mapping[str, Any] | None = None,
    low_level_keywords: Sequence[str] | None = None,
    high_level_keywords: Sequence[str] | None = None,
    history: Sequence[Mapping[str, str]] | None = None,
    response_type: str = "multiple paragraphs",
    **options: Any,
) -> dict[str, Any]:
    """The arguments of ``ask``, ``ask_stream`` and ``estimate_ask``; any other argument is a search option."""
    return {
        "question": question,
        "corpus": corpus,
        "mode": mode,
        "max_tokens": max_tokens,
        "filter": filter,
        "low_level_keywords": low_level_keywords,
        "high_level_keywords": high_level_keywords,
        "options": options,
        "history": history,
        "response_type": response_type,
    }


def ask(arguments: Mapping[str, Any]) -> Statement[Answer]:
    """An answer, of `question_arguments`."""

    def the_answer(rows: list[Row]) -> Answer:
        answer, citations, usage, context = rows[0]
        return Answer(answer, [Citation(**citation) for citation in citations], usage, context)

    return _call("ask", arguments, the_answer, ("answer", "citations", "usage", "context"))


def estimate_ask(arguments: Mapping[str, Any]) -> Statement[dict[str, Any]]:
    """What `ask` would cost at most."""
    columns = ("calls", "tokens_in", "tokens_out", "cost", "basis")

    def the_estimate(rows: list[Row]) -> dict[str, Any]:
        estimate = dict(zip(columns, rows[0], strict=True))
        return estimate | {"cost": float(estimate["cost"])}

    return _call("estimate_ask", arguments, the_estimate, columns)


def log_query(corpus: str, kind: str, mode: str, question: str, seconds: float, result: Any) -> Statement[None]:
    """Note a search, or a context with its entities, relationships and chunks, in the query log."""
    parts = {part: len(result[part]) if isinstance(result, Mapping) else None for part in ("entities", "relationships")}
    return nothing(
        "log_query",
        question=question,
        corpus=corpus,
        kind=kind,
        mode=mode,
        milliseconds=1000 * seconds,
        chunks=len(result["chunks"]) if isinstance(result, Mapping) else len(result),
        **parts,
    )


def graph(corpus: str) -> "Statement[networkx.Graph[str]]":
    """The whole graph for networkx."""
    return Statement(GRAPH, {"corpus": corpus}, lambda rows: to_networkx(items(corpus, rows)))


# Its columns only ever grow at the end: an extension before or after this client has less or more.
_PROGRESS = "SELECT p.* FROM graphrag.progress p"


def _progress_of(row: Row) -> Progress:
    # Before 0.3.0 a text was searchable when it was indexed.
    since_0_3 = (row[2], None, None, 0, 0, 0)
    return Progress(*row[:22], *since_0_3[len(row) - 16 :])


def health() -> Statement[Results[HealthIssue]]:
    """What needs somebody, worst first."""
    return Statement("SELECT severity, subject, detail, hint FROM graphrag.health()", {}, _rows_as(HealthIssue))


def metrics() -> Statement[Results[Metric]]:
    """The numbers for a monitor."""
    return Statement(
        "SELECT name, labels, value::float8, help FROM graphrag.metrics ORDER BY name, labels", {}, _rows_as(Metric)
    )


def replica_lag() -> Statement[float]:
    """Seconds by which a server is behind its primary; 0 for a primary, infinity if it receives nothing."""
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
    """Wait in the server until documents are indexed, or `timeout` seconds."""
    return Statement(
        """
        SELECT indexed, failed, pending
          FROM graphrag.wait_indexed(%(corpus)s::text, %(keys)s::text[], %(timeout)s::float8 * interval '1 second')
        """,
        {"corpus": corpus, "keys": None if keys is None else list(keys), "timeout": timeout},
        lambda rows: WaitResult(*rows[0]),
    )


def progress(corpus: str) -> Statement[Progress]:
    """How far the indexing of a corpus is; 42704 for an unknown corpus."""

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
    """How far the indexing of each corpus is."""
    return Statement(f"{_PROGRESS} ORDER BY p.corpus", {}, lambda rows: Results(map(_progress_of, rows)))


def failed_jobs(corpus: str) -> Statement[Results[FailedJob]]:
    """The dead letters of a corpus."""
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


def process_jobs(max_jobs: int | None) -> Statement[None]:
    """Do the work that is due."""
    return Statement("CALL graphrag.process_jobs(%(max_jobs)s::int)", {"max_jobs": max_jobs}, _nothing, "process_jobs")


def pauses() -> Iterator[float]:
    """Seconds between two looks at the progress: short at first, then one."""
    pause = 0.05
    while True:
        yield pause
        pause = min(pause * 1.5, 1.0)
