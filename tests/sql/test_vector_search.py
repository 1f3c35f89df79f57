"""Dense retrieval equals brute force, with and without an HNSW index."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import psycopg
import pytest

from tests.runtime.cluster import Database
from tests.security.readers import acting_as, readers
from tests.sql.ingest import compare_at_most, corpus_id, delete, put, rows, search, searched_corpus, value, work
from tests.sql.test_old_statistics import EXPLAINED

QUERIES = ("a boat on the river", "who baked the bread?", "stars in the night", "x")
THINGS = ("boat", "bread", "star", "river", "night", "horse", "garden", "bridge", "letter", "clock")
DEEDS = ("sank in the cold water", "was baked in the morning", "shone over the hill", "fell from the table")


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    name = searched_corpus(module_db, chunk_token_size=250, chunk_overlap=0)
    fill_with_stories(module_db, name)
    return name


def fill_with_stories(db: Database, corpus: str) -> None:
    for n in range(60):
        sentences = [
            f"The {THINGS[(n + i) % 10]} number {n} {DEEDS[(n // 10 + i) % 4]} of day {i}."
            for i in range(1 + n % 3 * 8)
        ]
        put(db, corpus, f"{n:02}", " ".join(sentences), metadata={"even": n % 2 == 0, "of": "all"})
    work(db)


@pytest.fixture
def indexed(module_db: Database) -> Iterator[None]:
    """Of a session that searches every table by its index."""
    compare_at_most(module_db, 0)
    yield
    compare_at_most(module_db, 20_000)


def vector(db: psycopg.Connection[Any], text: str) -> Any:
    return np.array(value(db, "SELECT graphrag.embed(%s)::real[]", text))


def brute_force(db: psycopg.Connection[Any], corpus: str, query: str, where: str = "true") -> dict[int, float]:
    """Cosine of the best window of each chunk that exists, by numpy."""
    best: dict[int, float] = {}
    target = vector(db, query)
    for chunk, embedding in rows(
        db,
        "SELECT v.chunk_id, v.embedding::real[] FROM graphrag.window_vectors v"
        " JOIN graphrag.embedding_spaces s ON s.id = v.space_id JOIN graphrag.documents d ON d.id = v.document_id"
        f" WHERE s.corpus_id = %s AND {where}",
        corpus_id(db, corpus),
    ):
        cosine = float(np.dot(embedding, target) / np.linalg.norm(embedding) / np.linalg.norm(target))
        best[chunk] = max(best.get(chunk, -1.0), cosine)
    return best


def assert_is_brute_force(
    db: Database, corpus: str, query: str, top_k: int, exact: bool = True, **filters: Any
) -> None:
    wanted = brute_force(db, corpus, query, "d.metadata @> '{\"even\": true}'" if filters else "true")
    results = search(db, query, corpus, "naive", top_k=top_k, **filters)
    assert len(results) == min(top_k, len(wanted))
    for row in results:
        assert row["score"] == pytest.approx(wanted[row["chunk_id"]], abs=1e-5)
    scores = sorted(wanted.values(), reverse=True)[: len(results)]
    if exact:
        assert [row["score"] for row in results] == pytest.approx(scores, abs=1e-5)
    else:
        right = sum(row["score"] >= scores[-1] - 1e-5 for row in results)
        assert right >= 0.95 * len(results)


@pytest.mark.sample(4)
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("top_k", [1, 7, 60, 1000])
def test_without_an_index_the_nearest_are_exactly_those_of_brute_force(
    module_db: Database, corpus: str, query: str, top_k: int
) -> None:
    assert_is_brute_force(module_db, corpus, query, top_k)
    assert_is_brute_force(module_db, corpus, query, top_k, filter={"even": True})


def test_some_chunks_have_several_windows(module_db: Database, corpus: str) -> None:
    most = "SELECT max(ordinal) FROM graphrag.chunk_windows WHERE corpus_id = %s"
    assert value(module_db, most, corpus_id(module_db, corpus)) > 0


@pytest.mark.usefixtures("indexed")
def test_with_hnsw_the_nearest_are_those_of_brute_force_and_as_many(module_db: Database, corpus: str) -> None:
    built = value(module_db, "SELECT graphrag._index_vectors(%s, 1)", corpus_id(module_db, corpus))
    assert len(built) == 2
    assert value(module_db, "SELECT graphrag._index_vectors(%s, 1)", corpus_id(module_db, corpus)) == []
    for query in QUERIES:
        for top_k in (1, 7, 60, 100, 1000):
            assert_is_brute_force(module_db, corpus, query, top_k, exact=False)
            assert_is_brute_force(module_db, corpus, query, top_k, exact=False, filter={"even": True})


def test_hybrid_ranks_as_many_chunks_with_hnsw_as_without(module_db: Database, corpus: str) -> None:
    value(module_db, "SELECT graphrag._index_vectors(%s, 1)::text", corpus_id(module_db, corpus))
    depth = "DO LANGUAGE plpython3u 'from pg_graphrag.search.contexts import best_rows as rows; rows.DEPTH = {}'"
    answers = []
    try:
        module_db.execute(depth.format(5).encode())
        for most in (0, 20_000):
            compare_at_most(module_db, most)
            answers.append([search(module_db, query, corpus, "hybrid", top_k=5) for query in QUERIES])
    finally:
        module_db.execute(depth.format(100).encode())
    for with_index, without in zip(*answers, strict=True):
        assert [row["chunk_id"] for row in with_index] == [row["chunk_id"] for row in without]
        assert [row["score"] for row in with_index] == pytest.approx([row["score"] for row in without], abs=1e-5)


@pytest.mark.usefixtures("indexed")
def test_with_hnsw_and_most_documents_deleted_the_rest_is_still_found(module_db: Database, corpus: str) -> None:
    value(module_db, "SELECT graphrag._index_vectors(%s, 1)::text", corpus_id(module_db, corpus))
    for n in range(50):
        delete(module_db, corpus, f"{n:02}")
    for query in QUERIES:
        assert_is_brute_force(module_db, corpus, query, 5, exact=False)
    work(module_db)
    for query in QUERIES:
        assert_is_brute_force(module_db, corpus, query, 5, exact=False)
        assert_is_brute_force(module_db, corpus, query, 1000, exact=False)


@contextmanager
def scanned(db: Database) -> Iterator[list[str]]:
    """Names of the HNSW indexes that the plans of a session scan, small as they are."""
    names: list[str] = []

    def note(notice: psycopg.errors.Diagnostic) -> None:
        names.extend(re.findall(r'"Index Name": "(\w+_hnsw_idx)"', notice.message_primary or ""))

    db.execute(EXPLAINED + "; SET enable_seqscan = off")
    db.add_notice_handler(note)
    try:
        yield names
    finally:
        db.remove_notice_handler(note)
        db.execute("SET auto_explain.log_min_duration = -1; RESET enable_seqscan")


def restricted(db: Database, corpus: str, condition: str, ask: Callable[[Database], Any]) -> Any:
    """What a reader is told who may see the documents of a condition alone."""
    with readers(db, 1) as (role,):
        db.execute("SELECT graphrag.protect(%s, %s)", [corpus, condition])
        try:
            with acting_as(db, role):
                return ask(db)
        finally:
            db.execute("SELECT graphrag.unprotect(%s)", [corpus])


REMOVED = "corpus = %s AND metadata ->> 'even' = 'true' AND source_key < '30'"


@pytest.mark.usefixtures("indexed")
@pytest.mark.parametrize(
    "statement",
    [
        f"DELETE FROM graphrag.documents WHERE {REMOVED}",
        f"UPDATE graphrag.documents SET retracted_at = now(), retraction_reason = 'wrong' WHERE {REMOVED}",
    ],
    ids=["deleted", "retracted"],
)
def test_while_a_removal_waits_a_search_asks_the_index_and_finds_what_it_does_after_it(
    module_db: Database, statement: str
) -> None:
    name = searched_corpus(module_db, chunk_token_size=250, chunk_overlap=0)
    fill_with_stories(module_db, name)
    value(module_db, "SELECT graphrag._index_vectors(%s, 1)::text", corpus_id(module_db, name))
    index = hnsw_indexes(module_db, name)[0][0]
    whole: dict[str, Any] = {"of": "all"}

    def answers(db: Database, **arguments: Any) -> list[list[tuple[int, float]]]:
        # Two depths: a later search may go on from an earlier one.
        hits = [search(db, query, name, "naive", top_k=top_k, **arguments) for query in QUERIES for top_k in (5, 40)]
        return [[(row["chunk_id"], row["score"]) for row in rows_] for rows_ in hits]

    everything = answers(module_db)
    with Database.open(module_db.url) as cold:
        module_db.execute(statement.encode(), [name])
        compare_at_most(cold, 0)
        with scanned(cold) as indexes:
            waiting = answers(cold)
        assert index in indexes
        assert waiting != everything
        with scanned(module_db) as indexes:
            assert answers(module_db) == waiting, "whatever the session remembers"
            assert index in indexes
            indexes.clear()
            assert answers(module_db, filter=whole) == waiting, "however the restriction is said"
            assert index in indexes
            for metadata, is_whole in (('{"of": "all"}', True), ('{"even": false}', False)):
                indexes.clear()
                of_reader = restricted(module_db, name, f"metadata @> '{metadata}'", answers)
                assert (of_reader == waiting, index in indexes) == (is_whole, is_whole), "whoever asks"
            indexes.clear()
            answers(module_db, filter={"even": True})
            assert index not in indexes, "a part is compared"
            most = "DO LANGUAGE plpython3u 'from pg_graphrag.server.access import caller; caller.MAX_REMOVED = {}'"
            module_db.execute(most.format(3).encode())
            try:
                compared = answers(module_db)
            finally:
                module_db.execute(most.format(10_000).encode())
            assert index not in indexes, "more than a statement names"
        assert [len(hits) for hits in compared] == [len(hits) for hits in waiting]
        work(module_db)
        with scanned(module_db):
            assert answers(module_db) == waiting
        with scanned(cold):
            assert answers(cold) == waiting


def test_a_build_has_the_memory_that_its_rows_need(module_db: Database) -> None:
    name = searched_corpus(module_db)
    put(module_db, name, "a", "The boat sank.")
    work(module_db)
    number = corpus_id(module_db, name)
    notices: list[str] = []
    with psycopg.connect(module_db.url, autocommit=True) as builder:
        builder.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
        builder.execute(
            "INSERT INTO graphrag.entities (corpus_id, key, name, type) SELECT %s, 'e' || n, 'E' || n, 'NAME'"
            "  FROM generate_series(1, 1500) n",
            [number],
        )
        builder.execute(
            "INSERT INTO graphrag.entity_vectors (space_id, entity_id, embedding)"
            " SELECT s.id, e.id, (SELECT array_agg(sin(e.id * d)) FROM generate_series(1, s.dimensions) d)::real[]::vector"
            "  FROM graphrag.entities e JOIN graphrag.embedding_spaces s USING (corpus_id) WHERE e.key ~ '^e[0-9]+$'"
            "   AND corpus_id = %s",
            [number],
        )
        builder.execute("SET maintenance_work_mem = '1MB'")
        builder.execute("BEGIN")
        assert len(builder.execute("SELECT graphrag._index_vectors(%s, 1000)", [number]).fetchall()[0][0]) == 1
        assert builder.execute("SHOW maintenance_work_mem").fetchall() == [("1MB",)]
        assert notices == []
        builder.execute("ROLLBACK")
        # Of a quarter of what the machine has.
        builder.execute("SET effective_cache_size = '4MB'")
        builder.execute("SELECT graphrag._index_vectors(%s, 1000)", [number])
        assert any("no longer fits" in notice for notice in notices)


def test_an_index_too_small_to_pay_is_not_built(module_db: Database) -> None:
    name = searched_corpus(module_db)
    put(module_db, name, "a", "The boat sank.")
    work(module_db)
    assert value(module_db, "SELECT graphrag._index_vectors(%s, 1000)", corpus_id(module_db, name)) == []
    module_db.execute("SELECT graphrag.optimize(%s)", [name])
    (space,) = rows(
        module_db, "SELECT id FROM graphrag.embedding_spaces WHERE corpus_id = %s", corpus_id(module_db, name)
    )
    for table in ("window_vectors", "entity_vectors"):
        index = f"graphrag.{table}_{space[0]}_hnsw_idx"
        assert value(module_db, "SELECT to_regclass(%s)", index) is None


def fill(db: Database, corpus: str, count: int) -> None:
    """Random vectors, as many as make an index pay, for documents, chunks and windows made with SQL."""
    number = corpus_id(db, corpus)
    ((space,),) = rows(db, "SELECT id FROM graphrag.embedding_spaces WHERE corpus_id = %s", number)
    first = 1_000_000
    ((document,),) = rows(db, "SELECT id FROM graphrag.documents WHERE corpus_id = %s LIMIT 1", number)
    # Around a few centres, as texts are; the seed makes the test the same every time.
    noise = np.random.default_rng(7)
    centres = noise.standard_normal((100, 384))
    vectors = (centres[noise.integers(0, 100, count)] + noise.standard_normal((count, 384))).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    with db.cursor().copy(
        b"COPY graphrag.window_vectors (space_id, window_id, chunk_id, document_id, embedding) FROM STDIN"
    ) as copy:
        for n, vector in enumerate(vectors):
            copy.write_row((space, first + n, first + n, document, "[" + ",".join(map(str, vector.tolist())) + "]"))


def hnsw_indexes(db: Database, corpus: str) -> list[tuple[str, int]]:
    """Name and file of the HNSW indexes of a corpus' windows."""
    return rows(
        db,
        "SELECT c.relname, c.relfilenode FROM pg_class c JOIN graphrag.embedding_spaces s"
        " ON c.relname = format('window_vectors_%%s_hnsw_idx', s.id) WHERE s.corpus_id = %s",
        corpus_id(db, corpus),
    )


def test_ingest_builds_the_index_once_when_there_are_enough_vectors_and_finds_nearly_all(module_db: Database) -> None:
    name = searched_corpus(module_db)
    put(module_db, name, "a", "The boat sank.")
    work(module_db)
    assert hnsw_indexes(module_db, name) == []
    fill(module_db, name, 3000)
    compare_at_most(module_db, 3000)
    put(module_db, name, "b", "The bread was baked.")
    work(module_db)
    built = hnsw_indexes(module_db, name)
    assert len(built) == 1
    put(module_db, name, "c", "The star shone.")
    work(module_db)
    module_db.execute("SELECT graphrag.optimize(%s)", [name])
    compare_at_most(module_db, 20_000)
    assert hnsw_indexes(module_db, name) == built
    ((space,),) = rows(
        module_db, "SELECT id FROM graphrag.embedding_spaces WHERE corpus_id = %s", corpus_id(module_db, name)
    )
    nearest = (
        f"SELECT array_agg(n.window_id) FROM (SELECT v.window_id FROM graphrag.window_vectors_{space} v"
        " ORDER BY v.embedding::vector(384) <=> (SELECT q.embedding"
        f" FROM graphrag.window_vectors_{space} q"
        " WHERE q.window_id = %s)::vector(384) LIMIT 10) n"
    )
    targets = [
        row[0] for row in rows(module_db, f"SELECT window_id FROM graphrag.window_vectors_{space} ORDER BY 1 LIMIT 50")
    ]
    module_db.execute("SET hnsw.ef_search = 200")
    try:
        module_db.execute("SET enable_seqscan = off")
        approximate = [set(value(module_db, nearest, target)) for target in targets]
        plan = "\n".join(row[0] for row in rows(module_db, "EXPLAIN " + nearest, targets[0]))
        assert "hnsw" in plan
        module_db.execute("SET enable_seqscan = on; SET enable_indexscan = off")
        exact = [set(value(module_db, nearest, target)) for target in targets]
    finally:
        module_db.execute("RESET enable_seqscan; RESET enable_indexscan; RESET hnsw.ef_search")
    recall = sum(len(a & b) for a, b in zip(approximate, exact, strict=True)) / 10 / len(targets)
    assert recall >= 0.95


def test_an_index_build_blocks_no_ingest_of_another_corpus(module_db: Database) -> None:
    first, other = searched_corpus(module_db), searched_corpus(module_db)
    for name in (first, other):
        put(module_db, name, "a", "Ada Lovelace met Charles Babbage in London.")
    work(module_db)
    with psycopg.connect(module_db.url) as builder:
        # The build's lock is held until the transaction ends.
        builder.execute("SELECT graphrag._index_vectors(%s, 1)", [corpus_id(module_db, first)])
        module_db.execute("SET statement_timeout = '60s'")
        put(module_db, other, "a", "Grace Hopper wrote a compiler.")
        work(module_db)
        delete(module_db, other, "a")
        work(module_db)
        module_db.execute("RESET statement_timeout")
        assert (
            value(module_db, "SELECT count(*) FROM graphrag.chunks WHERE corpus_id = %s", corpus_id(module_db, other))
            == 0
        )


@pytest.mark.parametrize(
    ("text", "question", "own", "near", "far"),
    [
        (
            "琵琶湖は滋賀県にある。富士山は静岡県にそびえる。信濃川は新潟県を流れる。利根川は千葉県を流れる。",
            "新潟県を流れる信濃川",
            {"信濃川", "新潟県"},
            {"利根川", "千葉県"},
            {"琵琶湖", "滋賀県", "富士山", "静岡県"},
        ),
        (
            "青海湖位于青海省。长江流经武汉市和南京市。黄河在山东省流入渤海。珠江在广东省流入南海。",
            "黄河在山东省流入哪里",
            {"黄河", "山东省", "渤海"},
            {"珠江", "广东省", "南海"},
            {"青海湖", "青海省"},
        ),
    ],
    ids=["ja", "zh"],
)
def test_relationships_of_one_window_score_by_their_own_sentence(
    module_db: Database, text: str, question: str, own: set[str], near: set[str], far: set[str]
) -> None:
    corpus = searched_corpus(module_db)
    put(module_db, corpus, "rivers", text)
    work(module_db)
    windows = "SELECT count(*) FROM graphrag.chunk_windows w JOIN graphrag.chunks c ON c.id = w.chunk_id WHERE c.corpus_id = %s"
    assert value(module_db, windows, corpus_id(module_db, corpus)) == 1
    relationships = rows(
        module_db, "SELECT source, target, score FROM graphrag.search_relationships(%s, %s, 20)", question, corpus
    )
    scores = [{score for *ends, score in relationships if names.issuperset(ends)} for names in (own, near, far)]
    # Those of one sentence have one score, and no two sentences that share differently with the question have the same.
    assert [len(each) for each in scores] == [1, 1, 1]
    best, second, last = (each.pop() for each in scores)
    assert best > second > last > 0 and relationships[0][2] == best
    assert {name for *ends, score in relationships if score == best for name in ends} <= own


@pytest.fixture(scope="module")
def talk(module_db: Database) -> str:
    """Thirty turns of Ann and Ben, and forty of others, of which none answers."""
    corpus = searched_corpus(module_db)
    turns = {
        f"{n:02}": f"Ben: Ann, what does she do on day {n}?" if n % 2 else f"Ann: She sleeps, {n}." for n in range(30)
    }
    turns["run"] = "Ann: Running clears my head after a long day at work."
    for key, text in turns.items():
        put(module_db, corpus, key, text, metadata={"of": "Ann"})
    for n in range(40):
        put(module_db, corpus, f"other {n}", f"Cleo: The ship number {n} is late.", metadata={"of": "Cleo"})
    work(module_db)
    return corpus


NEAREST = "SELECT source_key, score FROM graphrag.search(%s, %s, 'naive', top_k => 5, filter => %s) ORDER BY rank"
OF_ANN = '{"of": "Ann"}'


def test_who_speaks_in_most_turns_does_not_lead_the_question(module_db: Database, talk: str) -> None:
    (best, _), *_ = rows(module_db, NEAREST, "What does Ann do to relax?", talk, OF_ANN)
    assert best == "run"
    # Names alone are asked for as they are.
    for question in ("Who is Ann?", "Ann", "Ann?", "Ann, Ann's: Ann"):
        whole = max(brute_force(module_db, talk, question).values())
        assert rows(module_db, NEAREST, question, talk, OF_ANN)[0][1] == pytest.approx(whole, abs=1e-5)


def test_most_turns_are_most_of_those_that_may_be_seen(module_db: Database, talk: str) -> None:
    question = "What does Ann do to relax?"
    filtered = rows(module_db, NEAREST, question, talk, OF_ANN)
    assert rows(module_db, NEAREST, question, talk, "{}") != filtered
    with readers(module_db, 1) as (role,):
        module_db.execute("SELECT graphrag.protect(%s, $$metadata ->> 'of' = 'Ann'$$)", [talk])
        with acting_as(module_db, role):
            assert rows(module_db, NEAREST, question, talk, "{}") == filtered
        module_db.execute("SELECT graphrag.unprotect(%s)", [talk])


def test_a_party_of_a_contract_that_every_clause_names_still_tells(module_db: Database) -> None:
    corpus = searched_corpus(module_db)
    for n in range(24):
        put(module_db, corpus, f"{n:02}", f"The Tenant pays the Landlord the sum of clause {n} in advance.")
    put(module_db, corpus, "landlord", "The Landlord repairs what the storm breaks, and tells the Tenant so.")
    put(module_db, corpus, "tenant", "The Tenant repairs what the children break, and tells the Landlord so.")
    work(module_db)
    leads = []
    for who in ("Landlord", "Tenant"):
        scores = dict(rows(module_db, NEAREST, f"Which repairs are made by the {who}?", corpus, "{}"))
        leads.append(scores["landlord"] - scores["tenant"])
    assert leads[0] > leads[1]
