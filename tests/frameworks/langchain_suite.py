"""LangChain over the extension: the standard tests of langchain-tests, and what they do not ask."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langchain_community.chains.graph_qa.cypher import GraphCypherQAChain
from langchain_community.graphs.graph_document import GraphDocument, Node, Relationship
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListLLM
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests, VectorStoreIntegrationTests
from pg_graphrag import AsyncGraphRAG, GraphRAG
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.integrations.langchain import GraphRAGRetriever, GraphRAGVectorStore
from pg_graphrag.integrations.langchain_graph import GraphRAGGraphStore

from tests.frameworks.plugin import needs_cypher
from tests.frameworks.recipes import recipe

LOOM = "The Jacquard loom wove patterns from punched cards."
TEXTS = {
    "ada": ("Ada Lovelace met Charles Babbage in London.", {"year": 1833, "tags": ["people"]}),
    "loom": (LOOM, {"year": 1804, "title": "A loom", "tags": ["machines", "cards"]}),
    "engine": ("Charles Babbage designed the Difference Engine.", {"year": 1822, "tags": ["machines"]}),
}


class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, client: GraphRAG) -> VectorStore:
        return GraphRAGVectorStore(client)


class TestAsyncVectorStore(VectorStoreIntegrationTests):
    @property
    def has_sync(self) -> bool:
        return False

    @pytest.fixture
    async def vectorstore(self, url: str, corpus: str) -> AsyncIterator[VectorStore]:
        async with AsyncGraphRAG(url, corpus) as client:
            yield GraphRAGVectorStore(async_client=client)


class TestRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True, scope="class")
    def filled(self, url: str) -> Iterator[None]:
        type(self).client = GraphRAG(url, "retriever")
        self.client.create_corpus()
        GraphRAGVectorStore(self.client).add_texts([text for text, _ in TEXTS.values()])
        self.client.process_jobs()
        yield
        self.client.close()

    @property
    def retriever_constructor(self) -> type[GraphRAGRetriever]:
        return GraphRAGRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"client": self.client}

    @property
    def retriever_query_example(self) -> str:
        return "Who designed an engine?"

    @property
    def num_results_arg_name(self) -> str:
        return "top_k"


@pytest.fixture
def store(client: GraphRAG) -> GraphRAGVectorStore:
    return GraphRAGVectorStore.from_texts(
        [text for text, _ in TEXTS.values()],
        metadatas=[metadata for _, metadata in TEXTS.values()],
        ids=list(TEXTS),
        client=client,
    )


def ids(documents: list[Document]) -> set[str | None]:
    return {document.id for document in documents}


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        ({"year": {"$gte": 1820}}, {"ada", "engine"}),
        ({"tags": {"$in": ["cards", "people"]}}, {"ada", "loom"}),
        ({"tags": {"$nin": ["machines"]}}, {"ada"}),
    ],
)
def test_filters_restrict_a_search(store: GraphRAGVectorStore, filter_: dict[str, Any], expected: set[str]) -> None:
    assert ids(store.similarity_search("machines of Babbage", k=10, filter=filter_)) == expected
    retriever = store.as_retriever(search_kwargs={"filter": filter_, "k": 10, "mode": "hybrid"})
    assert ids(retriever.invoke("machines of Babbage")) <= expected


def test_scores_of_a_threshold_are_cosines(store: GraphRAGVectorStore) -> None:
    (first, score), *_ = store.similarity_search_with_relevance_scores("patterns from punched cards")
    assert first.id == "loom" and 0.5 < score <= 1
    retriever = store.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": score})
    assert ids(retriever.invoke("patterns from punched cards")) == {"loom"}


def test_scores_of_other_modes_are_relevances(store: GraphRAGVectorStore, client: GraphRAG) -> None:
    store.similarity_search("cards")  # indexes
    hybrid = GraphRAGVectorStore(client, mode="hybrid")
    (first, score), *rest = hybrid.similarity_search_with_relevance_scores("patterns from punched cards")
    best = max(client.search("patterns from punched cards", min_relevance=0), key=lambda hit: hit.relevance or 0)
    assert (first.id, score) == ("loom", best.relevance)
    assert all(0 <= other <= score for _, other in rest)
    retriever = hybrid.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": score})
    assert ids(retriever.invoke("patterns from punched cards")) == {"loom"}


def test_marginal_relevance_prefers_what_says_something_else(store: GraphRAGVectorStore) -> None:
    store.add_texts(["The Jacquard loom wove its patterns from many punched cards."], ids=["again"])
    near = [document.id for document in store.similarity_search("patterns from punched cards", k=2)]
    diverse = [
        document.id
        for document in store.max_marginal_relevance_search("patterns from punched cards", k=2, lambda_mult=0.3)
    ]
    assert set(near) == {"loom", "again"} and set(diverse) != set(near) and diverse[0] == near[0]


def test_texts_may_have_no_metadata(client: GraphRAG) -> None:
    store = GraphRAGVectorStore(client)
    metadatas: Any = [None, {"a": 1}]
    store.add_texts(["x", "y"], metadatas, ids=["x", "y"])
    assert [document.metadata for document in store.get_by_ids(["x", "y"])] == [{}, {"a": 1}]


def test_a_title_is_that_of_the_document(store: GraphRAGVectorStore, client: GraphRAG) -> None:
    (document,) = client.get("loom")
    assert (document.title, document.metadata["year"]) == ("A loom", 1804)


OWN = {"document_id": "a", "score": 0.5, "title": ["b"], "source_key": None, "explain": {"c": 1}, "chunk_id": 7}


def test_metadata_of_a_document_stay_its_own(client: GraphRAG) -> None:
    store = GraphRAGVectorStore.from_texts([LOOM], metadatas=[OWN], ids=["loom"], client=client)
    assert store.similarity_search("cards", k=1)[0].metadata == OWN
    (document,) = GraphRAGRetriever(client=client, top_k=1).invoke("cards")
    assert document.metadata.items() >= OWN.items()
    (hit,) = client.search("cards", top_k=1)
    assert {name: document.metadata[f"graphrag_{name}"] for name in OWN if name != "chunk_id"} == {
        name: getattr(hit, name) for name in OWN if name != "chunk_id"
    }
    for name in ("document_id", "score", "source_key"):
        assert ids(store.similarity_search("cards", filter={name: OWN[name]})) == {"loom"}
        assert ids(store.similarity_search("cards", filter={name: {"$ne": OWN[name]}})) == set()


def test_what_the_corpus_does_itself_is_refused(client: GraphRAG) -> None:
    with pytest.raises(GraphRAGError, match="takes no embedding"):
        GraphRAGVectorStore.from_texts(["x"], DeterministicFakeEmbedding(size=4), client=client)
    with pytest.raises(GraphRAGError, match="no ids to delete"):
        GraphRAGVectorStore(client).delete()
    with pytest.raises(NotImplementedError):
        GraphRAGVectorStore(client).similarity_search_by_vector([0.0])
    with pytest.raises(GraphRAGError, match="no client"):
        GraphRAGRetriever().invoke("x")
    # By a wrong name nothing would be restricted.
    with pytest.raises(ValueError, match="filters"):
        GraphRAGRetriever(client=client, filters={"tenant": "a"})


async def test_a_retriever_is_native_on_asyncio(store: GraphRAGVectorStore, url: str, corpus: str) -> None:
    await store.asimilarity_search("cards")  # indexes
    async with AsyncGraphRAG(url, corpus) as client:
        retriever = GraphRAGRetriever(async_client=client, mode="bm25", top_k=1, options={"bm25_idf": "lucene"})
        (result,) = await retriever.ainvoke("punched cards")
    assert (result.page_content, result.metadata["source_key"], result.metadata["year"]) == (LOOM, "loom", 1804)
    assert result.metadata["explain"]["bm25"]["rank"] == 1
    with GraphRAG(url, corpus) as blocking:
        same = GraphRAGRetriever(client=blocking, mode="bm25", top_k=1, options={"bm25_idf": "lucene"})
        assert same.invoke("punched cards") == [result]
        assert await same.ainvoke("punched cards") == [result]


def test_graph_documents_become_the_graph(url: str) -> None:
    with GraphRAG(url, "given") as client:
        client.create_corpus(extractor="given")
        store = GraphRAGGraphStore(client)
        source = Document("Grace Hopper wrote COBOL.", id="d1", metadata={"year": 1959})
        grace, cobol = Node(id="Grace Hopper", type="person"), Node(id="COBOL", type="language")
        edge = Relationship(source=grace, target=cobol, type="WROTE")
        store.add_graph_documents([GraphDocument(nodes=[grace, cobol], relationships=[edge], source=source)])
        client.process_jobs()
        (neighbor,) = client.neighbors("Grace Hopper")
        assert (neighbor.name, neighbor.type, neighbor.keywords) == ("COBOL", "language", ["WROTE"])
        assert client.search("Who wrote COBOL?", mode="local")[0].explain["metadata"] == {"year": 1959}
        store.add_graph_documents([GraphDocument(nodes=[cobol], relationships=[], source=source)])
        client.process_jobs()
        assert client.neighbors("COBOL") == []
        with pytest.raises(GraphRAGError, match="a source without an id"):
            store.add_graph_documents([GraphDocument(nodes=[], relationships=[], source=Document("x"))])


@needs_cypher
def test_cypher_finds_what_was_stored_just_now(client: GraphRAG) -> None:
    client.alter_corpus(extractor="given")
    store = GraphRAGGraphStore(client)
    source = Document("Grace Hopper wrote COBOL.", id="d1")
    edge = Relationship(source=Node(id="Grace Hopper"), target=Node(id="COBOL", type="language"), type="WROTE")
    store.add_graph_documents([GraphDocument(nodes=[], relationships=[edge], source=source)])
    rows = store.query(
        "MATCH (a:Entity {key: $k})-[r:RELATED]->(b:Entity) RETURN b.name AS name, b.type AS type, r.keywords AS words",
        {"k": "grace hopper"},
    )
    assert rows == [{"name": "COBOL", "type": "language", "words": ["WROTE"]}]


@needs_cypher
def test_a_cypher_chain_reads_the_graph(store: GraphRAGVectorStore, client: GraphRAG) -> None:
    client.process_jobs()
    cypher = "MATCH (a:Entity {key: 'charles babbage'})-[:RELATED]->(b:Entity) RETURN b.name AS name"
    chain = GraphCypherQAChain.from_llm(
        FakeListLLM(responses=[cypher, "London"]),
        graph=GraphRAGGraphStore(client),
        allow_dangerous_requests=True,
        return_intermediate_steps=True,
    )
    answer = chain.invoke({"query": "Whom did Babbage meet?"})
    assert {"name": "Ada Lovelace"} in answer["intermediate_steps"][1]["context"]


def test_the_recipe_of_the_manual_runs(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with GraphRAG(url, "news") as client:
        client.create_corpus()
    exec(recipe("langchain"), {"URL": url})
    assert capsys.readouterr().out.startswith("ada\n1833 ada ")
