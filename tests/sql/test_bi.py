"""The queries of docs/bi.md in the statements that Superset and Grafana make of them."""

import re

import pytest

from tests.runtime.cluster import PROJECT, Database
from tests.sql.ingest import rows

PAGE = (PROJECT / "docs/bi.md").read_text(encoding="utf-8")
SETUP = re.search(r"^<!-- setup\n(.*?)^-->$", PAGE, re.MULTILINE | re.DOTALL)


def queries(tool: str) -> list[str]:
    """The queries of a tool's section, without their last semicolon."""
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (text,) = (part for part in section if part.startswith(tool))
    return [
        query.strip().rstrip(";").split(";      --")[0] for query in re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    ]


def expanded(query: str) -> str:
    """What Grafana's data source makes of the macros that the page names: times in UTC, as text, instead of the dates."""
    span = "BETWEEN '2026-01-01T00:00:00Z' AND '2026-12-31T23:59:59.999Z'"
    return query.replace("BETWEEN '2026-01-01' AND '2026-12-31'", span)


@pytest.fixture(scope="module")
def news(module_db: Database) -> Database:
    assert SETUP is not None
    for statement in re.split(r";\n", SETUP[1]):
        if statement.strip():
            module_db.execute(statement.encode())
    return module_db


@pytest.mark.parametrize("query", queries("Superset"))
def test_superset_reads_them_as_virtual_datasets(news: Database, query: str) -> None:
    # How it finds the columns, a table chart, and a chart with a metric, which is always quoted.
    cursor = news.execute(f"SELECT * FROM (\n{query}\n) AS virtual_table LIMIT 0".encode())
    assert cursor.description is not None
    first, *_, number = [column.name for column in cursor.description]
    assert rows(news, f"SELECT * FROM (\n{query}\n) AS virtual_table LIMIT 1001") != []
    metric = (
        f'SELECT "{first}" AS "{first}", SUM("{number}") AS "SUM({number})"\nFROM (\n{query}\n) AS virtual_table'
        f' GROUP BY "{first}"\nORDER BY "SUM({number})" DESC\nLIMIT 10000'
    )
    assert rows(news, metric) != []


@pytest.mark.parametrize("query", queries("Grafana"))
def test_grafana_reads_them_with_its_macros(news: Database, query: str) -> None:
    assert rows(news, expanded(query)) != []


def test_a_time_filter_of_grafana_keeps_the_days_of_its_span(news: Database) -> None:
    (series, *_) = queries("Grafana")
    assert expanded(series) != series
    march = expanded(series).replace("2026-01-01T", "2026-03-01T").replace("2026-12-31T", "2026-03-31T")
    assert {day.isoformat() for day, *_ in rows(news, march)} == {"2026-03-01"}
