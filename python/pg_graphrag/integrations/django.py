"""Django on psycopg 3 (extra ``django``): operations of migrations, a model mixin and a queryset with ``graphrag_search``."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any

import psycopg
from asgiref.sync import sync_to_async
from django.core.exceptions import ValidationError
from django.db import connections, models, router
from django.db.migrations.operations.base import Operation
from django.db.models.functions import Cast

from pg_graphrag.beside.client import GraphRAG, SearchResult
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.integrations import among, of_one_corpus


class GraphRAGOperation(Operation):
    """An operation of migrations that changes no model: one statement, run or printed (``sqlmigrate``) where routers allow."""

    reversible = True

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Leave models unchanged."""

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Do nothing."""


class CreateGraphRAG(GraphRAGOperation):
    """Create the extension with those that it needs; Django's role has to be a superuser. Backwards nothing is dropped: a
    migration does not delete documents. `hints` go to routers, as those of Django's RunSQL do."""

    def __init__(self, hints: Mapping[str, Any] | None = None):
        self.hints = dict(hints or {})

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Create the extension where it is not there."""
        if _is_allowed(schema_editor, app_label, hints=self.hints):
            schema_editor.execute("CREATE EXTENSION IF NOT EXISTS pg_graphrag CASCADE")

    def describe(self) -> str:
        """Describe the operation."""
        return "Create the extension pg_graphrag"


class AttachTable(GraphRAGOperation):
    """Keep a corpus in step with the table of a model: ``graphrag.attach_table``. Backwards it is detached.

    `model`: model of the app.
    `content`: fields of the text.
    `title`: field of the title.
    `metadata`: fields that searches can filter by, by the names of their columns: ``author_id`` of a foreign key.
    `corpus`: corpus, which has to exist (`CreateCorpus`); "default" does.
    `options`: those of attach_table(): key_prefix, where, valid_from, valid_to.

    Rows that are there already follow with ``BackfillTable``, in a migration of its own with ``atomic = False``.
    """

    def __init__(
        self,
        model: str,
        content: Sequence[str],
        title: str | None = None,
        metadata: Sequence[str] = (),
        corpus: str = "default",
        options: Mapping[str, Any] | None = None,
    ):
        self.model = model
        self.content = [content] if isinstance(content, str) else list(content)
        self.title = title
        self.metadata = [metadata] if isinstance(metadata, str) else list(metadata)
        self.corpus = corpus
        self.options = dict(options or {})

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Attach the table."""
        model = to_state.apps.get_model(app_label, self.model)
        if not _is_allowed(schema_editor, app_label, model):
            return

        def column(name: str) -> str:
            return str(model._meta.get_field(name).column)

        schema_editor.execute(
            "SELECT graphrag.attach_table(%s::pg_catalog.regclass, %s, %s::name, %s::name[], %s::name, %s::name[], %s::jsonb)",
            (
                _relation(schema_editor, model),
                self.corpus,
                model._meta.pk.column,
                [column(name) for name in self.content],
                column(self.title) if self.title else None,
                [column(name) for name in self.metadata],
                json.dumps(self.options),
            ),
        )

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Detach the table and delete its documents."""
        model = from_state.apps.get_model(app_label, self.model)
        if _is_allowed(schema_editor, app_label, model):
            sql = "SELECT graphrag.detach_table(%s::pg_catalog.regclass, %s, keep_documents => false)"
            schema_editor.execute(sql, (_relation(schema_editor, model), self.corpus))

    def describe(self) -> str:
        """Describe the operation."""
        return f"Attach {self.model} to the corpus {self.corpus}"


class BackfillTable(GraphRAGOperation):
    """Make documents of the rows that an attached table had before: ``CALL graphrag.backfill_table``, which commits as it goes.

    Its migration has ``atomic = False``. Backwards nothing is done: to detach the table deletes its documents.
    """

    def __init__(self, model: str, corpus: str = "default"):
        self.model = model
        self.corpus = corpus

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Call the procedure.

        Raises GraphRAGError: 25001 in a transaction.
        """
        model = to_state.apps.get_model(app_label, self.model)
        if not _is_allowed(schema_editor, app_label, model):
            return
        if schema_editor.connection.in_atomic_block and not schema_editor.collect_sql:
            raise GraphRAGError(
                "BackfillTable commits as it goes, and cannot be part of a transaction",
                sqlstate="25001",
                hint="Give it a migration of its own with atomic = False.",
            )
        sql = "CALL graphrag.backfill_table(%s::pg_catalog.regclass, %s)"
        schema_editor.execute(sql, (_relation(schema_editor, model), self.corpus))

    def describe(self) -> str:
        """Describe the operation."""
        return f"Make documents of the rows of {self.model}"


class CreateCorpus(GraphRAGOperation):
    """Create a corpus with options, unless there is one of the name. Backwards it is dropped with its documents.

    `hints` go to database routers, as those of Django's RunSQL do.
    """

    def __init__(
        self, name: str, options: Mapping[str, Any] | None = None, hints: Mapping[str, Any] | None = None, **others: Any
    ):
        self.name = name
        self.options = {**(options or {}), **others}
        self.hints = dict(hints or {})

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        """Name the options as one argument: what writes migrations drops those that a signature does not name."""
        arguments = {"name": self.name, "options": self.options} | ({"hints": self.hints} if self.hints else {})
        return (type(self).__name__, [], arguments)

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Create the corpus."""
        sql = (
            "SELECT graphrag.create_corpus(%s, %s::jsonb)"
            " WHERE NOT EXISTS (SELECT FROM graphrag.corpora c WHERE c.name = %s)"
        )
        if _is_allowed(schema_editor, app_label, hints=self.hints):
            schema_editor.execute(sql, (self.name, json.dumps(self.options), self.name))

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Drop the corpus."""
        if _is_allowed(schema_editor, app_label, hints=self.hints):
            schema_editor.execute("SELECT graphrag.drop_corpus(%s)", (self.name,))

    def describe(self) -> str:
        """Describe the operation."""
        return f"Create the corpus {self.name}"


class GraphRAGQuerySet(models.QuerySet):
    """A queryset whose model's table is attached to a corpus: see `GraphRAGModel`."""

    def graphrag_search(
        self,
        query: str,
        *,
        mode: str = "hybrid",
        top_k: int = 10,
        filter: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> "GraphRAGQuerySet":
        """Search now, and return the rows of this queryset whose documents were found, best first.

        A row has `graphrag_rank` (from 1), `graphrag_score` and `graphrag_content`, the best chunk.

        `top_k`: rows at most; as many as match where they are fewer. The others are as in `GraphRAG.search`.

        The keys of a queryset with conditions are read first, and searched among; those of others where a document was found
        that is no row. Where they are very many, give conditions as `filter` on the metadata, and tables a key_prefix.

        Raises GraphRAGError: 0A000 where Django uses another driver than psycopg 3; 22023 for a queryset that is sliced.
        Raises django.db.Error: of the database, with psycopg's as its cause.
        """
        if self.query.is_sliced:
            raise GraphRAGError(
                "a sliced queryset cannot be searched", hint="Search first, then take a slice of the rows."
            )
        rows = self
        if self.query.combinator or self.query.distinct_fields:
            # Neither takes another condition or order.
            rows = type(self)(self.model, using=self._db, hints=self._hints).filter(pk__in=self.values("pk"))
        best = rows._best(query, mode, top_k, filter, options)
        prefix = len(self.model.graphrag_key_prefix)
        results = {
            hit.source_key[prefix:]: {"rank": rank, "score": hit.score, "content": hit.content}
            for rank, (_, hit) in enumerate(best, 1)
        }
        # One parameter, however many rows there are.
        of_row = (Cast(models.Value(json.dumps(results)), models.JSONField()), Cast("pk", models.TextField()))

        def annotation(name: str, field: models.Field) -> Cast:
            function = "pg_catalog.jsonb_extract_path_text"
            text = models.Func(*of_row, models.Value(name), function=function, output_field=models.TextField())
            return Cast(text, field)

        queryset: GraphRAGQuerySet = (
            rows.filter(pk__in=[key for key, _ in best])
            .annotate(
                graphrag_rank=annotation("rank", models.IntegerField()),
                graphrag_score=annotation("score", models.FloatField()),
                graphrag_content=annotation("content", models.TextField()),
            )
            .order_by("graphrag_rank")
        )
        return queryset

    async def agraphrag_search(self, query: str, **arguments: Any) -> "GraphRAGQuerySet":
        """As `graphrag_search`, in Django's thread for the database."""
        queryset: GraphRAGQuerySet = await sync_to_async(self.graphrag_search)(query, **arguments)
        return queryset

    def _best(
        self, query: str, mode: str, top_k: int, filter: Mapping[str, Any] | None, options: Mapping[str, Any]
    ) -> list[tuple[Any, SearchResult]]:
        """Return the keys of at most `top_k` rows with the best chunk of each, best first."""
        # The server refuses an invalid filter. Whatever it is, it stands beside the conditions, and cannot take one back.
        conditions: list[Any] = [] if filter is None else [filter]
        if self.model.graphrag_key_prefix:
            conditions.append({"$source_key": {"$prefix": self.model.graphrag_key_prefix}})
        # A model within another has some of the other's rows.
        is_restricted = self.query.where or any(self.model._meta.parents.values())
        keys = self._keys() if is_restricted else None
        rag, count = client(self.model.graphrag_corpus, self.db), top_k
        while True:
            searched = conditions if keys is None else [*conditions, among("$source_key", list(keys))]
            within = {"$and": searched} if searched else None
            hits = rag.search(query, mode=mode, top_k=count, filter=within, **of_one_corpus(options))
            best: dict[str, SearchResult] = {}
            for hit in hits:
                best.setdefault(hit.source_key, hit)
            rows = self.filter(pk__in=self._candidates(best))._keys() if keys is None else keys
            if not best.keys() <= rows.keys():
                # Documents that are no rows, whoever wrote them, take no places.
                keys = self._keys()
                continue
            # Further chunks of the same documents took places.
            if len(best) >= top_k or len(hits) < count or count >= MAX_TOP_K:
                return [(rows[key], hit) for key, hit in best.items()][:top_k]
            count = min(4 * count, MAX_TOP_K)

    def _keys(self) -> dict[str, Any]:
        """Return {source key: primary key} of the rows. The server writes keys as texts, as it did for the documents."""
        prefix = self.model.graphrag_key_prefix
        keys = self.order_by().annotate(graphrag_key=Cast("pk", models.TextField())).values_list("graphrag_key", "pk")
        return {f"{prefix}{text}": key for text, key in keys}

    def _candidates(self, source_keys: Iterable[str]) -> list[Any]:
        """Return the primary keys that documents may be made of."""
        prefix, field = self.model.graphrag_key_prefix, self.model._meta.pk
        keys = []
        for source_key in source_keys:
            with suppress(ValidationError, ValueError):
                key = field.to_python(source_key[len(prefix) :])
                field.get_db_prep_value(key, connections[self.db])
                keys.append(key)
        return keys


class GraphRAGModel(models.Model):
    """A model whose table is attached (`AttachTable`): ``Article.objects.graphrag_search("…")``.

    `graphrag_corpus`: corpus that the table is attached to.
    `graphrag_key_prefix`: the option key_prefix that it is attached with.
    """

    graphrag_corpus = "default"
    graphrag_key_prefix = ""

    objects = GraphRAGQuerySet.as_manager()

    class Meta:
        """It has no table of its own."""

        abstract = True


def client(corpus: str = "default", using: str = "default") -> GraphRAG:
    """Return a client on Django's own connections: its calls are part of Django's transaction, its errors Django's.

    Raises GraphRAGError: 0A000 where Django uses another driver than psycopg 3.
    """
    wrapper = connections[using]
    wrapper.ensure_connection()
    if not isinstance(wrapper.connection, psycopg.Connection):
        raise GraphRAGError(
            f'the database "{using}" is not connected by psycopg 3',
            sqlstate="0A000",
            hint="Use Django's engine postgresql with the package psycopg.",
        )
    return GraphRAG(_Connections(using), corpus)


class _Connections:
    """Django's connections to a database as a pool: each thread has its own."""

    def __init__(self, using: str) -> None:
        self._using = using

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """Lend the thread's connection, opened again if it was lost."""
        wrapper = connections[self._using]
        if wrapper.connection is not None and wrapper.connection.closed and not wrapper.in_atomic_block:
            wrapper.close()
        wrapper.ensure_connection()
        with wrapper.wrap_database_errors:
            yield wrapper.connection


# The limit of graphrag.search.
MAX_TOP_K = 10_000


def _is_allowed(
    schema_editor: Any, app_label: str, model: Any = None, hints: Mapping[str, Any] = MappingProxyType({})
) -> bool:
    """Whether a migration may change a model, or the app, in this database. Tables may be unmanaged."""
    alias = schema_editor.connection.alias
    if schema_editor.connection.vendor != "postgresql":
        return False
    if model is not None:
        return bool(router.allow_migrate_model(alias, model))
    return bool(router.allow_migrate(alias, app_label, **hints))


def _relation(schema_editor: Any, model: Any) -> str:
    return str(schema_editor.quote_name(model._meta.db_table))
