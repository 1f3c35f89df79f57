"""Rows in contexts: small tables of what the caller may SELECT, cited by table and key."""

import re
from typing import Any

import pytest
from pg_graphrag.search.contexts.context_packing import TableStatements
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.asking import ask, is_keywords, lines
from tests.sql.ingest import value
from tests.sql.rows import attach, index, own_by_owner

REPLY = lines
QUESTION = "Where does the RZ-500K stand?"
MACHINE = {"key": "7", "name": "RZ-500K", "aliases": "Big Bertha", "stands in": "plants/1", "built": "2019-05-01"}


@pytest.fixture(scope="module")
def shop(module_db: Database) -> Database:
    attach(module_db)
    return module_db


def context(db: Database, question: str = QUESTION, mode: str = "hybrid", **options: Any) -> dict[str, Any]:
    sql = "SELECT graphrag.context(%s, mode => %s, options => %s)"
    parts: dict[str, Any] = value(db, sql, question, mode, Jsonb(options))
    return parts


def rows_by_table(parts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {table["table"]: {row["source_key"]: row["values"] for row in table["rows"]} for table in parts["tables"]}


@pytest.mark.parametrize(
    "mode", ["hybrid", "local", "global", "mix", "path", "ppr", "lazy", "graph_local", "bm25", "naive"]
)
def test_a_context_of_every_mode_shows_rows_as_tables(shop: Database, mode: str) -> None:
    parts = context(shop, mode=mode)
    assert rows_by_table(parts)["shop.machines"]["machines/7"] == MACHINE
    assert "machine: shop.machines\n|  | key | name | aliases | stands in | built |\n" in parts["prompt"]
    assert "| 7 | RZ-500K | Big Bertha | Osaka Works | 2019-05-01 |" in parts["prompt"]


ODD = """
CREATE TABLE shop.parts (id int PRIMARY KEY, code text UNIQUE, name text, key bool, sizes int[], paint jsonb,
                         part_id int REFERENCES shop.parts);
INSERT INTO shop.parts VALUES (1, 'PX-1', 'Rotor', true, '{1,2}', '{"colour": "grün"}', NULL),
                              (2, 'PX-2', 'Blade', false, NULL, 'null', 1);
"""


def test_attributes_that_are_called_as_columns_of_tables_stay_apart(db: Database) -> None:
    attach(db)
    db.execute(ODD)
    own_by_owner(db, "TABLE shop.parts")
    db.execute(
        "SELECT graphrag.attach_entities('shop.parts', 'default', '{id}', 'code', type => 'part',"
        " attributes => '{name,key,sizes,paint}')"
    )
    db.execute("SELECT graphrag.attach_relationships('shop.parts', 'default', 'part', '{part_id}', 'shop.parts')")
    index(db)
    parts = context(db, "What is PX-2?", "bm25")
    values = rows_by_table(parts)["shop.parts"]["parts/1"]
    assert (values["key"], values["name"], values["attribute_key"], values["attribute_name"]) == (
        "1",
        "PX-1",
        True,
        "Rotor",
    )
    assert '| 1 | PX-1 |  | Rotor | true | ⟦1, 2⟧ | {"colour": "grün"} |' in parts["prompt"]
    stated = db.execute("SELECT description FROM graphrag.graph_edges WHERE source = 'PX-2' AND keywords = 'part'")
    assert stated.fetchall() == [("part: parts/1",)]


def test_values_are_shown_as_the_table_has_them(db: Database) -> None:
    db.execute(
        "CREATE SCHEMA shop;"
        " CREATE TABLE shop.accounts (id int PRIMARY KEY, name text, sum numeric(30, 4), open bool, rates numeric[]);"
        "INSERT INTO shop.accounts VALUES (1, 'Weber savings', 12345678901234567.89, true, '{1.10}'),"
        " (2, 'Noll savings', 10::numeric ^ 25 + .5, NULL, NULL)"
    )
    own_by_owner(db, "SCHEMA shop", "TABLE shop.accounts")
    call = "attach_entities('shop.accounts', 'default', '{id}', 'name', attributes => '{sum,open,rates}')"
    db.execute(f"SELECT graphrag.{call}".encode())
    index(db)
    assert (
        "| 1 | Weber savings | 12345678901234567.8900 | true | [1.10] |"
        in context(db, "Weber savings", "bm25")["prompt"]
    )
    answer = value(db, "SELECT answer FROM graphrag.ask('What is the sum of the Weber savings?')")
    assert "sum: 12345678901234567.8900; open: true; rates: [1.10]" in answer
    sums = db.execute(
        "SELECT value::text FROM graphrag.entity_attributes WHERE attribute = 'sum' ORDER BY 1"
    ).fetchall()
    assert sums == [("10000000000000000000000000.5000",), ("12345678901234567.8900",)]


def test_numbers_that_the_graph_has_no_place_for_are_texts_there(db: Database) -> None:
    db.execute(
        "CREATE SCHEMA shop;"
        " CREATE TABLE shop.parcels (id int PRIMARY KEY, name text UNIQUE, code numeric, sizes numeric[], kg int);"
        "INSERT INTO shop.parcels VALUES (1, 'Alpha parcel', 12345678901234567890, ARRAY[1, 1e400], 3)"
    )
    own_by_owner(db, "SCHEMA shop", "TABLE shop.parcels")
    call = (
        "attach_entities('shop.parcels', 'default', '{id}', 'name', type => 'parcel', attributes => '{code,sizes,kg}')"
    )
    db.execute(f"SELECT graphrag.{call}".encode())
    index(db)
    assert db.execute("SELECT source_key, status FROM graphrag.documents").fetchall() == [("parcels/1", "indexed")]
    assert db.execute("SELECT * FROM graphrag.check()").fetchall() == []


def test_a_key_that_is_the_name_stands_in_a_table_once(db: Database) -> None:
    db.execute(
        "CREATE SCHEMA shop; CREATE TABLE shop.settings (name text PRIMARY KEY, unit text);"
        "INSERT INTO shop.settings VALUES ('work_mem', 'kB')"
    )
    own_by_owner(db, "SCHEMA shop", "TABLE shop.settings")
    db.execute("SELECT graphrag.attach_entities('shop.settings', 'default', '{name}', 'name', attributes => '{unit}')")
    index(db)
    parts = context(db, "work_mem", "bm25")
    assert "shop.settings\n|  | name | unit |\n| [1] | work_mem | kB |" in parts["prompt"]
    assert list(rows_by_table(parts)["shop.settings"].values()) == [
        {"key": "work_mem", "name": "work_mem", "unit": "kB"}
    ]
    assert context(db, "work_mem", "bm25", max_row_tokens=0)["prompt"].endswith("\n[1] shop.settings work_mem")


def test_an_alias_that_is_the_key_is_left_out_of_a_table(db: Database) -> None:
    attach(db)
    db.execute(
        "CREATE TABLE shop.books (isbn text PRIMARY KEY, title text UNIQUE, short text);"
        "INSERT INTO shop.books VALUES ('978-82-1', 'The Glass Harbour', 'Glass'), ('978-82-2', 'Salt Winter', NULL)"
    )
    own_by_owner(db, "TABLE shop.books")
    db.execute(
        "SELECT graphrag.attach_entities('shop.books', 'default', '{isbn}', 'title', aliases => '{isbn,short}', type => 'book')"
    )
    index(db)
    prompt = context(db, "Who wrote The Glass Harbour or Salt Winter?", "bm25")["prompt"]
    assert "| 978-82-1 | The Glass Harbour | Glass |" in prompt
    assert "| 978-82-2 | Salt Winter |  |" in prompt


def test_a_key_that_is_the_name_of_a_row_is_left_out_of_it(db: Database) -> None:
    db.execute(
        "CREATE SCHEMA shop; CREATE TABLE shop.units (id text PRIMARY KEY, label text, kind text);"
        "INSERT INTO shop.units VALUES ('kB', 'kB', 'size'), ('min', 'minute', 'time')"
    )
    own_by_owner(db, "SCHEMA shop", "TABLE shop.units")
    db.execute("SELECT graphrag.attach_entities('shop.units', 'default', '{id}', 'label', attributes => '{kind}')")
    index(db)
    prompt = context(db, "kB minute", "bm25")["prompt"]
    assert "|  | key | name | kind |\n" in prompt
    assert "|  | kB | size |" in prompt
    assert "| min | minute | time |" in prompt


def test_a_relationship_of_a_row_names_its_kind_once(shop: Database) -> None:
    prompt = context(shop, mode="local", max_row_tokens=0)["prompt"]
    assert re.search(r"^- .*: stands in: Osaka Works$", prompt, re.M)
    assert "[stands in]" not in prompt


def test_a_row_brings_those_to_which_it_leads(shop: Database) -> None:
    parts = context(shop, "Big Bertha", "bm25")
    assert rows_by_table(parts) == {
        "shop.machines": {"machines/7": MACHINE},
        "shop.plants": {"plants/1": {"key": "1", "name": "Osaka Works", "city": "Osaka"}},
    }


def test_a_row_is_in_a_table_or_in_the_text_but_for_its_own_texts(shop: Database) -> None:
    parts = context(shop)
    document_ids = {row["document_id"] for table in parts["tables"] for row in table["rows"]}
    texts = [chunk["content"] for chunk in parts["chunks"] if chunk["document_id"] in document_ids]
    assert texts == ["It needs methane from the Kestrel engine."]


@pytest.mark.parametrize("mode", ["hybrid", "mix", "graph_local", "path", "bm25", "naive", "lazy"])
def test_each_thing_is_told_once_with_names_in_place_of_keys(shop: Database, mode: str) -> None:
    prompt = context(shop, mode=mode)["prompt"]
    assert prompt.count("Big Bertha") == prompt.count("2019-05-01") == 1
    assert not re.search(r"\b(?:plants|machines)/\d", prompt)
    # Two persons have one name.
    assert "certificates" not in prompt or "| Ann Lee (persons/1) | RZ-500K | 2024-02-29 |" in prompt


def test_rows_without_room_in_a_table_have_names_in_their_texts(shop: Database) -> None:
    prompt = context(shop, max_row_tokens=60)["prompt"]
    assert prompt.count("| [") == 1
    assert "stands in: Lyon Works" in prompt
    assert not re.search(r"\b(?:plants|machines)/\d", prompt.partition("References:")[0])


def test_a_key_has_a_name_only_where_a_column_leads_to_a_row() -> None:
    titles = {"7": "Anna Smith", "a": "Alpha", "plants/1": "Osaka Works"}
    text = "Temp: 7 °C\ngrade: a\nstands in: plants/1 °C\nsee: plants/1\nstands in: plants/12"
    tabled = TableStatements({}, titles, frozenset({"stands in"}))
    assert tabled.named(text) == text.replace("stands in: plants/1 ", "stands in: Osaka Works ")
    assert TableStatements({}, titles).named(text) == text


def test_references_name_table_and_key(shop: Database) -> None:
    parts = context(shop)
    references = {reference["source_key"]: reference for reference in parts["references"]}
    machine = references["machines/7"]
    assert (machine["table"], machine["key"], machine["title"]) == ("shop.machines", "7", "RZ-500K")
    assert f"| [{machine['number']}] | 7 | RZ-500K |" in parts["prompt"]
    assert parts["prompt"].endswith("References:\n[8] manual")
    without_tables = context(shop, max_row_tokens=0)["prompt"]
    assert re.search(r"^\[\d\] shop.machines 7: RZ-500K", without_tables, re.M)
    assert "table" not in references["manual"]


def test_max_row_tokens_bounds_the_tables(shop: Database) -> None:
    everything = context(shop)
    assert sum(len(table["rows"]) for table in everything["tables"]) > 3
    few = context(shop, max_row_tokens=60)
    assert sum(len(table["rows"]) for table in few["tables"]) == 1
    none = context(shop, max_row_tokens=0)
    assert none["tables"] == [] and "Rows:" not in none["prompt"]
    assert "machine: RZ-500K" in none["prompt"]


def test_a_small_context_keeps_its_budget(shop: Database) -> None:
    parts: dict[str, Any] = value(shop, "SELECT graphrag.context(%s, max_tokens => 150)", QUESTION)
    assert parts["tokens"] <= 150


def test_a_search_says_of_which_table_a_row_is(shop: Database) -> None:
    rows = dict(
        shop.execute("SELECT source_key, explain -> 'row' FROM graphrag.search(%s, top_k => 50)", [QUESTION]).fetchall()
    )
    assert rows["certificates/1/7"] == {"table": "shop.certificates", "key": "1/7"}
    assert rows["manual"] is None


def test_no_setting_changes_the_name_of_a_table(shop: Database) -> None:
    statement = "SELECT explain -> 'row' ->> 'table' FROM graphrag.search(%s, top_k => 50)"
    names = shop.execute(statement, [QUESTION]).fetchall()
    shop.execute("SET quote_all_identifiers = on")
    try:
        assert shop.execute(statement, [QUESTION]).fetchall() == names
    finally:
        shop.execute("RESET quote_all_identifiers")


def test_a_path_names_the_foreign_keys_on_it(shop: Database) -> None:
    results = shop.execute(
        "SELECT e -> 'keywords' FROM graphrag.search('Which machine stands in the Osaka Works?', mode => 'path') s,"
        " jsonb_array_elements(s.explain -> 'path' -> 'edges') e"
    )
    assert ["stands in"] in [keywords for (keywords,) in results]


def test_what_the_caller_may_not_select_is_in_no_table(shop: Database) -> None:
    with shop.transaction(force_rollback=True):
        shop.execute("CREATE ROLE plant_reader; GRANT graphrag_reader TO plant_reader")
        shop.execute("GRANT USAGE ON SCHEMA shop TO plant_reader; GRANT SELECT ON shop.plants TO plant_reader")
        shop.execute("SET LOCAL ROLE plant_reader")
        parts = context(shop, "The RZ500K in the Osaka Works")
        assert rows_by_table(parts).keys() == {"shop.plants"}
        assert "Bertha" not in parts["prompt"]


def test_the_name_of_a_row_that_the_caller_may_not_select_is_not_shown(shop: Database) -> None:
    with shop.transaction(force_rollback=True):
        shop.execute("CREATE ROLE machine_reader; GRANT graphrag_reader TO machine_reader")
        shop.execute("GRANT USAGE ON SCHEMA shop TO machine_reader; GRANT SELECT ON shop.machines TO machine_reader")
        shop.execute("SET LOCAL ROLE machine_reader")
        parts = context(shop)
        assert "| Big Bertha | plants/1 |" in parts["prompt"]
        assert "Osaka" not in parts["prompt"]


def test_an_answer_cites_a_row_by_table_and_key(db: Database, endpoint: Endpoint) -> None:
    attach(db)
    db.execute("SELECT graphrag.set_provider('e', 'openai', %s)", [endpoint.url])
    db.execute('SELECT graphrag.alter_corpus(\'default\', \'{"llm": {"provider": "e", "model": "m"}}\')')
    index(db)

    def reply(messages: list[dict[str, Any]]) -> Any:
        if is_keywords(messages):
            return lines(messages)
        number = messages[-1]["content"].split("] | 1 | Osaka Works |")[0].rsplit("[", 1)[1]
        return f"In Osaka [{number}]."

    endpoint.reply(reply)
    answer, citations, _, _ = ask(db, QUESTION, "default")
    (citation,) = citations
    assert answer.startswith("In Osaka [")
    assert (citation["source_key"], citation["table"], citation["key"]) == ("plants/1", "shop.plants", "1")
