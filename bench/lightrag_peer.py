"""The peer's half of bench/lightrag.py, run by that script in a venv that holds LightRAG.

    python -P bench/lightrag_peer.py < task.json > result.json

The task names a step (ingest, delete, retrieve for the times of contexts, read for their texts, or find for documents), store,
endpoint, documents and questions.
Whatever LightRAG prints goes to standard error. Models are reached through one shared client: LightRAG's own binding makes a new
one for every call, which costs it some 30 ms that are not the system's.
"""

import asyncio
import base64
import json
import os
import re
import resource
import sys
import time
from typing import Any

import numpy as np
import tiktoken
from lightrag import LightRAG, QueryParam
from lightrag.kg.shared_storage import initialize_pipeline_status
from lightrag.utils import EmbeddingFunc, Tokenizer
from openai import AsyncOpenAI
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


class Words:
    """A tokenizer that needs no download: its tokens are words with the white space after them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._words: list[str] = []

    def __deepcopy__(self, _: Any) -> "Words":
        # LightRAG copies its settings for every chunk, with all that is in them; nobody's tokenizer should be.
        return self

    def encode(self, text: str) -> list[int]:
        tokens = []
        for word in re.findall(r"\S+\s*|\s+", text):
            if word not in self._numbers:
                self._numbers[word] = len(self._words)
                self._words.append(word)
            tokens.append(self._numbers[word])
        return tokens

    def decode(self, tokens: list[int]) -> str:
        return "".join(self._words[token] for token in tokens)


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


class Models:
    """The endpoint as LightRAG's two functions; `waited`: seconds spent in embeddings."""

    def __init__(self, url: str) -> None:
        self._client = AsyncOpenAI(base_url=url, api_key="none")
        self.waited = 0.0

    def __deepcopy__(self, _: Any) -> "Models":
        # Likewise.
        return self

    async def chat(
        self,
        prompt: str,
        system_prompt: str | None = None,
        history_messages: list[dict[str, str]] | None = None,
        **_: Any,
    ) -> str:
        messages: Any = [{"role": "system", "content": system_prompt}] if system_prompt else []
        messages += [*(history_messages or []), {"role": "user", "content": prompt}]
        completion = await self._client.chat.completions.create(model="recorded", messages=messages)
        return completion.choices[0].message.content or ""

    async def embed(self, texts: list[str]) -> Any:
        start = time.perf_counter()
        response = await self._client.embeddings.create(model="hash", input=texts, encoding_format="base64")
        vectors = np.array([np.frombuffer(base64.b64decode(item.embedding), "<f4") for item in response.data])
        self.waited += time.perf_counter() - start
        return vectors


async def main(task: dict[str, Any]) -> Any:
    models = Models(task["endpoint"])
    rag = LightRAG(
        working_dir=task["folder"],
        llm_model_func=models.chat,
        llm_model_name="recorded",
        llm_model_max_async=task["concurrency"],
        tokenizer=Tokenizer("tokens", Encoding(**task["encoding"]) if "encoding" in task else Words()),
        embedding_func=EmbeddingFunc(embedding_dim=task["dimensions"], func=models.embed),
        entity_extract_max_gleaning=task["gleaning"],
        max_parallel_insert=4,
        **STORES[task["store"]],
    )
    await rag.initialize_storages()
    await initialize_pipeline_status()
    result: Any
    if task["step"] == "ingest":
        result = await _ingest(rag, task["documents"])
    elif task["step"] == "delete":
        result = [(await rag.adelete_by_doc_id(key)).status for key in task["keys"]]
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
    before, start = _cpu(), time.perf_counter()
    await rag.ainsert(
        [f"{title}\n{text}" for _, title, text in documents],
        ids=[key for key, _, _ in documents],
        file_paths=[f"{key}.txt" for key, _, _ in documents],
    )
    seconds, cpu = time.perf_counter() - start, _cpu() - before
    status = await rag.get_processing_status()
    return {"seconds": seconds, "cpu": cpu, "failed": len(documents) - status.get("processed", 0)}


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


async def _find(rag: LightRAG, task: dict[str, Any], mode: str) -> list[tuple[float, list[str]]]:
    """Return (seconds, documents best first) of each question; each is asked twice."""
    timed = []
    for asked_before in (False, True):
        for question, low, high in task["questions"]:
            parameters = QueryParam(
                mode=mode, ll_keywords=low, hl_keywords=high, enable_rerank=False, chunk_top_k=task["top_k"]
            )
            start = time.perf_counter()
            reply = await rag.aquery_data(question, parameters)
            seconds = time.perf_counter() - start
            paths = [chunk["file_path"].removesuffix(".txt") for chunk in reply.get("data", {}).get("chunks", [])]
            if asked_before:
                timed.append((seconds, list(dict.fromkeys(paths))))
    return timed


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    # What LightRAG prints must not get into the result.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    report = asyncio.run(main(json.load(sys.stdin)))
    answer.write(json.dumps(report))
    answer.flush()
