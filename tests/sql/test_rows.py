"""Rows of attached tables are entities, and their foreign keys relationships, in one graph with documents."""

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.sql.attach import APP, backfill, states
from tests.sql.graph_rows import cypher
from tests.sql.rows import ATTACH, attach, attach_works, edges, index, keys, own_by_owner


@pytest.fixture(scope="module")
def shop(module_db: Database) -> Database:
    attach(module_db)
    return module_db


@pytest.fixture
def own(db: Database) -> Database:
    """A shop to change."""
    attach(db)
    return db


def document(db: Database, key: str) -> tuple[str, str, dict[str, object]]:
    rows = db.execute("SELECT title, content, metadata FROM graphrag.documents WHERE source_key = %s", [key])
    (row,) = rows.fetchall()
    return row


def fingerprint(db: Database) -> dict[str, str]:
    return {name: digest for name, _, digest in db.execute("SELECT * FROM graphrag.fingerprint_sections('default')")}


def test_a_row_is_a_document(shop: Database) -> None:
    assert document(shop, "machines/7") == (
        "RZ-500K",
        "machine: RZ-500K\nstands in: plants/1\nalias: Big Bertha\nbuilt: 2019-05-01\n\n"
        "It needs methane from the Kestrel engine.",
        {"aliases": ["Big Bertha"], "built": "2019-05-01", "stands in": "plants/1"},
    )


def test_foreign_keys_and_join_tables_are_relationships(shop: Database) -> None:
    assert {("RZ-500K", "stands in", "Osaka Works"), ("Ann Lee (persons/1)", "certified for", "RZ-500K")} <= edges(shop)


def test_two_rows_of_one_name_stay_apart(shop: Database) -> None:
    assert {("Ann Lee (persons/1)", "name", "Ann Lee"), ("Ann Lee (persons/2)", "name", "Ann Lee")} <= edges(shop)


def test_what_documents_call_several_rows_is_suggested_to_be_merged(own: Database) -> None:
    suggestions = {
        (entity, target): (score, reason)
        for entity, target, score, reason in own.execute("SELECT * FROM graphrag.suggest_merges()")
    }
    for number in (1, 2):
        score, reason = suggestions["Ann Lee", f"Ann Lee (persons/{number})"]
        assert 0.6 <= score < 0.9 and reason.startswith(
            "row: ambiguous, a name, alias or code of 2 rows: persons/1, persons/2"
        )
    own.execute("SELECT graphrag.merge_entities(ARRAY['Big Bertha', 'RZ500K'], 'RZ-500K')")
    names = {name for (name,) in own.execute("SELECT name FROM graphrag.graph_nodes")}
    assert "RZ-500K" in names and not names & {"Big Bertha", "RZ500K"}
    assert not {entity for (entity,) in own.execute("SELECT entity FROM graphrag.suggest_merges()")} & {
        "Big Bertha",
        "RZ500K",
    }
    own.execute("UPDATE shop.machines SET nick = 'Bertha' WHERE id = 7")
    index(own)
    assert own.execute("SELECT * FROM graphrag.check('default')").fetchall() == []


def test_an_entity_has_the_type_and_attributes_of_its_row(shop: Database) -> None:
    rows = shop.execute("SELECT name, type, attribute, value FROM graphrag.entity_attributes ORDER BY 1, 3").fetchall()
    assert rows == [
        ("Lyon Works", "plant", "city", "Lyon"),
        ("Osaka Works", "plant", "city", "Osaka"),
        ("RZ-500K", "machine", "built", "2019-05-01"),
    ]


def test_texts_of_a_row_are_read_as_documents_are(shop: Database) -> None:
    assert shop.execute("SELECT 1 FROM graphrag.graph_nodes WHERE name = 'Kestrel engine'").fetchall()


def test_names_of_columns_are_no_entities(shop: Database) -> None:
    names = {name for (name,) in shop.execute("SELECT lower(name) FROM graphrag.graph_nodes")}
    assert not names & {"machine", "plant", "alias", "built", "stands in", "city", "person"}


def test_a_walk_goes_from_a_document_over_rows(shop: Database) -> None:
    """From the code as the manual writes it to the works where the machine stands."""
    rows = shop.execute("SELECT name, hop FROM graphrag.neighbors('RZ500K', hops => 4)").fetchall()
    assert dict(rows)["Osaka Works"] == 1


def test_a_filter_asks_for_attributes(shop: Database) -> None:
    rows = shop.execute(
        "SELECT source_key FROM graphrag.search('machine', filter => '{\"stands in\": \"plants/2\"}')"
    ).fetchall()
    assert rows == [("machines/8",)]


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        ({"$row": {"stands in": {"city": "Lyon"}}}, {"machines/8"}),
        ({"$row": {"stands in": {"city": {"$prefix": "O"}}}}, {"machines/7"}),
        ({"$row": {"certified for": {"$row": {"stands in": {"city": "Osaka"}}}}}, {"certificates/1/7"}),
        ({"built": {"$lt": "2020-01-01"}, "$row": {"stands in": {"city": "Lyon"}}}, set()),
        ({"$row": {"stands in": {"$not": {"city": "Lyon"}}}}, {"machines/7"}),
        ({"$not": {"$row": {"stands in": {}}}, "$source_key": {"$prefix": "machines/"}}, set()),
        ({"$row": {"stands in": {"$source_key": "plants/2"}, "certified for": {}}}, set()),
    ],
)
def test_a_filter_asks_for_attributes_of_rows_to_which_a_row_leads(
    shop: Database, filter_: dict[str, object], expected: set[str]
) -> None:
    rows = shop.execute(
        "SELECT source_key FROM graphrag.search('machine', filter => %s, top_k => 50)", [Jsonb(filter_)]
    )
    assert {key for (key,) in rows} == expected


@pytest.mark.parametrize(
    "filter_",
    [
        {"$row": "plants/1"},
        {"$row": {}},
        {"$row": {"stands in": "plants/1"}},
        {"$row": {"$or": [{"city": "Lyon"}]}},
        {"$row": {"stands in": {"$relation": "shop.plants"}}},
        {"city": {"$row": {}}},
    ],
)
def test_a_bad_filter_of_rows_is_refused(shop: Database, filter_: dict[str, object]) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="filter") as error:
        shop.execute("SELECT FROM graphrag.search('machine', filter => %s)", [Jsonb(filter_)])
    assert error.value.diag.message_hint


@pytest.mark.parametrize("mode", ["bm25", "naive", "hybrid", "local", "global", "mix", "ppr", "path"])
def test_every_mode_finds_rows(shop: Database, mode: str) -> None:
    assert keys(shop, "Where does the RZ-500K stand?", mode) & {"machines/7", "plants/1"}


def test_an_article_of_an_alias_is_left_out_as_in_texts(own: Database) -> None:
    own.execute("UPDATE shop.machines SET nick = 'The Kraken' WHERE id = 7")
    index(own)
    own.execute("INSERT INTO graphrag.documents (source_key, content) VALUES ('log', 'The Kraken needs Orville oil.')")
    index(own)
    assert own.execute("SELECT name FROM graphrag.neighbors('RZ-500K') WHERE name ~ 'Orville'").fetchall()
    assert own.execute("SELECT * FROM graphrag.check('default')").fetchall() == []


@pytest.mark.parametrize("mode", ["hybrid", "ppr"])
def test_a_walk_reaches_the_rows_of_rows(db: Database, mode: str) -> None:
    """From a report over the machine that it calls by a nickname, and its model, to the maker; texts share no word."""
    attach_works(db)
    best = db.execute("SELECT source_key FROM graphrag.search('Who leaked methane?', mode => %s, top_k => 4)", [mode])
    assert {key for (key,) in best} == {"report", "machines/13", "models/13", "makers/13"}


@pytest.mark.parametrize("label", ["machine", "Machine", "`machine`"])
def test_a_label_of_cypher_is_the_type_of_rows(shop: Database, label: str) -> None:
    query = f"""
        MATCH (m:{label})-[:RELATED]->(:key)-[:RELATED]->(p:PLANT {{name: 'Osaka Works'}})
        RETURN m.name AS name, m.attributes.built AS built
    """
    assert cypher(shop, query, corpus_name="default") == [{"name": "RZ-500K", "built": "2019-05-01"}]
    assert cypher(shop, "MATCH (m:Nothing) RETURN m", corpus_name="default") == []


def test_a_label_of_the_owner_is_no_type(db: Database) -> None:
    db.execute("INSERT INTO graphrag.documents (content) VALUES ('Ann Lee mended the pump.')")
    index(db)
    (graph,) = db.execute("SELECT graph_name FROM graphrag.corpora").fetchone() or ("",)
    assert cypher(db, "MATCH (p:Seen) RETURN p", corpus_name="default") == []
    db.execute("LOAD 'age'")
    db.execute(
        f"SELECT * FROM ag_catalog.cypher('{graph}', $$ CREATE (:Seen {{type: 'x'}}) $$) AS (v ag_catalog.agtype)"
    )
    assert [row["p"]["label"] for row in cypher(db, "MATCH (p:Seen) RETURN p", corpus_name="default")] == ["Seen"]


def test_the_context_shows_rows(shop: Database) -> None:
    ((context,),) = shop.execute(
        "SELECT context::text FROM graphrag.context('Where does the RZ-500K stand?')"
    ).fetchall()
    assert "stands in: plants/1" in context
    assert "certified for: machines/7" in context


def test_nothing_is_wrong(shop: Database) -> None:
    assert shop.execute("SELECT * FROM graphrag.check('default')").fetchall() == []


def test_the_order_of_rows_and_documents_does_not_matter(shop: Database, db: Database) -> None:
    attach(db, rows_first=False)
    db.execute("UPDATE shop.machines SET plant_id = 2 WHERE id = 7; DELETE FROM shop.certificates")
    index(db)
    db.execute(
        "UPDATE shop.machines SET plant_id = 1 WHERE id = 7; INSERT INTO shop.certificates VALUES (1, 7, '2024-02-29')"
    )
    index(db)
    assert fingerprint(db) == fingerprint(shop)
    assert db.execute("SELECT * FROM graphrag.check('default')").fetchall() == []


def test_a_changed_row_changes_its_entity(own: Database) -> None:
    own.execute(
        "UPDATE shop.plants SET city = 'Kyoto' WHERE id = 1; UPDATE shop.machines SET plant_id = NULL WHERE id = 7"
    )
    index(own)
    assert document(own, "plants/1")[2] == {"city": "Kyoto"}
    assert ("RZ-500K", "stands in", "Osaka Works") not in edges(own)
    own.execute("DELETE FROM shop.machines WHERE id = 7")
    index(own)
    assert not {name for edge in edges(own) for name in edge} & {"RZ-500K", "Big Bertha"}
    assert ("Ann Lee (persons/1)", "certified for", "machines/7") in edges(own)
    assert own.execute("SELECT * FROM graphrag.check('default')").fetchall() == []


def test_an_owner_attaches_tables_of_his_own(db: Database, app: Database) -> None:
    db.execute(f"GRANT EXECUTE ON ROUTINE graphrag.attach_entities, graphrag.attach_relationships TO {APP}".encode())
    db.execute("SELECT graphrag.repair()")
    app.execute("CREATE TABLE makers (id int PRIMARY KEY, name text UNIQUE)")
    app.execute("CREATE TABLE parts (id int PRIMARY KEY, name text UNIQUE, maker int)")
    app.execute("INSERT INTO makers VALUES (1, 'Acme'); INSERT INTO parts VALUES (1, 'Bolt', 1)")
    app.execute("SELECT graphrag.attach_entities('makers', 'default', '{id}', 'name')")
    app.execute("SELECT graphrag.attach_entities('parts', 'default', '{id}', 'name')")
    app.execute("SELECT graphrag.attach_relationships('parts', 'default', 'made by', '{maker}', 'makers')")
    backfill(app)
    app.execute("INSERT INTO parts VALUES (2, 'Nut', 1)")
    index(db)
    assert {("Bolt", "made by", "Acme"), ("Nut", "made by", "Acme")} <= edges(db)
    app.execute("ALTER TABLE parts DROP maker")
    app.execute("INSERT INTO parts VALUES (3, 'Washer')")
    assert states(db) == {"app.makers": "current", "app.parts": "broken"}


def test_renamed_columns_are_followed(own: Database) -> None:
    own.execute("ALTER TABLE shop.machines RENAME plant_id TO works; ALTER TABLE shop.machines RENAME nick TO nickname")
    own.execute("UPDATE shop.machines SET works = 2, nickname = 'Bertha' WHERE id = 7")
    index(own)
    assert document(own, "machines/7")[2] == {"aliases": ["Bertha"], "built": "2019-05-01", "stands in": "plants/2"}


def test_documents_of_rows_go_when_a_table_is_detached_or_dropped(own: Database) -> None:
    own.execute("SELECT graphrag.detach_table('shop.certificates')")
    own.execute("DROP TABLE shop.machines")
    index(own)
    left = {key for (key,) in own.execute("SELECT source_key FROM graphrag.documents")}
    assert left == {"manual", "plants/1", "plants/2", "persons/1", "persons/2"}
    for table in ("plants", "persons"):
        own.execute(f"SELECT graphrag.detach_table('shop.{table}')".encode())
    assert own.execute("SELECT relrowsecurity FROM pg_class WHERE oid = 'graphrag.documents'::regclass").fetchall() == [
        (False,)
    ]


def test_a_name_that_is_unique_no_longer_is_said(own: Database) -> None:
    own.execute("ALTER TABLE shop.plants DROP CONSTRAINT plants_name_key")
    index(own)
    states = dict(own.execute("SELECT attached_table, state FROM graphrag.attached_tables").fetchall())
    assert states["shop.plants"] == "broken"


@pytest.mark.parametrize(
    ("call", "sqlstate"),
    [
        (ATTACH[0], "42710"),
        (ATTACH[3], "42701"),
        ("attach_entities('shop.other', 'default', '{id}', 'nobody')", "42703"),
        ("attach_entities(NULL, 'default', '{id}', 'name')", "22004"),
        ("attach_entities('shop.other', 'default', '{id}', 'name', type => 'a:b')", "22023"),
        (
            "attach_entities('shop.other', 'default', '{id}', 'name', options => '{\"key_prefix\": \"plants/\"}')",
            "55000",
        ),
        ("attach_entities('shop.other', 'default', '{id}', 'name', options => '{\"colour\": \"red\"}')", "22023"),
        ("attach_entities('shop.other', 'default', '{name}', 'name')", "22023"),
        (
            "attach_entities('shop.other', 'default', '{id}', 'name', attributes => '{aliases}', aliases => '{name}')",
            "42701",
        ),
        ("attach_relationships('shop.other', 'default', 'is', '{id}', 'shop.plants')", "55000"),
        ("attach_relationships('shop.machines', 'default', 'is', '{id}', 'shop.other')", "55000"),
        ("attach_relationships('shop.machines', 'default', 'is', '{id,plant_id}', 'shop.plants')", "22023"),
        ("attach_relationships('shop.machines', 'default', 'is', '{nothing}', 'shop.plants')", "42703"),
    ],
)
def test_what_cannot_be_attached_is_refused(shop: Database, call: str, sqlstate: str) -> None:
    with shop.transaction(force_rollback=True):
        shop.execute("CREATE TABLE shop.other (id int PRIMARY KEY, name text, aliases text)")
        own_by_owner(shop, "TABLE shop.other")
        with pytest.raises(psycopg.Error) as error, shop.transaction():
            shop.execute(f"SELECT graphrag.{call}".encode())
    assert error.value.sqlstate == sqlstate
