"""What is planted in an attached table, or in what it is made of, runs as the owner of the table alone."""

import pytest
from psycopg import errors, sql

from tests.runtime.cluster import Database
from tests.security.mallory import SUPERUSERS_TABLE, alarmed, reporters, work
from tests.sql.attach import attach, backfill, documents, unfollowed


def test_the_alarm_rings_for_a_superuser(db: Database, mallory: Database) -> None:
    mallory.execute("SELECT spy(1)")
    assert (alarmed(db), reporters(db)) == (False, {"mallory"})
    db.execute("SELECT mallory.spy(1)")
    assert (alarmed(db), reporters(db)) == (True, {"mallory", "postgres"})


PLANTED = {
    "index expression": "CREATE INDEX ON articles ((spy(1)), (spy(id)))",
    "unique index expression": "CREATE UNIQUE INDEX ON articles ((spy(1) + id))",
    "partial index": "CREATE INDEX ON articles (body) WHERE spy(1) = 1 AND spy(id) = 1",
    "extended statistics": "CREATE STATISTICS s ON (spy(1) + id), (spy(id)) FROM articles",
    "generated column": "ALTER TABLE articles ADD g int GENERATED ALWAYS AS (spy(1) + spy(id)) STORED",
    "default": "ALTER TABLE articles ADD g int DEFAULT spy(1)",
    "check constraint": "ALTER TABLE articles ADD CHECK (spy(1) = 1 AND spy(id) = 1)",
    "domain check": "CREATE DOMAIN checked AS text CHECK (spy(1) = 1 AND spy_text(VALUE) = 'x');"
    "ALTER TABLE articles ALTER body TYPE checked",
    "domain key": "CREATE DOMAIN number AS int CHECK (spy(VALUE) = 1); ALTER TABLE articles ALTER id TYPE number",
    "operator of the key's domain": "CREATE DOMAIN number AS int;"
    "CREATE FUNCTION same(number, number) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS"
    " 'BEGIN PERFORM mallory.report(); RETURN true; END';"
    "CREATE OPERATOR = (LEFTARG = number, RIGHTARG = number, FUNCTION = same);"
    "ALTER TABLE articles ALTER id TYPE number",
    "cast to text": "CREATE TYPE mood AS ENUM ('a', 'b'); ALTER TABLE articles DROP body, ADD body mood;"
    "CREATE FUNCTION as_text(mood) RETURNS text LANGUAGE plpgsql IMMUTABLE AS"
    " 'BEGIN PERFORM mallory.report(); RETURN 1; END'; CREATE CAST (mood AS text) WITH FUNCTION as_text(mood) AS IMPLICIT",
    "cast to json": "CREATE TYPE pair AS (a int, b text); ALTER TABLE articles DROP body, ADD body pair;"
    "CREATE FUNCTION as_json(pair) RETURNS json LANGUAGE plpgsql IMMUTABLE AS"
    " $$ BEGIN PERFORM mallory.report(); RETURN '{}'; END $$; CREATE CAST (pair AS json) WITH FUNCTION as_json(pair)",
    "range of her own": "CREATE FUNCTION apart(float8, float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS"
    " 'BEGIN PERFORM mallory.report(); RETURN 1; END';"
    "CREATE TYPE span AS RANGE (subtype = float8, subtype_diff = apart);"
    "ALTER TABLE articles ADD during span DEFAULT '[1,2]'; CREATE INDEX ON articles USING gist (during)",
    "policy": "ALTER TABLE articles ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON articles USING (spy(1) = 1 AND spy(id) = 1)",
    "triggers": "CREATE TRIGGER a BEFORE INSERT OR UPDATE ON articles FOR EACH ROW EXECUTE FUNCTION spy_trigger();"
    "CREATE TRIGGER graphrag_0 AFTER INSERT OR UPDATE OR DELETE ON articles EXECUTE FUNCTION spy_trigger();"
    "CREATE TRIGGER z AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON articles EXECUTE FUNCTION spy_definer()",
    "deferred constraint trigger": "CREATE CONSTRAINT TRIGGER c AFTER INSERT OR UPDATE OR DELETE ON articles"
    " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION spy_trigger()",
    "deferred trigger of another table, fired by an index": "CREATE TABLE bomb (n int);"
    "CREATE CONSTRAINT TRIGGER c AFTER INSERT ON bomb DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION spy_trigger();"
    "CREATE FUNCTION light_it() RETURNS void LANGUAGE sql SECURITY DEFINER AS 'INSERT INTO mallory.bomb VALUES (1)';"
    # It lights the bomb later: building an index may not.
    "CREATE FUNCTION light(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN 1; END';"
    "CREATE INDEX ON articles ((light(1)), (light(id)));"
    "CREATE OR REPLACE FUNCTION light(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS"
    " 'BEGIN PERFORM mallory.light_it(); RETURN 1; END'",
    "rule": "CREATE RULE r AS ON INSERT TO articles DO ALSO SELECT mallory.spy(1)",
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("planted", PLANTED)
def test_what_is_planted_in_a_table_runs_as_its_owner_alone(db: Database, mallory: Database, planted: str) -> None:
    mallory.execute("CREATE TABLE articles (id int PRIMARY KEY, body text)")
    if planted == "rule":
        attach(mallory, metadata=["id"])
    mallory.execute(PLANTED[planted].encode())
    mallory.execute("INSERT INTO articles (id) VALUES (1), (2)")
    if planted != "rule":
        attach(mallory, metadata=["id", "body"] if planted.startswith("cast") else ["id"])
    work(db)
    if planted != "rule":
        assert documents(db) == {}, "no worker reads it"
    backfill(mallory)
    mallory.execute("INSERT INTO articles (id) VALUES (3)")
    mallory.execute("UPDATE articles SET id = id + 10")
    mallory.execute("DELETE FROM articles WHERE id = 12")
    work(db)
    assert set(documents(db)) == {"11", "13"}
    mallory.execute("TRUNCATE articles")
    assert documents(db) == {}
    db.execute("SELECT graphrag.detach_table('mallory.articles')")
    db.execute("SELECT graphrag.attach_table('mallory.articles', 'default', 'id', '{body}')")
    work(db)
    db.execute("SELECT graphrag.drop_corpus('default')")
    assert not alarmed(db)
    assert reporters(db) <= {"mallory"}


def test_a_partition_runs_as_the_owner_alone(db: Database, mallory: Database) -> None:
    mallory.execute(
        "CREATE TABLE articles (id int PRIMARY KEY, body text CHECK (spy(1) = 1)) PARTITION BY RANGE (id);"
        "CREATE TABLE low PARTITION OF articles FOR VALUES FROM (0) TO (100); CREATE INDEX ON low ((spy(1))) WHERE spy(1) = 1;"
        "INSERT INTO articles VALUES (1, 'one')"
    )
    attach(mallory)
    work(db)
    backfill(mallory)
    mallory.execute("INSERT INTO articles VALUES (2, 'two')")
    assert documents(db) == {"1": "one", "2": "two"}
    assert (alarmed(db), reporters(db)) == (False, {"mallory"})


@pytest.mark.parametrize(
    "table",
    [
        "CREATE TABLE thing (id int NOT NULL, body text) PARTITION BY RANGE ((spy(1) + id))",
        "CREATE VIEW thing AS SELECT spy(1) AS id, 'x' AS body",
        "CREATE MATERIALIZED VIEW thing AS SELECT spy(1) AS id, 'x' AS body",
        "CREATE TABLE thing (id int PRIMARY KEY, body text); "
        "ALTER TABLE thing ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;CREATE POLICY p ON thing USING (spy(1) = 1)",
        "CREATE TABLE thing (id int PRIMARY KEY, body text); CREATE TABLE child (CHECK (spy(1) = 1)) INHERITS (thing)",
    ],
)
def test_what_is_refused_is_not_read_either(db: Database, mallory: Database, table: str) -> None:
    mallory.execute(table.encode())
    mallory.execute("TRUNCATE reports")
    for connection in (mallory, db):
        with pytest.raises((errors.WrongObjectType, errors.InvalidParameterValue, errors.ObjectNotInPrerequisiteState)):
            attach(connection, table="mallory.thing")
    assert (alarmed(db), reporters(db)) == (False, set())


def test_a_foreign_partition_stops_writes_and_is_not_attached(db: Database, mallory: Database) -> None:
    db.execute("CREATE EXTENSION file_fdw; CREATE SERVER files FOREIGN DATA WRAPPER file_fdw")
    db.execute("CREATE TABLE parted (id int, body text) PARTITION BY RANGE (id)")
    db.execute(
        "CREATE FOREIGN TABLE far PARTITION OF parted FOR VALUES FROM (0) TO (9) SERVER files OPTIONS (filename '/dev/null')"
    )
    db.execute("ALTER TABLE parted OWNER TO mallory")
    with pytest.raises(errors.WrongObjectType, match="parted"):
        attach(mallory, table="public.parted")


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "code",
    [
        "CREATE INDEX ON gift ((mallory.spy(id)))",
        "CREATE INDEX ON gift (body) WHERE mallory.spy(1) = 1",
        "CREATE STATISTICS s ON (mallory.spy(1) + id), body FROM gift",
        "ALTER TABLE gift ADD CHECK (mallory.spy(1) = 1)",
        "CREATE OPERATOR public.~~~ (LEFTARG = int, RIGHTARG = int, FUNCTION = mallory.same);"
        "CREATE INDEX ON gift (body) WHERE id OPERATOR(public.~~~) 1",
        "CREATE OPERATOR CLASS o FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=,"
        " OPERATOR 5 >, FUNCTION 1 mallory.compare(int, int); CREATE INDEX ON gift (id o)",
    ],
)
def test_a_superusers_table_that_runs_code_of_others_is_read_by_nobody(
    db: Database, mallory: Database, code: str
) -> None:
    mallory.execute(
        "CREATE FUNCTION same(int, int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS"
        " 'BEGIN PERFORM mallory.report(); RETURN true; END';"
        "CREATE FUNCTION compare(int, int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS"
        " 'BEGIN PERFORM mallory.report(); RETURN $1 - $2; END'"
    )
    db.execute(SUPERUSERS_TABLE)
    attach(db, table="gift")
    db.execute(code.encode())
    # Planting it has run it.
    db.execute("SELECT setval('mallory.alarm', 1, false)")
    with unfollowed(mallory, "42501", "mallory") as hints:
        mallory.execute("INSERT INTO public.gift VALUES (1, 'one')")
    assert 'Give it to "postgres"' in hints[0]
    work(db)
    ((waits,),) = db.execute("SELECT waiting_for FROM graphrag.progress").fetchall()
    assert "would run code of others" in waits
    with pytest.raises(errors.InsufficientPrivilege, match="not read in this session"):
        db.execute("CALL graphrag.backfill_table('gift')")
    db.execute("SELECT graphrag.detach_table('gift')")
    with pytest.raises(errors.InsufficientPrivilege, match="would run code of others"):
        attach(db, table="gift")
    assert not alarmed(db)


def test_partition_and_child_of_others_stop_the_reading_of_a_superusers_table(db: Database, mallory: Database) -> None:
    db.execute(
        "CREATE TABLE gift (id int PRIMARY KEY, body text) PARTITION BY RANGE (id); GRANT ALL ON gift TO mallory;"
        "CREATE TABLE low PARTITION OF gift FOR VALUES FROM (0) TO (100);"
        "CREATE TABLE plain (id int PRIMARY KEY, slug text NOT NULL UNIQUE, body text); GRANT ALL ON plain TO mallory"
    )
    attach(db, table="gift")
    attach(db, table="plain", key="slug")
    db.execute(
        "CREATE TABLE child () INHERITS (plain); ALTER TABLE child OWNER TO mallory; ALTER TABLE low OWNER TO mallory"
    )
    mallory.execute("CREATE INDEX ON public.low ((mallory.spy(1))); CREATE INDEX ON public.child ((mallory.spy(1)))")
    with unfollowed(mallory, "42501", "would run code of others"):
        mallory.execute("INSERT INTO public.gift VALUES (1, 'one')")
    # Its trigger runs as the superuser, too.
    mallory.execute(
        "INSERT INTO public.low VALUES (2, 'two'); UPDATE public.low SET body = 'second'; DELETE FROM public.low"
    )
    mallory.execute('ALTER TRIGGER graphrag_1_insert ON public.low RENAME TO "mine\'; SELECT mallory.spy(1); --"')
    mallory.execute("INSERT INTO public.low VALUES (3, 'three'); TRUNCATE public.low")
    with unfollowed(mallory, "42501", "would run code of others"):
        mallory.execute("INSERT INTO public.plain VALUES (1, 's', 'one')")
    work(db)
    assert not alarmed(db)


def test_names_of_partitions_are_names(db: Database, mallory: Database) -> None:
    """What follows partitions runs with a superuser's rights in whoever's DDL."""
    hostile = "x\"'; SELECT mallory.spy(1); --%I$$"
    name = sql.Identifier(hostile)
    mallory.execute("CREATE TABLE articles (id int PRIMARY KEY, body text) PARTITION BY RANGE (id)")
    attach(mallory)
    mallory.execute(sql.SQL("CREATE TABLE {} PARTITION OF articles FOR VALUES FROM (0) TO (9)").format(name))
    mallory.execute(sql.SQL("INSERT INTO {} VALUES (1, 'one')").format(name))
    assert documents(db) == {"1": "one"}
    mallory.execute(sql.SQL("ALTER TABLE articles DETACH PARTITION {}").format(name))
    mallory.execute(sql.SQL("INSERT INTO {} VALUES (2, 'two')").format(name))
    backfill(mallory)
    ((left,),) = db.execute(
        "SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal AND tgrelid = %s::regclass",
        [sql.Identifier("mallory", hostile).as_string(db)],
    ).fetchall()
    assert (documents(db), left, alarmed(db)) == ({}, 0, False)


def test_a_superusers_table_in_a_schema_of_others_is_not_attached(db: Database, mallory: Database) -> None:
    db.execute("CREATE TABLE mallory.gift (id int PRIMARY KEY, body text)")
    with pytest.raises(errors.InsufficientPrivilege, match='schema mallory of role "mallory"'):
        attach(db, table="mallory.gift")
