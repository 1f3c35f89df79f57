"""Names of a document that mean one thing are one entity, whatever the order of documents; an option undoes it."""

from tests.runtime.cluster import Database
from tests.sql.ingest import index_all, rows, searched_corpus, work

DOCUMENTS = {
    "bob": "Bob Kowalski joined Acme Rockets. He designed the Kestrel engine. Everybody knows Kowalski and Kestrel.",
    "other": "Everybody knows Kowalski. Kestrel is old.",
    "two": "Bob Kowalski met Ann Kowalski. She knows Kowalski.",
}


def entities(db: Database, corpus: str) -> dict[str, int]:
    records = rows(
        db,
        "SELECT e.key, e.mention_count FROM graphrag.entities e JOIN graphrag.corpora c ON c.id = e.corpus_id"
        " WHERE c.name = %s AND e.key ~ 'kowalski|kestrel'",
        corpus,
    )
    return dict(records)


def test_a_short_name_means_what_its_own_document_says_in_any_order(module_db: Database) -> None:
    graphs = []
    for order in (list(DOCUMENTS), list(reversed(DOCUMENTS))):
        corpus = searched_corpus(module_db)
        for key in order:
            index_all(module_db, corpus, {key: DOCUMENTS[key]})
        graphs.append((entities(module_db, corpus), rows(module_db, "SELECT graphrag.fingerprint(%s)", corpus)))
        assert rows(module_db, "SELECT * FROM graphrag.check(%s)", corpus) == []
    assert graphs[0] == graphs[1]
    # In "two" it may be either of them; "other" names nobody else.
    assert graphs[0][0] == {"bob kowalski": 2, "ann kowalski": 1, "kowalski": 2, "kestrel engine": 1, "kestrel": 1}


def test_the_option_undoes_it_and_brings_it_back(module_db: Database) -> None:
    corpus = index_all(module_db, searched_corpus(module_db), {"bob": DOCUMENTS["bob"]})
    before = rows(module_db, "SELECT graphrag.fingerprint(%s)", corpus)
    assert set(entities(module_db, corpus)) == {"bob kowalski", "kestrel engine"}
    module_db.execute("SELECT graphrag.alter_corpus(%s, '{\"full_names\": false}')", [corpus])
    work(module_db)
    assert set(entities(module_db, corpus)) == {"bob kowalski", "kowalski", "kestrel engine", "kestrel"}
    module_db.execute("SELECT graphrag.alter_corpus(%s, '{\"full_names\": true}')", [corpus])
    work(module_db)
    assert rows(module_db, "SELECT graphrag.fingerprint(%s)", corpus) == before


def test_a_change_elsewhere_changes_nothing(module_db: Database) -> None:
    corpus = index_all(module_db, searched_corpus(module_db), {"bob": DOCUMENTS["bob"], "other": DOCUMENTS["other"]})
    assert {"kowalski", "kestrel"} <= set(entities(module_db, corpus))
    module_db.execute("DELETE FROM graphrag.documents WHERE corpus = %s AND source_key = 'other'", [corpus])
    work(module_db)
    assert set(entities(module_db, corpus)) == {"bob kowalski", "kestrel engine"}
