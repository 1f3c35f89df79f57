"""Searches as selectables of SQLAlchemy."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from pg_graphrag.beside.client import AsyncGraphRAG, GraphRAG
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.integrations.sqlalchemy import neighbors, search, search_entities, select_found
from psycopg import sql
from sqlalchemy import Engine, Text, create_engine, func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from tests.runtime.cluster import Database


class Base(DeclarativeBase):
    pass


class Article(Base):
    __tablename__ = "articles"

    id: Mapped[int] = mapped_column(primary_key=True)
    headline: Mapped[str]
    body: Mapped[str] = mapped_column(Text)


class Odd(Base):
    """Names that would end a quoted name, begin a parameter or a comment, or call a function."""

    __tablename__ = 'odd "table" %s\n--'
    __table_args__ = {"schema": 'odd %(schema)s; "x" $1'}  # noqa: RUF012 - as SQLAlchemy has it

    id: Mapped[str] = mapped_column('the "key" %s', primary_key=True)
    body: Mapped[str] = mapped_column("body\n'); SELECT 1/0; --", Text)


@pytest.fixture(scope="module")
def engine(module_db: Database) -> Iterator[Engine]:
    engine = create_engine(module_db.url.replace("postgresql://", "postgresql+psycopg://", 1))
    module_db.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(str(Odd.__table__.schema))))
    Base.metadata.create_all(engine)
    module_db.execute(
        "SELECT graphrag.attach_table('articles', 'default', 'id', '{body}', title_column => 'headline',"
        ' options => \'{"key_prefix": "a/"}\')'
    )
    with Session(engine) as session:
        session.add_all(
            [
                Article(headline="Ada", body="Ada Lovelace met Charles Babbage in London."),
                Article(headline="Loom", body="The Jacquard loom wove patterns from punched cards."),
            ]
        )
        session.commit()
    module_db.execute("CALL graphrag.process_jobs()")
    yield engine
    engine.dispose()


def test_a_search_joins_with_a_table(engine: Engine) -> None:
    with Session(engine) as session:
        records = session.execute(select_found(Article.id, "punched cards", key_prefix="a/", top_k=5)).all()
        assert records[0].Article.headline == "Loom" and records[0].rank == 1 and "Jacquard" in records[0].content
        table = Article.__table__
        of_table = select_found(table.c.id, "punched cards", key_prefix="a/", top_k=5)
        assert next(iter(session.execute(of_table).mappings()))["headline"] == "Loom"
        only = select_found(Article.id, "punched cards", key_prefix="a/").where(Article.headline == "Ada")
        assert [record.Article.headline for record in session.execute(only)] == ["Ada"]


@pytest.mark.parametrize("filter_", [[], "", 0, [["x", 1]], "x"])
def test_what_is_no_filter_is_refused(engine: Engine, filter_: Any) -> None:
    with Session(engine) as session, pytest.raises(DBAPIError, match="filter must be a JSON object"):
        session.execute(select(search("punched cards", filter=filter_)))


def test_documents_that_are_no_rows_take_no_places(module_db: Database, engine: Engine) -> None:
    module_db.execute("INSERT INTO graphrag.documents (source_key, content) VALUES ('mail', 'Punched cards.')")
    module_db.execute("CALL graphrag.process_jobs()")
    with Session(engine) as session:
        for filter_ in (None, {"$not": {"x": 1}}):
            only = select_found(Article.id, "punched cards", key_prefix="a/", top_k=1, mode="bm25", filter=filter_)
            assert [record.Article.headline for record in session.execute(only)] == ["Loom"]
    module_db.execute("DELETE FROM graphrag.documents WHERE source_key = 'mail'")


def test_keywords_of_a_search_are_its_callers(engine: Engine) -> None:
    with Session(engine) as session:
        for keywords, mode, key in (
            ({"low_level_keywords": ["Ada Lovelace"]}, "local", "a/1"),
            ({"high_level_keywords": ["patterns"]}, "global", "a/2"),
        ):
            found = search("?", mode=mode, top_k=1, **keywords)
            assert session.execute(select(found.c.source_key)).scalars().all() == [key]
        entities = search_entities("?", top_k=1, low_level_keywords=["Ada Lovelace"])
        assert session.execute(select(entities.c.name)).scalars().all() == ["Ada Lovelace"]


def test_one_keyword_is_not_its_letters() -> None:
    assert ["Ada"] in select(search("?", low_level_keywords="Ada")).compile().params.values()


def test_names_of_tables_and_columns_are_names_alone(module_db: Database, engine: Engine) -> None:
    table = Odd.__table__
    corpus = 'odd %s "corpus"\n'
    module_db.execute("SELECT graphrag.create_corpus(%s)", [corpus])
    name = sql.Identifier(str(table.schema), table.name).as_string(module_db)
    columns = [column.name for column in table.columns]
    attach = "SELECT graphrag.attach_table(%s::regclass, %s, %s::name, %s::name[])"
    module_db.execute(attach, [name, corpus, columns[0], columns[1:]])
    keys = ["%s", "'; --", '"x"', "a\nb", "$1"]
    with Session(engine) as session:
        session.add_all(
            [Odd(id=key, body=f"Ada Lovelace met Charles Babbage on day {n}.") for n, key in enumerate(keys)]
        )
        session.commit()
        module_db.execute("CALL graphrag.process_jobs()")
        statement = select_found(Odd.id, "Ada Lovelace", corpus=corpus)
        assert {record.Odd.id for record in session.execute(statement)} == set(keys)
        filtered = select_found(Odd.id, "Ada Lovelace", corpus=corpus, filter={"$source_key": "'; --"})
        assert [record.Odd.id for record in session.execute(filtered)] == ["'; --"]


def test_searches_take_filters_options_and_expressions(engine: Engine) -> None:
    hits = search(func.lower("PUNCHED CARDS"), mode="bm25", filter={"$source_key": "a/2"}, bm25_idf="lucene")
    with Session(engine) as session:
        records = session.execute(select(hits.c.source_key, hits.c.explain["bm25"]["rank"].as_integer())).all()
        assert [tuple(record) for record in records] == [("a/2", 1)]
        entities = search_entities("Babbage", top_k=1)
        name = session.execute(select(entities.c.name)).scalar_one()
        assert name == "Charles Babbage"
        near = neighbors(name)
        assert "Ada Lovelace" in session.execute(select(near.c.name)).scalars().all()


def test_the_client_takes_the_drivers_connection_and_refuses_sqlalchemys(engine: Engine) -> None:
    with engine.connect() as connection:
        with pytest.raises(GraphRAGError, match="a Connection of sqlalchemy cannot be used"):
            GraphRAG(connection)  # type: ignore[arg-type]
        driver: Any = connection.connection.driver_connection
        assert GraphRAG(driver).search("punched cards", top_k=1)[0].source_key == "a/2"


def test_asynchronous_sessions_search_and_lend_their_connection(engine: Engine, module_db: Database) -> None:
    async def search_all() -> None:
        url = module_db.url.replace("postgresql://", "postgresql+psycopg_async://", 1)
        asynchronous = create_async_engine(url)
        async with AsyncSession(asynchronous) as session:
            statement = select_found(Article.id, "Who met Babbage?", top_k=1, key_prefix="a/")
            assert [row[0].headline for row in await session.execute(statement)] == ["Ada"]
        async with asynchronous.connect() as connection:
            for source in (connection, asynchronous):
                with pytest.raises(GraphRAGError, match="of sqlalchemy cannot be used") as error:
                    AsyncGraphRAG(source)
                assert "get_raw_connection()" in str(error.value.hint)
            lent = await connection.get_raw_connection()
            assert (await AsyncGraphRAG(lent.driver_connection).search("Who met Babbage?", top_k=1))[0].title == "Ada"
        await asynchronous.dispose()

    asyncio.run(search_all())
