"""The peer's half of bench/peers/lightrag.py, run by that script in a venv that holds LightRAG.

    python -P bench/peers/halves/lightrag_peer.py < task.json > result.json

The task names a step (ingest, delete, retrieve for the times of contexts, read for their texts, find for documents, graph for
names, or ask for answers), store, endpoint, documents and questions.
"""

import re
import time
from typing import Any

import tiktoken
from lightrag import LightRAG, QueryParam
from lightrag.kg.shared_storage import initialize_pipeline_status
from lightrag.utils import EmbeddingFunc, Tokenizer
from peer_half import Models, Words, cpu, run, timed
from tiktoken.load import load_tiktoken_bpe

ON_POSTGRES = {
    "kv_storage": "PGKVStorage",
    "vector_storage": "PGVectorStorage",
    "graph_storage": "PGGraphStorage",
    "doc_status_storage": "PGDocStatusStorage",
}
# By store. "tables": the graph in plain tables, without AGE.
STORES: dict[str, dict[str, str]] = {
    "postgresql": ON_POSTGRES,
    "tables": ON_POSTGRES | {"graph_storage": "PGTableGraphStorage"},
    "files": {},
}


class Encoding:
    """A tiktoken encoding from a file of ranks, which LightRAG does not copy with its settings."""

    def __init__(self, ranks: str, pattern: str) -> None:
        self._encoding = tiktoken.Encoding(
            "ranks", pat_str=pattern, mergeable_ranks=load_tiktoken_bpe(ranks), special_tokens={}
        )

    def __deepcopy__(self, _: Any) -> "Encoding":
        return self

    def encode(self, text: str) -> list[int]:
        return self._encoding.encode(text)

    def decode(self, tokens: list[int]) -> str:
        return self._encoding.decode(tokens)


async def main(task: dict[str, Any]) -> Any:
    models = Models(task["endpoint"], task.get("embeddings"))
    rag = LightRAG(
        working_dir=task["folder"],
        llm_model_func=models.chat,
        llm_model_name="recorded",
        llm_model_max_async=task["concurrency"],
        tokenizer=Tokenizer("tokens", Encoding(**task["encoding"]) if "encoding" in task else Words()),
        embedding_func=EmbeddingFunc(embedding_dim=task["dimensions"], func=models.embed),
        entity_extract_max_gleaning=task["gleaning"],
        max_parallel_insert=task.get("parallel_inserts", 4),
        **STORES[task["store"]],
    )
    await rag.initialize_storages()
    await initialize_pipeline_status()
    result: Any
    if task["step"] == "ingest":
        result = await _ingest(rag, task["documents"])
    elif task["step"] == "delete":
        result = [(await rag.adelete_by_doc_id(key)).status for key in task["keys"]]
    elif task["step"] == "graph":
        result = await _graph(rag)
    elif task["step"] == "ask":
        result = [await _ask(rag, task, question) for question in task["questions"]]
    elif task["step"] == "read":
        result = {mode: await _read(rag, task, mode) for mode in task["modes"]}
    elif task["step"] == "find":
        result = {mode: await _find(rag, task, mode) for mode in task["modes"]}
    else:
        result = {mode: await _retrieve(rag, models, task, mode) for mode in task["modes"]}
    await rag.finalize_storages()
    return result


async def _ingest(rag: LightRAG, documents: list[tuple[str, str, str]]) -> dict[str, Any]:
    """Return seconds, CPU seconds of this process, and how many documents did not get through."""
    before, start = cpu(), time.perf_counter()
    await rag.ainsert(
        [f"{title}\n{text}" for _, title, text in documents],
        ids=[key for key, _, _ in documents],
        file_paths=[f"{key}.txt" for key, _, _ in documents],
    )
    seconds, used = time.perf_counter() - start, cpu() - before
    status = await rag.get_processing_status()
    return {"seconds": seconds, "cpu": used, "failed": len(documents) - status.get("processed", 0)}


async def _retrieve(rag: LightRAG, models: Models, task: dict[str, Any], mode: str) -> list[tuple[float, float]]:
    """Return (seconds of a context, seconds of these that were spent in embeddings); each question is asked twice."""
    timed = []
    for asked_before in (False, True):
        for question, low, high in task["questions"]:
            parameters = QueryParam(
                mode=mode, only_need_context=True, ll_keywords=low, hl_keywords=high, enable_rerank=False
            )
            models.waited, start = 0.0, time.perf_counter()
            context = await rag.aquery(question, parameters)
            seconds = time.perf_counter() - start
            if not context:
                raise SystemExit(f"LightRAG has no context for {question!r} in mode {mode}")
            if asked_before:
                timed.append((seconds, models.waited))
    return timed


async def _read(rag: LightRAG, task: dict[str, Any], mode: str) -> list[list[str]]:
    """Return by budget of tokens the context of each question; the graph's shares of the budget are the defaults'."""
    whole = QueryParam()
    contexts = []
    for budget in task["budgets"]:
        share = budget / whole.max_total_tokens
        parameters = {
            "max_entity_tokens": int(share * whole.max_entity_tokens),
            "max_relation_tokens": int(share * whole.max_relation_tokens),
            # What it reserves for its own prompt comes on top: who asked cuts the context at the budget.
            "max_total_tokens": budget + task["reserve"],
        }
        contexts.append(
            [
                await rag.aquery(
                    question,
                    QueryParam(
                        mode=mode,
                        only_need_context=True,
                        ll_keywords=low,
                        hl_keywords=high,
                        enable_rerank=False,
                        **parameters,
                    ),
                )
                or ""
                for question, low, high in task["questions"]
            ]
        )
    return contexts


async def _graph(rag: LightRAG) -> list[tuple[str, list[str]]]:
    """Return each name, and the documents that it is from."""
    nodes = await rag.chunk_entity_relation_graph.get_all_nodes()
    return [(node["id"], [path.removesuffix(".txt") for path in node["file_path"].split("<SEP>")]) for node in nodes]


async def _ask(rag: LightRAG, task: dict[str, Any], question: str) -> dict[str, Any]:
    """Return an answer, how many it cites, and how many of these it was not given."""
    parameters = QueryParam(mode="mix", enable_rerank=False, max_total_tokens=task["tokens"])
    result = await rag.aquery_llm(question, parameters)
    answer = result["llm_response"]["content"] or ""
    given = {str(reference["reference_id"]) for reference in result["data"].get("references", [])}
    cited = set(re.findall(r"\[(\d+)\]", answer))
    return {"answer": answer, "cited": len(cited), "wrong": len(cited - given)}


async def _find(rag: LightRAG, task: dict[str, Any], mode: str) -> dict[str, Any]:
    """Return what every question found, and what that took."""

    async def find(question: str, low: list[str], high: list[str]) -> list[str]:
        parameters = QueryParam(
            mode=mode, ll_keywords=low, hl_keywords=high, enable_rerank=False, chunk_top_k=task["top_k"]
        )
        reply = await rag.aquery_data(question, parameters)
        return [chunk["file_path"].removesuffix(".txt") for chunk in reply.get("data", {}).get("chunks", [])]

    return await timed(task, find)


if __name__ == "__main__":
    run(main)
