"""The peer's half of bench/peers/beside.py for MiniRAG, run by that script in a venv that holds it.

    python -P bench/peers/halves/minirag_peer.py < task.json > result.json

The task names a step (ingest or find), folder, endpoint, documents and questions.
"""

# Libraries are left out before what needs them is loaded.
# ruff: noqa: E402

import csv
import io
import time
from typing import Any

from peer_half import Models, Words, cpu, leave_out, run, timed

# Bindings of models that are not asked, and similarities that are not its default.
leave_out("minirag.llm.hf", "sentence_transformers")
leave_out("sklearn", "sklearn.feature_extraction", "sklearn.feature_extraction.text")

import minirag.utils
from minirag import MiniRAG, QueryParam
from minirag.utils import EmbeddingFunc

# A token is a word: its own tokenizer is a download.
minirag.utils.ENCODER = Words()


async def main(task: dict[str, Any]) -> Any:
    """Its defaults, but for models, gleaning and the number of requests at a time."""
    models = Models(task["endpoint"])
    rag = MiniRAG(
        working_dir=task["folder"],
        llm_model_func=models.chat,
        llm_model_max_async=task["concurrency"],
        embedding_func=EmbeddingFunc(embedding_dim=task["dimensions"], max_token_size=8192, func=models.embed),
        entity_extract_max_gleaning=task["gleaning"],
        enable_llm_cache=False,
    )
    if task["step"] == "ingest":
        return await _ingest(rag, task["documents"])
    return {mode: await _find(rag, task, mode) for mode in task["modes"]}


async def _ingest(rag: MiniRAG, documents: list[tuple[str, str, str]]) -> dict[str, Any]:
    """Return seconds, CPU seconds of this process, and how many documents did not get through."""
    before, start = cpu(), time.perf_counter()
    await rag.ainsert([f"{title}\n{text}" for _, title, text in documents], ids=[key for key, _, _ in documents])
    seconds, used = time.perf_counter() - start, cpu() - before
    statuses = await rag.doc_status.get_status_counts()
    return {"seconds": seconds, "cpu": used, "failed": len(documents) - statuses.get("processed", 0)}


async def _find(rag: MiniRAG, task: dict[str, Any], mode: str) -> dict[str, Any]:
    """Return what every question found, and what that took; its contexts name no document, so that texts tell."""
    keys = {" ".join(f"{title}\n{text}".split()): key for key, title, text in task["documents"]}

    async def find(question: str, *_: list[str]) -> list[str]:
        # Half of `top_k` are chunks.
        context = await rag.aquery(question, QueryParam(mode=mode, only_need_context=True, top_k=2 * task["top_k"]))
        table = (context or "").partition("-----Sources-----")[2].partition("```csv\n")[2].partition("```")[0]
        texts = [" ".join(row[1].split()) for row in csv.reader(io.StringIO(table.strip())) if len(row) > 1]
        return [keys[text] for text in texts if text in keys]

    return await timed(task, find)


if __name__ == "__main__":
    run(main)
