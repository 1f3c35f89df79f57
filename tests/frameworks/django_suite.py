"""Django over the extension, and asyncpg beside it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import django
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection, models, transaction
from pg_graphrag import AsyncGraphRAG
from pg_graphrag.errors import GraphRAGError

from tests.frameworks.plugin import URL

parts = urlsplit(URL)
settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.path[1:],
            "USER": parts.username,
            "PASSWORD": parts.password,
            "HOST": parts.hostname,
            "PORT": parts.port,
        }
    },
    INSTALLED_APPS=["tests.frameworks.django_app"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
)
django.setup()

from pg_graphrag.integrations.django import AttachTable, BackfillTable, client  # noqa: E402

from tests.frameworks.django_app.models import Article  # noqa: E402


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


def test_documents_of_others_need_a_key_prefix() -> None:
    with transaction.atomic():
        client("articles").insert({"source_key": "mail/1", "content": "Punched cards by mail."})
    client("articles").process_jobs()
    assert [row.headline for row in Article.objects.graphrag_search("punched cards", top_k=1)] == ["Loom"]
    Article.graphrag_key_prefix = ""
    try:
        with pytest.raises(GraphRAGError, match="is no row of django_app_article"):
            Article.objects.graphrag_search("punched cards")
    finally:
        Article.graphrag_key_prefix = "article/"
        client("articles").delete("mail/1")


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
    assert getattr(error.value, "sqlstate", None) in ("22023", "42P01", "42602", "42501"), repr(error.value)


def model_of(table: str, column: str) -> Any:
    """A state of migrations with one model."""
    fields = {"id": models.IntegerField(primary_key=True), "body": models.TextField(db_column=column)}
    meta = type("Meta", (), {"db_table": table, "app_label": "django_app"})
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
        BackfillTable("Article").database_forwards("django_app", editor, None, None)


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
