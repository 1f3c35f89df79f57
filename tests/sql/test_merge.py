"""Every merged value is a function of the mentions alone."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import (
    STORIES,
    canonical,
    corpus_id,
    delete,
    expected,
    index_all,
    new_corpus,
    put,
    put_all,
    rows,
    value,
    work,
)


@pytest.fixture
def corpus(module_db: Database) -> Iterator[str]:
    name = new_corpus(module_db)
    yield name
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])


# The merged values once more, from the mentions, in SQL that shares nothing with the merge.
ENTITIES = """
SELECT m.entity_id, count(*),
       (SELECT x.name FROM graphrag.entity_mentions x WHERE x.entity_id = m.entity_id
         GROUP BY x.name ORDER BY count(*) DESC, x.name COLLATE "C" LIMIT 1),
       (SELECT x.type FROM graphrag.entity_mentions x WHERE x.entity_id = m.entity_id
         GROUP BY x.type ORDER BY x.type IN ('NAME', 'CONCEPT'), count(*) DESC, x.type COLLATE "C" LIMIT 1),
       min(m.evidence_rank),
       (SELECT count(*) FROM (SELECT DISTINCT least(r.source_key, r.target_key), greatest(r.source_key, r.target_key)
                                FROM graphrag.relationship_mentions r
                               WHERE r.corpus_id = %(corpus)s AND m.raw_key IN (r.source_key, r.target_key)) AS pairs),
       (SELECT trim(regexp_replace(substr(d.content, x.start_offset + 1, x.end_offset - x.start_offset), '\\s+', ' ', 'g'))
          FROM graphrag.entity_mentions x JOIN graphrag.documents d ON d.id = x.document_id
         WHERE x.entity_id = m.entity_id ORDER BY x.evidence_rank LIMIT 1)
  FROM graphrag.entity_mentions m WHERE m.corpus_id = %(corpus)s GROUP BY m.entity_id, m.raw_key ORDER BY 1
"""
STORED_ENTITIES = """
SELECT id, mention_count, name, type, evidence_rank, degree, description
  FROM graphrag.entities WHERE corpus_id = %(corpus)s ORDER BY 1
"""
RELATIONSHIPS = """
SELECT least(m.source_key, m.target_key), greatest(m.source_key, m.target_key), count(*), sum(m.weight),
       CASE WHEN sum(CASE WHEN m.source_key < m.target_key THEN 1 ELSE -1 END) >= 0
            THEN least(m.source_key, m.target_key) ELSE greatest(m.source_key, m.target_key) END,
       min(m.evidence_rank)
  FROM graphrag.relationship_mentions m WHERE m.corpus_id = %(corpus)s GROUP BY 1, 2 ORDER BY 1, 2
"""
STORED_RELATIONSHIPS = """
SELECT least(s.key, t.key), greatest(s.key, t.key), r.mention_count, r.weight, s.key, r.evidence_rank
  FROM graphrag.relationships r JOIN graphrag.entities s ON s.id = r.source_id
  JOIN graphrag.entities t ON t.id = r.target_id WHERE r.corpus_id = %(corpus)s ORDER BY 1, 2
"""


def assert_merged_as_mentioned(db: Database, corpus: str) -> None:
    given = {"corpus": corpus_id(db, corpus)}
    for independent, stored in ((ENTITIES, STORED_ENTITIES), (RELATIONSHIPS, STORED_RELATIONSHIPS)):
        assert db.execute(independent.encode(), given).fetchall() == db.execute(stored.encode(), given).fetchall()


def test_stored_values_are_those_an_independent_query_computes_from_the_mentions(
    module_db: Database, corpus: str
) -> None:
    index_all(module_db, corpus, STORIES)
    number = corpus_id(module_db, corpus)
    assert value(module_db, "SELECT count(*) FROM graphrag.relationships WHERE corpus_id = %s", number) > 3
    assert_merged_as_mentioned(module_db, corpus)
    put(module_db, corpus, "turing", "ADA LOVELACE and ADA LOVELACE of Enigma. Enigma met ADA LOVELACE.")
    put(module_db, corpus, "more", "ADA LOVELACE met Enigma.")
    delete(module_db, corpus, "ada")
    work(module_db)
    assert_merged_as_mentioned(module_db, corpus)
    delete(module_db, corpus, "hopper")
    delete(module_db, corpus, "babbage")
    work(module_db)
    assert_merged_as_mentioned(module_db, corpus)


def test_delete_leaves_the_graph_as_if_never_inserted(module_db: Database, corpus: str) -> None:
    put_all(
        module_db, corpus, STORIES | {"gone": "Ada Lovelace flew to Saturn. London burned. The Saturn of Enigma fell."}
    )
    work(module_db)
    delete(module_db, corpus, "gone")
    work(module_db)
    assert canonical(module_db, corpus) == expected(module_db, STORIES)


def test_an_edit_and_its_reversal_leave_the_graph_as_it_was(module_db: Database, corpus: str) -> None:
    index_all(module_db, corpus, STORIES)
    index_all(module_db, corpus, {"ada": "Nothing at all."})
    index_all(module_db, corpus, {"ada": STORIES["ada"]})
    assert canonical(module_db, corpus) == expected(module_db, STORIES)


def test_two_documents_with_the_same_sentence_outlive_each_other(module_db: Database, corpus: str) -> None:
    for gone in ("one", "two"):
        index_all(module_db, corpus, {"one": STORIES["ada"], "two": STORIES["ada"]})
        delete(module_db, corpus, gone)
        work(module_db)
        (left,) = {"one", "two"} - {gone}
        assert canonical(module_db, corpus) == expected(module_db, {left: STORIES["ada"]})


def test_a_hub_costs_and_counts_right(module_db: Database, corpus: str) -> None:
    people = ("Alice Adams", "Bob Brown", "Carol Clark", "Dave Davis")
    put_all(module_db, corpus, {f"{n:03}": f"Mr {people[n % 4]} of street {n} likes Ada Lovelace." for n in range(60)})
    work(module_db)
    hub = "SELECT mention_count, degree FROM graphrag.entities WHERE corpus_id = %s AND key = 'ada lovelace'"
    ((mentions, degree),) = rows(module_db, hub, corpus_id(module_db, corpus))
    assert mentions == 60
    assert degree >= 4
    assert_merged_as_mentioned(module_db, corpus)
    for n in range(0, 60, 2):
        delete(module_db, corpus, f"{n:03}")
    work(module_db)
    ((mentions, _),) = rows(module_db, hub, corpus_id(module_db, corpus))
    assert mentions == 30
    assert_merged_as_mentioned(module_db, corpus)


@pytest.mark.parametrize(
    "spellings",
    [("Ada Lovelace", "ADA LOVELACE"), ("Ada Lovelace", "Ａｄａ Ｌｏｖｅｌａｃｅ"), ("“Ada Lovelace”", "Ada Lovelace")],
    ids=["case", "width", "quotes"],
)
def test_spellings_that_differ_in_case_width_or_quotes_are_one_entity(
    module_db: Database, corpus: str, spellings: tuple[str, str]
) -> None:
    for n, spelling in enumerate(spellings):
        put(module_db, corpus, str(n), "She was born in London and she wrote many notes.", title=spelling)
    work(module_db)
    records = rows(
        module_db,
        "SELECT key, mention_count FROM graphrag.entities WHERE corpus_id = %s AND key LIKE '%%ada lovelace%%'",
        corpus_id(module_db, corpus),
    )
    assert records == [("ada lovelace", 2)]


def tables_with_corpus(db: Database) -> list[tuple[Any, ...]]:
    return rows(
        db,
        "SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
        " WHERE c.relnamespace = 'graphrag'::regnamespace AND c.relkind IN ('r', 'p')"
        "   AND (a.attname, c.relname) IN (SELECT 'corpus_id', c.relname UNION SELECT 'id', 'corpora')",
    )


def test_drop_corpus_leaves_no_row_graph_or_partition_and_other_corpora_alone(module_db: Database, corpus: str) -> None:
    name = new_corpus(module_db)
    for each in (name, corpus):
        put_all(module_db, each, STORIES)
    work(module_db)
    module_db.execute("SELECT graphrag.optimize(%s)", [name])
    put(module_db, name, "late", "Late news of Ada Lovelace.")
    delete(module_db, name, "ada")
    graph = canonical(module_db, corpus)
    number = corpus_id(module_db, name)
    spaces = [
        space for (space,) in rows(module_db, "SELECT id FROM graphrag.embedding_spaces WHERE corpus_id = %s", number)
    ]
    assert spaces
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])
    checked = tables_with_corpus(module_db)
    assert len(checked) > 10
    for table, column in checked:
        assert rows(module_db, f'SELECT * FROM graphrag.{table} WHERE "{column}" = %s', number) == [], table
    for child, parent in (("entity_values", "entities"), ("bm25_postings", "bm25_segments")):
        link = {"entity_values": "entity_id", "bm25_postings": "segment_id"}[child]
        orphans = f"SELECT 1 FROM graphrag.{child} WHERE {link} NOT IN (SELECT id FROM graphrag.{parent})"
        assert rows(module_db, orphans) == [], child
    assert rows(module_db, "SELECT 1 FROM ag_catalog.ag_graph WHERE name = %s", f"graphrag_{number}") == []
    assert value(module_db, "SELECT to_regnamespace(%s)", f"graphrag_{number}") is None
    for space in spaces:
        for table in ("window_vectors", "entity_vectors"):
            assert value(module_db, "SELECT to_regclass(%s)", f"graphrag.{table}_{space}") is None
            assert rows(module_db, f"SELECT 1 FROM graphrag.{table} WHERE space_id = %s", space) == []
    assert canonical(module_db, corpus) == graph
