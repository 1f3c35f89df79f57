"""graphrag.context: whole entries within the budget, with references that fit the chunks."""

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.sql.asking import warnings
from tests.sql.ingest import STORIES, put, refused, search, searched_corpus, value, work

MODES = ("naive", "bm25", "local", "global", "hybrid", "mix")
QUESTION = "Which notes did Ada Lovelace write on the Analytical Engine?"


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    name = searched_corpus(module_db, chunk_token_size=50, chunk_overlap=0)
    for key, content in STORIES.items():
        put(
            module_db,
            name,
            key,
            f"{content} " * 4,
            title=None if key == "enigma" else f"Story of {key}",
            metadata={"key": key},
        )
    work(module_db)
    return name


def context(
    db: Database, query: str | None, corpus: str, mode: str = "hybrid", max_tokens: int | None = None, **options: Any
) -> Any:
    return value(
        db, "SELECT graphrag.context(%s, %s, %s, %s, options => %s)", query, corpus, mode, max_tokens, Jsonb(options)
    )


def assert_consistent(parts: dict[str, Any]) -> None:
    assert set(parts) - {"explain"} == {
        "entities",
        "relationships",
        "reports",
        "claims",
        "tables",
        "chunks",
        "references",
        "prompt",
        "tokens",
    }
    numbers = {reference["number"]: reference["document_id"] for reference in parts["references"]}
    assert list(numbers) == list(range(1, len(numbers) + 1))
    assert len(set(numbers.values())) == len(numbers)
    assert {chunk["reference"] for chunk in parts["chunks"]} == set(numbers)
    for chunk in parts["chunks"]:
        assert numbers[chunk["reference"]] == chunk["document_id"]
        assert f"[{chunk['reference']}] {chunk['content']}" in parts["prompt"]
    for reference in parts["references"]:
        assert set(reference) == {"number", "document_id", "source_key", "title"}
        assert f"[{reference['number']}] {reference['title'] or reference['source_key']}" in parts["prompt"]
    for entity in parts["entities"]:
        assert entity["name"] in parts["prompt"]
    for relationship in parts["relationships"]:
        assert relationship["description"] in parts["prompt"]


@pytest.mark.parametrize("mode", MODES)
def test_context_has_its_parts_and_they_agree(module_db: Database, corpus: str, mode: str) -> None:
    parts = context(module_db, QUESTION, corpus, mode)
    assert_consistent(parts)
    assert parts["chunks"]
    assert parts["tokens"] > 50
    assert bool(parts["entities"]) == bool(parts["relationships"]) == (mode not in ("naive", "bm25"))
    rows = search(module_db, QUESTION, corpus, mode, top_k=20)
    assert [chunk["chunk_id"] for chunk in parts["chunks"]] == [row["chunk_id"] for row in rows]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("max_tokens", [0, 1, 5, 20, 60, 150, 400, 1000, 30_000])
def test_tokens_never_exceed_the_budget(module_db: Database, corpus: str, mode: str, max_tokens: int) -> None:
    parts = context(module_db, QUESTION, corpus, mode, max_tokens)
    assert parts["tokens"] <= max_tokens
    assert_consistent(parts)
    if max_tokens >= 400:
        assert parts["chunks"], "the graph crowds out the text"


def test_tokens_are_counted_by_the_corpus_tokenizer(module_db: Database, corpus: str) -> None:
    parts = context(module_db, QUESTION, corpus)
    # An independent count: the same text as a document of one chunk.
    name = searched_corpus(module_db, chunk_token_size=8192, chunk_overlap=0)
    put(module_db, name, "prompt", parts["prompt"])
    work(module_db)
    counted = value(
        module_db,
        "SELECT sum(token_count) FROM graphrag.chunks c JOIN graphrag.corpora k ON k.id = c.corpus_id WHERE k.name = %s",
        name,
    )
    assert counted == parts["tokens"]


def test_options_bound_the_parts(module_db: Database, corpus: str) -> None:
    assert len(context(module_db, QUESTION, corpus, chunk_top_k=2)["chunks"]) == 2
    assert context(module_db, QUESTION, corpus, max_entity_tokens=0)["entities"] == []
    assert context(module_db, QUESTION, corpus, max_relation_tokens=0)["relationships"] == []
    assert context(module_db, QUESTION, corpus, max_total_tokens=30)["tokens"] <= 30
    parts = context(module_db, QUESTION, corpus, include_chunks=False)
    assert parts["chunks"] == parts["references"] == []
    assert parts["entities"]


@pytest.mark.parametrize("query", ["", "  ", None])
def test_an_empty_query_has_an_empty_context(module_db: Database, corpus: str, query: str | None) -> None:
    parts = context(module_db, query, corpus)
    assert (parts["prompt"], parts["tokens"], parts["chunks"], parts["entities"]) == ("", 0, [], [])


def test_a_filter_bounds_every_part(module_db: Database, corpus: str) -> None:
    parts = value(module_db, 'SELECT graphrag.context(%s, %s, filter => \'{"key": "hopper"}\')', QUESTION, corpus)
    assert {reference["source_key"] for reference in parts["references"]} == {"hopper"}
    assert "Babbage" not in parts["prompt"]
    assert_consistent(parts)


@pytest.mark.parametrize(
    ("arguments", "sqlstate"),
    [
        ("max_tokens => -1", "22023"),
        ("mode => 'sideways'", "22023"),
        ("corpus => 'nowhere'", "42704"),
        ("options => '{\"nothing\": 1}'", "22023"),
        ("options => '{\"include_chunks\": 1}'", "22023"),
        ("options => '{\"chunk_top_k\": -2}'", "22023"),
    ],
)
def test_a_bad_argument_is_an_error_with_a_hint(
    module_db: Database, corpus: str, arguments: str, sqlstate: str
) -> None:
    given = arguments if "corpus" in arguments else f"corpus => '{corpus}', {arguments}"
    diag = refused(module_db, f"SELECT graphrag.context('x', {given})")
    assert diag.sqlstate == sqlstate
    assert diag.message_hint


@pytest.mark.parametrize("mode", [*MODES, "path", "ppr", "graph_local", "lazy"])
@pytest.mark.parametrize("excerpts", [True, False])
def test_a_budget_that_is_too_small_says_what_works(
    module_db: Database, corpus: str, mode: str, excerpts: bool
) -> None:
    with warnings(module_db) as said:
        parts = context(module_db, QUESTION, corpus, mode, 4, excerpts=excerpts)
    assert (parts["prompt"], parts["tokens"]) == ("", 0)
    assert said == ["nothing of what was found fits into 4 tokens"]
    assert parts["explain"]["empty"] == said[0]
    least = parts["explain"]["least_tokens"]
    with warnings(module_db) as said:
        parts = context(module_db, QUESTION, corpus, mode, least, excerpts=excerpts)
        fewer = context(module_db, QUESTION, corpus, mode, least - 1, excerpts=excerpts)
    assert (parts["tokens"], fewer["prompt"]) == (least, "")
    assert said == [f"nothing of what was found fits into {least - 1} tokens"]
    (chunk,) = parts["chunks"]
    assert f"[1] {chunk['content']}\n" in parts["prompt"]
    assert chunk["excerpt"] is excerpts or len(chunk["content"]) < 60


def test_whole_sentences_that_fit_are_in(module_db: Database) -> None:
    name = searched_corpus(module_db)
    sentence = "Engine number {} of the Osaka works burns methane and needs a new valve every spring. "
    put(module_db, name, "engines", "".join(sentence.format(number) for number in range(40)))
    work(module_db)
    for tokens in (40, 60, 90):
        parts = context(module_db, "When does engine number 7 need a valve?", name, "bm25", tokens)
        (chunk,) = parts["chunks"]
        assert (
            "Engine number 7 of the Osaka works burns methane and needs a new valve every spring." in chunk["content"]
        )
        assert tokens - 25 <= parts["tokens"] <= tokens
