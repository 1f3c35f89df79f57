"""suggest_attachments(): the calls that make a schema's tables part of the graph, from the catalogs alone."""

import pytest
from psycopg import errors

from tests.runtime.cluster import Database

SCHEMA = """
CREATE SCHEMA shop;
CREATE TABLE shop.countries (code char(2) PRIMARY KEY, name text NOT NULL UNIQUE, population int);
CREATE TABLE shop.plants (country char(2) REFERENCES shop.countries, no int, name text, opened date, PRIMARY KEY (country, no));
CREATE TABLE shop.machines (
    id int PRIMARY KEY, serial text UNIQUE, nickname text, model_name text, notes text, plant_country char(2), plant_no int,
    api_key text, created_at timestamptz, payload jsonb, parent_id int REFERENCES shop.machines,
    FOREIGN KEY (plant_no, plant_country) REFERENCES shop.plants (no, country));
CREATE TABLE shop.persons (id uuid PRIMARY KEY, full_name text, email text UNIQUE);
CREATE TABLE shop.certificates (
    person_id uuid REFERENCES shop.persons, machine_id int REFERENCES shop.machines, since date,
    PRIMARY KEY (person_id, machine_id));
COMMENT ON CONSTRAINT machines_parent_id_fkey ON shop.machines IS 'part of';
CREATE TABLE shop.events (at timestamptz, line text);
CREATE VIEW shop.names AS SELECT name FROM shop.plants;
CREATE TEMP TABLE temporary (id int PRIMARY KEY, name text);
"""


@pytest.fixture
def shop(db: Database) -> Database:
    db.execute(SCHEMA.encode())
    return db


def suggested(db: Database) -> list[tuple[str, str]]:
    return db.execute("SELECT kind, call FROM graphrag.suggest_attachments('shop')").fetchall()


def test_columns_become_names_aliases_attributes_and_texts(shop: Database) -> None:
    calls = [call for kind, call in suggested(shop) if kind == "entities"]
    assert calls == [
        "SELECT graphrag.attach_entities('shop.countries', 'default', ARRAY['code'], name => 'name', aliases => ARRAY['code'],"
        " type => 'country', attributes => ARRAY['population']);",
        "SELECT graphrag.attach_entities('shop.machines', 'default', ARRAY['id'], name => 'serial', aliases => ARRAY['nickname'],"
        " type => 'machine', attributes => ARRAY['model_name'], text => ARRAY['notes']);",
        "SELECT graphrag.attach_entities('shop.persons', 'default', ARRAY['id'], name => 'full_name',"
        " aliases => ARRAY['email'], type => 'person');",
        "SELECT graphrag.attach_entities('shop.plants', 'default', ARRAY['country', 'no'], name => 'name', type => 'plant',"
        " attributes => ARRAY['opened']);",
    ]


def test_foreign_keys_and_a_table_without_a_name_become_relationships(shop: Database) -> None:
    calls = [call for kind, call in suggested(shop) if kind == "relationships"]
    assert calls == [
        "SELECT graphrag.attach_relationships('shop.certificates', 'default', type => 'certificate',"
        " to_columns => ARRAY['machine_id'], to_table => 'shop.machines',"
        " from_columns => ARRAY['person_id'], from_table => 'shop.persons', attributes => ARRAY['since']);",
        # In the order of the other table's key, not of the constraint.
        "SELECT graphrag.attach_relationships('shop.machines', 'default', type => 'plant',"
        " to_columns => ARRAY['plant_country', 'plant_no'], to_table => 'shop.plants');",
        "SELECT graphrag.attach_relationships('shop.machines', 'default', type => 'part of', to_columns => ARRAY['parent_id'],"
        " to_table => 'shop.machines');",
        "SELECT graphrag.attach_relationships('shop.plants', 'default', type => 'country', to_columns => ARRAY['country'],"
        " to_table => 'shop.countries');",
    ]


def test_the_calls_run_in_their_order(shop: Database) -> None:
    for _, call in suggested(shop):
        shop.execute(call.encode())
    shop.execute("INSERT INTO shop.countries VALUES ('JP', 'Japan', 1)")
    assert shop.execute("SELECT title FROM graphrag.documents").fetchall() == [("Japan",)]


def test_secrets_are_left_out_and_named(shop: Database) -> None:
    rows = shop.execute(
        "SELECT call, reason FROM graphrag.suggest_attachments('shop') WHERE source = 'shop.machines'::regclass"
    ).fetchall()
    assert not any("api_key" in call for call, _ in rows)
    assert any('left out as secret: "api_key"' in reason for _, reason in rows)


def test_tables_that_the_caller_may_not_read_are_not_named(shop: Database) -> None:
    shop.execute("CREATE ROLE analyst")
    shop.execute("GRANT USAGE ON SCHEMA graphrag, shop TO analyst; GRANT SELECT ON shop.countries TO analyst")
    shop.execute("GRANT EXECUTE ON FUNCTION graphrag.suggest_attachments TO analyst")
    with shop.transaction(force_rollback=True):
        shop.execute("SET LOCAL ROLE analyst")
        rows = shop.execute("SELECT source::text, reason FROM graphrag.suggest_attachments('shop')").fetchall()
    shop.execute("DROP OWNED BY analyst; DROP ROLE analyst")
    assert [source for source, _ in rows] == ["shop.countries"]
    assert 'for its owner "postgres" to call' in rows[0][1]


def test_a_join_table_without_a_primary_key_is_told_apart_by_its_unique_columns(db: Database) -> None:
    db.execute(
        "CREATE SCHEMA shop; CREATE TABLE shop.a (id int PRIMARY KEY, name text); "
        "CREATE TABLE shop.ab (a int NOT NULL REFERENCES shop.a, b int NOT NULL REFERENCES shop.a, UNIQUE (a, b))"
    )
    assert [call for kind, call in suggested(db) if kind == "relationships"] == [
        "SELECT graphrag.attach_relationships('shop.ab', 'default', type => 'ab', to_columns => ARRAY['b'], to_table => 'shop.a',"
        """ from_columns => ARRAY['a'], from_table => 'shop.a', options => '{"key_columns": ["a", "b"]}');"""
    ]
    for _, call in suggested(db):
        db.execute(call.encode())


def test_names_that_need_quotes_are_quoted(db: Database) -> None:
    db.execute("""CREATE SCHEMA "Ö'x"; CREATE TABLE "Ö'x"."T"";--" ("I'd" int PRIMARY KEY, "Name" text UNIQUE)""")
    [(call,)] = db.execute("SELECT call FROM graphrag.suggest_attachments('Ö''x')").fetchall()
    assert (
        call
        == """SELECT graphrag.attach_entities('"Ö''x"."T"";--"', 'default', ARRAY['I''d'], name => 'Name', type => 't";--');"""
    )


MEETING = """
CREATE SCHEMA shop;
CREATE TABLE shop.countries (id int PRIMARY KEY, name text UNIQUE);
CREATE TABLE shop.addresses (id int PRIMARY KEY, "AddressName" text, synonyms varchar[], alias int, aliases int);
CREATE TABLE shop."Orders:2" ("OrderID" int PRIMARY KEY, name text, country text, country_id int REFERENCES shop.countries,
    home_id int REFERENCES shop.countries, home_code int REFERENCES shop.countries, address int REFERENCES shop.addresses,
    "AliasID" int REFERENCES shop.addresses, "ShipID" int REFERENCES shop.addresses, "x:y" int REFERENCES shop.addresses);
CREATE TABLE shop.links (a int REFERENCES shop.countries, b int REFERENCES shop.addresses, "from" int, link int,
    PRIMARY KEY (a, b));
"""


def test_the_calls_run_where_names_meet(db: Database) -> None:
    """Where a relationship would be called as an attribute or as another one, or as no label can be."""
    db.execute(MEETING)
    comment = "Where it goes: the address, in a comment that is so long that no label can be all of it."
    db.execute(f"""COMMENT ON CONSTRAINT "Orders:2_address_fkey" ON shop."Orders:2" IS '{comment}'""".encode())
    calls = [call for _, call in suggested(db)]
    for call in calls:
        db.execute(call.encode())
    labels = [call.split("type => '")[1].split("'")[0] for call in calls]
    assert labels[:3] == ["orders 2", "address", "country"]
    assert labels[3:] == ["country id", "home id", "home code", "address", "Alias", "Ship", "x y", "b"]
    assert "name => 'AddressName', aliases => ARRAY['synonyms'], type => 'address');" in calls[1]
    reasons = db.execute("SELECT reason FROM graphrag.suggest_attachments('shop')").fetchall()
    assert 'left out, since rows have a field of this name: "alias", "aliases"' in reasons[1][0]


def test_a_key_to_which_foreign_keys_lead_is_taken(db: Database) -> None:
    db.execute("""
        CREATE SCHEMA shop; CREATE SCHEMA other; CREATE TABLE other.makers (id int PRIMARY KEY, name text);
        CREATE TABLE shop.models (id int PRIMARY KEY, code text NOT NULL UNIQUE, name text);
        CREATE TABLE shop.machines (id int PRIMARY KEY, name text,
            model text REFERENCES shop.models (code), maker int REFERENCES other.makers);
    """)
    rows = db.execute("SELECT call, reason FROM graphrag.suggest_attachments('shop')").fetchall()
    assert "'default', ARRAY['code'], name => 'name', aliases => ARRAY['code']" in rows[1][0]
    assert (
        'not proposed, since they do not lead to the key of a table of this schema: "machines_maker_fkey"' in rows[0][1]
    )
    assert "type => 'model', to_columns => ARRAY['model'], to_table => 'shop.models'" in rows[2][0]
    for call, _ in rows:
        db.execute(call.encode())


@pytest.mark.parametrize("schema", ["nowhere", None])
def test_an_unknown_schema_is_an_error(db: Database, schema: str | None) -> None:
    with pytest.raises(errors.InvalidSchemaName) as caught:
        db.execute("SELECT * FROM graphrag.suggest_attachments(%s)", [schema])
    assert caught.value.diag.message_hint


SCANS = "SELECT sum(seq_scan + coalesce(idx_scan, 0)) FROM pg_stat_xact_all_tables WHERE schemaname = 'shop'"


def test_it_reads_no_row_of_a_table(shop: Database) -> None:
    with shop.transaction(force_rollback=True):
        before = shop.execute(SCANS).fetchone()
        suggested(shop)
        assert shop.execute(SCANS).fetchone() == before
