"""The peer's half of bench/peers/graphrag_pypi.py, run by that script in a venv that holds microsoft/graphrag.

    python -P bench/peers/halves/graphrag_peer.py < task.json > result.json

The task names folder (documents as text files in its ``input``), endpoint, concurrency and step: build, update (of what an
earlier build made), find (documents by its local search), graph (names) or ask (answers).
"""

import logging
import os
import re
import time
from pathlib import Path
from typing import Any

# Prices of models are in the package too; looking for newer ones needs a network.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
import pandas as pd
from graphrag.api import build_index, local_search
from graphrag.config.models.graph_rag_config import GraphRagConfig
from peer_half import cpu, run, timed

# Lists of ids: (table, column, the table whose ids they are).
REFERENCES = (
    ("documents", "text_unit_ids", "text_units"),
    ("text_units", "entity_ids", "entities"),
    ("text_units", "relationship_ids", "relationships"),
    ("entities", "text_unit_ids", "text_units"),
    ("relationships", "text_unit_ids", "text_units"),
    ("communities", "entity_ids", "entities"),
    ("communities", "relationship_ids", "relationships"),
    ("communities", "text_unit_ids", "text_units"),
)
COMMUNITY_LEVEL = 2
TABLES = ("documents", "text_units", "entities", "relationships", "communities", "community_reports")


def config(task: dict[str, Any]) -> GraphRagConfig:
    """GraphRAG's defaults, but for what both systems are given: no gleaning, and all components of the graph."""
    folder = Path(task["folder"])
    model = {"model_provider": "openai", "api_base": task["endpoint"], "api_key": "none"}
    return GraphRagConfig(
        completion_models={"default_completion_model": {**model, "model": "gpt-4o"}},
        embedding_models={
            "default_embedding_model": {
                **model,
                "api_base": task.get("embeddings", task["endpoint"]),
                "model": "text-embedding-3-small",
            }
        },
        concurrent_requests=task["concurrency"],
        input={"type": "text"},
        input_storage={"base_dir": str(folder / "input")},
        output_storage={"base_dir": str(folder / "output")},
        update_output_storage={"base_dir": str(folder / "update")},
        reporting={"base_dir": str(folder / "logs")},
        cache={"type": "json", "storage": {"base_dir": str(folder / "cache")}},
        vector_store={"type": "lancedb", "db_uri": str(folder / "lancedb"), "vector_size": task["dimensions"]},
        extract_graph={"max_gleanings": task.get("gleaning", 0)},
        cluster_graph={"use_lcc": False},
        **({"local_search": {"max_context_tokens": task["tokens"]}} if "tokens" in task else {}),
    )


async def main(task: dict[str, Any]) -> Any:
    litellm.suppress_debug_info = True
    logging.getLogger().setLevel(logging.ERROR)
    if task["step"] == "find":
        return {"local": await _find(task)}
    if task["step"] == "graph":
        return _graph(task)
    if task["step"] == "ask":
        return [await _ask(task, question) for question in task["questions"]]
    before, start = cpu(), time.perf_counter()
    done = await build_index(config(task), is_update_run=task["step"] == "update")
    seconds, used = time.perf_counter() - start, cpu() - before
    failed = [f"{item.workflow}: {item.error!r}" for item in done if item.error is not None]
    output = Path(task["folder"]) / "output"
    tables = {name: pd.read_parquet(output / f"{name}.parquet") for name in TABLES} if not failed else {}
    rows = {name: len(table) for name, table in tables.items()}
    result = {"seconds": seconds, "cpu": used, "failed": failed, "rows": rows}
    return result | ({"dangling": _dangling(tables), "texts": list(tables["text_units"]["text"])} if tables else {})


def _dangling(tables: dict[str, pd.DataFrame]) -> dict[str, list[int]]:
    """Return by list of ids how many lead nowhere, and how many there are."""
    counts = {}
    for table, column, target in REFERENCES:
        ids = [item for items in tables[table][column] if items is not None for item in items]
        target_ids = set(tables[target]["id"])
        counts[f"{table}.{column}"] = [sum(item not in target_ids for item in ids), len(ids)]
    return counts


def _read(task: dict[str, Any]) -> dict[str, pd.DataFrame]:
    output = Path(task["folder"]) / "output"
    return {name: pd.read_parquet(output / f"{name}.parquet") for name in TABLES}


async def _search(task: dict[str, Any], tables: dict[str, pd.DataFrame], question: str) -> tuple[str, Any]:
    """Return the answer of the local search, and its context."""
    return await local_search(
        config=config(task),
        entities=tables["entities"],
        communities=tables["communities"],
        community_reports=tables["community_reports"],
        text_units=tables["text_units"],
        relationships=tables["relationships"],
        covariates=None,
        community_level=COMMUNITY_LEVEL,
        response_type="single sentence",
        query=question,
    )


def _graph(task: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Return each name, and the documents that it is from."""
    tables = _read(task)
    titles = dict(zip(tables["documents"]["id"], tables["documents"]["title"], strict=True))
    units = {
        unit: titles[document].removesuffix(".txt")
        for unit, document in zip(tables["text_units"]["id"], tables["text_units"]["document_id"], strict=True)
    }
    entities = tables["entities"]
    return [
        (name, [units[unit] for unit in ids])
        for name, ids in zip(entities["title"], entities["text_unit_ids"], strict=True)
    ]


async def _ask(task: dict[str, Any], question: str) -> dict[str, Any]:
    """Return an answer, how many it cites, and how many of these it was not given."""
    answer, context = await _search(task, _read(task), question)
    cited = {
        (kind.lower(), number)
        for kind, numbers in re.findall(r"(Sources|Reports|Entities|Relationships) \(([\d, ]+)", answer)
        for number in re.findall(r"\d+", numbers)
    }
    wrong = [
        number for kind, number in cited if kind not in context or number not in set(context[kind]["id"].astype(str))
    ]
    return {"answer": answer, "cited": len(cited), "wrong": len(wrong)}


async def _find(task: dict[str, Any]) -> dict[str, Any]:
    """Return what every question found, and what that took."""
    tables = _read(task)
    units, documents = tables["text_units"], tables["documents"]
    titles = dict(zip(documents["id"], documents["title"], strict=True))
    titles = {
        unit: titles[document] for unit, document in zip(units["human_readable_id"], units["document_id"], strict=True)
    }

    async def find(question: str, *_: list[str]) -> list[str]:
        _, context = await _search(task, tables, question)
        sources = context["sources"]["id"] if "sources" in context else []
        return [titles[int(number)].removesuffix(".txt") for number in sources]

    return await timed(task, find)


if __name__ == "__main__":
    run(main)
