"""LlamaIndex over the extension. It brings no conformance tests of its own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from llama_index.core import (
    Document,
    MockEmbedding,
    PropertyGraphIndex,
    StorageContext,
    VectorStoreIndex,
    load_index_from_storage,
)
from llama_index.core.graph_stores import types
from llama_index.core.indices.property_graph import LLMSynonymRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode, TransformComponent
from llama_index.core.vector_stores.types import MetadataFilters, VectorStoreQuery, VectorStoreQueryMode
from pg_graphrag import AsyncGraphRAG, GraphRAG
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.integrations.llama_index import GraphRAGPropertyGraphStore, GraphRAGRetriever, GraphRAGVectorStore
from psycopg.rows import dict_row
from psycopg.types.string import TextLoader

from tests.frameworks.plugin import needs_cypher
from tests.frameworks.recipes import recipe

TEXTS = {
    "ada": "Ada Lovelace met Charles Babbage. Ada Lovelace admired Charles Babbage in London.",
    "loom": "The Jacquard loom wove patterns from punched cards.",
}


@pytest.fixture(scope="module")
def filled(url: str) -> Iterator[GraphRAG]:
    with GraphRAG(url, "llama") as client:
        client.create_corpus()
        client.insert({"source_key": key, "title": key, "content": text} for key, text in TEXTS.items())
        GraphRAG(url, "given").create_corpus(extractor="given")
        client.process_jobs()
        yield client


def test_a_retriever_is_native_on_asyncio(filled: GraphRAG, url: str) -> None:
    retriever = GraphRAGRetriever(filled, mode="bm25", top_k=1)
    (result,) = retriever.retrieve("punched cards")
    assert (result.node.text, result.node.metadata["source_key"]) == (TEXTS["loom"], "loom")
    assert result.score > 0
    assert [node.node_id for node in asyncio.run(retriever.aretrieve("punched cards"))] == [result.node_id]

    async def native() -> list[str]:
        async with AsyncGraphRAG(url, "llama") as client:
            other = GraphRAGRetriever(filled, mode="bm25", top_k=1, async_client=client)
            return [node.node_id for node in await other.aretrieve("punched cards")]

    assert asyncio.run(native()) == [result.node_id]


DOCUMENTS = [
    Document(text="Ada Lovelace met Charles Babbage in London.", id_="d1", metadata={"year": 1833, "tags": ["people"]}),
    Document(text=TEXTS["loom"], id_="d2", metadata={"year": 1804, "title": "A loom", "tags": ["machines", "cards"]}),
    Document(
        text="Charles Babbage designed an engine.",
        id_="d3",
        metadata={"year": 1822, "tags": ["machines"], "blank": "", "link": {"to": 1}, "flag": False}
        | {"doc_id": "own", "document_id": 7, "ref_doc_id": "own", "source_key": "own", "title": 3},
    ),
]


def test_a_node_says_which_corpora_did_not_answer(filled: GraphRAG, url: str) -> None:
    filled.call("create_corpus", name="lost")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE graphrag.corpora SET options = '{\"embedding\": 3}' WHERE name = 'lost'")
        try:
            retriever = GraphRAGRetriever(filled, mode="bm25", top_k=1, corpora=[filled.corpus, "lost"])
            (node,) = retriever.retrieve("Babbage")
            assert node.metadata["unanswered"] == {"lost": 'option "embedding" cannot be 3'}
        finally:
            connection.execute("UPDATE graphrag.corpora SET options = '{}' WHERE name = 'lost'")
            filled.call("drop_corpus", name="lost")


@pytest.fixture
def index(client: GraphRAG) -> Any:
    context = StorageContext.from_defaults(vector_store=GraphRAGVectorStore(client))
    return VectorStoreIndex.from_documents(DOCUMENTS, storage_context=context, embed_model=MockEmbedding(1))


def texts(nodes: Any) -> list[str]:
    return [node.get_content() for node in nodes]


def test_an_index_is_kept_in_the_corpus(index: Any, client: GraphRAG) -> None:
    (result,) = index.as_retriever(similarity_top_k=1).retrieve("patterns from punched cards")
    assert (result.text, result.node.metadata, result.node.ref_doc_id) == (TEXTS["loom"], DOCUMENTS[1].metadata, "d2")
    assert 0.5 < result.score <= 1
    assert client.get(result.node_id)[0].title == "A loom"
    (node,) = index.vector_store.get_nodes([result.node_id, "nobody"])
    assert node == result.node
    assert asyncio.run(index.vector_store.aget_nodes([result.node_id])) == [node]
    other = VectorStoreIndex.from_vector_store(GraphRAGVectorStore(client), embed_model=MockEmbedding(1))
    (own,) = GraphRAGRetriever(client, top_k=1).retrieve("Who designed an engine?")
    assert (
        own.metadata.items()
        >= (
            DOCUMENTS[2].metadata
            | {"graphrag_source_key": client.get([own.metadata["graphrag_source_key"]])[0].source_key}
        ).items()
    )
    index.delete_ref_doc("own")
    index.delete_ref_doc("d2")
    for reader in (other, index):
        assert len(texts(reader.as_retriever(similarity_top_k=9).retrieve("punched cards"))) == 2
    client.insert({"source_key": "own", "content": "An application's own."})
    index.vector_store.clear()
    assert [hit.source_key for hit in (client.process_jobs(), client.search("own babbage"))[1]] == ["own"]


@pytest.mark.parametrize(
    ("key", "operator", "value", "expected"),
    [
        *(("year", "==", 1822, 1), ("year", "!=", 1822, 2), ("year", ">", 1804, 2), ("year", "<=", 1822, 2)),
        *(("year", "in", [1804, 1833], 2), ("year", "nin", [1804], 2), ("tags", "contains", "machines", 2)),
        *(("tags", "any", ["cards", "people"], 2), ("tags", "all", ["machines", "cards"], 1)),
        *(("tags", "any", [], 0), ("tags", "all", [], 3), ("tags", "any", "cards", 1), ("year", "in", 1804, 1)),
        *(("tags", "is_empty", None, 0), ("nothing", "is_empty", None, 3), ("title", "is_empty", None, 1)),
        *(("blank", "is_empty", None, 2), ("link", "is_empty", None, 2), ("flag", "is_empty", None, 2)),
        *(("doc_id", "==", "own", 1), ("document_id", ">=", 7, 1), ("ref_doc_id", "in", ["own"], 1)),
        *(("doc_id", "==", "d2", 1), ("ref_doc_id", "!=", "d1", 2)),
    ],
)
def test_filters_restrict_a_query(filtered: Any, key: str, operator: str, value: Any, expected: int) -> None:
    filters = MetadataFilters.from_dicts([{"key": key, "operator": operator, "value": value}])
    assert len(filtered.as_retriever(similarity_top_k=9, filters=filters).retrieve("Babbage")) == expected


def test_a_retriever_takes_filters_of_llama_index(filtered: Any, url: str) -> None:
    filters = MetadataFilters.from_dicts([{"key": "year", "operator": "<", "value": 1810}])
    with GraphRAG(url, "filtered") as client:
        client.process_jobs()
        assert texts(GraphRAGRetriever(client, filter=filters).retrieve("Babbage")) == [TEXTS["loom"]]
        assert len(GraphRAGRetriever(client, filter=MetadataFilters(filters=[])).retrieve("Babbage")) == 3


def test_conditions_of_filters_nest(filtered: Any) -> None:
    old = {"key": "year", "operator": "<", "value": 1810}
    people = {"key": "tags", "operator": "contains", "value": "people"}
    both = MetadataFilters.from_dicts([old, people], "or")
    neither = MetadataFilters(filters=[both], condition="not")
    own = MetadataFilters.from_dicts([{"key": "doc_id", "value": "own"}])
    empty = {condition: MetadataFilters(filters=[], condition=condition) for condition in ("and", "or", "not")}
    cases = {
        "or": (both, 2),
        "not": (neither, 1),
        "nested": (MetadataFilters(filters=[own, both], condition="or"), 3),
        "beside empty": (MetadataFilters(filters=[both, *empty.values()], condition="or"), 2),
        "of empty": (MetadataFilters(filters=[*empty.values()], condition="not"), 3),
        **{f"empty {condition}": (filters, 3) for condition, filters in empty.items()},
        "no condition": (MetadataFilters(filters=own.filters, condition=None), 1),
    }
    counts = {
        name: len(filtered.as_retriever(similarity_top_k=9, filters=filters).retrieve("Babbage"))
        for name, (filters, _) in cases.items()
    }
    assert counts == {name: count for name, (_, count) in cases.items()}
    store = filtered.vector_store
    assert store.get_nodes([], filters=empty["and"]) == []
    # What the store keeps for itself is found under its own name.
    by_document = [
        len(store.query(VectorStoreQuery(query_str="Babbage", similarity_top_k=9, doc_ids=[name])).nodes)
        for name in ("d1", "d2", "d3", "own")
    ]
    assert by_document == [1, 1, 1, 0]
    many = [str(n) for n in range(10_000)] + ["d2"]
    query = VectorStoreQuery(
        query_str="Babbage",
        doc_ids=many,
        node_ids=[*many, *store.query(VectorStoreQuery(query_str="Babbage", similarity_top_k=9)).ids],
    )
    assert len(store.query(query).ids) == 1
    # As many as a filter takes.
    most = [str(n) for n in range(99_990)] + ["d2"]
    assert len(store.query(VectorStoreQuery(query_str="Babbage", similarity_top_k=9, doc_ids=most)).ids) == 1


@pytest.fixture(scope="module")
def filtered(url: str) -> Iterator[Any]:
    with GraphRAG(url, "filtered") as client:
        client.create_corpus()
        context = StorageContext.from_defaults(vector_store=GraphRAGVectorStore(client))
        yield VectorStoreIndex.from_documents(DOCUMENTS, storage_context=context, embed_model=MockEmbedding(1))


def test_an_index_that_is_persisted_is_found_where_it_is_loaded(index: Any, client: GraphRAG, tmp_path: Any) -> None:
    index.storage_context.persist(str(tmp_path))
    context = StorageContext.from_defaults(persist_dir=str(tmp_path), vector_store=GraphRAGVectorStore(client))
    loaded = load_index_from_storage(context, embed_model=MockEmbedding(1))
    (found,) = loaded.as_retriever(similarity_top_k=1).retrieve("patterns from punched cards")
    assert found.text == TEXTS["loom"]
    loaded.insert(Document(text="Konrad Zuse built the Z3 in Berlin.", id_="d4"))
    (found,) = loaded.as_retriever(similarity_top_k=1).retrieve("Who built the Z3?")
    assert found.node.ref_doc_id == "d4"


def test_modes_and_native_queries(index: Any, client: GraphRAG, url: str, corpus: str) -> None:
    query = VectorStoreQuery(query_str="punched cards", similarity_top_k=1, mode=VectorStoreQueryMode.TEXT_SEARCH)
    result = index.vector_store.query(query)

    async def native() -> Any:
        async with AsyncGraphRAG(url, corpus) as other:
            store = GraphRAGVectorStore(client, other)
            await store.async_add([result.nodes[0]])
            return await store.aquery(query)

    assert texts(result.nodes) == texts(asyncio.run(native()).nodes) == [TEXTS["loom"]]


def test_what_the_corpus_does_itself_is_refused(client: GraphRAG) -> None:
    store = GraphRAGVectorStore(client)
    with pytest.raises(GraphRAGError, match="vectors of its own"):
        store.query(VectorStoreQuery(query_embedding=[0.1]))
    with pytest.raises(GraphRAGError, match='no search for the mode "svm"'):
        store.query(VectorStoreQuery(query_str="x", mode=VectorStoreQueryMode.SVM))
    filters = MetadataFilters.from_dicts([{"key": "a", "operator": "text_match", "value": "x"}])
    with pytest.raises(GraphRAGError, match='no operator "text_match"'):
        store.query(VectorStoreQuery(query_str="x", filters=filters))
    with pytest.raises(GraphRAGError, match="by their ids alone"):
        store.delete_nodes(filters=filters)


def test_the_graph_of_documents_is_a_property_graph(filled: GraphRAG) -> None:
    store = GraphRAGPropertyGraphStore(filled)
    (ada,) = store.get(ids=["ADA LOVELACE", "nobody"])
    assert (ada.name, ada.properties["triplet_source_id"]) == ("Ada Lovelace", "ada#0")
    (node,) = store.get_llama_nodes(["ada#0", "ada#7"])
    assert (node.node_id, node.get_content(), node.metadata["title"]) == ("ada#0", TEXTS["ada"], "ada")
    triplets = store.get_triplets(entity_names=["ada lovelace"])
    assert {("Ada Lovelace", "Charles Babbage")} <= {(source.name, target.name) for source, _, target in triplets}
    assert store.get_triplets(entity_names=["ada lovelace"], relation_names=["nothing"]) == []
    assert len(store.get_rel_map([ada], depth=2, limit=1)) == 1
    assert store.get_rel_map([ada], ignore_rels=["RELATED"]) == []
    assert "ada lovelace" in {node.name.lower() for node in store.get({types.TRIPLET_SOURCE_KEY: "ada#0"})}
    assert asyncio.run(store.aget_triplets(entity_names=["ada lovelace"])) == triplets
    with pytest.raises(NotImplementedError):
        store.vector_query(None)


@needs_cypher
def test_a_property_graph_answers_cypher(filled: GraphRAG) -> None:
    rows = GraphRAGPropertyGraphStore(filled).structured_query("MATCH (d:Document) RETURN count(d) AS n")
    assert rows == [{"n": 2}]


def test_a_property_graph_index_is_kept_in_the_corpus(filled: GraphRAG, url: str, db: Any) -> None:
    class Extractor(TransformComponent):
        """Says of every text that Grace wrote COBOL."""

        def __call__(self, nodes: Any, **_: Any) -> Any:
            for node in nodes:
                node.metadata[types.KG_NODES_KEY] = [
                    types.EntityNode(name="Grace Hopper", label="person"),
                    types.EntityNode(name="COBOL", label="language", properties={"description": "A language."}),
                ]
                node.metadata[types.KG_RELATIONS_KEY] = [
                    types.Relation(label="WROTE", source_id="Grace Hopper", target_id="COBOL")
                ]
            return nodes

    with GraphRAG(url, "given") as given:
        store = GraphRAGPropertyGraphStore(given)
        index = PropertyGraphIndex.from_documents(
            [Document(text="Grace wrote COBOL.", id_="d1"), Document(text="So did others.", id_="d2")],
            property_graph_store=store,
            kg_extractors=[Extractor()],
            embed_kg_nodes=False,
            embed_model=MockEmbedding(8),
            llm=MockLLM(),
        )
        (triplet,) = store.get_triplets(ids=["grace hopper"])
        assert [str(triplet[0].name), triplet[1].label, str(triplet[2].name)] == ["Grace Hopper", "WROTE", "COBOL"]
        assert triplet[0].label == "person"
        retriever = LLMSynonymRetriever(
            store, llm=MockLLM(), output_parsing_fn=lambda _: ["Grace Hopper"], include_text=True
        )
        result = index.as_retriever(sub_retrievers=[retriever]).retrieve("Who wrote it?")
        # Both nodes say so; their ids are random, and with them which is the first.
        assert "WROTE" in result[0].text and re.search("Grace wrote COBOL|So did others", result[0].text)
        assert given.search("Who wrote COBOL?", mode="local")
        store.delete_llama_nodes(ref_doc_ids=["d1"])
        assert [row[0] for row in db.execute("SELECT content FROM graphrag.documents WHERE corpus = 'given'")] == [
            "So did others."
        ]
        assert store.get_triplets(ids=["grace hopper"])
        store.delete_llama_nodes(ref_doc_ids=["d2"])
        assert store.get(ids=["grace hopper"]) == []


def test_what_no_document_says_is_refused(filled: GraphRAG, url: str, db: Any) -> None:
    with GraphRAG(url, "given") as given:
        store = GraphRAGPropertyGraphStore(given)
        with pytest.raises(GraphRAGError, match='"x" is not said to be of any node of text'):
            store.upsert_nodes([types.EntityNode(name="x")])
        with pytest.raises(GraphRAGError, match='no node of text "gone"'):
            store.upsert_nodes([types.EntityNode(name="x", properties={types.TRIPLET_SOURCE_KEY: "gone"})])
        with pytest.raises(GraphRAGError, match="cannot be deleted"):
            store.delete(entity_names=["x"])


def test_the_recipe_of_the_manual_runs(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with GraphRAG(url, "news") as client:
        client.create_corpus()
    exec(recipe("llama_index"), {"URL": url})
    assert capsys.readouterr().out.startswith("Ada Lovelace met Charles Babbage.\n1833\n")


def test_a_connection_of_an_application_serves_all_stores(filled: GraphRAG, url: str) -> None:
    """Its rows are dictionaries, its cursors of another class, its jsonb a text, as Django's is."""
    with psycopg.connect(url, autocommit=True, row_factory=dict_row, cursor_factory=psycopg.RawCursor) as connection:
        connection.adapters.register_loader("jsonb", TextLoader)
        client = GraphRAG(connection, "llama")
        store = GraphRAGVectorStore(client)
        (key,) = store.add([TextNode(text="A node.", metadata={"a": 1})])
        assert store.get_nodes([key])[0].metadata == {"a": 1}
        store.clear()
        assert store.get_nodes([key]) == []
        graph = GraphRAGPropertyGraphStore(client)
        assert [node.text for node in graph.get_llama_nodes(["loom#0"])] == [TEXTS["loom"]]
