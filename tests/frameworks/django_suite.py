"""Django over the extension, and asyncpg beside it."""

from __future__ import annotations

import asyncio
import importlib
import io
import re
from collections.abc import Callable
from threading import Thread
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import django
import pg_graphrag
import pytest
from django.apps.registry import Apps
from django.conf import settings
from django.core.management import call_command
from django.db import connection, connections, models, transaction
from django.db.migrations.optimizer import MigrationOptimizer
from django.db.migrations.serializer import serializer_factory
from django.db.utils import Error, InternalError, ProgrammingError
from pg_graphrag import AsyncGraphRAG
from pg_graphrag.ground.errors import GraphRAGError

from tests.frameworks.plugin import URL

parts = urlsplit(URL)
DATABASE = {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": parts.path[1:],
    "USER": parts.username,
    "PASSWORD": parts.password,
    "HOST": parts.hostname,
    "PORT": parts.port,
}
# Whoever else serves migrations of the app.
ROUTER = SimpleNamespace(allow_migrate=lambda db, app_label, **hints: db != "foreign" and not hints.get("elsewhere"))
settings.configure(
    DATABASES={
        "default": DATABASE,
        "foreign": DATABASE,
        "bound": DATABASE | {"OPTIONS": {"server_side_binding": True}},
        "lite": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
    },
    DATABASE_ROUTERS=[ROUTER],
    INSTALLED_APPS=["tests.frameworks.django_app"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
)
django.setup()

# Models are made when they are imported, of the settings.
from pg_graphrag.integrations.django import (  # noqa: E402
    AttachTable,
    BackfillTable,
    CreateCorpus,
    CreateGraphRAG,
    GraphRAGOperation,
    client,
)

from tests.frameworks.django_app.models import Article, Feature, Note  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def migrated() -> Any:
    call_command("migrate", "django_app", verbosity=0)
    Article.objects.create(headline="Ada", body="Ada Lovelace met Charles Babbage in London.")
    Article.objects.create(headline="Maschine", body="Charles Babbage designed an engine.", language="de")
    client("articles").process_jobs()
    yield
    call_command("migrate", "django_app", "zero", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM graphrag.documents WHERE corpus = 'articles'")
        assert cursor.fetchone() == (0,)


def test_a_search_gives_rows_best_first() -> None:
    first, *_ = Article.objects.graphrag_search("patterns from punched cards", top_k=2)
    assert (first.headline, first.graphrag_rank) == ("Loom", 1)
    assert first.graphrag_score > 0 and "Jacquard" in first.graphrag_content
    assert len(Article.objects.graphrag_search("Babbage", top_k=2)) == 2


def test_the_conditions_of_a_queryset_restrict_what_is_searched() -> None:
    german = Article.objects.filter(language="de")
    assert [row.headline for row in german.graphrag_search("Ada Lovelace", top_k=1, mode="naive")] == ["Maschine"]
    assert list(german.exclude(language="de").graphrag_search("Ada Lovelace")) == []
    articles = Article.objects.graphrag_search("Babbage", filter={"language": "de"})
    assert {row.headline for row in articles} == {"Maschine"}
    assert articles.filter(headline="Ada").count() == 0
    with pytest.raises(GraphRAGError, match="sliced"):
        Article.objects.all()[:1].graphrag_search("x")


def test_several_chunks_of_a_row_are_one() -> None:
    with transaction.atomic():
        long = Article.objects.create(
            headline="Long", body="\n\n".join(f"Kestrel engine {n}. " * 200 for n in range(9))
        )
    client("articles").process_jobs()
    assert (
        next(row.headline for row in Article.objects.graphrag_search("Kestrel engine", top_k=2, mode="bm25")) == "Long"
    )
    assert len(Article.objects.graphrag_search("engine", top_k=2, mode="bm25")) == 2
    long.delete()
    client("articles").process_jobs()


@pytest.mark.parametrize("prefix", ["article/", ""])
def test_documents_of_others_take_no_places(prefix: str) -> None:
    with transaction.atomic():
        client("articles").insert(
            [
                {"source_key": f"{key}{n}", "content": f"Punched cards by mail {n}."}
                for n in range(9000, 9004)
                for key in ("", "article/", "mail/")
            ]
        )
        Note.objects.create(code="loom/1", body="The Jacquard loom wove patterns from punched cards.")
        client("notes").insert([{"source_key": f"mail/{n}", "content": "Punched cards."} for n in range(4)])
    client("articles").process_jobs()
    Article.graphrag_key_prefix = prefix
    try:
        headlines = [row.headline for row in Article.objects.graphrag_search("punched cards", top_k=1)]
        assert headlines == (["Loom"] if prefix else [])
        assert [note.code for note in Note.objects.graphrag_search("punched cards", top_k=1)] == ["loom/1"]
    finally:
        Article.graphrag_key_prefix = "article/"
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM graphrag.documents WHERE content LIKE 'Punched cards%%'")
        Note.objects.all().delete()
        client("articles").process_jobs()


FORGED = {
    "article/01": "01",
    "article/+1": "+1",
    "article/ 1": " 1",
    "article/1_0": "1_0",
    "article/x": "x",
    "article/": "",
}


def test_a_document_of_others_does_not_pass_for_a_row() -> None:
    """Who may write documents of the corpus, and no row of the table."""
    row = Article.objects.order_by("pk").first()
    assert row is not None
    keys = [key.replace("1", str(row.pk), 1) for key in FORGED]
    client("articles").insert([{"source_key": key, "content": "Zebra stripes, forged."} for key in keys])
    client("articles").process_jobs()
    try:
        for mode in ("bm25", "naive"):
            articles = Article.objects.graphrag_search("zebra stripes", top_k=3, mode=mode)
            assert not [one for one in articles if "forged" in one.graphrag_content]
        assert len(Article.objects.graphrag_search("zebra stripes", top_k=2, mode="naive")) == 2
    finally:
        for key in keys:
            client("articles").delete(key)
        client("articles").process_jobs()


# What a web application passes on from people.
@pytest.mark.parametrize(
    "hostile",
    [
        {"$or": [{}, {"language": "en"}]},
        {"$not": {"language": "nothing"}},
        {"$source_key": {"$prefix": ""}},
        {"$source_key": {"$nin": []}},
        {"$or": [{"$not": {"$source_key": "nothing"}}, {"$ids": [1, 2, 3]}]},
        {"language') OR true --": {"$exists": False}},
        {},
    ],
)
def test_a_filter_of_people_takes_no_condition_back(hostile: dict[str, Any]) -> None:
    german = Article.objects.filter(language="de")
    assert {row.language for row in german.graphrag_search("Babbage", top_k=9, filter=hostile, mode="naive")} == {"de"}


@pytest.mark.parametrize(
    "hostile", ["language", ["x"], 7, {"$relation": "pg_catalog.pg_authid; DROP"}, {"$where": "1"}]
)
def test_what_is_no_filter_is_refused_by_its_sqlstate(hostile: Any) -> None:
    with pytest.raises(Exception) as error, transaction.atomic():
        Article.objects.graphrag_search("Babbage", filter=hostile)
    assert isinstance(error.value, Error)
    assert getattr(error.value.__cause__, "sqlstate", None) in ("22023", "42P01", "42602", "42501"), repr(error.value)


def model_of(table: str, column: str) -> Any:
    """A state of migrations with one model."""
    fields = {"id": models.IntegerField(primary_key=True), "body": models.TextField(db_column=column)}
    meta = type("Meta", (), {"db_table": table, "app_label": "django_app", "apps": Apps()})
    model = type(f"Model{len(table)}", (models.Model,), {"__module__": "django_app", "Meta": meta, **fields})
    return SimpleNamespace(apps=SimpleNamespace(get_model=lambda *_: model))


def test_names_of_tables_and_columns_are_no_sql() -> None:
    column = "body') ; DROP TABLE django_app_article; --"
    attach = AttachTable("Odd", content=["body"], corpus="articles", options={"key_prefix": "odd/"})
    with transaction.atomic(), connection.schema_editor() as editor:
        editor.execute(f'CREATE TABLE "Odd ; --" (id int PRIMARY KEY, "{column}" text)')
        state = model_of("Odd ; --", column)
        attach.database_forwards("django_app", editor, state, state)
        editor.execute('INSERT INTO "Odd ; --" VALUES (1, %s)', ["Zebra"])
        assert client("articles").get("odd/1")
        attach.database_backwards("django_app", editor, state, state)
        assert client("articles").get("odd/1") == []
        editor.execute('DROP TABLE "Odd ; --"')
    with pytest.raises(Exception, match="invalid name syntax"), transaction.atomic():
        state = model_of('odd"; DROP TABLE django_app_article; --', "body")
        with connection.schema_editor() as editor:
            attach.database_forwards("django_app", editor, state, state)
    assert Article.objects.exists()


def test_it_works_on_asyncio() -> None:
    async def headlines() -> list[str]:
        articles = await Article.objects.agraphrag_search("punched cards", top_k=1)
        return [row.headline async for row in articles]

    assert asyncio.run(headlines()) == ["Loom"]


def test_calls_are_part_of_djangos_transaction() -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        client("articles").insert({"source_key": "x", "content": "x"})
        raise RuntimeError
    assert client("articles").get("x") == []


def test_a_backfill_in_a_transaction_is_refused() -> None:
    with (
        transaction.atomic(),
        connection.schema_editor() as editor,
        pytest.raises(GraphRAGError, match="part of a transaction"),
    ):
        state = model_of("odd", "body")
        BackfillTable("Odd").database_forwards("django_app", editor, state, state)


def test_a_search_without_hits_is_a_queryset_with_its_annotations() -> None:
    for rows in (
        Article.objects.graphrag_search("Babbage", top_k=0),
        Article.objects.none().graphrag_search("Babbage"),
        Article.objects.filter(language="xx").graphrag_search("Babbage"),
    ):
        assert list(rows.filter(graphrag_score__gt=0).values_list("graphrag_rank", "graphrag_content")) == []
        assert (rows.count(), rows.exists(), rows.first()) == (0, False, None)


def test_conditions_may_hold_for_any_number_of_rows() -> None:
    with transaction.atomic():
        Article.objects.bulk_create(Article(headline="", body=f"x{n}") for n in range(10_001))
        rows = Article.objects.filter(language__in=["en", "de"])
        assert [row.headline for row in rows.graphrag_search("punched cards", top_k=1)] == ["Loom"]
        transaction.set_rollback(True)


# What is done to a queryset before and after a search, with the headlines that are left.
QUERYSETS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Any]] = {
    "values": (lambda rows: rows.values("headline"), lambda rows: [row["headline"] for row in rows], ["Loom"]),
    "union": (lambda rows: rows.filter(pk=0).union(rows.all()), list, ["Loom"]),
    "distinct": (lambda rows: rows.filter(notes=None).distinct(), list, ["Loom"]),
    "distinct on": (lambda rows: rows.order_by("language", "pk").distinct("language"), list, ["Loom"]),
    "annotated": (lambda rows: rows.annotate(n=models.Count("notes")).filter(n=0), list, ["Loom"]),
    "twice": (lambda rows: rows.graphrag_search("Babbage", top_k=9), lambda rows: rows.order_by("pk")[:1], ["Loom"]),
    "related": (lambda rows: rows.select_related("feature").prefetch_related("notes"), list, ["Loom"]),
    "deferred": (lambda rows: rows.defer("body"), lambda rows: list(rows.only("headline")), ["Loom"]),
    "counted": (lambda rows: rows, lambda rows: [str(rows.count())], ["1"]),
    "grouped": (lambda rows: rows, lambda rows: rows.annotate(n=models.Count("notes")).filter(n=0), ["Loom"]),
    "aggregated": (lambda rows: rows, lambda rows: [str(rows.aggregate(n=models.Max("graphrag_rank"))["n"])], ["1"]),
    "reversed": (lambda rows: rows, lambda rows: [rows.last()], ["Loom"]),
    "iterated": (lambda rows: rows, lambda rows: list(rows.iterator()), ["Loom"]),
    "in a subquery": (
        lambda rows: rows,
        lambda rows: Article.objects.using(rows.db).filter(pk__in=rows.values("pk")),
        ["Loom"],
    ),
    "locked": (lambda rows: rows, lambda rows: rows.select_for_update(), ["Loom"]),
}


@pytest.mark.parametrize("using", ["default", "bound"])
@pytest.mark.parametrize("name", QUERYSETS)
def test_a_search_is_one_step_of_a_queryset(name: str, using: str) -> None:
    before, after, headlines = QUERYSETS[name]
    with transaction.atomic(using):
        rows = before(Article.objects.using(using)).graphrag_search("punched cards", top_k=1)
        assert rows.db == using
        assert [getattr(row, "headline", row) for row in after(rows)] == headlines


def test_managers_of_relations_and_models_within_others_search_their_rows() -> None:
    with transaction.atomic():
        feature = Feature.objects.create(headline="Zebra", body="Zebras have stripes.", section="nature")
        Article.objects.create(headline="Stripes", body="Zebra stripes. Zebras and zebra stripes.")
        for code, article in (("a", feature), ("b", None)):
            Note.objects.create(code=code, article=article, body="A note on zebras.")
    client("articles").process_jobs()
    assert [row.section for row in Feature.objects.graphrag_search("zebra stripes", top_k=1)] == ["nature"]
    assert [note.code for note in feature.notes.graphrag_search("zebras", top_k=2)] == ["a"]
    assert {note.code for note in Note.objects.graphrag_search("zebras", top_k=2)} == {"a", "b"}
    Article.objects.filter(headline__in=["Zebra", "Stripes"]).delete()
    Note.objects.all().delete()
    client("articles").process_jobs()


def test_errors_are_djangos() -> None:
    with pytest.raises(ProgrammingError, match="does not exist") as error:
        client("nowhere").search("x")
    assert error.value.__cause__.sqlstate == "42704"
    with transaction.atomic():
        Article.objects.exists()
        with pytest.raises(InternalError) as error, transaction.atomic():
            client("articles").process_jobs()
        assert "autocommit" in str(error.value)
        assert Article.objects.exists()
    with pytest.raises(GraphRAGError, match='"lite" is not connected by psycopg 3'):
        client("articles", using="lite")


def test_a_client_is_every_threads_and_outlives_its_connection() -> None:
    own = client("articles")
    pids: list[int] = []

    def ask() -> None:
        with own._connection() as lent:
            pids.append(lent.info.backend_pid)
        assert own.search("loom", top_k=1)

    thread = Thread(target=lambda: (ask(), connections.close_all()))
    thread.start()
    thread.join()
    ask()
    with connections["foreign"].cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pids[1]])
    ask()
    assert len(set(pids)) == 3


MIGRATIONS = [
    importlib.import_module(f"tests.frameworks.django_app.migrations.{name}").Migration
    for name in ("0001_initial", "0002_backfill", "0003_notes")
]
OPERATIONS = [operation for migration in MIGRATIONS for operation in migration.operations]
OURS = [operation for operation in OPERATIONS if isinstance(operation, GraphRAGOperation)] + [
    AttachTable("Note", content=["body"], title="code", options={"key_prefix": "note/"})
]


def test_sqlmigrate_prints_and_runs_nothing() -> None:
    def printed(*arguments: str) -> str:
        call_command("sqlmigrate", "django_app", *arguments, stdout=(output := io.StringIO()), no_color=True)
        return output.getvalue()

    before = client("articles").progress().documents
    forwards, backwards = printed("0001"), printed("0001", "--backwards")
    assert "CREATE EXTENSION" in forwards and "graphrag.create_corpus('articles'" in forwards
    assert "graphrag.drop_corpus('articles')" in backwards
    assert "CALL graphrag.backfill_table('\"django_app_article\"'" in printed("0002")
    assert 'graphrag.attach_table(\'"app"."note"\'' in printed("0003")
    assert client("articles").progress().documents == before > 0
    with transaction.atomic(), connection.cursor() as cursor:
        for text, count in ((backwards, 0), (forwards, 1)):
            (statement,) = re.findall(r"SELECT graphrag.(?:at|de)tach_table.*;", text)
            cursor.execute(statement)
            cursor.execute("SELECT count(*) FROM graphrag.attached_tables WHERE corpus = 'articles'")
            assert cursor.fetchone() == (count,)
        transaction.set_rollback(True)


@pytest.mark.parametrize("using", ["foreign", "lite"])
@pytest.mark.parametrize("operation", OURS, ids=repr)
def test_databases_that_routers_or_their_kind_rule_out_are_left_alone(operation: GraphRAGOperation, using: str) -> None:
    state = model_of("nowhere", "body")
    with connections[using].schema_editor(collect_sql=True) as editor:
        operation.database_forwards("django_app", editor, state, state)
        operation.database_backwards("django_app", editor, state, state)
        assert editor.collected_sql == []


def test_routers_are_given_the_hints_of_an_operation() -> None:
    state = model_of("nowhere", "body")
    for operation in (CreateGraphRAG(hints={"elsewhere": True}), CreateCorpus("x", hints={"elsewhere": True})):
        text, _ = serializer_factory(operation).serialize()
        again = eval(text, {"pg_graphrag": pg_graphrag})
        assert again.hints == {"elsewhere": True}
        with connection.schema_editor(collect_sql=True) as editor:
            again.database_forwards("django_app", editor, state, state)
            again.database_backwards("django_app", editor, state, state)
            assert editor.collected_sql == []


@pytest.mark.parametrize("operation", OURS, ids=repr)
def test_operations_are_written_as_they_are(operation: GraphRAGOperation) -> None:
    text, _ = serializer_factory(operation).serialize()
    again = eval(text, {"pg_graphrag": pg_graphrag})
    assert vars(again) | {"_constructor_args": ()} == vars(operation) | {"_constructor_args": ()}


def test_one_field_may_stand_for_a_list() -> None:
    attach = AttachTable("Note", content="body", metadata="article")
    assert (attach.content, attach.metadata) == (["body"], ["article"])


def test_squashed_operations_stay_in_their_order() -> None:
    squashed = MigrationOptimizer().optimize(OPERATIONS, "django_app")
    assert [operation for operation in squashed if operation in OURS] == OURS[:-1]


def test_the_commands_of_django_know_the_operations() -> None:
    call_command("makemigrations", "django_app", "--check", "--dry-run", verbosity=0)
    call_command("migrate", "django_app", "zero", "--plan", stdout=(output := io.StringIO()), no_color=True)
    assert "Undo Attach Article to the corpus articles" in output.getvalue()
    for target in ("0002", "0003"):
        call_command("migrate", "django_app", target, "--fake", verbosity=0)
    call_command("migrate", "django_app", "0002", verbosity=0)
    call_command("migrate", "django_app", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT options ->> 'query_log' FROM graphrag.corpora WHERE name = 'notes'")
        assert cursor.fetchone() == ("true",)


def test_connections_of_asyncpg_are_refused(url: str) -> None:
    async def refused() -> None:
        pool = await asyncpg.create_pool(url, min_size=1)
        async with pool.acquire() as own:
            for source in (pool, own):
                with pytest.raises(GraphRAGError, match="of asyncpg cannot be used") as error:
                    AsyncGraphRAG(source)
                assert "AsyncConnectionPool" in str(error.value.hint)
        await pool.close()

    asyncio.run(refused())
