"""Mode path: MiniRAG's paths with BM25 weighting; the paper's case studies, on recorded extraction, name the edge that won."""

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint, Recorded
from tests.runtime.cluster import Database
from tests.sql.ingest import index_all, keys, put, put_all, refused, search, searched_corpus, work
from tests.sql.llm import provider

WEIGHTINGS = ("vector", "bm25_edges", "bm25_chunks")
# The chats of the two case studies (Takami et al.), and others of the same people.
CHATS = ("20260121_13:00", "20260122_17:00", "20260608_14:30")
OTHERS = 8
MOVIE = 'Who does Li Hua go to watch the movie "Overwatch 3" with?'
MEETING = "When is the Freelancer Group Meeting that Yuriko Yamamoto goes to?"
# How the rows of the paper's Table 1 are said.
TABLE_1: dict[str, tuple[str, dict[str, Any]]] = {
    "NaiveRAG": ("naive", {}),
    "MiniRAG": ("path", {"path_weighting": "vector", "fuse": "none", "profile": "paper"}),
    **{
        f"{weighting} {fuse}": ("path", {"path_weighting": weighting, "fuse": fuse})
        for weighting, fuse in itertools.product(("bm25_edges", "bm25_chunks"), ("none", "rrf", "rerank"))
    },
}


@pytest.fixture(scope="module")
def corpus(module_db: Database, shared_data: Path) -> Iterator[str]:
    folder = shared_data / "lihua-world"
    chats = {
        chat["id"]: chat["text"]
        for chat in map(json.loads, (folder / "docs.jsonl").read_text(encoding="utf-8").splitlines())
        if chat["id"][:6] <= "202606"
    }
    chosen = [*CHATS, *itertools.islice((name for name in chats if name not in CHATS), 0, None, len(chats) // OTHERS)]
    with Endpoint() as endpoint:
        endpoint.reply(Recorded(shared_data))
        model = {"provider": provider(module_db, endpoint), "model": "recorded"}
        ranker = {"provider": provider(module_db, endpoint, kind="rerank"), "model": "ranker"}
        name = searched_corpus(
            module_db, extractor="llm", llm={"roles": {"extract": model}}, rerank=ranker, max_gleaning=0
        )
        for key in chosen:
            put(module_db, name, key, chats[key], metadata={"open": key != CHATS[0]})
        work(module_db)
        yield name


def asked(db: Any, question: str, corpus: str, top_k: int = 10, **options: Any) -> list[dict[str, Any]]:
    return search(db, question, corpus, "path", top_k=top_k, options=options)


def won(row: dict[str, Any]) -> set[frozenset[str]]:
    """The pairs of names of the edges that a row's path has."""
    return {frozenset((edge["source"], edge["target"])) for edge in row["explain"]["path"]["edges"]}


@pytest.mark.sample(1)
@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_overwatch_3_is_found_over_the_edge_of_who_watches_it(module_db: Database, corpus: str, weighting: str) -> None:
    result = asked(
        module_db, MOVIE, corpus,
        path_weighting=weighting, query_entities=["Li Hua", "Overwatch 3"], answer_types=[],
    )  # fmt: skip
    assert CHATS[0] in keys(result)[:2]
    (first,) = [row for row in result if row["source_key"] == CHATS[0]]
    explained = first["explain"]["path"]
    assert explained["path"][0] == explained["candidate"]
    assert len(explained["path"]) in (2, 3)
    # By chunks all relationships that are stated in the same ones are equal.
    assert any("Overwatch 3" in pair for pair in won(first)) or weighting == "bm25_chunks", explained
    assert explained["weight"] == 1 + len(explained["edges"]) > 1
    for edge in explained["edges"]:
        assert edge["rank"] >= 1
        assert {edge["source"], edge["target"]} <= set(explained["path"])


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_the_freelancer_group_meeting_is_found_over_its_own_edge(
    module_db: Database, corpus: str, weighting: str
) -> None:
    given = {"query_entities": ["Freelancer Group Meeting", "Yuriko Yamamoto"], "answer_types": ["time"]}
    result = asked(module_db, MEETING, corpus, path_weighting=weighting, **given)
    assert result[0]["source_key"] == CHATS[2]
    assert any("Freelancer Group Meeting" in pair for pair in won(result[0]))
    if weighting == "bm25_edges":
        assert frozenset(("Yuriko Yamamoto", "Freelancer Group Meeting")) in won(result[0])
    assert CHATS[2] in keys(asked(module_db, MEETING, corpus, path_weighting=weighting, profile="paper", **given))[:5]


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_a_path_through_who_is_in_every_chat_is_no_reason_where_there_is_another(
    module_db: Database, corpus: str, weighting: str
) -> None:
    options = {"query_entities": ["Freelancer Group Meeting", "Yuriko Yamamoto"], "answer_types": ["time"]}
    chunks = asked(module_db, MEETING, corpus, top_k=30, path_weighting=weighting, fuse="none", **options)
    paths = [row["explain"]["path"]["path"] for row in chunks if "path" in row["explain"]]
    # "Freelancer Group Meeting → Li Hua → April 30" misleads: Li Hua is where everything is.
    assert chunks[0]["source_key"] == CHATS[2]
    assert "Freelancer Group Meeting" in paths[0] and not any(nodes[1:-1] == ["Li Hua"] for nodes in paths)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_a_path_from_or_to_who_is_in_every_document_is_no_reason_where_there_is_another(
    module_db: Database, weighting: str
) -> None:
    name = searched_corpus(module_db, communities=False)
    letters = {
        f"{number}": f"Max Weber wrote to {who}. {who} meets the Chess Circle in {place}. Max Weber will come, too."
        for number, (who, place) in enumerate(
            (("Ann Bell", "Linz"), ("Bob Cray", "Graz"), ("Cy Dorn", "Bern"), ("Dot Ehle", "Ulm"), ("Eve Falk", "Kiel"))
        )
    }
    letters["party"] = "Max Weber wrote to Gil Hart about the Poetry Evening. The Poetry Evening is in the Red Cellar."
    letters["rain"] = "Max Weber was in the Red Cellar on May 2. It rained."
    index_all(module_db, name, letters)
    question = "What did Max Weber do in the Red Cellar at the Poetry Evening?"
    paths = {
        row["source_key"]: row["explain"]["path"]["path"]
        for row in asked(module_db, question, name, path_weighting=weighting, fuse="none")
    }
    assert "Max Weber" not in paths["party"]
    assert paths["rain"][0] == "Red Cellar"


def test_what_the_query_names_is_read_off_it_where_it_is_not_given(module_db: Database, corpus: str) -> None:
    result = asked(module_db, MEETING, corpus)
    assert result[0]["source_key"] == CHATS[2]
    assert "Freelancer Group Meeting" in result[0]["explain"]["path"]["path"]


def test_what_a_chunk_says_of_others_than_those_on_the_paths_does_not_bring_it_nearer(module_db: Database) -> None:
    question = "When did Alice Moor meet Tom Reed?"

    def said(messages: Sequence[dict[str, Any]]) -> str:
        pairs = [("Alice Moor", "Tom Reed", "They met.")]
        pairs += [("Zed Quill", "Yan Pike", question)] if "night" in str(messages[-1]["content"]) else []
        related = [
            {"source": source, "target": target, "keywords": ["met"], "description": text, "strength": 5}
            for source, target, text in pairs
        ]
        return json.dumps({"entities": [], "relationships": related if len(messages) < 3 else []})

    with Endpoint() as endpoint:
        endpoint.reply(said)
        model = {"provider": provider(module_db, endpoint), "model": "scripted"}
        name = searched_corpus(module_db, extractor="llm", llm={"roles": {"extract": model}}, communities=False)
        put_all(
            module_db,
            name,
            {"b": "Alice Moor met Tom Reed when it was night, they say.", "a": "Alice Moor met Tom Reed."},
        )
        work(module_db)
        options = {"query_entities": ["Alice Moor", "Tom Reed"], "answer_types": []}
        assert keys(asked(module_db, question, name, fuse="none", graph_top_k=1, **options)) == ["a", "b"]


@pytest.mark.parametrize("row", TABLE_1)
def test_every_row_of_the_papers_table_1_runs_by_name(module_db: Database, corpus: str, row: str) -> None:
    mode, options = TABLE_1[row]
    results = search(module_db, MOVIE, corpus, mode, options=options)
    assert "rerank" in row or CHATS[0] in keys(results)
    retrievers = {retriever for item in results for retriever in item["explain"]}
    assert ("path" in retrievers) is (mode == "path")
    assert ("bm25" in retrievers) is ("rrf" in row or "rerank" in row)
    assert ("rerank" in retrievers) is ("rerank" in row)


def test_answer_types_count_in_any_case(module_db: Database, corpus: str) -> None:
    weights = []
    for types in (["nothing"], ["person"], ["PERSON"]):
        result = asked(
            module_db, MOVIE, corpus,
            query_entities=["Overwatch 3"], answer_types=types, fuse="none", path_weighting="vector",
        )  # fmt: skip
        weights.append(max(row["explain"]["path"]["weight"] for row in result if "path" in row["explain"]))
    assert weights[0] < weights[1] == weights[2]


def test_without_fusion_direct_chunks_stand_behind_the_voted_ones(module_db: Database, corpus: str) -> None:
    result = asked(
        module_db, MOVIE, corpus, top_k=30, fuse="none", query_entities=["Overwatch 3"], profile="paper", graph_top_k=1
    )
    voted = ["path" in row["explain"] for row in result]
    assert voted == sorted(voted, reverse=True)
    assert True in voted and False in voted


def test_a_query_that_names_nothing_known_is_answered_by_the_other_retriever(module_db: Database, corpus: str) -> None:
    result = asked(module_db, "Overwatch movie", corpus, query_entities=[])
    assert keys(result)[0] in CHATS[:2]
    assert "path" not in result[0]["explain"]


def test_paths_over_what_a_filter_leaves_out_do_not_count(module_db: Database, corpus: str) -> None:
    given = {"query_entities": ["Overwatch 3"], "fuse": "none"}
    results = search(module_db, MOVIE, corpus, "path", filter={"open": True}, options=given)
    assert CHATS[0] not in keys(results)
    assert not any("Movie Outing" in str(row["explain"]) for row in results)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"path_weighting": "cosine"}, "cosine"),
        ({"fuse": "both"}, "both"),
        ({"query_entities": "Ann"}, "Ann"),
        ({"query_entities": ["a", "b", "c", "d", "e", "f"]}, "query_entities"),
        ({"answer_types": [""]}, "answer_types"),
        ({"answer_types": ["x"] * 4}, "answer_types"),
        ({"damping": 0.5}, "damping"),
    ],
)
def test_a_bad_or_misplaced_option_is_refused_by_name(
    module_db: Database, corpus: str, options: dict[str, Any], named: str
) -> None:
    diag = refused(module_db, "SELECT graphrag.search('x', %s, 'path', options => %s)", corpus, Jsonb(options))
    assert diag.sqlstate == "22023"
    assert named in str(diag.message_primary)
    assert diag.message_hint


def test_a_reader_under_row_level_security_walks_only_what_he_may_see(module_db: Database, corpus: str) -> None:
    given = {"query_entities": ["Overwatch 3"], "answer_types": ["person"]}
    module_db.execute("ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY")
    module_db.execute("CREATE POLICY open ON graphrag.documents FOR SELECT USING ((metadata ->> 'open')::boolean)")
    try:
        with psycopg.connect(module_db.url, autocommit=True) as reader:
            reader.execute("SET ROLE graphrag_reader")
            results = search(reader, MOVIE, corpus, "path", options=given)
    finally:
        module_db.execute("DROP POLICY open ON graphrag.documents")
        module_db.execute("ALTER TABLE graphrag.documents DISABLE ROW LEVEL SECURITY")
    with psycopg.connect(module_db.url, autocommit=True) as owner:
        filtered = search(owner, MOVIE, corpus, "path", filter={"open": True}, options=given)
    assert [row["chunk_id"] for row in results] == [row["chunk_id"] for row in filtered]
    assert results


@pytest.mark.slow
def test_the_last_chunk_of_a_hub_is_found_as_the_first_is(module_db: Database) -> None:
    # More chunks than are read for a hub, which mention it alike: the order of their keys decides which.
    name = searched_corpus(module_db, communities=False)
    notes = {f"{number:03}": f"Li Hua wrote note {number}. The weather stayed fine." for number in range(220)}
    window = "Li Hua measures the window: 80 by 120 centimetres."
    index_all(module_db, name, notes | {"000": window, "999": window.replace("window", "doorway")})
    for thing, key in (("window", "000"), ("doorway", "999")):
        result = asked(module_db, f"What are the dimensions of the {thing} that Li Hua measures?", name, fuse="none")
        first = result[0]
        assert (first["source_key"], first["explain"]["path"]["candidate"]) == (key, "Li Hua")
