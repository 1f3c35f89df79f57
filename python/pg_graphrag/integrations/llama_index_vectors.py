"""LlamaIndex: a vector store, which `llama_index` shows as its own."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from typing import Any

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode, MetadataMode, TextNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from pg_graphrag.beside.client import AsyncGraphRAG, Document, GraphRAG, SearchResult
from pg_graphrag.beside.client.sql_statements import Statement
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.integrations import among, of_one_corpus, title_of

# What LlamaIndex keeps of a node in the metadata of its document: the node as JSON, and thrice the id of its document.
NODE_CONTENT = "_node_content"
_REFERENCES = {"document_id", "doc_id", "ref_doc_id"}
# The same id again: a node's metadata may have fields of those names.
_REFERENCE = "_ref_doc_id"
_MODES = {
    VectorStoreQueryMode.SPARSE: "bm25",
    VectorStoreQueryMode.TEXT_SEARCH: "bm25",
    VectorStoreQueryMode.HYBRID: "hybrid",
    VectorStoreQueryMode.SEMANTIC_HYBRID: "hybrid",
}
_OPERATORS = {
    FilterOperator.EQ: "$eq",
    FilterOperator.NE: "$ne",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.NIN: "$nin",
    # A list in metadata counts by its elements.
    FilterOperator.ANY: "$in",
    FilterOperator.CONTAINS: "$eq",
}
# Together they are met by each number, text, truth, object and list in a field, or in its list.
_SOMETHING: tuple[dict[str, Any], ...] = (
    *({"$lt": 0}, {"$gte": 0}, {"$prefix": ""}, {"$in": [True, False]}),
    *({"$contains": {}}, {"$contains": [{}]}, {"$contains": [[]]}),
)
_OF_DOCUMENT = """
SELECT d.source_key FROM graphrag.documents d
 WHERE d.corpus = %(corpus)s AND d.metadata @> pg_catalog.jsonb_build_object('_ref_doc_id', %(value)s::text)
"""
_OF_NODES = "SELECT d.source_key FROM graphrag.documents d WHERE d.corpus = %(corpus)s AND d.metadata ? %(value)s"


def in_thread(method: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return a method for asyncio that calls the one of the same name in a thread."""

    @wraps(method)
    async def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(getattr(self, method.__name__), *args, **kwargs)

    return run


class GraphRAGVectorStore(BasePydanticVectorStore):
    """The documents of a corpus as LlamaIndex's vector store: nodes are rows of ``graphrag.documents``, their ids the keys.

    Vectors, words and graph are made by the corpus: embeddings of nodes are not kept, so an index over the store does with
    ``MockEmbedding(1)``. A node longer than a chunk is found by its chunks, which share its id. What was added is indexed
    before the next read.

    `client` (GraphRAG): one corpus of a database.
    `async_client` (AsyncGraphRAG): the same for `aquery` and `async_add`; without it they use `client` in a thread.
    `mode`: how queries of LlamaIndex's default mode search: ``naive`` compares vectors. ``hybrid``, ``semantic_hybrid``,
      ``sparse`` and ``text_search`` are ours of these names.
    `process_jobs`: whether reads index first what this store has added, which needs the extension's owner. False: workers do.
    """

    stores_text: bool = True
    is_embedding_query: bool = False
    _client: GraphRAG = PrivateAttr()
    _async_client: AsyncGraphRAG | None = PrivateAttr()
    _mode: str = PrivateAttr()
    _processes_jobs: bool = PrivateAttr()
    _has_new_documents: bool = PrivateAttr(default=False)

    def __init__(
        self,
        client: GraphRAG,
        async_client: AsyncGraphRAG | None = None,
        mode: str = "naive",
        process_jobs: bool = True,
    ):
        super().__init__()
        self._client = client
        self._async_client = async_client
        self._mode = mode
        self._processes_jobs = process_jobs

    @property
    def client(self) -> GraphRAG:
        """The client this store was made with."""
        return self._client

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Insert nodes, or replace those of the same id; returns the ids."""
        self._client.insert([_document(node) for node in nodes])
        self._has_new_documents = True
        return [node.node_id for node in nodes]

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """As `add`."""
        if self._async_client is None:
            return await asyncio.to_thread(self.add, nodes)
        await self._async_client.insert([_document(node) for node in nodes])
        self._has_new_documents = True
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete the nodes of a document of LlamaIndex."""
        self._delete_keys(self._keys(_OF_DOCUMENT, ref_doc_id))

    adelete = in_thread(delete)

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Delete nodes by their ids.

        Raises GraphRAGError: 0A000 for filters.
        """
        _refuse(filters)
        self._delete_keys(node_ids or [])

    adelete_nodes = in_thread(delete_nodes)

    def clear(self) -> None:
        """Delete all nodes; other documents of the corpus stay."""
        self._delete_keys(self._keys(_OF_NODES, NODE_CONTENT))

    aclear = in_thread(clear)

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """Return nodes in the order of their ids, without unknown ones.

        Raises GraphRAGError: 0A000 for filters.
        """
        _refuse(filters)
        return [
            _node(str(document.source_key), document.content, document.metadata)
            for document in self._client.get(node_ids or [])
        ]

    aget_nodes = in_thread(get_nodes)

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Return the best chunks for a query's text; `kwargs` are options of the search.

        Raises GraphRAGError: 0A000 for a query without a text, and for unsupported modes and operators of filters.
        """
        arguments = self._arguments(query)
        self._index()
        return _result(self._client.search(**arguments, **of_one_corpus(kwargs)))

    def persist(self, persist_path: str, fs: Any = None) -> None:
        """Write no file, since nodes are in the database; index added nodes, so that a loaded index finds them."""
        self._index()

    def _index(self) -> None:
        if self._has_new_documents and self._processes_jobs:
            self._client.process_jobs()
            self._has_new_documents = False

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """As `query`."""
        if self._async_client is None:
            return await asyncio.to_thread(self.query, query, **kwargs)
        arguments = self._arguments(query)
        if self._has_new_documents and self._processes_jobs:
            await self._async_client.process_jobs()
            self._has_new_documents = False
        return _result(await self._async_client.search(**arguments, **of_one_corpus(kwargs)))

    def _arguments(self, query: VectorStoreQuery) -> dict[str, Any]:
        if query.query_str is None:
            raise GraphRAGError(
                "the corpus has vectors of its own, and searches by text alone",
                sqlstate="0A000",
                hint="Give query_str.",
            )
        if query.mode != VectorStoreQueryMode.DEFAULT and query.mode not in _MODES:
            raise GraphRAGError(
                f'there is no search for the mode "{query.mode.value}"',
                sqlstate="0A000",
                hint="Use default, sparse, text_search, hybrid or semantic_hybrid.",
            )
        filter_ = as_filter(query.filters) if query.filters else {}
        conditions = [filter_] if filter_ else []
        # An index gives empty lists where it restricts nothing.
        if query.node_ids:
            conditions.append(among("$source_key", query.node_ids))
        if query.doc_ids:
            conditions.append(among(_REFERENCE, query.doc_ids))
        return {
            "query": query.query_str,
            "mode": _MODES.get(query.mode, self._mode),
            "top_k": query.similarity_top_k,
            "filter": {"$and": conditions} if conditions else None,
        }

    def _keys(self, sql: str, value: str) -> list[str]:
        parameters = {"corpus": self._client.corpus, "value": value}
        return self._client._run(Statement(sql, parameters, lambda rows: [key for (key,) in rows]))

    def _delete_keys(self, keys: list[str]) -> None:
        if keys:
            self._client.delete(keys)
            self._has_new_documents = True


def as_filter(filters: MetadataFilters) -> dict[str, Any]:
    """Return the filter of a search for LlamaIndex's filter; an empty one, {}, restricts nothing.

    Raises GraphRAGError: 0A000 for an unknown operator.
    """
    parts = [as_filter(item) if isinstance(item, MetadataFilters) else _condition(item) for item in filters.filters]
    conditions = [part for part in parts if part]
    if not conditions:
        return {}
    if filters.condition == FilterCondition.OR:
        return {"$or": conditions}
    if filters.condition == FilterCondition.NOT:
        # None of them.
        return {"$not": {"$or": conditions}}
    return {"$and": conditions}


def _condition(item: MetadataFilter) -> dict[str, Any]:
    if item.operator == FilterOperator.IS_EMPTY:
        return {"$not": {"$or": [{item.key: something} for something in _SOMETHING]}}
    values = item.value if isinstance(item.value, list) else [item.value]
    if item.operator == FilterOperator.ALL:
        return {"$and": [{item.key: {"$eq": value}} for value in values]} if values else {}
    if item.operator not in _OPERATORS:
        raise GraphRAGError(
            f'there is no operator "{item.operator.value}" for metadata',
            sqlstate="0A000",
            hint="Give GraphRAGRetriever a filter of graphrag.search: $exists, $prefix and others.",
        )
    operator = _OPERATORS[item.operator]
    if operator in ("$in", "$nin"):
        condition = among(item.key, values)
        return condition if operator == "$in" else {"$not": condition}
    return {item.key: {operator: item.value}}


def _refuse(filters: MetadataFilters | None) -> None:
    if filters is not None and filters.filters:
        raise GraphRAGError(
            "nodes are got and deleted by their ids alone", sqlstate="0A000", hint="Filters restrict queries."
        )


def own_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata that a node had before it was stored."""
    own: dict[str, Any] = json.loads(metadata[NODE_CONTENT] or "{}").get("metadata") or {}
    return own


def _document(node: BaseNode) -> Document:
    metadata = node_to_metadata_dict(node, remove_text=True, flat_metadata=False)
    metadata[_REFERENCE] = metadata["ref_doc_id"]
    # A node's own metadata are what filters ask for, of these names too.
    metadata |= {name: node.metadata[name] for name in _REFERENCES & node.metadata.keys()}
    return Document(
        node.get_content(MetadataMode.NONE), source_key=node.node_id, title=title_of(node.metadata), metadata=metadata
    )


def _result(hits: Sequence[SearchResult]) -> VectorStoreQueryResult:
    return VectorStoreQueryResult(
        nodes=[_node(hit.source_key, hit.content, hit.explain.get("metadata", {})) for hit in hits],
        similarities=[hit.score for hit in hits],
        ids=[hit.source_key for hit in hits],
    )


def _node(key: str, text: str, metadata: Mapping[str, Any]) -> BaseNode:
    if NODE_CONTENT not in metadata or metadata[NODE_CONTENT] == "{}":
        return TextNode(id_=key, text=text, metadata=dict(metadata))
    node = metadata_dict_to_node(dict(metadata))
    node.set_content(text)
    return node
