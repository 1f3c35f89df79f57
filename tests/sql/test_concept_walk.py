"""Concepts of chunks that are not in the graph count, too: in walks, local, global and mix."""

from collections.abc import Iterator

import pytest
from pg_graphrag.text.concept import digest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.extracting import NOTHING, extracted
from tests.sql.ingest import put, rows, searched_corpus, value, work

QUESTION = "In which town was the designer of the Kestrel engine born?"
TEXTS = {"first": "The Kestrel engine is by Bob Stone.", "second": "Bob Stone came from Leeds."}
WEAK = {"first": "The Kestrel engine is a hopeful promise.", "second": "A hopeful promise came from Leeds."}
# Nearer to the question than the second, by their words.
FILLER = {
    f"{number:02}": f"In town {number} the designer was born, in which engine nobody knows." for number in range(24)
}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as endpoint:
        endpoint.reply(lambda _: NOTHING)
        yield endpoint


def filled(db: Database, endpoint: Endpoint | None, texts: dict[str, str]) -> str:
    """A corpus whose model finds nothing of its schema, or one without a model."""
    corpus = (
        searched_corpus(db)
        if endpoint is None
        else extracted(db, endpoint, summaries=False, entity_types={"entities": {"ship": {}}})
    )
    for key, text in texts.items():
        put(db, corpus, key, text, metadata={"filler": key in FILLER and key > "10"})
    work(db)
    return corpus


@pytest.fixture(scope="module")
def corpus(module_db: Database, endpoint: Endpoint) -> str:
    return filled(module_db, endpoint, TEXTS | FILLER)


def found(db: Database, corpus: str, **options: object) -> list[tuple[object, ...]]:
    """(source_key, score) of the first ten of ppr."""
    arguments = [QUESTION, corpus, Jsonb(options.get("filter", {}))]
    return rows(
        db,
        "SELECT source_key, score FROM graphrag.search(%s, %s, mode => 'ppr', top_k => 10, filter => %s)",
        *arguments,
    )


def test_a_name_that_the_model_left_out_leads_to_the_next_document(module_db: Database, corpus: str) -> None:
    assert [key for key, _ in found(module_db, corpus)][:2] == ["first", "second"]


@pytest.mark.parametrize("has_model", [True, False])
def test_of_chunks_whose_concepts_are_not_known_the_graph_decides(
    module_db: Database, endpoint: Endpoint, has_model: bool
) -> None:
    corpus = filled(module_db, *((endpoint, TEXTS | FILLER) if has_model else (None, WEAK | FILLER)))
    module_db.execute(
        "UPDATE graphrag.chunks c SET concepts = NULL FROM graphrag.corpora k WHERE k.id = c.corpus_id AND k.name = %s",
        [corpus],
    )
    assert "second" not in [key for key, _ in found(module_db, corpus)][:2]


def test_a_part_of_the_documents_is_walked_by_its_own_concepts(module_db: Database, corpus: str) -> None:
    assert [key for key, _ in found(module_db, corpus, filter={"filler": False})][:2] == ["first", "second"]


@pytest.mark.parametrize("mode", ["local", "global", "mix"])
def test_local_and_global_find_names_that_the_model_left_out(module_db: Database, corpus: str, mode: str) -> None:
    sql = "SELECT source_key, explain FROM graphrag.search('Who is Bob Stone?', %s, mode => %s, filter => %s)"
    for restriction in ({}, {"filler": False}):
        best = rows(module_db, sql, corpus, mode, Jsonb(restriction))[:2]
        assert {key for key, _ in best} == {"first", "second"}
        level = "global" if mode == "global" else "local"
        assert best[0][1][level]["because"] == "concepts in it that are not in the graph"


@pytest.mark.parametrize("options", [{}, {"rrf_k": 10}])
def test_mix_goes_by_scores_and_where_it_is_asked_to_by_ranks(
    module_db: Database, corpus: str, options: dict[str, int]
) -> None:
    sql = "SELECT score, explain FROM graphrag.search(%s, %s, mode => 'mix', top_k => 100, options => %s)"
    levels = ("local", "global", "windows")
    for asked in (corpus, filled(module_db, None, TEXTS | FILLER)):
        answer = rows(module_db, sql, QUESTION, asked, Jsonb(options))
        assert len(answer) == len(TEXTS | FILLER)
        best = {each: max(row[each]["score"] for _, row in answer if each in row) for each in levels}
        for score, row in answer:
            there = [each for each in levels if each in row]
            ranks = sum(1 / (10 + row[each]["rank"]) for each in there)
            shares = sum(max(row[each]["score"], 0) / best[each] for each in there)
            assert score == pytest.approx(ranks if options else shares, abs=1e-4)


def test_a_hidden_document_s_names_count_for_nothing(module_db: Database, corpus: str) -> None:
    sql = "SELECT source_key FROM graphrag.search('Who is Bob Stone?', %s, mode => 'local', filter => %s)"
    assert rows(module_db, sql, corpus, Jsonb({"filler": True})) == []


def test_the_paper_s_local_goes_by_what_the_model_named(module_db: Database, corpus: str) -> None:
    sql = "SELECT source_key FROM graphrag.search('Who is Bob Stone?', %s, mode => 'local', options => %s)"
    assert rows(module_db, sql, corpus, Jsonb({"profile": "paper"})) == []


def test_a_chunk_has_a_digest_of_each_concept(module_db: Database, corpus: str) -> None:
    stored = value(
        module_db,
        "SELECT c.concepts FROM graphrag.chunks c JOIN graphrag.documents d ON d.id = c.document_id"
        " WHERE d.corpus = %s AND d.source_key = 'first'",
        corpus,
    )
    digests = {stored[place : place + 8] for place in range(0, len(stored), 8)}
    assert {digest("kestrel engine"), digest("bob stone")} <= digests


def test_without_a_model_a_chunk_has_a_digest_of_what_is_too_weak_for_an_entity(module_db: Database) -> None:
    corpus = filled(module_db, None, WEAK)
    sql = "SELECT DISTINCT c.concepts FROM graphrag.chunks c JOIN graphrag.corpora k ON k.id = c.corpus_id WHERE k.name = %s"
    assert all(digest("hopeful promise") in stored for (stored,) in rows(module_db, sql, corpus))
    names = "SELECT name FROM graphrag.graph_nodes WHERE corpus = %s"
    assert "hopeful promise" not in {name for (name,) in rows(module_db, names, corpus)}


def test_what_is_too_weak_for_an_entity_leads_to_the_next_document(module_db: Database) -> None:
    corpus = filled(module_db, None, WEAK | FILLER)
    assert [key for key, _ in found(module_db, corpus)][:2] == ["first", "second"]
    assert [key for key, _ in found(module_db, corpus, filter={"filler": False})][:2] == ["first", "second"]


@pytest.mark.parametrize("mode", ["local", "global", "mix"])
def test_local_and_global_find_what_is_too_weak_for_an_entity(module_db: Database, mode: str) -> None:
    # Of a graph without relationships global knows nothing, and hybrid stands in.
    related = {"related": "Charles Babbage met Ada Lovelace."}
    corpus = filled(module_db, None, WEAK | FILLER | related)
    sql = "SELECT source_key, explain FROM graphrag.search('hopeful promise', %s, mode => %s, top_k => 2, filter => %s)"
    best = rows(module_db, sql, corpus, mode, Jsonb({}))
    assert {key for key, _ in best} == {"first", "second"}
    assert all("instead" not in explain for _, explain in best)
    visible = rows(module_db, sql, corpus, mode, Jsonb({"filler": False}))
    assert {key for key, _ in visible} == {"first", "second"}


def test_local_finds_near_the_question_what_is_too_weak_and_not_named_as_it_stands(module_db: Database) -> None:
    corpus = filled(module_db, None, {"weak": "It was a hopeful promise.", "met": "Charles Babbage met Ada Lovelace."})
    sql = "SELECT source_key FROM graphrag.search('Which promise gave hope to Ada Lovelace?', %s, mode => 'local')"
    assert {key for (key,) in rows(module_db, sql, corpus)} == {"met", "weak"}


def test_a_session_that_caches_nothing_walks_over_weak_concepts_too(module_db: Database) -> None:
    corpus = filled(module_db, None, WEAK | FILLER)
    cached = found(module_db, corpus)
    module_db.execute("SET graphrag.session_memory = 0")
    try:
        assert found(module_db, corpus) == cached
    finally:
        module_db.execute("RESET graphrag.session_memory")


def test_a_name_that_is_weak_in_one_document_and_repeated_in_another_is_one_node(module_db: Database) -> None:
    repeated = "A hopeful promise came from Leeds. The hopeful promise was kept."
    corpus = filled(module_db, None, {"first": WEAK["first"], "second": repeated} | FILLER)
    assert [key for key, _ in found(module_db, corpus)][:2] == ["first", "second"]


def test_walks_of_papers_go_over_entities_alone(module_db: Database) -> None:
    corpus = filled(module_db, None, WEAK | FILLER)
    options = Jsonb({"profile": "paper"})
    sql = "SELECT source_key FROM graphrag.search(%s, %s, mode => 'ppr', top_k => 2, options => %s)"
    assert "second" not in [key for (key,) in rows(module_db, sql, QUESTION, corpus, options)]
