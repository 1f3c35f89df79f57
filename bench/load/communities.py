"""What a change of one document in a hundred costs the communities of an indexed corpus, and what it leaves of their quality.

    python -m bench communities --corpus manual

Takes every hundredth document out, finds all communities from nothing and has their reports written; puts the documents
back, as an application would insert them, and has workers do the rest. Then finds all communities from nothing once more,
for the modularity that would have. The corpus ends as it was.
"""

import argparse
import time
from typing import Any

import psycopg
from psycopg import sql

EVERY = 100


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="database with the corpus, as the extension's owner")
    parser.add_argument("--corpus", default="manual")
    given = parser.parse_args()
    with psycopg.connect(given.url, autocommit=True) as db:
        db.execute("SET client_min_messages = warning")
        measure(db, given.corpus)


def measure(db: psycopg.Connection[tuple[Any, ...]], corpus: str) -> None:
    """Run the whole of it on one corpus."""
    number = scalar(db, "SELECT id FROM graphrag.corpora WHERE name = %s", corpus)
    work(db)
    db.execute(
        sql.SQL(
            "CREATE TEMP TABLE held AS SELECT d.source_key, d.title, d.content, d.metadata FROM"
            " (SELECT d.*, row_number() OVER (ORDER BY d.source_key) AS n FROM graphrag.documents d WHERE d.corpus = {}) d"
            " WHERE mod(d.n, {}) = {}"
        ).format(corpus, EVERY, EVERY // 2)
    )
    documents = scalar(db, "SELECT count(*) FROM graphrag.documents WHERE corpus = %s", corpus)
    held_back = scalar(db, "SELECT count(*) FROM held")
    db.execute(
        "DELETE FROM graphrag.documents d USING held h WHERE d.corpus = %s AND d.source_key = h.source_key", [corpus]
    )
    db.execute("SELECT graphrag.alter_corpus(%s, '{\"communities\": false}')", [corpus])
    work(db)
    forget(db, number)
    before, seconds = refresh(db, corpus)
    print(f"documents: {documents}, {held_back} of them held back")
    print(f"from nothing: {seconds:.1f} s; {before}")
    seconds = work(db)
    reports = scalar(db, "SELECT count(*) FROM graphrag.community_reports WHERE corpus_id = %s", number)
    print(f"reports: {reports} in {seconds:.1f} s")
    db.execute("CREATE TEMP TABLE written AS SELECT community_id, written_at FROM graphrag.community_reports")

    db.execute(
        "INSERT INTO graphrag.documents (corpus, source_key, title, content, metadata)"
        " SELECT %s, source_key, title, content, metadata FROM held",
        [corpus],
    )
    seconds = work(db)
    print(f"{held_back} documents indexed in {seconds:.1f} s")
    update, seconds = refresh(db, corpus)
    print(f"update: {seconds:.1f} s; {update}")
    unchanged = scalar(db, "SELECT count(*) FROM graphrag.communities c JOIN written w ON w.community_id = c.id")
    seconds = work(db)
    rewritten = scalar(
        db,
        "SELECT count(*) FROM graphrag.community_reports r LEFT JOIN written w USING (community_id)"
        " WHERE r.corpus_id = %s AND r.written_at IS DISTINCT FROM w.written_at",
        number,
    )
    total = scalar(db, "SELECT count(*) FROM graphrag.community_reports WHERE corpus_id = %s", number)
    print(f"reports looked through in {seconds:.1f} s: {rewritten} of {total} written ({rewritten / total:.1%})")
    print(f"ids: {unchanged} of {reports} communities are still there")
    forget(db, number)
    fresh, seconds = refresh(db, corpus)
    print(f"from nothing again: {seconds:.1f} s; {fresh}")
    print(f"modularity: {update['modularity']:.4f} updated, {fresh['modularity']:.4f} from nothing")
    db.execute("SELECT graphrag.alter_corpus(%s, '{\"communities\": null}')", [corpus])
    work(db)


def scalar(db: psycopg.Connection[tuple[Any, ...]], query: str, *values: Any) -> Any:
    """The one value of the one row."""
    ((value,),) = db.execute(query.encode(), values).fetchall()
    return value


def work(db: psycopg.Connection[tuple[Any, ...]]) -> float:
    """Do all that is queued; return the seconds."""
    started = time.perf_counter()
    db.execute("CALL graphrag.process_jobs()")
    return time.perf_counter() - started


def refresh(db: psycopg.Connection[tuple[Any, ...]], corpus: str) -> tuple[dict[str, Any], float]:
    """Refresh the communities; return what it says and the seconds."""
    started = time.perf_counter()
    return scalar(db, "SELECT graphrag.refresh_communities(%s)", corpus), time.perf_counter() - started


def forget(db: psycopg.Connection[tuple[Any, ...]], number: int) -> None:
    """Let the next refresh begin from nothing."""
    db.execute("DELETE FROM graphrag.communities WHERE corpus_id = %s", [number])
    db.execute("DELETE FROM graphrag.community_states WHERE corpus_id = %s", [number])


if __name__ == "__main__":
    main()
