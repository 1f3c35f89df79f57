"""Django on psycopg 3 (extra ``django``): operations of migrations, a model mixin and a queryset with ``graphrag_search``."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.contrib.postgres.operations import CreateExtension
from django.core.exceptions import ValidationError
from django.db import connections, models
from django.db.migrations.operations.base import Operation

from pg_graphrag.client import GraphRAG, SearchResult
from pg_graphrag.errors import GraphRAGError


class CreateGraphRAG(CreateExtension):
    """Create the extension with those that it needs; Django's role has to be a superuser. Backwards nothing is dropped."""

    def __init__(self) -> None:
        self.name = "pg_graphrag"

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Create the extension where it is not there."""
        if not self.extension_exists(schema_editor, self.name):
            schema_editor.execute("CREATE EXTENSION pg_graphrag CASCADE")

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Leave the extension: a migration does not delete documents."""


class AttachTable(Operation):
    """Keep a corpus in step with the table of a model: ``graphrag.attach_table``. Backwards it is detached.

    Parameters
    ----------
    model : str
        Model of the app.
    content : sequence of str
        Fields of the text.
    title : str, optional
        Field of the title.
    metadata : sequence of str
        Fields that searches can filter by.
    corpus : str
        Corpus, which has to exist (`CreateCorpus`); "default" does.
    options : mapping
        Those of attach_table(): key_prefix, where, valid_from, valid_to.

    Notes
    -----
    Rows that are there already follow with ``BackfillTable``, in a migration of its own with ``atomic = False``.
    """

    reversible = True

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
        self.content = list(content)
        self.title = title
        self.metadata = list(metadata)
        self.corpus = corpus
        self.options = dict(options or {})

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Models stay as they are."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Attach the table."""
        meta = to_state.apps.get_model(app_label, self.model)._meta
        columns = {field.name: field.column for field in meta.fields}
        _run(
            schema_editor,
            "SELECT graphrag.attach_table(%s::pg_catalog.regclass, %s, %s::name, %s::name[], %s::name, %s::name[], %s::jsonb)",
            _relation(schema_editor, meta),
            self.corpus,
            meta.pk.column,
            [columns[name] for name in self.content],
            self.title and columns[self.title],
            [columns[name] for name in self.metadata],
            _json(self.options),
        )

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Detach the table and delete its documents."""
        meta = from_state.apps.get_model(app_label, self.model)._meta
        sql = "SELECT graphrag.detach_table(%s::pg_catalog.regclass, %s, keep_documents => false)"
        _run(schema_editor, sql, _relation(schema_editor, meta), self.corpus)

    def describe(self) -> str:
        """Say what it does."""
        return f"Attach {self.model} to the corpus {self.corpus}"


class BackfillTable(Operation):
    """Make documents of the rows that an attached table had before: ``CALL graphrag.backfill_table``, which commits as it goes.

    Its migration has ``atomic = False``.
    """

    reversible = True

    def __init__(self, model: str, corpus: str = "default"):
        self.model = model
        self.corpus = corpus

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Models stay as they are."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Call the procedure.

        Raises
        ------
        GraphRAGError
            25001 in a transaction.
        """
        if schema_editor.connection.in_atomic_block:
            raise GraphRAGError(
                "BackfillTable commits as it goes, and cannot be part of a transaction",
                sqlstate="25001",
                hint="Give it a migration of its own with atomic = False.",
            )
        meta = to_state.apps.get_model(app_label, self.model)._meta
        sql = "CALL graphrag.backfill_table(%s::pg_catalog.regclass, %s)"
        _run(schema_editor, sql, _relation(schema_editor, meta), self.corpus)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Do nothing: to detach the table deletes its documents."""

    def describe(self) -> str:
        """Say what it does."""
        return f"Make documents of the rows of {self.model}"


class CreateCorpus(Operation):
    """Create a corpus with options, where there is none of the name. Backwards it is dropped with its documents."""

    reversible = True

    def __init__(self, name: str, **options: Any):
        self.name = name
        self.options = options

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Models stay as they are."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Create the corpus."""
        sql = (
            "SELECT graphrag.create_corpus(%s, %s::jsonb)"
            " WHERE NOT EXISTS (SELECT FROM graphrag.corpora c WHERE c.name = %s)"
        )
        _run(schema_editor, sql, self.name, _json(self.options), self.name)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Drop the corpus."""
        _run(schema_editor, "SELECT graphrag.drop_corpus(%s)", self.name)

    def describe(self) -> str:
        """Say what it does."""
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

        Parameters
        ----------
        top_k : int
            Rows at most; as many as match where they are fewer. The others are as in `GraphRAG.search`.

        Notes
        -----
        The keys of a queryset with conditions are read first, and searched among. Where they are very many, give conditions
        as `filter` on the metadata.

        Raises
        ------
        GraphRAGError
            0A000 where Django uses another driver than psycopg 3; 22023 for a queryset that is sliced, and for a document that
            is no row of the table.
        """
        hits = self._hits(query, mode, top_k, filter, options)
        best = {key: (rank, hit) for rank, (key, hit) in enumerate(hits.items(), 1)}

        def case(values: Mapping[Any, Any], field: models.Field) -> models.Case:
            whens = [models.When(pk=value, then=models.Value(result)) for value, result in values.items()]
            return models.Case(*whens, output_field=field)

        queryset: GraphRAGQuerySet = (
            self.filter(pk__in=list(best))
            .annotate(
                graphrag_rank=case({value: rank for value, (rank, _) in best.items()}, models.IntegerField()),
                graphrag_score=case({value: hit.score for value, (_, hit) in best.items()}, models.FloatField()),
                graphrag_content=case({value: hit.content for value, (_, hit) in best.items()}, models.TextField()),
            )
            .order_by("graphrag_rank")
            if best
            else self.none()
        )
        return queryset

    async def agraphrag_search(self, query: str, **arguments: Any) -> "GraphRAGQuerySet":
        """As `graphrag_search`, in Django's thread for the database."""
        queryset: GraphRAGQuerySet = await sync_to_async(self.graphrag_search)(query, **arguments)
        return queryset

    def _key(self, source_key: str) -> Any:
        """Return the key of the row that a document is made of; None where only another document has the prefix of rows.

        Raises
        ------
        GraphRAGError
            22023 for such a document where the model has no prefix.
        """
        prefix, field = self.model.graphrag_key_prefix, self.model._meta.pk
        with suppress(ValidationError):
            key = field.to_python(source_key[len(prefix) :])
            # "07" would pass for row 7: who may write documents of the corpus could have his shown as its.
            if not isinstance(key, (int, UUID)) or f"{prefix}{key}" == source_key:
                return key
        if prefix:
            return None
        raise GraphRAGError(
            f'document "{source_key}" is no row of {self.model._meta.db_table}',
            hint="Where a corpus has other documents too, attach the table with key_prefix, and name it in the model.",
        )

    def _hits(
        self, query: str, mode: str, top_k: int, filter: Mapping[str, Any] | None, options: Mapping[str, Any]
    ) -> dict[Any, SearchResult]:
        """Return {key: best chunk} of at most `top_k` rows, best first."""
        if self.query.is_sliced:
            raise GraphRAGError(
                "a sliced queryset cannot be searched", hint="Search first, then take a slice of the rows."
            )
        # The server says what is no filter. Whatever it is, it stands beside the conditions, and cannot take one back.
        conditions: list[Any] = [] if filter is None else [filter]
        prefix = self.model.graphrag_key_prefix
        if self.query.where or self.query.distinct or self.query.combinator:
            keys = [f"{prefix}{value}" for value in self.order_by().values_list("pk", flat=True)]
            conditions.append({"$source_key": {"$in": keys}})
        elif prefix:
            conditions.append({"$source_key": {"$prefix": prefix}})
        client = GraphRAG(_connection(self.db), self.model.graphrag_corpus)
        count = top_k
        while True:
            hits = client.search(
                query, mode=mode, top_k=count, filter={"$and": conditions} if conditions else None, **options
            )
            best: dict[Any, SearchResult] = {}
            for hit in hits:
                if (key := self._key(hit.source_key)) is not None:
                    best.setdefault(key, hit)
            # Further chunks of the same documents took places.
            if len(best) >= top_k or len(hits) < count or count >= MAX_TOP_K:
                return dict(list(best.items())[:top_k])
            count = min(4 * count, MAX_TOP_K)


class GraphRAGModel(models.Model):
    """A model whose table is attached (`AttachTable`): ``Article.objects.graphrag_search("…")``.

    Attributes
    ----------
    graphrag_corpus : str
        Corpus that the table is attached to.
    graphrag_key_prefix : str
        The option key_prefix that it is attached with.
    """

    graphrag_corpus = "default"
    graphrag_key_prefix = ""

    objects = GraphRAGQuerySet.as_manager()

    class Meta:
        abstract = True


def client(corpus: str = "default", using: str = "default") -> GraphRAG:
    """Return a client on Django's own connection: its calls are part of Django's transaction.

    Raises
    ------
    GraphRAGError
        0A000 where Django uses another driver than psycopg 3.
    """
    return GraphRAG(_connection(using), corpus)


# Of graphrag.search.
MAX_TOP_K = 10_000


def _connection(alias: str) -> Any:
    connection = connections[alias]
    connection.ensure_connection()
    return connection.connection


def _run(schema_editor: Any, sql: str, *values: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(sql, values)


def _relation(schema_editor: Any, meta: Any) -> str:
    return str(schema_editor.quote_name(meta.db_table))


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value))
