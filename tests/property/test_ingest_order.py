"""The graph is what the documents say: no order, batch, edit, deletion or number of workers shows in it."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.runtime.cluster import Database
from tests.sql.ingest import canonical, delete, expected, jobs, new_corpus, put, wait_for, work, worker

NAMES = (
    "Ada Lovelace",
    "Charles Babbage",
    "ADA LOVELACE",
    "London",
    "Analytical Engine",
    "“London”",
    "Ａｄａ Lovelace",
)
VERBS = ("met", "wrote to", "left")

sentences = st.builds("{} {} {}.".format, st.sampled_from(NAMES), st.sampled_from(VERBS), st.sampled_from(NAMES))
texts = st.lists(sentences, min_size=1, max_size=4).map(" ".join)
# (key, new content or None for a deletion, whether a worker runs then, and how many)
steps = st.lists(
    st.tuples(st.sampled_from("abcde"), st.one_of(st.none(), texts), st.sampled_from([0, 0, 1, 2])),
    min_size=3,
    max_size=10,
)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps)
def test_any_history_gives_what_its_last_documents_give(module_db: Database, history: list[Any]) -> None:
    corpus = new_corpus(module_db)
    documents: dict[str, str] = {}
    for key, content, workers in history:
        if content is None:
            delete(module_db, corpus, key)
            documents.pop(key, None)
        else:
            put(module_db, corpus, key, content)
            documents[key] = content
        if workers == 1:
            work(module_db, 1)
        elif workers == 2:
            both = [worker(module_db.url), worker(module_db.url)]
            assert [one.finish() for one in both] == [None, None]
    # A document that two workers met at was put off for a second.
    wait_for(lambda: work(module_db) or not jobs(module_db, corpus), "an empty queue")
    got = canonical(module_db, corpus)
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [corpus])
    wanted = expected(module_db, documents)
    for part in got:
        if part in wanted:  # no graph is made for a corpus that never had a document
            assert got[part] == wanted[part], part
        else:
            assert got[part] == [], part
