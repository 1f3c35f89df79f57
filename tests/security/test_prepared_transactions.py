"""A writer who prepares his transaction keeps its locks past his session: workers go on, and all say where to look."""

import time
from collections.abc import Callable

import psycopg
from psycopg.conninfo import make_conninfo

from tests.runtime.cluster import Cluster
from tests.sql.ingest import (
    STORIES,
    canonical,
    expected,
    index_all,
    new_corpus,
    put,
    refused,
    rows,
    statuses,
    value,
    work,
)

CHANGED = {"ada": "Ada Lovelace moved to Vienna.", "zuse": "Konrad Zuse built the Z3 in Berlin."}


def test_a_prepared_transaction_holds_up_what_it_has_and_is_named(cluster: Callable[..., Cluster]) -> None:
    server = cluster({"max_prepared_transactions": "4"})
    url = server.create_database("prepared")
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE EXTENSION pg_graphrag CASCADE")
        db.execute("CREATE ROLE writer LOGIN PASSWORD 'writer'")
        corpus = new_corpus(db)
        db.execute("SELECT graphrag.grant_corpus(%s, 'writer', 'write')", [corpus])
        index_all(db, corpus, STORIES)
        with psycopg.connect(make_conninfo(url, user="writer", password="writer"), autocommit=True) as writer:
            writer.execute("SET transaction_timeout = '8s'")
            writer.execute("BEGIN")
            for key, content in CHANGED.items():
                put(writer, corpus, key, content)
            writer.execute("SELECT graphrag.search('Zuse', %s)", [corpus])
            writer.execute("PREPARE TRANSACTION 'left behind'")
        prepared_at = time.monotonic()
        index_all(db, corpus, {"turing": "Alan Turing ran in Princeton."})
        assert statuses(db, corpus) == dict.fromkeys(STORIES, "indexed"), "others' documents do not wait"
        # Needs the table for itself.
        diag = refused(db, "SELECT graphrag.protect(%s, 'true')", corpus)
        assert diag.sqlstate == "55P03"
        assert "pg_prepared_xacts" in str(diag.message_hint)
        time.sleep(max(0.0, prepared_at + 11 - time.monotonic()))
        issues = rows(db, "SELECT severity, subject, detail FROM graphrag.health()")
        assert [issue[:2] for issue in issues] == [("warning", 'prepared transaction "left behind"')]
        assert 'role "writer"' in issues[0][2]
        server.kill()
    server.start()
    with psycopg.connect(url, autocommit=True) as db:
        assert value(db, "SELECT count(*) FROM pg_prepared_xacts") == 1
        db.execute("COMMIT PREPARED 'left behind'")
        assert rows(db, "SELECT * FROM graphrag.health()") == []
        work(db)
        documents = {**STORIES, **CHANGED, "turing": "Alan Turing ran in Princeton."}
        assert canonical(db, corpus) == expected(db, documents)
        assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []
