"""The peer's half of bench/peers/beside.py for HippoRAG 2, run by that script in a venv that holds it.

    python -P bench/peers/halves/hipporag_peer.py < task.json > result.json

The task names a step (ingest or find), folder, endpoint, documents and questions.
"""

# Libraries are left out before what needs them is loaded.
# ruff: noqa: E402

import os
import time
from typing import Any

from peer_half import cpu, leave_out, run, timed

# Models in its own process, and of a cloud; here all are behind the endpoint.
leave_out("boto3", "botocore", "botocore.exceptions", "gritlm", "vllm")
os.environ["OPENAI_API_KEY"] = "none"

from hipporag import HippoRAG
from hipporag.utils.config_utils import BaseConfig


async def main(task: dict[str, Any]) -> Any:
    """Its defaults, but for models: of OpenAI's names it takes them from an endpoint."""
    rag = HippoRAG(
        global_config=BaseConfig(
            save_dir=task["folder"],
            llm_name="gpt-4o-mini",
            llm_base_url=task["endpoint"],
            embedding_model_name="text-embedding-3-small",
            embedding_base_url=task["endpoint"],
        )
    )
    if task["step"] == "ingest":
        return _ingest(rag, task["documents"])
    return {mode: await _find(rag, task, mode) for mode in task["modes"]}


def _ingest(rag: HippoRAG, documents: list[tuple[str, str, str]]) -> dict[str, Any]:
    """Return seconds, CPU seconds of this process, and how many documents did not get through."""
    before, start = cpu(), time.perf_counter()
    rag.index([f"{title}\n{text}" for _, title, text in documents])
    seconds, used = time.perf_counter() - start, cpu() - before
    return {"seconds": seconds, "cpu": used, "failed": len(documents) - len(rag.chunk_embedding_store.get_all_ids())}


async def _find(rag: HippoRAG, task: dict[str, Any], mode: str) -> dict[str, Any]:
    """Return what every question found, and what that took: by its graph, or by vectors of passages (`dpr`)."""
    keys = {f"{title}\n{text}": key for key, title, text in task["documents"]}
    retrieve = rag.retrieve_dpr if mode == "dpr" else rag.retrieve

    async def find(question: str, *_: list[str]) -> list[str]:
        (solution,) = retrieve([question], num_to_retrieve=task["top_k"])
        return [keys[text] for text in solution.docs]

    return await timed(task, find)


if __name__ == "__main__":
    run(main)
