"""A caller sees of attached rows what he may SELECT himself, in every way to look; and nobody's code gets his rights."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from psycopg import errors

from tests.runtime.cluster import Database
from tests.sql.rows import attach, edges, index, keys

ALL = {"manual", "plants/1", "plants/2", "machines/7", "machines/8", "persons/1", "persons/2", "certificates/1/7"}


@pytest.fixture(scope="module")
def shop(module_db: Database) -> Database:
    attach(module_db)
    module_db.execute("CREATE ROLE row_reader; CREATE ROLE row_owner; GRANT graphrag_reader TO row_reader, row_owner")
    return module_db


@contextmanager
def reader(db: Database, *grants: str) -> Iterator[Database]:
    """A reader with these statements run before, all undone after."""
    with db.transaction(force_rollback=True):
        for statement in grants:
            db.execute(statement.encode())
        db.execute("SET LOCAL ROLE row_reader")
        yield db


SCHEMA = "GRANT USAGE ON SCHEMA shop TO row_reader"
TABLES = "GRANT SELECT ON ALL TABLES IN SCHEMA shop TO row_reader"
SECURED = "ALTER TABLE shop.machines ENABLE ROW LEVEL SECURITY"
ONE = "CREATE POLICY one ON shop.machines USING (id = 7)"


def visible(db: Database) -> set[str]:
    """The keys that the table of documents shows; what a search finds is among them, and the graph is of them."""
    shown = {key for (key,) in db.execute("SELECT source_key FROM graphrag.documents")}
    assert keys(db) <= shown
    assert {key for (key,) in db.execute("SELECT d.source_key FROM graphrag.graph_mentions d")} <= shown
    return shown


def test_who_may_read_the_tables_sees_the_rows(shop: Database) -> None:
    with reader(shop, SCHEMA, TABLES) as caller:
        assert visible(caller) == ALL


@pytest.mark.parametrize(
    ("grants", "hidden"),
    [
        ([], {"plants", "machines", "persons", "certificates"}),
        ([TABLES], {"plants", "machines", "persons", "certificates"}),
        ([SCHEMA, "GRANT SELECT ON shop.plants TO row_reader"], {"machines", "persons", "certificates"}),
        ([SCHEMA, TABLES, "REVOKE SELECT ON shop.machines FROM row_reader"], {"machines"}),
        (
            [
                SCHEMA,
                TABLES,
                "REVOKE SELECT ON shop.machines FROM row_reader",
                "GRANT SELECT (id, code, nick, plant_id, built) ON shop.machines TO row_reader",
            ],
            {"machines"},
        ),
    ],
)
def test_who_may_not_read_a_table_sees_none_of_its_rows(shop: Database, grants: list[str], hidden: set[str]) -> None:
    with reader(shop, *grants) as caller:
        assert visible(caller) == {key for key in ALL if key.split("/")[0] not in hidden}


def test_columns_that_are_granted_are_enough(shop: Database) -> None:
    columns = "GRANT SELECT (id, code, nick, plant_id, built, notes) ON shop.machines TO row_reader"
    with reader(shop, SCHEMA, TABLES, "REVOKE SELECT ON shop.machines FROM row_reader", columns) as caller:
        assert visible(caller) == ALL


def test_policies_of_the_table_decide_on_each_row(shop: Database) -> None:
    with reader(shop, SCHEMA, TABLES, SECURED, ONE) as caller:
        assert visible(caller) == ALL - {"machines/8"}
        names = {name for (name,) in caller.execute("SELECT name FROM graphrag.graph_nodes")}
        assert "RZ-500K" in names
        assert "LH 455" not in names


def test_policies_that_show_every_row_change_nothing(shop: Database) -> None:
    with reader(shop, SCHEMA, TABLES) as caller:
        whole = edges(caller), keys(caller)
    with reader(shop, SCHEMA, TABLES, SECURED, "CREATE POLICY every ON shop.machines USING (true)") as caller:
        assert visible(caller) == ALL
        assert (edges(caller), keys(caller)) == whole


def test_no_path_leads_through_a_hidden_row(shop: Database) -> None:
    with reader(shop, SCHEMA, TABLES, "REVOKE SELECT ON shop.machines FROM row_reader") as caller:
        assert (
            caller.execute(
                "SELECT 1 FROM graphrag.neighbors('RZ500K', hops => 4) WHERE name = 'Osaka Works'"
            ).fetchall()
            == []
        )
        assert not {name for edge in edges(caller) for name in edge} & {"RZ-500K", "Big Bertha", "plants/1 "}


def test_a_filter_meets_no_hidden_row(shop: Database) -> None:
    find = (
        'SELECT source_key FROM graphrag.search(\'machine\', filter => \'{"$row": {"stands in": {"city": "Osaka"}}}\')'
    )
    with reader(shop, SCHEMA, TABLES) as caller:
        assert caller.execute(find.encode()).fetchall() == [("machines/7",)]
    with reader(shop, SCHEMA, "GRANT SELECT ON shop.machines TO row_reader") as caller:
        assert caller.execute(find.encode()).fetchall() == []
    rows = "ALTER TABLE shop.plants ENABLE ROW LEVEL SECURITY", "CREATE POLICY one ON shop.plants USING (id = 2)"
    with reader(shop, SCHEMA, TABLES, *rows) as caller:
        assert caller.execute(find.encode()).fetchall() == []


def test_a_hidden_row_changes_nothing(db: Database) -> None:
    """As if it were not there: nearness, names and weights are those of the same corpus without it."""
    attach(db)
    db.execute("DROP ROLE IF EXISTS row_stranger; CREATE ROLE row_stranger; GRANT graphrag_reader TO row_stranger")
    for statement in (SCHEMA, TABLES, SECURED, ONE):
        db.execute(statement.replace("row_reader", "row_stranger").encode())

    def look() -> list[object]:
        with db.transaction(force_rollback=True):
            db.execute("SET LOCAL ROLE row_stranger")
            return [
                db.execute(statement).fetchall()
                for statement in (
                    "SELECT source_key, score FROM graphrag.search('RZ-500K Osaka Works', mode => 'naive', top_k => 50)",
                    "SELECT name, hop, weight, path FROM graphrag.neighbors('RZ-500K', hops => 4)",
                    "SELECT name, type, description, degree, mention_count FROM graphrag.graph_nodes ORDER BY 1",
                    "SELECT source, keywords, target, weight, description FROM graphrag.graph_edges ORDER BY 1, 3",
                    "SELECT name, attribute, value FROM graphrag.entity_attributes ORDER BY 1, 2",
                )
            ]

    before = look()
    assert any("RZ-500K" in str(part) for part in before)
    db.execute(
        "UPDATE shop.machines SET code = 'Osaka Works RZ-500K', plant_id = 1, nick = 'Kestrel engine' WHERE id = 8"
    )
    index(db)
    assert look() == before


@pytest.mark.parametrize(
    "policy",
    [
        "CREATE POLICY evil ON shop.machines USING (shop.take())",
        "CREATE POLICY evil ON shop.machines USING (id OPERATOR(shop.===) 7)",
        "CREATE POLICY evil ON shop.machines USING (EXISTS (SELECT FROM shop.taker))",
        "CREATE INDEX evil ON shop.machines (shop.take_immutable(id)); CREATE POLICY any_row ON shop.machines USING (true)",
        "CREATE POLICY evil ON shop.machines USING (id::shop.taking IS NOT NULL)",
        # PostgreSQL's own, which run any text: in no catalog of dependencies.
        "CREATE POLICY evil ON shop.machines USING (query_to_xml('SELECT shop.take()', true, true, '') IS NOT NULL)",
        "CREATE POLICY evil ON shop.machines USING (table_to_xml('shop.taker', true, true, '') IS NOT NULL)",
        "CREATE POLICY evil ON shop.machines USING (set_config('role', 'none', true) IS NOT NULL)",
    ],
)
def test_the_owner_of_a_table_runs_nothing_as_who_searches(shop: Database, policy: str) -> None:
    """A policy that calls a function of the table's owner shows no row, and is not run."""
    with shop.transaction(force_rollback=True):
        for statement in (
            "CREATE TABLE public.taken (who name)",
            "GRANT ALL ON public.taken TO PUBLIC",
            "GRANT CREATE, USAGE ON SCHEMA shop TO row_owner",
            "ALTER TABLE shop.machines OWNER TO row_owner",
            SCHEMA,
            TABLES,
            SECURED,
            "SET LOCAL ROLE row_owner",
            "CREATE FUNCTION shop.take() RETURNS boolean LANGUAGE plpgsql VOLATILE AS"
            " 'BEGIN INSERT INTO public.taken VALUES (current_user); RETURN true; END'",
            "CREATE FUNCTION shop.take_immutable(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS"
            " 'BEGIN PERFORM shop.take(); RETURN 1; END'",
            "CREATE FUNCTION shop.same(int, int) RETURNS boolean LANGUAGE sql AS 'SELECT shop.take()'",
            "CREATE OPERATOR shop.=== (LEFTARG = int, RIGHTARG = int, FUNCTION = shop.same)",
            "CREATE VIEW shop.taker AS SELECT 1 WHERE shop.take()",
            "CREATE DOMAIN shop.taking AS int CHECK (shop.take_immutable(VALUE) = 1)",
            "GRANT SELECT ON shop.taker TO PUBLIC",
            policy,
            "RESET ROLE",
            "TRUNCATE public.taken",
            "SET LOCAL ROLE row_reader",
        ):
            shop.execute(statement.encode())
        assert "machines/7" not in visible(shop)
        assert shop.execute("SELECT * FROM public.taken").fetchall() == []


@pytest.mark.parametrize(
    "policy",
    [
        "CREATE POLICY evil ON shop.machines USING (7::shop.taking = 7)",
        "CREATE POLICY evil ON shop.machines USING (NOT EXISTS (SELECT FROM shop.asking))",
    ],
)
def test_whom_a_superusers_policy_asks_runs_nothing(shop: Database, policy: str) -> None:
    """Types and tables of others, also behind a superuser's view."""
    with shop.transaction(force_rollback=True):
        for statement in (
            "CREATE TABLE public.taken (who name); GRANT ALL ON public.taken TO PUBLIC",
            "GRANT CREATE, USAGE ON SCHEMA shop TO row_owner",
            SCHEMA,
            TABLES,
            SECURED,
            "SET LOCAL ROLE row_owner",
            "CREATE FUNCTION shop.take() RETURNS void LANGUAGE sql AS 'INSERT INTO public.taken VALUES (current_user)'",
            "CREATE FUNCTION shop.take(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS"
            " 'BEGIN PERFORM shop.take(); RETURN 1; END'",
            "CREATE DOMAIN shop.taking AS int CHECK (shop.take(VALUE) = 1)",
            "CREATE TABLE shop.asked (id int); CREATE INDEX ON shop.asked (shop.take(1)); GRANT SELECT ON shop.asked TO PUBLIC",
            "RESET ROLE",
            # A view of a superuser's over the table of another.
            "CREATE VIEW shop.asking AS SELECT id FROM shop.asked; GRANT SELECT ON shop.asking TO PUBLIC",
            policy,
            "TRUNCATE public.taken",
            "SET LOCAL ROLE row_reader",
        ):
            shop.execute(statement.encode())
        assert "machines/7" not in visible(shop)
        assert shop.execute("SELECT * FROM public.taken").fetchall() == []


def test_the_rights_of_the_caller_are_not_those_of_the_session(shop: Database) -> None:
    """Who may act as the caller may not act as the superuser who took on his role."""
    with shop.transaction(force_rollback=True):
        for statement in (SCHEMA, TABLES, SECURED, ONE, "GRANT row_reader TO row_owner"):
            shop.execute(statement.encode())
        shop.execute("ALTER TABLE shop.machines OWNER TO row_owner")
        shop.execute("SET LOCAL ROLE row_reader")
        assert "machines/7" not in visible(shop)


def test_who_audits_runs_nothing_of_attached_tables(shop: Database) -> None:
    with shop.transaction(force_rollback=True):
        for statement in (
            "CREATE SEQUENCE public.alarm; GRANT ALL ON SEQUENCE public.alarm TO PUBLIC",
            "ALTER TABLE shop.machines OWNER TO row_owner",
            SCHEMA,
            TABLES,
            SECURED,
            "CREATE POLICY evil ON shop.machines USING (query_to_xml("
            "'SELECT nextval(''public.alarm'')', true, true, '') IS NOT NULL)",
        ):
            shop.execute(statement.encode())
        verdicts = shop.execute(
            "SELECT verdict FROM graphrag.audit('row_reader') WHERE kind IN ('table', 'view')"
        ).fetchall()
        assert ("held",) in verdicts
        assert shop.execute("SELECT is_called FROM public.alarm").fetchall() == [(False,)]


def test_a_schema_of_others_is_not_read_by_name(shop: Database) -> None:
    """Its owner could put another table under the name."""
    grants = [
        "GRANT USAGE ON SCHEMA shop TO row_reader",
        TABLES,
        SECURED,
        ONE,
        "ALTER SCHEMA shop OWNER TO row_owner",
        SCHEMA,
    ]
    with reader(shop, *grants) as caller:
        assert visible(caller) == ALL - {"machines/7", "machines/8"}


def test_a_policy_that_fails_hides_the_rows(shop: Database) -> None:
    with reader(shop, SCHEMA, TABLES, SECURED, "CREATE POLICY odd ON shop.machines USING (1 / (id - 7) = 0)") as caller:
        assert visible(caller) == ALL - {"machines/7", "machines/8"}


def test_where_the_stack_ends_no_row_is_left_out(shop: Database) -> None:
    """All that he sees, or an error: the rows of a table that could not be asked are no rows that are hidden."""
    deep = """CREATE FUNCTION pg_temp.deep(depth int) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
        IF depth > 0 THEN RETURN pg_temp.deep(depth - 1); END IF;
        RETURN (SELECT count(*) FROM graphrag.documents);
    END $$"""
    deepest = """CREATE FUNCTION pg_temp.counts() RETURNS SETOF bigint LANGUAGE plpgsql AS $$
    DECLARE
        depth int := 0;
        step int := 4096;
    BEGIN
        -- A plan that is kept needs less stack than its making.
        FOR n IN 1..7 LOOP RETURN NEXT pg_temp.deep(0); END LOOP;
        WHILE step > 0 LOOP
            BEGIN
                RETURN NEXT pg_temp.deep(depth + step);
                depth := depth + step;
            EXCEPTION WHEN statement_too_complex THEN NULL;
            END;
            step := step / 2;
        END LOOP;
    END $$"""
    with reader(shop, SCHEMA, TABLES, SECURED, ONE) as caller:
        caller.execute(deep.encode())
        caller.execute(deepest.encode())
        counts = {count for (count,) in caller.execute("SELECT pg_temp.counts()").fetchall()}
    assert counts == {len(ALL) - 1}


def test_nobody_attaches_the_table_of_another(shop: Database) -> None:
    grants = [
        "GRANT EXECUTE ON FUNCTION graphrag.attach_entities TO row_reader",
        SCHEMA,
        TABLES,
        "CREATE TABLE shop.mine (id int PRIMARY KEY, name text)",
    ]
    with reader(shop, *grants) as caller, pytest.raises(Exception, match="must be owner of table"):
        caller.execute("SELECT graphrag.attach_entities('shop.mine', 'default', '{id}', 'name')")


def test_who_attaches_and_detaches_locks_documents_for_nobody(db: Database, mallory: Database) -> None:
    """In a transaction that stays open, others read and the owner gives grants."""
    db.execute("GRANT EXECUTE ON ROUTINE graphrag.attach_entities TO mallory; SET lock_timeout = '2s'")
    mallory.execute("CREATE TABLE things (id int PRIMARY KEY, name text UNIQUE)")
    attach_things = "SELECT graphrag.attach_entities('mallory.things', 'default', '{id}', 'name')"
    with pytest.raises(errors.ObjectNotInPrerequisiteState, match="no row-level security for rows"):
        mallory.execute(attach_things.encode())
    db.execute("SELECT graphrag.repair()")
    for statement in (attach_things, "SELECT graphrag.detach_table('mallory.things')"):
        with mallory.transaction():
            mallory.execute(statement.encode())
            db.execute("SELECT count(*) FROM graphrag.documents")
            with db.transaction():
                db.execute("LOCK TABLE graphrag.corpus_grants IN SHARE ROW EXCLUSIVE MODE NOWAIT")
    assert db.execute("SELECT graphrag._has_row_policy()").fetchall() == [(True,)]


def test_a_request_by_hand_is_checked_like_the_function(shop: Database) -> None:
    request = (
        "INSERT INTO graphrag._attach_requests (action, kind, source, corpus, key_columns, title_column, content_columns,"
        " metadata_columns)"
        " VALUES ('attach', 'entities', 'shop.mine'::regclass, 'default', '{id}', 'name', '{}', '{}')"
    )
    grants = [
        SCHEMA,
        TABLES,
        "CREATE TABLE shop.mine (id int PRIMARY KEY, name text)",
        "ALTER TABLE shop.mine OWNER TO row_reader",
    ]
    with reader(shop, *grants) as caller, pytest.raises(Exception, match="may not call"):
        caller.execute(request.encode())


@pytest.mark.parametrize("grants", [[], [SCHEMA, TABLES, SECURED, "CREATE POLICY one ON shop.machines USING (id = 8)"]])
def test_explain_tells_nothing_of_what_a_hidden_row_says(shop: Database, grants: list[str]) -> None:
    """Whether it has a text that begins so: nothing is asked after it."""
    plans = set()
    with reader(shop, *grants) as caller:
        for beginning in ("machine: RZ", "machine: XX"):
            statement = (
                "EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT FROM graphrag.documents"
                f" WHERE source_key = 'machines/7' AND content ^@ '{beginning}'"
            ).encode()
            for _ in range(6):  # what is read of the catalogs is kept, and functions have plans of their own
                caller.execute(statement)
            plan = caller.execute(statement).fetchall()
            plans.add("\n".join(line for (line,) in plan if "Filter:" not in line))
    assert len(plans) == 1
