"""LlamaIndex: a retriever, a vector store and a property-graph store (extra ``llama-index``)."""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.graph_stores.types import (
    TRIPLET_SOURCE_KEY,
    ChunkNode,
    EntityNode,
    LabelledNode,
    PropertyGraphStore,
    Relation,
)
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores.types import MetadataFilters
from llama_index.core.vector_stores.utils import metadata_dict_to_node
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from pg_graphrag.beside.client import AsyncGraphRAG, GraphRAG, SearchResult
from pg_graphrag.beside.client.blocking import execute
from pg_graphrag.beside.client.connection_settings import adapt
from pg_graphrag.beside.client.hosts import transaction
from pg_graphrag.beside.client.sql_statements import any_call
from pg_graphrag.beside.exchange.foreign_documents import parts
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.integrations import place_of, with_own
from pg_graphrag.integrations.llama_index_vectors import (
    NODE_CONTENT,
    GraphRAGVectorStore,
    as_filter,
    in_thread,
    own_metadata,
)

__all__ = ["GraphRAGPropertyGraphStore", "GraphRAGRetriever", "GraphRAGVectorStore"]

Row = dict[str, Any]
Triplet = tuple[LabelledNode, Relation, LabelledNode]

# A node that LlamaIndex stored is a document with one chunk, of the node's id; other chunks have their document's key and a
# number.
_CHUNK_ID = f"CASE WHEN d.metadata ? '{NODE_CONTENT}' THEN d.source_key ELSE d.source_key || '#' || c.ordinal END"
_SOURCE = f"""
(SELECT {_CHUNK_ID}
   FROM graphrag.{{what}}_mentions m
   JOIN graphrag.chunks c ON c.id = m.chunk_id
   JOIN graphrag.documents d ON d.id = m.document_id
  WHERE m.{{what}}_id = {{id}}
  ORDER BY m.chunk_id LIMIT 1) AS source_chunk
"""
_ENTITIES = f"""
SELECT n.name, n.type, n.description, n.degree, {_SOURCE.format(what="entity", id="n.entity_id")}
  FROM graphrag.graph_nodes n
 WHERE n.corpus = %(corpus)s AND n.entity_id = ANY (ARRAY(
"""
_BY_NAME = """
       SELECT e.id FROM graphrag.corpora c
         JOIN graphrag.entities e ON e.corpus_id = c.id AND e.key = ANY (%(keys)s::text[] COLLATE "C")
        WHERE c.name = %(corpus)s))
 ORDER BY n.entity_id
"""
_BY_CHUNK = f"""
       SELECT m.entity_id FROM graphrag.documents d
         JOIN graphrag.chunks c ON c.document_id = d.id
         JOIN graphrag.entity_mentions m ON m.chunk_id = c.id
        WHERE d.corpus = %(corpus)s AND {_CHUNK_ID} = %(chunk)s))
 ORDER BY n.entity_id
"""
_CHUNKS = f"""
SELECT {_CHUNK_ID} AS id, c.content, d.source_key, d.title, d.metadata
  FROM graphrag.documents d
  JOIN graphrag.chunks c ON c.document_id = d.id
 WHERE d.corpus = %(corpus)s AND {{condition}}
 ORDER BY d.id, c.ordinal
"""
_CHUNKS_BY_ID = f"""
d.source_key = ANY (ARRAY(SELECT u.name FROM pg_catalog.unnest(%(ids)s::text[]) AS i (name),
                                 pg_catalog.unnest(ARRAY[i.name, pg_catalog.regexp_replace(i.name, '#[0-9]+$', '')]) AS u (name)))
   AND {_CHUNK_ID} = ANY (%(ids)s)
"""
_EDGES = f"""
SELECT e.source, e.source_type, e.target, e.target_type, e.keyword_list, e.description, e.weight,
       {_SOURCE.format(what="relationship", id="e.relationship_id")}
  FROM graphrag.graph_edges e
 WHERE e.relationship_id = ANY (%(ids)s)
 ORDER BY pg_catalog.array_position(%(ids)s, e.relationship_id)
"""
_STORED = """
SELECT d.source_key, d.title, d.content, d.metadata, i.chunks
  FROM graphrag.documents d
  LEFT JOIN graphrag.imported_extractions i ON i.document_id = d.id AND i.content_hash = d.content_hash
 WHERE d.corpus = %(corpus)s AND d.source_key = ANY (%(keys)s)
   FOR NO KEY UPDATE OF d
"""
_SCHEMA = """Vertices: Entity {key, name, type, description, degree}, Chunk {chunk_id, document_id, ordinal}, Document.
Edges: (Entity)-[:RELATED {keywords, description, weight}]->(Entity), stored in both directions;
(Entity)-[:MENTIONED_IN]->(Chunk)-[:PART_OF]->(Document). Keys are lower case names. Read only."""


class GraphRAGRetriever(BaseRetriever):
    """Chunks found by ``graphrag.search``, best first.

    `client` (GraphRAG): one corpus of a database.
    `mode`, `top_k`, `filter`, `options`: as in `GraphRAG.search`; `filter` may be LlamaIndex's, too.
    `async_client` (AsyncGraphRAG): the same for `aretrieve`; without it `aretrieve` uses `client` in a thread.

    A node has the number of the chunk as its id. Its metadata are the document's, and source_key, title, document_id and
    corpus; with `corpora` or the option `min_relevance` relevance, and where one of these corpora did not answer `unanswered`.
    Where the document's have such a name too, these are graphrag_source_key and so on.
    """

    def __init__(
        self,
        client: GraphRAG,
        mode: str = "hybrid",
        top_k: int = 10,
        filter: Mapping[str, Any] | MetadataFilters | None = None,
        async_client: AsyncGraphRAG | None = None,
        **options: Any,
    ):
        super().__init__()
        self._client = client
        self._async_client = async_client
        if isinstance(filter, MetadataFilters):
            filter = as_filter(filter)
        self._arguments: dict[str, Any] = {"mode": mode, "top_k": top_k, "filter": filter, **options}

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [_found(hit) for hit in self._client.search(query_bundle.query_str, **self._arguments)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self._async_client is None:
            return await asyncio.to_thread(self._retrieve, query_bundle)
        return [_found(hit) for hit in await self._async_client.search(query_bundle.query_str, **self._arguments)]


def _found(hit: SearchResult) -> NodeWithScore:
    own: dict[str, Any] = {
        "source_key": hit.source_key,
        "title": hit.title,
        "document_id": hit.document_id,
        "corpus": hit.corpus,
    }
    own |= place_of(hit.explain)
    if hit.relevance is not None:
        own["relevance"] = hit.relevance
    if "unanswered" in hit.explain:
        own["unanswered"] = hit.explain["unanswered"]
    metadata = with_own(_metadata(hit.explain.get("metadata", {})), **own)
    return NodeWithScore(node=TextNode(id_=str(hit.chunk_id), text=hit.content, metadata=metadata), score=hit.score)


class GraphRAGPropertyGraphStore(PropertyGraphStore):
    """The knowledge graph of a corpus as LlamaIndex's property graph.

    Nodes of text are documents, and what is extracted of them is imported with them (``graphrag.import_documents``), so that
    the graph stays what documents say. What was written is indexed before the next read.

    `client` (GraphRAG): one corpus of a database; for writing, one with the option extractor ``given`` (or ``llm``), by its
      owner.

    Vectors are the corpus' own: `supports_vector_queries` is False. `GraphRAGRetriever` searches by them.
    """

    supports_structured_queries: bool = True
    supports_vector_queries: bool = False

    def __init__(self, client: GraphRAG):
        self._client = client
        self._has_new_documents = False

    @property
    def client(self) -> GraphRAG:
        """The client this store was made with."""
        return self._client

    def get(self, properties: dict[str, Any] | None = None, ids: list[str] | None = None) -> list[LabelledNode]:
        """Return entities by name and chunks by id; by `properties`, the entities of a chunk (``triplet_source_id``), else the
        chunks whose document's metadata has them."""
        if ids is not None:
            self._index()
            keys = [self._client.call("_key", name=name) for name in ids]
            nodes: list[LabelledNode] = [_entity(row) for row in self._rows(_ENTITIES + _BY_NAME, keys=keys)]
            return nodes + [_chunk(row) for row in self._rows(_CHUNKS.format(condition=_CHUNKS_BY_ID), ids=ids)]
        if not properties:
            return []
        if set(properties) == {TRIPLET_SOURCE_KEY}:
            return [_entity(row) for row in self._rows(_ENTITIES + _BY_CHUNK, chunk=properties[TRIPLET_SOURCE_KEY])]
        condition = "d.metadata @> %(properties)s"
        rows = self._rows(_CHUNKS.format(condition=condition), properties=Jsonb(properties))
        return [_chunk(row) for row in rows]

    def get_triplets(
        self,
        entity_names: list[str] | None = None,
        relation_names: list[str] | None = None,
        properties: dict[str, Any] | None = None,
        ids: list[str] | None = None,
    ) -> list[Triplet]:
        """Return the relationships of entities, strongest first, of them those with these labels and properties."""
        names = [*(entity_names or ()), *(ids or ())]
        return [
            triplet
            for triplet in self._triplets(names, 1)
            if (not relation_names or triplet[1].label in relation_names)
            and all(triplet[1].properties.get(name) == value for name, value in (properties or {}).items())
        ]

    def get_rel_map(
        self, graph_nodes: list[LabelledNode], depth: int = 2, limit: int = 30, ignore_rels: list[str] | None = None
    ) -> list[Triplet]:
        """Return at most `limit` relationships within `depth` of entities, nearest first."""
        names = [node.name for node in graph_nodes if isinstance(node, EntityNode)]
        triplets = self._triplets(names, depth)
        return [triplet for triplet in triplets if triplet[1].label not in (ignore_rels or ())][:limit]

    def get_llama_nodes(self, node_ids: list[str]) -> list[BaseNode]:
        """Return the nodes of text with these ids."""
        rows = self._rows(_CHUNKS.format(condition=_CHUNKS_BY_ID), ids=node_ids)
        return [_text_node(row) for row in rows]

    def upsert_nodes(self, nodes: Sequence[LabelledNode]) -> None:
        """Store nodes of text as documents, and entities as what their chunk (``triplet_source_id``) says."""
        chunks = {node.id: node for node in nodes if isinstance(node, ChunkNode)}
        entities_by_source: dict[str, list[EntityNode]] = {}
        for node in nodes:
            if isinstance(node, EntityNode):
                entities_by_source.setdefault(_source(node.properties, node.name), []).append(node)

        def change(key: str, document: Row) -> None:
            if key in chunks:
                node = chunks[key]
                if document.get("content") != node.text:
                    document["chunks"] = [{"start": 0, "end": len(node.text)}]
                document |= {"content": node.text, "metadata": {NODE_CONTENT: "{}", **node.properties}}
            for entity in entities_by_source.get(key, ()):
                description = entity.properties.get("description")
                _put(
                    document,
                    "entities",
                    {"name": entity.name, "type": entity.label, "description": description},
                    "name",
                )

        self._change({*chunks, *entities_by_source}, change)

    def upsert_relations(self, relations: list[Relation]) -> None:
        """Store relationships as what their chunk (``triplet_source_id``) says; the label is their keyword."""
        relations_by_source: dict[str, list[Relation]] = {}
        for relation in relations:
            relations_by_source.setdefault(_source(relation.properties, relation.label), []).append(relation)

        def change(key: str, document: Row) -> None:
            for relation in relations_by_source[key]:
                entry = {
                    "source": relation.source_id,
                    "target": relation.target_id,
                    "keywords": [relation.label],
                    "description": relation.properties.get("description")
                    or f"{relation.source_id} {relation.label} {relation.target_id}",
                }
                _put(document, "relationships", entry, "source", "target", "keywords")

        self._change(set(relations_by_source), change)

    def delete(
        self,
        entity_names: list[str] | None = None,
        relation_names: list[str] | None = None,
        properties: dict[str, Any] | None = None,
        ids: list[str] | None = None,
    ) -> None:
        """Delete the documents of nodes of text (`ids`, or by `properties`); entities go with the last that names them.

        Raises GraphRAGError: 0A000 for names of entities or relations: they are what documents say.
        """
        if entity_names or relation_names:
            raise GraphRAGError(
                "entities and relations cannot be deleted while documents say them",
                sqlstate="0A000",
                hint="Delete the nodes of text that say them, by their ids.",
            )
        nodes = self.get(properties) if properties else []
        keys = [node.id for node in nodes if isinstance(node, ChunkNode)] + [*(ids or ())]
        if keys:
            self._client.delete(keys)
            self._has_new_documents = True

    def structured_query(self, query: str, param_map: dict[str, Any] | None = None) -> Any:
        """Run a Cypher query that only reads: ``graphrag.cypher``."""
        self._index()
        return self._client.cypher(query, param_map)

    def vector_query(self, query: Any, **kwargs: Any) -> tuple[list[LabelledNode], list[float]]:
        """Refuse with NotImplementedError: vectors are the corpus' own."""
        raise NotImplementedError(
            "the corpus has vectors of its own: use GraphRAGRetriever, or GraphRAG.search_entities"
        )

    def get_schema(self, refresh: bool = False) -> str:
        """Return what Cypher finds."""
        return _SCHEMA

    def persist(self, persist_path: str, fs: Any = None) -> None:
        """Write no file, since the graph is in the database; index what was added."""
        self._index()

    def _index(self) -> None:
        if self._has_new_documents:
            self._client.process_jobs()
            self._has_new_documents = False

    def _rows(self, sql: str, **parameters: Any) -> list[Row]:
        self._index()
        with self._client._connection() as connection:
            return _select(connection, sql, {"corpus": self._client.corpus, **parameters})

    def _triplets(self, names: Sequence[str], depth: int) -> list[Triplet]:
        if not names:
            return []
        self._index()
        nearest: dict[int, tuple[int, int, int]] = {}
        for place, name in enumerate(names):
            for number, row in enumerate(self._client.call("neighbors", entity=name, hops=depth)):
                edge_id, distance = row["relationship_id"], (row["hop"], place, number)
                nearest[edge_id] = min(distance, nearest.get(edge_id, distance))
        edge_ids = sorted(nearest, key=nearest.__getitem__)
        return [_triplet(row) for row in self._rows(_EDGES, ids=edge_ids)] if edge_ids else []

    def _change(self, keys: Iterable[str], change: Any) -> None:
        """Let `change(key, document)` change stored documents, in one transaction."""
        sorted_keys = sorted(keys)
        if not sorted_keys:
            return
        with self._client._connection() as connection, transaction(connection):
            rows = _select(connection, _STORED, {"corpus": self._client.corpus, "keys": sorted_keys})
            documents = {row["source_key"]: row for row in rows}
            for key in sorted_keys:
                row = documents.setdefault(key, {"source_key": key})
                change(key, row)
                if "content" not in row:
                    raise GraphRAGError(
                        f'there is no node of text "{key}"',
                        sqlstate="42704",
                        hint=f"Store the node that {TRIPLET_SOURCE_KEY} names before what is extracted of it.",
                    )
                if row.get("chunks") is None:
                    row["chunks"] = [{"start": 0, "end": len(row["content"])}]
            for part in parts(documents.values()):
                statement = any_call(self._client.corpus, "import_documents", {"documents": part})
                execute(connection, statement)
        self._has_new_documents = True

    # The base class' methods would block the event loop.
    aget = in_thread(get)
    aget_triplets = in_thread(get_triplets)
    aget_rel_map = in_thread(get_rel_map)
    aget_llama_nodes = in_thread(get_llama_nodes)
    aupsert_nodes = in_thread(upsert_nodes)
    aupsert_relations = in_thread(upsert_relations)
    adelete = in_thread(delete)
    adelete_llama_nodes = in_thread(PropertyGraphStore.delete_llama_nodes)
    astructured_query = in_thread(structured_query)


def _source(properties: Mapping[str, Any], name: str) -> str:
    source = properties.get(TRIPLET_SOURCE_KEY)
    if not source:
        raise GraphRAGError(
            f'"{name}" is not said to be of any node of text',
            hint=f'Give its property "{TRIPLET_SOURCE_KEY}", the id of a stored node: the graph is what documents say.',
        )
    return str(source)


def _put(document: Row, kind: str, entry: Row, *key_fields: str) -> None:
    """Put a statement into the (only) chunk of a document, in place of the one of the same name."""
    if not document.get("chunks"):
        return
    chunk = document["chunks"][0]
    other_entries = [old for old in chunk.get(kind) or () if any(old.get(name) != entry[name] for name in key_fields)]
    chunk[kind] = [*other_entries, entry]


def _entity(row: Row) -> EntityNode:
    properties = {name: row[name] for name in ("description", "degree")}
    return EntityNode(
        name=row["name"], label=row["type"], properties=properties | {TRIPLET_SOURCE_KEY: row["source_chunk"]}
    )


def _chunk(row: Row) -> ChunkNode:
    return ChunkNode(id_=row["id"], text=row["content"], properties=row["metadata"])


def _select(connection: psycopg.Connection[Any], sql: str, parameters: Mapping[str, Any]) -> list[Row]:
    """Return rows as dictionaries, whatever a connection's own cursors do."""
    cursor = psycopg.Cursor(connection, row_factory=dict_row)
    adapt(cursor)
    return cursor.execute(sql, parameters, prepare=False).fetchall()


def _metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a document without what LlamaIndex keeps of a node there."""
    others = {NODE_CONTENT} | ({"document_id"} - own_metadata(metadata).keys() if NODE_CONTENT in metadata else set())
    return {name: value for name, value in metadata.items() if name not in others}


def _text_node(row: Row) -> BaseNode:
    if json.loads(row["metadata"].get(NODE_CONTENT) or "{}"):
        node = metadata_dict_to_node(row["metadata"])
        node.set_content(row["content"])
        return node
    metadata = _metadata(row["metadata"])
    metadata = with_own(metadata, source_key=row["source_key"], title=row["title"])
    return TextNode(id_=row["id"], text=row["content"], metadata=metadata)


def _triplet(row: Row) -> Triplet:
    keywords = row["keyword_list"]
    relation = Relation(
        label=keywords[0] if keywords else "RELATED",
        source_id=row["source"],
        target_id=row["target"],
        properties={
            "description": row["description"],
            "keywords": keywords,
            "weight": row["weight"],
            TRIPLET_SOURCE_KEY: row["source_chunk"],
        },
    )
    # LlamaIndex looks for a triplet's text at its first entity.
    source = {TRIPLET_SOURCE_KEY: row["source_chunk"]}
    ends = [EntityNode(name=row[end], label=row[f"{end}_type"], properties=source) for end in ("source", "target")]
    return ends[0], relation, ends[1]
