"""The Python of docs/frameworks.md for SQLAlchemy, alembic and FastAPI runs as it stands there. The rest runs with the suites of
the frameworks (test_frameworks.py)."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine, Text, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from tests.frameworks.recipes import recipe
from tests.runtime.cluster import Database


class Base(DeclarativeBase):
    pass


class Article(Base):
    __tablename__ = "articles"

    id: Mapped[int] = mapped_column(primary_key=True)
    headline: Mapped[str]
    body: Mapped[str] = mapped_column(Text)
    language: Mapped[str]


@pytest.fixture(scope="module")
def engine(module_db: Database) -> Iterator[Engine]:
    engine = create_engine(module_db.url.replace("postgresql://", "postgresql+psycopg://", 1))
    Base.metadata.create_all(engine)
    module_db.execute("SELECT graphrag.create_corpus('news')")
    module_db.execute(
        "SELECT graphrag.attach_table('articles', 'news', 'id', '{body}', title_column => 'headline',"
        " metadata_columns => '{language}')"
    )
    module_db.execute(
        "INSERT INTO articles (headline, body, language)"
        " VALUES ('Ada', 'Ada Lovelace met Charles Babbage in London.', 'en'),"
        " ('Loom', 'The Jacquard loom wove patterns from punched cards.', 'en')"
    )
    module_db.execute("CALL graphrag.process_jobs()")
    yield engine
    engine.dispose()


def test_the_recipe_for_sqlalchemy_finds_rows(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    exec(recipe("sqlalchemy"), {"engine": engine, "Article": Article})
    out = capsys.readouterr().out
    assert out.startswith("1 Ada\n") and out.endswith("\n1\n")


def test_the_recipe_for_alembic_leaves_the_extension_alone(engine: Engine) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    configured: dict[str, Any] = {}

    class Context:
        @staticmethod
        def configure(**arguments: Any) -> None:
            configured.update(arguments)

    with engine.connect() as connection:
        source = recipe("alembic").replace("from alembic import context\n", "")
        exec(source, {"context": Context, "connection": connection, "target_metadata": Base.metadata})
        options = {name: value for name, value in configured.items() if name not in ("connection", "target_metadata")}
        migration = MigrationContext.configure(configured["connection"], opts=options)
        assert compare_metadata(migration, configured["target_metadata"]) == []


def test_the_recipe_for_fastapi_answers(engine: Engine, module_db: Database) -> None:
    names: dict[str, Any] = {"URL": module_db.url}
    exec(recipe("fastapi"), names)
    with TestClient(names["app"]) as client:
        assert client.get("/search", params={"question": "punched cards", "top_k": 1}).json() == [
            {"key": "2", "title": "Loom", "content": "The Jacquard loom wove patterns from punched cards."}
        ]
        assert client.get("/search").status_code == 422
