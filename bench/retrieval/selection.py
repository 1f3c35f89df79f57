"""What the option `select` can reach, and what it can spoil: hybrid with selectors that know all, nothing, or the contrary.

    python -m bench selection

The corpora have NLP concepts. The model is the tests' endpoint: an oracle names
the passages of the first 40 that are of evidence; chance names five of them, by a hash of question and passage; the adversary
five that are of none. A real model lies in between. Tokens are of four bytes.
"""

import argparse
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pg_graphrag import GraphRAG

from bench.data.corpora import documents, kept, questions, set_provider
from tests.endpoint import Endpoint

SETS = ("musique", "lihua-jan-jun", "lihua-other")
NAMED = 5
_PASSAGE = re.compile(r"^\[(\d+)\] (.*?)(?=\n\n\[\d+\] |\n</passages-)", re.M | re.S)


def words(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())


class Selector:
    """The replies of a selector, and how many tokens it was asked."""

    def __init__(self, data: Path, name: str, kind: str) -> None:
        self._texts = {document["source_key"]: words(document["content"]) for document in documents(data, name)}
        self._evidence = {question["question"]: question["evidence"] for question in questions(data, name)}
        self._choose: Callable[[str, dict[int, bool]], list[int]] = getattr(self, f"_{kind}")
        self.tokens: list[int] = []

    def __call__(self, messages: Sequence[dict[str, Any]]) -> str:
        content = str(messages[-1]["content"])
        self.tokens.append(sum(len(str(message["content"]).encode()) for message in messages) // 4)
        question = content.rpartition("Question: ")[2].strip()
        wanted = [self._texts[key] for key in self._evidence[question]]
        helps = {
            int(number): any(words(passage.splitlines()[-1]) in text for text in wanted)
            for number, passage in _PASSAGE.findall(content)
        }
        return json.dumps({"selected": self._choose(question, helps)})

    @staticmethod
    def _oracle(question: str, helps: dict[int, bool]) -> list[int]:
        return [number for number, yes in helps.items() if yes]

    @staticmethod
    def _chance(question: str, helps: dict[int, bool]) -> list[int]:
        return sorted(helps, key=lambda number: hashlib.sha256(f"{question} {number}".encode()).digest())[:NAMED]

    @staticmethod
    def _adversary(question: str, helps: dict[int, bool]) -> list[int]:
        return [number for number, yes in reversed(helps.items()) if not yes][:NAMED]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sets", nargs="+", default=SETS)
    arguments = parser.parse_args()
    print("| set | selector | R@2 | R@5 | R@10 | nDCG@10 | tokens asked, mean / most |")
    print("|---|---|---|---|---|---|---|")
    for name in arguments.sets:
        corpus = kept(arguments.url, arguments.data, name, "nlp")
        with GraphRAG(arguments.url, corpus) as rag, Endpoint(keep=False) as endpoint:
            set_provider(rag, "selector", "openai", endpoint.url)
            asked = [question for question in questions(arguments.data, name) if question["evidence"]]
            for kind in ("none", "oracle", "chance", "adversary"):
                selector = None if kind == "none" else Selector(arguments.data, name, kind)
                if selector is not None:
                    endpoint.reply(selector)
                # By another name, or the answers of the selector before would be known.
                rag.alter_corpus(llm={"roles": {"relevance": {"provider": "selector", "model": kind}}})
                search = {"mode": "hybrid"} | ({"select": True} if selector else {})
                rows = {row.k: row for row in rag.evaluate(asked, modes=[kind], k=[2, 5, 10], variants={kind: search})}
                cells = [f"{rows[k].recall:.3f}" for k in (2, 5, 10)] + [f"{rows[10].ndcg:.3f}"]
                tokens = selector.tokens if selector else []
                cells.append(f"{sum(tokens) / len(tokens):,.0f} / {max(tokens):,}" if tokens else "")
                print(f"| {name} | {kind} | {' | '.join(cells)} |", flush=True)
            rag.alter_corpus(llm=None)


if __name__ == "__main__":
    main()
