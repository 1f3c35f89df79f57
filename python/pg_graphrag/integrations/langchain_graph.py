"""LangChain: a graph store (extra ``langchain-graph``), for its chains and graph transformers."""

from typing import Any

from langchain_community.graphs.graph_document import GraphDocument
from langchain_community.graphs.graph_store import GraphStore

from pg_graphrag.beside.client import GraphRAG
from pg_graphrag.beside.exchange.foreign_documents import parts
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.integrations import title_of

_SCHEMA: dict[str, Any] = {
    "node_props": {
        "Entity": [
            {"property": name, "type": kind}
            for name, kind in (
                *(("key", "STRING"), ("name", "STRING"), ("type", "STRING"), ("description", "STRING")),
                ("degree", "INTEGER"),
            )
        ],
        "Chunk": [{"property": name, "type": "INTEGER"} for name in ("chunk_id", "document_id", "ordinal")],
        "Document": [{"property": "document_id", "type": "INTEGER"}],
    },
    "rel_props": {
        "RELATED": [
            {"property": "keywords", "type": "LIST"},
            {"property": "description", "type": "STRING"},
            {"property": "weight", "type": "FLOAT"},
        ]
    },
    "relationships": [
        {"start": "Entity", "type": "RELATED", "end": "Entity"},
        {"start": "Entity", "type": "MENTIONED_IN", "end": "Chunk"},
        {"start": "Chunk", "type": "PART_OF", "end": "Document"},
    ],
}


class GraphRAGGraphStore(GraphStore):
    """The knowledge graph of a corpus as LangChain's graph store.

    Graph documents become documents with what they say (``graphrag.import_documents``), so that the graph stays what documents
    say. What was added is indexed before the next read.

    `client` (GraphRAG): one corpus of a database, by its owner: Cypher is the owner's. For adding, one with the option
      extractor ``given`` (or ``llm``).
    """

    def __init__(self, client: GraphRAG):
        self._client = client
        self._has_new_documents = False

    @property
    def get_schema(self) -> str:
        """What Cypher finds, for a prompt."""
        vertices = ", ".join(
            f"{label} {{{', '.join(item['property'] for item in items)}}}"
            for label, items in _SCHEMA["node_props"].items()
        )
        edges = ", ".join(
            f"(:{edge['start']})-[:{edge['type']}]->(:{edge['end']})" for edge in _SCHEMA["relationships"]
        )
        return (
            f"Vertices: {vertices}\nRELATED has {{keywords, description, weight}}.\nEdges: {edges}\n"
            "RELATED is stored in both directions. Keys are lower case names. Read only; name each column of RETURN."
        )

    @property
    def get_structured_schema(self) -> dict[str, Any]:
        """The same as {node_props, rel_props, relationships}."""
        return _SCHEMA

    def refresh_schema(self) -> None:
        """Do nothing: the schema of all corpora is the same."""

    def query(self, query: str, params: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """Run a Cypher query that only reads: ``graphrag.cypher``. One dictionary per row."""
        if self._has_new_documents:
            self._client.process_jobs()
            self._has_new_documents = False
        return self._client.cypher(query, params)

    def add_graph_documents(self, graph_documents: list[GraphDocument], include_source: bool = False) -> None:
        """Store graph documents, each by the id of its source; one of the same id is replaced.

        `include_source` makes no difference: a graph is what documents say, so their text is always stored.

        Raises GraphRAGError: 22023 for a source without an id.
        """
        for part in parts([_document(document) for document in graph_documents]):
            self._client.call("import_documents", documents=part)
        self._has_new_documents = True


def _document(graph: GraphDocument) -> dict[str, Any]:
    source = graph.source
    if not source.id:
        raise GraphRAGError(
            f"a source without an id: {source.page_content!r:.200}",
            hint="Give each Document an id: the graph it makes is replaced with it.",
        )
    entities = {
        str(node.id): {"name": str(node.id), "type": node.type, "description": _description(node.properties)}
        for node in [end for edge in graph.relationships for end in (edge.source, edge.target)] + list(graph.nodes)
    }
    relationships = {
        (str(edge.source.id), str(edge.target.id), edge.type): {
            "source": str(edge.source.id),
            "target": str(edge.target.id),
            "keywords": [edge.type],
            "description": _description(edge.properties) or f"{edge.source.id} {edge.type} {edge.target.id}",
        }
        for edge in graph.relationships
    }
    return {
        "source_key": source.id,
        "title": title_of(source.metadata),
        "content": source.page_content,
        "metadata": source.metadata,
        "chunks": [
            {
                "start": 0,
                "end": len(source.page_content),
                "entities": list(entities.values()),
                "relationships": list(relationships.values()),
            }
        ],
    }


def _description(properties: dict[str, Any]) -> str | None:
    return str(properties["description"]) if properties.get("description") else None
