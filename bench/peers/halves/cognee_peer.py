"""The peer's half of bench/peers/beside.py for cognee, run by that script in a venv that holds it.

    python -P bench/peers/halves/cognee_peer.py < task.json > result.json

The task names a step (ingest or find), folder, endpoint, documents and questions.
"""

import os
import time
from typing import Any

from peer_half import cpu, run, timed

DATASET = "bench"


def environment(task: dict[str, Any]) -> dict[str, str]:
    """Return the variables that it reads its settings from: its defaults, but for models, vectors and folders."""
    return {
        "LLM_API_KEY": "none",
        "LLM_ENDPOINT": task["endpoint"],
        "EMBEDDING_ENDPOINT": task["endpoint"],
        # Of OpenAI's names it knows the tokenizer.
        "EMBEDDING_MODEL": "openai/text-embedding-3-small",
        "EMBEDDING_DIMENSIONS": str(task["dimensions"]),
        "DATA_ROOT_DIRECTORY": f"{task['folder']}/data",
        "SYSTEM_ROOT_DIRECTORY": f"{task['folder']}/system",
        "CACHE_ROOT_DIRECTORY": f"{task['folder']}/cache",
        "COGNEE_LOGS_DIR": f"{task['folder']}/logs",
        # What it and litellm would ask the network for, and a request that only tries the endpoint.
        "TELEMETRY_DISABLED": "1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "COGNEE_SKIP_CONNECTION_TEST": "true",
        "LOG_LEVEL": "ERROR",
    }


async def main(task: dict[str, Any]) -> Any:
    os.environ.update(environment(task))
    if task["step"] == "ingest":
        return await _ingest(task)
    return {mode: await _find(task, mode) for mode in task["modes"]}


async def _ingest(task: dict[str, Any]) -> dict[str, Any]:
    """Return seconds, CPU seconds of this process, and how many documents did not get through."""
    import cognee
    from cognee.modules.engine.operations.setup import setup

    await setup()
    before, start = cpu(), time.perf_counter()
    await cognee.add([f"{title}\n{text}" for _, title, text in task["documents"]], dataset_name=DATASET)
    done = await cognee.cognify(datasets=[DATASET], data_per_batch=task["concurrency"])
    seconds, used = time.perf_counter() - start, cpu() - before
    (run_of_dataset,) = done.values()
    items = run_of_dataset.data_ingestion_info or []
    failed = sum(1 for item in items if "Completed" not in type(item["run_info"]).__name__)
    return {"seconds": seconds, "cpu": used, "failed": failed + len(task["documents"]) - len(items)}


async def _find(task: dict[str, Any], mode: str) -> dict[str, Any]:
    """Return what every question found, and what that took. Its contexts name no documents, so these are known by their texts."""
    import cognee
    from cognee import SearchType

    kinds = {"hybrid": SearchType.HYBRID_COMPLETION, "graph": SearchType.GRAPH_COMPLETION, "chunks": SearchType.CHUNKS}
    keys = {" ".join(f"{title}\n{text}".split()): key for key, title, text in task["documents"]}

    async def find(question: str, *_: list[str]) -> list[str]:
        results = await cognee.search(
            question, query_type=kinds[mode], datasets=[DATASET], top_k=task["top_k"], only_context=True
        )
        context = " ".join(" ".join(str(result["search_result"]) for result in results).split())
        places = sorted((place, key) for text, key in keys.items() if (place := context.find(text)) >= 0)
        return [key for _, key in places]

    return await timed(task, find)


if __name__ == "__main__":
    run(main)
    # The threads of its databases' workers would keep a process that has said all it has to say.
    os._exit(0)
