"""BM25 search against a plain reference of the formula, over every place an item can be in."""

import random
from collections import Counter
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from rank_bm25 import BM25Okapi

from tests.runtime.cluster import Database
from tests.sql.bm25_reference import Engine, Reference, add_chunks, install, optimize, remove_chunks

WORDS = [f"w{number}" for number in range(60)]
IDFS = ["lucene", "robertson", "robertson_clipped"]


@pytest.fixture
def db(fresh_db: Database) -> Database:
    """A new database: rows of corpus 1, which no corpus has made."""
    return fresh_db


def zipf_text(generator: random.Random, longest: int = 60) -> Counter[str]:
    """A text whose words are as unevenly frequent as in real ones."""
    words = generator.choices(WORDS, [1 / rank for rank in range(1, len(WORDS) + 1)], k=generator.randint(1, longest))
    return Counter(words)


def mixed(connection: Any, seed: int = 1) -> None:
    """Chunks in several segments, folded deletions, tombstones, and a tail with deletions."""
    generator = random.Random(seed)
    for size in (120, 30, 4):
        ids = add_chunks(connection, [zipf_text(generator) for _ in range(size)])
        optimize(connection)
        remove_chunks(connection, generator.sample(ids, size // 10))
        optimize(connection)
    remove_chunks(connection, generator.sample(ids, 1))
    chunks = [row[0] for row in connection.execute("SELECT id FROM graphrag.chunks WHERE corpus_id = 1")]
    remove_chunks(connection, generator.sample(chunks, 5))
    ids = add_chunks(connection, [zipf_text(generator) for _ in range(25)])
    remove_chunks(connection, ids[3:6])


@pytest.fixture(scope="module")
def mixed_db(module_db: Database) -> Database:
    install(module_db)
    add_chunks(module_db, [{"w1": 1, "foreign": 3}] * 50, corpus_id=2)
    mixed(module_db)
    return module_db


def count(connection: Any, table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM graphrag.{table}").fetchone()
    return int(row[0])


def test_the_mixed_index_has_every_kind_of_part(mixed_db: Database) -> None:
    for table in ("bm25_segments", "bm25_deletions", "bm25_tombstones", "bm25_tail"):
        assert count(mixed_db, table) > 0, table
    rows = mixed_db.execute(
        "SELECT count(*) FILTER (WHERE ordinals IS NULL), count(ordinals) FROM graphrag.bm25_postings"
    )
    full, listed = rows.fetchone() or (0, 0)
    assert full > 0
    assert listed > 0


@pytest.mark.parametrize("idf", IDFS)
@pytest.mark.parametrize(
    "terms", [["w1"], ["w0", "w1", "w2"], ["w0", "w40", "w7", "w7", "nowhere"], ["w55", "w59"], WORDS]
)
@pytest.mark.parametrize("limit", [1, 7, 50, 10_000])
def test_scores_and_order_are_those_of_the_formula(mixed_db: Database, terms: list[str], idf: str, limit: int) -> None:
    Reference.of(mixed_db).assert_same(Engine(mixed_db), terms, limit, idf=idf)


@pytest.mark.parametrize(("k1", "b"), [(0.0, 0.75), (1.2, 0.0), (2.0, 1.0), (0.9, 0.4)])
def test_k1_and_b_are_respected(mixed_db: Database, k1: float, b: float) -> None:
    Reference.of(mixed_db).assert_same(Engine(mixed_db), ["w0", "w3", "w30"], 20, k1=k1, b=b)


def test_clipped_idf_agrees_with_rank_bm25(mixed_db: Database) -> None:
    reference = Reference.of(mixed_db)
    ids = sorted(reference.items)
    other = BM25Okapi([list(reference.items[item].elements()) for item in ids], k1=1.5, b=0.75, epsilon=0.0)
    terms = ["w5", "w20", "w41", "w0"]
    engine = Engine(mixed_db)
    got = engine.score_items(terms, ids, idf="robertson_clipped")
    assert got == pytest.approx(list(other.get_scores(terms)), rel=1e-11)


def test_statistics_and_document_frequencies_are_exact(mixed_db: Database) -> None:
    reference = Reference.of(mixed_db)
    engine = Engine(mixed_db)
    assert engine.statistics() == (len(reference.items), pytest.approx(reference.mean, rel=1e-15))
    assert engine.document_frequencies([*WORDS, "nowhere"]) == {w: reference.df(w) for w in [*WORDS, "nowhere"]}


def test_scores_of_given_items_are_those_of_the_search_to_the_bit(mixed_db: Database) -> None:
    engine = Engine(mixed_db)
    for idf in IDFS:
        results = engine.search(["w0", "w9", "w33"], 10_000, idf=idf)
        assert len(results) > 50
        assert engine.score_items(["w0", "w9", "w33"], [item for item, _ in results], idf=idf) == [
            s for _, s in results
        ]
        assert engine.matching(["w0", "w9", "w33"], idf=idf) == sorted(results)


def test_all_that_match_are_what_a_search_without_limit_finds(mixed_db: Database) -> None:
    engine, documents = Engine(mixed_db), sorted(set(Reference.of(mixed_db).documents.values()))[::3]
    for terms in (["w0", "w9"], ["w50"], ["nowhere"], []):
        some = engine.search(terms, 10_000, documents=documents)
        assert engine.matching(terms, documents=documents) == sorted(some)
        assert engine.matching(terms, documents=[]) == []


def test_an_item_without_a_term_scores_0_and_no_item_scores_nan(mixed_db: Database) -> None:
    engine = Engine(mixed_db)
    reference = Reference.of(mixed_db)
    without = next(item for item, words in reference.items.items() if "w50" not in words)
    (foreign,) = mixed_db.execute("SELECT min(id) FROM graphrag.chunks WHERE corpus_id = 2").fetchone() or (0,)
    deleted = next(iter(set(range(1, 300)) - set(reference.items) - {foreign}))
    assert engine.score_items(["w50"], [without, foreign, deleted, 10**15]) == [0.0, None, None, None]


def test_a_repeated_term_counts_as_often_and_a_weight_is_a_factor(mixed_db: Database) -> None:
    engine = Engine(mixed_db)
    assert engine.search(["w3", "w8", "w3"], 30) == engine.search({"w3": 2.0, "w8": 1.0}, 30)
    half = engine.search({"w3": 0.5}, 30)
    assert half == [(item, score / 2) for item, score in engine.search(["w3"], 30)]
    assert engine.search({"w3": 1.0, "w0": 0.0}, 30) == engine.search(["w3"], 30)


def test_documents_restrict_the_result_but_not_the_statistics(mixed_db: Database) -> None:
    reference = Reference.of(mixed_db)
    documents = sorted(set(reference.documents.values()))
    for visible in (documents[::7], documents[:1], documents, [], [10**12]):
        for limit in (1, 5, 1000):
            reference.assert_same(Engine(mixed_db), ["w0", "w2", "w30"], limit, documents=visible)


def test_limit_0_gives_nothing(mixed_db: Database) -> None:
    assert Engine(mixed_db).search(["w0"], 0) == []


def test_no_terms_and_unknown_terms_give_nothing(mixed_db: Database) -> None:
    assert Engine(mixed_db).search([], 5) == []
    assert Engine(mixed_db).search(["nowhere", ""], 5) == []


def test_another_corpus_does_not_count(mixed_db: Database) -> None:
    assert Engine(mixed_db).document_frequencies(["foreign"]) == {"foreign": 0}
    assert Engine(mixed_db, corpus_id=2).statistics() == (50, 4.0)
    assert len(Engine(mixed_db, corpus_id=2).search(["foreign"], 1)) == 50  # all tie


@pytest.mark.parametrize(
    "options", [{"idf": "bm25+"}, {"k1": -1.0}, {"b": 1.5}, {"limit": -1}, {"terms": {"w0": -1.0}}]
)
def test_a_bad_parameter_is_an_error_with_its_value(mixed_db: Database, options: dict[str, Any]) -> None:
    for corpus_id in (1, 3):  # 3: an empty index
        arguments: dict[str, Any] = {"terms": ["w0"], "limit": 3} | options
        with pytest.raises(psycopg.errors.InvalidParameterValue) as error:
            Engine(mixed_db, corpus_id=corpus_id).search(**arguments)
        assert error.value.diag.message_hint
        value = next(iter(options.values()))
        assert str(value) in str(error.value) or "-1.0" in str(error.value)


def test_an_unknown_kind_is_an_error(mixed_db: Database) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="chunks"):
        Engine(mixed_db, kind="chunks").search(["w0"], 3)


def test_search_works_in_a_read_only_transaction(mixed_db: Database) -> None:
    expected = Engine(mixed_db).search(["w0", "w9"], 5)
    with psycopg.connect(mixed_db.url) as connection:
        connection.read_only = True
        assert Engine(connection).search(["w0", "w9"], 5) == expected
        connection.rollback()


def test_an_empty_corpus_has_no_items(db: Database) -> None:
    engine = Engine(install(db))
    assert engine.search(["w0"], 5) == []
    assert engine.statistics() == (0, 0.0)
    assert engine.score_items(["w0"], [1]) == [None]
    assert optimize(db) == {"packed": 0, "merged": 0, "segments": 0, "tombstones_removed": 0}


def test_an_item_without_lexemes_counts_in_n_and_is_never_found(db: Database) -> None:
    engine = Engine(install(db))
    ids = add_chunks(db, [{}, {}])
    for _ in range(2):
        assert engine.statistics() == (2, 0.0)
        assert engine.search(["w0"], 5) == []
        assert engine.score_items(["w0"], ids) == [0.0, 0.0]
        optimize(db)
    add_chunks(db, [{"w0": 2}])
    assert engine.statistics() == (3, pytest.approx(2 / 3))
    for _ in range(2):
        Reference.of(db).assert_same(engine, ["w0"], 5, b=1.0)
        optimize(db)


def test_frequencies_above_255_are_exact(db: Database) -> None:
    engine = Engine(install(db))
    texts = [{"often": tf, "w1": 1} for tf in (254, 255, 256, 300, 70_000, 1)] + [{"w1": 5}] * 40
    add_chunks(db, texts)
    before = engine.search(["often", "w1"], 100)
    Reference.of(db).assert_same(engine, ["often"], 100)
    assert engine.statistics()[1] == pytest.approx((254 + 255 + 256 + 300 + 70_000 + 1 + 6 + 200) / 46)
    optimize(db)
    assert engine.search(["often", "w1"], 100) == before
    # Again as the full array, after everything without the word has gone.
    remove_chunks(db, [row[0] for row in db.execute("SELECT id FROM graphrag.chunks ORDER BY id OFFSET 6").fetchall()])
    optimize(db)
    (ordinals, overflow) = db.execute(
        "SELECT ordinals, overflow FROM graphrag.bm25_postings WHERE term = 'often'"
    ).fetchone() or (b"", None)
    assert ordinals is None
    assert overflow is not None
    Reference.of(db).assert_same(engine, ["often"], 100)


def test_ties_with_the_last_place_are_all_returned(db: Database) -> None:
    engine = Engine(install(db))
    first = add_chunks(db, [{"w1": 1, "w2": 1}] * 20 + [{"w1": 2}] * 3)
    optimize(db)
    second = add_chunks(db, [{"w1": 1, "w2": 1}] * 20 + [{"w3": 1}] * 60)
    for _ in range(2):
        assert [item for item, _ in engine.search(["w1"], 3)] == first[20:]
        results = engine.search(["w1"], 4)
        assert sorted(item for item, _ in results) == sorted(first + second[:20])
        assert len({score for _, score in results}) == 2
        optimize(db)


def test_lexemes_with_quotes_backslashes_and_any_script_are_found(db: Database) -> None:
    words = ["it's", "back\\slash", "日本語", "a b", '"', "{x,y}", "NULL", "é", "👍", "%", "x'--"]
    engine = Engine(install(db))
    ids = add_chunks(db, [{word: 1} for word in words])
    for _ in range(2):
        for word, item in zip(words, ids, strict=True):
            assert [results for results, _ in engine.search([word], 2)] == [item]
        optimize(db)


def test_mentions_are_items_with_statistics_of_their_own(db: Database) -> None:
    engine = Engine(install(db), kind="entity_mention")
    (chunk,) = add_chunks(db, [{"w1": 4}])
    db.execute("INSERT INTO graphrag.entities (id, corpus_id, key, name, type) VALUES (1, 1, 'a', 'a', 't')")
    for number, tsv in enumerate(["'w1':1 'w2':2,3", "'w2':1", None], start=1):
        db.execute(
            "INSERT INTO graphrag.entity_mentions"
            " (id, corpus_id, document_id, chunk_id, entity_id, raw_key, name, type, description, evidence_rank, tsv)"
            " VALUES (%s, 1, 7, %s, 1, %s, 'a', 't', %s, %s, %s)",
            [number, chunk, str(number), tsv and "d", None if tsv else 1, tsv],
        )
    db.execute("SELECT graphrag._bm25_add(1, 'entity_mention', '{1,2,3}', '{7,7,7}')")
    for _ in range(2):
        assert engine.statistics() == (2, 2.0)
        assert sorted(item for item, _ in engine.search(["w2"], 5)) == [1, 2]
        assert [item for item, _ in engine.search(["w1"], 5)] == [1]
        assert Engine(db).statistics() == (1, 4.0)
        optimize(db)
    db.execute("SELECT graphrag._bm25_remove(1, 'entity_mention', '{1,3}')")
    for _ in range(2):
        assert engine.statistics() == (1, 1.0)
        assert [item for item, _ in engine.search(["w1", "w2"], 5)] == [2]
        optimize(db)
    assert count(db, "bm25_tombstones") == 0


def test_order_of_ingestion_and_packing_change_no_bit(db: Database) -> None:
    install(db)
    generator = random.Random(5)
    texts = [zipf_text(generator) for _ in range(90)]
    ids = add_chunks(db, texts[:50])
    optimize(db)
    ids += add_chunks(db, texts[50:])
    order = generator.sample(range(90), 90)
    two = add_chunks(db, [texts[place] for place in order], corpus_id=2)
    terms = ["w0", "w4", "w17", "w31", "w58"]
    scores = dict(Engine(db).search(terms, 1000))
    other = dict(Engine(db, corpus_id=2).search(terms, 1000))
    assert len(scores) > 60
    assert {place: scores.get(ids[place]) for place in range(90)} == {
        place: other.get(two[position]) for position, place in enumerate(order)
    }


def test_a_rolled_back_transaction_leaves_no_trace(db: Database) -> None:
    engine = Engine(install(db))
    ids = add_chunks(db, [{"w1": 1}, {"w2": 1}])
    optimize(db)
    with pytest.raises(ZeroDivisionError), db.transaction():
        add_chunks(db, [{"w1": 1}] * 3)
        remove_chunks(db, ids[:1])
        assert len(engine.search(["w1"], 10)) == 3
        optimize(db)
        assert len(engine.search(["w1"], 10)) == 3
        raise ZeroDivisionError
    assert [item for item, _ in engine.search(["w1"], 10)] == ids[:1]
    assert engine.statistics() == (2, 1.0)


@pytest.mark.slow
def test_any_sequence_of_changes_gives_what_a_fresh_index_gives(db: Database) -> None:
    install(db)
    with psycopg.connect(db.url, autocommit=True) as reader:  # a session whose caches see every state

        class Machine(RuleBasedStateMachine):
            def __init__(self) -> None:
                super().__init__()
                for table in ("bm25_segments", "bm25_tail", "bm25_tombstones", "chunks"):
                    db.execute(f"DELETE FROM graphrag.{table}")
                self.ids: list[int] = []

            @rule(seed=st.integers(0, 10**6), size=st.integers(1, 12))
            def add(self, seed: int, size: int) -> None:
                generator = random.Random(seed)
                self.ids += add_chunks(db, [zipf_text(generator, 12) for _ in range(size)])

            @precondition(lambda self: self.ids)
            @rule(data=st.data())
            def remove(self, data: st.DataObject) -> None:
                gone = data.draw(st.lists(st.sampled_from(self.ids), min_size=1, max_size=8, unique=True))
                remove_chunks(db, gone)
                self.ids = [item for item in self.ids if item not in gone]

            @rule()
            def optimize(self) -> None:
                optimize(db)
                assert count(db, "bm25_tail") == count(db, "bm25_tombstones") == 0

            @invariant()
            def same(self) -> None:
                reference = Reference.of(db)
                assert sorted(reference.items) == sorted(self.ids)
                for engine in (Engine(reader), Engine(db)):
                    assert engine.statistics() == (len(self.ids), pytest.approx(reference.mean, rel=1e-14))
                    assert engine.document_frequencies(WORDS) == {word: reference.df(word) for word in WORDS}
                    reference.assert_same(engine, ["w0", "w1", "w5", "w30"], 4)
                    reference.assert_same(engine, ["w0", "w50"], 100, idf="robertson")

        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=25, stateful_step_count=14, deadline=None, suppress_health_check=list(HealthCheck)
            ),
        )
