"""The peer's half of bench/peers/beside.py for post-graph-rag, run by that script in a venv that holds it.

    python -P bench/peers/halves/post_graph_peer.py < task.json > result.json

The task names a step (ingest or find), the database's URL, endpoint, documents and questions.
"""

import time
from typing import Any

from peer_half import cpu, run, timed
from post_graph_rag import GraphRAG, QueryParam, RAGConfig


async def main(task: dict[str, Any]) -> Any:
    """Its defaults, but for models, vectors, gleaning, and requests at a time; it makes communities only when asked."""
    rag = GraphRAG(
        RAGConfig(
            api_base=task["endpoint"],
            api_key="none",
            model="recorded",
            embedding_model="minilm",
            embedding_dim=task["dimensions"],
            db_uri=task["url"],
            gleaning_passes=task["gleaning"],
            max_concurrent_chunks=task["concurrency"],
        )
    )
    await rag.initialize()
    try:
        if task["step"] == "ingest":
            return await _ingest(rag, task["documents"])
        return {mode: await _find(rag, task, mode) for mode in task["modes"]}
    finally:
        await rag.close()


async def _ingest(rag: GraphRAG, documents: list[tuple[str, str, str]]) -> dict[str, Any]:
    """Return seconds, CPU seconds of this process, and how many documents did not get through."""
    chunks = [(f"{title}\n{text}", {"document": key, "source": key}) for key, title, text in documents]
    before, start = cpu(), time.perf_counter()
    indexed = await rag.index_documents(chunks)
    return {"seconds": time.perf_counter() - start, "cpu": cpu() - before, "failed": len(documents) - len(indexed)}


async def _find(rag: GraphRAG, task: dict[str, Any], mode: str) -> dict[str, Any]:
    """Return what every question found, and what that took."""

    async def find(question: str, low: list[str], high: list[str]) -> list[str]:
        parameters = QueryParam(
            mode=mode, top_k=task["top_k"], ll_keywords=low, hl_keywords=high, only_need_context=True
        )
        result = await rag.query_data(question, param=parameters)
        return [reference["document"] for reference in result["data"]["references"]]

    return await timed(task, find)


if __name__ == "__main__":
    run(main)
