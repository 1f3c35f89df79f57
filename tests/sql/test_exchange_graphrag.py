"""A GraphRAG index goes in and comes out again, and is searched in between."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pg_graphrag.cli import main
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.llm import provider

parquet = pytest.importorskip("pyarrow.parquet")

TABLES = ("documents", "text_units", "entities", "relationships", "covariates")
Rows = dict[str, list[dict[str, Any]]]


def read(folder: Path) -> Rows:
    return {name: parquet.read_table(folder / f"{name}.parquet").to_pylist() for name in TABLES}


@pytest.fixture(scope="module")
def given(shared_data: Path) -> Path:
    return shared_data / "christmas-carol"


@pytest.fixture(scope="module")
def loaded(module_db: Database, given: Path) -> Database:
    """The index in corpus carol, embedded by an endpoint, for speed."""
    with Endpoint() as endpoint:
        model = {"provider": provider(module_db, endpoint), "model": "hash", "dimensions": 64}
        options = {"extractor": "given", "embedding": model}
        module_db.execute("SELECT graphrag.create_corpus('carol', %s)", [Jsonb(options)])
        assert main(["import-graphrag", "--url", module_db.url, "--corpus", "carol", str(given)]) == 0
    return module_db


@pytest.fixture(scope="module")
def tables(loaded: Database, given: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Rows, Rows]:
    folder = tmp_path_factory.mktemp("graphrag") / "output"
    assert main(["export-graphrag", "--url", loaded.url, "--corpus", "carol", str(folder)]) == 0
    for name in TABLES:
        before, after = (parquet.read_schema(path / f"{name}.parquet") for path in (given, folder))
        assert after.remove_metadata() == before.remove_metadata(), name
    return read(given), read(folder)


def same(before: dict[str, Any], after: dict[str, Any], *but: str) -> None:
    """Assert that two rows agree, order in lists aside, but for numbers, ids that are made anew, and `but`."""
    left = {"human_readable_id", *but}
    for column in before.keys() - left:
        one, two = before[column], after[column]
        assert (sorted(one), sorted(two)) == (sorted(two), sorted(two)) if isinstance(one, list) else one == two, column


def test_documents_and_text_units_come_out_as_they_went_in(tables: tuple[Rows, Rows]) -> None:
    before, after = tables
    (document,), (exported,) = before["documents"], after["documents"]
    same(document, exported)
    units = {row["id"]: row for row in after["text_units"]}
    assert len(units) == 42
    for row in before["text_units"]:
        # Tokens are those of the corpus' tokenizer.
        same(row, units[row["id"]], "n_tokens", "entity_ids", "relationship_ids", "covariate_ids")


def test_entities_come_out_as_they_went_in(tables: tuple[Rows, Rows]) -> None:
    before, after = tables
    found = {row["title"]: row for row in after["entities"]}
    for row in before["entities"]:
        same(row, found.pop(row["title"]), "id")
    # What 84 relationships name that is no entity is one now.
    ends = {row[end] for row in before["relationships"] for end in ("source", "target")}
    assert set(found) == ends - {row["title"] for row in before["entities"]}
    assert len(found) == 32 and {row["type"] for row in found.values()} == {"UNKNOWN"}


def test_relationships_come_out_as_they_went_in(tables: tuple[Rows, Rows]) -> None:
    before, after = tables
    pairs: dict[frozenset[str], list[dict[str, Any]]] = defaultdict(list)
    for row in before["relationships"]:
        pairs[frozenset((row["source"], row["target"]))].append(row)
    found = {frozenset((row["source"], row["target"])): row for row in after["relationships"]}
    assert found.keys() == pairs.keys()
    assert len(before["relationships"]) - len(found) == 43, "pairs that are there in both directions are one here"
    for pair, rows in pairs.items():
        if len(rows) == 1:
            same(rows[0], found[pair], "id")
            continue
        assert found[pair]["weight"] == sum(row["weight"] for row in rows)
        assert set(found[pair]["text_unit_ids"]) == {unit for row in rows for unit in row["text_unit_ids"]}
        assert all(row["description"] in found[pair]["description"] for row in rows)


def test_claims_come_out_as_they_went_in(tables: tuple[Rows, Rows]) -> None:
    before, after = tables
    key = ("text_unit_id", "subject_id", "description")
    found = {tuple(row[name] for name in key): row for row in after["covariates"]}
    # 25 lines of the model's answers were no claims. Two statuses were none, one quotation was too long.
    wanted = [row for row in before["covariates"] if row["description"]]
    assert len(wanted) == len(after["covariates"]) == 381
    differences = 0
    for row in wanted:
        other = found[tuple(row[name] for name in key)]
        same(row, other, "id", "status", "source_text")
        differences += (row["status"], row["source_text"]) != (other["status"], other["source_text"])
    assert differences == 3


def test_ids_of_the_export_fit_together(tables: tuple[Rows, Rows]) -> None:
    _, after = tables
    for name in TABLES:
        assert len({row["id"] for row in after[name]}) == len(after[name])
    for name, column in (("entities", "entity_ids"), ("relationships", "relationship_ids")):
        by_unit = {(row["id"], one) for row in after["text_units"] for one in row[column]}
        assert by_unit == {(unit, row["id"]) for row in after[name] for unit in row["text_unit_ids"]}
    claims = {(row["id"], one) for row in after["text_units"] for one in row["covariate_ids"]}
    assert claims == {(row["text_unit_id"], row["id"]) for row in after["covariates"]}


@pytest.mark.parametrize("mode", ["bm25", "local", "global", "hybrid", "mix"])
def test_the_imported_index_is_searched(loaded: Database, mode: str) -> None:
    with Endpoint() as endpoint:
        loaded.execute("SELECT graphrag.set_provider(name, 'openai', %s) FROM graphrag.providers", [endpoint.url])
        found = loaded.execute(
            "SELECT content FROM graphrag.search('What does Fezziwig do at the ball?', 'carol', mode => %s)", [mode]
        ).fetchall()
    assert any("Fezziwig" in content for (content,) in found[:3])


def test_a_second_import_changes_nothing(loaded: Database, given: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import-graphrag", "--url", loaded.url, "--corpus", "carol", str(given)]) == 0
    assert capsys.readouterr().out.startswith("1 documents, 1 of them unchanged\n")


def test_what_cannot_be_imported_or_exported_is_refused(
    module_db: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import-graphrag", "--url", module_db.url, "--corpus", "x", str(tmp_path)]) == 1
    assert "has no text_units.parquet" in capsys.readouterr().err
    module_db.execute("SELECT graphrag.create_corpus('concepts')")
    assert main(["import-lightrag", "--url", module_db.url, "--corpus", "concepts", str(tmp_path)]) == 1
    assert "finds concepts by itself" in capsys.readouterr().err
    assert main(["export-graphrag", "--url", module_db.url, "--corpus", "nope", str(tmp_path / "out")]) == 1
    assert 'corpus "nope" does not exist' in capsys.readouterr().err
