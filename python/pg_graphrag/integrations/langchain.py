"""LangChain: a retriever (extra ``langchain``)."""

from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict

from pg_graphrag.client import GraphRAG


class GraphRAGRetriever(BaseRetriever):
    """Chunks found by ``graphrag.search``, best first.

    Parameters
    ----------
    client : GraphRAG
        One corpus of a database.
    mode, top_k, filter, options
        As in `GraphRAG.search`; `options` is its keyword arguments.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    client: GraphRAG
    mode: str = "hybrid"
    top_k: int = 10
    filter: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = {}

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        hits = self.client.search(query, mode=self.mode, top_k=self.top_k, filter=self.filter, **self.options)
        return [
            Document(
                id=str(hit.chunk_id),
                page_content=hit.content,
                metadata={
                    **hit.explain.get("metadata", {}),
                    "source_key": hit.source_key,
                    "title": hit.title,
                    "document_id": hit.document_id,
                    "score": hit.score,
                    "explain": hit.explain,
                },
            )
            for hit in hits
        ]
