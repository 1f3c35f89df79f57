"""The client for programs on asyncio. The builds make `blocking.py` of this file."""

import time
from asyncio import Lock, sleep
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from datetime import datetime
from functools import partial
from itertools import chain, islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pg_graphrag.beside.client import nodes, sql_statements, tracing
from pg_graphrag.beside.client.connection_settings import adapt, check_source, is_lost, settings_of
from pg_graphrag.beside.client.display import ProgressBar, Results
from pg_graphrag.beside.client.hosts import (
    LACKS,
    catalogue_of,
    check_no_pipeline,
    is_beside_async,
    lacking_async,
    rows_beside_async,
    stream_beside_async,
)
from pg_graphrag.beside.client.nodes import side_by_side_async
from pg_graphrag.beside.client.results import (
    Answer,
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
from pg_graphrag.beside.client.sql_statements import (
    Statement,
    in_sql,
    nothing,
    question_arguments,
    results,
    value,
    values,
)
from pg_graphrag.ground.bounds import ALL
from pg_graphrag.ground.document import Document, DocumentLike, as_documents, batches

if TYPE_CHECKING:
    import networkx

T = TypeVar("T")
# Between two looks at a replica: when it answers, and after it failed.
LOOK_SECONDS = 1.0
FAILED_SECONDS = 5.0
CONNECT_SECONDS = 2  # libpq's least
# After so many lost connections of a pool, a call takes the next one unchecked.
LOST_CONNECTIONS = 100
Connection = psycopg.AsyncConnection[Any]


class Pool(Protocol):
    """What the client uses of a ``psycopg_pool.AsyncConnectionPool``."""

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        """A connection for as long as the context lasts."""


class AsyncGraphRAG:
    """One corpus of a database, for reading and writing.

    `source` (str or psycopg.AsyncConnection or AsyncConnectionPool): a libpq URL or connection string: one connection of the
      client's own, opened when first needed, reopened when lost, each call committed. Where the database knows that another
      node has the corpus (``graphrag.placements``), the client goes there, as the same role, with the password of this URL
      only where host and port are the same, else with what libpq's password file has. A connection: everything happens in the
      transaction its owner has open. A pool: a connection of it for each call. Empty: libpq's own environment (``PGHOST``,
      ``PGSERVICE``, …).
    `corpus`: corpus of all calls.
    `log_queries`: note searches and contexts in the query log, of corpora that have one (option ``query_log``): one more
      statement each. `ask` is noted by the server.
    `replicas` (sequence of str, psycopg.AsyncConnection or AsyncConnectionPool): hot standbys of the database. Searches,
      contexts and neighbors go to one after the other; where none answers, or is near enough, to `source`.
    `max_lag`: seconds by which a replica may be behind. It is asked at most once a second.

    Safe to share between tasks of one event loop; with a URL or a connection the calls take turns, with a pool they
    don't. Errors of the database are psycopg's, whose text ends with the server's HINT.
    """

    def __init__(
        self,
        source: str | Connection | Pool = "",
        corpus: str = "default",
        log_queries: bool = False,
        replicas: Sequence[str | Connection | Pool] = (),
        max_lag: float = 10.0,
    ):
        for given in (source, *replicas):
            check_source(given, psycopg.AsyncConnection)
        self._replicas = [_Replica(staying(_impatient(replica), corpus)) for replica in replicas]
        self._max_lag = max_lag
        self.corpus = corpus
        self._log_queries = log_queries
        self._source = source
        # URL of the node that holds the corpus, if it is not `source`.
        self._node_url: str | None = None
        self._follows = True
        self._nodes: dict[str, AsyncGraphRAG] = {}
        self._own_connection: Connection | None = None
        self._turn = Lock()  # a transaction must not take in another task's statements

    async def __aenter__(self) -> "AsyncGraphRAG":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the client's own connection; a connection or pool that was handed in stays open."""
        if self._own_connection is not None:
            await self._own_connection.close()
        for client in (*(replica.client for replica in self._replicas), *self._nodes.values()):
            await client.close()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        if not isinstance(self._source, str | psycopg.AsyncConnection):
            # A pool has many that a restart of the server has ended. It replaces each that comes back closed.
            for _ in range(LOST_CONNECTIONS):
                async with self._source.connection() as connection:
                    if not is_lost(connection):
                        yield connection
                        return
                    await connection.close()
            async with self._source.connection() as connection:
                yield connection
            return
        async with self._turn:
            if not isinstance(self._source, str):
                yield self._source
                return
            if self._own_connection is not None and is_lost(self._own_connection):
                await self._own_connection.close()
                self._own_connection = None
            if self._own_connection is None:
                self._own_connection = await self._connect(self._source)
            yield self._own_connection

    async def _connect(self, source: str) -> Connection:
        if self._node_url is not None:
            with suppress(psycopg.OperationalError):
                return await connect(self._node_url)
        if not self._follows:
            return await connect(source)
        connection, self._node_url = await connect_to(source, self.corpus)
        return connection

    async def _has_moved(self) -> bool:
        """Whether another node has the corpus than before: the next call goes there.

        Asked after 42704, and at a node before what cannot be begun twice.
        """
        if not isinstance(self._source, str) or not self._follows:
            return False
        async with self._turn:
            connection, former = self._own_connection, self._node_url
            if connection is None or is_lost(connection):
                return False
            whereabouts = await _whereabouts(connection, self.corpus)
            if whereabouts.is_here or (whereabouts.place is None and former is None):
                return False
            # A node that knows of no other asks the first database.
            self._node_url = None if whereabouts.place is None else nodes.url_at(connection.info, whereabouts.place)
            await connection.close()
            self._own_connection = None
            self._own_connection = await self._connect(self._source)
            return self._node_url != former

    async def _run(self, statement: Statement[T]) -> T:
        for _ in range(nodes.MAX_STEPS):
            try:
                async with self._connection() as connection:
                    result = await execute(connection, statement)
                # An empty result of a plain statement does not show whether the corpus is still there; a function would
                # fail.
                if statement.function is not None or result or not await self._has_moved():
                    return result
            except psycopg.errors.UndefinedObject:
                if not await self._has_moved():
                    raise
        async with self._connection() as connection:
            return await execute(connection, statement)

    async def _read(self, statement: Statement[T]) -> T:
        """Run a statement that only reads: at a replica, or where that fails at the source."""
        for replica in [*self._replicas] if self._node_url is None else []:
            # The next call begins with the next.
            self._replicas = [*self._replicas[1:], *self._replicas[:1]]
            try:
                if await replica.may_answer(self._max_lag):
                    return await replica.client._run(statement)
            except psycopg.errors.QueryCanceled:
                raise
            except psycopg.errors.UndefinedObject:
                # The source knows whether another node has it.
                break
            except psycopg.OperationalError:
                # Gone, shut down, or in conflict with its replay.
                replica.leave_alone()
        return await self._run(statement)

    async def _logged(
        self, kind: str, mode: str, query: str, statement: Statement[T], corpora: Sequence[str] | None = None
    ) -> T:
        """Run a statement that only reads, and log it if the client logs queries.

        A search of several corpora is logged in each corpus that is named or has a row, and that answered.
        """
        start = time.monotonic()
        result = await self._read(statement)
        if self._log_queries:
            seconds = time.monotonic() - start
            alone: dict[str, Any] = {self.corpus: result}
            parts = alone if corpora is None else sql_statements.by_corpus(corpora, result)
            for corpus, part in parts.items():
                await self._run(sql_statements.log_query(corpus, kind, mode, query, seconds, part))
        return result

    async def insert(self, documents: DocumentLike | Iterable[DocumentLike]) -> InsertSummary:
        """Insert documents, or replace those with the same ``source_key``, all in one transaction.

        Indexing follows when a worker runs (`process_jobs`, ``pg-graphrag worker`` or pg_cron); see
        `wait_until_indexed`. Documents that would not change cost nothing.

        `documents` (Document, mapping, str, or an iterable of these): a mapping has the fields of `Document`; a string is
          only content, its key a hash of it.
        """
        rest = iter(batches(as_documents(documents)))
        first = [*islice(rest, 1)]
        if self._node_url is not None:
            # A node that lost the corpus of the name default would make another.
            await self._has_moved()
        for step in range(nodes.MAX_STEPS + 1):
            summary, has_begun = InsertSummary(0, 0, 0), False
            try:
                async with self._connection() as connection, _atomic(connection):
                    for batch in chain(first, rest):
                        summary += await execute(connection, sql_statements.insert(self.corpus, batch))
                        has_begun = True
                return summary
            except psycopg.errors.UndefinedObject:
                if has_begun or step == nodes.MAX_STEPS or not await self._has_moved():
                    raise
        raise AssertionError("the last step returns or raises")

    async def set_pictures(self, source_key: str, pictures: Iterable[Mapping[str, Any]]) -> int:
        """Make these the pictures of a document, in one transaction; return how many are new.

        Existing pictures stay, with their descriptions.

        `source_key`: the key of an existing document.
        `pictures` (iterable of mappings): the columns of ``graphrag.pictures``: `content` (the bytes of a PNG, JPEG, GIF or
          WebP, at most 10 MiB), and, if known, place, page, is_page (whether it shows the whole page), width, height,
          alternative_text, caption, recognised_text, description.

        Raises GraphRAGError: 02000 for an unknown document; 22023 for an unknown field, or content that is not bytes.
        """
        wanted_pictures = list(pictures)
        await self._has_moved()
        async with self._connection() as connection, _atomic(connection):
            document = await execute(connection, sql_statements.lock_document(self.corpus, source_key))
            missing = await execute(connection, sql_statements.keep_pictures(document, wanted_pictures))
            for statement in sql_statements.add_pictures(document, [wanted_pictures[number] for number in missing]):
                await execute(connection, statement)
        return len(missing)

    async def delete(self, source_keys: str | Iterable[str]) -> int:
        """Delete documents by ``source_key``, with everything that only they state; returns how many existed."""
        return await self._run(sql_statements.delete(self.corpus, source_keys))

    async def get(self, source_keys: str | Iterable[str]) -> list[Document]:
        """Return documents by ``source_key``, in the order of the keys, without unknown and retracted ones."""
        return await self._run(
            sql_statements.get(self.corpus, [source_keys] if isinstance(source_keys, str) else source_keys)
        )

    async def retract(self, source_key: str, reason: str, *, retracted_at: datetime | None = None) -> None:
        """Retract a document: nothing finds it from now on, and its row says why: ``graphrag.retract``.

        `retracted_at` (datetime): since when, with a time zone; not in the future.
        """
        since = {} if retracted_at is None else {"retracted_at": retracted_at}
        await self._run(in_sql("retract", corpus=self.corpus, source_key=source_key, reason=reason, **since))

    async def undo_retraction(self, source_key: str) -> None:
        """End the retraction of a document, which workers index again: ``graphrag.undo_retraction``."""
        await self._run(in_sql("undo_retraction", corpus=self.corpus, source_key=source_key))

    async def search(
        self,
        query: str,
        *,
        mode: str = "hybrid",
        top_k: int = 10,
        filter: Mapping[str, Any] | None = None,
        low_level_keywords: Sequence[str] | None = None,
        high_level_keywords: Sequence[str] | None = None,
        corpora: Iterable[str] | None = None,
        corpus_timeout: float | None = None,
        node_timeout: float = 60.0,
        **options: Any,
    ) -> Results[SearchResult]:
        """Find chunks, best first: ``graphrag.search``.

        `mode`: naive, bm25, local, global, hybrid, mix, path, ppr, graph_local, graph_global, drift or lazy.
        `top_k`: rows returned.
        `filter`: only documents whose metadata contains this.
        `low_level_keywords`, `high_level_keywords`: entities and themes of the query, where the caller knows them better than
          the server's own understanding.
        `corpora`: corpora to search in place of the client's own, in one list; ``["*"]``: all that the caller may read. A
          client with a URL asks the nodes that have them side by side; ``explain["unanswered"]`` says who did not answer.
        `corpus_timeout`: seconds that each of them may take.
        `node_timeout`: seconds that each node may take, where some are on others.
        `options`: the search options of the mode, such as ``rrf_k=10`` or ``profile="paper"``.
        """
        names = sql_statements.names_of(corpora)
        searched = self.corpus if names is None else ", ".join(map(str, names))
        with tracing.call("search", searched, mode, query, options) as call:
            arguments: dict[str, Any] = {
                "corpus_timeout": corpus_timeout,
                "query": query,
                "mode": mode,
                "top_k": top_k,
                "filter": filter,
                "low_level_keywords": low_level_keywords,
                "high_level_keywords": high_level_keywords,
                "options": options | call.profile,
            }
            follows = names is not None and isinstance(self._source, str) and self._follows and None not in names
            if follows and (places := await self._known_elsewhere(names or ())):
                return call.returns(await self._search_nodes(names or (), places, node_timeout, arguments))
            return call.returns(await self._search(names, **arguments))

    async def _search(
        self, names: Sequence[str] | None, *, corpus_timeout: float | None, **arguments: Any
    ) -> Results[SearchResult]:
        statement = sql_statements.search(self.corpus, names, corpus_timeout, **arguments)
        return await self._logged("search", arguments["mode"], arguments["query"], statement, names)

    async def _known_elsewhere(self, names: Sequence[str]) -> dict[nodes.Place, list[str]]:
        """As `_elsewhere`, of the first database, wherever the corpus of this client is; of a replica where it is down."""
        try:
            async with self._connection():
                pass
            return await (self if self._node_url is None else self._at(self._source))._elsewhere(names)
        except psycopg.OperationalError:
            for replica in self._replicas:
                with suppress(psycopg.OperationalError):
                    return await replica.client._elsewhere(names)
            raise

    def _at(self, url: Any) -> "AsyncGraphRAG":
        """Return the client of this one that is at a database and stays there."""
        client = self._nodes.get(url)
        if client is None:
            client = staying(_impatient(url), self.corpus)
            client._log_queries, client._max_lag = self._log_queries, self._max_lag
            if url == self._source:
                client._replicas = [
                    _Replica(staying(replica.client._source, self.corpus)) for replica in self._replicas
                ]
        return self._nodes.setdefault(url, client)

    def _forget(self, late: "AsyncGraphRAG") -> None:
        # Other threads may add some, and forget this one too.
        for url, client in list(self._nodes.items()):
            if client is late:
                self._nodes.pop(url, None)

    async def _elsewhere(self, names: Sequence[str]) -> dict[nodes.Place, list[str]]:
        """Return {node: corpora} of those corpora that other nodes hold; each url says how this client gets there."""
        async with self._connection() as connection:
            await is_beside_async(connection)
            if not catalogue_of(connection).is_readable:
                return {}
            return nodes.from_here(connection.info, await execute(connection, nodes.elsewhere(names)))

    async def _search_nodes(
        self,
        names: Sequence[str],
        places: Mapping[nodes.Place, Sequence[str]],
        seconds: float,
        arguments: dict[str, Any],
    ) -> Results[SearchResult]:
        """Search several databases side by side, and merge what they find."""
        form = nodes.Form.of(arguments)
        requests = nodes.requests(None, names, places)
        answers: dict[nodes.Request, Results[SearchResult] | Exception] = {}
        for _ in range(nodes.MAX_STEPS):
            # All get their own connections, the first database too: a late call may hold its connection for longer.
            clients = {request: self._at(request.place.url if request.place else self._source) for request in requests}
            calls = {
                request: partial(clients[request]._search, request.corpora, **form.arguments) for request in requests
            }
            answers |= await side_by_side_async(clients, calls, seconds)
            requests = []
            for request, client in clients.items():
                if isinstance(answers[request], nodes.LateError):
                    self._forget(client)
                # The address that led this client there is older than what that node knows.
                elif (
                    isinstance(answers[request], psycopg.errors.UndefinedObject)
                    and request.place
                    and (further := await client._elsewhere([name for name in request.corpora if name != ALL]))
                ):
                    del answers[request]
                    requests += nodes.requests(request.place, request.corpora, further)
            if not requests:
                break
        return form.merged(answers)

    async def search_entities(
        self,
        query: str,
        *,
        top_k: int = 10,
        filter: Mapping[str, Any] | None = None,
        low_level_keywords: Sequence[str] | None = None,
    ) -> Results[EntityResult]:
        """Find entities, best first: ``graphrag.search_entities``. Parameters as in `search`."""
        own = {"low_level_keywords": low_level_keywords}
        return await self._search_items("search_entities", EntityResult, query, top_k, filter, **own)

    async def search_relationships(
        self,
        query: str,
        *,
        top_k: int = 10,
        filter: Mapping[str, Any] | None = None,
        high_level_keywords: Sequence[str] | None = None,
    ) -> Results[RelationshipResult]:
        """Find relationships, best first: ``graphrag.search_relationships``. Parameters as in `search`."""
        own = {"high_level_keywords": high_level_keywords}
        return await self._search_items("search_relationships", RelationshipResult, query, top_k, filter, **own)

    async def search_reports(
        self, query: str, *, top_k: int = 10, filter: Mapping[str, Any] | None = None, only_level: int | None = None
    ) -> Results[ReportResult]:
        """Find reports on communities, best first: ``graphrag.search_reports``.

        `only_level`: only reports of this level, 0 the coarsest. The others are as in `search`.
        """
        return await self._search_items("search_reports", ReportResult, query, top_k, filter, only_level=only_level)

    async def _search_items(
        self, function: str, cls: type[T], query: str, top_k: int, filter: Mapping[str, Any] | None, **own: Any
    ) -> Results[T]:
        statement = results(function, cls, query=query, corpus=self.corpus, top_k=top_k, filter=filter, **own)
        return await self._read(statement)

    async def communities(self, level: int | None = None) -> Results[Community]:
        """Return communities with their reports, the coarsest and largest first; empty if the caller sees a part of the
        corpus.
        """
        return await self._read(sql_statements.communities(self.corpus, level))

    async def refresh_communities(self) -> dict[str, Any]:
        """Cluster the graph now and queue the reports that are due: ``graphrag.refresh_communities``. For the owner."""
        return await self._run(value("refresh_communities", dict, corpus=self.corpus))

    async def context(
        self,
        query: str,
        *,
        mode: str = "hybrid",
        max_tokens: int | None = None,
        filter: Mapping[str, Any] | None = None,
        low_level_keywords: Sequence[str] | None = None,
        high_level_keywords: Sequence[str] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Return what a language model is given for a query: ``graphrag.context``.

        `max_tokens`: budget for the whole, by the corpus' tokenizer. The others are as in `search`.

        Returns entities, relationships, reports, chunks, references (numbered), prompt, tokens.
        """
        with tracing.call("context", self.corpus, mode, query, options) as call:
            statement = value(
                "context",
                dict,
                query=query,
                corpus=self.corpus,
                mode=mode,
                max_tokens=max_tokens,
                filter=filter,
                low_level_keywords=low_level_keywords,
                high_level_keywords=high_level_keywords,
                options=options | call.profile,
            )
            return call.returns(await self._logged("context", mode, query, statement))

    async def understand(self, question: str) -> dict[str, Any]:
        """Return what a question asks for: keywords, entities, answer types: ``graphrag.understand``."""
        return await self._run(value("understand", dict, question=question, corpus=self.corpus))

    async def ask(
        self,
        question: str,
        *,
        mode: str = "hybrid",
        max_tokens: int | None = None,
        filter: Mapping[str, Any] | None = None,
        low_level_keywords: Sequence[str] | None = None,
        high_level_keywords: Sequence[str] | None = None,
        history: Sequence[Mapping[str, str]] | None = None,
        response_type: str = "multiple paragraphs",
        **options: Any,
    ) -> Answer:
        """Answer a question from the documents, with citations: ``graphrag.ask``. Needs a model for answers.

        `history` (sequence of {"role": "user" or "assistant", "content": str}): the conversation before the question.
        `response_type`: the form of the answer, in words: "single sentence", "bullet list", …
        The others are as in `context`.
        """
        with tracing.call("ask", self.corpus, mode, question, options) as call:
            arguments = question_arguments(
                self.corpus,
                question,
                mode=mode,
                max_tokens=max_tokens,
                filter=filter,
                low_level_keywords=low_level_keywords,
                high_level_keywords=high_level_keywords,
                history=history,
                response_type=response_type,
                **options | call.profile,
            )
            return call.returns(await self._run(sql_statements.ask(arguments)))

    async def estimate_ask(self, question: str, **arguments: Any) -> dict[str, Any]:
        """Return {calls, tokens_in, tokens_out, cost, basis} of `ask` with these arguments, asking no model.

        ``graphrag.estimate_ask``; for the extension's owner.
        """
        return await self._run(sql_statements.estimate_ask(question_arguments(self.corpus, question, **arguments)))

    async def ask_stream(
        self,
        question: str,
        *,
        mode: str = "hybrid",
        max_tokens: int | None = None,
        filter: Mapping[str, Any] | None = None,
        low_level_keywords: Sequence[str] | None = None,
        high_level_keywords: Sequence[str] | None = None,
        history: Sequence[Mapping[str, str]] | None = None,
        response_type: str = "multiple paragraphs",
        **options: Any,
    ) -> AsyncIterator[str]:
        """Yield the answer of `ask` in pieces, as the model gives them; closing the iterator ends the request.

        The connection is taken until then; the pieces come in one transaction.
        """
        with tracing.call("ask", self.corpus, mode, question, options) as call:
            arguments = question_arguments(
                self.corpus,
                question,
                mode=mode,
                max_tokens=max_tokens,
                filter=filter,
                low_level_keywords=low_level_keywords,
                high_level_keywords=high_level_keywords,
                history=history,
                response_type=response_type,
                **options | call.profile,
            )
            statement = nothing("ask_stream", **arguments)
            await self._has_moved()
            async with self._connection() as connection:
                if await is_beside_async(connection):
                    async for (piece,) in stream_beside_async(connection, statement):
                        yield piece
                    return
                check_no_pipeline(connection)
                async with (
                    _atomic(connection),
                    psycopg.AsyncServerCursor(
                        connection, "graphrag_answer", row_factory=psycopg.rows.tuple_row
                    ) as cursor,
                ):
                    adapt(cursor)
                    await cursor.execute(statement.sql, statement.parameters)
                    while row := await cursor.fetchone():
                        yield row[0]

    async def evaluate(
        self,
        questions: Iterable[Mapping[str, Any]],
        *,
        modes: Sequence[str] = ("naive", "bm25", "hybrid"),
        k: Sequence[int] = (5, 10),
        baseline: str | None = None,
        **options: Any,
    ) -> Results[Evaluation]:
        """Measure modes on questions with known evidence, for each mode and k: ``graphrag.evaluate``.

        `questions` (iterable of mapping): ``question``, ``evidence`` (source keys), and optionally ``id``,
          ``low_level_keywords``, ``high_level_keywords``, ``query_entities``, ``answer_types`` (for modes that have these
          options, where a variant does not set them).
        `k`: depths.
        `baseline`: the mode that others are compared to; the first of `modes` when None.
        `options`: ``seed``, ``per_question``, ``variants``.
        """
        statement = results(
            "evaluate",
            Evaluation,
            corpus=self.corpus,
            questions=list(questions),
            modes=modes,
            k=k,
            baseline=baseline,
            options=options,
        )
        return await self._run(statement)

    async def compare_corpora(
        self,
        other: str,
        questions: Iterable[Mapping[str, Any]] | None = None,
        *,
        modes: Sequence[str] = ("hybrid",),
        k: Sequence[int] = (5, 10),
        **options: Any,
    ) -> Results[CorpusComparison]:
        """Measure the same questions on this corpus and on another, for each mode, k and metric: ``graphrag.compare_corpora``.

        `other`: a corpus with the same documents, as `clone_corpus` makes it.
        `questions` (iterable of mapping): as for `evaluate`; those of `golden_questions` when None.
        `options`: ``seed``, ``variants``.
        """
        judged = await self.golden_questions() if questions is None else list(questions)
        statement = results(
            "compare_corpora",
            CorpusComparison,
            corpus=self.corpus,
            other=other,
            questions=judged,
            modes=modes,
            k=k,
            options=options,
        )
        return await self._run(statement)

    async def clone_corpus(self, name: str, options: Mapping[str, Any] | None = None) -> int:
        """Make a corpus with this one's documents and options, changed by `options`: ``graphrag.clone_corpus``."""
        return await self._run(value("clone_corpus", int, corpus=self.corpus, name=name, options=options or {}))

    async def feedback(
        self,
        question: str,
        verdict: str,
        *,
        evidence: Sequence[str] | None = None,
        answer: str | None = None,
        mode: str | None = None,
        author: str = "",
        comment: str | None = None,
    ) -> None:
        """Note a verdict on an answer, ``good`` or ``bad``: ``graphrag.feedback``.

        `evidence`: source keys of documents that answer the question, such as those of the answer's citations.
        `author`: who says so, where many people share a role. A later verdict of the same author on the question replaces it.
        """
        statement = nothing(
            "feedback",
            question=question,
            verdict=verdict,
            corpus=self.corpus,
            evidence=evidence,
            answer=answer,
            mode=mode,
            author=author,
            comment=comment,
        )
        await self._run(statement)

    async def golden_questions(self) -> list[dict[str, Any]]:
        """Return the questions that verdicts have grown into, as `evaluate` takes them: ``graphrag.golden_questions``."""
        return await self._run(value("golden_questions", list, corpus=self.corpus))

    async def neighbors(
        self, entity: str, hops: int = 1, *, filter: Mapping[str, Any] | None = None
    ) -> Results[Neighbor]:
        """Return the entities within `hops` (1 to 10) of an entity, nearest first: ``graphrag.neighbors``."""
        where = {} if filter is None else {"filter": filter}
        return await self._read(results("neighbors", Neighbor, entity=entity, corpus=self.corpus, hops=hops, **where))

    async def suggest_merges(self, max_suggestions: int = 100) -> Results[MergeSuggestion]:
        """Return entities that may be one, likeliest first; merges nothing: ``graphrag.suggest_merges``."""
        return await self._run(
            results("suggest_merges", MergeSuggestion, corpus=self.corpus, max_suggestions=max_suggestions)
        )

    async def create_entity(self, name: str, *, type: str = "UNKNOWN", description: str = "") -> int:
        """Add an entity. As all curations: for the owner, and returns the number that `undo_curation` takes."""
        return await self._curate("create_entity", name=name, type=type, description=description)

    async def edit_entity(self, entity: str, *, type: str | None = None, description: str | None = None) -> int:
        """Set type or description of an entity, whatever documents say; None leaves it."""
        return await self._curate("edit_entity", entity=entity, type=type, description=description)

    async def rename_entity(self, entity: str, new_name: str) -> int:
        """Give an entity another name; the old one leads to it."""
        return await self._curate("rename_entity", entity=entity, new_name=new_name)

    async def merge_entities(self, entities: Sequence[str], target: str) -> int:
        """Make entities one with `target`, an entity that is there; later mentions of each land there too."""
        return await self._curate("merge_entities", entities=entities, target=target)

    async def delete_entity(self, entity: str) -> int:
        """Remove an entity and its relationships; it does not come back with later mentions."""
        return await self._curate("delete_entity", entity=entity)

    async def create_relationship(
        self, source: str, target: str, *, keywords: Sequence[str] = (), description: str = "", weight: float = 1
    ) -> int:
        """Add a relationship between two entities that exist."""
        fields = {"keywords": keywords, "description": description, "weight": weight}
        return await self._curate("create_relationship", source=source, target=target, **fields)

    async def edit_relationship(
        self,
        source: str,
        target: str,
        *,
        keywords: Sequence[str] | None = None,
        description: str | None = None,
        weight: float | None = None,
    ) -> int:
        """Set keywords, description or weight of a relationship, whatever documents say; None leaves it."""
        fields = {"keywords": keywords, "description": description, "weight": weight}
        return await self._curate("edit_relationship", source=source, target=target, **fields)

    async def delete_relationship(self, source: str, target: str) -> int:
        """Remove a relationship; it does not come back with later mentions."""
        return await self._curate("delete_relationship", source=source, target=target)

    async def insert_graph(self, graph: Mapping[str, Any]) -> int:
        """Add {"entities": […], "relationships": […]} in one curation: ``graphrag.insert_graph``."""
        return await self._curate("insert_graph", graph=graph)

    async def _curate(self, function: str, **arguments: Any) -> int:
        return await self._run(value(function, int, corpus=self.corpus, **arguments))

    async def undo_curation(self, number: int) -> None:
        """Undo a curation by its number, in any order; the graph becomes what it would be without it."""
        await self._run(nothing("undo_curation", id=number))

    async def curations(self) -> Results[Curation]:
        """Return the curations of the corpus in their order, undone ones too."""
        return await self._run(sql_statements.curations(self.corpus))

    async def cypher(self, query: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Run a read-only Cypher query on the corpus' graph; one dictionary per row, keyed by RETURN alias."""
        return await self._run(values("cypher", corpus=self.corpus, query=query, params=params or {}))

    async def to_networkx(self) -> "networkx.Graph[str]":
        """Return the corpus' graph, as far as the caller may see it, for networkx (extra ``networkx``).

        Nodes are keys of entities; edges are undirected, `source` and `target` keep the direction that most mentions have.
        The columns of ``graphrag.graph_nodes`` and ``graph_edges`` are attributes.
        """
        return await self._run(sql_statements.graph(self.corpus))

    async def progress(self) -> Progress:
        """Return how far indexing is.

        Raises GraphRAGError: 42704 when there is no such corpus.
        """
        return await self._run(sql_statements.progress(self.corpus))

    async def health(self) -> Results[HealthIssue]:
        """Return problems that need attention, worst first; empty if there are none. For the whole database."""
        return await self._run(sql_statements.health())

    async def metrics(self) -> Results[Metric]:
        """Return the numbers for monitoring: ``graphrag.metrics``. For the whole database."""
        return await self._run(sql_statements.metrics())

    async def wait_indexed(self, keys: Iterable[str] | None = None, timeout: float = 60.0) -> WaitResult:
        """Wait until documents, by ``source_key``, or the whole corpus are indexed: ``graphrag.wait_indexed``.

        One statement, which the server answers when they are indexed, or after `timeout` seconds with the number still
        pending. It needs the rights of a search, and a connection in autocommit mode to see earlier inserts.
        """
        return await self._run(sql_statements.wait_indexed(self.corpus, keys, timeout))

    async def failed_jobs(self) -> Results[FailedJob]:
        """Return the dead letters: what will not be tried again before `retry_failed`."""
        return await self._run(sql_statements.failed_jobs(self.corpus))

    async def retry_failed(self) -> int:
        """Queue dead letters again and end the back-off of waiting jobs; returns how many jobs."""
        count: int = await self._run(in_sql("retry_failed", corpus=self.corpus))
        return count

    async def process_jobs(self, max_jobs: int | None = None) -> None:
        """Do the work that is due, of all corpora, in this call: ``CALL graphrag.process_jobs``.

        The procedure commits as it goes, so a connection that was handed in must be in autocommit mode. With a URL the
        work has a connection of its own, and other tasks can go on using the client.
        """
        statement = sql_statements.process_jobs(max_jobs)
        if isinstance(self._source, str):
            url = self._node_url or self._source
            own = (await connect_to(url, self.corpus))[0] if self._follows else await connect(url)
            async with own as connection:
                await execute(connection, statement)
        elif isinstance(self._source, psycopg.AsyncConnection):
            await execute(self._source, statement)
        else:
            async with self._source.connection() as connection:
                autocommit = connection.autocommit
                # Within a transaction the server's own error explains it.
                if connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
                    await connection.set_autocommit(True)
                try:
                    await execute(connection, statement)
                finally:
                    if not connection.closed and connection.autocommit != autocommit:
                        await connection.set_autocommit(autocommit)

    async def wait_until_indexed(self, timeout: float | None = None, *, show_progress: bool = False) -> Progress:
        """Wait until no document of the corpus is pending; some worker must be running.

        `timeout`: seconds; forever when None.
        `show_progress`: show how far it is: a bar in a notebook, else lines on standard error.

        Returns a `Progress`, whose ``failed`` counts the documents that became dead letters.

        Raises TimeoutError with the number of documents still pending.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        bar = ProgressBar() if show_progress else None
        for pause in sql_statements.pauses():
            progress = await self.progress()
            if bar is not None:
                bar.show(progress.indexed, progress.indexed + progress.pending)
            if progress.pending == 0:
                return progress
            if deadline is not None and time.monotonic() + pause > deadline:
                raise TimeoutError(f"{progress.pending} documents are still pending after {timeout} s")
            await sleep(pause)
        raise AssertionError("pauses() never ends")

    async def create_corpus(self, **options: Any) -> int:
        """Make the corpus with the given options; returns its number."""
        return await self._run(value("create_corpus", int, name=self.corpus, options=options))

    async def alter_corpus(self, **options: Any) -> None:
        """Change options of the corpus; None brings the default back."""
        await self._run(nothing("alter_corpus", name=self.corpus, options=options))

    async def reembed(self, provider: str, **model: Any) -> None:
        """Change the embedding model: `provider` with ``model`` and ``dimensions``, or ``local``. Workers do the work."""
        await self._run(nothing("reembed", corpus=self.corpus, embedding={"provider": provider, **model}))

    async def drop_corpus(self) -> None:
        """Remove the corpus and everything in it."""
        await self._run(nothing("drop_corpus", name=self.corpus))

    async def call(self, function: str, **arguments: Any) -> Any:
        """Call a function of the schema whose body is Python, by name: ``call("merge_entities", entities=[…], target="…")``.

        `arguments`: the function's own, by name; `corpus` is the client's where it is left out. jsonb: an object, or JSON as
          text.

        Returns its value; a list where it returns a set; dictionaries for rows with columns; None where it returns nothing.

        Raises GraphRAGError: 42883 when there is no such function with these arguments.
        """
        return await self._run(sql_statements.any_call(self.corpus, function, arguments))


def staying(source: str | Connection | Pool, corpus: str) -> AsyncGraphRAG:
    """Return a client that asks no other database."""
    client = AsyncGraphRAG(source, corpus)
    client._follows = False
    return client


async def connect(url: str) -> Connection:
    """Connect as the client does."""
    return await psycopg.AsyncConnection.connect(url, **settings_of(url))


async def connect_to(url: str, corpus: str) -> tuple[Connection, str | None]:
    """Connect to a database, or to the node that it names for a corpus; return the node's URL too."""
    connection, node_url = await connect(url), None
    for _ in range(nodes.MAX_STEPS):
        try:
            next_url = await url_of_node(connection, corpus)
        except BaseException:
            await connection.close()
            raise
        if next_url is None:
            break
        await connection.close()
        connection, node_url = await connect(next_url), next_url
    return connection, node_url


async def url_of_node(connection: Connection, corpus: str) -> str | None:
    """Return how to connect from a new connection to the node that holds a corpus; None if no other node does."""
    await is_beside_async(connection)
    place = None
    if catalogue_of(connection).had_nodes:
        place = (await _whereabouts(connection, corpus)).place
    return None if place is None else nodes.url_at(connection.info, place)


async def _whereabouts(connection: Connection, corpus: str) -> nodes.Whereabouts:
    await is_beside_async(connection)
    if not catalogue_of(connection).is_readable:
        return nodes.Whereabouts(is_here=False, place=None)
    return await execute(connection, nodes.whereabouts(corpus))


def _impatient(source: str | Connection | Pool) -> str | Connection | Pool:
    """Return a replica's source, whose URL bounds the wait for a machine that does not answer."""
    if not isinstance(source, str) or "connect_timeout" in conninfo_to_dict(source):
        return source
    return make_conninfo(source, connect_timeout=CONNECT_SECONDS)


class _Replica:
    """A client of a standby, and when to look again how far it is behind."""

    def __init__(self, client: AsyncGraphRAG) -> None:
        self.client = client
        self._next_look = 0.0
        self._lag = float("inf")
        # When its contents equalled the primary's: while it receives nothing, it is behind by the time since then at most.
        self._current_at = float("-inf")

    async def may_answer(self, max_lag: float) -> bool:
        """Whether it is at most `max_lag` seconds behind."""
        now = time.monotonic()
        if now >= self._next_look:
            self._lag = await self.client._run(sql_statements.replica_lag())
            if self._lag == float("inf"):
                self._lag = now - self._current_at
            else:
                self._current_at = now - self._lag
            self._next_look = now + LOOK_SECONDS
        return self._lag <= max_lag

    def leave_alone(self) -> None:
        """Ask it nothing for a while."""
        self._lag = float("inf")
        self._current_at = float("-inf")
        self._next_look = time.monotonic() + FAILED_SECONDS


def _atomic(connection: Connection) -> AbstractAsyncContextManager[Any]:
    """Make several statements one transaction; without autocommit they are in one already, which its owner ends."""
    return connection.transaction() if connection.autocommit else nullcontext()


async def execute(connection: Connection, statement: Statement[T]) -> T:
    """Run a statement of the client on a connection, in the database or beside it."""
    if (rows := await rows_beside_async(connection, statement)) is not None:
        return statement.result(rows)
    # Not of the connection's own class: psycopg's RawCursor takes other parameters.
    async with psycopg.AsyncCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
        adapt(cursor)
        # The end of a pipeline within its owner's brings the reply.
        pipeline = connection.pipeline() if connection.pgconn.pipeline_status else nullcontext()
        # Behind a pool of transactions (pgbouncer) a prepared statement is another session's.
        try:
            async with pipeline:
                await cursor.execute(statement.sql, statement.parameters, prepare=False)
        except LACKS as error:
            raise await lacking_async(connection, error) from None
        return statement.result(await cursor.fetchall() if cursor.description else [])
