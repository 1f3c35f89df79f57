"""LlamaIndex and LangChain over the extension, with the real libraries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import psycopg
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.errors import GraphRAGError

from tests.runtime import beside
from tests.runtime.cluster import Database

TEXTS = {
    "ada": "Ada Lovelace met Charles Babbage. Ada Lovelace admired Charles Babbage in London.",
    "loom": "The Jacquard loom wove patterns from punched cards.",
}
MISSING = "{0} is not installed: pip install 'pg-graphrag[{0}]'"
if find_spec("langchain_core") is None and find_spec("llama_index") is None:
    pytest.skip("neither LlamaIndex nor LangChain is installed (300 MB)", allow_module_level=True)


@pytest.fixture(scope="module")
def client(module_db: Database) -> Iterator[GraphRAG]:
    with GraphRAG(module_db.url) as client:
        client.insert({"source_key": key, "title": key, "content": text} for key, text in TEXTS.items())
        GraphRAG(module_db.url, "given").create_corpus(extractor="given")
        client.process_jobs()
        yield client


def test_langchain_retrieves(client: GraphRAG) -> None:
    pytest.importorskip("langchain_core", reason=MISSING.format("langchain"))
    from pg_graphrag.integrations.langchain import GraphRAGRetriever

    retriever = GraphRAGRetriever(client=client, mode="bm25", top_k=1, options={"bm25_idf": "lucene"})
    (result,) = retriever.invoke("punched cards")
    assert (result.page_content, result.metadata["source_key"]) == (TEXTS["loom"], "loom")
    assert result.metadata["explain"]["bm25"]["rank"] == 1
    assert asyncio.run(retriever.ainvoke("punched cards")) == [result]


def test_llama_index_retrieves(client: GraphRAG) -> None:
    pytest.importorskip("llama_index.core", reason=MISSING.format("llama-index"))
    from pg_graphrag.integrations.llama_index import GraphRAGRetriever

    retriever = GraphRAGRetriever(client, mode="bm25", top_k=1)
    (result,) = retriever.retrieve("punched cards")
    assert (result.node.text, result.node.metadata["source_key"]) == (TEXTS["loom"], "loom")
    assert result.score > 0
    assert [node.node_id for node in asyncio.run(retriever.aretrieve("punched cards"))] == [result.node_id]


@pytest.fixture
def types() -> Any:
    pytest.importorskip("llama_index.core", reason=MISSING.format("llama-index"))
    from llama_index.core.graph_stores import types

    return types


def test_the_graph_of_documents_is_a_property_graph(client: GraphRAG, types: Any) -> None:
    from pg_graphrag.integrations.llama_index import GraphRAGPropertyGraphStore

    store = GraphRAGPropertyGraphStore(client)
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
    if beside.IS_BESIDE:
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="cypher") as refused:
            store.structured_query("MATCH (d:Document) RETURN count(d) AS n")
        assert refused.value.diag.message_hint
    else:
        assert store.structured_query("MATCH (d:Document) RETURN count(d) AS n") == [{"n": 2}]
    with pytest.raises(NotImplementedError):
        store.vector_query(None)


def test_a_property_graph_index_is_kept_in_the_corpus(client: GraphRAG, module_db: Database, types: Any) -> None:
    from llama_index.core import Document, MockEmbedding, PropertyGraphIndex
    from llama_index.core.indices.property_graph import LLMSynonymRetriever
    from llama_index.core.llms import MockLLM
    from llama_index.core.schema import TransformComponent
    from pg_graphrag.integrations.llama_index import GraphRAGPropertyGraphStore

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

    with GraphRAG(module_db.url, "given") as given:
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
        assert result and "Grace wrote COBOL." in result[0].text and "WROTE" in result[0].text
        assert given.search("Who wrote COBOL?", mode="local")
        store.delete_llama_nodes(ref_doc_ids=["d1"])
        assert [
            row[0] for row in module_db.execute("SELECT content FROM graphrag.documents WHERE corpus = 'given'")
        ] == ["So did others."]
        assert store.get_triplets(ids=["grace hopper"])
        store.delete_llama_nodes(ref_doc_ids=["d2"])
        assert store.get(ids=["grace hopper"]) == []


def test_what_no_document_says_is_refused(client: GraphRAG, module_db: Database, types: Any) -> None:
    from pg_graphrag.integrations.llama_index import GraphRAGPropertyGraphStore

    with GraphRAG(module_db.url, "given") as given:
        store = GraphRAGPropertyGraphStore(given)
        with pytest.raises(GraphRAGError, match='"x" is not said to be of any node of text'):
            store.upsert_nodes([types.EntityNode(name="x")])
        with pytest.raises(GraphRAGError, match='no node of text "gone"'):
            store.upsert_nodes([types.EntityNode(name="x", properties={types.TRIPLET_SOURCE_KEY: "gone"})])
        with pytest.raises(GraphRAGError, match="cannot be deleted"):
            store.delete(entity_names=["x"])
