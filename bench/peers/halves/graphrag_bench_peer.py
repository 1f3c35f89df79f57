"""GraphRAG-Bench's own metrics, run by bench/retrieval/graphrag_bench.py in a venv that has what they need.

    python -P bench/peers/halves/graphrag_bench_peer.py < task.json > result.json

The task: `benchmark` (a folder with the benchmark's Evaluation), `model`, `base_url`, `embedding_model`, `api_key`,
`concurrency`, and `answers` in the form of the benchmark's files (question, question_type, generated_answer, context, evidence,
ground_truth).
Which metrics a class has is that of its generation_eval.py; retrieval has the two of retrieval_eval.py. Its own scripts ask for
the embeddings of a local bge-large-en-v1.5; here any endpoint's will do, so the quarter of answer_correctness that is the
nearness of vectors depends on them.
"""

import asyncio
import json
import math
import os
import sys
from collections.abc import Awaitable
from typing import Any

from langchain_openai import ChatOpenAI, OpenAIEmbeddings

# Source: metric_config of Evaluation/generation_eval.py.
METRICS = {
    "Fact Retrieval": ("rouge_score", "answer_correctness"),
    "Complex Reasoning": ("rouge_score", "answer_correctness"),
    "Contextual Summarize": ("answer_correctness", "coverage_score"),
    "Creative Generation": ("answer_correctness", "coverage_score", "faithfulness"),
}
RETRIEVAL = ("context_relevance", "evidence_recall")


async def score(task: dict[str, Any]) -> list[dict[str, float | None]]:
    """Return by answer {metric: score}; null where the metric gives none."""
    from Evaluation import metrics

    llm = ChatOpenAI(
        model=task["model"], base_url=task["base_url"], api_key=task["api_key"], temperature=0, max_retries=3
    )
    embeddings = OpenAIEmbeddings(
        model=task["embedding_model"],
        base_url=task["base_url"],
        api_key=task["api_key"],
        check_embedding_ctx_length=False,
    )
    free = asyncio.Semaphore(task["concurrency"])

    def computed(name: str, row: dict[str, Any]) -> Awaitable[float]:
        question, answer, gold = row["question"], row["generated_answer"], row["ground_truth"]
        calls = {
            "rouge_score": lambda: metrics.compute_rouge_score(answer, gold),
            "answer_correctness": lambda: metrics.compute_answer_correctness(question, answer, gold, llm, embeddings),
            "coverage_score": lambda: metrics.compute_coverage_score(question, gold, answer, llm),
            "faithfulness": lambda: metrics.compute_faithfulness_score(question, answer, row["context"], llm),
            "context_relevance": lambda: metrics.compute_context_relevance(question, row["context"], llm),
            "evidence_recall": lambda: metrics.compute_evidence_recall(question, row["context"], row["evidence"], llm),
        }
        return calls[name]()

    async def of_row(row: dict[str, Any]) -> dict[str, float | None]:
        scores: dict[str, float | None] = {}
        for name in (*METRICS[row["question_type"]], *RETRIEVAL):
            async with free:
                value = float(await computed(name, row))
            scores[name] = None if math.isnan(value) else value
        return scores

    return await asyncio.gather(*map(of_row, task["answers"]))


if __name__ == "__main__":
    # What the metrics print must not get into the result.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    task = json.load(sys.stdin)
    sys.path.insert(0, task["benchmark"])
    answer.write(json.dumps(asyncio.run(score(task))))
    answer.flush()
