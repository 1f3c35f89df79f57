"""What counts documents, and what repairs and uninstalls corpus by corpus: nothing of Mallory's runs with the owner's rights."""

import pytest

from tests.runtime.cluster import Database
from tests.security.acting import denied
from tests.security.mallory import alarmed, lent
from tests.sql.ingest import index_all, searched_corpus

# A column that runs Mallory's function where it is compared as text.
BAIT = """
CREATE TYPE bait AS (value int);
CREATE FUNCTION text_of(bait) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM mallory.report(); RETURN 'x'; END $$;
CREATE CAST (bait AS text) WITH FUNCTION text_of(bait) AS IMPLICIT;
CREATE TABLE documents (corpus_id int, status text, indexed_hash bait, content_hash bait);
"""
# Operators and functions by the names that the procedures use, in a schema that their caller looks into first.
SHADOWS = """
CREATE FUNCTION spy_sum(int, int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM mallory.report(); RETURN 1; END $$;
CREATE OPERATOR + (LEFTARG = int, RIGHTARG = int, FUNCTION = spy_sum);
CREATE FUNCTION spy_equal(int, int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN PERFORM mallory.report(); RETURN true; END $$;
CREATE OPERATOR = (LEFTARG = int, RIGHTARG = int, FUNCTION = spy_equal);
CREATE FUNCTION jsonb_build_object(text, bigint, text, int) RETURNS jsonb LANGUAGE plpgsql AS
    $$ BEGIN PERFORM mallory.report(); RETURN '{}'; END $$;
CREATE FUNCTION pg_has_role(oid, text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN PERFORM mallory.report(); RETURN true; END $$;
CREATE TABLE corpora (id int);
CREATE FUNCTION shadow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM mallory.report(); RETURN NEW; END $$;
"""


def test_the_counting_trigger_hangs_on_no_table_of_others(mallory: Database) -> None:
    mallory.execute(BAIT.encode())
    for table, event in (("NEW TABLE AS added", "INSERT"), ("OLD TABLE AS removed", "DELETE")):
        denied(
            mallory,
            f"CREATE TRIGGER counted AFTER {event} ON mallory.documents REFERENCING {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION graphrag._count_documents()",
        )


@pytest.mark.parametrize("table", ["_document_counts", "_index_counts"])
def test_counts_are_nobodys_to_read_or_write(mallory: Database, table: str) -> None:
    for statement in ("SELECT * FROM", "DELETE FROM", "TRUNCATE", "INSERT INTO"):
        denied(mallory, f"{statement} graphrag.{table}" + (" DEFAULT VALUES" if statement == "INSERT INTO" else ""))


def test_the_procedures_run_nothing_that_their_callers_search_path_offers(db: Database, mallory: Database) -> None:
    mallory.execute(SHADOWS.encode())
    index_all(db, searched_corpus(db), {"one": "Ada Lovelace met Charles Babbage."})
    db.execute("SET search_path = mallory, pg_catalog, public")
    db.execute("CALL graphrag.repair_corpora()")
    db.execute("CALL graphrag.uninstall_corpora()")
    db.execute("RESET search_path")
    assert not alarmed(db)
    assert not lent(db)
