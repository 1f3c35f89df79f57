"""drop_corpus(), and uninstall() before DROP EXTENSION, leave nothing in the database."""

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.asking import ask, lines
from tests.sql.extracting import extracted, knows
from tests.sql.ingest import STORIES, corpus_id, index_all, new_corpus, put, rows, work
from tests.sql.llm import provider

# What a database holds, by names; sequences' values, statistics and the numbers of objects apart.
_CATALOGS = (
    "SELECT 'schema', nspname FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp'",
    "SELECT 'relation ' || relkind::text, oid::regclass::text FROM pg_class WHERE relnamespace <> 'pg_toast'::regnamespace",
    "SELECT 'routine', oid::regprocedure::text FROM pg_proc",
    "SELECT 'type', oid::regtype::text FROM pg_type WHERE typnamespace <> 'pg_toast'::regnamespace",
    "SELECT 'constraint', conrelid::regclass || ' ' || conname FROM pg_constraint",
    "SELECT 'trigger', tgrelid::regclass || ' ' || tgname FROM pg_trigger WHERE NOT tgisinternal",
    "SELECT 'policy', polrelid::regclass || ' ' || polname FROM pg_policy",
    "SELECT 'secured', oid::regclass::text FROM pg_class WHERE relrowsecurity",
    "SELECT 'extension', extname FROM pg_extension",
    "SELECT 'event trigger', evtname FROM pg_event_trigger",
    "SELECT 'default acl', defaclacl::text FROM pg_default_acl",
    "SELECT 'setting', setconfig::text FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase"
    " WHERE datname = current_database()",
    "SELECT 'comment', classoid::regclass || ' ' || objoid FROM pg_description WHERE objoid >= 16384",
    "SELECT 'initial privileges', classoid::regclass || ' ' || objoid FROM pg_init_privs WHERE objoid >= 16384",
    "SELECT 'large object', oid::text FROM pg_largeobject_metadata",
    "SELECT 'graph', name || ' ' || namespace FROM ag_catalog.ag_graph",
    "SELECT 'label', name || ' ' || relation FROM ag_catalog.ag_label",
)


def everything(db: Database) -> set[tuple[str, str]]:
    """Objects of the database, and the rows of the extension's tables where it is installed."""
    with db.transaction():
        db.execute("SET LOCAL search_path = pg_catalog")
        records = {(kind, name) for query in _CATALOGS for kind, name in rows(db, query)}
    for (table,) in rows(
        db,
        "SELECT c.oid::regclass FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = to_regnamespace('graphrag')",
    ):
        records |= {(table, row) for (row,) in rows(db, f"SELECT to_jsonb(t)::text FROM {table} t")}
    return records


def fill(db: Database, endpoint: Endpoint) -> list[str]:
    """Make corpora that have everything there is; return their names."""
    statement = extracted(db, endpoint, claims=True)
    endpoint.reply(knows)
    index_all(db, statement, STORIES)
    model = {"provider": provider(db, endpoint, timeout=20), "model": "model-1"}
    asked = new_corpus(db, llm=model, query_log=True)
    db.execute("CREATE TABLE public.notes (id text PRIMARY KEY, body text NOT NULL)")
    db.execute("INSERT INTO public.notes VALUES ('n1', 'Ada Lovelace wrote notes.')")
    db.execute("SELECT graphrag.attach_table('public.notes', %s, 'id', '{body}')", [asked])
    index_all(db, asked, STORIES)
    endpoint.reply(lines)
    ask(db, "What did Ada Lovelace write?", asked)
    for corpus in (statement, asked):
        db.execute("SELECT graphrag.optimize(%s)", [corpus])
        db.execute("SELECT graphrag._index_vectors(%s, 1)", [corpus_id(db, corpus)])
        db.execute("DELETE FROM graphrag.documents WHERE corpus = %s AND source_key = 'turing'", [corpus])
        work(db)
        put(db, corpus, "late", "Grace Hopper met Charles Babbage in a dream.")
        db.execute("SELECT graphrag.protect(%s, 'true')", [corpus])
        db.execute("SELECT graphrag.reembed(%s, %s)", [corpus, Jsonb({**model, "dimensions": 16})])
    return [statement, asked]


def test_drop_corpus_leaves_nothing_of_it(db: Database) -> None:
    index_all(db, new_corpus(db), {"kept": STORIES["ada"]})
    before = everything(db)
    with Endpoint() as endpoint:
        for corpus in fill(db, endpoint):
            db.execute("SELECT graphrag.drop_corpus(%s)", [corpus])
        work(db)
    db.execute("DROP TABLE public.notes")
    db.execute("SELECT graphrag.drop_provider(name) FROM graphrag.providers")
    assert everything(db) - before == set()
    assert before - everything(db) == set()


def test_uninstall_then_drop_extension_leaves_nothing(empty_db: Database) -> None:
    db = empty_db
    for extension in ("vector", "age", "plpython3u"):
        db.execute(f"CREATE EXTENSION {extension}".encode())
    before = everything(db)
    db.execute("CREATE EXTENSION pg_graphrag")
    with Endpoint() as endpoint:
        fill(db, endpoint)
    db.execute("SELECT graphrag.uninstall()")
    # Without CASCADE: nothing depends on it any more.
    db.execute("DROP EXTENSION pg_graphrag")
    assert ("schema", "graphrag") in everything(db)
    db.execute("DROP SCHEMA graphrag")
    db.execute("DROP TABLE public.notes")
    assert everything(db) - before == set()
    assert before - everything(db) == set()
    db.execute("CREATE EXTENSION pg_graphrag")


def test_triggers_with_our_functions_on_other_tables_go_too(db: Any) -> None:
    db.execute("CREATE TABLE public.notes (id int)")
    db.execute(
        "CREATE TRIGGER t AFTER INSERT ON public.notes FOR EACH STATEMENT "
        "EXECUTE FUNCTION graphrag._documents_truncated()"
    )
    db.execute("SELECT graphrag.uninstall()")
    assert db.execute("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'public.notes'::regclass").fetchone() == (0,)


def test_uninstall_names_the_batches_that_go_on_at_an_endpoint(db: Database) -> None:
    corpus = new_corpus(db)
    db.execute(
        "INSERT INTO graphrag.llm_batches (corpus_id, provider, model, state, requests, remote_id)"
        " VALUES (%(c)s, 'openai', 'm', 'open', 5, 'batch_7'), (%(c)s, 'openai', 'm', 'done', 5, 'batch_6')",
        {"c": corpus_id(db, corpus)},
    )
    rows_before: list[tuple[Any, ...]] = []
    db.add_notice_handler(
        lambda d: rows_before.append((d.severity, d.message_primary, d.message_detail, d.message_hint))
    )
    db.execute("SELECT graphrag.uninstall()")
    ((message, detail, hint),) = [rest for severity, *rest in rows_before if severity == "WARNING"]
    assert message.startswith("1 batch")
    assert detail == "batch_7 at openai"
    assert "drop_corpus" in hint


def test_only_the_owner_may(db: Any) -> None:
    with db.transaction():
        db.execute("SET LOCAL ROLE graphrag_reader")
        with pytest.raises(psycopg.errors.InsufficientPrivilege), db.transaction():
            db.execute("SELECT graphrag.uninstall()")
