"""Search over mentions that a model described: by what is said of entities and relationships, and only where it may be seen."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.ingest import delete, keys, put, rows, search, searched_corpus, work
from tests.sql.llm import provider

GRAPH_MODES = ("local", "global", "hybrid", "mix")
# What the model says of each document, which does not say it itself: (entities, relationships), told from the text.
TEXTS = {
    "0 rent": "Monday. Ann to Bob: done.",
    "1 leak": "Tuesday. Ann to Bob: come over, please.",
    "2 guitar": "Wednesday. Ann to Cid: see you at eight.",
    "3 trip": "Thursday. Bob to Cid: I have packed.",
}
ENTITIES = {
    "Monday": [("Ann", "Ann pays the monthly rent."), ("Bob", "Bob owns the flat.")],
    "Tuesday": [("Ann", "Ann reports a dripping water pipe in the bathroom."), ("Bob", "Bob is asked to repair it.")],
    "Wednesday": [("Ann", "Ann practises the guitar in a basement."), ("Cid", "Cid plays the drums.")],
    "Thursday": [("Bob", "Bob travels to Lisbon by train."), ("Cid", "Cid waters Bob's plants.")],
}
KEYWORDS = {
    "Monday": (["tenancy", "payment"], "The rent was transferred."),
    "Tuesday": (["plumbing", "emergency"], "The pipe leaks and needs a craftsman."),
    "Wednesday": (["band rehearsal"], "They rehearse songs."),
    "Thursday": (["holiday"], "A journey is prepared."),
}
FILLER = 12


def extraction(messages: Sequence[dict[str, Any]]) -> str:
    """What the model answers: what it knows of the day that the text names."""
    text = "\n".join(str(message["content"]) for message in messages if message["role"] == "user")
    day = next((day for day in ENTITIES if f"{day}." in text), None)
    if any(message["role"] == "assistant" for message in messages):
        return '{"entities": [], "relationships": []}'
    if day is None:
        return '{"entities": [{"name": "Weather", "type": "concept", "description": "It rains."}], "relationships": []}'
    entities = [{"name": name, "type": "person", "description": description} for name, description in ENTITIES[day]]
    words, description = KEYWORDS[day]
    ends = [entity["name"] for entity in entities]
    relationship = {"source": ends[0], "target": ends[1], "keywords": words, "description": description, "strength": 3}
    return json.dumps({"entities": entities, "relationships": [relationship]})


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as endpoint:
        endpoint.reply(extraction)
        yield endpoint


def corpus_of(db: Database, endpoint: Endpoint, texts: dict[str, str]) -> str:
    model = {"provider": provider(db, endpoint), "model": "model-1"}
    name = searched_corpus(db, extractor="llm", llm={"roles": {"extract": model}})
    for key, text in texts.items():
        put(db, name, key, text, metadata={"open": not key.startswith("1")})
    work(db)
    return name


@pytest.fixture(scope="module")
def corpus(module_db: Database, endpoint: Endpoint) -> str:
    filler = {f"9 {n:02}": f"Nothing of note on day {n}." for n in range(FILLER)}
    return corpus_of(module_db, endpoint, TEXTS | filler)


def local(db: Any, corpus: str, low: list[str], mode: str = "local", **given: Any) -> list[dict[str, Any]]:
    return search(
        db, "What happened?", corpus, mode, low_level_keywords=low, high_level_keywords=["What happened?"], **given
    )


def themed(db: Any, corpus: str, high: list[str], mode: str = "global", **given: Any) -> list[dict[str, Any]]:
    return search(db, ", ".join(high), corpus, mode, low_level_keywords=[], high_level_keywords=high, **given)


def best(results: list[dict[str, Any]], retriever: str) -> str | None:
    """The one document that a retriever has in its first place."""
    first = [row["source_key"] for row in results if row["explain"].get(retriever, {}).get("rank") == 1]
    return first[0] if len(first) == 1 else None


@pytest.mark.parametrize("mode", ["local", "hybrid"])
@pytest.mark.parametrize(
    ("low", "key"), [(["dripping pipe"], "1 leak"), (["guitar"], "2 guitar"), (["Lisbon"], "3 trip")]
)
def test_a_chunk_is_found_by_what_a_model_said_of_an_entity_in_it(
    module_db: Database, corpus: str, mode: str, low: list[str], key: str
) -> None:
    results = local(module_db, corpus, low, mode, top_k=20)
    assert best(results, "entity_mentions" if mode == "hybrid" else mode) == key


@pytest.mark.parametrize("weighting", ["vector", "bm25_edges", "bm25_chunks"])
@pytest.mark.parametrize(("query", "key"), [("plumbing emergency", "1 leak"), ("tenancy payment", "0 rent")])
def test_of_the_chunks_of_one_relationship_a_path_prefers_where_it_is_described_so(
    module_db: Database, corpus: str, weighting: str, query: str, key: str
) -> None:
    options = {"path_weighting": weighting, "fuse": "none", "query_entities": ["Ann", "Bob"]}
    assert best(search(module_db, query, corpus, "path", options=options), "path") == key


@pytest.mark.parametrize("mode", ["global", "hybrid"])
@pytest.mark.parametrize(
    ("high", "key"), [(["plumbing"], "1 leak"), (["band rehearsal"], "2 guitar"), (["holiday"], "3 trip")]
)
def test_a_chunk_is_found_by_one_keyword_of_a_relationship(
    module_db: Database, corpus: str, mode: str, high: list[str], key: str
) -> None:
    results = themed(module_db, corpus, high, mode, top_k=20)
    assert best(results, "relationship_mentions" if mode == "hybrid" else mode) == key


def test_explain_names_the_entity_and_the_relationship_of_the_best_mention(module_db: Database, corpus: str) -> None:
    first = themed(module_db, corpus, ["plumbing"], "hybrid")[0]["explain"]
    ((names,),) = rows(
        module_db,
        "SELECT array_agg(e.name ORDER BY e.name) FROM graphrag.relationships r"
        " JOIN graphrag.entities e ON e.id IN (r.source_id, r.target_id) WHERE r.id = %s",
        first["relationship_mentions"]["relationship_id"],
    )
    assert names == ["Ann", "Bob"]
    assert first["relationship_mentions"]["rank"] == 1


def entities(db: Any, corpus: str, low: list[str], filter_: str | None = None) -> dict[str, tuple[float, str]]:
    matches = rows(
        db,
        "SELECT name, score, description FROM graphrag.search_entities('', %s, 20, %s::jsonb, %s)",
        corpus, filter_, low,
    )  # fmt: skip
    return {name: (score, description) for name, score, description in matches}


def relationships(db: Any, corpus: str, high: list[str], filter_: str | None = None) -> list[tuple[Any, ...]]:
    return rows(
        db,
        "SELECT source, target, keywords, score FROM graphrag.search_relationships('', %s, 20, %s::jsonb, %s)",
        corpus, filter_, high,
    )  # fmt: skip


def test_entities_and_relationships_score_as_their_best_mention(module_db: Database, corpus: str) -> None:
    matches = entities(module_db, corpus, ["dripping water pipe"])
    assert next(iter(matches)) == "Ann"
    assert matches["Ann"][0] > matches["Cid"][0]
    assert relationships(module_db, corpus, ["plumbing emergency"])[0][:2] in {("Ann", "Bob"), ("Bob", "Ann")}


OPEN = '{"open": true}'


def test_mentions_of_documents_that_a_filter_leaves_out_neither_score_nor_show(
    module_db: Database, corpus: str
) -> None:
    whole, part = (entities(module_db, corpus, ["dripping water pipe"], given) for given in (None, OPEN))
    assert part["Ann"][0] < whole["Ann"][0] - 0.1
    assert "dripping" in whole["Ann"][1]
    assert not any("dripping" in description for _, description in part.values())
    assert "plumbing" not in str(relationships(module_db, corpus, ["plumbing"], OPEN))
    for mode in GRAPH_MODES:
        results = local(module_db, corpus, ["dripping pipe"], mode, filter={"open": True})
        assert "1 leak" not in keys(results)


@pytest.fixture
def reader(module_db: Database) -> Iterator[psycopg.Connection[Any]]:
    """A reader who may see the open documents only."""
    module_db.execute("ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY")
    module_db.execute("CREATE POLICY open ON graphrag.documents FOR SELECT USING ((metadata ->> 'open')::boolean)")
    with psycopg.connect(module_db.url, autocommit=True) as connection:
        connection.execute("SET ROLE graphrag_reader")
        yield connection
    module_db.execute("DROP POLICY open ON graphrag.documents")
    module_db.execute("ALTER TABLE graphrag.documents DISABLE ROW LEVEL SECURITY")


def alike(result: Any, other: Any) -> bool:
    """Whether two results are the same but for the last digits of numbers."""
    numbers: list[list[float]] = []
    shapes = []
    for matches in (result, other):
        numbers.append([])
        shapes.append(json.loads(json.dumps(matches), parse_float=lambda text: numbers[-1].append(float(text))))
    return shapes[0] == shapes[1] and numbers[0] == pytest.approx(numbers[1], abs=1e-4)


def test_a_session_that_was_secured_and_is_not_any_more_sees_all(module_db: Database, corpus: str, reader: Any) -> None:
    assert "1 leak" not in keys(local(reader, corpus, ["dripping pipe"]))
    reader.execute("RESET ROLE")
    assert local(reader, corpus, ["dripping pipe"])[0]["source_key"] == "1 leak"
    reader.execute("SET ROLE graphrag_reader")
    assert "1 leak" not in keys(local(reader, corpus, ["dripping pipe"]))


def test_what_a_session_keeps_in_memory_follows_what_others_commit(db: Database, endpoint: Endpoint) -> None:
    corpus = corpus_of(db, endpoint, {"0 rent": TEXTS["0 rent"], "2 guitar": TEXTS["2 guitar"]})
    asked = ["dripping pipe"]
    with psycopg.connect(db.url, autocommit=True) as session, psycopg.connect(db.url) as snapshot:
        before = local(session, corpus, asked)
        snapshot.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert alike(local(snapshot, corpus, asked), before)
        put(db, corpus, "1 leak", TEXTS["1 leak"])
        work(db)
        results = local(session, corpus, asked)
        assert results[0]["source_key"] == "1 leak"
        assert alike(local(snapshot, corpus, asked), before)
        with psycopg.connect(db.url, autocommit=True) as fresh:
            assert local(fresh, corpus, asked) == results
        delete(db, corpus, "1 leak")
        work(db)
        after = local(session, corpus, asked)
        assert alike([row | {"explain": 0} for row in after], [row | {"explain": 0} for row in before])


def test_equal_scores_are_ordered_by_source_key_whatever_came_first(db: Database, endpoint: Endpoint) -> None:
    texts = {f"{n} same": TEXTS["1 leak"] for n in range(6)}
    corpora = [corpus_of(db, endpoint, dict(some)) for some in (texts.items(), reversed(texts.items()))]
    for mode in GRAPH_MODES:
        first, second = (local(db, corpus, ["dripping pipe"], mode) for corpus in corpora)
        assert keys(first) == keys(second) == sorted(texts)
        assert [row["score"] for row in first] == [row["score"] for row in second]


def test_without_keywords_nothing_is_asked_of_mentions(module_db: Database, corpus: str) -> None:
    assert search(module_db, "What happened?", corpus, "local", low_level_keywords=[], high_level_keywords=[]) == []
