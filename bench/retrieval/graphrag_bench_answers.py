"""GraphRAG-Bench with a model: answers by mode, judged by the benchmark's own code in a venv of its own."""

import argparse
import json
import os
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pg_graphrag import GraphRAG
from pg_graphrag.ground import bootstrap

from bench.peers.peers import peer_python, peer_step
from bench.retrieval.graphrag_bench_question import Question
from bench.retrieval.rehearsal import MODEL, Rehearsal, Rules

REQUIREMENTS = (
    "langchain-openai==0.3.28",
    "langchain-core==0.3.69",
    "numpy==2.3.5",
    "rouge-score==0.1.2",
    "json5==0.12.1",
    "json-repair==0.54.2",
)
_STATEMENTS = ["One thing is said.", "Another thing is said.", "A third thing is said."]
_ATTRIBUTED = [{"statement": text, "reason": "It is said.", "attributed": 1} for text in _STATEMENTS]
# What its prompts ask for, most of it by examples.
RULES: Rules = {
    "analyze the complexity of each sentence": lambda _: json.dumps(_STATEMENTS),
    "TP (true positive)": lambda _: json.dumps(
        {"TP": [{"statement": text, "reason": "It is said."} for text in _STATEMENTS], "FP": [], "FN": []}
    ),
    "distinct factual statements": lambda _: json.dumps({"facts": _STATEMENTS}),
    '"classifications" list': lambda _: json.dumps({"classifications": _ATTRIBUTED}),
    "judge the faithfulness": lambda _: json.dumps(
        [{"statement": text, "reason": "It is said.", "verdict": 1} for text in _STATEMENTS]
    ),
    "evaluate the relevance score of a Context": lambda _: '{"score": 2}',
}


@dataclass(frozen=True)
class Judge:
    """A model at an endpoint, that answers or judges."""

    model: str
    base_url: str
    api_key_env: str
    api_key: str
    embedding_model: str
    concurrency: int = 8


def judges(given: argparse.Namespace, embedding_model: str = MODEL) -> tuple[Judge, Judge]:
    """Return what answers and what judges, by the options of add_model()."""
    url, key = given.base_url, given.api_key_env
    of_judge = (given.judge or given.model, given.judge_url or url, given.judge_key_env or key)
    both = []
    for name, base_url, key_env in ((given.model, url, key), of_judge):
        if key_env and key_env not in os.environ:
            raise SystemExit(f"there is no key in the environment variable {key_env}")
        both.append(Judge(name, base_url, key_env, os.environ.get(key_env, "none"), embedding_model))
    return both[0], both[1]


def answer_rows(rag: GraphRAG, questions: Sequence[Question], mode: str, budget: int) -> list[dict[str, Any]]:
    """Return answers of a mode in the form of the benchmark's files."""
    rows = []
    for question in questions:
        answer = rag.ask(question.text, mode=mode, max_tokens=budget, filter=question.filter)
        rows.append(
            {
                "id": question.id,
                "source": question.source or "Medical",
                "question": question.text,
                "question_type": question.kind,
                "generated_answer": answer.answer,
                "context": [answer.context["prompt"]],
                "evidence": list(question.evidence),
                "ground_truth": question.answer,
            }
        )
    return rows


def use(rag: GraphRAG, judge: Judge) -> None:
    """Have the corpus ask this endpoint for answers."""
    key = None if judge.model == MODEL else judge.api_key_env
    # Of this corpus: another run may ask another model.
    provider = f"bench {rag.corpus}"
    with rag._connection() as connection:
        connection.execute(
            "SELECT graphrag.set_provider(%s, 'openai', %s, api_key_env => %s)", [provider, judge.base_url, key]
        )
        # Else what an earlier rehearsal was told costs nothing now.
        connection.execute("DELETE FROM graphrag.llm_cache WHERE model = %s", [MODEL])
    rag.alter_corpus(llm={"provider": provider, "model": judge.model})


def scored(benchmark: Path, judge: Judge, rows: Sequence[dict[str, Any]]) -> list[dict[str, float | None]]:
    """Return the benchmark's scores of answers."""
    task = {
        "benchmark": str(benchmark),
        "model": judge.model,
        "base_url": judge.base_url,
        "api_key": judge.api_key,
        "embedding_model": judge.embedding_model,
        "concurrency": judge.concurrency,
        "answers": list(rows),
    }
    result: list[dict[str, float | None]] = peer_step(
        peer_python("graphrag-bench", REQUIREMENTS), "graphrag_bench_peer.py", task
    )
    return result


def rehearse(
    rag: GraphRAG,
    benchmark: Path,
    rehearsal: Rehearsal,
    judge: Judge,
    questions: Sequence[Question],
    modes: Sequence[str],
    budget: int,
) -> dict[str, Counter[str]]:
    """Return the calls and tokens of each step."""
    use(rag, judge)
    counts = {}
    for mode in modes:
        rows = answer_rows(rag, questions, mode, budget)
        counts[f"{mode}: answers"] = rehearsal.take()
        scored(benchmark, judge, rows)
        counts[f"{mode}: metrics"] = rehearsal.take()
    return counts


def metrics_table(by_mode: dict[str, tuple[list[dict[str, Any]], list[dict[str, float | None]]]]) -> Iterator[str]:
    """Each metric by class and mode, with its interval and the number of answers that have a score."""
    yield "| class | metric | " + " | ".join(by_mode) + " |"
    yield "|---" * (len(by_mode) + 2) + "|"
    rows = next(iter(by_mode.values()))[0]
    for kind in dict.fromkeys(row["question_type"] for row in rows):
        places = [place for place, row in enumerate(rows) if row["question_type"] == kind]
        names = list(next(iter(by_mode.values()))[1][places[0]])
        for name in names:
            cells = []
            for _, scores in by_mode.values():
                values = [value for place in places if (value := scores[place][name]) is not None]
                if not values:
                    cells.append("–")
                    continue
                ((low, high),) = bootstrap.intervals(bootstrap.means([[value] for value in values], 0))
                cells.append(f"{statistics.mean(values):.3f} [{low:.3f}, {high:.3f}] ({len(values)})")
            yield f"| {kind} | {name} | {' | '.join(cells)} |"
