"""A small shop, whose tables tests attach: plants, machines that stand in them, persons, and who is certified for what."""

from tests.runtime.cluster import Database

TABLES = """
CREATE SCHEMA shop;
CREATE TABLE shop.plants (id int PRIMARY KEY, name text NOT NULL UNIQUE, city text);
CREATE TABLE shop.machines (id int PRIMARY KEY, code text UNIQUE, nick text, plant_id int REFERENCES shop.plants,
                            built date, notes text);
CREATE TABLE shop.persons (id int PRIMARY KEY, name text);
CREATE TABLE shop.certificates (person_id int, machine_id int, since date, PRIMARY KEY (person_id, machine_id));
"""
ROWS = """
INSERT INTO shop.plants VALUES (1, 'Osaka Works', 'Osaka'), (2, 'Lyon Works', 'Lyon');
INSERT INTO shop.machines VALUES (7, 'RZ-500K', 'Big Bertha', 1, '2019-05-01', 'It needs methane from the Kestrel engine.'),
                                 (8, 'LH 455', NULL, 2, NULL, NULL);
INSERT INTO shop.persons VALUES (1, 'Ann Lee'), (2, 'Ann Lee');
INSERT INTO shop.certificates VALUES (1, 7, '2024-02-29');
"""
ATTACH = [
    "attach_entities('shop.plants', 'default', '{id}', 'name', type => 'plant', attributes => '{city}')",
    "attach_entities('shop.machines', 'default', '{id}', 'code', aliases => '{nick}', type => 'machine',"
    " attributes => '{built}', text => '{notes}')",
    "attach_entities('shop.persons', 'default', '{id}', 'name', type => 'person')",
    "attach_relationships('shop.machines', 'default', 'stands in', '{plant_id}', 'shop.plants')",
    "attach_relationships('shop.certificates', 'default', 'certified for', '{machine_id}', 'shop.machines',"
    " '{person_id}', 'shop.persons', '{since}')",
]
MANUAL = "The RZ500K press leaks oil. Ann Lee mended it."


def attach(db: Database, *, rows_first: bool = True) -> None:
    """Make and attach the shop's tables in a database with the extension, and index them with a document."""
    db.execute(TABLES.encode())
    own_by_owner(
        db, "SCHEMA shop", *(f"TABLE shop.{name}" for name in ("plants", "machines", "persons", "certificates"))
    )
    if rows_first:
        db.execute(ROWS.encode())
    for call in ATTACH:
        db.execute(f"SELECT graphrag.{call}".encode())
    if not rows_first:
        db.execute(ROWS.encode())
    db.execute("INSERT INTO graphrag.documents (source_key, content) VALUES ('manual', %s)", [MANUAL])
    index(db)


def attach_works(db: Database) -> None:
    """Make and attach 20 makers, models and machines, and index them with a report that calls one machine by its nickname."""
    db.execute("""
        CREATE SCHEMA works;
        CREATE TABLE works.makers (id int PRIMARY KEY, name text UNIQUE);
        CREATE TABLE works.models (id int PRIMARY KEY, code text UNIQUE, maker int);
        CREATE TABLE works.machines (id int PRIMARY KEY, tag text UNIQUE, nick text, model int);
        INSERT INTO works.makers SELECT n, 'Maker ' || chr(64 + n) || 'ort' FROM generate_series(1, 20) n;
        INSERT INTO works.models SELECT n, 'QX-' || 10 * n, n FROM generate_series(1, 20) n;
        INSERT INTO works.machines SELECT n, 'M-' || n, CASE n WHEN 13 THEN 'Big Bertha' END, n FROM generate_series(1, 20) n;
        INSERT INTO graphrag.documents (source_key, content) VALUES ('report', 'Big Bertha leaked methane at night.')
    """)
    own_by_owner(db, "SCHEMA works", "TABLE works.makers", "TABLE works.models", "TABLE works.machines")
    for call in (
        "attach_entities('works.makers', 'default', '{id}', 'name')",
        "attach_entities('works.models', 'default', '{id}', 'code')",
        "attach_entities('works.machines', 'default', '{id}', 'tag', '{nick}')",
        "attach_relationships('works.models', 'default', 'made by', '{maker}', 'works.makers')",
        "attach_relationships('works.machines', 'default', 'is of model', '{model}', 'works.models')",
    ):
        db.execute(f"SELECT graphrag.{call}".encode())
    index(db)


def own_by_owner(db: Database, *items: str) -> None:
    """Give tables to the owner of the schema graphrag, who is no superuser beside a database without the extension."""
    owners = db.execute(
        "SELECT relowner::regrole::text FROM pg_class WHERE oid = 'graphrag.corpora'::regclass"
    ).fetchall()
    for item in items:
        db.execute(f"ALTER {item} OWNER TO {owners[0][0]}".encode())


def index(db: Database) -> None:
    db.execute("CALL graphrag.process_jobs()")


def edges(db: Database) -> set[tuple[str, str, str]]:
    """Typed relationships: source, type, target."""
    return set(db.execute("SELECT source, keywords, target FROM graphrag.graph_edges WHERE keywords <> ''").fetchall())


def keys(db: Database, question: str = "RZ-500K Osaka Lyon", mode: str = "hybrid") -> set[str]:
    results = db.execute("SELECT source_key FROM graphrag.search(%s, mode => %s, top_k => 50)", [question, mode])
    return {key for (key,) in results.fetchall()}
