"""The option sql of ask: a model writes one SELECT over attached tables, which is fenced, run as the caller, and cited."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from psycopg import errors
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime import beside
from tests.runtime.cluster import Database
from tests.sql.asking import KEYWORDS, ask, is_keywords, stream, warnings
from tests.sql.ingest import refused, value
from tests.sql.llm import provider
from tests.sql.rows import attach, own_by_owner

QUESTION = "How many machines stand in the Osaka Works?"
COUNT = (
    "SELECT p.name, count(*) AS machines FROM shop.machines m JOIN shop.plants p ON p.id = m.plant_id"
    " WHERE p.name ILIKE '%osaka%' GROUP BY p.name"
)
# A thousand million rows, of no table.
SLOW = "SELECT count(*) FROM " + ", ".join(
    f"(VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10)) t{n}(x)" for n in range(9)
)


class Model:
    """A model that writes `statements`, one after the other, and answers with the number of their rows."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.prompts: list[str] = []
        # Called while it writes a statement.
        self.meanwhile: Callable[[], object] = lambda: None

    def __call__(self, messages: Sequence[dict[str, Any]]) -> str:
        if is_keywords(messages):
            return json.dumps(KEYWORDS)
        if messages[0]["content"].startswith("You write one SELECT"):
            self.prompts.append(messages[-1]["content"])
            self.meanwhile()
            return json.dumps({"statement": self.statements.pop(0) if self.statements else ""})
        context = messages[-1]["content"]
        marks = [line for line in context.splitlines() if line.startswith("[") and "] SELECT" in line]
        return f"One machine {marks[0].partition(']')[0]}]." if marks else "It is said elsewhere [1]."


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        yield server


@pytest.fixture
def model(endpoint: Endpoint) -> Iterator[Model]:
    item = Model()
    endpoint.reply(item)
    yield item
    endpoint.behave()


@pytest.fixture(scope="module")
def shop(module_db: Database, endpoint: Endpoint) -> Iterator[Database]:
    """The owner's session over a database with the shop attached."""
    attach(module_db)
    llm = {"provider": provider(module_db, endpoint, timeout=1), "model": "m"}
    module_db.execute("SELECT graphrag.alter_corpus('default', %s)", [Jsonb({"llm": llm})])
    if not beside.IS_BESIDE:
        yield module_db
        return
    with Database.open(make_conninfo(module_db.url, user=beside.OWNER, password=beside.OWNER)) as owner:
        yield owner


@contextmanager
def as_reader(superuser: Database, shop: Database, *grants: str) -> Iterator[None]:
    """As a role that has graphrag_reader and these grants."""
    superuser.execute("DROP ROLE IF EXISTS counting")
    superuser.execute("CREATE ROLE counting IN ROLE graphrag_reader")
    superuser.execute(f"GRANT counting TO {shop.info.user}".encode())
    for grant in grants:
        superuser.execute(f"GRANT {grant} TO counting".encode())
    shop.execute("SET ROLE counting")
    try:
        yield
    finally:
        shop.execute("RESET ROLE")
        superuser.execute("DROP OWNED BY counting; DROP ROLE counting")


def asked(db: Database, model: Model, *statements: str, question: str = QUESTION) -> tuple[str, Any, Any, Any]:
    model.statements = list(statements)
    return ask(db, question, "default", options={"sql": True})


_numbers = iter(range(1_000_000))


def new_question() -> str:
    """A question that nobody asked before: its answer is not cached."""
    return f"{QUESTION} Part {next(_numbers)}."


ODD = """
CREATE TABLE shop."Odd Parts" (id int PRIMARY KEY, "Part No" text UNIQUE, r tsrange, row shop.plants);
INSERT INTO shop."Odd Parts" VALUES (1, 'PX-1', '[2024-01-01,2024-02-01)', '(1,A,B)');
"""


def test_names_are_told_as_sql_has_them_and_any_column_may_be_read(
    module_db: Database, shop: Database, model: Model
) -> None:
    module_db.execute(ODD)
    own_by_owner(module_db, 'TABLE shop."Odd Parts"')
    module_db.execute("""SELECT graphrag.attach_entities('shop."Odd Parts"', 'default', '{id}', 'Part No')""")
    try:
        _, _, _, context = asked(shop, model, 'SELECT * FROM shop."Odd Parts"', question=new_question())
        assert context["sql"]["columns"] == ["id", "Part No", "r", "row"]
        assert context["sql"]["rows"][0][1:3] == ["PX-1", '["2024-01-01 00:00:00","2024-02-01 00:00:00")']
        assert 'shop."Odd Parts"\n  id integer\n  "Part No" text\n' in model.prompts[-1]
        _, _, _, context = asked(shop, model, 'SELECT "row" AS r FROM shop."Odd Parts"', question=new_question())
        assert context["sql"]["columns"] == ["r"]
    finally:
        module_db.execute('DROP TABLE shop."Odd Parts"')
        module_db.execute("CALL graphrag.process_jobs()")


def test_rows_are_counted_shown_and_cited(shop: Database, model: Model) -> None:
    answer, citations, usage, context = asked(shop, model, COUNT)
    number = context["sql"]["reference"]
    assert answer == f"One machine [{number}]."
    assert (context["sql"]["columns"], context["sql"]["rows"]) == (["name", "machines"], [["Osaka Works", "1"]])
    statement = context["sql"]["statement"]
    assert statement.startswith("SELECT p.name, pg_catalog.count(*) AS machines FROM shop.machines AS m")
    assert f"[{number}] {statement}\nname | machines\nOsaka Works | 1" in context["prompt"]
    (citation,) = citations
    assert citation == {
        "number": number,
        "document_id": None,
        "source_key": None,
        "title": statement,
        "chunk_id": None,
        "section": None,
        "pages": None,
        "picture": None,
    }
    assert usage["calls"] == 3


def test_the_model_is_told_of_attached_tables_and_graph_views_alone(
    module_db: Database, shop: Database, model: Model
) -> None:
    module_db.execute("COMMENT ON TABLE shop.machines IS 'What stands in plants'")
    asked(shop, model, "", question=new_question())
    tables = [line.split()[0] for line in model.prompts[0].splitlines() if line.startswith(("graphrag.", "shop."))]
    attached = ["shop.certificates", "shop.machines", "shop.persons", "shop.plants"]
    assert tables == ["graphrag.graph_edges", "graphrag.graph_nodes", *attached]
    assert "shop.machines  -- What stands in plants" in model.prompts[0].splitlines()
    assert "  built date" in model.prompts[0].splitlines()


def test_without_a_statement_the_answer_is_of_documents(shop: Database, model: Model) -> None:
    answer, _, _, context = asked(shop, model, "", question=new_question())
    assert answer == "It is said elsewhere [1]."
    assert "sql" not in context


def test_without_the_option_no_statement_is_asked_for(shop: Database, model: Model) -> None:
    context = ask(shop, new_question(), "default")[3]
    assert model.prompts == []
    assert "sql" not in context


def test_views_of_the_graph_are_read(shop: Database, model: Model) -> None:
    statement = "SELECT count(*) > 3 AS many FROM graphrag.graph_nodes WHERE corpus = 'default'"
    assert asked(shop, model, statement, question=new_question())[3]["sql"]["rows"] == [["true"]]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("DELETE FROM shop.machines", "it is no SELECT"),
        ("SELECT * FROM pg_catalog.pg_authid", "the relation pg_catalog.pg_authid is not one of those"),
        ("SELECT pg_sleep(60)", "the function pg_sleep is not allowed"),
        ("SELECT nothing FROM shop.plants", 'column "nothing" does not exist'),
        ("SELECT 1 / 0 FROM shop.plants", "division by zero"),
    ],
)
def test_a_statement_that_is_not_run_is_written_once_more(
    shop: Database, model: Model, statement: str, reason: str
) -> None:
    with warnings(shop) as messages:
        context = asked(shop, model, statement, COUNT, question=new_question())[3]
    assert context["sql"]["rows"] == [["Osaka Works", "1"]]
    assert model.prompts[1].startswith(f"That statement was not run: {reason}")
    assert messages == []


def test_a_backslash_does_not_end_a_text_where_the_session_reads_it_otherwise(shop: Database, model: Model) -> None:
    """To the fence these are two texts; to the server one, and a call behind it."""
    shop.execute("SET standard_conforming_strings = off")
    try:
        statements = r"SELECT '\', ' || pg_read_file($$/etc/hostname$$) --' FROM shop.plants", COUNT
        context = asked(shop, model, *statements, question=new_question())[3]
    finally:
        shop.execute("RESET standard_conforming_strings")
    assert model.prompts[1].startswith("That statement was not run: a backslash is not allowed")
    assert context["sql"]["rows"] == [["Osaka Works", "1"]]


def test_a_function_is_not_called_as_a_field(shop: Database, model: Model) -> None:
    statements = "SELECT ('/etc/hostname'::text).pg_read_file", COUNT
    context = asked(shop, model, *statements, question=new_question())[3]
    assert model.prompts[1].startswith("That statement was not run: a field of a value")
    assert context["sql"]["rows"] == [["Osaka Works", "1"]]


def test_a_second_refusal_is_said_and_the_answer_is_of_documents(shop: Database, model: Model) -> None:
    with warnings(shop) as messages:
        answer, _, _, context = asked(
            shop, model, "DROP TABLE shop.plants", "SELECT pg_sleep(60)", question=new_question()
        )
    assert answer == "It is said elsewhere [1]."
    assert context["sql"] == {"statement": "SELECT pg_sleep(60)", "error": "the function pg_sleep is not allowed"}
    assert messages == ["the statement that the model wrote was not run: the function pg_sleep is not allowed"]


def test_behind_the_fence_a_statement_can_only_read(module_db: Database, shop: Database, model: Model) -> None:
    """A fence that lets everything through, in place of a part of the language that nobody has thought of."""
    if beside.IS_BESIDE:
        pytest.skip("another process runs the package")
    shop.execute("CREATE SEQUENCE shop.numbers; CREATE TABLE shop.notes (id int)")
    with Database.open(module_db.url) as session:
        session.execute(
            """DO LANGUAGE plpython3u $$
from pg_graphrag.search.answer import table_query
from pg_graphrag.search.answer.sql_fence import FencedStatement
table_query.fenced = lambda statement, relations: FencedStatement(statement, frozenset())
$$"""
        )
        for call in ("pg_catalog.nextval('shop.numbers')", "pg_catalog.setval('shop.numbers', 7)"):
            with session.transaction():
                session.execute("INSERT INTO shop.notes VALUES (1)")
                *_, context = asked(session, model, *[f"SELECT {call}"] * 2, question=new_question())
                assert context["sql"]["error"].endswith("in a read-only transaction"), context["sql"]
                # What follows in the transaction writes as before.
                session.execute("INSERT INTO shop.notes VALUES (2)")
        *_, context = asked(session, model, "SELECT 2 AS two", question=new_question())
        assert context["sql"]["rows"] == [["2"]]
    assert shop.execute("SELECT last_value, is_called FROM shop.numbers").fetchone() == (1, False)
    assert value(shop, "SELECT pg_catalog.count(*) FROM shop.notes") == 4


def test_many_rows_and_long_values_are_cut(shop: Database, model: Model) -> None:
    rows = ", ".join(f"({number})" for number in range(60))
    words = " ".join(chr(97 + n % 26) * (1 + n // 26) for n in range(104))
    statement = f"SELECT x, concat(code, '{words}') AS long FROM shop.machines, (VALUES {rows}) v(x) WHERE id = 7"
    context = asked(shop, model, statement, question=new_question())[3]["sql"]
    assert context["is_cut"] is True
    assert 0 < len(context["rows"]) <= 50
    assert {len(row[1]) for row in context["rows"]} == {201}


def test_columns_of_one_name_types_and_nulls_are_shown(shop: Database, model: Model) -> None:
    statement = "SELECT id, id, built, nick, ARRAY[1, 2], 1.50, built > '2000-01-01' FROM shop.machines ORDER BY id"
    result = asked(shop, model, statement, question=new_question())[3]["sql"]
    assert result["columns"][:4] == ["id", "id", "built", "nick"]
    assert result["rows"][0] == ["7", "7", "2019-05-01", "Big Bertha", '["1", "2"]', "1.50", "true"]
    assert result["rows"][1] == ["8", "8", None, None, '["1", "2"]', "1.50", None]


def test_a_statement_that_comes_too_late_is_done_without(shop: Database, model: Model, endpoint: Endpoint) -> None:
    endpoint.misbehave("timeout", None, when=lambda request: "You write one SELECT" in str(request.messages))
    began = time.monotonic()
    with warnings(shop) as messages:
        answer, _, _, context = ask(
            shop, new_question(), "default", mode="bm25", options={"sql": True, "answer_timeout": 1}
        )
    assert time.monotonic() - began < 2 + 1
    assert answer == "It is said elsewhere [1]."
    assert context["sql"]["error"]
    assert any("was not run" in message for message in messages)


def test_a_stream_has_the_same_context(shop: Database, model: Model) -> None:
    question = new_question()
    answer = asked(shop, model, COUNT, question=question)[0]
    model.statements = [COUNT]
    assert "".join(stream(shop, question, "default", options={"sql": True})) == answer


def test_what_takes_too_long_is_cancelled_and_nothing_after_it(shop: Database, model: Model) -> None:
    began = time.monotonic()
    context = asked(shop, model, SLOW, COUNT, question=new_question())[3]
    assert 5 <= time.monotonic() - began < 30
    assert model.prompts[1].startswith("That statement was not run: it took longer than 5 s")
    assert context["sql"]["rows"] == [["Osaka Works", "1"]]
    assert value(shop, "SELECT count(*) FROM shop.machines") == 2


def test_the_caller_can_cancel_what_runs(shop: Database, model: Model) -> None:
    asked(shop, model, COUNT, question=new_question())
    cancelled: list[float] = []

    def cancel() -> None:
        while not model.prompts or model.statements:
            time.sleep(0.01)
        time.sleep(1)
        cancelled.append(time.monotonic())
        shop.cancel_safe()

    model.prompts.clear()
    model.statements = [SLOW]
    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(errors.QueryCanceled):
        ask(shop, new_question(), "default", options={"sql": True})
    assert time.monotonic() - cancelled[0] < 2
    thread.join()


def test_a_reader_without_grants_is_told_of_no_table(module_db: Database, shop: Database, model: Model) -> None:
    with as_reader(module_db, shop):
        context = asked(shop, model, COUNT, "", question=new_question())[3]
    assert "shop." not in model.prompts[0]
    assert model.prompts[1].startswith("That statement was not run: the relation shop.machines is not one of those")
    assert "sql" not in context


def test_a_statement_has_the_callers_own_rights(module_db: Database, shop: Database, model: Model) -> None:
    with as_reader(module_db, shop, "USAGE ON SCHEMA shop", "SELECT (id, name) ON shop.plants"):
        statements = "SELECT city FROM shop.plants", "SELECT name FROM shop.plants ORDER BY id"
        context = asked(shop, model, *statements, question=new_question())[3]
    assert context["sql"]["rows"] == [["Osaka Works"], ["Lyon Works"]]
    assert "permission denied for table plants" in model.prompts[1]
    lines = model.prompts[0].splitlines()
    assert lines[lines.index("shop.plants") + 1 :][:2] == ["  id integer", "  name text"]
    assert "  city text" not in lines


def test_policies_of_a_table_hold_for_the_statement(module_db: Database, shop: Database, model: Model) -> None:
    module_db.execute(
        "ALTER TABLE shop.machines ENABLE ROW LEVEL SECURITY; CREATE POLICY one ON shop.machines USING (id = 7)"
    )
    try:
        with as_reader(module_db, shop, "USAGE ON SCHEMA shop", "SELECT ON shop.machines"):
            context = asked(shop, model, "SELECT id FROM shop.machines", question=new_question())[3]
    finally:
        module_db.execute("DROP POLICY one ON shop.machines; ALTER TABLE shop.machines DISABLE ROW LEVEL SECURITY")
    assert context["sql"]["rows"] == [["7"]]


def test_partitions_are_held_before_the_statement_is_planned(module_db: Database, shop: Database, model: Model) -> None:
    module_db.execute(
        "CREATE TABLE shop.visits (id int PRIMARY KEY, name text) PARTITION BY RANGE (id);"
        'CREATE TABLE shop."first ""100""" PARTITION OF shop.visits FOR VALUES FROM (0) TO (100);'
        "INSERT INTO shop.visits VALUES (1, 'Ann')"
    )
    own_by_owner(module_db, "TABLE shop.visits")
    own_by_owner(module_db, 'TABLE shop."first ""100"""')
    shop.execute("SELECT graphrag.attach_entities('shop.visits', 'default', '{id}', 'name', type => 'visit')")
    try:
        context = asked(shop, model, "SELECT name FROM shop.visits", question=new_question())[3]
        assert context["sql"]["rows"] == [["Ann"]]
    finally:
        shop.execute("SELECT graphrag.detach_table('shop.visits')")
        module_db.execute("DROP TABLE shop.visits")


def test_a_table_whose_owner_has_not_the_callers_rights_is_not_read(
    module_db: Database, shop: Database, model: Model
) -> None:
    """A read plans its indexes and asks its policies: code of its owner, with the rights of who asks."""
    owner = value(module_db, "SELECT relowner::regrole::text FROM pg_class WHERE oid = 'shop.persons'::regclass")
    module_db.execute("DROP ROLE IF EXISTS other_owner; CREATE ROLE other_owner")
    module_db.execute("GRANT USAGE ON SCHEMA shop TO other_owner; ALTER TABLE shop.persons OWNER TO other_owner")
    module_db.execute("GRANT SELECT ON shop.persons TO PUBLIC")
    try:
        context = asked(shop, model, "SELECT name FROM shop.persons", "", question=new_question())[3]
    finally:
        module_db.execute(f"ALTER TABLE shop.persons OWNER TO {owner}".encode())
        module_db.execute("DROP OWNED BY other_owner; DROP ROLE other_owner")
    assert "shop.persons" not in model.prompts[0]
    assert model.prompts[1].startswith("That statement was not run: the relation shop.persons is not one of those")
    assert "sql" not in context


@pytest.mark.parametrize("is_swapped", [False, True])
def test_nothing_runs_of_who_gets_a_table_or_its_name_while_the_model_writes(
    module_db: Database, shop: Database, model: Model, is_swapped: bool
) -> None:
    module_db.execute(
        "DROP ROLE IF EXISTS new_owner; CREATE ROLE new_owner; GRANT ALL ON SCHEMA shop TO new_owner;"
        "CREATE TABLE shop.deliveries (id int PRIMARY KEY, name text)"
    )
    own_by_owner(module_db, "TABLE shop.deliveries")
    shop.execute("SELECT graphrag.attach_entities('shop.deliveries', 'default', '{id}', 'name', type => 'delivery')")
    change = "ALTER TABLE shop.deliveries OWNER TO new_owner; SET ROLE new_owner;"
    if is_swapped:
        change = (
            "ALTER TABLE shop.deliveries RENAME TO former; SET ROLE new_owner;"
            "CREATE TABLE shop.deliveries (id int); GRANT SELECT ON shop.deliveries TO PUBLIC;"
        )
    change += (
        "CREATE FUNCTION shop.spy() RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$BEGIN"
        " IF current_user <> 'new_owner' THEN RAISE EXCEPTION 'runs as %', current_user; END IF; RETURN true; END$$;"
        # The plan of a read calls it.
        "CREATE INDEX ON shop.deliveries (id) WHERE shop.spy(); RESET ROLE"
    )

    def meanwhile() -> None:
        if len(model.prompts) == 1:
            with Database.open(module_db.url) as other:
                other.execute(change.encode())

    model.meanwhile = meanwhile
    try:
        with as_reader(module_db, shop, "USAGE ON SCHEMA shop", "SELECT ON ALL TABLES IN SCHEMA shop"):
            statements = "SELECT count(*) FROM shop.deliveries", COUNT
            context = asked(shop, model, *statements, question=new_question())[3]
    finally:
        module_db.execute("DROP TABLE IF EXISTS shop.former, shop.deliveries CASCADE; DROP FUNCTION IF EXISTS shop.spy")
        module_db.execute("DROP OWNED BY new_owner; DROP ROLE new_owner")
    assert "shop.deliveries" in model.prompts[0]
    assert model.prompts[1].startswith("That statement was not run: the relations have changed since")
    assert context["sql"]["rows"] == [["Osaka Works", "1"]]


def test_a_table_that_is_not_attached_is_not_read(module_db: Database, shop: Database, model: Model) -> None:
    module_db.execute("CREATE TABLE IF NOT EXISTS shop.salaries (amount int)")
    asked(shop, model, "SELECT amount FROM shop.salaries", "", question=new_question())
    assert "salaries" not in model.prompts[0]
    assert model.prompts[1].startswith("That statement was not run: the relation shop.salaries is not one of those")


@pytest.mark.parametrize("name", ["search", "context"])
def test_the_option_is_of_ask(shop: Database, name: str) -> None:
    diag = refused(shop, f"SELECT graphrag.{name}('x', options => '{{\"sql\": true}}')")
    assert (diag.sqlstate, diag.message_primary) == (
        "22023",
        f'graphrag: option "sql" is of graphrag.ask, not of graphrag.{name}',
    )


def test_an_estimate_counts_what_may_be_written(shop: Database) -> None:
    statement = "SELECT calls, basis FROM graphrag.estimate_ask(%s, options => %s)"
    ((calls, _),) = shop.execute(statement, [QUESTION, Jsonb({})]).fetchall()
    ((more, basis),) = shop.execute(statement, [QUESTION, Jsonb({"sql": True})]).fetchall()
    assert more == calls + 2
    assert basis["parts"]["sql"]["calls"] == 2
    assert basis["calls"] == "at most"
