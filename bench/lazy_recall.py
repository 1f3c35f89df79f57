"""How much evidence lazy reaches, and at what cost, before and after: dev questions, a relevance judge that errs.

    python -m bench lazy_recall [--budgets 100 500] [--former 10] [--sets NAME …]

Corpora as crossvalidate keeps them (NLP concepts, local embedder). The model is the tests' endpoint with the scripted replies of
bench/methods.py, but for the judge: of a text of a document that is evidence it says yes with a probability of .9 (--hits), of
any other with one of .05 (--alarms), by a hash of question and text, so that a run is repeated to the digit. "before": whole
chunks, one in a request, and the question read without the concept graph, as lazy was before tests were made on passages; it is
asked `--former` questions of each set, evenly spread, since it makes up to a request for each of the budget. "after" is asked
all, and the same few, in a row of its own.

Evidence tested as relevant: the share of a question's documents of which a chunk passed. Evidence in the context: the share that
the answer could cite. A token is four bytes.
"""

import argparse
import hashlib
import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from corpora import at_hand, judged, kept, set_provider, spread
from methods import Model
from pg_graphrag import GraphRAG

from tests.endpoint import Endpoint

SETS = ("musique", "musique-own", "lihua-jan-jun")
ROLES = ("keywords", "relevance", "answer")
_NAME = re.compile(r"[A-Z]\w*(?: (?:of |the )*[A-Z0-9]\w*)*")
# What lazy was, as a session of the server has it: no concept around a question, no statement of a chunk, whole chunks as texts.
# And, before and after: which chunks passed.
_KEEP = """
DO LANGUAGE plpython3u $$
from pg_graphrag.modes import lazy
former = lazy.match
def match(query, budget, tester):
    result = former(query, budget, tester)
    lazy.passed |= set(result.relevant)
    return result
lazy.match, lazy.passed = match, set()
$$;
CREATE FUNCTION pg_temp.passed(corpus text) RETURNS SETOF text LANGUAGE plpython3u AS $$
from pg_graphrag.modes import lazy
chunks, lazy.passed = sorted(lazy.passed), set()
keys_of_chunks = plpy.prepare(
    "SELECT DISTINCT d.source_key FROM graphrag.chunks c JOIN graphrag.documents d ON d.id = c.document_id"
    " WHERE c.id = ANY ($1)", ["int8[]"])
return [row["source_key"] for row in plpy.execute(keys_of_chunks, [chunks])]
$$
"""
_AS_BEFORE = """
DO LANGUAGE plpython3u $$
from pg_graphrag.modes import lazy
from pg_graphrag.retrieval import concepts, passages, relevance_tests
concepts.names_about = lambda query, limit: []
concepts.names_matching = lambda query, limit: []
concepts.stated_in = lambda query, chunks: {}
relevance_tests._headed = lambda chunk, passage: chunk["content"]
$$
"""
_FORGET = "DELETE FROM graphrag.llm_cache l USING graphrag.corpora k WHERE k.id = l.corpus_id AND k.name = %s"


class Noisy(Model):
    """The scripted model with a judge that errs; `hits`, `alarms`: how often it says yes of evidence, and of what is none."""

    def __init__(self, data: Path, sets: Sequence[str], hits: float, alarms: float) -> None:
        super().__init__(data, "evidence", sets)
        self._rates = {True: hits, False: alarms}
        for start, (name, _) in self._tasks.items():
            if name == "answer":
                self._tasks[start] = name, lambda _: "It is said [1]."

    def _about(self, question: str) -> list[str]:
        return [f"What is said of {name}?" for name in _NAME.findall(question.partition(" ")[2])[:2]]

    def _helps(self, text: str, question: str) -> bool:
        body = " ".join(text.split()), " ".join(text.partition(": ")[2].split())
        evidence = [self._texts[key] for key in self._evidence[self._asked[question]]]
        is_evidence = any(part and part in whole for part in body for whole in evidence)
        digest = hashlib.sha256(f"{question} {body[0]}".encode()).digest()
        return int.from_bytes(digest[:8]) / 2**64 < self._rates[is_evidence]


def measure(rag: GraphRAG, asked: Sequence[dict[str, Any]], model: Noisy, budget: int, **options: Any) -> list[float]:
    """Return means over questions: calls, tokens in, tokens out, tests, evidence that passed, evidence in the context."""
    model.forget()
    figures = []
    for question in asked:
        answer = rag.ask(question["question"], mode="lazy", relevance_test_budget=budget, **options)
        with rag._connection() as connection:
            passed = {key for (key,) in connection.execute("SELECT pg_temp.passed(%s)", [rag.corpus])}
        citable = {reference["source_key"] for reference in answer.context["references"]}
        evidence = set(question["evidence"])
        tests = answer.context["relevance_tests"]["spent"]
        figures.append((tests, len(passed & evidence) / len(evidence), len(citable & evidence) / len(evidence)))
    counted = [sum(each.values()) / len(asked) for each in (model.calls, model.tokens_in, model.tokens_out)]
    return [*counted, *map(statistics.mean, zip(*figures, strict=True))]


def table(given: argparse.Namespace, endpoint: Endpoint) -> Iterator[str]:
    names, absent = at_hand(given.data, given.sets)
    if absent:
        yield f"Left out, since their data are not there: {', '.join(absent)}."
        yield ""
    yield f"The judge says yes of {given.hits:.0%} of evidence, and of {given.alarms:.0%} of other texts."
    yield ""
    yield (
        "| set (questions) | budget | | calls | tokens in | tokens out | tests | evidence tested as relevant |"
        " evidence in the context |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for name in names:
        asked = judged(given.data, name, sys.maxsize)
        few = spread(asked, given.former)
        corpus = kept(given.url, given.data, name, "nlp")
        model = Noisy(given.data, [name], given.hits, given.alarms)
        endpoint.reply(model)
        with GraphRAG(given.url, corpus) as rag:
            set_provider(rag, "scripted", "openai", endpoint.url)
            model_of_roles = {"provider": "scripted", "model": "scripted"}
            rag.alter_corpus(llm={"roles": dict.fromkeys(ROLES, model_of_roles)})
        for way, questions, options in (
            ("after", asked, {}),
            ("after", few, {}),
            ("before", few, {"tests_per_call": 1}),
        ):
            with GraphRAG(given.url, corpus) as rag:
                with rag._connection() as connection:
                    connection.execute("SELECT FROM graphrag.search('a', %s, 'lazy')", [corpus])
                    connection.execute(_KEEP)
                    connection.execute(_AS_BEFORE if way == "before" else "SELECT")
                for budget in given.budgets if questions else ():
                    with rag._connection() as connection:
                        # Each pays for what it asks.
                        connection.execute(_FORGET, [corpus])
                    calls, tokens_in, tokens_out, tests, passed, cited = measure(
                        rag, questions, model, budget, **options
                    )
                    cells = [f"{name} ({len(questions)})", str(budget), way, f"{calls:.1f}", f"{tokens_in:,.0f}"]
                    cells += [f"{tokens_out:,.0f}", f"{tests:.0f}", f"{passed:.3f}", f"{cited:.3f}"]
                    yield f"| {' | '.join(cells)} |"
        with GraphRAG(given.url, corpus) as rag:
            rag.alter_corpus(llm=None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="database with the corpora, as a superuser")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, metavar="NAME")
    parser.add_argument("--budgets", nargs="+", type=int, default=(100, 500), metavar="TESTS")
    parser.add_argument(
        "--former", type=int, default=10, help="questions of each set that are asked as before, too (10)"
    )
    parser.add_argument("--hits", type=float, default=0.9, help="how often the judge says yes of evidence (.9)")
    parser.add_argument("--alarms", type=float, default=0.05, help="how often it does of other texts (.05)")
    given = parser.parse_args()
    with Endpoint(keep=False) as endpoint:
        for row in table(given, endpoint):
            print(row, flush=True)


if __name__ == "__main__":
    main()
