"""The peer's half of bench/graphrag_pypi.py, run by that script in a venv that holds microsoft/graphrag.

    python -P bench/graphrag_peer.py < task.json > result.json

The task names folder (documents as text files in its ``input``), endpoint, concurrency and step: build, or update (of what an
earlier build made). Whatever graphrag prints goes to standard error.
"""

import asyncio
import json
import logging
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

# Prices of models are in the package too; looking for newer ones needs a network.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
import pandas as pd
from graphrag.api import build_index
from graphrag.config.models.graph_rag_config import GraphRagConfig

TABLES = ("documents", "text_units", "entities", "relationships", "communities", "community_reports")


def config(task: dict[str, Any]) -> GraphRagConfig:
    """GraphRAG's defaults, but for what both systems are given: no gleaning, and all components of the graph."""
    folder = Path(task["folder"])
    model = {"model_provider": "openai", "api_base": task["endpoint"], "api_key": "none"}
    return GraphRagConfig(
        completion_models={"default_completion_model": {**model, "model": "gpt-4o"}},
        embedding_models={"default_embedding_model": {**model, "model": "text-embedding-3-small"}},
        concurrent_requests=task["concurrency"],
        input={"type": "text"},
        input_storage={"base_dir": str(folder / "input")},
        output_storage={"base_dir": str(folder / "output")},
        update_output_storage={"base_dir": str(folder / "update")},
        reporting={"base_dir": str(folder / "logs")},
        cache={"type": "json", "storage": {"base_dir": str(folder / "cache")}},
        vector_store={"type": "lancedb", "db_uri": str(folder / "lancedb"), "vector_size": task["dimensions"]},
        extract_graph={"max_gleanings": 0},
        cluster_graph={"use_lcc": False},
    )


async def main(task: dict[str, Any]) -> dict[str, Any]:
    litellm.suppress_debug_info = True
    logging.getLogger().setLevel(logging.ERROR)
    before, start = _cpu(), time.perf_counter()
    done = await build_index(config(task), is_update_run=task["step"] == "update")
    seconds, cpu = time.perf_counter() - start, _cpu() - before
    failed = [f"{item.workflow}: {item.error!r}" for item in done if item.error is not None]
    output = Path(task["folder"]) / "output"
    rows = {name: len(pd.read_parquet(output / f"{name}.parquet")) for name in TABLES} if not failed else {}
    return {"seconds": seconds, "cpu": cpu, "failed": failed, "rows": rows}


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


if __name__ == "__main__":
    # What graphrag prints must not get into the result.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    made = asyncio.run(main(json.load(sys.stdin)))
    answer.write(json.dumps(made))
    answer.flush()
