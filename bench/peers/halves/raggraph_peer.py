"""The peer's half of bench/peers/beside.py for pg-raggraph, run by that script in a venv that holds it.

    python -P bench/peers/halves/raggraph_peer.py < task.json > result.json

The task names a step (ingest or find), the database's URL, endpoint, documents and questions.
"""

import time
from typing import Any

from peer_half import cpu, run, timed
from pg_raggraph import GraphRAG

NAMESPACE = "bench"


async def main(task: dict[str, Any]) -> Any:
    """Its defaults, but for models, vectors and the number of rows."""
    settings = {
        "namespace": NAMESPACE,
        "embedding_provider": "http",
        "embedding_base_url": task["endpoint"],
        "embedding_model": "minilm",
        "embedding_dim": task["dimensions"],
        "llm_base_url": task["endpoint"],
        "llm_model": "recorded",
        "llm_api_key": "none",
        "extract_concurrency": task["concurrency"],
    }
    async with GraphRAG(task["url"], **settings) as rag:
        if task["step"] == "ingest":
            return await _ingest(rag, task["documents"])
        return {mode: await _find(rag, task, mode) for mode in task["modes"]}


async def _ingest(rag: GraphRAG, documents: list[tuple[str, str, str]]) -> dict[str, Any]:
    """Return seconds, CPU seconds of this process, and how many documents did not get through."""
    before, start = cpu(), time.perf_counter()
    await rag.ingest_records([{"text": f"{title}\n{text}", "source_id": key} for key, title, text in documents])
    seconds, used = time.perf_counter() - start, cpu() - before
    rows = await rag.db.fetch_one("SELECT count(DISTINCT document_id) AS count FROM chunks")
    return {"seconds": seconds, "cpu": used, "failed": len(documents) - rows["count"]}


async def _find(rag: GraphRAG, task: dict[str, Any], mode: str) -> dict[str, Any]:
    """Return what every question found, and what that took."""

    async def find(question: str, *_: list[str]) -> list[str]:
        # What it packs its own context with is an extra of its package; chunks are ranked alike without.
        result = await rag.query(question, mode=mode, top_k=task["top_k"], profile="raw")
        return [chunk.document_source for chunk in result.chunks]

    return await timed(task, find)


if __name__ == "__main__":
    run(main)
