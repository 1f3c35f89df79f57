"""LangChain: a retriever and a vector store (extra ``langchain``). Its graph store is `langchain_graph`."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from pydantic import ConfigDict

from pg_graphrag.beside import client as graphrag
from pg_graphrag.beside.client import AsyncGraphRAG, GraphRAG, SearchResult
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.integrations import of_one_corpus, place_of, title_of, with_own


class GraphRAGRetriever(BaseRetriever):
    """Chunks found by ``graphrag.search``, best first.

    `client` (GraphRAG): one corpus of a database, for `invoke`.
    `async_client` (AsyncGraphRAG): the same for `ainvoke`; without it `ainvoke` uses `client` in a thread.
    `mode`, `top_k`, `filter`, `options`: as in `GraphRAG.search`; `options` is its keyword arguments. `invoke` takes each of
      them, too.

    A result has the number of the chunk as its id. Its metadata are the document's, and source_key, title, document_id,
    corpus, score and explain; where the document's have such a name too, these are graphrag_source_key and so on.
    """

    # A filter by a wrong name would restrict nothing.
    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    client: GraphRAG | None = None
    async_client: AsyncGraphRAG | None = None
    mode: str = "hybrid"
    top_k: int = 10
    filter: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = {}

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **arguments: Any
    ) -> list[Document]:
        hits = _needed(self.client, "client").search(query, **self._arguments(**arguments))
        return [_found(hit) for hit in hits]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **arguments: Any
    ) -> list[Document]:
        if self.async_client is None:
            documents: list[Document] = await super()._aget_relevant_documents(
                query, run_manager=run_manager, **arguments
            )
            return documents
        hits = await self.async_client.search(query, **self._arguments(**arguments))
        return [_found(hit) for hit in hits]

    def _arguments(
        self,
        mode: str | None = None,
        top_k: int | None = None,
        filter: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        return {
            "mode": mode or self.mode,
            "top_k": self.top_k if top_k is None else top_k,
            "filter": self.filter if filter is None else filter,
            **(self.options if options is None else options),
        }


class GraphRAGVectorStore(VectorStore):
    """The documents of a corpus as LangChain's vector store: texts are rows of ``graphrag.documents``, ids their keys.

    Vectors, words and graph are made by the corpus. A text longer than a chunk is found by its chunks, which share its id.
    What was added is indexed before the next read.

    `client` (GraphRAG): one corpus of a database.
    `async_client` (AsyncGraphRAG): the same for the methods on asyncio; without it they use `client` in a thread.
    `mode`: how `similarity_search` searches: ``naive`` compares vectors; see `GraphRAG.search` for others.
    `process_jobs`: whether reads index first what this store has added, which needs the extension's owner. False: workers do,
      and what they have not come to is not found yet.

    `filter` of a search is that of `GraphRAG.search`; other keyword arguments are its options. A title is what metadata have
    as ``title``. Searches by vector are not supported (NotImplementedError): the corpus makes its vectors itself.
    """

    def __init__(
        self,
        client: GraphRAG | None = None,
        async_client: AsyncGraphRAG | None = None,
        *,
        mode: str = "naive",
        process_jobs: bool = True,
    ):
        self._client = client
        self._async_client = async_client
        self._mode = mode
        self._processes_jobs = process_jobs
        self._has_new_documents = False

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> "GraphRAGVectorStore":
        """Make a store of `kwargs` and add texts to it. `embedding` has to be None.

        Raises GraphRAGError: 0A000 for an embedding.
        """
        _refuse(embedding)
        store = cls(**kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    @classmethod
    async def afrom_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> "GraphRAGVectorStore":
        """As `from_texts`."""
        _refuse(embedding)
        store = cls(**kwargs)
        await store.aadd_texts(texts, metadatas, ids=ids)
        return store

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Insert texts, or replace those of the same id; returns the ids, made where none is given."""
        documents = _documents(texts, metadatas, ids)
        _needed(self._client, "client").insert(documents)
        self._has_new_documents = True
        return [str(document.source_key) for document in documents]

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """As `add_texts`."""
        if self._async_client is None:
            keys: list[str] = await super().aadd_texts(texts, metadatas, ids=ids, **kwargs)
            return keys
        documents = _documents(texts, metadatas, ids)
        await self._async_client.insert(documents)
        self._has_new_documents = True
        return [str(document.source_key) for document in documents]

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Delete texts by their ids; unknown ones are passed over.

        Raises GraphRAGError: 22023 without ids.
        """
        _needed(self._client, "client").delete(_given(ids))
        self._has_new_documents = True
        return True

    async def adelete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """As `delete`."""
        if self._async_client is None:
            return bool(await super().adelete(ids, **kwargs))
        await self._async_client.delete(_given(ids))
        self._has_new_documents = True
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return whole texts in the order of their ids, without unknown ones."""
        return [_stored(document) for document in _needed(self._client, "client").get(ids)]

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """As `get_by_ids`."""
        if self._async_client is None:
            documents: list[Document] = await super().aget_by_ids(ids)
            return documents
        return [_stored(document) for document in await self._async_client.get(ids)]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the `k` best chunks; `kwargs`: filter, mode, and options of the search."""
        return [_of_store(hit) for hit in self._search(query, k, kwargs)]

    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """As `similarity_search`."""
        return [_of_store(hit) for hit in await self._asearch(query, k, kwargs)]

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        """Return the `k` best chunks with the score of the mode, for which higher is better; of ``naive`` it is the cosine."""
        return [(_of_store(hit), hit.score) for hit in self._search(query, k, kwargs)]

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """As `similarity_search_with_score`."""
        return [(_of_store(hit), hit.score) for hit in await self._asearch(query, k, kwargs)]

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return `k` of the `fetch_k` best chunks that are near the query and far from each other: with `lambda_mult` 1,
        only nearness counts. The corpus' model embeds each of them again.
        """
        client = _needed(self._client, "client")
        hits = self._search(query, fetch_k, kwargs)
        vectors = [_vector(client.call("embed", input=text)) for text in (query, *(hit.content for hit in hits))]
        return [_of_store(hits[place]) for place in diverse(vectors[0], vectors[1:], k, lambda_mult)]

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """As `max_marginal_relevance_search`."""
        if self._async_client is None:
            documents: list[Document] = await super().amax_marginal_relevance_search(
                query, k, fetch_k, lambda_mult, **kwargs
            )
            return documents
        client = self._async_client
        hits = await self._asearch(query, fetch_k, kwargs)
        vectors = [_vector(await client.call("embed", input=text)) for text in (query, *(hit.content for hit in hits))]
        return [_of_store(hits[place]) for place in diverse(vectors[0], vectors[1:], k, lambda_mult)]

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        return _judged(self._search(query, k, self._with_relevance(kwargs)))

    async def _asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        return _judged(await self._asearch(query, k, self._with_relevance(kwargs)))

    def _with_relevance(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a search whose rows have a number from 0 to 1: of ``naive`` the score is one, the cosine."""
        is_naive = arguments.get("mode", self._mode) == "naive"
        return dict(arguments) if is_naive else {"min_relevance": 0, **arguments}

    def _search(self, query: str, k: int, arguments: Mapping[str, Any]) -> list[SearchResult]:
        client = _needed(self._client, "client")
        if self._has_new_documents and self._processes_jobs:
            client.process_jobs()
            self._has_new_documents = False
        return client.search(query, top_k=k, **{"mode": self._mode, **of_one_corpus(arguments)})

    async def _asearch(self, query: str, k: int, arguments: Mapping[str, Any]) -> list[SearchResult]:
        if self._async_client is None:
            from langchain_core.runnables import run_in_executor

            hits: list[SearchResult] = await run_in_executor(None, self._search, query, k, arguments)
            return hits
        if self._has_new_documents and self._processes_jobs:
            await self._async_client.process_jobs()
            self._has_new_documents = False
        return await self._async_client.search(query, top_k=k, **{"mode": self._mode, **of_one_corpus(arguments)})


def diverse(query: Sequence[float], vectors: Sequence[Sequence[float]], k: int, weight: float) -> list[int]:
    """Return the places of `k` vectors, each with the most of `weight` · cosine to the query − (1 − `weight`) · the greatest
    cosine to those before it (Carbonell and Goldstein 1998). All are normalised."""
    nearness = [_dot(query, vector) for vector in vectors]
    chosen: list[int] = []
    nearest = [-1.0] * len(vectors)
    while len(chosen) < min(k, len(vectors)):
        place = max(
            (place for place in range(len(vectors)) if place not in chosen),
            key=lambda place: weight * nearness[place] - (1 - weight) * (nearest[place] if chosen else 0.0),
        )
        chosen.append(place)
        nearest = [max(old, _dot(vectors[place], vector)) for old, vector in zip(nearest, vectors, strict=True)]
    return chosen


def _dot(first: Sequence[float], second: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(first, second, strict=True))


def _needed(client: GraphRAG | None, name: str) -> GraphRAG:
    if client is None:
        raise GraphRAGError(
            f"there is no {name} for methods without asyncio",
            hint="Give client=GraphRAG(url), or use the methods on asyncio (ainvoke, asimilarity_search, …).",
        )
    return client


def _refuse(embedding: Embeddings | None) -> None:
    if embedding is not None:
        raise GraphRAGError(
            "the corpus makes its vectors itself, and takes no embedding",
            sqlstate="0A000",
            hint="Give embedding=None. GraphRAG(url).reembed() chooses the model of a corpus.",
        )


def _given(ids: list[str] | None) -> list[str]:
    if ids is None:
        raise GraphRAGError(
            "there are no ids to delete", hint="GraphRAG(url, corpus).drop_corpus() removes everything."
        )
    return ids


def _documents(
    texts: Iterable[str], metadatas: Sequence[dict[str, Any] | None] | None, ids: Sequence[str | None] | None
) -> list[graphrag.Document]:
    contents = list(texts)
    pairs = zip(contents, metadatas or [{}] * len(contents), ids or [None] * len(contents), strict=True)
    return [
        graphrag.Document(content, key or uuid4().hex, title_of(metadata or {}), metadata or {})
        for content, metadata, key in pairs
    ]


def _stored(document: graphrag.Document) -> Document:
    return Document(id=document.source_key, page_content=document.content, metadata=dict(document.metadata))


def _of_store(hit: SearchResult) -> Document:
    return Document(id=hit.source_key, page_content=hit.content, metadata=hit.explain.get("metadata", {}))


def _judged(hits: Sequence[SearchResult]) -> list[tuple[Document, float]]:
    """Return chunks with their relevance, or else their cosine, best first by that."""
    shares = (hit.score if hit.relevance is None else hit.relevance for hit in hits)
    documents = [(_of_store(hit), min(max(share, 0.0), 1.0)) for hit, share in zip(hits, shares, strict=True)]
    return sorted(documents, key=lambda document: -document[1])


def _found(hit: SearchResult) -> Document:
    metadata = with_own(
        hit.explain.get("metadata", {}),
        source_key=hit.source_key,
        title=hit.title,
        document_id=hit.document_id,
        corpus=hit.corpus,
        score=hit.score,
        explain=hit.explain,
        **place_of(hit.explain),
    )
    return Document(id=str(hit.chunk_id), page_content=hit.content, metadata=metadata)


def _vector(text: str) -> list[float]:
    vector: list[float] = json.loads(text)
    return vector
