"""After graphrag.uninstall(), DROP EXTENSION leaves nothing in the database."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.sql.graph_rows import corpus, entity, project_all


def test_uninstall_then_drop_extension_leaves_only_an_empty_schema(db: Any) -> None:
    for name in ("one", "two"):
        c = corpus(db, name)
        entity(db, c, "Alice")
        project_all(db, c)
    db.execute("CREATE TABLE graphrag.entity_vectors_77 PARTITION OF graphrag.entity_vectors FOR VALUES IN (77)")
    db.execute("CREATE TABLE public.notes (id int)")
    db.execute(
        "CREATE TRIGGER t AFTER INSERT ON public.notes FOR EACH STATEMENT "
        "EXECUTE FUNCTION graphrag._documents_truncated()"
    )
    db.execute("SELECT graphrag.uninstall()")
    assert db.execute("SELECT count(*) FROM ag_catalog.ag_graph").fetchone() == (0,)
    assert db.execute("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'public.notes'::regclass").fetchone() == (0,)
    # Without CASCADE: nothing depends on it any more.
    db.execute("DROP EXTENSION pg_graphrag")
    assert db.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'graphrag%'").fetchall() == [("graphrag",)]
    db.execute("DROP SCHEMA graphrag")
    db.execute("CREATE EXTENSION pg_graphrag")


def test_only_the_owner_may(db: Any) -> None:
    with db.transaction():
        db.execute("SET LOCAL ROLE graphrag_reader")
        with pytest.raises(psycopg.errors.InsufficientPrivilege), db.transaction():
            db.execute("SELECT graphrag.uninstall()")
