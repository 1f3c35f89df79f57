"""What changes of rows and tables do to the graph where the text of a row says little of them."""

import pytest
from psycopg import errors

from tests.runtime.cluster import Database
from tests.sql.ingest import value
from tests.sql.rows import ATTACH, ROWS, TABLES, attach, edges, index, own_by_owner

TABLE = """
CREATE SCHEMA shop;
CREATE TYPE shop.state AS ENUM ('running', 'idle');
CREATE DOMAIN shop.state_domain AS shop.state;
CREATE TABLE shop.machines (id int PRIMARY KEY, code text UNIQUE, nicks text[], state shop.state, states shop.state[],
                            last_state shop.state_domain, built int, remark text);
INSERT INTO shop.machines VALUES (7, 'RZ-500K', '{Big Bertha, NULL, "AK-9X, old"}', 'running', '{running,idle}', 'running',
                                  2019, E'two\\nlines');
INSERT INTO shop.machines VALUES (8, NULL, '{}', 'idle', NULL, NULL, 2020, NULL);
"""


@pytest.fixture
def shop(db: Database) -> Database:
    db.execute(TABLE.encode())
    own_by_owner(db, "SCHEMA shop", "TABLE shop.machines")
    db.execute(
        "SELECT graphrag.attach_entities('shop.machines', 'default', '{id}', 'code', '{nicks}', 'machine',"
        " '{state,states,last_state,built,remark}')"
    )
    db.execute(
        "SELECT graphrag.attach_relationships('shop.machines', 'default', 'made after', '{built}', 'shop.machines')"
    )
    index(db)
    return db


def attributes(db: Database) -> dict[str, object]:
    rows = db.execute("SELECT attribute, value FROM graphrag.entity_attributes WHERE name = 'RZ-500K'")
    return dict(rows.fetchall())


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("change", "attribute", "value"),
    [
        ("UPDATE shop.machines SET remark = 'two lines'", "remark", "two lines"),
        ("ALTER TABLE shop.machines ALTER built TYPE text", "built", "2019"),
        ("ALTER TYPE shop.state RENAME VALUE 'running' TO 'busy'", "state", "busy"),
        ("ALTER TYPE shop.state RENAME VALUE 'running' TO 'busy'", "states", ["busy", "idle"]),
        ("ALTER TYPE shop.state RENAME VALUE 'running' TO 'busy'", "last_state", "busy"),
    ],
)
def test_an_attribute_is_followed_where_no_line_or_no_row_is_written(
    shop: Database, change: str, attribute: str, value: object
) -> None:
    shop.execute(change.encode())
    index(shop)
    assert attributes(shop)[attribute] == value
    assert shop.execute("SELECT * FROM graphrag.check('default')").fetchall() == []


def test_a_label_that_is_added_takes_no_pass(shop: Database) -> None:
    shop.execute("ALTER TYPE shop.state ADD VALUE 'broken'")
    assert shop.execute("SELECT state FROM graphrag.attached_tables").fetchall() == [("current",)]


def test_a_change_of_a_document_that_a_worker_has_at_hand_is_not_lost(shop: Database) -> None:
    """The worker read the row before its attribute changed, and writes it afterwards."""
    shop.execute("UPDATE shop.machines SET remark = E'new\\n' WHERE id = 7")
    lease = "UPDATE graphrag.jobs SET state = 'leased', lease = 1 WHERE kind = 'index' RETURNING state"
    assert len(shop.execute(lease).fetchall()) == 1
    shop.execute("UPDATE shop.machines SET remark = 'new ' WHERE id = 7")
    assert shop.execute("SELECT state FROM graphrag.jobs WHERE kind = 'index'").fetchall() == [("pending",)]


def test_metadata_of_documents_that_are_no_rows_queue_nothing(shop: Database) -> None:
    shop.execute("CREATE TABLE shop.notes (id int PRIMARY KEY, body text, hits int)")
    own_by_owner(shop, "TABLE shop.notes")
    shop.execute("SELECT graphrag.attach_table('shop.notes', 'default', 'id', '{body}', metadata_columns => '{hits}')")
    shop.execute("INSERT INTO shop.notes VALUES (1, 'Ann Lee mended it.', 1)")
    index(shop)
    shop.execute("UPDATE shop.notes SET hits = 2")
    assert shop.execute("SELECT 1 FROM graphrag.jobs WHERE kind = 'index'").fetchall() == []


def test_each_element_of_an_array_is_an_alias(shop: Database) -> None:
    ((content, metadata),) = shop.execute(
        "SELECT content, metadata -> 'aliases' FROM graphrag.documents WHERE source_key = 'machines/7'"
    ).fetchall()
    assert metadata == ["Big Bertha", "AK-9X, old"]
    assert "\nalias: Big Bertha\nalias: AK-9X, old\n" in content
    shop.execute("INSERT INTO graphrag.documents (source_key, content) VALUES ('log', 'Big Bertha needs Orville oil.')")
    index(shop)
    assert shop.execute("SELECT 1 FROM graphrag.neighbors('RZ-500K') WHERE name ~ 'Orville'").fetchall()
    ((empty,),) = shop.execute("SELECT metadata FROM graphrag.documents WHERE source_key = 'machines/8'").fetchall()
    assert "aliases" not in empty


def test_a_row_without_a_name_has_the_type_of_its_table(shop: Database) -> None:
    assert shop.execute("SELECT type FROM graphrag.graph_nodes WHERE name = 'machines/8'").fetchall() == [("machine",)]


def test_a_foreign_key_of_another_scale_leads_to_its_row(db: Database) -> None:
    db.execute("""
        CREATE SCHEMA shop;
        CREATE TABLE shop.grades (grade numeric, part numeric(6, 2), name text, PRIMARY KEY (grade, part));
        CREATE TABLE shop.bolts (id numeric PRIMARY KEY, name text UNIQUE, grade numeric(6, 3), part numeric,
                                 FOREIGN KEY (grade, part) REFERENCES shop.grades);
        INSERT INTO shop.grades VALUES (8.80, 1, 'Hard'), (100, 10, 'Soft');
        INSERT INTO shop.bolts VALUES (1.0, 'M8', 8.8, 1), (10, 'M9', 100, 10);
    """)
    own_by_owner(db, "SCHEMA shop", "TABLE shop.grades", "TABLE shop.bolts")
    db.execute("SELECT graphrag.attach_entities('shop.grades', 'default', '{grade,part}', 'name')")
    db.execute("SELECT graphrag.attach_entities('shop.bolts', 'default', '{id}', 'name')")
    db.execute("SELECT graphrag.attach_relationships('shop.bolts', 'default', 'is', '{grade,part}', 'shop.grades')")
    index(db)
    assert {("M8", "is", "Hard (grades/8.8/1)"), ("M9", "is", "Soft (grades/100/10)")} <= edges(db)
    db.execute("UPDATE shop.bolts SET id = 1.00, name = 'M10' WHERE id = 1; DELETE FROM shop.bolts WHERE id = 10.0")
    keys = db.execute("SELECT source_key, title FROM graphrag.documents WHERE source_key ~ 'bolts'").fetchall()
    assert keys == [("bolts/1", "M10")]


def fingerprint(db: Database) -> str:
    return str(value(db, "SELECT graphrag.fingerprint('default')"))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "others",
    [["shop.plants"], ["shop.machines", "shop.certificates"], ["shop.persons", "shop.machines", "shop.certificates"]],
)
def test_tables_that_are_attached_anew_are_as_they_were(db: Database, others: list[str]) -> None:
    attach(db)
    before = fingerprint(db)
    for table in others:
        db.execute("SELECT graphrag.detach_table(%s)", [table])
    index(db)
    for call in ATTACH:
        if call.split("'")[1] in others:
            db.execute(f"SELECT graphrag.{call}".encode())
    index(db)
    assert fingerprint(db) == before


@pytest.mark.parametrize("end", ["SELECT graphrag.detach_table('shop.machines')", "DROP TABLE shop.machines"])
def test_rows_to_which_nothing_leads_any_more_are_not_mentioned_by_their_keys(db: Database, end: str) -> None:
    attach(db)
    db.execute(end.encode())
    index(db)
    mentioned = {name for (name,) in db.execute("SELECT name FROM graphrag.entities")}
    assert mentioned & {"plants/1", "persons/1"} == {"persons/1"}
    assert db.execute("SELECT * FROM graphrag.check('default')").fetchall() == []


def test_who_detaches_a_table_to_which_relationships_lead_is_told(db: Database) -> None:
    attach(db)
    notices: list[str] = []
    db.add_notice_handler(lambda diagnostic: notices.append(str(diagnostic.message_primary)))
    db.execute("SELECT graphrag.detach_table('shop.certificates')")
    assert notices == []
    db.execute("SELECT graphrag.detach_table('shop.plants')")
    assert notices == [
        'relationships of shop.machines still lead to rows of table shop.plants, whose keys begin with "plants/"'
    ]


@pytest.mark.slow
def test_a_clone_to_which_the_tables_are_attached_is_as_the_first(db: Database) -> None:
    attach(db)
    warnings: list[str] = []
    db.add_notice_handler(lambda diagnostic: warnings.append(str(diagnostic.message_primary)))
    db.execute("SELECT graphrag.clone_corpus('default', 'copy')")
    tables = "shop.plants, shop.machines, shop.persons, shop.certificates"
    assert warnings == [f"rows of attached tables are plain texts in corpus copy: {tables}"]
    index(db)
    for call in ATTACH:
        db.execute(f"SELECT graphrag.{call}".replace("'default'", "'copy'").encode())
    index(db)
    assert value(db, "SELECT graphrag.fingerprint('copy')") == fingerprint(db)


@pytest.mark.parametrize(
    ("call", "way"),
    [
        ("attach_entities('shop.other', 'default', '{a}', 'name')", "key_columns => ARRAY['a', 'b']"),
        (
            "attach_relationships('shop.other', 'default', 'is', '{a}', 'shop.plants', '{b}', 'shop.plants',"
            ' options => \'{"key_columns": ["a"]}\')',
            """options => '{"key_columns": ["a", "b"]}'""",
        ),
    ],
)
def test_who_gives_no_key_is_told_how_keys_of_several_columns_are_given(db: Database, call: str, way: str) -> None:
    attach(db)
    db.execute("CREATE TABLE shop.other (a int, b int, name text, PRIMARY KEY (a, b))")
    own_by_owner(db, "TABLE shop.other")
    with pytest.raises(errors.InvalidParameterValue) as error:
        db.execute(f"SELECT graphrag.{call}".encode())
    hint = str(error.value.diag.message_hint)
    assert way in hint and "key_column => NULL" not in hint


def test_rows_that_a_worker_has_at_hand_learn_that_something_leads_to_them(db: Database) -> None:
    """What it has read of them says that nothing does."""
    db.execute(TABLES.encode())
    own_by_owner(db, "SCHEMA shop", *(f"TABLE shop.{name}" for name in ("plants", "machines")))
    db.execute(ROWS.encode())
    for call in ATTACH[:2]:
        db.execute(f"SELECT graphrag.{call}".encode())
    index(db)
    of_plants = "document_id IN (SELECT id FROM graphrag.documents WHERE starts_with(source_key, 'plants/'))"
    db.execute("UPDATE graphrag.documents SET indexed_at = NULL WHERE starts_with(source_key, 'plants/')")
    db.execute(f"UPDATE graphrag.jobs SET state = 'leased', lease = 2147483647 WHERE {of_plants}".encode())
    db.execute(f"SELECT graphrag.{ATTACH[3]}".encode())
    assert value(db, f"SELECT array_agg(DISTINCT state) FROM graphrag.jobs WHERE {of_plants}") == ["pending"]
    index(db)
    assert value(db, "SELECT count(*) FROM graphrag.entity_mentions WHERE starts_with(name, 'plants/')") == 4
